//! Codes of quantised values, as many to a byte as fit.

use crate::ops::Minifloat;
use crate::{MlirDevice, MlirTensor};
use burn_backend::quantization::QuantValue;
use burn_mlir_ir::{BinaryOp, DType, Shape};
use smallvec::SmallVec;

/// Quantised values. Those of 8 bits are a tensor like any other. Narrower ones share bytes with others along one
/// axis: it is divided into groups, and these into as many runs as values share a byte. The first value of each run
/// is in the first byte, the first run's in the low bits. With runs of one value that is how Burn packs words in
/// little-endian memory; with long ones what is computed of neighbours is read from neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Codes {
    /// i8 for integers of 8 bits, else u8. Its extent along `axis` may be larger than needed.
    pub(super) data: MlirTensor,
    /// The shape in values.
    pub(super) shape: Shape,
    pub(super) value: QuantValue,
    pub(super) packing: Packing,
}

/// Which values share a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packing {
    /// The axis along which they lie.
    pub(super) axis: usize,
    /// The values of a run.
    pub(super) run: usize,
    /// The extent of a block of scales along the innermost axis; a hint.
    pub(super) block: usize,
}

impl Packing {
    /// The best for a shape: along the innermost axis with no byte to fill up; in runs that blocks of scales divide
    /// or that divide blocks.
    fn of(value: QuantValue, shape: &Shape, block: usize) -> Self {
        let per_byte = per_byte(value);
        let even = |axis: &usize| shape[*axis].is_multiple_of(per_byte);
        let axis = (0..shape.rank()).rev().find(even).unwrap_or(shape.rank() - 1);
        let half = shape[axis].div_ceil(per_byte).max(1);
        let through = block > 1 && axis + 1 == shape.rank() && !half.is_multiple_of(block);
        let run = if through && block.is_multiple_of(per_byte) { block / per_byte } else { half };
        Self { axis, run, block }
    }

    /// As in Burn's data, along an axis.
    pub(super) fn interleaved(axis: usize) -> Self {
        Self { axis, run: 1, block: 1 }
    }
}

/// The values that have one place in their bytes.
pub(super) struct Part {
    packing: Packing,
    place: usize,
    per_byte: usize,
    /// The shape in values, of rank 1 at least.
    shape: Shape,
}

