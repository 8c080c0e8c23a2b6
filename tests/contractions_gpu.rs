//! Matrix products in the types that matrix units take, on every device: shapes that fill no tile, all
//! transpositions, batches, epilogues.
//!
//! Operands are small multiples of 1/8, so that sums are exact in f32 in any order: results are compared bit
//! for bit with integer arithmetic, rounded once.

use crate::support::devices::{current, each, gpu};
use crate::support::exact::{floats, integers, product, rounded, tensor, transposed, values};
use burn_backend::ops::{FloatTensorOps, ModuleOps};
use burn_backend::{DType, FloatDType};
use burn_mlir::{Mlir, MlirDevice, MlirTensor};

/// Eighths of an operand's elements.
fn eighths(count: usize, salt: usize) -> Vec<i64> {
    integers(count, salt, 5)
}

/// An operand `[rows, columns]`, stored as such or the other way round.
fn operand(values: &[i64], [rows, columns]: [usize; 2], other: bool, dtype: DType) -> MlirTensor {
    if other {
        let stored = transposed(values, rows, columns);
        Mlir::float_swap_dims(tensor(&stored, [columns, rows], dtype), 0, 1)
    } else {
        tensor(values, [rows, columns], dtype)
    }
}

fn same(name: &str, ours: &[f64], expected: impl Iterator<Item = f64>) {
    let mut count = 0;
    for (at, expected) in expected.enumerate() {
        let both_nan = ours[at].is_nan() && expected.is_nan();
        assert!(
            ours[at] == expected || both_nan,
            "{name}: element {at} is {}, should be {expected}",
            ours[at]
        );
        count += 1;
    }
    assert_eq!(ours.len(), count, "{name}");
}

const DTYPES: [DType; 3] = [DType::BF16, DType::F16, DType::Flex32];

/// Around the sizes of tiles, and below the smallest; sums of many slices, which are cut where tiles are few.
const SHAPES: [[usize; 3]; 20] = [
    [300, 257, 75],
    [1, 1, 1],
    // One row and column: tiles have more, which must not be written.
    [1, 1, 2],
    [1, 1, 64],
    [1, 5, 64],
    [1, 64, 64],
    [64, 1, 64],
    [7, 65, 64],
    [64, 64, 7],
    [128, 128, 128],
    [129, 128, 1],
    [130, 300, 200],
    [8, 1000, 300],
    [300, 8, 1000],
    [136, 264, 72],
    [1000, 136, 128],
    [64, 64, 4096],
    [96, 200, 3000],
    [128, 256, 2048],
    [1, 512, 1024],
];

#[test]
fn products_of_all_shapes_and_transpositions() {
    for [m, n, k] in SHAPES {
        let (a, b) = (eighths(m * k, 1), eighths(k * n, 2));
        let expected = product(&a, &b, [m, n, k]);
        each(|| {
            // All are asked for before the first is read, so that they are compiled beside each other. The host
            // has one kind of kernel for all types.
            let dtypes = if current() == MlirDevice::Cpu { &DTYPES[..1] } else { &DTYPES[..] };
            let mut products = Vec::new();
            for &dtype in dtypes {
                for (left, right) in [(false, false), (false, true), (true, false), (true, true)] {
                    let (x, y) = (operand(&a, [m, k], left, dtype), operand(&b, [k, n], right, dtype));
                    let name = format!("{m}x{n}x{k} {dtype:?} {left} {right}");
                    products.push((name, dtype, Mlir::float_matmul(x, y)));
                }
            }
            for (name, dtype, product) in products {
                let exact = expected.iter().map(|&sum| rounded(sum as f64 / 64.0, dtype));
                same(&name, &values(product), exact);
            }
        });
    }
}

