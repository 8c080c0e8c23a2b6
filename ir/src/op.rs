//! The operations of a graph: a small orthogonal set from which a backend composes the rest.
//!
//! There is no convolution and no pooling here: both are one of these operations over an
//! [unfolded](Op::Unfold) (overlapping, strided) view, a convolution a [contraction](Op::Contract),
//! a pool a [reduction](Op::Reduce).

use crate::{DType, Layout, Literal, Shape};
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

/// Declares an enum whose variants have a name in the textual form, with `ALL`, `Display` and
/// `FromStr`.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every variant.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name used in the textual form.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                Self::ALL.iter().copied().find(|op| op.name() == text).ok_or(())
            }
        }
    };
}

named! {
    /// An elementwise function of one operand.
    UnaryOp {
        /// `-x`, wrapping for integers.
        Neg = "neg",
        /// `|x|`, wrapping for integers.
        Abs = "abs",
        /// -1, 0 or 1; NaN stays NaN.
        Sign = "sign",
        /// `1/x`.
        Recip = "recip",
        /// `e^x`.
        Exp = "exp",
        /// `e^x - 1` without cancellation near 0.
        Expm1 = "expm1",
        /// Natural logarithm.
        Log = "log",
        /// `log(1 + x)` without cancellation near 0.
        Log1p = "log1p",
        /// Square root.
        Sqrt = "sqrt",
        /// `1/√x`.
        Rsqrt = "rsqrt",
        /// Sine, radians.
        Sin = "sin",
        /// Cosine, radians.
        Cos = "cos",
        /// Tangent, radians.
        Tan = "tan",
        /// Inverse sine.
        Asin = "asin",
        /// Inverse cosine.
        Acos = "acos",
        /// Inverse tangent.
        Atan = "atan",
        /// Hyperbolic sine.
        Sinh = "sinh",
        /// Hyperbolic cosine.
        Cosh = "cosh",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Inverse hyperbolic sine.
        Asinh = "asinh",
        /// Inverse hyperbolic cosine.
        Acosh = "acosh",
        /// Inverse hyperbolic tangent.
        Atanh = "atanh",
        /// Error function.
        Erf = "erf",
        /// `1/(1 + e^-x)`.
        Sigmoid = "sigmoid",
        /// Rounded towards -∞.
        Floor = "floor",
        /// Rounded towards +∞.
        Ceil = "ceil",
        /// Rounded to nearest, ties to even.
        Round = "round",
        /// Rounded towards 0.
        Trunc = "trunc",
        /// Bitwise complement of an integer, negation of a truth value.
        Not = "not",
        /// Whether x is NaN; a truth value.
        IsNan = "isnan",
        /// Whether x is +∞ or -∞; a truth value.
        IsInf = "isinf",
    }
}

impl UnaryOp {
    /// Whether the result is a truth value whatever the operand's type.
    pub fn is_predicate(self) -> bool {
        matches!(self, Self::IsNan | Self::IsInf)
    }
}

named! {
    /// An elementwise function of two operands of one type.
    BinaryOp {
        /// Sum, wrapping for integers.
        Add = "add",
        /// Difference, wrapping for integers.
        Sub = "sub",
        /// Product, wrapping for integers.
        Mul = "mul",
        /// Quotient; integers truncate towards 0, and division by 0 gives 0.
        Div = "div",
        /// Remainder with the sign of the divisor (Python's `%`); integers give 0 for divisor 0.
        Rem = "rem",
        /// `a^b`.
        Pow = "pow",
        /// The larger; NaN if either is NaN.
        Max = "max",
        /// The smaller; NaN if either is NaN.
        Min = "min",
        /// Angle of the point (b, a).
        Atan2 = "atan2",
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// Shift left; 0 from the type's width on.
        Shl = "shl",
        /// Shift right, arithmetic for signed types.
        Shr = "shr",
    }
}

named! {
    /// An elementwise comparison; the result is a truth value, false for NaN except `ne`.
    CompareOp {
        /// `a == b`.
        Eq = "eq",
        /// `a != b`.
        Ne = "ne",
        /// `a < b`.
        Lt = "lt",
        /// `a <= b`.
        Le = "le",
        /// `a > b`.
        Gt = "gt",
        /// `a >= b`.
        Ge = "ge",
    }
}