impl Part {
    /// These values of a tensor in values; zeros where bytes are not full.
    pub(super) fn of(&self, tensor: &MlirTensor) -> MlirTensor {
        if self.per_byte == 1 {
            return tensor.clone();
        }
        let Packing { axis, run, .. } = self.packing;
        let tensor = tensor.reshape(self.shape.clone());
        let extent = self.shape[axis];
        let groups = extent.div_ceil(run * self.per_byte);
        let mut pads: SmallVec<[(usize, usize); 6]> = self.shape.iter().map(|_| (0, 0)).collect();
        pads[axis].1 = groups * run * self.per_byte - extent;
        let one = Shape::new(self.shape.iter().map(|_| 1));
        let zero = MlirTensor::constant(tensor.device, 0.0, tensor.dtype, one);
        let mut split = self.shape.clone();
        split.0[axis] = groups;
        split.0.insert(axis + 1, self.per_byte);
        split.0.insert(axis + 2, run);
        let mut part = self.shape.clone();
        part.0[axis] = groups * run;
        tensor.pad_with(&pads, &zero).reshape(split).narrow(axis + 1, self.place, 1).reshape(part)
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

/// A shape with an axis at least.
fn with_axis(shape: &Shape) -> Shape {
    if shape.rank() == 0 { Shape::from([1]) } else { shape.clone() }
}

impl Codes {
    /// Codes made of `field`, which gives those of one part as integers; signed ones may come sign-extended. `block`
    /// is the extent of a block of scales along the innermost axis.
    pub(super) fn build(
        value: QuantValue,
        shape: &Shape,
        block: usize,
        field: impl Fn(&Part) -> MlirTensor,
    ) -> Self {
        Self::packed(Packing::of(value, &with_axis(shape), block), value, shape, field)
    }

    /// As [`Codes::build`], packed as said.
    fn packed(
        packing: Packing,
        value: QuantValue,
        shape: &Shape,
        field: impl Fn(&Part) -> MlirTensor,
    ) -> Self {
        let (per_byte, bits) = (per_byte(value), value.size_bits() as u32);
        let part = |place| field(&Part { packing, place, per_byte, shape: with_axis(shape) });
        if per_byte == 1 {
            return Self { data: part(0).cast(code_dtype(value)), shape: shape.clone(), value, packing };
        }
        let placed = |place: usize| {
            part(place).cast(DType::U32).masked((1 << bits) - 1).shifted_left(place as u32 * bits)
        };
        let word = (1..per_byte).fold(placed(0), |word, place| word.or(&placed(place)));
        Self { data: word.cast(DType::U8), shape: shape.clone(), value, packing }
    }

    /// Codes that lie one to a byte in a tensor of [`code_dtype`], or of i8.
    pub(super) fn from_bytes(value: QuantValue, block: usize, bytes: &MlirTensor) -> Self {
        Self::build(value, &bytes.ir_shape(), block, |part| part.of(bytes))
    }

    /// The same codes packed in the best way.
    pub(super) fn repacked(&self, block: usize) -> Self {
        if !self.is_packed() {
            return self.clone();
        }
        Self::build(self.value, &self.shape, block, |part| part.of(&self.integers()))
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
        let Packing { axis, run, .. } = self.packing;
        let inner = with_axis(&self.shape);
        let mut split = self.data.ir_shape();
        let groups = split[axis] / run;
        split.0[axis] = groups;
        split.0.insert(axis + 1, 1);
        split.0.insert(axis + 2, run);
        let bytes = self.data.cast(DType::I32).reshape(split.clone());
        split.0[axis + 1] = per_byte;
        let bytes = bytes.expand(&split);
        let places = MlirTensor::iota(self.device(), DType::I32, split, axis + 1).times(f64::from(bits));
        let values = match minifloat(self.value) {
            Some(_) => bytes.shr(&places).masked((1 << bits) - 1),
            None => {
                let above = places.constant_like(f64::from(32 - bits)).sub(&places);
                bytes.binary(BinaryOp::Shl, &above).shifted_right(32 - bits)
            }
        };
        let mut whole = self.data.ir_shape();
        whole.0[axis] = groups * per_byte * run;
        values.reshape(whole).narrow(axis, 0, inner[axis]).reshape(self.shape.clone())
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
        if !self.is_packed() {
            let data = f(&self.data);
            return Self { shape: data.ir_shape(), data, ..self.clone() };
        }
        // Each part has a computation of its own, so that all of them join one kernel.
        Self::build(self.value, shape, self.packing.block, |part| part.of(&f(&self.integers())))
    }

    /// A view or choice that does not touch the axis along which bytes are shared, as it is in the bytes; the result
    /// has that axis at `axis`.
    pub(super) fn map_bytes(
        &self,
        shape: &Shape,
        axis: usize,
        f: impl FnOnce(&MlirTensor) -> MlirTensor,
    ) -> Self {
        let packing = Packing { axis, ..self.packing };
        Self { data: f(&self.data), shape: shape.clone(), value: self.value, packing }
    }

    /// Whether bytes hold several values, but none along `axis`.
    pub(super) fn is_packed_apart_from(&self, axis: usize) -> bool {
        self.is_packed() && self.packing.axis != axis
    }

    /// Whether bytes hold several values.
    pub(super) fn is_packed(&self) -> bool {
        per_byte(self.value) > 1
    }

    /// Permuted axes; touches no byte.
    pub(super) fn permute(&self, axes: &[usize]) -> Self {
        let axis = axes.iter().position(|&axis| axis == self.packing.axis).unwrap_or(self.packing.axis);
        let mut shape: Shape = axes.iter().filter_map(|&axis| self.shape.get(axis).copied()).collect();
        if shape.rank() != self.shape.rank() {
            // The permutation is none, and the data fails.
            shape = self.shape.clone();
        }
        self.map_bytes(&shape, axis, |data| data.permute(axes))
    }

    /// The same values in another shape.
    pub(super) fn reshape(&self, shape: &Shape) -> Self {
        let (per_byte, Packing { axis, run, .. }) = (per_byte(self.value), self.packing);
        let whole = |shape: &Shape| shape.last().is_some_and(|last| last.is_multiple_of(per_byte * run));
        let exact = |codes: &Self| {
            axis + 1 == codes.shape.rank() && codes.data.shape[axis] * per_byte == codes.shape[axis]
        };
        if self.is_packed()
            && whole(shape)
            && exact(self)
            && whole(&self.shape)
            && shape.elements() == self.shape.elements()
        {
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
        let of_bytes = |part: &Self| part.data.shape.get(part.packing.axis).copied();
        let alike =
            parts.iter().all(|part| part.packing == first.packing && of_bytes(part) == of_bytes(first));
        if !first.is_packed() || alike && first.packing.axis != axis {
            let data: SmallVec<[MlirTensor; 4]> = parts.iter().map(|part| part.data.clone()).collect();
            let data = MlirTensor::concat(&data, axis)?;
            return Some(Self { data, shape, value: first.value, packing: first.packing });
        }
        let integers: SmallVec<[MlirTensor; 4]> = parts.iter().map(|part| part.integers()).collect();
        let integers = MlirTensor::concat(&integers, axis)?;
        Some(Self::build(first.value, &shape, first.packing.block, |part| part.of(&integers)))
    }

    /// The bytes along `axis` as Burn stores them, if every byte is full.
    pub(super) fn bytes_along(&self, axis: usize) -> MlirTensor {
        let bytes = self.shape[axis].div_ceil(per_byte(self.value));
        if !self.is_packed() || self.packing.axis == axis && self.packing.run == 1 {
            return self.data.narrow(axis, 0, bytes);
        }
        let packing = Packing::interleaved(axis);
        Self::packed(packing, self.value, &self.shape, |part| part.of(&self.integers())).data
    }
}
