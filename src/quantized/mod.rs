//! Quantised tensors: codes of few bits, and scales for all of them or for blocks.
//!
//! A value is `code · scale`, or `code · (scale · global)` where scales of blocks are relative to one for the whole
//! tensor; computed in f32. Everything here records operations like any other, so dequantisation is computed where its result is read
//! and a quantised tensor that is only passed on is never more than its codes.
//!
//! What a store says of a scheme ([`QuantStore`](burn_backend::quantization::QuantStore)) matters for Burn's data
//! alone (`data`). In memory codes of 4 and 2 bits share bytes whatever it says (`codes`).
//!
//! Views and choices of values are views and choices of codes and of scales where the blocks of the result are
//! blocks of the operand. Otherwise the values are quantised again, as all backends of Burn do.

mod blocks;
mod codes;
mod data;
pub(crate) mod product;
mod views;

use crate::{MlirDevice, MlirError, MlirTensor, record};
use blocks::{Blocks, peaks};
use burn_backend::quantization::{QuantMode, QuantScheme, QuantStore, global_scale_dtype, quantizable};
use burn_backend::{DType, Shape, TensorMetadata};
use burn_mlir_ir as ir;
use codes::{Codes, Packing};

/// A quantised tensor. Small, as it is a case of Burn's tensor of any kind, which every operation moves several times.
#[derive(Clone, Debug)]
pub struct QuantizedTensor {
    codes: Box<Codes>,
    scales: Box<Scales>,
    scheme: QuantScheme,
}

/// Scales as they are stored.
#[derive(Clone, Debug)]
struct Scales {
    /// One a block, in the shape of the grid of blocks; or `[1]`. Floats, or codes of a scale type as u8.
    inner: MlirTensor,
    /// What those are relative to: f32, `[1]`.
    global: Option<MlirTensor>,
}

impl TensorMetadata for QuantizedTensor {
    type Device = MlirDevice;

    fn dtype(&self) -> DType {
        DType::QFloat(self.written_scheme())
    }

    fn shape(&self) -> Shape {
        Shape::from(self.codes.shape.to_vec())
    }

    fn rank(&self) -> usize {
        self.codes.shape.rank()
    }

    fn device(&self) -> MlirDevice {
        self.codes.device()
    }

    fn can_mut(&self) -> bool {
        self.codes.data.can_mut()
    }
}

/// Whether there are tensors of a scheme.
pub(crate) fn supports(scheme: &QuantScheme) -> bool {
    let empty = |size: burn_backend::quantization::BlockSize| size.iter().any(|&extent| extent == 0);
    scheme.mode == QuantMode::Symmetric && quantizable(scheme) && !scheme.block_size().is_some_and(empty)
}

/// The axis along which a store packs a tensor, and how many values a unit of it takes; `None` if it does not.
fn packing(scheme: &QuantScheme, rank: usize) -> Option<(usize, usize)> {
    match scheme.store {
        QuantStore::PackedU32(dim) | QuantStore::PackedNative(dim) => {
            let per_unit = scheme.num_quants();
            (per_unit > 1).then(|| rank.checked_sub(dim + 1).map(|axis| (axis, per_unit)))?
        }
        QuantStore::Native => None,
    }
}

/// Why no tensor of a rank can have a scheme.
fn refusal(scheme: &QuantScheme, rank: usize) -> Option<String> {
    let packed = matches!(scheme.store, QuantStore::PackedU32(dim) if dim >= rank.max(1));
    if !supports(scheme) {
        Some(format!("{scheme:?} cannot be stored"))
    } else if packed {
        Some(format!("a tensor of rank {rank} has no such axis to be packed along: {scheme:?}"))
    } else {
        None
    }
}

impl QuantizedTensor {
    fn of(codes: Codes, scales: Scales, scheme: QuantScheme) -> Self {
        Self { codes: codes.into(), scales: scales.into(), scheme }
    }

    /// Why the tensor has no value, if that is known already: see [`MlirTensor::error`].
    pub fn error(&self) -> Option<MlirError> {
        let parts = [Some(&self.codes.data), Some(&self.scales.inner), self.scales.global.as_ref()];
        parts.into_iter().flatten().find_map(MlirTensor::error)
    }

    /// A tensor whose reading fails.
    pub(crate) fn failed(
        device: MlirDevice,
        error: MlirError,
        shape: ir::Shape,
        scheme: QuantScheme,
    ) -> Self {
        let data = record::failed(device, error.clone(), codes::code_dtype(scheme.value), shape.clone());
        let inner = record::failed(device, error, ir::DType::F32, ir::Shape::from([1]));
        let packing = Packing::interleaved(shape.rank().saturating_sub(1));
        let codes = Codes { data, shape, value: scheme.value, packing };
        Self::of(codes, Scales { inner, global: None }, scheme)
    }

