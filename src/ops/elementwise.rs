//! Elementwise operations; operands broadcast against each other.

use super::{apply, apply_to, invalid};
use crate::record::{Operand, Operation};
use crate::{MlirTensor, dtype};
use burn_backend::Scalar;
use burn_mlir_ir::{BinaryOp, CompareOp, DType, DTypeKind, Literal, Op, Shape, UnaryOp};
use std::cmp::Ordering;

/// The shape two or more shapes broadcast to: extents are equal or 1, missing leading ones are 1.
pub(super) fn broadcast_shape(shapes: &[&[usize]]) -> Option<Shape> {
    if let [first, rest @ ..] = shapes
        && rest.iter().all(|shape| shape == first)
    {
        return Some(Shape::from(*first));
    }
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = Shape::new(std::iter::repeat_n(1, rank));
    for shape in shapes {
        let lead = rank - shape.len();
        for (axis, &extent) in shape.iter().enumerate() {
            let target = &mut result.0[lead + axis];
            match (*target, extent) {
                (a, b) if a == b => {}
                (1, b) => *target = b,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    Some(result)
}

/// One method per function of one operand, named as in the IR.
macro_rules! unary_methods {
    ($($name:ident => $op:ident,)*) => {
        impl MlirTensor {
            $(
                #[doc = concat!("Elementwise `", stringify!($name), "`.")]
                pub(crate) fn $name(&self) -> Self {
                    self.unary(UnaryOp::$op)
                }
            )*
        }
    };
}

unary_methods! {
    neg => Neg, abs => Abs, recip => Recip, exp => Exp, log => Log, log1p => Log1p,
    sqrt => Sqrt, sin => Sin, cos => Cos, erf => Erf, sigmoid => Sigmoid,
    floor => Floor, is_inf => IsInf,
}

/// One method per function of two operands, named as in the IR.
macro_rules! binary_methods {
    ($($name:ident => $op:ident,)*) => {
        impl MlirTensor {
            $(
                #[doc = concat!("Elementwise `", stringify!($name), "`, broadcasting.")]
                pub(crate) fn $name(&self, rhs: &Self) -> Self {
                    self.binary(BinaryOp::$op, rhs)
                }
            )*
        }
    };
}

binary_methods! {
    add => Add, sub => Sub, mul => Mul, div => Div, rem => Rem, pow => Pow, max => Max, min => Min,
    and => And, or => Or, shr => Shr,
}

impl MlirTensor {
    /// A function of each element.
    pub(crate) fn unary(&self, op: UnaryOp) -> Self {
        let dtype = if op.is_predicate() { DType::Bool } else { self.dtype };
        apply(op.name(), Op::Unary(op), &[self], dtype, self.ir_shape())
    }

    /// A function of two tensors of one type, broadcasting.
    pub(crate) fn binary(&self, op: BinaryOp, rhs: &Self) -> Self {
        self.zip(op.name(), Op::Binary(op), rhs, self.dtype)
    }

    /// A comparison of two tensors of one type, broadcasting; a truth value.
    pub(crate) fn compare(&self, op: CompareOp, rhs: &Self) -> Self {
        self.zip(op.name(), Op::Compare(op), rhs, DType::Bool)
    }

    fn zip(&self, name: &'static str, op: Op, rhs: &Self, dtype: DType) -> Self {
        let operands = [self, rhs];
        if self.dtype != rhs.dtype {
            return invalid(name, &operands, dtype, self.ir_shape(), "the types differ");
        }
        if self.shape == rhs.shape {
            return apply(name, op, &operands, dtype, self.ir_shape());
        }
        let Some(shape) = broadcast_shape(&[&self.shape, &rhs.shape]) else {
            let reason = "the shapes do not broadcast";
            return invalid(name, &operands, dtype, self.ir_shape(), reason);
        };
        let (mut wide, mut rhs_wide) = (None, None);
        let operands = [self.widened_to(&shape, &mut wide), rhs.widened_to(&shape, &mut rhs_wide)];
        apply(name, op, &operands, dtype, shape)
    }

    /// This tensor if it has the shape, else what it expands to, which is put in `room`.
    fn widened_to<'a>(&'a self, shape: &Shape, room: &'a mut Option<Self>) -> &'a Self {
        if self.shape[..] == shape[..] { self } else { room.insert(self.expand(shape)) }
    }

    /// A function of each element and a scalar that a user chose.
    pub(crate) fn binary_scalar(&self, op: BinaryOp, rhs: Scalar) -> Self {
        let rhs = Operand::Scalar(self.dtype, dtype::scalar_bits(rhs, self.dtype));
        self.zip_same(op.name(), Op::Binary(op), rhs, self.dtype)
    }

    /// A function of this tensor and an operand that has its type and shape by itself.
    #[inline(always)] // The operand would be copied right after it was written, which stalls the processor.
    fn zip_same(&self, name: &'static str, op: Op, rhs: Operand<'_>, dtype: DType) -> Self {
        let (operands, shape) = ([Operand::Tensor(self), rhs], self.ir_shape());
        apply_to(
            name,
            self.device,
            &Operation { op: &op, operands: &operands, scalars: &[], dtype, shape: &shape },
        )
    }

    /// A comparison of each element with a scalar that a user chose, which need not be of the elements' type.
    pub(crate) fn compare_scalar(&self, op: CompareOp, rhs: Scalar) -> Self {
        let (near, side) = dtype::nearest(rhs, self.dtype);
        let op = match (side, op) {
            (Ordering::Equal, op) => op,
            (Ordering::Less, CompareOp::Ne | CompareOp::Gt | CompareOp::Ge) => CompareOp::Ge,
            (Ordering::Less, _) => CompareOp::Lt,
            (Ordering::Greater, CompareOp::Ne | CompareOp::Lt | CompareOp::Le) => CompareOp::Le,
            (Ordering::Greater, _) => CompareOp::Gt,
        };
        let rhs = Operand::Scalar(self.dtype, dtype::scalar_bits(near, self.dtype));
        self.zip_same(op.name(), Op::Compare(op), rhs, DType::Bool)
    }

    /// The larger, or the smaller, of each element and a bound, which need not be of the elements' type.
    fn bounded(&self, op: BinaryOp, bound: Scalar) -> Self {
        self.binary_scalar(op, dtype::nearest(bound, self.dtype).0)
    }

    /// `max(self, low)`; NaN stays NaN.
    pub(crate) fn clamp_min(&self, low: Scalar) -> Self {
        self.bounded(BinaryOp::Max, low)
    }

    /// `min(self, high)`; NaN stays NaN.
    pub(crate) fn clamp_max(&self, high: Scalar) -> Self {
        self.bounded(BinaryOp::Min, high)
    }

    /// A function of each element and a constant of a formula.
    pub(crate) fn binary_constant(&self, op: BinaryOp, rhs: f64) -> Self {
        let rhs = Operand::Constant(self.dtype, Literal::of(self.dtype, rhs));
        self.zip_same(op.name(), Op::Binary(op), rhs, self.dtype)
    }

    /// `self + value` for a constant of a formula.
    pub(crate) fn plus(&self, value: f64) -> Self {
        self.binary_constant(BinaryOp::Add, value)
    }

    /// `self · value` for a constant of a formula.
    pub(crate) fn times(&self, value: f64) -> Self {
        self.binary_constant(BinaryOp::Mul, value)
    }

    /// `self / value` for a constant of a formula.
    pub(crate) fn over(&self, value: f64) -> Self {
        self.binary_constant(BinaryOp::Div, value)
    }

    /// `max(self, value)` for a constant of a formula.
    pub(crate) fn at_least(&self, value: f64) -> Self {
        self.binary_constant(BinaryOp::Max, value)
    }

    /// `min(self, value)` for a constant of a formula.
    pub(crate) fn at_most(&self, value: f64) -> Self {
        self.binary_constant(BinaryOp::Min, value)
    }

    /// A comparison with a constant of a formula.
    pub(crate) fn compare_constant(&self, op: CompareOp, rhs: f64) -> Self {
        let rhs = Operand::Constant(self.dtype, Literal::of(self.dtype, rhs));
        self.zip_same(op.name(), Op::Compare(op), rhs, DType::Bool)
    }

    /// `self ? a : b` for a truth value, all three broadcasting.
    pub(crate) fn select(&self, a: &Self, b: &Self) -> Self {
        let operands = [self, a, b];
        if self.dtype != DType::Bool || a.dtype != b.dtype {
            let reason = "wants a truth value and two tensors of one type";
            return invalid("select", &operands, a.dtype, b.ir_shape(), reason);
        }
        let Some(shape) = broadcast_shape(&[&self.shape, &a.shape, &b.shape]) else {
            let reason = "the shapes do not broadcast";
            return invalid("select", &operands, a.dtype, b.ir_shape(), reason);
        };
        let [mask, a, b] = operands.map(|t| t.expand(&shape));
        apply("select", Op::Select, &[&mask, &a, &b], a.dtype, shape)
    }

    /// The same values as another type.
    pub(crate) fn cast(&self, dtype: DType) -> Self {
        if dtype == self.dtype {
            return self.clone();
        }
        apply("cast", Op::Cast, &[self], dtype, self.ir_shape())
    }

    /// `min(max(self, low), high)`; NaN stays NaN.
    pub(crate) fn clamp(&self, low: Scalar, high: Scalar) -> Self {
        self.clamp_min(low).clamp_max(high)
    }

    /// `self^exponent`. The exponents of everyday formulas become products, roots and quotients;
    /// any other is a run-time scalar.
    pub(crate) fn pow_scalar(&self, exponent: Scalar) -> Self {
        let value: f64 = exponent.elem();
        let square = || self.mul(self);
        match value {
            0.0 => self.constant_like(1.0),
            0.5 => self.plus(0.0).sqrt(),
            1.0 => self.clone(),
            2.0 => square(),
            3.0 => square().mul(self),
            -1.0 => self.recip(),
            -2.0 => square().recip(),
            _ => self.binary_scalar(BinaryOp::Pow, exponent),
        }
    }

    /// Integer power with wrapping products, by squaring; a negative exponent gives the truncated
    /// reciprocal, which is 0 except for the bases 1 and -1.
    pub(crate) fn int_pow_scalar(&self, exponent: i128) -> Self {
        let one = self.constant_like(1.0);
        if exponent < 0 {
            let is = |value: &Self| self.compare(CompareOp::Eq, value);
            let zero = self.constant_like(0.0);
            let reciprocal = is(&one).select(&one, &zero);
            if self.dtype.kind() != DTypeKind::Signed {
                return reciprocal;
            }
            let minus_one = self.constant_like(-1.0);
            let of_minus_one = if exponent % 2 == 0 { &one } else { &minus_one };
            return is(&minus_one).select(of_minus_one, &reciprocal);
        }
        let mut result: Option<Self> = None;
        let mut square = self.clone();
        let mut rest = exponent as u128;
        while rest != 0 {
            if rest & 1 == 1 {
                result = Some(result.map_or_else(|| square.clone(), |r| r.mul(&square)));
            }
            rest >>= 1;
            if rest != 0 {
                square = square.mul(&square);
            }
        }
        result.unwrap_or(one)
    }

    /// Integer power with wrapping products, elementwise exponents of any type; otherwise as
    /// [`Self::int_pow_scalar`].
    pub(crate) fn int_pow(&self, exponent: &Self) -> Self {
        if self.dtype == exponent.dtype {
            return self.pow(exponent);
        }
        // The low bits of a product are those of the product of the low bits; what an exponent means depends on its
        // own type.
        let wider = if self.dtype.size() > exponent.dtype.size() { self.dtype } else { exponent.dtype };
        let signed = exponent.dtype.kind() == DTypeKind::Signed;
        let common = match (wider.size(), signed) {
            (8, true) => DType::I64,
            (4, true) => DType::I32,
            (2, true) => DType::I16,
            (_, true) => DType::I8,
            (8, false) => DType::U64,
            (4, false) => DType::U32,
            (2, false) => DType::U16,
            (_, false) => DType::U8,
        };
        let power = self.cast(common).pow(&exponent.cast(common)).cast(self.dtype);
        if !signed || self.dtype.kind() == DTypeKind::Signed {
            return power;
        }
        // The largest of this type may have become -1.
        exponent.compare_constant(CompareOp::Lt, 0.0).select(&self.int_pow_scalar(-1), &power)
    }

    /// `√(self² + rhs²)` without overflow on the way; infinite if either is.
    pub(crate) fn hypot(&self, rhs: &Self) -> Self {
        let (a, b) = (self.abs(), rhs.abs());
        let (large, small) = (a.max(&b), a.min(&b));
        let zero = large.compare_constant(CompareOp::Eq, 0.0);
        let ratio = zero.select(&large, &small.div(&large));
        let length = large.mul(&ratio.mul(&ratio).plus(1.0).sqrt());
        let infinite = a.is_inf().or(&b.is_inf());
        infinite.select(&length.constant_like(f64::INFINITY), &length)
    }
}
