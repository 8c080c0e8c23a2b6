//! Random well-formed graphs: operations drawn at random, kept if they fit.

use burn_mlir_ir::{
    ArgReduceOp, BinaryOp, CompareOp, DType, Declared, Graph, Labels, Layout, Literal, Op, ReduceOp,
    ScatterOp, Shape, SliceDim, UnaryOp, ValueId, infer,
};
use proptest::prelude::*;

/// Numbers drawn one after the other.
struct Draws<'a>(std::slice::Iter<'a, u32>);

impl Draws<'_> {
    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        self.0.next().map_or(0, |&number| number as usize % limit)
    }

    fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    fn shape(&mut self) -> Shape {
        (0..self.below(4)).map(|_| self.of(&[1, 2, 3, 4, 6, 2, 4, 3, 1, 2, 3, 0])).collect()
    }
}

const DTYPES: &[DType] = &[DType::F32, DType::F32, DType::I64, DType::Bool, DType::F16];

/// A graph of up to a dozen operations, every one of them well-formed.
pub fn graph() -> impl Strategy<Value = Graph> {
    proptest::collection::vec(any::<u32>(), 40..600).prop_map(|numbers| build(&mut Draws(numbers.iter())))
}

fn build(draws: &mut Draws<'_>) -> Graph {
    let mut graph = Graph { scalars: vec![DType::F32, DType::U32], ..Graph::default() };
    let shape = draws.shape();
    for slot in 0..5 {
        let dtype = draws.of(DTYPES);
        let shape = if draws.below(3) > 0 { shape.clone() } else { draws.shape() };
        let mut layout = Layout::contiguous(&shape);
        if draws.flip() {
            layout.strides.reverse();
        }
        graph.push(
            Op::Input { slot, layout, donated: draws.flip(), alignment: 1 << draws.below(7) },
            &[],
            dtype,
            shape,
        );
    }
    for _ in 0..100 {
        if draws.0.len() == 0 || graph.nodes.len() > 16 {
            break;
        }
        try_push(&mut graph, draws);
    }
    for _ in 0..draws.below(3) + 1 {
        let recent = graph.nodes.len() - 1 - draws.below(3);
        graph.results.push(ValueId(recent as u32));
    }
    graph.results.dedup();
    graph
}

/// Draws an operation and operands, and adds it if they fit.
fn try_push(graph: &mut Graph, draws: &mut Draws<'_>) {
    let count = graph.nodes.len();
    let first = ValueId(draws.below(count) as u32);
    let (first_dtype, first_shape) = (graph.node(first).dtype, graph.node(first).shape.clone());
    let op = draw_op(&first_shape, draws);
    let operands = draw_operands(graph, &op, first, draws);
    let (dtype, shape) = match &op {
        Op::Fill { .. } => (DType::F32, draws.shape()),
        Op::Constant { value: Literal::Int(_) } | Op::Iota { .. } => (DType::I64, draws.shape()),
        Op::Random { .. } => (DType::U32, draws.shape()),
        Op::Reshape => (first_dtype, reshaped(&first_shape, draws)),
        Op::Expand => (
            first_dtype,
            first_shape.iter().map(|&extent| if extent == 1 { draws.below(4) } else { extent }).collect(),
        ),
        Op::ArgReduce { .. } | Op::ArgSort { .. } => (DType::I64, Shape::default()),
        _ => (draws.of(DTYPES), draws.shape()),
    };
    let types: Vec<_> = operands.iter().map(|&id| (graph.node(id).dtype, &graph.node(id).shape)).collect();
    if let Ok((dtype, shape)) = infer(&op, &types, Declared::both(dtype, &shape))
        && shape.elements() < 5000
    {
        graph.push(op, &operands, dtype, shape);
    }
}

/// As many operands as an operation takes, of types and shapes that have a chance to fit.
fn draw_operands(graph: &Graph, op: &Op, first: ValueId, draws: &mut Draws<'_>) -> Vec<ValueId> {
    let mut pick = |fits: &dyn Fn(DType, &Shape) -> bool| {
        let nodes = graph.nodes.iter().enumerate();
        let fitting: Vec<_> = nodes.filter(|(_, node)| fits(node.dtype, &node.shape)).collect();
        if fitting.is_empty() { first } else { ValueId(draws.of(&fitting).0 as u32) }
    };
    let (dtype, shape) = (graph.node(first).dtype, &graph.node(first).shape);
    let alike = |d: DType, s: &Shape| d == dtype && s == shape;
    match op {
        Op::Binary(_) | Op::Compare(_) | Op::Concat { .. } => vec![first, pick(&alike)],
        Op::Select => {
            let condition = pick(&|d, s| d == DType::Bool && s == shape);
            vec![condition, first, pick(&alike)]
        }
        Op::Gather { .. } => vec![first, pick(&|d, s| d.is_int() && s.rank() == shape.rank())],
        Op::Scatter { .. } => {
            let indices = pick(&|d, s| d.is_int() && s.rank() == shape.rank());
            let updates = pick(&|d, s| d == dtype && *s == graph.node(indices).shape);
            vec![first, indices, updates]
        }
        Op::SliceUpdate { dims } => {
            let is_box = |s: &Shape| s.iter().eq(dims.iter().map(|dim| &dim.size));
            vec![first, pick(&|d, s| d == dtype && is_box(s))]
        }
        Op::Contract { lhs, rhs, .. } => {
            let common = |s: &Shape| {
                let pairs = lhs
                    .0
                    .iter()
                    .enumerate()
                    .flat_map(|(i, l)| rhs.0.iter().position(|r| r == l).map(|j| (i, j)));
                pairs.into_iter().all(|(i, j)| shape.get(i) == s.get(j))
            };
            vec![first, pick(&|d, s| d == dtype && s.rank() == rhs.0.len() && common(s))]
        }
        _ if op.arity() == Some(0) => vec![],
        _ => vec![first],
    }
}

