//! Fusion: which nodes share a kernel. See the [module](super) for the rules.

use super::affine::{Coords, Space, address, linear_index};
use super::group::*;
use super::reach::Reach;
use super::views::{At, Seen, see_through, skip_reshapes};
use super::window::Window;
use crate::{DType, Layout, Op, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The walk from the results to the inputs.
pub(super) struct Fusion<'a> {
    pub window: &'a Window,
    pub groups: Vec<Group>,
    pub storages: Vec<Storage>,
    pub fates: Vec<Fate>,
    pub homes: Vec<Option<Home>>,
    pub requests: Vec<SmallVec<[Request; 2]>>,
    /// Nodes whose storage must be row-major.
    pub dense: Vec<bool>,
    pub reach: Reach,
    row_bytes: usize,
    copies: FxHashMap<ValueId, (Home, GroupId)>,
    linear: FxHashSet<(GroupId, ValueId)>,
}

/// Elements of the shortest row that is worth a gap behind it: of a temporary value, and of one that outlives the
/// plan, whose reader may want it without.
const LONG_ROW: [usize; 2] = [512, 2048];
/// Rows of the smallest such value.
const MANY_ROWS: usize = 16;

/// Decides which nodes share a kernel. Long rows start at multiples of `row_bytes`.
pub(super) fn fuse(window: &Window, row_bytes: usize) -> Fused {
    let count = window.len();
    let mut fusion = Fusion {
        window,
        groups: Vec::new(),
        storages: Vec::new(),
        fates: vec![Fate::Stored; count],
        homes: vec![None; count],
        requests: vec![SmallVec::new(); count],
        dense: vec![false; count],
        reach: Reach::default(),
        row_bytes,
        copies: FxHashMap::default(),
        linear: FxHashSet::default(),
    };
    fusion.place_inputs();
    let views: Vec<Option<ViewResult>> = window.results.iter().map(|&id| fusion.view_result(id)).collect();
    for index in (0..count as u32).rev().map(ValueId) {
        let wanted = !fusion.requests[index.index()].is_empty() || window.is_result(index);
        if wanted && !window.is_empty(index) && !window.node(index).op.is_view() {
            fusion.visit(index);
        }
    }
    let results = window.results.iter().zip(views).map(|(&id, view)| fusion.result_home(id, view)).collect();
    Fused {
        groups: fusion.groups,
        storages: fusion.storages,
        fates: fusion.fates,
        homes: fusion.homes,
        copies: fusion.copies.into_iter().map(|(id, (home, _))| (id, home)).collect(),
        linear: fusion.linear,
        edges: fusion.reach.edges,
        results,
    }
}

/// A result that is a view of a materialised value.
struct ViewResult {
    base: ValueId,
    at: At,
    shape: crate::Shape,
    space: Space,
}

impl<'a> Fusion<'a> {
    fn visit(&mut self, id: ValueId) {
        match self.window.node(id).op {
            Op::Input { .. } => {}
            Op::Concat { .. } => self.concat(id),
            Op::SliceUpdate { .. } | Op::Scatter { .. } => self.update(id),
            Op::Scan { .. } | Op::Sort { .. } | Op::ArgSort { .. } | Op::Paths => self.along_axis(id),
            Op::Attention(_) => self.attention(id),
            _ => self.place(id),
        }
    }

    fn place_inputs(&mut self) {
        let mut of_slot: FxHashMap<u32, StorageId> = FxHashMap::default();
        for id in (0..self.window.len() as u32).map(ValueId) {
            let Op::Input { slot, layout, .. } = &self.window.node(id).op else { continue };
            let dtype = self.window.node(id).dtype;
            let reach: i64 = (layout.shape.iter().zip(&layout.strides))
                .map(|(&extent, &stride)| stride.max(0) * (extent as i64 - 1))
                .sum();
            let empty = layout.shape.elements() == 0;
            let bytes = if empty { 0 } else { (reach as usize + 1) * dtype.size() };
            let donated = self.window.donated_slot(id).is_some();
            let storages = &mut self.storages;
            let storage = *of_slot.entry(*slot).or_insert_with(|| {
                storages.push(Storage { input: Some(*slot), donated, bytes: 0, escapes: false });
                StorageId(storages.len() as u32 - 1)
            });
            let bytes = bytes.max(self.storages[storage.0 as usize].bytes);
            self.storages[storage.0 as usize].bytes = bytes;
            self.homes[id.index()] = Some(Home { storage, layout: layout.clone() });
        }
    }

