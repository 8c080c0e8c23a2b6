//! Functions of one element.

use super::{Numbers, bits, f32s, i32s, to_f32s};
use crate::machine::run;

/// Quotients are those of IEEE division also where the divisor is the same for a row.
#[test]
fn quotients() {
    let mut numbers = Numbers(3);
    let special =
        [0.0, -0.0, f32::INFINITY, f32::NAN, 1e-45, -1e-39, f32::MAX, f32::MIN_POSITIVE, 3.0, 1e-30];
    let float = |numbers: &mut Numbers, place: usize| match special.get(place) {
        Some(&value) => value,
        None => f32::from_bits((numbers.next() << 16 ^ numbers.next()) as u32),
    };
    let (rows, columns) = (60, 40);
    let a: Vec<f32> = (0..rows * columns).map(|place| float(&mut numbers, place % columns)).collect();
    let b: Vec<f32> = (0..rows).map(|row| float(&mut numbers, row)).collect();
    let text = format!(
        "block [p {rows}, p {columns}] () {{
  @0 = in f32 align 64
  @1 = in f32 align 64
  @2 = out f32 align 64
  %0 = load @0 [{columns}, 1] : f32
  %1 = load @1 [1, 0] : f32
  %2 = div %0, %1 : f32
  store %2 -> @2 [{columns}, 1]
}}"
    );
    let ran = run(&text, vec![f32s(&a), f32s(&b), vec![0; 4 * a.len()].into()], &[]);
    for (place, value) in to_f32s(&ran.buffers[2]).into_iter().enumerate() {
        let expected = a[place] / b[place / columns];
        let same = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
        assert!(same, "{value:e} instead of {expected:e} = {:e}/{:e}", a[place], b[place / columns]);
    }
}

/// Functions that end in a quotient, over all magnitudes.
#[test]
fn functions_that_divide() {
    let mut numbers = Numbers(5);
    let mut x: Vec<f32> =
        vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, -1e-40, 88.0, -88.5, -103.0];
    x.extend((0..118).map(|_| f32::from_bits((numbers.next() << 16 ^ numbers.next()) as u32)));
    x.extend((0..128).map(|_| numbers.float()));
    let text = "block [p 256] () {
  @0 = in f32 align 64
  @1 = out f32 align 64
  @2 = out f32 align 64
  %0 = load @0 [1] : f32
  %1 = tanh %0 : f32
  %2 = sigmoid %0 : f32
  store %1 -> @1 [1]
  store %2 -> @2 [1]
}";
    let ran = run(text, vec![f32s(&x), vec![0; 1024].into(), vec![0; 1024].into()], &[]);
    let (tanh, sigmoid) = (to_f32s(&ran.buffers[1]), to_f32s(&ran.buffers[2]));
    for (place, &x) in x.iter().enumerate() {
        let x = f64::from(x);
        for (value, exact) in [(tanh[place], x.tanh()), (sigmoid[place], 1.0 / (1.0 + (-x).exp()))] {
            let near = (f64::from(value) - exact).abs() <= 3e-7 * exact.abs() + 1.5e-45;
            assert!(near || value.is_nan() && exact.is_nan(), "{value:e} instead of {exact:e} at {x:e}");
        }
    }
}

/// Two steps are two roundings: an integer as f32, that as bf16.
#[test]
fn integers_as_bf16_are_rounded_twice() {
    let mut numbers = Numbers(9);
    let x: Vec<i32> = (0..512)
        .map(|place| match place % 2 {
            // Just above the middle between two bf16, by less than an f32 has.
            0 => (numbers.next() as i32 & 0x7f00_0000 | 0x4000_0000) + 0x0040_0001,
            _ => numbers.next() as i32,
        })
        .collect();
    let text = "block [p 512] () {
  @0 = in i32 align 64
  @1 = out bf16 align 64
  %0 = load @0 [1] : i32
  %1 = cast %0 : bf16
  store %1 -> @1 [1]
}";
    let ran = run(text, vec![i32s(&x), vec![0; 1024].into()], &[]);
    let expected: Vec<u8> = x
        .iter()
        .flat_map(|&x| {
            let bits = (x as f32).to_bits();
            (((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16).to_le_bytes()
        })
        .collect();
    assert_eq!(ran.buffers[1], expected);
}

/// The exponentials of a softmax, down to where they vanish.
#[test]
fn softmax_of_one_row() {
    let mut numbers = Numbers(11);
    let mut x: Vec<f32> = (0..1000).map(|_| -((numbers.next() % 110_000) as f32) / 1000.0).collect();
    x[17] = f32::NEG_INFINITY;
    x[18] = 0.0;
    let text = "block [r 1000] () {
  @0 = in f32 align 64
  @1 = out f32 align 64
  @2 = out f32 align 64
  %0 = load @0 [1] : f32
  %1 = reduce max %0 : f32
  %2 = sub %0, %1 : f32
  %3 = exp %2 : f32
  %4 = exp %0 : f32
  store %3 -> @1 [1]
  store %4 -> @2 [1]
}";
    let ran = run(text, vec![f32s(&x), vec![0; 4000].into(), vec![0; 4000].into()], &[]);
    let (shifted, plain) = (to_f32s(&ran.buffers[1]), to_f32s(&ran.buffers[2]));
    assert_eq!(bits(&shifted), bits(&plain));
    for (y, x) in shifted.iter().zip(&x) {
        let exact = f64::from(*x).exp();
        assert!((f64::from(*y) - exact).abs() <= 2e-7 * exact + 1.5e-45, "{y:e} instead of {exact:e}");
    }
}
