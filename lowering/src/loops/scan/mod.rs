//! Inclusive prefix combinations along an axis.
//!
//! - [`along`]: memory is contiguous along the axis (or along no dimension): lines along it, each combined in
//!   order; blocks of as many lines of floats as a vector has lanes are transposed in registers, a lane for each;
//! - [`across`]: memory is contiguous along another dimension: a lane for each of its elements.
//!
//! Where lines are few and long, they are cut into segments, whose length depends on the shape alone: one phase
//! combines each segment, one combines those in order, and a third starts each segment from there.

mod across;
mod along;
mod scanner;

use crate::{LoweringError, Payload};
use burn_mlir_ir::{HostTarget, Phase, Program, Scan};

/// Tiles from which lines need not be cut for the sake of parallelism.
const ENOUGH_TILES: usize = 32;

/// Elements below which nothing is cut.
const WORTH_CUTTING: usize = 64 << 10;

/// Lowers a scan; f16 and bf16 accumulate in f32.
pub(crate) fn scan(scan: &Scan, target: &HostTarget) -> Result<Payload, LoweringError> {
    let unit = |dim: usize| scan.accesses.iter().all(|access| access.strides[dim] == 1);
    let beside = scan.outer().find(|&dim| unit(dim) && scan.shape[dim] > 1);
    match beside {
        Some(lane) if !unit(scan.axis) => across::lower(scan, target, lane),
        _ => along::lower(scan, target),
    }
}

/// The payload of phases with their numbers of tiles.
fn payload(phases: Vec<(String, &str, usize)>, shared_bytes: u64, worker_bytes: u64) -> Payload {
    let launched = phases.iter().map(|(_, symbol, tiles)| Phase {
        symbol: (*symbol).into(),
        tiles: *tiles as u64,
        ..Phase::default()
    });
    Payload {
        program: Program { phases: launched.collect(), shared_bytes, worker_bytes },
        text: phases.into_iter().map(|(text, ..)| text).collect(),
        schedule: crate::host::SCHEDULE.into(),
        lower_sequence: false,
    }
}
