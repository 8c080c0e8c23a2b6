//! Kernels bound by memory, in the sizes at which they take different ways: against loops in f64 whose sums are
//! exact.

use crate::support::devices::{device, each};
use burn::prelude::*;
use burn::tensor::{DType, FloatDType, IndexingUpdateOp, IntDType, activation::softmax};

/// A few numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    /// Integers in -8..8, so that sums are exact in any order.
    fn integers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() % 16) as f32 - 8.0).collect()
    }

    fn indices(&mut self, count: usize, below: usize) -> Vec<i32> {
        (0..count).map(|_| (self.next() % below as u64) as i32).collect()
    }
}

fn tensor<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (&device(), DType::F32))
}

fn ints<const D: usize>(values: &[i32], shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (&device(), DType::I32))
}

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

fn read_ints<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter::<i64>().collect()
}

fn same(actual: &[f32], expected: &[f32], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let bits = |x: f32| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
    let differs = actual.iter().zip(expected).position(|(a, b)| bits(*a) != bits(*b));
    if let Some(at) = differs {
        panic!("{what}: {} instead of {} at {at} of {}", actual[at], expected[at], actual.len());
    }
}

fn close(actual: &[f32], expected: impl Iterator<Item = f64>, within: f64, what: &str) {
    for (at, (&a, b)) in actual.iter().zip(expected).enumerate() {
        assert!((f64::from(a) - b).abs() <= within * b.abs().max(1e-3), "{what}: {a} instead of {b} at {at}");
    }
}

/// Rows and columns: a thread's, a warp's, a block's, many blocks'.
const ROWS: &[[usize; 2]] = &[
    [1, 1],
    [1000, 1],
    [300, 3],
    [257, 32],
    [70, 100],
    [33, 1000],
    [9, 1024],
    [17, 4099],
    [5, 8192],
    [3, 20_000],
    [2, 32_769],
    [3, 50_257],
    [2, 100_001],
    [1, 1_048_577],
];

#[test]
fn reductions_of_rows_and_columns() {
    each(|| {
        for &[rows, columns] in ROWS {
            for [rows, columns] in [[rows, columns], [columns, rows]] {
                let what = format!("[{rows}, {columns}]");
                let values = Numbers(rows as u64).integers(rows * columns);
                let x = tensor(&values, [rows, columns]);
                let sums: Vec<f32> = values.chunks(columns).map(|row| row.iter().sum()).collect();
                same(&read(x.clone().sum_dim(1)), &sums, &format!("sums of rows of {what}"));
                let column = |at: usize| values[at..].iter().step_by(columns);
                let expected: Vec<f32> = (0..columns).map(|at| column(at).sum()).collect();
                same(&read(x.clone().sum_dim(0)), &expected, &format!("sums of columns of {what}"));
                same(&read(x.clone().sum()), &[values.iter().sum()], &format!("sum of {what}"));
                let centred = x.clone() - x.clone().sum_dim(1);
                let expected: Vec<f32> =
                    values.iter().enumerate().map(|(at, value)| value - sums[at / columns]).collect();
                same(&read(centred), &expected, &format!("rows without their sums of {what}"));
                let first = |row: &mut dyn Iterator<Item = &f32>| {
                    row.enumerate().fold((0, f32::NEG_INFINITY), |best, (at, &x)| {
                        if x > best.1 { (at as i64, x) } else { best }
                    })
                };
                let expected: Vec<i64> = values.chunks(columns).map(|row| first(&mut row.iter()).0).collect();
                assert_eq!(read_ints(x.clone().argmax(1)), expected, "first maximum of rows of {what}");
                let expected: Vec<i64> = (0..columns).map(|at| first(&mut column(at)).0).collect();
                assert_eq!(read_ints(x.argmax(0)), expected, "first maximum of columns of {what}");
            }
        }
    });
}

#[test]
fn nan_wins_reductions() {
    each(|| {
        for size in [5, 1000, 70_000, 3_000_000] {
            let mut values = Numbers(7).integers(size);
            values[size * 2 / 3] = f32::NAN;
            let x = tensor(&values, [size]);
            assert!(read(x.clone().max())[0].is_nan() && read(x.clone().min())[0].is_nan());
            assert_eq!(read_ints(x.argmax(0)), [(size * 2 / 3) as i64]);
        }
    });
}

