//! Pooling and interpolation, with their gradients.

use crate::agreement::{I32, agree, float};
use crate::support::devices::{current, each};
use burn_backend::ops::{FloatTensorOps, IntTensorOps, InterpolateMode, InterpolateOptions, ModuleOps};
use burn_backend::{IntDType, Shape, TensorData, TensorMetadata, read_sync};
use burn_mlir::Mlir;

agree! {
    fn maximum<B>(results) within 0.0 {
        let x = float::<B, 4>([2, 3, 9, 10], 1);
        for (size, stride, padding, dilation, ceil) in [
            ([2, 2], [2, 2], [0, 0], [1, 1], false),
            ([3, 3], [2, 2], [1, 1], [1, 1], false),
            ([3, 2], [2, 3], [1, 0], [2, 1], true),
        ] {
            let name = format!("{size:?} {stride:?} {padding:?} {dilation:?} {ceil}");
            let y = B::max_pool2d(x.clone(), size, stride, padding, dilation, ceil);
            results.float::<B>(format!("max {name}"), y.clone());
            let both =
                B::max_pool2d_with_indices(x.clone(), size, stride, padding, dilation, ceil, I32);
            results.float::<B>(format!("values {name}"), both.output);
            results.int::<B>(format!("indices {name}"), both.indices.clone());
            let grad = B::max_pool2d_with_indices_backward(
                x.clone(), size, stride, padding, dilation, ceil, B::float_abs(y), both.indices,
            );
            results.float::<B>(format!("gradient {name}"), grad.x_grad);
        }
    }

    fn average<B>(results) within 1e-5 {
        let x = float::<B, 4>([2, 3, 9, 10], 1);
        for (size, stride, padding, include, ceil) in [
            ([2, 2], [2, 2], [0, 0], true, false),
            ([3, 3], [2, 2], [1, 1], true, false),
            ([3, 3], [2, 1], [1, 1], false, false),
            ([3, 2], [2, 3], [1, 0], false, true),
            ([2, 3], [2, 4], [1, 1], true, true),
        ] {
            let name = format!("{size:?} {stride:?} {padding:?} {include} {ceil}");
            let y = B::avg_pool2d(x.clone(), size, stride, padding, include, ceil);
            results.float::<B>(format!("average {name}"), y.clone());
            if !ceil {
                let grad = B::avg_pool2d_backward(x.clone(), y, size, stride, padding, include, ceil);
                results.float::<B>(format!("gradient {name}"), grad);
            }
        }
    }

    fn adaptive<B>(results) within 1e-5 {
        let x = float::<B, 4>([2, 3, 9, 10], 1);
        for size in [[1, 1], [3, 5], [4, 3], [3, 4], [11, 10]] {
            let y = B::adaptive_avg_pool2d(x.clone(), size);
            results.float::<B>(format!("{size:?}"), y.clone());
            let grad = B::adaptive_avg_pool2d_backward(x.clone(), y);
            results.float::<B>(format!("gradient {size:?}"), grad);
        }
    }

    fn interpolation<B>(results) within 2e-5 {
        let x = float::<B, 4>([2, 3, 6, 7], 1);
        use InterpolateMode::{Bicubic, Bilinear, Lanczos3, Nearest};
        for mode in [Nearest, Bilinear, Bicubic, Lanczos3] {
            for (size, align) in [([12, 9], false), ([12, 9], true), ([4, 3], false)] {
                let options = InterpolateOptions {
                    mode: mode.clone(), align_corners: align, output_size: None, scale_factor: None,
                };
                let name = format!("{mode:?} {size:?} {align}");
                let y = B::interpolate(x.clone(), size, options.clone());
                assert_eq!(y.shape()[2..], size);
                results.float::<B>(name.clone(), y.clone());
                if !matches!(mode, Lanczos3) {
                    let grad = B::interpolate_backward(x.clone(), y, size, options);
                    results.float::<B>(format!("gradient of {name}"), grad);
                }
            }
        }
    }
}

/// The first element that is no padding, as in PyTorch.
#[test]
fn windows_of_nothing_but_infinities_point_at_their_first_element() {
    let (h, w) = (5usize, 6usize);
    each(|| {
        for (size, stride, padding, dilation, ceil) in [
            (3, 2, 1, 1, false),
            (3, 2, 1, 2, false),
            (2, 3, 1, 3, true),
            (2, 2, 1, 1, true),
            (3, 1, 1, 2, false),
        ] {
            let data = TensorData::new(vec![f32::NEG_INFINITY; 2 * h * w], Shape::new([1, 2, h, w]));
            let x = Mlir::float_from_data(data, &current());
            let result = Mlir::max_pool2d_with_indices(
                x.clone(),
                [size; 2],
                [stride; 2],
                [padding; 2],
                [dilation; 2],
                ceil,
                IntDType::I64,
            );
            let [_, _, rows, columns] = result.output.shape().dims();
            let first = |window: usize| {
                let places = (0..size).map(|tap| (window * stride + tap * dilation) as i64 - padding as i64);
                places.clone().find(|&at| at >= 0).unwrap()
            };
            let plane = (0..rows * columns).map(|at| first(at / columns) * w as i64 + first(at % columns));
            let expected: Vec<i64> = plane.collect::<Vec<_>>().repeat(2);
            let indices: Vec<i64> =
                read_sync(Mlir::int_into_data(result.indices)).unwrap().iter::<i64>().collect();
            assert_eq!(indices, expected, "{size} {stride} {padding} {dilation} {ceil}");
        }
    });
}

agree! {
    fn one_dimension<B>(results) within 1e-5 {
        let x = float::<B, 3>([2, 3, 11], 1);
        for (size, stride, padding, dilation, ceil) in [(3, 2, 1, 1, false), (2, 3, 1, 2, true), (4, 1, 2, 1, false)] {
            let name = format!("{size} {stride} {padding} {dilation} {ceil}");
            let y = B::max_pool1d(x.clone(), size, stride, padding, dilation, ceil);
            results.float::<B>(format!("maximum {name}"), y.clone());
            let both = B::max_pool1d_with_indices(x.clone(), size, stride, padding, dilation, ceil, I32);
            results.int::<B>(format!("indices {name}"), both.indices.clone());
            let grad = B::max_pool1d_with_indices_backward(
                x.clone(), size, stride, padding, dilation, ceil, y, both.indices,
            );
            results.float::<B>(format!("gradient {name}"), grad.x_grad);
            let y = B::avg_pool1d(x.clone(), size, stride, padding, ceil, false);
            results.float::<B>(format!("average {name}"), y.clone());
            let grad = B::avg_pool1d_backward(x.clone(), y, size, stride, padding, ceil, false);
            results.float::<B>(format!("gradient of the average {name}"), grad);
        }
        for size in [1, 4, 11, 5] {
            let y = B::adaptive_avg_pool1d(x.clone(), size);
            results.float::<B>(format!("adaptive {size}"), y.clone());
            results.float::<B>(format!("its gradient {size}"), B::adaptive_avg_pool1d_backward(x.clone(), y));
        }
    }

    fn three_dimensions<B>(results) within 1e-5 {
        let x = float::<B, 5>([2, 2, 4, 6, 5], 1);
        for size in [[1, 1, 1], [2, 3, 5], [3, 4, 2]] {
            let y = B::adaptive_avg_pool3d(x.clone(), size);
            results.float::<B>(format!("{size:?}"), y.clone());
            results.float::<B>(format!("gradient {size:?}"), B::adaptive_avg_pool3d_backward(x.clone(), y));
        }
    }
}
