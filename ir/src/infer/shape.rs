//! Shapes of results.

use super::Rule;
use crate::op::type_text;
use crate::{DType, Labels, Op, Shape, SliceDim};
use smallvec::SmallVec;

/// The shape of `op`'s result. `operands` has as many operands as the operation takes.
pub(super) fn infer_shape(
    op: &Op,
    operands: &[(DType, &Shape)],
    declared: Option<&Shape>,
) -> Result<Shape, Rule> {
    let shapes: SmallVec<[&Shape; 4]> = operands.iter().map(|operand| operand.1).collect();
    match (op, shapes.as_slice()) {
        (Op::Input { layout, .. }, _) => Ok(layout.shape.clone()),
        (Op::Fill { .. } | Op::Constant { .. } | Op::Random { .. }, _) => {
            declared.cloned().ok_or(Rule::NoShape)
        }
        (Op::Iota { axis }, _) => {
            let shape = declared.ok_or(Rule::NoShape)?;
            checked_axis(*axis, shape)?;
            Ok(shape.clone())
        }
        (Op::Reshape, &[from]) => {
            let to = declared.ok_or(Rule::NoShape)?;
            let kept = elements(from).is_some() && elements(from) == elements(to);
            if kept { Ok(to.clone()) } else { Err(Rule::Elements { to: to.to_string() }) }
        }
        (Op::Permute { axes }, &[from]) => permute(axes, from),
        (Op::Expand, &[from]) => {
            let to = declared.ok_or(Rule::NoShape)?;
            let fits =
                from.rank() == to.rank() && from.iter().zip(to.iter()).all(|(&a, &b)| a == 1 || a == b);
            if fits { Ok(to.clone()) } else { Err(Rule::Expand { to: to.to_string() }) }
        }
        (Op::Slice { dims }, &[from]) => slice(dims, from),
        (&Op::Unfold { axis, size, step, dilation }, &[from]) => unfold(axis, [size, step, dilation], from),
        (Op::Reduce { axes, .. }, &[from]) => reduce(axes, from),
        (Op::ArgReduce { axes, .. }, &[from]) => {
            let shape = reduce(axes, from)?;
            let empty = axes.iter().any(|&axis| from[axis] == 0);
            if empty { Err(Rule::EmptyPosition) } else { Ok(shape) }
        }
        (Op::Scan { axis, .. } | Op::Sort { axis, .. } | Op::ArgSort { axis, .. }, &[from]) => {
            checked_axis(*axis, from)?;
            Ok(from.clone())
        }
        (Op::Paths, &[scores, skips]) => match scores.rank() {
            3 if scores == skips => Ok(scores.clone()),
            3 => Err(Rule::Shapes),
            _ => Err(Rule::Ranks),
        },
        (Op::Contract { lhs, rhs, out }, &[a, b]) => contract([(lhs, a), (rhs, b)], out),
        (Op::Gather { axis }, &[data, indices]) => {
            check_indices(*axis, data, indices)?;
            Ok(indices.clone())
        }
        (Op::Scatter { axis, .. }, &[data, indices, updates]) => {
            check_indices(*axis, data, indices)?;
            if indices == updates { Ok(data.clone()) } else { Err(Rule::Shapes) }
        }
        (Op::Attention(_), &[queries, keys, values, ref rest @ ..]) => {
            attention([queries, keys, values], rest)
        }
        (Op::Concat { axis }, [first, rest @ ..]) => concat(*axis, first, rest),
        (Op::SliceUpdate { dims }, &[data, updates]) => {
            let replaced = slice(dims, data)?;
            if replaced == *updates { Ok(data.clone()) } else { Err(Rule::Box(replaced.to_string())) }
        }
        // Elementwise operations.
        (_, [first, rest @ ..]) => {
            if rest.iter().all(|shape| shape == first) {
                Ok((*first).clone())
            } else {
                Err(Rule::Shapes)
            }
        }
        (_, []) => Err(Rule::NoOperand),
    }
}

/// The number of elements, unless an intermediate product overflows.
fn elements(shape: &Shape) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent))
}

/// A tensor's bytes must be countable, also with extents of 0 taken for 1, so that strides are.
pub(crate) fn check_size(dtype: DType, shape: &Shape) -> Result<(), Rule> {
    let bytes = shape.iter().try_fold(dtype.size(), |product, &extent| product.checked_mul(extent.max(1)));
    match bytes {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Rule::TooLarge(type_text(dtype, shape))),
    }
}

fn checked_axis(axis: usize, shape: &Shape) -> Result<usize, Rule> {
    if axis < shape.rank() { Ok(axis) } else { Err(Rule::Axis { axis, rank: shape.rank() }) }
}

fn permute(axes: &[usize], from: &Shape) -> Result<Shape, Rule> {
    let rank = from.rank();
    let each_once = axes.len() == rank && (0..rank).all(|axis| axes.contains(&axis));
    if each_once {
        Ok(axes.iter().map(|&axis| from[axis]).collect())
    } else {
        Err(Rule::Permutation { rank })
    }
}

