//! Sampling at points that are data: deformable convolution and grids.

use crate::agreement::{Results, agree, float};
use crate::support::devices::{Tested, current, each};
use crate::support::exact::values;
use burn_backend::ops::GridSamplePaddingMode::{self, Border, Reflection, Zeros};
use burn_backend::ops::InterpolateMode::{self, Bicubic, Bilinear, Lanczos3, Nearest};
use burn_backend::ops::{DeformConvOptions, FloatTensorOps, GridSampleOptions, ModuleOps};
use burn_backend::{Shape, TensorData, TensorMetadata, read_sync};
use burn_mlir::{Mlir, MlirTensor};

/// Extents `[n, c, h, w]` and `[o, c / groups, kh, kw]`.
struct Case {
    input: [usize; 4],
    kernel: [usize; 4],
    options: DeformConvOptions<2>,
    output: [usize; 2],
}

fn deformable<B: Tested>(results: &mut Results, case: Case, masked: bool) {
    let Case { input, kernel, options, output: [y, x] } = case;
    let taps = options.offset_groups * kernel[2] * kernel[3];
    let (image, weight) = (float::<B, 4>(input, 1), float::<B, 4>(kernel, 2));
    let offset = B::float_mul_scalar(float::<B, 4>([input[0], 2 * taps, y, x], 3), 1.5.into());
    let mask = masked.then(|| float::<B, 4>([input[0], taps, y, x], 4));
    let bias = masked.then(|| float::<B, 1>([kernel[0]], 5));
    let name = |what: &str| format!("{what} of {input:?} {kernel:?} {options:?}");
    let out = B::deform_conv2d(
        image.clone(),
        offset.clone(),
        weight.clone(),
        mask.clone(),
        bias.clone(),
        options.clone(),
    );
    results.float::<B>(name("value"), out.clone());
    let grads = B::deform_conv2d_backward(image, offset, weight, mask, bias, out, options.clone());
    results.float::<B>(name("input"), grads.x_grad);
    results.float::<B>(name("offset"), grads.offset_grad);
    results.float::<B>(name("weight"), grads.weight_grad);
    if let (Some(mask), Some(bias)) = (grads.mask_grad, grads.bias_grad) {
        results.float::<B>(name("mask"), mask);
        results.float::<B>(name("bias"), bias);
    }
}

agree! {
    fn deformable_convolutions<B>(results) within 2e-5 {
        let options = |stride, padding, dilation, groups, offsets| {
            DeformConvOptions::new(stride, padding, dilation, groups, offsets)
        };
        let plain = options([1, 1], [0, 0], [1, 1], 1, 1);
        let case = Case { input: [2, 3, 5, 6], kernel: [4, 3, 3, 3], options: plain, output: [3, 4] };
        deformable::<B>(results, case, true);
        let grouped = options([2, 1], [1, 2], [1, 2], 2, 3);
        let case = Case { input: [2, 6, 7, 5], kernel: [4, 3, 3, 2], options: grouped, output: [4, 7] };
        deformable::<B>(results, case, false);
        let one = options([1, 2], [0, 1], [1, 1], 1, 4);
        let case = Case { input: [1, 4, 3, 4], kernel: [5, 4, 1, 1], options: one, output: [3, 3] };
        deformable::<B>(results, case, true);
    }
}

/// An f64 tensor.
fn doubles<const D: usize>(values: Vec<f64>, shape: [usize; D]) -> MlirTensor {
    Mlir::float_from_data(TensorData::new(values, Shape::new(shape)), &current())
}

/// Without structure, in 0..1.
fn unit(count: usize, salt: u64) -> Vec<f64> {
    (0..count as u64).map(|i| ((i * 2654435761 + salt * 40503) % 1009) as f64 / 1009.0).collect()
}

