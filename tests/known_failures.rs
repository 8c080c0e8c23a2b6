//! What other backends have got wrong, and what is like it.

mod broadcasting;
mod convolutions;
mod moves;
mod products;
mod reductions;
mod types;

use crate::support::devices::device;
use crate::support::exact::integers;
use burn::prelude::*;
use burn::tensor::TensorData;

/// A tensor of numbers.
fn floats<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), &device())
}

fn ints<const D: usize>(values: Vec<i64>, shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values, shape), &device())
}

/// 0, 1, 2 and so on.
fn counting<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    floats((0..shape.iter().product()).map(|i: usize| i as f32).collect(), shape)
}

fn list<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn int_list<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter::<i64>().collect()
}

/// Numbers in -1..1 that look random.
fn noise(count: usize, salt: usize) -> Vec<f32> {
    integers(count, salt, 16).into_iter().map(|v| v as f32 / 32768.0).collect()
}
