//! Reductions and scans.

use super::choices::{Choices, FLOATS, INTS};
use super::numbers::{BOOL, Domain, Numbers};
use super::operation::{
    Elements, Operation, Reference, Tolerance, along, along_filled, operations, pointwise,
};
use super::run::family;
use super::value::{Case, Params, Value};
use Domain::{Any, Sums, Within};
use Tolerance::{Cancelling, Scaled, Sum, Ulps};
use Value::{Bool, Float, Int};
use burn_backend::{BoolDType, IntDType};

/// Units of the last place that a sum may lose: equal addends (an expanded tensor has many) round the same way every
/// time, up to half a unit each, in chains of at most 32, whose totals go through chains as well; three levels of them
/// reach as far as the tensors here.
const CHAINS: f64 = 3.0 * 32.0 / 4.0;

/// The same for a prefix, which is one chain, as long as an axis.
const PREFIX: f64 = 300.0 / 4.0;

const TRUTH: BoolDType = BoolDType::Native;
const EXACT: Tolerance = Ulps(0.0);

fn sums(c: &mut Choices) -> Case {
    let mut case = along(c, FLOATS, Sums);
    let rank = case.params.axes[0] + 1;
    case.params.axes.extend((0..rank - 1).filter(|_| c.one_in(2)));
    case
}

/// Means of nothing are left to the tests of edges.
fn means(c: &mut Choices) -> Case {
    along_filled(c, FLOATS, Sums)
}

fn whole(c: &mut Choices) -> Case {
    pointwise(c, FLOATS, 1, Sums)
}

/// Factors whose product neither overflows nor vanishes.
fn products(c: &mut Choices) -> Case {
    along(c, FLOATS, Within(-1.02, 1.02))
}

/// Not empty: burn-flex has no largest of nothing and panics along an axis of an empty tensor.
fn extremes(c: &mut Choices) -> Case {
    let mut case = along_filled(c, FLOATS, Any);
    case.params.int = c.pick(&INTS[..2]).into();
    case
}

fn ints(c: &mut Choices) -> Case {
    along(c, INTS, Any)
}

fn filled_ints(c: &mut Choices) -> Case {
    along_filled(c, INTS, Any)
}

/// Whose sum fits the type: burn-flex's wraps before it is divided.
fn small_ints(c: &mut Choices) -> Case {
    let mut case = along_filled(c, INTS, Within(0.0, 3.0));
    case.inputs[0].views.clear();
    case.inputs[0].base = vec![c.pick(&[1, 7, 33]), c.pick(&[1, 5, 40])];
    case.params.axes = vec![c.below(2)];
    case
}

fn floats(c: &mut Choices) -> Case {
    along(c, FLOATS, Any)
}

fn truths(c: &mut Choices) -> Case {
    along(c, &[BOOL], Any)
}

fn filled_truths(c: &mut Choices) -> Case {
    along_filled(c, &[BOOL], Any)
}

/// Not NaN: burn-flex's largest magnitude loses it (the tests of reductions have it).
fn magnitudes(c: &mut Choices) -> Case {
    along_filled(c, FLOATS, Within(-50.0, 50.0))
}