/// Results that are not stored along their columns.
#[test]
fn transposed_results() {
    for [m, n, k] in [[130, 264, 72], [512, 256, 64]] {
        let (a, b) = (eighths(m * k, 3), eighths(k * n, 4));
        let expected = transposed(&product(&a, &b, [m, n, k]), m, n);
        each(|| {
            for dtype in DTYPES {
                let (x, y) = (operand(&a, [m, k], false, dtype), operand(&b, [k, n], false, dtype));
                let product = Mlir::float_matmul(x, y);
                let one = tensor(&[8], [1, 1], dtype);
                // A result of its own in the order of the transposed view.
                let ours = values(Mlir::float_mul(Mlir::float_swap_dims(product, 0, 1), one));
                let name = format!("{m}x{n}x{k} {dtype:?}");
                same(&name, &ours, expected.iter().map(|&sum| rounded(sum as f64 / 64.0, dtype)));
            }
        });
    }
}

#[test]
fn batches() {
    for (batches, [m, n, k]) in [([3, 2], [70, 72, 64]), ([2, 3], [128, 64, 136]), ([1, 5], [33, 40, 24])] {
        let [outer, inner] = batches;
        let count = outer * inner;
        let (a, b) = (eighths(count * m * k, 5), eighths(count * k * n, 6));
        let expected = |broadcast: bool| -> Vec<i64> {
            let of = |at: usize| {
                let right = if broadcast { at / inner * inner } else { at };
                product(&a[at * m * k..][..m * k], &b[right * k * n..][..k * n], [m, n, k])
            };
            (0..count).flat_map(of).collect()
        };
        let (each_own, one_for_many) = (expected(false), expected(true));
        let firsts: Vec<i64> =
            (0..outer).flat_map(|at| b[at * inner * k * n..][..k * n].iter().copied()).collect();
        each(|| {
            for dtype in DTYPES {
                let x = || tensor(&a, [outer, inner, m, k], dtype);
                let name = format!("{batches:?} of {m}x{n}x{k} {dtype:?}");
                let of = |sums: &[i64]| -> Vec<f64> {
                    sums.iter().map(|&sum| rounded(sum as f64 / 64.0, dtype)).collect()
                };
                let ours = Mlir::float_matmul(x(), tensor(&b, [outer, inner, k, n], dtype));
                same(&name, &values(ours), of(&each_own).into_iter());
                let ours = Mlir::float_matmul(x(), tensor(&firsts, [outer, 1, k, n], dtype));
                same(&format!("{name}, right shared"), &values(ours), of(&one_for_many).into_iter());
                // Heads that are interleaved in memory, as a layer of attention has them.
                let heads = tensor(&interleaved(&a, outer, inner, m, k), [outer, m, inner, k], dtype);
                let heads = Mlir::float_swap_dims(heads, 1, 2);
                let ours = Mlir::float_matmul(heads, tensor(&b, [outer, inner, k, n], dtype));
                same(&format!("{name}, interleaved"), &values(ours), of(&each_own).into_iter());
            }
        });
    }
}

/// `[outer, inner, m, k]` as `[outer, m, inner, k]`.
fn interleaved(values: &[i64], outer: usize, inner: usize, m: usize, k: usize) -> Vec<i64> {
    let mut result = Vec::with_capacity(values.len());
    for o in 0..outer {
        for row in 0..m {
            for i in 0..inner {
                result.extend_from_slice(&values[((o * inner + i) * m + row) * k..][..k]);
            }
        }
    }
    result
}

