//! Every family of operations in every type, on numbers so small that all of them are exact: the results are those of
//! burn-flex in 32 bits.

use crate::agreement::{F32, I32, Results, float_in, int_in};
use crate::support::devices::{Tested, each};
use crate::support::numbers::{INTS, numbers};
use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions, PadMode,
};
use burn_backend::tensor::{FloatTensor, IndexingUpdateOp, IntTensor};
use burn_backend::{BoolDType, DType, FloatDType, IntDType, Shape, Slice};
use burn_flex::Flex;
use burn_mlir::Mlir;

const FLOATS: [FloatDType; 5] =
    [FloatDType::F64, FloatDType::F32, FloatDType::Flex32, FloatDType::F16, FloatDType::BF16];
const UPDATES: [IndexingUpdateOp; 5] = [
    IndexingUpdateOp::Assign,
    IndexingUpdateOp::Add,
    IndexingUpdateOp::Mul,
    IndexingUpdateOp::Min,
    IndexingUpdateOp::Max,
];

/// Integers from -2 to 2 in a float type. There is no -0, which is less than 0 to burn-flex's sorts.
fn float<B: Tested, const D: usize>(dtype: FloatDType, shape: [usize; D], salt: u64) -> FloatTensor<B> {
    let rounded = B::float_round(float_in::<B, D>(shape, salt, -2.4, 2.4));
    B::float_cast(B::float_add_scalar(rounded, 0.0.into()), dtype)
}

/// Integers from 0 to 3.
fn int<B: Tested, const D: usize>(dtype: IntDType, shape: [usize; D], salt: u64) -> IntTensor<B> {
    B::int_cast(int_in::<B, D>(shape, salt, 0, 4), dtype)
}

fn floats<B: Tested>(dtype: FloatDType, results: &mut Results) {
    let x = || float::<B, 4>(dtype, [2, 3, 4, 8], 1);
    let native = BoolDType::Native;
    for dim in [1, 3] {
        results.float::<B>("sum", B::float_sum_dim(x(), dim));
        results.float::<B>("prod", B::float_prod_dim(x(), dim));
        results.float::<B>("max", B::float_max_dim(x(), dim));
        results.int::<B>("argmin", B::float_argmin(x(), dim, I32));
        results.float::<B>("cumsum", B::float_cumsum(x(), dim));
        results.float::<B>("cummin", B::float_cummin(x(), dim));
        results.float::<B>("sort", B::float_sort(x(), dim, true));
        results.int::<B>("argsort", B::float_argsort(x(), dim, false, I32));
    }
    results.float::<B>("mean", B::float_mean_dim(x(), 2));
    results.float::<B>("topk", B::float_topk(x(), 3, 3));
    results.bool::<B>("equal", B::float_equal(x(), B::float_abs(x()), native));
    results.bool::<B>("any", B::float_any_dim(x(), 3, native));
    results.float::<B>("clamp", B::float_clamp(x(), (-1.0).into(), 1.0.into()));
    let mask = B::float_greater_elem(x(), 0.0.into(), native);
    results.float::<B>("fill", B::float_mask_fill(x(), mask, 0.5.into()));
    results.float::<B>("remainder", B::float_remainder_scalar(x(), 2.0.into()));
    let index = || int::<B, 4>(I32, [2, 3, 4, 8], 2);
    results.float::<B>("gather", B::float_gather(2, x(), index()));
    // Which of several values is assigned is anybody's choice.
    for update in &UPDATES[1..] {
        let scattered = B::float_scatter(2, x(), index(), float::<B, 4>(dtype, [2, 3, 4, 8], 3), *update);
        results.float::<B>("scatter", scattered);
    }
    let list = || B::int_cast(B::int_arange_step(0..4, 2, &B::current(), IntDType::I64), I32);
    for update in UPDATES {
        let two = float::<B, 4>(dtype, [2, 3, 2, 8], 4);
        results.float::<B>("select assign", B::float_select_assign(x(), 2, list(), two, update));
    }
    results.float::<B>("select", B::float_select(x(), 2, list()));
    results.float::<B>("cat", B::float_cat(vec![x(), x()], 1));
    results.float::<B>("repeat", B::float_repeat_dim(x(), 2, 3));
    results.float::<B>("pad", B::float_pad(x(), &[(0, 0), (0, 0), (1, 2), (2, 0)], PadMode::Constant(0.5)));
    results.float::<B>("reflect", B::float_pad(x(), &[(0, 0), (0, 0), (1, 2), (2, 0)], PadMode::Reflect));
    let slices = [Slice::full(), Slice::full(), Slice::new(0, None, -1), Slice::new(1, None, 3)];
    results.float::<B>("slice", B::float_slice(x(), &slices));
    let three = float::<B, 4>(dtype, [2, 3, 4, 3], 5);
    results.float::<B>("slice assign", B::float_slice_assign(x(), &slices, three));
    results.float::<B>("windows", B::float_unfold(x(), 3, 3, 2));
}

