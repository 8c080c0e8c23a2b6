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
        // As bytes: one by one takes several times as long, and each operation needs a few.
        Self(SmallVec::from_slice(&self.0))
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
        Self::new(dims)
    }
}

impl From<&[usize]> for Shape {
    #[inline]
    fn from(dims: &[usize]) -> Self {
        Self(SmallVec::from_slice(dims))
    }
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