#[rustfmt::skip]
fn reductions() -> Vec<Operation> {
    operations! {
        float_sum(whole, Sum(CHAINS)) |p, x, B| vec![Float(B::float_sum(x[0].f()))];
        float_sum_dim(sums, Sum(CHAINS)) |p, x, B| vec![Float(B::float_sum_dim(x[0].f(), p.axes[0]))];
        float_sum_dims(sums, Sum(CHAINS)) |p, x, B| vec![Float(B::float_sum_dims(x[0].f(), &p.axes))];
        float_mean(means, Sum(CHAINS)) |p, x, B| vec![Float(B::float_mean(x[0].f()))];
        float_mean_dim(means, Sum(CHAINS)) |p, x, B| vec![Float(B::float_mean_dim(x[0].f(), p.axes[0]))];
        float_prod(products, Sum(500.0)) |p, x, B| vec![Float(B::float_prod(x[0].f()))];
        float_prod_dim(products, Sum(500.0)) |p, x, B| vec![Float(B::float_prod_dim(x[0].f(), p.axes[0]))];
        float_max(extremes, EXACT) |p, x, B| vec![Float(B::float_max(x[0].f()))];
        float_max_dim(extremes, EXACT) |p, x, B| vec![Float(B::float_max_dim(x[0].f(), p.axes[0]))];
        float_min(extremes, EXACT) |p, x, B| vec![Float(B::float_min(x[0].f()))];
        float_min_dim(extremes, EXACT) |p, x, B| vec![Float(B::float_min_dim(x[0].f(), p.axes[0]))];
        float_max_dim_with_indices(extremes, EXACT) |p, x, B| {
            let (values, indices) = B::float_max_dim_with_indices(x[0].f(), p.axes[0], p.int);
            vec![Float(values), Int(indices)]
        };
        float_min_dim_with_indices(extremes, EXACT) |p, x, B| {
            let (values, indices) = B::float_min_dim_with_indices(x[0].f(), p.axes[0], p.int);
            vec![Float(values), Int(indices)]
        };
        float_argmax(extremes, EXACT) |p, x, B| vec![Int(B::float_argmax(x[0].f(), p.axes[0], p.int))];
        float_argmin(extremes, EXACT) |p, x, B| vec![Int(B::float_argmin(x[0].f(), p.axes[0], p.int))];
        float_max_abs(magnitudes, EXACT) |p, x, B| vec![Float(B::float_max_abs(x[0].f()))];
        float_max_abs_dim(magnitudes, EXACT) |p, x, B| vec![Float(B::float_max_abs_dim(x[0].f(), p.axes[0]))];
        float_any(floats, EXACT) |p, x, B| vec![Bool(B::float_any(x[0].f(), TRUTH))];
        float_any_dim(extremes, EXACT) |p, x, B| vec![Bool(B::float_any_dim(x[0].f(), p.axes[0], TRUTH))];
        float_all(floats, EXACT) |p, x, B| vec![Bool(B::float_all(x[0].f(), TRUTH))];
        float_all_dim(extremes, EXACT) |p, x, B| vec![Bool(B::float_all_dim(x[0].f(), p.axes[0], TRUTH))];
        float_cumsum(sums, Sum(PREFIX)) |p, x, B| vec![Float(B::float_cumsum(x[0].f(), p.axes[0]))];
        float_cumprod(products, Sum(500.0)) |p, x, B| vec![Float(B::float_cumprod(x[0].f(), p.axes[0]))];
        float_cummax(floats, EXACT) |p, x, B| vec![Float(B::float_cummax(x[0].f(), p.axes[0]))];
        float_cummin(floats, EXACT) |p, x, B| vec![Float(B::float_cummin(x[0].f(), p.axes[0]))];
    }
}

/// The sum in 64 bits, divided towards zero; burn-flex's sum wraps at the type's own size.
fn mean_of_all(p: &Params, x: &[Elements]) -> Vec<Numbers> {
    let (Numbers::Ints(values), _) = &x[0] else { return Vec::new() };
    let sum: i128 = values.iter().sum();
    let wide = if p.int == IntDType::U64 { i128::from(sum as u64) } else { i128::from(sum as i64) };
    vec![Numbers::Ints(vec![wide / values.len() as i128])]
}