    /// A new row-major storage for a node.
    pub fn allocate(&mut self, id: ValueId) -> Home {
        let node = self.window.node(id);
        let bytes = node.shape.elements() * node.dtype.size();
        self.storages.push(Storage { input: None, donated: false, bytes, escapes: false });
        let storage = StorageId(self.storages.len() as u32 - 1);
        Home { storage, layout: Layout::contiguous(&node.shape) }
    }

    /// A node's storage, made on first use.
    pub fn home(&mut self, id: ValueId) -> Home {
        if self.homes[id.index()].is_none() {
            self.homes[id.index()] = Some(self.allocate(id));
        }
        self.homes[id.index()].clone().unwrap_or_else(|| self.allocate(id))
    }

    /// The storage of a node that a block computes, with these readers.
    pub fn block_home(&mut self, id: ValueId, requests: &[Request]) -> Home {
        let node = self.window.node(id);
        let (size, row) = (node.dtype.size(), node.shape.last().copied().unwrap_or(1));
        let in_blocks = |request: &Request| {
            request.group.is_some_and(|group| self.groups[group.0 as usize].kind == GroupKind::Block)
        };
        let long = row >= LONG_ROW[usize::from(self.window.is_result(id))];
        let pads = long
            && node.shape.elements() >= row * MANY_ROWS
            && !(row * size).is_multiple_of(self.row_bytes)
            && self.row_bytes.is_multiple_of(size)
            && self.homes[id.index()].is_none()
            && !self.dense[id.index()]
            && requests.iter().all(in_blocks);
        if !pads {
            return self.home(id);
        }
        let padded = row.next_multiple_of(self.row_bytes / size);
        let mut home = self.allocate(id);
        self.storages[home.storage.0 as usize].bytes = node.shape.elements() / row * padded * size;
        let rank = home.layout.strides.len();
        for (axis, stride) in home.layout.strides.iter_mut().enumerate() {
            if axis + 1 < rank {
                *stride = *stride / row as i64 * padded as i64;
            }
        }
        self.homes[id.index()] = Some(home.clone());
        home
    }

    /// A new group over the extents of a node; gives the node's coordinates, too.
    pub fn open(&mut self, kind: GroupKind, id: ValueId) -> (GroupId, Coords) {
        let mut space = Space::new(kind == GroupKind::Block);
        let coords = space.push_axes(&self.window.node(id).shape);
        self.groups.push(Group {
            kind,
            space,
            stores: Vec::new(),
            reduction: None,
            contracts: false,
            gathers: false,
            members: 0,
            inputs: FxHashSet::default(),
            repeated: 0,
            position: id.0,
        });
        self.reach.push();
        (GroupId(self.groups.len() as u32 - 1), coords)
    }

    /// A group of a kind.
    pub fn group(&mut self, id: GroupId) -> &mut Group {
        &mut self.groups[id.0 as usize]
    }

    /// Lets a group read a value at coordinates of its space.
    pub fn request(&mut self, group: GroupId, id: ValueId, coords: Coords, demand: Demand) {
        if self.window.is_empty(id) {
            return;
        }
        let space = &mut self.groups[group.0 as usize].space;
        let linear = &self.linear;
        let Seen { node, at } =
            see_through(self.window, space, id, coords, |id| linear.contains(&(group, id)));
        if matches!(at, At::Linear(_)) {
            self.linear.insert((group, node));
            if self.needs_copy(node) {
                let (_, copy) = self.copy(node);
                self.reach.add(copy, group);
                self.group(group).inputs.insert((node, at));
                return;
            }
            self.dense[node.index()] = true;
        }
        let seen = self.groups[group.0 as usize].space.version();
        self.group(group).inputs.insert((node, at.clone()));
        let request = Request { group: Some(group), at, seen, demand };
        let requests = &mut self.requests[node.index()];
        if !requests.contains(&request) {
            requests.push(request);
        }
    }

    /// Whether a node's row-major storage has to be made by copying it.
    fn needs_copy(&self, id: ValueId) -> bool {
        let strided = self.window.input_layout(id).is_some_and(|layout| !layout.is_contiguous());
        strided || self.window.node(id).op.is_view()
    }

    /// The row-major copy of a view or of a strided input, and the group that makes it.
    fn copy(&mut self, id: ValueId) -> (Home, GroupId) {
        if let Some(copy) = self.copies.get(&id) {
            return copy.clone();
        }
        let home = self.allocate(id);
        let (group, coords) = self.open(GroupKind::Block, id);
        self.copies.insert(id, (home.clone(), group));
        self.store(group, id, coords.clone(), home.clone());
        self.request(group, id, coords, Demand::Value);
        (home, group)
    }

