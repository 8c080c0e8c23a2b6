//! Convolutions and pools.

use super::{floats, list, noise};
use crate::support::devices::{device, each};
use crate::support::exact::integers;
use burn::prelude::*;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions, MaxPoolOptions};
use burn::tensor::{DType, TensorData, module};

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
