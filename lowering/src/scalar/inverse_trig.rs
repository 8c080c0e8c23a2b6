//! Inverse trigonometric functions.

use super::builder::{Float, Truth, Width};
use std::f64::consts::{FRAC_PI_2, PI};

/// `(asin s - s)/s³` over `s²` up to ¼, minimax for the error relative to the function: 2^-27.6.
const ASIN_SINGLE: [f64; 5] =
    [1.666675359e-01, 7.495232671e-02, 4.547832906e-02, 2.414103970e-02, 4.223048314e-02];
/// The same with error 2^-59.
const ASIN_DOUBLE: [f64; 13] = [
    0.16666666666666763,
    0.07499999999970117,
    0.04464285717527206,
    0.03038194267584834,
    0.02237221589168609,
    0.01735159573438217,
    0.013981015899607785,
    0.011397313602188812,
    0.010789210247697602,
    0.0036725910981634884,
    0.021789685243542994,
    -0.021115389590388216,
    0.032701347943358626,
];
/// `(atan w - w)/w³` over `w²` up to 1, minimax for the error relative to the function: 2^-28.5.
const ATAN_SINGLE: [f64; 9] = [
    -3.333329856e-01,
    1.999854892e-01,
    -1.426424086e-01,
    1.095218435e-01,
    -8.403447270e-02,
    5.795754492e-02,
    -3.117779642e-02,
    1.091457717e-02,
    -1.793615054e-03,
];
/// The same with error 2^-60.
const ATAN_DOUBLE: [f64; 21] = [
    -0.33333333333333287,
    0.19999999999990445,
    -0.14285714285036472,
    0.1111111108644354,
    -0.09090908547196994,
    0.07692299711171723,
    -0.06666583718344445,
    0.05881716130079597,
    -0.05259433693191522,
    0.04744925831930928,
    -0.04286390281133634,
    0.03821005334401089,
    -0.03278541619396197,
    0.026151658281866916,
    -0.018614200390992753,
    0.011317661219964938,
    -0.005612400267355049,
    0.0021515968461720543,
    -0.0005928969450703932,
    0.00010387279206020385,
    -8.654303045331863e-06,
];

/// A constant minus `x`, the constant in two parts.
fn from_constant<'b>(x: Float<'b>, constant: f64) -> Float<'b> {
    let (high, low) = x.width().pick(
        (f64::from(constant as f32), constant - f64::from(constant as f32)),
        // 1.2e-16 is what π lacks as an f64.
        (constant, 1.2246467991473532e-16 * (constant / PI)),
    );
    x.constant(high) - (x - low)
}

/// `asin |x|` up to ½, and `asin √((1 - |x|)/2)` = `acos(|x|)/2` beyond; whether it is the latter.
/// To the precision of `width`.
fn asin_parts(x: Float<'_>, width: Width) -> (Float<'_>, Truth<'_>) {
    let size = x.abs();
    let beyond = size.gt(x.constant(0.5));
    let z = beyond.select((x.constant(1.0) - size) * 0.5, x * x);
    let s = beyond.select(z.sqrt(), size);
    let q = z.polynomial(width.pick(&ASIN_SINGLE, &ASIN_DOUBLE));
    ((s * z).fma(q, s), beyond)
}

/// In f64 whatever the width: in f32 the rounded square root would count twice.
pub(super) fn asin(x: Float<'_>) -> Float<'_> {
    let (part, beyond) = asin_parts(x.widen(), x.width());
    let value = beyond.select(from_constant(part + part, FRAC_PI_2), part);
    value.narrow_to(x.width()).copysign(x)
}

pub(super) fn acos(x: Float<'_>) -> Float<'_> {
    let (part, beyond) = asin_parts(x, x.width());
    let twice = part + part;
    let negative = x.lt(x.constant(0.0));
    let far = negative.select(from_constant(twice, PI), twice);
    beyond.select(far, from_constant(part.copysign(x), FRAC_PI_2))
}

/// `atan w` for w from 0 to 1.
fn atan_unit(w: Float<'_>) -> Float<'_> {
    let z = w * w;
    (w * z).fma(z.polynomial(w.width().pick(&ATAN_SINGLE, &ATAN_DOUBLE)), w)
}

pub(super) fn atan(x: Float<'_>) -> Float<'_> {
    let (size, one) = (x.abs(), x.constant(1.0));
    let beyond = size.gt(one);
    let part = atan_unit(beyond.select(one / size, size));
    beyond.select(from_constant(part, FRAC_PI_2), part).copysign(x)
}

/// The angle of the point (`x`, `y`).
pub(super) fn atan2<'b>(y: Float<'b>, x: Float<'b>) -> Float<'b> {
    let (width, height) = (x.abs(), y.abs());
    let zero = x.constant(0.0);
    let steep = height.gt(width);
    let (shorter, longer) = (steep.select(width, height), steep.select(height, width));
    // At the origin the ratio counts as 0, between two infinities as 1.
    let ratio = longer.eq(zero).select(zero, shorter / longer);
    let ratio = shorter.eq(x.constant(f64::INFINITY)).select(x.constant(1.0), ratio);
    let part = atan_unit(ratio);
    let part = steep.select(from_constant(part, FRAC_PI_2), part);
    // The sign bit of x, also of -0.
    let left = x.constant(1.0).copysign(x).lt(zero);
    let value = left.select(from_constant(part, PI), part).copysign(y);
    x.compare("uno", y).select(x.constant(f64::NAN), value)
}
