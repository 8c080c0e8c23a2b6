//! Functions of each element of integers and truth values: exact, results wrap.

use super::choices::{Choices, FLOATS, INTS};
use super::layout::{Positions, View};
use super::numbers::{BOOL, Domain, Numbers, range};
use super::operation::{Elements, Operation, Reference, Tolerance, operations, pointwise};
use super::run::family;
use super::value::{Case, Params, Value};
use super::views::shape_of;
use Domain::{Any, NonZero, Within};
use Value::{Bool, Float, Int};
use burn_backend::{BoolDType, DType, Scalar};

const TRUTH: BoolDType = BoolDType::Native;
const EXACT: Tolerance = Tolerance::Ulps(0.5);

fn one(c: &mut Choices) -> Case {
    pointwise(c, INTS, 1, Any)
}

fn two(c: &mut Choices) -> Case {
    pointwise(c, INTS, 2, Any)
}

/// A scalar that the type has.
fn with_scalar(c: &mut Choices) -> Case {
    let mut case = one(c);
    let (low, high) = range(case.inputs[0].dtype);
    let value = c.pick(&[1, 0, 2, 3, 7, -1, -3, 100, low, high, high / 2]).clamp(low, high);
    case.params.scalars = vec![i64::try_from(value).map_or(Scalar::UInt(value as u64), Scalar::Int)];
    case
}

fn with_divisor(c: &mut Choices) -> Case {
    let mut case = with_scalar(c);
    if matches!(case.params.scalars[0], Scalar::Int(0)) {
        case.params.scalars[0] = Scalar::Int(5);
    }
    case
}

fn quotient(c: &mut Choices) -> Case {
    let mut case = two(c);
    case.inputs[1].domain = NonZero;
    // What lies beside a slice in memory is drawn from the same domain, so divisors are never zero.
    case
}

/// Each element of the first operand with that of the second, or the scalar.
fn each_pair(p: &Params, x: &[Elements], function: impl Fn(i128, i128) -> i128) -> Vec<Numbers> {
    let integers = |numbers: &Numbers| match numbers {
        Numbers::Ints(values) => values.clone(),
        Numbers::Floats(_) => Vec::new(),
    };
    let dtype = DType::from(p.int);
    let wrapped = |value: i128| {
        let (low, high) = range(dtype);
        low + (value - low).rem_euclid(high - low + 1)
    };
    let scalar = match p.scalars.first() {
        Some(Scalar::Int(value)) => Some(*value as i128),
        Some(Scalar::UInt(value)) => Some(*value as i128),
        _ => None,
    };
    let (a, b) = match scalar {
        Some(value) => (integers(&x[0].0), vec![value; x[0].0.len()]),
        None => {
            let shape: Vec<usize> =
                x[0].1.iter().zip(&x[1].1).map(|(&a, &b)| if a == 1 { b } else { a }).collect();
            let spread = |(numbers, of): &Elements| {
                let shown = Positions::whole(of).view(&View::Expand(shape.clone()));
                integers(&numbers.at(&shown.at))
            };
            (spread(&x[0]), spread(&x[1]))
        }
    };
    vec![Numbers::Ints(a.into_iter().zip(b).map(|(a, b)| wrapped(function(a, b))).collect())]
}

/// Towards zero, as in Rust; the quotient of the smallest number and -1 wraps, which burn-flex panics at.
fn quotients(p: &Params, x: &[Elements]) -> Vec<Numbers> {
    each_pair(p, x, |a, b| a / b)
}

/// With the sign of the divisor.
fn remainders(p: &Params, x: &[Elements]) -> Vec<Numbers> {
    each_pair(p, x, |a, b| {
        let rest = a % b;
        if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
    })
}

fn with_bounds(c: &mut Choices) -> Case {
    let mut case = one(c);
    let low = c.within(0, 5) as i64;
    case.params.scalars = vec![Scalar::Int(low), Scalar::Int(low + c.within(0, 4) as i64)];
    case
}

/// Distances that shift something out, but not everything.
fn shift(c: &mut Choices) -> Case {
    let mut case = two(c);
    let bits = 8 * case.inputs[0].dtype.size();
    case.inputs[1].domain = Within(0.0, bits as f64);
    case.params.scalars = vec![Scalar::Int(c.below(bits) as i64)];
    case
}

fn power(c: &mut Choices) -> Case {
    let mut case = two(c);
    case.inputs[1].domain = Within(0.0, 6.0);
    case.params.scalars = vec![Scalar::Int(c.within(0, 6) as i64)];
    case
}

fn masked(c: &mut Choices) -> Case {
    let mut case = with_scalar(c);
    let dtype = case.inputs[0].dtype;
    let shape = shape_of(&case);
    let mask = c.broadcastable(&shape);
    case.input(c, BOOL, &mask, Any);
    case.input(c, dtype, &shape, Any);
    case
}

