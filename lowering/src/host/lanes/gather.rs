//! Loads at indices that are data.

use super::memory::View;
use super::{Environment, Form, Known, Lanes, vector_type, zero_of};
use crate::abi::report;
use crate::emit::Value;
use crate::error::LoweringError;
use crate::host::tiles::{index, index_op, scaled};
use crate::types::value_type;
use burn_mlir_ir::{DType, DTypeKind, Gather, Instr};

/// Bytes of a row from which the processor finds the rest by itself.
const LEAD: usize = 1 << 10;

/// Bytes of a cache line.
const LINE: usize = 64;

impl Lanes<'_> {
    /// Asks for the beginnings of the rows that gathers read at the coordinates, if they lie along the lanes: where
    /// the next row is, a processor cannot guess.
    pub fn prefetch_gathers(&mut self) -> Result<(), LoweringError> {
        let block = self.block;
        for statement in &block.body {
            let Instr::Gather(gather) = &statement.instr else { continue };
            let bytes = block.params[gather.param.0 as usize].dtype.size();
            let row = block.domain[self.lane].size * bytes;
            let along = gather.access.strides[self.lane] == 1;
            let spread = gather.stride.unsigned_abs() as usize * bytes >= LINE;
            if !along || !spread || row < LINE || gather.extent == 0 || self.varies(gather.index.0 as usize) {
                continue;
            }
            let mut known = self.environment();
            self.invariants(&mut known, &[gather.index], !0)?;
            if !matches!(known[gather.index.0 as usize], Some(Known::Scalar(_))) {
                continue;
            }
            let view = self.views[&(gather.param, gather.access.clone())].clone();
            let at = self.gather_address(&known, gather, &view)?;
            for line in 0..row.min(LEAD) / LINE {
                let shift = index(self.e(), line * LINE / bytes);
                let place = index_op(self.e(), "arith.addi", &at, &shift);
                let ty = view.ty();
                self.e().line(format_args!(
                    "memref.prefetch {}[{place}], read, locality<3>, data : {ty}",
                    view.memref
                ));
            }
        }
        Ok(())
    }

    /// The flat index of a gather whose index is the same for all lanes.
    pub(super) fn gather_address(
        &mut self,
        known: &Environment,
        gather: &Gather,
        view: &View,
    ) -> Result<Value, LoweringError> {
        let Some(Known::Scalar(value)) = &known[gather.index.0 as usize] else {
            return Err(LoweringError::Unsupported("a gather before its index".into()));
        };
        let dtype = self.block.body[gather.index.0 as usize].dtype;
        let e = &mut self.phase.emitter;
        let position = e.op(format_args!("{} {value} : {} to index", index_cast(dtype), value_type(dtype)));
        let (low, high) = (index(e, 0), index(e, gather.extent - 1));
        let clamped = index_op(e, "arith.maxsi", &position, &low);
        let clamped = index_op(e, "arith.minsi", &clamped, &high);
        let outside = e.op(format_args!("arith.cmpi ne, {clamped}, {position} : index"));
        report(e, &outside);
        let step = scaled(e, &clamped, gather.stride);
        let at = self.address(view, &gather.access);
        Ok(index_op(self.e(), "arith.addi", &at, &step))
    }

    pub(super) fn gather(
        &mut self,
        known: &mut Environment,
        width: usize,
        gather: &Gather,
    ) -> Result<Value, LoweringError> {
        let view = self.views[&(gather.param, gather.access.clone())].clone();
        if gather.extent == 0 {
            let always = self.e().op("arith.constant true");
            self.phase.report(&always);
            let vector = vector_type(width, view.element);
            let zeros =
                self.e().op(format_args!("arith.constant dense<{}> : {vector}", zero_of(view.element)));
            return Ok(self.tensor_of(&zeros, width, view.element));
        }
        if matches!(known[gather.index.0 as usize], Some(Known::Scalar(_))) {
            let at = self.gather_address(known, gather, &view)?;
            return Ok(self.load(&view, &at, &gather.access, width));
        }
        let dtype = self.block.body[gather.index.0 as usize].dtype;
        let indices = self.tensors(known, width, &[(gather.index, Form::Value)])?.remove(0);
        let indices = self.vector_of(&indices, width, value_type(dtype));
        let steps = self.lane_steps(&gather.access, width);
        let vector = vector_type(width, "index");
        let e = &mut self.phase.emitter;
        let position = e.op(format_args!(
            "{} {indices} : {} to {vector}",
            index_cast(dtype),
            vector_type(width, value_type(dtype))
        ));
        let low = e.op(format_args!("arith.constant dense<0> : {vector}"));
        let high = e.op(format_args!("arith.constant dense<{}> : {vector}", gather.extent - 1));
        let clamped = e.op(format_args!("arith.maxsi {position}, {low} : {vector}"));
        let clamped = e.op(format_args!("arith.minsi {clamped}, {high} : {vector}"));
        let outside = e.op(format_args!("arith.cmpi ne, {clamped}, {position} : {vector}"));
        let outside = e.op(format_args!("vector.reduction <or>, {outside} : vector<{width}xi1> into i1"));
        report(e, &outside);
        let factor = e.op(format_args!("arith.constant dense<{}> : {vector}", gather.stride));
        let step = e.op(format_args!("arith.muli {clamped}, {factor} : {vector}"));
        let steps = e.op(format_args!("arith.addi {step}, {steps} : {vector}"));
        let at = self.address(&view, &gather.access);
        Ok(self.gathered(&view, &at, &steps, width))
    }
}

fn index_cast(dtype: DType) -> &'static str {
    if dtype.kind() == DTypeKind::Unsigned { "arith.index_castui" } else { "arith.index_cast" }
}
