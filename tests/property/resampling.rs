//! Pools, interpolation and windows of images, with gradients.

use super::choices::{Choices, FLOATS, INTS};
use super::numbers::Domain;
use super::operation::{Operation, Tolerance, operations};
use super::run::family;
use super::value::{Case, Params, Value};
use Domain::Within;
use Tolerance::{Scaled, Sum, Ulps};
use Value::{Float, Int};
use burn_backend::ops::{
    GridSampleOptions, GridSamplePaddingMode, InterpolateMode, InterpolateOptions, UnfoldOptions,
};

/// A pool over `rank` axes: `[size, stride, padding, dilation]` of each, and the gradient of its result.
fn pool(c: &mut Choices, rank: usize, dilated: bool, ceil: bool, domain: Domain) -> Case {
    let dtype = c.pick(FLOATS);
    let ceil = ceil && c.one_in(2);
    let mut case = Case::of(c, dtype);
    let mut extents = vec![c.within(1, 2), c.pick(&[1, 2, 3, 8, 17])];
    let mut results = extents.clone();
    let mut options = vec![vec![]; 4];
    for _ in 0..rank {
        let (size, stride) = (c.within(1, 4), c.within(1, 3));
        let dilation = if dilated { c.within(1, 2) } else { 1 };
        let padding = c.within(0, size / 2);
        let span = dilation * (size - 1) + 1;
        // Nothing says where the maximum of a window of nothing but padding is.
        let least = span.saturating_sub(2 * padding).max(dilation);
        let extent = c.within(least, least + if rank == 1 { 40 } else { 12 });
        let rest = extent + 2 * padding - span;
        let mut result = if ceil { rest.div_ceil(stride) } else { rest / stride } + 1;
        // No window begins behind the padding in front of the last element.
        if ceil && (result - 1) * stride >= extent + padding {
            result -= 1;
        }
        extents.push(extent);
        results.push(result);
        [size, stride, padding, dilation]
            .into_iter()
            .zip(&mut options)
            .for_each(|(value, list)| list.push(value));
    }
    case.input(c, dtype, &extents, domain);
    case.input(c, dtype, &results, Within(-2.0, 2.0));
    case.params.numbers = options.concat();
    case.params.flags = vec![c.one_in(2), ceil];
    case.params.int = c.pick(&INTS[..2]).into();
    case
}

/// One of the lists that [`pool`] drew.
fn two(p: &Params, list: usize) -> [usize; 2] {
    [p.numbers[2 * list], p.numbers[2 * list + 1]]
}

fn adaptive(c: &mut Choices, rank: usize) -> Case {
    let dtype = c.pick(FLOATS);
    let mut case = Case::of(c, dtype);
    let mut extents = vec![c.within(1, 2), c.pick(&[1, 2, 3, 8, 17])];
    let mut results = extents.clone();
    for _ in 0..rank {
        extents.push(c.within(1, [40, 13, 6][rank - 1]));
        results.push(c.within(1, [40, 13, 6][rank - 1]));
    }
    case.input(c, dtype, &extents, Within(-4.0, 4.0));
    case.input(c, dtype, &results, Within(-4.0, 4.0));
    case.params.shape = results[2..].to_vec();
    case
}

/// burn-flex has no exact nearest neighbours in f64.
const MODES: [InterpolateMode; 4] = [
    InterpolateMode::Nearest,
    InterpolateMode::Bilinear,
    InterpolateMode::Bicubic,
    InterpolateMode::Lanczos3,
];

fn resized(c: &mut Choices, modes: usize) -> Case {
    let mut case = adaptive(c, 2);
    case.params.numbers = vec![c.below(modes)];
    case.params.flags = vec![c.one_in(2)];
    case
}

fn mode(p: &Params) -> InterpolateOptions {
    InterpolateOptions {
        mode: MODES[p.numbers[0]].clone(),
        align_corners: p.flags[0],
        output_size: None,
        scale_factor: None,
    }
}

/// An image and windows of it.
fn columns(c: &mut Choices) -> Case {
    let mut case = pool(c, 2, true, false, Within(-4.0, 4.0));
    let shape = super::views::shape_of(&case);
    let blocks: usize = case.inputs[1].shape()[2..].iter().product();
    let [height, width] = two(&case.params, 0);
    let dtype = case.inputs[0].dtype;
    case.input(c, dtype, &[shape[0], shape[1] * height * width, blocks], Within(-2.0, 2.0));
    case.params.shape = shape[2..].to_vec();
    case
}

fn unfold(p: &Params) -> UnfoldOptions {
    UnfoldOptions::new(two(p, 1), two(p, 2), two(p, 3))
}

/// An image and places to read it at, some of them outside. Not in 16-bit types, whose places are too coarse.
fn sampled(c: &mut Choices) -> Case {
    let dtype = c.pick(&FLOATS[..2]);
    let (batch, channels) = (c.within(1, 2), c.within(1, 3));
    let [h, w, rows, columns] = [(); 4].map(|()| c.within(2, 9));
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &[batch, channels, h, w], Within(-4.0, 4.0));
    case.input(c, dtype, &[batch, rows, columns, 2], Within(-1.3, 1.3));
    case.params.numbers = vec![c.below(3)];
    case.params.flags = vec![c.one_in(2)];
    case
}

