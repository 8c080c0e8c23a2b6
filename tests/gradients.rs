//! Gradients of `Autodiff<Mlir>` against central differences in f64.
//!
//! A row is a function of some tensors. Its loss is the sum of its result's elements times fixed numbers, and what is
//! compared is the gradient along random directions, into which every element of every operand goes: a loss or two
//! instead of two for each element.

mod elements;
mod images;
mod layers;
mod shapes;

use crate::property::numbers::Random;
use crate::support::devices::{Tested, current, each};
use burn_autodiff::Autodiff;
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{AutodiffBackend, Backend, Shape, TensorData, TensorMetadata, read_sync};
use burn_mlir::{Mlir, MlirTensor};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Differentiated = Autodiff<Mlir>;

/// The shape of an operand and the range of its values.
pub type Operand = (&'static [usize], f64, f64);

/// A function to differentiate.
pub struct Row {
    name: &'static str,
    operands: &'static [Operand],
    differentiated: fn(&[FloatTensor<Differentiated>]) -> FloatTensor<Differentiated>,
    plain: fn(&[MlirTensor]) -> MlirTensor,
}

/// Rows of `name[operands] |x, Backend| result;`.
macro_rules! rows {
    ($($name:ident[$($operand:expr),* $(,)?] |$x:ident, $B:ident| $body:expr;)*) => {
        &[$({
            fn run<$B: crate::support::devices::Tested>(
                $x: &[burn_backend::tensor::FloatTensor<$B>],
            ) -> burn_backend::tensor::FloatTensor<$B> {
                $body
            }
            crate::gradients::Row {
                name: stringify!($name),
                operands: &[$($operand),*],
                differentiated: run::<burn_autodiff::Autodiff<burn_mlir::Mlir>>,
                plain: run::<burn_mlir::Mlir>,
            }
        }),*]
    };
}
use rows;

/// Integers of a list.
pub fn ints<B: Backend + Tested>(values: &[i64], shape: &[usize]) -> IntTensor<B> {
    let data = TensorData::new(values.to_vec(), Shape::from(shape.to_vec()));
    B::int_from_data(data, &B::current())
}

/// Truth values of a list.
pub fn bools<B: Backend + Tested>(values: &[bool], shape: &[usize]) -> burn_backend::tensor::BoolTensor<B> {
    let data = TensorData::new(values.to_vec(), Shape::from(shape.to_vec()));
    B::bool_from_data(data, &B::current())
}

/// The step of a difference. Its error is of third order, that of rounding 1e-10.
const STEP: f64 = 1e-6;

/// How far a difference may be off, relative to its terms.
const TOLERANCE: f64 = 1e-6;

/// Directions to differentiate along.
const DIRECTIONS: usize = 3;

fn data(values: &[f64], shape: &[usize]) -> TensorData {
    TensorData::new(values.to_vec(), Shape::from(shape.to_vec()))
}

/// Numbers that look random and that no two rows of a tensor share.
fn numbers(count: usize, low: f64, high: f64, salt: u64) -> Vec<f64> {
    let mut random = Random(salt.wrapping_mul(0x9E37_79B9));
    (0..count).map(|_| low + (high - low) * random.unit()).collect()
}

fn values(tensor: MlirTensor) -> Vec<f64> {
    read_sync(Mlir::float_into_data(tensor)).expect("it computes").iter::<f64>().collect()
}

/// Compares one function's gradients, and says where they differ.
fn compare(row: &Row) -> Result<(), String> {
    let device = &current();
    let operands: Vec<(Vec<f64>, &[usize])> = row
        .operands
        .iter()
        .enumerate()
        .map(|(at, &(shape, low, high))| {
            (numbers(shape.iter().product(), low, high, 7 * at as u64 + 3), shape)
        })
        .collect();
    let leaves: Vec<_> = operands
        .iter()
        .map(|(values, shape)| {
            let leaf = Differentiated::float_from_data(data(values, shape), device);
            Differentiated::float_set_require_grad(leaf, true)
        })
        .collect();
    let result = (row.differentiated)(&leaves);
    let shape: Vec<usize> = result.shape().iter().copied().collect();
    let weights = numbers(shape.iter().product(), 0.5, 1.5, 99);
    let weighted =
        Differentiated::float_mul(result, Differentiated::float_from_data(data(&weights, &shape), device));
    let gradients = Differentiated::backward(Differentiated::float_sum(weighted));
    let gradients: Vec<Vec<f64>> = leaves
        .iter()
        .zip(&operands)
        .map(|(leaf, (values_of, _))| match Differentiated::grad(leaf, &gradients) {
            Some(gradient) => values(gradient),
            None => vec![0.0; values_of.len()],
        })
        .collect();

    // The loss for all operands moved along a direction: lazily, all of a row's are one wait.
    let loss = |direction: &[Vec<f64>], step: f64| {
        let moved: Vec<MlirTensor> = operands
            .iter()
            .zip(direction)
            .map(|((values, shape), along)| {
                let moved: Vec<f64> = values.iter().zip(along).map(|(x, d)| x + step * d).collect();
                Mlir::float_from_data(data(&moved, shape), device)
            })
            .collect();
        let result = (row.plain)(&moved);
        values(result).iter().zip(&weights).map(|(y, w)| y * w).sum::<f64>()
    };
    let mut directions: Vec<Vec<Vec<f64>>> = (0..DIRECTIONS)
        .map(|salt| {
            let along = |(at, (values, _)): (usize, &(Vec<f64>, &[usize]))| {
                numbers(values.len(), -1.0, 1.0, 1000 + 10 * salt as u64 + at as u64)
            };
            operands.iter().enumerate().map(along).collect()
        })
        .collect();
    let check = |direction: &Vec<Vec<f64>>| {
        let difference = (loss(direction, STEP) - loss(direction, -STEP)) / (2.0 * STEP);
        let terms = gradients.iter().flatten().zip(direction.iter().flatten()).map(|(g, d)| g * d);
        let (sum, size) = terms.fold((0.0, 1.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
        let close = (difference - sum).abs() <= TOLERANCE * size;
        (close, difference, sum)
    };
    if directions.iter().all(|direction| check(direction).0) {
        return Ok(());
    }
    // Which element it is, only when something is wrong.
    directions.clear();
    for (operand, (values_of, _)) in operands.iter().enumerate() {
        for element in 0..values_of.len() {
            let mut along: Vec<Vec<f64>> =
                operands.iter().map(|(values, _)| vec![0.0; values.len()]).collect();
            along[operand][element] = 1.0;
            let (close, difference, gradient) = check(&along);
            if !close {
                let at = format!("element {element} of operand {operand}");
                return Err(format!("{}: {at} has gradient {gradient}, should be {difference}", row.name));
            }
        }
    }
    Err(format!("{}: the gradient along a random direction is wrong", row.name))
}

/// Compares the gradients of a table's functions.
fn differentiate(rows: &[Row]) {
    each(|| {
        let mut failures = Vec::new();
        for row in rows {
            let outcome = catch_unwind(AssertUnwindSafe(|| compare(row)));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => failures.push(failure),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    failures.push(format!("{} panicked: {text}", row.name));
                }
            }
        }
        assert!(failures.is_empty(), "{} of {}: {failures:#?}", failures.len(), rows.len());
    });
}
