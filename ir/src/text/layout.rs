//! The textual form of layouts.

use crate::{Layout, Shape, Strides};
use std::fmt;

/// `[2, 3] strides [3, 1] offset 4`; without what is row-major and 0.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.shape, LayoutTail(self))
    }
}

/// What is special in a layout: ` strides [1, 4] offset 3`, or nothing for row-major from 0.
pub(super) struct LayoutTail<'a>(pub &'a Layout);

impl fmt::Display for LayoutTail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layout { shape, strides, offset } = self.0;
        if dense_strides(shape).as_ref() != Some(strides) {
            write!(f, " strides {strides:?}")?;
        }
        if *offset != 0 {
            write!(f, " offset {offset}")?;
        }
        Ok(())
    }
}

/// The strides of a row-major tensor, unless they do not fit.
pub(crate) fn dense_strides(shape: &Shape) -> Option<Strides> {
    let mut strides = Strides::from_elem(0, shape.rank());
    let mut step = 1i64;
    for axis in (0..shape.rank()).rev() {
        strides[axis] = step;
        step = step.checked_mul(i64::try_from(shape[axis]).ok()?)?;
    }
    Some(strides)
}
