//! How an operand lies in memory: a chain of views of a larger tensor, made by the backend under test and, for the
//! reference, by index arithmetic here.

use super::choices::Choices;
use super::value::Value;
use burn_backend::{Backend, Shape, Slice};

/// One view.
#[derive(Clone, Debug)]
pub enum View {
    /// Axes in another order.
    Permute(Vec<usize>),
    /// Axes backwards.
    Flip(Vec<usize>),
    /// Parts of axes.
    Slice(Vec<Slice>),
    /// Axes of one element repeated.
    Expand(Vec<usize>),
    /// The same elements in another shape.
    Reshape(Vec<usize>),
}

/// Elements of a flat tensor by their shape: what a view of it shows.
#[derive(Clone)]
pub struct Positions {
    /// The shape.
    pub shape: Vec<usize>,
    /// The position of each element, in rows.
    pub at: Vec<usize>,
}

/// The strides of a contiguous tensor.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

impl Positions {
    /// All elements of a tensor.
    pub fn whole(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), at: (0..shape.iter().product()).collect() }
    }

    /// The element at `source(coordinates)` for all coordinates of `shape`.
    fn mapped(&self, shape: Vec<usize>, source: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let strides_of = strides(&self.shape);
        let mut coordinates = vec![0; shape.len()];
        let count = shape.iter().product();
        let mut at = Vec::with_capacity(count);
        for _ in 0..count {
            let from: usize = source(&coordinates).iter().zip(&strides_of).map(|(c, s)| c * s).sum();
            at.push(self.at[from]);
            for axis in (0..shape.len()).rev() {
                coordinates[axis] += 1;
                if coordinates[axis] < shape[axis] {
                    break;
                }
                coordinates[axis] = 0;
            }
        }
        Self { shape, at }
    }

    /// What a view of this shows.
    pub fn view(&self, view: &View) -> Self {
        match view {
            View::Permute(axes) => {
                let shape = axes.iter().map(|&axis| self.shape[axis]).collect();
                self.mapped(shape, |c| {
                    let mut from = vec![0; c.len()];
                    axes.iter().zip(c).for_each(|(&axis, &c)| from[axis] = c);
                    from
                })
            }
            View::Flip(axes) => self.mapped(self.shape.clone(), |c| {
                let flipped = |(axis, &c)| if axes.contains(&axis) { self.shape[axis] - 1 - c } else { c };
                c.iter().enumerate().map(flipped).collect()
            }),
            View::Slice(slices) => {
                let bounds = |(slice, &extent): (&Slice, &usize)| {
                    let from = |end: isize| if end < 0 { end + extent as isize } else { end };
                    (from(slice.start), from(slice.end.unwrap_or(extent as isize)), slice.step)
                };
                let bounds: Vec<_> = slices.iter().zip(&self.shape).map(bounds).collect();
                let extent = |&(start, end, step): &(isize, isize, isize)| {
                    ((end - start) as usize).div_ceil(step.unsigned_abs())
                };
                self.mapped(bounds.iter().map(extent).collect(), |c| {
                    let source = |(&(start, end, step), &c): (&(isize, isize, isize), &usize)| {
                        let first = if step < 0 { end - 1 } else { start };
                        (first + c as isize * step) as usize
                    };
                    bounds.iter().zip(c).map(source).collect()
                })
            }
            View::Expand(shape) => {
                let leading = shape.len() - self.shape.len();
                self.mapped(shape.clone(), |c| {
                    c[leading..]
                        .iter()
                        .zip(&self.shape)
                        .map(|(&c, &extent)| if extent == 1 { 0 } else { c })
                        .collect()
                })
            }
            View::Reshape(shape) => Self { shape: shape.clone(), at: self.at.clone() },
        }
    }
}

impl View {
    /// The view of a backend's tensor.
    pub fn apply<B: Backend>(&self, tensor: Value<B>) -> Value<B> {
        use Value::{Bool, Float, Int};
        macro_rules! each {
            ($float:ident, $int:ident, $bool:ident, $($argument:expr),*) => {
                match tensor {
                    Float(x) => Float(B::$float(x, $($argument),*)),
                    Int(x) => Int(B::$int(x, $($argument),*)),
                    Bool(x) => Bool(B::$bool(x, $($argument),*)),
                }
            };
        }
        let shape_of = |shape: &[usize]| Shape::from(shape.to_vec());
        match self {
            Self::Permute(axes) => each!(float_permute, int_permute, bool_permute, axes),
            Self::Flip(axes) => each!(float_flip, int_flip, bool_flip, axes),
            Self::Slice(slices) => each!(float_slice, int_slice, bool_slice, slices),
            Self::Expand(shape) => each!(float_expand, int_expand, bool_expand, shape_of(shape)),
            Self::Reshape(shape) => each!(float_reshape, int_reshape, bool_reshape, shape_of(shape)),
        }
    }
}

/// A part of an axis with `extent` elements: the slice, and how long the axis is.
pub fn slice_of(c: &mut Choices, extent: usize) -> (Slice, usize) {
    let step = c.pick(&[1, 1, -1, 2, 3, -2]);
    let (before, after) = (c.below(3), c.below(3));
    let span = if extent == 0 { 0 } else { (extent - 1) * isize::unsigned_abs(step) + 1 };
    let length = before + span + after;
    let end = match (after, c.below(2)) {
        (0, _) => None,
        (_, 0) => Some((before + span) as isize),
        _ => Some(-(after as isize)),
    };
    (Slice::new(before as isize, end, step), length)
}

/// The shape of a tensor and the views of it that end at `shape`.
pub fn layout(c: &mut Choices, shape: &[usize]) -> (Vec<usize>, Vec<View>) {
    let count = if c.one_in(2) { c.within(1, 3) } else { 0 };
    let mut shape = shape.to_vec();
    let mut views = Vec::new();
    // From the operand back to what it is a view of.
    for _ in 0..count {
        let rank = shape.len();
        let view = match c.below(5) {
            _ if rank == 0 => break,
            0 => {
                let axes = c.permutation(rank);
                let mut source = vec![0; rank];
                axes.iter().zip(&shape).for_each(|(&axis, &extent)| source[axis] = extent);
                shape = source;
                View::Permute(axes)
            }
            1 => {
                let mut slices = Vec::new();
                for extent in &mut shape {
                    let (slice, length) =
                        if c.one_in(2) { slice_of(c, *extent) } else { (Slice::full(), *extent) };
                    slices.push(slice);
                    *extent = length;
                }
                View::Slice(slices)
            }
            2 => View::Flip((0..rank).filter(|_| c.one_in(2)).collect()),
            3 => {
                let target = shape.clone();
                for extent in &mut shape {
                    if c.one_in(2) && *extent != 0 {
                        *extent = 1;
                    }
                }
                View::Expand(target)
            }
            _ => {
                let target = shape.clone();
                // Two neighbours joined, or a factor split off.
                let axis = c.below(rank);
                if c.one_in(2) && rank < 6 && shape[axis].is_multiple_of(2) {
                    shape[axis] /= 2;
                    shape.insert(axis, 2);
                } else if axis + 1 < rank {
                    shape[axis] *= shape.remove(axis + 1);
                }
                View::Reshape(target)
            }
        };
        views.push(view);
        if shape.iter().product::<usize>() > 100_000 {
            break;
        }
    }
    views.reverse();
    (shape, views)
}
