//! A graph prepared for planning: legalised, with liveness, use counts and cheap nodes marked.

use super::PlanError;
use crate::{BinaryOp, Graph, Labels, Layout, Node, Op, ReduceOp, Shape, UnaryOp, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A legalised graph and what is known about its nodes.
pub(super) struct Window {
    nodes: Vec<Node>,
    /// The graph's results, renumbered.
    pub results: Vec<ValueId>,
    is_result: Vec<bool>,
    /// Uses by live nodes that are no views, and results, both through views.
    uses: Vec<u32>,
    free: Vec<bool>,
    /// Inputs that are the only node of their slot.
    sole_of_slot: Vec<bool>,
}

/// The largest expression over generators that is recomputed wherever it is used.
const FREE_COST: u32 = 8;

impl Window {
    /// Legalises a graph and analyses it.
    pub fn new(graph: &Graph) -> Result<Self, PlanError> {
        check(graph)?;
        let (nodes, results) = legalise(graph);
        let count = nodes.len();
        let mut window = Self {
            nodes,
            results,
            is_result: vec![false; count],
            uses: vec![0; count],
            free: vec![false; count],
            sole_of_slot: vec![false; count],
        };
        window.count_uses();
        window.mark_free();
        window.mark_slots();
        Ok(window)
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A node.
    pub fn node(&self, id: ValueId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Whether somebody holds the value after the plan has run.
    pub fn is_result(&self, id: ValueId) -> bool {
        self.is_result[id.index()]
    }

    /// Whether a value is recomputed wherever it is used: generators and small expressions of them.
    pub fn is_free(&self, id: ValueId) -> bool {
        self.free[id.index()]
    }

    /// Whether the value has exactly one use and is no result.
    pub fn used_once(&self, id: ValueId) -> bool {
        self.uses[id.index()] == 1 && !self.is_result(id)
    }

    /// Whether the value has no element.
    pub fn is_empty(&self, id: ValueId) -> bool {
        self.node(id).shape.elements() == 0
    }

    /// The layout of an input.
    pub fn input_layout(&self, id: ValueId) -> Option<&Layout> {
        match &self.node(id).op {
            Op::Input { layout, .. } => Some(layout),
            _ => None,
        }
    }

    /// Whether a value is an input whose elements lie in row-major order.
    pub fn is_contiguous_input(&self, id: ValueId) -> bool {
        self.input_layout(id).is_some_and(Layout::is_contiguous)
    }

    /// The slot of an input that the plan may overwrite.
    pub fn donated_slot(&self, id: ValueId) -> Option<u32> {
        match &self.node(id).op {
            Op::Input { slot, donated: true, layout }
                if layout.is_injective() && self.sole_of_slot[id.index()] =>
            {
                Some(*slot)
            }
            _ => None,
        }
    }

    /// The value below all views.
    pub fn base(&self, mut id: ValueId) -> ValueId {
        while self.node(id).op.is_view() {
            id = self.node(id).operands[0];
        }
        id
    }

    fn count_uses(&mut self) {
        let mut live = vec![false; self.len()];
        for result in self.results.clone() {
            self.is_result[result.index()] = true;
            if !self.is_empty(result) {
                let base = self.base(result);
                live[base.index()] = true;
                if base != result {
                    self.uses[base.index()] += 1;
                }
            }
        }
        for index in (0..self.len()).rev() {
            if !live[index] || self.nodes[index].op.is_view() {
                continue;
            }
            for operand in self.nodes[index].operands.clone() {
                if !self.is_empty(operand) {
                    let base = self.base(operand);
                    live[base.index()] = true;
                    self.uses[base.index()] += 1;
                }
            }
        }
    }

    fn mark_free(&mut self) {
        let mut cost: Vec<Option<u32>> = Vec::with_capacity(self.len());
        for node in &self.nodes {
            let of = |id: &ValueId| cost[id.index()];
            let own = match &node.op {
                op if op.is_generator() => Some(0),
                op if op.is_elementwise() && !is_costly(op) => Some(1),
                op if op.is_view() => Some(0),
                _ => None,
            };
            let total = own.and_then(|own| node.operands.iter().try_fold(own, |sum, id| Some(sum + of(id)?)));
            cost.push(total.filter(|&total| total <= FREE_COST));
        }
        self.free = cost.iter().map(Option::is_some).collect();
    }

    fn mark_slots(&mut self) {
        let mut seen: FxHashMap<u32, usize> = FxHashMap::default();
        for node in &self.nodes {
            if let Op::Input { slot, .. } = node.op {
                *seen.entry(slot).or_default() += 1;
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if let Op::Input { slot, .. } = node.op {
                self.sole_of_slot[index] = seen[&slot] == 1;
            }
        }
    }
}

/// Whether an elementwise operation is worth not repeating.
pub(super) fn is_costly(op: &Op) -> bool {
    use UnaryOp::*;
    match op {
        Op::Unary(op) => !matches!(
            op,
            Neg | Abs | Sign | Recip | Sqrt | Rsqrt | Floor | Ceil | Round | Trunc | Not | IsNan | IsInf
        ),
        Op::Binary(op) => matches!(op, BinaryOp::Pow | BinaryOp::Atan2),
        Op::Gather { .. } => true,
        _ => false,
    }
}

/// Checks what planning relies on.
fn check(graph: &Graph) -> Result<(), PlanError> {
    for (index, node) in graph.nodes.iter().enumerate() {
        let malformed = |reason| PlanError::Malformed { node: index as u32, reason };
        if node.operands.iter().any(|id| id.index() >= index) {
            return Err(malformed("an operand does not come before its user"));
        }
        let ranks: SmallVec<[usize; 3]> =
            node.operands.iter().map(|&id| graph.node(id).shape.rank()).collect();
        let rank = node.shape.rank();
        let fits = match &node.op {
            Op::Input { layout, .. } => layout.shape == node.shape && layout.strides.len() == rank,
            Op::Permute { axes } => ranks.as_slice() == [rank] && axes.len() == rank,
            Op::Slice { dims } => ranks.as_slice() == [rank] && dims.len() == rank,
            Op::Expand => ranks.as_slice() == [rank],
            Op::Unfold { axis, .. } => ranks.len() == 1 && ranks[0] + 1 == rank && *axis < ranks[0],
            Op::Contract { lhs, rhs, out } => {
                let count = |labels: &Labels| labels.0.len();
                ranks.as_slice() == [count(lhs), count(rhs)]
                    && count(out) == rank
                    && out.0.iter().all(|label| lhs.0.contains(label) || rhs.0.contains(label))
            }
            Op::SliceUpdate { dims } => ranks.as_slice() == [rank, rank] && dims.len() == rank,
            op if op.is_elementwise() => node.operands.iter().all(|&id| graph.node(id).shape == node.shape),
            _ => true,
        };
        if !fits {
            return Err(malformed("the operands do not fit the operation"));
        }
    }
    if graph.results.iter().any(|id| id.index() >= graph.nodes.len()) {
        return Err(PlanError::Malformed {
            node: graph.nodes.len() as u32,
            reason: "a result does not exist",
        });
    }
    Ok(())
}

/// Sums labels that only one operand of a contraction has before the contraction.
fn legalise(graph: &Graph) -> (Vec<Node>, Vec<ValueId>) {
    let mut nodes: Vec<Node> = Vec::with_capacity(graph.nodes.len());
    let mut renumbered: Vec<ValueId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let mut node = node.clone();
        node.operands.iter_mut().for_each(|id| *id = renumbered[id.index()]);
        if let Op::Contract { lhs, rhs, out } = &mut node.op {
            let (left, right) = (lhs.clone(), rhs.clone());
            node.operands[0] = sum_lone_labels(&mut nodes, node.operands[0], lhs, &right, out);
            node.operands[1] = sum_lone_labels(&mut nodes, node.operands[1], rhs, &left, out);
        }
        nodes.push(node);
        renumbered.push(ValueId(nodes.len() as u32 - 1));
    }
    let results = graph.results.iter().map(|id| renumbered[id.index()]).collect();
    (nodes, results)
}

fn sum_lone_labels(
    nodes: &mut Vec<Node>,
    id: ValueId,
    labels: &mut Labels,
    other: &Labels,
    out: &Labels,
) -> ValueId {
    let lone = |label: &u8| !other.0.contains(label) && !out.0.contains(label);
    let axes: SmallVec<[usize; 6]> = (0..labels.0.len()).filter(|&axis| lone(&labels.0[axis])).collect();
    if axes.is_empty() {
        return id;
    }
    let Node { dtype, shape, .. } = nodes[id.index()].clone();
    let mut summed = shape.clone();
    axes.iter().for_each(|&axis| summed.0[axis] = 1);
    let kept: Shape = (0..shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect();
    labels.0.retain(|label| !lone(label));
    let mut push = |op, operand, shape| {
        nodes.push(Node { op, operands: SmallVec::from_slice(&[operand]), dtype, shape });
        ValueId(nodes.len() as u32 - 1)
    };
    let sum = push(Op::Reduce { op: ReduceOp::Sum, axes }, id, summed);
    push(Op::Reshape, sum, kept)
}
