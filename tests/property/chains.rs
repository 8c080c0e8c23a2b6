//! Programs of some operations, each of results of those before: what fusion has to keep right.
//!
//! What is done is decoded from a list of numbers and the shapes at hand, the same on both backends. Operations of
//! floats are continuous and keep values small, so that rounding stays rounding.

use super::choices::{Choices, FLOATS, INTS};
use super::numbers::Domain;
use super::operation::{Operation, Tolerance, operations};
use super::run::family;
use super::value::{Case, Params, Value};
use crate::support::devices::Tested;
use Domain::{Any, Within};
use Value::{Float, Int};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{BoolDType, DType, FloatDType, IntDType, Scalar, Shape, Slice, TensorMetadata};

const TRUTH: BoolDType = BoolDType::Native;

/// Elements that no step goes beyond.
const LIMIT: usize = 6000;

fn program(c: &mut Choices, types: &[DType], domain: Domain) -> Case {
    let dtype = c.pick(types);
    let mut case = Case::of(c, dtype);
    let shape = c.filled_shape(1, 4);
    for _ in 0..c.within(1, 3) {
        case.input(c, dtype, &shape, domain);
    }
    // Of each step four numbers.
    let steps = c.within(2, 12);
    case.params.numbers = (0..4 * steps).map(|_| c.below(1 << 12)).collect();
    case
}

/// The tensors of a program so far, and what to do next.
struct Steps<'a, T> {
    numbers: std::slice::Iter<'a, usize>,
    tensors: Vec<T>,
}

impl<T: Clone + TensorMetadata> Steps<'_, T> {
    fn below(&mut self, count: usize) -> usize {
        self.numbers.next().copied().unwrap_or(0) % count
    }

    fn tensor(&mut self) -> T {
        // Late ones more often.
        let back = self.below(3).min(self.tensors.len() - 1);
        self.tensors[self.tensors.len() - 1 - back].clone()
    }

    /// A tensor of this shape other than the last, if there is one.
    fn like(&mut self, shape: &Shape) -> Option<T> {
        let at = self.below(self.tensors.len());
        let rotated = self.tensors[at..].iter().chain(&self.tensors[..at]);
        rotated.into_iter().find(|tensor| tensor.shape() == *shape).cloned()
    }
}

/// A pattern of truth values by the position along the last axis.
fn pattern<B: Tested>(shape: &Shape, below: usize) -> BoolTensor<B> {
    let last = shape[shape.len() - 1];
    let positions = B::int_arange(0..last as i64, &B::current(), IntDType::I32);
    let mask = B::int_lower_elem(positions, Scalar::Int(below as i64), TRUTH);
    let mut ones = vec![1; shape.len()];
    ones[shape.len() - 1] = last;
    B::bool_expand(B::bool_reshape(mask, Shape::from(ones)), shape.clone())
}

/// `count` indices into an axis, computed from positions.
fn indices<B: Tested>(count: usize, extent: usize, factor: usize) -> IntTensor<B> {
    let positions = B::int_arange(0..count as i64, &B::current(), IntDType::I32);
    let spread = B::int_mul_scalar(positions, Scalar::Int(factor as i64 + 1));
    B::int_remainder_scalar(spread, Scalar::Int(extent as i64))
}

/// A part of each axis.
fn part(shape: &Shape, number: usize) -> Vec<Slice> {
    let one = |(axis, &extent): (usize, &usize)| {
        let from = (number >> axis) % 3 % extent;
        Slice::new(from as isize, None, [1, 2, -1][(number >> (axis + 2)) % 3])
    };
    shape.iter().enumerate().map(one).collect()
}

/// Another shape of the same elements.
fn reshaped(shape: &Shape) -> Shape {
    let all: Vec<usize> = shape.iter().copied().collect();
    let count: usize = all.iter().product();
    Shape::from(if all.len() > 2 {
        vec![all[0] * all[1], count / (all[0] * all[1])]
    } else if count.is_multiple_of(2) {
        vec![2, 1, count / 2]
    } else {
        vec![count, 1]
    })
}

/// The axes in another order.
fn rotated(rank: usize, number: usize) -> Vec<usize> {
    (0..rank).map(|axis| (axis + number) % rank).collect()
}

fn float_step<B: Tested>(steps: &mut Steps<'_, FloatTensor<B>>, p: &Params) -> FloatTensor<B> {
    let x = steps.tensor();
    let (kind, number) = (steps.below(23), steps.below(64));
    let shape = x.shape();
    let axis = number % shape.len();
    let mean = |sum: FloatTensor<B>, count: usize| B::float_div_scalar(sum, (count.max(1) as f64).into());
    let other = match kind {
        4..=7 | 16 => steps.like(&shape).unwrap_or_else(|| B::float_flip(x.clone(), &[axis])),
        _ => x.clone(),
    };
    match kind {
        0 => B::float_tanh(x),
        1 => B::float_sin(x),
        2 => B::sigmoid(x),
        3 => B::float_sqrt(B::float_add_scalar(B::float_abs(x), 0.25.into())),
        4 => B::float_mul_scalar(B::float_add(x, other), 0.5.into()),
        5 => B::float_sub(x, B::float_mul_scalar(other, 0.25.into())),
        6 => B::float_tanh(B::float_mul(x, other)),
        7 => B::float_mask_where(x, pattern::<B>(&shape, number % 9), other),
        8 => B::float_mul_scalar(x, (0.25 + number as f64 / 64.0).into()),
        9 => mean(B::float_sum_dim(x, axis), shape[axis]),
        10 => B::float_sub(x.clone(), B::float_max_dim(x, axis)),
        11 => B::softmax(x, axis),
        12 => B::float_permute(x, &rotated(shape.len(), number)),
        13 => B::float_reshape(x, reshaped(&shape)),
        14 => B::float_slice(x, &part(&shape, number)),
        15 => B::float_flip(x, &[axis]),
        16 if 2 * shape.num_elements() < LIMIT => B::float_cat(vec![x, other], axis),
        17 if shape.len() > 1 && shape.num_elements() * shape[shape.len() - 2] < 8 * LIMIT => {
            let transposed = B::float_transpose(x.clone());
            let inner = shape[shape.len() - 1];
            let product = B::float_matmul(x, transposed);
            B::float_tanh(mean(product, inner))
        }
        18 => mean(B::float_cumsum(x, axis), shape[axis]),
        19 => B::float_select(x, axis, indices::<B>(1 + number % 20, shape[axis], number)),
        20 => B::float_sort(x, axis, number % 2 == 0),
        21 => {
            let part = part(&shape, number);
            let value = B::float_neg(B::float_slice(x.clone(), &part));
            B::float_slice_assign(x, &part, value)
        }
        22 => {
            let narrow = if number % 2 == 0 { FloatDType::F32 } else { FloatDType::F64 };
            B::float_cast(B::float_cast(x, narrow), p.float)
        }
        _ => B::float_clamp(x, (-0.75).into(), 1.5.into()),
    }
}

