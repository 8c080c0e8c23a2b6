//! Whether a replay of the captured run does what running the closure again would do.
//!
//! Nobody tells a backend what changes from run to run, so the captured run is compared with the runs before it that
//! did the same operations:
//!
//! - every scalar and all data from the host must be the same in all of them;
//! - every input must come from the same place as in the run before. Either it is the same memory, or it is what the run
//!   before left: then it is *carried*, and a replay has to start by moving what the last run left to where the recorded
//!   launches read it. In a training step these are the parameters and the state of the optimizer.

use super::CaptureError;
use super::session::{Entry, Made, Ran, Read, Written};
use crate::record::Block;
use burn_mlir_ir::{DType, Graph, Layout, Literal, Node, Op, Shape, ValueId};
use burn_mlir_runtime::Buffer;
use half::{bf16, f16};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::Weak;

/// What a graph needs to know besides its launches.
#[derive(Default)]
pub(super) struct Inputs {
    /// Memory that a replay copies before it starts.
    pub(super) carries: Vec<Carry>,
    /// Tensors that replays only read.
    pub(super) read: Vec<Pinned>,
    /// Tensors that replays read and write.
    pub(super) updated: Vec<Pinned>,
}

/// State that moves from one buffer to another between two runs.
pub(super) struct Carry {
    /// Where a run leaves it.
    pub(super) from: Buffer,
    /// Where a run reads it.
    pub(super) to: Buffer,
    /// What a run leaves.
    pub(super) block: Weak<Block>,
}

/// A tensor in memory of a graph.
pub(super) struct Pinned {
    pub(super) block: Weak<Block>,
    pub(super) layout: Layout,
    /// Its type, for errors.
    pub(super) tensor: String,
}

/// An input that the run before left, and where in a run it is made.
struct Carried<'a> {
    read: &'a Read,
    tensor: String,
    entry: usize,
    value: u32,
}

/// A run in the log: its entries and the number of the first one.
#[derive(Clone, Copy)]
struct Run<'a> {
    log: &'a VecDeque<Entry>,
    first: usize,
    /// Number of the first entry of the run.
    start: usize,
    length: usize,
}

/// Where an input comes from, in terms that are the same in every run.
#[derive(PartialEq, Eq)]
enum Source {
    /// The same run: its entry, and a result in the block.
    Here(usize, u32),
    /// The run before.
    Before(usize, u32),
    /// Elsewhere: memory by its number.
    Memory(u64),
}

/// Compares the captured run, which starts at entry `start`, with those before it.
pub(super) fn compare(log: &VecDeque<Entry>, first: usize, start: usize) -> Result<Inputs, CaptureError> {
    let length = (first + log.len()).saturating_sub(start);
    let captured = Run { log, first, start, length };
    if length == 0 || !captured.windows().any(|ran| !ran.results.is_empty()) {
        return Err(CaptureError::Empty);
    }
    let runs = captured.equal_runs_before();
    let Some(before) = runs.first() else {
        return Err(CaptureError::NoEqualRun { difference: captured.difference() });
    };
    for run in &runs {
        captured.compare_values(run)?;
    }
    let mut inputs = Inputs::default();
    let carried = captured.compare_inputs(before, runs.get(1), &mut inputs)?;
    captured.carry(before, &carried, &mut inputs)?;
    Ok(inputs)
}

