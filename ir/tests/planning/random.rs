//! Random well-formed graphs of small tensors, from a list of random numbers.

use crate::graph_interpreter::{Tensor, indices};
use burn_mlir_ir::{
    ArgReduceOp, BinaryOp, CompareOp, DType, Declared, Graph, Labels, Layout, Literal, Op, ReduceOp,
    ScatterOp, Shape, SliceDim, Strides, UnaryOp, ValueId, infer,
};
use smallvec::SmallVec;

/// A graph with values for its inputs and scalars.
#[derive(Clone, Debug)]
pub struct Case {
    pub graph: Graph,
    pub inputs: Vec<Tensor>,
    pub scalars: Vec<i64>,
}

/// Numbers to decide with; zeros once they are used up.
struct Entropy<'a>(std::slice::Iter<'a, u32>);

impl Entropy<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.0.next().map_or(0, |&n| n as usize % bound.max(1))
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

const NUMBERS: [DType; 4] = [DType::F32, DType::F64, DType::I64, DType::I32];

struct Builder<'a> {
    graph: Graph,
    inputs: Vec<Tensor>,
    entropy: Entropy<'a>,
}

/// Builds a case with up to `results` results from random numbers.
pub fn case(numbers: &[u32], results: usize) -> Case {
    let graph = Graph { scalars: vec![DType::F32, DType::U32, DType::U32], ..Graph::default() };
    let mut builder = Builder { graph, inputs: Vec::new(), entropy: Entropy(numbers.iter()) };
    builder.input();
    while builder.entropy.0.len() > 8 {
        builder.step();
    }
    let count = builder.graph.nodes.len();
    let mut held = vec![ValueId(count as u32 - 1)];
    builder.entropy = Entropy(numbers.iter());
    for _ in 1..results.min(1 + builder.entropy.below(results)) {
        held.push(ValueId(builder.entropy.below(count) as u32));
    }
    builder.graph.results = held;
    builder.graph.verify().unwrap_or_else(|error| panic!("{error}\n{}", builder.graph));
    Case { graph: builder.graph, inputs: builder.inputs, scalars: vec![5, 77, 99] }
}

/// The largest tensor of a random graph.
const MOST_ELEMENTS: usize = 4096;

