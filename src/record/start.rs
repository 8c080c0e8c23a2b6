//! Starting a recording: its plan, memory for its results, and the launches.

use super::Window;
use super::recording::{Done, Recording};
use super::state::{Block, Storage, TensorState, Value, left_out};
use crate::MlirError;
use crate::engine::{Executable, Planned};
use crate::graph::{CaptureError, Recorded, Session};
use burn_mlir_ir::plan::BufferSource;
use burn_mlir_ir::{Graph, Layout, Op};
use burn_mlir_runtime::{Batch, Buffer, RuntimeError, Stream};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// How a batch gets to a stream: queued, or run at once.
pub(super) type HandOver = fn(&Stream, Batch) -> Result<(), RuntimeError>;

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

/// An input of a recording: what most of them need, as each clone costs as much as recording an operation.
struct Bound {
    /// Taken by the launches.
    buffer: Option<Buffer>,
    /// The element it begins at.
    offset: i64,
    /// Of inputs that may be overwritten, or that graphs know.
    storage: Option<Box<Storage>>,
    /// Nobody else can reach it: the plan may overwrite it.
    donated: bool,
    /// The recording has the last handle.
    last: bool,
    /// The launches write over it.
    overwritten: bool,
}

impl Bound {
    /// What graphs are told: where it is, and whether it is written over.
    fn seen(&self) -> Option<(&Storage, bool)> {
        Some((self.storage.as_deref()?, self.overwritten))
    }
}

type Inputs = SmallVec<[Bound; 8]>;

/// Memory for every buffer of a plan, with the byte it starts at.
type Places = SmallVec<[(Buffer, usize); 12]>;

/// What is ready to be handed to the stream.
struct Ready {
    batch: Batch,
    /// The same for a graph, during a capture.
    recorded: Option<Recorded>,
    /// In the order of the results.
    places: SmallVec<[Place; 2]>,
    inputs: Inputs,
}

/// What was run, if there was something to run, and what came of it.
type Run = (Option<Arc<Planned>>, Result<(), MlirError>);

impl Window {
    /// Plans, compiles and hands the recording to the stream, and gives every live handle its storage,
    /// or the error if it cannot be had.
    pub(super) fn start(&self, recording: &mut Recording, hand_over: HandOver) -> Result<(), MlirError> {
        if recording.is_empty() {
            return Ok(());
        }
        let mut done = recording.take();
        let result = self.run(&mut done, hand_over);
        let (planned, result) = match result {
            Ok((planned, result)) => (planned, result),
            Err(error) => (None, Err(error)),
        };
        recording.go_on(done, planned);
        result
    }

    /// Starts what was recorded: its plan, if there was something to run, and what came of it.
    fn run(&self, done: &mut Done, hand_over: HandOver) -> Result<Run, MlirError> {
        let mut session = self.session.lock();
        if done.live.is_empty() {
            if let Some(session) = &mut *session {
                let inputs = self.bind_inputs(&done.inputs, true, |_| false);
                let inputs = inputs.iter().filter_map(Bound::seen);
                let graph = std::mem::take(done.own());
                session.window(graph, std::mem::take(&mut done.scalars), inputs, std::iter::empty(), None);
            }
            return Ok((None, Ok(())));
        }
        let live = std::mem::take(&mut done.live);
        let error = match self.prepare(done, true, session.as_ref()) {
            Ok((planned, ready)) => {
                let given = (&planned.graph, &live[..], &done.scalars[..]);
                let result = self.submit(given, ready, hand_over, session.as_mut());
                return Ok((Some(planned), result));
            }
            Err(error) => error,
        };
        if let Some(session) = &mut *session {
            session.fail(CaptureError::Failed { reason: error.to_string() });
        }
        // What cannot be had must not take its neighbours with it: each result is tried by itself.
        let alone = live.len() == 1;
        for (state, result) in live.iter().zip(std::mem::take(&mut done.results)) {
            done.results = smallvec![result];
            let tried = if alone { Err(error.clone()) } else { self.prepare(done, false, None) };
            match tried {
                // An error of the stream is the one below, or one that comes after it.
                Ok((planned, ready)) => {
                    let given = (&planned.graph, std::slice::from_ref(state), &done.scalars[..]);
                    drop(self.submit(given, ready, hand_over, None));
                }
                Err(error) => *state.lock() = Value::Failed(error),
            }
        }
        Err(error)
    }

