//! Functions of each element of floats.

use super::choices::{Choices, FLOATS, INTS};
use super::numbers::{BOOL, Domain, rounded};
use super::operation::{Operation, Ours, Reference, Tolerance, operations, pointwise};
use super::run::family;
use super::value::{Case, Value};
use crate::sweep::FUNCTIONS;
use Domain::{Any, NonZero, Within};
use Tolerance::{Scaled, Ulps};
use Value::{Bool, Float, Int};
use burn_backend::{BoolDType, DType, Scalar};

fn one(c: &mut Choices) -> Case {
    pointwise(c, FLOATS, 1, Any)
}

fn two(c: &mut Choices) -> Case {
    pointwise(c, FLOATS, 2, Any)
}

/// A scalar that every type of floats has.
fn scalar(c: &mut Choices) -> Scalar {
    Scalar::Float(c.pick(&[1.0, 0.0, -1.0, 2.0, 0.5, -0.25, 3.0, -7.5, 100.0, 1.0 / 1024.0]))
}

fn with_scalar(c: &mut Choices) -> Case {
    let mut case = one(c);
    case.params.scalars = vec![scalar(c)];
    case
}

/// Bounds in order.
fn with_bounds(c: &mut Choices) -> Case {
    let mut case = one(c);
    let low = c.pick(&[-1.0, 0.0, -3.5, 0.5]);
    case.params.scalars = vec![Scalar::Float(low), Scalar::Float(low + c.pick(&[0.0, 1.0, 2.5]))];
    case
}

/// Moderate numbers, whose functions neither overflow in f16 nor cancel.
fn moderate(c: &mut Choices) -> Case {
    pointwise(c, FLOATS, 1, Within(-6.0, 6.0))
}

fn two_moderate(c: &mut Choices) -> Case {
    pointwise(c, FLOATS, 2, Within(-6.0, 6.0))
}

/// What is not in a file of its own elsewhere: the remainder has the sign of the divisor.
fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if b.is_infinite() && a.is_finite() {
        return if a == 0.0 || (a < 0.0) == (b < 0.0) { a } else { b };
    }
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// A mask, a tensor, and one to take the rest from.
fn masked(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let shape = c.shape(0, 5);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Any);
    let mask = c.broadcastable(&shape);
    case.input(c, BOOL, &mask, Any);
    case.input(c, dtype, &shape, Any);
    case.params.scalars = vec![scalar(c)];
    case
}

/// Powers with whole exponents.
fn whole_powers(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let shape = c.shape(0, 4);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Within(-3.0, 3.0));
    case.input(c, DType::I32, &shape, Within(0.0, 4.0));
    case.params.scalars = vec![Scalar::Int(c.pick(&[2, 0, 1, 3, -1, -2, 5]))];
    case
}

fn powers(c: &mut Choices) -> Case {
    let mut case = pointwise(c, FLOATS, 2, Within(0.1, 3.0));
    case.params.scalars = vec![Scalar::Float(c.pick(&[2.0, 0.5, 1.0, 0.0, -1.0, 3.0, -0.5, 1.75]))];
    case
}

/// A change of type.
fn cast(c: &mut Choices) -> Case {
    let mut case = one(c);
    case.params.float = c.pick(FLOATS).into();
    case.params.int = c.pick(INTS).into();
    case
}

/// Numbers next to which nothing is rounded on the way to any type of integers.
fn whole(c: &mut Choices) -> Case {
    let mut case = pointwise(c, FLOATS, 1, Within(-100.0, 100.0));
    case.params.int = c.pick(&INTS[..4]).into();
    case
}

fn channels(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let shape = c.filled_shape(2, 4);
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, Within(-4.0, 4.0));
    let slopes = if c.one_in(2) { 1 } else { shape[1] };
    let mut alpha = vec![1; shape.len()];
    alpha[1] = slopes;
    case.input(c, dtype, &alpha, Within(-1.0, 1.0));
    case
}

fn rows(c: &mut Choices) -> Case {
    super::operation::along_filled(c, FLOATS, Within(-6.0, 6.0))
}

const TRUTH: BoolDType = BoolDType::Native;

/// The functions of one tensor, by the table of the sweep.
fn unary() -> Vec<Operation> {
    let row = |&(name, ours, exact): &crate::sweep::Function| Operation {
        name,
        draw: one,
        ours: Ours::Unary(ours),
        reference: Reference::Pointwise(exact),
        // 2 in f32 (see the sweep); the reference in f64 is off by up to one itself.
        tolerance: Ulps(4.0),
    };
    FUNCTIONS.iter().map(row).collect()
}

