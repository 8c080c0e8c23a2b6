//! Burn's quantisation in plain Rust: formats as lists of the values they have, blocks by dividing coordinates.

use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, ScaleDtype, global_scale_dtype};

/// What a tensor becomes.
#[derive(Debug)]
pub struct Model {
    /// Codes in row-major order: integers, or the codes of floats.
    pub codes: Vec<i32>,
    /// One scale a block.
    pub scales: Vec<f32>,
    /// What the scales of blocks are relative to.
    pub global: Option<f32>,
    /// The values again.
    pub values: Vec<f32>,
}

/// Exponent bits, mantissa bits, and the code from which on there are no finite values.
fn float_format(value: QuantValue) -> Option<(u32, u32, i32)> {
    match value {
        QuantValue::E4M3 => Some((4, 3, 0x7f)),
        QuantValue::E5M2 => Some((5, 2, 0x7c)),
        QuantValue::E2M1 => Some((2, 1, 8)),
        _ => None,
    }
}

/// The value of a code without its sign.
fn magnitude(exponent_bits: u32, mantissa_bits: u32, code: i32) -> f64 {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let (exponent, mantissa) = (code >> mantissa_bits, f64::from(code & ((1 << mantissa_bits) - 1)));
    let fraction = mantissa / 2f64.powi(mantissa_bits as i32);
    match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    }
}

/// The value of a code.
pub fn decode(value: QuantValue, code: i32) -> f64 {
    let Some((exponent, mantissa, end)) = float_format(value) else { return f64::from(code) };
    let sign = 1 << (exponent + mantissa);
    let rest = code & (sign - 1);
    let size = match rest {
        rest if rest < end => magnitude(exponent, mantissa, rest),
        0x7c if value == QuantValue::E5M2 => f64::INFINITY,
        _ => f64::NAN,
    };
    if code & sign == 0 { size } else { -size }
}

/// The code of a scaled value.
pub fn encode(value: QuantValue, scaled: f32) -> i32 {
    let Some((exponent, mantissa, end)) = float_format(value) else {
        let bits = value.size_bits() as u32;
        let high = (1 << (bits - 1)) - 1;
        let low = if value.is_symmetric() { -high } else { -high - 1 };
        return (scaled.round() as i32).clamp(low, high);
    };
    let sign = i32::from(scaled.is_sign_negative()) << (exponent + mantissa);
    if scaled.is_nan() {
        return if value == QuantValue::E2M1 { sign } else { 0x7f | sign };
    }
    // Close enough for differences to be exact.
    let size = f64::from(scaled.abs().min(1e6));
    let distance = |code: &i32| (magnitude(exponent, mantissa, *code) - size).abs();
    let nearest = (0..end).min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
    nearest.unwrap() | sign
}

/// The least value of a scale's type that is not less.
pub fn rounded_up(scale: f32, dtype: ScaleDtype) -> f32 {
    let least = |values: Vec<f64>| {
        let found = values.iter().copied().filter(|&v| v >= f64::from(scale)).fold(f64::INFINITY, f64::min);
        if found.is_finite() { found as f32 } else { values.iter().copied().fold(0.0, f64::max) as f32 }
    };
    match dtype {
        ScaleDtype::F32 => scale,
        ScaleDtype::F16 => least((0..0x7c00).map(|code| magnitude(5, 10, code)).collect()),
        ScaleDtype::BF16 => least((0..0x7f80).map(|code| magnitude(8, 7, code)).collect()),
        ScaleDtype::UE4M3 => least((0..0x7f).map(|code| magnitude(4, 3, code)).collect()),
        ScaleDtype::UE8M0 => least((0..255).map(|code| 2f64.powi(code - 127)).collect()),
    }
}

fn usable(scale: f32, dtype: ScaleDtype) -> f32 {
    let scale = if scale.is_nan() { 0.0 } else { rounded_up(scale, dtype) };
    if scale > 0.0 && scale.is_finite() { scale } else { rounded_up(f32::MIN_POSITIVE, dtype) }
}

/// The shape of the grid of blocks, and the block of each element.
pub fn blocks(shape: &[usize], scheme: &QuantScheme) -> (Vec<usize>, Vec<usize>) {
    let elements = shape.iter().product();
    let Some(size) = scheme.block_size() else { return (vec![1], vec![0; elements]) };
    let extents = size.to_dim_vec(shape.len());
    let grid: Vec<usize> = shape.iter().zip(&extents).map(|(&n, &b)| n.div_ceil(usize::from(b))).collect();
    let block = |index: usize| {
        let (mut rest, mut block, mut stride) = (index, 0, 1);
        for axis in (0..shape.len()).rev() {
            block += rest % shape[axis] / usize::from(extents[axis]) * stride;
            rest /= shape[axis];
            stride *= grid[axis];
        }
        block
    };
    let of_elements = (0..elements).map(block).collect();
    (grid, of_elements)
}

