//! What a thread does from `graph_prepare` to the end of the capture.

use super::CaptureError;
use super::recorded::Recorded;
use crate::record::{Block, Elsewhere, Storage, TensorState};
use burn_mlir_ir::{DType, Graph, Layout, Node, Shape, ValueId};
use burn_mlir_runtime::Buffer;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Weak};

/// Operations kept of the runs before a capture, and most of a capture.
const MOST_NODES: usize = 1 << 18;

/// The log of a thread's work on a device: the runs before the capture, then the captured one.
pub(crate) struct Session {
    id: u64,
    pub(super) entries: VecDeque<Entry>,
    /// Number of the first entry: older ones are forgotten.
    pub(super) first: usize,
    nodes: usize,
    capture: Option<Capture>,
}

struct Capture {
    /// Number of its first entry.
    start: usize,
    recorded: Vec<Recorded>,
    failure: Option<CaptureError>,
    /// What the thread had done on other devices.
    elsewhere: Elsewhere,
}

/// Where a block comes from, if a session saw it made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    session: u64,
    /// Number of the entry.
    pub(super) entry: usize,
    /// The first result of the entry's window that lies in the block.
    pub(super) value: u32,
    uploaded: bool,
}

/// Something a run did.
pub(super) enum Entry {
    Window(Box<Ran>),
    Upload(Upload),
}

/// A tensor made from host data.
pub(super) struct Upload {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    digest: (u64, u64),
}

/// A window that was run.
pub(super) struct Ran {
    pub(super) graph: Graph,
    pub(super) scalars: Vec<u64>,
    pub(super) inputs: Vec<Read>,
    pub(super) results: Vec<Written>,
}

/// An input of a window.
pub(super) struct Read {
    pub(super) made: Option<Made>,
    pub(super) allocation: u64,
    pub(super) layout: Layout,
    pub(super) overwritten: bool,
    pub(super) block: Weak<Block>,
    /// Of the captured run only.
    pub(super) buffer: Option<Buffer>,
}

/// A result of a window in memory that the window wrote.
pub(super) struct Written {
    pub(super) value: ValueId,
    /// The first result in the same block.
    pub(super) first: u32,
    pub(super) allocation: u64,
    pub(super) layout: Layout,
    pub(super) block: Weak<Block>,
    pub(super) state: Weak<TensorState>,
    /// Of the captured run only.
    pub(super) buffer: Option<Buffer>,
}

impl Session {
    /// The beginning of the runs before a capture. `id` is not used twice.
    pub(crate) fn new(id: u64) -> Self {
        Self { id, entries: VecDeque::new(), first: 0, nodes: 0, capture: None }
    }

    /// The runs before the capture are over.
    pub(super) fn begin(&mut self, elsewhere: Elsewhere) {
        self.nodes = 0;
        let start = self.next();
        self.capture = Some(Capture { start, recorded: Vec::new(), failure: None, elsewhere });
    }

    /// Whether this is within the captured run.
    pub(crate) fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    /// Whether launches have to be kept for the graph.
    pub(crate) fn keeps_launches(&self) -> bool {
        self.capture.as_ref().is_some_and(|capture| capture.failure.is_none())
    }

    /// Gives the capture up. What is logged from now on is of no use.
    pub(crate) fn fail(&mut self, error: CaptureError) {
        if let Some(capture) = &mut self.capture {
            capture.failure.get_or_insert(error);
            capture.recorded.clear();
            self.entries.clear();
        }
    }

    /// The launches of the captured run and the number of its first entry.
    pub(super) fn finish(&mut self, elsewhere: &Elsewhere) -> Result<(Vec<Recorded>, usize), CaptureError> {
        let Some(capture) = self.capture.take() else { return Err(CaptureError::NotCapturing) };
        if let Some(error) = capture.failure {
            return Err(error);
        }
        match elsewhere.iter().find(|now| !capture.elsewhere.contains(now)) {
            Some((device, _)) => Err(CaptureError::Elsewhere { device: device.to_string() }),
            None => Ok((capture.recorded, capture.start)),
        }
    }

