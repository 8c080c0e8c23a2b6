//! Elementwise operations.

use crate::agreement::{F32, I32, Results, agree, bools, check, float, float_in, floats, int_in, ints};
use crate::support::devices::each;
use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{BoolDType, FloatDType, IntDType, read_sync};
use burn_mlir::{Mlir, MlirTensor};

fn read(tensor: MlirTensor) -> Vec<f32> {
    read_sync(Mlir::float_into_data(tensor)).unwrap().iter::<f32>().collect()
}

/// A scalar compares and clamps as a number, though it is no number of the elements' type.
#[test]
fn scalars_out_of_range() {
    let native = BoolDType::Native;
    let case = |dtype| {
        let x = || Mlir::int_cast(ints::<Mlir, 1>([5], &[0, 1, -1, 127, -128]), dtype);
        let mut results = Results::default();
        for bound in [-129, -128, 127, 128, 300] {
            let bound = bound.into();
            results.bool::<Mlir>("equal", Mlir::int_equal_elem(x(), bound, native));
            results.bool::<Mlir>("not equal", Mlir::int_not_equal_elem(x(), bound, native));
            results.bool::<Mlir>("greater", Mlir::int_greater_elem(x(), bound, native));
            results.bool::<Mlir>("greater equal", Mlir::int_greater_equal_elem(x(), bound, native));
            results.bool::<Mlir>("lower", Mlir::int_lower_elem(x(), bound, native));
            results.bool::<Mlir>("lower equal", Mlir::int_lower_equal_elem(x(), bound, native));
        }
        results.int::<Mlir>("at least", Mlir::int_clamp_min(x(), (-200).into()));
        results.int::<Mlir>("at most", Mlir::int_clamp_max(x(), 200.into()));
        results
    };
    each(|| check("scalars out of range", &case(IntDType::I8), &case(IntDType::I32), 0.0));
}

/// What a value was before it is overwritten in place: the second result folds to the operand itself.
#[test]
fn an_overwritten_operand_is_read_first() {
    each(|| {
        for size in [1, 100, 2001] {
            let x = float::<Mlir, 1>([size], 1);
            let expected = read(x.clone());
            let negated = Mlir::float_neg(x);
            let again = Mlir::float_neg(negated.clone());
            assert_eq!(read(again), expected);
            assert_eq!(read(Mlir::float_neg(negated)), expected);
        }
    });
}

/// Chains of dependent operations, in whole vectors and what is left of them.
#[test]
fn long_chains() {
    each(|| {
        for size in [1, 15, 16, 17, 63, 64, 65, 100, 1000, 4103, 70_001] {
            let values: Vec<f32> = (0..size).map(|i| (i % 1000) as f32).collect();
            let x = floats::<Mlir>(&values);
            let sum = (0..100).fold(x, |x, _| Mlir::float_add_scalar(x, 1.0.into()));
            let expected: Vec<f32> = values.iter().map(|value| value + 100.0).collect();
            assert_eq!(read(sum), expected, "{size}");
        }
    });
}

/// Results that do not fit into caches, of which the host writes what it can past them.
#[test]
fn large_results() {
    each(|| {
        for dims in [[1, 2_100_003], [1025, 2064], [1500, 1403], [140_000, 17]] {
            let rows = |n: usize| Mlir::float_reshape(numbers(n), [n, 1].into());
            let row = Mlir::float_reshape(numbers(dims[1]), [1, dims[1]].into());
            let row = Mlir::float_div_scalar(row, 4.0.into());
            let all = Mlir::float_add(rows(dims[0]), row);
            let at = |i: usize| (i / dims[1] % 1024) as f32 + (i % dims[1] % 1024) as f32 / 4.0;
            let expected: Vec<f32> = (0..dims[0] * dims[1]).map(at).collect();
            // Alone, beside another result, and narrower: integers up to 2048 have 11 bits.
            let half = Mlir::float_cast(Mlir::float_floor(all.clone()), FloatDType::F16);
            assert_eq!(read(all.clone()), expected, "{dims:?}");
            let (twice, negated) = (Mlir::float_mul_scalar(all.clone(), 2.0.into()), Mlir::float_neg(all));
            assert!(read(twice).iter().zip(&expected).all(|(a, b)| *a == 2.0 * b), "{dims:?}");
            assert!(read(negated).iter().zip(&expected).all(|(a, b)| *a == -b), "{dims:?}");
            assert!(read(half).iter().zip(&expected).all(|(a, b)| *a == b.floor()), "{dims:?}");
        }
    });
}