fn cast(c: &mut Choices) -> Case {
    let mut case = one(c);
    case.params.int = c.pick(INTS).into();
    case.params.float = c.pick(FLOATS).into();
    case
}

fn truth(c: &mut Choices) -> Case {
    let mut case = pointwise(c, &[BOOL], 1, Any);
    case.params.int = c.pick(INTS).into();
    case.params.float = c.pick(FLOATS).into();
    case.params.scalars = vec![Scalar::Bool(c.one_in(2))];
    case
}

fn truths(c: &mut Choices) -> Case {
    pointwise(c, &[BOOL], 2, Any)
}

fn truth_masked(c: &mut Choices) -> Case {
    let mut case = truth(c);
    let shape = shape_of(&case);
    let mask = c.broadcastable(&shape);
    case.input(c, BOOL, &mask, Any);
    case.input(c, BOOL, &shape, Any);
    case
}

#[rustfmt::skip]
fn arithmetic() -> Vec<Operation> {
    operations! {
        int_neg(one, EXACT) |p, x, B| vec![Int(B::int_neg(x[0].i()))];
        int_abs(one, EXACT) |p, x, B| vec![Int(B::int_abs(x[0].i()))];
        int_sign(one, EXACT) |p, x, B| vec![Int(B::int_sign(x[0].i()))];
        int_square(one, EXACT) |p, x, B| vec![Int(B::int_square(x[0].i()))];
        bitwise_not(one, EXACT) |p, x, B| vec![Int(B::bitwise_not(x[0].i()))];
        int_add(two, EXACT) |p, x, B| vec![Int(B::int_add(x[0].i(), x[1].i()))];
        int_sub(two, EXACT) |p, x, B| vec![Int(B::int_sub(x[0].i(), x[1].i()))];
        int_mul(two, EXACT) |p, x, B| vec![Int(B::int_mul(x[0].i(), x[1].i()))];
        int_div(quotient, EXACT) against Reference::Elements(quotients), |p, x, B| vec![Int(B::int_div(x[0].i(), x[1].i()))];
        int_remainder(quotient, EXACT) against Reference::Elements(remainders), |p, x, B| vec![Int(B::int_remainder(x[0].i(), x[1].i()))];
        int_powi(power, EXACT) |p, x, B| vec![Int(B::int_powi(x[0].i(), x[1].i()))];
        int_powi_scalar(power, EXACT) |p, x, B| vec![Int(B::int_powi_scalar(x[0].i(), p.scalars[0]))];
        int_add_scalar(with_scalar, EXACT) |p, x, B| vec![Int(B::int_add_scalar(x[0].i(), p.scalars[0]))];
        int_sub_scalar(with_scalar, EXACT) |p, x, B| vec![Int(B::int_sub_scalar(x[0].i(), p.scalars[0]))];
        int_mul_scalar(with_scalar, EXACT) |p, x, B| vec![Int(B::int_mul_scalar(x[0].i(), p.scalars[0]))];
        int_div_scalar(with_divisor, EXACT) against Reference::Elements(quotients), |p, x, B| vec![Int(B::int_div_scalar(x[0].i(), p.scalars[0]))];
        int_remainder_scalar(with_divisor, EXACT) against Reference::Elements(remainders), |p, x, B| vec![Int(B::int_remainder_scalar(x[0].i(), p.scalars[0]))];
        int_clamp(with_bounds, EXACT) |p, x, B| vec![Int(B::int_clamp(x[0].i(), p.scalars[0], p.scalars[1]))];
        int_clamp_min(with_scalar, EXACT) |p, x, B| vec![Int(B::int_clamp_min(x[0].i(), p.scalars[0]))];
        int_clamp_max(with_scalar, EXACT) |p, x, B| vec![Int(B::int_clamp_max(x[0].i(), p.scalars[0]))];
        int_mask_where(masked, EXACT) |p, x, B| vec![Int(B::int_mask_where(x[0].i(), x[1].b(), x[2].i()))];
        int_mask_fill(masked, EXACT) |p, x, B| vec![Int(B::int_mask_fill(x[0].i(), x[1].b(), p.scalars[0]))];
        int_cast(cast, EXACT) |p, x, B| vec![Int(B::int_cast(x[0].i(), p.int))];
        int_into_float(cast, EXACT) |p, x, B| vec![Float(B::int_into_float(x[0].i(), p.float))];
        bitwise_and(two, EXACT) |p, x, B| vec![Int(B::bitwise_and(x[0].i(), x[1].i()))];
        bitwise_or(two, EXACT) |p, x, B| vec![Int(B::bitwise_or(x[0].i(), x[1].i()))];
        bitwise_xor(two, EXACT) |p, x, B| vec![Int(B::bitwise_xor(x[0].i(), x[1].i()))];
        bitwise_and_scalar(with_scalar, EXACT) |p, x, B| vec![Int(B::bitwise_and_scalar(x[0].i(), p.scalars[0]))];
        bitwise_or_scalar(with_scalar, EXACT) |p, x, B| vec![Int(B::bitwise_or_scalar(x[0].i(), p.scalars[0]))];
        bitwise_xor_scalar(with_scalar, EXACT) |p, x, B| vec![Int(B::bitwise_xor_scalar(x[0].i(), p.scalars[0]))];
        bitwise_left_shift(shift, EXACT) |p, x, B| vec![Int(B::bitwise_left_shift(x[0].i(), x[1].i()))];
        bitwise_right_shift(shift, EXACT) |p, x, B| vec![Int(B::bitwise_right_shift(x[0].i(), x[1].i()))];
        bitwise_left_shift_scalar(shift, EXACT) |p, x, B| vec![Int(B::bitwise_left_shift_scalar(x[0].i(), p.scalars[0]))];
        bitwise_right_shift_scalar(shift, EXACT) |p, x, B| vec![Int(B::bitwise_right_shift_scalar(x[0].i(), p.scalars[0]))];
    }
}

