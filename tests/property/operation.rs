//! Rows of the tables: an operation, how its arguments are drawn, and how far its results may be off.

use super::choices::Choices;
use super::layout::layout;
use super::numbers::{Domain, Numbers};
use super::value::{Case, Input, Params, Value};
use burn_backend::{DType, FloatDType, IntDType};
use burn_flex::Flex;
use burn_mlir::Mlir;

/// How far a float result may be off the reference, which is computed in f64. Integers and truth values are exact.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// So many units in the last place of the exact value.
    Ulps(f64),
    /// One unit in the last place, and so many roundings of the accumulator's type relative to the result for operands
    /// without signs. For sums and sums of products.
    Sum(f64),
    /// The same, and so many roundings of the result's type on the way: a bias added to a stored product, or elements
    /// added to in memory.
    Stored(f64),
    /// The same where factors may be rounded to 10 bits (flex32 on GPUs).
    Products(f64),
    /// So many roundings of the result's type, relative to the larger of 1, the value and the largest finite value of
    /// the result. For compositions.
    Scaled(f64),
    /// The same times the root of the number of elements: the rounding errors of sums of as many terms of both signs,
    /// which cancel in the result, here and (in f64) in the reference.
    Cancelling(f64),
}

/// What computes the operation on one backend.
pub type Run<B> = fn(&Params, &[Value<B>]) -> Vec<Value<B>>;

/// What gives the right result.
pub enum Reference {
    /// The same operation of burn-flex in f64.
    Flex(Run<Flex>),
    /// A function in f64 of each element.
    Pointwise(fn(f64) -> f64),
    /// A function in f64 of each element of two operands that broadcast.
    Pair(fn(f64, f64) -> f64),
    /// Arithmetic on the elements of the operands and their shapes; one list for each result.
    Elements(fn(&Params, &[Elements]) -> Vec<Numbers>),
}

/// The elements of an operand in rows, and its shape.
pub type Elements = (Numbers, Vec<usize>);

/// What computes an operation on the backend under test.
pub enum Ours {
    /// For tables of the whole operation.
    Any(Run<Mlir>),
    /// A function of one tensor of floats.
    Unary(fn(burn_mlir::MlirTensor) -> burn_mlir::MlirTensor),
}

/// A row.
pub struct Operation {
    /// The name of Burn's method.
    pub name: &'static str,
    /// Draws its arguments.
    pub draw: fn(&mut Choices) -> Case,
    /// Computes it.
    pub ours: Ours,
    /// Computes it otherwise.
    pub reference: Reference,
    /// How far they may differ.
    pub tolerance: Tolerance,
}

/// Rows of `method(how to draw, tolerance) |params, operands, Backend| results;`, whose reference is burn-flex, or
/// what follows `against`.
macro_rules! operations {
    ($($name:ident($draw:expr, $tolerance:expr) $(against $reference:expr,)? |$p:ident, $x:ident, $B:ident| $body:expr;)*) => {
        vec![$({
            #[allow(unused_variables)]
            fn run<$B: crate::support::devices::Tested>(
                $p: &crate::property::value::Params,
                $x: &[crate::property::value::Value<$B>],
            ) -> Vec<crate::property::value::Value<$B>> {
                $body
            }
            #[allow(unused_mut, unused_assignments)]
            let mut reference = crate::property::operation::Reference::Flex(run::<burn_flex::Flex>);
            $(reference = $reference;)?
            crate::property::operation::Operation {
                name: stringify!($name),
                draw: $draw,
                ours: crate::property::operation::Ours::Any(run::<burn_mlir::Mlir>),
                reference,
                tolerance: $tolerance,
            }
        }),*]
    };
}
pub(crate) use operations;

/// The type of Burn's floats for an element type.
pub fn float_type(dtype: DType) -> FloatDType {
    if dtype.is_float() { dtype.into() } else { FloatDType::F32 }
}

/// The type of Burn's integers for an element type.
pub fn int_type(dtype: DType) -> IntDType {
    if dtype.is_int() || dtype.is_uint() { dtype.into() } else { IntDType::I32 }
}

impl Case {
    /// A case for elements of a type.
    pub fn of(c: &mut Choices, dtype: DType) -> Self {
        let mut case = Self::default();
        case.params.float = float_type(dtype);
        case.params.int = int_type(dtype);
        case.consumed = c.one_in(3);
        case.stored = c.one_in(3);
        case
    }

    /// Adds an operand.
    pub fn input(&mut self, c: &mut Choices, dtype: DType, shape: &[usize], domain: Domain) {
        let (base, views) = layout(c, shape);
        let computed = c.one_in(3);
        self.inputs.push(Input { dtype, domain, base, views, computed });
    }
}

/// `count` operands of one type that broadcast.
pub fn pointwise(c: &mut Choices, types: &[DType], count: usize, domain: Domain) -> Case {
    let dtype = c.pick(types);
    let shape = c.shape(0, 5);
    let mut case = Case::of(c, dtype);
    for _ in 0..count {
        let shape = if count > 1 { c.broadcastable(&shape) } else { shape.clone() };
        case.input(c, dtype, &shape, domain);
    }
    case
}

/// One operand, not of rank 0, and one of its axes.
pub fn along(c: &mut Choices, types: &[DType], domain: Domain) -> Case {
    let dtype = c.pick(types);
    let shape = c.shape(1, 5);
    let mut case = Case::of(c, dtype);
    case.params.axes = vec![c.below(shape.len())];
    case.input(c, dtype, &shape, domain);
    case
}

/// The same without empty axes.
pub fn along_filled(c: &mut Choices, types: &[DType], domain: Domain) -> Case {
    let dtype = c.pick(types);
    let shape = c.filled_shape(1, 5);
    let mut case = Case::of(c, dtype);
    case.params.axes = vec![c.below(shape.len())];
    case.input(c, dtype, &shape, domain);
    case
}
