//! Rules on strides.

use super::Violation;

/// One stride for each dimension, and addresses that fit.
pub(super) fn check_strides(strides: &[i64], sizes: &[usize], element: usize) -> Result<(), Violation> {
    if strides.len() != sizes.len() {
        return Err(Violation::StrideCount { got: strides.len(), rank: sizes.len() });
    }
    let fits = reach(strides, sizes).and_then(|reach| reach.checked_mul(element as i128));
    if fits.is_some_and(|bytes| bytes <= isize::MAX as i128) { Ok(()) } else { Err(Violation::Reach) }
}

/// The distance from the lowest to the highest element, in elements.
fn reach(strides: &[i64], sizes: &[usize]) -> Option<i128> {
    strides.iter().zip(sizes).try_fold(0i128, |reach, (&stride, &size)| {
        let steps = size.saturating_sub(1) as i128;
        reach.checked_add(i128::from(stride.unsigned_abs()).checked_mul(steps)?)
    })
}

/// Whether each coordinate has an element of its own: walking from the smallest stride to the
/// largest, each stride steps over all that the smaller ones reach. (This refuses some interleaved
/// accesses that would do; none of them comes from a box of a tensor.)
pub(super) fn is_injective(strides: &[i64], sizes: &[usize]) -> bool {
    let mut dims: Vec<(u64, usize)> =
        strides.iter().map(|stride| stride.unsigned_abs()).zip(sizes.iter().copied()).filter(|dim| dim.1 > 1).collect();
    dims.sort_unstable();
    let mut reach = 0i128;
    for (stride, size) in dims {
        if i128::from(stride) <= reach {
            return false;
        }
        reach += i128::from(stride) * (size as i128 - 1);
    }
    true
}
