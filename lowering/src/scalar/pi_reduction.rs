//! Arguments of trigonometric functions brought to `|r| ≤ π/4`.
//!
//! Up to a bound, `x - n·π/2` with π/2 in three parts (Cody and Waite). Beyond it, the fraction of
//! `x·2/π` in integers (Payne and Hanek): of the bits of 2/π those are taken that neither give
//! multiples of four quadrants nor are too small to matter.

use super::builder::{Float, Int, Width};

/// π/2 as a sum of three floats.
const HALF_PI_SINGLE: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];
const HALF_PI_DOUBLE: [f64; 3] =
    [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];

/// The bits of 2/π behind the point, after one word of zeros.
const TWO_OVER_PI: [u64; 21] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// The remainder, and the number of the quadrant modulo 4 in its lowest bits.
pub(super) struct Quadrant<'b> {
    pub rest: Float<'b>,
    pub number: Int<'b>,
}

/// `x = number·π/2 + rest`.
pub(super) fn reduce(x: Float<'_>) -> Quadrant<'_> {
    let (near, far) = (near(x), far(x));
    choose(x, near, Quadrant { rest: far.rest.narrow_to(x.width()), ..far })
}

/// The same with the remainder as an `f64` whatever the width of `x`.
pub(super) fn reduce_wide(x: Float<'_>) -> Quadrant<'_> {
    let (near, far) = (near(x.widen()), far(x));
    let number = if x.width() == Width::Single { near.number.narrow() } else { near.number };
    choose(x, Quadrant { number, ..near }, far)
}

fn choose<'b>(x: Float<'b>, near: Quadrant<'b>, far: Quadrant<'b>) -> Quadrant<'b> {
    let is_far = x.abs().gt(x.constant(x.width().pick(32768.0, 1099511627776.0)));
    Quadrant { rest: is_far.select(far.rest, near.rest), number: is_far.select_int(far.number, near.number) }
}

/// By Cody and Waite; wrong for large arguments.
fn near(x: Float<'_>) -> Quadrant<'_> {
    let width = x.width();
    let shift = x.constant(width.pick(12582912.0, 6755399441055744.0));
    let shifted = x.fma_c(std::f64::consts::FRAC_2_PI, shift);
    let n = shifted - shift;
    let parts = width.pick(HALF_PI_SINGLE, HALF_PI_DOUBLE);
    let rest = parts.iter().fold(x, |rest, part| n.fma_c(-part, rest));
    Quadrant { rest, number: shifted.to_bits() }
}

/// By Payne and Hanek; wrong for small arguments. The remainder is an `f64`.
fn far(x: Float<'_>) -> Quadrant<'_> {
    let width = x.width();
    let stored = (1i64 << width.mantissa()) - 1;
    let bits = x.abs().to_bits();
    let mantissa = (bits & stored) | (stored + 1);
    let power = bits.shr(width.mantissa()) - (width.bias() + width.mantissa());
    // x = mantissa·2^power. The bits of 2/π from number power - 1 on, counted from 1, matter; the
    // word of zeros is before them.
    let window = window(power - 2 + width.bits());
    let quadrant = match width {
        Width::Single => far_single(mantissa, window),
        Width::Double => far_double(mantissa, window),
    };
    // ∞ has no remainder.
    let rest = x.widen().fma_c(0.0, quadrant.rest);
    let negative = x.lt(x.constant(0.0));
    let zero = quadrant.number.constant(0);
    Quadrant {
        rest: negative.select(-rest, rest),
        number: negative.select_int(zero - quadrant.number, quadrant.number),
    }
}

/// Three words of [`TWO_OVER_PI`] from a position in bits.
fn window(position: Int<'_>) -> [Int<'_>; 3] {
    let width = position.width();
    let mut words: Vec<Int> = match width {
        Width::Single => {
            let halves = TWO_OVER_PI[1..4].iter().flat_map(|word| [word >> 32, word & 0xffff_ffff]);
            std::iter::once(0)
                .chain(halves)
                .map(|word| position.constant(i64::from(word as u32 as i32)))
                .collect()
        }
        Width::Double => TWO_OVER_PI.iter().map(|&word| position.constant(word as i64)).collect(),
    };
    let (log_bits, index_bits) = width.pick((5, 3), (6, 5));
    let index = position.shr(log_bits);
    // Moves the words by each bit of the index until the four that are needed come first.
    for step in (0..index_bits).rev().map(|bit| 1usize << bit) {
        let set = (index & step as i64).ne(index.constant(0));
        let last = words.len() - 1;
        words =
            (0..3 + step).map(|i| set.select_int(words[(i + step).min(last)], words[i.min(last)])).collect();
    }
    let bits = width.bits();
    let left = position & (bits - 1);
    let right = left.constant(bits - 1) - left;
    std::array::from_fn(|i| words[i].shl_by(left) | words[i + 1].shr_logical(1).shr_logical_by(right))
}

/// The product modulo 2^64 fits an i64, whose conversion to f64 is more than exact enough.
fn far_single<'b>(mantissa: Int<'b>, window: [Int<'b>; 3]) -> Quadrant<'b> {
    let mantissa = mantissa.widen();
    let [high, middle, low] = window.map(|word| mantissa * word.widen());
    let product = high.shl(32) + middle + low.shr_logical(32);
    let number = (product + (1i64 << 61)).shr_logical(62).narrow();
    let unit = std::f64::consts::FRAC_PI_2 * 2f64.powi(-64);
    Quadrant { rest: product.shl(2).convert() * unit, number }
}

/// The product modulo 2^192 without its lowest word.
fn far_double<'b>(mantissa: Int<'b>, window: [Int<'b>; 3]) -> Quadrant<'b> {
    let [high, middle, low] = window;
    let (_, low_carry) = mantissa.mul_extended(low);
    let (middle, middle_carry) = mantissa.mul_extended(middle);
    let p1 = middle + low_carry;
    let carry = p1.compare("ult", low_carry).select_int(p1.constant(1), p1.constant(0));
    let p0 = mantissa * high + middle_carry + carry;
    let number = (p0 + (1i64 << 61)).shr_logical(62);
    // The fraction of a quadrant as a signed number of 128 bits, then its sign and magnitude.
    let (f0, f1) = (p0.shl(2) | p1.shr_logical(62), p1.shl(2));
    let sign = f0.shr(63);
    let (f0, f1) = (f0 ^ sign, f1 ^ sign);
    // Both halves convert exactly.
    let below = (1i64 << 11) - 1;
    let upper = (f0 & !below).convert() * 2f64.powi(-64);
    let lower = ((f0 & below).shl(52) | f1.shr_logical(12)).convert() * 2f64.powi(-116);
    let [first, second, _] = HALF_PI_DOUBLE;
    let size = upper.fma_c(first, upper.fma_c(second, lower * first));
    let rest = sign.ne(sign.constant(0)).select(-size, size);
    Quadrant { rest, number }
}
