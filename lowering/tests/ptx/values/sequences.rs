//! Sorts and scans.

use super::{Numbers, bits, f32s, to_f32s, to_i32s};
use crate::machine::{Buffer, run};

fn sort(rows: usize, size: usize, descending: bool, positions: bool, distinct: u64) {
    sort_floats("f32", rows, size, descending, positions, distinct);
}

/// Rows of small integers, in `f32` or `bf16`, and of what floats have besides.
fn sort_floats(dtype: &str, rows: usize, size: usize, descending: bool, positions: bool, distinct: u64) {
    let mut numbers = Numbers(size as u64);
    let mut input: Vec<f32> = (0..rows * size).map(|_| (numbers.next() % distinct) as f32 - 3.0).collect();
    for place in (0..input.len()).step_by(7) {
        input[place] = [f32::NAN, -f32::NAN, -0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY][place / 7 % 6];
    }
    let mut expected = Vec::new();
    for row in input.chunks(size) {
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|&a, &b| {
            let order = match (row[a].is_nan(), row[b].is_nan()) {
                (false, false) => row[a].partial_cmp(&row[b]).unwrap(),
                (a, b) => a.cmp(&b),
            };
            if descending { order.reverse() } else { order }
        });
        expected.extend(order);
    }
    let order = if descending { "descending " } else { "" };
    let result = if positions { " to i32" } else { "" };
    let text = format!(
        "sort {order}{dtype}{result} {{\n  shape [{rows}, {size}] axis 1\n  input [{size}, 1]\n  output [{size}, 1]\n}}"
    );
    let half = dtype == "bf16";
    // A bf16 is the upper half of an f32.
    let input_bytes: Vec<u8> = if half {
        input.iter().flat_map(|value| value.to_le_bytes()[2..].to_vec()).collect()
    } else {
        input.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let output = vec![0u8; if half && !positions { 2 } else { 4 } * input.len()];
    let ran = run(&text, vec![input_bytes.into(), output.into()], &[]);
    if positions {
        let expected: Vec<i32> = expected.iter().map(|&place| place as i32).collect();
        assert_eq!(to_i32s(&ran.buffers[1]), expected, "{text}");
        return;
    }
    let expected: Vec<f32> =
        expected.iter().enumerate().map(|(at, place)| input[at / size * size + place]).collect();
    let actual = if half {
        let whole = |half: &[u8]| f32::from_le_bytes([0, 0, half[0], half[1]]);
        ran.buffers[1].chunks(2).map(whole).collect()
    } else {
        to_f32s(&ran.buffers[1])
    };
    assert_eq!(bits(&actual), bits(&expected), "{text}");
}

#[test]
fn sorts() {
    sort(3, 1, false, true, 5);
    sort(40, 9, false, true, 4);
    sort(2, 1000, true, true, 100);
    sort(3, 2048, false, false, 100000);
    sort(1, 2049, true, false, 100);
    sort(2, 10000, false, true, 50);
    sort(1, 17000, false, false, 1 << 20);
}

#[test]
fn sorts_of_long_rows() {
    // By digits: the values themselves and their positions, equal keys, other directions.
    sort_floats("bf16", 1, 8200, false, false, 200);
    sort_floats("bf16", 1, 8193, true, true, 30);
    sort_bytes("u8", 3, 4100, false, true, 200);
    sort_bytes("i8", 1, 9001, true, true, 2);
    sort_bytes("i16", 1, 8200, true, false, 1 << 16);
}

/// Rows of integers of one or two bytes.
fn sort_bytes(dtype: &str, rows: usize, size: usize, descending: bool, positions: bool, distinct: u64) {
    let mut numbers = Numbers(size as u64);
    let bytes = if dtype.ends_with('8') { 1 } else { 2 };
    let value = |bits: u64| match dtype {
        "u8" => i64::from(bits as u8),
        "i8" => i64::from(bits as i8),
        "u16" => i64::from(bits as u16),
        _ => i64::from(bits as i16),
    };
    let input: Vec<i64> =
        (0..rows * size).map(|_| value((numbers.next() % distinct).wrapping_sub(7))).collect();
    let expected = input.chunks(size).flat_map(|row| {
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by_key(|&at| if descending { -row[at] } else { row[at] });
        order.into_iter().map(|at| if positions { at as i64 } else { row[at] }).collect::<Vec<_>>()
    });
    let (order, result) =
        (if descending { "descending " } else { "" }, if positions { " to i32" } else { "" });
    let text = format!(
        "sort {order}{dtype}{result} {{\n  shape [{rows}, {size}] axis 1\n  input [{size}, 1]\n  output [{size}, 1]\n}}"
    );
    let to_bytes = |value: &i64| value.to_le_bytes()[..bytes].to_vec();
    let output = vec![0u8; if positions { 4 } else { bytes } * input.len()];
    let ran =
        run(&text, vec![input.iter().flat_map(to_bytes).collect::<Vec<u8>>().into(), output.into()], &[]);
    let actual: Vec<i64> = if positions {
        to_i32s(&ran.buffers[1]).into_iter().map(i64::from).collect()
    } else {
        let bits = |part: &[u8]| part.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        ran.buffers[1].chunks(bytes).map(|part| value(bits(part))).collect()
    };
    assert_eq!(actual, expected.collect::<Vec<_>>(), "{text}");
}

