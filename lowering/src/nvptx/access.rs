//! Vectors of a chunk from and to memory, by as few accesses as their alignment allows.

use super::ACCESS_BYTES;
use super::chunk::{Chunk, Environment, Evaluator, Known, bytes_of};
use super::writer::GLOBAL;
use crate::LoweringError;
use crate::emit::Value;
use crate::host::lanes::{Form, vector_type, zero_of};
use crate::host::tiles::{index, index_op, scaled};
use crate::scalar;
use crate::types::{storage_type, value_type};
use burn_mlir_ir::{Access, DTypeKind, Gather, ParamId, Store};

impl Evaluator<'_> {
    /// Lanes one access can cover: as many as its alignment allows.
    pub fn piece(&self, param: ParamId, access: &Access, width: usize) -> usize {
        self.piece_along(self.lane, param, access, width)
    }

    /// Elements along a dimension one access can cover.
    pub fn piece_along(&self, lane: usize, param: ParamId, access: &Access, width: usize) -> usize {
        let param = &self.block.params[param.0 as usize];
        let size = param.dtype.size();
        if access.strides[lane] != 1 {
            return 1;
        }
        let others = access.strides.iter().enumerate().filter(|(dim, _)| *dim != lane);
        let alignment = others.fold(param.alignment.min(ACCESS_BYTES), |alignment, (dim, &stride)| {
            let shift = self.leader.as_ref().map_or(0, |leader| leader[dim]);
            let step = (stride - shift).unsigned_abs() as usize * size;
            if step == 0 { alignment } else { alignment.min(1 << step.trailing_zeros()) }
        });
        (alignment / size).clamp(1, width)
    }

    /// A vector read from memory.
    pub fn read(&mut self, at: &Value, element: &str, stride: i64, piece: usize, width: usize) -> Value {
        let bytes = piece * bytes_of(element);
        let part = if piece == 1 { element.to_string() } else { vector_type(piece, element) };
        let mut parts = Vec::new();
        for lane in (0..width as i64).step_by(piece) {
            let offset = lane * stride;
            let e = self.e();
            let at =
                e.op(format_args!("llvm.getelementptr {at}[{offset}] : ({GLOBAL}) -> {GLOBAL}, {element}"));
            parts.push(
                e.op(format_args!("llvm.load {at} {{alignment = {bytes} : i64}} : {GLOBAL} -> {part}")),
            );
        }
        self.join(&parts, element, piece, width)
    }

    /// A vector from its pieces.
    fn join(&mut self, parts: &[Value], element: &str, piece: usize, width: usize) -> Value {
        let vector = vector_type(width, element);
        let e = self.e();
        if piece == width && width > 1 {
            return parts[0].clone();
        }
        if piece == 1 {
            return e.op(format_args!("vector.from_elements {} : {vector}", parts.join(", ")));
        }
        let mut whole = e.op(format_args!("arith.constant dense<{}> : {vector}", zero_of(element)));
        for (position, part) in parts.iter().enumerate() {
            whole = e.op(format_args!(
                "vector.insert_strided_slice {part}, {whole} {{offsets = [{}], strides = [1]}} : {} into {vector}",
                position * piece,
                vector_type(piece, element)
            ));
        }
        whole
    }

    /// Evaluates a load at an index that is data.
    pub fn gather(
        &mut self,
        known: &mut Environment,
        chunk: &Chunk,
        statement: usize,
        gather: &Gather,
    ) -> Result<(), LoweringError> {
        let dtype = self.block.body[statement].dtype;
        let element = storage_type(dtype);
        let stride = gather.access.strides[self.lane];
        let index_dtype = self.block.body[gather.index.0 as usize].dtype;
        let cast =
            if index_dtype.kind() == DTypeKind::Unsigned { "arith.index_castui" } else { "arith.index_cast" };
        let origin =
            self.kernel.address(gather.param.0 as usize, element, &gather.access, &chunk.coordinates);
        let ty = value_type(index_dtype);
        if !self.varies(gather.index.0 as usize) {
            let Some(Known::Scalar(position)) = known[gather.index.0 as usize].clone() else {
                return Err(LoweringError::Unsupported("a gather before its index".into()));
            };
            let position = self.e().op(format_args!("{cast} {position} : {ty} to index"));
            let step = self.clamped(&position, gather, chunk);
            let at = self.kernel.element(&origin, GLOBAL, &step, element);
            known[statement] = Some(if self.varies(statement) {
                // Aligned if the steps along the gathered axis are.
                let mut access = gather.access.clone();
                access.strides.push(gather.stride);
                let piece = self.piece(gather.param, &access, chunk.width);
                Known::Lanes(self.read(&at, element, stride, piece, chunk.width), Form::Storage)
            } else {
                let value = self.e().op(format_args!("llvm.load {at} : {GLOBAL} -> {element}"));
                Known::Scalar(scalar::from_storage(self.e(), dtype, &value))
            });
            return Ok(());
        }
        let positions = self.evaluate(known, chunk, &[(gather.index, Form::Value)])?.remove(0);
        let mut parts = Vec::new();
        for lane in 0..chunk.width {
            let vector = vector_type(chunk.width, ty);
            let position =
                self.e().op(format_args!("vector.extract {positions}[{lane}] : {ty} from {vector}"));
            let position = self.e().op(format_args!("{cast} {position} : {ty} to index"));
            let step = self.clamped(&position, gather, chunk);
            let shift = index(self.e(), lane as i64 * stride);
            let step = index_op(self.e(), "arith.addi", &step, &shift);
            let at = self.kernel.element(&origin, GLOBAL, &step, element);
            parts.push(self.e().op(format_args!("llvm.load {at} : {GLOBAL} -> {element}")));
        }
        let vector = self.join(&parts, element, 1, chunk.width);
        known[statement] = Some(Known::Lanes(vector, Form::Storage));
        Ok(())
    }

    /// The elements to step for an index that is data, brought into range and reported if it was not.
    fn clamped(&mut self, position: &Value, gather: &Gather, chunk: &Chunk) -> Value {
        let e = &mut self.kernel.emitter;
        let (low, high) = (index(e, 0), index(e, gather.extent.max(1) - 1));
        let clamped = index_op(e, "arith.maxsi", position, &low);
        let clamped = index_op(e, "arith.minsi", &clamped, &high);
        let mut outside = e.op(format_args!("arith.cmpi ne, {clamped}, {position} : index"));
        if let Some(valid) = &chunk.valid {
            outside = e.op(format_args!("arith.andi {outside}, {valid} : i1"));
        }
        self.kernel.report(&outside);
        scaled(self.e(), &clamped, gather.stride)
    }

    /// Writes values of a chunk, evaluated in storage form, where the chunk is valid.
    pub fn store_valid<'s>(
        &mut self,
        chunk: &Chunk,
        stores: impl IntoIterator<Item = &'s Store>,
        values: &[Value],
    ) {
        if let Some(valid) = &chunk.valid {
            self.e().open(format_args!("scf.if {valid} {{"));
        }
        for (store, value) in stores.into_iter().zip(values) {
            self.store(chunk, store, value);
        }
        if chunk.valid.is_some() {
            self.e().close("}");
        }
    }

    /// Writes values of a chunk, evaluated in storage form.
    fn store(&mut self, chunk: &Chunk, store: &Store, value: &Value) {
        let element = storage_type(self.block.params[store.param.0 as usize].dtype);
        let at = self.kernel.address(store.param.0 as usize, element, &store.access, &chunk.coordinates);
        if !self.varies(store.value.0 as usize) && !store.access.uses(self.lane) {
            self.e().line(format_args!("llvm.store {value}, {at} : {element}, {GLOBAL}"));
            return;
        }
        let (width, stride) = (chunk.width, store.access.strides[self.lane]);
        let vector = vector_type(width, element);
        let piece = self.piece(store.param, &store.access, width);
        let bytes = piece * bytes_of(element);
        let varies = self.varies(store.value.0 as usize);
        let e = &mut self.kernel.emitter;
        let value = if varies {
            value.clone()
        } else {
            e.op(format_args!("vector.broadcast {value} : {element} to {vector}"))
        };
        for lane in (0..width).step_by(piece) {
            let (part, ty) = if piece == 1 {
                let part = e.op(format_args!("vector.extract {value}[{lane}] : {element} from {vector}"));
                (part, element.to_string())
            } else if piece == width {
                (value.clone(), vector.clone())
            } else {
                let ty = vector_type(piece, element);
                let part = e.op(format_args!(
                    "vector.extract_strided_slice {value} {{offsets = [{lane}], sizes = [{piece}], \
                     strides = [1]}} : {vector} to {ty}"
                ));
                (part, ty)
            };
            let offset = lane as i64 * stride;
            let at =
                e.op(format_args!("llvm.getelementptr {at}[{offset}] : ({GLOBAL}) -> {GLOBAL}, {element}"));
            e.line(format_args!("llvm.store {part}, {at} {{alignment = {bytes} : i64}} : {ty}, {GLOBAL}"));
        }
    }
}
