//! What other backends have got wrong, and what is like it.

use crate::support::devices::{device, each};
use crate::support::exact::integers;
use burn::prelude::*;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions, MaxPoolOptions};
use burn::tensor::{DType, FloatDType, IntDType, TensorData, module};

/// A tensor of numbers.
fn floats<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), &device())
}

fn ints<const D: usize>(values: Vec<i64>, shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values, shape), &device())
}

/// 0, 1, 2 and so on.
fn counting<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    floats((0..shape.iter().product()).map(|i: usize| i as f32).collect(), shape)
}

fn list<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn int_list<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter::<i64>().collect()
}

/// Numbers in -1..1 that look random.
fn noise(count: usize, salt: usize) -> Vec<f32> {
    integers(count, salt, 16).into_iter().map(|v| v as f32 / 32768.0).collect()
}

#[test]
fn products_of_ones_count() {
    each(|| {
        for (m, k, n) in
            [(1024, 8, 64), (1024, 7, 64), (64, 1, 1024), (1, 8, 64), (1025, 9, 63), (33, 1024, 5)]
        {
            let ones = |rows, columns| Tensor::<2>::ones([rows, columns], &device());
            let all = [
                ones(m, k).matmul(ones(k, n)),
                ones(m, k).matmul(ones(n, k).transpose()),
                ones(k, m).transpose().matmul(ones(k, n)),
                ones(k, m).transpose().matmul(ones(n, k).transpose()),
            ];
            for (form, product) in all.into_iter().enumerate() {
                let product = list(product);
                assert_eq!(product.len(), m * n);
                assert!(product.iter().all(|&v| v == k as f64), "{m} {k} {n}, form {form}");
            }
        }
    });
}

#[test]
fn products_of_any_number_of_rows_are_precise() {
    let (k, n) = (1024, 1024);
    let weight = noise(k * n, 1);
    each(|| {
        let b = floats(weight.clone(), [k, n]);
        for m in [35, 64, 535, 1024] {
            let a = noise(m * k, m);
            let product = list(floats(a.clone(), [m, k]).matmul(b.clone()));
            let (mut errors, mut squares) = (0.0, 0.0);
            for sample in 0..200 {
                let (i, j) = (sample * 7919 % m, sample * 104729 % n);
                let exact: f64 = (0..k).map(|l| a[i * k + l] as f64 * weight[l * n + j] as f64).sum();
                errors += (product[i * n + j] - exact).powi(2);
                squares += exact * exact;
            }
            let error = (errors / squares).sqrt();
            assert!(error < 1e-6, "{m} rows: {error}");
        }
    });
}

#[test]
fn one_tensor_broadcast_against_itself() {
    each(|| {
        let x = Tensor::<1, Int>::arange(0..4, &device()).float();
        let product = x.clone().reshape([2, 2, 1]) * x.reshape([1, 2, 2]);
        assert_eq!(list(product.sum_dim(1)), [2.0, 3.0, 6.0, 11.0]);
        for [a, b, c] in [[2, 2, 2], [3, 4, 5], [7, 1, 3], [5, 33, 2]] {
            // The same numbers as [a, b, 1] and, in the same order, as [1, b, c]: both of length a·b·c.
            let x = counting([a * b * c]);
            let left = x.clone().narrow(0, 0, a * b).reshape([a, b, 1]);
            let right = x.narrow(0, 0, b * c).reshape([1, b, c]);
            let value = |i: usize, j: usize, k: usize| ((i * b + j) * (j * c + k)) as f64;
            for axis in 0..3 {
                let extents = [a, b, c];
                let mut expected = vec![0.0; a * b * c / extents[axis]];
                let others: Vec<usize> = (0..3).filter(|&d| d != axis).collect();
                for i in 0..a {
                    for j in 0..b {
                        for k in 0..c {
                            let at = [i, j, k];
                            expected[at[others[0]] * extents[others[1]] + at[others[1]]] += value(i, j, k);
                        }
                    }
                }
                let sum = (left.clone() * right.clone()).sum_dim(axis);
                assert_eq!(list(sum), expected, "{extents:?} along {axis}");
            }
        }
    });
}