    /// The results of the windows from an entry on, with their nodes.
    pub(super) fn results(&self, start: usize) -> Vec<(&Written, &Node)> {
        let windows = self.entries.range(start - self.first..).filter_map(|entry| match entry {
            Entry::Window(ran) => Some(ran),
            Entry::Upload(_) => None,
        });
        windows.flat_map(|ran| ran.results.iter().map(|w| (w, ran.graph.node(w.value)))).collect()
    }

    /// Where a block that the next entry's window writes comes from; `value`: the first result in it.
    pub(crate) fn computed(&self, value: ValueId) -> Made {
        Made { session: self.id, entry: self.next(), value: value.0, uploaded: false }
    }

    /// Whether a window may overwrite a block that nobody else can reach. Data from the host would have to be there
    /// again for a replay, and so would what the captured run did not make itself.
    pub(crate) fn may_overwrite(&self, block: &Block) -> bool {
        match self.made(block) {
            Some(made) => !made.uploaded,
            None => !self.is_capturing(),
        }
    }

    /// Notes a tensor made from host data.
    pub(crate) fn upload(&mut self, bytes: &[u8], dtype: DType, shape: &Shape) -> Made {
        let made = Made { session: self.id, entry: self.next(), value: 0, uploaded: true };
        let upload = Upload { dtype, shape: shape.clone(), digest: (digest(0, bytes), digest(1, bytes)) };
        self.push(Entry::Upload(upload), 1);
        made
    }

    /// Notes a window that was run: its inputs and whether they were overwritten, and its results with the blocks
    /// that it wrote for them. `recorded` is to be run by the graph.
    pub(crate) fn window<'a>(
        &mut self,
        graph: Graph,
        scalars: Vec<u64>,
        inputs: impl Iterator<Item = (&'a Storage, bool)>,
        results: impl Iterator<Item = (ValueId, &'a Arc<TensorState>, &'a Storage)>,
        recorded: Option<Recorded>,
    ) {
        let keep = self.keeps_launches();
        let buffer = |block: &Block| keep.then(|| block.buffer.clone());
        let read = |(storage, overwritten): (&Storage, bool)| Read {
            made: self.made(&storage.block),
            allocation: storage.block.allocation,
            layout: storage.layout.clone(),
            overwritten,
            block: Arc::downgrade(&storage.block),
            buffer: buffer(&storage.block),
        };
        let inputs = inputs.map(read).collect();
        let next = self.next();
        let written = |(value, state, storage): (ValueId, &Arc<TensorState>, &Storage)| {
            // A view of an input is no result of this window.
            let made = self.made(&storage.block).filter(|made| made.entry == next)?;
            let block = Arc::downgrade(&storage.block);
            let (layout, buffer) = (storage.layout.clone(), buffer(&storage.block));
            let state = Arc::downgrade(state);
            let (first, allocation) = (made.value, storage.block.allocation);
            Some(Written { value, first, allocation, layout, block, state, buffer })
        };
        let results = results.filter_map(written).collect();
        let nodes = graph.nodes.len();
        self.push(Entry::Window(Box::new(Ran { graph, scalars, inputs, results })), nodes);
        if let (Some(capture), Some(recorded)) = (&mut self.capture, recorded) {
            capture.recorded.push(recorded);
        }
    }

    fn push(&mut self, entry: Entry, nodes: usize) {
        if self.is_capturing() && !self.keeps_launches() {
            return;
        }
        self.nodes += nodes;
        self.entries.push_back(entry);
        if self.is_capturing() {
            if self.nodes > MOST_NODES {
                self.fail(CaptureError::TooLong { limit: MOST_NODES });
            }
            return;
        }
        while self.nodes > MOST_NODES
            && let Some(oldest) = self.entries.pop_front()
        {
            self.nodes -= oldest.nodes();
            self.first += 1;
        }
    }

    /// Number of the next entry.
    fn next(&self) -> usize {
        self.first + self.entries.len()
    }

    fn made(&self, block: &Block) -> Option<Made> {
        block.made.filter(|made| made.session == self.id)
    }
}

impl Entry {
    fn nodes(&self) -> usize {
        match self {
            Self::Window(ran) => ran.graph.nodes.len(),
            Self::Upload(_) => 1,
        }
    }
}

impl Upload {
    pub(super) fn same_data(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// Two of these are as good as the bytes themselves.
fn digest(seed: u8, bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(seed);
    hasher.write(bytes);
    hasher.finish()
}
