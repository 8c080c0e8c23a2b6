//! Lists without delimiters.

use std::fmt;

/// Items separated by `, `, without delimiters.
pub(crate) struct Separated<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for Separated<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