#[test]
fn masks_and_values_broadcast() {
    use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
    use burn_backend::{Shape, TensorMetadata, read_sync};
    use burn_mlir::Mlir;
    let shapes: [&[usize]; 5] = [&[1], &[2], &[3, 1], &[1, 2], &[3, 2]];
    each(|| {
        let device = crate::support::devices::current();
        for of in shapes {
            for masked in shapes {
                for value in shapes {
                    let rank = [of, masked, value].iter().map(|s| s.len()).max().unwrap();
                    let extent = |shape: &[usize], axis: usize| {
                        (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at])
                    };
                    let all: Vec<usize> = (0..rank)
                        .map(|axis| [of, masked, value].map(|s| extent(s, axis)).into_iter().max().unwrap())
                        .collect();
                    let at = |shape: &[usize], index: usize| {
                        let mut rest = index;
                        let mut coordinates = vec![0; rank];
                        for axis in (0..rank).rev() {
                            coordinates[axis] = rest % all[axis];
                            rest /= all[axis];
                        }
                        (0..rank).fold(0, |sum, axis| {
                            let e = extent(shape, axis);
                            sum * e + if e == 1 { 0 } else { coordinates[axis] }
                        })
                    };
                    let count = |shape: &[usize]| shape.iter().product::<usize>();
                    let data = |shape: &[usize], from: i64| -> Vec<i64> {
                        (0..count(shape) as i64).map(|i| from + i).collect()
                    };
                    let (x, y) = (data(of, 0), data(value, 100));
                    let m: Vec<bool> = (0..count(masked)).map(|i| i % 2 == 0).collect();
                    let expected: Vec<i64> = (0..count(&all))
                        .map(|i| if m[at(masked, i)] { y[at(value, i)] } else { x[at(of, i)] })
                        .collect();
                    let shape = |shape: &[usize]| Shape::from(shape.to_vec());
                    let mask = Mlir::bool_from_data(TensorData::new(m, shape(masked)), &device);
                    let tensor = |values: &[i64], of: &[usize]| {
                        Mlir::int_from_data(TensorData::new(values.to_vec(), shape(of)), &device)
                    };
                    let result = Mlir::int_mask_where(tensor(&x, of), mask.clone(), tensor(&y, value));
                    assert_eq!(result.shape(), shape(&all));
                    let read = read_sync(Mlir::int_into_data(result)).unwrap();
                    assert_eq!(
                        read.iter::<i64>().collect::<Vec<_>>(),
                        expected,
                        "{of:?} {masked:?} {value:?}"
                    );
                    let wide = |values: &[i64], of: &[usize]| {
                        Mlir::int_into_float(tensor(values, of), FloatDType::F32)
                    };
                    let result = Mlir::float_mask_where(wide(&x, of), mask, wide(&y, value));
                    let read = read_sync(Mlir::float_into_data(result)).unwrap();
                    assert_eq!(read.iter::<i64>().collect::<Vec<_>>(), expected);
                }
            }
        }
    });
}

#[test]
fn nothing_broadcasts() {
    each(|| {
        let (none, one) = (Tensor::<2>::zeros([2, 0], &device()), Tensor::<2>::ones([2, 1], &device()));
        assert_eq!((none.clone() + one.clone()).dims(), [2, 0]);
        assert!(list(none.clone() + one.clone()).is_empty());
        assert_eq!((one.clone() * none.clone()).dims(), [2, 0]);
        assert_eq!(none.clone().lower(one.clone()).into_data().shape()[..], [2, 0]);
        let (flat, row) = (Tensor::<2>::zeros([0, 3], &device()), Tensor::<2>::ones([1, 3], &device()));
        assert!(list(flat.clone() - row.clone()).is_empty());
        assert_eq!((flat.clone() - row).dims(), [0, 3]);
        // Sums of nothing along what there is nothing of.
        assert_eq!(list(none.clone().sum_dim(1)), [0.0, 0.0]);
        assert_eq!(list(none.clone().prod_dim(1)), [1.0, 1.0]);
        assert_eq!(none.sum_dim(0).dims(), [1, 0]);
        assert_eq!(list(flat.clone().sum()), [0.0]);
        assert_eq!(list(Tensor::<2>::ones([4, 0], &device()).matmul(flat)), [0.0; 12]);
    });
}

