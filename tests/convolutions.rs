//! Convolutions and their gradients.

use crate::agreement::{Results, agree, float};
use crate::support::devices::Tested;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, UnfoldOptions};

/// A 2D convolution `[n, c, h, w]` with `[o, c / groups, kh, kw]` and all its gradients.
fn conv2d<B: Tested>(results: &mut Results, input: [usize; 4], kernel: [usize; 4], options: ConvOptions<2>) {
    let (x, w) = (float::<B, 4>(input, 1), float::<B, 4>(kernel, 2));
    let bias = float::<B, 1>([kernel[0]], 3);
    let y = B::conv2d(x.clone(), w.clone(), Some(bias.clone()), options.clone());
    let grad = B::float_mul_scalar(y.clone(), 0.25.into());
    results.float::<B>(format!("forward {options:?}"), y);
    let name = |of: &str| format!("gradient of {of}, {options:?}");
    let input = B::conv2d_x_backward(x.clone(), w.clone(), grad.clone(), options.clone());
    results.float::<B>(name("input"), input);
    let weight = B::conv2d_weight_backward(x.clone(), w, grad.clone(), options.clone());
    results.float::<B>(name("weight"), weight);
    results.float::<B>(name("bias"), B::conv2d_bias_backward(x, bias, grad));
}

/// A transposed 2D convolution `[n, c, h, w]` with `[c, o / groups, kh, kw]` and its gradients.
fn conv_transpose2d<B: Tested>(
    results: &mut Results,
    input: [usize; 4],
    kernel: [usize; 4],
    options: ConvTransposeOptions<2>,
) {
    let (x, w) = (float::<B, 4>(input, 1), float::<B, 4>(kernel, 2));
    let bias = float::<B, 1>([kernel[1] * options.groups], 3);
    let y = B::conv_transpose2d(x.clone(), w.clone(), Some(bias), options.clone());
    let grad = B::float_mul_scalar(y.clone(), 0.25.into());
    results.float::<B>(format!("forward {options:?}"), y);
    let name = |of: &str| format!("gradient of {of}, {options:?}");
    let input = B::conv_transpose2d_x_backward(w.clone(), grad.clone(), options.clone());
    results.float::<B>(name("input"), input);
    let weight = B::conv_transpose2d_weight_backward(x, w, grad, options.clone());
    results.float::<B>(name("weight"), weight);
}