    /// Hands launches to the stream, gives every handle its storage, and lets a capture know.
    fn submit(
        &self,
        (graph, live, scalars): (&Graph, &[Arc<TensorState>], &[u64]),
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
        let mut blocks: SmallVec<[Option<Arc<Block>>; 12]> = SmallVec::new();
        let mut storages = Vec::new();
        for ((state, value), place) in live.iter().zip(&graph.results).zip(ready.places) {
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
        for input in &ready.inputs {
            if let Some((storage, false)) = input.seen().filter(|_| input.last) {
                storage.block.pins().iter().for_each(|pin| pin.used_up(storage));
            }
        }
        if let Some(session) = session {
            let inputs = ready.inputs.iter().filter_map(Bound::seen);
            let results = graph.results.iter().zip(live).zip(&storages);
            let results = results.map(|((value, state), storage)| (*value, state, storage));
            session.window(graph.clone(), scalars.to_vec(), inputs, results, ready.recorded);
        }
        Ok(result?)
    }

    /// The launches of a recording, and where its results will be. `donate`: inputs that nobody else can
    /// reach may be overwritten.
    fn prepare(
        &self,
        done: &mut Done,
        donate: bool,
        session: Option<&Session>,
    ) -> Result<(Arc<Planned>, Ready), MlirError> {
        let may_overwrite = |block: &Block| donate && session.is_none_or(|s| s.may_overwrite(block));
        let mut inputs = self.bind_inputs(&done.inputs, session.is_some(), may_overwrite);
        let planned = self.planned(done, &inputs)?;
        let executable = &planned.executable;
        let mut offsets: SmallVec<[i64; 8]> = SmallVec::new();
        for input in &inputs {
            offsets.push(input.offset);
        }
        let buffers = self.allocate(executable, &mut inputs)?;
        for (index, buffer) in executable.plan.buffers.iter().enumerate() {
            if let BufferSource::Input(slot) = buffer.source {
                inputs[slot as usize].overwritten |= executable.writes(index);
            }
        }
        let mut places = SmallVec::new();
        for place in &executable.plan.results {
            let index = place.buffer as usize;
            let mut layout = place.layout.clone();
            let mut over = None;
            if let BufferSource::Input(slot) = executable.plan.buffers[index].source {
                layout.offset += offsets[slot as usize];
                let kept = inputs[slot as usize].storage.as_ref().map(|storage| storage.block.clone());
                // A view of an input shares its block; a result in a donated input is a new value.
                if !executable.writes(index) {
                    let block = kept.or_else(|| Some(done.inputs[slot as usize].storage()?.block));
                    places.push(Place { memory: Memory::Shared(block.ok_or_else(left_out)?), layout });
                    continue;
                }
                over = kept;
            }
            let memory = Memory::Written { index, buffer: buffers[index].0.clone(), over };
            places.push(Place { memory, layout });
        }
        let recorded = session.filter(|session| session.keeps_launches()).map(|_| Recorded {
            executable: executable.clone(),
            buffers: buffers.to_vec(),
            offsets: offsets.clone(),
            scalars: done.scalars.clone(),
        });
        let batch = executable.bind(buffers, &offsets, &done.scalars)?;
        Ok((planned, Ready { batch, recorded, places, inputs }))
    }

    /// The plan of a recording with these inputs.
    fn planned(&self, done: &mut Done, inputs: &[Bound]) -> Result<Arc<Planned>, MlirError> {
        if let Some(followed) = &done.followed
            && followed.graph.results[..] == done.results[..]
            && followed.is_given(inputs.iter().map(|input| input.donated))
        {
            self.engine.reuse(followed);
            return Ok(followed.clone());
        }
        let results = done.results.to_vec();
        let graph = done.own();
        graph.results = results;
        for node in &mut graph.nodes {
            if let Op::Input { slot, donated, .. } = &mut node.op {
                *donated = inputs[*slot as usize].donated;
            }
        }
        self.engine.planned(graph)
    }

    /// Memory for every buffer of a plan, with the byte it starts at.
    fn allocate(&self, executable: &Executable, inputs: &mut [Bound]) -> Result<Places, MlirError> {
        let plan = &executable.plan;
        let arena = match plan.arena_bytes {
            0 => None,
            // Shared with the plans before and after, which run on the same stream.
            bytes => Some(self.stream.arena(bytes)?),
        };
        let mut places = Places::with_capacity(plan.buffers.len());
        for buffer in &plan.buffers {
            places.push(match (buffer.source, &arena) {
                // A plan has one buffer for an input.
                (BufferSource::Input(slot), _) => {
                    (inputs[slot as usize].buffer.take().ok_or_else(left_out)?, 0)
                }
                (BufferSource::Arena { offset }, Some(arena)) => (arena.clone(), offset),
                _ => (self.stream.allocate(buffer.bytes)?, 0),
            });
        }
        Ok(places)
    }

    /// The inputs, which this stream's later work comes after. Those are donated that nobody else can reach and that
    /// `may_overwrite` and graphs agree to: their handle is only held here, no view shares the block, and no other
    /// stream has used it. `keep`: where each of them is will be asked for.
    fn bind_inputs(
        &self,
        states: &[Arc<TensorState>],
        keep: bool,
        may_overwrite: impl Fn(&Block) -> bool,
    ) -> Inputs {
        let mut inputs = Inputs::with_capacity(states.len());
        for state in states {
            let last = Arc::strong_count(state) == 1;
            if let Value::Ready { storage, .. } = &*state.lock() {
                let block = &storage.block;
                if let Some(event) = &block.written {
                    self.stream.wait(event);
                }
                let sole_view = Arc::strong_count(block) == 1;
                let sole_stream = block.used_by(self.id());
                let donated = last && sole_view && sole_stream && may_overwrite(block);
                inputs.push(Bound {
                    buffer: Some(block.buffer.clone()),
                    offset: storage.layout.offset,
                    storage: (keep || donated || block.is_pinned()).then(|| storage.clone().into()),
                    donated,
                    last,
                    overwritten: false,
                });
            }
        }
        for storage in inputs.iter().filter_map(|input| input.storage.as_ref()) {
            self.order_after_replays(&storage.block);
        }
        leave_to_graphs(&mut inputs);
        inputs
    }
}

/// Takes back what graphs do not agree to. If they wait for something to be written over, nothing else is: of two
/// operands that a result could replace, it has to be that one.
fn leave_to_graphs(inputs: &mut [Bound]) {
    let mut awaited: SmallVec<[usize; 4]> = SmallVec::new();
    for (index, input) in inputs.iter_mut().enumerate().filter(|(_, input)| input.donated) {
        let pins = input.storage.as_ref().map(|storage| storage.block.pins()).unwrap_or_default();
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