/// Extents of the same number of elements: two axes merged, or one split, or an axis of 1 added.
fn reshaped(shape: &Shape, draws: &mut Draws<'_>) -> Shape {
    let mut dims = shape.to_vec();
    match draws.below(4) {
        0 => dims.insert(draws.below(dims.len() + 1), 1),
        1 => dims = vec![shape.elements()],
        2 if dims.len() > 1 => {
            let extent = dims.remove(0);
            dims[0] *= extent;
        }
        _ => {
            let even = |extent: &usize| *extent > 2 && extent.is_multiple_of(2);
            if let Some(axis) = dims.iter().position(even) {
                dims[axis] /= 2;
                dims.insert(axis, 2);
            }
        }
    }
    Shape::new(dims)
}

fn draw_op(shape: &Shape, draws: &mut Draws<'_>) -> Op {
    let axis = draws.below(shape.rank().max(1));
    let ranges = |draws: &mut Draws<'_>| {
        let range = |&extent: &usize| {
            let size = draws.below(extent + 1);
            let backwards = draws.flip();
            let start = if backwards { extent.saturating_sub(1) } else { extent - size };
            SliceDim { start, size, step: if backwards { -1 } else { 1 } }
        };
        shape.iter().map(range).collect()
    };
    match draws.below(27) {
        0 if draws.flip() => Op::Fill { slot: 0 },
        0 => Op::Constant { value: Literal::Int(2) },
        1 if draws.flip() => Op::Iota { axis },
        1 => Op::Random { key: 1, stream: 1 },
        2 | 3 => Op::Binary(draws.of(&[BinaryOp::Add, BinaryOp::Mul])),
        4 | 5 => Op::Unary(draws.of(UnaryOp::ALL)),
        6..=8 => Op::Binary(draws.of(BinaryOp::ALL)),
        9 => Op::Compare(draws.of(CompareOp::ALL)),
        10 => Op::Select,
        11 => Op::Cast,
        12 if draws.flip() => Op::Bitcast,
        12 => Op::Compare(draws.of(CompareOp::ALL)),
        13 => Op::Reshape,
        14 => {
            let mut axes: Vec<usize> = (0..shape.rank()).collect();
            axes.rotate_left(axis);
            Op::Permute { axes: axes.into() }
        }
        15 => Op::Expand,
        16 => Op::Slice { dims: ranges(draws) },
        17 => Op::Unfold {
            axis,
            size: draws.below(3) + 1,
            step: draws.below(3) + 1,
            dilation: draws.below(2) + 1,
        },
        18 => {
            let axes = (0..shape.rank()).filter(|_| draws.flip()).collect();
            if draws.below(3) > 0 {
                Op::Reduce { op: draws.of(ReduceOp::ALL), axes }
            } else {
                Op::ArgReduce { op: draws.of(ArgReduceOp::ALL), axes }
            }
        }
        19 => Op::Scan { op: draws.of(ReduceOp::ALL), axis },
        20 | 21 => {
            let texts: &[[&str; 3]] = match shape.rank() {
                1 => &[["k", "k", ""], ["m", "n", "mn"], ["k", "kn", "n"]],
                2 => &[["mk", "kn", "mn"], ["mk", "nk", "nm"], ["mk", "mk", "m"], ["mk", "k", "m"]],
                _ => &[
                    ["bmk", "bkn", "bmn"],
                    ["bmk", "bnk", "nbm"],
                    ["bmk", "kn", "bmn"],
                    ["bmk", "nmk", "bn"],
                ],
            };
            let [lhs, rhs, out] = draws.of(texts).map(Labels::new);
            Op::Contract { lhs, rhs, out }
        }
        22 => Op::Gather { axis },
        23 => Op::Scatter { op: draws.of(ScatterOp::ALL), axis },
        24 if draws.flip() => Op::Sort { axis, descending: draws.flip() },
        24 => Op::ArgSort { axis, descending: draws.flip() },
        _ if draws.flip() => Op::Concat { axis },
        _ => Op::SliceUpdate { dims: ranges(draws) },
    }
}
