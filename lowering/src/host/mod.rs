//! Lowering of blocks for host processors.
//!
//! - [`contraction`]: blocks with a contraction;
//! - [`row`]: blocks that reduce, and contractions whose extents are not known;
//! - [`map`]: everything else.
//!
//! Maps and rows evaluate statements with [`lanes`] and cut their work with [`tiles`]. Their extents and strides may be
//! arguments of the launch ([`extent`]).

mod accumulate;
mod attention;
mod contraction;
pub(crate) mod extent;
mod jam;
pub(crate) mod lanes;
mod map;
mod partial;
mod row;
mod stages;
pub(crate) mod tiles;
mod transpose;
mod walk;

pub(crate) use accumulate::combining_op;
pub(crate) use stages::instruction_cost;
pub(crate) use transpose::transposed;

use crate::{LoweringError, Payload};
use burn_mlir_ir::{Access, Attention, Block, DType, DimKind, DomainDim, HostTarget, Instr};

/// The transform script of maps and rows.
pub(crate) const SCHEDULE: &str = include_str!("schedule.mlir");

/// Elements a tile should have at least, where there are enough: a few microseconds of work.
const TILE_ELEMENTS: usize = 16 << 10;

/// Lowers an attention.
pub(crate) fn attention(attention: &Attention, target: &HostTarget) -> Result<Payload, LoweringError> {
    attention::lower(attention, target)
}

/// Lowers a block.
pub(crate) fn block(block: &Block, target: &HostTarget) -> Result<Payload, LoweringError> {
    let contracts = block.contraction().is_some();
    if contracts && !block.is_opened() {
        return contraction::lower(block, target);
    }
    let block = with_lane(block);
    if contracts || block.reduces() { row::lower(&block, target) } else { map::lower(&block, target) }
}

/// The block with a dimension of size 1 added if it has none: there must be one for the lanes.
pub(crate) fn with_lane(block: &Block) -> Block {
    let mut block = block.clone();
    if block.domain.iter().any(|dim| dim.size > 0) {
        return block;
    }
    block.domain.push(DomainDim::new(DimKind::Parallel, 1));
    let accesses = block.body.iter_mut().filter_map(|statement| match &mut statement.instr {
        Instr::Load { access, .. } | Instr::Index { access, .. } | Instr::Random { access, .. } => {
            Some(access)
        }
        Instr::Gather(gather) => Some(&mut gather.access),
        _ => None,
    });
    for access in accesses.chain(block.stores.iter_mut().map(|store| &mut store.access)) {
        access.strides.push(0);
    }
    block
}

/// Lanes of a native vector for the widest type the block computes in.
fn native_lanes(block: &Block, target: &HostTarget) -> usize {
    let bytes = |dtype: DType| match dtype {
        DType::F16 | DType::BF16 => 4,
        _ => dtype.size(),
    };
    let widest = block.body.iter().map(|s| bytes(s.dtype)).max().unwrap_or(4);
    (target.vector_bytes / widest).max(1)
}

/// The dimension along which a chunk's lanes run: the one with the cheapest memory accesses.
fn lane_dimension(block: &Block, native: usize) -> usize {
    let mut accesses: Vec<&Access> = block.stores.iter().map(|store| &store.access).collect();
    accesses.extend(block.body.iter().filter_map(|statement| match &statement.instr {
        Instr::Load { access, .. } => Some(access),
        Instr::Gather(gather) => Some(&gather.access),
        _ => None,
    }));
    let cost = |dim: usize| -> usize {
        let memory: usize = accesses
            .iter()
            .map(|access| match access.strides[dim] {
                0 => 2,
                1 => 4,
                -1 => 6,
                _ => 32,
            })
            .sum();
        let size = block.domain[dim].size;
        // A short dimension leaves lanes empty.
        (memory + 4) * native.max(size) * 16 / size
    };
    let dims = (0..block.domain.len()).rev().filter(|&dim| block.domain[dim].size > 0);
    dims.min_by_key(|&dim| cost(dim)).unwrap_or(0)
}
