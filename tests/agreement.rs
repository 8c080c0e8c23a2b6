//! Runs one computation, generic over the backend, on both backends and compares.

use crate::support::devices::Tested;
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, FloatDType, IntDType, Shape, TensorData, read_sync};

/// What a case has to compare, under names for the message.
#[derive(Default)]
pub struct Results(pub Vec<(String, TensorData)>);

impl Results {
    /// Adds a float tensor.
    pub fn float<B: Tested>(&mut self, name: impl Into<String>, tensor: FloatTensor<B>) {
        self.0.push((name.into(), read_sync(B::float_into_data(tensor)).unwrap()));
    }

    /// Adds an integer tensor.
    pub fn int<B: Backend>(&mut self, name: impl Into<String>, tensor: IntTensor<B>) {
        self.0.push((name.into(), read_sync(B::int_into_data(tensor)).unwrap()));
    }

    /// Adds a tensor of truth values.
    pub fn bool<B: Backend>(&mut self, name: impl Into<String>, tensor: BoolTensor<B>) {
        self.0.push((name.into(), read_sync(B::bool_into_data(tensor)).unwrap()));
    }
}

/// Deterministic values without structure in [-2, 2).
fn values(count: usize, salt: u64) -> Vec<f64> {
    let mut state = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f64 / (1u64 << 22) as f64 - 2.0
        })
        .collect()
}

/// An f32 tensor of values in [-2, 2).
pub fn float<B: Tested, const D: usize>(shape: [usize; D], salt: u64) -> FloatTensor<B> {
    float_in::<B, D>(shape, salt, -2.0, 2.0)
}

/// An f32 tensor of values in `low..high`.
pub fn float_in<B: Tested, const D: usize>(
    shape: [usize; D],
    salt: u64,
    low: f64,
    high: f64,
) -> FloatTensor<B> {
    let data = values(shape.iter().product(), salt);
    let data: Vec<f32> = data.iter().map(|v| (low + (v + 2.0) / 4.0 * (high - low)) as f32).collect();
    B::float_from_data(TensorData::new(data, Shape::new(shape)), &B::current())
}

/// An f32 tensor of given values.
pub fn floats<B: Tested>(values: &[f32]) -> FloatTensor<B> {
    B::float_from_data(TensorData::new(values.to_vec(), [values.len()]), &B::current())
}

/// An i32 tensor of values in `low..high`.
pub fn int_in<B: Tested, const D: usize>(shape: [usize; D], salt: u64, low: i32, high: i32) -> IntTensor<B> {
    let data = values(shape.iter().product(), salt);
    let data: Vec<i32> = data.iter().map(|v| low + ((v + 2.0) / 4.0 * (high - low) as f64) as i32).collect();
    B::int_from_data(TensorData::new(data, Shape::new(shape)), &B::current())
}

/// An i32 tensor of given values.
pub fn ints<B: Tested, const D: usize>(shape: [usize; D], values: &[i32]) -> IntTensor<B> {
    B::int_from_data(TensorData::new(values.to_vec(), Shape::new(shape)), &B::current())
}

/// A tensor of given truth values.
pub fn bools<B: Tested, const D: usize>(shape: [usize; D], values: &[bool]) -> BoolTensor<B> {
    B::bool_from_data(TensorData::new(values.to_vec(), Shape::new(shape)), &B::current())
}

/// Fails unless both backends gave the same: floats within `tolerance` relative to the larger of 1 and
/// the value, everything else exactly.
pub fn check(case: &str, ours: &Results, theirs: &Results, tolerance: f64) {
    assert_eq!(ours.0.len(), theirs.0.len());
    for ((name, ours), (_, theirs)) in ours.0.iter().zip(&theirs.0) {
        assert_eq!(ours.shape(), theirs.shape(), "{case}: shape of {name}");
        let number = |data: &TensorData| match data.dtype() {
            DType::Bool(_) => data.iter::<bool>().map(|v| v as u8 as f64).collect::<Vec<_>>(),
            _ => data.iter::<f64>().collect(),
        };
        let exact = !ours.dtype().is_float();
        for (i, (a, b)) in number(ours).into_iter().zip(number(theirs)).enumerate() {
            let same = a == b || a.is_nan() && b.is_nan();
            let close = !exact && (a - b).abs() <= tolerance * b.abs().max(1.0);
            assert!(same || close, "{case}: element {i} of {name} is {a}, should be {b}");
        }
    }
}

/// 32-bit types, which both backends compute in.
pub const F32: FloatDType = FloatDType::F32;
/// See [`F32`].
pub const I32: IntDType = IntDType::I32;

/// Declares tests: each body runs on both backends (as the type `B`), on ours once for each device, and fills
/// `results`.
macro_rules! agree {
    ($($(#[$meta:meta])* fn $name:ident<$B:ident>($results:ident) within $tolerance:literal $body:block)*) => {
        $(
            $(#[$meta])*
            #[test]
            fn $name() {
                fn case<$B: crate::support::devices::Tested>($results: &mut crate::agreement::Results) $body
                let mut theirs = Default::default();
                case::<burn_flex::Flex>(&mut theirs);
                crate::support::devices::each(|| {
                    let mut ours = Default::default();
                    case::<burn_mlir::Mlir>(&mut ours);
                    crate::agreement::check(stringify!($name), &ours, &theirs, $tolerance);
                });
            }
        )*
    };
}
pub(crate) use agree;
