//! Operands of which sums of products are exact in any order, and what comes of them in integer arithmetic.

use super::devices::current;
use burn_backend::ops::FloatTensorOps;
use burn_backend::{DType, FloatDType, Shape, TensorData, read_sync};
use burn_mlir::{Mlir, MlirTensor};

/// Signed integers of so many bits that look random.
pub fn integers(count: usize, salt: usize, bits: u32) -> Vec<i64> {
    let mut state = (salt as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> (64 - bits)) as i64 - (1 << (bits - 1))
    };
    (0..count).map(|_| next()).collect()
}

/// A tensor of eighths.
pub fn tensor<const D: usize>(eighths: &[i64], shape: [usize; D], dtype: DType) -> MlirTensor {
    floats(eighths.iter().map(|&v| v as f32 / 8.0).collect(), shape, dtype)
}

/// A tensor of that type, in memory as it is.
pub fn floats<const D: usize>(values: Vec<f32>, shape: [usize; D], dtype: DType) -> MlirTensor {
    let stored = if dtype == DType::Flex32 { DType::F32 } else { dtype };
    let data = TensorData::new(values, Shape::new(shape)).convert_dtype(stored);
    let tensor = Mlir::float_from_data(data, &current());
    if dtype == DType::Flex32 { Mlir::float_cast(tensor, FloatDType::Flex32) } else { tensor }
}

/// The elements of a tensor of floats.
pub fn values(tensor: MlirTensor) -> Vec<f64> {
    read_sync(Mlir::float_into_data(tensor)).unwrap().iter::<f64>().collect()
}

/// A float of moderate size rounded to `dtype`, to even between two.
pub fn rounded(value: f64, dtype: DType) -> f64 {
    let bits = match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F64 => return value,
        _ => 24,
    };
    if value == 0.0 {
        return value;
    }
    let unit = 2f64.powi(value.abs().log2().floor() as i32 + 1 - bits);
    (value / unit).round_ties_even() * unit
}

/// The product of `[m, k]` and `[k, n]`; of eighths, in 64ths.
pub fn product(a: &[i64], b: &[i64], [m, n, k]: [usize; 3]) -> Vec<i64> {
    let mut sums = vec![0; m * n];
    for (a, sums) in a.chunks(k).zip(sums.chunks_mut(n)) {
        for (&a, b) in a.iter().zip(b.chunks(n)) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
    sums
}

/// A matrix of `rows` times `columns` with the two exchanged.
pub fn transposed(values: &[i64], rows: usize, columns: usize) -> Vec<i64> {
    (0..rows * columns).map(|at| values[at % rows * columns + at / rows]).collect()
}
