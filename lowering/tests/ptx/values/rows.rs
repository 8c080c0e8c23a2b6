//! Reductions, and copies through all strides.

use super::{Numbers, f32s, to_f32s, to_i32s};
use crate::machine::{Buffer, run};

/// Sums and extremes of rows: what they add to is exact.
fn rows(domain: &str, strides: [&str; 2], sizes: [usize; 3], shift: u64) {
    let [outer, size, inner] = sizes;
    let mut numbers = Numbers(size as u64);
    let input = numbers.floats(outer * size * inner);
    let (mut sums, mut places) = (vec![0f32; outer * inner], vec![0i32; outer * inner]);
    for at in 0..outer * inner {
        let column = |step: usize| input[(at / inner * size + step) * inner + at % inner];
        sums[at] = (0..size).map(column).sum();
        let best = (0..size).map(column).fold(f32::NEG_INFINITY, f32::max);
        places[at] = (0..size).position(|step| column(step) == best).unwrap() as i32;
    }
    let text = format!(
        "block [{domain}] () {{
  @0 = in f32 align 4
  @1 = out f32 align 64
  @2 = out i32 align 64
  @3 = out f32 align 4
  @4 = out f32 align 64
  %0 = load @0 [{0}] : f32
  %1 = reduce sum %0 : f32
  %2 = argmax %0 : i32
  %3 = sub %0, %1 : f32
  %4 = add %0, %0 : f32
  store %1 -> @1 [{1}]
  store %2 -> @2 [{1}]
  store %3 -> @3 [{0}]
  store %4 -> @4 [{0}]
}}",
        strides[0], strides[1]
    );
    let text = if shift == 0 { text.replace("align 4\n", "align 64\n") } else { text };
    let count = outer * inner;
    let wide = Buffer { bytes: vec![0; 4 * input.len()], origin: 0, shift };
    let moved = Buffer { shift, ..f32s(&input) };
    let (a, b) = (vec![0; 4 * count].into(), vec![0; 4 * count].into());
    let ran = run(&text, vec![moved, a, b, wide, vec![0; 4 * input.len()].into()], &[]);
    let doubled: Vec<f32> = input.iter().map(|value| 2.0 * value).collect();
    assert_eq!(to_f32s(&ran.buffers[4]), doubled, "{text}");
    assert_eq!(to_f32s(&ran.buffers[1]), sums, "{text}");
    assert_eq!(to_i32s(&ran.buffers[2]), places, "{text}");
    let expected: Vec<f32> = (0..input.len())
        .map(|place| input[place] - sums[place / (size * inner) * inner + place % inner])
        .collect();
    assert_eq!(to_f32s(&ran.buffers[3]), expected, "{text}");
}

#[test]
fn reductions_of_rows() {
    for size in [2usize, 3, 5, 8, 31, 33, 64, 100, 257, 1000, 1024, 2052, 4099, 20000, 20001] {
        let outer = (4000 / size).max(3);
        let strides = [&format!("{size}, 1")[..], "1, 0"];
        for shift in [0, 4] {
            rows(&format!("p {outer}, r {size}"), strides, [outer, size, 1], shift);
        }
    }
    // Shared by many blocks.
    for size in [100_000, 100_003] {
        rows(&format!("r {size}"), ["1", "0"], [1, size, 1], 0);
    }
    rows("p 2, r 100001", ["100001, 1", "1, 0"], [2, 100_001, 1], 0);
}

#[test]
fn reductions_of_columns() {
    for [size, inner] in [[2usize, 3], [5, 64], [33, 33], [100, 256], [700, 36], [5000, 7], [3000, 40]] {
        rows(&format!("r {size}, p {inner}"), [&format!("{inner}, 1"), "0, 1"], [1, size, inner], 0);
    }
    for [outer, size, inner] in [[3usize, 9, 5], [2, 100, 68]] {
        let strides = [format!("{}, {inner}, 1", size * inner), format!("{inner}, 0, 1")];
        let domain = format!("p {outer}, r {size}, p {inner}");
        rows(&domain, [&strides[0], &strides[1]], [outer, size, inner], 4);
    }
}

/// Copies through any strides.
fn copy(sizes: [usize; 3], from: [i64; 3], to: [i64; 3], shift: u64) {
    let reach = |strides: [i64; 3], sign: i64| -> i64 {
        (0..3).map(|dim| (strides[dim] * (sizes[dim] as i64 - 1) * sign).max(0)).sum()
    };
    let (low, high) = (reach(from, -1), reach(from, 1));
    let mut numbers = Numbers(sizes[0] as u64);
    let input = numbers.floats((low + high + 1) as usize);
    let count = (reach(to, 1) + 1) as usize;
    let mut expected = vec![0f32; count];
    for a in 0..sizes[0] {
        for b in 0..sizes[1] {
            for c in 0..sizes[2] {
                let at = |strides: [i64; 3]| {
                    [a, b, c].iter().zip(strides).map(|(&c, s)| c as i64 * s).sum::<i64>()
                };
                expected[at(to) as usize] = 2.0 * input[(at(from) + low) as usize];
            }
        }
    }
    let [a, b, c] = sizes;
    let align = if shift == 0 && low == 0 { 64 } else { 4 };
    let text = format!(
        "block [p {a}, p {b}, p {c}] () {{
  @0 = in f32 align {align}
  @1 = out f32 align 64
  %0 = load @0 {from:?} : f32
  %1 = add %0, %0 : f32
  store %1 -> @1 {to:?}
}}"
    );
    let input = Buffer { bytes: f32s(&input).bytes, origin: 4 * low as usize, shift };
    let ran = run(&text, vec![input, vec![0; 4 * count].into()], &[]);
    assert_eq!(to_f32s(&ran.buffers[1]), expected, "{text}");
}

#[test]
fn copies() {
    copy([3, 5, 7], [1, 3, 15], [35, 7, 1], 0);
    copy([3, 70, 90], [6300, 1, 70], [6300, 90, 1], 0);
    copy([2, 64, 128], [8192, 1, 64], [8192, 128, 1], 0);
    copy([2, 64, 128], [8192, 1, 64], [8192, 128, 1], 4);
    copy([5, 33, 20], [-660, 20, -1], [660, 20, 1], 0);
    copy([4, 100, 100], [0, 1, 0], [10000, 100, 1], 0);
    copy([65, 3, 66], [1, 65, 195], [198, 66, 1], 0);
    // Rows of odd length that begin where they can be read by chunks, and one that does not.
    copy([3, 2, 259], [600, 260, 1], [520, 260, 1], 0);
    copy([3, 2, 258], [600, 260, 1], [516, 258, 1], 0);
}