fn modules<B: Tested>(dtype: FloatDType, results: &mut Results) {
    let x = || float::<B, 4>(dtype, [2, 2, 4, 8], 1);
    let y = B::float_transpose(x());
    results.float::<B>("matmul", B::float_matmul(x(), y));
    let weight = || float::<B, 4>(dtype, [4, 2, 3, 3], 2);
    let options = || ConvOptions::new([1, 2], [1, 1], [1, 1], 1);
    let bias = float::<B, 1>(dtype, [4], 3);
    results.float::<B>("conv", B::conv2d(x(), weight(), Some(bias), options()));
    let grad = || float::<B, 4>(dtype, [2, 4, 4, 4], 4);
    results.float::<B>("conv input", B::conv2d_x_backward(x(), weight(), grad(), options()));
    results.float::<B>("conv weight", B::conv2d_weight_backward(x(), weight(), grad(), options()));
    let transposed = ConvTransposeOptions::new([2, 1], [1, 0], [1, 0], [1, 1], 1);
    results.float::<B>("transposed", B::conv_transpose2d(grad(), weight(), None, transposed));
    let (size, stride, none, unit) = ([2, 2], [2, 2], [0, 0], [1, 1]);
    results.float::<B>("max pool", B::max_pool2d(x(), size, stride, [1, 1], unit, false));
    let both = B::max_pool2d_with_indices(x(), size, stride, none, unit, false, I32);
    results.int::<B>("pool indices", both.indices);
    results.float::<B>("average pool", B::avg_pool2d(x(), size, stride, none, true, false));
    results.float::<B>("adaptive pool", B::adaptive_avg_pool2d(x(), [2, 4]));
    let options = InterpolateOptions {
        mode: InterpolateMode::Bilinear,
        align_corners: false,
        output_size: None,
        scale_factor: None,
    };
    results.float::<B>("interpolate", B::interpolate(x(), [8, 16], options));
    let table = float::<B, 2>(dtype, [4, 8], 5);
    let words = || int::<B, 2>(I32, [2, 5], 6);
    results.float::<B>("embedding", B::embedding(table.clone(), words()));
    let grad = float::<B, 3>(dtype, [2, 5, 8], 7);
    results.float::<B>("embedding gradient", B::embedding_backward(table.clone(), grad, words()));
    results.float::<B>("linear", B::linear(x(), B::float_transpose(table), None));
    results.float::<B>("relu", B::relu(x()));
    // All keys count alike: means of 4 values.
    let none = || B::float_mul_scalar(x(), 0.0.into());
    let even = B::attention(none(), none(), x(), None, None, AttentionModuleOptions::default());
    results.float::<B>("attention", even);
    let flat = B::float_slice(none(), &[Slice::full(), Slice::full(), Slice::full(), (0..4).into()]);
    results.float::<B>("softmax", B::softmax(flat, 3));
}

fn ints<B: Tested>(dtype: IntDType, results: &mut Results) {
    let x = || int::<B, 3>(dtype, [2, 4, 9], 1);
    let native = BoolDType::Native;
    results.int::<B>("sum", B::int_sum_dim(x(), 2));
    results.int::<B>("mean", B::int_mean_dim(x(), 1));
    results.int::<B>("max", B::int_max_dim(x(), 0));
    results.int::<B>("argmax", B::int_argmax(x(), 2));
    results.int::<B>("cumsum", B::int_cumsum(x(), 1));
    results.int::<B>("cummax", B::int_cummax(x(), 2));
    results.int::<B>("sort", B::int_sort(x(), 1, true));
    results.int::<B>("argsort", B::int_argsort(x(), 2, false));
    results.int::<B>("topk", B::int_topk(x(), 2, 4));
    results.int::<B>("matmul", B::int_matmul(x(), B::int_transpose(x())));
    results.int::<B>("clamp", B::int_clamp(x(), 1.into(), 2.into()));
    results.bool::<B>("equal", B::int_equal_elem(x(), 2.into(), native));
    results.bool::<B>("all", B::int_all_dim(x(), 2, native));
    let mask = B::int_greater_elem(x(), 1.into(), native);
    results.int::<B>("fill", B::int_mask_fill(x(), mask.clone(), 7.into()));
    results.int::<B>("where", B::int_mask_where(x(), mask, B::int_add(x(), x())));
    let index = || int::<B, 3>(I32, [2, 4, 9], 2);
    results.int::<B>("gather", B::int_gather(1, x(), index()));
    for update in &UPDATES[1..] {
        results
            .int::<B>("scatter", B::int_scatter(1, x(), index(), int::<B, 3>(dtype, [2, 4, 9], 3), *update));
    }
    results.int::<B>("cat", B::int_cat(vec![x(), x()], 0));
    results.int::<B>("pad", B::int_pad(x(), &[(0, 0), (1, 0), (0, 2)], PadMode::Constant(5.0)));
    let slices = [Slice::full(), Slice::new(0, None, -2), Slice::new(1, None, 4)];
    results.int::<B>("slice", B::int_slice(x(), &slices));
    results.int::<B>("slice assign", B::int_slice_assign(x(), &slices, int::<B, 3>(dtype, [2, 2, 2], 4)));
    results.int::<B>("windows", B::int_unfold(x(), 2, 4, 3));
    results.int::<B>("repeat", B::int_repeat_dim(x(), 1, 2));
}

