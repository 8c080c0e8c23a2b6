//! Functions that are exact.

use super::builder::Float;

/// -1 or 1 by sign; 0 for zeros and NaN, as in PyTorch.
pub(super) fn sign(x: Float<'_>) -> Float<'_> {
    let zero = x.constant(0.0);
    let positive = x.gt(zero).select(x.constant(1.0), zero);
    x.lt(zero).select(x.constant(-1.0), positive)
}
