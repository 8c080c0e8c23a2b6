//! Single operations and small fused groups.

use crate::check::{agrees, gelu, values};
use crate::{Check, Run, Setup};
use burn::prelude::*;
use burn::tensor::activation::{gelu as gelu_of, sigmoid, softmax};
use burn::tensor::module::{conv2d, embedding, max_pool2d};
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};
use burn::tensor::{DType, Distribution, TensorData};

pub const WORKLOADS: &[(&str, Setup)] = &[
    ("matmul_f32_256", |d| matmul(d, 256, false, DType::F32)),
    ("matmul_f32_1024", |d| matmul(d, 1024, false, DType::F32)),
    ("matmul_f32_2048", |d| matmul(d, 2048, false, DType::F32)),
    ("matmul_nt_f32_1024", |d| matmul(d, 1024, true, DType::F32)),
    ("matmul_bf16_1024", |d| matmul(d, 1024, false, DType::BF16)),
    ("linear_gelu_f32", linear_gelu),
    ("elementwise_f32_16m", elementwise),
    ("copy_f32_16m", copy),
    ("softmax_f32_4096x1024", softmax_rows),
    ("layer_norm_f32_4096x1024", layer_norm),
    ("sum_all_f32_16m", sum_all),
    ("sum_dim0_f32_4096", sum_columns),
    ("argmax_dim1_f32_4096", argmax_rows),
    ("transpose_copy_f32_4096", transpose_copy),
    ("conv2d_f32", convolution),
    ("max_pool2d_f32", pool),
    ("attention_f32", attention),
    ("embedding_f32", lookup),
    ("op_overhead_100", overhead),
];

/// Standard normal.
pub fn normal<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let tensor = Tensor::random(shape, Distribution::Normal(0.0, 1.0), device);
    done(device);
    tensor
}

/// Waits for everything this thread has asked for.
pub fn done(device: &Device) {
    if let Err(error) = device.sync() {
        panic!("{error}");
    }
}

/// A call of `compute` that waits for its result, and the check that its values are `expected`.
fn run<const D: usize>(
    device: &Device,
    compute: impl Fn() -> Tensor<D> + Clone + 'static,
    tolerance: f64,
    expected: impl Fn(usize) -> f64 + 'static,
) -> (Run, Check) {
    let (device, checked) = (device.clone(), compute.clone());
    let call = move || {
        let result = compute();
        done(&device);
        drop(result);
    };
    (Box::new(call), Box::new(move || agrees(&values(&checked()), tolerance, expected)))
}

fn matmul(device: &Device, n: usize, transposed: bool, dtype: DType) -> (Run, Check) {
    let (a, b) = (normal([n, n], device).cast(dtype), normal([n, n], device).cast(dtype));
    let (xs, ys) = (values(&a), values(&b));
    let product = move || {
        if transposed { a.clone().matmul(b.clone().transpose()) } else { a.clone().matmul(b.clone()) }
    };
    let expected = move |i: usize| {
        let (row, column) = (i / n, i % n);
        let right = |k: usize| if transposed { ys[column * n + k] } else { ys[k * n + column] };
        (0..n).map(|k| xs[row * n + k] * right(k)).sum()
    };
    // bf16 keeps 8 bits of the result.
    run(device, product, if dtype == DType::BF16 { 1e-2 } else { 1e-4 }, expected)
}

fn linear_gelu(device: &Device) -> (Run, Check) {
    let (m, k, n) = (512, 768, 3072);
    let (x, w, b) = (normal([m, k], device), normal([k, n], device), normal([1, n], device));
    let (xs, ws, bs) = (values(&x), values(&w), values(&b));
    let forward = move || gelu_of(x.clone().matmul(w.clone()) + b.clone());
    let expected = move |i: usize| {
        let dot: f64 = (0..k).map(|j| xs[i / n * k + j] * ws[j * n + i % n]).sum();
        gelu(dot + bs[i % n])
    };
    run(device, forward, 1e-4, expected)
}

