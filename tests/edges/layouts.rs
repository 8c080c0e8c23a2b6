//! Operands that are views: transposed, repeated, backwards, with gaps, in every family.

use crate::agreement::{F32, I32, Results, check, float, float_in, int_in};
use crate::support::devices::{Tested, each};
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions, PadMode};
use burn_backend::tensor::{FloatTensor, IndexingUpdateOp, IntTensor};
use burn_backend::{BoolDType, Shape, Slice};
use burn_flex::Flex;
use burn_mlir::Mlir;

/// A view of shape `[2, 3, 6, 8]`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum View {
    Transposed,
    Repeated,
    Backwards,
    Gaps,
    BackwardsWithGaps,
    Part,
}

const VIEWS: [View; 6] =
    [View::Transposed, View::Repeated, View::Backwards, View::Gaps, View::BackwardsWithGaps, View::Part];

fn stepped(step: isize) -> Vec<Slice> {
    vec![Slice::full(), Slice::full(), Slice::new(0, None, step), Slice::new(0, None, step)]
}

macro_rules! view {
    ($view:expr, $source:ident, $permute:ident, $expand:ident, $flip:ident, $slice:ident) => {
        match $view {
            View::Transposed => B::$permute($source::<B, 4>([8, 2, 6, 3], 1), &[1, 3, 2, 0]),
            View::Repeated => B::$expand($source::<B, 4>([2, 1, 6, 1], 2), Shape::new([2, 3, 6, 8])),
            View::Backwards => B::$flip($source::<B, 4>([2, 3, 6, 8], 3), &[0, 1, 2, 3]),
            View::Gaps => B::$slice($source::<B, 4>([2, 3, 12, 16], 4), &stepped(2)),
            View::BackwardsWithGaps => B::$slice($source::<B, 4>([2, 3, 12, 16], 5), &stepped(-2)),
            View::Part => {
                let part = [(1..3).into(), (0..3).into(), (2..8).into(), (1..9).into()];
                B::$slice($source::<B, 4>([4, 4, 9, 10], 6), &part)
            }
        }
    };
}

fn float_view<B: Tested>(view: View) -> FloatTensor<B> {
    view!(view, float, float_permute, float_expand, float_flip, float_slice)
}

fn small<B: Tested, const D: usize>(shape: [usize; D], salt: u64) -> IntTensor<B> {
    int_in::<B, D>(shape, salt, 0, 3)
}

fn int_view<B: Tested>(view: View) -> IntTensor<B> {
    view!(view, small, int_permute, int_expand, int_flip, int_slice)
}

fn elements<B: Tested>(view: View, results: &mut Results) {
    let (x, i) = (|| float_view::<B>(view), || int_view::<B>(view));
    let native = BoolDType::Native;
    let mask = || B::float_greater_elem(x(), 0.0.into(), native);
    results.float::<B>("exp", B::float_exp(x()));
    results.float::<B>("mul", B::float_mul(x(), float::<B, 4>([2, 3, 6, 8], 9)));
    results.float::<B>("own transpose", B::float_matmul(x(), B::float_transpose(x())));
    results.float::<B>("fill", B::float_mask_fill(x(), mask(), 0.5.into()));
    results.float::<B>("where", B::float_mask_where(x(), mask(), B::float_neg(x())));
    results.int::<B>("to int", B::float_into_int(x(), I32));
    results.float::<B>("to float", B::int_into_float(i(), F32));
    results.int::<B>("and", B::bitwise_and_scalar(i(), 1.into()));
    results.bool::<B>("not", B::bool_not(mask()));
    results.float::<B>("clamp", B::float_clamp(x(), (-0.5).into(), 0.5.into()));
}

fn reductions<B: Tested>(view: View, results: &mut Results) {
    let (x, i) = (|| float_view::<B>(view), || int_view::<B>(view));
    for dim in 0..4 {
        results.float::<B>(format!("sum {dim}"), B::float_sum_dim(x(), dim));
        results.float::<B>(format!("mean {dim}"), B::float_mean_dim(x(), dim));
        results.float::<B>(format!("max {dim}"), B::float_max_dim(x(), dim));
        results.int::<B>(format!("argmin {dim}"), B::float_argmin(x(), dim, I32));
        results.int::<B>(format!("int prod {dim}"), B::int_prod_dim(i(), dim));
        results.float::<B>(format!("cumsum {dim}"), B::float_cumsum(x(), dim));
        results.int::<B>(format!("cummax {dim}"), B::int_cummax(i(), dim));
        results.float::<B>(format!("sort {dim}"), B::float_sort(x(), dim, false));
        results.int::<B>(format!("argsort {dim}"), B::float_argsort(x(), dim, true, I32));
        results.float::<B>(format!("softmax {dim}"), B::softmax(x(), dim));
    }
    results.float::<B>("sum", B::float_sum(x()));
    results.float::<B>("min", B::float_min(x()));
    results.int::<B>("int sum", B::int_sum(i()));
}

