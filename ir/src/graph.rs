//! A window of recorded operations.

use crate::{DType, Op, Shape};
use smallvec::SmallVec;

/// A node of a [`Graph`]: an index into [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The position in [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operation and the type of its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From which earlier nodes.
    pub operands: SmallVec<[ValueId; 3]>,
    /// Element type of the result.
    pub dtype: DType,
    /// Shape of the result.
    pub shape: Shape,
}

/// Operations in the order they were recorded. Operands always come before their users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Graph {
    /// The operations.
    pub nodes: Vec<Node>,
    /// The nodes somebody still holds: only these are materialised.
    pub results: Vec<ValueId>,
    /// Types of the scalar arguments.
    pub scalars: Vec<DType>,
}

impl Graph {
    /// Appends a node.
    pub fn push(&mut self, op: Op, operands: &[ValueId], dtype: DType, shape: Shape) -> ValueId {
        let id = ValueId(self.nodes.len() as u32);
        self.nodes.push(Node { op, operands: SmallVec::from_slice(operands), dtype, shape });
        id
    }

    /// The node of a value.
    pub fn node(&self, id: ValueId) -> &Node {
        &self.nodes[id.index()]
    }
}