agree! {
    fn two_dimensions<B>(results) within 2e-5 {
        let plain = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
        conv2d::<B>(results, [2, 3, 8, 9], [4, 3, 3, 3], plain.clone());
        conv2d::<B>(results, [2, 3, 5, 5], [4, 3, 1, 1], plain);
        conv2d::<B>(results, [2, 3, 8, 9], [4, 3, 3, 2], ConvOptions::new([2, 3], [1, 1], [1, 1], 1));
        conv2d::<B>(results, [1, 2, 9, 11], [3, 2, 3, 3], ConvOptions::new([2, 1], [2, 0], [2, 3], 1));
    }

    fn groups<B>(results) within 2e-5 {
        conv2d::<B>(results, [2, 4, 7, 7], [6, 2, 3, 3], ConvOptions::new([1, 2], [1, 1], [1, 1], 2));
        conv2d::<B>(results, [2, 4, 7, 7], [4, 1, 3, 3], ConvOptions::new([1, 1], [1, 1], [1, 1], 4));
    }

    fn asymmetric_padding<B>(results) within 2e-5 {
        let options = ConvOptions::new_with_padding([2, 1], [(1, 2), (0, 3)], [1, 1], 1);
        conv2d::<B>(results, [2, 2, 6, 7], [3, 2, 3, 3], options);
    }

    fn one_and_three_dimensions<B>(results) within 2e-5 {
        let (x, w) = (float::<B, 3>([2, 3, 12], 1), float::<B, 3>([4, 3, 4], 2));
        let options = ConvOptions::new([2], [1], [2], 1);
        let y = B::conv1d(x.clone(), w.clone(), None, options.clone());
        results.float::<B>("1d", y.clone());
        results.float::<B>("1d input", B::conv1d_x_backward(x.clone(), w.clone(), y.clone(), options.clone()));
        results.float::<B>("1d weight", B::conv1d_weight_backward(x, w, y, options));
        let (x, w) = (float::<B, 5>([1, 2, 4, 5, 6], 3), float::<B, 5>([3, 2, 2, 3, 2], 4));
        let options = ConvOptions::new([1, 2, 1], [0, 1, 1], [1, 1, 2], 1);
        let y = B::conv3d(x.clone(), w.clone(), None, options.clone());
        results.float::<B>("3d", y.clone());
        results.float::<B>("3d input", B::conv3d_x_backward(x.clone(), w.clone(), y.clone(), options.clone()));
        results.float::<B>("3d weight", B::conv3d_weight_backward(x, w, y, options));
    }

    fn groups_in_one_and_three_dimensions<B>(results) within 2e-5 {
        let options = ConvOptions::new([2], [3], [2], 3);
        let (x, w) = (float::<B, 3>([2, 6, 11], 1), float::<B, 3>([9, 2, 3], 2));
        results.float::<B>("1d", B::conv1d(x, w, Some(float::<B, 1>([9], 3)), options));
        let options = ConvOptions::new([1, 2, 1], [1, 0, 2], [2, 1, 1], 2);
        let (x, w) = (float::<B, 5>([1, 4, 5, 6, 3], 4), float::<B, 5>([6, 2, 2, 3, 2], 5));
        results.float::<B>("3d", B::conv3d(x, w, Some(float::<B, 1>([6], 6)), options));
        let options = ConvTransposeOptions::new([3], [1], [2], [2], 2);
        let (x, w) = (float::<B, 3>([2, 4, 5], 7), float::<B, 3>([4, 3, 3], 8));
        results.float::<B>("transposed 1d", B::conv_transpose1d(x, w, Some(float::<B, 1>([6], 9)), options));
        let options = ConvTransposeOptions::new([2, 1, 3], [1, 0, 1], [1, 0, 2], [1, 2, 1], 2);
        let (x, w) = (float::<B, 5>([2, 4, 3, 2, 3], 1), float::<B, 5>([4, 2, 2, 2, 3], 2));
        results.float::<B>("transposed 3d", B::conv_transpose3d(x, w, None, options));
    }

    fn transposed<B>(results) within 2e-5 {
        let options = |stride, padding, out, dilation, groups| {
            ConvTransposeOptions::new(stride, padding, out, dilation, groups)
        };
        let run = conv_transpose2d::<B>;
        run(results, [2, 3, 4, 5], [3, 2, 3, 3], options([1, 1], [0, 0], [0, 0], [1, 1], 1));
        run(results, [2, 3, 4, 5], [3, 2, 3, 3], options([2, 3], [1, 1], [1, 2], [1, 1], 1));
        run(results, [2, 4, 4, 5], [4, 3, 3, 2], options([2, 1], [1, 0], [0, 0], [2, 1], 2));
    }

    fn columns<B>(results) within 1e-6 {
        let x = float::<B, 4>([2, 3, 7, 8], 1);
        for (stride, padding, dilation) in [([1, 1], [0, 0], [1, 1]), ([2, 1], [1, 2], [2, 1]), ([3, 4], [2, 1], [1, 3])] {
            let options = UnfoldOptions::new(stride, padding, dilation);
            let columns = B::unfold4d(x.clone(), [2, 3], options);
            let options = UnfoldOptions::new(stride, padding, dilation);
            let folded = B::fold4d(columns.clone(), [7, 8], [2, 3], options);
            results.float::<B>(format!("fold {stride:?}"), folded);
            results.float::<B>(format!("unfold {stride:?}"), columns);
        }
    }
}
