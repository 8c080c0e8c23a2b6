//! Arithmetic on SSA names with Rust's operators, so that numerical code reads as formulas.
//!
//! Everything here becomes one instruction of `arith` or `math` that both targets have; nothing is
//! contracted or reassociated, so a formula gives the same bits wherever it runs.

use crate::emit::{Emitter, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// The width of the floats and integers of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Width {
    /// `f32` and `i32`.
    Single,
    /// `f64` and `i64`.
    Double,
}

impl Width {
    pub fn float(self) -> &'static str {
        if self == Self::Single { "f32" } else { "f64" }
    }

    pub fn int(self) -> &'static str {
        if self == Self::Single { "i32" } else { "i64" }
    }

    /// Bits of the mantissa that are stored.
    pub fn mantissa(self) -> i64 {
        if self == Self::Single { 23 } else { 52 }
    }

    /// Bits of a value.
    pub fn bits(self) -> i64 {
        if self == Self::Single { 32 } else { 64 }
    }

    /// What is added to an exponent when it is stored.
    pub fn bias(self) -> i64 {
        if self == Self::Single { 127 } else { 1023 }
    }

    /// One of two things by width.
    pub fn pick<T>(self, single: T, double: T) -> T {
        if self == Self::Single { single } else { double }
    }
}

/// Where the values of one computation live: the emitter and the names handed out.
pub(super) struct Builder {
    emitter: RefCell<Emitter>,
    names: RefCell<Vec<Value>>,
    constants: RefCell<HashMap<(u64, Width, bool), u32>>,
}

impl Builder {
    /// Runs `code` with a builder that writes to `emitter`.
    pub fn with(emitter: &mut Emitter, code: impl FnOnce(&Builder) -> Value) -> Value {
        let builder = Builder {
            emitter: RefCell::new(std::mem::take(emitter)),
            names: RefCell::default(),
            constants: RefCell::default(),
        };
        let value = code(&builder);
        *emitter = builder.emitter.into_inner();
        value
    }

    /// A float that is already there.
    pub fn float(&self, width: Width, name: &Value) -> Float<'_> {
        Float { builder: self, width, id: self.intern(name.clone()) }
    }

    /// An integer that is already there.
    pub fn int(&self, width: Width, name: &Value) -> Int<'_> {
        Int { builder: self, width, id: self.intern(name.clone()) }
    }

    fn intern(&self, name: Value) -> u32 {
        let mut names = self.names.borrow_mut();
        names.push(name);
        (names.len() - 1) as u32
    }

    fn op(&self, text: String) -> u32 {
        let name = self.emitter.borrow_mut().op(text);
        self.intern(name)
    }

    fn name(&self, id: u32) -> Value {
        self.names.borrow()[id as usize].clone()
    }

    fn constant(&self, key: (u64, Width, bool), text: String) -> u32 {
        if let Some(&id) = self.constants.borrow().get(&key) {
            return id;
        }
        let id = self.op(text);
        self.constants.borrow_mut().insert(key, id);
        id
    }
}

macro_rules! value {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name<'b> {
            builder: &'b Builder,
            width: Width,
            id: u32,
        }

        impl<'b> $name<'b> {
            /// The SSA name.
            pub fn name(self) -> Value {
                self.builder.name(self.id)
            }

            fn make(self, text: String) -> Self {
                Self { id: self.builder.op(text), ..self }
            }
        }
    };
}

value! {
    /// An `f32` or `f64`.
    Float
}
value! {
    /// An `i32` or `i64`.
    Int
}

/// An `i1`.
#[derive(Clone, Copy)]
pub(super) struct Truth<'b> {
    builder: &'b Builder,
    id: u32,
}

impl<'b> Float<'b> {
    /// Its width.
    pub fn width(self) -> Width {
        self.width
    }

    /// A constant of the same type; `value` is rounded to it.
    pub fn constant(self, value: f64) -> Float<'b> {
        let text = super::constant::float(
            value,
            self.width.pick(burn_mlir_ir::DType::F32, burn_mlir_ir::DType::F64),
        );
        let id = self.builder.constant(
            (value.to_bits(), self.width, true),
            format!("arith.constant {text} : {}", self.width.float()),
        );
        Float { id, ..self }
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

    /// At most `bound`; NaN stays. Written as the one comparison that x86's `min` makes.
    pub fn at_most(self, bound: f64) -> Float<'b> {
        let bound = self.constant(bound);
        bound.lt(self).select(bound, self)
    }

    /// At least `bound`; NaN stays. Written as the one comparison that x86's `max` makes.
    pub fn at_least(self, bound: f64) -> Float<'b> {
        let bound = self.constant(bound);
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