impl Builder<'_> {
    /// Adds a node if it is well formed.
    fn add(&mut self, op: Op, operands: &[ValueId], dtype: DType, shape: &Shape) -> Option<ValueId> {
        let types: Vec<(DType, &Shape)> =
            operands.iter().map(|&id| (self.graph.node(id).dtype, &self.graph.node(id).shape)).collect();
        let inferred = infer(&op, &types, Declared::both(dtype, shape)).ok()?;
        self.push(op, operands, inferred)
    }

    /// Adds a node whose type follows from its operands.
    fn derive(&mut self, op: Op, operands: &[ValueId]) -> Option<ValueId> {
        let types: Vec<(DType, &Shape)> =
            operands.iter().map(|&id| (self.graph.node(id).dtype, &self.graph.node(id).shape)).collect();
        let inferred = infer(&op, &types, Declared::dtype(types[0].0)).ok()?;
        self.push(op, operands, inferred)
    }

    /// Adds a node unless it is larger than the interpreters, which are naive, can take: windows over
    /// windows grow without end.
    fn push(&mut self, op: Op, operands: &[ValueId], (dtype, shape): (DType, Shape)) -> Option<ValueId> {
        (shape.elements() <= MOST_ELEMENTS).then(|| self.graph.push(op, operands, dtype, shape))
    }

    fn shape(&mut self) -> Shape {
        let rank = self.entropy.below(4);
        let extents: &[usize] = if self.entropy.one_in(12) { &[0, 2, 3] } else { &[4, 2, 3, 1, 6] };
        (0..rank).map(|_| self.entropy.pick(extents)).collect()
    }

    fn any(&mut self) -> ValueId {
        let count = self.graph.nodes.len();
        // Recent nodes more often, for deep graphs.
        let back = if self.entropy.one_in(3) { count } else { count.min(4) };
        ValueId((count - 1 - self.entropy.below(back)) as u32)
    }

    fn input(&mut self) -> ValueId {
        let shape = self.shape();
        self.input_of(shape)
    }

    fn input_of(&mut self, shape: Shape) -> ValueId {
        let dtype = self.entropy.pick(&NUMBERS);
        let slot = self.inputs.len() as i64;
        let layout = self.layout(&shape);
        let mut value = 17 * slot;
        let mut tensor = Tensor::build(&shape, |_| {
            value = (value * 29 + 13) % 101;
            value - 50
        });
        // Elements that share memory are equal.
        let mut first = std::collections::HashMap::new();
        for (index, value) in indices(&shape).iter().zip(&mut tensor.values) {
            *value = *first.entry(crate::plan_interpreter::at(&layout, index)).or_insert(*value);
        }
        self.inputs.push(tensor);
        let donated = self.entropy.one_in(2);
        self.graph.push(Op::Input { slot: slot as u32, layout, donated, alignment: 1 }, &[], dtype, shape)
    }

    /// Mostly row-major, sometimes transposed, padded, flipped or broadcast.
    fn layout(&mut self, shape: &Shape) -> Layout {
        let mut layout = Layout::contiguous(shape);
        if self.entropy.one_in(2) || shape.rank() == 0 {
            return layout;
        }
        let axes: Vec<usize> = self.permutation(shape.rank());
        let mut step = 1;
        for &axis in &axes {
            layout.strides[axis] = step;
            step *= shape[axis].max(1) as i64 + self.entropy.below(2) as i64;
        }
        let axis = self.entropy.below(shape.rank());
        match self.entropy.below(4) {
            0 => layout.strides[axis] *= -1,
            1 => layout.strides[axis] = 0,
            _ => {}
        }
        layout.strides = Strides::from_slice(&layout.strides);
        layout
    }

    fn permutation(&mut self, rank: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..rank).collect();
        (1..rank).for_each(|i| axes.swap(i, self.entropy.below(i + 1)));
        axes
    }

    /// Something of this type and shape: an existing node brought into shape, or a new one.
    fn like(&mut self, dtype: DType, shape: &Shape) -> ValueId {
        let mut found = None;
        for _ in 0..4 {
            let candidate = self.any();
            let node = self.graph.node(candidate).clone();
            if node.shape == *shape {
                found = Some(candidate);
            } else if node.shape.rank() == shape.rank() {
                found = self.add(Op::Expand, &[candidate], node.dtype, shape);
            }
            if found.is_none() && node.shape.elements() == shape.elements() {
                found = self.add(Op::Reshape, &[candidate], node.dtype, shape);
            }
            if found.is_some() {
                break;
            }
        }
        let id = match found {
            Some(id) => id,
            None => match self.entropy.below(4) {
                0 => self.graph.push(Op::Fill { slot: 0 }, &[], DType::F32, shape.clone()),
                1 if shape.rank() > 0 => {
                    let axis = self.entropy.below(shape.rank());
                    self.graph.push(Op::Iota { axis }, &[], DType::I64, shape.clone())
                }
                2 => self.graph.push(Op::Random { key: 1, stream: 2 }, &[], DType::U32, shape.clone()),
                _ => self.input_of(shape.clone()),
            },
        };
        if self.graph.node(id).dtype == dtype {
            return id;
        }
        self.graph.push(Op::Cast, &[id], dtype, shape.clone())
    }

    fn step(&mut self) {
        let id = self.any();
        let node = self.graph.node(id).clone();
        let (dtype, shape) = (node.dtype, node.shape);
        let rank = shape.rank();
        match self.entropy.below(20) {
            0 => drop(self.input()),
            1 => {
                let op = if dtype.is_float() { UnaryOp::Exp } else { UnaryOp::Abs };
                let op = self.entropy.pick(&[UnaryOp::Neg, op]);
                self.derive(Op::Unary(op), &[id]);
            }
            2..=4 => {
                let other = self.like(dtype, &shape);
                let op = self.entropy.pick(&[BinaryOp::Sub, BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max]);
                self.derive(Op::Binary(op), &[id, other]);
            }
            5 => {
                let to = self.entropy.pick(&NUMBERS);
                self.add(Op::Cast, &[id], to, &shape);
            }
            6 => {
                let other = self.like(dtype, &shape);
                if let Some(condition) = self.derive(Op::Compare(CompareOp::Lt), &[id, other]) {
                    self.derive(Op::Select, &[condition, other, id]);
                }
            }
            7 => drop(self.reshape(id)),
            8 if rank > 0 => {
                let axes = SmallVec::from_vec(self.permutation(rank));
                self.derive(Op::Permute { axes }, &[id]);
            }
            9 => {
                let axis = self.entropy.below(rank + 1);
                let mut wide = shape.clone();
                wide.0.insert(axis, 1);
                if let Some(id) = self.add(Op::Reshape, &[id], dtype, &wide) {
                    wide.0[axis] = self.entropy.pick(&[2, 3]);
                    self.add(Op::Expand, &[id], dtype, &wide);
                }
            }
            10 if rank > 0 => {
                let dims = self.slice_of(&shape);
                self.derive(Op::Slice { dims }, &[id]);
            }
            11 if rank > 0 => {
                let axis = self.entropy.below(rank);
                let size = 1 + self.entropy.below(shape[axis]);
                let (step, dilation) = (1 + self.entropy.below(2), 1 + self.entropy.below(2));
                self.derive(Op::Unfold { axis, size, step, dilation }, &[id]);
            }
            12..=14 if rank > 0 => self.normalise(id),
            15 if rank > 0 => {
                let axis = self.entropy.below(rank);
                let descending = self.entropy.one_in(2);
                let op = match self.entropy.below(4) {
                    0 => Op::Scan { op: ReduceOp::Sum, axis },
                    1 => Op::Sort { axis, descending },
                    2 => Op::ArgSort { axis, descending },
                    _ => Op::ArgReduce { op: ArgReduceOp::ArgMax, axes: SmallVec::from_slice(&[axis]) },
                };
                self.add(op, &[id], if dtype.is_float() { DType::I64 } else { dtype }, &shape)
                    .or_else(|| self.derive(Op::Scan { op: ReduceOp::Sum, axis }, &[id]));
            }
            16 if rank <= 6 => self.contract(id),
            17 if rank > 0 => self.index(id),
            18 if rank > 0 => {
                let axis = self.entropy.below(rank);
                let mut other = shape.clone();
                other.0[axis] = self.entropy.pick(&[1, 2, shape[axis]]);
                let other = self.like(dtype, &other);
                self.derive(Op::Concat { axis }, &[id, other, id]);
            }
            19 if rank > 0 => {
                let dims = self.slice_of(&shape);
                let region: Shape = dims.iter().map(|dim| dim.size).collect();
                let updates = self.like(dtype, &region);
                self.derive(Op::SliceUpdate { dims }, &[id, updates]);
            }
            _ => {}
        }
    }

    fn reshape(&mut self, id: ValueId) -> Option<ValueId> {
        let node = self.graph.node(id).clone();
        let mut extents = Vec::new();
        let mut rest = node.shape.elements();
        while rest > 1 {
            let factors: Vec<usize> =
                [2, 3, 4, 6, 12, rest].into_iter().filter(|f| rest.is_multiple_of(*f)).collect();
            let factor = self.entropy.pick(&factors);
            extents.push(factor);
            rest /= factor;
        }
        if self.entropy.one_in(3) {
            extents.push(1);
        }
        let shape = if node.shape.elements() == 0 { Shape::from([0, 2]) } else { Shape::new(extents) };
        self.add(Op::Reshape, &[id], node.dtype, &shape)
    }

    fn slice_of(&mut self, shape: &Shape) -> SmallVec<[SliceDim; 6]> {
        let mut dims = SmallVec::new();
        for &extent in shape.iter() {
            dims.push(match self.entropy.below(4) {
                _ if extent == 0 => SliceDim { start: 0, size: 0, step: 1 },
                0 => SliceDim { start: 0, size: extent, step: 1 },
                1 => SliceDim { start: extent - 1, size: extent, step: -1 },
                2 => {
                    let start = self.entropy.below(extent);
                    SliceDim { start, size: 1 + self.entropy.below(extent - start), step: 1 }
                }
                _ => SliceDim { start: 0, size: extent.div_ceil(2), step: 2 },
            });
        }
        dims
    }

    /// A reduction, perhaps combined with what it reduced, as softmax and the norms do.
    fn normalise(&mut self, id: ValueId) {
        let shape = self.graph.node(id).shape.clone();
        let axes = self.permutation(shape.rank());
        let count = 1 + self.entropy.below(axes.len());
        let mut axes: SmallVec<[usize; 6]> = SmallVec::from_slice(&axes[..count]);
        axes.sort_unstable();
        let op = self.entropy.pick(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]);
        let Some(mut row) = self.derive(Op::Reduce { op, axes: axes.clone() }, &[id]) else { return };
        if self.entropy.one_in(2) {
            let op = if self.graph.node(row).dtype.is_float() { UnaryOp::Sqrt } else { UnaryOp::Neg };
            row = self.derive(Op::Unary(op), &[row]).unwrap_or(row);
        }
        if self.entropy.one_in(3) {
            let rows = self.graph.node(row).clone();
            let flat = Shape::from([rows.shape.elements()]);
            if let Some(flat) = self.add(Op::Reshape, &[row], rows.dtype, &flat) {
                row = self.add(Op::Reshape, &[flat], rows.dtype, &rows.shape).unwrap_or(row);
            }
        }
        if self.entropy.one_in(4) {
            return;
        }
        let dtype = self.graph.node(row).dtype;
        if let Some(wide) = self.add(Op::Expand, &[row], dtype, &shape) {
            self.derive(Op::Binary(BinaryOp::Sub), &[id, wide]);
        }
    }

    fn contract(&mut self, id: ValueId) {
        let node = self.graph.node(id).clone();
        let labels = b"abcdef";
        let lhs = &labels[..node.shape.rank()];
        let mut extents: Vec<(u8, usize)> = lhs.iter().copied().zip(node.shape.iter().copied()).collect();
        extents.push((b'x', 2));
        extents.push((b'y', 3));
        let mut rhs = Vec::new();
        let mut out = Vec::new();
        for &(label, _) in &extents {
            let only = label >= b'x';
            match self.entropy.below(if only { 2 } else { 4 }) {
                0 if only => {}
                0 => out.push(label),
                1 => {
                    rhs.push(label);
                    out.push(label);
                }
                2 => rhs.push(label),
                _ => {}
            }
        }
        let order = self.permutation(out.len());
        let out: Vec<u8> = order.into_iter().map(|i| out[i]).collect();
        let extent = |label: &u8| extents.iter().find(|(l, _)| l == label).map_or(1, |(_, extent)| *extent);
        let other: Shape = rhs.iter().map(extent).collect();
        let other = self.like(node.dtype, &other);
        let labels = |text: &[u8]| Labels(SmallVec::from_slice(text));
        self.derive(Op::Contract { lhs: labels(lhs), rhs: labels(&rhs), out: labels(&out) }, &[id, other]);
    }

    fn index(&mut self, id: ValueId) {
        let node = self.graph.node(id).clone();
        let axis = self.entropy.below(node.shape.rank());
        let extent = node.shape[axis];
        if extent == 0 {
            return;
        }
        let mut shape = node.shape.clone();
        shape.0[axis] = self.entropy.pick(&[1, 2, 3, 4]);
        // Indices in range: the index along some axis, limited.
        let along = self.entropy.below(shape.rank());
        let iota = self.graph.push(Op::Iota { axis: along }, &[], DType::I64, shape.clone());
        let limit = Op::Constant { value: Literal::Int(extent as i64 - 1) };
        let limit = self.graph.push(limit, &[], DType::I64, shape.clone());
        let op = self.entropy.pick(&[BinaryOp::Min]);
        let Some(mut indices) = self.derive(Op::Binary(op), &[iota, limit]) else { return };
        if self.entropy.one_in(2) {
            indices = self.derive(Op::Binary(BinaryOp::Sub), &[limit, indices]).unwrap_or(indices);
        }
        if self.entropy.one_in(2) {
            self.derive(Op::Gather { axis }, &[id, indices]);
        } else {
            let updates = self.like(node.dtype, &shape);
            let op = self.entropy.pick(&[ScatterOp::Add, ScatterOp::Assign, ScatterOp::Max]);
            self.derive(Op::Scatter { op, axis }, &[id, indices, updates]);
        }
    }
}
