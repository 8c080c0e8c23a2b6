//! Kernels that are loops over data, not blocks: code in scf, memref and vector.
//!
//! - [`scatter`](mod@scatter): updates at indices;
//! - [`scan`](mod@scan): prefix combinations;
//! - [`sort`](mod@sort): stable sorts;
//! - [`paths`](mod@paths): sums over monotone paths.
//!
//! Vectors are written as such; [`vector`] has the arithmetic on them.

mod array;
pub(crate) mod paths;
mod scan;
mod scatter;
mod sort;
mod vector;
mod view;

pub(crate) use paths::paths;
pub(crate) use scan::scan;
pub(crate) use scatter::{combination, scatter};
pub(crate) use sort::sort;

use crate::Payload;
use crate::abi::PhaseWriter;
use burn_mlir_ir::{Phase, Program};

/// Elements a tile should have at least.
const TILE_ELEMENTS: usize = 8 << 10;

/// The payload of a kernel of one phase.
fn payload(symbol: &str, phase: PhaseWriter, tiles: usize, worker_bytes: u64) -> Payload {
    let phases = vec![Phase { symbol: symbol.into(), tiles: tiles as u64, ..Phase::default() }];
    Payload {
        text: phase.finish(),
        program: Program { phases, shared_bytes: 0, worker_bytes },
        schedule: crate::host::SCHEDULE.into(),
        lower_sequence: false,
    }
}