#[test]
fn reductions_of_permuted_tensors() {
    each(|| {
        let x = floats(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
        assert_eq!(list(x.transpose().sum_dim(1)), [5.0, 7.0, 9.0]);
        let extents = [3, 5, 4];
        let values: Vec<i64> = integers(60, 3, 7).into_iter().map(|v| v | 1).collect();
        let x = floats(values.iter().map(|&v| v as f32).collect(), extents);
        for axes in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let turned = x.clone().permute(axes.map(|a| a as isize));
            let shape = axes.map(|axis| extents[axis]);
            for axis in 0..3 {
                let others: Vec<usize> = (0..3).filter(|&d| d != axis).collect();
                let mut lines = vec![Vec::new(); 60 / shape[axis]];
                for at in 0..60 {
                    let index = [at / shape[2] / shape[1], at / shape[2] % shape[1], at % shape[2]];
                    let mut from = [0; 3];
                    (0..3).for_each(|d| from[axes[d]] = index[d]);
                    let value = values[(from[0] * 5 + from[1]) * 4 + from[2]];
                    lines[index[others[0]] * shape[others[1]] + index[others[1]]].push(value);
                }
                let of =
                    |f: fn(&Vec<i64>) -> i64| lines.iter().map(|line| f(line) as f64).collect::<Vec<_>>();
                let name = format!("{axes:?} along {axis}");
                assert_eq!(list(turned.clone().sum_dim(axis)), of(|l| l.iter().sum()), "sum {name}");
                assert_eq!(
                    list(turned.clone().max_dim(axis)),
                    of(|l| *l.iter().max().unwrap()),
                    "max {name}"
                );
                assert_eq!(
                    list(turned.clone().min_dim(axis)),
                    of(|l| *l.iter().min().unwrap()),
                    "min {name}"
                );
                let first =
                    |l: &Vec<i64>| l.iter().position(|v| v == l.iter().max().unwrap()).unwrap() as i64;
                let expected: Vec<i64> = lines.iter().map(first).collect();
                assert_eq!(int_list(turned.clone().argmax(axis)), expected, "argmax {name}");
            }
        }
    });
}

#[test]
fn relayout_writes_every_element() {
    each(|| {
        for [n, c, h, w] in
            [[1, 3, 5, 7], [2, 4, 3, 13], [1, 1, 9, 33], [2, 5, 1, 1], [1, 8, 7, 127], [1, 16, 3, 65]]
        {
            let x = counting([n, c, h, w]);
            let behind = x.clone().permute([0, 2, 3, 1]);
            let mut expected = Vec::new();
            for (i, y, x, k) in
                (0..n * h * w * c).map(|at| (at / c / w / h, at / c / w % h, at / c % w, at % c))
            {
                expected.push((((i * c + k) * h + y) * w + x) as f64);
            }
            assert_eq!(list(behind.clone()), expected, "{:?}", [n, c, h, w]);
            assert_eq!(list(behind.clone() + 0.0), expected);
            for dtype in [DType::F16, DType::F64] {
                let small = expected.iter().map(|v| v % 1024.0).collect::<Vec<_>>();
                let other = (x.clone() % 1024.0).cast(dtype).permute([0, 2, 3, 1]);
                assert_eq!(list(other.clone() * 1.0), small, "{dtype:?}");
                assert_eq!(list(other.permute([0, 3, 1, 2]) * 1.0), list(x.clone() % 1024.0));
            }
            let bytes = (x.clone() % 100.0).int().cast(IntDType::I8).permute([0, 2, 3, 1]);
            assert_eq!(int_list(bytes), expected.iter().map(|v| (v % 100.0) as i64).collect::<Vec<_>>());
        }
    });
}

/// Many operations, each of which needs the one before; `read` after each of them.
fn dependent(read: impl Fn(&Tensor<2>)) -> Vec<u32> {
    let mut x = floats(noise(33 * 17, 5), [33, 17]);
    let weight = floats(noise(17 * 17, 6), [17, 17]) * 0.2;
    for step in 0..120 {
        x = match step % 6 {
            0 => x * 1.25 + 0.125,
            1 => x.tanh(),
            2 => x.matmul(weight.clone()),
            3 => x.clone() - x.mean_dim(1),
            4 => x.clone().slice_assign([0..33, 3..4], x.clone().slice([0..33, 5..6]) * 2.0),
            _ => x.clone() + x.flip([0]),
        };
        read(&x);
    }
    x.into_data().iter::<f32>().map(f32::to_bits).collect()
}

#[test]
fn a_loop_of_dependent_operations_is_the_same_with_waits() {
    each(|| {
        let plain = dependent(|_| ());
        assert!(plain.iter().all(|bits| f32::from_bits(*bits).is_finite()));
        assert_eq!(plain, dependent(|_| device().sync().unwrap()));
    });
}

