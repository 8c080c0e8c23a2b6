//! Scatters.

use super::{Numbers, f32s, i32s, to_f32s};
use crate::machine::{Buffer, Ran, run, run_on_small};

/// Scatter of `[lists, size, inner]` along the middle; indices the same for all of `inner` if `shared`.
fn scatter(op: &str, shape: [usize; 3], extent: usize, shared: bool, bad: bool) {
    scatter_on(|text, buffers| run(text, buffers, &[]), op, shape, extent, shared, bad);
}

fn scatter_on(
    run: impl Fn(&str, Vec<Buffer>) -> Ran,
    op: &str,
    [lists, size, inner]: [usize; 3],
    extent: usize,
    shared: bool,
    bad: bool,
) {
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
    let Ran { buffers, status } = run(&text, vec![f32s(&data), i32s(&indices), f32s(&updates)]);
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
fn scatters_of_short_and_replaced() {
    for op in ["add", "assign", "max"] {
        scatter(op, [2, 5, 3], 7, true, false);
    }
    scatter("assign", [3, 100, 5], 11, true, true);
    scatter("assign", [2, 300, 2], 20, false, true);
    scatter("assign", [1, 2500, 1], 3, true, false);
}

#[test]
fn scatters_in_runs() {
    for op in ["add", "max"] {
        scatter(op, [3, 100, 5], 11, true, true);
    }
    scatter("add", [1, 33, 1], 1, true, false);
    // Few updates of many elements.
    scatter("assign", [1, 300, 9], 5000, true, true);
    // Runs over chunks of several parts.
    scatter_on(run_on_small, "add", [1, 1500, 12], 2, true, true);
}

#[test]
fn scatters_in_segments() {
    scatter("add", [1, 700, 3], 5000, true, false);
    scatter("add", [2, 300, 2], 20, false, true);
    scatter("max", [1, 1000, 2], 3, true, true);
    scatter("assign", [1, 300, 1], 5000, true, true);
}

#[test]
fn scatters_in_one_long_run() {
    // Over more chunks than a warp has threads.
    scatter("add", [1, 8500, 1], 1, true, false);
}

#[test]
fn scatters_at_indices_of_three_digits() {
    scatter("add", [1, 16_400, 1], 140_000, true, true);
}
