//! Other shapes, other orders and choices of quantised values.

use super::blocks::Blocks;
use super::codes::{self, Codes};
use super::{QuantizedTensor, Scales};
use crate::MlirTensor;
use crate::ops::slice_dims;
use burn_backend::Slice;
use burn_backend::quantization::{BlockSize, QuantValue};
use burn_mlir_ir::{ArgReduceOp, DType, ReduceOp, Shape, SliceDim};
use smallvec::SmallVec;

impl QuantizedTensor {
    fn rank(&self) -> usize {
        self.codes.shape.rank()
    }

    fn blocks(&self) -> Option<Blocks> {
        Blocks::of(&self.scheme, self.rank())
    }

    /// Other codes with a view or choice of the scales.
    fn with_inner(&self, codes: Codes, inner: MlirTensor) -> Self {
        let scales = Scales { inner, global: self.scales.global.clone() };
        Self::of(codes, scales, self.scheme)
    }

    /// The same values in another shape.
    pub(crate) fn reshape(&self, shape: &Shape) -> Self {
        if *shape == self.codes.shape {
            return self.clone();
        }
        let Some(blocks) = self.blocks() else { return self.with_codes(self.codes.reshape(shape)) };
        let others = Blocks::of(&self.scheme, shape.rank()).unwrap_or_else(|| blocks.clone());
        let rank = self.scheme.block_size().map_or(0, |size| size.as_slice().len());
        let (from, to) = ((&self.codes.shape, &blocks), (shape, &others));
        let one = blocks.grid(from.0).elements() == 1 && others.grid(shape).elements() == 1;
        let survive = one || Blocks::survive_reshape(rank, from, to);
        if shape.elements() == self.codes.shape.elements() && survive {
            let inner = self.scales.inner.reshape(others.grid(shape));
            return self.with_inner(self.codes.reshape(shape), inner);
        }
        self.requantized(|values| values.reshape(shape.clone()))
    }

    /// Result axis `i` is axis `axes[i]`. Blocks are permuted with the axes, and the scheme says so.
    pub(crate) fn permute(&self, axes: &[usize]) -> Self {
        let codes = self.codes.permute(axes);
        let rank = self.rank();
        let valid = axes.len() == rank && axes.iter().all(|&axis| axis < rank);
        let Some(blocks) = self.blocks().filter(|_| valid) else { return self.with_codes(codes) };
        let extents = axes.iter().map(|&axis| blocks.extent(axis));
        if extents.skip_while(|&extent| extent == 1).count() > BlockSize::MAX_DIMS {
            // No scheme has such blocks.
            return self.requantized(|values| values.permute(axes));
        }
        let mut permuted = self.with_inner(codes, self.scales.inner.permute(axes));
        permuted.scheme.permute_block_dims(rank, axes);
        permuted
    }

    /// Two axes exchanged.
    pub(crate) fn swap_axes(&self, a: usize, b: usize) -> Self {
        let mut axes: SmallVec<[usize; 6]> = (0..self.rank()).collect();
        if a.max(b) < axes.len() {
            axes.swap(a, b);
            return self.permute(&axes);
        }
        self.with_codes(self.codes.map(&self.codes.shape, |values| values.swap_axes(a, b)))
    }

    /// Some axes backwards.
    pub(crate) fn flip(&self, axes: &[usize]) -> Self {
        let mut dims = self.whole();
        for &axis in axes {
            let Some(dim) = dims.get_mut(axis) else {
                return self.with_codes(self.codes.map(&self.codes.shape, |values| values.flip(axes)));
            };
            *dim = SliceDim { start: dim.size.saturating_sub(1), size: dim.size, step: -1 };
        }
        self.slice(&dims)
    }

    /// Burn's slices.
    pub(crate) fn slices(&self, slices: &[Slice]) -> Self {
        self.slice(&slice_dims(&self.codes.shape, slices))
    }

    fn whole(&self) -> SmallVec<[SliceDim; 6]> {
        self.codes.shape.iter().map(|&size| SliceDim { start: 0, size, step: 1 }).collect()
    }