fn elementwise(device: &Device) -> (Run, Check) {
    let x: Tensor<1> = normal([1 << 24], device);
    let xs = values(&x);
    let chain = move || (x.clone() * 1.5 + 0.3).tanh() * sigmoid(x.clone()) + x.clone() * x.clone();
    run(device, chain, 1e-6, move |i| (xs[i] * 1.5 + 0.3).tanh() / (1.0 + (-xs[i]).exp()) + xs[i] * xs[i])
}

/// What the chain above is measured against: as many bytes in and out.
fn copy(_: &Device) -> (Run, Check) {
    let (from, mut to) = (vec![1f32; 1 << 24], vec![0f32; 1 << 24]);
    let half = from.len() / 2;
    let call = move || {
        let (low, high) = to.split_at_mut(half);
        std::thread::scope(|scope| {
            scope.spawn(|| low.copy_from_slice(&from[..half]));
            high.copy_from_slice(&from[half..]);
        });
        std::hint::black_box(&to);
    };
    (Box::new(call), Box::new(|| {}))
}

fn softmax_rows(device: &Device) -> (Run, Check) {
    let n = 1024;
    let x: Tensor<2> = normal([4096, n], device);
    let xs = values(&x);
    let rows = move || softmax(x.clone(), 1);
    let expected = move |i: usize| {
        let row = &xs[i / n * n..][..n];
        xs[i].exp() / row.iter().map(|v| v.exp()).sum::<f64>()
    };
    run(device, rows, 1e-6, expected)
}

fn layer_norm(device: &Device) -> (Run, Check) {
    let n = 1024;
    let x: Tensor<2> = normal([4096, n], device);
    let (xs, layer) = (values(&x), burn::nn::LayerNormConfig::new(n).init(device));
    let rows = move || layer.forward(x.clone());
    let expected = move |i: usize| {
        let row = &xs[i / n * n..][..n];
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        (xs[i] - mean) / (variance + 1e-5).sqrt()
    };
    run(device, rows, 1e-5, expected)
}

fn sum_all(device: &Device) -> (Run, Check) {
    let x: Tensor<1> = normal([1 << 24], device);
    let sum: f64 = values(&x).iter().sum();
    let total = move || x.clone().sum();
    run(device, total, 1e-3, move |_| sum)
}

fn sum_columns(device: &Device) -> (Run, Check) {
    let n = 4096;
    let x: Tensor<2> = normal([n, n], device);
    let xs = values(&x);
    let columns = move || x.clone().sum_dim(0);
    run(device, columns, 1e-4, move |j| (0..n).map(|i| xs[i * n + j]).sum())
}

fn argmax_rows(device: &Device) -> (Run, Check) {
    let n = 4096;
    let x: Tensor<2> = normal([n, n], device);
    let xs = values(&x);
    let rows = move || x.clone().argmax(1);
    let expected = move |i: usize| {
        let row = &xs[i * n..][..n];
        let best = row.iter().copied().fold(f64::MIN, f64::max);
        row.iter().position(|&v| v == best).map_or(-1.0, |j| j as f64)
    };
    let (checked, device) = (rows.clone(), device.clone());
    let call = move || {
        let result = rows();
        done(&device);
        drop(result);
    };
    let found = move || checked().into_data().iter::<f64>().collect::<Vec<_>>();
    (Box::new(call), Box::new(move || agrees(&found(), 0.0, expected)))
}

fn transpose_copy(device: &Device) -> (Run, Check) {
    let n = 4096;
    let x: Tensor<2> = normal([n, n], device);
    let xs = values(&x);
    // Adding zero makes a new, row-major tensor of the transposed view.
    let transposed = move || x.clone().transpose() + 0.0;
    run(device, transposed, 0.0, move |i| xs[i % n * n + i / n])
}

