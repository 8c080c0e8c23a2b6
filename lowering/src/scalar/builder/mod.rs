//! Arithmetic on SSA names with Rust's operators, so that numerical code reads as formulas.
//!
//! Everything here becomes one instruction of `arith` or `math` that both targets have; nothing is
//! contracted or reassociated, so a formula gives the same bits wherever it runs.

use crate::emit::{Emitter, Value};
use std::cell::RefCell;
use std::collections::HashMap;

/// The width of the floats and integers of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::scalar) enum Width {
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
pub(in crate::scalar) struct Builder {
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
        pub(in crate::scalar) struct $name<'b> {
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
pub(in crate::scalar) struct Truth<'b> {
    builder: &'b Builder,
    id: u32,
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

// After the macros, which they use.
mod float;
mod int;
mod truth;
