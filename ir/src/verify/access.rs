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
    let mut dims: Vec<(u64, usize)> = strides
        .iter()
        .map(|stride| stride.unsigned_abs())
        .zip(sizes.iter().copied())
        .filter(|dim| dim.1 > 1)
        .collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Every address, by walking over the coordinates.
    fn addresses(strides: &[i64], sizes: &[usize]) -> Vec<i64> {
        let start = vec![0i64];
        strides.iter().zip(sizes).fold(start, |all, (&stride, &size)| {
            all.iter().flat_map(|&a| (0..size as i64).map(move |i| a + i * stride)).collect()
        })
    }

    proptest! {
        #[test]
        fn accepted_accesses_reach_each_element_once(
            dims in prop::collection::vec((-30i64..30, 0usize..5), 0..4),
        ) {
            let (strides, sizes): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let all = addresses(&strides, &sizes);
            let distinct = all.iter().collect::<HashSet<_>>().len() == all.len();
            prop_assert!(distinct || !is_injective(&strides, &sizes));
        }

        /// A strided box of a row-major tensor, either way round, with its axes in any order.
        #[test]
        fn boxes_are_accepted(
            dims in prop::collection::vec((1usize..6, 1i64..4, any::<bool>()), 0..4),
            turn in 0usize..4,
        ) {
            let mut strides = Vec::new();
            let mut dense = 1i64;
            for (size, step, backwards) in &dims {
                strides.push(dense * step * if *backwards { -1 } else { 1 });
                dense *= *size as i64 * step;
            }
            let mut sizes: Vec<usize> = dims.iter().map(|dim| dim.0).collect();
            let turn = turn % sizes.len().max(1);
            strides.rotate_left(turn);
            sizes.rotate_left(turn);
            prop_assert!(is_injective(&strides, &sizes));
            let span = reach(&strides, &sizes).unwrap();
            let all = addresses(&strides, &sizes);
            let (low, high) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            prop_assert_eq!(span, i128::from(high - low));
        }
    }
}
