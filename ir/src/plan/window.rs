//! A graph prepared for planning: legalised, with liveness, use counts and cheap nodes marked.

use super::legalise::legalise;
use crate::{BinaryOp, Graph, Layout, Node, Op, UnaryOp, ValueId};
use rustc_hash::FxHashMap;

/// A legalised graph and what is known about its nodes.
pub(super) struct Window {
    nodes: Vec<Node>,
    /// The graph's results, renumbered.
    pub results: Vec<ValueId>,
    is_result: Vec<bool>,
    /// Uses by live nodes that are no views, and results, both through views.
    uses: Vec<u32>,
    free: Vec<bool>,
    slim: Vec<bool>,
    /// Inputs that are the only node of their slot.
    sole_of_slot: Vec<bool>,
}

/// The largest expression over generators that is recomputed wherever it is used.
const FREE_COST: u32 = 8;
/// Operations that each reader repeats rather than load what they make of narrower elements.
const SLIM_COST: u32 = 4;
/// A value with fewer elements than another by this factor costs nothing to read beside it.
const FEW: usize = 16;

impl Window {
    /// Legalises a graph and analyses it.
    pub fn new(graph: &Graph) -> Self {
        let (nodes, results) = legalise(graph);
        let count = nodes.len();
        let mut window = Self {
            nodes,
            results,
            is_result: vec![false; count],
            uses: vec![0; count],
            free: vec![false; count],
            slim: vec![false; count],
            sole_of_slot: vec![false; count],
        };
        window.count_uses();
        window.mark_free();
        window.mark_slim();
        window.mark_slots();
        window
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

    /// Whether a value is wider than the elements it is computed from by few cheap operations: rather than load it,
    /// readers compute it.
    pub fn is_slim(&self, id: ValueId) -> bool {
        self.slim[id.index()]
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

    /// Bytes that the address of an input tensor is known to be a multiple of.
    pub fn input_alignment(&self, slot: u32) -> usize {
        let alignment = |node: &Node| match node.op {
            Op::Input { slot: of, alignment, .. } if of == slot => Some(alignment as usize),
            _ => None,
        };
        self.nodes.iter().find_map(alignment).unwrap_or(1)
    }

    /// Whether a value is an input whose elements lie in row-major order.
    pub fn is_contiguous_input(&self, id: ValueId) -> bool {
        self.input_layout(id).is_some_and(Layout::is_contiguous)
    }

    /// The slot of an input that the plan may overwrite.
    pub fn donated_slot(&self, id: ValueId) -> Option<u32> {
        match &self.node(id).op {
            Op::Input { slot, donated: true, layout, .. }
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

    fn mark_slim(&mut self) {
        // Bytes of an element read, and number of operations.
        let mut sources: Vec<Option<(usize, u32)>> = Vec::with_capacity(self.len());
        for node in &self.nodes {
            let source = if node.op.is_elementwise() && !is_costly(&node.op) {
                self.slim_source(node, &sources)
            } else {
                None
            };
            sources.push(source.filter(|&(bytes, cost)| bytes < node.dtype.size() && cost <= SLIM_COST));
        }
        self.slim = sources.iter().map(Option::is_some).collect();
    }

    fn slim_source(&self, node: &Node, sources: &[Option<(usize, u32)>]) -> Option<(usize, u32)> {
        let mut large = node.operands.iter().map(|&id| (id, self.base(id))).filter(|&(id, base)| {
            !self.free[id.index()] && self.node(base).shape.elements() * FEW > node.shape.elements()
        });
        match (large.next(), large.next()) {
            (None, _) => {
                let reads = node.operands.iter().any(|id| !self.free[id.index()]);
                reads.then_some((0, 1))
            }
            (Some((_, base)), None) => match sources[base.index()] {
                Some((bytes, cost)) => Some((bytes, cost + 1)),
                None if matches!(node.op, Op::Cast) => Some((self.node(base).dtype.size(), 1)),
                None => None,
            },
            _ => None,
        }
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
