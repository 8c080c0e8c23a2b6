//! Views, and tensors put together from parts: of all three kinds, exact.

use super::choices::{Choices, FLOATS, INTS};
use super::layout::slice_of;
use super::numbers::{BOOL, Domain};
use super::operation::{Operation, Tolerance, along_filled, operations, pointwise};
use super::run::family;
use super::value::{Case, Value};
use Domain::Any;
use Value::{Bool, Float, Int};
use burn_backend::ops::PadMode;
use burn_backend::{DType, Scalar, Shape, Slice};

const EXACT: Tolerance = Tolerance::Ulps(0.0);
const KINDS: &[&[DType]] = &[FLOATS, INTS, &[BOOL]];

/// `(method of floats, of integers, of truth values)` for the kind of the first operand.
macro_rules! kinds {
    ($x:ident, $B:ident, $float:ident, $int:ident, $bool:ident $(, $argument:expr)*) => {
        vec![match &$x[0] {
            Float(t) => Float($B::$float(t.clone() $(, $argument)*)),
            Int(t) => Int($B::$int(t.clone() $(, $argument)*)),
            Bool(t) => Bool($B::$bool(t.clone() $(, $argument)*)),
        }]
    };
}

fn types(c: &mut Choices) -> &'static [DType] {
    c.pick(KINDS)
}

/// One tensor and two of its axes.
fn axes(c: &mut Choices) -> Case {
    let types = types(c);
    let dtype = c.pick(types);
    let shape = c.shape(2, 6);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Any);
    case.params.axes = vec![c.below(shape.len()), c.below(shape.len())];
    case
}

fn permuted(c: &mut Choices) -> Case {
    let types = types(c);
    let dtype = c.pick(types);
    let shape = c.shape(1, 6);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Any);
    case.params.axes = c.permutation(shape.len());
    case
}

fn flipped(c: &mut Choices) -> Case {
    let mut case = permuted(c);
    let count = c.within(1, case.params.axes.len());
    case.params.axes.truncate(count);
    case
}

fn reshaped(c: &mut Choices) -> Case {
    let types = types(c);
    let mut case = pointwise(c, types, 1, Any);
    let shape = shape_of(&case);
    let count: usize = shape.iter().product();
    let factors: Vec<usize> = (1..=count.min(64)).filter(|factor| count.is_multiple_of(*factor)).collect();
    let first = if count == 0 { 0 } else { c.pick(&factors) };
    let rest = if count == 0 { 3 } else { count / first };
    case.params.shape = match c.below(4) {
        0 => vec![count],
        1 => vec![first, rest],
        2 => vec![1, rest, first],
        _ => vec![rest, 1, first, 1],
    };
    case
}

fn expanded(c: &mut Choices) -> Case {
    let types = types(c);
    let dtype = c.pick(types);
    let mut target = c.filled_shape(1, 4);
    let mut case = Case::of(c, dtype);
    let shape: Vec<usize> = target.iter().map(|&extent| if c.one_in(2) { 1 } else { extent }).collect();
    case.input(c, dtype, &shape, Any);
    if c.one_in(3) {
        target.insert(0, c.within(1, 3));
    }
    case.params.shape = target;
    case
}

/// A slice, and what is written there.
fn sliced(c: &mut Choices) -> Case {
    let types = types(c);
    let dtype = c.pick(types);
    let part = c.shape(1, 4);
    let mut case = Case::of(c, dtype);
    let mut whole = Vec::new();
    for &extent in &part {
        let (slice, length) = if c.one_in(3) { (Slice::full(), extent) } else { slice_of(c, extent) };
        case.params.slices.push(slice);
        whole.push(length);
    }
    case.input(c, dtype, &whole, Any);
    case.input(c, dtype, &part, Any);
    case
}

fn repeated(c: &mut Choices) -> Case {
    let types = types(c);
    let mut case = along_filled(c, types, Any);
    case.params.numbers = vec![c.within(1, 4)];
    case
}

/// Two or three tensors that differ along one axis.
fn joined(c: &mut Choices) -> Case {
    let types = types(c);
    let mut case = along_filled(c, types, Any);
    let (dtype, axis) = (case.inputs[0].dtype, case.params.axes[0]);
    let mut shape = shape_of(&case);
    for _ in 0..c.within(1, 2) {
        shape[axis] = c.pick(&[1, 2, 5, 16, 33, 0]);
        case.input(c, dtype, &shape, Any);
    }
    case
}

