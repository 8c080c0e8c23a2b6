//! Views, and tensors put together from parts.

use crate::agreement::{agree, float, int_in};
use burn_backend::ops::PadMode;
use burn_backend::{Shape, Slice};

agree! {
    fn other_indices<B>(results) within 0.0 {
        let x = float::<B, 3>([4, 5, 6], 1);
        results.float::<B>("reshape", B::float_reshape(x.clone(), Shape::new([10, 12])));
        results.float::<B>("permute", B::float_permute(x.clone(), &[2, 0, 1]));
        results.float::<B>("transpose", B::float_transpose(x.clone()));
        let swapped = B::float_swap_dims(x.clone(), 0, 2);
        results.float::<B>("reshaped view", B::float_reshape(swapped, Shape::new([5, 24])));
        results.float::<B>("flip", B::float_flip(x.clone(), &[0, 2]));
        let one = float::<B, 2>([1, 6], 2);
        results.float::<B>("expand", B::float_expand(one.clone(), Shape::new([3, 5, 6])));
        results.float::<B>("unfold", B::float_unfold(x, 2, 3, 2));
        results.float::<B>("repeat", B::float_repeat_dim(one, 1, 3));
    }

    fn slices<B>(results) within 0.0 {
        let x = float::<B, 2>([7, 9], 3);
        let cases = [
            [Slice::new(1, Some(5), 1), Slice::full()],
            [Slice::new(0, None, 2), Slice::new(-3, None, 1)],
            [Slice::new(0, None, -1), Slice::new(2, Some(8), -2)],
            [Slice::new(3, Some(3), 1), Slice::full()],
        ];
        for (i, slices) in cases.iter().enumerate() {
            let part = B::float_slice(x.clone(), slices);
            results.float::<B>(format!("slice {i}"), part.clone());
            let updated = B::float_slice_assign(x.clone(), slices, B::float_neg(part));
            results.float::<B>(format!("assigned {i}"), updated);
        }
    }

    fn concatenation<B>(results) within 0.0 {
        let parts = || vec![float::<B, 2>([2, 3], 1), float::<B, 2>([2, 1], 2), float::<B, 2>([2, 4], 3)];
        results.float::<B>("along 1", B::float_cat(parts(), 1));
        let rows = vec![int_in::<B, 2>([1, 3], 1, -9, 9), int_in::<B, 2>([4, 3], 2, -9, 9)];
        results.int::<B>("along 0", B::int_cat(rows, 0));
        let empty = vec![float::<B, 2>([0, 3], 1), float::<B, 2>([2, 3], 2)];
        results.float::<B>("empty part", B::float_cat(empty, 0));
    }

    fn padding<B>(results) within 0.0 {
        let x = float::<B, 2>([3, 4], 7);
        let pads = [(1, 2), (3, 0)];
        for mode in [PadMode::Constant(1.5), PadMode::Edge] {
            results.float::<B>(format!("{mode:?}"), B::float_pad(x.clone(), &pads, mode));
        }
        let narrow = [(1, 2), (3, 1)];
        results.float::<B>("reflect", B::float_pad(x, &narrow, PadMode::Reflect));
    }
}
