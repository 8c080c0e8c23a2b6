//! Codes of quantised values, as many to a byte as fit.

use crate::ops::Minifloat;
use crate::{MlirDevice, MlirTensor};
use burn_backend::quantization::QuantValue;
use burn_mlir_ir::{DType, Shape, SliceDim};
use smallvec::SmallVec;

/// Quantised values. Those of 8 bits are a tensor like any other. Narrower ones share bytes with their neighbours
/// along one axis, the first in the low bits, which in little-endian memory is how Burn packs them in words.
#[derive(Clone, Debug)]
pub(crate) struct Codes {
    /// i8 for integers of 8 bits, else u8. Its extent along `axis` may be larger than needed.
    pub(super) data: MlirTensor,
    /// The shape in values.
    pub(super) shape: Shape,
    /// The axis along which bytes are shared.
    pub(super) axis: usize,
    pub(super) value: QuantValue,
}

/// The values that have one place in their bytes.
pub(super) struct Part {
    axis: usize,
    place: usize,
    per_byte: usize,
    /// The shape in values, of rank 1 at least.
    shape: Shape,
}

impl Part {
    /// These values of a tensor in values; zeros where the last byte has some left.
    pub(super) fn of(&self, tensor: &MlirTensor) -> MlirTensor {
        if self.per_byte == 1 {
            return tensor.clone();
        }
        let tensor = tensor.reshape(self.shape.clone());
        let extent = self.shape[self.axis];
        let rest = extent.next_multiple_of(self.per_byte) - extent;
        let mut pads: SmallVec<[(usize, usize); 6]> = self.shape.iter().map(|_| (0, 0)).collect();
        pads[self.axis].1 = rest;
        let one = Shape::new(self.shape.iter().map(|_| 1));
        let zero = MlirTensor::constant(tensor.device, 0.0, tensor.dtype, one);
        let padded = tensor.pad_with(&pads, &zero);
        let mut dims: SmallVec<[SliceDim; 6]> =
            padded.shape.iter().map(|&size| SliceDim { start: 0, size, step: 1 }).collect();
        let size = (extent + rest) / self.per_byte;
        // Nothing starts at 0.
        let start = if size == 0 { 0 } else { self.place };
        dims[self.axis] = SliceDim { start, size, step: self.per_byte as i64 };
        padded.slice(dims)
    }
}

/// Values of a type that share a byte.
fn per_byte(value: QuantValue) -> usize {
    8 / value.size_bits()
}

/// The format of a type whose codes are floats.
pub(super) fn minifloat(value: QuantValue) -> Option<Minifloat> {
    match value {
        QuantValue::E4M3 => Some(Minifloat::E4M3),
        QuantValue::E5M2 => Some(Minifloat::E5M2),
        QuantValue::E2M1 => Some(Minifloat::E2M1),
        _ => None,
    }
}

/// The type in which codes lie in memory.
pub(super) fn code_dtype(value: QuantValue) -> DType {
    match value {
        QuantValue::Q8F | QuantValue::Q8S => DType::I8,
        _ => DType::U8,
    }
}

/// The axis along which bytes had better be shared: the innermost with no byte to fill up.
fn sharing_axis(value: QuantValue, shape: &Shape) -> usize {
    let even = |axis: &usize| shape[*axis].is_multiple_of(per_byte(value));
    (0..shape.rank()).rev().find(even).unwrap_or(shape.rank().saturating_sub(1))
}

/// A shape with an axis at least.
fn with_axis(shape: &Shape) -> Shape {
    if shape.rank() == 0 { Shape::from([1]) } else { shape.clone() }
}

impl Codes {
    /// Codes made of `field`, which gives those of one part as integers; signed ones may come sign-extended.
    pub(super) fn build(value: QuantValue, shape: &Shape, field: impl Fn(&Part) -> MlirTensor) -> Self {
        Self::along(sharing_axis(value, &with_axis(shape)), value, shape, field)
    }

    /// As [`Codes::build`], sharing bytes along a given axis.
    pub(super) fn along(
        axis: usize,
        value: QuantValue,
        shape: &Shape,
        field: impl Fn(&Part) -> MlirTensor,
    ) -> Self {
        let (per_byte, bits) = (per_byte(value), value.size_bits() as u32);
        let part = |place| field(&Part { axis, place, per_byte, shape: with_axis(shape) });
        if per_byte == 1 {
            return Self { data: part(0).cast(code_dtype(value)), shape: shape.clone(), axis, value };
        }
        let placed = |place: usize| {
            part(place).cast(DType::U32).masked((1 << bits) - 1).shifted_left(place as u32 * bits)
        };
        let word = (1..per_byte).fold(placed(0), |word, place| word.or(&placed(place)));
        Self { data: word.cast(DType::U8), shape: shape.clone(), axis, value }
    }

    /// Codes that lie one to a byte in a tensor of [`code_dtype`], or of i8.
    pub(super) fn from_bytes(value: QuantValue, bytes: &MlirTensor) -> Self {
        Self::build(value, &bytes.ir_shape(), |part| part.of(bytes))
    }

    /// The device.
    pub(super) fn device(&self) -> MlirDevice {
        self.data.device
    }