#[test]
fn softmax_and_norm_of_rows() {
    each(|| {
        for &[rows, columns] in ROWS {
            let what = format!("[{rows}, {columns}]");
            let values = Numbers(columns as u64).integers(rows * columns);
            let x = tensor(&values, [rows, columns]);
            let exact = values.chunks(columns).flat_map(|row| {
                let top = row.iter().fold(f64::NEG_INFINITY, |top, &x| top.max(f64::from(x)));
                let total: f64 = row.iter().map(|&x| (f64::from(x) - top).exp()).sum();
                row.iter().map(move |&x| (f64::from(x) - top).exp() / total).collect::<Vec<_>>()
            });
            let exact: Vec<f64> = exact.collect();
            let y = softmax(x.clone(), 1);
            close(&read(y), exact.iter().copied(), 2e-6, &format!("softmax of {what}"));
            let half = softmax(x.clone().cast(FloatDType::BF16), 1).cast(FloatDType::F32);
            close(&read(half), exact.iter().copied(), 0.01, &format!("softmax of bf16 {what}"));
            let centred = x.clone() - x.clone().mean_dim(1);
            let variance = (centred.clone() * centred.clone()).mean_dim(1);
            let y = centred / (variance + 1e-5).sqrt();
            let exact = values.chunks(columns).flat_map(|row| {
                let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / columns as f64;
                let square = |x: &f32| (f64::from(*x) - mean).powi(2);
                let variance = row.iter().map(square).sum::<f64>() / columns as f64;
                row.iter().map(move |&x| (f64::from(x) - mean) / (variance + 1e-5).sqrt()).collect::<Vec<_>>()
            });
            close(&read(y), exact, 1e-3, &format!("norm of {what}"));
        }
    });
}

#[test]
fn transposes_flips_and_offsets() {
    each(|| {
        for [a, b, c] in [[1, 3, 5], [2, 64, 64], [3, 65, 127], [1, 1025, 770], [7, 33, 300], [2, 2048, 130]]
        {
            let what = format!("[{a}, {b}, {c}]");
            let values = Numbers(b as u64).integers(a * b * c);
            let x = tensor(&values, [a, b, c]);
            let at = |i: usize, j: usize, k: usize| values[(i * b + j) * c + k];
            let mut expected = Vec::new();
            for i in 0..a {
                for k in 0..c {
                    expected.extend((0..b).map(|j| 2.0 * at(i, j, k) + 1.0));
                }
            }
            same(&read(x.clone().swap_dims(1, 2) * 2.0 + 1.0), &expected, &format!("transposed {what}"));
            let half = (x.clone().cast(FloatDType::BF16).swap_dims(1, 2) * 2.0 + 1.0).cast(FloatDType::F32);
            same(&read(half), &expected, &format!("transposed bf16 {what}"));
            // A sum of both orders: one of them is read across.
            let other = tensor(&expected, [a, c, b]);
            let sum = read(x.clone() + other.swap_dims(1, 2));
            let both: Vec<f32> = values.iter().map(|value| 3.0 * value + 1.0).collect();
            same(&sum, &both, &format!("sum with a transposed {what}"));
            let mut expected = Vec::new();
            for k in 0..c {
                for i in 0..a {
                    expected.extend((0..b).map(|j| at(i, j, k)));
                }
            }
            same(&read(x.clone().permute([2, 0, 1]) * 1.0), &expected, &format!("permuted {what}"));
            let flipped: Vec<f32> =
                (0..a * b * c).map(|place| at(place / (b * c), place / c % b, c - 1 - place % c)).collect();
            same(&read(x.clone().flip([2]) * 1.0), &flipped, &format!("flipped {what}"));
            let inner = x.clone().slice([0..a, 1..b, 1..c]) * 1.0;
            let mut expected = Vec::new();
            for i in 0..a {
                for j in 1..b {
                    expected.extend((1..c).map(|k| at(i, j, k)));
                }
            }
            same(&read(inner), &expected, &format!("inner part of {what}"));
        }
    });
}

/// What an update makes of an element.
type Update = fn(f32, f32) -> f32;

/// Updates of single elements: few and many, in few and many elements, integers and floats.
#[test]
fn scatters_of_all_kinds() {
    each(|| {
        for [count, extent] in [[300, 9000], [5000, 7], [70_000, 100_000], [200_000, 3]] {
            let what = format!("{count} updates of {extent}");
            let mut numbers = Numbers(count as u64);
            let (data, updates) = (numbers.integers(extent), numbers.integers(count));
            let indices = numbers.indices(count, extent);
            let expected = |update: Update| {
                let mut all = data.clone();
                for (&index, &value) in indices.iter().zip(&updates) {
                    all[index as usize] = update(all[index as usize], value);
                }
                all
            };
            let (x, u) = (tensor(&data, [extent]), tensor(&updates, [count]));
            let i = ints(&indices, [count]);
            let kinds: [(IndexingUpdateOp, Update); 4] = [
                (IndexingUpdateOp::Add, |old, new| old + new),
                (IndexingUpdateOp::Assign, |_, new| new),
                (IndexingUpdateOp::Max, f32::max),
                (IndexingUpdateOp::Min, f32::min),
            ];
            for (op, update) in kinds {
                let expected = expected(update);
                let y = x.clone().scatter(0, i.clone(), u.clone(), op);
                same(&read(y), &expected, &format!("{op:?}: {what}"));
                let y = x.clone().int().scatter(0, i.clone(), u.clone().int(), op);
                same(&read(y.float()), &expected, &format!("{op:?} of integers: {what}"));
            }
        }
    });
}

