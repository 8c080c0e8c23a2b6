//! The operations of a window since it was started the last time.
//!
//! Programs repeat themselves. So a recording *follows* what came after the window's last one the time before, as long as
//! it can: an operation that is the next one there is compared with it, and nothing is built, checked or hashed. A
//! recording that ends where the followed one did has its plan. At the first operation that differs the nodes so far are
//! copied, and the recording goes on by itself.

use super::Position;
use super::cut::Cut;
use super::state::{Storage, TensorState, Value, left_out};
use super::window::number;
use crate::engine::Planned;
use crate::{MlirError, MlirTensor};
use burn_mlir_ir::{AttentionOp, DType, Graph, Layout, Literal, Op, Shape, ValueId};
use smallvec::SmallVec;
use std::sync::Arc;

/// An operand as it is recorded.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    /// A tensor.
    Tensor(&'a MlirTensor),
    /// In the result's shape, the bits of a scalar that a user chose: an argument of the kernel.
    Scalar(DType, u64),
    /// In the result's shape, a constant of a formula.
    Constant(DType, Literal),
}

/// What a node is to be.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    /// Its slots count from the first of `scalars`.
    pub(crate) op: &'a Op,
    pub(crate) operands: &'a [Operand<'a>],
    pub(crate) scalars: &'a [(DType, u64)],
    pub(crate) dtype: DType,
    pub(crate) shape: &'a Shape,
}

/// Tells whether operands fit an operation.
pub(crate) type Check<'a> = &'a dyn Fn(&Op) -> Result<(), MlirError>;

/// Why an operation cannot be recorded; small, as every operation passes it on.
pub(super) type Refusal = Box<MlirError>;

#[derive(Default)]
pub(super) struct Recording {
    pub(super) generation: u64,
    /// The window it belongs to.
    window: u64,
    /// Nodes so far.
    len: usize,
    /// Begins with the nodes so far, as long as there is one.
    followed: Option<Arc<Planned>>,
    /// The nodes so far and their scalars' types, if none is followed.
    graph: Graph,
    cut: Cut,
    /// A handle for every node; those that nobody else has are not materialised, but used again for the node of that
    /// number in the next recording.
    handles: Vec<Arc<TensorState>>,
    inputs: Vec<Arc<TensorState>>,
    scalars: Vec<u64>,
    /// What was run last.
    last: Option<Arc<Planned>>,
}

/// A recording that is over.
pub(super) struct Done {
    /// What was followed to its end.
    pub(super) followed: Option<Arc<Planned>>,
    /// The nodes and their scalars' types otherwise.
    pub(super) graph: Graph,
    /// The values that somebody holds, and their handles.
    pub(super) results: SmallVec<[ValueId; 4]>,
    pub(super) live: Live,
    pub(super) inputs: Vec<Arc<TensorState>>,
    pub(super) scalars: Vec<u64>,
}

pub(super) type Live = SmallVec<[Arc<TensorState>; 4]>;