fn windows(c: &mut Choices) -> Case {
    let types = types(c);
    let mut case = along_filled(c, types, Any);
    let extent = shape_of(&case)[case.params.axes[0]];
    let size = c.within(1, extent.min(7));
    case.params.numbers = vec![size, c.within(1, 4)];
    case
}

fn padded(c: &mut Choices) -> Case {
    let types = KINDS[c.below(2)];
    let mut case = along_filled(c, types, Any);
    let shape = shape_of(&case);
    let mode = c.below(3);
    let most = |extent: usize| if mode == 1 { (extent - 1).min(4) } else { 4 };
    case.params.pads =
        shape.iter().map(|&extent| (c.within(0, most(extent)), c.within(0, most(extent)))).collect();
    case.params.numbers = vec![mode];
    case.params.scalars = vec![Scalar::Float(c.pick(&[0.0, 1.5, 3.0]))];
    case
}

/// The shape of the first operand.
pub fn shape_of(case: &Case) -> Vec<usize> {
    case.inputs[0].shape()
}

fn mode(p: &super::value::Params) -> PadMode {
    match (p.numbers[0], p.scalars[0]) {
        (0, Scalar::Float(value)) => PadMode::Constant(value as f32),
        (1, _) => PadMode::Reflect,
        _ => PadMode::Edge,
    }
}

#[rustfmt::skip]
fn operations() -> Vec<Operation> {
    operations! {
        reshape(reshaped, EXACT) |p, x, B| kinds!(x, B, float_reshape, int_reshape, bool_reshape, Shape::from(p.shape.clone()));
        transpose(axes, EXACT) |p, x, B| kinds!(x, B, float_transpose, int_transpose, bool_transpose);
        swap_dims(axes, EXACT) |p, x, B| kinds!(x, B, float_swap_dims, int_swap_dims, bool_swap_dims, p.axes[0], p.axes[1]);
        permute(permuted, EXACT) |p, x, B| kinds!(x, B, float_permute, int_permute, bool_permute, &p.axes);
        flip(flipped, EXACT) |p, x, B| kinds!(x, B, float_flip, int_flip, bool_flip, &p.axes);
        expand(expanded, EXACT) |p, x, B| kinds!(x, B, float_expand, int_expand, bool_expand, Shape::from(p.shape.clone()));
        slice(sliced, EXACT) |p, x, B| kinds!(x, B, float_slice, int_slice, bool_slice, &p.slices);
        slice_assign(sliced, EXACT) |p, x, B| vec![match (&x[0], &x[1]) {
            (Float(t), Float(v)) => Float(B::float_slice_assign(t.clone(), &p.slices, v.clone())),
            (Int(t), Int(v)) => Int(B::int_slice_assign(t.clone(), &p.slices, v.clone())),
            (t, v) => Bool(B::bool_slice_assign(t.b(), &p.slices, v.b())),
        }];
        repeat_dim(repeated, EXACT) |p, x, B| kinds!(x, B, float_repeat_dim, int_repeat_dim, bool_repeat_dim, p.axes[0], p.numbers[0]);
        cat(joined, EXACT) |p, x, B| vec![match &x[0] {
            Float(_) => Float(B::float_cat(x.iter().map(Value::f).collect(), p.axes[0])),
            Int(_) => Int(B::int_cat(x.iter().map(Value::i).collect(), p.axes[0])),
            Bool(_) => Bool(B::bool_cat(x.iter().map(Value::b).collect(), p.axes[0])),
        }];
        unfold(windows, EXACT) |p, x, B| kinds!(x, B, float_unfold, int_unfold, bool_unfold, p.axes[0], p.numbers[0], p.numbers[1]);
        pad(padded, EXACT) |p, x, B| vec![match &x[0] {
            Float(t) => Float(B::float_pad(t.clone(), &p.pads, mode(p))),
            t => Int(B::int_pad(t.i(), &p.pads, mode(p))),
        }];
    }
}

#[test]
fn views_and_parts() {
    family("views", 100, &operations());
}