impl<'b> Int<'b> {
    /// A constant of the same type.
    pub fn constant(self, value: i64) -> Int<'b> {
        let key = (value as u64, self.width, false);
        let id = self.builder.constant(key, format!("arith.constant {value} : {}", self.width.int()));
        Int { id, ..self }
    }

    fn two(self, op: &str, other: Int<'b>) -> Int<'b> {
        self.make(format!("arith.{op} {}, {} : {}", self.name(), other.name(), self.width.int()))
    }

    pub fn shl(self, count: i64) -> Int<'b> {
        self.two("shli", self.constant(count))
    }

    /// Arithmetic.
    pub fn shr(self, count: i64) -> Int<'b> {
        self.two("shrsi", self.constant(count))
    }

    /// Logical.
    pub fn shr_logical(self, count: i64) -> Int<'b> {
        self.two("shrui", self.constant(count))
    }

    /// Left by a count below the width that is data.
    pub fn shl_by(self, count: Int<'b>) -> Int<'b> {
        self.two("shli", count)
    }

    /// Logical, right by a count below the width that is data.
    pub fn shr_logical_by(self, count: Int<'b>) -> Int<'b> {
        self.two("shrui", count)
    }

    /// The low and the high half of the unsigned product.
    pub fn mul_extended(self, other: Int<'b>) -> (Int<'b>, Int<'b>) {
        let (a, b) = (self.name(), other.name());
        let low = self.builder.emitter.borrow_mut().fresh();
        let high = self.builder.emitter.borrow_mut().fresh();
        let ty = self.width.int();
        self.builder
            .emitter
            .borrow_mut()
            .line(format_args!("{low}, {high} = arith.mului_extended {a}, {b} : {ty}"));
        let int = |name| Int { id: self.builder.intern(name), ..self };
        (int(low), int(high))
    }

    /// Zero-extended to `i64`.
    pub fn widen(self) -> Int<'b> {
        let id = self.builder.op(format!("arith.extui {} : i32 to i64", self.name()));
        Int { id, width: Width::Double, ..self }
    }

    /// The low half of an `i64`.
    pub fn narrow(self) -> Int<'b> {
        let id = self.builder.op(format!("arith.trunci {} : i64 to i32", self.name()));
        Int { id, width: Width::Single, ..self }
    }

    /// Its width.
    pub fn width(self) -> Width {
        self.width
    }

    /// A comparison by its MLIR predicate.
    pub fn compare(self, predicate: &str, other: Int<'b>) -> Truth<'b> {
        let (a, b) = (self.name(), other.name());
        let id = self.builder.op(format!("arith.cmpi {predicate}, {a}, {b} : {}", self.width.int()));
        Truth { builder: self.builder, id }
    }

    pub fn eq(self, other: Int<'b>) -> Truth<'b> {
        self.compare("eq", other)
    }

    pub fn ne(self, other: Int<'b>) -> Truth<'b> {
        self.compare("ne", other)
    }

    /// The float with these bits.
    pub fn to_float(self) -> Float<'b> {
        let (float, int) = (self.width.float(), self.width.int());
        let id = self.builder.op(format!("arith.bitcast {} : {int} to {float}", self.name()));
        Float { builder: self.builder, width: self.width, id }
    }

    /// The nearest float.
    pub fn convert(self) -> Float<'b> {
        let (float, int) = (self.width.float(), self.width.int());
        let id = self.builder.op(format!("arith.sitofp {} : {int} to {float}", self.name()));
        Float { builder: self.builder, width: self.width, id }
    }
}

impl<'b> Truth<'b> {
    /// The SSA name.
    pub fn name(self) -> Value {
        self.builder.name(self.id)
    }

    fn make(self, text: String) -> Self {
        Self { id: self.builder.op(text), ..self }
    }

    /// `yes` where true.
    pub fn select(self, yes: Float<'b>, no: Float<'b>) -> Float<'b> {
        let (c, a, b) = (self.name(), yes.name(), no.name());
        yes.make(format!("arith.select {c}, {a}, {b} : {}", yes.width.float()))
    }

    /// `yes` where true.
    pub fn select_int(self, yes: Int<'b>, no: Int<'b>) -> Int<'b> {
        let (c, a, b) = (self.name(), yes.name(), no.name());
        yes.make(format!("arith.select {c}, {a}, {b} : {}", yes.width.int()))
    }
}

macro_rules! operators {
    ($type:ident: $($trait:ident $method:ident $op:literal),*) => {$(
        impl<'b> $trait for $type<'b> {
            type Output = $type<'b>;
            fn $method(self, other: $type<'b>) -> $type<'b> {
                self.two($op, other)
            }
        }
    )*};
}

operators!(Float: Add add "arith.addf", Sub sub "arith.subf", Mul mul "arith.mulf", Div div "arith.divf");
operators!(Int: Add add "addi", Sub sub "subi", Mul mul "muli", BitAnd bitand "andi", BitOr bitor "ori", BitXor bitxor "xori");

macro_rules! with_constants {
    ($type:ident $number:ty: $($trait:ident $method:ident),*) => {$(
        impl<'b> $trait<$number> for $type<'b> {
            type Output = $type<'b>;
            fn $method(self, other: $number) -> $type<'b> {
                $trait::$method(self, self.constant(other))
            }
        }
    )*};
}

with_constants!(Float f64: Add add, Sub sub, Mul mul, Div div);
with_constants!(Int i64: Add add, Sub sub, Mul mul, BitAnd bitand, BitOr bitor, BitXor bitxor);

impl<'b> Neg for Float<'b> {
    type Output = Float<'b>;
    fn neg(self) -> Float<'b> {
        self.one("arith.negf")
    }
}

impl<'b> Truth<'b> {
    fn two(self, op: &str, other: Truth<'b>) -> Truth<'b> {
        self.make(format!("arith.{op} {}, {} : i1", self.name(), other.name()))
    }
}

operators!(Truth: BitAnd bitand "andi", BitOr bitor "ori", BitXor bitxor "xori");

impl<'b> Not for Truth<'b> {
    type Output = Truth<'b>;
    fn not(self) -> Truth<'b> {
        let yes = self.make("arith.constant true".to_string());
        self ^ yes
    }
}
