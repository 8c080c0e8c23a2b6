//! Single operations and small fused groups.

use crate::Work;
use crate::check::{Tolerance, Values, agrees, gelu};
use burn::prelude::*;
use burn::tensor::activation::{gelu as gelu_of, sigmoid, softmax};
use burn::tensor::module::{
    attention as attention_of, conv2d, embedding, layer_norm as layer_norm_of, max_pool2d,
};
use burn::tensor::ops::{AttentionModuleOptions, ConvOptions, MaxPoolOptions};
use burn::tensor::{DType, Distribution, TensorData};

/// Standard normal.
pub fn normal<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    normal_of(shape, DType::F32, device)
}

/// Standard normal, of a type.
fn normal_of<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    let tensor = Tensor::<D>::random(shape, Distribution::Normal(0.0, 1.0), device).cast(dtype);
    done(device);
    tensor
}

/// Waits for everything this thread has asked for.
pub fn done(device: &Device) {
    if let Err(error) = device.sync() {
        panic!("{error}");
    }
}

/// Calls of `compute`, and the check that its values are `expected`.
pub fn work<const D: usize>(
    device: &Device,
    compute: impl Fn() -> Tensor<D> + Clone + 'static,
    tolerance: impl Into<Tolerance>,
    expected: impl Fn(usize) -> f64 + 'static,
) -> Work {
    let (checked, tolerance) = (compute.clone(), tolerance.into());
    Work::new(device, compute, move || agrees(&Values::of(&checked()), tolerance, expected))
}

/// What rounding to a type leaves of a result whose terms were rounded to it as well.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 1e-2,
        DType::F16 => 2e-3,
        _ => 1e-4,
    }
}

pub fn matmul(device: &Device, n: usize, transposed: bool, dtype: DType) -> Work {
    let make = || normal_of([n, n], dtype, device);
    let (a, b) = (make(), make());
    let (xs, ys) = (Values::of(&a), Values::of(&b));
    let product = move || {
        if transposed { a.clone().matmul(b.clone().transpose()) } else { a.clone().matmul(b.clone()) }
    };
    let expected = move |i: usize| {
        let (row, column) = (i / n, i % n);
        let right = |k: usize| if transposed { ys.at(column * n + k) } else { ys.at(k * n + column) };
        (0..n).map(|k| xs.at(row * n + k) * right(k)).sum()
    };
    // The sum of n products is as large as their square root; operands of TF32 keep 11 bits.
    let unit = (n as f64).sqrt();
    let relative = if dtype == DType::Flex32 { 4e-3 } else { rounding(dtype) };
    work(device, product, Tolerance { relative, unit }, expected)
}

pub fn linear_gelu(device: &Device, [m, k, n]: [usize; 3], dtype: DType) -> Work {
    let (x, w) = (normal_of([m, k], dtype, device), normal_of([k, n], dtype, device));
    let b = normal_of([1, n], dtype, device);
    let (xs, ws, bs) = (Values::of(&x), Values::of(&w), Values::of(&b));
    let forward = move || gelu_of(x.clone().matmul(w.clone()) + b.clone());
    let expected = move |i: usize| {
        let dot: f64 = (0..k).map(|j| xs.at(i / n * k + j) * ws.at(j * n + i % n)).sum();
        gelu(dot + bs.at(i % n))
    };
    work(device, forward, rounding(dtype), expected)
}

pub fn elementwise(device: &Device, count: usize) -> Work {
    let x: Tensor<1> = normal([count], device);
    let xs = Values::of(&x);
    let chain = move || (x.clone() * 1.5 + 0.3).tanh() * sigmoid(x.clone()) + x.clone() * x.clone();
    let expected = move |i| {
        let x = xs.at(i);
        (x * 1.5 + 0.3).tanh() / (1.0 + (-x).exp()) + x * x
    };
    work(device, chain, 1e-6, expected)
}

