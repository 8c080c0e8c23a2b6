//! Pooling and interpolation, with their gradients.

use crate::agreement::{I32, agree, float};
use burn_backend::TensorMetadata;
use burn_backend::ops::{InterpolateMode, InterpolateOptions};

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