/// Truth values, and indices of a type.
fn indices<B: Tested>(dtype: IntDType, results: &mut Results) {
    let native = BoolDType::Native;
    let x = || B::int_greater_elem(int::<B, 3>(I32, [2, 4, 9], 1), 1.into(), native);
    let index = || int::<B, 3>(dtype, [2, 4, 9], 2);
    let list = || B::int_cast(B::int_arange_step(0..4, 2, &B::current(), IntDType::I64), dtype);
    let add = IndexingUpdateOp::Add;
    results.bool::<B>("gather", B::bool_gather(1, x(), index()));
    results.bool::<B>("scatter", B::bool_scatter_or(1, x(), index(), x()));
    results.bool::<B>("select", B::bool_select(x(), 1, list()));
    let values = || B::bool_slice(x(), &[Slice::full(), (1..3).into()]);
    results.bool::<B>("select or", B::bool_select_or(x(), 1, list(), values()));
    let slices = [Slice::full(), Slice::new(0, None, -2), Slice::full()];
    results.bool::<B>("slice assign", B::bool_slice_assign(x(), &slices, values()));
    results.bool::<B>("windows", B::bool_unfold(x(), 2, 4, 3));
    results.bool::<B>("any", B::bool_any_dim(x(), 2));
    results.bool::<B>("all", B::bool_all(x()));
    let y = || float::<B, 3>(F32, [2, 4, 9], 3);
    results.float::<B>("float gather", B::float_gather(1, y(), index()));
    results.float::<B>("float scatter", B::float_scatter(1, y(), index(), y(), add));
    let pairs =
        || B::int_slice(B::int_clamp_max(index(), 1.into()), &[(0..1).into(), Slice::full(), (0..2).into()]);
    results.float::<B>("gather nd", B::float_gather_nd(y(), B::int_reshape(pairs(), Shape::new([4, 2]))));
    results.float::<B>(
        "embedding",
        B::embedding(float::<B, 2>(F32, [4, 5], 4), B::int_reshape(index(), Shape::new([8, 9]))),
    );
}

/// Ours in a type as numbers of 32 bits would be in it.
fn agree(dtype: DType, theirs: &Results, ours: &Results) {
    for ((name, theirs), (_, ours)) in theirs.0.iter().zip(&ours.0) {
        assert_eq!(ours.shape(), theirs.shape(), "{name} of {dtype:?}");
        // Positions and truth values have types of their own.
        let to = if theirs.dtype().is_float() { dtype } else { DType::I64 };
        let values = |data| numbers(data).iter().map(|v| v.to(to).float()).collect::<Vec<_>>();
        let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
        let (expected, actual) = (values(theirs), values(ours));
        assert!(
            expected.iter().zip(&actual).all(same),
            "{name} of {dtype:?}: {actual:?}, should be {expected:?}"
        );
    }
}

/// Runs a family in burn-flex's 32 bits and in ours of every type.
fn compare<T: Copy + Into<DType>>(
    theirs: fn(T, &mut Results),
    ours: fn(T, &mut Results),
    in_32_bits: T,
    types: &[T],
) {
    let mut expected = Results::default();
    theirs(in_32_bits, &mut expected);
    each(|| {
        for &dtype in types {
            let mut actual = Results::default();
            ours(dtype, &mut actual);
            agree(dtype.into(), &expected, &actual);
        }
    });
}

#[test]
fn floats_of_every_type() {
    compare(floats::<Flex>, floats::<Mlir>, F32, &FLOATS);
}

#[test]
fn modules_of_every_type() {
    compare(modules::<Flex>, modules::<Mlir>, F32, &FLOATS);
}

#[test]
fn integers_of_every_type() {
    compare(ints::<Flex>, ints::<Mlir>, I32, &INTS);
}

#[test]
fn indices_of_every_type() {
    compare(indices::<Flex>, indices::<Mlir>, I32, &INTS);
}