#[test]
fn gradients_of_a_deformable_convolution_are_differences() {
    let options = DeformConvOptions::new([1, 2], [1, 1], [1, 1], 2, 2);
    let shapes: [&[usize]; 5] = [&[1, 4, 3, 4], &[1, 8, 4, 3], &[2, 2, 2, 1], &[1, 4, 4, 3], &[2]];
    // No point lies near a pixel's middle, where a sample has no derivative.
    let made = |i: usize| -> Vec<f64> {
        let raw = unit(shapes[i].iter().product(), i as u64 + 1);
        let apart = |v: f64| (v * 4.0 - 2.0).floor() + 0.2 + 0.6 * (v * 4.0).fract();
        raw.iter().map(|&v| if i == 1 { apart(v) } else { v * 2.0 - 1.0 }).collect()
    };
    each(|| {
        let operands: Vec<Vec<f64>> = (0..5).map(made).collect();
        let tensors = |operands: &[Vec<f64>]| -> Vec<MlirTensor> {
            let data = operands.iter().zip(shapes);
            data.map(|(v, shape)| {
                Mlir::float_from_data(TensorData::new(v.clone(), Shape::from(shape.to_vec())), &current())
            })
            .collect()
        };
        let run = |t: &[MlirTensor]| {
            let [x, offset, weight, mask, bias] = [0, 1, 2, 3, 4].map(|i| t[i].clone());
            Mlir::deform_conv2d(x, offset, weight, Some(mask), Some(bias), options.clone())
        };
        let t = tensors(&operands);
        let out = run(&t);
        let factors = unit(out.shape().num_elements(), 9);
        let grad = Mlir::float_from_data(TensorData::new(factors.clone(), out.shape()), &current());
        let loss = |operands: &[Vec<f64>]| -> f64 {
            values(run(&tensors(operands))).iter().zip(&factors).map(|(a, b)| a * b).sum()
        };
        let [x, offset, weight, mask, bias] = [0, 1, 2, 3, 4].map(|i| t[i].clone());
        let grads =
            Mlir::deform_conv2d_backward(x, offset, weight, Some(mask), Some(bias), grad, options.clone());
        let all = [grads.x_grad, grads.offset_grad, grads.weight_grad];
        let all = all.into_iter().chain(grads.mask_grad).chain(grads.bias_grad);
        for (i, grad) in all.enumerate() {
            for (at, actual) in values(grad).into_iter().enumerate().step_by(3) {
                let moved = |by: f64| {
                    let mut moved = operands.clone();
                    moved[i][at] += by;
                    loss(&moved)
                };
                let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((actual - expected).abs() < 1e-8, "operand {i}, {at}: {actual} for {expected}");
            }
        }
    });
}

#[test]
fn deformable_convolutions_of_nothing_and_of_what_does_not_fit() {
    each(|| {
        let options = |groups| DeformConvOptions::new([1, 1], [1, 1], [1, 1], 1, groups);
        let zeros = |shape: [usize; 4]| doubles(vec![0.0; shape.iter().product()], shape);
        let run = |x, offset, groups| {
            Mlir::deform_conv2d(zeros(x), zeros(offset), zeros([4, x[1], 3, 3]), None, None, options(groups))
        };
        assert_eq!(run([0, 2, 5, 5], [0, 18, 5, 5], 1).shape(), Shape::new([0, 4, 5, 5]));
        // An image without rows, all padding.
        assert_eq!(values(run([1, 2, 1, 4], [1, 18, 1, 4], 1)), vec![0.0; 16]);
        let failed = run([1, 2, 5, 5], [1, 17, 5, 5], 1);
        let error = read_sync(Mlir::float_into_data(failed)).unwrap_err().to_string();
        assert!(error.contains("deform_conv2d"), "{error}");
        let failed = run([1, 3, 5, 5], [1, 36, 5, 5], 2);
        assert!(read_sync(Mlir::float_into_data(failed)).is_err());
    });
}

