//! Scatters of floats that take updates in any order: what they come to, to the bit, and that any order gives it.

use super::Numbers;
use crate::machine::{Buffer, bf16_to_f64, f16_to_f64, run, run_on_small};

/// A float type.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Type {
    name: &'static str,
    bytes: usize,
    /// Bits of a significand, the highest one included.
    significand: i32,
    /// Exponent of the smallest normal number.
    least: i32,
    /// The largest number.
    most: f64,
}

const F16: Type = Type { name: "f16", bytes: 2, significand: 11, least: -14, most: 65504.0 };
const BF16: Type =
    Type { name: "bf16", bytes: 2, significand: 8, least: -126, most: 255.0 / 128.0 * (1u128 << 127) as f64 };
const F32: Type = Type { name: "f32", bytes: 4, significand: 24, least: -126, most: f32::MAX as f64 };
const F64: Type = Type { name: "f64", bytes: 8, significand: 53, least: -1022, most: f64::MAX };

impl Type {
    /// The number next to a value, of two as near the one with an even significand.
    fn nearest(self, value: f64) -> f64 {
        if self == F64 || value == 0.0 || !value.is_finite() {
            return value;
        }
        let mut exponent = value.abs().log2().floor() as i32;
        exponent -= i32::from(2f64.powi(exponent) > value.abs());
        let unit = 2f64.powi(exponent.max(self.least) + 1 - self.significand);
        let near = (value / unit).round_ties_even() * unit;
        if near.abs() > self.most { f64::INFINITY.copysign(value) } else { near }
    }

    /// The bits of a number of the type.
    fn encode(self, value: f64) -> Vec<u8> {
        let single = value as f32;
        match self.name {
            "f64" => value.to_le_bytes().to_vec(),
            "f32" => single.to_le_bytes().to_vec(),
            "bf16" => single.to_le_bytes()[2..].to_vec(),
            _ => {
                let size = if value.is_nan() { 0x7e00 } else { f16_of_size(value.abs()) };
                (size | u16::from(value.is_sign_negative()) << 15).to_le_bytes().to_vec()
            }
        }
    }

    fn decode(self, bytes: &[u8]) -> f64 {
        match self.name {
            "f64" => f64::from_le_bytes(bytes.try_into().unwrap()),
            "f32" => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
            "bf16" => bf16_to_f64(u16::from_le_bytes(bytes.try_into().unwrap())),
            _ => f16_to_f64(u16::from_le_bytes(bytes.try_into().unwrap())),
        }
    }

    fn pack(self, values: &[f64]) -> Buffer {
        values.iter().flat_map(|&value| self.encode(value)).collect::<Vec<u8>>().into()
    }
}

/// The bits of a number of f16 that is not negative.
fn f16_of_size(value: f64) -> u16 {
    let (mut least, mut most) = (0, 0x7c00);
    while least < most {
        let middle = (least + most) / 2;
        if f16_to_f64(middle) < value { least = middle + 1 } else { most = middle }
    }
    assert_eq!(f16_to_f64(least), value);
    least
}

/// Elements of data, each with its updates.
type Elements = Vec<(f64, Vec<f64>)>;

/// Runs a scatter of a list, where threads have one update or, for even seeds, several; the updates of all elements
/// are mixed.
fn scattered(op: &str, ty: Type, elements: &Elements, seed: u64) -> Vec<f64> {
    let mut numbers = Numbers(seed);
    let updates =
        elements.iter().enumerate().flat_map(|(at, (_, all))| all.iter().map(move |&u| (at as i32, u)));
    let mut updates: Vec<(i32, f64)> = updates.collect();
    for place in (1..updates.len()).rev() {
        updates.swap(place, numbers.next() as usize % (place + 1));
    }
    let (indices, updates): (Vec<i32>, Vec<f64>) = updates.into_iter().unzip();
    let data: Vec<f64> = elements.iter().map(|element| element.0).collect();
    let text = format!(
        "scatter {op} {} at i32 {{\n  shape [{}] axis 0 extent {}\n  data [1]\n  indices [1]\n  updates [1]\n}}",
        ty.name,
        indices.len(),
        data.len()
    );
    let buffers = vec![ty.pack(&data), super::i32s(&indices), ty.pack(&updates)];
    let ran = if seed.is_multiple_of(2) { run_on_small(&text, buffers) } else { run(&text, buffers, &[]) };
    assert_eq!(ran.status, 0, "{text}");
    ran.buffers[0].chunks(ty.bytes).map(|bytes| ty.decode(bytes)).collect()
}

