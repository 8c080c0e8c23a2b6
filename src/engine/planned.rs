//! A structure that was planned, and what tends to come after it.

use super::Executable;
use burn_mlir_ir::{Graph, Op};
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

/// A graph and what became of it.
pub(crate) struct Planned {
    pub(crate) graph: Graph,
    pub(crate) executable: Arc<Executable>,
    /// For each input of the graph, whether the plan may overwrite it.
    donated: Vec<bool>,
    /// How often plans of its device had been used when this one was, the last time.
    pub(super) used: AtomicU64,
    /// What a window did next, the last time. Programs repeat themselves, so it is worth a guess.
    next: Mutex<Weak<Planned>>,
}

impl Planned {
    pub(super) fn new(graph: Graph, executable: Executable) -> Self {
        let donated = graph.nodes.iter().filter_map(|node| match node.op {
            Op::Input { donated, .. } => Some(donated),
            _ => None,
        });
        let donated = donated.collect();
        Self {
            graph,
            executable: Arc::new(executable),
            donated,
            used: AtomicU64::new(0),
            next: Mutex::default(),
        }
    }

    /// Whether the plan may overwrite just these inputs.
    pub(crate) fn is_given(&self, donated: impl Iterator<Item = bool>) -> bool {
        self.donated.iter().copied().eq(donated)
    }

    /// What came next the last time.
    pub(crate) fn next(&self) -> Option<Arc<Self>> {
        self.next.lock().upgrade()
    }

    /// Notes what came next.
    pub(crate) fn precedes(&self, next: &Arc<Self>) {
        *self.next.lock() = Arc::downgrade(next);
    }
}
