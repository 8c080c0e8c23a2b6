//! Convolutions, pools and resampling.

use super::{Operand, Row, differentiate, rows};
use burn_backend::IntDType;
use burn_backend::ops::{
    ConvOptions, ConvTransposeOptions, DeformConvOptions, GridSampleOptions, GridSamplePaddingMode,
    InterpolateMode, InterpolateOptions, UnfoldOptions,
};

const LINE: Operand = (&[2, 4, 9], -1.0, 1.0);
const IMAGE: Operand = (&[2, 2, 5, 6], -1.0, 1.0);
const WIDE: Operand = (&[1, 4, 5, 6], -1.0, 1.0);
const VOLUME: Operand = (&[1, 2, 3, 4, 5], -1.0, 1.0);
const BIAS: Operand = (&[4], -1.0, 1.0);

#[rustfmt::skip]
const CONVOLUTIONS: &[Row] = rows! {
    conv1d[LINE, (&[4, 4, 3], -1.0, 1.0), BIAS] |x, B| {
        B::conv1d(x[0].clone(), x[1].clone(), Some(x[2].clone()), ConvOptions::new([2], [1], [1], 1))
    };
    conv1d_in_groups[LINE, (&[4, 2, 2], -1.0, 1.0)] |x, B| {
        B::conv1d(x[0].clone(), x[1].clone(), None, ConvOptions::new([1], [0], [3], 2))
    };
    conv1d_in_groups_with_a_rest[(&[1, 2, 7], -1.0, 1.0), (&[4, 1, 2], -1.0, 1.0)] |x, B| {
        B::conv1d(x[0].clone(), x[1].clone(), None, ConvOptions::new([3], [2], [2], 2))
    };
    conv1d_asymmetric[LINE, (&[2, 4, 3], -1.0, 1.0)] |x, B| {
        B::conv1d(x[0].clone(), x[1].clone(), None, ConvOptions::new_with_padding([2], [(2, 1)], [1], 1))
    };
    conv2d[IMAGE, (&[4, 2, 3, 2], -1.0, 1.0), BIAS] |x, B| {
        B::conv2d(x[0].clone(), x[1].clone(), Some(x[2].clone()), ConvOptions::new([1, 2], [1, 0], [1, 1], 1))
    };
    conv2d_dilated_in_groups[WIDE, (&[4, 2, 2, 3], -1.0, 1.0)] |x, B| {
        B::conv2d(x[0].clone(), x[1].clone(), None, ConvOptions::new([2, 1], [1, 2], [2, 2], 2))
    };
    conv2d_by_channel[WIDE, (&[4, 1, 3, 3], -1.0, 1.0), BIAS] |x, B| {
        B::conv2d(x[0].clone(), x[1].clone(), Some(x[2].clone()), ConvOptions::new([1, 1], [1, 1], [1, 1], 4))
    };
    conv2d_asymmetric[IMAGE, (&[3, 2, 3, 3], -1.0, 1.0)] |x, B| {
        B::conv2d(x[0].clone(), x[1].clone(), None, ConvOptions::new_with_padding([2, 1], [(1, 2), (0, 1)], [1, 1], 1))
    };
    conv2d_of_one_pixel[IMAGE, (&[3, 2, 1, 1], -1.0, 1.0)] |x, B| {
        B::conv2d(x[0].clone(), x[1].clone(), None, ConvOptions::new([1, 1], [0, 0], [1, 1], 1))
    };
    conv3d[VOLUME, (&[3, 2, 2, 2, 3], -1.0, 1.0), (&[3], -1.0, 1.0)] |x, B| {
        B::conv3d(x[0].clone(), x[1].clone(), Some(x[2].clone()), ConvOptions::new([1, 2, 1], [0, 1, 1], [2, 1, 1], 1))
    };
    conv3d_in_groups_with_a_rest[VOLUME, (&[4, 1, 2, 2, 2], -1.0, 1.0)] |x, B| {
        B::conv3d(x[0].clone(), x[1].clone(), None, ConvOptions::new([2, 3, 2], [0, 1, 1], [1, 1, 2], 2))
    };
    conv3d_asymmetric_in_groups[VOLUME, (&[2, 1, 2, 2, 2], -1.0, 1.0)] |x, B| {
        let options = ConvOptions::new_with_padding([1, 1, 2], [(0, 1), (1, 0), (2, 1)], [1, 1, 1], 2);
        B::conv3d(x[0].clone(), x[1].clone(), None, options)
    };
    conv_transpose1d[LINE, (&[4, 3, 3], -1.0, 1.0), (&[3], -1.0, 1.0)] |x, B| {
        B::conv_transpose1d(x[0].clone(), x[1].clone(), Some(x[2].clone()), ConvTransposeOptions::new([2], [1], [1], [1], 1))
    };
    conv_transpose1d_in_groups[LINE, (&[4, 1, 2], -1.0, 1.0)] |x, B| {
        B::conv_transpose1d(x[0].clone(), x[1].clone(), None, ConvTransposeOptions::new([1], [0], [0], [2], 2))
    };
    conv_transpose2d[IMAGE, (&[2, 3, 3, 2], -1.0, 1.0), (&[3], -1.0, 1.0)] |x, B| {
        let options = ConvTransposeOptions::new([2, 3], [1, 0], [1, 2], [1, 1], 1);
        B::conv_transpose2d(x[0].clone(), x[1].clone(), Some(x[2].clone()), options)
    };
    conv_transpose2d_dilated_in_groups[WIDE, (&[4, 2, 2, 3], -1.0, 1.0), BIAS] |x, B| {
        let options = ConvTransposeOptions::new([1, 2], [1, 1], [0, 1], [2, 1], 2);
        B::conv_transpose2d(x[0].clone(), x[1].clone(), Some(x[2].clone()), options)
    };
    conv_transpose3d[(&[1, 2, 2, 3, 2], -1.0, 1.0), (&[2, 3, 2, 2, 3], -1.0, 1.0), (&[3], -1.0, 1.0)] |x, B| {
        let options = ConvTransposeOptions::new([1, 2, 2], [0, 1, 1], [0, 1, 0], [1, 1, 1], 1);
        B::conv_transpose3d(x[0].clone(), x[1].clone(), Some(x[2].clone()), options)
    };
    deform_conv2d[
        (&[1, 2, 5, 5], -1.0, 1.0), (&[1, 8, 4, 4], -0.4, 0.4), (&[3, 2, 2, 2], -1.0, 1.0), (&[1, 4, 4, 4], 0.2, 1.0),
        (&[3], -1.0, 1.0),
    ] |x, B| {
        let options = DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1);
        let (mask, bias) = (Some(x[3].clone()), Some(x[4].clone()));
        B::deform_conv2d(x[0].clone(), x[1].clone(), x[2].clone(), mask, bias, options)
    };
    deform_conv2d_in_groups[(&[1, 4, 5, 5], -1.0, 1.0), (&[1, 16, 3, 3], -0.4, 0.4), (&[4, 2, 2, 2], -1.0, 1.0)] |x, B| {
        let options = DeformConvOptions::new([2, 2], [1, 1], [2, 2], 2, 2);
        B::deform_conv2d(x[0].clone(), x[1].clone(), x[2].clone(), None, None, options)
    };
};