#[rustfmt::skip]
fn comparisons() -> Vec<Operation> {
    operations! {
        int_equal(two, EXACT) |p, x, B| vec![Bool(B::int_equal(x[0].i(), x[1].i(), TRUTH))];
        int_not_equal(two, EXACT) |p, x, B| vec![Bool(B::int_not_equal(x[0].i(), x[1].i(), TRUTH))];
        int_greater(two, EXACT) |p, x, B| vec![Bool(B::int_greater(x[0].i(), x[1].i(), TRUTH))];
        int_greater_equal(two, EXACT) |p, x, B| vec![Bool(B::int_greater_equal(x[0].i(), x[1].i(), TRUTH))];
        int_lower(two, EXACT) |p, x, B| vec![Bool(B::int_lower(x[0].i(), x[1].i(), TRUTH))];
        int_lower_equal(two, EXACT) |p, x, B| vec![Bool(B::int_lower_equal(x[0].i(), x[1].i(), TRUTH))];
        int_equal_elem(with_scalar, EXACT) |p, x, B| vec![Bool(B::int_equal_elem(x[0].i(), p.scalars[0], TRUTH))];
        int_not_equal_elem(with_scalar, EXACT) |p, x, B| vec![Bool(B::int_not_equal_elem(x[0].i(), p.scalars[0], TRUTH))];
        int_greater_elem(with_scalar, EXACT) |p, x, B| vec![Bool(B::int_greater_elem(x[0].i(), p.scalars[0], TRUTH))];
        int_greater_equal_elem(with_scalar, EXACT) |p, x, B| vec![Bool(B::int_greater_equal_elem(x[0].i(), p.scalars[0], TRUTH))];
        int_lower_elem(with_scalar, EXACT) |p, x, B| vec![Bool(B::int_lower_elem(x[0].i(), p.scalars[0], TRUTH))];
        int_lower_equal_elem(with_scalar, EXACT) |p, x, B| vec![Bool(B::int_lower_equal_elem(x[0].i(), p.scalars[0], TRUTH))];
        bool_not(truth, EXACT) |p, x, B| vec![Bool(B::bool_not(x[0].b()))];
        bool_and(truths, EXACT) |p, x, B| vec![Bool(B::bool_and(x[0].b(), x[1].b()))];
        bool_or(truths, EXACT) |p, x, B| vec![Bool(B::bool_or(x[0].b(), x[1].b()))];
        bool_xor(truths, EXACT) |p, x, B| vec![Bool(B::bool_xor(x[0].b(), x[1].b()))];
        bool_equal(truths, EXACT) |p, x, B| vec![Bool(B::bool_equal(x[0].b(), x[1].b()))];
        bool_not_equal(truths, EXACT) |p, x, B| vec![Bool(B::bool_not_equal(x[0].b(), x[1].b()))];
        bool_equal_elem(truth, EXACT) |p, x, B| vec![Bool(B::bool_equal_elem(x[0].b(), p.scalars[0]))];
        bool_not_equal_elem(truth, EXACT) |p, x, B| vec![Bool(B::bool_not_equal_elem(x[0].b(), p.scalars[0]))];
        bool_into_int(truth, EXACT) |p, x, B| vec![Int(B::bool_into_int(x[0].b(), p.int))];
        bool_into_float(truth, EXACT) |p, x, B| vec![Float(B::bool_into_float(x[0].b(), p.float))];
        bool_mask_where(truth_masked, EXACT) |p, x, B| vec![Bool(B::bool_mask_where(x[0].b(), x[1].b(), x[2].b()))];
        bool_mask_fill(truth_masked, EXACT) |p, x, B| vec![Bool(B::bool_mask_fill(x[0].b(), x[1].b(), p.scalars[0]))];
    }
}

#[test]
fn arithmetic_of_integers() {
    family("integers", 120, &arithmetic());
}

#[test]
fn comparisons_of_integers_and_truth_values() {
    family("truth", 80, &comparisons());
}