/// What the chain above is measured against on a host: as many bytes in and out.
pub fn copy(_: &Device) -> Work {
    let (from, mut to) = (vec![1f32; 1 << 24], vec![0f32; 1 << 24]);
    let half = from.len() / 2;
    let start = move || {
        let (low, high) = to.split_at_mut(half);
        std::thread::scope(|scope| {
            scope.spawn(|| low.copy_from_slice(&from[..half]));
            high.copy_from_slice(&from[half..]);
        });
        std::hint::black_box(&to);
    };
    Work::waiting(start, || {})
}

pub fn softmax_rows(device: &Device, rows: usize, n: usize, dtype: DType) -> Work {
    let x: Tensor<2> = normal_of([rows, n], dtype, device);
    let xs = Values::of(&x);
    let compute = move || softmax(x.clone(), 1);
    let expected = move |i: usize| xs.at(i).exp() / xs.range(i / n * n, n).map(f64::exp).sum::<f64>();
    // In bf16 the difference to the maximum, up to 8, is rounded before the exponential.
    let relative = if dtype == DType::F32 { 1e-4 } else { 4e-2 };
    work(device, compute, Tolerance { relative, unit: 1.0 / n as f64 }, expected)
}

pub fn layer_norm(device: &Device, rows: usize, n: usize, dtype: DType) -> Work {
    let x: Tensor<2> = normal_of([rows, n], dtype, device);
    let (w, b) = (normal_of([n], dtype, device), normal_of([n], dtype, device));
    let (xs, ws, bs) = (Values::of(&x), Values::of(&w), Values::of(&b));
    let compute = move || layer_norm_of(x.clone(), w.clone(), Some(b.clone()), 1e-5);
    let expected = move |i: usize| {
        let row = xs.range(i / n * n, n);
        let mean = row.clone().sum::<f64>() / n as f64;
        let variance = row.map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        (xs.at(i) - mean) / (variance + 1e-5).sqrt() * ws.at(i % n) + bs.at(i % n)
    };
    work(device, compute, if dtype == DType::F32 { 1e-5 } else { 2e-2 }, expected)
}

pub fn sum_all(device: &Device, count: usize) -> Work {
    let x: Tensor<1> = normal([count], device);
    let xs = Values::of(&x);
    let total = move || x.clone().sum();
    // The sum is as large as the square root of the number of elements.
    let tolerance = Tolerance { relative: 1e-4, unit: (count as f64).sqrt() };
    work(device, total, tolerance, move |_| xs.range(0, count).sum())
}

pub fn sum_columns(device: &Device) -> Work {
    let n = 4096;
    let x: Tensor<2> = normal([n, n], device);
    let xs = Values::of(&x);
    let columns = move || x.clone().sum_dim(0);
    work(device, columns, 1e-4, move |j| (0..n).map(|i| xs.at(i * n + j)).sum())
}

pub fn argmax_rows(device: &Device) -> Work {
    let n = 4096;
    let x: Tensor<2> = normal([n, n], device);
    let xs = Values::of(&x);
    let rows = move || x.clone().argmax(1);
    let expected = move |i: usize| {
        let best = xs.range(i * n, n).fold(f64::MIN, f64::max);
        xs.range(i * n, n).position(|v| v == best).map_or(-1.0, |j| j as f64)
    };
    let checked = rows.clone();
    Work::new(device, rows, move || agrees(&Values::of_ints(&checked()), 0.0, expected))
}

pub fn transpose_copy(device: &Device) -> Work {
    let n = 4096;
    let x: Tensor<2> = normal([n, n], device);
    let xs = Values::of(&x);
    // Adding zero makes a new, row-major tensor of the transposed view.
    let transposed = move || x.clone().transpose() + 0.0;
    work(device, transposed, 0.0, move |i| xs.at(i % n * n + i / n))
}

