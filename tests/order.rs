//! Sorts, prefixes and updates of slices in every type and in odd sizes, against loops on the host.

use crate::support::devices::{device, each};
use burn::prelude::*;
use burn::tensor::{Element, IndexingUpdateOp, bf16, f16};
use std::cmp::Ordering;

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 20 ^ self.0 << 30
    }
}

fn floats<E: Element, const D: usize>(values: &[E], shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (&device(), E::dtype()))
}

fn ints<E: Element, const D: usize>(values: &[E], shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (&device(), E::dtype()))
}

/// Where each element of a sorted row was.
fn places<E>(row: &[E], descending: bool, order: impl Fn(&E, &E) -> Ordering) -> Vec<i64> {
    let mut places: Vec<usize> = (0..row.len()).collect();
    places.sort_by(|&a, &b| {
        let order = order(&row[a], &row[b]);
        if descending { order.reverse() } else { order }
    });
    places.into_iter().map(|place| place as i64).collect()
}

/// Rows that are merged, whose bytes are counted, and that are sorted in parts.
const MERGED: [usize; 2] = [7, 31];
const COUNTED: [usize; 2] = [5, 301];
const IN_PARTS: [usize; 2] = [1, 70_001];

/// Sorts rows one way and asks for the order of the other way.
macro_rules! sorts {
    ($make:ident $type:ty, $sizes:expr, $next:expr, $order:expr) => {
        for [rows, size] in $sizes {
            let what = format!("[{rows}, {size}] of {:?}", <$type>::dtype());
            let mut numbers = Numbers(size as u64);
            let values: Vec<$type> = (0..rows * size).map(|_| $next(numbers.next())).collect();
            let x = $make(&values, [rows, size]);
            let chunks = || values.chunks(size);
            let sorted: Vec<$type> = chunks()
                .flat_map(|row| places(row, false, $order).into_iter().map(|place| row[place as usize]))
                .collect();
            let actual: Vec<$type> = x.clone().sort(1).into_data().try_into_vec().expect("of its type");
            let bytes = |values: &[$type]| -> Vec<_> { values.iter().map(|x| x.to_ne_bytes()).collect() };
            assert_eq!(bytes(&actual), bytes(&sorted), "{what}");
            let order: Vec<i64> = chunks().flat_map(|row| places(row, true, $order)).collect();
            let actual: Vec<i64> = x.argsort_descending(1).into_data().iter::<i64>().collect();
            assert_eq!(actual, order, "descending order of {what}");
        }
    };
}

/// All integers of a type, but mostly small ones: many are equal.
macro_rules! integer {
    ($type:ty) => {
        |bits: u64| match bits % 8 {
            0 => bits.rotate_left(13) as $type,
            1 => <$type>::MIN,
            2 => <$type>::MAX,
            _ => (bits >> 8 & 31) as $type,
        }
    };
}

/// A float with NaN of both signs, infinities and both zeros, which are equal.
fn special(bits: u64) -> f64 {
    match bits % 16 {
        0 => f64::NAN.copysign(-1.0),
        1 => f64::NAN,
        2 => -0.0,
        3 => 0.0,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        // Below the smallest normal f16 and bf16.
        6 => 1e-7 * (bits >> 8 & 15) as f64,
        _ => ((bits >> 8 & 1023) as f64 - 512.0) / 8.0,
    }
}

