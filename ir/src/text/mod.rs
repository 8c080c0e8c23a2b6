//! The textual form of graphs, kernels and plans.
//!
//! `Display` prints, [`Graph::parse`](crate::Graph::parse) and [`Kernel::parse`](crate::Kernel::parse)
//! (and `FromStr`) read; printing what was read gives the text back. A plan only prints. The text of
//! a kernel is its canonical form and serves as its key: every field is in it. Whether what was read
//! makes sense is for the verifiers to say.
//!
//! ```text
//! graph (f32) {
//!   %0 = input 0 donated : f32[128, 784]
//!   %1 = input 1 : f32[784, 512] strides [1, 784]   // column-major
//!   %2 = contract "mk,kn->mn" %0, %1 : f32[128, 512]
//!   %3 = fill $0 : f32[128, 512]
//!   %4 = max %2, %3 : f32[128, 512]
//!   %5 = slice [0:+64:2, 511:+512:-1] %4 : f32[64, 512]
//!   %6 = reduce sum [1] %5 : f32[64, 1]
//!   return %4, %6
//! }
//!
//! block [p 128, r 784] (f32) {        // 128 rows, each reduced over 784 columns
//!   @0 = in f32 align 64
//!   @1 = out f32 align 64
//!   %0 = load @0 [784, 1] : f32       // one stride for each dimension of the domain
//!   %1 = exp %0 : f32
//!   %2 = reduce sum %1 : f32
//!   %3 = scalar $0 : f32
//!   %4 = div %2, %3 : f32
//!   store %4 -> @1 [1, 0]
//! }
//! ```
//!
//! # Grammar
//!
//! `X*` means any number of X, `X,*` any number separated by commas, `X?` an optional X. White space
//! and line ends only separate; `//` starts a comment.
//!
//! ```text
//! graph     = "graph" "(" dtype,* ")" "{" node* "return" value,* "}"    types of $0, $1, ...
//! node      = "%"N "=" op value,* ":" dtype shape ("strides" ints)? ("offset" int)?
//!                                       the last two for inputs that are not row-major from 0
//! value     = "%"N                      nodes and statements are numbered from 0 in order
//! shape     = "[" extent,* "]"
//! ints      = "[" int,* "]"
//! dtype     = "f64" | "f32" | "flex32" | "f16" | "bf16" | "i64" | ... | "u8" | "bool"
//! op        = "input" N "donated"? ("align" N)?
//!           | "fill" "$"N | "constant" literal | "iota" axis | "random" "key" "$"N "stream" "$"N
//!           | unary | binary | compare | "select" | "cast" | "bitcast"
//!           | "reshape" | "permute" ints | "expand" | "slice" ranges
//!           | "unfold" axis "size" N "step" N "dilation" N
//!           | "reduce" reduction ints | ("argmax" | "argmin") ints | "scan" reduction axis
//!           | "contract" '"' labels "," labels "->" labels '"'
//!           | "gather" axis | "scatter" ("assign" | "add" | "mul" | "max" | "min") axis
//!           | "sort" "descending"? axis | "argsort" "descending"? axis
//!           | "concat" axis | "slice_update" ranges
//!           | "attention" "scale" "$"N ("softcap" "$"N)? "causal"? "masked"? "biased"?
//! axis      = "axis" N
//! ranges    = "[" (start ":" "+" size ":" step),* "]"
//! reduction = "sum" | "prod" | "max" | "min"
//! unary     = the names of UnaryOp;  binary = of BinaryOp;  compare = of CompareOp
//! literal   = an int, or a float with a point or an exponent, "nan", "inf", "-inf",
//!             "nan0x" and the 64 bits of any other NaN
//!
//! kernel    = block | scatter | sort | scan | attention
//! block     = "block" "[" (("p" | "r") (number "to")? size),* "]" "(" dtype,* ")" "{" param* statement* store* "}"
//! number    = "?"N                                  // an argument of the launch, behind the scalars
//! param     = "@"N "=" ("in" | "out" | "inout") dtype "align" bytes
//! statement = "%"N "=" instr ":" dtype
//! access    = "[" (int | number),* "]"
//! instr     = "load" "@"N access | "scalar" "$"N | "constant" literal
//!           | "gather" "@"N access "index" value "stride" int "extent" N
//!           | "index" ints "offset" int
//!           | "random" "key" "$"N "stream" "$"N ints "offset" int
//!           | unary value | binary value "," value | compare value "," value
//!           | "select" value "," value "," value | "cast" value | "bitcast" value
//!           | "reduce" reduction value | ("argmax" | "argmin") value | "contract" value "," value
//! store     = "store" value "->" "@"N access
//! scatter   = "scatter" op dtype "at" dtype "{" "shape" shape axis "extent" N
//!             "data" ints "indices" ints "updates" ints "}"
//! sort      = "sort" "descending"? dtype ("to" dtype)? "{" "shape" shape axis
//!             "input" ints "output" ints "}"
//! scan      = "scan" reduction dtype "{" "shape" shape axis "input" ints "output" ints "}"
//! attention = "attention" dtype "causal"? "softcap"? "{" "batch" N "heads" N "kv_heads" N
//!             "queries" N "keys" N "width" N "value_width" N
//!             "query" view "key" view "value" view ("mask" view)? ("bias" view)?
//!             "output" view ("lse" view)? "}"
//! view      = ints "align" bytes
//! ```

mod attention;
mod block;
mod cursor;
mod graph;
mod kernel;
mod layout;
mod lexer;
mod plan;
mod separated;

pub(crate) use separated::Separated;

/// Text that does not follow the grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// Line, counted from 1.
    pub line: usize,
    /// Character in the line, counted from 1.
    pub column: usize,
    /// What could have stood there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

#[cfg(test)]
mod tests {
    use crate::{ArgReduceOp, BinaryOp, CompareOp, Graph, Kernel, UnaryOp};
    use std::collections::HashSet;

    /// An operation is read by its first word, so no word may name two.
    #[test]
    fn first_words_are_distinct() {
        let functions = || {
            (UnaryOp::ALL.iter().map(|op| op.name()))
                .chain(BinaryOp::ALL.iter().map(|op| op.name()))
                .chain(CompareOp::ALL.iter().map(|op| op.name()))
                .chain(ArgReduceOp::ALL.iter().map(|op| op.name()))
        };
        let mut in_graphs = functions().chain(super::graph::FORMS.iter().map(|form| form.0));
        let mut in_blocks = functions().chain(super::block::FORMS.iter().map(|form| form.0));
        let mut seen = HashSet::new();
        assert_eq!(in_graphs.find(|word| !seen.insert(*word)), None);
        seen.clear();
        assert_eq!(in_blocks.find(|word| !seen.insert(*word)), None);
    }

    #[test]
    fn the_examples_above_are_valid() {
        let documentation = include_str!("mod.rs").lines().map(|line| line.trim_start_matches("//! "));
        let example =
            documentation.skip_while(|line| *line != "```text").skip(1).take_while(|line| *line != "```");
        let example = example.collect::<Vec<_>>().join("\n");
        let (graph, kernel) = example.split_once("\n//!\n").unwrap();
        assert_eq!(Graph::parse(graph).unwrap().verify(), Ok(()));
        assert_eq!(Kernel::parse(kernel).unwrap().verify(), Ok(()));
    }
}
