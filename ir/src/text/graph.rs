//! The textual form of graphs.

use super::ParseError;
use super::cursor::Cursor;
use super::layout::{LayoutTail, dense_strides};
use super::separated::Separated;
use crate::op::type_text;
use crate::{
    ArgReduceOp, AttentionOp, BinaryOp, CompareOp, Graph, Labels, Layout, Node, Op, Shape, SliceDim, Strides,
    UnaryOp, ValueId,
};
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for SliceDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:+{}:{}", self.start, self.size, self.step)
    }
}

/// The operation and its parameters as they stand before the operands; the layout of an input
/// stands in its type.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { slot, donated, alignment, .. } => {
                write!(f, "input {slot}{}", if *donated { " donated" } else { "" })?;
                if *alignment > 1 { write!(f, " align {alignment}") } else { Ok(()) }
            }
            Self::Fill { slot } => write!(f, "fill ${slot}"),
            Self::Constant { value } => write!(f, "constant {value}"),
            Self::Iota { axis } => write!(f, "iota axis {axis}"),
            Self::Random { key, stream } => write!(f, "random key ${key} stream ${stream}"),
            Self::Unary(op) => op.fmt(f),
            Self::Binary(op) => op.fmt(f),
            Self::Compare(op) => op.fmt(f),
            Self::Select => f.write_str("select"),
            Self::Cast => f.write_str("cast"),
            Self::Bitcast => f.write_str("bitcast"),
            Self::Reshape => f.write_str("reshape"),
            Self::Permute { axes } => write!(f, "permute {axes:?}"),
            Self::Expand => f.write_str("expand"),
            Self::Slice { dims } => write!(f, "slice [{}]", Separated(dims)),
            Self::Unfold { axis, size, step, dilation } => {
                write!(f, "unfold axis {axis} size {size} step {step} dilation {dilation}")
            }
            Self::Reduce { op, axes } => write!(f, "reduce {op} {axes:?}"),
            Self::ArgReduce { op, axes } => write!(f, "{op} {axes:?}"),
            Self::Paths => f.write_str("paths"),
            Self::Scan { op, axis } => write!(f, "scan {op} axis {axis}"),
            Self::Contract { lhs, rhs, out } => write!(f, "contract \"{lhs},{rhs}->{out}\""),
            Self::Gather { axis } => write!(f, "gather axis {axis}"),
            Self::Scatter { op, axis } => write!(f, "scatter {op} axis {axis}"),
            Self::Sort { axis, descending } => write!(f, "sort {}axis {axis}", direction(*descending)),
            Self::ArgSort { axis, descending } => {
                write!(f, "argsort {}axis {axis}", direction(*descending))
            }
            Self::Concat { axis } => write!(f, "concat axis {axis}"),
            Self::SliceUpdate { dims } => write!(f, "slice_update [{}]", Separated(dims)),
            Self::Attention(op) => op.fmt(f),
        }
    }
}

impl fmt::Display for AttentionOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attention scale ${}", self.scale)?;
        if let Some(cap) = self.softcap {
            write!(f, " softcap ${cap}")?;
        }
        let flags = [("causal", self.causal), ("masked", self.masked), ("biased", self.biased)];
        flags.iter().filter(|flag| flag.1).try_for_each(|flag| write!(f, " {}", flag.0))
    }
}

fn direction(descending: bool) -> &'static str {
    if descending { "descending " } else { "" }
}

/// `exp %0 : f32[4]`.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if !self.operands.is_empty() {
            write!(f, " {}", Separated(&self.operands))?;
        }
        write!(f, " : {}", type_text(self.dtype, &self.shape))?;
        if let Op::Input { layout, .. } = &self.op {
            write!(f, "{}", LayoutTail(layout))?;
        }
        Ok(())
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph ({}) {{", Separated(&self.scalars))?;
        for (index, node) in self.nodes.iter().enumerate() {
            writeln!(f, "  %{index} = {node}")?;
        }
        if self.results.is_empty() {
            f.write_str("  return\n}")
        } else {
            write!(f, "  return {}\n}}", Separated(&self.results))
        }
    }
}

impl Graph {
    /// A graph from its textual form. The result need not be valid: see [`Graph::verify`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl FromStr for Graph {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text)?;
        let mut graph = Self::default();
        cursor.word("graph")?;
        graph.scalars = cursor.list(['(', ')'], Cursor::dtype)?;
        cursor.punctuation('{')?;
        while !cursor.eat_word("return") {
            if !cursor.at('%') {
                return cursor.error(format!("`%{}` or `return`", graph.nodes.len()));
            }
            cursor.definition('%', graph.nodes.len())?;
            cursor.punctuation('=')?;
            graph.nodes.push(node(&mut cursor)?);
        }
        graph.results = values(&mut cursor)?;
        cursor.punctuation('}')?;
        cursor.end()?;
        Ok(graph)
    }
}

