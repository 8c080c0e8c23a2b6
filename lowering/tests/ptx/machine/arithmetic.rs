//! What the machine's instructions compute.

use super::parse::{Instruction, Type};

/// The lowest bits.
pub fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// A value whose lowest bits are a signed number.
pub fn signed(value: u64, bits: u32) -> i64 {
    let spare = 64 - bits;
    (value as i64) << spare >> spare
}

/// The value of a bf16.
pub fn bf16_to_f64(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// The value of an f16.
pub fn f16_to_f64(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    };
    if sign == 1 { -size } else { size }
}

/// Rounded once, ties to even.
fn f64_to_f16(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if value.is_nan() {
        return 0x7fff;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    let exponent = if size == 0.0 { -14 } else { (size.log2().floor() as i32).clamp(-14, 15) };
    let steps = (size * 2f64.powi(10 - exponent)).round_ties_even() as u16;
    // A carry goes into the exponent by itself.
    sign | if steps < 1024 && exponent == -14 { steps } else { (((exponent + 14) as u16) << 10) + steps }
}

/// The upper half, rounded to nearest, ties to even.
fn f32_to_bf16(bits: u32) -> u16 {
    if f32::from_bits(bits).is_nan() {
        return 0x7fff;
    }
    let below = bits & 0xffff;
    let up = below > 0x8000 || below == 0x8000 && bits >> 16 & 1 == 1;
    (bits >> 16) as u16 + u16::from(up)
}

fn float(value: u64, bits: u32) -> f64 {
    match bits {
        16 => f16_to_f64(value as u16),
        32 => f64::from(f32::from_bits(value as u32)),
        _ => f64::from_bits(value),
    }
}

fn bits_of(value: f64, bits: u32) -> u64 {
    match bits {
        16 => u64::from(f64_to_f16(value)),
        32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

fn has(instruction: &Instruction, modifier: &str) -> bool {
    instruction.modifiers.iter().any(|part| part == modifier)
}

/// The result of an instruction on the values of its sources.
pub fn evaluate(instruction: &Instruction, v: &[u64]) -> u64 {
    let ty = instruction.types[0];
    let bits = ty.bits();
    match instruction.name.as_str() {
        "setp" => return u64::from(compares(instruction, instruction.types[0], v[0], v[1])),
        "selp" => return if v[2] & 1 == 1 { v[0] } else { v[1] },
        "cvt" => return convert(instruction, v),
        "cvta" => return v[0],
        "and" => return v[0] & v[1],
        "or" => return v[0] | v[1],
        "xor" => return v[0] ^ v[1],
        "not" => return if ty == Type::Predicate { v[0] & 1 ^ 1 } else { !v[0] & mask(bits) },
        "shl" => return shift(v, bits, |value, by| value << by) & mask(bits),
        "shr" => {
            let by = (v[1] & 0xffff_ffff) as u32;
            return match ty {
                Type::Signed(_) => (signed(v[0], bits) >> by.min(bits - 1)) as u64 & mask(bits),
                _ => shift(&[v[0] & mask(bits), v[1]], bits, |value, by| value >> by),
            };
        }
        "shf" => {
            let both = (v[1] & mask(32)) << 32 | v[0] & mask(32);
            let by = v[2] as u32 & 31;
            let left = has(instruction, "l");
            return if left { (both << by) >> 32 } else { both >> by } & mask(32);
        }
        "prmt" => return permute(v),
        "bfe" => {
            let (from, count) = (v[1] as u32 & 255, v[2] as u32 & 255);
            let field = (v[0] & mask(bits)) >> from & mask(count);
            return match ty {
                Type::Signed(_) if count > 0 => signed(field, count) as u64 & mask(bits),
                _ => field,
            };
        }
        "popc" => return u64::from((v[0] & mask(bits)).count_ones()),
        "clz" => return u64::from((v[0] & mask(bits)).leading_zeros() - (64 - bits)),
        "copysign" => return v[1] & (mask(bits) >> 1) | v[0] & (1 << (bits - 1)),
        _ => {}
    }
    match ty {
        Type::Halves | Type::Shorts => {
            let each = if ty == Type::Halves { Type::Float(16) } else { Type::Signed(16) };
            let half = |by: u32| {
                let parts: Vec<u64> = v.iter().map(|value| value >> by & 0xffff).collect();
                scalar(instruction, each, &parts) & 0xffff
            };
            half(16) << 16 | half(0)
        }
        _ => scalar(instruction, ty, v),
    }
}

fn scalar(instruction: &Instruction, ty: Type, v: &[u64]) -> u64 {
    match ty {
        Type::Float(bits) => float_arithmetic(instruction, bits, v),
        _ => integer_arithmetic(instruction, ty, v),
    }
}

fn shift(v: &[u64], bits: u32, by: impl Fn(u64, u32) -> u64) -> u64 {
    let distance = (v[1] & 0xffff_ffff) as u32;
    if distance >= bits { 0 } else { by(v[0], distance) }
}

fn permute(v: &[u64]) -> u64 {
    let bytes = (v[1] & mask(32)) << 32 | v[0] & mask(32);
    (0..4).fold(0, |all, position| {
        let selector = v[2] >> (4 * position) & 15;
        let byte = bytes >> (8 * (selector & 7)) & 255;
        let byte = if selector & 8 == 0 { byte } else { if byte & 128 == 0 { 0 } else { 255 } };
        all | byte << (8 * position)
    })
}

fn integer_arithmetic(instruction: &Instruction, ty: Type, v: &[u64]) -> u64 {
    let bits = ty.bits();
    let is_signed = matches!(ty, Type::Signed(_));
    let wide = |value: u64| -> i128 {
        if is_signed { i128::from(signed(value, bits)) } else { i128::from(value & mask(bits)) }
    };
    let x: Vec<i128> = v.iter().map(|&value| wide(value)).collect();
    let product = |c: Option<u64>| -> u64 {
        let product = x[0] * x[1];
        if has(instruction, "wide") {
            return (product as u64).wrapping_add(c.unwrap_or(0)) & mask(2 * bits);
        }
        let part = if has(instruction, "hi") { product >> bits } else { product };
        (part as u64).wrapping_add(c.unwrap_or(0)) & mask(bits)
    };
    let result = match instruction.name.as_str() {
        "add" => x[0] + x[1],
        "sub" => x[0] - x[1],
        "mul" => return product(None),
        "mad" => return product(Some(v[2])),
        "min" => x[0].min(x[1]),
        "max" => x[0].max(x[1]),
        "neg" => -x[0],
        "abs" => x[0].abs(),
        // What a division by zero gives is not used.
        "div" => x[0].checked_div(x[1]).unwrap_or(-1),
        "rem" => x[0].checked_rem(x[1]).unwrap_or(-1),
        _ => panic!("unknown: {}", instruction.text),
    };
    result as u64 & mask(bits)
}

fn float_arithmetic(instruction: &Instruction, bits: u32, v: &[u64]) -> u64 {
    let x: Vec<f64> = v.iter().map(|&value| float(value, bits)).collect();
    let nan = has(instruction, "NaN") && x.iter().any(|x| x.is_nan());
    let pick = |first: bool| {
        if nan {
            f64::NAN
        } else if x[0].is_nan() || !first && !x[1].is_nan() {
            x[1]
        } else {
            x[0]
        }
    };
    let below = |a: f64, b: f64| a < b || a == b && a.is_sign_negative();
    let result = match (instruction.name.as_str(), bits) {
        ("neg", _) => return v[0] ^ 1 << (bits - 1),
        ("abs", _) => return v[0] & mask(bits - 1),
        ("add", _) => x[0] + x[1],
        ("sub", _) => x[0] - x[1],
        ("mul", _) => x[0] * x[1],
        ("div", 32) => f64::from(x[0] as f32 / x[1] as f32),
        ("div", _) => x[0] / x[1],
        ("rcp", _) => 1.0 / x[0],
        ("ex2", _) => x[0].exp2(),
        ("lg2", _) => x[0].log2(),
        ("sqrt", _) => x[0].sqrt(),
        ("fma", 32) => return u64::from((x[0] as f32).mul_add(x[1] as f32, x[2] as f32).to_bits()),
        ("fma", _) => x[0].mul_add(x[1], x[2]),
        ("min", _) => pick(below(x[0], x[1])),
        ("max", _) => pick(!below(x[0], x[1])),
        _ => panic!("unknown: {}", instruction.text),
    };
    bits_of(result, bits)
}

fn compares(instruction: &Instruction, ty: Type, a: u64, b: u64) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let bits = ty.bits();
    let order = match ty {
        Type::Float(_) => float(a, bits).partial_cmp(&float(b, bits)),
        Type::Signed(_) => Some(signed(a, bits).cmp(&signed(b, bits))),
        _ => Some((a & mask(bits)).cmp(&(b & mask(bits)))),
    };
    let name = instruction.modifiers[0].as_str();
    match name {
        "nan" => return order.is_none(),
        "num" => return order.is_some(),
        _ => {}
    }
    let Some(order) = order else { return name.len() == 3 || name == "ne" && !matches!(ty, Type::Float(_)) };
    match &name[..2] {
        "eq" => order == Equal,
        "ne" => order != Equal,
        "lt" | "lo" => order == Less,
        "le" | "ls" => order != Greater,
        "gt" | "hi" => order == Greater,
        "ge" | "hs" => order != Less,
        _ => panic!("unknown: {}", instruction.text),
    }
}

fn convert(instruction: &Instruction, v: &[u64]) -> u64 {
    let [to, from] = instruction.types[..] else { panic!("unknown: {}", instruction.text) };
    if (from, to) == (Type::Brief, Type::Float(32)) {
        return (v[0] & mask(16)) << 16;
    }
    if to == Type::Halves {
        let [high, low] = [v[0], v[1]].map(|value| u64::from(f64_to_f16(float(value, 32))));
        return high << 16 | low;
    }
    if matches!(to, Type::Brief | Type::Briefs) {
        assert_eq!(from, Type::Float(32), "{}", instruction.text);
        return v.iter().fold(0, |all, value| all << 16 | u64::from(f32_to_bf16(*value as u32)));
    }
    let exact: i128 = match from {
        Type::Signed(bits) => i128::from(signed(v[0], bits)),
        _ => i128::from(v[0] & mask(from.bits())),
    };
    match (from, to) {
        (Type::Float(a), Type::Float(b)) => {
            let x = float(v[0], a);
            let x = rounded(instruction, x);
            bits_of(x, b)
        }
        (Type::Float(a), _) => {
            let x = rounded(instruction, float(v[0], a));
            let bits = to.bits();
            let (low, high) = match to {
                Type::Signed(_) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                _ => (0, (1i128 << bits) - 1),
            };
            (x as i128).clamp(low, high) as u64 & mask(bits)
        }
        (_, Type::Float(32)) => u64::from((exact as f32).to_bits()),
        (_, Type::Float(bits)) => bits_of(exact as f64, bits),
        (_, Type::Signed(bits)) => signed(exact as u64, bits) as u64,
        _ => exact as u64 & mask(to.bits()),
    }
}

fn rounded(instruction: &Instruction, x: f64) -> f64 {
    match instruction.modifiers.first().map(String::as_str) {
        Some("rni") => x.round_ties_even(),
        Some("rzi") => x.trunc(),
        Some("rmi") => x.floor(),
        Some("rpi") => x.ceil(),
        _ => x,
    }
}