fn parts<B: Tested>(view: View, results: &mut Results) {
    let (x, i) = (|| float_view::<B>(view), || int_view::<B>(view));
    let add = IndexingUpdateOp::Add;
    let target = || float::<B, 4>([2, 3, 6, 8], 7);
    results.float::<B>("reshape", B::float_reshape(x(), Shape::new([6, 48])));
    results.float::<B>("cat", B::float_cat(vec![x(), target(), x()], 2));
    results.float::<B>("repeat", B::float_repeat_dim(x(), 1, 2));
    results.float::<B>("again", B::float_slice(B::float_flip(x(), &[3]), &stepped(-3)));
    let box_ = [(0..1).into(), Slice::new(0, None, -1), Slice::new(1, None, 2), Slice::new(0, Some(6), -3)];
    let values = || B::float_slice(x(), &[(1..2).into(), (0..3).into(), (0..3).into(), (0..2).into()]);
    results.float::<B>("assigned to", B::float_slice_assign(x(), &box_, float::<B, 4>([1, 3, 3, 2], 8)));
    results.float::<B>("assigned", B::float_slice_assign(target(), &box_, values()));
    results
        .float::<B>("padded", B::float_pad(x(), &[(0, 0), (1, 0), (0, 2), (3, 1)], PadMode::Constant(2.0)));
    results.float::<B>("mirrored", B::float_pad(x(), &[(0, 0), (0, 0), (2, 1), (1, 3)], PadMode::Reflect));
    results.float::<B>("windows", B::float_unfold(x(), 3, 3, 2));
    results.float::<B>("gather", B::float_gather(1, x(), i()));
    results.float::<B>("scatter", B::float_scatter(1, target(), i(), x(), add));
    let list = || B::int_slice(int_in::<B, 1>([8], 3, 0, 3), &[Slice::new(0, None, -2)]);
    results.float::<B>("select", B::float_select(x(), 1, list()));
    let four = B::float_slice(x(), &[Slice::full(), Slice::full(), (0..4).into()]);
    results.float::<B>("select assign", B::float_select_assign(target(), 2, list(), four, add));
    results.float::<B>(
        "embedding",
        B::embedding(B::float_reshape(x(), Shape::new([36, 8])), small::<B, 2>([2, 5], 4)),
    );
}

fn modules<B: Tested>(view: View, results: &mut Results) {
    let x = || float_view::<B>(view);
    let weight = || B::float_flip(float::<B, 4>([4, 3, 3, 3], 2), &[0, 3]);
    let options = || ConvOptions::new([1, 2], [1, 1], [1, 1], 1);
    let y = B::conv2d(x(), weight(), None, options());
    results.float::<B>("conv", y.clone());
    results.float::<B>("conv input", B::conv2d_x_backward(x(), weight(), y.clone(), options()));
    results.float::<B>("conv weight", B::conv2d_weight_backward(x(), weight(), y, options()));
    let transposed = ConvTransposeOptions::new([2, 1], [1, 0], [0, 0], [1, 1], 1);
    let kernel = B::float_swap_dims(float::<B, 4>([3, 3, 2, 3], 3), 1, 3);
    results.float::<B>("transposed conv", B::conv_transpose2d(x(), kernel, None, transposed));
    results.float::<B>("max pool", B::max_pool2d(x(), [3, 2], [2, 2], [1, 1], [1, 1], false));
    results.float::<B>("average pool", B::avg_pool2d(x(), [2, 3], [1, 2], [0, 1], false, false));
    results.float::<B>("adaptive pool", B::adaptive_avg_pool2d(x(), [4, 3]));
    let mode = InterpolateMode::Bilinear;
    let options = InterpolateOptions { mode, align_corners: false, output_size: None, scale_factor: None };
    results.float::<B>("interpolate", B::interpolate(x(), [5, 11], options));
    let line = |salt| B::float_slice(float_in::<B, 1>([16], salt, 0.5, 2.0), &[Slice::new(0, None, -2)]);
    results.float::<B>("layer norm", B::layer_norm(x(), line(4), Some(line(5)), 0.1));
    results.float::<B>("linear", B::linear(x(), B::float_transpose(float::<B, 2>([5, 8], 6)), None));
    let causal = burn_backend::ops::AttentionModuleOptions { is_causal: true, ..Default::default() };
    results.float::<B>("attention", B::attention(x(), x(), B::float_neg(x()), None, None, causal));
}

fn agree_on(family: [fn(View, &mut Results); 2]) {
    for view in VIEWS {
        let mut theirs = Results::default();
        family[0](view, &mut theirs);
        each(|| {
            let mut ours = Results::default();
            family[1](view, &mut ours);
            check(&format!("{view:?}"), &ours, &theirs, 2e-5);
        });
    }
}

#[test]
fn elementwise_operations() {
    agree_on([elements::<Flex>, elements::<Mlir>]);
}

#[test]
fn reductions_and_sequences() {
    agree_on([reductions::<Flex>, reductions::<Mlir>]);
}

#[test]
fn assembly_and_indices() {
    agree_on([parts::<Flex>, parts::<Mlir>]);
}

#[test]
fn neural_networks() {
    agree_on([modules::<Flex>, modules::<Mlir>]);
}
