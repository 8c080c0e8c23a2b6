//! Burn's data of quantised tensors: bytes of values, then of scales, then of the scale for the whole tensor.
//!
//! A store that packs puts values into units (words of 32 bits, or bytes) along one axis, which comes innermost in
//! the data. Burn's own helpers do not agree about extents that do not fill the last unit: each line is filled up by
//! the size that `burn-store` expects, all values run on in what `burn-std` unpacks, and
//! `TensorData::quantized` never packs. All three are read. Written is such a tensor as `QuantStore::Native`, a byte
//! a value, which all of them take for the same.

use super::blocks::Blocks;
use super::codes::{Codes, Packing, code_dtype};
use super::{QuantizedTensor, Scales, innermost_block, packing, refusal};
use crate::{MlirDevice, MlirError, MlirTensor, dtype, record};
use burn_backend::quantization::{QPARAM_ALIGN, QuantScheme, QuantStore, ScaleDtype, global_scale_dtype};
use burn_backend::{Bytes, DType, TensorData};
use burn_mlir_ir as ir;
use smallvec::SmallVec;

/// The type in which scales lie in memory, which has the bytes of Burn's data.
fn stored(dtype: ScaleDtype) -> ir::DType {
    match dtype {
        ScaleDtype::F32 => ir::DType::F32,
        ScaleDtype::F16 => ir::DType::F16,
        ScaleDtype::BF16 => ir::DType::BF16,
        ScaleDtype::UE4M3 | ScaleDtype::UE8M0 => ir::DType::U8,
    }
}

/// How the values of a tensor lie in data.
enum Stored {
    /// A byte each.
    Bytes,
    /// In units, one after the other without regard to the shape.
    Running,
    /// In units along an axis, which is innermost: so many bytes a line.
    Lines { axis: usize, bytes: usize },
}

impl QuantizedTensor {
    /// A tensor from data.
    pub(crate) fn from_data(data: TensorData, device: MlirDevice) -> Self {
        let shape = ir::Shape::from(&data.shape()[..]);
        let (scheme, reason) = match data.dtype() {
            DType::QFloat(scheme) => (scheme, refusal(&scheme, shape.rank())),
            other => (QuantScheme::default(), Some(format!("{other:?} is no quantised type"))),
        };
        let made = match reason {
            None => Self::from_bytes(data.as_bytes(), &shape, scheme, device),
            Some(reason) => Err(reason),
        };
        made.unwrap_or_else(|reason| {
            let error = MlirError::Invalid { op: "q_from_data", reason };
            Self::failed(device, error, shape, scheme)
        })
    }

    fn from_bytes(
        bytes: &[u8],
        shape: &ir::Shape,
        scheme: QuantScheme,
        device: MlirDevice,
    ) -> Result<Self, String> {
        let grid = Blocks::of(&scheme, shape.rank()).map(|blocks| blocks.grid(shape));
        let grid = grid.unwrap_or_else(|| ir::Shape::from([1]));
        let inner = stored(scheme.scale_dtype());
        let global = global_scale_dtype(&scheme).map(stored);
        let scale_bytes = grid.elements() * inner.size();
        let global_bytes = global.map_or(0, ir::DType::size);
        let values = bytes.len().checked_sub(scale_bytes + global_bytes);
        let form = values.and_then(|values| Some((values, form(values, shape, &scheme)?)));
        let Some((values, form)) = form else {
            return Err(format!("{} bytes are no tensor of {shape} by {scheme:?}", bytes.len()));
        };
        let upload = |bytes: &[u8], dtype: ir::DType, shape: &ir::Shape| {
            let data = TensorData::from_bytes_vec(bytes.to_vec(), shape.to_vec(), dtype::to_burn(dtype));
            record::from_data(device, data)
        };
        let (values, scales) = bytes.split_at(values);
        let (scales, rest) = scales.split_at(scale_bytes);
        let upload_values = |dtype: ir::DType, shape: ir::Shape| upload(values, dtype, &shape);
        let scales = Scales {
            inner: upload(scales, inner, &grid),
            global: global.map(|dtype| upload(rest, dtype, &ir::Shape::from([1]))),
        };
        let (dtype, value, block) = (code_dtype(scheme.value), scheme.value, innermost_block(&scheme));
        let row = ir::Shape::from([values.len()]);
        let codes = match form {
            Stored::Bytes => Codes::from_bytes(value, block, &upload_values(dtype, shape.clone())),
            Stored::Running => {
                let data = upload_values(dtype, row);
                let all = ir::Shape::from([shape.elements()]);
                let per_byte = 8 / value.size_bits();
                let data = data.narrow(0, 0, all.elements().div_ceil(per_byte));
                let running = Codes { data, shape: all, value, packing: Packing::interleaved(0) };
                running.reshape(shape).repacked(block)
            }
            Stored::Lines { axis, bytes } => {
                let innermost = shape.rank() - 1;
                let mut lines = shape.clone();
                lines.0.swap(axis, innermost);
                lines.0[innermost] = bytes;
                let data = upload_values(dtype, lines).swap_axes(axis, innermost);
                let data = match value.size_bits() {
                    8 => data.narrow(axis, 0, shape[axis]),
                    _ => data,
                };
                let packing = Packing::interleaved(axis);
                Codes { data, shape: shape.clone(), value, packing }.repacked(block)
            }
        };
        Ok(Self::of(codes, scales, scheme))
    }