fn scan(shape: [usize; 3], op: &str) {
    let [outer, size, inner] = shape;
    let mut numbers = Numbers(size as u64);
    let input = numbers.floats(outer * size * inner);
    let mut expected = input.clone();
    for at in 0..outer {
        for step in 1..size {
            for column in 0..inner {
                let place = (at * size + step) * inner + column;
                let before = expected[place - inner];
                expected[place] = if op == "sum" { before + input[place] } else { before.max(input[place]) };
            }
        }
    }
    let strides = format!("[{}, {inner}, 1]", size * inner);
    let text =
        format!("scan {op} f32 {{\n  shape {shape:?} axis 1\n  input {strides}\n  output {strides}\n}}");
    for shift in [0, 4] {
        let output = Buffer { bytes: vec![0; 4 * input.len()], origin: 0, shift };
        let ran = run(&text, vec![f32s(&input), output], &[]);
        assert_eq!(to_f32s(&ran.buffers[1]), expected, "{text}");
    }
}

#[test]
fn scans() {
    for op in ["sum", "max"] {
        scan([5, 1, 1], op);
        scan([7, 3, 1], op);
        scan([9, 100, 1], op);
        scan([3, 1024, 1], op);
        scan([2, 2051, 1], op);
        scan([1, 50000, 1], op);
        scan([1, 100, 40], op);
        scan([2, 3000, 9], op);
    }
}

fn paths([steps, sequences, states]: [usize; 3]) {
    let mut numbers = Numbers(states as u64);
    let scores: Vec<f32> = numbers.floats(steps * sequences * states).iter().map(|v| -v.abs()).collect();
    let skips: Vec<u8> = (0..sequences * states).map(|_| (numbers.next() % 2) as u8).collect();
    let mut expected = vec![f64::NEG_INFINITY; scores.len()];
    for step in 0..steps {
        for sequence in 0..sequences {
            for state in 0..states {
                let place = (step * sequences + sequence) * states + state;
                let before = |back: usize| expected[place - sequences * states - back];
                let sum = if step == 0 {
                    if state < 2 { 0.0 } else { f64::NEG_INFINITY }
                } else {
                    let skip = usize::from(state >= 2 && skips[sequence * states + state] != 0);
                    let from = (0..=state.min(1 + skip)).map(before);
                    let most = from.clone().fold(f64::NEG_INFINITY, f64::max);
                    if most.is_finite() {
                        most + from.map(|v| (v - most).exp()).sum::<f64>().ln()
                    } else {
                        most
                    }
                };
                expected[place] = sum + scores[place] as f64;
            }
        }
    }
    let row = sequences * states;
    let text = format!(
        "paths f32 {{\n  shape [{steps}, {sequences}, {states}]\n  scores [{row}, {states}, 1]\n  \
         skips [0, {states}, 1]\n  output [{row}, {states}, 1]\n}}"
    );
    let output = vec![0u8; 4 * scores.len()];
    let ran = run(&text, vec![f32s(&scores), skips.into(), output.into()], &[]);
    for (at, (actual, expected)) in to_f32s(&ran.buffers[2]).into_iter().zip(expected).enumerate() {
        let actual = actual as f64;
        let close = actual == expected || (actual - expected).abs() < 1e-5 * expected.abs().max(1.0);
        assert!(close, "{text}: {at} is {actual}, should be {expected}");
    }
}

#[test]
fn sums_over_paths() {
    paths([1, 1, 1]);
    paths([7, 2, 1]);
    paths([6, 3, 9]);
    paths([20, 1, 33]);
    // Several states a thread, and rows that a block's memory has no room for.
    paths([4, 1, 1201]);
    paths([3, 2, 6200]);
}
