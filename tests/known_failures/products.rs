//! Products of matrices and of vectors.

use super::{floats, list, noise};
use crate::support::devices::{device, each};
use crate::support::exact::integers;
use burn::prelude::*;
use burn::tensor::{TensorData, module};

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
