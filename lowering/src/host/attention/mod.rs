//! Attention on the host: scores of a tile of queries and a block of keys at a time, kept in the worker's
//! scratch.
//!
//! A first phase packs keys and values by blocks ([`pack`]). In the second one a tile is some queries of a
//! head ([`kernel`]): for one block of keys after the other, register tiles compute scores and add weighted
//! values to the sums ([`products`]), and between the two the scores become weights ([`softmax`]). Each sum is
//! one chain in the order of the keys.

mod geometry;
mod kernel;
mod memory;
mod pack;
mod products;
mod softmax;

use crate::{LoweringError, Payload};
use burn_mlir_ir::{Attention, HostTarget, Phase, Program};
use geometry::Geometry;

/// Lowers an attention.
pub(crate) fn lower(attention: &Attention, target: &HostTarget) -> Result<Payload, LoweringError> {
    let sizes = &attention.sizes;
    let geometry = Geometry::of(attention, target);
    let blocks = sizes.batch * sizes.kv_heads * geometry.blocks(sizes.keys);
    let tiles = sizes.batch * sizes.heads * sizes.queries.div_ceil(geometry.rows());
    let text =
        [pack::write(attention, &geometry), kernel::Kernel::new(attention, &geometry).write()].join("\n");
    let phases = [(pack::SYMBOL, blocks), (kernel::SYMBOL, tiles)].map(|(symbol, tiles)| Phase {
        symbol: symbol.into(),
        tiles: tiles as u64,
        ..Phase::default()
    });
    let program = Program {
        phases: phases.into(),
        shared_bytes: geometry.packed_bytes(attention) as u64,
        worker_bytes: geometry.worker_bytes(attention) as u64,
    };
    Ok(Payload { text, program, schedule: String::new(), lower_sequence: false })
}
