//! NaN and infinities, as PyTorch has them.

use crate::support::devices::each;
use crate::support::numbers::{Number, data, read, read_numbers, upload};
use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{BoolDType, DType, IntDType};
use burn_mlir::{Mlir, MlirTensor};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// Types NaN is tried in.
const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

const X: [f64; 15] = [1.0, NAN, 3.0, -INF, NAN, 2.0, 2.0, INF, -1.0, 2.0, -0.0, 0.0, -0.0, 0.0, -0.0];

fn rows(dtype: DType, columns: usize, values: &[f64]) -> MlirTensor {
    let numbers: Vec<_> = values.iter().copied().map(Number::Float).collect();
    upload(data(dtype, &[values.len() / columns, columns], &numbers))
}

#[track_caller]
fn expect(name: &str, result: MlirTensor, expected: &[f64]) {
    let dtype = read(result.clone()).unwrap().dtype();
    let result = read_numbers(result);
    assert_eq!(result.len(), expected.len(), "{name}");
    for (i, (result, &expected)) in result.iter().zip(expected).enumerate() {
        let same = result.float() == expected || result.float().is_nan() && expected.is_nan();
        assert!(same, "element {i} of {name} in {dtype:?} is {result:?}, should be {expected}");
    }
}

#[test]
fn extremes_are_nan_if_anything_is() {
    each(|| {
        for dtype in TYPES {
            let x = rows(dtype, 5, &X);
            let i64 = IntDType::I64;
            let (max, at_max) = Mlir::float_max_dim_with_indices(x.clone(), 1, i64);
            let (min, at_min) = Mlir::float_min_dim_with_indices(x.clone(), 1, i64);
            let results = [
                ("max", Mlir::float_max(x.clone()), &[NAN][..]),
                ("min", Mlir::float_min(x.clone()), &[NAN]),
                ("max abs", Mlir::float_max_abs(x.clone()), &[NAN]),
                ("max dim", Mlir::float_max_dim(x.clone(), 1), &[NAN, INF, 0.0]),
                ("min dim", Mlir::float_min_dim(x.clone(), 1), &[NAN, -1.0, 0.0]),
                ("max with indices", max, &[NAN, INF, 0.0]),
                ("min with indices", min, &[NAN, -1.0, 0.0]),
                ("its indices", at_max, &[1.0, 2.0, 0.0]),
                ("its indices", at_min, &[1.0, 3.0, 0.0]),
                ("argmax", Mlir::float_argmax(x.clone(), 1, i64), &[1.0, 2.0, 0.0]),
                ("argmin", Mlir::float_argmin(x.clone(), 1, i64), &[1.0, 3.0, 0.0]),
                ("argmax of rows", Mlir::float_argmax(x.clone(), 0, i64), &[1.0, 0.0, 1.0, 2.0, 0.0]),
                ("sum", Mlir::float_sum_dim(x.clone(), 1), &[NAN, INF, 0.0]),
                ("mean", Mlir::float_mean_dim(x.clone(), 1), &[NAN, INF, 0.0]),
                ("prod", Mlir::float_prod_dim(x.clone(), 1), &[NAN, -INF, 0.0]),
                ("any", Mlir::float_any_dim(x.clone(), 1, BoolDType::Native), &[1.0, 1.0, 0.0]),
                ("all", Mlir::float_all_dim(x, 1, BoolDType::Native), &[1.0, 1.0, 0.0]),
            ];
            for (name, result, expected) in results {
                expect(name, result, expected);
            }
        }
    });
}

