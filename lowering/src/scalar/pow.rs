//! Powers of floats.

use super::builder::Float;
use super::exp::{Reduced, exp_rest, ln2, reduce, scale};
use super::log::{normalize, split};

/// `(log((1 + s)/(1 - s)) - 2s - ⅔s³)/s⁵` over `s²`, minimax for the error relative to the logarithm:
/// 2^-44.
const REST_SINGLE: [f64; 4] = [3.999999762e-01, 2.857187390e-01, 2.218494117e-01, 1.946913600e-01];
/// The same with error 2^-73.
const REST_DOUBLE: [f64; 8] = [
    0.3999999999999998,
    0.2857142857144522,
    0.2222222221751121,
    0.18181818873425212,
    0.1538455665804751,
    0.1333632563808104,
    0.1167465116998392,
    0.11990410659861996,
];

/// ⅔ in two parts.
const TWO_THIRDS_SINGLE: (f64, f64) = (0.6666666865348816, -1.9868215517249155e-08);
const TWO_THIRDS_DOUBLE: (f64, f64) = (0.6666666666666666, 3.700743415417188e-17);

/// `a^b` with the special values of C's `pow`.
pub(super) fn pow<'b>(a: Float<'b>, b: Float<'b>) -> Float<'b> {
    let (zero, one, infinity) = (a.constant(0.0), a.constant(1.0), a.constant(f64::INFINITY));
    let size = a.abs();
    let value = exp_of_product(b, log_in_two_parts(size));
    let whole = b.trunc().compare("oeq", b);
    let half = b * 0.5;
    let odd = whole & half.trunc().compare("one", half);
    let value = odd.select(value.copysign(a), value);
    let undefined = a.lt(zero) & size.lt(infinity) & !whole;
    let value = undefined.select(a.constant(f64::NAN), value);
    // (±1)^±∞, where the product is 0·∞.
    let value = (size.eq(one) & b.abs().eq(infinity)).select(one, value);
    (a.eq(one) | b.eq(zero)).select(one, value)
}

/// The logarithm of a number that is not negative, with some ten bits more than its type has;
/// infinite in the first part at the ends.
fn log_in_two_parts(x: Float<'_>) -> (Float<'_>, Float<'_>) {
    let width = x.width();
    let (third_high, third_low) = width.pick(TWO_THIRDS_SINGLE, TWO_THIRDS_DOUBLE);
    let (scaled, shift) = normalize(x);
    let (mantissa, k) = split(scaled);
    let k = k.convert() + shift;
    let f = mantissa.to_float() - 1.0;
    let one = x.constant(1.0);

    // s = f/(2 + f) as s + s_low.
    let sum = f + 2.0;
    let sum_low = f - (sum - 2.0);
    let s = f / sum;
    let s_low = ((-s).fma(sum, f) - s * sum_low) * (one / sum);
    // s³ as cube + cube_low.
    let square = s * s;
    let square_low = s.fma(s, -square) + (s + s) * s_low;
    let cube = s * square;
    let cube_low = s.fma(square, -cube) + s.fma(square_low, s_low * square);
    // The factor of s³, ⅔ and a little, as t + t_low.
    let rest = square * square.polynomial(width.pick(&REST_SINGLE, &REST_DOUBLE));
    let third = x.constant(third_high);
    let t = third + rest;
    let t_low = (third - t) + rest + third_low + square_low * 0.4;
    let tail = cube * t;
    let tail_low = cube.fma(t, -tail) + cube.fma(t_low, cube_low * t);
    // log(1 + f) = 2s + tail.
    let twice = s + s;
    let main = twice + tail;
    let main_low = ((twice - main) + tail) + (tail_low + (s_low + s_low));
    // k·ln 2 is larger if it is not 0.
    let (high, low) = ln2(x);
    let whole = k * high;
    let total = whole + main;
    let total_low = ((whole - total) + main) + k.fma_c(low, main_low);
    let total = x.lt(x.constant(f64::INFINITY)).select(total, x);
    (x.eq(x.constant(0.0)).select(x.constant(f64::NEG_INFINITY), total), total_low)
}

/// `e^(b·l)` for an `l` in two parts.
fn exp_of_product<'b>(b: Float<'b>, (high, low): (Float<'b>, Float<'b>)) -> Float<'b> {
    let width = b.width();
    let product = b * high;
    let product_low = b.fma(high, -product) + b * low;
    let bounded = product.at_most(width.pick(90.0, 711.0)).at_least(width.pick(-104.0, -746.0));
    let in_range = bounded.compare("oeq", product);
    let Reduced { rest, exponent } = reduce(bounded);
    let rest = rest + in_range.select(product_low, b.constant(0.0));
    scale(exp_rest(rest), exponent)
}
