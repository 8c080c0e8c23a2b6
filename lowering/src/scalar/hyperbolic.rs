//! Hyperbolic functions other than the tangent, and their inverses.

use super::builder::Float;
use super::exp::exp_scaled;
use super::log::log1p;
use std::f64::consts::LN_2;

/// `(sinh x - x)/x³` over `x²` up to 1, minimax for the error relative to the function: 2^-34.
const SINH_SINGLE: [f64; 4] = [1.666666716e-01, 8.333349600e-03, 1.983615948e-04, 2.816950655e-06];
/// The same with error 2^-63.
const SINH_DOUBLE: [f64; 7] = [
    0.16666666666666669,
    0.008333333333333148,
    0.00019841269841431875,
    2.7557319157070645e-06,
    2.505212313691506e-08,
    1.60572597541852e-10,
    7.758749227819664e-13,
];

/// A polynomial up to 1, the exponentials beyond.
pub(super) fn sinh(x: Float<'_>) -> Float<'_> {
    let size = x.abs();
    let square = size * size;
    let small = (size * square).fma(square.polynomial(x.width().pick(&SINH_SINGLE, &SINH_DOUBLE)), size);
    let half = exp_scaled(size, -1);
    let large = half - x.constant(0.25) / half;
    size.gt(x.constant(1.0)).select(large, small).copysign(x)
}

pub(super) fn cosh(x: Float<'_>) -> Float<'_> {
    let half = exp_scaled(x.abs(), -1);
    half + half.constant(0.25) / half
}

/// `log 2x` for large `x`, else `log(1 + y)`.
fn large_or<'b>(x: Float<'b>, y: Float<'b>) -> Float<'b> {
    let large = x.gt(x.constant(x.width().pick(268435456.0, 4503599627370496.0)));
    let value = log1p(large.select(x, y));
    value + large.select(x.constant(LN_2), x.constant(0.0))
}

pub(super) fn asinh(x: Float<'_>) -> Float<'_> {
    let size = x.abs();
    let square = size * size;
    let y = size + square / ((square + 1.0).sqrt() + 1.0);
    large_or(size, y).copysign(x)
}

/// In f64 whatever the width, as in [`atanh`].
pub(super) fn acosh(x: Float<'_>) -> Float<'_> {
    let wide = x.widen();
    let t = wide - 1.0;
    let y = t + (t + t + t * t).sqrt();
    let value = large_or(wide, y).narrow_to(x.width());
    x.lt(x.constant(1.0)).select(x.constant(f64::NAN), value)
}

/// In f64 whatever the width: in f32 the roundings of the quotient and of the logarithm add up to
/// about 2 units.
pub(super) fn atanh(x: Float<'_>) -> Float<'_> {
    let size = x.abs().widen();
    let y = (size + size) / (size.constant(1.0) - size);
    let value = log1p(y) * 0.5;
    value.narrow_to(x.width()).copysign(x)
}
