//! The operations a thread has recorded and not yet started.

use super::Position;
use super::cut::Cut;
use super::state::{Block, Storage, TensorState, Value};
use crate::engine::{Engine, Executable};
use crate::{MlirError, MlirTensor};
use burn_mlir_ir::plan::BufferSource;
use burn_mlir_ir::{DType, Graph, Layout, Op, Shape, ValueId};
use burn_mlir_runtime::{Batch, Buffer, RuntimeError, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Numbers the recordings of the process, so that a position says which one it is in, and the streams.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// A thread's operations on a device. Other threads lock it only to flush it.
pub(super) struct Window {
    engine: Arc<Engine>,
    recording: Mutex<Recording>,
    stream: Stream,
    /// Names the stream to the blocks it uses.
    id: u64,
}

struct Recording {
    generation: u64,
    graph: Graph,
    /// The handle of every node; dead ones are not materialised.
    states: Vec<Weak<TensorState>>,
    inputs: Vec<Arc<TensorState>>,
    scalars: Vec<u64>,
    cut: Cut,
}

impl Recording {
    fn new() -> Self {
        Self {
            generation: number(),
            graph: Graph::default(),
            states: Vec::new(),
            inputs: Vec::new(),
            scalars: Vec::new(),
            cut: Cut::default(),
        }
    }

    /// The handles that somebody holds; their nodes become the results of the graph.
    fn live(&mut self) -> Vec<Arc<TensorState>> {
        let mut live = Vec::new();
        self.graph.results.clear();
        for (index, state) in self.states.iter().enumerate() {
            if let Some(state) = state.upgrade() {
                self.graph.results.push(ValueId(index as u32));
                live.push(state);
            }
        }
        live
    }

    /// The node of an operand: its own, or an input that stands for it.
    fn operand(&mut self, tensor: &MlirTensor) -> Result<ValueId, MlirError> {
        let mut value = tensor.state.lock();
        match &mut *value {
            Value::Recorded { position, .. } => Ok(position.value),
            Value::Failed(error) => Err(error.clone()),
            Value::Ready { bound: Some(position), .. } if position.generation == self.generation => {
                Ok(position.value)
            }
            Value::Ready { storage, bound } => {
                let layout = Layout { offset: 0, ..storage.layout.clone() };
                let alignment = alignment_class(storage.layout.offset * tensor.dtype.size() as i64);
                let slot = self.inputs.len() as u32;
                let op = Op::Input { slot, layout, donated: false, alignment };
                let shape = storage.layout.shape.clone();
                let id = self.graph.push(op, &[], tensor.dtype, shape);
                *bound = Some(Position { generation: self.generation, value: id });
                self.inputs.push(tensor.state.clone());
                self.states.push(Weak::new());
                Ok(id)
            }
        }
    }
}

/// What a kernel may know of an address that many bytes into a block. Few classes, so that few kernels differ
/// in nothing else: whole vectors of the host, the widest access of a GPU, or the element alone.
fn alignment_class(bytes: i64) -> u32 {
    [64, 16].into_iter().find(|class| bytes % i64::from(*class) == 0).unwrap_or(1)
}

/// How a batch gets to a stream: queued, or run at once.
type HandOver = fn(&Stream, Batch) -> Result<(), RuntimeError>;

/// Where a result of a recording will be.
struct Place {
    memory: Memory,
    layout: Layout,
}

enum Memory {
    /// The block of an input.
    Shared(Arc<Block>),
    /// What the launches write: a buffer of the plan, by its index.
    Written { index: usize, buffer: Buffer },
}

impl Window {
    pub(super) fn new(engine: Arc<Engine>) -> Result<Self, MlirError> {
        let stream = engine.device.stream()?;
        Ok(Self { engine, recording: Mutex::new(Recording::new()), stream, id: number() })
    }

    /// Appends a node; the slots in `op` count from the first of `scalars`. Operands recorded
    /// elsewhere must have left their windows.
    pub(super) fn push(
        window: &Arc<Self>,
        mut op: Op,
        operands: &[&MlirTensor],
        scalars: &[(DType, u64)],
        dtype: DType,
        shape: Shape,
    ) -> Result<Arc<TensorState>, MlirError> {
        let mut recording = window.recording.lock();
        let mut ids: SmallVec<[ValueId; 3]> = SmallVec::new();
        for operand in operands {
            ids.push(recording.operand(operand)?);
        }
        let first = recording.scalars.len() as u32;
        match &mut op {
            Op::Fill { slot } => *slot += first,
            Op::Random { key, stream } => (*key, *stream) = (*key + first, *stream + first),
            _ => {}
        }
        for &(dtype, bits) in scalars {
            recording.graph.scalars.push(dtype);
            recording.scalars.push(bits);
        }
        let full = recording.cut.after(&op, dtype, &shape);
        let value = recording.graph.push(op, &ids, dtype, shape);
        let position = Position { generation: recording.generation, value };
        let state = TensorState::new(Value::Recorded { window: window.clone(), position });
        recording.states.push(Arc::downgrade(&state));
        if full {
            window.start(&mut recording, Stream::submit)?;
        }
        Ok(state)
    }

    /// Starts what is recorded.
    pub(super) fn flush(&self) -> Result<(), MlirError> {
        self.start(&mut self.recording.lock(), Stream::submit)
    }

    /// Starts what is recorded and waits for it, without waking the stream's own thread.
    pub(super) fn finish(&self) -> Result<(), MlirError> {
        self.start(&mut self.recording.lock(), Stream::run)
    }

    /// Waits for what was started.
    pub(super) fn wait(&self) -> Result<(), MlirError> {
        Ok(self.stream.synchronize()?)
    }

    /// What is recorded, with what is alive as results.
    pub(super) fn graph(&self) -> Graph {
        let mut recording = self.recording.lock();
        recording.live();
        recording.graph.clone()
    }

    /// Plans, compiles and hands the recording to the stream, and gives every live handle its storage,
    /// or the error if it cannot be had.
    fn start(&self, recording: &mut Recording, hand_over: HandOver) -> Result<(), MlirError> {
        if recording.graph.nodes.is_empty() {
            return Ok(());
        }
        let mut done = std::mem::replace(recording, Recording::new());
        let live = done.live();
        if live.is_empty() {
            return Ok(());
        }
        let error = match self.prepare(&mut done, true) {
            Ok(ready) => return self.submit(&live, ready, hand_over),
            Err(error) => error,
        };
        // What cannot be had must not take its neighbours with it: each result is tried by itself.
        let alone = live.len() == 1;
        let results = std::mem::take(&mut done.graph.results);
        for (state, result) in live.iter().zip(results) {
            done.graph.results = vec![result];
            let tried = if alone { Err(error.clone()) } else { self.prepare(&mut done, false) };
            match tried {
                // An error of the stream is the one below, or one that comes after it.
                Ok(ready) => drop(self.submit(std::slice::from_ref(state), ready, hand_over)),
                Err(error) => *state.lock() = Value::Failed(error),
            }
        }
        Err(error)
    }

    /// Hands launches to the stream, and gives every handle its storage.
    fn submit(
        &self,
        live: &[Arc<TensorState>],
        (batch, places): (Batch, Vec<Place>),
        hand_over: HandOver,
    ) -> Result<(), MlirError> {
        let result = hand_over(&self.stream, batch);
        let event = self.stream.record();
        let mut blocks: Vec<Option<Arc<Block>>> = Vec::new();
        for (state, place) in live.iter().zip(places) {
            let block = match place.memory {
                Memory::Shared(block) => block,
                Memory::Written { index, buffer } => {
                    if blocks.len() <= index {
                        blocks.resize(index + 1, None);
                    }
                    blocks[index].get_or_insert_with(|| Block::new(buffer, Some(event.clone()))).clone()
                }
            };
            *state.lock() = Value::ready(Storage { block, layout: place.layout });
        }
        Ok(result?)
    }

    /// The launches of a recording, and where its results will be. `donate`: inputs that nobody else can
    /// reach may be overwritten.
    fn prepare(&self, done: &mut Recording, donate: bool) -> Result<(Batch, Vec<Place>), MlirError> {
        let inputs = bind_inputs(done, self.id, donate);
        let executable = self.engine.executable(&done.graph)?;
        let buffers = self.allocate(&executable, &inputs)?;
        let batch = executable.bind(&buffers, &inputs, &done.scalars)?;
        for input in &inputs {
            if let Some(event) = &input.block.written {
                self.stream.wait(event);
            }
        }
        let places = executable.plan.results.iter().map(|place| {
            let index = place.buffer as usize;
            let mut layout = place.layout.clone();
            let mut shared = None;
            if let BufferSource::Input(slot) = executable.plan.buffers[index].source {
                let input = &inputs[slot as usize];
                layout.offset += input.layout.offset;
                // A view of an input shares its block; a result in a donated input is a new value.
                shared = (!executable.writes(index)).then(|| input.block.clone());
            }
            let memory = match shared {
                Some(block) => Memory::Shared(block),
                None => Memory::Written { index, buffer: buffers[index].0.clone() },
            };
            Place { memory, layout }
        });
        Ok((batch, places.collect()))
    }

    /// Memory for every buffer of a plan, with the byte it starts at.
    fn allocate(
        &self,
        executable: &Executable,
        inputs: &[Storage],
    ) -> Result<Vec<(Buffer, usize)>, MlirError> {
        let plan = &executable.plan;
        let arena = match plan.arena_bytes {
            0 => None,
            // Shared with the plans before and after, which run on the same stream.
            bytes => Some(self.stream.arena(bytes)?),
        };
        let place = |buffer: &burn_mlir_ir::plan::Buffer| match (buffer.source, &arena) {
            (BufferSource::Input(slot), _) => Ok((inputs[slot as usize].block.buffer.clone(), 0)),
            (BufferSource::Arena { offset }, Some(arena)) => Ok((arena.clone(), offset)),
            _ => Ok((self.stream.allocate(buffer.bytes)?, 0)),
        };
        plan.buffers.iter().map(place).collect()
    }
}

/// The storages of the inputs; with `donate`, marks as donated those that nobody else can reach: their handle is
/// only held here, no view shares the block, and no other stream has used it.
fn bind_inputs(done: &mut Recording, stream: u64, donate: bool) -> Vec<Storage> {
    let mut storages = Vec::with_capacity(done.inputs.len());
    for state in &done.inputs {
        let sole_handle = Arc::strong_count(state) == 1;
        if let Value::Ready { storage, .. } = &*state.lock() {
            let sole_view = Arc::strong_count(&storage.block) == 1;
            let sole_stream = storage.block.used_by(stream);
            storages.push((storage.clone(), donate && sole_handle && sole_view && sole_stream));
        }
    }
    for node in &mut done.graph.nodes {
        if let Op::Input { slot, donated, .. } = &mut node.op {
            *donated = storages[*slot as usize].1;
        }
    }
    storages.into_iter().map(|(storage, _)| storage).collect()
}