#[rustfmt::skip]
fn binary() -> Vec<Operation> {
    operations! {
        float_add(two, Ulps(1.0)) against Reference::Pair(|a, b| a + b), |p, x, B| vec![Float(B::float_add(x[0].f(), x[1].f()))];
        float_sub(two, Ulps(1.0)) against Reference::Pair(|a, b| a - b), |p, x, B| vec![Float(B::float_sub(x[0].f(), x[1].f()))];
        float_mul(two, Ulps(1.0)) against Reference::Pair(|a, b| a * b), |p, x, B| vec![Float(B::float_mul(x[0].f(), x[1].f()))];
        float_div(two, Ulps(1.0)) against Reference::Pair(|a, b| a / b), |p, x, B| vec![Float(B::float_div(x[0].f(), x[1].f()))];
        float_remainder(|c| pointwise(c, FLOATS, 2, NonZero), Ulps(1.0)) against Reference::Pair(remainder),
            |p, x, B| vec![Float(B::float_remainder(x[0].f(), x[1].f()))];
        float_powf(two, Ulps(4.0)) against Reference::Pair(f64::powf), |p, x, B| vec![Float(B::float_powf(x[0].f(), x[1].f()))];
        float_atan2(two, Ulps(4.0)) against Reference::Pair(f64::atan2), |p, x, B| vec![Float(B::float_atan2(x[0].f(), x[1].f()))];
        float_hypot(two_moderate, Ulps(6.0)) against Reference::Pair(f64::hypot), |p, x, B| vec![Float(B::float_hypot(x[0].f(), x[1].f()))];
        float_powi(whole_powers, Ulps(8.0)) |p, x, B| vec![Float(B::float_powi(x[0].f(), x[1].i()))];
        float_powi_scalar(whole_powers, Ulps(8.0)) |p, x, B| vec![Float(B::float_powi_scalar(x[0].f(), p.scalars[0]))];
        float_powf_scalar(powers, Ulps(4.0)) |p, x, B| vec![Float(B::float_powf_scalar(x[0].f(), p.scalars[0]))];
        float_add_scalar(with_scalar, Ulps(1.0)) |p, x, B| vec![Float(B::float_add_scalar(x[0].f(), p.scalars[0]))];
        float_sub_scalar(with_scalar, Ulps(1.0)) |p, x, B| vec![Float(B::float_sub_scalar(x[0].f(), p.scalars[0]))];
        float_mul_scalar(with_scalar, Ulps(1.0)) |p, x, B| vec![Float(B::float_mul_scalar(x[0].f(), p.scalars[0]))];
        float_div_scalar(with_scalar, Ulps(1.0)) |p, x, B| vec![Float(B::float_div_scalar(x[0].f(), p.scalars[0]))];
        float_remainder_scalar(with_scalar, Ulps(1.0)) |p, x, B| vec![Float(B::float_remainder_scalar(x[0].f(), p.scalars[0]))];
        float_clamp(with_bounds, Ulps(0.0)) |p, x, B| vec![Float(B::float_clamp(x[0].f(), p.scalars[0], p.scalars[1]))];
        float_clamp_min(with_bounds, Ulps(0.0)) |p, x, B| vec![Float(B::float_clamp_min(x[0].f(), p.scalars[0]))];
        float_clamp_max(with_bounds, Ulps(0.0)) |p, x, B| vec![Float(B::float_clamp_max(x[0].f(), p.scalars[0]))];
        float_mask_where(masked, Ulps(0.0)) |p, x, B| vec![Float(B::float_mask_where(x[0].f(), x[1].b(), x[2].f()))];
        float_mask_fill(masked, Ulps(0.0)) |p, x, B| vec![Float(B::float_mask_fill(x[0].f(), x[1].b(), p.scalars[0]))];
        float_is_nan(one, Ulps(0.0)) |p, x, B| vec![Bool(B::float_is_nan(x[0].f(), TRUTH))];
        float_is_inf(one, Ulps(0.0)) |p, x, B| vec![Bool(B::float_is_inf(x[0].f(), TRUTH))];
        float_cast(cast, Ulps(0.5)) |p, x, B| vec![Float(B::float_cast(x[0].f(), p.float))];
        float_into_int(cast, Ulps(0.0)) |p, x, B| vec![Int(B::float_into_int(x[0].f(), p.int))];
        float_into_int_whole(whole, Ulps(0.0)) |p, x, B| vec![Int(B::float_into_int(x[0].f(), p.int))];
    }
}