/// NaN counts as the largest of all, and what is equal keeps its order.
#[test]
fn order_of_nan() {
    each(|| {
        for dtype in TYPES {
            let x = || rows(dtype, 5, &X);
            let i64 = IntDType::I64;
            let up = [-INF, 1.0, 3.0, NAN, NAN, -1.0, 2.0, 2.0, 2.0, INF, 0.0, 0.0, 0.0, 0.0, 0.0];
            let down = [NAN, NAN, 3.0, 1.0, -INF, INF, 2.0, 2.0, 2.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
            let at_up = [3.0, 0.0, 2.0, 1.0, 4.0, 3.0, 0.0, 1.0, 4.0, 2.0, 0.0, 1.0, 2.0, 3.0, 4.0];
            let at_down = [1.0, 4.0, 2.0, 0.0, 3.0, 2.0, 0.0, 1.0, 4.0, 3.0, 0.0, 1.0, 2.0, 3.0, 4.0];
            let (sorted, positions) = Mlir::float_sort_with_indices(x(), 1, true, i64);
            let results = [
                ("sort", Mlir::float_sort(x(), 1, false), &up[..]),
                ("descending", Mlir::float_sort(x(), 1, true), &down),
                ("argsort", Mlir::float_argsort(x(), 1, false, i64), &at_up),
                ("descending argsort", Mlir::float_argsort(x(), 1, true, i64), &at_down),
                ("sort with indices", sorted, &down),
                ("its indices", positions, &at_down),
                ("topk", Mlir::float_topk(x(), 1, 3), &[NAN, NAN, 3.0, INF, 2.0, 2.0, 0.0, 0.0, 0.0]),
                ("argtopk", Mlir::float_argtopk(x(), 1, 2, i64), &[1.0, 4.0, 2.0, 0.0, 0.0, 1.0]),
            ];
            for (name, result, expected) in results {
                expect(name, result, expected);
            }
        }
    });
}

/// The sign of a NaN, which a processor sets as it likes, changes no order.
#[test]
fn negative_nan_is_nan() {
    each(|| {
        let x = || rows(DType::F32, 4, &[-NAN, 1.0, NAN, -2.0]);
        expect("sort", Mlir::float_sort(x(), 1, false), &[-2.0, 1.0, NAN, NAN]);
        expect("argsort", Mlir::float_argsort(x(), 1, false, IntDType::I32), &[3.0, 1.0, 0.0, 2.0]);
        expect("argmax", Mlir::float_argmax(x(), 1, IntDType::I32), &[0.0]);
    });
}

#[test]
fn prefixes_with_nan() {
    each(|| {
        for dtype in TYPES {
            let x = || rows(dtype, 5, &X[..10]);
            let results = [
                ("cummax", Mlir::float_cummax(x(), 1), [1.0, NAN, NAN, NAN, NAN, 2.0, 2.0, INF, INF, INF]),
                ("cummin", Mlir::float_cummin(x(), 1), [1.0, NAN, NAN, NAN, NAN, 2.0, 2.0, 2.0, -1.0, -1.0]),
                ("cumsum", Mlir::float_cumsum(x(), 1), [1.0, NAN, NAN, NAN, NAN, 2.0, 4.0, INF, INF, INF]),
                (
                    "cumprod",
                    Mlir::float_cumprod(x(), 1),
                    [1.0, NAN, NAN, NAN, NAN, 2.0, 4.0, INF, -INF, -INF],
                ),
            ];
            for (name, result, expected) in results {
                expect(name, result, &expected);
            }
        }
    });
}

#[test]
fn functions_of_nan() {
    each(|| {
        for dtype in TYPES {
            let x = || rows(dtype, 5, &[1.0, NAN, 3.0, -INF, INF]);
            let results = [
                ("clamp", Mlir::float_clamp(x(), (-1.0).into(), 2.5.into()), [1.0, NAN, 2.5, -1.0, 2.5]),
                ("clamp min", Mlir::float_clamp_min(x(), 0.0.into()), [1.0, NAN, 3.0, 0.0, INF]),
                ("clamp max", Mlir::float_clamp_max(x(), 0.0.into()), [0.0, NAN, 0.0, -INF, 0.0]),
                // PyTorch's sign of NaN is 0.
                ("sign", Mlir::float_sign(x()), [1.0, 0.0, 1.0, -1.0, 1.0]),
                ("abs", Mlir::float_abs(x()), [1.0, NAN, 3.0, INF, INF]),
                ("floor", Mlir::float_floor(x()), [1.0, NAN, 3.0, -INF, INF]),
                ("relu", Mlir::relu(x()), [1.0, NAN, 3.0, 0.0, INF]),
                ("exp", Mlir::float_mul_scalar(Mlir::float_exp(x()), 0.0.into()), [0.0, NAN, 0.0, 0.0, NAN]),
                (
                    "sqrt",
                    Mlir::float_mul_scalar(Mlir::float_sqrt(x()), 0.0.into()),
                    [0.0, NAN, 0.0, NAN, NAN],
                ),
            ];
            for (name, result, expected) in results {
                expect(name, result, &expected);
            }
        }
    });
}

/// A row of nothing but -∞, one with +∞, one with NaN.
#[test]
fn softmax_of_infinities() {
    each(|| {
        let x = || rows(DType::F32, 2, &[-INF, -INF, INF, 0.0, NAN, 1.0, -INF, 3.0]);
        let expected = [NAN, NAN, NAN, NAN, NAN, NAN, 0.0, 1.0];
        expect("softmax", Mlir::softmax(x(), 1), &expected);
        let expected = [NAN, NAN, NAN, NAN, NAN, NAN, -INF, 0.0];
        expect("log softmax", Mlir::log_softmax(x(), 1), &expected);
    });
}