fn resized<B: crate::support::devices::Tested>(
    x: &[burn_backend::tensor::FloatTensor<B>],
    size: [usize; 2],
    mode: InterpolateMode,
    align_corners: bool,
) -> burn_backend::tensor::FloatTensor<B> {
    let options = InterpolateOptions { mode, align_corners, output_size: None, scale_factor: None };
    B::interpolate(x[0].clone(), size, options)
}

fn sampled<B: crate::support::devices::Tested>(
    x: &[burn_backend::tensor::FloatTensor<B>],
    mode: InterpolateMode,
    padding_mode: GridSamplePaddingMode,
    align_corners: bool,
) -> burn_backend::tensor::FloatTensor<B> {
    B::float_grid_sample_2d(
        x[0].clone(),
        x[1].clone(),
        GridSampleOptions { mode, padding_mode, align_corners },
    )
}

/// Places inside and outside of an image.
const GRID: Operand = (&[2, 3, 4, 2], -1.2, 1.2);

#[rustfmt::skip]
const RESAMPLED: &[Row] = rows! {
    max_pool1d[LINE] |x, B| B::max_pool1d(x[0].clone(), 3, 2, 1, 1, true);
    max_pool1d_with_indices[LINE] |x, B| B::max_pool1d_with_indices(x[0].clone(), 2, 2, 0, 2, false, IntDType::I64).output;
    max_pool2d[IMAGE] |x, B| B::max_pool2d(x[0].clone(), [3, 2], [2, 1], [1, 1], [1, 2], false);
    max_pool2d_rounded_up[IMAGE] |x, B| B::max_pool2d(x[0].clone(), [2, 3], [2, 2], [0, 1], [1, 1], true);
    max_pool2d_with_indices[IMAGE] |x, B| {
        B::max_pool2d_with_indices(x[0].clone(), [2, 2], [2, 2], [1, 0], [1, 1], false, IntDType::I32).output
    };
    avg_pool1d[LINE] |x, B| B::avg_pool1d(x[0].clone(), 3, 2, 1, true, false);
    avg_pool1d_rounded_up[LINE] |x, B| B::avg_pool1d(x[0].clone(), 4, 3, 1, false, true);
    avg_pool2d[IMAGE] |x, B| B::avg_pool2d(x[0].clone(), [3, 2], [2, 1], [1, 1], true, false);
    avg_pool2d_without_padding[IMAGE] |x, B| B::avg_pool2d(x[0].clone(), [3, 2], [2, 1], [1, 1], false, false);
    avg_pool2d_rounded_up[IMAGE] |x, B| B::avg_pool2d(x[0].clone(), [2, 3], [2, 2], [1, 1], true, true);
    avg_pool2d_rounded_up_without_padding[IMAGE] |x, B| B::avg_pool2d(x[0].clone(), [2, 4], [2, 3], [1, 1], false, true);
    adaptive_avg_pool1d[LINE] |x, B| B::adaptive_avg_pool1d(x[0].clone(), 4);
    adaptive_avg_pool2d[IMAGE] |x, B| B::adaptive_avg_pool2d(x[0].clone(), [3, 4]);
    adaptive_avg_pool2d_upwards[IMAGE] |x, B| B::adaptive_avg_pool2d(x[0].clone(), [7, 1]);
    adaptive_avg_pool3d[VOLUME] |x, B| B::adaptive_avg_pool3d(x[0].clone(), [2, 3, 4]);
    nearest[IMAGE] |x, B| resized::<B>(x, [8, 4], InterpolateMode::Nearest, false);
    nearest_exact[IMAGE] |x, B| resized::<B>(x, [8, 4], InterpolateMode::NearestExact, false);
    bilinear[IMAGE] |x, B| resized::<B>(x, [8, 4], InterpolateMode::Bilinear, false);
    bilinear_aligned[IMAGE] |x, B| resized::<B>(x, [8, 4], InterpolateMode::Bilinear, true);
    bicubic[IMAGE] |x, B| resized::<B>(x, [8, 4], InterpolateMode::Bicubic, false);
    bicubic_aligned[IMAGE] |x, B| resized::<B>(x, [8, 4], InterpolateMode::Bicubic, true);
    lanczos[IMAGE] |x, B| resized::<B>(x, [8, 4], InterpolateMode::Lanczos3, false);
    grid_sample[IMAGE, GRID] |x, B| sampled::<B>(x, InterpolateMode::Bilinear, GridSamplePaddingMode::Zeros, false);
    grid_sample_border[IMAGE, GRID] |x, B| sampled::<B>(x, InterpolateMode::Bilinear, GridSamplePaddingMode::Border, true);
    grid_sample_reflection[IMAGE, GRID] |x, B| {
        sampled::<B>(x, InterpolateMode::Bilinear, GridSamplePaddingMode::Reflection, false)
    };
    unfold4d[IMAGE] |x, B| B::unfold4d(x[0].clone(), [2, 3], UnfoldOptions::new([2, 1], [1, 0], [1, 2]));
    fold4d[(&[2, 12, 6], -1.0, 1.0)] |x, B| {
        B::fold4d(x[0].clone(), [4, 5], [2, 3], UnfoldOptions::new([2, 1], [0, 0], [1, 1]))
    };
};

#[test]
fn convolutions() {
    differentiate(CONVOLUTIONS);
}

#[test]
fn pools_and_resampling() {
    differentiate(RESAMPLED);
}