fn slice(dims: &[SliceDim], from: &Shape) -> Result<Shape, Rule> {
    if dims.len() != from.rank() {
        return Err(Rule::RangeCount { got: dims.len(), rank: from.rank() });
    }
    for (axis, (dim, &extent)) in dims.iter().zip(from.iter()).enumerate() {
        if dim.step == 0 {
            return Err(Rule::ZeroStep { axis });
        }
        // 128 bits hold any start + (size - 1) * step.
        let last = dim.start as i128 + (dim.size as i128 - 1) * i128::from(dim.step);
        let inside = match dim.size {
            0 => dim.start <= extent,
            _ => dim.start < extent && (0..extent as i128).contains(&last),
        };
        if !inside {
            return Err(Rule::Range { axis, extent });
        }
    }
    Ok(dims.iter().map(|dim| dim.size).collect())
}

fn unfold(axis: usize, window: [usize; 3], from: &Shape) -> Result<Shape, Rule> {
    checked_axis(axis, from)?;
    if window.contains(&0) {
        return Err(Rule::Window);
    }
    let [size, step, dilation] = window;
    let reach = (size - 1).checked_mul(dilation);
    let windows = match reach {
        Some(reach) if reach < from[axis] => (from[axis] - reach - 1) / step + 1,
        _ => 0,
    };
    let mut shape = from.clone();
    shape.0[axis] = windows;
    shape.0.push(size);
    Ok(shape)
}

fn reduce(axes: &[usize], from: &Shape) -> Result<Shape, Rule> {
    if !axes.is_sorted_by(|a, b| a < b) {
        return Err(Rule::AxisOrder);
    }
    let mut shape = from.clone();
    for &axis in axes {
        shape.0[checked_axis(axis, from)?] = 1;
    }
    Ok(shape)
}

/// For a gather or a scatter: the indices lie inside the data besides the axis they replace.
fn check_indices(axis: usize, data: &Shape, indices: &Shape) -> Result<(), Rule> {
    if data.rank() != indices.rank() {
        return Err(Rule::Ranks);
    }
    checked_axis(axis, data)?;
    let inside = (0..data.rank()).all(|d| d == axis || indices[d] <= data[d]);
    if inside { Ok(()) } else { Err(Rule::IndexShape { axis }) }
}

fn concat(axis: usize, first: &Shape, rest: &[&Shape]) -> Result<Shape, Rule> {
    checked_axis(axis, first)?;
    let mut shape = first.clone();
    for other in rest {
        if other.rank() != first.rank() {
            return Err(Rule::Ranks);
        }
        if (0..first.rank()).any(|d| d != axis && first[d] != other[d]) {
            return Err(Rule::Shapes);
        }
        // Too large anyway: `check_size` says so.
        shape.0[axis] = shape[axis].saturating_add(other[axis]);
    }
    Ok(shape)
}

fn attention([queries, keys, values]: [&Shape; 3], scores: &[&Shape]) -> Result<Shape, Rule> {
    if [queries, keys, values].into_iter().any(|shape| shape.rank() != 4) {
        return Err(Rule::Ranks);
    }
    let [batch, heads, count, width] = [0, 1, 2, 3].map(|axis| queries[axis]);
    let shared = keys[1] > 0 && heads.is_multiple_of(keys[1]) || heads == keys[1];
    if !shared {
        return Err(Rule::Heads { queries: heads, keys: keys[1] });
    }
    let fits = [batch, width] == [keys[0], keys[3]] && keys[..3] == values[..3];
    let whole = Shape::from([batch, heads, count, keys[2]]);
    if fits && scores.iter().all(|shape| **shape == whole) {
        Ok(Shape::from([batch, heads, count, values[3]]))
    } else {
        Err(Rule::Shapes)
    }
}

fn contract(operands: [(&Labels, &Shape); 2], out: &Labels) -> Result<Shape, Rule> {
    for (labels, shape) in operands {
        if labels.0.len() != shape.rank() {
            return Err(Rule::LabelCount { labels: labels.to_string(), shape: shape.to_string() });
        }
    }
    for labels in [operands[0].0, operands[1].0, out] {
        for (index, &label) in labels.0.iter().enumerate() {
            if !label.is_ascii_alphabetic() {
                return Err(Rule::LabelLetter);
            }
            if labels.0[..index].contains(&label) {
                return Err(Rule::LabelTwice(label as char, labels.to_string()));
            }
        }
    }
    let [lhs, rhs] = operands.map(|(labels, shape)| {
        move |label: u8| labels.0.iter().position(|&l| l == label).map(|axis| shape[axis])
    });
    for &label in operands[0].0.0.iter().chain(&operands[1].0.0) {
        match (lhs(label), rhs(label)) {
            (Some(lhs), Some(rhs)) if lhs != rhs => {
                return Err(Rule::LabelExtent { label: label as char, lhs, rhs });
            }
            (None, _) | (_, None) if !out.0.contains(&label) => return Err(Rule::LabelLost(label as char)),
            _ => {}
        }
    }
    let extent = |&label: &u8| lhs(label).or(rhs(label)).ok_or(Rule::LabelUnknown(label as char));
    out.0.iter().map(extent).collect()
}