pub fn convolution(device: &Device, [batch, c, s]: [usize; 3], dtype: DType) -> Work {
    let (x, w) = (normal_of([batch, c, s, s], dtype, device), normal_of([c, c, 3, 3], dtype, device));
    let (xs, ws) = (Values::of(&x), Values::of(&w));
    let options = || ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let forward = move || conv2d(x.clone(), w.clone(), None, options());
    let expected = move |i: usize| {
        let (col, row, o, n) = (i % s, i / s % s, i / (s * s) % c, i / (s * s * c));
        let mut sum = 0.0;
        for (k, dy, dx) in (0..c).flat_map(|k| (0..9).map(move |t| (k, t / 3, t % 3))) {
            let (y, x) = ((row + dy).wrapping_sub(1), (col + dx).wrapping_sub(1));
            if y < s && x < s {
                sum += xs.at(((n * c + k) * s + y) * s + x) * ws.at(((o * c + k) * 3 + dy) * 3 + dx);
            }
        }
        sum
    };
    work(device, forward, rounding(dtype), expected)
}

pub fn pool(device: &Device) -> Work {
    let (s, t) = (112, 56);
    let x: Tensor<4> = normal([8, 64, s, s], device);
    let xs = Values::of(&x);
    let options = MaxPoolOptions { padding: [(1, 1); 2], ..MaxPoolOptions::new([3, 3]).with_stride([2, 2]) };
    let forward = move || max_pool2d(x.clone(), options.clone());
    let expected = move |i: usize| {
        let (col, row, plane) = (i % t * 2, i / t % t * 2, i / (t * t));
        let window = (0..9).map(|k| ((row + k / 3).wrapping_sub(1), (col + k % 3).wrapping_sub(1)));
        let inside = window.filter(|&(y, x)| y < s && x < s);
        inside.map(|(y, x)| xs.at((plane * s + y) * s + x)).fold(f64::MIN, f64::max)
    };
    work(device, forward, 0.0, expected)
}

/// `shape`: batch, heads, length, features of a head.
pub fn attention(device: &Device, shape: [usize; 4], is_causal: bool, dtype: DType) -> Work {
    let make = || normal_of(shape, dtype, device);
    let (q, k, v) = (make(), make(), make());
    let (qs, ks, vs) = (Values::of(&q), Values::of(&k), Values::of(&v));
    let options = AttentionModuleOptions { is_causal, ..Default::default() };
    let forward = move || attention_of(q.clone(), k.clone(), v.clone(), None, None, options);
    let [_, _, t, d] = shape;
    let expected = move |i: usize| {
        let (column, row, head) = (i % d, i / d % t, i / (t * d));
        let at = |x: &Values, r: usize, c: usize| x.at((head * t + r) * d + c);
        let score =
            |s: usize| (0..d).map(|c| at(&qs, row, c) * at(&ks, s, c)).sum::<f64>() / (d as f64).sqrt();
        let keys = if is_causal { row + 1 } else { t };
        let weights: Vec<f64> = (0..keys).map(|s| score(s).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().enumerate().map(|(s, w)| w * at(&vs, s, column)).sum::<f64>() / sum
    };
    let tolerance = match dtype {
        DType::F32 => Tolerance::from(1e-5),
        // Means over thousands of values are small.
        _ => Tolerance { relative: 2e-2, unit: 0.1 },
    };
    work(device, forward, tolerance, expected)
}

pub fn lookup(device: &Device) -> Work {
    let (rows, d, count) = (50257, 768, 8 * 512);
    let table: Tensor<2> = normal([rows, d], device);
    let ids: Vec<i32> = (0..count).map(|i| (i * 7919 % rows) as i32).collect();
    let ts = Values::of(&table);
    let expected_ids = ids.clone();
    let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(ids, [8, 512]), device);
    let forward = move || embedding(table.clone(), ids.clone());
    work(device, forward, 0.0, move |i| ts.at(expected_ids[i / d] as usize * d + i % d))
}

/// A hundred dependent additions.
fn hundred(x: &Tensor<1>) -> Tensor<1> {
    (0..100).fold(x.clone(), |y, _| y + 1.0)
}

/// The result is read on the host.
pub fn overhead(device: &Device) -> Work {
    let x: Tensor<1> = normal([1024], device);
    let (xs, checked) = (Values::of(&x), x.clone());
    let check = move || agrees(&Values::of(&hundred(&checked)), 1e-5, |i| xs.at(i) + 100.0);
    Work::waiting(move || drop(hundred(&x).into_data()), check)
}
