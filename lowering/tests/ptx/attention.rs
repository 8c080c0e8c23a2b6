//! Attention.

use crate::machine::{Buffer, bf16_to_f64, f16_to_f64, run_on};
use crate::{Emitted, TARGETS, assemble, check_for, emit};
use burn_mlir_ir::{NvptxTarget, Target};
use std::fmt::Write;

/// A kernel over row-major operands.
#[derive(Clone, Debug)]
struct Case {
    dtype: &'static str,
    causal: bool,
    softcap: bool,
    mask: bool,
    bias: bool,
    lse: bool,
    /// Batch, heads, heads of keys, queries, keys, width, width of values.
    sizes: [usize; 7],
}

impl Case {
    fn new(sizes: [usize; 7]) -> Self {
        Self { dtype: "bf16", causal: false, softcap: false, mask: false, bias: false, lse: false, sizes }
    }

    fn text(&self) -> String {
        let [batch, heads, kv_heads, queries, keys, width, value_width] = self.sizes;
        let dense = |heads: usize, rows: usize, columns: usize| {
            format!("[{}, {}, {columns}, 1]", heads * rows * columns, rows * columns)
        };
        let mut text = format!("attention {}", self.dtype);
        for (flag, word) in [(self.causal, " causal"), (self.softcap, " softcap")] {
            text.push_str(if flag { word } else { "" });
        }
        write!(
            text,
            " {{\n  batch {batch} heads {heads} kv_heads {kv_heads} queries {queries} keys {keys} width {width} \
             value_width {value_width}\n  query {} align 16\n  key {} align 16\n  value {} align 16\n",
            dense(heads, queries, width),
            dense(kv_heads, keys, width),
            dense(kv_heads, keys, value_width)
        )
        .unwrap();
        if self.mask {
            writeln!(text, "  mask {} align 1", dense(heads, queries, keys)).unwrap();
        }
        if self.bias {
            writeln!(text, "  bias [0, {}, {keys}, 1] align 8", queries * keys).unwrap();
        }
        writeln!(text, "  output {} align 16", dense(heads, queries, value_width)).unwrap();
        if self.lse {
            writeln!(text, "  lse [{}, {queries}, 1] align 16", heads * queries).unwrap();
        }
        text + "}"
    }
}

/// Lowers for a target and checks what holds for every attention kernel.
fn check(text: &str, target: &str) -> Emitted {
    let emitted = emit(text, target);
    assert!(!emitted.ptx.contains(".extern .func"), "{}", emitted.ptx);
    if let Some(said) = assemble(&emitted.ptx, target) {
        assert!(!said.contains("C75"), "{said}\n{text}");
        for line in said.lines().filter(|line| line.contains("spill")) {
            assert!(line.contains(" 0 bytes spill stores, 0 bytes spill loads"), "{line}\n{text}");
        }
    }
    emitted
}

fn check_hopper(case: &Case) {
    let emitted = check(&case.text(), "sm_90a");
    assert!(emitted.ptx.contains("wgmma.mma_async"), "{}", case.text());
    assert_eq!(emitted.program.phases[0].tensor_maps.len(), 4);
}

#[test]
fn tensor_cores_attend_at_every_width() {
    let widths = [[16, 16], [40, 40], [64, 64], [80, 80], [128, 128], [192, 128], [192, 192], [256, 256]];
    for (index, [width, value_width]) in widths.into_iter().enumerate() {
        let causal = index % 2 == 0;
        check_hopper(&Case { causal, ..Case::new([2, 4, 2, 777, 1000, width, value_width]) });
    }
}

#[test]
fn tensor_cores_attend_with_masks_biases_and_caps() {
    for width in [64, 128, 192, 256] {
        let plain = Case::new([2, 4, 4, 129, 300, width, width]);
        check_hopper(&Case { mask: true, bias: true, softcap: true, causal: true, lse: true, ..plain });
    }
    let plain = Case::new([2, 4, 4, 129, 300, 64, 128]);
    check_hopper(&Case { mask: true, ..plain.clone() });
    check_hopper(&Case { dtype: "f16", bias: true, ..plain });
}

/// The shapes that speed is measured at.
#[test]
fn tensor_cores_attend_to_long_sequences() {
    let measured = [[8, 4096, 128], [8, 4096, 64], [64, 512, 64]];
    for [batch, tokens, width] in measured {
        let case = Case::new([batch, 16, 16, tokens, tokens, width, width]);
        check_hopper(&Case { causal: true, ..case.clone() });
        check_hopper(&Case { lse: true, ..case });
    }
    check_hopper(&Case { dtype: "f16", ..Case::new([8, 16, 16, 4096, 4096, 128, 128]) });
}