    /// A strided box.
    fn slice(&self, dims: &[SliceDim]) -> Self {
        let all = self.whole();
        if all[..] == *dims {
            return self.clone();
        }
        let shape: Shape = dims.iter().map(|dim| dim.size).collect();
        let inner = match self.blocks() {
            Some(blocks) => match blocks.sliced(&self.codes.shape, dims) {
                Some(of_blocks) => self.scales.inner.slice(of_blocks),
                None => return self.requantized(|values| values.slice(dims.into())),
            },
            None => self.scales.inner.clone(),
        };
        let axis = self.codes.packing.axis;
        let apart = dims.get(axis).is_some_and(|dim| *dim == all[axis]);
        let codes = if self.codes.is_packed() && apart {
            let mut of_bytes: SmallVec<[SliceDim; 6]> = dims.into();
            of_bytes[axis].size = self.codes.data.shape[axis];
            self.codes.map_bytes(&shape, axis, |bytes| bytes.slice(of_bytes))
        } else {
            self.codes.map(&shape, |values| values.slice(dims.into()))
        };
        self.with_inner(codes, inner)
    }

    /// Broadcast to `shape`.
    pub(crate) fn expand(&self, shape: &Shape) -> Self {
        let lead = shape.rank().saturating_sub(self.rank());
        let axis = self.codes.packing.axis + lead;
        let apart = self.codes.shape.get(self.codes.packing.axis) == shape.get(axis);
        let codes = if self.codes.is_packed() && apart && self.rank() > 0 {
            let mut of_bytes = shape.clone();
            of_bytes.0[axis] = self.codes.data.shape[self.codes.packing.axis];
            self.codes.map_bytes(shape, axis, |bytes| bytes.expand(&of_bytes))
        } else {
            self.codes.map(shape, |values| values.expand(shape))
        };
        match Blocks::of(&self.scheme, shape.rank()) {
            // What is repeated has extent 1, and so is one block.
            Some(blocks) => self.with_inner(codes, self.scales.inner.expand(&blocks.grid(shape))),
            None => self.with_codes(codes),
        }
    }

    /// Slices at `indices: [n]` along `axis`.
    pub(crate) fn select(&self, axis: usize, indices: &MlirTensor) -> Self {
        let inner = match self.blocks() {
            Some(blocks) if blocks.extent(axis) == 1 => self.scales.inner.take(axis, indices),
            Some(_) => return self.requantized(|values| values.take(axis, indices)),
            None => self.scales.inner.clone(),
        };
        let mut shape = self.codes.shape.clone();
        if let (Some(extent), Some(&count)) = (shape.0.get_mut(axis), indices.shape.first()) {
            *extent = count;
        }
        let codes = if self.codes.is_packed_apart_from(axis) {
            self.codes.map_bytes(&shape, self.codes.packing.axis, |bytes| bytes.take(axis, indices))
        } else {
            self.codes.map(&shape, |values| values.take(axis, indices))
        };
        self.with_inner(codes, inner)
    }

    /// `out[i] = self[i with axis replaced by indices[i]]`.
    pub(crate) fn gather(&self, axis: usize, indices: &MlirTensor) -> Self {
        if self.scheme.block_size().is_some() {
            return self.requantized(|values| values.gather(axis, indices));
        }
        self.with_codes(self.codes.map(&indices.ir_shape(), |values| values.gather(axis, indices)))
    }

    /// `times` copies one after the other along `axis`.
    pub(crate) fn repeat(&self, axis: usize, times: usize) -> Self {
        let extent = self.codes.shape.get(axis).copied().unwrap_or(1);
        let inner = match self.blocks() {
            Some(blocks) if extent.is_multiple_of(blocks.extent(axis)) => {
                self.scales.inner.repeat(axis, times)
            }
            Some(_) => return self.requantized(|values| values.repeat(axis, times)),
            None => self.scales.inner.clone(),
        };
        let mut shape = self.codes.shape.clone();
        if let Some(extent) = shape.0.get_mut(axis) {
            *extent *= times;
        }
        let codes = if self.codes.is_packed_apart_from(axis) {
            self.codes.map_bytes(&shape, self.codes.packing.axis, |bytes| bytes.repeat(axis, times))
        } else {
            self.codes.map(&shape, |values| values.repeat(axis, times))
        };
        self.with_inner(codes, inner)
    }

