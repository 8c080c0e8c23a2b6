//! Remainders and powers of floats.

use crate::support::devices::each;
use crate::support::numbers::{Number, read_numbers, tensor};
use burn_backend::DType;
use burn_backend::ops::FloatTensorOps;
use burn_mlir::{Mlir, MlirTensor};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const VALUES: [f64; 17] =
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 5.5, -5.5, 1e30, INF, -INF, NAN, 1e-30];

/// Rust's remainder is exact; Python's has the sign of the divisor. A zero has it, too, where PyTorch's keeps that of
/// the dividend.
fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// Equal, zeros whatever their sign, and otherwise within `ulps` last places of f32.
fn close(a: f64, b: f64, ulps: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || ((a - b) / b).abs() <= ulps * 1.2e-7
}

fn pairs() -> Vec<(f64, f64)> {
    VALUES.into_iter().flat_map(|a| VALUES.map(|b| (a, b))).collect()
}

fn floats(dtype: DType, values: impl IntoIterator<Item = f64>) -> MlirTensor {
    tensor(dtype, &values.into_iter().map(Number::Float).collect::<Vec<_>>())
}

fn check(name: &str, result: MlirTensor, operands: &[(f64, f64)], expected: fn(f64, f64) -> f64) {
    for (&(a, b), result) in operands.iter().zip(read_numbers(result)) {
        let (result, exact) = (result.float(), expected(a as f32 as f64, b as f32 as f64) as f32 as f64);
        assert!(close(result, exact, 2.0), "{name} of {a} and {b} is {result}, should be {exact}");
    }
}

#[test]
fn remainders_have_the_sign_of_the_divisor() {
    each(|| {
        for dtype in [DType::F32, DType::F64] {
            let single = |v: f64| v as f32 as f64;
            let operands: Vec<_> = pairs().into_iter().map(|(a, b)| (single(a), single(b))).collect();
            let x = floats(dtype, operands.iter().map(|pair| pair.0));
            let y = floats(dtype, operands.iter().map(|pair| pair.1));
            check("remainder", Mlir::float_remainder(x, y), &operands, remainder);
        }
        let x = floats(DType::F32, VALUES);
        for b in [3.0, -3.0, 0.0, INF, -INF, NAN, 0.7] {
            let operands = VALUES.map(|a| (a, b));
            check("scalar", Mlir::float_remainder_scalar(x.clone(), b.into()), &operands, remainder);
        }
    });
}

/// C's `pow`.
#[test]
fn powers_of_special_values() {
    each(|| {
        let operands = pairs();
        let x = floats(DType::F32, operands.iter().map(|pair| pair.0));
        let y = floats(DType::F32, operands.iter().map(|pair| pair.1));
        check("powf", Mlir::float_powf(x, y), &operands, f64::powf);
    });
}

/// C's `pow`, but for the root, which is that of `sqrt`: there is none of -∞.
#[test]
fn powers_of_one_exponent() {
    each(|| {
        let x = || floats(DType::F32, VALUES);
        for exponent in [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.0, -0.5, -3.0, 4.0, 1.5, NAN, INF, -INF] {
            let operands = VALUES.map(|a| (a, exponent));
            let expected = |a: f64, b: f64| match b {
                0.5 => a.sqrt(),
                _ => a.powf(b),
            };
            check("powf scalar", Mlir::float_powf_scalar(x(), exponent.into()), &operands, expected);
        }
        for exponent in [0, 1, 2, 3, -1, -2, -5, 31, 64] {
            let operands = VALUES.map(|a| (a, exponent as f64));
            check("powi scalar", Mlir::float_powi_scalar(x(), exponent.into()), &operands, f64::powf);
            let exponents = tensor(DType::I32, &[Number::Int(exponent as i128); VALUES.len()]);
            check("powi", Mlir::float_powi(x(), exponents), &operands, f64::powf);
        }
    });
}
