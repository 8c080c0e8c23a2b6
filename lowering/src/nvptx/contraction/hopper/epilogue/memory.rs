//! Elements of buffers that the epilogue loads, and those that threads store themselves.

use super::Finisher;
use super::pair::Pair;
use super::spot::{adjacent, both};
use crate::emit::{Emitter, Value};
use crate::nvptx::contraction::hopper::kernel::Kernel;
use crate::nvptx::contraction::hopper::problem::Problem;
use crate::nvptx::writer::GLOBAL;
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::{Access, Instr, ParamId, Store};

/// Whether both elements of a pair can be accessed at once.
fn at_once(problem: &Problem<'_>, param: ParamId, access: &Access) -> bool {
    let Some(&lane) = problem.columns.dims.last() else { return false };
    let param = &problem.block.params[param.0 as usize];
    let others = access.strides.iter().enumerate().filter(|(dim, _)| *dim != lane);
    adjacent(problem)
        && access.strides[lane] == 1
        && param.alignment.is_multiple_of(2 * param.dtype.size())
        && others.map(|(_, stride)| stride).all(|stride| stride % 2 == 0)
}

impl Finisher<'_> {
    /// Loads what statement `at` loads, for a pair of columns of a row.
    pub(super) fn load(
        &self,
        kernel: &mut Kernel<'_>,
        at: usize,
        coordinates: &[Vec<Value>; 2],
    ) -> Option<Pair> {
        let problem = kernel.problem;
        let statement = &problem.block.body[at];
        let Instr::Load { param, access } = &statement.instr else { return None };
        let dtype = statement.dtype;
        let element = storage_type(dtype);
        let mut one = |lane: usize| -> Value {
            let address = kernel.writer.address(param.0 as usize, element, access, &coordinates[lane]);
            let e = kernel.e();
            let value = e.op(format_args!("llvm.load {address} : {GLOBAL} -> {element}"));
            scalar::from_storage(e, dtype, &value)
        };
        if self.sets[at] & self.column_dims == 0 {
            return Some(Pair::Same(one(0)));
        }
        if !at_once(problem, *param, access) {
            return Some(Pair::Lanes([one(0), one(1)]));
        }
        let address = kernel.writer.address(param.0 as usize, element, access, &coordinates[0]);
        let (bytes, ty) = (2 * dtype.size(), Pair::memory_type(dtype));
        let e = kernel.e();
        let vector =
            e.op(format_args!("llvm.load {address} {{alignment = {bytes} : i64}} : {GLOBAL} -> {ty}"));
        Some(Pair::loaded(e, dtype, vector))
    }

    /// Stores a pair of columns of a row, those that are valid.
    pub(super) fn store(
        &self,
        kernel: &mut Kernel<'_>,
        store: &Store,
        pair: &Pair,
        coordinates: &[Vec<Value>; 2],
        [row, columns]: [&[Option<Value>; 2]; 2],
    ) {
        let problem = kernel.problem;
        let dtype = problem.block.params[store.param.0 as usize].dtype;
        let element = storage_type(dtype);
        let position = store.param.0 as usize;
        if at_once(problem, store.param, &store.access) {
            let valid = both(kernel.e(), &row[0], &columns[0]);
            let (value, ty) = pair.stored(kernel.e(), dtype);
            guarded(kernel, valid.as_ref(), |kernel| {
                let address = kernel.writer.address(position, element, &store.access, &coordinates[0]);
                let bytes = 2 * dtype.size();
                kernel.e().line(format_args!(
                    "llvm.store {value}, {address} {{alignment = {bytes} : i64}} : {ty}, {GLOBAL}"
                ));
            });
            return;
        }
        let lanes = pair.lanes(kernel.e(), dtype);
        for (lane, value) in lanes.iter().enumerate() {
            let valid = both(kernel.e(), &row[lane], &columns[lane]);
            let value = scalar::to_storage(kernel.e(), dtype, value);
            guarded(kernel, valid.as_ref(), |kernel| {
                let address = kernel.writer.address(position, element, &store.access, &coordinates[lane]);
                kernel.e().line(format_args!("llvm.store {value}, {address} : {element}, {GLOBAL}"));
            });
        }
    }
}

/// Code that is executed where a condition holds, if there is one.
fn guarded(kernel: &mut Kernel<'_>, condition: Option<&Value>, code: impl FnOnce(&mut Kernel<'_>)) {
    let open = |e: &mut Emitter, condition: &Value| e.open(format_args!("scf.if {condition} {{"));
    if let Some(condition) = condition {
        open(kernel.e(), condition);
    }
    code(kernel);
    if condition.is_some() {
        kernel.e().close("}");
    }
}
