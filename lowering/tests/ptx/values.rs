//! What kernels compute, tried on the [machine](crate::machine) against loops in Rust.

use crate::machine::{Buffer, Ran, run};

/// A few numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    /// Multiples of 1/4 in -8..8: their sums are exact in any order.
    fn float(&mut self) -> f32 {
        (self.next() % 64) as f32 / 4.0 - 8.0
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}

fn f32s(values: &[f32]) -> Buffer {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
}

fn i32s(values: &[i32]) -> Buffer {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
}

fn to_f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn to_i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

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
    // Runs over chunks of several parts.
    scatter("add", [1, 9000, 120], 2, true, false);
}

fn sort(rows: usize, size: usize, descending: bool, positions: bool, distinct: u64) {
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
        "sort {order}f32{result} {{\n  shape [{rows}, {size}] axis 1\n  input [{size}, 1]\n  output [{size}, 1]\n}}"
    );
    let output = vec![0u8; 4 * input.len()];
    let ran = run(&text, vec![f32s(&input), output.into()], &[]);
    if positions {
        let expected: Vec<i32> = expected.iter().map(|&place| place as i32).collect();
        assert_eq!(to_i32s(&ran.buffers[1]), expected, "{text}");
    } else {
        let expected: Vec<f32> =
            expected.iter().enumerate().map(|(at, place)| input[at / size * size + place]).collect();
        assert_eq!(bits(&to_f32s(&ran.buffers[1])), bits(&expected), "{text}");
    }
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
