//! Compares results with f64 arithmetic on the host, at positions spread over the tensor.

use burn::prelude::*;

/// The values of a tensor, row by row.
pub fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.clone().into_data().iter::<f64>().collect()
}

/// Asserts that `actual` agrees with `expected(index)` within `tolerance` (relative to the larger of
/// 1 and the value) at about 64 indices.
pub fn agrees(actual: &[f64], tolerance: f64, expected: impl Fn(usize) -> f64) {
    let step = (actual.len() / 64).max(1);
    for index in (0..actual.len()).step_by(step) {
        let (a, e) = (actual[index], expected(index));
        assert!((a - e).abs() <= tolerance * e.abs().max(1.0), "element {index} is {a}, expected {e}");
    }
}

/// The error function (Abramowitz and Stegun 7.1.5's series, good to 1e-15 for |x| < 5).
pub fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// GELU with the error function.
pub fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
}
