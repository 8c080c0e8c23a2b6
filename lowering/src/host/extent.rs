//! Numbers of iterations: known, or products with numbers of the launch (see [`opened`](mod@burn_mlir_ir::opened)).

use super::tiles::{index, index_op};
use crate::emit::{Emitter, Value};
use burn_mlir_ir::Factor;

/// A number of iterations.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// The product of what is known.
    known: usize,
    numbers: Vec<Number>,
}

/// A number of the launch.
#[derive(Clone, Debug)]
struct Number {
    argument: u32,
    /// The largest it can be.
    most: usize,
    value: Value,
}

impl From<usize> for Extent {
    fn from(known: usize) -> Self {
        Self { known, numbers: Vec::new() }
    }
}

impl Extent {
    /// Number `argument` of the launch, which is at most `most`; `value` is an `index`.
    pub fn open(argument: u32, most: usize, value: Value) -> Self {
        Self { known: 1, numbers: vec![Number { argument, most, value }] }
    }

    /// The product of extents.
    pub fn product(extents: impl IntoIterator<Item = Extent>) -> Self {
        extents.into_iter().fold(1.into(), |mut product: Self, extent| {
            product.known = product.known.saturating_mul(extent.known);
            product.numbers.extend(extent.numbers);
            product
        })
    }

    /// The extent, if it is known; else the largest it can be.
    pub fn most(&self) -> usize {
        self.numbers.iter().fold(self.known, |product, number| product.saturating_mul(number.most))
    }

    /// Whether it is known.
    pub fn is_known(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The extent as an `index`.
    pub fn value(&self, e: &mut Emitter) -> Value {
        let Some((first, others)) = self.numbers.split_first() else { return index(e, self.known) };
        let product = others
            .iter()
            .fold(first.value.clone(), |product, number| index_op(e, "arith.muli", &product, &number.value));
        if self.known == 1 {
            return product;
        }
        let known = index(e, self.known);
        index_op(e, "arith.muli", &product, &known)
    }

    /// The part of it that consists of whole runs of `width`, an `index`.
    pub fn whole(&self, e: &mut Emitter, width: usize) -> Value {
        if self.is_known() {
            return index(e, self.known / width * width);
        }
        let (size, width) = (self.value(e), index(e, width));
        let rest = index_op(e, "arith.remui", &size, &width);
        index_op(e, "arith.subi", &size, &rest)
    }

    /// The number of parts of `length`, an `index`.
    pub fn parts(&self, e: &mut Emitter, length: usize) -> Value {
        if self.is_known() {
            return index(e, self.known.div_ceil(length));
        }
        let (size, length) = (self.value(e), index(e, length));
        index_op(e, "arith.ceildivui", &size, &length)
    }

    /// The number of parts of `length`, for the launch to compute.
    pub fn factor(&self, length: usize) -> Factor {
        let numbers = self.numbers.iter().map(|number| number.argument).collect();
        Factor { known: self.known as u64, numbers, divisor: length as u64 }
    }
}
