//! Random tensors, composed from the IR's random bits.

use crate::record::{fill, random_bits};
use crate::{MlirDevice, MlirTensor};
use burn_backend::{Distribution, Scalar};
use burn_mlir_ir::{BinaryOp, CompareOp, DType, Shape};
use std::f64::consts::TAU;

/// Bits of a significand, the hidden one included.
const F64_BITS: i32 = 53;
const F32_BITS: u32 = 24;

/// Uniform in [0, 1): multiples of 2⁻²⁴, of 2⁻⁵³ for f64, of a power that the type holds for f16 and
/// bf16 (as f32; the caller rounds).
fn uniform(device: MlirDevice, dtype: DType, shape: &Shape) -> MlirTensor {
    let draw = |bits: u32| {
        let all = random_bits(device, shape.clone());
        all.shr(&all.constant_like((32 - bits) as f64))
    };
    match dtype {
        DType::F64 => {
            let (high, low) = (draw(27).cast(DType::F64), draw(26).cast(DType::F64));
            high.times(f64::exp2(26.0)).add(&low).times(f64::exp2(-F64_BITS as f64))
        }
        _ => {
            let bits = match dtype {
                DType::F16 => 11,
                DType::BF16 => 8,
                _ => F32_BITS,
            };
            draw(bits).cast(DType::F32).times(f64::exp2(-(bits as f64)))
        }
    }
}

/// Standard normal (Box-Muller) in `work`, f32 or f64.
fn normal(device: MlirDevice, work: DType, shape: &Shape) -> MlirTensor {
    // 1 - u is in (0, 1], so the logarithm is finite.
    let radius = uniform(device, work, shape).neg().plus(1.0).log().times(-2.0).sqrt();
    radius.mul(&uniform(device, work, shape).times(TAU).cos())
}

impl MlirTensor {
    /// Floats of a distribution.
    pub(crate) fn random_float(
        device: MlirDevice,
        distribution: Distribution,
        dtype: DType,
        shape: Shape,
    ) -> Self {
        let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        match distribution {
            Distribution::Default => uniform(device, dtype, &shape).cast(dtype),
            Distribution::Uniform(low, high) => {
                let scaled = uniform(device, dtype, &shape)
                    .binary_scalar(BinaryOp::Mul, Scalar::Float(high - low))
                    .binary_scalar(BinaryOp::Add, Scalar::Float(low))
                    .cast(dtype);
                // Rounding may reach the upper end, which is not part of the range.
                let outside = scaled.compare_scalar(CompareOp::Ge, Scalar::Float(high));
                outside.select(&scaled.fill_like(Scalar::Float(low)), &scaled)
            }
            Distribution::Bernoulli(probability) => bernoulli(device, probability, &shape).cast(dtype),
            Distribution::Normal(mean, deviation) => normal(device, work, &shape)
                .binary_scalar(BinaryOp::Mul, Scalar::Float(deviation))
                .binary_scalar(BinaryOp::Add, Scalar::Float(mean))
                .cast(dtype),
        }
    }

    /// Integers of a distribution; without one, uniform in [0, 255).
    pub(crate) fn random_int(
        device: MlirDevice,
        distribution: Distribution,
        dtype: DType,
        shape: Shape,
    ) -> Self {
        match distribution {
            Distribution::Default => uniform_int(device, 0, 255, dtype, &shape),
            Distribution::Uniform(low, high) => uniform_int(device, low as i64, high as i64, dtype, &shape),
            Distribution::Bernoulli(probability) => bernoulli(device, probability, &shape).cast(dtype),
            Distribution::Normal(mean, deviation) => normal(device, DType::F64, &shape)
                .binary_scalar(BinaryOp::Mul, Scalar::Float(deviation))
                .binary_scalar(BinaryOp::Add, Scalar::Float(mean))
                .cast(dtype),
        }
    }
}

/// True with a probability.
fn bernoulli(device: MlirDevice, probability: f64, shape: &Shape) -> MlirTensor {
    uniform(device, DType::F32, shape).compare_scalar(CompareOp::Lt, Scalar::Float(probability))
}

/// Integers in `low..high` (`low` if that is empty): the random bits, as a fraction, of the range's
/// length.
fn uniform_int(device: MlirDevice, low: i64, high: i64, dtype: DType, shape: &Shape) -> MlirTensor {
    let length = high.wrapping_sub(low).max(1) as u64;
    let bits = || random_bits(device, shape.clone()).cast(DType::U64);
    let length_of = |t: &MlirTensor| fill(device, Scalar::UInt(length), DType::U64, t.ir_shape());
    let offset = if length <= u32::MAX as u64 {
        let product = bits();
        let product = product.mul(&length_of(&product));
        product.shr(&product.constant_like(32.0))
    } else {
        let high_bits = bits().times(f64::exp2(32.0));
        let wide = high_bits.binary(BinaryOp::Or, &bits());
        wide.rem(&length_of(&wide))
    };
    let offset = offset.cast(DType::I64);
    offset.binary_scalar(BinaryOp::Add, Scalar::Int(low)).cast(dtype)
}
