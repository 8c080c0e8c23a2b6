//! Convolutions whose channels are adjacent in memory, tried on the [machine](crate::machine): tiles are whole lines of
//! windows.

use crate::machine::{Ran, run_on};
use burn_mlir_ir::{NvptxTarget, Target};

/// Integers from -4 to 3, as bf16 in memory.
fn numbers(count: usize, salt: u64) -> (Vec<i32>, Vec<u8>) {
    let mut state = salt;
    let numbers: Vec<i32> = (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 61) as i32 - 4
        })
        .collect();
    let bytes = numbers.iter().flat_map(|&n| (((n as f32).to_bits() >> 16) as u16).to_le_bytes());
    (numbers.clone(), bytes.collect())
}

fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// To the nearest bf16, the even one of two.
fn rounded(value: f32) -> f32 {
    let bits = value.to_bits();
    bf16(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16)
}

/// Results are sums in f32, exact for these numbers, or rounded once. `reach` is how far apart neighbouring windows are.
fn convolution(
    [batch, filters, channels]: [usize; 3],
    [height, width]: [usize; 2],
    reach: usize,
    columns: usize,
    result: &str,
) {
    let (rows, line) = ((height - 1) * reach + 3, (width - 1) * reach + 3);
    let (x, x_bytes) = numbers(batch * rows * line * channels, 1);
    let (w, w_bytes) = numbers(filters * 9 * channels, 2);
    let (row, plane) = (line * channels, height * width);
    let text = format!(
        "block [p {filters}, p {batch}, p {height}, p {width}, r 3, r {run}] () {{
  @0 = in bf16 align 64
  @1 = in bf16 align 64
  @2 = out {result} align 64
  %0 = load @0 [{weight}, 0, 0, 0, {run}, 1] : bf16
  %1 = load @1 [0, {image}, {down}, {right}, {row}, 1] : bf16
  %2 = cast %0 : f32
  %3 = cast %1 : f32
  %4 = contract %2, %3 : f32
  %5 = cast %4 : {result}
  store %5 -> @2 [{plane}, {image_result}, {width}, 1, 0, 0]
}}",
        run = 3 * channels,
        weight = 9 * channels,
        image = rows * row,
        down = reach * row,
        right = reach * channels,
        image_result = filters * plane,
    );
    let target = Target::Nvptx(NvptxTarget::new("sm_90a", Some(2)));
    let emitted = crate::emit_for(&text, &target);
    assert!(emitted.ptx.contains(&format!("m64n{columns}k16")), "{}", emitted.ptx);
    let size = if result == "f32" { 4 } else { 2 };
    let out = vec![0xff; batch * filters * plane * size];
    let Ran { buffers, .. } = run_on(&target, &text, vec![w_bytes.into(), x_bytes.into(), out.into()], &[]);
    for (at, bytes) in buffers[2].chunks(size).enumerate() {
        let (n, o, y, x0) = (at / (filters * plane), at / plane % filters, at / width % height, at % width);
        let mut sum = 0;
        for i in 0..3 {
            for jc in 0..3 * channels {
                let input = ((n * rows + y * reach + i) * line + x0 * reach) * channels + jc;
                sum += w[(o * 3 + i) * 3 * channels + jc] * x[input];
            }
        }
        let (value, expected) = match bytes.try_into() {
            Ok(bytes) => (f32::from_le_bytes(bytes), sum as f32),
            Err(_) => (bf16(u16::from_le_bytes([bytes[0], bytes[1]])), rounded(sum as f32)),
        };
        assert_eq!(value, expected, "image {n}, filter {o}, row {y}, column {x0}");
    }
}

#[test]
fn whole_lines() {
    // 14 windows a line: 16 lines of the 14 are 224 columns, of which the last ones are none.
    convolution([2, 64, 32], [14, 14], 1, 224, "f32");
    // Lines and rows that fill no tile.
    convolution([2, 40, 16], [9, 24], 1, 216, "f32");
    // Windows two apart.
    convolution([2, 64, 8], [8, 28], 2, 224, "bf16");
    // Lines of 64 leave by the copy engine.
    convolution([2, 64, 8], [5, 64], 1, 64, "bf16");
    convolution([2, 128, 8], [8, 64], 1, 256, "bf16");
}

/// The gradient of a weight: summed over images, lines and the windows of a line.
#[test]
fn sums_of_windows() {
    let ([batch, filters, channels], [height, width]) = ([2, 64, 16], [6, 16]);
    let (rows, line) = (height + 2, width + 2);
    let (x, x_bytes) = numbers(batch * rows * line * channels, 3);
    let (g, g_bytes) = numbers(batch * filters * height * width, 4);
    let (row, plane, run) = (line * channels, height * width, 3 * channels);
    let text = format!(
        "block [p {filters}, p 3, p {run}, r {batch}, r {height}, r {width}] () {{
  @0 = in bf16 align 64
  @1 = in bf16 align 64
  @2 = out bf16 align 64
  %0 = load @0 [{plane}, 0, 0, {image}, {width}, 1] : bf16
  %1 = load @1 [0, {row}, 1, {padded}, {row}, {channels}] : bf16
  %2 = contract %0, %1 : bf16
  store %2 -> @2 [{all}, {run}, 1, 0, 0, 0]
}}",
        image = filters * plane,
        padded = rows * row,
        all = 3 * run,
    );
    let target = Target::Nvptx(NvptxTarget::new("sm_90a", Some(2)));
    let out = vec![0xff; filters * 3 * run * 2];
    let Ran { buffers, .. } = run_on(&target, &text, vec![g_bytes.into(), x_bytes.into(), out.into()], &[]);
    for (at, bytes) in buffers[2].chunks(2).enumerate() {
        let (o, i, jc) = (at / (3 * run), at / run % 3, at % run);
        let mut sum = 0;
        for (n, y, x0) in (0..batch * plane).map(|p| (p / plane, p / width % height, p % width)) {
            let input = ((n * rows + y + i) * line + x0) * channels + jc;
            sum += g[((n * filters + o) * height + y) * width + x0] * x[input];
        }
        let value = bf16(u16::from_le_bytes([bytes[0], bytes[1]]));
        assert_eq!(value, rounded(sum as f32), "filter {o}, line {i}, column and channel {jc}");
    }
}
