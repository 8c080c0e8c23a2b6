//! Floats of 8 and 4 bits, and floats rounded up to such, as integer arithmetic on codes.

use super::apply;
use crate::MlirTensor;
use burn_backend::quantization::ScaleDtype;
use burn_mlir_ir::{BinaryOp, CompareOp, DType, Op, UnaryOp};

/// A float format narrower than 16 bits: sign, exponent, mantissa.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Minifloat {
    /// Bits of a code.
    bits: u32,
    /// Bits of the mantissa.
    mantissa: u32,
    /// What is subtracted from the exponent's code.
    bias: i32,
    /// The largest finite value.
    max: f64,
    /// A NaN's code without the sign; formats without one make a NaN 0.
    nan: Option<u32>,
}

impl Minifloat {
    /// 8 bits without infinities.
    pub(crate) const E4M3: Self = Self { bits: 8, mantissa: 3, bias: 7, max: 448.0, nan: Some(0x7f) };
    /// 8 bits, the upper half of an IEEE half.
    pub(crate) const E5M2: Self = Self { bits: 8, mantissa: 2, bias: 15, max: 57344.0, nan: Some(0x7f) };
    /// 4 bits, finite values only.
    pub(crate) const E2M1: Self = Self { bits: 4, mantissa: 1, bias: 1, max: 6.0, nan: None };
}

/// Bits of an f32's mantissa, and its exponent's bias.
const F32_MANTISSA: u32 = 23;
const F32_BIAS: i32 = 127;
/// The same of an f16.
const F16_MANTISSA: u32 = 10;
const F16_BIAS: i32 = 15;

impl MlirTensor {
    /// The same bits as another type of the same size.
    pub(crate) fn bitcast(&self, dtype: DType) -> Self {
        if dtype == self.dtype {
            return self.clone();
        }
        apply("bitcast", Op::Bitcast, &[self], dtype, self.ir_shape())
    }

    /// `self & mask`.
    pub(crate) fn masked(&self, mask: u32) -> Self {
        self.binary_constant(BinaryOp::And, f64::from(mask))
    }

    /// `self << bits`.
    pub(crate) fn shifted_left(&self, bits: u32) -> Self {
        self.binary_constant(BinaryOp::Shl, f64::from(bits))
    }

    /// `self >> bits`.
    pub(crate) fn shifted_right(&self, bits: u32) -> Self {
        self.binary_constant(BinaryOp::Shr, f64::from(bits))
    }

    /// Codes of any integer type as f32. A code is put where an f16 has its exponent and mantissa, subnormal or
    /// not, which is the value but for a power of 2.
    pub(crate) fn decode_minifloat(&self, format: Minifloat) -> Self {
        let codes = self.cast(DType::U16);
        let sign_bit = 1 << (format.bits - 1);
        let magnitude = codes.masked(sign_bit - 1);
        let sign = codes.masked(sign_bit).shifted_left(16 - format.bits);
        let bits = magnitude.shifted_left(F16_MANTISSA - format.mantissa).or(&sign);
        let value = bits.bitcast(DType::F16).cast(DType::F32);
        let value = match F16_BIAS - format.bias {
            0 => return value,
            power => value.times(2f64.powi(power)),
        };
        match format.nan {
            Some(nan) => {
                let is_nan = magnitude.compare_constant(CompareOp::Eq, f64::from(nan));
                is_nan.select(&value.constant_like(f64::NAN), &value)
            }
            None => value,
        }
    }

    /// Values of f32 as codes (u32), to the nearest, to the even one of two; what is too large becomes the
    /// largest finite value.
    pub(crate) fn encode_minifloat(&self, format: Minifloat) -> Self {
        let shift = F32_MANTISSA - format.mantissa;
        let rebias = (F32_BIAS - format.bias) as u32;
        let magnitude = self.abs().at_most(format.max);
        let bits = magnitude.bitcast(DType::U32);
        let odd = bits.shifted_right(shift).masked(1);
        let below_half = f64::from((1u32 << (shift - 1)) - 1);
        let normal = (bits.plus(below_half).add(&odd).shifted_right(shift))
            .binary_constant(BinaryOp::Sub, f64::from(rebias << format.mantissa));
        let least_normal = 2f64.powi(1 - format.bias);
        let steps = magnitude.times(2f64.powi(format.mantissa as i32) / least_normal);
        let subnormal = steps.unary(UnaryOp::Round).cast(DType::U32);
        let code = magnitude.compare_constant(CompareOp::Lt, least_normal).select(&subnormal, &normal);
        let is_nan = self.unary(UnaryOp::IsNan);
        let code = is_nan.select(&code.constant_like(f64::from(format.nan.unwrap_or(0))), &code);
        let sign = self.bitcast(DType::U32).shifted_right(31).shifted_left(format.bits - 1);
        code.or(&sign)
    }