#[test]
fn averages_of_ones_are_one_in_every_type() {
    each(|| {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            for (size, outs) in
                [([64, 64], [1, 1]), ([64, 64], [3, 5]), ([300, 300], [1, 1]), ([65, 129], [2, 7])]
            {
                let x = Tensor::<4>::ones([1, 2, size[0], size[1]], &device()).cast(dtype);
                let y = list(module::adaptive_avg_pool2d(x, outs));
                assert!(y.iter().all(|&v| v == 1.0), "{dtype:?} {size:?} to {outs:?}: {y:?}");
            }
            let many = Tensor::<1>::ones([1 << 20], &device()).cast(dtype);
            assert_eq!(list(many.clone().mean()), [1.0], "{dtype:?}");
            assert_eq!(list(many.reshape([4, 1 << 18]).mean_dim(1)), [1.0; 4], "{dtype:?}");
        }
        // More than a chain of additions in f32 gets to.
        let many = Tensor::<1>::ones([(1 << 24) + (1 << 22)], &device());
        assert_eq!(list(many.clone().mean()), [1.0]);
        assert_eq!(list(many.sum()), [((1 << 24) + (1 << 22)) as f64]);
        let small = Tensor::<1, Int>::ones([100_000], &device()).cast(IntDType::I8);
        assert_eq!(int_list(small.mean()), [1]);
    });
}

#[test]
fn points_of_many_channels_in_half_precision() {
    let (c, o, h, w) = (96, 4, 128, 257);
    let (x, weight) = (noise(c * h * w, 1), noise(o * c, 2));
    each(|| {
        let half = |values: &Vec<f32>, shape| floats(values.clone(), shape).cast(DType::F16);
        let (a, b) = (half(&x, [1, c, h, w]), half(&weight, [o, c, 1, 1]));
        let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
        let run = |dtype: DType| {
            list(module::conv2d(a.clone().cast(dtype), b.clone().cast(dtype), None, options.clone()))
        };
        let (narrow, wide) = (run(DType::F16), run(DType::F32));
        assert_eq!(narrow.len(), o * h * w);
        for (at, (a, b)) in narrow.iter().zip(&wide).enumerate() {
            assert!((a - b).abs() <= 1e-3 * b.abs().max(1.0), "{at}: {a} for {b}");
        }
        let round = |v: f32| burn::tensor::f16::from_f32(v).to_f64();
        for sample in 0..50 {
            let (k, at) = (sample % o, sample * 7919 % (h * w));
            let exact: f64 = (0..c).map(|i| round(x[i * h * w + at]) * round(weight[k * c + i])).sum();
            assert!((wide[k * h * w + at] - exact).abs() < 1e-5, "{} for {exact}", wide[k * h * w + at]);
        }
    });
}

#[test]
fn large_numbers_are_not_nan() {
    each(|| {
        for (dtype, large) in
            [(DType::F16, 60000.0), (DType::BF16, 3e38), (DType::F32, 3e38), (DType::F64, 1e308)]
        {
            let x = Tensor::<1>::from_data(
                TensorData::new(vec![large, -large, large, -large], [4]),
                (&device(), dtype),
            );
            let x = x.repeat_dim(0, 500);
            let truth = |t: Tensor<1, Bool>| t.into_data().iter::<bool>().next().unwrap();
            assert!(!truth(x.clone().contains_nan()), "{dtype:?}");
            assert!(!truth(x.clone().is_inf().any()), "{dtype:?}");
            let bad = Tensor::cat(vec![x, Tensor::<1>::full([1], f32::NAN, (&device(), dtype))], 0);
            assert!(truth(bad.contains_nan()), "{dtype:?}");
        }
    });
}

#[test]
fn gradients_of_products_with_zeros() {
    each(|| {
        let device = device().autodiff();
        for values in
            [vec![2.0, 0.0, 3.0], vec![0.0, 0.0, 3.0], vec![2.0, -1.5, 3.0], vec![0.0], vec![0.0, 0.0, 0.0]]
        {
            let others = |at: usize| {
                values.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, v)| *v).product::<f64>()
            };
            let expected: Vec<f64> = (0..values.len()).map(others).collect();
            let n = values.len();
            let x = Tensor::<1>::from_data(TensorData::new(values.clone(), [n]), &device).require_grad();
            let grads = x.clone().prod().backward();
            assert_eq!(list(x.grad(&grads).unwrap()), expected, "{values:?}");
            let x =
                Tensor::<2>::from_data(TensorData::new([&values[..], &values[..]].concat(), [2, n]), &device);
            let x = x.require_grad();
            let grads = x.clone().prod_dim(1).sum().backward();
            assert_eq!(list(x.grad(&grads).unwrap()), [&expected[..], &expected[..]].concat(), "{values:?}");
        }
    });
}