#[rustfmt::skip]
fn pools() -> Vec<Operation> {
    operations! {
        max_pool1d(|c| pool(c, 1, true, true, Domain::Sums), Ulps(0.0)) |p, x, B| {
            let n = &p.numbers;
            vec![Float(B::max_pool1d(x[0].f(), n[0], n[1], n[2], n[3], p.flags[1]))]
        };
        max_pool1d_with_indices(|c| pool(c, 1, true, true, Within(-4.0, 4.0)), Scaled(8.0)) |p, x, B| {
            let n = &p.numbers;
            let pool = B::max_pool1d_with_indices(x[0].f(), n[0], n[1], n[2], n[3], p.flags[1], p.int);
            let grad = B::max_pool1d_with_indices_backward(
                x[0].f(), n[0], n[1], n[2], n[3], p.flags[1], x[1].f(), pool.indices.clone(),
            );
            vec![Float(pool.output), Int(pool.indices), Float(grad.x_grad)]
        };
        max_pool2d(|c| pool(c, 2, true, true, Domain::Sums), Ulps(0.0)) |p, x, B| {
            vec![Float(B::max_pool2d(x[0].f(), two(p, 0), two(p, 1), two(p, 2), two(p, 3), p.flags[1]))]
        };
        max_pool2d_with_indices(|c| pool(c, 2, true, true, Within(-4.0, 4.0)), Scaled(8.0)) |p, x, B| {
            let [size, stride, padding, dilation] = [0, 1, 2, 3].map(|list| two(p, list));
            let pool = B::max_pool2d_with_indices(x[0].f(), size, stride, padding, dilation, p.flags[1], p.int);
            let grad = B::max_pool2d_with_indices_backward(
                x[0].f(), size, stride, padding, dilation, p.flags[1], x[1].f(), pool.indices.clone(),
            );
            vec![Float(pool.output), Int(pool.indices), Float(grad.x_grad)]
        };
        avg_pool1d(|c| pool(c, 1, false, true, Domain::Sums), Sum(8.0)) |p, x, B| {
            let n = &p.numbers;
            vec![Float(B::avg_pool1d(x[0].f(), n[0], n[1], n[2], p.flags[0], p.flags[1]))]
        };
        avg_pool1d_backward(|c| pool(c, 1, false, false, Within(-4.0, 4.0)), Sum(16.0)) |p, x, B| {
            let n = &p.numbers;
            vec![Float(B::avg_pool1d_backward(x[0].f(), x[1].f(), n[0], n[1], n[2], p.flags[0], false))]
        };
        avg_pool2d(|c| pool(c, 2, false, true, Domain::Sums), Sum(8.0)) |p, x, B| {
            vec![Float(B::avg_pool2d(x[0].f(), two(p, 0), two(p, 1), two(p, 2), p.flags[0], p.flags[1]))]
        };
        // Rounded up, the reference's windows at the end differ: tests/gradients.rs has those.
        avg_pool2d_backward(|c| pool(c, 2, false, false, Within(-4.0, 4.0)), Sum(16.0)) |p, x, B| {
            vec![Float(B::avg_pool2d_backward(x[0].f(), x[1].f(), two(p, 0), two(p, 1), two(p, 2), p.flags[0], false))]
        };
        adaptive_avg_pool1d(|c| adaptive(c, 1), Sum(8.0)) |p, x, B| vec![Float(B::adaptive_avg_pool1d(x[0].f(), p.shape[0]))];
        adaptive_avg_pool1d_backward(|c| adaptive(c, 1), Sum(16.0)) |p, x, B| vec![Float(B::adaptive_avg_pool1d_backward(x[0].f(), x[1].f()))];
        adaptive_avg_pool2d(|c| adaptive(c, 2), Sum(8.0)) |p, x, B| vec![Float(B::adaptive_avg_pool2d(x[0].f(), [p.shape[0], p.shape[1]]))];
        adaptive_avg_pool2d_backward(|c| adaptive(c, 2), Sum(16.0)) |p, x, B| vec![Float(B::adaptive_avg_pool2d_backward(x[0].f(), x[1].f()))];
        adaptive_avg_pool3d(|c| adaptive(c, 3), Sum(8.0)) |p, x, B| vec![Float(B::adaptive_avg_pool3d(x[0].f(), [p.shape[0], p.shape[1], p.shape[2]]))];
        adaptive_avg_pool3d_backward(|c| adaptive(c, 3), Sum(16.0)) |p, x, B| vec![Float(B::adaptive_avg_pool3d_backward(x[0].f(), x[1].f()))];
    }
}

#[rustfmt::skip]
fn images() -> Vec<Operation> {
    operations! {
        interpolate(|c| resized(c, 4), Scaled(16.0)) |p, x, B| vec![Float(B::interpolate(x[0].f(), [p.shape[0], p.shape[1]], mode(p)))];
        // burn-flex has no gradient of lanczos; tests/gradients has.
        interpolate_backward(|c| resized(c, 3), Scaled(32.0)) |p, x, B| {
            vec![Float(B::interpolate_backward(x[0].f(), x[1].f(), [p.shape[0], p.shape[1]], mode(p)))]
        };
        unfold4d(columns, Ulps(0.0)) |p, x, B| vec![Float(B::unfold4d(x[0].f(), two(p, 0), unfold(p)))];
        fold4d(columns, Sum(8.0)) |p, x, B| vec![Float(B::fold4d(x[2].f(), [p.shape[0], p.shape[1]], two(p, 0), unfold(p)))];
        float_grid_sample_2d(sampled, Scaled(64.0)) |p, x, B| {
            let padding_mode = match p.numbers[0] {
                0 => GridSamplePaddingMode::Zeros,
                1 => GridSamplePaddingMode::Border,
                _ => GridSamplePaddingMode::Reflection,
            };
            let options = GridSampleOptions { mode: InterpolateMode::Bilinear, padding_mode, align_corners: p.flags[0] };
            vec![Float(B::float_grid_sample_2d(x[0].f(), x[1].f(), options))]
        };
    }
}

#[test]
fn pools_and_their_gradients() {
    family("pools", 60, &pools());
}

#[test]
fn images_resampled() {
    family("images", 40, &images());
}
