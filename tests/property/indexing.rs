//! Reading and writing at indices that are data; sorting.

use super::choices::{Choices, FLOATS, INTS};
use super::numbers::{BOOL, Domain};
use super::operation::{Operation, Tolerance, along_filled, operations};
use super::run::family;
use super::value::{Case, Value};
use super::views::shape_of;
use Domain::{Any, Distinct, Sums, Within};
use Tolerance::{Stored, Ulps};
use Value::{Bool, Float, Int};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{DType, read_sync};

const EXACT: Tolerance = Ulps(0.0);
const INDICES: &[DType] = &[DType::I32, DType::I64];
const KINDS: &[&[DType]] = &[FLOATS, INTS, &[BOOL]];

fn below(extent: usize) -> Domain {
    Within(0.0, extent as f64)
}

/// A tensor, and indices into one axis in its shape but for that axis.
fn gathered(c: &mut Choices) -> Case {
    let types = c.pick(KINDS);
    let mut case = along_filled(c, types, Any);
    let mut shape = shape_of(&case);
    let axis = case.params.axes[0];
    let extent = shape[axis];
    shape[axis] = c.pick(&[1, 3, 8, 17, 65]);
    let dtype = c.pick(INDICES);
    case.input(c, dtype, &shape, below(extent));
    case
}

/// A list of indices into one axis.
fn selected(c: &mut Choices) -> Case {
    let types = c.pick(KINDS);
    let mut case = along_filled(c, types, Any);
    let extent = shape_of(&case)[case.params.axes[0]];
    let count = c.pick(&[1, 3, 8, 17, 65, 0]);
    let dtype = c.pick(INDICES);
    case.input(c, dtype, &[count], below(extent));
    case
}

/// An update that depends on no order: sums of integers wrap, maxima and minima choose. These without NaN, which
/// burn-flex's lose.
fn update(c: &mut Choices, case: &mut Case) {
    use IndexingUpdateOp::{Add, Max, Min};
    case.params.update = c.pick(&[Add, Max, Min]);
    if case.params.update != Add {
        for input in case.inputs.iter_mut().filter(|input| input.domain == Sums) {
            input.domain = Within(-4.0, 4.0);
        }
    }
}

/// What [`gathered`] has, and values for those places.
fn scattered(c: &mut Choices, types: &[DType]) -> Case {
    updated(c, types, |shape, _| shape.to_vec())
}

/// A list of indices into one axis, and values.
fn assigned(c: &mut Choices, types: &[DType]) -> Case {
    updated(c, types, |shape, axis| vec![shape[axis]])
}

/// Updates along an axis; `indexed` has the shape of the indices, of that of the values and the axis.
fn updated(c: &mut Choices, types: &[DType], indexed: fn(&[usize], usize) -> Vec<usize>) -> Case {
    let mut case = along_filled(c, types, Sums);
    let dtype = case.inputs[0].dtype;
    let mut shape = shape_of(&case);
    let axis = case.params.axes[0];
    let extent = shape[axis];
    shape[axis] = c.pick(&[1, 3, 8, 17, 65]);
    let indices = c.pick(INDICES);
    case.input(c, indices, &indexed(&shape, axis), below(extent));
    case.input(c, dtype, &shape, Sums);
    update(c, &mut case);
    case
}

/// Coordinates of some of the leading axes, and values for what they name.
fn coordinates(c: &mut Choices, types: &[DType]) -> Case {
    let mut case = along_filled(c, types, Sums);
    let dtype = case.inputs[0].dtype;
    let shape = shape_of(&case);
    let depth = c.within(1, shape.len());
    let count = c.pick(&[1, 3, 8, 17]);
    let indices = c.pick(INDICES);
    // One range for all coordinates: the shortest axis.
    let extent = *shape[..depth].iter().min().unwrap_or(&1);
    case.input(c, indices, &[count, depth], below(extent));
    let values: Vec<usize> = std::iter::once(count).chain(shape[depth..].iter().copied()).collect();
    case.input(c, dtype, &values, Sums);
    update(c, &mut case);
    case
}

fn masked(c: &mut Choices) -> Case {
    let types = c.pick(KINDS);
    let dtype = c.pick(types);
    let shape = c.shape(1, 4);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Any);
    case.input(c, BOOL, &shape, Any);
    case.params.int = c.pick(&INTS[..2]).into();
    case
}