#[test]
fn gradients_through_nothing() {
    each(|| {
        let device = device().autodiff();
        let leaf = || Tensor::<2>::ones([3, 4], &device).require_grad();
        let none = || Tensor::<1, Int>::from_data(TensorData::new(Vec::<i64>::new(), [0]), &device);
        let zero = |x: &Tensor<2>, y: Tensor<2>| {
            let sum = y.sum();
            let grads = sum.backward();
            assert_eq!(list(sum), [0.0]);
            assert_eq!(list(x.grad(&grads).unwrap()), [0.0; 12]);
        };
        for dim in [0, 1] {
            let x = leaf();
            zero(&x, x.clone().select(dim, none()));
        }
        // A slice of nothing is no part of Burn's graphs.
        let x = leaf();
        let indices = Tensor::<2, Int>::from_data(TensorData::new(Vec::<i64>::new(), [3, 0]), &device);
        zero(&x, x.clone().gather(1, indices));
        let x = leaf();
        zero(&x, x.clone().matmul(Tensor::<2>::zeros([4, 0], &device)));
    });
}

#[test]
fn shifts_of_every_type() {
    each(|| {
        let (values, by) = (ints(vec![1, 2, 3, 4], [4]), ints(vec![0, 1, 2, 3], [4]));
        assert_eq!(int_list(values.clone().bitwise_left_shift(by.clone())), [1, 4, 12, 32]);
        use IntDType::*;
        for (dtype, bits, signed) in [
            (I8, 8, true),
            (I16, 16, true),
            (I32, 32, true),
            (I64, 64, true),
            (U8, 8, false),
            (U16, 16, false),
            (U32, 32, false),
        ] {
            let low: i64 = if signed { -1 << (bits - 1) } else { 0 };
            let high: i64 = if signed { !low } else { (1 << bits) - 1 };
            let values = [1, 3, low, high, low + 1, 77];
            for by in 0..bits.min(32) {
                let of = |values: &[i64]| {
                    let options = (&device(), DType::from(dtype));
                    Tensor::<1, Int>::from_data(TensorData::new(values.to_vec(), [6]), options)
                };
                let (x, shift) = (of(&values), of(&[by; 6]));
                let wrapped = |v: i64| {
                    let v = v << (64 - bits);
                    if signed { v >> (64 - bits) } else { ((v as u64) >> (64 - bits)) as i64 }
                };
                let left: Vec<i64> = values.iter().map(|v| wrapped(v.wrapping_shl(by as u32))).collect();
                let right: Vec<i64> = values.iter().map(|v| v >> by).collect();
                assert_eq!(int_list(x.clone().bitwise_left_shift(shift.clone())), left, "{dtype:?} << {by}");
                assert_eq!(int_list(x.clone().bitwise_right_shift(shift)), right, "{dtype:?} >> {by}");
            }
        }
    });
}

#[test]
fn vector_products_along_every_axis() {
    each(|| {
        let product = |a: [f64; 3], b: [f64; 3]| -> [f64; 3] {
            [0, 1, 2].map(|i| a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3])
        };
        for axis in 0..3 {
            let mut shape = [2, 4, 5];
            shape[axis] = 3;
            let inner: usize = shape[axis + 1..].iter().product();
            let count: usize = shape.iter().product();
            let (a, b) = (integers(count, 1, 8), integers(count, 2, 8));
            let tensor = |v: &Vec<i64>| floats(v.iter().map(|&v| v as f32).collect(), shape);
            let result = list(tensor(&a).cross(tensor(&b), axis));
            for at in (0..count).filter(|at| (at / inner).is_multiple_of(3)) {
                let vector = |v: &Vec<i64>| [0, 1, 2].map(|i| v[at + i * inner] as f64);
                let expected = product(vector(&a), vector(&b));
                let actual = [0, 1, 2].map(|i| result[at + i * inner]);
                assert_eq!(actual, expected, "axis {axis} at {at}");
            }
        }
        let (x, y) = (floats(vec![1.0, 0.0, 0.0], [3, 1]), floats(vec![0.0, 1.0, 0.0], [3, 1]));
        assert_eq!(list(x.cross(y, 0)), [0.0, 0.0, 1.0]);
    });
}

