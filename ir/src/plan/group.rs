//! What fusion produces: groups of nodes that become one kernel, and the storage between them.

use super::affine::{Coords, Space};
use super::views::At;
use crate::{Layout, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Index of a [`Group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct GroupId(pub u32);

/// Index of a [`Storage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StorageId(pub u32);

/// Memory that outlives a kernel.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// The input whose buffer this is.
    pub input: Option<u32>,
    /// Whether the plan may overwrite the input's buffer.
    pub donated: bool,
    pub bytes: usize,
    /// Whether a result lies in it.
    pub escapes: bool,
}

/// Where a materialised value lies.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub storage: StorageId,
    pub layout: Layout,
}

/// A value written by a group.
#[derive(Clone, Debug)]
pub(super) struct StoreSpec {
    pub node: ValueId,
    /// Which element each point of the group's space computes.
    pub coords: Coords,
    pub seen: usize,
    pub home: Home,
}

/// What kind of kernel a group becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKind {
    /// Statements over an iteration space.
    Block,
    /// The one node that is a kernel of its own.
    Single(ValueId),
}

/// Nodes that become one kernel.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub kind: GroupKind,
    pub space: Space,
    pub stores: Vec<StoreSpec>,
    /// The reduction dimensions, once a reduction or contraction has joined.
    pub reduction: Option<(u64, usize)>,
    pub contracts: bool,
    /// Whether a gather has joined.
    pub gathers: bool,
    pub members: usize,
    /// What is read of values that are not members (yet): about as many buffer arguments.
    pub inputs: FxHashSet<(ValueId, At)>,
    /// Cheap members computed more often than once an element.
    pub repeated: usize,
    /// Position in the graph, for a stable order of execution.
    pub position: u32,
}

impl Group {
    /// A value is no longer an input: it is computed here.
    pub fn take(&mut self, id: ValueId) {
        self.inputs.retain(|(input, _)| *input != id);
    }

    /// The reduction dimensions as a bit set, up to date; empty if there are none.
    pub fn reduction_dims(&self) -> u64 {
        self.reduction.map_or(0, |(mut set, seen)| {
            self.space.refresh_set(&mut set, seen);
            set
        })
    }
}

/// How a reader wants a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// As a value, wherever it comes from.
    Value,
    /// From memory.
    Load,
    /// From memory, perhaps through a conversion (a contraction's operand).
    LoadOrCast,
    /// Not at all: the reader overwrites its storage afterwards.
    Order,
}

/// A reader of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// `None`: the caller of the plan, through a result that is a view.
    pub group: Option<GroupId>,
    pub at: At,
    pub seen: usize,
    pub demand: Demand,
}

/// What became of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not needed as a value by any group, or only from memory.
    Stored,
    /// Recomputed by every reader.
    Inline,
    /// Computed once, in a group.
    Member {
        /// The group.
        group: GroupId,
        /// Where each operand is read.
        operands: SmallVec<[Coords; 3]>,
        /// The splits these coordinates know of.
        seen: usize,
    },
    /// A conversion that contractions apply to what they load.
    CastOfLoad,
}

/// The decisions of fusion.
pub(super) struct Fused {
    pub groups: Vec<Group>,
    pub storages: Vec<Storage>,
    pub fates: Vec<Fate>,
    /// Where materialised values lie.
    pub homes: Vec<Option<Home>>,
    /// Contiguous copies of views and inputs.
    pub copies: FxHashMap<ValueId, Home>,
    /// Groups that read a node's contiguous storage by element index.
    pub linear: FxHashSet<(GroupId, ValueId)>,
    /// Producer before consumer.
    pub edges: Vec<(GroupId, GroupId)>,
    /// Where each result of the graph lies; `None` if it has no element.
    pub results: Vec<Option<Home>>,
}