#[test]
fn points_at_infinity_see_nothing() {
    each(|| {
        let options = DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1);
        let image = doubles((1..=6).map(f64::from).collect(), [1, 1, 2, 3]);
        // Row and column of a 1 by 1 kernel, at every pixel.
        let rows = [f64::INFINITY, f64::NEG_INFINITY, 1e300, 0.0, -1.0, -0.5];
        let columns = [0.0, 0.0, 0.0, f64::INFINITY, 0.0, 0.5];
        let offset = doubles([rows, columns].concat(), [1, 2, 2, 3]);
        let weight = doubles(vec![1.0], [1, 1, 1, 1]);
        let y =
            Mlir::deform_conv2d(image.clone(), offset.clone(), weight.clone(), None, None, options.clone());
        // The last is at row 0.5, column 2.5: half of the mean of the last column.
        assert_eq!(values(y.clone()), [0.0, 0.0, 0.0, 0.0, 2.0, 2.25]);
        let grads = Mlir::deform_conv2d_backward(image, offset, weight, None, None, y, options);
        assert!(values(grads.x_grad).iter().all(|v| v.is_finite()));
    });
}

#[test]
fn half_precision_is_the_same_rounded() {
    use burn_backend::{DType, FloatDType};
    each(|| {
        let options = DeformConvOptions::new([1, 1], [1, 1], [1, 1], 1, 2);
        let exact = |shape: &[usize], salt, scale: f64| -> Vec<f64> {
            let count = shape.iter().product();
            unit(count, salt).iter().map(|v| ((v - 0.5) * scale * 64.0).round() / 64.0).collect()
        };
        let run = |dtype: FloatDType| {
            let make = |shape: [usize; 4], salt, scale| {
                Mlir::float_cast(doubles(exact(&shape, salt, scale), shape), dtype)
            };
            let (x, offset) = (make([1, 4, 6, 5], 1, 2.0), make([1, 36, 6, 5], 2, 4.0));
            let (weight, mask) = (make([3, 4, 3, 3], 3, 1.0), make([1, 18, 6, 5], 4, 2.0));
            let grad = make([1, 3, 6, 5], 5, 2.0);
            let y = Mlir::deform_conv2d(
                x.clone(),
                offset.clone(),
                weight.clone(),
                Some(mask.clone()),
                None,
                options.clone(),
            );
            let grads = Mlir::deform_conv2d_backward(
                x.clone(),
                offset,
                weight,
                Some(mask),
                None,
                grad,
                options.clone(),
            );
            let grid = make([1, 7, 3, 2], 6, 2.0);
            let samples = Mlir::float_grid_sample_2d(x, grid, GridSampleOptions::new(Bicubic));
            let all = [y, grads.x_grad, grads.offset_grad, grads.weight_grad, samples];
            let all: Vec<MlirTensor> = all.into_iter().chain(grads.mask_grad).collect();
            assert!(all.iter().all(|t| t.dtype() == DType::from(dtype)));
            all.into_iter().map(values).collect::<Vec<_>>()
        };
        let wide = run(FloatDType::F32);
        for (dtype, tolerance) in [(FloatDType::F16, 4e-3), (FloatDType::BF16, 3e-2)] {
            for (at, (actual, expected)) in run(dtype).into_iter().zip(&wide).enumerate() {
                let peak = expected.iter().fold(1.0f64, |peak, v| peak.max(v.abs()));
                for (a, b) in actual.into_iter().zip(expected) {
                    assert!((a - b).abs() <= tolerance * peak, "{dtype:?}, result {at}: {a} for {b}");
                }
            }
        }
    });
}

