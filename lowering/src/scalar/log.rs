//! The natural logarithm.
//!
//! `log x = k·ln 2 + log(1 + f)` with `1 + f` from √½ to √2, and `log(1 + f) = 2s + s·R(s²)` with
//! `s = f/(2 + f)`, arranged as in Sun's fdlibm so that `f`, which is exact, dominates.

use super::builder::{Float, Int};
use super::exp::ln2;
use std::f64::consts::FRAC_1_SQRT_2;

/// `(log((1 + s)/(1 - s)) - 2s)/s³` over `s²`, minimax for the error relative to the logarithm: 2^-37.
const LOG_SINGLE: [f64; 4] = [6.666666269e-01, 4.000033736e-01, 2.853724062e-01, 2.358354479e-01];
/// The same with error 2^-59.
const LOG_DOUBLE: [f64; 7] = [
    0.6666666666666735,
    0.39999999999411023,
    0.28571428743271676,
    0.22222198475518173,
    0.18183569746695047,
    0.1531390341702361,
    0.14797503243999524,
];

/// A positive normal number as `(1 + f)·2^k`: the bits of `1 + f`, and `k`.
pub(super) fn split(x: Float<'_>) -> (Int<'_>, Int<'_>) {
    let width = x.width();
    let bits = x.to_bits();
    let least = width.pick(i64::from((FRAC_1_SQRT_2 as f32).to_bits()), FRAC_1_SQRT_2.to_bits() as i64);
    let k = (bits - least).shr(width.mantissa());
    (bits - k.shl(width.mantissa()), k)
}

/// `k·ln 2 + log(1 + f)`.
fn assemble<'b>(k: Float<'b>, f: Float<'b>) -> Float<'b> {
    let (high, low) = ln2(f);
    // At least -0.3 and, unless 0, 2^-24 in size.
    let s = f.quotient(f + 2.0);
    let z = s * s;
    let r = z * z.polynomial(f.width().pick(&LOG_SINGLE, &LOG_DOUBLE));
    let half_square = f * 0.5 * f;
    let small = s.fma(half_square + r, k * low);
    k.fma_c(high, f - (half_square - small))
}

/// The values at the ends of the domain: `x` itself where it is ∞ or NaN, -∞ for `zero` = 0, NaN
/// below.
fn ends<'b>(value: Float<'b>, x: Float<'b>, zero: f64) -> Float<'b> {
    let value = x.lt(x.constant(f64::INFINITY)).select(value, x);
    let value = x.eq(x.constant(zero)).select(x.constant(f64::NEG_INFINITY), value);
    x.lt(x.constant(zero)).select(x.constant(f64::NAN), value)
}

/// `x` if it is normal, a subnormal scaled into the normal range, and the exponent to add for it.
pub(super) fn normalize(x: Float<'_>) -> (Float<'_>, Float<'_>) {
    let width = x.width();
    let least = width.pick(f64::from(f32::MIN_POSITIVE), f64::MIN_POSITIVE);
    let shift = f64::from(width.pick(25, 54));
    let subnormal = x.lt(x.constant(least));
    let scaled = subnormal.select(x * shift.exp2(), x);
    (scaled, subnormal.select(x.constant(-shift), x.constant(0.0)))
}

pub(super) fn log(x: Float<'_>) -> Float<'_> {
    let (scaled, shift) = normalize(x);
    let (mantissa, k) = split(scaled);
    ends(assemble(k.convert() + shift, mantissa.to_float() - 1.0), x, 0.0)
}

pub(super) fn log1p(x: Float<'_>) -> Float<'_> {
    let width = x.width();
    let sum = x + 1.0;
    // What the sum lost.
    let part = sum - 1.0;
    let lost = (x.constant(1.0) - (sum - part)) + (x - part);
    let (mantissa, k) = split(sum);
    // 4·2^-k, since 2^-k may be subnormal.
    let scale = (k.constant((width.bias() + 2) << width.mantissa()) - k.shl(width.mantissa())).to_float();
    let four_f = lost.fma(scale, mantissa.to_float().fma_c(4.0, x.constant(-4.0)));
    ends(assemble(k.convert(), four_f * 0.25), x, -1.0).copysign(x)
}
