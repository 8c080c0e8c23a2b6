//! Scatters, sorts and scans.

use super::{Numbers, bits, f32s, i32s, to_f32s, to_i32s};
use crate::machine::{Buffer, Ran, run};

/// Scatter of `[lists, size, inner]` along the middle; indices the same for all of `inner` if `shared`.
fn scatter(op: &str, [lists, size, inner]: [usize; 3], extent: usize, shared: bool, bad: bool) {
    let mut numbers = Numbers(size as u64);
    let data = numbers.floats(lists * extent * inner);
    let updates = numbers.floats(lists * size * inner);
    let width = if shared { 1 } else { inner };
    let mut indices: Vec<i32> =
        (0..lists * size * width).map(|_| (numbers.next() as usize % extent) as i32).collect();
    if bad {
        indices[size / 2] = -1;
        indices[size / 3] = extent as i32;
    }
    let mut expected = data.clone();
    for list in 0..lists {
        for step in 0..size {
            for at in 0..inner {
                let index = indices[(list * size + step) * width + if shared { 0 } else { at }];
                if index < 0 || index as usize >= extent {
                    continue;
                }
                let update = updates[(list * size + step) * inner + at];
                let old = &mut expected[(list * extent + index as usize) * inner + at];
                *old = match op {
                    "add" => *old + update,
                    "assign" => update,
                    "max" => old.max(update),
                    _ => panic!(),
                };
            }
        }
    }
    let index_strides =
        if shared { format!("{size}, 1, 0") } else { format!("{}, {inner}, 1", size * inner) };
    let text = format!(
        "scatter {op} f32 at i32 {{
  shape [{lists}, {size}, {inner}] axis 1 extent {extent}
  data [{}, {inner}, 1]
  indices [{index_strides}]
  updates [{}, {inner}, 1]
}}",
        extent * inner,
        size * inner
    );
    let Ran { buffers, status } = run(&text, vec![f32s(&data), i32s(&indices), f32s(&updates)], &[]);
    assert_eq!(status, u32::from(bad), "{text}");
    assert_eq!(to_f32s(&buffers[0]), expected, "{text}");
}

/// Scatter of integers, given and left as `i64`, along the only axis.
fn scatter_integers(op: &str, dtype: &str, size: usize, extent: usize) {
    let mut numbers = Numbers(size as u64);
    let bytes = if dtype.ends_with("64") { 8 } else { 4 };
    let value = |bits: u64| match dtype {
        "i32" => i64::from(bits as i32),
        "u32" => i64::from(bits as u32),
        _ => bits as i64,
    };
    let mut list = |count: usize| -> Vec<i64> { (0..count).map(|_| value(numbers.next() << 20)).collect() };
    let (data, updates) = (list(extent), list(size));
    let indices: Vec<i32> = (0..size).map(|_| (numbers.next() as usize % (extent + 1)) as i32).collect();
    let mut expected = data.clone();
    for (&index, &update) in indices.iter().zip(&updates).filter(|(index, _)| **index < extent as i32) {
        let old = &mut expected[index as usize];
        *old = match (op, dtype) {
            ("add", _) => value(old.wrapping_add(update) as u64),
            ("max", "u64") => (*old as u64).max(update as u64) as i64,
            ("min", "u64") => (*old as u64).min(update as u64) as i64,
            ("max", _) => (*old).max(update),
            ("min", _) => (*old).min(update),
            ("assign", _) => update,
            _ => panic!(),
        };
    }
    let text = format!(
        "scatter {op} {dtype} at i32 {{\n  shape [{size}] axis 0 extent {extent}\n  data [1]\n  indices [1]\n  updates [1]\n}}"
    );
    let pack = |values: &[i64]| {
        values.iter().flat_map(|value| value.to_le_bytes()[..bytes].to_vec()).collect::<Vec<u8>>()
    };
    let ran = run(&text, vec![pack(&data).into(), i32s(&indices), pack(&updates).into()], &[]);
    assert_eq!(ran.buffers[0], pack(&expected), "{text}");
    assert_eq!(ran.status, u32::from(indices.contains(&(extent as i32))), "{text}");
}

#[test]
fn scatters_of_integers() {
    for dtype in ["i32", "u32", "i64", "u64"] {
        for op in ["add", "max", "min", "assign"] {
            scatter_integers(op, dtype, 600, 100);
        }
    }
    // Sorted, as many meet in one element.
    scatter_integers("add", "i64", 1000, 3);
    scatter_integers("min", "u32", 1000, 3);
}

#[test]
fn scatters_into_nothing() {
    for (size, status) in [(0, 0), (1, 1), (300, 1)] {
        let text = format!(
            "scatter add f32 at i32 {{\n  shape [{size}] axis 0 extent 0\n  data [1]\n  indices [1]\n  updates [1]\n}}"
        );
        let buffers = vec![f32s(&[]), i32s(&vec![0; size]), f32s(&vec![1.0; size])];
        assert_eq!(run(&text, buffers, &[]).status, status, "{text}");
    }
}

#[test]
fn scatters() {
    for op in ["add", "assign", "max"] {
        scatter(op, [2, 5, 3], 7, true, false);
        scatter(op, [3, 100, 5], 11, true, true);
        scatter(op, [1, 700, 3], 5000, true, false);
        scatter(op, [2, 300, 2], 20, false, true);
        scatter(op, [1, 2500, 1], 3, true, false);
        scatter(op, [1, 33, 1], 1, true, false);
    }
    // What a chunk of many has of an index.
    scatter("add", [1, 9000, 1], 1, true, false);
    scatter("max", [1, 1000, 2], 3, true, true);
    // Few updates of many elements.
    scatter("assign", [1, 300, 9], 5000, true, true);
    scatter("assign", [1, 300, 1], 5000, true, true);
    // Indices of three digits.
    scatter("add", [1, 17_000, 1], 70_000, true, true);
    // Runs over chunks of several parts.
    scatter("add", [1, 9000, 120], 2, true, false);
}

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