    /// Floats quantised with given scales: one a block or one for all, of any float type.
    pub(crate) fn with_scales(
        tensor: &MlirTensor,
        scheme: &QuantScheme,
        scales: &MlirTensor,
        global: Option<&MlirTensor>,
    ) -> Self {
        let shape = tensor.ir_shape();
        let invalid = |reason: String| {
            let error = MlirError::Invalid { op: "quantize", reason };
            Self::failed(tensor.device, error, shape.clone(), *scheme)
        };
        if let Some(reason) = refusal(scheme, shape.rank()) {
            return invalid(reason);
        }
        let blocks = Blocks::of(scheme, shape.rank());
        let grid = blocks.as_ref().map_or(ir::Shape::from([1]), |blocks| blocks.grid(&shape));
        if scales.ir_shape().elements() != grid.elements() {
            return invalid(format!("{} scales for {grid} blocks", scales.ir_shape()));
        }
        let scales = scales.cast(ir::DType::F32).reshape(grid).usable_scales(scheme.scale_dtype());
        let global = match (global_scale_dtype(scheme), global) {
            (Some(dtype), Some(global)) if global.ir_shape().elements() == 1 => {
                Some(global.cast(ir::DType::F32).reshape([1]).usable_scales(dtype))
            }
            (None, None) => None,
            _ => return invalid(format!("the scale for the whole tensor does not fit {scheme:?}")),
        };
        let stored = Scales { inner: scales.encode_scales(scheme.scale_dtype()), global };
        let steps = spread(&relative(&scales, stored.global.as_ref()), blocks.as_ref(), &shape);
        let tensor = tensor.cast(ir::DType::F32);
        let block = innermost_block(scheme);
        let codes = Codes::build(scheme.value, &shape, block, |part| {
            Codes::encode(&part.of(&tensor).div(&part.of(&steps)), scheme.value)
        });
        Self::of(codes, stored, *scheme)
    }

    /// Floats quantised with the scales that their largest magnitudes need. NaN has no magnitude.
    pub(crate) fn dynamic(tensor: &MlirTensor, scheme: &QuantScheme) -> Self {
        let rank = tensor.shape.len();
        if refusal(scheme, rank).is_some() {
            return Self::with_scales(tensor, scheme, tensor, None);
        }
        let (low, high) = scheme.value.range();
        let peaks = peaks(tensor, Blocks::of(scheme, rank).as_ref());
        let scales = peaks.times(2.0).over(f64::from(high - low));
        let Some(dtype) = global_scale_dtype(scheme) else {
            return Self::with_scales(tensor, scheme, &scales, None);
        };
        let largest = f64::from(scheme.scale_dtype().max_representable());
        let global = scales.reduce_all(ir::ReduceOp::Max).at_least(0.0).over(largest).usable_scales(dtype);
        let ones = ir::Shape::new(scales.shape.iter().map(|_| 1));
        let scales = scales.div(&global.reshape(ones));
        Self::with_scales(tensor, scheme, &scales, Some(&global))
    }

    /// The values as a float type.
    pub(crate) fn dequantized(&self, dtype: ir::DType) -> MlirTensor {
        let shape = &self.codes.shape;
        let steps = spread(&self.steps(), Blocks::of(&self.scheme, shape.rank()).as_ref(), shape);
        steps.mul(&self.codes.decoded()).cast(dtype)
    }

    /// What codes are multiplied with, one a block or `[1]`: f32.
    fn steps(&self) -> MlirTensor {
        let scales = self.scales.inner.decode_scales(self.scheme.scale_dtype());
        relative(&scales, self.scales.global.as_ref())
    }

    /// The result of `f` on the values, quantised by the same scheme.
    fn requantized(&self, f: impl FnOnce(&MlirTensor) -> MlirTensor) -> Self {
        Self::dynamic(&f(&self.dequantized(ir::DType::F32)), &self.scheme)
    }

    /// The same scales for other codes.
    fn with_codes(&self, codes: Codes) -> Self {
        Self { codes: codes.into(), scales: self.scales.clone(), scheme: self.scheme }
    }

    /// The same tensor on another device.
    pub(crate) fn to_device(&self, device: MlirDevice) -> Self {
        let moved = |tensor: &MlirTensor| record::to_device(tensor.clone(), device);
        let codes = Codes { data: moved(&self.codes.data), ..(*self.codes).clone() };
        let scales =
            Scales { inner: moved(&self.scales.inner), global: self.scales.global.as_ref().map(moved) };
        Self::of(codes, scales, self.scheme)
    }
}

/// The extent of a block along the innermost axis.
fn innermost_block(scheme: &QuantScheme) -> usize {
    scheme.block_size().and_then(|size| size.as_slice().last().copied()).map_or(1, usize::from)
}

/// Scales times what they are relative to.
fn relative(scales: &MlirTensor, global: Option<&MlirTensor>) -> MlirTensor {
    match global {
        Some(global) => {
            let ones = ir::Shape::new(scales.shape.iter().map(|_| 1));
            global.reshape(ones).mul(scales)
        }
        None => scales.clone(),
    }
}

/// Scales at every element of `shape`.
fn spread(scales: &MlirTensor, blocks: Option<&Blocks>, shape: &ir::Shape) -> MlirTensor {
    match blocks {
        Some(blocks) => blocks.spread(scales, shape),
        None => {
            let ones = ir::Shape::new(shape.iter().map(|_| 1));
            scales.reshape(ones).expand(shape)
        }
    }
}