/// All that is left at the end: every tensor of the program, as what is only passed on has to be right, too.
fn floats<B: Tested>(p: &Params, x: &[Value<B>]) -> Vec<Value<B>> {
    let mut steps = Steps { numbers: p.numbers.iter(), tensors: x.iter().map(Value::f).collect() };
    for _ in 0..p.numbers.len() / 4 {
        let next = float_step::<B>(&mut steps, p);
        if next.shape().num_elements() <= LIMIT {
            steps.tensors.push(next);
        }
    }
    let first = steps.tensors.len().saturating_sub(3);
    steps.tensors.drain(first..).map(Float).collect()
}

fn int_step<B: Tested>(steps: &mut Steps<'_, IntTensor<B>>, p: &Params) -> IntTensor<B> {
    let x = steps.tensor();
    let (kind, number) = (steps.below(24), steps.below(64));
    let shape = x.shape();
    let axis = number % shape.len();
    let other = match kind {
        0..=6 | 16 => steps.like(&shape).unwrap_or_else(|| B::int_flip(x.clone(), &[axis])),
        _ => x.clone(),
    };
    match kind {
        0 => B::int_add(x, other),
        1 => B::int_sub(x, other),
        2 => B::int_mul(x, other),
        3 => B::bitwise_xor(x, other),
        4 => B::int_mask_where(x.clone(), B::int_greater(x, other.clone(), TRUTH), other),
        5 => B::bool_into_int(B::int_lower_equal(x, other, TRUTH), p.int),
        6 => B::int_mask_where(x, pattern::<B>(&shape, number % 9), other),
        7 => B::bitwise_right_shift_scalar(x, Scalar::Int(number as i64 % 7)),
        8 => B::int_mul_scalar(x, Scalar::Int(number as i64)),
        9 => B::int_sum_dim(x, axis),
        10 => B::int_sub(x.clone(), B::int_max_dim(x, axis)),
        11 => B::int_cumsum(x, axis),
        12 => B::int_permute(x, &rotated(shape.len(), number)),
        13 => B::int_reshape(x, reshaped(&shape)),
        14 => B::int_slice(x, &part(&shape, number)),
        15 => B::int_flip(x, &[axis]),
        16 if 2 * shape.num_elements() < LIMIT => B::int_cat(vec![x, other], axis),
        17 if shape.len() > 1 && shape.num_elements() * shape[shape.len() - 2] < 8 * LIMIT => {
            // burn-flex multiplies matrices of few integer types.
            let wide = B::int_cast(x, IntDType::I64);
            let transposed = B::int_transpose(wide.clone());
            B::int_cast(B::int_matmul(wide, transposed), p.int)
        }
        18 => B::int_cummax(x, axis),
        19 => B::int_select(x, axis, indices::<B>(1 + number % 20, shape[axis], number)),
        20 => B::int_sort(x, axis, number % 2 == 0),
        21 => {
            let part = part(&shape, number);
            let value = B::bitwise_not(B::int_slice(x.clone(), &part));
            B::int_slice_assign(x, &part, value)
        }
        22 => B::int_cast(B::int_cast(x, IntDType::I16), p.int),
        23 => B::int_cast(B::int_argmax(x, axis), p.int),
        _ => B::int_abs(x),
    }
}

fn ints<B: Tested>(p: &Params, x: &[Value<B>]) -> Vec<Value<B>> {
    let mut steps = Steps { numbers: p.numbers.iter(), tensors: x.iter().map(Value::i).collect() };
    for _ in 0..p.numbers.len() / 4 {
        let next = int_step::<B>(&mut steps, p);
        if next.shape().num_elements() <= LIMIT {
            steps.tensors.push(next);
        }
    }
    let first = steps.tensors.len().saturating_sub(3);
    steps.tensors.drain(first..).map(Int).collect()
}

fn operations() -> Vec<Operation> {
    operations! {
        // With a change to f32 and back.
        chain_of_doubles(|c| program(c, &[DType::F64], Within(-2.0, 2.0)), Tolerance::Scaled(2f64.powi(34)))
            |p, x, B| floats::<B>(p, x);
        chain_of_floats(|c| program(c, FLOATS, Within(-2.0, 2.0)), Tolerance::Scaled(256.0))
            |p, x, B| floats::<B>(p, x);
        chain_of_integers(|c| program(c, INTS, Any), Tolerance::Ulps(0.0)) |p, x, B| ints::<B>(p, x);
    }
}

#[test]
fn chains_of_operations() {
    family("chains", 100, &operations());
}