/// `(updates, rows of data, row length)`: short lists, lists that are sorted in one and in many tiles, runs over
/// many chunks.
const UPDATES: &[[usize; 3]] = &[
    [5, 7, 3],
    [40, 3, 5],
    [3000, 100, 33],
    [2048, 50_257, 8],
    [8192, 5000, 96],
    [100_000, 10, 1],
    [70_000, 1, 3],
];

#[test]
fn scatters_with_duplicates() {
    each(|| {
        for &[count, extent, width] in UPDATES {
            let what = format!("{count} updates of [{extent}, {width}]");
            let mut numbers = Numbers(count as u64);
            let data = numbers.integers(extent * width);
            let updates = numbers.integers(count * width);
            let indices = numbers.indices(count, extent);
            let mut expected = data.clone();
            for (step, &index) in indices.iter().enumerate() {
                for at in 0..width {
                    expected[index as usize * width + at] += updates[step * width + at];
                }
            }
            let x = tensor(&data, [extent, width]);
            let u = tensor(&updates, [count, width]);
            let i = ints(&indices, [count]);
            let add = || read(x.clone().select_assign(0, i.clone(), u.clone(), IndexingUpdateOp::Add));
            same(&add(), &expected, &format!("rows: {what}"));
            // Along the other axis: the list is the same for every row.
            let y = x.clone().transpose().select_assign(
                1,
                i.clone(),
                u.clone().transpose(),
                IndexingUpdateOp::Add,
            );
            same(&read(y.transpose() * 1.0), &expected, &format!("columns: {what}"));
            // Sums that are not exact are the same every time.
            let v: Vec<f32> = updates.iter().map(|x| 0.1 * x).collect();
            let v = tensor(&v, [count, width]);
            let inexact = || read(x.clone().select_assign(0, i.clone(), v.clone(), IndexingUpdateOp::Add));
            same(&inexact(), &inexact(), &format!("again: {what}"));
        }
    });
}

#[test]
fn scatters_with_lists_of_their_own() {
    each(|| {
        for [lists, count, extent] in [[3, 5, 9], [50, 200, 30], [2, 5000, 3000], [40_000, 3, 17]] {
            let what = format!("{lists} lists of {count} in {extent}");
            let mut numbers = Numbers(count as u64);
            let data = numbers.integers(lists * extent);
            let updates = numbers.integers(lists * count);
            let indices = numbers.indices(lists * count, extent);
            let mut expected = data.clone();
            for list in 0..lists {
                for step in 0..count {
                    expected[list * extent + indices[list * count + step] as usize] +=
                        updates[list * count + step];
                }
            }
            let (x, u) = (tensor(&data, [lists, extent]), tensor(&updates, [lists, count]));
            let i = ints(&indices, [lists, count]);
            let y = x.clone().scatter(1, i.clone(), u.clone(), IndexingUpdateOp::Add);
            same(&read(y), &expected, &what);
            let gathered: Vec<f32> = (0..lists * count)
                .map(|place| data[place / count * extent + indices[place] as usize])
                .collect();
            same(&read(x.clone().gather(1, i.clone())), &gathered, &format!("gather: {what}"));
            let y = x.transpose().scatter(0, i.transpose(), u.transpose(), IndexingUpdateOp::Add);
            same(&read(y.transpose() * 1.0), &expected, &format!("the other axis: {what}"));
        }
    });
}