#[rustfmt::skip]
fn comparisons() -> Vec<Operation> {
    operations! {
        float_equal(two, Ulps(0.0)) |p, x, B| vec![Bool(B::float_equal(x[0].f(), x[1].f(), TRUTH))];
        float_not_equal(two, Ulps(0.0)) |p, x, B| vec![Bool(B::float_not_equal(x[0].f(), x[1].f(), TRUTH))];
        float_greater(two, Ulps(0.0)) |p, x, B| vec![Bool(B::float_greater(x[0].f(), x[1].f(), TRUTH))];
        float_greater_equal(two, Ulps(0.0)) |p, x, B| vec![Bool(B::float_greater_equal(x[0].f(), x[1].f(), TRUTH))];
        float_lower(two, Ulps(0.0)) |p, x, B| vec![Bool(B::float_lower(x[0].f(), x[1].f(), TRUTH))];
        float_lower_equal(two, Ulps(0.0)) |p, x, B| vec![Bool(B::float_lower_equal(x[0].f(), x[1].f(), TRUTH))];
        float_equal_elem(with_scalar, Ulps(0.0)) |p, x, B| vec![Bool(B::float_equal_elem(x[0].f(), p.scalars[0], TRUTH))];
        float_not_equal_elem(with_scalar, Ulps(0.0)) |p, x, B| vec![Bool(B::float_not_equal_elem(x[0].f(), p.scalars[0], TRUTH))];
        float_greater_elem(with_scalar, Ulps(0.0)) |p, x, B| vec![Bool(B::float_greater_elem(x[0].f(), p.scalars[0], TRUTH))];
        float_greater_equal_elem(with_scalar, Ulps(0.0)) |p, x, B| vec![Bool(B::float_greater_equal_elem(x[0].f(), p.scalars[0], TRUTH))];
        float_lower_elem(with_scalar, Ulps(0.0)) |p, x, B| vec![Bool(B::float_lower_elem(x[0].f(), p.scalars[0], TRUTH))];
        float_lower_equal_elem(with_scalar, Ulps(0.0)) |p, x, B| vec![Bool(B::float_lower_equal_elem(x[0].f(), p.scalars[0], TRUTH))];
    }
}

#[rustfmt::skip]
fn activations() -> Vec<Operation> {
    operations! {
        relu(one, Ulps(0.0)) |p, x, B| vec![Float(B::relu(x[0].f()))];
        relu_backward(two_moderate, Ulps(0.0)) |p, x, B| vec![Float(B::relu_backward(x[0].f(), x[1].f()))];
        leaky_relu(with_scalar, Ulps(1.0)) |p, x, B| vec![Float(B::leaky_relu(x[0].f(), p.scalars[0]))];
        prelu(channels, Ulps(1.0)) |p, x, B| vec![Float(B::prelu(x[0].f(), x[1].f()))];
        gelu(moderate, Scaled(4.0)) |p, x, B| vec![Float(B::gelu(x[0].f()))];
        gelu_backward(two_moderate, Scaled(6.0)) |p, x, B| vec![Float(B::gelu_backward(x[0].f(), x[1].f()))];
        sigmoid_backward(two_moderate, Scaled(6.0)) |p, x, B| vec![Float(B::sigmoid_backward(x[0].f(), x[1].f()))];
        hard_sigmoid(with_bounds, Scaled(2.0)) |p, x, B| vec![Float(B::hard_sigmoid(x[0].f(), p.scalars[0], p.scalars[1]))];
        log_sigmoid(moderate, Scaled(4.0)) |p, x, B| vec![Float(B::log_sigmoid(x[0].f()))];
        log_sigmoid_backward(two_moderate, Scaled(6.0)) |p, x, B| vec![Float(B::log_sigmoid_backward(x[0].f(), x[1].f()))];
        softmax(rows, Scaled(4.0)) |p, x, B| vec![Float(B::softmax(x[0].f(), p.axes[0]))];
        log_softmax(rows, Scaled(6.0)) |p, x, B| vec![Float(B::log_softmax(x[0].f(), p.axes[0]))];
        softmin(rows, Scaled(4.0)) |p, x, B| vec![Float(B::softmin(x[0].f(), p.axes[0]))];
    }
}

#[test]
fn functions_of_one_tensor() {
    family("unary", 80, &unary());
}

#[test]
fn functions_of_two_tensors() {
    family("binary", 110, &binary());
}

#[test]
fn comparisons_of_floats() {
    family("comparisons", 50, &comparisons());
}

#[test]
fn activation_functions() {
    family("activations", 60, &activations());
}

/// Rounds as the tables do.
#[test]
fn numbers_are_rounded_to_their_types() {
    assert_eq!(rounded(1.0 + 2f64.powi(-9), DType::BF16), 1.0);
}
