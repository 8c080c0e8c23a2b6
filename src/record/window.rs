//! The operations a thread has recorded and not yet started.

use super::Position;
use super::cut::Cut;
use super::state::{Block, Storage, TensorState, Value};
use crate::engine::{Engine, Executable};
use crate::graph::{CaptureError, Recorded, Session};
use crate::{MlirError, MlirTensor};
use burn_mlir_ir::plan::BufferSource;
use burn_mlir_ir::{DType, Graph, Layout, Op, Shape, ValueId};
use burn_mlir_runtime::{Batch, Buffer, CopyOut, Event, RuntimeError, Stream};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Numbers the recordings of the process, so that a position says which one it is in, and the streams.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that nothing else in the process has.
pub(crate) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// A thread's operations on a device. Other threads lock it only to flush it.
pub(crate) struct Window {
    engine: Arc<Engine>,
    recording: Mutex<Recording>,
    /// From a graph's preparation to the end of its capture. Locked after the recording.
    session: Mutex<Option<Session>>,
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
    Written {
        index: usize,
        buffer: Buffer,
        /// The block of a donated input that is there now.
        over: Option<Arc<Block>>,
    },
}

/// An input of a recording.
struct Bound {
    storage: Storage,
    /// Nobody else can reach it: the plan may overwrite it.
    donated: bool,
    /// The recording has the last handle.
    last: bool,
}

/// What is ready to be handed to the stream.
struct Ready {
    batch: Batch,
    /// The same for a graph, during a capture.
    recorded: Option<Recorded>,
    /// In the order of the results.
    places: Vec<Place>,
    /// With whether it is overwritten.
    inputs: Vec<(Bound, bool)>,
}

