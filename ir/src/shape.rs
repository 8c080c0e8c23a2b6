//! Tensor shapes.

use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// The extents of a tensor, outermost first. Rank 0 is a single element; an extent of 0 makes the
/// tensor empty.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(pub SmallVec<[usize; 6]>);

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Self {
        Self(extents(&self.0))
    }
}

impl Shape {
    /// A shape from its extents.
    pub fn new(dims: impl IntoIterator<Item = usize>) -> Self {
        Self(dims.into_iter().collect())
    }

    /// Number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }
}

impl Deref for Shape {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self(extents(&dims))
    }
}

impl From<&[usize]> for Shape {
    #[inline]
    fn from(dims: &[usize]) -> Self {
        Self(extents(dims))
    }
}

/// A copy of extents. Each operation needs a few, most of them so short that calling for a copy of memory would take longer;
/// in pairs, as they are moved in pairs.
#[inline]
pub fn extents<const N: usize>(extents: &[usize]) -> SmallVec<[usize; N]> {
    const { assert!(N >= 4) };
    let mut copy = [0; N];
    match *extents {
        [a] => copy[..2].copy_from_slice(&[a, 0]),
        [a, b] => copy[..2].copy_from_slice(&[a, b]),
        [a, b, c] => copy[..4].copy_from_slice(&[a, b, c, 0]),
        [a, b, c, d] => copy[..4].copy_from_slice(&[a, b, c, d]),
        _ => return SmallVec::from_slice(extents),
    }
    SmallVec::from_buf_and_len(copy, extents.len())
}

impl FromIterator<usize> for Shape {
    fn from_iter<T: IntoIterator<Item = usize>>(dims: T) -> Self {
        Self::new(dims)
    }
}

/// `[2, 3]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}
