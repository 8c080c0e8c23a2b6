//! State of a graph in one place, so that a single copy carries all of it from replay to replay.
//!
//! A step of training carries every parameter, and perhaps moments of it: hundreds of copies, each a launch. So what a run
//! leaves is moved into one buffer, and what the next run reads into another; the recorded launches are bound to those, and
//! the tensors that lie there follow.

use super::compare::{Carry, Inputs};
use super::recorded::Recorded;
use super::session::Written;
use crate::MlirError;
use crate::record::{Block, Storage, TensorState, Window};
use burn_mlir_ir::{Layout, Node};
use burn_mlir_runtime::Buffer;
use std::sync::{Arc, Weak};

/// Every piece of state starts at a multiple of this: what any kernel or copy engine could want.
const ALIGNMENT: usize = 256;

/// State that can be moved.
struct Piece {
    carry: Carry,
    /// The tensors that lie where a run leaves it, with their elements' size.
    tensors: Vec<(Arc<TensorState>, usize)>,
    /// Where in the common buffers.
    start: usize,
}

/// Moves state together. `results`: those of the captured run.
pub(super) fn gather(
    window: &Window,
    recorded: &mut [Recorded],
    results: &[(&Written, &Node)],
    inputs: &mut Inputs,
) -> Result<(), MlirError> {
    let mut bytes = 0;
    let (mut pieces, mut others) = (Vec::new(), Vec::new());
    let all: Vec<(Buffer, Buffer)> = inputs.carries.iter().map(|c| (c.from.clone(), c.to.clone())).collect();
    for (index, carry) in std::mem::take(&mut inputs.carries).into_iter().enumerate() {
        match movable(&carry, index, &all, results) {
            Some(tensors) => {
                let start = bytes;
                bytes += carry.from.bytes().next_multiple_of(ALIGNMENT);
                pieces.push(Piece { carry, tensors, start });
            }
            None => others.push(carry),
        }
    }
    if pieces.len() < 2 {
        others.extend(pieces.into_iter().map(|piece| piece.carry));
        inputs.carries = others;
        return Ok(());
    }
    let (left, read) = (window.allocate_bytes(bytes)?, window.allocate_bytes(bytes)?);
    let copies: Vec<_> =
        pieces.iter().map(|piece| (piece.carry.from.clone(), (left.clone(), piece.start))).collect();
    let moved = window.submit_batch(window.copies(&copies)?)?;
    for Piece { carry, tensors, start } in pieces {
        for launches in &mut *recorded {
            launches.replace(&carry.from, &left, start);
            launches.replace(&carry.to, &read, start);
        }
        let block = Block::new(left.clone(), Some(moved.clone()), None);
        let behind = |layout: &Layout, size: usize| Layout {
            offset: layout.offset + (start / size) as i64,
            ..layout.clone()
        };
        for pinned in inputs.updated.iter_mut().filter(|pinned| pinned.block.ptr_eq(&carry.block)) {
            pinned.block = Arc::downgrade(&block);
            if let Some((_, size)) = tensors.first() {
                pinned.layout = behind(&pinned.layout, *size);
            }
        }
        for (tensor, size) in tensors {
            if let Some(storage) = tensor.storage() {
                let layout = behind(&storage.layout, size);
                tensor.relocate(Storage { block: block.clone(), layout });
            }
        }
    }
    others.push(Carry { from: left, to: read, block: Weak::new() });
    inputs.carries = others;
    Ok(())
}

/// The tensors that lie where a run leaves a state, if nothing else does, and nothing but that state lies where it is read.
fn movable(
    carry: &Carry,
    index: usize,
    all: &[(Buffer, Buffer)],
    results: &[(&Written, &Node)],
) -> Option<Vec<(Arc<TensorState>, usize)>> {
    let mut others = all.iter().enumerate().filter(|(other, _)| *other != index);
    if others
        .any(|(_, (from, to))| [from, to].into_iter().any(|b| b.is_same(&carry.from) || b.is_same(&carry.to)))
    {
        return None;
    }
    let lies_in =
        |written: &Written, buffer: &Buffer| written.buffer.as_ref().is_some_and(|b| b.is_same(buffer));
    if results.iter().any(|(written, _)| lies_in(written, &carry.to)) {
        return None;
    }
    let block = carry.block.upgrade()?;
    let mut tensors = Vec::new();
    for (written, node) in results.iter().filter(|(written, _)| written.block.ptr_eq(&carry.block)) {
        if let Some(tensor) = written.state.upgrade()
            && tensor.storage().is_some_and(|storage| Arc::ptr_eq(&storage.block, &block))
        {
            tensors.push((tensor, node.dtype.size()));
        }
    }
    // One for each of the tensors, and the one here.
    (Arc::strong_count(&block) == tensors.len() + 1 && !tensors.is_empty()).then_some(tensors)
}
