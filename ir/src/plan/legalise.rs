//! Rewriting a graph so that planning meets fewer cases.
//!
//! - Labels that only one operand of a contraction has are summed before it.
//! - A contraction that sums nothing is a product of broadcast operands.
//! - Attention to no keys is 0; queries and keys without elements have one that is 0.
//! - A reduction over extents of 1 is its operand; the position of an extreme there is 0.

use crate::{BinaryOp, DType, Graph, Labels, Literal, Node, Op, ReduceOp, Shape, ValueId};
use smallvec::SmallVec;

/// The rewritten nodes and the results among them.
pub(super) fn legalise(graph: &Graph) -> (Vec<Node>, Vec<ValueId>) {
    let mut rewriter = Rewriter { nodes: Vec::with_capacity(graph.nodes.len()) };
    let mut renumbered: Vec<ValueId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let mut node = node.clone();
        node.operands.iter_mut().for_each(|id| *id = renumbered[id.index()]);
        renumbered.push(rewriter.add(node));
    }
    (rewriter.nodes, graph.results.iter().map(|id| renumbered[id.index()]).collect())
}

struct Rewriter {
    nodes: Vec<Node>,
}

impl Rewriter {
    fn push(&mut self, op: Op, operands: &[ValueId], dtype: DType, shape: Shape) -> ValueId {
        self.nodes.push(Node { op, operands: SmallVec::from_slice(operands), dtype, shape });
        ValueId(self.nodes.len() as u32 - 1)
    }

    fn shape(&self, id: ValueId) -> &Shape {
        &self.nodes[id.index()].shape
    }

    fn add(&mut self, mut node: Node) -> ValueId {
        if let Op::Attention(_) = node.op {
            let zero = Op::Constant { value: Literal::of(node.dtype, 0.0) };
            let [_, _, keys, width] = [0, 1, 2, 3].map(|axis| self.shape(node.operands[1])[axis]);
            if keys == 0 {
                return self.push(zero, &[], node.dtype, node.shape);
            }
            for operand in 0..if width == 0 { 2 } else { 0 } {
                let mut shape = self.shape(node.operands[operand]).clone();
                shape.0[3] = 1;
                node.operands[operand] = self.push(zero.clone(), &[], node.dtype, shape);
            }
        }
        match &mut node.op {
            Op::Contract { lhs, rhs, out } => {
                let (left, right) = (lhs.clone(), rhs.clone());
                node.operands[0] = self.sum_lone_labels(node.operands[0], lhs, &right, out);
                node.operands[1] = self.sum_lone_labels(node.operands[1], rhs, &left, out);
                let extents = lhs.0.iter().zip(self.shape(node.operands[0]).iter());
                if extents.into_iter().all(|(label, &extent)| extent == 1 || out.0.contains(label)) {
                    let a = self.broadcast(node.operands[0], lhs, out, &node.shape);
                    let b = self.broadcast(node.operands[1], rhs, out, &node.shape);
                    return self.push(Op::Binary(BinaryOp::Mul), &[a, b], node.dtype, node.shape);
                }
            }
            Op::Reduce { .. } if node.shape == *self.shape(node.operands[0]) => node.op = Op::Reshape,
            Op::ArgReduce { .. } if node.shape == *self.shape(node.operands[0]) => {
                let zero = Op::Constant { value: Literal::of(node.dtype, 0.0) };
                return self.push(zero, &[], node.dtype, node.shape);
            }
            _ => {}
        }
        self.nodes.push(node);
        ValueId(self.nodes.len() as u32 - 1)
    }

    /// Sums the axes whose label stands in neither the other operand nor the result.
    fn sum_lone_labels(&mut self, id: ValueId, labels: &mut Labels, other: &Labels, out: &Labels) -> ValueId {
        let lone = |label: &u8| !other.0.contains(label) && !out.0.contains(label);
        let axes: SmallVec<[usize; 6]> = (0..labels.0.len()).filter(|&axis| lone(&labels.0[axis])).collect();
        if axes.is_empty() {
            return id;
        }
        let Node { dtype, shape, .. } = self.nodes[id.index()].clone();
        let mut summed = shape.clone();
        axes.iter().for_each(|&axis| summed.0[axis] = 1);
        let kept = (0..shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect();
        labels.0.retain(|label| !lone(label));
        let reduce = Op::Reduce { op: ReduceOp::Sum, axes };
        let sum = self.add(Node { op: reduce, operands: SmallVec::from_slice(&[id]), dtype, shape: summed });
        self.push(Op::Reshape, &[sum], dtype, kept)
    }

    /// An operand whose other axes have extent 1, with the axes of the result.
    fn broadcast(&mut self, id: ValueId, labels: &Labels, out: &Labels, shape: &Shape) -> ValueId {
        let dtype = self.nodes[id.index()].dtype;
        let place = |axis: usize| out.0.iter().position(|label| *label == labels.0[axis]);
        let mut axes: SmallVec<[usize; 6]> = (0..labels.0.len()).collect();
        axes.sort_by_key(|&axis| place(axis).unwrap_or(usize::MAX));
        let permuted = axes.iter().map(|&axis| self.shape(id)[axis]).collect();
        let permuted = self.push(Op::Permute { axes }, &[id], dtype, permuted);
        let present = |(label, &extent): (&u8, &usize)| if labels.0.contains(label) { extent } else { 1 };
        let aligned = out.0.iter().zip(shape.iter()).map(present).collect();
        let aligned = self.push(Op::Reshape, &[permuted], dtype, aligned);
        self.push(Op::Expand, &[aligned], dtype, shape.clone())
    }
}
