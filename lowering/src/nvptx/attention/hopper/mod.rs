//! Attention on Hopper for f16 and bf16: warpgroup matrix instructions fed by the copy engine.
//!
//! A block of threads stays for the whole launch and draws tiles of queries from a counter. Its first
//! warpgroup copies ([`producer`]); the others compute 64 queries each ([`consumer`], [`products`], [`softmax`],
//! [`scores`], [`epilogue`]). Copies and computation meet at barriers of three rings of buffers ([`kernel`]).

mod code;
mod consumer;
mod epilogue;
mod kernel;
mod maps;
mod producer;
mod products;
mod scores;
mod softmax;
mod tiling;

use crate::Payload;
use burn_mlir_ir::{Attention, NvptxTarget, Phase, Program};
use kernel::{Kernel, SYMBOL};
use tiling::Tiling;

/// Lowers an attention that these instructions can do.
pub(super) fn lower(attention: &Attention, target: &NvptxTarget) -> Option<Payload> {
    let tiling = Tiling::of(attention)?;
    let kernel = Kernel::new(attention, &tiling)?;
    let blocks = kernel.tiles().min(target.multiprocessors) as u32;
    let phase = Phase {
        symbol: SYMBOL.into(),
        grid: [blocks, 1, 1],
        block: [tiling.threads() as u32, 1, 1],
        workgroup_bytes: tiling.memory_bytes() as u32,
        tensor_maps: kernel.tensor_maps(),
        ..Phase::default()
    };
    let program = Program { phases: vec![phase], shared_bytes: 0, worker_bytes: 0 };
    Some(Payload { text: kernel.write(), program, schedule: String::new(), lower_sequence: false })
}
