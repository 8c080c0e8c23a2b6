//! Size classes: multiples of a quarter of a power of two, so that a block is at most a quarter too
//! large and a few free lists serve every size.

use super::ALIGNMENT;

/// Power of two below which classes are multiples of [`ALIGNMENT`].
const SMALL_LOG2: u32 = 8;
const SMALL: usize = 1 << SMALL_LOG2;
const SMALL_CLASSES: usize = SMALL / ALIGNMENT;

/// Largest block, far beyond any machine: sums of sizes cannot overflow.
pub(super) const MAX_LOG2: u32 = 48;

/// Number of classes.
pub(super) const COUNT: usize = SMALL_CLASSES + 4 * (MAX_LOG2 - SMALL_LOG2) as usize;

/// The class of the smallest block that holds `bytes`; none for absurd sizes.
pub(super) fn class_of(bytes: usize) -> Option<usize> {
    if bytes <= SMALL {
        return Some(bytes.max(1).div_ceil(ALIGNMENT) - 1);
    }
    if bytes > 1 << MAX_LOG2 {
        return None;
    }
    // bytes is in (2^log2, 2^(log2 + 1)], a range of four steps.
    let log2 = (bytes - 1).ilog2();
    let step = (bytes - 1 - (1 << log2)) >> (log2 - 2);
    Some(SMALL_CLASSES + 4 * (log2 - SMALL_LOG2) as usize + step)
}

/// Size of the blocks of a class.
pub(super) fn class_bytes(class: usize) -> usize {
    match class.checked_sub(SMALL_CLASSES) {
        None => (class + 1) * ALIGNMENT,
        Some(above) => {
            let log2 = SMALL_LOG2 as usize + above / 4;
            (1 << log2) + (above % 4 + 1) * (1 << (log2 - 2))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_increasing_and_aligned() {
        let sizes: Vec<_> = (0..COUNT).map(class_bytes).collect();
        assert_eq!(&sizes[..9], &[64, 128, 192, 256, 320, 384, 448, 512, 640]);
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(sizes.iter().all(|size| size % ALIGNMENT == 0));
        assert_eq!(*sizes.last().unwrap(), 1 << MAX_LOG2);
    }

    #[test]
    fn a_size_gets_the_smallest_class_that_holds_it() {
        for class in 0..COUNT {
            let bytes = class_bytes(class);
            assert_eq!(class_of(bytes), Some(class));
            assert_eq!(class_of(bytes + 1), (class + 1 < COUNT).then_some(class + 1));
        }
        assert_eq!(class_of(0), Some(0));
        assert_eq!(class_of(usize::MAX), None);
    }
}