    /// Lets a group write a value.
    pub fn store(&mut self, group: GroupId, node: ValueId, coords: Coords, home: Home) {
        let group = self.group(group);
        let seen = group.space.version();
        group.stores.push(StoreSpec { node, coords, seen, home });
    }

    /// Prepares a result: a view asks for its base in memory, if its layout can express it.
    fn view_result(&mut self, id: ValueId) -> Option<ViewResult> {
        let node = self.window.node(id);
        if !node.op.is_view() || self.window.is_empty(id) {
            return None;
        }
        let mut space = Space::new(true);
        let coords = space.push_axes(&node.shape);
        let Seen { node: base, at } = see_through(self.window, &mut space, id, coords, |_| false);
        let computed = !self.window.is_result(base) && self.window.node(base).op.is_elementwise()
            || self.window.is_free(base);
        let smaller = node.shape.elements() < self.window.node(base).shape.elements();
        let view = ViewResult { base, at, shape: node.shape.clone(), space };
        let as_stored = Layout::contiguous(&self.window.node(base).shape);
        let layout = self.window.input_layout(base).unwrap_or(&as_stored);
        let linear = matches!(view.at, At::Linear(_));
        if computed && smaller && !linear || linear && self.needs_copy(base) || view.layout(layout).is_none()
        {
            self.copy(id);
            return None;
        }
        self.dense[base.index()] |= self.window.input_layout(base).is_none();
        if self.window.input_layout(base).is_none() {
            let request = Request { group: None, at: view.at.clone(), seen: 0, demand: Demand::Load };
            self.requests[base.index()].push(request);
        }
        Some(view)
    }

    fn result_home(&mut self, id: ValueId, view: Option<ViewResult>) -> Option<Home> {
        if self.window.is_empty(id) {
            return None;
        }
        let home = match view {
            Some(view) => {
                let base = self.homes[view.base.index()].clone()?;
                Home { layout: view.layout(&base.layout)?, storage: base.storage }
            }
            None if self.window.node(id).op.is_view() => self.copies.get(&id)?.0.clone(),
            None => self.homes[id.index()].clone()?,
        };
        self.storages[home.storage.0 as usize].escapes = true;
        Some(home)
    }

    /// The element type of a node.
    pub fn dtype(&self, id: ValueId) -> DType {
        self.window.node(id).dtype
    }

    /// The node below reshapes, for walks that do not care about coordinates.
    pub fn below_reshapes(&self, id: ValueId) -> ValueId {
        skip_reshapes(self.window, id)
    }
}

impl ViewResult {
    /// The layout of the view, given the base's; `None` if no strides express it.
    fn layout(&self, base: &Layout) -> Option<Layout> {
        let address = match &self.at {
            At::Coords(coords) => address(coords, &base.strides, base.offset),
            At::Linear(index) => index.clone(),
        };
        let axes = self.shape.iter().filter(|&&extent| extent != 1).count();
        let mut strides = crate::Strides::new();
        let mut order = self.space.order.iter();
        for &extent in self.shape.iter() {
            if extent == 1 {
                strides.push(0);
                continue;
            }
            // The parts of an axis stand before its own dimension, which keeps its number.
            let mut parts: SmallVec<[usize; 4]> = SmallVec::new();
            for &dim in order.by_ref() {
                parts.push(dim);
                if dim < axes {
                    break;
                }
            }
            for pair in parts.windows(2) {
                let inner = address.coef(pair[1]) * self.space.dims[pair[1]].size as i64;
                if address.coef(pair[0]) != inner {
                    return None;
                }
            }
            strides.push(address.coef(*parts.last()?));
        }
        Some(Layout { shape: self.shape.clone(), strides, offset: address.offset })
    }
}

/// Whether a request reads a value at coordinates (not by element index) without needing memory.
pub(super) fn reads_value(request: &Request) -> Option<&Coords> {
    match (&request.at, request.demand, request.group) {
        (At::Coords(coords), Demand::Value, Some(_)) => Some(coords),
        _ => None,
    }
}

/// Whether a store at these coordinates writes each element of the node exactly once.
pub(super) fn covers(space: &Space, coords: &Coords, window: &Window, id: ValueId) -> bool {
    space.is_bijective(coords, &window.node(id).shape)
        && linear_index(coords, &window.node(id).shape).offset == 0
}
