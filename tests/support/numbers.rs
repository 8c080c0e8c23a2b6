//! Elements of tensors as exact numbers, with Rust's own conversions: what tests of every type share.

use super::devices::current;
use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType, ExecutionError, IntDType, TensorData, read_sync};
use burn_mlir::{Mlir, MlirTensor};
use half::{bf16, f16};

/// All types with a number or a truth value an element.
pub const TYPES: [DType; 16] = [
    DType::F64,
    DType::F32,
    DType::Flex32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool(BoolStore::Native),
    DType::Bool(BoolStore::U8),
    DType::Bool(BoolStore::U32),
];

/// All integer types.
pub const INTS: [IntDType; 8] = [
    IntDType::I64,
    IntDType::I32,
    IntDType::I16,
    IntDType::I8,
    IntDType::U64,
    IntDType::U32,
    IntDType::U16,
    IntDType::U8,
];

/// An element of any type: every float is an f64, every integer an i128, truth is 0 or 1.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Float(f64),
    Int(i128),
}

use Number::{Float, Int};

/// Equal bits, but for NaN.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Float(a), Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            (Int(a), Int(b)) => a == b,
            _ => false,
        }
    }
}

impl Number {
    /// Converted as Rust's `as` does.
    pub fn to(self, dtype: DType) -> Number {
        let float = |f64_to: fn(f64) -> f64, f32_to: fn(f32) -> f64| match self {
            Float(value) => Float(f64_to(value)),
            // Integers are rounded to f32 first, as by the `half` crate and by PyTorch.
            Int(value) => Float(f32_to(value as f32)),
        };
        macro_rules! int {
            ($type:ty) => {
                match self {
                    Float(value) => Int(value as $type as i128),
                    Int(value) => Int(value as $type as i128),
                }
            };
        }
        match dtype {
            DType::F64 => match self {
                Float(_) => self,
                Int(value) => Float(value as f64),
            },
            DType::F32 | DType::Flex32 => float(|v| v as f32 as f64, |v| v as f64),
            DType::F16 => float(|v| f16::from_f64(v).to_f64(), |v| f16::from_f32(v).to_f64()),
            DType::BF16 => float(|v| bf16::from_f64(v).to_f64(), |v| bf16::from_f32(v).to_f64()),
            DType::I64 => int!(i64),
            DType::I32 => int!(i32),
            DType::I16 => int!(i16),
            DType::I8 => int!(i8),
            DType::U64 => int!(u64),
            DType::U32 => int!(u32),
            DType::U16 => int!(u16),
            DType::U8 => int!(u8),
            DType::Bool(_) => match self {
                Float(value) => Int((value != 0.0) as i128),
                Int(value) => Int((value != 0) as i128),
            },
            DType::QFloat(_) => panic!("no numbers"),
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Float(value) => value,
            Int(value) => value as f64,
        }
    }

    pub fn int(self) -> i128 {
        match self {
            Float(value) => value as i128,
            Int(value) => value,
        }
    }
}

/// Data of a type; the numbers are converted to it.
pub fn data(dtype: DType, shape: &[usize], numbers: &[Number]) -> TensorData {
    let bytes = numbers.iter().flat_map(|number| {
        let number = number.to(dtype);
        let (float, int) = (number.float(), number.int());
        match dtype {
            DType::F64 => float.to_le_bytes().to_vec(),
            DType::F32 | DType::Flex32 => (float as f32).to_le_bytes().to_vec(),
            DType::F16 => f16::from_f64(float).to_le_bytes().to_vec(),
            DType::BF16 => bf16::from_f64(float).to_le_bytes().to_vec(),
            _ => int.to_le_bytes()[..dtype.size()].to_vec(),
        }
    });
    TensorData::from_bytes_vec(bytes.collect(), shape.to_vec(), dtype)
}

/// The elements of data.
pub fn numbers(data: &TensorData) -> Vec<Number> {
    let dtype = data.dtype();
    let one = |element: &[u8]| {
        let mut bytes = [0; 16];
        bytes[..element.len()].copy_from_slice(element);
        let bits = u128::from_le_bytes(bytes);
        match dtype {
            DType::F64 => Float(f64::from_bits(bits as u64)),
            DType::F32 | DType::Flex32 => Float(f32::from_bits(bits as u32) as f64),
            DType::F16 => Float(f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Float(bf16::from_bits(bits as u16).to_f64()),
            _ => match Int(bits as i128) {
                value if dtype.is_int() => value.to(dtype),
                value => value,
            },
        }
    };
    data.as_bytes().chunks(dtype.size()).map(one).collect()
}

/// Integers as numbers.
pub fn ints(values: impl IntoIterator<Item = i128>) -> Vec<Number> {
    values.into_iter().map(Int).collect()
}

/// A tensor on the tested device.
pub fn upload(data: TensorData) -> MlirTensor {
    match data.dtype() {
        DType::Bool(_) => Mlir::bool_from_data(data, &current()),
        dtype if dtype.is_float() => Mlir::float_from_data(data, &current()),
        _ => Mlir::int_from_data(data, &current()),
    }
}

/// A one-dimensional tensor on the tested device.
pub fn tensor(dtype: DType, values: &[Number]) -> MlirTensor {
    upload(data(dtype, &[values.len()], values))
}

/// What a tensor holds.
pub fn read(tensor: MlirTensor) -> Result<TensorData, ExecutionError> {
    read_sync(Mlir::float_into_data(tensor))
}

/// The numbers a tensor holds.
pub fn read_numbers(tensor: MlirTensor) -> Vec<Number> {
    numbers(&read(tensor).expect("computed"))
}
