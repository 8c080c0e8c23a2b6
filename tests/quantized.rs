//! Quantised tensors: every scheme against a model in plain Rust (`model`), bit for bit, in values and in bytes of
//! Burn's data; views and operations against the same on floats; what `burn-flex` and Burn's own helpers read and
//! write.

mod data;
mod edges;
mod model;
mod operations;
mod schemes;
mod views;

use crate::support::devices::current;
use burn_backend::ops::{FloatTensorOps, QTensorOps};
use burn_backend::quantization::{QuantScheme, QuantValue};
use burn_backend::{FloatDType, Shape, TensorData, read_sync};
use burn_mlir::{Mlir, MlirTensor, QuantizedTensor};

/// Every type of values.
const VALUES: [QuantValue; 9] = [
    QuantValue::Q8F,
    QuantValue::Q8S,
    QuantValue::Q4F,
    QuantValue::Q4S,
    QuantValue::Q2F,
    QuantValue::Q2S,
    QuantValue::E4M3,
    QuantValue::E5M2,
    QuantValue::E2M1,
];

/// Numbers of both signs whose magnitudes differ by some powers of two, the same for the same salt.
fn numbers(count: usize, salt: u64) -> Vec<f32> {
    let mut state = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| (next() - 0.5) * 2f32.powf(next() * 4.0)).collect()
}

fn tensor(values: &[f32], shape: &[usize]) -> MlirTensor {
    Mlir::float_from_data(TensorData::new(values.to_vec(), Shape::from(shape)), &current())
}

fn quantized(values: &[f32], shape: &[usize], scheme: &QuantScheme) -> QuantizedTensor {
    Mlir::quantize_dynamic(tensor(values, shape), scheme)
}

fn read(tensor: MlirTensor) -> Vec<f32> {
    read_sync(Mlir::float_into_data(tensor)).unwrap().iter::<f32>().collect()
}

fn values(tensor: QuantizedTensor) -> Vec<f32> {
    read(Mlir::dequantize(tensor, FloatDType::F32))
}

fn data(tensor: QuantizedTensor) -> TensorData {
    read_sync(Mlir::q_into_data(tensor)).unwrap()
}

/// Compares bit for bit; any NaN is as good as another.
fn same(actual: &[f32], expected: &[f32], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let bits = |x: f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    // Zero has no sign among integers.
    let differs = |(a, b): (&f32, &f32)| bits(*a) != bits(*b) && !(*a == 0.0 && *b == 0.0);
    if let Some(at) = actual.iter().zip(expected).position(differs) {
        panic!("{what}: {} instead of {} at {at} of {}", actual[at], expected[at], actual.len());
    }
}

fn load(data: TensorData) -> QuantizedTensor {
    Mlir::q_from_data(data, &current())
}
