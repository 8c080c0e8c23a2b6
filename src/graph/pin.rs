//! What ties a block to the graphs that work on its memory.

use crate::record::{Storage, Window};
use burn_mlir_ir::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A graph's use of a piece of memory. The graph owns it; the blocks that lie there know it weakly, and hand it on to
/// what is written over them.
pub(crate) struct Pin {
    /// Whose stream replays run on.
    home: Arc<Window>,
    role: Role,
    layout: Layout,
    /// Type of the tensor, for errors.
    pub(super) tensor: String,
    replaced: AtomicBool,
}

/// What replays do with the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Read what others wrote.
    Reads,
    /// Read it and write it: state.
    Updates,
    /// Only write it.
    Writes,
}

impl Pin {
    pub(super) fn new(home: Arc<Window>, role: Role, layout: Layout, tensor: String) -> Arc<Self> {
        Arc::new(Self { home, role, layout, tensor, replaced: AtomicBool::new(false) })
    }

    /// Whether other operations may write their results over it. What is written over a tensor that replays read is seen
    /// by them, as an update is meant to be. What is written over a mere result would be lost with the next replay.
    pub(crate) fn may_overwrite(&self) -> bool {
        self.role != Role::Writes
    }

    /// The window on whose stream replays write the memory.
    pub(crate) fn writer(&self) -> Option<&Arc<Window>> {
        (self.role != Role::Reads).then_some(&self.home)
    }

    /// Notes that the last handle of a tensor was used up by operations that wrote elsewhere. Views of the tensor that is
    /// pinned may come and go.
    pub(crate) fn used_up(&self, tensor: &Storage) {
        if tensor.layout == self.layout {
            self.replaced.store(true, Ordering::Release);
        }
    }

    /// Whether replays would read a value that was replaced.
    pub(super) fn is_stale(&self) -> bool {
        self.role != Role::Writes && self.replaced.load(Ordering::Acquire)
    }
}