/// Small numbers without structure.
fn numbers(count: usize, salt: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7919 + salt * 104_729) % 1009) as f64 / 504.5 - 1.0).collect()
}

impl Case {
    /// Numbers as the type holds them, and their bytes.
    fn rounded(&self, values: Vec<f64>) -> (Vec<f64>, Buffer) {
        let round = |value: f64| -> (f64, Vec<u8>) {
            let single = value as f32;
            match self.dtype {
                "f64" => (value, value.to_le_bytes().into()),
                "f32" => (single.into(), single.to_le_bytes().into()),
                // Multiples of 1/64 up to 1 are numbers of both.
                narrow => {
                    let value = (value * 64.0).round() / 64.0;
                    let bits =
                        if narrow == "bf16" { ((value as f32).to_bits() >> 16) as u16 } else { f16(value) };
                    (value, bits.to_le_bytes().into())
                }
            }
        };
        let (values, bytes): (Vec<f64>, Vec<Vec<u8>>) = values.into_iter().map(round).unzip();
        (values, bytes.concat().into())
    }

    fn read(&self, bytes: &[u8]) -> Vec<f64> {
        match self.dtype {
            "f64" => bytes.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect(),
            "f32" => {
                bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into()).collect()
            }
            narrow => {
                let bits = bytes.chunks(2).map(|bytes| u16::from_le_bytes(bytes.try_into().unwrap()));
                bits.map(if narrow == "bf16" { bf16_to_f64 } else { f16_to_f64 }).collect()
            }
        }
    }

    fn wide(&self) -> Self {
        Self { dtype: if self.dtype == "f64" { "f64" } else { "f32" }, ..self.clone() }
    }
}

/// A multiple of 1/64 up to 1 as an f16.
fn f16(value: f64) -> u16 {
    let size = value.abs();
    if size == 0.0 {
        return 0;
    }
    let exponent = size.log2().floor() as i32;
    let steps = (size * 2f64.powi(10 - exponent)) as u16;
    (if value < 0.0 { 0x8000 } else { 0 }) + (((exponent + 14) as u16) << 10) + steps
}

/// Runs a case and compares the result and the logarithms with f64 arithmetic.
fn compute(case: &Case) {
    let [batch, heads, kv_heads, queries, keys, width, value_width] = case.sizes;
    let (query, query_buffer) = case.rounded(numbers(batch * heads * queries * width, 1));
    let (key, key_buffer) = case.rounded(numbers(batch * kv_heads * keys * width, 2));
    let (value, value_buffer) = case.rounded(numbers(batch * kv_heads * keys * value_width, 3));
    let (bias, bias_buffer) = case.rounded(numbers(heads * queries * keys, 4));
    let mask: Vec<u8> =
        (0..batch * heads * queries * keys).map(|i| u8::from(i * 31 % 7 < 3 || i / keys % 5 == 1)).collect();
    let (scale, cap) = (0.75, 1.5);
    let double = case.dtype == "f64";
    let bits = |value: f64| if double { value.to_bits() } else { u64::from((value as f32).to_bits()) };
    let mut scalars = vec![bits(scale)];
    let mut buffers = vec![query_buffer, key_buffer, value_buffer];
    if case.mask {
        buffers.push(mask.clone().into());
    }
    if case.bias {
        buffers.push(bias_buffer);
    }
    if case.softcap {
        scalars.push(bits(cap));
    }
    let rows = batch * heads * queries;
    let output = buffers.len();
    buffers.push(case.rounded(vec![0.5; rows * value_width]).1);
    buffers.push(case.wide().rounded(vec![0.5; rows]).1);
    // Few multiprocessors: each block of threads gets some tiles.
    let target = Target::Nvptx(NvptxTarget::new("sm_90a", Some(2)));
    let ran = run_on(&target, &case.text(), buffers, &scalars);
    let results = case.read(&ran.buffers[output]);
    let logarithms = case.wide().read(&ran.buffers[output + 1]);

    let (tolerance, of_logarithms) = match case.dtype {
        "f64" => (1e-12, 2e-12),
        "f32" => (2e-6, 4e-6),
        "f16" => (1e-3, 2e-5),
        _ => (6e-3, 2e-5),
    };
    for row in 0..rows {
        let (q, head) = (row % queries, row / queries);
        let of = head / heads * kv_heads + head % heads / (heads / kv_heads);
        let scores: Vec<f64> = (0..keys)
            .map(|k| {
                let mine = &query[row * width..][..width];
                let theirs = &key[(of * keys + k) * width..][..width];
                let mut score = mine.iter().zip(theirs).map(|(a, b)| a * b).sum::<f64>() * scale;
                if case.softcap {
                    score = cap * (score / cap).tanh();
                }
                let hidden = case.mask && mask[row * keys + k] != 0 || case.causal && k + queries > q + keys;
                let bias = if case.bias { bias[(head % heads * queries + q) * keys + k] } else { 0.0 };
                if hidden { f64::NEG_INFINITY } else { score + bias }
            })
            .collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total: f64 = weights.iter().sum();
        for column in 0..value_width {
            let sum: f64 =
                (0..keys).map(|k| weights[k] * value[(of * keys + k) * value_width + column]).sum();
            let should = if total == 0.0 { 0.0 } else { sum / total };
            let is = results[row * value_width + column];
            let close = (is - should).abs() <= tolerance;
            assert!(close, "row {row} column {column}: {is}, should be {should}\n{case:?}");
        }
        let should = if total == 0.0 { f64::NEG_INFINITY } else { max + total.ln() };
        let is = logarithms[row];
        let close = is == should || (is - should).abs() <= of_logarithms;
        assert!(close, "row {row}: {is}, should be {should}\n{case:?}");
    }
}

