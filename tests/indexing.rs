//! Reading and writing at indices that are data.

use crate::agreement::{I32, agree, bools, float, int_in, ints};
use burn_backend::read_sync;
use burn_backend::tensor::IndexingUpdateOp;

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

    fn where_true<B>(results) within 0.0 {
        let mask = bools::<B, 2>([2, 3], &[true, false, true, false, false, true]);
        results.int::<B>("argwhere", read_sync(B::bool_argwhere(mask.clone(), I32)));
        let x = float::<B, 2>([2, 3], 1);
        results.float::<B>("selected", read_sync(B::float_mask_select(x, mask)));
        let none = bools::<B, 1>([3], &[false; 3]);
        results.int::<B>("nowhere", read_sync(B::bool_argwhere(none, I32)));
    }
}
