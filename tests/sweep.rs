//! Every elementwise function in f32, over all magnitudes, against f64.

use crate::support::devices::{current, each};
use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{TensorData, read_sync};
use burn_mlir::Mlir;

type Tensor = FloatTensor<Mlir>;
/// Name, the backend's function, the same in f64.
pub type Function = (&'static str, fn(Tensor) -> Tensor, fn(f64) -> f64);

pub const FUNCTIONS: &[Function] =
    &[
        ("neg", Mlir::float_neg, |x| -x),
        ("abs", Mlir::float_abs, f64::abs),
        ("sign", Mlir::float_sign, |x| if x == 0.0 || x.is_nan() { 0.0 } else { x.signum() }),
        ("recip", Mlir::float_recip, f64::recip),
        ("exp", Mlir::float_exp, f64::exp),
        ("log", Mlir::float_log, f64::ln),
        ("log1p", Mlir::float_log1p, f64::ln_1p),
        ("sqrt", Mlir::float_sqrt, f64::sqrt),
        ("sin", Mlir::float_sin, f64::sin),
        ("cos", Mlir::float_cos, f64::cos),
        ("tan", Mlir::float_tan, f64::tan),
        ("asin", Mlir::float_asin, f64::asin),
        ("acos", Mlir::float_acos, f64::acos),
        ("atan", Mlir::float_atan, f64::atan),
        ("sinh", Mlir::float_sinh, f64::sinh),
        ("cosh", Mlir::float_cosh, f64::cosh),
        ("tanh", Mlir::float_tanh, f64::tanh),
        // The standard library's lose accuracy at the ends of the range.
        ("asinh", Mlir::float_asinh, libm::asinh),
        ("acosh", Mlir::float_acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }),
        ("atanh", Mlir::float_atanh, libm::atanh),
        ("erf", Mlir::float_erf, libm::erf),
        ("sigmoid", Mlir::sigmoid, |x| {
            if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
        }),
        ("floor", Mlir::float_floor, f64::floor),
        ("ceil", Mlir::float_ceil, f64::ceil),
        ("round", Mlir::float_round, f64::round_ties_even),
        ("trunc", Mlir::float_trunc, f64::trunc),
    ];

/// The most an f32 result may be off, in units of the last place of the exact value.
const BOUND: f64 = 2.0;

/// All signs, exponents and specials, with mantissas spread by a prime step; the ends of every range
/// that a function may treat on its own.
fn inputs() -> Vec<f32> {
    let mut inputs: Vec<f32> = (0..=u32::MAX / 4093).map(|i| f32::from_bits(i * 4093)).collect();
    let edges = [
        0.0,
        f32::MIN_POSITIVE,
        1e-45,
        1.175_494_2e-38,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        1.0,
        0.5,
        2.0,
        1.5,
        2.5,
        88.722_83,
        88.722_84,
        88.8,
        87.336_54,
        103.278,
        103.97,
        104.0,
        89.415_98,
        89.42,
        9.010_913,
        9.02,
        3.92,
        4.0,
        8_388_608.0,
        8_388_607.5,
        16_777_216.0,
        1e5,
        117_435.99,
        std::f32::consts::PI,
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::FRAC_PI_4,
    ];
    for edge in edges {
        for step in -40i32..=40 {
            let near = f32::from_bits(f32::to_bits(edge).wrapping_add_signed(step));
            inputs.extend([near, -near]);
        }
    }
    inputs
}

/// Distance of `actual` from `exact` in units of the last place of `exact` as an f32; 0 for equal
/// infinities and for NaN where NaN is right.
fn ulps(actual: f32, exact: f64) -> f64 {
    if exact.is_nan() || actual.is_nan() {
        return if exact.is_nan() && actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = exact as f32;
    if actual == rounded {
        return 0.0;
    }
    // The spacing of f32 at the exact value; beyond the largest, that of the last binade.
    let exponent = exact.abs().max(f32::MIN_POSITIVE as f64).min(f32::MAX as f64).log2().floor();
    let actual = if actual.is_infinite() { actual.signum() as f64 * 2f64.powi(128) } else { actual as f64 };
    (actual - exact).abs() / 2f64.powi(exponent as i32 - 23)
}

fn run(function: fn(Tensor) -> Tensor, inputs: &[f32]) -> Vec<f32> {
    let data = TensorData::new(inputs.to_vec(), [inputs.len()]);
    let result = function(Mlir::float_from_data(data, &current()));
    read_sync(Mlir::float_into_data(result)).expect("it computes").iter::<f32>().collect()
}

#[test]
fn every_function_is_within_two_units_in_the_last_place() {
    each(|| {
        let inputs = inputs();
        let mut failures = Vec::new();
        for (name, function, exact) in FUNCTIONS {
            let (mut worst, mut at) = (0.0, 0.0);
            for (&x, y) in inputs.iter().zip(run(*function, &inputs)) {
                let exact = exact(x as f64);
                let mut error = ulps(y, exact);
                // A zero has the sign it has in IEEE arithmetic.
                if exact == 0.0 && y == 0.0 && exact.is_sign_negative() != y.is_sign_negative() {
                    error = f64::INFINITY;
                }
                if error > worst {
                    (worst, at) = (error, x);
                }
            }
            println!("{name:8} {worst:.3} at {at:e}");
            if worst > BOUND {
                failures.push(format!("{name}: {worst:.2} at {at:e} ({:#010x})", at.to_bits()));
            }
        }
        assert!(failures.is_empty(), "{failures:#?}");
    });
}

#[test]
fn powers_and_angles_are_within_two_units_in_the_last_place() {
    each(|| {
        let values: Vec<f32> = inputs().into_iter().step_by(547).collect();
        let interesting =
            [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e-3, 7.0, 20.0, 127.0, 0.333_333_34];
        let mut exponents = interesting.to_vec();
        exponents.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e10, -1e10, 1e-10]);
        let pairs: Vec<(f32, f32)> =
            values.iter().flat_map(|&a| exponents.iter().map(move |&b| (a, b))).collect();
        let tensor = |values: Vec<f32>| {
            let count = values.len();
            Mlir::float_from_data(TensorData::new(values, [count]), &current())
        };
        type Exact = fn(f64, f64) -> f64;
        type Computed = fn(Tensor, Tensor) -> Tensor;
        let functions: [(&str, Computed, Exact); 2] =
            [("pow", Mlir::float_powf, f64::powf), ("atan2", Mlir::float_atan2, f64::atan2)];
        for (name, function, exact) in functions {
            let (a, b) = pairs.iter().copied().unzip();
            let result =
                read_sync(Mlir::float_into_data(function(tensor(a), tensor(b)))).expect("it computes");
            for ((a, b), y) in pairs.iter().zip(result.iter::<f32>()) {
                let error = ulps(y, exact(*a as f64, *b as f64));
                assert!(error <= BOUND, "{name}({a:e}, {b:e}) is {y:e}, off by {error:.2}");
            }
        }
    });
}