/// Reads the parameters of an operation.
pub(super) type Form = fn(&mut Cursor<'_>) -> Result<Op, ParseError>;

/// The operations that are not elementwise functions of the enums' tables, by their first word.
pub(super) const FORMS: &[(&str, Form)] = &[
    ("input", |c| {
        let slot = c.value("an input's number")?;
        let layout = Layout { shape: Shape::default(), strides: Strides::new(), offset: 0 };
        let donated = c.eat_word("donated");
        let alignment = if c.eat_word("align") { c.value("an alignment in bytes")? } else { 1 };
        Ok(Op::Input { slot, donated, alignment, layout })
    }),
    ("fill", |c| Ok(Op::Fill { slot: c.reference('$')? })),
    ("constant", |c| Ok(Op::Constant { value: c.value("a constant")? })),
    ("iota", |c| Ok(Op::Iota { axis: axis(c)? })),
    ("random", |c| {
        c.word("key")?;
        let key = c.reference('$')?;
        c.word("stream")?;
        Ok(Op::Random { key, stream: c.reference('$')? })
    }),
    ("select", |_| Ok(Op::Select)),
    ("cast", |_| Ok(Op::Cast)),
    ("bitcast", |_| Ok(Op::Bitcast)),
    ("reshape", |_| Ok(Op::Reshape)),
    ("permute", |c| Ok(Op::Permute { axes: c.numbers("an axis")? })),
    ("expand", |_| Ok(Op::Expand)),
    ("slice", |c| Ok(Op::Slice { dims: slice_dims(c)? })),
    ("unfold", |c| {
        Ok(Op::Unfold {
            axis: axis(c)?,
            size: c.field("size", "a number")?,
            step: c.field("step", "a number")?,
            dilation: c.field("dilation", "a number")?,
        })
    }),
    ("reduce", |c| Ok(Op::Reduce { op: c.value("a reduction")?, axes: c.numbers("an axis")? })),
    ("paths", |_| Ok(Op::Paths)),
    ("scan", |c| Ok(Op::Scan { op: c.value("a reduction")?, axis: axis(c)? })),
    ("contract", |c| {
        let what = "labels in quotes, such as \"mk,kn->mn\"";
        let token = c.peek();
        let [lhs, rhs, out] = labels(c.quoted(what)?).ok_or_else(|| token.error(what))?;
        Ok(Op::Contract { lhs, rhs, out })
    }),
    ("gather", |c| Ok(Op::Gather { axis: axis(c)? })),
    ("scatter", |c| Ok(Op::Scatter { op: c.value("a scatter operation")?, axis: axis(c)? })),
    ("sort", |c| Ok(Op::Sort { descending: c.eat_word("descending"), axis: axis(c)? })),
    ("argsort", |c| Ok(Op::ArgSort { descending: c.eat_word("descending"), axis: axis(c)? })),
    ("concat", |c| Ok(Op::Concat { axis: axis(c)? })),
    ("attention", |c| {
        c.word("scale")?;
        let scale = c.reference('$')?;
        let softcap = if c.eat_word("softcap") { Some(c.reference('$')?) } else { None };
        let [causal, masked, biased] = ["causal", "masked", "biased"].map(|word| c.eat_word(word));
        Ok(Op::Attention(AttentionOp { scale, softcap, causal, masked, biased }))
    }),
    ("slice_update", |c| Ok(Op::SliceUpdate { dims: slice_dims(c)? })),
];

fn node(cursor: &mut Cursor<'_>) -> Result<Node, ParseError> {
    let mut op = operation(cursor)?;
    let operands = values(cursor)?;
    cursor.punctuation(':')?;
    let dtype = cursor.dtype()?;
    let token = cursor.peek();
    let shape = cursor.shape()?;
    if let Op::Input { layout, .. } = &mut op {
        layout.shape = shape.clone();
        layout.strides = if cursor.eat_word("strides") {
            cursor.numbers("a stride")?
        } else {
            dense_strides(&shape).ok_or_else(|| token.error("extents whose product fits 63 bits"))?
        };
        if cursor.eat_word("offset") {
            layout.offset = cursor.value("an offset")?;
        }
    }
    Ok(Node { op, operands, dtype, shape })
}

fn operation(cursor: &mut Cursor<'_>) -> Result<Op, ParseError> {
    if let Some((_, form)) = FORMS.iter().find(|(name, _)| cursor.eat_word(name)) {
        return form(cursor);
    }
    if let Ok(op) = cursor.value::<UnaryOp>("") {
        return Ok(Op::Unary(op));
    }
    if let Ok(op) = cursor.value::<BinaryOp>("") {
        return Ok(Op::Binary(op));
    }
    if let Ok(op) = cursor.value::<CompareOp>("") {
        return Ok(Op::Compare(op));
    }
    let op: ArgReduceOp = cursor.value("an operation")?;
    Ok(Op::ArgReduce { op, axes: cursor.numbers("an axis")? })
}

fn axis(cursor: &mut Cursor<'_>) -> Result<usize, ParseError> {
    cursor.field("axis", "an axis")
}

/// `%0, %1`, maybe none.
fn values<C: Extend<ValueId> + Default>(cursor: &mut Cursor<'_>) -> Result<C, ParseError> {
    if !cursor.at('%') {
        return Ok(C::default());
    }
    cursor.separated(|c| c.reference('%').map(ValueId))
}

fn slice_dims(cursor: &mut Cursor<'_>) -> Result<SmallVec<[SliceDim; 6]>, ParseError> {
    cursor.list(['[', ']'], |c| {
        let start = c.value("the first index of a range (start:+size:step)")?;
        c.punctuation(':')?;
        c.punctuation('+')?;
        let size = c.value("the size of a range (start:+size:step)")?;
        c.punctuation(':')?;
        Ok(SliceDim { start, size, step: c.value("the step of a range (start:+size:step)")? })
    })
}

/// `mk,kn->mn`.
fn labels(text: &str) -> Option<[Labels; 3]> {
    let (operands, out) = text.split_once("->")?;
    let (lhs, rhs) = operands.split_once(',')?;
    let letters = |text: &str| text.bytes().all(|b| b.is_ascii_alphabetic());
    [lhs, rhs, out].into_iter().all(letters).then(|| [lhs, rhs, out].map(Labels::new))
}
