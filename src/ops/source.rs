//! Tensors from nothing: constants, run-time scalars, counting.

use crate::record::{fill, record};
use crate::{MlirDevice, MlirTensor};
use burn_backend::Scalar;
use burn_mlir_ir::{DType, Literal, Op, Shape};

impl MlirTensor {
    /// Every element is the constant `value` of a formula. What a user chose goes through
    /// [`fill`] instead.
    pub(crate) fn constant(device: MlirDevice, value: f64, dtype: DType, shape: Shape) -> Self {
        let op = Op::Constant { value: Literal::of(dtype, value) };
        record(device, op, &[], dtype, shape)
    }

    /// A constant of this tensor's type and shape.
    pub(crate) fn constant_like(&self, value: f64) -> Self {
        self.constant_of(value, self.ir_shape())
    }

    /// A constant of this tensor's type.
    pub(crate) fn constant_of(&self, value: f64, shape: Shape) -> Self {
        Self { store: self.store, ..Self::constant(self.device, value, self.dtype, shape) }
    }

    /// A run-time scalar in this tensor's type and shape.
    pub(crate) fn fill_like(&self, value: Scalar) -> Self {
        Self { store: self.store, ..fill(self.device, value, self.dtype, self.ir_shape()) }
    }

    /// The index along `axis` at every element; an integer type.
    pub(crate) fn iota(device: MlirDevice, dtype: DType, shape: Shape, axis: usize) -> Self {
        record(device, Op::Iota { axis }, &[], dtype, shape)
    }

    /// `start, start + step, ..`: `[count]`.
    pub(crate) fn arange(device: MlirDevice, start: i64, step: i64, count: usize, dtype: DType) -> Self {
        let positions = Self::iota(device, dtype, Shape::from([count]), 0);
        let scaled = match step {
            1 => positions,
            _ => positions.mul(&positions.fill_like(Scalar::Int(step))),
        };
        match start {
            0 => scaled,
            _ => scaled.add(&scaled.fill_like(Scalar::Int(start))),
        }
    }
}