#[test]
fn data_of_every_type() {
    each(|| {
        let check = |data: TensorData| {
            let tensor = Tensor::<1, Int>::from_data(data.clone(), &device());
            assert_eq!(int_list(tensor), data.iter::<i64>().collect::<Vec<_>>(), "{:?}", data.dtype());
            let dtype = data.dtype();
            let kept = Tensor::<1, Int>::from_data(data, (&device(), dtype));
            assert_eq!(kept.dtype(), dtype);
            assert_eq!(int_list(kept + 1), [2, 3, 101]);
        };
        check(TensorData::new(vec![1i8, 2, 100], [3]));
        check(TensorData::new(vec![1i16, 2, 100], [3]));
        check(TensorData::new(vec![1i32, 2, 100], [3]));
        check(TensorData::new(vec![1i64, 2, 100], [3]));
        check(TensorData::new(vec![1u8, 2, 100], [3]));
        check(TensorData::new(vec![1u16, 2, 100], [3]));
        check(TensorData::new(vec![1u32, 2, 100], [3]));
        check(TensorData::new(vec![1u64, 2, 100], [3]));
        let truth = Tensor::<1, Bool>::from_data(TensorData::new(vec![true, false, true], [3]), &device());
        assert_eq!(truth.clone().into_data().iter::<bool>().collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(int_list(truth.int()), [1, 0, 1]);
    });
}

/// The sum of an output is linear in the operands: its gradients are sums over where they are used.
#[test]
fn transposed_convolutions_with_output_padding() {
    each(|| {
        let device = device().autodiff();
        for (stride, out, padding, dilation, groups) in
            [(1, 1, 0, 1, 1), (1, 2, 1, 1, 1), (2, 1, 1, 1, 2), (3, 2, 0, 2, 1), (1, 1, 1, 3, 2)]
        {
            let (n, c, o, size, k) = (2, 4, 6, 7, 3);
            let options = ConvTransposeOptions::new([stride], [padding], [out], [dilation], groups);
            let (a, b) = (integers(n * c * size, 1, 5), integers(c * o / groups * k, 2, 5));
            let tensor = |v: &Vec<i64>, shape| {
                let data = v.iter().map(|&v| v as f32).collect::<Vec<_>>();
                Tensor::<3>::from_data(TensorData::new(data, shape), &device).require_grad()
            };
            let (x, w) = (tensor(&a, [n, c, size]), tensor(&b, [c, o / groups, k]));
            let y = module::conv_transpose1d(x.clone(), w.clone(), None, options);
            let length = (size - 1) * stride + dilation * (k - 1) + 1 + out - 2 * padding;
            assert_eq!(y.dims(), [n, o, length]);
            // Weights of the sum, different everywhere.
            let f = integers(n * o * length, 3, 4);
            let sum = (y.clone()
                * Tensor::<3>::from_data(
                    TensorData::new(f.iter().map(|&v| v as f32).collect::<Vec<_>>(), [n, o, length]),
                    &device,
                ))
            .sum();
            let grads = sum.backward();
            let (mut of_y, mut of_x, mut of_w) =
                (vec![0.0; n * o * length], vec![0.0; a.len()], vec![0.0; b.len()]);
            for i in 0..n {
                for from in 0..c {
                    for to in 0..o / groups {
                        for at in 0..size {
                            for tap in 0..k {
                                let Some(place) = (at * stride + tap * dilation)
                                    .checked_sub(padding)
                                    .filter(|&p| p < length)
                                else {
                                    continue;
                                };
                                let channel = from / (c / groups) * (o / groups) + to;
                                let (p, q) =
                                    ((i * c + from) * size + at, (from * (o / groups) + to) * k + tap);
                                let r = (i * o + channel) * length + place;
                                of_y[r] += (a[p] * b[q]) as f64;
                                of_x[p] += (b[q] * f[r]) as f64;
                                of_w[q] += (a[p] * f[r]) as f64;
                            }
                        }
                    }
                }
            }
            let name =
                format!("stride {stride} out {out} padding {padding} dilation {dilation} groups {groups}");
            assert_eq!(list(y), of_y, "{name}");
            assert_eq!(list(x.grad(&grads).unwrap()), of_x, "input, {name}");
            assert_eq!(list(w.grad(&grads).unwrap()), of_w, "weight, {name}");
        }
    });
}

#[test]
fn a_convolution_of_a_whole_picture() {
    let (h, w) = (360, 640);
    each(|| {
        let device = device().autodiff();
        let x = Tensor::<4>::ones([1, 3, h, w], &device).require_grad();
        let weight = Tensor::<4>::ones([2, 3, 3, 3], &device).require_grad();
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        let y = module::conv2d(x.clone(), weight.clone(), None, options);
        let grads = y.clone().sum().backward();
        // Rows or columns that a tap of a window reaches.
        let near = |at: usize, extent: usize| 3 - usize::from(at == 0) - usize::from(at == extent - 1);
        let windows = |at: usize| (near(at / w % h, h) * near(at % w, w)) as f64;
        for (at, value) in list(y).into_iter().enumerate() {
            assert_eq!(value, 3.0 * windows(at));
        }
        for (at, value) in list(x.grad(&grads).unwrap()).into_iter().enumerate() {
            assert_eq!(value, 2.0 * windows(at));
        }
        let count = |tap: usize, extent: usize| (extent - usize::from(tap != 1)) as f64;
        for (at, value) in list(weight.grad(&grads).unwrap()).into_iter().enumerate() {
            assert_eq!(value, count(at / 3 % 3, h) * count(at % 3, w));
        }
    });
}

#[test]
fn infinities_at_the_padding_for_any_number_of_channels() {
    let (h, w) = (6, 7);
    let mut plane = noise(h * w, 4);
    // The border, and a whole window inside.
    for y in 0..h {
        for x in 0..w {
            if y == 0 || x == 0 || y == h - 1 || x == w - 1 || (y < 5 && x < 3) {
                plane[y * w + x] = f32::NEG_INFINITY;
            }
        }
    }
    let at = |y: i64, x: i64| {
        let inside = (0..h as i64).contains(&y) && (0..w as i64).contains(&x);
        inside.then(|| plane[y as usize * w + x as usize] as f64)
    };
    each(|| {
        for channels in 1..=6 {
            let x = floats([&plane[..]].repeat(2 * channels).concat(), [2, channels, h, w]);
            for (size, stride, padding, dilation, ceil) in [
                (3, 1, 1, 1, false),
                (3, 2, 1, 1, false),
                (2, 2, 1, 1, true),
                (3, 2, 1, 2, true),
                (2, 3, 0, 1, true),
            ] {
                let options = MaxPoolOptions {
                    kernel_size: [size; 2],
                    stride: [stride; 2],
                    padding: [(padding, padding); 2],
                    dilation: [dilation; 2],
                    ceil_mode: ceil,
                };
                let y = module::max_pool2d(x.clone(), options);
                let [_, _, rows, columns] = y.dims();
                let value = |i: usize, j: usize| {
                    let place =
                        |at: usize, tap: usize| (at * stride + tap * dilation) as i64 - padding as i64;
                    let taps = (0..size * size).filter_map(|t| at(place(i, t / size), place(j, t % size)));
                    taps.fold(f64::NEG_INFINITY, f64::max)
                };
                let expected: Vec<f64> =
                    (0..rows * columns).map(|at| value(at / columns, at % columns)).collect();
                let name = format!("{channels} channels, {size} {stride} {padding} {dilation} {ceil}");
                assert_eq!(list(y), expected.repeat(2 * channels), "{name}");
            }
            // Every channel for itself, then all together.
            let options = ConvOptions::new([1, 1], [1, 1], [1, 1], channels);
            let weight = Tensor::<4>::full([channels, 1, 3, 3], 0.5, &device());
            let y = list(module::conv2d(x.clone(), weight, None, options));
            let value = |i: usize, j: usize, factor: f64| {
                let taps = (0..9).filter_map(|t| at((i + t / 3) as i64 - 1, (j + t % 3) as i64 - 1));
                taps.sum::<f64>() * 0.5 * factor
            };
            let same = |actual: &[f64], factor: f64| {
                for (at, &actual) in actual.iter().enumerate() {
                    let expected = value(at / w % h, at % w, factor);
                    let close = actual == expected || (actual - expected).abs() < 1e-4;
                    assert!(close, "{channels} channels: {at} is {actual}, not {expected}");
                }
            };
            same(&y, 1.0);
            let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
            let weight = Tensor::<4>::full([2, channels, 3, 3], 0.5, &device());
            same(&list(module::conv2d(x, weight, None, options)), channels as f64);
        }
    });
}

#[test]
fn a_network_that_ends_in_an_average_trains() {
    each(|| {
        let device = device().autodiff();
        let images =
            Tensor::<4>::from_data(TensorData::new(noise(8 * 2 * 9 * 11, 1), [8, 2, 9, 11]), &device);
        let wanted = Tensor::<2>::from_data(TensorData::new(noise(8 * 3, 2), [8, 3]), &device);
        let mut weight = Tensor::<4>::from_data(TensorData::new(noise(4 * 2 * 9, 3), [4, 2, 3, 3]), &device);
        let mut last = Tensor::<2>::from_data(TensorData::new(noise(4 * 3, 4), [4, 3]), &device);
        let mut losses = Vec::new();
        for _ in 0..12 {
            let (a, b) = (weight.clone().detach().require_grad(), last.clone().detach().require_grad());
            let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
            let features = || {
                let features = module::conv2d(images.clone(), a.clone(), None, options.clone());
                burn::tensor::activation::relu(features)
            };
            let score = |features: Tensor<2>| (features.matmul(b.clone()) - wanted.clone()).square().mean();
            let loss = score(module::adaptive_avg_pool2d(features(), [1, 1]).reshape([8, 4]));
            let grads = loss.backward();
            let pooled = list(a.grad(&grads).unwrap());
            // The same by a mean.
            let other = score(features().mean_dims(&[2, 3]).reshape([8, 4]));
            let plain = list(a.grad(&other.backward()).unwrap());
            for (a, b) in pooled.iter().zip(plain) {
                assert!((a - b).abs() < 1e-5, "{a} for {b}");
            }
            weight = a.clone() - a.grad(&grads).map(|g| Tensor::from_inner(g * 0.5)).unwrap();
            last = b.clone() - b.grad(&grads).map(|g| Tensor::from_inner(g * 0.5)).unwrap();
            losses.push(list(loss)[0]);
        }
        assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{losses:?}");
    });
}

#[test]
fn linear_layers_of_odd_widths() {
    each(|| {
        let device = device().autodiff();
        for (batch, from, to) in [(2, 1025, 3), (1, 1023, 1), (5, 1026, 65), (33, 7, 129)] {
            let (a, b) = (integers(batch * from, 1, 4), integers(from * to, 2, 4));
            let tensor = |v: &Vec<i64>, shape: [usize; 2]| {
                let data = v.iter().map(|&v| v as f32).collect::<Vec<_>>();
                Tensor::<2>::from_data(TensorData::new(data, shape), &device).require_grad()
            };
            let (x, w) = (tensor(&a, [batch, from]), tensor(&b, [from, to]));
            let bias = Tensor::<1>::zeros([to], &device).require_grad();
            let y = module::linear(x.clone(), w.clone(), Some(bias.clone()));
            let grads = y.clone().sum().backward();
            let sum = |values: Vec<i64>| values.into_iter().sum::<i64>() as f64;
            let products =
                |i: usize, j: usize| sum((0..from).map(|k| a[i * from + k] * b[k * to + j]).collect());
            let expected: Vec<f64> = (0..batch * to).map(|at| products(at / to, at % to)).collect();
            assert_eq!(list(y), expected);
            let of_x: Vec<f64> = (0..from).map(|k| sum(b[k * to..][..to].to_vec())).collect();
            assert_eq!(list(x.grad(&grads).unwrap()), of_x.repeat(batch));
            let of_w = |k: usize| sum((0..batch).map(|i| a[i * from + k]).collect());
            let of_w: Vec<f64> = (0..from * to).map(|at| of_w(at / to)).collect();
            assert_eq!(list(w.grad(&grads).unwrap()), of_w);
            assert_eq!(list(bias.grad(&grads).unwrap()), vec![batch as f64; to]);
        }
    });
}

#[test]
fn blocks_of_a_quantised_row_as_rows() {
    use burn::tensor::quantization::{QuantScheme, QuantValue, ScaleDtype};
    each(|| {
        let scheme = QuantScheme::default().with_value(QuantValue::Q8S).per_block([16], ScaleDtype::F32);
        let row = (0..32).map(|i| (i * 37 % 64) as f32 - 31.5).collect::<Vec<_>>();
        let quantised = floats(row.clone(), [32]).quantize_dynamic(&scheme);
        let rows = quantised.clone().reshape([2, 16]).dequantize();
        assert_eq!(rows.dims(), [2, 16]);
        let values = list(rows);
        assert_eq!(values, list(quantised.dequantize()));
        for (block, values) in row.chunks(16).zip(values.chunks(16)) {
            let scale = block.iter().fold(0f32, |peak, v| peak.max(v.abs())) / 127.0;
            for (a, b) in block.iter().zip(values) {
                assert!((*a as f64 - b).abs() <= scale as f64 * 0.5001, "{b} for {a}");
            }
        }
    });
}