impl Recording {
    pub(super) fn new(window: u64) -> Self {
        Self { generation: number(), window, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a node and returns its handle. `check` tells whether the operands fit; what is followed was checked.
    pub(super) fn push(
        &mut self,
        operation: &Operation<'_>,
        check: Check<'_>,
    ) -> Result<Arc<TensorState>, Refusal> {
        let &Operation { op, operands, scalars, dtype, shape } = operation;
        let following = self.followed.is_some();
        if !following {
            check(op)?;
        }
        let mut ids: SmallVec<[ValueId; 4]> = SmallVec::new();
        for operand in operands {
            ids.push(self.operand(operand, shape)?);
        }
        let placed = (!scalars.is_empty()).then(|| placed(op, self.scalars.len() as u32));
        let op = placed.as_ref().unwrap_or(op);
        for &(dtype, bits) in scalars {
            self.scalar(dtype, bits);
        }
        if !self.continues_with(op, &ids, dtype, shape) {
            if following {
                self.part();
                check(op)?;
            }
            self.append(op, &ids, dtype, shape);
        }
        self.len += 1;
        Ok(self.handle())
    }

    /// Whether a recording should end here, although nobody waits for it.
    pub(super) fn is_full(&self) -> bool {
        match &self.followed {
            None => self.cut.is_reached(),
            Some(followed) => {
                let nodes = &followed.graph.nodes;
                self.len == nodes.len() && Cut::is_possible(self.len) && Cut::of(nodes).is_reached()
            }
        }
    }

    fn continues_with(&self, op: &Op, operands: &[ValueId], dtype: DType, shape: &Shape) -> bool {
        let next = self.followed.as_ref().and_then(|followed| followed.graph.nodes.get(self.len));
        next.is_some_and(|next| {
            // Extents one by one: they are too few for a call that compares memory.
            (next.op == *op && next.operands[..] == *operands && next.dtype == dtype)
                && next.shape.iter().eq(shape.iter())
        })
    }

    fn append(&mut self, op: &Op, operands: &[ValueId], dtype: DType, shape: &Shape) {
        self.part();
        self.cut.after(op, dtype, shape);
        self.graph.push(op.clone(), operands, dtype, shape.clone());
    }

    /// Appends a node without operands that nobody has a handle of.
    fn source(&mut self, op: &Op, dtype: DType, shape: &Shape) -> ValueId {
        if !self.continues_with(op, &[], dtype, shape) {
            self.append(op, &[], dtype, shape);
        }
        self.len += 1;
        self.newest()
    }

    fn newest(&self) -> ValueId {
        ValueId(self.len as u32 - 1)
    }

    /// Appends a scalar argument.
    fn scalar(&mut self, dtype: DType, bits: u64) {
        let next = self.followed.as_ref().and_then(|followed| followed.graph.scalars.get(self.scalars.len()));
        if next != Some(&dtype) {
            self.part();
            self.graph.scalars.push(dtype);
        }
        self.scalars.push(bits);
    }

    /// Follows no longer.
    fn part(&mut self) {
        let Some(followed) = self.followed.take() else { return };
        self.graph = beginning(&followed.graph, self.len, self.scalars.len());
        self.cut = Cut::of(&self.graph.nodes);
    }

    /// The node of an operand: its own, or one that stands for it.
    fn operand(&mut self, operand: &Operand<'_>, shape: &Shape) -> Result<ValueId, Refusal> {
        match *operand {
            Operand::Tensor(tensor) => match tensor.state.node_in(self.generation) {
                Some(node) => Ok(node),
                None => self.input(tensor),
            },
            Operand::Scalar(dtype, bits) => {
                let slot = self.scalars.len() as u32;
                self.scalar(dtype, bits);
                Ok(self.source(&Op::Fill { slot }, dtype, shape))
            }
            Operand::Constant(dtype, value) => Ok(self.source(&Op::Constant { value }, dtype, shape)),
        }
    }

    /// The node that stands for a tensor from outside.
    fn input(&mut self, tensor: &MlirTensor) -> Result<ValueId, Refusal> {
        let mut value = tensor.state.lock();
        let (storage, bound) = match &mut *value {
            Value::Ready { storage, bound } => (storage, bound),
            Value::Failed(error) => return Err(error.clone().into()),
            Value::Recorded => return Err(left_out().into()),
        };
        if let Some(position) = bound.filter(|position| position.generation == self.generation) {
            return Ok(position.value);
        }
        let value = self.input_node(storage, tensor.dtype);
        *bound = Some(Position { generation: self.generation, value });
        self.inputs.push(tensor.state.clone());
        Ok(value)
    }

    fn input_node(&mut self, storage: &Storage, dtype: DType) -> ValueId {
        let Layout { shape, strides, offset } = &storage.layout;
        let expected = self.inputs.len() as u32;
        let class = alignment_class(offset * dtype.size() as i64);
        let next = self.followed.as_ref().and_then(|followed| followed.graph.nodes.get(self.len));
        let as_foreseen = next.is_some_and(|next| match &next.op {
            Op::Input { slot, layout, alignment, .. } => {
                (*slot, *alignment, next.dtype) == (expected, class, dtype)
                    && layout.shape == *shape
                    && layout.strides == *strides
            }
            _ => false,
        });
        if !as_foreseen {
            self.part();
            let layout = Layout { shape: shape.clone(), strides: strides.clone(), offset: 0 };
            let op = Op::Input { slot: expected, layout, donated: false, alignment: class };
            self.graph.push(op, &[], dtype, shape.clone());
        }
        self.len += 1;
        self.newest()
    }

    /// The handle of the newest node.
    fn handle(&mut self) -> Arc<TensorState> {
        let value = self.newest();
        while self.handles.len() < self.len {
            self.handles.push(TensorState::place(self.window));
        }
        let handle = &self.handles[value.index()];
        handle.stand_for(Position { generation: self.generation, value });
        handle.clone()
    }

    /// Whether somebody holds a value.
    pub(super) fn is_awaited(&self) -> bool {
        self.handles.iter().any(is_live)
    }

    /// What is recorded, with what somebody holds as results.
    pub(super) fn graph(&self) -> Graph {
        let mut graph = match &self.followed {
            Some(followed) => beginning(&followed.graph, self.len, self.scalars.len()),
            None => self.graph.clone(),
        };
        let live = self.handles.iter().enumerate().filter(|(_, handle)| is_live(handle));
        graph.results = live.map(|(index, _)| ValueId(index as u32)).collect();
        graph
    }

    /// Ends the recording and begins the next one.
    pub(super) fn take(&mut self) -> Done {
        if self.followed.as_ref().is_some_and(|followed| followed.graph.nodes.len() > self.len) {
            self.part();
        }
        let (mut results, mut live) = (SmallVec::new(), Live::new());
        for (index, handle) in self.handles.iter_mut().take(self.len).enumerate() {
            if is_live(handle) {
                results.push(ValueId(index as u32));
                live.push(std::mem::replace(handle, TensorState::place(self.window)));
            }
        }
        self.generation = number();
        self.len = 0;
        self.cut = Cut::default();
        Done {
            followed: self.followed.take(),
            graph: std::mem::take(&mut self.graph),
            results,
            live,
            inputs: std::mem::take(&mut self.inputs),
            scalars: std::mem::take(&mut self.scalars),
        }
    }

    /// Takes back the room of a recording that was started, and foresees what comes after it: `planned` was run.
    pub(super) fn go_on(&mut self, done: Done, planned: Option<Arc<Planned>>) {
        (self.inputs, self.scalars) = (done.inputs, done.scalars);
        self.inputs.clear();
        self.scalars.clear();
        if let Some(planned) = planned {
            let foreseen = done.followed.is_some_and(|followed| Arc::ptr_eq(&followed, &planned));
            if foreseen && self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &planned)) {
                // Again and again the same.
                self.followed = Some(planned);
                return;
            }
            if let Some(last) = self.last.replace(planned)
                && !foreseen
                && let Some(planned) = &self.last
            {
                last.precedes(planned);
            }
        }
        self.followed = self.last.as_ref().and_then(|last| last.next());
    }
}

