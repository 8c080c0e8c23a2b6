//! Where the elements of a tensor lie in a buffer, and how an iteration space walks over them.

use crate::Shape;
use smallvec::SmallVec;

/// Elements (not bytes) to step per unit of each dimension; 0 broadcasts, negative runs backwards.
pub type Strides = SmallVec<[i64; 6]>;

/// How the dimensions of a tensor map to a buffer: element `i` is at `offset + Σ i[d]·strides[d]`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The extents.
    pub shape: Shape,
    /// One stride per dimension, in elements.
    pub strides: Strides,
    /// The element at index 0, counted from the start of the buffer.
    pub offset: i64,
}

impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Self {
        let strides = Strides::from_slice(&self.strides);
        Self { shape: self.shape.clone(), strides, offset: self.offset }
    }
}

impl Layout {
    /// Row-major, starting at the first element.
    pub fn contiguous(shape: &Shape) -> Self {
        let mut strides = Strides::from_elem(0, shape.rank());
        let mut step = 1i64;
        for axis in (0..shape.rank()).rev() {
            strides[axis] = step;
            step *= shape[axis] as i64;
        }
        Self { shape: shape.clone(), strides, offset: 0 }
    }

    /// Whether the elements lie in row-major order without gaps (extents of 1 and 0 aside).
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        let mut dense = true;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if extent == 0 {
                return true;
            }
            dense &= extent == 1 || stride == step;
            step *= extent as i64;
        }
        dense
    }
}

/// An affine function of the coordinates of a kernel's [`Domain`](crate::Domain): one stride per
/// domain dimension. A pointer to the element at coordinate 0 is given at launch, so an access has
/// no offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// One stride per domain dimension, in elements. In place of one that is an argument of the launch:
    /// [`OPEN_STRIDE`].
    pub strides: Strides,
    /// Strides that are arguments of the launch, see [`opened`](mod@crate::opened).
    pub arguments: SmallVec<[StrideArgument; 2]>,
}

/// A stride that is an argument of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StrideArgument {
    /// The dimension of the iteration space.
    pub dim: u32,
    /// Which of the launch's numbers.
    pub argument: u32,
}

/// What stands in place of a stride that is not known: a large one.
pub const OPEN_STRIDE: i64 = 1 << 20;

impl Access {
    /// An access from its strides.
    pub fn new(strides: impl IntoIterator<Item = i64>) -> Self {
        Self { strides: strides.into_iter().collect(), arguments: SmallVec::new() }
    }

    /// Which of the launch's numbers a stride is, if it is one.
    pub fn argument(&self, dim: usize) -> Option<usize> {
        self.arguments.iter().find(|open| open.dim as usize == dim).map(|open| open.argument as usize)
    }

    /// Whether the access moves along a dimension.
    pub fn uses(&self, dim: usize) -> bool {
        self.strides[dim] != 0
    }
}
