//! Gradients of linear operations are their transposes: `⟨A x, g⟩ = ⟨x, Aᵀ g⟩` for any x and g, in f64. The operations
//! themselves are tested elsewhere.

use crate::support::devices::{current, each};
use crate::support::exact::values;
use burn_backend::ops::{
    ConvOptions, ConvTransposeOptions, FloatTensorOps, InterpolateMode, InterpolateOptions, ModuleOps,
    UnfoldOptions,
};
use burn_backend::{Shape, TensorData, TensorMetadata};
use burn_mlir::{Mlir, MlirTensor};

/// Numbers in -1..1 without structure.
fn noise(shape: &[usize], salt: u64) -> MlirTensor {
    let mut state = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let data: Vec<f64> = (0..shape.iter().product()).map(|_| next()).collect();
    Mlir::float_from_data(TensorData::new(data, Shape::from(shape.to_vec())), &current())
}

fn product(a: MlirTensor, b: MlirTensor) -> f64 {
    assert_eq!(a.shape(), b.shape());
    values(a).into_iter().zip(values(b)).map(|(a, b)| a * b).sum()
}

/// Checks an operation, linear in a tensor of `shape`, and its gradient, a function of the result's.
#[track_caller]
fn check(
    name: &str,
    shape: &[usize],
    forward: impl Fn(MlirTensor) -> MlirTensor,
    gradient: impl Fn(MlirTensor, MlirTensor) -> MlirTensor,
) {
    let x = noise(shape, 1);
    let y = forward(x.clone());
    let g = noise(&y.shape(), 2);
    let (a, b) = (product(y, g.clone()), product(x.clone(), gradient(x, g)));
    assert!((a - b).abs() < 1e-11 * a.abs().max(1.0), "{name}: {a} and {b}");
}

/// `rank: methods` of convolutions and of transposed ones.
macro_rules! convolutions {
    ($($name:ident $rank:literal: $forward:ident $input:ident $weight:ident,
        $transposed:ident $transposed_input:ident $transposed_weight:ident;)*) => {$(
        fn $name(x: [usize; $rank + 2], w: [usize; $rank + 2], options: ConvOptions<$rank>) {
            let (input, weight) = (noise(&x, 3), noise(&w, 4));
            check(
                &format!("input of {options:?}"),
                &x,
                |x| Mlir::$forward(x, weight.clone(), None, options.clone()),
                |x, g| Mlir::$input(x, weight.clone(), g, options.clone()),
            );
            check(
                &format!("weight of {options:?}"),
                &w,
                |w| Mlir::$forward(input.clone(), w, None, options.clone()),
                |w, g| Mlir::$weight(input.clone(), w, g, options.clone()),
            );
        }

        fn $transposed(x: [usize; $rank + 2], w: [usize; $rank + 2], options: ConvTransposeOptions<$rank>) {
            let (input, weight) = (noise(&x, 3), noise(&w, 4));
            check(
                &format!("input of {options:?}"),
                &x,
                |x| Mlir::$transposed(x, weight.clone(), None, options.clone()),
                |_, g| Mlir::$transposed_input(weight.clone(), g, options.clone()),
            );
            check(
                &format!("weight of {options:?}"),
                &w,
                |w| Mlir::$transposed(input.clone(), w, None, options.clone()),
                |w, g| Mlir::$transposed_weight(input.clone(), w, g, options.clone()),
            );
        }
    )*};
}

convolutions! {
    line 1: conv1d conv1d_x_backward conv1d_weight_backward,
        conv_transpose1d conv_transpose1d_x_backward conv_transpose1d_weight_backward;
    plane 2: conv2d conv2d_x_backward conv2d_weight_backward,
        conv_transpose2d conv_transpose2d_x_backward conv_transpose2d_weight_backward;
    space 3: conv3d conv3d_x_backward conv3d_weight_backward,
        conv_transpose3d conv_transpose3d_x_backward conv_transpose3d_weight_backward;
}