    /// Tensors one after the other along `axis`, by the scheme of the first. Codes stay as they are if all have
    /// that scheme and blocks end where tensors do; scales for whole tensors differ.
    pub(crate) fn concat(tensors: &[Self], axis: usize) -> Option<Self> {
        let first = tensors.first()?;
        let aligned = |tensor: &Self| {
            let extent = tensor.codes.shape.get(axis);
            tensor.scheme == first.scheme
                && tensor.scales.global.is_none()
                && tensor.rank() == first.rank()
                && tensor.blocks().is_some_and(|blocks| {
                    extent.is_some_and(|extent| extent.is_multiple_of(blocks.extent(axis)))
                })
        };
        if !tensors.iter().all(aligned) {
            let values: SmallVec<[MlirTensor; 4]> =
                tensors.iter().map(|tensor| tensor.dequantized(DType::F32)).collect();
            return Some(Self::dynamic(&MlirTensor::concat(&values, axis)?, &first.scheme));
        }
        let scales: SmallVec<[MlirTensor; 4]> =
            tensors.iter().map(|tensor| tensor.scales.inner.clone()).collect();
        let inner = MlirTensor::concat(&scales, axis)?;
        let codes: SmallVec<[&Codes; 4]> = tensors.iter().map(|tensor| &*tensor.codes).collect();
        Some(first.with_inner(Codes::concat(&codes, axis)?, inner))
    }

    /// Integers in the order of the values, which other codes can be made of: of integers with one scale.
    fn ordered(&self) -> Option<MlirTensor> {
        let integers = codes::minifloat(self.scheme.value).is_none() && self.scheme.block_size().is_none();
        integers.then(|| self.codes.integers().cast(DType::I8))
    }

    /// Numbers in the order of the values.
    fn comparable(&self) -> MlirTensor {
        match (self.ordered(), self.scheme.block_size()) {
            (Some(integers), _) => integers,
            (None, None) => self.codes.decoded(),
            (None, Some(_)) => self.dequantized(DType::F32),
        }
    }

    /// Other codes made of [`ordered`](Self::ordered) integers.
    fn with_integers(&self, integers: &MlirTensor) -> Self {
        self.with_codes(Codes::from_bytes(self.scheme.value, 1, integers))
    }

    /// Position of an extreme value along `axis`.
    pub(crate) fn arg_reduce(&self, op: ArgReduceOp, axis: usize, dtype: DType) -> MlirTensor {
        self.comparable().arg_reduce(op, &[axis], dtype)
    }

    /// An extreme value along `axis`.
    pub(crate) fn extreme(&self, op: ReduceOp, axis: usize) -> Self {
        if let Some(integers) = self.ordered() {
            return self.with_integers(&integers.reduce(op, &[axis]));
        }
        if self.scheme.block_size().is_some() {
            return self.requantized(|values| values.reduce(op, &[axis]));
        }
        let arg = if op == ReduceOp::Max { ArgReduceOp::ArgMax } else { ArgReduceOp::ArgMin };
        self.gather(axis, &self.arg_reduce(arg, axis, DType::I32))
    }

    /// An extreme value of all: `[1]`.
    pub(crate) fn extreme_of_all(&self, op: ReduceOp) -> Self {
        match self.ordered() {
            Some(integers) => self.with_integers(&integers.reduce_all(op)),
            None if self.scheme.block_size().is_some() => self.requantized(|values| values.reduce_all(op)),
            None => self.reshape(&Shape::from([self.codes.shape.elements()])).extreme(op, 0),
        }
    }

    /// Magnitudes. Integers whose range is not symmetric may lack the largest, and are quantised again.
    pub(crate) fn abs(&self) -> Self {
        let value = self.scheme.value;
        let sign = match value {
            QuantValue::E4M3 | QuantValue::E5M2 => 0x80,
            QuantValue::E2M1 => 8,
            _ if value.is_symmetric() => 0,
            _ => return self.requantized(MlirTensor::abs),
        };
        self.with_codes(self.codes.map(&self.codes.shape, |codes| match sign {
            0 => codes.abs(),
            sign => codes.masked(sign - 1),
        }))
    }

    /// The positions that would sort along `axis`.
    pub(crate) fn argsort(&self, axis: usize, descending: bool, dtype: DType) -> MlirTensor {
        self.comparable().argsort(axis, descending, dtype)
    }

    /// Sorted along `axis`.
    pub(crate) fn sort(&self, axis: usize, descending: bool) -> Self {
        match self.ordered() {
            Some(integers) => self.with_integers(&integers.sort(axis, descending)),
            None if self.scheme.block_size().is_some() => {
                self.requantized(|values| values.sort(axis, descending))
            }
            None => self.gather(axis, &self.argsort(axis, descending, DType::I32)),
        }
    }

    /// The `count` largest along `axis`, largest first.
    pub(crate) fn topk(&self, axis: usize, count: usize) -> Self {
        match self.ordered() {
            Some(integers) => self.with_integers(&integers.sort(axis, true).first(axis, count)),
            None => self.gather(axis, &self.argsort(axis, true, DType::I32).first(axis, count)),
        }
    }
}