/// Dynamic quantisation.
pub fn quantized(values: &[f32], shape: &[usize], scheme: &QuantScheme) -> Model {
    let (grid, block) = blocks(shape, scheme);
    let mut peaks = vec![0f32; grid.iter().product()];
    for (&value, &block) in values.iter().zip(&block) {
        peaks[block] = peaks[block].max(value.abs());
    }
    let (low, high) = scheme.value.range();
    let raw: Vec<f32> = peaks.iter().map(|peak| 2.0 * peak / (high - low)).collect();
    let dtype = scheme.scale_dtype();
    let global = global_scale_dtype(scheme).map(|of_global| {
        let largest = match dtype {
            ScaleDtype::UE4M3 => 448.0,
            ScaleDtype::F16 => 65504.0,
            other => panic!("{other:?} is no type for scales of two levels"),
        };
        usable(raw.iter().copied().fold(0.0, f32::max) / largest, of_global)
    });
    let scale = |raw: &f32| usable(global.map_or(*raw, |global| raw / global), dtype);
    let scales: Vec<f32> = raw.iter().map(scale).collect();
    let step = |block: usize| global.map_or(scales[block], |global| global * scales[block]);
    let codes: Vec<i32> =
        values.iter().zip(&block).map(|(x, &block)| encode(scheme.value, x / step(block))).collect();
    let decoded = |(&code, &block): (&i32, &usize)| step(block) * decode(scheme.value, code) as f32;
    let values = codes.iter().zip(&block).map(decoded).collect();
    Model { codes, scales, global, values }
}

impl Model {
    /// The bytes of Burn's data: values as the store has them, scales, the scale for all.
    pub fn bytes(&self, shape: &[usize], scheme: &QuantScheme) -> Vec<u8> {
        let mut bytes = packed(&self.codes, shape, scheme);
        for &scale in &self.scales {
            match scheme.scale_dtype() {
                ScaleDtype::F32 => bytes.extend(scale.to_ne_bytes()),
                ScaleDtype::F16 => bytes.extend(half::f16::from_f32(scale).to_ne_bytes()),
                ScaleDtype::BF16 => bytes.extend(half::bf16::from_f32(scale).to_ne_bytes()),
                ScaleDtype::UE4M3 => bytes.push(encode(QuantValue::E4M3, scale) as u8),
                ScaleDtype::UE8M0 => bytes.push((scale.log2() + 127.0) as u8),
            }
        }
        bytes.extend(self.global.map(f32::to_ne_bytes).into_iter().flatten());
        bytes
    }
}

/// Codes as a store has them, each line along the packed axis in whole units.
pub fn packed(codes: &[i32], shape: &[usize], scheme: &QuantScheme) -> Vec<u8> {
    let bits = scheme.value.size_bits();
    let mask = (1u32 << bits) - 1;
    let (dim, unit) = match scheme.store {
        QuantStore::Native => (0, 8),
        QuantStore::PackedNative(dim) if scheme.value == QuantValue::E2M1 => (dim, 8),
        QuantStore::PackedNative(_) => (0, 8),
        QuantStore::PackedU32(dim) => (dim, 32),
    };
    let per_unit = match scheme.store {
        QuantStore::PackedU32(_) => 32 / bits,
        QuantStore::PackedNative(_) if scheme.value == QuantValue::E2M1 => 2,
        _ => 1,
    };
    // The packed axis exchanged with the innermost.
    let (rank, axis) = (shape.len(), shape.len().saturating_sub(dim + 1));
    let mut stored = shape.to_vec();
    if rank > 0 {
        stored.swap(axis, rank - 1);
    }
    let line = stored.last().copied().unwrap_or(1);
    let source = |index: usize| {
        let mut coordinates = vec![0; rank];
        let mut rest = index;
        for at in (0..rank).rev() {
            coordinates[at] = rest % stored[at];
            rest /= stored[at];
        }
        if rank > 0 {
            coordinates.swap(axis, rank - 1);
        }
        coordinates.iter().zip(shape).fold(0, |index, (c, n)| index * n + c)
    };
    let mut bytes = Vec::new();
    for row in 0..codes.len().checked_div(line).unwrap_or(0) {
        for start in (0..line).step_by(per_unit) {
            let places = start..line.min(start + per_unit);
            let word = places.enumerate().fold(0u32, |word, (place, at)| {
                word | (codes[source(row * line + at)] as u32 & mask) << (place * bits)
            });
            let code = if per_unit == 1 { codes[source(row * line + start)] as u32 } else { word };
            bytes.extend(&code.to_le_bytes()[..unit / 8]);
        }
    }
    bytes
}
