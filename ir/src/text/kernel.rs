//! The textual form of kernels.

use super::ParseError;
use super::attention::attention;
use super::block::block;
use super::cursor::Cursor;
use crate::{Access, Kernel, Paths, Scan, Scatter, Sort};
use std::fmt;
use std::str::FromStr;

/// The canonical text of a kernel: equal kernels print equal text, kernels that differ in any field
/// print different text.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) => block.fmt(f),
            Self::Scatter(scatter) => scatter.fmt(f),
            Self::Sort(sort) => sort.fmt(f),
            Self::Scan(scan) => scan.fmt(f),
            Self::Paths(paths) => paths.fmt(f),
            Self::Attention(attention) => attention.fmt(f),
        }
    }
}

impl fmt::Display for Scatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [data, indices, updates] = &self.accesses;
        writeln!(f, "scatter {} {} at {} {{", self.op, self.dtype, self.index_dtype)?;
        writeln!(f, "  shape {:?} axis {} extent {}", self.shape, self.axis, self.extent)?;
        write!(f, "  data {data}\n  indices {indices}\n  updates {updates}\n}}")
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [input, output] = &self.accesses;
        write!(f, "sort {}{}", if self.descending { "descending " } else { "" }, self.dtype)?;
        if let Some(index) = self.index_dtype {
            write!(f, " to {index}")?;
        }
        writeln!(f, " {{\n  shape {:?} axis {}", self.shape, self.axis)?;
        write!(f, "  input {input}\n  output {output}\n}}")
    }
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [input, output] = &self.accesses;
        writeln!(f, "scan {} {} {{", self.op, self.dtype)?;
        writeln!(f, "  shape {:?} axis {}", self.shape, self.axis)?;
        write!(f, "  input {input}\n  output {output}\n}}")
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [scores, skips, output] = &self.accesses;
        writeln!(f, "paths {} {{", self.dtype)?;
        writeln!(f, "  shape {:?}", self.shape)?;
        write!(f, "  scores {scores}\n  skips {skips}\n  output {output}\n}}")
    }
}

impl Kernel {
    /// A kernel from its textual form. The result need not be valid: see [`Kernel::verify`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl FromStr for Kernel {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text)?;
        let kernel = if cursor.eat_word("block") {
            Self::Block(block(&mut cursor)?)
        } else if cursor.eat_word("scatter") {
            Self::Scatter(scatter(&mut cursor)?)
        } else if cursor.eat_word("sort") {
            Self::Sort(sort(&mut cursor)?)
        } else if cursor.eat_word("scan") {
            Self::Scan(scan(&mut cursor)?)
        } else if cursor.eat_word("paths") {
            Self::Paths(paths(&mut cursor)?)
        } else if cursor.eat_word("attention") {
            Self::Attention(Box::new(attention(&mut cursor)?))
        } else {
            return cursor.error("`block`, `scatter`, `sort`, `scan`, `paths` or `attention`");
        };
        cursor.end()?;
        Ok(kernel)
    }
}

fn scatter(cursor: &mut Cursor<'_>) -> Result<Scatter, ParseError> {
    let op = cursor.value("a scatter operation")?;
    let dtype = cursor.dtype()?;
    let index_dtype = cursor.field("at", "an element type")?;
    cursor.punctuation('{')?;
    let shape = cursor.numbers_field("shape", "an extent")?;
    let axis = cursor.field("axis", "an axis")?;
    let extent = cursor.field("extent", "an extent")?;
    let accesses = accesses(cursor, ["data", "indices", "updates"])?;
    cursor.punctuation('}')?;
    Ok(Scatter { op, dtype, index_dtype, shape, axis, extent, accesses })
}

fn sort(cursor: &mut Cursor<'_>) -> Result<Sort, ParseError> {
    let descending = cursor.eat_word("descending");
    let dtype = cursor.dtype()?;
    let index_dtype = if cursor.eat_word("to") { Some(cursor.dtype()?) } else { None };
    cursor.punctuation('{')?;
    let shape = cursor.numbers_field("shape", "an extent")?;
    let axis = cursor.field("axis", "an axis")?;
    let accesses = accesses(cursor, ["input", "output"])?;
    cursor.punctuation('}')?;
    Ok(Sort { dtype, index_dtype, descending, shape, axis, accesses })
}

fn scan(cursor: &mut Cursor<'_>) -> Result<Scan, ParseError> {
    let op = cursor.value("a reduction")?;
    let dtype = cursor.dtype()?;
    cursor.punctuation('{')?;
    let shape = cursor.numbers_field("shape", "an extent")?;
    let axis = cursor.field("axis", "an axis")?;
    let accesses = accesses(cursor, ["input", "output"])?;
    cursor.punctuation('}')?;
    Ok(Scan { op, dtype, shape, axis, accesses })
}

fn paths(cursor: &mut Cursor<'_>) -> Result<Paths, ParseError> {
    let dtype = cursor.dtype()?;
    cursor.punctuation('{')?;
    let shape = cursor.numbers_field("shape", "an extent")?;
    let accesses = accesses(cursor, ["scores", "skips", "output"])?;
    cursor.punctuation('}')?;
    Ok(Paths { dtype, shape, accesses })
}

/// One line for each access, such as `input [4, 1]`.
fn accesses<const N: usize>(cursor: &mut Cursor<'_>, names: [&str; N]) -> Result<[Access; N], ParseError> {
    let mut accesses: [Access; N] = std::array::from_fn(|_| Access::default());
    for (access, name) in accesses.iter_mut().zip(names) {
        access.strides = cursor.numbers_field(name, "a stride")?;
    }
    Ok(accesses)
}