    /// One integer a value: i8 or u8 as they lie there, or i32.
    pub(super) fn integers(&self) -> MlirTensor {
        let per_byte = per_byte(self.value);
        if per_byte == 1 {
            return self.data.clone();
        }
        let bits = self.value.size_bits() as u32;
        let inner = with_axis(&self.shape);
        let mut split = self.data.ir_shape();
        split.0.insert(self.axis + 1, 1);
        let bytes = self.data.cast(DType::I32).reshape(split.clone());
        split.0[self.axis + 1] = per_byte;
        let bytes = bytes.expand(&split);
        let places = MlirTensor::iota(self.device(), DType::I32, split, self.axis + 1).times(f64::from(bits));
        let values = match minifloat(self.value) {
            Some(_) => bytes.shr(&places).masked((1 << bits) - 1),
            None => {
                let above = places.constant_like(f64::from(32 - bits)).sub(&places);
                bytes.binary(burn_mlir_ir::BinaryOp::Shl, &above).shifted_right(32 - bits)
            }
        };
        let mut whole = self.data.ir_shape();
        whole.0[self.axis] *= per_byte;
        values.reshape(whole).narrow(self.axis, 0, inner[self.axis]).reshape(self.shape.clone())
    }

    /// The values without their scales, f32.
    pub(super) fn decoded(&self) -> MlirTensor {
        match minifloat(self.value) {
            Some(format) => self.integers().decode_minifloat(format),
            None => self.integers().cast(DType::F32),
        }
    }

    /// Scaled values of f32 as codes.
    pub(super) fn encode(scaled: &MlirTensor, value: QuantValue) -> MlirTensor {
        let (low, high) = value.range();
        match minifloat(value) {
            Some(format) => scaled.encode_minifloat(format),
            None => {
                let clamped = scaled.at_least(f64::from(low)).at_most(f64::from(high));
                clamped.round_half_away().cast(DType::I32)
            }
        }
    }

    /// Other values of the same codes: `f` is a view or another choice of values, and gives `shape`.
    pub(super) fn map(&self, shape: &Shape, f: impl Fn(&MlirTensor) -> MlirTensor) -> Self {
        if per_byte(self.value) == 1 {
            let data = f(&self.data);
            return Self { shape: data.ir_shape(), data, axis: self.axis, value: self.value };
        }
        // Each part has a computation of its own, so that all of them join one kernel.
        Self::build(self.value, shape, |part| part.of(&f(&self.integers())))
    }

    /// A view or choice that does not touch the axis along which bytes are shared, as it is in the bytes.
    pub(super) fn map_bytes(
        &self,
        shape: &Shape,
        axis: usize,
        f: impl FnOnce(&MlirTensor) -> MlirTensor,
    ) -> Self {
        Self { data: f(&self.data), shape: shape.clone(), axis, value: self.value }
    }

    /// Whether bytes hold one value, or axes besides `axis` can be changed as they are in the bytes.
    pub(super) fn is_apart_from(&self, axis: usize) -> bool {
        per_byte(self.value) == 1 || self.axis != axis
    }

    /// Whether bytes hold several values.
    pub(super) fn is_packed(&self) -> bool {
        per_byte(self.value) > 1
    }

    /// Permuted axes; touches no byte.
    pub(super) fn permute(&self, axes: &[usize]) -> Self {
        let axis = axes.iter().position(|&axis| axis == self.axis).unwrap_or(self.axis);
        let data = self.data.permute(axes);
        let mut shape: Shape = axes.iter().filter_map(|&axis| self.shape.get(axis).copied()).collect();
        if shape.rank() != self.shape.rank() {
            // The permutation is none, and `data` failed.
            shape = self.shape.clone();
        }
        Self { data, shape, axis, value: self.value }
    }

    /// The same values in another shape.
    pub(super) fn reshape(&self, shape: &Shape) -> Self {
        let per_byte = per_byte(self.value);
        let innermost = |shape: &Shape| match shape.last() {
            Some(&last) => last.is_multiple_of(per_byte),
            None => false,
        };
        let exact = |codes: &Self| {
            codes.axis + 1 == codes.shape.rank()
                && codes.data.shape[codes.axis] * per_byte == codes.shape[codes.axis]
        };
        if self.is_packed() && innermost(shape) && exact(self) && shape.elements() == self.shape.elements() {
            let mut bytes = shape.clone();
            let axis = shape.rank() - 1;
            bytes.0[axis] /= per_byte;
            return self.map_bytes(shape, axis, |data| data.reshape(bytes));
        }
        self.map(shape, |values| values.reshape(shape.clone()))
    }

    /// Codes one after the other along `axis`; all have one type.
    pub(super) fn concat(parts: &[&Self], axis: usize) -> Option<Self> {
        let first = parts.first()?;
        let mut shape = first.shape.clone();
        *shape.0.get_mut(axis)? = parts.iter().filter_map(|part| part.shape.get(axis)).sum();
        let alike = parts.iter().all(|part| {
            part.axis == first.axis && part.data.shape.get(part.axis) == first.data.shape.get(first.axis)
        });
        if !first.is_packed() || alike && first.axis != axis {
            let data: SmallVec<[MlirTensor; 4]> = parts.iter().map(|part| part.data.clone()).collect();
            let data = MlirTensor::concat(&data, axis)?;
            return Some(Self { data, shape, axis: first.axis, value: first.value });
        }
        let integers: SmallVec<[MlirTensor; 4]> = parts.iter().map(|part| part.integers()).collect();
        let integers = MlirTensor::concat(&integers, axis)?;
        Some(Self::build(first.value, &shape, |part| part.of(&integers)))
    }

    /// The bytes along `axis`, no more than needed: what Burn stores if every byte is full.
    pub(super) fn bytes_along(&self, axis: usize) -> MlirTensor {
        let bytes = self.shape[axis].div_ceil(per_byte(self.value));
        if self.axis == axis || !self.is_packed() {
            return self.data.narrow(axis, 0, bytes);
        }
        Self::along(axis, self.value, &self.shape, |part| part.of(&self.integers())).data
    }
}
