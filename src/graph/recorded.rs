//! A window's launches, kept for a graph.

use crate::MlirError;
use crate::engine::Executable;
use burn_mlir_runtime::{Batch, Buffer};
use smallvec::SmallVec;
use std::sync::Arc;

/// Launches that can be bound again, also to other memory.
pub(crate) struct Recorded {
    pub(crate) executable: Arc<Executable>,
    /// Memory for every buffer of the plan, with the byte it starts at.
    pub(crate) buffers: Vec<(Buffer, usize)>,
    /// Of the inputs, in elements.
    pub(crate) offsets: SmallVec<[i64; 8]>,
    pub(crate) scalars: Vec<u64>,
}

impl Recorded {
    /// The launches with their memory.
    pub(super) fn bind(&self) -> Result<Batch, MlirError> {
        Ok(self.executable.bind(self.buffers.iter().cloned(), &self.offsets, &self.scalars)?)
    }

    /// Puts memory from byte `start` of another buffer in place of a buffer.
    pub(super) fn replace(&mut self, old: &Buffer, new: &Buffer, start: usize) {
        for (buffer, at) in self.buffers.iter_mut().filter(|(buffer, _)| buffer.is_same(old)) {
            *buffer = new.clone();
            *at += start;
        }
    }
}