fn nan_last<E: PartialOrd>(a: &E, b: &E) -> Ordering {
    let is_nan = |x: &E| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

#[test]
fn sorts_of_integers() {
    each(|| {
        sorts!(ints i8, [MERGED, COUNTED], integer!(i8), i8::cmp);
        sorts!(ints u8, [COUNTED], integer!(u8), u8::cmp);
        sorts!(ints i16, [MERGED, COUNTED], integer!(i16), i16::cmp);
        sorts!(ints u16, [IN_PARTS], integer!(u16), u16::cmp);
        sorts!(ints i32, [COUNTED], integer!(i32), i32::cmp);
        sorts!(ints u32, [COUNTED], integer!(u32), u32::cmp);
        sorts!(ints i64, [IN_PARTS], integer!(i64), i64::cmp);
        sorts!(ints u64, [COUNTED], integer!(u64), u64::cmp);
    });
}

#[test]
fn sorts_of_floats() {
    each(|| {
        sorts!(floats f16, [MERGED, COUNTED], |bits| f16::from_f64(special(bits)), nan_last);
        sorts!(floats bf16, [COUNTED], |bits| bf16::from_f64(special(bits)), nan_last);
        sorts!(floats f32, [IN_PARTS], |bits| special(bits) as f32, nan_last);
        sorts!(floats f64, [COUNTED], special, nan_last);
    });
}

/// Shapes whose middle dimension is scanned: in memory along the axis or beside it; vectors with rests, and long
/// lines.
const ALONG: [usize; 3] = [37, 53, 1];
const BESIDE: [usize; 3] = [3, 21, 175];
const LONG_ALONG: [usize; 3] = [2, 40_003, 1];
const LONG_BESIDE: [usize; 3] = [1, 9001, 13];

/// Prefixes in a type, against the same combinations one after the other. Values are such that no order rounds.
macro_rules! prefixes {
    ($make:ident $type:ty, $shapes:expr, $($method:ident: $next:expr, $combine:expr);+) => {
        for [a, b, c] in $shapes {
            $(
                let what = format!("{} along [{a}, {b}, {c}] of {:?}", stringify!($method), <$type>::dtype());
                let mut numbers = Numbers(b as u64);
                let values: Vec<$type> = (0..a * b * c).map(|_| $next(numbers.next())).collect();
                let mut expected = values.clone();
                for place in (0..a * b * c).filter(|place| place / c % b > 0) {
                    expected[place] = $combine(expected[place - c], expected[place]);
                }
                let x = $make(&values, [a, b, c]);
                let actual: Vec<$type> = x.$method(1).into_data().try_into_vec().expect("of its type");
                assert_eq!(actual, expected, "{what}");
            )+
        }
    };
}

#[test]
fn prefixes_of_every_type() {
    each(|| {
        prefixes!(ints i8, [ALONG, BESIDE], cumsum: |x| x as i8, i8::wrapping_add; cummin: |x| x as i8, i8::min);
        prefixes!(ints u8, [BESIDE], cumprod: |x| x as u8 | 1, u8::wrapping_mul);
        prefixes!(ints i16, [ALONG], cummax: |x| x as i16, i16::max);
        prefixes!(ints u16, [BESIDE], cummin: |x| x as u16, u16::min);
        prefixes!(ints i32, [ALONG], cumprod: |x| x as i32 | 1, i32::wrapping_mul);
        prefixes!(ints u32, [BESIDE], cummax: |x| x as u32, u32::max);
        prefixes!(ints i64, [ALONG, LONG_ALONG, LONG_BESIDE], cumsum: |x| x as i64, i64::wrapping_add);
        prefixes!(ints u64, [ALONG], cummin: |x: u64| x, u64::min);
        // -1 or 1.
        let sign = |x: u64| (x % 2) as f64 * 2.0 - 1.0;
        prefixes!(floats f64, [ALONG], cumprod: sign, |a, b| a * b);
        let near = |x: u64| (x % 3) as f64 - 1.0;
        prefixes!(floats f32, [LONG_ALONG, LONG_BESIDE], cumsum: |x| near(x) as f32, |a, b| a + b; cummin: |x| x as f32, f32::min);
        prefixes!(floats bf16, [ALONG, BESIDE, LONG_ALONG], cumprod: |x| bf16::from_f64(sign(x)), |a, b| a * b);
        prefixes!(floats f16, [ALONG, BESIDE, LONG_BESIDE], cummax: |x| f16::from_f64((x % 60_000) as f64), f16::max);
    });
}

#[test]
fn sums_of_halves_are_kept_in_f32() {
    each(|| {
        // 256 + 1 is 256 in bf16.
        for [rows, size] in [[1, 300], [40, 300], [1, 20_001]] {
            let x = floats(&vec![bf16::ONE; rows * size], [rows, size]);
            let sums: Vec<f32> = x.cumsum(1).into_data().iter::<f32>().collect();
            for (at, &sum) in sums.iter().enumerate() {
                assert_eq!(sum, bf16::from_f32((at % size + 1) as f32).to_f32(), "[{rows}, {size}] at {at}");
            }
        }
    });
}

#[test]
fn nan_stays_in_prefixes() {
    each(|| {
        for (shape, axis) in [([20, 70], 1), ([70, 20], 0)] {
            let [rows, columns] = shape;
            let count = rows * columns;
            let step = if axis == 1 { 1 } else { columns };
            let size = shape[axis];
            let middle = size / 2;
            let is_nan = |at: usize| at / step % size == middle;
            let values: Vec<f32> = (0..count).map(|at| if is_nan(at) { f32::NAN } else { 1.0 }).collect();
            let x = floats(&values, shape);
            for y in [x.clone().cumsum(axis), x.clone().cumprod(axis), x.clone().cummax(axis), x.cummin(axis)]
            {
                for (at, y) in y.into_data().iter::<f32>().enumerate() {
                    assert_eq!(y.is_nan(), at / step % size >= middle, "{shape:?} along {axis} at {at}");
                }
            }
        }
    });
}

/// Columns in groups and a rest, and dimensions on both sides of the axis.
#[test]
fn sorts_of_columns() {
    each(|| {
        let [a, b, c] = [2, 301, 37];
        let mut numbers = Numbers(3);
        let values: Vec<f32> = (0..a * b * c).map(|_| special(numbers.next()) as f32).collect();
        let column = |outer: usize, inner: usize| -> Vec<f32> {
            (0..b).map(|at| values[(outer * b + at) * c + inner]).collect()
        };
        let (mut sorted, mut order) = (values.clone(), vec![0; values.len()]);
        for (outer, inner) in (0..a * c).map(|nth| (nth / c, nth % c)) {
            let column = column(outer, inner);
            let ascending = places(&column, false, nan_last);
            let descending = places(&column, true, nan_last);
            for (at, (up, down)) in ascending.into_iter().zip(descending).enumerate() {
                sorted[(outer * b + at) * c + inner] = column[up as usize];
                order[(outer * b + at) * c + inner] = down;
            }
        }
        let x = floats(&values, [a, b, c]);
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let actual: Vec<f32> = x.clone().sort(1).into_data().iter::<f32>().collect();
        assert_eq!(bits(actual), bits(sorted));
        let actual: Vec<i64> = x.argsort_descending(1).into_data().iter::<i64>().collect();
        assert_eq!(actual, order);
    });
}

/// How an update meets an element, on the host.
fn met(op: IndexingUpdateOp, old: i64, new: i64) -> i64 {
    match op {
        IndexingUpdateOp::Assign => new,
        IndexingUpdateOp::Add => old + new,
        IndexingUpdateOp::Mul => old * new,
        IndexingUpdateOp::Min => old.min(new),
        IndexingUpdateOp::Max => old.max(new),
    }
}

/// Slices that a list of indices with duplicates puts into a table, in a type; they are exact in it.
macro_rules! slices {
    ($make:ident $type:ty, $widths:expr, $($op:ident)+) => {
        for width in $widths {
            for op in [$(IndexingUpdateOp::$op),+] {
                let what = format!("{op:?} of slices of {width} {:?}", <$type>::dtype());
                let (rows, count) = (11, 29);
                let mut numbers = Numbers(width as u64);
                let mut small = |count: usize| -> Vec<i64> {
                    (0..count).map(|_| (numbers.next() % 3) as i64).collect()
                };
                let (mut table, updates) = (small(rows * width), small(count * width));
                let places: Vec<i32> = small(count * 4).chunks(4).map(|x| (x.iter().sum::<i64>()) as i32).collect();
                let of_type = |values: &[i64]| -> Vec<$type> {
                    values.iter().map(|&x| x.elem::<$type>()).collect()
                };
                let x = $make(&of_type(&table), [rows, width]);
                let u = $make(&of_type(&updates), [count, width]);
                for (at, &update) in updates.iter().enumerate() {
                    let place = &mut table[places[at / width] as usize * width + at % width];
                    *place = met(op, *place, update);
                }
                let y = x.select_assign(0, ints(&places, [count]), u, op);
                let actual: Vec<i64> = y.into_data().iter::<f64>().map(|x| x as i64).collect();
                assert_eq!(actual, table, "{what}");
            }
        }
    };
}

#[test]
fn updates_of_slices() {
    each(|| {
        slices!(floats f32, [1, 7, 16, 37, 300], Add);
        slices!(floats f32, [37], Assign Min Max);
        slices!(floats f64, [37], Add);
        slices!(floats bf16, [1, 37], Add);
        slices!(floats f16, [300], Max);
        slices!(ints i8, [37], Add Assign);
        slices!(ints i64, [37], Add Min);
    });
}
