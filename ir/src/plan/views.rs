//! Following views from a consumer to what they look at.

use super::affine::{Affine, Coords, Space, linear_index};
use super::window::Window;
use crate::{Op, ValueId};

/// Where in a tensor the points of a space read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// One function per axis.
    Coords(Coords),
    /// The row-major element index, for a tensor stored contiguously.
    Linear(Affine),
}

/// A tensor that is no view, or one that has to be stored contiguously, and where it is read.
pub(super) struct Seen {
    pub node: ValueId,
    pub at: At,
}

/// Walks from `node` read at `coords` through views. `stored` says whether this reader takes a
/// tensor's contiguous storage whatever its coordinates are.
pub(super) fn see_through(
    window: &Window,
    space: &mut Space,
    mut node: ValueId,
    mut coords: Coords,
    stored: impl Fn(ValueId) -> bool,
) -> Seen {
    loop {
        let operation = window.node(node);
        if !operation.op.is_view() {
            return Seen { node, at: At::Coords(coords) };
        }
        let source = operation.operands[0];
        match &operation.op {
            Op::Reshape => {
                let source = skip_reshapes(window, source);
                let mut index = linear_index(&coords, &operation.shape);
                let seen = space.version();
                if window.is_contiguous_input(source) || stored(source) {
                    return Seen { node: source, at: At::Linear(index) };
                }
                match space.delinearise(&index, &window.node(source).shape) {
                    Some(found) => (node, coords) = (source, found),
                    None => {
                        space.refresh(&mut index, seen);
                        return Seen { node: source, at: At::Linear(index) };
                    }
                }
                continue;
            }
            op => coords = step(op, &coords, &window.node(source).shape),
        }
        node = source;
    }
}

/// The tensor below a chain of reshapes.
pub(super) fn skip_reshapes(window: &Window, mut node: ValueId) -> ValueId {
    while matches!(window.node(node).op, Op::Reshape) {
        node = window.node(node).operands[0];
    }
    node
}

/// Coordinates in the operand of a view other than a reshape.
fn step(op: &Op, coords: &Coords, operand: &[usize]) -> Coords {
    let scaled = |axis: &Affine, start: i64, factor: i64| {
        let mut result = Affine { offset: start, ..Affine::default() };
        result.add_scaled(axis, factor);
        result
    };
    match op {
        Op::Permute { axes } => {
            let mut result = vec![Affine::default(); operand.len()];
            for (from, &to) in axes.iter().enumerate() {
                result[to] = coords[from].clone();
            }
            result
        }
        Op::Expand => (coords.iter().zip(operand))
            .map(|(axis, &extent)| if extent == 1 { Affine::default() } else { axis.clone() })
            .collect(),
        Op::Slice { dims } => {
            (coords.iter().zip(dims)).map(|(axis, dim)| scaled(axis, dim.start as i64, dim.step)).collect()
        }
        Op::Unfold { axis, step, dilation, .. } => {
            let mut result: Coords = coords[..operand.len()].to_vec();
            result[*axis] = scaled(&coords[*axis], 0, *step as i64);
            result[*axis].add_scaled(&coords[operand.len()], *dilation as i64);
            result
        }
        _ => coords.clone(),
    }
}