#[test]
fn convolutions() {
    each(|| {
        line([2, 6, 11], [9, 2, 3], ConvOptions::new([2], [3], [2], 3));
        line([1, 2, 10], [3, 2, 4], ConvOptions::new_with_padding([3], [(0, 2)], [1], 1));
        plane([2, 4, 7, 6], [6, 2, 3, 2], ConvOptions::new([3, 2], [2, 1], [1, 3], 2));
        plane([1, 2, 6, 7], [3, 2, 3, 3], ConvOptions::new_with_padding([2, 1], [(1, 2), (0, 3)], [1, 1], 1));
        space([1, 4, 5, 6, 3], [6, 2, 2, 3, 2], ConvOptions::new([1, 2, 1], [1, 0, 2], [2, 1, 1], 2));
        let asymmetric = [(1, 0), (0, 2), (1, 1)];
        space(
            [2, 2, 3, 4, 5],
            [3, 2, 2, 3, 2],
            ConvOptions::new_with_padding([2, 1, 2], asymmetric, [1, 1, 1], 1),
        );
    });
}

#[test]
fn transposed_convolutions() {
    each(|| {
        conv_transpose1d([2, 4, 5], [4, 3, 3], ConvTransposeOptions::new([3], [1], [2], [2], 2));
        conv_transpose1d([2, 3, 5], [3, 2, 4], ConvTransposeOptions::new([1], [0], [1], [1], 1));
        conv_transpose2d(
            [2, 4, 4, 5],
            [4, 3, 3, 2],
            ConvTransposeOptions::new([2, 3], [1, 0], [1, 2], [2, 1], 2),
        );
        conv_transpose3d(
            [2, 4, 3, 2, 3],
            [4, 2, 2, 2, 3],
            ConvTransposeOptions::new([2, 1, 3], [1, 0, 1], [1, 0, 2], [1, 2, 1], 2),
        );
    });
}

#[test]
fn averages() {
    each(|| {
        let shape = [2, 3, 9, 10];
        for (size, stride, padding, include, ceil) in [
            ([3, 3], [2, 2], [1, 1], true, true),
            ([3, 2], [2, 3], [1, 0], false, true),
            ([2, 3], [3, 4], [1, 1], true, true),
            ([4, 4], [1, 3], [2, 2], false, false),
        ] {
            check(
                &format!("{size:?} {stride:?} {padding:?} {include} {ceil}"),
                &shape,
                |x| Mlir::avg_pool2d(x, size, stride, padding, include, ceil),
                |x, g| Mlir::avg_pool2d_backward(x, g, size, stride, padding, include, ceil),
            );
        }
        for size in [[1, 1], [4, 7], [11, 3]] {
            let name = format!("{size:?}");
            check(&name, &shape, |x| Mlir::adaptive_avg_pool2d(x, size), Mlir::adaptive_avg_pool2d_backward);
            let (shape, size) = ([2, 2, 5, 4, 6], [size[0], size[1], 4]);
            check(&name, &shape, |x| Mlir::adaptive_avg_pool3d(x, size), Mlir::adaptive_avg_pool3d_backward);
        }
    });
}

#[test]
fn interpolations() {
    use InterpolateMode::{Bicubic, Bilinear, Lanczos3, Nearest, NearestExact};
    each(|| {
        for mode in [Nearest, NearestExact, Bilinear, Bicubic, Lanczos3] {
            for (size, align) in [([12, 9], false), ([13, 4], true), ([4, 3], false)] {
                let options = || InterpolateOptions {
                    mode: mode.clone(),
                    align_corners: align,
                    output_size: None,
                    scale_factor: None,
                };
                check(
                    &format!("{mode:?} {size:?} {align}"),
                    &[2, 2, 6, 7],
                    |x| Mlir::interpolate(x, size, options()),
                    |x, g| Mlir::interpolate_backward(x, g, size, options()),
                );
            }
        }
    });
}

#[test]
fn columns() {
    each(|| {
        for (stride, padding, dilation) in
            [([1, 1], [0, 0], [1, 1]), ([2, 1], [1, 2], [2, 1]), ([3, 4], [2, 1], [1, 3])]
        {
            let options = || UnfoldOptions::new(stride, padding, dilation);
            check(
                &format!("{stride:?} {padding:?} {dilation:?}"),
                &[2, 3, 7, 8],
                |x| Mlir::unfold4d(x, [2, 3], options()),
                |_, g| Mlir::fold4d(g, [7, 8], [2, 3], options()),
            );
        }
    });
}
