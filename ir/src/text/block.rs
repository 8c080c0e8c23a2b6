//! The textual form of blocks.

use super::ParseError;
use super::cursor::Cursor;
use super::separated::Separated;
use crate::{
    Access, ArgReduceOp, BinaryOp, Block, CompareOp, DimKind, DomainDim, Gather, Instr, OPEN_STRIDE, Operand,
    Param, ParamId, ParamMode, Statement, Store, StrideArgument, UnaryOp,
};
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for ParamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// The strides: `[784, 1]`; `?2` is number 2 of the launch.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.arguments.is_empty() {
            return write!(f, "{:?}", self.strides);
        }
        let stride = |(dim, stride): (usize, &i64)| match self.argument(dim) {
            Some(argument) => format!("?{argument}"),
            None => stride.to_string(),
        };
        let strides: Vec<_> = self.strides.iter().enumerate().map(stride).collect();
        write!(f, "[{}]", strides.join(", "))
    }
}

/// `p 128` or `r 784`; `p ?1 to 512` is number 1 of the launch, at most 512.
impl fmt::Display for DomainDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DimKind::Parallel => "p",
            DimKind::Reduction => "r",
        };
        match self.argument {
            Some(argument) => write!(f, "{kind} ?{argument} to {}", self.size),
            None => write!(f, "{kind} {}", self.size),
        }
    }
}

/// Modes and their names in the textual form.
const MODES: [(ParamMode, &str); 3] =
    [(ParamMode::In, "in"), (ParamMode::Out, "out"), (ParamMode::InOut, "inout")];

impl fmt::Display for ParamMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        MODES.iter().filter(|row| row.0 == *self).try_for_each(|row| f.write_str(row.1))
    }
}

impl FromStr for ParamMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        MODES.iter().find(|row| row.1 == text).map(|row| row.0).ok_or(())
    }
}

/// `in f32 align 64`.
impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} align {}", self.mode, self.dtype, self.alignment)
    }
}

impl fmt::Display for Instr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { param, access } => write!(f, "load {param} {access}"),
            Self::Gather(Gather { param, access, index, stride, extent }) => {
                write!(f, "gather {param} {access} index {index} stride {stride} extent {extent}")
            }
            Self::Scalar { slot } => write!(f, "scalar ${slot}"),
            Self::Constant { value } => write!(f, "constant {value}"),
            Self::Index { access, offset } => write!(f, "index {access} offset {offset}"),
            Self::Random { key, stream, access, offset } => {
                write!(f, "random key ${key} stream ${stream} {access} offset {offset}")
            }
            Self::Unary(op, a) => write!(f, "{op} {a}"),
            Self::Binary(op, a, b) => write!(f, "{op} {a}, {b}"),
            Self::Compare(op, a, b) => write!(f, "{op} {a}, {b}"),
            Self::Select(c, a, b) => write!(f, "select {c}, {a}, {b}"),
            Self::Cast(a) => write!(f, "cast {a}"),
            Self::Bitcast(a) => write!(f, "bitcast {a}"),
            Self::Reduce(op, a) => write!(f, "reduce {op} {a}"),
            Self::ArgReduce(op, a) => write!(f, "{op} {a}"),
            Self::Contract(a, b) => write!(f, "contract {a}, {b}"),
        }
    }
}

/// `exp %0 : f32`.
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : {}", self.instr, self.dtype)
    }
}

/// `store %3 -> @1 [784, 1]`.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {} -> {} {}", self.value, self.param, self.access)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "block [{}] ({}) {{", Separated(&self.domain), Separated(&self.scalars))?;
        for (index, param) in self.params.iter().enumerate() {
            writeln!(f, "  @{index} = {param}")?;
        }
        for (index, statement) in self.body.iter().enumerate() {
            writeln!(f, "  %{index} = {statement}")?;
        }
        self.stores.iter().try_for_each(|store| writeln!(f, "  {store}"))?;
        f.write_str("}")
    }
}

/// Reads what follows the word `block`.
pub(super) fn block(cursor: &mut Cursor<'_>) -> Result<Block, ParseError> {
    let mut block = Block {
        domain: cursor.list(['[', ']'], domain_dim)?,
        scalars: cursor.list(['(', ')'], Cursor::dtype)?,
        params: Vec::new(),
        body: Vec::new(),
        stores: Vec::new(),
    };
    cursor.punctuation('{')?;
    while cursor.at('@') {
        cursor.definition('@', block.params.len())?;
        cursor.punctuation('=')?;
        block.params.push(Param {
            mode: cursor.value("`in`, `out` or `inout`")?,
            dtype: cursor.dtype()?,
            alignment: cursor.field("align", "an alignment in bytes")?,
        });
    }
    while cursor.at('%') {
        cursor.definition('%', block.body.len())?;
        cursor.punctuation('=')?;
        let instr = instr(cursor)?;
        cursor.punctuation(':')?;
        block.body.push(Statement { instr, dtype: cursor.dtype()? });
    }
    while cursor.eat_word("store") {
        let value = operand(cursor)?;
        cursor.arrow()?;
        block.stores.push(Store { value, param: param(cursor)?, access: access(cursor)? });
    }
    if cursor.eat('}') {
        Ok(block)
    } else {
        cursor.error("`store` or `}` (after parameters `@`, then statements `%`)")
    }
}

