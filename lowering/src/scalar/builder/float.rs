//! Operations on floats.

use super::{Float, Int, Truth, Width};
use std::ops::{Add, Div, Mul, Neg, Sub};

impl<'b> Float<'b> {
    /// Its width.
    pub fn width(self) -> Width {
        self.width
    }

    /// A constant of the same type; `value` is rounded to it.
    pub fn constant(self, value: f64) -> Float<'b> {
        let text = crate::scalar::constant::float(
            value,
            self.width.pick(burn_mlir_ir::DType::F32, burn_mlir_ir::DType::F64),
        );
        let id = self.builder.constant(
            (value.to_bits(), self.width, true),
            format!("arith.constant {text} : {}", self.width.float()),
        );
        Float { id, ..self }
    }

    fn is_for_gpu(self) -> bool {
        self.builder.emitter.borrow().is_for_gpu()
    }

    fn two(self, op: &str, other: Float<'b>) -> Float<'b> {
        self.make(format!("{op} {}, {} : {}", self.name(), other.name(), self.width.float()))
    }

    fn one(self, op: &str) -> Float<'b> {
        self.make(format!("{op} {} : {}", self.name(), self.width.float()))
    }

    /// `self·factor + addend`, rounded once.
    pub fn fma(self, factor: Float<'b>, addend: Float<'b>) -> Float<'b> {
        let (a, b, c) = (self.name(), factor.name(), addend.name());
        self.make(format!("math.fma {a}, {b}, {c} : {}", self.width.float()))
    }

    /// `self·factor + addend` with constants, rounded once.
    pub fn fma_c(self, factor: f64, addend: Float<'b>) -> Float<'b> {
        self.fma(self.constant(factor), addend)
    }

    /// `self/divisor` where neither operand nor result is near the ends of the range: the divisor between 2^-64 and
    /// 2^122, the quotient at most 2^64; numbers whose quotient is subnormal must have been tried. The same bits as a
    /// division, which on GPUs has a branch for what else operands could be.
    pub fn quotient(self, divisor: Float<'b>) -> Float<'b> {
        if self.width == Width::Double || !self.is_for_gpu() {
            return self / divisor;
        }
        self.make(format!("arith.divf {}, {} fastmath<contract> : f32", self.name(), divisor.name()))
    }

    pub fn abs(self) -> Float<'b> {
        self.one("math.absf")
    }

    pub fn sqrt(self) -> Float<'b> {
        self.one("math.sqrt")
    }

    pub fn floor(self) -> Float<'b> {
        self.one("math.floor")
    }

    pub fn ceil(self) -> Float<'b> {
        self.one("math.ceil")
    }

    pub fn trunc(self) -> Float<'b> {
        self.one("math.trunc")
    }

    /// To nearest, ties to even.
    pub fn round(self) -> Float<'b> {
        self.one("math.roundeven")
    }

    /// Its magnitude with the sign of `sign`.
    pub fn copysign(self, sign: Float<'b>) -> Float<'b> {
        self.two("math.copysign", sign)
    }

    /// The larger; NaN if either is NaN.
    pub fn maximum(self, other: Float<'b>) -> Float<'b> {
        self.two("arith.maximumf", other)
    }

    /// The smaller; NaN if either is NaN.
    pub fn minimum(self, other: Float<'b>) -> Float<'b> {
        self.two("arith.minimumf", other)
    }

    /// At most `bound`; NaN stays. Written as the one comparison that x86's `min` makes, or as the instruction that
    /// GPUs have.
    pub fn at_most(self, bound: f64) -> Float<'b> {
        let bound = self.constant(bound);
        if self.width == Width::Single && self.is_for_gpu() {
            return self.minimum(bound);
        }
        bound.lt(self).select(bound, self)
    }

    /// At least `bound`; NaN stays. Written as [`at_most`](Self::at_most) is.
    pub fn at_least(self, bound: f64) -> Float<'b> {
        let bound = self.constant(bound);
        if self.width == Width::Single && self.is_for_gpu() {
            return self.maximum(bound);
        }
        bound.gt(self).select(bound, self)
    }

    /// The bits.
    pub fn to_bits(self) -> Int<'b> {
        let (float, int) = (self.width.float(), self.width.int());
        let id = self.builder.op(format!("arith.bitcast {} : {float} to {int}", self.name()));
        Int { builder: self.builder, width: self.width, id }
    }

    /// Converted to `f64`.
    pub fn widen(self) -> Float<'b> {
        if self.width == Width::Double {
            return self;
        }
        let id = self.builder.op(format!("arith.extf {} : f32 to f64", self.name()));
        Float { id, width: Width::Double, ..self }
    }

    /// Rounded to `f32`.
    pub fn narrow(self) -> Float<'b> {
        if self.width == Width::Single {
            return self;
        }
        let id = self.builder.op(format!("arith.truncf {} : f64 to f32", self.name()));
        Float { id, width: Width::Single, ..self }
    }

    /// An `f64` rounded to what a computation is for.
    pub fn narrow_to(self, width: Width) -> Float<'b> {
        if width == Width::Single { self.narrow() } else { self }
    }

    /// A comparison by its MLIR predicate.
    pub fn compare(self, predicate: &str, other: Float<'b>) -> Truth<'b> {
        let (a, b) = (self.name(), other.name());
        let id = self.builder.op(format!("arith.cmpf {predicate}, {a}, {b} : {}", self.width.float()));
        Truth { builder: self.builder, id }
    }

    pub fn lt(self, other: Float<'b>) -> Truth<'b> {
        self.compare("olt", other)
    }

    pub fn gt(self, other: Float<'b>) -> Truth<'b> {
        self.compare("ogt", other)
    }

    pub fn eq(self, other: Float<'b>) -> Truth<'b> {
        self.compare("oeq", other)
    }

    pub fn is_nan(self) -> Truth<'b> {
        self.compare("uno", self)
    }

    /// `coefficients[0] + coefficients[1]·self + …` by Horner's rule.
    pub fn polynomial(self, coefficients: &[f64]) -> Float<'b> {
        let mut terms = coefficients.iter().rev();
        let mut sum = self.constant(terms.next().copied().unwrap_or(0.0));
        for &term in terms {
            sum = sum.fma(self, self.constant(term));
        }
        sum
    }
}

operators!(Float: Add add "arith.addf", Sub sub "arith.subf", Mul mul "arith.mulf", Div div "arith.divf");
with_constants!(Float f64: Add add, Sub sub, Mul mul, Div div);

impl<'b> Neg for Float<'b> {
    type Output = Float<'b>;
    fn neg(self) -> Float<'b> {
        self.one("arith.negf")
    }
}
