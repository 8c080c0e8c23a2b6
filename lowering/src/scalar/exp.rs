//! The exponential function and those made of it.
//!
//! `e^x = 2^n·e^r` with `n = round(x/ln 2)` and `|r| ≤ ln 2/2`. `n` comes from adding a number so
//! large that the sum is rounded to an integer, which stands in the sum's lowest bits.

use super::builder::{Float, Int};

/// `(e^r - 1 - r)/r²`, minimax for the error relative to `e^r`: 2^-28.3.
const EXP_SINGLE: [f64; 5] =
    [4.999999404e-01, 1.666652113e-01, 4.166838899e-02, 8.368744515e-03, 1.381457783e-03];
/// The same with error 2^-64.
const EXP_DOUBLE: [f64; 11] = [
    0.5,
    0.16666666666666682,
    0.041666666666666095,
    0.008333333333316989,
    0.0013888888889114115,
    0.00019841269896503724,
    2.480158692959245e-05,
    2.7557234736846864e-06,
    2.7557579256603323e-07,
    2.5112082067686327e-08,
    2.0827456606364648e-09,
];
/// `(e^r - 1 - r)/r²`, minimax for the error relative to `e^r - 1`: 2^-32.
const EXPM1_SINGLE: [f64; 6] =
    [5.000000000e-01, 1.666666716e-01, 4.166635498e-02, 8.333273232e-03, 1.394105144e-03, 1.991416357e-04];
/// The same with error 2^-68.
const EXPM1_DOUBLE: [f64; 12] = [
    0.5,
    0.16666666666666666,
    0.04166666666666669,
    0.008333333333333338,
    0.0013888888888871874,
    0.00019841269841245398,
    2.480158735017049e-05,
    2.7557319277829897e-06,
    2.75572518334896e-07,
    2.5052047412127388e-08,
    2.09216069947687e-09,
    1.609342381480881e-10,
];

/// ln 2 in two parts; `n` times the first is exact.
pub(super) fn ln2(x: Float<'_>) -> (f64, f64) {
    x.width()
        .pick((0.693145751953125, 1.4286067653e-06), (6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10))
}

/// `n` and `r` of an argument.
pub(super) struct Reduced<'b> {
    /// `x - n·ln 2`.
    pub rest: Float<'b>,
    /// `n` where a float has its exponent.
    pub exponent: Int<'b>,
}

/// Reduces an argument for which `2^n` is at most a little out of range.
pub(super) fn reduce(x: Float<'_>) -> Reduced<'_> {
    let width = x.width();
    let (high, low) = ln2(x);
    let shift = x.constant(width.pick(12582912.0, 6755399441055744.0));
    let shifted = x.fma_c(std::f64::consts::LOG2_E, shift);
    let n = shifted - shift;
    let rest = n.fma_c(-low, n.fma_c(-high, x));
    Reduced { rest, exponent: shifted.to_bits().shl(width.mantissa()) }
}

/// `2^(n + offset)`, which must be a normal number.
pub(super) fn power_of_two(exponent: Int<'_>, width: super::builder::Width, offset: i64) -> Float<'_> {
    (exponent + ((width.bias() + offset) << width.mantissa())).to_float()
}

/// `e^r` of a reduced argument.
pub(super) fn exp_rest(rest: Float<'_>) -> Float<'_> {
    let q = rest.polynomial(rest.width().pick(&EXP_SINGLE, &EXP_DOUBLE));
    q.fma(rest, rest.constant(1.0)).fma(rest, rest.constant(1.0))
}

/// `e^r - 1` of a reduced argument.
pub(super) fn expm1_rest(rest: Float<'_>) -> Float<'_> {
    let q = rest.polynomial(rest.width().pick(&EXPM1_SINGLE, &EXPM1_DOUBLE));
    (rest * rest).fma(q, rest)
}

/// `value·2^n` in two steps, since `2^n` itself may be out of range; rounds once.
pub(super) fn scale<'b>(value: Float<'b>, exponent: Int<'b>) -> Float<'b> {
    let width = value.width();
    let half = exponent.shr(1) & -(1i64 << width.mantissa());
    value * power_of_two(half, width, 0) * power_of_two(exponent - half, width, 0)
}

/// `e^x·2^offset`.
pub(super) fn exp_scaled(x: Float<'_>, offset: i64) -> Float<'_> {
    let width = x.width();
    // From these bounds on the result is infinity and zero.
    let x = x.at_most(width.pick(90.0, 711.0)).at_least(width.pick(-104.0, -746.0));
    let Reduced { rest, exponent } = reduce(x);
    let exponent = if offset == 0 { exponent } else { exponent + (offset << width.mantissa()) };
    scale(exp_rest(rest), exponent)
}

pub(super) fn exp(x: Float<'_>) -> Float<'_> {
    exp_scaled(x, 0)
}

/// `e^x` of what is at most 0: one product shifts the exponent, a second one brings it where it belongs and
/// rounds.
pub(super) fn exp_of_nonpositive(x: Float<'_>) -> Float<'_> {
    let width = x.width();
    let Reduced { rest, exponent } = reduce(x.at_least(width.pick(-104.0, -746.0)));
    let (offset, back) = width.pick((64, 2f64.powi(-64)), (512, 2f64.powi(-512)));
    exp_rest(rest) * power_of_two(exponent, width, offset) * back
}

pub(super) fn expm1(x: Float<'_>) -> Float<'_> {
    let width = x.width();
    let bounded = x.at_most(width.pick(88.8, 710.0)).at_least(width.pick(-18.0, -38.0));
    let Reduced { rest, exponent } = reduce(bounded);
    let q = expm1_rest(rest);
    // 2^n·(q + 1) - 1, halved so that 2^n may be the first power out of range.
    let half = power_of_two(exponent, width, -1);
    let sum = half.fma(q, half - 0.5);
    let unscaled = exponent.eq(exponent.constant(0));
    unscaled.select(q, sum + sum).copysign(x)
}

/// `(1 - e)/(1 + e)` with `e = e^-2|x| = 2^n·(q + 1)`: both sums are rounded once.
pub(super) fn tanh(x: Float<'_>) -> Float<'_> {
    let width = x.width();
    // From here on the result is 1.
    let size = x.abs().at_most(width.pick(9.5, 19.5));
    let Reduced { rest, exponent } = reduce(-(size + size));
    let (q, power) = (expm1_rest(rest), power_of_two(exponent, width, 0));
    let one = x.constant(1.0);
    let numerator = (-power).fma(q, one - power);
    let denominator = power.fma(q, one + power);
    numerator.quotient(denominator).copysign(x)
}

/// `1/(1 + e^-x)` with `e^-x = 2^n·(q + 1)`, the denominator scaled down so that it is in range where
/// the result is subnormal. A scale of 5/3 keeps the inner sum of `2^n` and 1 away from ties: with a
/// power of two it would be rounded twice by half a unit at `n` = 24.
pub(super) fn sigmoid(x: Float<'_>) -> Float<'_> {
    let width = x.width();
    // The first bound makes the result 1, the second 0.
    let bounded = (-x).at_least(width.pick(-18.0, -38.0)).at_most(width.pick(104.0, 746.0));
    let Reduced { rest, exponent } = reduce(bounded);
    let unit = 5.0 / 3.0 * width.pick(2f64.powi(-30), 2f64.powi(-60));
    let unit_bits = width.pick(i64::from((unit as f32).to_bits()), unit.to_bits() as i64);
    let (q, power) = (expm1_rest(rest), (exponent + unit_bits).to_float());
    let unit = x.constant(unit);
    unit.quotient(power.fma(q, unit + power))
}
