//! The remainder of a division.

use super::builder::{Float, Width};

/// A quotient below 2^50 is off by less than 1 after rounding to 53 bits, and its product with the
/// divisor leaves a rest that is exact.
const STEP: i32 = 50;

/// `a - b·⌊a/b⌋`, with the sign of `b`: exact, then rounded once, for whatever quotient.
pub(super) fn rem<'b>(a: Float<'b>, b: Float<'b>) -> Float<'b> {
    // The largest quotients have exponents 128 + 149 and 1024 + 1074.
    match a.width() {
        Width::Single => steps(a.widen(), b.widen(), 5).narrow(),
        Width::Double => steps(a, b, 41),
    }
}

/// Takes multiples of `b·2^(STEP·n)` from `a`, for `n` from `most` to 0.
fn steps<'b>(a: Float<'b>, b: Float<'b>, most: i32) -> Float<'b> {
    let zero = a.constant(0.0);
    let mut rest = a;
    for power in (0..=most).rev().map(|n| STEP * n) {
        // Two factors, since the power itself may be out of range.
        let (first, second) = (power.min(1000), (power - 1000).max(0));
        let divisor = if power > 0 { b * 2f64.powi(first) } else { b };
        let divisor = if second > 0 { divisor * 2f64.powi(second) } else { divisor };
        let quotient = (rest / divisor).trunc();
        let next = (-quotient).fma(divisor, rest);
        // A divisor that overflows has nothing to take.
        rest = quotient.eq(zero).select(rest, next);
    }
    // A quotient rounded up leaves a rest beyond 0, which the same correction brings back.
    let opposite = rest.lt(zero) ^ b.lt(zero);
    let value = opposite.select(rest + b, rest);
    rest.eq(zero).select(zero.copysign(b), value)
}
