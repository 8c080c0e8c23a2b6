//! Reductions, scans, views and indices.

use super::{Operand, Row, differentiate, ints, rows};
use burn_backend::ops::PadMode;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{IntDType, Shape, Slice};

const X: Operand = (&[3, 4, 5], -2.0, 2.0);
const MATRIX: Operand = (&[4, 6], -2.0, 2.0);
const POSITIVE: Operand = (&[3, 4], 0.4, 1.6);
const ADD: IndexingUpdateOp = IndexingUpdateOp::Add;
const I64: IntDType = IntDType::I64;

#[rustfmt::skip]
const REDUCTIONS: &[Row] = rows! {
    sum[X] |x, B| B::float_sum(x[0].clone());
    sum_dim[X] |x, B| B::float_sum_dim(x[0].clone(), 1);
    sum_dims[X] |x, B| B::float_sum_dims(x[0].clone(), &[0, 2]);
    mean[X] |x, B| B::float_mean(x[0].clone());
    mean_dim[X] |x, B| B::float_mean_dim(x[0].clone(), 2);
    prod[POSITIVE] |x, B| B::float_prod(x[0].clone());
    prod_dim[POSITIVE] |x, B| B::float_prod_dim(x[0].clone(), 0);
    // With one zero in each row, and with two.
    prod_of_a_zero[POSITIVE] |x, B| {
        B::float_prod_dim(B::float_mul(x[0].clone(), holes::<B>(&[1.0, 0.0, 1.0, 1.0])), 1)
    };
    prod_of_zeros[POSITIVE] |x, B| {
        B::float_prod_dim(B::float_mul(x[0].clone(), holes::<B>(&[1.0, 0.0, 0.0, 1.0])), 1)
    };
    max[X] |x, B| B::float_max(x[0].clone());
    min[X] |x, B| B::float_min(x[0].clone());
    max_dim[X] |x, B| B::float_max_dim(x[0].clone(), 1);
    min_dim[X] |x, B| B::float_min_dim(x[0].clone(), 0);
    max_dim_with_indices[X] |x, B| B::float_max_dim_with_indices(x[0].clone(), 2, I64).0;
    min_dim_with_indices[X] |x, B| B::float_min_dim_with_indices(x[0].clone(), 2, I64).0;
    max_abs[X] |x, B| B::float_max_abs(x[0].clone());
    max_abs_dim[X] |x, B| B::float_max_abs_dim(x[0].clone(), 1);
    cumsum[X] |x, B| B::float_cumsum(x[0].clone(), 1);
    cumprod[POSITIVE] |x, B| B::float_cumprod(x[0].clone(), 1);
    cummax[X] |x, B| B::float_cummax(x[0].clone(), 1);
    cummin[X] |x, B| B::float_cummin(x[0].clone(), 2);
    softmax[MATRIX] |x, B| B::softmax(x[0].clone(), 1);
    softmax_of_columns[MATRIX] |x, B| B::softmax(x[0].clone(), 0);
    log_softmax[MATRIX] |x, B| B::log_softmax(x[0].clone(), 1);
    softmin[MATRIX] |x, B| B::softmin(x[0].clone(), 1);
    sort[MATRIX] |x, B| B::float_sort(x[0].clone(), 1, true);
    sort_with_indices[MATRIX] |x, B| B::float_sort_with_indices(x[0].clone(), 0, false, I64).0;
    topk[MATRIX] |x, B| B::float_topk(x[0].clone(), 1, 3);
    topk_with_indices[MATRIX] |x, B| B::float_topk_with_indices(x[0].clone(), 1, 2, I64).0;
};

/// A row of factors.
fn holes<B: crate::support::devices::Tested>(factors: &[f64]) -> burn_backend::tensor::FloatTensor<B> {
    let data = burn_backend::TensorData::new(factors.to_vec(), [1, factors.len()]);
    B::float_from_data(data, &B::current())
}

#[rustfmt::skip]
const VIEWS: &[Row] = rows! {
    reshape[X] |x, B| B::float_reshape(x[0].clone(), Shape::new([10, 6]));
    transpose[X] |x, B| B::float_transpose(x[0].clone());
    swap_dims[X] |x, B| B::float_swap_dims(x[0].clone(), 0, 2);
    permute[X] |x, B| B::float_permute(x[0].clone(), &[2, 0, 1]);
    flip[X] |x, B| B::float_flip(x[0].clone(), &[0, 2]);
    expand[(&[1, 4, 1], -1.0, 1.0)] |x, B| B::float_expand(x[0].clone(), Shape::new([2, 3, 4, 5]));
    repeat_dim[MATRIX] |x, B| B::float_repeat_dim(x[0].clone(), 1, 3);
    unfold[MATRIX] |x, B| B::float_unfold(x[0].clone(), 1, 3, 2);
    cat[MATRIX, (&[4, 2], -1.0, 1.0)] |x, B| B::float_cat(vec![x[0].clone(), x[1].clone(), x[0].clone()], 1);
    slice[X] |x, B| {
        B::float_slice(x[0].clone(), &[Slice::new(0, None, 2), Slice::new(1, Some(4), -1), Slice::new(1, Some(-1), 1)])
    };
    slice_assign[X, (&[2, 3, 3], -1.0, 1.0)] |x, B| {
        let part = [Slice::new(0, None, 2), Slice::new(1, Some(4), -1), Slice::new(1, Some(-1), 1)];
        B::float_slice_assign(x[0].clone(), &part, x[1].clone())
    };
    pad_constant[MATRIX] |x, B| B::float_pad(x[0].clone(), &[(1, 0), (2, 1)], PadMode::Constant(1.5));
    pad_reflect[MATRIX] |x, B| B::float_pad(x[0].clone(), &[(1, 2), (2, 1)], PadMode::Reflect);
    pad_edge[MATRIX] |x, B| B::float_pad(x[0].clone(), &[(1, 2), (2, 1)], PadMode::Edge);
    gather[MATRIX] |x, B| B::float_gather(1, x[0].clone(), ints::<B>(&[0, 5, 5, 2, 1, 1, 3, 0], &[4, 2]));
    scatter[MATRIX, (&[4, 2], -1.0, 1.0)] |x, B| {
        B::float_scatter(1, x[0].clone(), ints::<B>(&[0, 5, 5, 5, 1, 1, 3, 0], &[4, 2]), x[1].clone(), ADD)
    };
    select[MATRIX] |x, B| B::float_select(x[0].clone(), 0, ints::<B>(&[3, 0, 3], &[3]));
    select_assign[MATRIX, (&[3, 6], -1.0, 1.0)] |x, B| {
        B::float_select_assign(x[0].clone(), 0, ints::<B>(&[3, 0, 3], &[3]), x[1].clone(), ADD)
    };
    gather_nd[X] |x, B| B::float_gather_nd(x[0].clone(), ints::<B>(&[2, 1, 0, 0, 2, 1], &[3, 2]));
    scatter_nd[X, (&[3, 5], -1.0, 1.0)] |x, B| {
        B::float_scatter_nd(x[0].clone(), ints::<B>(&[2, 1, 0, 0, 2, 1], &[3, 2]), x[1].clone(), ADD)
    };
    embedding[(&[7, 4], -1.0, 1.0)] |x, B| B::embedding(x[0].clone(), ints::<B>(&[0, 6, 6, 3, 1, 6], &[2, 3]));
};

#[test]
fn reductions_and_scans() {
    differentiate(REDUCTIONS);
}

#[test]
fn views_and_indices() {
    differentiate(VIEWS);
}
