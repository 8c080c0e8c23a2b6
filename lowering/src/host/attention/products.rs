//! The two products as register tiles: queries times keys, and weights times values.

use super::geometry::{Array, ROWS};
use super::kernel::Kernel;
use crate::emit::Value;
use crate::host::tiles::{Carried, open_carrying_for, open_for};

/// A product `[rows][summed] · [summed][columns]`, added to `target` if that is to be scaled first.
struct Product<'a> {
    left: Value,
    right: &'a Value,
    target: Value,
    summed: usize,
    columns: usize,
    /// Whether the target's rows are rescaled and added to.
    adds: bool,
}

impl Kernel<'_> {
    /// Scores of the tile's queries and a block of packed keys.
    pub fn scores(&mut self, keys: &Value) {
        let (left, target) = (self.array(Array::Queries), self.array(Array::Scores));
        let (summed, columns) = (self.code.attention.sizes.width, self.geometry.keys());
        self.multiply(&Product { left, right: keys, target, summed, columns, adds: false });
    }

    /// Rescales the sums and adds weights times a block of packed values.
    pub fn add_values(&mut self, values: &Value) {
        let (left, target) = (self.array(Array::Scores), self.array(Array::Sums));
        let (summed, columns) = (self.geometry.keys(), self.geometry.columns);
        self.multiply(&Product { left, right: values, target, summed, columns, adds: true });
    }

    fn multiply(&mut self, product: &Product<'_>) {
        let (zero, rows) = (self.code.index(0), self.code.index(self.geometry.rows()));
        let row = open_for(self.code.e(), &zero, &rows, ROWS);
        let (lanes, total) = (self.geometry.lanes, product.columns / self.geometry.lanes);
        for first in (0..total).step_by(self.geometry.vectors) {
            let vectors = self.geometry.vectors.min(total - first);
            self.register_tile(product, &row, first * lanes, vectors);
        }
        self.code.e().close("}");
    }

    /// The product's rows from `row` and columns from `column` on.
    fn register_tile(&mut self, product: &Product<'_>, row: &Value, column: usize, vectors: usize) {
        let (summed, columns, lanes) = (product.summed, product.columns, self.geometry.lanes);
        let at = self.code.scaled(row, columns);
        let target = self.code.address(&product.target, &at);
        let target = self.code.after(&target, column);
        let at = self.code.scaled(row, summed);
        let left = self.code.address(&product.left, &at);
        let factors = self.array(Array::Factors);
        let factors = self.code.address(&factors, row);
        let zero = self.code.zero();
        let zeros = self.code.spread(&zero);
        let mut initial = Vec::new();
        for line in 0..ROWS {
            let factor = product.adds.then(|| {
                let factor = self.code.after(&factors, line);
                let factor = self.code.load(&factor);
                self.code.spread(&factor)
            });
            for vector in 0..vectors {
                let value = match &factor {
                    Some(factor) => {
                        let from = self.code.after(&target, line * columns + vector * lanes);
                        let sum = self.code.load_vector(&from);
                        self.code.on_vectors("mulf", &sum, factor)
                    }
                    None => zeros.clone(),
                };
                initial.push(Carried { value, ty: self.code.vector.clone() });
            }
        }
        let (from, to) = (self.code.index(0), self.code.index(summed));
        let open = open_carrying_for(self.code.e(), &from, &to, 1, &initial);
        let at = self.code.scaled(&open.variable, columns);
        let right = self.code.address(product.right, &at);
        let left = self.code.address(&left, &open.variable);
        let rights: Vec<Value> = (0..vectors)
            .map(|vector| {
                let from = self.code.after(&right, column + vector * lanes);
                self.code.load_vector(&from)
            })
            .collect();
        let mut next = Vec::new();
        for (line, sums) in open.carried.chunks(vectors).enumerate() {
            let from = self.code.after(&left, line * summed);
            let value = self.code.load(&from);
            let value = self.code.spread(&value);
            for (sum, right) in sums.iter().zip(&rights) {
                let value = self.code.multiply_add(&value, right, &sum.value);
                next.push(Carried { value, ty: self.code.vector.clone() });
            }
        }
        let sums = open.close(self.code.e(), &next);
        for (line, sums) in sums.chunks(vectors).enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                let to = self.code.after(&target, line * columns + vector * lanes);
                self.code.store_vector(&to, &sum.value);
            }
        }
    }
}
