//! What a window does with memory and launches besides running what is recorded: copies from and to the host, and graphs.

use super::Window;
use super::state::Block;
use crate::MlirError;
use burn_mlir_ir::plan::BufferSource;
use burn_mlir_ir::{DType, Graph, Layout, Op, Shape};
use burn_mlir_runtime::{Batch, Buffer, CopyOut, Event};

impl Window {
    /// Lets this stream go on only after replays, queued so far, that write a block.
    pub(super) fn order_after_replays(&self, block: &Block) {
        for pin in block.pins() {
            if let Some(home) = pin.writer().filter(|home| home.id() != self.id()) {
                self.stream.wait(&home.stream.record());
            }
        }
    }

    /// Copies bytes from the host to a new buffer, which work of any stream may use.
    pub(super) fn upload(&self, bytes: &[u8]) -> Result<Buffer, MlirError> {
        Ok(self.stream.upload(bytes)?)
    }

    /// Copies bytes of blocks, each from a byte on, to the host once they are written; fails if work of this stream
    /// before it did.
    pub(super) fn download<'a>(
        &self,
        ranges: impl Iterator<Item = (&'a Block, usize, &'a mut [u8])>,
    ) -> Result<(), MlirError> {
        let order_after = |(block, offset, to): (&'a Block, usize, &'a mut [u8])| {
            if let Some(event) = &block.written {
                self.stream.wait(event);
            }
            self.order_after_replays(block);
            CopyOut { from: &block.buffer, offset, to }
        };
        let copies = ranges.map(order_after);
        // SAFETY: this stream waits for what writes the blocks, which nobody overwrites while they are borrowed from
        // one of the handles they need to be free of.
        unsafe { self.stream.copy_out_all(copies)? };
        Ok(())
    }

    /// Memory of the device.
    pub(crate) fn allocate_bytes(&self, bytes: usize) -> Result<Buffer, MlirError> {
        Ok(self.stream.allocate(bytes)?)
    }

    /// Launches that copy whole buffers, each to a byte of another one. None is written as another is read.
    pub(crate) fn copies(&self, pairs: &[(Buffer, (Buffer, usize))]) -> Result<Batch, MlirError> {
        let mut graph = Graph::default();
        for (slot, (from, _)) in pairs.iter().enumerate() {
            let (dtype, size) = if from.bytes() % 4 == 0 { (DType::U32, 4) } else { (DType::U8, 1) };
            let shape = Shape::from([from.bytes() / size]);
            let layout = Layout::contiguous(&shape);
            let op = Op::Input { slot: slot as u32, layout, donated: false, alignment: 64 };
            let input = graph.push(op, &[], dtype, shape.clone());
            // A cast to its own type is a computation.
            let copy = graph.push(Op::Cast, &[input], dtype, shape);
            graph.results.push(copy);
        }
        let executable = self.engine.planned(&graph)?.executable.clone();
        let plan = &executable.plan;
        let mut buffers: Vec<_> = plan.buffers.iter().map(|_| pairs[0].1.clone()).collect();
        for (buffer, place) in plan.buffers.iter().zip(&mut buffers) {
            if let BufferSource::Input(slot) = buffer.source {
                *place = (pairs[slot as usize].0.clone(), 0);
            }
        }
        for (place, (_, to)) in plan.results.iter().zip(pairs) {
            buffers[place.buffer as usize] = to.clone();
        }
        Ok(executable.bind(buffers, &vec![0; pairs.len()], &[])?)
    }

    /// Runs launches that no tensor waits for. Returns the place behind them.
    pub(crate) fn submit_batch(&self, batch: Batch) -> Result<Event, MlirError> {
        self.stream.submit(batch)?;
        Ok(self.stream.record())
    }

    /// A graph of batches that may be replayed on this stream only.
    pub(crate) fn capture(&self, batches: Vec<Batch>) -> Result<burn_mlir_runtime::Graph, MlirError> {
        Ok(burn_mlir_runtime::Graph::new(&self.stream, batches)?)
    }

    /// Queues a replay of a graph on this stream, after the work of `other` so far and before its later work.
    pub(crate) fn replay(&self, graph: &burn_mlir_runtime::Graph, other: &Self) -> Result<(), MlirError> {
        if self.id() == other.id() {
            return Ok(self.stream.replay(graph)?);
        }
        self.flush()?;
        self.stream.wait(&other.stream.record());
        self.stream.replay(graph)?;
        other.stream.wait(&self.stream.record());
        Ok(())
    }
}
