//! Attention: a kernel of its own that reads its operands through views.

use super::PlanError;
use super::affine::{Affine, Coords};
use super::emit::{Arg, place};
use super::fuse::Fusion;
use super::group::*;
use super::schedule::Step;
use super::views::{At, Seen, see_through};
use super::window::Window;
use crate::{Access, Attention, AttentionOp, AttentionSizes, BufferView, Kernel, Layout, ValueId};

impl Fusion<'_> {
    /// A group that is the attention; each operand is read at dimensions of its own.
    pub fn attention(&mut self, id: ValueId) {
        let requests = std::mem::take(&mut self.requests[id.index()]);
        self.lay_out(id, &requests);
        self.home(id);
        let operands = &self.window.node(id).operands;
        let (group, first) = self.open(GroupKind::Single(id), operands[0]);
        self.group(group).position = id.0;
        let mut coords = vec![first];
        for &operand in &operands[1..] {
            let shape = &self.window.node(operand).shape;
            let axes = self.group(group).space.push_axes(shape);
            coords.push(axes);
        }
        for (&operand, coords) in operands.iter().zip(coords) {
            self.request(group, operand, coords, Demand::Load);
        }
        self.order_before(group, &requests);
    }

    /// Stores the heads of a position side by side if that is how the result is read: what merges heads is
    /// then a view.
    fn lay_out(&mut self, id: ValueId, requests: &[Request]) {
        let by_position = |request: &Request| {
            let (Some(group), At::Coords(coords)) = (request.group, &request.at) else { return false };
            let order = &self.groups[group.0 as usize].space.order;
            let outermost = |axis: &Affine| order.iter().position(|&dim| axis.coef(dim) != 0);
            outermost(&coords[2]) < outermost(&coords[1])
        };
        let free = !self.dense[id.index()] && !self.window.is_result(id) && self.homes[id.index()].is_none();
        if !free || requests.is_empty() || !requests.iter().all(by_position) {
            return;
        }
        let mut home = self.home(id);
        let shape = home.layout.shape.clone();
        let swapped = Layout::contiguous(&[0, 2, 1, 3].map(|axis| shape[axis]).into());
        home.layout.strides = [0, 2, 1, 3].map(|axis| swapped.strides[axis]).into_iter().collect();
        self.homes[id.index()] = Some(home);
    }
}

/// The launch of an attention.
pub(super) fn step(
    window: &Window,
    fused: &Fused,
    group: GroupId,
    id: ValueId,
    op: AttentionOp,
) -> Result<Step, PlanError> {
    let node = window.node(id);
    let missing = PlanError::Unsupported { node: id.0, reason: "a value was not materialised" };
    let mut space = fused.groups[group.0 as usize].space.clone();
    let mut dims = 0..;
    let mut args = Vec::new();
    let mut views = Vec::new();
    for &operand in &node.operands {
        let shape = &window.node(operand).shape;
        let mut own = Vec::new();
        let axis = |&extent: &usize| {
            let dim = (extent != 1).then(|| dims.next()).flatten();
            own.push(dim);
            dim.map(Affine::dim).unwrap_or_default()
        };
        let coords: Coords = shape.iter().map(axis).collect();
        let linear = |id| fused.linear.contains(&(group, id));
        let Seen { node: source, at } = see_through(window, &mut space, operand, coords, linear);
        let (storage, address) = place(fused, source, &at)?;
        args.push(Arg { storage, offset: address.offset, dtype: window.node(source).dtype });
        let strides = own.iter().map(|dim| dim.map_or(0, |dim| address.coef(dim)));
        views.push(view(Access::new(strides)));
    }
    let home = fused.homes[id.index()].as_ref().ok_or(missing.clone())?;
    args.push(Arg { storage: home.storage, offset: home.layout.offset, dtype: node.dtype });
    let alone = |axis: usize| if node.shape[axis] == 1 { 0 } else { home.layout.strides[axis] };
    let output = view(Access::new((0..4).map(alone)));

    let [queries, keys, values] = [0, 1, 2].map(|index| &window.node(node.operands[index]).shape);
    let mut views = views.into_iter();
    let mut next = || views.next().ok_or(missing.clone());
    let attention = Attention {
        dtype: node.dtype,
        sizes: AttentionSizes {
            batch: queries[0],
            heads: queries[1],
            kv_heads: keys[1],
            queries: queries[2],
            keys: keys[2],
            width: queries[3],
            value_width: values[3],
        },
        causal: op.causal,
        softcap: op.softcap.is_some(),
        query: next()?,
        key: next()?,
        value: next()?,
        mask: if op.masked { Some(next()?) } else { None },
        bias: if op.biased { Some(next()?) } else { None },
        output,
        lse: None,
    };
    let scalars = [Some(op.scale), op.softcap].into_iter().flatten().collect();
    Ok(Step { kernel: Kernel::Attention(Box::new(attention)), args, scalars })
}

fn view(access: Access) -> BufferView {
    BufferView { access, alignment: 1 }
}
