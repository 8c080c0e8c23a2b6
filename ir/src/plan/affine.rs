//! Iteration spaces while they are being built, and affine functions of their coordinates.

use crate::{Shape, Strides};
use smallvec::SmallVec;

/// `offset + Σ coefs[d]·coordinate[d]`. Missing coefficients are 0; there is no trailing 0, so
/// equal functions are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Affine {
    pub offset: i64,
    pub coefs: Strides,
}

impl Affine {
    /// The coordinate of one dimension.
    pub fn dim(dim: usize) -> Self {
        let mut coefs = Strides::from_elem(0, dim + 1);
        coefs[dim] = 1;
        Self { offset: 0, coefs }
    }

    /// The coefficient of a dimension.
    pub fn coef(&self, dim: usize) -> i64 {
        self.coefs.get(dim).copied().unwrap_or(0)
    }

    /// Adds `factor · other`.
    pub fn add_scaled(&mut self, other: &Affine, factor: i64) {
        self.offset += factor * other.offset;
        if self.coefs.len() < other.coefs.len() {
            self.coefs.resize(other.coefs.len(), 0);
        }
        for (coef, &more) in self.coefs.iter_mut().zip(&other.coefs) {
            *coef += factor * more;
        }
        self.trim();
    }

    /// Adds to the coefficient of one dimension.
    fn add_coef(&mut self, dim: usize, coef: i64) {
        if self.coefs.len() <= dim {
            self.coefs.resize(dim + 1, 0);
        }
        self.coefs[dim] += coef;
        self.trim();
    }

    fn trim(&mut self) {
        while self.coefs.last() == Some(&0) {
            self.coefs.pop();
        }
    }

    /// The dimensions with a coefficient, as a bit set.
    pub fn used(&self) -> u64 {
        (self.coefs.iter().enumerate()).filter(|(_, c)| **c != 0).fold(0, |set, (d, _)| set | 1 << d)
    }
}

/// One affine function per axis of a tensor: which element a point of the space is about.
pub(super) type Coords = Vec<Affine>;

/// The bit set of dimensions that some axis uses.
pub(super) fn used_dims(coords: &[Affine]) -> u64 {
    coords.iter().fold(0, |set, axis| set | axis.used())
}

/// The element's address given one stride per axis.
pub(super) fn address(coords: &[Affine], strides: &[i64], offset: i64) -> Affine {
    let mut sum = Affine { offset, ..Affine::default() };
    for (axis, &stride) in coords.iter().zip(strides) {
        sum.add_scaled(axis, stride);
    }
    sum
}

/// Row-major strides of a shape.
pub(super) fn dense_strides(shape: &Shape) -> Strides {
    crate::Layout::contiguous(shape).strides
}

/// The row-major element index.
pub(super) fn linear_index(coords: &[Affine], shape: &Shape) -> Affine {
    address(coords, &dense_strides(shape), 0)
}

/// A dimension of a [`Space`].
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceDim {
    pub size: usize,
    /// Stands for the axis a gather indexes: its coefficient is the gather's stride. Not iterated.
    pub hidden: bool,
}

/// Dimension `dim` became (`outer`, `dim`), the latter of size `inner_size`.
#[derive(Clone, Copy, Debug)]
struct Split {
    dim: usize,
    outer: usize,
    inner_size: i64,
}

/// The iteration space of a group. A dimension can be split after functions of it exist: those
/// catch up through [`Space::refresh`].
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    pub dims: Vec<SpaceDim>,
    /// Dimensions from outermost to innermost.
    pub order: Vec<usize>,
    splits: Vec<Split>,
    /// Whether dimensions may be split at all.
    splittable: bool,
}

/// Sets of dimensions are 64-bit masks.
const MAX_DIMS: usize = 64;

impl Space {
    /// A space without dimensions; `splittable` says whether dimensions may be split later.
    pub fn new(splittable: bool) -> Self {
        Self { splittable, ..Self::default() }
    }

    /// The same space, whose dimensions may no longer be split.
    pub fn fixed(&self) -> Self {
        Self { splittable: false, ..self.clone() }
    }

    /// How many splits have happened: what a function made now has `seen`.
    pub fn version(&self) -> usize {
        self.splits.len()
    }

    /// Whether `more` dimensions fit.
    pub fn has_room(&self, more: usize) -> bool {
        self.dims.len() + more <= MAX_DIMS
    }

    /// Appends a dimension, innermost.
    pub fn push(&mut self, size: usize, hidden: bool) -> usize {
        self.dims.push(SpaceDim { size, hidden });
        self.order.push(self.dims.len() - 1);
        self.dims.len() - 1
    }

    /// Appends one dimension per extent (none for an extent of 1).
    pub fn push_axes(&mut self, extents: &[usize]) -> Coords {
        let axis = |&extent: &usize| {
            if extent == 1 { Affine::default() } else { Affine::dim(self.push(extent, false)) }
        };
        extents.iter().map(axis).collect()
    }

    /// The iterated dimensions as a bit set.
    pub fn iterated(&self) -> u64 {
        (self.dims.iter().enumerate()).filter(|(_, dim)| !dim.hidden).fold(0, |set, (d, _)| set | 1 << d)
    }

    /// The number of points along a set of dimensions.
    pub fn points(&self, set: u64) -> usize {
        let sizes = self.dims.iter().enumerate().filter(|(d, _)| set >> d & 1 == 1).map(|(_, dim)| dim.size);
        sizes.fold(1, usize::saturating_mul)
    }

    /// Brings a function up to date with the splits since it was made.
    pub fn refresh(&self, affine: &mut Affine, seen: usize) {
        for split in &self.splits[seen..] {
            let coef = affine.coef(split.dim);
            if coef != 0 {
                affine.add_coef(split.outer, coef * split.inner_size);
            }
        }
    }

