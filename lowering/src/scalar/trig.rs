//! Sine, cosine and tangent.

use super::builder::{Float, Int, Width};
use super::pi_reduction::{Quadrant, reduce, reduce_wide};

/// `(sin r - r)/r³` over `r²`, minimax for the error relative to the sine: 2^-28.
const SIN_SINGLE: [f64; 3] = [-1.666665524e-01, 8.332173340e-03, -1.951665909e-04];
/// The same with error 2^-68.
const SIN_DOUBLE: [f64; 7] = [
    -0.16666666666666666,
    0.008333333333333323,
    -0.0001984126984125499,
    2.7557319214149096e-06,
    -2.505210490063785e-08,
    1.605836520875601e-10,
    -7.578626367877882e-13,
];
/// `(cos r - 1 + r²/2)/r⁴` over `r²`, minimax for the error of the cosine: 2^-33.
const COS_SINGLE: [f64; 3] = [4.166664556e-02, -1.388736186e-03, 2.443775884e-05];
/// The same with error 2^-75.
const COS_DOUBLE: [f64; 7] = [
    0.041666666666666664,
    -0.0013888888888888874,
    2.480158730157138e-05,
    -2.75573192153255e-07,
    2.087675435462617e-09,
    -1.1470291935973043e-11,
    4.7380480889145515e-14,
];

/// Sine and cosine of a remainder, to the precision of `width`.
fn both(r: Float<'_>, width: Width) -> (Float<'_>, Float<'_>) {
    let z = r * r;
    let sine = (r * z).fma(z.polynomial(width.pick(&SIN_SINGLE, &SIN_DOUBLE)), r);
    let one = r.constant(1.0);
    let half = z * 0.5;
    let main = one - half;
    // What the difference lost comes back with the small terms.
    let small = (z * z).fma(z.polynomial(width.pick(&COS_SINGLE, &COS_DOUBLE)), (one - main) - half);
    (sine, main + small)
}

/// The sine of `rest + number·π/2`.
fn sine<'b>(rest: Float<'b>, number: Int<'b>) -> Float<'b> {
    let (sine, cosine) = both(rest, rest.width());
    let odd = (number & 1).ne(number.constant(0));
    let value = odd.select(cosine, sine);
    // Bit 1 of the number becomes the sign.
    let sign = (number & 2).shl(number.width().bits() - 2);
    (value.to_bits() ^ sign).to_float()
}

pub(super) fn sin(x: Float<'_>) -> Float<'_> {
    let Quadrant { rest, number } = reduce(x);
    // Keeps the sign of 0.
    x.eq(x.constant(0.0)).select(x, sine(rest, number))
}

pub(super) fn cos(x: Float<'_>) -> Float<'_> {
    let Quadrant { rest, number } = reduce(x);
    sine(rest, number + 1)
}

/// In f64 whatever the width: the quotient of two rounded results is not good enough in f32.
pub(super) fn tan(x: Float<'_>) -> Float<'_> {
    let width = x.width();
    let Quadrant { rest, number } = reduce_wide(x);
    let (sine, cosine) = both(rest, width);
    let odd = (number & 1).ne(number.constant(0));
    let value = odd.select(cosine, sine) / odd.select(-sine, cosine);
    x.eq(x.constant(0.0)).select(x, value.narrow_to(width))
}