/// An operation whose slots count from the first scalar of its own, in a recording that has `first` others.
fn placed(op: &Op, first: u32) -> Op {
    match op.clone() {
        Op::Fill { slot } => Op::Fill { slot: slot + first },
        Op::Random { key, stream } => Op::Random { key: key + first, stream: stream + first },
        Op::Attention(op) => {
            let softcap = op.softcap.map(|slot| slot + first);
            Op::Attention(AttentionOp { scale: op.scale + first, softcap, ..op })
        }
        other => other,
    }
}

/// Whether somebody has a handle besides the recording.
fn is_live(handle: &Arc<TensorState>) -> bool {
    Arc::strong_count(handle) > 1
}

/// The first nodes and scalars of a graph.
fn beginning(graph: &Graph, nodes: usize, scalars: usize) -> Graph {
    let mut nodes = graph.nodes[..nodes].to_vec();
    for node in &mut nodes {
        if let Op::Input { donated, .. } = &mut node.op {
            *donated = false;
        }
    }
    Graph { nodes, results: Vec::new(), scalars: graph.scalars[..scalars].to_vec() }
}

impl Done {
    /// The nodes by themselves, without results.
    pub(super) fn own(&mut self) -> &mut Graph {
        if let Some(followed) = self.followed.take() {
            self.graph = beginning(&followed.graph, followed.graph.nodes.len(), followed.graph.scalars.len());
        }
        &mut self.graph
    }
}

/// What a kernel may know of an address that many bytes into a block. Few classes, so that few kernels differ
/// in nothing else: whole vectors of the host, the widest access of a GPU, or the element alone.
fn alignment_class(bytes: i64) -> u32 {
    [64, 16].into_iter().find(|class| bytes % i64::from(*class) == 0).unwrap_or(1)
}
