//! Reductions: over any layout, of many elements, their gradients.

use super::{floats, int_list, list};
use crate::support::devices::{device, each};
use crate::support::exact::integers;
use burn::prelude::*;
use burn::tensor::{DType, IntDType, TensorData, module};

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
