//! Integers: all wrap, and nothing traps.
//!
//! What Rust calls an overflow wraps; a quotient or remainder by 0 is 0; shifts by the width or more, and by negative
//! counts, shift everything out; quotients are truncated, remainders have the sign of the divisor.

use crate::support::devices::{current, each};
use crate::support::numbers::{Number, TYPES, data, ints, numbers, read, read_numbers, tensor, upload};
use burn_backend::ops::IntTensorOps;
use burn_backend::{BoolDType, DType, IntDType, Scalar};
use burn_mlir::{Mlir, MlirTensor};

type Binary = fn(MlirTensor, MlirTensor) -> MlirTensor;
type WithScalar = fn(MlirTensor, Scalar) -> MlirTensor;
/// The exact result, for a type of so many bits, or what stands for an undefined one.
type Exact = fn(i128, i128, Type) -> i128;

#[derive(Clone, Copy)]
struct Type {
    bits: i128,
    signed: bool,
}

fn types() -> impl Iterator<Item = DType> {
    TYPES.into_iter().filter(|dtype| dtype.is_int() || dtype.is_uint())
}

fn width(dtype: DType) -> Type {
    Type { bits: 8 * dtype.size() as i128, signed: dtype.is_int() }
}

/// The ends of a type, small numbers, and some in between.
fn edges(dtype: DType) -> Vec<i128> {
    let Type { bits, signed } = width(dtype);
    let (low, high) = if signed { (-1 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let all =
        [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, -1, -2, -3, -7, bits, bits - 1, bits + 1, 100, -100];
    all.into_iter().filter(|value| (low..=high).contains(value)).collect()
}

/// Every pair, so that there are several vectors of them and a rest.
fn pairs(dtype: DType) -> (Vec<i128>, Vec<i128>) {
    let values = edges(dtype);
    values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).unzip()
}

fn quotient(a: i128, b: i128, _: Type) -> i128 {
    if b == 0 { 0 } else { a / b }
}

fn remainder(a: i128, b: i128, _: Type) -> i128 {
    if b == 0 { 0 } else { ((a % b) + b) % b }
}

fn shift_left(a: i128, b: i128, t: Type) -> i128 {
    if (0..t.bits).contains(&b) { a << b } else { 0 }
}

fn shift_right(a: i128, b: i128, t: Type) -> i128 {
    if (0..t.bits).contains(&b) { a >> b } else { -((a < 0) as i128) }
}

/// By repeated multiplication of the low 64 bits.
fn power(a: i128, b: i128, _: Type) -> i128 {
    match (a, b) {
        (1, _) => 1,
        (-1, _) => [1, -1][b as usize & 1],
        (_, ..0) => 0,
        _ => {
            let (mut result, mut square, mut rest) = (1u64, a as u64, b);
            while rest > 0 {
                if rest & 1 == 1 {
                    result = result.wrapping_mul(square);
                }
                (square, rest) = (square.wrapping_mul(square), rest >> 1);
            }
            result as i128
        }
    }
}

const ARITHMETIC: [(&str, Binary, WithScalar, Exact); 10] = [
    ("add", Mlir::int_add, Mlir::int_add_scalar, |a, b, _| a + b),
    ("sub", Mlir::int_sub, Mlir::int_sub_scalar, |a, b, _| a - b),
    ("mul", Mlir::int_mul, Mlir::int_mul_scalar, |a, b, _| a.wrapping_mul(b)),
    ("div", Mlir::int_div, Mlir::int_div_scalar, quotient),
    ("remainder", Mlir::int_remainder, Mlir::int_remainder_scalar, remainder),
    ("and", Mlir::bitwise_and, Mlir::bitwise_and_scalar, |a, b, _| a & b),
    ("or", Mlir::bitwise_or, Mlir::bitwise_or_scalar, |a, b, _| a | b),
    ("xor", Mlir::bitwise_xor, Mlir::bitwise_xor_scalar, |a, b, _| a ^ b),
    ("shl", Mlir::bitwise_left_shift, Mlir::bitwise_left_shift_scalar, shift_left),
    ("shr", Mlir::bitwise_right_shift, Mlir::bitwise_right_shift_scalar, shift_right),
];

fn check(name: &str, dtype: DType, result: MlirTensor, operands: &[(i128, i128)], exact: Exact) {
    let back = read(result).unwrap();
    assert_eq!(back.dtype(), dtype, "{name}");
    for (&(a, b), result) in operands.iter().zip(numbers(&back)) {
        let expected = Number::Int(exact(a, b, width(dtype))).to(dtype);
        assert_eq!(result, expected, "{name} of {a} and {b} in {dtype:?}");
    }
}

#[test]
fn arithmetic_wraps_and_never_traps() {
    each(|| {
        for dtype in types() {
            let (a, b) = pairs(dtype);
            let operands: Vec<_> = a.iter().copied().zip(b.iter().copied()).collect();
            let (x, y) = (tensor(dtype, &ints(a)), tensor(dtype, &ints(b)));
            let mut results: Vec<(&str, MlirTensor, Exact)> = ARITHMETIC
                .iter()
                .map(|&(name, op, _, exact)| (name, op(x.clone(), y.clone()), exact))
                .collect();
            results.push(("powi", Mlir::int_powi(x.clone(), y.clone()), power));
            results.push(("neg", Mlir::int_neg(x.clone()), |a, _, _| -a));
            results.push(("abs", Mlir::int_abs(x.clone()), |a, _, _| a.abs()));
            results.push(("sign", Mlir::int_sign(x.clone()), |a, _, _| a.signum()));
            results.push(("not", Mlir::bitwise_not(x.clone()), |a, _, _| !a));
            results.push(("square", Mlir::int_square(x), |a, _, _| a.wrapping_mul(a)));
            for (name, result, exact) in results {
                check(name, dtype, result, &operands, exact);
            }
        }
    });
}

#[test]
fn scalars_are_operands_like_others() {
    each(|| {
        for dtype in [DType::I64, DType::I8, DType::U32] {
            let a = edges(dtype);
            let x = tensor(dtype, &ints(a.clone()));
            for b in edges(dtype) {
                let operands: Vec<_> = a.iter().map(|&a| (a, b)).collect();
                let scalar = i64::try_from(b).map_or(Scalar::UInt(b as u64), Scalar::Int);
                let results: Vec<_> = ARITHMETIC.iter().map(|row| (row, row.2(x.clone(), scalar))).collect();
                for (&(name, _, _, exact), result) in results {
                    check(name, dtype, result, &operands, exact);
                }
            }
            for b in [0, 1, 2, 3, 10, 63, 64, -1, -2, -3] {
                let operands: Vec<_> = a.iter().map(|&a| (a, b)).collect();
                let result = Mlir::int_powi_scalar(x.clone(), Scalar::Int(b as i64));
                check("powi", dtype, result, &operands, power);
            }
        }
    });
}

/// An exponent of another type counts as the number that it is.
#[test]
fn exponents_of_other_types() {
    each(|| {
        for (base, exponent) in [(DType::I8, DType::I64), (DType::U64, DType::I16), (DType::I32, DType::U8)] {
            let operands: Vec<_> = edges(base)
                .into_iter()
                .flat_map(|a| edges(exponent).into_iter().map(move |b| (a, b)))
                .collect();
            let x = tensor(base, &ints(operands.iter().map(|pair| pair.0)));
            let y = tensor(exponent, &ints(operands.iter().map(|pair| pair.1)));
            check("powi", base, Mlir::int_powi(x, y), &operands, power);
        }
    });
}

/// A few elements take another way through a kernel than many, and strided ones another than adjacent ones.
#[test]
fn divisions_by_zero_in_every_place() {
    each(|| {
        for (length, step) in [(1, 1), (7, 1), (67, 1), (67, -1), (67, 3), (1003, 2)] {
            for dtype in [DType::I64, DType::I32, DType::I8] {
                let low = -1i128 << (8 * dtype.size() - 1);
                let a: Vec<_> = (0..length).map(|i| [low, 5, -7][i as usize % 3]).collect();
                let b: Vec<_> = (0..length).map(|i| [-1, 0, 2, 0][i as usize % 4]).collect();
                let slice = burn_backend::Slice::new(0, None, step);
                let view =
                    |values: &[i128]| Mlir::int_slice(tensor(dtype, &ints(values.iter().copied())), &[slice]);
                let taken = |values: &[i128]| -> Vec<i128> {
                    let step_by = step.unsigned_abs();
                    match step < 0 {
                        true => values.iter().rev().step_by(step_by).copied().collect(),
                        false => values.iter().step_by(step_by).copied().collect(),
                    }
                };
                let operands: Vec<_> = taken(&a).into_iter().zip(taken(&b)).collect();
                check("div", dtype, Mlir::int_div(view(&a), view(&b)), &operands, quotient);
                check("remainder", dtype, Mlir::int_remainder(view(&a), view(&b)), &operands, remainder);
            }
        }
    });
}

#[test]
fn comparisons_and_extremes_of_the_ends() {
    each(|| {
        for dtype in types() {
            let (a, b) = pairs(dtype);
            let (x, y) = (tensor(dtype, &ints(a.clone())), tensor(dtype, &ints(b.clone())));
            let native = BoolDType::Native;
            let greater = Mlir::int_greater(x.clone(), y.clone(), native);
            let lower_equal = Mlir::int_lower_equal(x.clone(), y, native);
            let (high, low) = (*a.iter().max().unwrap(), *a.iter().min().unwrap());
            let reduced = [
                ("max", Mlir::int_max(x.clone()), high),
                ("min", Mlir::int_min(x.clone()), low),
                ("sum", Mlir::int_sum(x.clone()), a.iter().sum()),
                ("prod", Mlir::int_prod(x.clone()), a.iter().fold(1, |p: i128, &v| p.wrapping_mul(v))),
            ];
            let at = |value| a.iter().position(|&v| v == value).unwrap() as i128;
            let positions =
                [(Mlir::int_argmax(x.clone(), 0), at(high)), (Mlir::int_argmin(x.clone(), 0), at(low))];
            let (up, down) = (Mlir::int_sort(x.clone(), 0, false), Mlir::int_sort(x, 0, true));
            for (i, (g, l)) in read_numbers(greater).into_iter().zip(read_numbers(lower_equal)).enumerate() {
                let expected = (Number::Int((a[i] > b[i]) as i128), Number::Int((a[i] <= b[i]) as i128));
                assert_eq!((g, l), expected, "{} and {} in {dtype:?}", a[i], b[i]);
            }
            for (name, result, expected) in reduced {
                assert_eq!(read_numbers(result), [Number::Int(expected).to(dtype)], "{name} in {dtype:?}");
            }
            for (result, expected) in positions {
                assert_eq!(read_numbers(result)[0].int(), expected, "{dtype:?}");
            }
            let mut sorted = a.clone();
            sorted.sort_unstable();
            assert_eq!(read_numbers(up), ints(sorted.iter().copied()), "{dtype:?}");
            assert_eq!(read_numbers(down), ints(sorted.into_iter().rev()), "{dtype:?}");
        }
    });
}

#[test]
fn prefixes_and_products_of_matrices_wrap() {
    each(|| {
        for dtype in types() {
            let a = edges(dtype);
            let x = tensor(dtype, &ints(a.clone()));
            let fold = |f: fn(i128, i128) -> i128| {
                let mut so_far = None;
                let next = |&v: &i128| Number::Int(*so_far.insert(so_far.map_or(v, |s| f(s, v)))).to(dtype);
                a.iter().map(next).collect::<Vec<_>>()
            };
            let results = [
                (Mlir::int_cumsum(x.clone(), 0), fold(|a, b| a + b)),
                (Mlir::int_cumprod(x.clone(), 0), fold(i128::wrapping_mul)),
                (Mlir::int_cummax(x.clone(), 0), fold(i128::max)),
                (Mlir::int_cummin(x, 0), fold(i128::min)),
            ];
            for (result, expected) in results {
                assert_eq!(read_numbers(result), expected, "{dtype:?}");
            }
            let n = a.len();
            let (row, column) =
                (data(dtype, &[1, n], &ints(a.clone())), data(dtype, &[n, 1], &ints(a.clone())));
            let product = Mlir::int_matmul(upload(row), upload(column));
            let expected = a.iter().fold(0i128, |sum, v| sum.wrapping_add(v.wrapping_mul(*v)));
            assert_eq!(read_numbers(product), [Number::Int(expected).to(dtype)], "{dtype:?}");
        }
    });
}

/// `start..end` by steps, at the ends of types.
#[test]
#[allow(clippy::reversed_empty_ranges)] // what they give is what is tested
fn ranges_reach_the_ends() {
    each(|| {
        let device = current();
        let range = |range, step, dtype| read_numbers(Mlir::int_arange_step(range, step, &device, dtype));
        assert_eq!(range(-3..4, 3, IntDType::I64), ints([-3, 0, 3]));
        assert_eq!(range(5..5, 1, IntDType::I32), []);
        assert_eq!(range(5..3, 1, IntDType::I32), []);
        assert!(read(Mlir::int_arange_step(0..3, 0, &device, IntDType::I32)).is_err());
        let high = i64::MAX;
        assert_eq!(range(high - 2..high, 1, IntDType::I64), ints([high as i128 - 2, high as i128 - 1]));
        let half = 1i128 << 62;
        let expected = ints([i64::MIN as i128, -half, 0, half]);
        assert_eq!(range(i64::MIN..i64::MAX, 1 << 62, IntDType::I64), expected);
    });
}

/// A compiler must not follow every way through values that are used twice: LLVM's loop vectoriser did, and a power by
/// 63 squarings has 2^63. It looks at loops over one element that is written over.
#[test]
fn powers_of_one_element_that_is_written_over() {
    each(|| {
        for dtype in [DType::I32, DType::U32, DType::I64, DType::U64] {
            let one = |value: i128| upload(data(dtype, &[], &ints([value])));
            let twice_negated = |value| Mlir::int_neg(Mlir::int_neg(one(value)));
            let (base, exponent) = (twice_negated(3), twice_negated(19));
            let power = Mlir::int_powi(base.clone(), exponent.clone());
            let power = Mlir::int_neg(Mlir::int_neg(power));
            assert_eq!(read_numbers(power), ints([3i128.pow(19)]), "{dtype:?}");
            assert_eq!(read_numbers(base), ints([3]), "{dtype:?}");
            assert_eq!(read_numbers(exponent), ints([19]), "{dtype:?}");
        }
    });
}
