//! Reading and writing at indices that are data.

use crate::agreement::{I32, agree, bools, float, int_in, ints};
use crate::support::devices::each;
use burn_backend::ops::FloatTensorOps;
use burn_backend::read_sync;
use burn_backend::tensor::IndexingUpdateOp;
use burn_mlir::Mlir;

agree! {
    fn gathering<B>(results) within 0.0 {
        let x = float::<B, 2>([5, 7], 1);
        results.float::<B>("gather 0", B::float_gather(0, x.clone(), int_in::<B, 2>([3, 7], 2, 0, 5)));
        results.float::<B>("gather 1", B::float_gather(1, x.clone(), int_in::<B, 2>([5, 9], 3, 0, 7)));
        let list = || ints::<B, 1>([4], &[4, 0, 0, 2]);
        results.float::<B>("select 0", B::float_select(x.clone(), 0, list()));
        results.float::<B>("select 1", B::float_select(x.clone(), 1, list()));
        results.float::<B>("embedding", B::embedding(x, int_in::<B, 2>([2, 6], 4, 0, 5)));
    }

    fn scattering<B>(results) within 1e-6 {
        let x = float::<B, 2>([5, 7], 1);
        let indices = || int_in::<B, 2>([5, 4], 2, 0, 7);
        let values = float::<B, 2>([5, 4], 3);
        let add = IndexingUpdateOp::Add;
        results.float::<B>("scatter", B::float_scatter(1, x.clone(), indices(), values, add));
        let list = ints::<B, 1>([3], &[4, 1, 4]);
        let rows = float::<B, 2>([3, 7], 4);
        results.float::<B>("select_assign", B::float_select_assign(x.clone(), 0, list, rows, add));
        let tokens = ints::<B, 2>([2, 3], &[1, 4, 1, 0, 1, 2]);
        let grad = float::<B, 3>([2, 3, 7], 5);
        results.float::<B>("embedding gradient", B::embedding_backward(x, grad, tokens));
    }

    fn coordinates<B>(results) within 1e-6 {
        let x = float::<B, 3>([4, 5, 6], 1);
        let pairs = || ints::<B, 2>([3, 2], &[3, 4, 0, 0, 2, 1]);
        results.float::<B>("gather_nd", B::float_gather_nd(x.clone(), pairs()));
        let values = float::<B, 2>([3, 6], 2);
        let added = B::float_scatter_nd(x, pairs(), values, IndexingUpdateOp::Add);
        results.float::<B>("scatter_nd", added);
    }

    fn selected_by_a_mask<B>(results) within 0.0 {
        let mask = || bools::<B, 3>([2, 3, 2], &[true, false, true, true, false, false, true, true, false, true, true, true]);
        let x = int_in::<B, 3>([2, 3, 2], 1, -9, 9);
        results.int::<B>("integers", read_sync(B::int_mask_select(x, mask())));
        results.bool::<B>("truth", read_sync(B::bool_mask_select(mask(), mask())));
        let turned = B::bool_permute(mask(), &[2, 0, 1]);
        let x = B::float_permute(float::<B, 3>([2, 3, 2], 2), &[2, 0, 1]);
        results.float::<B>("permuted", read_sync(B::float_mask_select(x, turned.clone())));
        results.int::<B>("coordinates", read_sync(B::bool_argwhere(turned, I32)));
    }

    fn where_true<B>(results) within 0.0 {
        let mask = bools::<B, 2>([2, 3], &[true, false, true, false, false, true]);
        results.int::<B>("argwhere", read_sync(B::bool_argwhere(mask.clone(), I32)));
        let x = float::<B, 2>([2, 3], 1);
        results.float::<B>("selected", read_sync(B::float_mask_select(x, mask)));
        let none = bools::<B, 1>([3], &[false; 3]);
        results.int::<B>("nowhere", read_sync(B::bool_argwhere(none, I32)));
    }
}

#[test]
fn coordinates_outside_one_axis_are_errors_though_their_position_is_inside() {
    each(|| {
        let x = || float::<Mlir, 2>([4, 5], 1);
        for outside in [[0, 5], [1, -1], [-1, 6], [4, 0]] {
            let at = || ints::<Mlir, 2>([1, 2], &outside);
            let read = |tensor| read_sync(Mlir::float_into_data(tensor));
            assert!(read(Mlir::float_gather_nd(x(), at())).is_err(), "gather {outside:?}");
            let values = float::<Mlir, 1>([1], 2);
            let update = IndexingUpdateOp::Add;
            assert!(read(Mlir::float_scatter_nd(x(), at(), values, update)).is_err(), "scatter {outside:?}");
        }
        let mask = bools::<Mlir, 1>([4], &[true; 4]);
        assert!(read_sync(Mlir::float_into_data(read_sync(Mlir::float_mask_select(x(), mask)))).is_err());
    });
}