impl<'a> Run<'a> {
    fn entries(self) -> impl Iterator<Item = &'a Entry> {
        self.log.range(self.start - self.first..).take(self.length)
    }

    fn windows(self) -> impl Iterator<Item = &'a Ran> {
        self.entries().filter_map(|entry| match entry {
            Entry::Window(ran) => Some(&**ran),
            Entry::Upload(_) => None,
        })
    }

    /// The window at a place within the run.
    fn window(self, index: usize) -> Option<&'a Ran> {
        match self.log.get(self.start - self.first + index) {
            Some(Entry::Window(ran)) if index < self.length => Some(ran),
            _ => None,
        }
    }

    /// The runs before this one that did the same operations, latest first; none if the one right before did others.
    fn equal_runs_before(self) -> Vec<Self> {
        let mut runs = Vec::new();
        let mut end = self.start;
        while end >= self.first + self.length {
            let run = Self { start: end - self.length, ..self };
            if self.entries().zip(run.entries()).all(|(a, b)| alike(a, b)) {
                runs.push(run);
                end = run.start;
            } else if runs.is_empty() {
                break;
            } else {
                end -= 1;
            }
        }
        runs
    }

    /// Why the entries right before this run are no run like it.
    fn difference(self) -> String {
        let available = self.start - self.first;
        if available == 0 {
            return "nothing was run before".into();
        }
        let length = self.length.min(available);
        let last = Self { start: self.start - length, length, ..self };
        // From the end: a run that is longer or shorter differs at its beginning.
        let here: Vec<_> = self.entries().collect();
        let there: Vec<_> = last.entries().collect();
        for (a, b) in here.iter().rev().zip(there.iter().rev()) {
            if !alike(a, b) {
                return differ(a, b);
            }
        }
        "the captured one is longer".into()
    }

    /// Compares scalars and data from the host.
    fn compare_values(self, other: &Self) -> Result<(), CaptureError> {
        for (captured, before) in self.entries().zip(other.entries()) {
            match (captured, before) {
                (Entry::Window(captured), Entry::Window(before)) => {
                    let mut pairs = captured.scalars.iter().zip(&before.scalars);
                    if let Some(slot) = pairs.position(|(captured, before)| captured != before) {
                        return Err(changed(captured, before, slot));
                    }
                }
                (Entry::Upload(captured), Entry::Upload(before)) if !captured.same_data(before) => {
                    let tensor = describe(captured.dtype, &captured.shape);
                    return Err(CaptureError::DataChanged { tensor });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares where inputs come from. Returns those that the run before left.
    fn compare_inputs(
        self,
        before: &Self,
        earlier: Option<&Self>,
        inputs: &mut Inputs,
    ) -> Result<Vec<Carried<'a>>, CaptureError> {
        let mut carried = Vec::new();
        for (captured, other) in self.windows().zip(before.windows()) {
            for (slot, (read, known)) in captured.inputs.iter().zip(&other.inputs).enumerate() {
                let tensor = input(&captured.graph, slot);
                let source = self.source(read, Some(before));
                if source != before.source(known, earlier) || read.layout != known.layout {
                    return Err(CaptureError::TensorChanged { tensor });
                }
                match source {
                    Source::Before(entry, value) => carried.push(Carried { read, tensor, entry, value }),
                    Source::Memory(_) if read.overwritten => {
                        return Err(CaptureError::InputOverwritten { tensor });
                    }
                    Source::Memory(_) => {
                        let (block, layout) = (read.block.clone(), read.layout.clone());
                        inputs.read.push(Pinned { block, layout, tensor });
                    }
                    Source::Here(..) => {}
                }
            }
        }
        Ok(carried)
    }

    fn source(self, read: &Read, before: Option<&Self>) -> Source {
        let within = |run: &Self, made: Made| {
            let index = made.entry.checked_sub(run.start)?;
            (index < run.length).then_some((index, made.value))
        };
        let Some(made) = read.made else { return Source::Memory(read.allocation) };
        if let Some((entry, value)) = within(&self, made) {
            return Source::Here(entry, value);
        }
        match before.and_then(|run| within(run, made)) {
            Some((entry, value)) => Source::Before(entry, value),
            None => Source::Memory(read.allocation),
        }
    }

    /// What a replay moves before it starts: what the last run left, to where the recorded launches read it.
    fn carry(self, before: &Self, carried: &[Carried], inputs: &mut Inputs) -> Result<(), CaptureError> {
        let mut moved = FxHashSet::default();
        for Carried { read, tensor, entry, value } in carried {
            let changed = || CaptureError::TensorChanged { tensor: tensor.clone() };
            let (Some(new), Some(old)) = (self.left(*entry, *value), before.left(*entry, *value)) else {
                return Err(changed());
            };
            let same_layouts = new.iter().map(|w| &w.layout).eq(old.iter().map(|w| &w.layout));
            let (Some(to), Some(left)) = (&read.buffer, new.first()) else { return Err(changed()) };
            let Some(from) = &left.buffer else { return Err(changed()) };
            let in_place = read.allocation == left.allocation;
            if !same_layouts || (!in_place && (from.is_same(to) || from.bytes() != to.bytes())) {
                return Err(changed());
            }
            let pinned = |written: &&Written| Pinned {
                block: written.block.clone(),
                layout: read.layout.clone(),
                tensor: tensor.clone(),
            };
            inputs.updated.extend(new.iter().map(pinned));
            if in_place || from.bytes() == 0 {
                continue;
            }
            if read.block.strong_count() > 0 {
                return Err(CaptureError::StateHeld { tensor: tensor.clone() });
            }
            if moved.insert(read.allocation) {
                let (from, to, block) = (from.clone(), to.clone(), left.block.clone());
                inputs.carries.push(Carry { from, to, block });
            }
        }
        Ok(())
    }

    /// The results that an entry left in the block whose first result is `value`.
    fn left(self, entry: usize, value: u32) -> Option<Vec<&'a Written>> {
        let results = &self.window(entry)?.results;
        let block: Vec<_> = results.iter().filter(|written| written.first == value).collect();
        (!block.is_empty()).then_some(block)
    }
}

/// Whether two entries do the same operations.
fn alike(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::Window(a), Entry::Window(b)) => {
            let (a, b) = (&a.graph, &b.graph);
            a.nodes.len() == b.nodes.len() && a.nodes.iter().zip(&b.nodes).all(|(a, b)| same_node(a, b))
        }
        (Entry::Upload(a), Entry::Upload(b)) => a.dtype == b.dtype && a.shape == b.shape,
        _ => false,
    }
}