fn embedded(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let (rows, width) = (c.within(1, 300), c.pick(&[1, 3, 8, 31, 64, 129]));
    let (batch, length) = (c.within(1, 4), c.within(1, 17));
    let indices = c.pick(INDICES);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &[rows, width], Sums);
    case.input(c, indices, &[batch, length], below(rows));
    case.input(c, dtype, &[batch, length, width], Sums);
    case
}

fn sorted(c: &mut Choices, types: &[DType], domain: Domain) -> Case {
    let mut case = along_filled(c, types, domain);
    case.params.flags = vec![c.one_in(2)];
    let extent = shape_of(&case)[case.params.axes[0]];
    case.params.numbers = vec![c.within(1, extent.min(20))];
    case.params.int = c.pick(&INTS[..2]).into();
    case
}

/// Any values, for what does not depend on the order of equal ones.
fn floats(c: &mut Choices) -> Case {
    sorted(c, FLOATS, Any)
}

fn ints(c: &mut Choices) -> Case {
    sorted(c, INTS, Any)
}

/// Rows short enough that bf16 has as many different numbers.
fn distinct_floats(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let mut shape = c.filled_shape(1, 2);
    shape.iter_mut().for_each(|extent| *extent = (*extent).min(16));
    let mut case = Case::of(c, dtype);
    let axis = c.below(shape.len());
    case.params.axes = vec![axis];
    case.input(c, dtype, &shape, Distinct);
    case.inputs[0].views.clear();
    case.inputs[0].base = shape.clone();
    case.params.flags = vec![c.one_in(2)];
    case.params.numbers = vec![c.within(1, shape[axis])];
    case.params.int = c.pick(&INTS[..2]).into();
    case
}

fn distinct_ints(c: &mut Choices) -> Case {
    let mut case = distinct_floats(c);
    case.inputs[0].dtype = c.pick(INTS);
    case
}

#[rustfmt::skip]
fn indices() -> Vec<Operation> {
    operations! {
        gather(gathered, EXACT) |p, x, B| vec![match &x[0] {
            Float(t) => Float(B::float_gather(p.axes[0], t.clone(), x[1].i())),
            Int(t) => Int(B::int_gather(p.axes[0], t.clone(), x[1].i())),
            Bool(t) => Bool(B::bool_gather(p.axes[0], t.clone(), x[1].i())),
        }];
        select(selected, EXACT) |p, x, B| vec![match &x[0] {
            Float(t) => Float(B::float_select(t.clone(), p.axes[0], x[1].i())),
            Int(t) => Int(B::int_select(t.clone(), p.axes[0], x[1].i())),
            Bool(t) => Bool(B::bool_select(t.clone(), p.axes[0], x[1].i())),
        }];
        float_scatter(|c| scattered(c, FLOATS), Stored(2.0)) |p, x, B| {
            vec![Float(B::float_scatter(p.axes[0], x[0].f(), x[1].i(), x[2].f(), p.update))]
        };
        int_scatter(|c| scattered(c, INTS), EXACT) |p, x, B| {
            vec![Int(B::int_scatter(p.axes[0], x[0].i(), x[1].i(), x[2].i(), p.update))]
        };
        bool_scatter_or(|c| scattered(c, &[BOOL]), EXACT) |p, x, B| {
            vec![Bool(B::bool_scatter_or(p.axes[0], x[0].b(), x[1].i(), x[2].b()))]
        };
        float_select_assign(|c| assigned(c, FLOATS), Stored(2.0)) |p, x, B| {
            vec![Float(B::float_select_assign(x[0].f(), p.axes[0], x[1].i(), x[2].f(), p.update))]
        };
        int_select_assign(|c| assigned(c, INTS), EXACT) |p, x, B| {
            vec![Int(B::int_select_assign(x[0].i(), p.axes[0], x[1].i(), x[2].i(), p.update))]
        };
        bool_select_or(|c| assigned(c, &[BOOL]), EXACT) |p, x, B| {
            vec![Bool(B::bool_select_or(x[0].b(), p.axes[0], x[1].i(), x[2].b()))]
        };
        float_gather_nd(|c| coordinates(c, FLOATS), EXACT) |p, x, B| vec![Float(B::float_gather_nd(x[0].f(), x[1].i()))];
        int_gather_nd(|c| coordinates(c, INTS), EXACT) |p, x, B| vec![Int(B::int_gather_nd(x[0].i(), x[1].i()))];
        float_scatter_nd(|c| coordinates(c, FLOATS), Stored(2.0)) |p, x, B| {
            vec![Float(B::float_scatter_nd(x[0].f(), x[1].i(), x[2].f(), p.update))]
        };
        int_scatter_nd(|c| coordinates(c, INTS), EXACT) |p, x, B| {
            vec![Int(B::int_scatter_nd(x[0].i(), x[1].i(), x[2].i(), p.update))]
        };
        mask_select(masked, EXACT) |p, x, B| vec![match &x[0] {
            Float(t) => Float(read_sync(B::float_mask_select(t.clone(), x[1].b()))),
            Int(t) => Int(read_sync(B::int_mask_select(t.clone(), x[1].b()))),
            Bool(t) => Bool(read_sync(B::bool_mask_select(t.clone(), x[1].b()))),
        }];
        bool_argwhere(masked, EXACT) |p, x, B| vec![Int(read_sync(B::bool_argwhere(x[1].b(), p.int)))];
        embedding(embedded, EXACT) |p, x, B| vec![Float(B::embedding(x[0].f(), x[1].i()))];
        embedding_backward(embedded, Stored(2.0)) |p, x, B| vec![Float(B::embedding_backward(x[0].f(), x[2].f(), x[1].i()))];
    }
}