/// A layer with bias and activation, a residual, and a second result of another type. Host and GPU give the same
/// bits; both are near what f64 arithmetic gives.
#[test]
fn epilogues() {
    for [m, n, k] in [[200, 136, 136], [128, 256, 64], [65, 129, 40], [64, 192, 2048]] {
        let (a, b, bias) = (eighths(m * k, 7), eighths(k * n, 8), eighths(n, 9));
        let residual = eighths(m * n, 10);
        let sums = product(&a, &b, [m, n, k]);
        for dtype in DTYPES {
            let mut of_devices: Vec<Vec<Vec<f64>>> = Vec::new();
            let collected = std::cell::RefCell::new(&mut of_devices);
            each(|| {
                let scale = 1.0 / (k as f32).sqrt();
                let (x, y) = (tensor(&a, [m, k], dtype), tensor(&b, [k, n], dtype));
                let scaled = Mlir::float_mul_scalar(Mlir::float_matmul(x.clone(), y.clone()), scale.into());
                let sum = Mlir::float_add(scaled, tensor(&bias, [1, n], dtype));
                let gelu = <Mlir as burn_backend::ops::ActivationOps<Mlir>>::gelu(sum.clone());
                let total = Mlir::float_add(gelu, tensor(&residual, [m, n], dtype));
                let wide = Mlir::float_cast(total.clone(), FloatDType::F32);
                let linear = Mlir::linear(x, y, Some(tensor(&bias, [n], dtype)));
                let ours = [sum, total, wide, linear].map(values);
                let unit = match dtype {
                    DType::BF16 => 2f64.powi(-8),
                    DType::F16 => 2f64.powi(-11),
                    _ => 2f64.powi(-18),
                };
                for at in 0..m * n {
                    let product = sums[at] as f64 / 64.0;
                    let sum = product * scale as f64 + bias[at % n] as f64 / 8.0;
                    let gelu = sum * 0.5 * (1.0 + erf(sum / 2f64.sqrt()));
                    let total = gelu + residual[at] as f64 / 8.0;
                    let linear = product + bias[at % n] as f64 / 8.0;
                    let near = |ours: f64, expected: f64, size: f64| {
                        let bound = unit * (8.0 * size + 0.01);
                        assert!(
                            (ours - expected).abs() <= bound,
                            "{dtype:?} {at}: {ours}, should be {expected}"
                        );
                    };
                    let size = product.abs() * scale as f64 + 2.0;
                    near(ours[0][at], sum, size);
                    near(ours[1][at], total, size + 2.0);
                    assert_eq!(ours[1][at], ours[2][at]);
                    near(ours[3][at], linear, product.abs() + 2.0);
                }
                collected.borrow_mut().push(ours.to_vec());
            });
            for (first, other) in of_devices.iter().zip(of_devices.iter().skip(1)) {
                for (first, other) in first.iter().zip(other) {
                    same("host and GPU", other, first.iter().copied());
                }
            }
        }
    }
}

/// More tiles than a GPU computes at a time: one is finished while the next is multiplied. Rows here and there are
/// compared with f64 arithmetic, all of them between host and GPU.
#[test]
fn long_epilogues_of_many_tiles() {
    let [m, n, k] = [3000, 2104, 600];
    let (a, b, bias) = (eighths(m * k, 17), eighths(k * n, 18), eighths(n, 19));
    let scale = 0.03125f32;
    let mut of_devices: Vec<Vec<Vec<f64>>> = Vec::new();
    let collected = std::cell::RefCell::new(&mut of_devices);
    each(|| {
        let dtype = DType::BF16;
        let product = Mlir::float_matmul(tensor(&a, [m, k], dtype), tensor(&b, [k, n], dtype));
        let sum =
            Mlir::float_add(Mlir::float_mul_scalar(product, scale.into()), tensor(&bias, [1, n], dtype));
        let gelu = <Mlir as burn_backend::ops::ActivationOps<Mlir>>::gelu(sum.clone());
        let ours = [sum, gelu].map(values);
        for row in (0..m).step_by(271).chain([m - 1]) {
            let sums = product_of_row(&a[row * k..][..k], &b, n);
            for (column, &product) in sums.iter().enumerate() {
                let at = row * n + column;
                // Every step is rounded.
                let product = rounded(rounded(product as f64 / 64.0, dtype) * scale as f64, dtype);
                let sum = rounded(product + bias[column] as f64 / 8.0, dtype);
                assert_eq!(ours[0][at], sum, "sum {at}");
                let gelu = sum * 0.5 * (1.0 + erf(sum / 2f64.sqrt()));
                let bound = gelu.abs() * 2f64.powi(-8) + 1e-6;
                assert!((ours[1][at] - gelu).abs() <= bound, "{at}: {}, should be {gelu}", ours[1][at]);
            }
        }
        collected.borrow_mut().push(ours.to_vec());
    });
    for (first, other) in of_devices.iter().zip(of_devices.iter().skip(1)) {
        for (first, other) in first.iter().zip(other) {
            same("host and GPU", other, first.iter().copied());
        }
    }
}

fn product_of_row(a: &[i64], b: &[i64], n: usize) -> Vec<i64> {
    product(a, b, [1, n, a.len()])
}