/// Elements with some random updates each: enough for launches that take any order.
fn random(ty: Type, numbers: &mut Numbers) -> Elements {
    let number = |numbers: &mut Numbers| {
        let value = (numbers.next() % 4001) as f64 - 2000.0;
        ty.nearest(value * 2f64.powi(numbers.next() as i32 % 5 - 7))
    };
    let updates = |numbers: &mut Numbers| (0..numbers.next() % 9).map(|_| number(numbers)).collect();
    (0..600).map(|at| (f64::from(at % 7) / 4.0, updates(numbers))).collect()
}

fn same(actual: &[f64], expected: &[f64], what: &str) {
    for (at, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let same = actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan();
        assert!(same, "{what}: element {at} is {actual:e}, should be {expected:e}");
    }
}

#[test]
fn sums() {
    let (inf, nan, tiny) = (f64::INFINITY, f64::NAN, |ty: Type| 2f64.powi(ty.least + 1 - ty.significand));
    for (seed, ty) in [(1, F16), (2, BF16), (4, F32)] {
        let mut elements = random(ty, &mut Numbers(3));
        let mut expected: Vec<f64> =
            elements.iter().map(|(old, all)| ty.nearest(old + all.iter().sum::<f64>())).collect();
        let least = tiny(ty);
        let thousand = 1024.0;
        let cases: Vec<(f64, Vec<f64>, f64)> = vec![
            // Nothing that changes a zero, and what does.
            (-0.0, vec![], -0.0),
            (-0.0, vec![-0.0, -0.0], -0.0),
            (0.0, vec![-0.0], 0.0),
            (-0.0, vec![-0.0, 0.0], 0.0),
            (-0.0, vec![3.0, -3.0], 0.0),
            (2.5, vec![-0.0], 2.5),
            (nan, vec![], nan),
            // Infinite and no numbers.
            (1.0, vec![inf, 5.0, inf], inf),
            (1.0, vec![-5.0, -inf, ty.most], -inf),
            (1.0, vec![inf, -inf], nan),
            (1.0, vec![nan, 1.0], nan),
            (1.0, vec![nan, inf, inf], nan),
            (-inf, vec![inf], nan),
            (inf, vec![1.0, -2.0], inf),
            (nan, vec![1.0], nan),
            // At the ends of the range.
            (0.0, vec![ty.most, ty.most], inf),
            (0.0, vec![-ty.most, ty.most, -ty.most], -ty.most),
            (-ty.most, vec![ty.most], 0.0),
            (0.0, vec![least, least, least], 3.0 * least),
            (5.0 * least, vec![least, -6.0 * least], 0.0),
            (0.0, vec![2f64.powi(ty.least), -least], 2f64.powi(ty.least) - least),
            // Cancellation.
            (0.0, vec![thousand, 2f64.powi(-10), -thousand], 2f64.powi(-10)),
            (1.0, vec![thousand, 2f64.powi(-10), -thousand, -1.0], 2f64.powi(-10)),
        ];
        for (old, updates, sum) in cases {
            elements.push((old, updates));
            expected.push(sum);
        }
        // A chain of sums would stay at 256 times the update, or lose most of it.
        let tenth = ty.nearest(0.1);
        elements.push((0.0, vec![tenth; 1500]));
        expected.push(ty.nearest(1500.0 * tenth));
        let what = format!("sums of {}", ty.name);
        same(&scattered("add", ty, &elements, seed), &expected, &what);
    }
}

