//! Placing nodes that write into a storage piece by piece, or that are kernels of their own.

use super::fuse::Fusion;
use super::group::*;
use super::views::At;
use crate::{Layout, Op, SliceDim, ValueId};
use smallvec::SmallVec;

impl Fusion<'_> {
    /// Every operand is written into its box of the result.
    pub fn concat(&mut self, id: ValueId) {
        let requests = std::mem::take(&mut self.requests[id.index()]);
        let home = self.home(id);
        let node = self.window.node(id);
        let Op::Concat { axis } = node.op else { return };
        let mut start = 0;
        for &operand in &node.operands {
            let shape = &self.window.node(operand).shape;
            let mut dims: SmallVec<[SliceDim; 6]> =
                shape.iter().map(|&size| SliceDim { start: 0, size, step: 1 }).collect();
            dims[axis].start = start;
            start += shape[axis];
            if let Some(group) = self.write_box(operand, &home, &dims) {
                self.order_before(group, &requests);
            }
        }
    }

    /// A group that computes `id` and writes it into a box of `home`.
    fn write_box(&mut self, id: ValueId, home: &Home, dims: &[SliceDim]) -> Option<GroupId> {
        if self.window.is_empty(id) {
            return None;
        }
        let (group, coords) = self.open(GroupKind::Block, id);
        let home = Home { storage: home.storage, layout: home.layout.slice(dims) };
        self.store(group, id, coords.clone(), home);
        self.request(group, id, coords, Demand::Value);
        Some(group)
    }

    /// Data with some elements replaced: in place if nobody else needs the data.
    pub fn update(&mut self, id: ValueId) {
        let requests = std::mem::take(&mut self.requests[id.index()]);
        let node = self.window.node(id);
        let data = node.operands[0];
        let nothing = node.operands[1..].iter().any(|&operand| self.window.is_empty(operand));
        let in_place = !nothing && self.take_over(id, data, &requests);
        let home = self.home(id);
        let writer = match &node.op {
            _ if nothing => None,
            Op::SliceUpdate { dims } => self.write_box(node.operands[1], &home, dims),
            _ => Some(self.single(id, &node.operands[1..])),
        };
        if let Some(writer) = writer {
            self.order_before(writer, &requests);
        }
        if in_place {
            let request =
                Request { group: writer, at: At::Linear(Default::default()), seen: 0, demand: Demand::Order };
            self.requests[data.index()].push(request);
        } else if let Some(copy) = self.write_box(data, &home, &whole(&home.layout)) {
            self.order_before(copy, &requests);
            if let Some(writer) = writer {
                self.reach.add(copy, writer);
            }
        }
    }

    /// Lets an update use the storage of its data, if it can.
    fn take_over(&mut self, id: ValueId, data: ValueId, requests: &[Request]) -> bool {
        if !self.window.used_once(data) {
            return false;
        }
        let by_index = |r: &Request| r.demand != Demand::Order && matches!(r.at, At::Linear(_));
        let dense = self.dense[id.index()] || requests.iter().any(by_index);
        if let (None, Some(input)) = (&self.homes[id.index()], self.donated_below(data))
            && (!dense || self.window.is_contiguous_input(input))
        {
            self.homes[id.index()] = self.homes[input.index()].clone();
        }
        let home = self.home(id);
        match self.window.node(data).op {
            Op::Input { .. } => {
                self.homes[data.index()].as_ref().is_some_and(|input| input.storage == home.storage)
            }
            Op::Concat { .. }
            | Op::SliceUpdate { .. }
            | Op::Scatter { .. }
            | Op::Scan { .. }
            | Op::Paths
            | Op::Sort { .. }
            | Op::ArgSort { .. }
            | Op::Attention(_) => {
                self.homes[data.index()] = Some(home);
                true
            }
            _ => false,
        }
    }

    /// The donated input that a chain of updates, each used by the next one only, starts from.
    fn donated_below(&self, mut id: ValueId) -> Option<ValueId> {
        while self.window.used_once(id) {
            let node = self.window.node(id);
            match node.op {
                Op::SliceUpdate { .. } | Op::Scatter { .. }
                    if !node.operands.iter().any(|&operand| self.window.is_empty(operand)) =>
                {
                    id = node.operands[0];
                }
                _ => return self.window.donated_slot(id).map(|_| id),
            }
        }
        None
    }

    /// A scan, a sort or paths: reads its operands from memory.
    pub fn along_axis(&mut self, id: ValueId) {
        let requests = std::mem::take(&mut self.requests[id.index()]);
        self.home(id);
        let group = self.single(id, &self.window.node(id).operands);
        self.order_before(group, &requests);
    }

    /// A group of one node over the extents of its last operand, which is also those of the others.
    fn single(&mut self, id: ValueId, operands: &[ValueId]) -> GroupId {
        let shaped = operands.last().copied().unwrap_or(id);
        let (group, coords) = self.open(GroupKind::Single(id), shaped);
        self.group(group).position = id.0;
        for &operand in operands {
            self.request(group, operand, coords.clone(), Demand::Load);
        }
        group
    }
}

/// The box that is all of a layout.
fn whole(layout: &Layout) -> SmallVec<[SliceDim; 6]> {
    layout.shape.iter().map(|&size| SliceDim { start: 0, size, step: 1 }).collect()
}