impl Window {
    pub(super) fn new(engine: Arc<Engine>) -> Result<Self, MlirError> {
        let stream = engine.device.stream()?;
        let recording = Mutex::new(Recording::new());
        Ok(Self { engine, recording, session: Mutex::default(), stream, id: number() })
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
            Op::Attention(op) => {
                op.scale += first;
                op.softcap = op.softcap.map(|slot| slot + first);
            }
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
    pub(crate) fn flush(&self) -> Result<(), MlirError> {
        self.start(&mut self.recording.lock(), Stream::submit)
    }

    /// Starts what is recorded, of which another thread or the host needs a value.
    pub(super) fn flush_for_another(&self) -> Result<(), MlirError> {
        self.share();
        self.flush()
    }

    /// A value of this window leaves the thread, or is read.
    fn share(&self) {
        if let Some(session) = &mut *self.session() {
            session.fail(CaptureError::Shared);
        }
    }

    /// A number that grows with everything that is started.
    pub(super) fn progress(&self) -> u64 {
        self.recording.lock().generation
    }

    /// Starts what is recorded for somebody who waits for it. A host's stream runs it on this thread, instead of
    /// waking its own.
    pub(super) fn finish(&self) -> Result<(), MlirError> {
        self.share();
        let hand_over = if self.engine.is_host() { Stream::run } else { Stream::submit };
        self.start(&mut self.recording.lock(), hand_over)
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

    /// The capture that this window's thread is in.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock()
    }

    /// Lets this stream go on only after replays, queued so far, that write a block.
    fn order_after_replays(&self, block: &Block) {
        for pin in block.pins() {
            if let Some(home) = pin.writer().filter(|home| home.id != self.id) {
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
    pub(super) fn download(&self, ranges: Vec<(&Block, usize, &mut [u8])>) -> Result<(), MlirError> {
        let order_after = |(block, offset, to)| {
            let block: &Block = block;
            if let Some(event) = &block.written {
                self.stream.wait(event);
            }
            self.order_after_replays(block);
            CopyOut { from: &block.buffer, offset, to }
        };
        let copies = ranges.into_iter().map(order_after).collect();
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
        let executable = self.engine.executable(&graph)?;
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
        Ok(executable.bind(&buffers, &vec![0; pairs.len()], &[])?)
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
        if self.id == other.id {
            return Ok(self.stream.replay(graph)?);
        }
        self.flush()?;
        self.stream.wait(&other.stream.record());
        self.stream.replay(graph)?;
        other.stream.wait(&self.stream.record());
        Ok(())
    }

    /// Plans, compiles and hands the recording to the stream, and gives every live handle its storage,
    /// or the error if it cannot be had.
    fn start(&self, recording: &mut Recording, hand_over: HandOver) -> Result<(), MlirError> {
        if recording.graph.nodes.is_empty() {
            return Ok(());
        }
        let mut done = std::mem::replace(recording, Recording::new());
        let mut session = self.session.lock();
        let live = done.live();
        if live.is_empty() {
            if let Some(session) = &mut *session {
                let inputs = bind_inputs(&mut done, self.id, |_| false);
                let inputs = inputs.iter().map(|input| (&input.storage, false));
                session.window(done.graph, done.scalars, inputs, std::iter::empty(), None);
            }
            return Ok(());
        }
        let error = match self.prepare(&mut done, true, session.as_ref()) {
            Ok(ready) => return self.submit(&live, &mut done, ready, hand_over, session.as_mut()),
            Err(error) => error,
        };
        if let Some(session) = &mut *session {
            session.fail(CaptureError::Failed { reason: error.to_string() });
        }
        // What cannot be had must not take its neighbours with it: each result is tried by itself.
        let alone = live.len() == 1;
        let results = std::mem::take(&mut done.graph.results);
        for (state, result) in live.iter().zip(results) {
            done.graph.results = vec![result];
            let tried = if alone { Err(error.clone()) } else { self.prepare(&mut done, false, None) };
            match tried {
                // An error of the stream is the one below, or one that comes after it.
                Ok(ready) => {
                    drop(self.submit(std::slice::from_ref(state), &mut done, ready, hand_over, None));
                }
                Err(error) => *state.lock() = Value::Failed(error),
            }
        }
        Err(error)
    }

    /// Hands launches to the stream, gives every handle its storage, and lets a capture know.
    fn submit(
        &self,
        live: &[Arc<TensorState>],
        done: &mut Recording,
        ready: Ready,
        hand_over: HandOver,
        session: Option<&mut Session>,
    ) -> Result<(), MlirError> {
        let result = hand_over(&self.stream, ready.batch);
        if let Err(error) = &result
            && !matches!(error, RuntimeError::IndexOutOfRange { .. })
        {
            // What was not queued has no values.
            let error = MlirError::from(error.clone());
            live.iter().for_each(|state| *state.lock() = Value::Failed(error.clone()));
            if let Some(session) = session {
                session.fail(CaptureError::Failed { reason: error.to_string() });
            }
            return Err(error);
        }
        let event = self.stream.record();
        let mut blocks: Vec<Option<Arc<Block>>> = Vec::new();
        let mut storages = Vec::new();
        for ((state, value), place) in live.iter().zip(&done.graph.results).zip(ready.places) {
            let block = match place.memory {
                Memory::Shared(block) => block,
                Memory::Written { index, buffer, over } => {
                    if blocks.len() <= index {
                        blocks.resize(index + 1, None);
                    }
                    let made = session.as_ref().map(|session| session.computed(*value));
                    let new = || match over {
                        Some(old) => Block::over(&old, Some(event.clone()), made),
                        None => Block::new(buffer, Some(event.clone()), made),
                    };
                    blocks[index].get_or_insert_with(new).clone()
                }
            };
            let storage = Storage { block, layout: place.layout };
            if session.is_some() {
                storages.push(storage.clone());
            }
            *state.lock() = Value::ready(storage);
        }
        for (input, overwritten) in &ready.inputs {
            if input.last && !overwritten {
                input.storage.block.pins().iter().for_each(|pin| pin.used_up(&input.storage));
            }
        }
        if let Some(session) = session {
            let graph = std::mem::take(&mut done.graph);
            let values = graph.results.clone();
            let inputs = ready.inputs.iter().map(|(input, overwritten)| (&input.storage, *overwritten));
            let results = values.into_iter().zip(live).zip(&storages);
            let results = results.map(|((value, state), storage)| (value, state, storage));
            session.window(graph, std::mem::take(&mut done.scalars), inputs, results, ready.recorded);
        }
        Ok(result?)
    }

    /// The launches of a recording, and where its results will be. `donate`: inputs that nobody else can
    /// reach may be overwritten.
    fn prepare(
        &self,
        done: &mut Recording,
        donate: bool,
        session: Option<&Session>,
    ) -> Result<Ready, MlirError> {
        let may_overwrite = |block: &Block| donate && session.is_none_or(|s| s.may_overwrite(block));
        let inputs = bind_inputs(done, self.id, may_overwrite);
        let executable = self.engine.executable(&done.graph)?;
        let storages: SmallVec<[Storage; 8]> = inputs.iter().map(|input| input.storage.clone()).collect();
        let buffers = self.allocate(&executable, &storages)?;
        let offsets: SmallVec<[i64; 8]> = storages.iter().map(|input| input.layout.offset).collect();
        let batch = executable.bind(&buffers, &offsets, &done.scalars)?;
        let recorded = session.filter(|session| session.keeps_launches()).map(|_| Recorded {
            executable: executable.clone(),
            buffers: buffers.clone(),
            offsets,
            scalars: done.scalars.clone(),
        });
        for input in &storages {
            if let Some(event) = &input.block.written {
                self.stream.wait(event);
            }
            self.order_after_replays(&input.block);
        }
        let mut overwritten: SmallVec<[bool; 8]> = SmallVec::from_elem(false, inputs.len());
        for (index, buffer) in executable.plan.buffers.iter().enumerate() {
            if let BufferSource::Input(slot) = buffer.source {
                overwritten[slot as usize] |= executable.writes(index);
            }
        }
        let places = executable.plan.results.iter().map(|place| {
            let index = place.buffer as usize;
            let mut layout = place.layout.clone();
            let mut over = None;
            if let BufferSource::Input(slot) = executable.plan.buffers[index].source {
                let input = &storages[slot as usize];
                layout.offset += input.layout.offset;
                // A view of an input shares its block; a result in a donated input is a new value.
                if !executable.writes(index) {
                    return Place { memory: Memory::Shared(input.block.clone()), layout };
                }
                over = Some(input.block.clone());
            }
            Place { memory: Memory::Written { index, buffer: buffers[index].0.clone(), over }, layout }
        });
        let places = places.collect();
        Ok(Ready { batch, recorded, places, inputs: inputs.into_iter().zip(overwritten).collect() })
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

/// The inputs, and marks in the graph as donated those that nobody else can reach and that `may_overwrite` and graphs
/// agree to: their handle is only held here, no view shares the block, and no other stream has used it.
fn bind_inputs(done: &mut Recording, stream: u64, may_overwrite: impl Fn(&Block) -> bool) -> Vec<Bound> {
    let mut inputs = Vec::with_capacity(done.inputs.len());
    for state in &done.inputs {
        let last = Arc::strong_count(state) == 1;
        if let Value::Ready { storage, .. } = &*state.lock() {
            let sole_view = Arc::strong_count(&storage.block) == 1;
            let sole_stream = storage.block.used_by(stream);
            let donated = last && sole_view && sole_stream && may_overwrite(&storage.block);
            inputs.push(Bound { storage: storage.clone(), donated, last });
        }
    }
    leave_to_graphs(&mut inputs);
    for node in &mut done.graph.nodes {
        if let Op::Input { slot, donated, .. } = &mut node.op {
            *donated = inputs[*slot as usize].donated;
        }
    }
    inputs
}

/// Takes back what graphs do not agree to. If they wait for something to be written over, nothing else is: of two
/// operands that a result could replace, it has to be that one.
fn leave_to_graphs(inputs: &mut [Bound]) {
    let mut awaited: SmallVec<[usize; 4]> = SmallVec::new();
    for (index, input) in inputs.iter_mut().enumerate().filter(|(_, input)| input.donated) {
        let pins = input.storage.block.pins();
        input.donated = pins.iter().all(|pin| pin.may_overwrite());
        if input.donated && !pins.is_empty() {
            awaited.push(index);
        }
    }
    if !awaited.is_empty() {
        for (index, input) in inputs.iter_mut().enumerate() {
            input.donated &= awaited.contains(&index);
        }
    }
}
