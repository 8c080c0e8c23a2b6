//! The remainder of a division: `a - b·⌊a/b⌋`, with the sign of `b`, exact and then rounded, for
//! whatever quotient.
//!
//! Steps take multiples of `b·2^p` from `a`, for falling `p`. A quotient of some 50 bits is off by
//! less than 1 after rounding to 53 bits, and its product with the divisor leaves a rest that is
//! exact.

use super::builder::{Float, Width};

pub(super) fn rem<'b>(a: Float<'b>, b: Float<'b>) -> Float<'b> {
    match a.width() {
        Width::Single => rem_single(a.widen(), b.widen()).narrow(),
        Width::Double => rem_double(a, b),
    }
}

/// `rest - quotient·divisor`; a divisor that overflows has nothing to take.
fn take<'b>(rest: Float<'b>, quotient: Float<'b>, divisor: Float<'b>) -> Float<'b> {
    quotient.eq(rest.constant(0.0)).select(rest, (-quotient).fma(divisor, rest))
}

/// A rest smaller than `b` moved to the side of 0 where `b` is: that of a truncated division becomes
/// that of a floored one, and one beyond 0 since the quotient was too large comes back.
fn with_sign_of<'b>(b: Float<'b>, rest: Float<'b>) -> Float<'b> {
    let zero = b.constant(0.0);
    let opposite = rest.lt(zero) ^ b.lt(zero);
    rest.eq(zero).select(zero.copysign(b), opposite.select(rest + b, rest))
}

/// For two f32 in f64, where one reciprocal serves every step. Quotients of f32 are below 2^278.
fn rem_single<'b>(a: Float<'b>, b: Float<'b>) -> Float<'b> {
    let inverse = a.constant(1.0) / b;
    let mut rest = a;
    for power in [240, 192, 144, 96, 48] {
        let quotient = (rest * (inverse * 2f64.powi(-power))).trunc();
        rest = take(rest, quotient, b * 2f64.powi(power));
    }
    rest = take(rest, (rest * inverse).trunc(), b);
    // The quotient may have been too small by 1.
    let above = rest.abs().compare("oge", b.abs());
    with_sign_of(b, above.select(rest - b.copysign(rest), rest))
}

/// Bits a step of [`rem_double`] takes.
const STEP: i32 = 50;

/// Quotients of f64 are below 2^2098.
fn rem_double<'b>(a: Float<'b>, b: Float<'b>) -> Float<'b> {
    let mut rest = a;
    for power in (0..=41).rev().map(|step| STEP * step) {
        // Two factors, since the power itself may be out of range.
        let (first, second) = (power.min(1000), (power - 1000).max(0));
        let divisor = if power > 0 { b * 2f64.powi(first) } else { b };
        let divisor = if second > 0 { divisor * 2f64.powi(second) } else { divisor };
        rest = take(rest, (rest / divisor).trunc(), divisor);
    }
    with_sign_of(b, rest)
}