    /// Powers of two of the format E8M0 from their codes: the exponent of an f32. Code 255 is NaN.
    fn decode_e8m0(&self) -> Self {
        let codes = self.cast(DType::U32);
        let power = codes.shifted_left(F32_MANTISSA).bitcast(DType::F32);
        let is = |code: f64| codes.compare_constant(CompareOp::Eq, code);
        let power = is(0.0).select(&power.constant_like(f64::from(ScaleDtype::UE8M0_MIN)), &power);
        is(255.0).select(&power.constant_like(f64::NAN), &power)
    }

    /// Scales in the type they are stored in, as f32.
    pub(crate) fn decode_scales(&self, dtype: ScaleDtype) -> Self {
        match dtype {
            ScaleDtype::F32 | ScaleDtype::F16 | ScaleDtype::BF16 => self.cast(DType::F32),
            ScaleDtype::UE4M3 => self.decode_minifloat(Minifloat::E4M3),
            ScaleDtype::UE8M0 => self.decode_e8m0(),
        }
    }

    /// Scales of f32 that their type can express, in that type.
    pub(crate) fn encode_scales(&self, dtype: ScaleDtype) -> Self {
        match dtype {
            ScaleDtype::F32 => self.clone(),
            ScaleDtype::F16 => self.cast(DType::F16),
            ScaleDtype::BF16 => self.cast(DType::BF16),
            ScaleDtype::UE4M3 => self.encode_minifloat(Minifloat::E4M3).cast(DType::U8),
            ScaleDtype::UE8M0 => self.bitcast(DType::U32).shifted_right(F32_MANTISSA).cast(DType::U8),
        }
    }

    /// Scales of f32 as usable ones: rounded up to their type, so that the largest value stays in range; what
    /// is not positive and finite becomes the least scale.
    pub(crate) fn usable_scales(&self, dtype: ScaleDtype) -> Self {
        let scales = self.scales_rounded_up(dtype);
        let usable = scales.compare_constant(CompareOp::Gt, 0.0);
        let usable = usable.and(&scales.compare_constant(CompareOp::Lt, f64::INFINITY));
        let least = f64::from(dtype.round_up(f32::MIN_POSITIVE));
        usable.select(&scales, &scales.constant_like(least))
    }

    /// See [`ScaleDtype::round_up`]: the least value of the type that is not below.
    fn scales_rounded_up(&self, dtype: ScaleDtype) -> Self {
        if dtype == ScaleDtype::F32 {
            return self.clone();
        }
        let grid = dtype.f32_grid();
        let stepped = self.bitcast(DType::U32).plus(f64::from(grid.round_up_bias()));
        let mut up = stepped.masked(grid.truncate_mask()).bitcast(DType::F32);
        if let Some(range) = grid.subnormals {
            let steps = self.times(1.0 / f64::from(range.spacing)).unary(UnaryOp::Ceil);
            let subnormal = steps.times(f64::from(range.spacing));
            let below = self.compare_constant(CompareOp::Lt, f64::from(range.min_normal));
            up = below.select(&subnormal, &up);
        }
        let replaced = |up: Self, op: CompareOp, bound: f32| {
            let bound = f64::from(bound);
            self.compare_constant(op, bound).select(&up.constant_like(bound), &up)
        };
        if dtype == ScaleDtype::UE8M0 {
            up = replaced(up, CompareOp::Le, ScaleDtype::UE8M0_MIN);
        }
        replaced(up, CompareOp::Ge, dtype.max_representable())
    }

    /// Rounded to the nearest integer, away from 0 between two.
    pub(crate) fn round_half_away(&self) -> Self {
        let whole = self.unary(UnaryOp::Trunc);
        let more = self.sub(&whole).abs().compare_constant(CompareOp::Ge, 0.5);
        more.select(&whole.add(&self.unary(UnaryOp::Sign)), &whole)
    }
}
