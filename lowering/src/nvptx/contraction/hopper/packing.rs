//! Operands that the copy engine cannot walk as they are: copied to scratch first, in rows that begin at
//! multiples of 16 bytes.

use super::problem::Major;
use super::view::{Dim, View};
use crate::nvptx::{map, writer::moved_to_scratch};
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Access, Block, DType, DimKind, DomainDim, Instr, Operand, Param, ParamId, ParamMode};
use burn_mlir_ir::{Statement, Store};

/// Points of the other side from which on a copy is worth it.
pub(super) const REUSE: usize = 256;

/// Bytes rows and copies begin at multiples of.
const ROW_ALIGNMENT: usize = 16;
const ALIGNMENT: usize = 256;

/// A copy of an operand.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    param: ParamId,
    /// Extents, and elements between neighbours in the operand and in the copy.
    dims: Vec<(usize, i64, i64)>,
    dtype: DType,
    /// Bytes of the copy.
    pub bytes: usize,
}

impl Packing {
    /// The copy of an operand of `dtype` that is walked along `sum`, `side` and `others`, with the view of it.
    /// Where the view is in scratch is yet to be said.
    pub fn of(
        block: &Block,
        param: ParamId,
        dtype: DType,
        [sum, side]: [Dim; 2],
        others: &[Dim],
        along_sum: bool,
    ) -> Option<(Self, View, Major)> {
        let (dims, major) = if along_sum || side.stride != 1 {
            ([sum, side], Major::Sum)
        } else {
            ([side, sum], Major::Side)
        };
        let moving = |dim: &&Dim| dim.size > 1 && dim.stride != 0;
        // What stands still along its side is no operand of a product.
        if dims.iter().any(|dim| dim.size > 1 && dim.stride == 0) {
            return None;
        }
        let row = dims[0].size.next_multiple_of(ROW_ALIGNMENT / dtype.size());
        let mut step = row as i64;
        let mut copied = vec![(dims[0], 1)];
        for dim in dims[1..].iter().chain(others.iter().filter(moving)) {
            copied.push((*dim, step));
            step *= dim.size as i64;
        }
        let view: Vec<Dim> = copied.iter().map(|&(dim, stride)| Dim { stride, ..dim }).collect();
        let scratch = ParamId(block.params.len() as u32);
        let view = View::new(scratch, dtype, ALIGNMENT, &view)?;
        let dims = copied.iter().rev().filter(|(dim, _)| dim.size > 1);
        let dims = dims.map(|&(dim, stride)| (dim.size, dim.stride, stride)).collect();
        let bytes = (step as usize * dtype.size()).next_multiple_of(ALIGNMENT);
        Some((Self { param, dims, dtype, bytes }, view, major))
    }

    /// The kernel that copies to `offset` bytes into the scratch, under the name of `symbol`.
    pub fn lower(&self, block: &Block, symbol: &str, offset: usize) -> Result<Payload, LoweringError> {
        let dtype = self.dtype;
        let access = |stride: fn(&(usize, i64, i64)) -> i64| Access::new(self.dims.iter().map(stride));
        let mut params = block.params.clone();
        params.push(Param { dtype, mode: ParamMode::Out, alignment: ALIGNMENT });
        let copy = Block {
            domain: self.dims.iter().map(|dim| DomainDim::new(DimKind::Parallel, dim.0)).collect(),
            params,
            scalars: block.scalars.clone(),
            body: vec![Statement {
                instr: Instr::Load { param: self.param, access: access(|d| d.1) },
                dtype,
            }],
            stores: vec![Store {
                param: ParamId(block.params.len() as u32),
                access: access(|d| d.2),
                value: Operand(0),
            }],
        };
        let mut payload = map::lower(&crate::host::with_lane(&copy))?;
        let buffer = block.params.len();
        for phase in &mut payload.program.phases {
            payload.text = moved_to_scratch(&payload.text, &phase.symbol, symbol, buffer, offset);
            phase.symbol = symbol.into();
        }
        Ok(payload)
    }
}
