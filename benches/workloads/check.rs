//! Compares results with f64 arithmetic on the host, at positions spread over the tensor.

use burn::prelude::*;
use burn::tensor::{DType, TensorData, bf16, f16};

/// The values of a tensor on the host, row by row, as they came: the large ones would take long to convert.
#[derive(Clone)]
pub enum Values {
    F32(Vec<f32>),
    BF16(Vec<bf16>),
    F16(Vec<f16>),
    I32(Vec<i32>),
}

impl Values {
    /// Reads a tensor.
    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Self {
        Self::from_data(tensor.clone().into_data())
    }

    /// Reads a tensor of integers.
    pub fn of_ints<const D: usize>(tensor: &Tensor<D, Int>) -> Self {
        Self::from_data(tensor.clone().into_data())
    }

    fn from_data(data: TensorData) -> Self {
        let values = match data.dtype() {
            DType::BF16 => data.try_into_vec().map(Self::BF16),
            DType::F16 => data.try_into_vec().map(Self::F16),
            DType::I32 => data.try_into_vec().map(Self::I32),
            _ => data.convert::<f32>().try_into_vec().map(Self::F32),
        };
        values.unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::BF16(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// An element.
    pub fn at(&self, index: usize) -> f64 {
        match self {
            Self::F32(values) => values[index].into(),
            Self::BF16(values) => values[index].into(),
            Self::F16(values) => values[index].into(),
            Self::I32(values) => values[index].into(),
        }
    }

    /// A range of elements.
    pub fn range(&self, start: usize, count: usize) -> impl Iterator<Item = f64> + Clone + '_ {
        (start..start + count).map(|index| self.at(index))
    }
}

/// How far a value may be off: by `relative` times the larger of its magnitude and `unit`.
#[derive(Clone, Copy)]
pub struct Tolerance {
    /// Share of the value.
    pub relative: f64,
    /// Magnitude of a typical value.
    pub unit: f64,
}

impl From<f64> for Tolerance {
    fn from(relative: f64) -> Self {
        Self { relative, unit: 1.0 }
    }
}

/// Asserts that `actual` agrees with `expected(index)` at about 64 indices.
pub fn agrees(actual: &Values, tolerance: impl Into<Tolerance>, expected: impl Fn(usize) -> f64) {
    let Tolerance { relative, unit } = tolerance.into();
    // Odd, so that the indices differ in every dimension.
    let step = (actual.len() / 64) | 1;
    for index in (0..actual.len()).step_by(step) {
        let (a, e) = (actual.at(index), expected(index));
        assert!((a - e).abs() <= relative * e.abs().max(unit), "element {index} is {a}, expected {e}");
    }
}

/// The error function (Abramowitz and Stegun 7.1.5's series, good to 1e-15 for |x| < 5).
pub fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// GELU with the error function.
pub fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
}