fn single(sizes: [usize; 7]) -> Case {
    Case { dtype: "f32", lse: true, ..Case::new(sizes) }
}

#[test]
fn multiply_adds_attend() {
    compute(&single([1, 2, 1, 70, 70, 8, 5]));
    compute(&Case { causal: true, ..single([1, 1, 1, 70, 100, 40, 70]) });
    compute(&Case { causal: true, ..single([1, 1, 1, 90, 30, 3, 3]) });
    compute(&Case { dtype: "f64", causal: true, ..single([2, 1, 1, 40, 40, 9, 70]) });
}

#[test]
fn multiply_adds_attend_with_masks_biases_and_caps() {
    compute(&Case { mask: true, ..single([1, 2, 2, 20, 66, 16, 16]) });
    let all = Case { mask: true, bias: true, softcap: true, causal: true, ..single([2, 2, 1, 9, 40, 4, 4]) };
    compute(&all);
    compute(&Case { dtype: "f64", ..all });
}

#[test]
fn every_type_is_attended_to_on_every_target() {
    for target in TARGETS {
        for dtype in ["f64", "f32", "f16", "bf16"] {
            let case = Case { dtype, causal: true, ..Case::new([2, 4, 2, 77, 90, 68, 130]) };
            let emitted = check_for(&case.text(), target);
            assert!(!emitted.ptx.contains("wgmma"));
        }
        let all = Case {
            mask: true,
            bias: true,
            softcap: true,
            causal: true,
            lse: true,
            ..single([2, 4, 2, 77, 90, 64, 128])
        };
        check_for(&all.text(), target);
        check_for(&Case { dtype: "f64", ..all }.text(), target);
    }
}

/// As on Hopper, but for what has to wait for copies and products.
fn compute_narrow(case: Case) {
    compute(&Case { lse: true, ..case });
}

#[test]
fn tensor_cores_compute() {
    compute_narrow(Case::new([1, 2, 1, 70, 130, 128, 128]));
    compute_narrow(Case { causal: true, ..Case::new([1, 2, 1, 200, 200, 64, 64]) });
    compute_narrow(Case { causal: true, ..Case::new([1, 1, 1, 1, 200, 40, 24]) });
    compute_narrow(Case { causal: true, dtype: "f16", ..Case::new([1, 1, 1, 129, 60, 80, 192]) });
    compute_narrow(Case { causal: true, ..Case::new([1, 2, 1, 20, 90, 256, 16]) });
    compute_narrow(Case::new([1, 6, 3, 3, 20, 16, 16]));
}

#[test]
fn tensor_cores_compute_with_masks_biases_and_caps() {
    compute_narrow(Case { mask: true, ..Case::new([1, 2, 2, 70, 130, 64, 64]) });
    let all = Case {
        mask: true,
        bias: true,
        softcap: true,
        causal: true,
        ..Case::new([2, 2, 1, 40, 100, 64, 128])
    };
    compute_narrow(all.clone());
    compute_narrow(Case { dtype: "f16", sizes: [1, 1, 1, 33, 50, 160, 8], ..all.clone() });
    compute_narrow(Case { sizes: [1, 1, 1, 33, 50, 200, 256], ..all });
}