/// What is below the unit of an element is rounded, the same way in any order.
#[test]
fn sums_of_many_magnitudes() {
    let mut numbers = Numbers(11);
    let mut elements: Elements = vec![
        (0.0, vec![1e30, 1.0, -1e30]),
        (7.0, vec![-1e30, 1.0, 1e30]),
        (0.0, vec![1e-30, 1e-38, 1e-45, -1e-30]),
    ];
    let mut any = |_| {
        let bits = numbers.next() as u32;
        // Finite ones, of all magnitudes or of nearly equal ones.
        let exponent = if numbers.next().is_multiple_of(2) { bits >> 8 & 63 } else { bits >> 8 & 15 };
        f64::from(f32::from_bits(bits & 0x807f_ffff | (exponent + 60) << 23))
    };
    elements.extend((0..300).map(|at| (0.0, (0..at % 17).map(&mut any).collect())));
    let count: usize = elements.iter().map(|(_, all)| all.len()).sum();
    // Bits below the last place of the largest update: see what the lowering says of them.
    let spare = 63 - 24 - count.next_power_of_two().ilog2() as i32;
    assert!(count > 2048);
    let round = |value: f64| f64::from(value as f32);
    for (old, all) in &mut elements {
        *old = round(*old);
        all.iter_mut().for_each(|value| *value = round(*value));
    }
    let first = scattered("add", F32, &elements, 1);
    same(&scattered("add", F32, &elements, 2), &first, "another order");
    let mut rounded = 0;
    for (at, ((old, all), actual)) in elements.iter().zip(&first).enumerate() {
        let most = all.iter().fold(2f64.powi(-126), |most: f64, value| most.max(value.abs()));
        let unit = 2f64.powi(most.log2().floor() as i32 - 23 - spare);
        let total: f64 = all.iter().map(|value| (value / unit).round()).sum();
        rounded += usize::from(all.iter().any(|value| value % unit != 0.0));
        let expected = round(old + total * unit);
        assert_eq!(*actual, expected, "element {at}: {all:?}");
    }
    assert!(rounded > 50, "{rounded}");
    assert_eq!(&first[..2], &[0.0, 7.0]);
}

#[test]
fn extremes() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    // What IEEE 754 calls maximum: -0 is below 0, and NaN wins.
    let larger = |a: f64, b: f64| match a.partial_cmp(&b) {
        None => nan,
        Some(std::cmp::Ordering::Equal) => {
            if a.is_sign_negative() {
                b
            } else {
                a
            }
        }
        Some(order) => {
            if order.is_lt() {
                b
            } else {
                a
            }
        }
    };
    let kinds = [("max", F16), ("min", BF16), ("max", F32), ("min", F32), ("min", F64)];
    for (seed, (op, ty)) in (2..).zip(kinds) {
        let mut elements = random(ty, &mut Numbers(7));
        let ends = [-inf, -ty.most, -1.0, -2f64.powi(ty.least), -0.0, 0.0, 1.0, ty.most, inf, nan, -nan];
        for old in ends {
            elements.push((old, vec![]));
            elements.extend(ends.map(|update| (old, vec![update])));
            elements.push((old, vec![-1.0, 0.5, -0.0]));
            elements.push((old, vec![1.0, nan, -1.0]));
        }
        let combine = |a: f64, b: f64| if op == "max" { larger(a, b) } else { -larger(-a, -b) };
        let expected: Vec<f64> =
            elements.iter().map(|(old, all)| all.iter().fold(*old, |a, &b| combine(a, b))).collect();
        same(&scattered(op, ty, &elements, seed), &expected, &format!("{op} of {}", ty.name));
    }
}