named! {
    /// An associative combination of many elements into one.
    ReduceOp {
        /// Sum; f16 and bf16 accumulate in f32. Of nothing: 0.
        Sum = "sum",
        /// Product. Of nothing: 1.
        Prod = "prod",
        /// Maximum, NaN if any is NaN; `or` for truth values. Of nothing: the type's least value.
        Max = "max",
        /// Minimum, NaN if any is NaN; `and` for truth values. Of nothing: the type's largest value.
        Min = "min",
    }
}

named! {
    /// The position of an extreme element: the first one on a tie, the first NaN if there is one.
    ArgReduceOp {
        /// Position of the maximum.
        ArgMax = "argmax",
        /// Position of the minimum.
        ArgMin = "argmin",
    }
}

named! {
    /// What a scatter does with an element that several updates reach.
    ScatterOp {
        /// The update in row-major order that comes last wins.
        Assign = "assign",
        /// Updates are added in row-major order.
        Add = "add",
        /// Updates are multiplied in row-major order.
        Mul = "mul",
        /// Maximum with the element.
        Max = "max",
        /// Minimum with the element.
        Min = "min",
    }
}

/// A range of one axis: `size` elements from `start` in steps of `step` (negative: backwards).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceDim {
    /// Index of the first element taken.
    pub start: usize,
    /// Number of elements taken.
    pub size: usize,
    /// Distance between two elements taken; never 0.
    pub step: i64,
}

/// The axes of a contraction's operand: one letter each, as in einsum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Labels(pub SmallVec<[u8; 8]>);

impl Labels {
    /// Labels from a string such as `"bmk"`.
    pub fn new(text: &str) -> Self {
        Self(SmallVec::from_slice(text.as_bytes()))
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&label| write!(f, "{}", label as char))
    }
}

/// What an [attention](Op::Attention) is besides its operands.
///
/// A score is the product of a query and a key times the scale. It is capped, `cap · tanh(score / cap)`; then
/// -∞ where the mask is true; then, if causal, -∞ where the key is later than the query, both sequences
/// aligned at their ends; then the bias is added. A query all of whose scores are -∞ gives 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttentionOp {
    /// The scalar argument that scores are multiplied with, positive; of type [`Attention::scale_dtype`](crate::Attention::scale_dtype).
    pub scale: u32,
    /// The scalar argument that scores are capped with, positive, of the same type.
    pub softcap: Option<u32>,
    /// Whether queries see no later keys.
    pub causal: bool,
    /// Whether there is a mask, `bool[batch, heads, queries, keys]`.
    pub masked: bool,
    /// Whether there is a bias of the mask's shape and the other operands' type.
    pub biased: bool,
}

/// One operation of a graph. Operands, the element type and the shape of the result stand in the
/// [`Node`](crate::Node). Operands of elementwise operations have the shape of the result:
/// broadcasting is an explicit [`Expand`](Op::Expand).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "fields are described with their variant")]
pub enum Op {
    // Sources, no operands.
    /// A tensor that exists already, bound to input `slot` of the plan. `layout.offset` is 0: the
    /// offset is given when the plan runs. `donated`: nobody else holds the buffer, the plan may
    /// overwrite it. `alignment`: bytes that the address of its first element is known to be a multiple
    /// of, a power of two up to 64.
    Input { slot: u32, layout: Layout, donated: bool, alignment: u32 },
    /// Every element is the scalar argument `slot` of the plan.
    Fill { slot: u32 },
    /// Every element is a constant of the structure.
    Constant { value: Literal },
    /// The index along `axis`.
    Iota { axis: usize },
    /// 32 random bits an element (u32): Philox 4×32-10 of the row-major element index, keyed by the
    /// two u32 scalar arguments `key` and `stream`.
    Random { key: u32, stream: u32 },

