//! The textual form of attention kernels.

use super::ParseError;
use super::cursor::Cursor;
use crate::{Access, Attention, AttentionOperand, AttentionSizes, BufferView, Strides};
use std::fmt;

/// The extents by name.
fn sizes(sizes: &mut AttentionSizes) -> [(&'static str, &mut usize); 7] {
    [
        ("batch", &mut sizes.batch),
        ("heads", &mut sizes.heads),
        ("kv_heads", &mut sizes.kv_heads),
        ("queries", &mut sizes.queries),
        ("keys", &mut sizes.keys),
        ("width", &mut sizes.width),
        ("value_width", &mut sizes.value_width),
    ]
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attention {}", self.dtype)?;
        let flags = [("causal", self.causal), ("softcap", self.softcap)];
        flags.iter().filter(|flag| flag.1).try_for_each(|flag| write!(f, " {}", flag.0))?;
        f.write_str(" {\n ")?;
        for (name, size) in sizes(&mut self.sizes.clone()) {
            write!(f, " {name} {size}")?;
        }
        for operand in self.operands() {
            let Some(BufferView { access, alignment }) = self.view(operand) else { continue };
            write!(f, "\n  {} {access} align {alignment}", operand.name())?;
        }
        f.write_str("\n}")
    }
}

/// Reads what follows the word `attention`.
pub(super) fn attention(cursor: &mut Cursor<'_>) -> Result<Attention, ParseError> {
    let dtype = cursor.dtype()?;
    let [causal, softcap] = ["causal", "softcap"].map(|word| cursor.eat_word(word));
    cursor.punctuation('{')?;
    let mut extents = AttentionSizes::default();
    for (name, size) in sizes(&mut extents) {
        *size = cursor.field(name, "an extent")?;
    }
    let query = view(cursor, AttentionOperand::Query)?;
    let key = view(cursor, AttentionOperand::Key)?;
    let value = view(cursor, AttentionOperand::Value)?;
    let mask = optional(cursor, AttentionOperand::Mask)?;
    let bias = optional(cursor, AttentionOperand::Bias)?;
    let output = view(cursor, AttentionOperand::Output)?;
    let lse = optional(cursor, AttentionOperand::Lse)?;
    cursor.punctuation('}')?;
    Ok(Attention { dtype, sizes: extents, causal, softcap, query, key, value, mask, bias, output, lse })
}

/// A line such as `query [64, 16, 4, 1] align 16`.
fn view(cursor: &mut Cursor<'_>, operand: AttentionOperand) -> Result<BufferView, ParseError> {
    cursor.word(operand.name())?;
    strides(cursor)
}

/// The same, or nothing.
fn optional(cursor: &mut Cursor<'_>, operand: AttentionOperand) -> Result<Option<BufferView>, ParseError> {
    if cursor.eat_word(operand.name()) { strides(cursor).map(Some) } else { Ok(None) }
}

fn strides(cursor: &mut Cursor<'_>) -> Result<BufferView, ParseError> {
    let strides: Strides = cursor.numbers("a stride")?;
    let access = Access::new(strides);
    Ok(BufferView { access, alignment: cursor.field("align", "an alignment in bytes")? })
}
