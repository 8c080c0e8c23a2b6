//! Placing one node: into the group of a consumer, into a group of its own, or into every reader.

use super::affine::{Affine, Coords, linear_index, used_dims};
use super::fuse::{Fusion, covers, reads_value};
use super::group::*;
use super::views::At;
use super::window::is_costly;
use crate::{DType, Labels, Op, Shape, ValueId};
use smallvec::SmallVec;

/// Members of one group, of which one that is costly counts as [`COSTLY`]: more would make a kernel slow to compile.
const MAX_MEMBERS: usize = 200;
/// A function is some twenty operations.
const COSTLY: usize = 4;
/// Buffers of one kernel.
const MAX_PARAMS: usize = 24;
/// Cheap operations that a group may compute more than once an element.
const MAX_REPEATED: usize = 16;
/// A reduction this large over fewer rows than [`FEW_ROWS`] does not share a kernel with what
/// reads the reduced elements again: one row would occupy one thread.
const LARGE_REDUCTION: usize = 1 << 16;
/// See [`LARGE_REDUCTION`].
const FEW_ROWS: usize = 16;
/// Nodes looked at when searching for a reduction below a value.
const LOOKAHEAD: usize = 64;

impl Fusion<'_> {
    /// Places a node that can be a statement of a block.
    pub fn place(&mut self, id: ValueId) {
        let mut requests = std::mem::take(&mut self.requests[id.index()]);
        self.refresh(&mut requests);
        if self.window.is_free(id) || self.is_read_by_many_and_slim(id, &requests) {
            self.fates[id.index()] = Fate::Inline;
            requests.retain(|request| match (request.group, reads_value(request).cloned()) {
                (Some(group), Some(coords)) => {
                    self.group(group).take(id);
                    self.demand_same(group, id, &coords, request.seen);
                    false
                }
                _ => true,
            });
            if requests.is_empty() && !self.window.is_result(id) {
                return;
            }
        } else if self.is_cast_of_load(id, &requests) {
            self.fates[id.index()] = Fate::CastOfLoad;
            for request in requests {
                if let (Some(group), At::Coords(mut coords)) = (request.group, request.at) {
                    let joined = self.group(group);
                    joined.take(id);
                    coords.iter_mut().for_each(|axis| joined.space.refresh(axis, request.seen));
                    self.request(group, self.window.node(id).operands[0], coords, Demand::Load);
                }
            }
            return;
        } else if self.join_a_reader(id, &requests) {
            return;
        }
        let (group, coords) = self.open(GroupKind::Block, id);
        let home = self.block_home(id, &requests);
        self.store(group, id, coords.clone(), home);
        if self.window.is_free(id) {
            self.demand_same(group, id, &coords, 0);
        } else if let Some(operands) = self.operand_coords(group, id, &coords) {
            self.join(group, id, operands);
        }
        self.order_before(group, &requests);
    }

    fn refresh(&self, requests: &mut [Request]) {
        for request in requests {
            let Some(group) = request.group else { continue };
            let space = &self.groups[group.0 as usize].space;
            match &mut request.at {
                At::Coords(coords) => coords.iter_mut().for_each(|axis| space.refresh(axis, request.seen)),
                At::Linear(index) => space.refresh(index, request.seen),
            }
            request.seen = space.version();
        }
    }

    /// Lets a group run before the readers of what it writes.
    pub fn order_before(&mut self, group: GroupId, requests: &[Request]) {
        for reader in requests.iter().filter_map(|request| request.group) {
            self.reach.add(group, reader);
        }
    }

    /// Asks for the operands at the coordinates of the value itself.
    fn demand_same(&mut self, group: GroupId, id: ValueId, coords: &Coords, seen: usize) {
        for &operand in &self.window.node(id).operands {
            let mut coords = coords.clone();
            let space = &self.groups[group.0 as usize].space;
            coords.iter_mut().for_each(|axis| space.refresh(axis, seen));
            self.request(group, operand, coords, Demand::Value);
        }
    }

    /// Whether several groups want the value and had better compute it, each for itself, from what is narrower.
    fn is_read_by_many_and_slim(&self, id: ValueId, requests: &[Request]) -> bool {
        let takes = |request: &Request| {
            let group = request.group.map(|group| &self.groups[group.0 as usize]);
            let params = |group: &Group| group.inputs.len() + group.stores.len();
            reads_value(request).is_some() && group.is_some_and(|group| params(group) + 3 < MAX_PARAMS)
        };
        self.window.is_slim(id)
            && !self.window.is_result(id)
            && requests.iter().any(|request| request.group != requests[0].group)
            && requests.iter().all(takes)
    }

    /// A conversion of floats, or of bytes to f32, that only contractions read is applied to what they load, unless
    /// that would be stored for them in a wider type.
    fn is_cast_of_load(&self, id: ValueId, requests: &[Request]) -> bool {
        let node = self.window.node(id);
        let from = self.window.base(node.operands[0]);
        let narrows = node.dtype.size() < self.dtype(from).size();
        let stored = matches!(self.window.node(from).op, Op::Input { .. }) || self.window.is_result(from);
        let by_contraction = |r: &Request| r.demand == Demand::LoadOrCast && matches!(r.at, At::Coords(_));
        matches!(node.op, Op::Cast)
            && node.dtype.is_float()
            && match self.dtype(node.operands[0]) {
                DType::F32 | DType::Flex32 | DType::F16 | DType::BF16 => true,
                // Matrix units take no such operands.
                DType::I8 | DType::U8 => node.dtype == DType::F32,
                _ => false,
            }
            && !self.window.is_result(id)
            && (stored || !narrows)
            && requests.iter().all(by_contraction)
    }

    /// Tries to compute the value where it is read.
    fn join_a_reader(&mut self, id: ValueId, requests: &[Request]) -> bool {
        let mut readers: SmallVec<[GroupId; 4]> = requests.iter().filter_map(|r| r.group).collect();
        readers.sort_unstable();
        readers.dedup();
        // The latest group opened is the first to run.
        for &group in readers.iter().rev() {
            let of_group = |r: &&Request| r.group == Some(group);
            let Some(coords) = requests.iter().find(of_group).and_then(reads_value).cloned() else {
                continue;
            };
            let agree = requests.iter().filter(of_group).all(|r| reads_value(r) == Some(&coords));
            let stored = self.window.is_result(id) || requests.iter().any(|r| r.group != Some(group));
            let acyclic = readers.iter().all(|&other| !self.reach.precedes(other, group));
            if !agree || !acyclic || !self.fits(group, id, &coords, stored) {
                continue;
            }
            let version = self.groups[group.0 as usize].space.version();
            let Some(operands) = self.operand_coords(group, id, &coords) else { continue };
            if stored {
                let home = self.block_home(id, requests);
                self.store(group, id, coords, home);
                if let Some(store) = self.group(group).stores.last_mut() {
                    store.seen = version;
                }
            }
            self.join(group, id, operands);
            self.order_before(group, requests);
            return true;
        }
        false
    }

    /// Makes a node a member of a group and asks for its operands.
    fn join(&mut self, group: GroupId, id: ValueId, operands: SmallVec<[Coords; 3]>) {
        let node = self.window.node(id);
        let joined = self.group(group);
        joined.take(id);
        joined.members += if is_costly(&node.op) { COSTLY } else { 1 };
        let seen = joined.space.version();
        self.fates[id.index()] = Fate::Member { group, operands: operands.clone(), seen };
        for (index, (&operand, mut coords)) in node.operands.iter().zip(operands).enumerate() {
            let demand = match node.op {
                Op::Contract { .. } => Demand::LoadOrCast,
                Op::Gather { .. } if index == 0 => Demand::Load,
                _ => Demand::Value,
            };
            let space = &self.groups[group.0 as usize].space;
            coords.iter_mut().for_each(|axis| space.refresh(axis, seen));
            self.request(group, operand, coords, demand);
        }
    }

    /// Whether a group can take a node, apart from finding coordinates for a reduction's operands.
    fn fits(&mut self, group: GroupId, id: ValueId, coords: &Coords, stored: bool) -> bool {
        let node = self.window.node(id);
        let members = self.groups[group.0 as usize].members;
        let target = &self.groups[group.0 as usize];
        let params = target.inputs.len() + target.stores.len() + node.operands.len() + usize::from(stored);
        if target.kind != GroupKind::Block || members >= MAX_MEMBERS || params > MAX_PARAMS {
            return false;
        }
        let space = &target.space;
        if stored && !covers(space, coords, self.window, id) {
            return false;
        }
        if !(node.op.is_elementwise() || matches!(node.op, Op::Gather { .. })) {
            return true;
        }
        let all = space.iterated();
        let reduction = target.reduction_dims();
        let unused = all & !used_dims(coords);
        let row = unused != 0 && unused == reduction;
        let points = space.points(if row { all & !reduction } else { all });
        let repeated = points > node.shape.elements();
        if unused != 0 && !row && (stored || repeated && is_costly(&node.op)) {
            // It may become a row value once the reduction below it joins.
            let scalar = !stored && node.shape.elements() == 1;
            return scalar || reduction == 0 && self.reduces_below(group, id, coords, unused);
        }
        if repeated {
            let target = self.group(group);
            target.repeated += 1;
            return !is_costly(&node.op) && target.repeated <= MAX_REPEATED;
        }
        true
    }

    /// Whether the value is computed, element by element, from a reduction over as many elements
    /// as the dimensions that the value does not use have points.
    fn reduces_below(&self, group: GroupId, id: ValueId, coords: &Coords, unused: u64) -> bool {
        let space = &self.groups[group.0 as usize].space;
        if !covers(space, coords, self.window, id) {
            return false;
        }
        let points = space.points(unused);
        let mut stack: Vec<ValueId> = vec![id];
        for _ in 0..LOOKAHEAD {
            let Some(next) = stack.pop().map(|id| self.below_reshapes(id)) else { return false };
            let node = self.window.node(next);
            match &node.op {
                Op::Reduce { axes, .. } | Op::ArgReduce { axes, .. } => {
                    let extents = self.window.node(node.operands[0]).shape.clone();
                    let reduced: usize = axes.iter().map(|&axis| extents[axis]).product();
                    if reduced == points && fits_a_row(node.shape.elements(), reduced) {
                        return true;
                    }
                }
                op if op.is_elementwise() => stack.extend(node.operands.iter().rev()),
                _ => {}
            }
        }
        false
    }

    /// The coordinates at which a member reads each operand; `None` if the group's space cannot
    /// hold the node.
    fn operand_coords(
        &mut self,
        group: GroupId,
        id: ValueId,
        coords: &Coords,
    ) -> Option<SmallVec<[Coords; 3]>> {
        let node = self.window.node(id);
        match &node.op {
            Op::Reduce { axes, .. } | Op::ArgReduce { axes, .. } => {
                let mut axes = axes.clone();
                axes.sort_unstable();
                let extents = &self.window.node(node.operands[0]).shape;
                let reduced: Shape = axes.iter().map(|&axis| extents[axis]).collect();
                let (mut row, along) = self.reduction_coords(group, id, coords, &reduced)?;
                for (&axis, along) in axes.iter().zip(along) {
                    row[axis] = along;
                }
                Some(SmallVec::from_iter([row]))
            }
            Op::Contract { lhs, rhs, out } => self.contraction_coords(group, id, coords, [lhs, rhs, out]),
            Op::Gather { axis } => {
                let extent = self.window.node(node.operands[0]).shape[*axis];
                // Epilogues of contractions have no gathers.
                let target = self.group(group);
                (!target.contracts && target.space.has_room(1)).then_some(())?;
                target.gathers = true;
                let space = &mut target.space;
                let mut data = coords.clone();
                data[*axis] =
                    if extent == 1 { Affine::default() } else { Affine::dim(space.push(extent, true)) };
                Some(SmallVec::from_iter([data, coords.clone()]))
            }
            _ => Some(node.operands.iter().map(|_| coords.clone()).collect()),
        }
    }

    /// Finds or makes the reduction dimensions of a group for a reduction with result `coords`:
    /// gives the result's coordinates again (dimensions may have been split) and one per reduced
    /// axis.
    fn reduction_coords(
        &mut self,
        group: GroupId,
        id: ValueId,
        coords: &Coords,
        reduced: &Shape,
    ) -> Option<(Coords, Coords)> {
        let rows = self.window.node(id).shape.elements();
        let bijective = covers(&self.groups[group.0 as usize].space, coords, self.window, id);
        let target = self.group(group);
        let unused = target.space.iterated() & !used_dims(coords);
        if !bijective || target.contracts || !target.space.has_room(reduced.rank()) {
            return None;
        }
        if target.reduction.is_some() && unused != target.reduction_dims() {
            return None;
        }
        if target.reduction.is_none() && unused == 0 {
            let along = target.space.push_axes(reduced);
            target.reduction = Some((used_dims(&along), target.space.version()));
            return Some((coords.clone(), along));
        }
        let fresh = target.reduction.is_none();
        if target.space.points(unused) != reduced.elements() || reduced.elements() == 0 {
            return None;
        }
        if fresh && !fits_a_row(rows, reduced.elements()) {
            return None;
        }
        let dims: Vec<usize> = target.space.order.iter().copied().filter(|d| unused >> d & 1 == 1).collect();
        let sizes: Shape = dims.iter().map(|&d| target.space.dims[d].size).collect();
        let position: Coords = dims.into_iter().map(Affine::dim).collect();
        let seen = target.space.version();
        let along = target.space.delinearise(&linear_index(&position, &sizes), reduced)?;
        if fresh {
            target.reduction = Some((unused, seen));
        }
        let mut row = coords.clone();
        row.iter_mut().for_each(|axis| target.space.refresh(axis, seen));
        Some((row, along))
    }

    fn contraction_coords(
        &mut self,
        group: GroupId,
        id: ValueId,
        coords: &Coords,
        [lhs, rhs, out]: [&Labels; 3],
    ) -> Option<SmallVec<[Coords; 3]>> {
        let operands = &self.window.node(id).operands;
        let summed: SmallVec<[(u8, usize); 6]> =
            (lhs.0.iter().zip(self.window.node(operands[0]).shape.iter()))
                .filter(|(label, _)| !out.0.contains(label))
                .map(|(&label, &extent)| (label, extent))
                .collect();
        let bijective = covers(&self.groups[group.0 as usize].space, coords, self.window, id);
        let target = self.group(group);
        let unused = target.space.iterated() & !used_dims(coords);
        let taken = target.reduction.is_some() || target.gathers;
        if !bijective || unused != 0 || taken || !target.space.has_room(summed.len()) {
            return None;
        }
        let extents: SmallVec<[usize; 6]> = summed.iter().map(|&(_, extent)| extent).collect();
        let along = target.space.push_axes(&extents);
        target.reduction = Some((used_dims(&along), target.space.version()));
        target.contracts = true;
        let of = |label: &u8| -> Option<Affine> {
            match out.0.iter().position(|l| l == label) {
                Some(axis) => Some(coords[axis].clone()),
                None => Some(along[summed.iter().position(|(l, _)| l == label)?].clone()),
            }
        };
        let axes = |labels: &Labels| labels.0.iter().map(of).collect::<Option<Coords>>();
        Some(SmallVec::from_iter([axes(lhs)?, axes(rhs)?]))
    }
}

/// Whether one pass over a row can both reduce it and read it again.
fn fits_a_row(rows: usize, reduced: usize) -> bool {
    reduced <= LARGE_REDUCTION || rows >= FEW_ROWS
}