#[rustfmt::skip]
fn of_integers() -> Vec<Operation> {
    operations! {
        int_sum(ints, EXACT) |p, x, B| vec![Int(B::int_sum(x[0].i()))];
        int_sum_dim(ints, EXACT) |p, x, B| vec![Int(B::int_sum_dim(x[0].i(), p.axes[0]))];
        int_prod(ints, EXACT) |p, x, B| vec![Int(B::int_prod(x[0].i()))];
        int_prod_dim(ints, EXACT) |p, x, B| vec![Int(B::int_prod_dim(x[0].i(), p.axes[0]))];
        int_mean(filled_ints, EXACT) against Reference::Elements(mean_of_all), |p, x, B| vec![Int(B::int_mean(x[0].i()))];
        int_mean_dim(small_ints, EXACT) |p, x, B| vec![Int(B::int_mean_dim(x[0].i(), p.axes[0]))];
        int_max(filled_ints, EXACT) |p, x, B| vec![Int(B::int_max(x[0].i()))];
        int_max_dim(filled_ints, EXACT) |p, x, B| vec![Int(B::int_max_dim(x[0].i(), p.axes[0]))];
        int_min(filled_ints, EXACT) |p, x, B| vec![Int(B::int_min(x[0].i()))];
        int_min_dim(filled_ints, EXACT) |p, x, B| vec![Int(B::int_min_dim(x[0].i(), p.axes[0]))];
        int_max_dim_with_indices(filled_ints, EXACT) |p, x, B| {
            let (values, indices) = B::int_max_dim_with_indices(x[0].i(), p.axes[0]);
            vec![Int(values), Int(indices)]
        };
        int_min_dim_with_indices(filled_ints, EXACT) |p, x, B| {
            let (values, indices) = B::int_min_dim_with_indices(x[0].i(), p.axes[0]);
            vec![Int(values), Int(indices)]
        };
        int_argmax(filled_ints, EXACT) |p, x, B| vec![Int(B::int_argmax(x[0].i(), p.axes[0]))];
        int_argmin(filled_ints, EXACT) |p, x, B| vec![Int(B::int_argmin(x[0].i(), p.axes[0]))];
        int_max_abs(filled_ints, EXACT) |p, x, B| vec![Int(B::int_max_abs(x[0].i()))];
        int_max_abs_dim(filled_ints, EXACT) |p, x, B| vec![Int(B::int_max_abs_dim(x[0].i(), p.axes[0]))];
        int_any(ints, EXACT) |p, x, B| vec![Bool(B::int_any(x[0].i(), TRUTH))];
        int_any_dim(filled_ints, EXACT) |p, x, B| vec![Bool(B::int_any_dim(x[0].i(), p.axes[0], TRUTH))];
        int_all(ints, EXACT) |p, x, B| vec![Bool(B::int_all(x[0].i(), TRUTH))];
        int_all_dim(filled_ints, EXACT) |p, x, B| vec![Bool(B::int_all_dim(x[0].i(), p.axes[0], TRUTH))];
        int_cumsum(ints, EXACT) |p, x, B| vec![Int(B::int_cumsum(x[0].i(), p.axes[0]))];
        int_cumprod(ints, EXACT) |p, x, B| vec![Int(B::int_cumprod(x[0].i(), p.axes[0]))];
        int_cummax(ints, EXACT) |p, x, B| vec![Int(B::int_cummax(x[0].i(), p.axes[0]))];
        int_cummin(ints, EXACT) |p, x, B| vec![Int(B::int_cummin(x[0].i(), p.axes[0]))];
        bool_any(truths, EXACT) |p, x, B| vec![Bool(B::bool_any(x[0].b()))];
        bool_any_dim(filled_truths, EXACT) |p, x, B| vec![Bool(B::bool_any_dim(x[0].b(), p.axes[0]))];
        bool_all(truths, EXACT) |p, x, B| vec![Bool(B::bool_all(x[0].b()))];
        bool_all_dim(filled_truths, EXACT) |p, x, B| vec![Bool(B::bool_all_dim(x[0].b(), p.axes[0]))];
    }
}

/// Norms of rows and channels.
fn normalised(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let shape = c.filled_shape(2, 4);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Within(-4.0, 4.0));
    let last = [shape[shape.len() - 1]];
    case.input(c, dtype, &last, Within(-2.0, 2.0));
    case.input(c, dtype, &last, Within(-2.0, 2.0));
    case.params.flags = vec![c.one_in(2)];
    case
}

fn channels(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let shape = c.filled_shape(2, 5);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Within(-4.0, 4.0));
    let channels = [shape[1]];
    for domain in [Within(-2.0, 2.0), Within(-2.0, 2.0), Within(-1.0, 1.0), Within(0.5, 3.0)] {
        case.input(c, dtype, &channels, domain);
    }
    case.input(c, dtype, &shape, Within(-1.0, 1.0));
    case
}

/// Units that a mean of equal numbers up to 4 may lose (see [`CHAINS`]), times up to 2 over the root of [`EPSILON`].
const MEAN: f64 = CHAINS * 4.0 * 2.0 * 3.2;

/// A large epsilon: where all values of a row are equal, the quotient of rounding errors is no result.
const EPSILON: f64 = 0.1;

#[rustfmt::skip]
fn norms() -> Vec<Operation> {
    operations! {
        layer_norm(normalised, Scaled(16.0)) |p, x, B| {
            vec![Float(B::layer_norm(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f()), EPSILON))]
        };
        batch_norm(channels, Scaled(16.0)) |p, x, B| {
            vec![Float(B::batch_norm(x[0].f(), x[1].f(), x[2].f(), x[3].f(), x[4].f(), EPSILON))]
        };
        batch_norm_train(channels, Scaled(MEAN)) |p, x, B| {
            let norm = B::batch_norm_train(x[0].f(), x[1].f(), x[2].f(), EPSILON);
            vec![Float(norm.output), Float(norm.mean), Float(norm.variance)]
        };
        batch_norm_train_backward(channels, Cancelling(8.0)) |p, x, B| {
            let grads = B::batch_norm_train_backward(x[0].f(), x[1].f(), x[3].f(), x[4].f(), EPSILON, x[5].f());
            vec![Float(grads.x_grad), Float(grads.gamma_grad), Float(grads.beta_grad)]
        };
    }
}

#[test]
fn reductions_and_scans_of_floats() {
    family("reductions", 120, &reductions());
}

#[test]
fn reductions_and_scans_of_integers() {
    family("integer reductions", 100, &of_integers());
}

#[test]
fn normalisations() {
    family("norms", 30, &norms());
}