#[rustfmt::skip]
fn sorts() -> Vec<Operation> {
    operations! {
        float_sort(floats, EXACT) |p, x, B| vec![Float(B::float_sort(x[0].f(), p.axes[0], p.flags[0]))];
        float_topk(floats, EXACT) |p, x, B| vec![Float(B::float_topk(x[0].f(), p.axes[0], p.numbers[0]))];
        float_argsort(distinct_floats, EXACT) |p, x, B| vec![Int(B::float_argsort(x[0].f(), p.axes[0], p.flags[0], p.int))];
        float_argtopk(distinct_floats, EXACT) |p, x, B| vec![Int(B::float_argtopk(x[0].f(), p.axes[0], p.numbers[0], p.int))];
        float_sort_with_indices(distinct_floats, EXACT) |p, x, B| {
            let (values, indices) = B::float_sort_with_indices(x[0].f(), p.axes[0], p.flags[0], p.int);
            vec![Float(values), Int(indices)]
        };
        float_topk_with_indices(distinct_floats, EXACT) |p, x, B| {
            let (values, indices) = B::float_topk_with_indices(x[0].f(), p.axes[0], p.numbers[0], p.int);
            vec![Float(values), Int(indices)]
        };
        float_gather_argsort(floats, EXACT) |p, x, B| {
            // The indices of equal values may differ, what they point to may not.
            let indices = B::float_argsort(x[0].f(), p.axes[0], p.flags[0], p.int);
            vec![Float(B::float_gather(p.axes[0], x[0].f(), indices))]
        };
        int_sort(ints, EXACT) |p, x, B| vec![Int(B::int_sort(x[0].i(), p.axes[0], p.flags[0]))];
        int_topk(ints, EXACT) |p, x, B| vec![Int(B::int_topk(x[0].i(), p.axes[0], p.numbers[0]))];
        int_argsort(distinct_ints, EXACT) |p, x, B| vec![Int(B::int_argsort(x[0].i(), p.axes[0], p.flags[0]))];
        int_argtopk(distinct_ints, EXACT) |p, x, B| vec![Int(B::int_argtopk(x[0].i(), p.axes[0], p.numbers[0]))];
        int_sort_with_indices(distinct_ints, EXACT) |p, x, B| {
            let (values, indices) = B::int_sort_with_indices(x[0].i(), p.axes[0], p.flags[0]);
            vec![Int(values), Int(indices)]
        };
        int_topk_with_indices(distinct_ints, EXACT) |p, x, B| {
            let (values, indices) = B::int_topk_with_indices(x[0].i(), p.axes[0], p.numbers[0]);
            vec![Int(values), Int(indices)]
        };
    }
}

#[test]
fn indices_as_data() {
    family("indexing", 80, &indices());
}

#[test]
fn sorting() {
    family("sorting", 50, &sorts());
}