/// The same of rows that are reduced first.
#[test]
fn large_results_of_rows() {
    each(|| {
        for [rows, columns] in [[2100, 1040], [2100, 1041], [9, 300_001]] {
            let all = Mlir::float_reshape(numbers(rows * columns), [rows, columns].into());
            let centred = Mlir::float_sub(all.clone(), Mlir::float_max_dim(all, 1));
            let values: Vec<f32> = (0..rows * columns).map(|i| (i % 1024) as f32).collect();
            let most = |row: &[f32]| row.iter().copied().fold(f32::MIN, f32::max);
            let expected = values.chunks(columns).flat_map(|row| {
                let most = most(row);
                row.iter().map(move |value| value - most)
            });
            assert!(read(centred).into_iter().eq(expected.collect::<Vec<_>>()), "{rows} {columns}");
        }
    });
}

/// `i mod 1024` at place `i`.
fn numbers(count: usize) -> MlirTensor {
    floats::<Mlir>(&(0..count).map(|i| (i % 1024) as f32).collect::<Vec<_>>())
}

agree! {
    fn functions<B>(results) within 2e-6 {
        let x = float::<B, 2>([7, 33], 1);
        let positive = float_in::<B, 1>([50], 2, 0.01, 90.0);
        let unit = float_in::<B, 1>([50], 3, -0.99, 0.99);
        let above_one = float_in::<B, 1>([50], 4, 1.0, 9.0);
        results.float::<B>("neg", B::float_neg(x.clone()));
        results.float::<B>("abs", B::float_abs(x.clone()));
        results.float::<B>("sign", B::float_sign(x.clone()));
        results.float::<B>("recip", B::float_recip(positive.clone()));
        results.float::<B>("exp", B::float_exp(x.clone()));
        results.float::<B>("log", B::float_log(positive.clone()));
        results.float::<B>("log1p", B::float_log1p(positive.clone()));
        results.float::<B>("sqrt", B::float_sqrt(positive));
        results.float::<B>("erf", B::float_erf(x.clone()));
        results.float::<B>("sin", B::float_sin(x.clone()));
        results.float::<B>("cos", B::float_cos(x.clone()));
        results.float::<B>("sinh", B::float_sinh(x.clone()));
        results.float::<B>("cosh", B::float_cosh(x.clone()));
        results.float::<B>("tanh", B::float_tanh(x.clone()));
        results.float::<B>("asin", B::float_asin(unit.clone()));
        results.float::<B>("acos", B::float_acos(unit.clone()));
        results.float::<B>("atan", B::float_atan(x.clone()));
        results.float::<B>("asinh", B::float_asinh(x.clone()));
        results.float::<B>("acosh", B::float_acosh(above_one));
        results.float::<B>("atanh", B::float_atanh(unit));
        results.float::<B>("floor", B::float_floor(x.clone()));
        results.float::<B>("ceil", B::float_ceil(x.clone()));
        results.float::<B>("trunc", B::float_trunc(x.clone()));
        results.float::<B>("round", B::float_round(floats::<B>(&[0.5, 1.5, 2.5, -0.5, -1.5, 2.4])));
    }

    fn broadcasting<B>(results) within 1e-6 {
        let (a, b) = (float::<B, 3>([4, 1, 5], 1), float_in::<B, 3>([1, 3, 5], 2, 0.5, 2.0));
        results.float::<B>("add", B::float_add(a.clone(), b.clone()));
        results.float::<B>("sub", B::float_sub(a.clone(), b.clone()));
        results.float::<B>("mul", B::float_mul(a.clone(), b.clone()));
        results.float::<B>("div", B::float_div(a.clone(), b.clone()));
        results.float::<B>("remainder", B::float_remainder(a.clone(), b.clone()));
        results.float::<B>("atan2", B::float_atan2(a.clone(), b.clone()));
        results.float::<B>("powf", B::float_powf(b.clone(), a.clone()));
        results.float::<B>("hypot", B::float_hypot(a, b));
    }

    fn scalars<B>(results) within 2e-6 {
        let x = float_in::<B, 1>([40], 5, 0.1, 3.0);
        results.float::<B>("add", B::float_add_scalar(x.clone(), 1.5.into()));
        results.float::<B>("sub", B::float_sub_scalar(x.clone(), 1.5.into()));
        results.float::<B>("mul", B::float_mul_scalar(x.clone(), 1.5.into()));
        results.float::<B>("div", B::float_div_scalar(x.clone(), 1.5.into()));
        results.float::<B>("remainder", B::float_remainder_scalar(x.clone(), 0.7.into()));
        results.float::<B>("clamp", B::float_clamp(x.clone(), 0.5.into(), 2.0.into()));
        for exponent in [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 2.5, 7.0] {
            let power = B::float_powf_scalar(x.clone(), exponent.into());
            results.float::<B>(format!("power {exponent}"), power);
        }
    }

    fn comparisons<B>(results) within 0.0 {
        let native = BoolDType::Native;
        let nan = f32::NAN;
        let a = floats::<B>(&[1.0, 2.0, nan, f32::INFINITY, 0.0, -1.0]);
        let b = floats::<B>(&[1.0, 3.0, 1.0, f32::INFINITY, nan, -2.0]);
        results.bool::<B>("equal", B::float_equal(a.clone(), b.clone(), native));
        results.bool::<B>("not equal", B::float_not_equal(a.clone(), b.clone(), native));
        results.bool::<B>("greater", B::float_greater(a.clone(), b.clone(), native));
        results.bool::<B>("greater equal", B::float_greater_equal(a.clone(), b.clone(), native));
        results.bool::<B>("lower", B::float_lower(a.clone(), b.clone(), native));
        results.bool::<B>("lower equal", B::float_lower_equal(a.clone(), b.clone(), native));
        results.bool::<B>("nan", B::float_is_nan(a.clone(), native));
        results.bool::<B>("inf", B::float_is_inf(b, native));
        results.bool::<B>("elem", B::float_greater_elem(a.clone(), 0.5.into(), native));
        let mask = B::float_lower_elem(a.clone(), 1.5.into(), native);
        results.float::<B>("fill", B::float_mask_fill(a.clone(), mask.clone(), 9.0.into()));
        results.float::<B>("where", B::float_mask_where(a, mask, floats::<B>(&[7.0; 6])));
    }

    fn integers<B>(results) within 0.0 {
        let a = ints::<B, 1>([8], &[7, -7, 7, -7, i32::MIN, i32::MAX, 0, 5]);
        let b = ints::<B, 1>([8], &[2, 2, -2, -2, 3, 2, 4, 1]);
        results.int::<B>("add", B::int_add(a.clone(), b.clone()));
        results.int::<B>("sub", B::int_sub(a.clone(), b.clone()));
        results.int::<B>("mul", B::int_mul(a.clone(), b.clone()));
        results.int::<B>("div", B::int_div(a.clone(), b.clone()));
        results.int::<B>("remainder", B::int_remainder(a.clone(), b.clone()));
        results.int::<B>("and", B::bitwise_and(a.clone(), b.clone()));
        results.int::<B>("or", B::bitwise_or(a.clone(), b.clone()));
        results.int::<B>("xor", B::bitwise_xor(a.clone(), b.clone()));
        results.int::<B>("not", B::bitwise_not(a.clone()));
        results.int::<B>("shl", B::bitwise_left_shift_scalar(a.clone(), 3.into()));
        results.int::<B>("shr", B::bitwise_right_shift_scalar(a.clone(), 3.into()));
        results.int::<B>("clamp", B::int_clamp(a.clone(), (-5).into(), 5.into()));
        results.int::<B>("sign", B::int_sign(a.clone()));
        let small = int_in::<B, 1>([20], 3, -4, 5);
        results.int::<B>("abs", B::int_abs(small.clone()));
        for exponent in [0, 1, 2, 3, 5, 9] {
            let power = B::int_powi_scalar(small.clone(), exponent.into());
            results.int::<B>(format!("power {exponent}"), power);
        }
        results.int::<B>("powers", B::int_powi(small.clone(), B::int_abs(small)));
    }

    /// One element more than a vector has.
    fn choices_of_narrow_floats<B>(results) within 0.0 {
        for dtype in [FloatDType::F16, FloatDType::BF16] {
            for size in [1, 9, 17, 33] {
                let x = B::float_cast(float::<B, 1>([size], 1), dtype);
                let mask = B::float_lower_elem(x.clone(), 0.0.into(), BoolDType::Native);
                results.float::<B>(format!("{dtype:?}[{size}]"), B::float_mask_fill(x, mask, 1.5.into()));
            }
        }
    }

    fn casts<B>(results) within 0.0 {
        let x = floats::<B>(&[1.9, -1.9, 0.0, 300.5, -0.4]);
        results.int::<B>("float to int", B::float_into_int(x, I32));
        let i = ints::<B, 1>([4], &[3, -1, 0, 1 << 20]);
        results.float::<B>("int to float", B::int_into_float(i, F32));
        let b = bools::<B, 1>([3], &[true, false, true]);
        results.int::<B>("bool to int", B::bool_into_int(b.clone(), I32));
        results.float::<B>("bool to float", B::bool_into_float(b, F32));
    }

    fn truth_values<B>(results) within 0.0 {
        let a = bools::<B, 1>([4], &[true, true, false, false]);
        let b = bools::<B, 1>([4], &[true, false, true, false]);
        results.bool::<B>("and", B::bool_and(a.clone(), b.clone()));
        results.bool::<B>("or", B::bool_or(a.clone(), b.clone()));
        results.bool::<B>("xor", B::bool_xor(a.clone(), b.clone()));
        results.bool::<B>("not", B::bool_not(a.clone()));
        results.bool::<B>("equal", B::bool_equal(a.clone(), b.clone()));
        results.bool::<B>("equal elem", B::bool_equal_elem(a.clone(), true.into()));
        results.bool::<B>("any", B::bool_any(a.clone()));
        results.bool::<B>("all", B::bool_all(a));
    }
}