    /// The scheme of its data: without packing where the extents do not fill units.
    pub(super) fn written_scheme(&self) -> QuantScheme {
        let shape = &self.codes.shape;
        match packing(&self.scheme, shape.rank()) {
            Some((axis, per_unit)) if !shape[axis].is_multiple_of(per_unit) => {
                self.scheme.with_store(QuantStore::Native)
            }
            _ => self.scheme,
        }
    }

    /// The tensors that its data are made of, and how.
    pub(crate) fn into_parts(self) -> (SmallVec<[MlirTensor; 1]>, Outline) {
        let scheme = self.written_scheme();
        let shape = &self.codes.shape;
        let values = match packing(&scheme, shape.rank()) {
            Some((axis, _)) => self.codes.bytes_along(axis).swap_axes(axis, shape.rank() - 1),
            None if self.codes.is_packed() => self.codes.integers().cast(ir::DType::I8),
            None => self.codes.data.clone(),
        };
        let outline = Outline { shape: shape.to_vec(), scheme };
        let mut parts = SmallVec::from_iter([values, self.scales.inner]);
        parts.extend(self.scales.global);
        (parts, outline)
    }
}

/// Data of a quantised tensor without its contents.
pub(crate) struct Outline {
    shape: Vec<usize>,
    scheme: QuantScheme,
}

impl Outline {
    /// The data, of those of the parts.
    pub(crate) fn filled(self, parts: impl IntoIterator<Item = TensorData>) -> TensorData {
        let mut bytes = Bytes::from_elems(Vec::<u32>::new());
        for part in parts {
            bytes.extend_from_byte_slice_aligned(part.as_bytes(), QPARAM_ALIGN);
        }
        TensorData::from_bytes(bytes, self.shape, DType::QFloat(self.scheme))
    }
}

/// How `bytes` of values hold a tensor; `None` if they do not.
fn form(bytes: usize, shape: &ir::Shape, scheme: &QuantScheme) -> Option<Stored> {
    let elements = shape.elements();
    if let Some((axis, per_unit)) = packing(scheme, shape.rank()) {
        let unit = scheme.size_bits_stored() / 8;
        let line = shape[axis].div_ceil(per_unit) * unit;
        let lines: usize =
            (0..shape.rank()).filter(|&other| other != axis).map(|other| shape[other]).product();
        if bytes == lines * line {
            return Some(Stored::Lines { axis, bytes: line });
        }
        // Nobody packs along another axis that way.
        if axis + 1 == shape.rank() && bytes == elements.div_ceil(per_unit) * unit {
            return Some(Stored::Running);
        }
    }
    (bytes == elements).then_some(Stored::Bytes)
}
