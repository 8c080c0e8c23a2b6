//! The order of execution, and the kernels that are one node.

use super::PlanError;
use super::attention;
use super::canonical::canonicalise;
use super::emit::{Arg, emit, place};
use super::group::{Fate, Fused, GroupId, GroupKind};
use super::views::{Seen, see_through};
use super::window::Window;
use crate::{Access, DType, Kernel, Op, ParamMode, Paths, Scan, Scatter, Sort, ValueId};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A launch before memory is planned.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub kernel: Kernel,
    pub args: Vec<Arg>,
    pub scalars: Vec<u32>,
}

impl Step {
    /// Whether a parameter is written.
    pub fn writes(&self, param: usize) -> bool {
        match &self.kernel {
            Kernel::Block(block) => block.params[param].mode != ParamMode::In,
            Kernel::Scatter(_) => param == 0,
            Kernel::Sort(_) | Kernel::Scan(_) => param == 1,
            Kernel::Paths(_) => param == 2,
            Kernel::Attention(attention) => attention.operands()[param].is_written(),
        }
    }
}

/// The launches of all groups, producers first, otherwise in the order of the graph.
pub(super) fn schedule(window: &Window, scalars: &[DType], fused: &Fused) -> Result<Vec<Step>, PlanError> {
    let mut steps = Vec::with_capacity(fused.groups.len());
    for group in order(fused) {
        match fused.groups[group.0 as usize].kind {
            GroupKind::Block => {
                for raw in emit(window, scalars, fused, group)? {
                    let canonical = canonicalise(raw);
                    let kernel = Kernel::Block(canonical.block);
                    steps.push(Step { kernel, args: canonical.args, scalars: canonical.scalars });
                }
            }
            GroupKind::Single(id) => steps.push(match window.node(id).op {
                Op::Attention(op) => attention::step(window, fused, group, id, op)?,
                _ => single(window, fused, group, id)?,
            }),
        }
    }
    Ok(steps)
}

fn order(fused: &Fused) -> Vec<GroupId> {
    let count = fused.groups.len();
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut waiting = vec![0usize; count];
    for (first, second) in &fused.edges {
        after[first.0 as usize].push(second.0);
        waiting[second.0 as usize] += 1;
    }
    let entry = |group: u32| Reverse((fused.groups[group as usize].position, group));
    let mut ready: BinaryHeap<_> =
        (0..count as u32).filter(|&g| waiting[g as usize] == 0).map(entry).collect();
    let mut ordered = Vec::with_capacity(count);
    while let Some(Reverse((_, group))) = ready.pop() {
        ordered.push(GroupId(group));
        for &next in &after[group as usize] {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                ready.push(entry(next));
            }
        }
    }
    ordered
}

/// The launch of a node that is a kernel of its own.
fn single(window: &Window, fused: &Fused, group: GroupId, id: ValueId) -> Result<Step, PlanError> {
    let node = window.node(id);
    let described = &fused.groups[group.0 as usize];
    let missing = PlanError::Unsupported { node: id.0, reason: "a value was not materialised" };
    let home = fused.homes[id.index()].as_ref().ok_or(missing)?;
    let updates = matches!(node.op, Op::Scatter { .. });
    let mut args = vec![Arg { storage: home.storage, offset: home.layout.offset, dtype: node.dtype }];
    let mut accesses = vec![Access::new(home.layout.strides.iter().copied())];
    let read = if updates { &node.operands[1..] } else { &node.operands[..] };
    for &operand in read {
        let mut space = described.space.clone();
        let shape = &window.node(operand).shape;
        let mut next = 0;
        let coords = (shape.iter())
            .map(|&extent| match extent {
                1 => Default::default(),
                _ => {
                    next += 1;
                    super::affine::Affine::dim(next - 1)
                }
            })
            .collect();
        let linear = |id| fused.linear.contains(&(group, id));
        let Seen { node: source, at } = see_through(window, &mut space, operand, coords, linear);
        debug_assert!(!matches!(fused.fates[source.index()], Fate::CastOfLoad));
        let (storage, address) = place(fused, source, &at)?;
        let mut dims = 0..;
        let stride = |&extent: &usize| if extent == 1 { 0 } else { address.coef(dims.next().unwrap_or(0)) };
        accesses.push(Access::new(shape.iter().map(stride)));
        args.push(Arg { storage, offset: address.offset, dtype: window.node(source).dtype });
    }
    let extents = |id: ValueId| SmallVec::from_slice(&window.node(id).shape);
    let kernel = match (&node.op, accesses.as_slice()) {
        (Op::Scatter { op, axis }, [data, indices, updates]) => Kernel::Scatter(Scatter {
            op: *op,
            dtype: node.dtype,
            index_dtype: args[1].dtype,
            shape: extents(node.operands[2]),
            axis: *axis,
            extent: node.shape[*axis],
            accesses: [data.clone(), indices.clone(), updates.clone()],
        }),
        (Op::Scan { op, axis }, [output, input]) => Kernel::Scan(Scan {
            op: *op,
            dtype: node.dtype,
            shape: extents(id),
            axis: *axis,
            accesses: [input.clone(), output.clone()],
        }),
        (Op::Paths, [output, scores, skips]) => Kernel::Paths(Paths {
            dtype: node.dtype,
            shape: extents(id),
            accesses: [scores.clone(), skips.clone(), output.clone()],
        }),
        (Op::Sort { axis, descending } | Op::ArgSort { axis, descending }, [output, input]) => {
            Kernel::Sort(Sort {
                dtype: args[1].dtype,
                index_dtype: matches!(node.op, Op::ArgSort { .. }).then_some(node.dtype),
                descending: *descending,
                shape: extents(id),
                axis: *axis,
                accesses: [input.clone(), output.clone()],
            })
        }
        _ => return Err(PlanError::Unsupported { node: id.0, reason: "not a kernel of its own" }),
    };
    if !updates {
        // The output last.
        args.rotate_left(1);
    }
    Ok(Step { kernel, args, scalars: Vec::new() })
}