fn domain_dim(cursor: &mut Cursor<'_>) -> Result<DomainDim, ParseError> {
    let kind = if cursor.eat_word("p") {
        DimKind::Parallel
    } else if cursor.eat_word("r") {
        DimKind::Reduction
    } else {
        return cursor.error("`p` (parallel) or `r` (reduction)");
    };
    let argument = open(cursor)?;
    if argument.is_some() {
        cursor.word("to")?;
    }
    Ok(DomainDim { kind, size: cursor.value("a size")?, argument })
}

/// Reads the parameters and operands of a statement.
pub(super) type Form = fn(&mut Cursor<'_>) -> Result<Instr, ParseError>;

/// The statements that are not functions of the enums' tables, by their first word.
pub(super) const FORMS: &[(&str, Form)] = &[
    ("load", |c| Ok(Instr::Load { param: param(c)?, access: access(c)? })),
    ("gather", |c| {
        let (param, access) = (param(c)?, access(c)?);
        c.word("index")?;
        let index = operand(c)?;
        let stride = c.field("stride", "a stride")?;
        Ok(Instr::Gather(Gather { param, access, index, stride, extent: c.field("extent", "an extent")? }))
    }),
    ("scalar", |c| Ok(Instr::Scalar { slot: c.reference('$')? })),
    ("constant", |c| Ok(Instr::Constant { value: c.value("a constant")? })),
    ("index", |c| Ok(Instr::Index { access: access(c)?, offset: c.field("offset", "an offset")? })),
    ("random", |c| {
        c.word("key")?;
        let key = c.reference('$')?;
        c.word("stream")?;
        let stream = c.reference('$')?;
        Ok(Instr::Random { key, stream, access: access(c)?, offset: c.field("offset", "an offset")? })
    }),
    ("select", |c| operands(c).map(|[condition, a, b]| Instr::Select(condition, a, b))),
    ("cast", |c| operand(c).map(Instr::Cast)),
    ("bitcast", |c| operand(c).map(Instr::Bitcast)),
    ("reduce", |c| Ok(Instr::Reduce(c.value("a reduction")?, operand(c)?))),
    ("contract", |c| operands(c).map(|[a, b]| Instr::Contract(a, b))),
];

fn instr(cursor: &mut Cursor<'_>) -> Result<Instr, ParseError> {
    if let Some((_, form)) = FORMS.iter().find(|(name, _)| cursor.eat_word(name)) {
        return form(cursor);
    }
    if let Ok(op) = cursor.value::<UnaryOp>("") {
        return Ok(Instr::Unary(op, operand(cursor)?));
    }
    if let Ok(op) = cursor.value::<BinaryOp>("") {
        return operands(cursor).map(|[a, b]| Instr::Binary(op, a, b));
    }
    if let Ok(op) = cursor.value::<CompareOp>("") {
        return operands(cursor).map(|[a, b]| Instr::Compare(op, a, b));
    }
    let op: ArgReduceOp = cursor.value("a statement")?;
    Ok(Instr::ArgReduce(op, operand(cursor)?))
}

fn operand(cursor: &mut Cursor<'_>) -> Result<Operand, ParseError> {
    cursor.reference('%').map(Operand)
}

fn operands<const N: usize>(cursor: &mut Cursor<'_>) -> Result<[Operand; N], ParseError> {
    let mut operands = [Operand(0); N];
    for (index, slot) in operands.iter_mut().enumerate() {
        if index > 0 {
            cursor.punctuation(',')?;
        }
        *slot = operand(cursor)?;
    }
    Ok(operands)
}

fn param(cursor: &mut Cursor<'_>) -> Result<ParamId, ParseError> {
    cursor.reference('@').map(ParamId)
}

fn access(cursor: &mut Cursor<'_>) -> Result<Access, ParseError> {
    let (mut arguments, mut dim) = (SmallVec::new(), 0);
    let strides = cursor.list(['[', ']'], |cursor| {
        dim += 1;
        match open(cursor)? {
            Some(argument) => {
                arguments.push(StrideArgument { dim: dim - 1, argument });
                Ok(OPEN_STRIDE)
            }
            None => cursor.value("a stride"),
        }
    })?;
    Ok(Access { strides, arguments })
}

/// `?3`: a number of the launch.
fn open(cursor: &mut Cursor<'_>) -> Result<Option<u32>, ParseError> {
    if cursor.at('?') { cursor.reference('?').map(Some) } else { Ok(None) }
}