/// What PyTorch 2 gives for a plane of 3 by 4 pixels at the points of [`GRID`].
#[rustfmt::skip]
const SAMPLES: [(InterpolateMode, GridSamplePaddingMode, bool, [f64; 6]); 18] = [
    (Bicubic, Zeros, false, [-1.1698997, -1.801954, -0.0348541, 0.0, 0.0, 0.5]),
    (Bicubic, Zeros, true, [-0.6907471, 1.1730258, 3.11537, 0.0, 0.0, 0.5]),
    (Bicubic, Border, false, [-1.1258257, -1.556848, 5.0512695, 0.84925, 1.488, 0.5]),
    (Bicubic, Border, true, [-0.4702607, 1.2988349, 6.3604447, 0.9545, 1.6301523, 0.5]),
    (Bicubic, Reflection, false, [-1.114434, -1.556848, 4.7290732, -0.5997237, -0.525909, 0.5]),
    (Bicubic, Reflection, true, [-0.5479393, 0.7354696, 2.4429056, 1.4067197, -0.0762348, 0.5]),
    (Bilinear, Zeros, false, [-1.19, -1.3, 0.0, 0.0, 0.0, 0.5]),
    (Bilinear, Zeros, true, [-0.905, 0.9, 2.0625, 0.0, 0.0, 0.5]),
    (Bilinear, Border, false, [-1.7, -1.3, 5.0, 0.25, 0.6, 0.5]),
    (Bilinear, Border, true, [-0.905, 0.9, 5.0, 0.5, 0.7, 0.5]),
    (Bilinear, Reflection, false, [-1.7, -1.3, 4.3, -0.35, -0.24, 0.5]),
    (Bilinear, Reflection, true, [-0.905, 0.9, 1.8375, 1.3, 0.23, 0.5]),
    (Nearest, Zeros, false, [1.0, -1.0, 0.0, 0.0, 0.0, 4.0]),
    (Nearest, Zeros, true, [1.0, -1.0, 5.0, 0.0, 0.0, 4.0]),
    (Nearest, Border, false, [1.0, -1.0, 5.0, 1.0, -1.0, 4.0]),
    (Nearest, Border, true, [1.0, -1.0, 5.0, 1.0, -1.0, 4.0]),
    (Nearest, Reflection, false, [1.0, -1.0, 5.0, 0.0, -2.0, 4.0]),
    (Nearest, Reflection, true, [1.0, -1.0, 5.0, 0.0, -2.0, 4.0]),
];

/// Columns and rows.
const GRID: [f64; 12] = [-0.9, -0.3, 0.35, 0.6, 1.3, -1.25, -2.7, 0.1, 0.05, 3.4, 0.0, 0.0];

agree! {
    fn grids<B>(results) within 1e-5 {
        let (x, grid) = (float::<B, 4>([2, 3, 5, 6], 1), float::<B, 4>([2, 4, 5, 2], 2));
        for mode in [Bilinear, Nearest] {
            for (padding, align) in [(Zeros, true), (Border, false), (Reflection, true), (Reflection, false)] {
                let options = GridSampleOptions::new(mode.clone());
                let options = options.with_padding_mode(padding).with_align_corners(align);
                let samples = B::float_grid_sample_2d(x.clone(), grid.clone(), options);
                results.float::<B>(format!("{mode:?} {padding:?} {align}"), samples);
            }
        }
    }
}

#[test]
fn grids_in_every_mode() {
    each(|| {
        let pixels: Vec<f64> = (0..12).map(|i| (i * 7 % 11) as f64 - 5.0).collect();
        // A second channel and a second image, twice and minus the first.
        let all = [1.0, 2.0, -1.0, -2.0].iter().flat_map(|f| pixels.iter().map(move |v| v * f)).collect();
        let (image, grid) = (doubles(all, [2, 2, 3, 4]), doubles([GRID, GRID].concat(), [2, 2, 3, 2]));
        for (mode, padding, align, expected) in SAMPLES {
            let options = GridSampleOptions::new(mode.clone());
            let options = options.with_padding_mode(padding).with_align_corners(align);
            let samples = Mlir::float_grid_sample_2d(image.clone(), grid.clone(), options);
            assert_eq!(samples.shape(), Shape::new([2, 2, 2, 3]));
            let factors = [1.0, 2.0, -1.0, -2.0].iter().flat_map(|f| expected.iter().map(move |v| v * f));
            for (actual, expected) in values(samples).into_iter().zip(factors) {
                let message = format!("{mode:?} {padding:?} {align}: {actual} for {expected}");
                assert!((actual - expected).abs() < 2e-7, "{message}");
            }
        }
        let failed = Mlir::float_grid_sample_2d(image, grid, GridSampleOptions::new(Lanczos3));
        assert!(read_sync(Mlir::float_into_data(failed)).is_err());
    });
}