/// The error function by its series and continued fraction.
fn erf(x: f64) -> f64 {
    let size = x.abs();
    let value = if size < 3.0 {
        let (mut term, mut sum) = (size, size);
        for n in 1..60 {
            term *= -size * size / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..60).rev().fold(0.0, |rest, n| n as f64 / 2.0 / (size + rest));
        1.0 - (-size * size).exp() / std::f64::consts::PI.sqrt() / (size + fraction)
    };
    value.copysign(x)
}

/// Real numbers: within the error of sums in f32 and of one rounding.
#[test]
fn products_of_real_numbers() {
    let [m, n, k] = [136, 200, 1032];
    let real = |count: usize, salt: usize| -> Vec<f32> {
        eighths(2 * count, salt)
            .chunks(2)
            .map(|v| (v[0] as f32 * 0.37 + v[1] as f32 * 0.0113).sin())
            .collect()
    };
    let (a, b) = (real(m * k, 11), real(k * n, 12));
    each(|| {
        for dtype in DTYPES {
            // What the matrix unit keeps of an f32.
            let kept = |v: f32| match dtype {
                DType::Flex32 => v as f64,
                _ => rounded(v as f64, dtype),
            };
            let ours = values(Mlir::float_matmul(
                floats(a.clone(), [m, k], dtype),
                floats(b.clone(), [k, n], dtype),
            ));
            let (unit, of_operands) = match dtype {
                DType::BF16 => (2f64.powi(-8), 0.0),
                DType::F16 => (2f64.powi(-11), 0.0),
                _ => (2f64.powi(-23), 2f64.powi(-10) * 2.0),
            };
            for at in 0..m * n {
                let terms = (0..k).map(|i| kept(a[at / n * k + i]) * kept(b[i * n + at % n]));
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
                let bound = sum.abs() * unit + size * (of_operands + 2f64.powi(-20));
                assert!((ours[at] - sum).abs() <= bound, "{dtype:?} {at}: {} {sum} {bound}", ours[at]);
            }
        }
    });
}

/// NaN and infinity reach the elements they belong to and no others.
#[test]
fn nan_and_infinity() {
    let [m, n, k] = [136, 264, 72];
    let mut a: Vec<f32> = eighths(m * k, 13).iter().map(|&v| v as f32 / 8.0).collect();
    let b: Vec<f32> = eighths(k * n, 14).iter().map(|&v| (v as f32).abs() / 8.0 + 0.125).collect();
    a[5 * k + 71] = f32::NAN;
    a[70 * k] = f32::INFINITY;
    a[135 * k + 3] = f32::NEG_INFINITY;
    a[100 * k + 3] = f32::NEG_INFINITY;
    a[100 * k + 70] = f32::INFINITY;
    each(|| {
        for dtype in DTYPES {
            let ours = values(Mlir::float_matmul(
                floats(a.clone(), [m, k], dtype),
                floats(b.clone(), [k, n], dtype),
            ));
            for (at, value) in ours.into_iter().enumerate() {
                let right = match at / n {
                    5 | 100 => value.is_nan(),
                    70 => value == f64::INFINITY,
                    135 => value == f64::NEG_INFINITY,
                    _ => value.is_finite(),
                };
                assert!(right, "{dtype:?}: element {at} is {value}");
            }
        }
    });
}

/// The same bits every time, with sums that are cut into parts.
#[test]
fn the_same_bits_every_time() {
    let Some(_) = gpu() else { return };
    let [m, n, k] = [256, 384, 8192];
    let real =
        |count, salt| -> Vec<f32> { eighths(count, salt).iter().map(|&v| (v as f32 * 0.7).sin()).collect() };
    let (a, b) = (real(m * k, 15), real(k * n, 16));
    each(|| {
        for dtype in DTYPES {
            let (x, y) = (floats(a.clone(), [m, k], dtype), floats(b.clone(), [k, n], dtype));
            let first = values(Mlir::float_matmul(x.clone(), y.clone()));
            for _ in 0..20 {
                same("again", &values(Mlir::float_matmul(x.clone(), y.clone())), first.iter().copied());
            }
        }
    });
}