fn convolution(device: &Device) -> (Run, Check) {
    let (c, s) = (64, 56);
    let (x, w): (Tensor<4>, Tensor<4>) = (normal([8, c, s, s], device), normal([c, c, 3, 3], device));
    let (xs, ws) = (values(&x), values(&w));
    let options = || ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let forward = move || conv2d(x.clone(), w.clone(), None, options());
    let expected = move |i: usize| {
        let (col, row, o, n) = (i % s, i / s % s, i / (s * s) % c, i / (s * s * c));
        let mut sum = 0.0;
        for (k, dy, dx) in (0..c).flat_map(|k| (0..9).map(move |t| (k, t / 3, t % 3))) {
            let (y, x) = ((row + dy).wrapping_sub(1), (col + dx).wrapping_sub(1));
            if y < s && x < s {
                sum += xs[((n * c + k) * s + y) * s + x] * ws[((o * c + k) * 3 + dy) * 3 + dx];
            }
        }
        sum
    };
    run(device, forward, 1e-4, expected)
}

fn pool(device: &Device) -> (Run, Check) {
    let (s, t) = (112, 56);
    let x: Tensor<4> = normal([8, 64, s, s], device);
    let xs = values(&x);
    let options = MaxPoolOptions { padding: [(1, 1); 2], ..MaxPoolOptions::new([3, 3]).with_stride([2, 2]) };
    let forward = move || max_pool2d(x.clone(), options.clone());
    let expected = move |i: usize| {
        let (col, row, plane) = (i % t * 2, i / t % t * 2, i / (t * t));
        let window = (0..9).map(|k| ((row + k / 3).wrapping_sub(1), (col + k % 3).wrapping_sub(1)));
        let inside = window.filter(|&(y, x)| y < s && x < s);
        inside.map(|(y, x)| xs[(plane * s + y) * s + x]).fold(f64::MIN, f64::max)
    };
    run(device, forward, 0.0, expected)
}

fn attention(device: &Device) -> (Run, Check) {
    let (t, d) = (512, 64);
    let make = || normal([4, 8, t, d], device);
    let (q, k, v) = (make(), make(), make());
    let (qs, ks, vs) = (values(&q), values(&k), values(&v));
    let options = burn::tensor::ops::AttentionModuleOptions { is_causal: true, ..Default::default() };
    let forward =
        move || burn::tensor::module::attention(q.clone(), k.clone(), v.clone(), None, None, options);
    let expected = move |i: usize| {
        let (column, row, head) = (i % d, i / d % t, i / (t * d));
        let at = |x: &[f64], r: usize, c: usize| x[(head * t + r) * d + c];
        let score =
            |s: usize| (0..d).map(|c| at(&qs, row, c) * at(&ks, s, c)).sum::<f64>() / (d as f64).sqrt();
        let weights: Vec<f64> = (0..=row).map(|s| score(s).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().enumerate().map(|(s, w)| w * at(&vs, s, column)).sum::<f64>() / sum
    };
    run(device, forward, 1e-5, expected)
}

fn lookup(device: &Device) -> (Run, Check) {
    let (rows, d, count) = (50257, 768, 8 * 512);
    let table: Tensor<2> = normal([rows, d], device);
    let ids: Vec<i32> = (0..count).map(|i| (i * 7919 % rows) as i32).collect();
    let ts = values(&table);
    let expected_ids = ids.clone();
    let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(ids, [8, 512]), device);
    let forward = move || embedding(table.clone(), ids.clone());
    run(device, forward, 0.0, move |i| ts[expected_ids[i / d] as usize * d + i % d])
}

fn overhead(device: &Device) -> (Run, Check) {
    let x: Tensor<1> = normal([1024], device);
    let xs = values(&x);
    let hundred = move || {
        let mut y = x.clone();
        for _ in 0..100 {
            y = y + 1.0;
        }
        y
    };
    let checked = hundred.clone();
    let check = move || agrees(&values(&checked()), 1e-5, |i| xs[i] + 100.0);
    (Box::new(move || drop(hundred().into_data())), Box::new(check))
}
