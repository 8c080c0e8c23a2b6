//! Many updates of single floats: sums and extremes of all magnitudes, and of what is no number. On a GPU they are
//! taken in any order.

use crate::support::devices::{current, each};
use crate::support::exact::{floats, integers, rounded, values};
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::IndexingUpdateOp::{self, Add, Max, Min};
use burn_backend::{DType, Shape, TensorData};
use burn_mlir::{Mlir, MlirTensor};

const TYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// Updates and the elements that they are of.
const COUNT: usize = 140_001;
const EXTENT: usize = 100_000;

fn ints(values: &[usize]) -> MlirTensor {
    use burn_backend::ops::IntTensorOps;
    let list: Vec<i32> = values.iter().map(|&value| value as i32).collect();
    let shape = Shape::new([list.len()]);
    Mlir::int_from_data(TensorData::new(list, shape), &current())
}

/// Data after updates of a list, all of a type.
fn updated(data: &[f32], updates: &[f32], at: &[usize], op: IndexingUpdateOp, dtype: DType) -> Vec<f64> {
    let data = floats(data.to_vec(), [data.len()], dtype);
    let updates = floats(updates.to_vec(), [updates.len()], dtype);
    values(Mlir::float_scatter(0, data, ints(at), updates, op))
}

/// Floats of `dtype` in f32, the largest 2^16 times the smallest, and indices below `extent`.
fn random(dtype: DType, salt: usize, count: usize, extent: usize) -> (Vec<f32>, Vec<usize>) {
    let magnitudes = integers(count, salt + 1, 16);
    let size =
        |(value, by): (i64, i64)| rounded(value as f64 * 2f64.powi(by as i32 & 15) / 4096.0, dtype) as f32;
    let numbers = integers(count, salt, 7).into_iter().zip(magnitudes).map(size).collect();
    let indices = integers(count, salt + 2, 40).into_iter().map(|bits| bits.unsigned_abs() as usize % extent);
    (numbers, indices.collect())
}

#[test]
fn sums_of_floats() {
    each(|| {
        for dtype in TYPES {
            let (data, _) = random(dtype, 1, EXTENT, 1);
            let (updates, at) = random(dtype, 5, COUNT, EXTENT);
            let (mut sums, mut sizes) = (vec![], vec![]);
            for &old in &data {
                sums.push(f64::from(old));
                sizes.push(f64::from(old.abs()));
            }
            let mut counts = vec![0; EXTENT];
            for (&place, &update) in at.iter().zip(&updates) {
                sums[place] += f64::from(update);
                sizes[place] += f64::from(update.abs());
                counts[place] += 1;
            }
            // One rounding for each update at most.
            let error = match dtype {
                DType::F16 => 2f64.powi(-11),
                DType::BF16 => 2f64.powi(-8),
                _ => 2f64.powi(-24),
            };
            let actual = updated(&data, &updates, &at, Add, dtype);
            for place in 0..EXTENT {
                let (actual, expected) = (actual[place], sums[place]);
                let within = f64::from(counts[place]) * error * sizes[place];
                assert!((actual - expected).abs() <= within, "{dtype:?}, {place}: {actual}, not {expected}");
            }
            assert_eq!(updated(&data, &updates, &at, Add, dtype), actual, "{dtype:?} again");
        }
    });
}

#[test]
fn sums_in_one_element() {
    each(|| {
        let at = vec![17; COUNT];
        let updates: Vec<f32> = integers(COUNT, 3, 5).into_iter().map(|value| value as f32).collect();
        let mut expected = vec![1.0; EXTENT];
        expected[17] += updates.iter().copied().map(f64::from).sum::<f64>();
        assert_eq!(updated(&[1.0; EXTENT], &updates, &at, Add, DType::F32), expected);
    });
}

#[test]
fn sums_of_no_numbers() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let cases: [(f32, &[f32], f32); 12] = [
        (-0.0, &[], -0.0),
        (-0.0, &[-0.0, -0.0], -0.0),
        (-0.0, &[-0.0, 0.0], 0.0),
        (2.0, &[3.0, -3.0], 2.0),
        (1.0, &[inf, 5.0, inf], inf),
        (1.0, &[-5.0, -inf], -inf),
        (1.0, &[inf, -inf], nan),
        (1.0, &[nan, 1.0], nan),
        (-inf, &[inf], nan),
        (inf, &[1.0], inf),
        (nan, &[1.0], nan),
        (nan, &[], nan),
    ];
    each(|| {
        for dtype in TYPES {
            let (mut data, _) = random(dtype, 1, EXTENT, 1);
            // Behind the elements of random updates.
            let (mut updates, mut at) = random(dtype, 5, COUNT, EXTENT - cases.len());
            for (number, (old, all, _)) in cases.iter().enumerate() {
                let place = EXTENT - cases.len() + number;
                data[place] = *old;
                // Far from each other.
                for (step, &update) in all.iter().enumerate() {
                    let from = 1000 * (number + 1) + 15_000 * step;
                    (updates[from], at[from]) = (update, place);
                }
            }
            let actual = updated(&data, &updates, &at, Add, dtype);
            for (actual, (old, all, expected)) in actual[EXTENT - cases.len()..].iter().zip(cases) {
                let actual = *actual as f32;
                let same = actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan();
                assert!(same, "{dtype:?}: {old} and {all:?} are {actual}, should be {expected}");
            }
        }
    });
}

#[test]
fn extremes_of_floats() {
    each(|| {
        for dtype in TYPES {
            let (mut data, _) = random(dtype, 1, EXTENT, 1);
            let (mut updates, at) = random(dtype, 5, COUNT, EXTENT);
            for (number, value) in
                [f32::INFINITY, -f32::INFINITY, f32::NAN, -f32::NAN].into_iter().enumerate()
            {
                for step in 0..50 {
                    data[100 * step + 11 * number] = value;
                    updates[400 * step + 13 * number] = value;
                }
            }
            for op in [Max, Min] {
                let mut expected = data.clone();
                for (&place, &update) in at.iter().zip(&updates) {
                    let old = &mut expected[place];
                    *old = match op {
                        _ if old.is_nan() || update.is_nan() => f32::NAN,
                        Max => old.max(update),
                        _ => old.min(update),
                    };
                }
                let actual = updated(&data, &updates, &at, op, dtype);
                for (place, (actual, expected)) in actual.iter().zip(expected).enumerate() {
                    let expected = f64::from(expected);
                    let same = *actual == expected || actual.is_nan() && expected.is_nan();
                    assert!(same, "{op:?} of {dtype:?}, {place}: {actual}, should be {expected}");
                }
            }
        }
    });
}
