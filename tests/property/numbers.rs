//! The values of tensors, exact in f64 or i128 whatever their type.

use burn_backend::{BoolStore, DType, Shape, TensorData};
use half::{bf16, f16};

/// Truth values.
pub const BOOL: DType = DType::Bool(BoolStore::Native);

/// What a tensor may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// Everything the type has; how wild is drawn.
    Any,
    /// Moderate numbers, sometimes an infinity or NaN.
    Sums,
    /// Numbers of a range; integers from `low` to `high - 1`.
    Within(f64, f64),
    /// Numbers of a range, none twice (if there are enough), in random order.
    Distinct,
    /// Everything but zero.
    NonZero,
}

/// Elements of one tensor.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// Of floats.
    Floats(Vec<f64>),
    /// Of integers and truth values.
    Ints(Vec<i128>),
}

/// Random numbers that are the same everywhere.
pub struct Random(pub u64);

impl Random {
    /// 32 random bits.
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        ((self.next() as u64 * count as u64) >> 32) as usize
    }

    /// In `0..1`.
    pub fn unit(&mut self) -> f64 {
        self.next() as f64 / 4_294_967_296.0
    }
}

/// The smallest and the largest number of an integer type.
pub fn range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        DType::Bool(_) => (0, 1),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Bits of the mantissa after the point, exponent of the smallest normal number, largest number.
pub fn format(dtype: DType) -> (i32, i32, f64) {
    match dtype {
        DType::F64 => (52, -1022, f64::MAX),
        DType::F16 => (10, -14, 65504.0),
        DType::BF16 => (7, -126, bf16::MAX.to_f64()),
        _ => (23, -126, f32::MAX as f64),
    }
}

/// A number rounded to a type of floats.
pub fn rounded(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        _ => value as f32 as f64,
    }
}

impl Numbers {
    /// Draws `count` of them. The low bits of `seed` are how wild they are: 0 is plainest, so that shrinking a seed
    /// makes values plain.
    pub fn draw(domain: Domain, dtype: DType, count: usize, seed: u32, salt: u64) -> Self {
        let wildness = seed >> 29;
        let mut random = Random((seed as u64) << 16 ^ salt.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        if dtype.is_float() {
            return Self::Floats(floats(domain, dtype, count, wildness, &mut random));
        }
        let (low, high) = range(dtype);
        if domain == Domain::Distinct {
            let first = if low < 0 { -((count as i128 / 2).min(-low)) } else { 0 };
            let wrap = high - first + 1;
            let order = shuffled(count, &mut random);
            return Self::Ints(order.into_iter().map(|at| first + at as i128 % wrap).collect());
        }
        let mut next = || -> i128 {
            let small = |random: &mut Random| random.below(9) as i128 - 4;
            let value = match (domain, wildness) {
                (Domain::Within(low, high), _) => low as i128 + random.below((high - low) as usize) as i128,
                (Domain::Sums, _) | (_, 0..=2) => small(&mut random),
                (_, 6..) => {
                    let edges = [low, low + 1, -1, 0, 1, high - 1, high, high / 2];
                    edges[random.below(edges.len())]
                }
                _ => ((random.next() as u64) << 32 | random.next() as u64) as i64 as i128,
            };
            let span = high - low + 1;
            let value = low + (value - low).rem_euclid(span);
            if domain == Domain::NonZero && value == 0 { 1 } else { value }
        };
        Self::Ints((0..count).map(|_| next()).collect())
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Ints(values) => values.len(),
        }
    }

    /// The elements at `positions`.
    pub fn at(&self, positions: &[usize]) -> Self {
        match self {
            Self::Floats(values) => Self::Floats(positions.iter().map(|&at| values[at]).collect()),
            Self::Ints(values) => Self::Ints(positions.iter().map(|&at| values[at]).collect()),
        }
    }

    /// Without signs.
    pub fn magnitudes(&self) -> Self {
        match self {
            Self::Floats(values) => Self::Floats(values.iter().map(|value| value.abs()).collect()),
            Self::Ints(_) => self.clone(),
        }
    }

    /// As data of a type that can hold them.
    pub fn data(&self, dtype: DType, shape: &[usize]) -> TensorData {
        let shape = Shape::from(shape.to_vec());
        macro_rules! stored {
            ($values:expr, $($dtype:pat => $convert:expr,)*) => {
                match dtype {
                    $($dtype => TensorData::new($values.iter().map($convert).collect::<Vec<_>>(), shape),)*
                    other => unreachable!("{other:?} of {self:?}"),
                }
            };
        }
        match self {
            Self::Floats(values) => stored! { values,
                DType::F64 => |&v| v,
                DType::F32 | DType::Flex32 => |&v| v as f32,
                DType::F16 => |&v| f16::from_f64(v),
                DType::BF16 => |&v| bf16::from_f64(v),
            },
            Self::Ints(values) => stored! { values,
                DType::I64 => |&v| v as i64,
                DType::I32 => |&v| v as i32,
                DType::I16 => |&v| v as i16,
                DType::I8 => |&v| v as i8,
                DType::U64 => |&v| v as u64,
                DType::U32 => |&v| v as u32,
                DType::U16 => |&v| v as u16,
                DType::U8 => |&v| v as u8,
                DType::Bool(_) => |&v| v != 0,
            },
        }
    }
}

fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, random.below(at + 1));
    }
    order
}

fn floats(domain: Domain, dtype: DType, count: usize, wildness: u32, random: &mut Random) -> Vec<f64> {
    let (mantissa, least, most) = format(dtype);
    if domain == Domain::Distinct {
        // Exact in every type as long as there are no more than 128 of them.
        let middle = count as f64 / 2.0;
        let order = shuffled(count, random);
        return order.into_iter().map(|at| rounded(at as f64 - middle, dtype)).collect();
    }
    let specials = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        most,
        -most,
        2f64.powi(least),
        f64::from(least - mantissa).exp2(),
        -f64::from(least - mantissa).exp2(),
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
    ];
    let next = || {
        let plain = |random: &mut Random| random.below(9) as f64 - 4.0;
        let moderate = |random: &mut Random| 8.0 * random.unit() - 4.0;
        let wide = |random: &mut Random| {
            let exponent =
                least - mantissa + random.below((most.log2() as i32 - least + mantissa) as usize) as i32;
            let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
            // In two steps: the power itself may be too small for f64.
            sign * (1.0 + random.unit()) * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
        };
        let value = match (domain, wildness) {
            (Domain::Within(low, high), 0..=1) => {
                (low + random.unit() * (high - low)).round().clamp(low, high)
            }
            (Domain::Within(low, high), _) => low + random.unit() * (high - low),
            (_, 0..=1) => plain(random),
            (Domain::Sums, 7) if random.below(40) == 0 => specials[random.below(3)],
            (Domain::Sums, _) | (_, 2..=3) => moderate(random),
            (_, 4) => wide(random),
            (_, 5) if random.below(4) == 0 => specials[random.below(specials.len())],
            (_, 5) => moderate(random),
            (_, 6) => specials[random.below(specials.len())],
            _ if random.below(4) == 0 => specials[random.below(specials.len())],
            _ => wide(random),
        };
        let value = rounded(value, dtype);
        if domain == Domain::NonZero && value == 0.0 { 1.0 } else { value }
    };
    std::iter::repeat_with(next).take(count).collect()
}
