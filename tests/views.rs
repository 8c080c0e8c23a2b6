//! Views, and tensors put together from parts.

use crate::agreement::{agree, float, float_in, int_in, ints};
use burn_backend::ops::PadMode;
use burn_backend::tensor::IndexingUpdateOp;
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

    /// Rows that GPUs store with a gap behind them, through all that could read over it: in the window they are computed
    /// in, and as inputs of later ones.
    fn long_odd_rows<B>(results) within 2e-5 {
        let a = float_in::<B, 2>([20, 30], 1, -0.02, 0.02);
        let b = float::<B, 2>([30, 515], 2);
        let product = B::float_matmul(a.clone(), b.clone());
        let shifted = B::float_sub(product.clone(), B::float_max_dim(product.clone(), 1));
        let transposed = B::float_swap_dims(shifted.clone(), 0, 1);
        results.float::<B>("product of it", B::float_matmul(shifted.clone(), B::float_swap_dims(b, 0, 1)));
        results.float::<B>("product of its transpose", B::float_matmul(transposed, a));
        results.float::<B>("flattened", B::float_reshape(shifted, Shape::new([10300])));
        let long = B::float_neg(float::<B, 2>([20, 2051], 3));
        for round in ["computed", "read"] {
            let name = |of: &str| format!("{of}, {round}");
            results.float::<B>(name("split"), B::float_reshape(long.clone(), Shape::new([4, 5, 2051])));
            results.float::<B>(name("joined"), B::float_reshape(long.clone(), Shape::new([5, 8204])));
            results.float::<B>(name("transposed"), B::float_swap_dims(long.clone(), 0, 1));
            results.float::<B>(name("sum 0"), B::float_sum_dim(long.clone(), 0));
            results.float::<B>(name("sum 1"), B::float_sum_dim(long.clone(), 1));
            results.float::<B>(name("cumsum"), B::float_cumsum(long.clone(), 0));
            results.float::<B>(name("sorted"), B::float_sort(long.clone(), 1, false));
            let rows = ints::<B, 1>([3], &[19, 0, 7]);
            results.float::<B>(name("rows"), B::float_select(long.clone(), 0, rows.clone()));
            let values = float::<B, 2>([3, 2051], 4);
            let updated = B::float_select_assign(long.clone(), 0, rows, values, IndexingUpdateOp::Add);
            results.float::<B>(name("updated"), updated);
            let part = [Slice::new(3, Some(17), 2), Slice::new(1, Some(2050), 1)];
            let slice = B::float_slice(long.clone(), &part);
            results.float::<B>(name("slice"), slice.clone());
            results.float::<B>(name("assigned"), B::float_slice_assign(long.clone(), &part, B::float_neg(slice)));
            results.float::<B>(name("joined rows"), B::float_cat(vec![long.clone(), long.clone()], 0));
            results.float::<B>(name("whole"), long.clone());
        }
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