    // Elementwise.
    /// A function of one operand.
    Unary(UnaryOp),
    /// A function of two operands of the result's type.
    Binary(BinaryOp),
    /// A comparison of two operands of one type.
    Compare(CompareOp),
    /// `condition ? a : b`; operands: condition (bool), a, b.
    Select,
    /// Conversion to the result's type. Float to integer truncates and saturates, NaN becomes 0;
    /// to bool is `!= 0`.
    Cast,
    /// The same bits as another type of the same size.
    Bitcast,

    // Views: no element is touched.
    /// Same elements in row-major order, another shape.
    Reshape,
    /// Result axis `i` is operand axis `axes[i]`.
    Permute { axes: SmallVec<[usize; 6]> },
    /// Extents of 1 repeated to the result's extents.
    Expand,
    /// A strided box.
    Slice { dims: SmallVec<[SliceDim; 6]> },
    /// Windows of `size` along `axis`, `step` apart; the window's own axis becomes the last one.
    /// Taken every `dilation` elements inside the window.
    Unfold { axis: usize, size: usize, step: usize, dilation: usize },

    // Combinations.
    /// Reduction over `axes`, which stay with extent 1.
    Reduce { op: ReduceOp, axes: SmallVec<[usize; 6]> },
    /// Row-major position within `axes` (which stay with extent 1) of an extreme element.
    ArgReduce { op: ArgReduceOp, axes: SmallVec<[usize; 6]> },
    /// Of all monotone paths through states, the logarithm of the sum of what they are worth, the exponential of
    /// the sum of their scores; operands: scores `[steps, sequences, states]` and, of the same shape, whether a state
    /// can be entered from the one but last before it (bool; of the first step only). A path begins in one of the
    /// first two states, and stays in its state, goes to the next one, or to the one after if that can be entered so.
    /// Result: that of all paths up to a step that end in a state; -∞ if there are none.
    Paths,
    /// Inclusive prefix combination along `axis`.
    Scan { op: ReduceOp, axis: usize },
    /// Sum of products in einsum notation; operands: lhs, rhs. A label in both operands and not in
    /// `out` is summed. f16 and bf16 accumulate in f32.
    Contract { lhs: Labels, rhs: Labels, out: Labels },
    /// `out[i] = data[i with axis replaced by indices[i]]`; operands: data, indices (shape of the
    /// result). An index outside the axis is an error reported on the next synchronisation.
    Gather { axis: usize },
    /// Data with `updates` combined in at `indices` along `axis`; operands: data, indices, updates.
    Scatter { op: ScatterOp, axis: usize },
    /// Sorted along `axis`, stable, NaN last (first if descending).
    Sort { axis: usize, descending: bool },
    /// The positions that would sort along `axis`, stable.
    ArgSort { axis: usize, descending: bool },
    /// Operands one after the other along `axis`.
    Concat { axis: usize },
    /// Scaled dot-product attention, `softmax(Q Kᵗ · scale) · V` over `[batch, heads, positions, width]`;
    /// operands: queries, keys, values, then the mask and the bias if there are. See [`Attention`](crate::Attention).
    Attention(AttentionOp),
    /// Data with a strided box replaced; operands: data, updates (shape of the box).
    SliceUpdate { dims: SmallVec<[SliceDim; 6]> },
}

impl Op {
    /// Whether the operation only changes how elements are indexed.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            Self::Reshape | Self::Permute { .. } | Self::Expand | Self::Slice { .. } | Self::Unfold { .. }
        )
    }

    /// Whether each result element depends only on the operands' elements at the same index.
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            Self::Unary(_) | Self::Binary(_) | Self::Compare(_) | Self::Select | Self::Cast | Self::Bitcast
        )
    }

    /// Whether the operation has no tensor operands and costs nothing to repeat.
    pub fn is_generator(&self) -> bool {
        matches!(self, Self::Fill { .. } | Self::Constant { .. } | Self::Iota { .. } | Self::Random { .. })
    }
}

/// A shape and an element type, as printed in the textual form: `f32[2, 3]`.
pub(crate) fn type_text(dtype: DType, shape: &Shape) -> String {
    format!("{dtype}{shape}")
}