    /// Brings a bit set of dimensions up to date.
    pub fn refresh_set(&self, set: &mut u64, seen: usize) {
        for split in &self.splits[seen..] {
            if *set >> split.dim & 1 == 1 {
                *set |= 1 << split.outer;
            }
        }
    }

    /// Whether the coordinates visit every element of `shape` exactly once as the used dimensions
    /// vary, in ascending direction.
    pub fn is_bijective(&self, coords: &[Affine], shape: &Shape) -> bool {
        let index = linear_index(coords, shape);
        let mut terms: SmallVec<[(i64, usize); 8]> = (0..index.coefs.len())
            .filter(|&d| index.coefs[d] != 0)
            .map(|d| (index.coefs[d], self.dims[d].size))
            .collect();
        terms.sort_unstable();
        let mut step = 1i64;
        for (coef, size) in terms {
            if coef != step {
                return false;
            }
            step *= size as i64;
        }
        index.offset == 0 && step == shape.elements() as i64
    }

    /// Splits a row-major index into the coordinates of `shape`; `None` if they are not affine in
    /// the dimensions of this space, even after splitting some.
    pub fn delinearise(&mut self, index: &Affine, shape: &Shape) -> Option<Coords> {
        let mut terms: SmallVec<[(usize, i64); 8]> =
            (0..index.coefs.len()).map(|d| (d, index.coefs[d])).filter(|t| t.1 != 0).collect();
        let mut offset = index.offset;
        let strides = dense_strides(shape);
        let mut coords = Coords::with_capacity(shape.rank());
        for (&extent, &stride) in shape.iter().zip(&strides) {
            let mut axis = Affine::default();
            if extent == 1 {
                coords.push(axis);
                continue;
            }
            let mut rest: SmallVec<[(usize, i64); 8]> = SmallVec::new();
            for (dim, coef) in std::mem::take(&mut terms) {
                if coef % stride == 0 {
                    axis.add_coef(dim, coef / stride);
                    continue;
                }
                let reach = coef.abs() * (self.dims[dim].size as i64 - 1);
                if reach < stride {
                    rest.push((dim, coef));
                    continue;
                }
                let inner = stride / coef.abs();
                let outer = (stride % coef == 0).then(|| self.split(dim, inner)).flatten()?;
                axis.add_coef(outer, coef.signum());
                rest.push((dim, coef));
            }
            let (low, high) = self.range(&rest);
            axis.offset = (offset + low).div_euclid(stride);
            offset -= axis.offset * stride;
            if offset + high >= stride || !self.within(&axis, extent) {
                return None;
            }
            terms = rest;
            coords.push(axis);
        }
        (offset == 0 && terms.is_empty()).then_some(coords)
    }

    /// Splits a dimension so that its inner part has `inner_size`; gives the outer part.
    fn split(&mut self, dim: usize, inner_size: i64) -> Option<usize> {
        let size = self.dims[dim].size as i64;
        if !self.splittable || self.dims[dim].hidden || size % inner_size != 0 || !self.has_room(1) {
            return None;
        }
        let outer = self.dims.len();
        self.dims.push(SpaceDim { size: (size / inner_size) as usize, hidden: false });
        self.dims[dim].size = inner_size as usize;
        let position = self.order.iter().position(|&d| d == dim)?;
        self.order.insert(position, outer);
        self.splits.push(Split { dim, outer, inner_size });
        Some(outer)
    }

    /// The least and largest value of a sum of terms.
    fn range(&self, terms: &[(usize, i64)]) -> (i64, i64) {
        terms.iter().fold((0, 0), |(low, high), &(dim, coef)| {
            let reach = coef * (self.dims[dim].size as i64 - 1);
            (low + reach.min(0), high + reach.max(0))
        })
    }

    fn within(&self, axis: &Affine, extent: usize) -> bool {
        let terms: SmallVec<[(usize, i64); 8]> = axis.coefs.iter().copied().enumerate().collect();
        let (low, high) = self.range(&terms);
        axis.offset + low >= 0 && axis.offset + high < extent as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(sizes: &[usize]) -> (Space, Coords) {
        let mut space = Space::new(true);
        let coords = space.push_axes(sizes);
        (space, coords)
    }

    #[test]
    fn splitting_a_dimension_serves_a_finer_shape() {
        let (mut space, coords) = space(&[12]);
        let index = linear_index(&coords, &Shape::from([12]));
        let fine = space.delinearise(&index, &Shape::from([3, 4])).unwrap();
        assert_eq!(space.order, [1, 0]);
        assert_eq!(fine.as_slice(), [Affine::dim(1), Affine::dim(0)]);
        let mut old = coords[0].clone();
        space.refresh(&mut old, 0);
        assert_eq!(old.coefs.as_slice(), [1, 4]);
    }

    #[test]
    fn incompatible_shapes_are_refused() {
        let (mut space, coords) = space(&[4, 3]);
        let index = linear_index(&coords, &Shape::from([4, 3]));
        assert!(space.delinearise(&index, &Shape::from([3, 4])).is_none());
    }

    #[test]
    fn a_flipped_matrix_keeps_its_rows() {
        let (mut space, _) = space(&[3, 4]);
        let index = Affine { offset: 11, coefs: Strides::from_slice(&[-4, -1]) };
        let coords = space.delinearise(&index, &Shape::from([3, 4])).unwrap();
        assert_eq!(coords[0], Affine { offset: 2, coefs: Strides::from_slice(&[-1]) });
        assert_eq!(coords[1], Affine { offset: 3, coefs: Strides::from_slice(&[0, -1]) });
    }
}