#[test]
fn prefixes() {
    each(|| {
        for [a, b, c] in [
            [1, 1, 1],
            [3, 1000, 1],
            [4096, 17, 1],
            [7, 3, 100],
            [1, 1_000_003, 1],
            [2, 5000, 40],
            [1, 300_000, 8],
            [64, 1024, 2],
        ] {
            let what = format!("prefixes along the middle of [{a}, {b}, {c}]");
            let values = Numbers(b as u64).integers(a * b * c);
            let (mut sums, mut tops) = (values.clone(), values.clone());
            for place in (0..a * b * c).filter(|place| place / c % b > 0) {
                sums[place] += sums[place - c];
                tops[place] = tops[place].max(tops[place - c]);
            }
            let x = tensor(&values, [a, b, c]);
            same(&read(x.clone().cumsum(1)), &sums, &what);
            same(&read(x.clone().cummax(1)), &tops, &format!("largest {what}"));
            let reversed = x.flip([1]).cumsum(1).flip([1]);
            let mut expected = values.clone();
            for place in (0..a * b * c).rev().filter(|place| place / c % b < b - 1) {
                expected[place] += expected[place + c];
            }
            same(&read(reversed * 1.0), &expected, &format!("reversed {what}"));
        }
    });
}

#[test]
fn sorts_with_ties_and_nan() {
    each(|| {
        for [rows, size] in
            [[1, 1], [1000, 2], [300, 17], [5, 2048], [3, 2049], [2, 30_000], [1, 1 << 20], [2000, 300]]
        {
            let what = format!("[{rows}, {size}]");
            let mut numbers = Numbers(size as u64);
            let values: Vec<f32> = (0..rows * size)
                .map(|_| match numbers.next() % 1000 {
                    0 => f32::NAN,
                    1 => -0.0,
                    2 => f32::INFINITY,
                    other => (other % 200) as f32 - 100.0,
                })
                .collect();
            let ordered = |descending: bool| -> Vec<i64> {
                let order = |row: &[f32]| {
                    let mut order: Vec<usize> = (0..size).collect();
                    order.sort_by(|&a, &b| {
                        let (x, y) = (row[a], row[b]);
                        let less = x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()));
                        if descending { less.reverse() } else { less }
                    });
                    order
                };
                values.chunks(size).flat_map(order).map(|place| place as i64).collect()
            };
            let x = tensor(&values, [rows, size]);
            let places = ordered(false);
            let sorted: Vec<f32> = places
                .iter()
                .enumerate()
                .map(|(at, &place)| values[at / size * size + place as usize])
                .collect();
            same(&read(x.clone().sort(1)), &sorted, &format!("sorted {what}"));
            assert_eq!(read_ints(x.clone().argsort(1)), places, "order of {what}");
            assert_eq!(
                read_ints(x.clone().argsort_descending(1)),
                ordered(true),
                "descending order of {what}"
            );
            same(
                &read(x.transpose().sort(0).transpose() * 1.0),
                &sorted,
                &format!("sorted columns of {what}"),
            );
        }
    });
}

/// Long rows of all widths of keys, whose order among equal ones shows in the positions.
#[test]
fn sorts_of_every_width() {
    each(|| {
        let (rows, size) = (2, 600_000);
        let keys: Vec<i32> = Numbers(1).indices(rows * size, 240).iter().map(|x| x - 120).collect();
        let places: Vec<i64> = (keys.chunks(size))
            .flat_map(|row| {
                let mut order: Vec<usize> = (0..size).collect();
                order.sort_by_key(|&place| -row[place]);
                order.into_iter().map(|place| place as i64)
            })
            .collect();
        let sorted: Vec<i64> = places
            .iter()
            .enumerate()
            .map(|(at, &place)| i64::from(keys[at / size * size + place as usize]))
            .collect();
        let equal = |actual: Vec<i64>, expected: &[i64], what: String| assert!(actual == expected, "{what}");
        let x = ints(&keys, [rows, size]);
        for dtype in [IntDType::I8, IntDType::I16, IntDType::I32, IntDType::I64] {
            let (values, positions) = x.clone().cast(dtype).sort_descending_with_indices(1);
            equal(read_ints(positions), &places, format!("order of {dtype:?}"));
            equal(read_ints(values), &sorted, format!("{dtype:?}"));
            equal(
                read_ints(x.clone().cast(dtype).sort_descending(1)),
                &sorted,
                format!("values of {dtype:?}"),
            );
        }
        for dtype in [FloatDType::F16, FloatDType::BF16, FloatDType::F64] {
            let y = x.clone().float().cast(dtype);
            equal(read_ints(y.clone().argsort_descending(1)), &places, format!("order of {dtype:?}"));
            equal(read_ints(y.sort_descending(1).int()), &sorted, format!("values of {dtype:?}"));
        }
    });
}

#[test]
fn sums_are_the_same_every_time() {
    each(|| {
        for size in [1000, 100_003, 5_000_000] {
            let values: Vec<f32> = Numbers(3).integers(size).iter().map(|x| 0.1 * x).collect();
            let x = tensor(&values, [size]);
            let once = read(x.clone().sum());
            for _ in 0..3 {
                same(&read(x.clone().sum()), &once, "a sum");
            }
        }
    });
}