/// Whether two nodes compute the same. How an input lies in memory makes no difference to that.
fn same_node(a: &Node, b: &Node) -> bool {
    let same_op = match (&a.op, &b.op) {
        (Op::Input { slot: a, .. }, Op::Input { slot: b, .. }) => a == b,
        (a, b) => a == b,
    };
    same_op && a.operands == b.operands && a.dtype == b.dtype && a.shape == b.shape
}

/// The first difference between two entries.
fn differ(captured: &Entry, before: &Entry) -> String {
    match (captured, before) {
        (Entry::Window(captured), Entry::Window(before)) => {
            let (a, b) = (&captured.graph.nodes, &before.graph.nodes);
            let index = a.iter().zip(b).position(|(a, b)| !same_node(a, b)).unwrap_or(a.len().min(b.len()));
            let text = |nodes: &[Node]| match nodes.get(index) {
                Some(node) => format!("`{}`", operation(node)),
                None => "the end".to_string(),
            };
            format!("operation {index} is {}, and was {} in the last run", text(a), text(b))
        }
        (Entry::Upload(upload), _) => {
            let tensor = describe(upload.dtype, &upload.shape);
            format!("the captured one makes a {tensor} from host data where the last run does not")
        }
        (_, Entry::Upload(upload)) => {
            let tensor = describe(upload.dtype, &upload.shape);
            format!("the last run made a {tensor} from host data where the captured one does not")
        }
    }
}

/// The error of a scalar that differs.
fn changed(captured: &Ran, before: &Ran, slot: usize) -> CaptureError {
    let graph = &captured.graph;
    let index = slot as u32;
    let source = graph.nodes.iter().position(|node| match node.op {
        Op::Fill { slot } => slot == index,
        Op::Random { key, stream } => key == index || stream == index,
        Op::Attention(op) => op.scale == index || op.softcap == Some(index),
        _ => false,
    });
    let id = ValueId(source.unwrap_or_default() as u32);
    if let Op::Random { .. } = graph.node(id).op {
        return CaptureError::RandomNumbers { operation: operation(graph.node(id)) };
    }
    let dtype = graph.scalars[slot];
    // Others take scalars through a value of their own.
    let takes_scalars = matches!(graph.node(id).op, Op::Attention(_));
    let node = if takes_scalars { graph.node(id) } else { user(graph, id) };
    CaptureError::ScalarChanged {
        operation: operation(node),
        before: scalar(dtype, before.scalars[slot]),
        captured: scalar(dtype, captured.scalars[slot]),
    }
}

/// The first operation that computes with a value, looking through views and casts; itself if there is none.
fn user(graph: &Graph, id: ValueId) -> &Node {
    let mut same = vec![id];
    for (index, node) in graph.nodes.iter().enumerate().skip(id.index() + 1) {
        if node.operands.iter().any(|operand| same.contains(operand)) {
            if !node.op.is_view() && node.op != Op::Cast {
                return node;
            }
            same.push(ValueId(index as u32));
        }
    }
    graph.node(id)
}

/// An operation and the type of its result, without the numbers of its operands.
fn operation(node: &Node) -> String {
    let kind = describe(node.dtype, &node.shape);
    match &node.op {
        Op::Fill { .. } => format!("full {kind}"),
        Op::Random { .. } => format!("random {kind}"),
        Op::Input { .. } => format!("input {kind}"),
        Op::Attention(_) => format!("attention {kind}"),
        op => format!("{op} {kind}"),
    }
}

/// The type of an input.
fn input(graph: &Graph, slot: usize) -> String {
    let is_it = |node: &&Node| matches!(node.op, Op::Input { slot: of, .. } if of as usize == slot);
    graph.nodes.iter().find(is_it).map_or_else(String::new, |node| describe(node.dtype, &node.shape))
}

pub(super) fn describe(dtype: DType, shape: &Shape) -> String {
    format!("{dtype}{shape}")
}

/// A scalar argument in words.
fn scalar(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::F64 => Literal::Float(bits).to_string(),
        // As an f32, 0.1 is not 0.10000000149011612.
        DType::F32 | DType::Flex32 => format!("{:?}", f32::from_bits(bits as u32)),
        DType::F16 => f16::from_bits(bits as u16).to_string(),
        DType::BF16 => bf16::from_bits(bits as u16).to_string(),
        DType::I64 => (bits as i64).to_string(),
        DType::I32 => (bits as i32).to_string(),
        DType::I16 => (bits as i16).to_string(),
        DType::I8 => (bits as i8).to_string(),
        DType::U64 | DType::U32 | DType::U16 | DType::U8 => bits.to_string(),
        DType::Bool => (bits != 0).to_string(),
    }
}
