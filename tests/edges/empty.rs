//! Tensors without elements, in every family: sums of nothing are 0, products 1, means NaN, and an extreme of nothing
//! is an error.

use crate::support::devices::{current, each};
use crate::support::numbers::{Number, data, ints, read, read_numbers, upload};
use burn_backend::ops::{
    ActivationOps, BoolTensorOps, ConvOptions, ConvTransposeOptions, FloatTensorOps, IntTensorOps,
    InterpolateMode, InterpolateOptions, ModuleOps, PadMode, UnfoldOptions,
};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    BoolDType, BoolStore, DType, Distribution, FloatDType, IntDType, Shape, TensorMetadata, read_sync,
};
use burn_mlir::{Mlir, MlirTensor};

const TRUTH: DType = DType::Bool(BoolStore::Native);

/// Ones.
fn ones(dtype: DType, shape: &[usize]) -> MlirTensor {
    upload(data(dtype, shape, &vec![Number::Int(1); shape.iter().product()]))
}

fn float(shape: &[usize]) -> MlirTensor {
    ones(DType::F32, shape)
}

fn int(shape: &[usize]) -> MlirTensor {
    ones(DType::I32, shape)
}

/// The shape, and the value of every element.
#[track_caller]
fn expect(name: &str, result: MlirTensor, shape: &[usize], value: f64) {
    assert_eq!(&result.shape()[..], shape, "{name}");
    let back = read(result).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(&back.shape()[..], shape, "{name}");
    for element in crate::support::numbers::numbers(&back) {
        let element = element.float();
        assert!(
            element == value || element.is_nan() && value.is_nan(),
            "{name} is {element}, should be {value}"
        );
    }
}

/// Nothing in a shape.
#[track_caller]
fn nothing(name: &str, result: MlirTensor, shape: &[usize]) {
    assert_eq!(shape.iter().product::<usize>(), 0, "{name}");
    expect(name, result, shape, 0.0);
}

#[track_caller]
fn refused(name: &str, result: MlirTensor) {
    assert!(read(result).is_err(), "{name}");
}

#[test]
fn elementwise() {
    each(|| {
        for shape in [&[0][..], &[2, 0], &[0, 3], &[2, 0, 3]] {
            nothing("exp", Mlir::float_exp(float(shape)), shape);
            nothing("add", Mlir::float_add(float(shape), float(shape)), shape);
            nothing("scalar", Mlir::int_mul_scalar(int(shape), 3.into()), shape);
            nothing("cast", Mlir::float_into_int(float(shape), IntDType::I64), shape);
            let mask = Mlir::float_greater(float(shape), float(shape), BoolDType::Native);
            nothing("fill", Mlir::float_mask_fill(float(shape), mask, 1.0.into()), shape);
        }
        nothing("broadcast", Mlir::float_add(float(&[2, 0]), float(&[2, 1])), &[2, 0]);
        nothing("broadcast", Mlir::float_add(float(&[1, 3]), float(&[0, 3])), &[0, 3]);
        refused("shapes", Mlir::float_add(float(&[2, 0]), float(&[2, 3])));
    });
}

#[test]
fn reductions_of_nothing() {
    each(|| {
        let native = BoolDType::Native;
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let x = || ones(dtype, &[2, 0]);
            expect("sum", Mlir::float_sum(x()), &[1], 0.0);
            expect("prod", Mlir::float_prod(x()), &[1], 1.0);
            expect("mean", Mlir::float_mean(x()), &[1], f64::NAN);
            expect("sum dim", Mlir::float_sum_dim(x(), 1), &[2, 1], 0.0);
            expect("prod dim", Mlir::float_prod_dim(x(), 1), &[2, 1], 1.0);
            expect("mean dim", Mlir::float_mean_dim(x(), 1), &[2, 1], f64::NAN);
            expect("any", Mlir::float_any(x(), native), &[1], 0.0);
            expect("all", Mlir::float_all_dim(x(), 1, native), &[2, 1], 1.0);
            nothing("other sum", Mlir::float_sum_dim(x(), 0), &[1, 0]);
            nothing("other mean", Mlir::float_mean_dim(x(), 0), &[1, 0]);
            nothing("other max", Mlir::float_max_dim(x(), 0), &[1, 0]);
            nothing("other argmax", Mlir::float_argmax(x(), 0, IntDType::I32), &[1, 0]);
            refused("max", Mlir::float_max(x()));
            refused("min", Mlir::float_min_dim(x(), 1));
            refused("max abs", Mlir::float_max_abs(x()));
            refused("argmax", Mlir::float_argmax(x(), 1, IntDType::I32));
            refused("max with indices", Mlir::float_max_dim_with_indices(x(), 1, IntDType::I32).0);
            refused("its indices", Mlir::float_max_dim_with_indices(x(), 1, IntDType::I32).1);
            // That no row is left, either, changes nothing.
            refused("max of no rows", Mlir::float_max_dim(ones(dtype, &[0, 0]), 1));
            refused("argmin of no rows", Mlir::float_argmin(ones(dtype, &[0, 0]), 0, IntDType::I32));
        }
        for dtype in [DType::I64, DType::I8, DType::U32] {
            let x = || ones(dtype, &[0, 2]);
            expect("sum", Mlir::int_sum(x()), &[1], 0.0);
            expect("prod", Mlir::int_prod_dim(x(), 0), &[1, 2], 1.0);
            // A quotient by 0, which is 0.
            expect("mean", Mlir::int_mean_dim(x(), 0), &[1, 2], 0.0);
            expect("any", Mlir::int_any(x(), native), &[1], 0.0);
            nothing("other min", Mlir::int_min_dim(x(), 1), &[0, 1]);
            refused("min", Mlir::int_min(x()));
            refused("max", Mlir::int_max_dim(x(), 0));
            refused("argmin", Mlir::int_argmin(x(), 0));
        }
        expect("any", Mlir::bool_any(ones(TRUTH, &[0])), &[1], 0.0);
        expect("all", Mlir::bool_all_dim(ones(TRUTH, &[3, 0]), 1), &[3, 1], 1.0);
        nothing(
            "where",
            read_sync(async { Ok::<_, ()>(Mlir::bool_argwhere(ones(TRUTH, &[2, 0]), IntDType::I64).await) })
                .unwrap(),
            &[0, 2],
        );
    });
}

#[test]
fn sequences() {
    each(|| {
        for (shape, dim) in [(&[2, 0][..], 1), (&[0, 3], 1), (&[0], 0), (&[3, 0, 2], 2)] {
            nothing("cumsum", Mlir::float_cumsum(float(shape), dim), shape);
            nothing("cummax", Mlir::int_cummax(int(shape), dim), shape);
            nothing("sort", Mlir::float_sort(float(shape), dim, false), shape);
            nothing("argsort", Mlir::float_argsort(float(shape), dim, true, IntDType::I32), shape);
            nothing("softmax", Mlir::softmax(float(shape), dim), shape);
            nothing("log softmax", Mlir::log_softmax(float(shape), dim), shape);
        }
        nothing("topk", Mlir::float_topk(float(&[2, 3]), 1, 0), &[2, 0]);
        nothing("argtopk", Mlir::float_argtopk(float(&[2, 3]), 1, 0, IntDType::I64), &[2, 0]);
        refused("topk", Mlir::float_topk(float(&[2, 0]), 1, 1));
        nothing("range", Mlir::int_arange_step(3..3, 1, &current(), IntDType::I32), &[0]);
        let random =
            Mlir::float_random(Shape::new([0, 2]), Distribution::Default, &current(), FloatDType::F32);
        nothing("random", random, &[0, 2]);
    });
}

#[test]
fn products_of_matrices() {
    each(|| {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            let x = |shape: &[usize]| ones(dtype, shape);
            expect("nothing summed", Mlir::float_matmul(x(&[2, 0]), x(&[0, 3])), &[2, 3], 0.0);
            nothing("rows", Mlir::float_matmul(x(&[0, 2]), x(&[2, 3])), &[0, 3]);
            nothing("columns", Mlir::float_matmul(x(&[3, 2]), x(&[2, 0])), &[3, 0]);
            nothing("batch", Mlir::float_matmul(x(&[0, 3, 2]), x(&[0, 2, 4])), &[0, 3, 4]);
            nothing("broadcast batch", Mlir::float_matmul(x(&[0, 3, 2]), x(&[1, 2, 4])), &[0, 3, 4]);
            expect("batch of nothing", Mlir::float_matmul(x(&[2, 3, 0]), x(&[2, 0, 4])), &[2, 3, 4], 0.0);
        }
        expect("integers", Mlir::int_matmul(int(&[2, 0]), int(&[0, 3])), &[2, 3], 0.0);
        nothing("linear", Mlir::linear(float(&[0, 4]), float(&[4, 3]), Some(float(&[3]))), &[0, 3]);
        expect("bias", Mlir::linear(float(&[2, 0]), float(&[0, 3]), Some(float(&[3]))), &[2, 3], 1.0);
        let weight = Mlir::linear_weight_backward(float(&[0, 4]), float(&[0, 3]));
        expect("linear weight", weight, &[4, 3], 0.0);
        expect("linear bias", Mlir::linear_bias_backward(float(&[0, 3])), &[3], 0.0);
    });
}

#[test]
fn indices() {
    each(|| {
        let add = IndexingUpdateOp::Add;
        nothing("gather", Mlir::float_gather(1, float(&[2, 3]), int(&[2, 0])), &[2, 0]);
        nothing("gather of nothing", Mlir::float_gather(1, float(&[2, 0]), int(&[2, 0])), &[2, 0]);
        nothing("rows", Mlir::float_gather(1, float(&[0, 3]), int(&[0, 2])), &[0, 2]);
        nothing("select", Mlir::float_select(float(&[2, 3]), 0, int(&[0])), &[0, 3]);
        nothing("select of nothing", Mlir::float_select(float(&[2, 0]), 0, int(&[1])), &[1, 0]);
        let scattered = Mlir::float_scatter(1, float(&[2, 3]), int(&[2, 0]), float(&[2, 0]), add);
        expect("scatter", scattered, &[2, 3], 1.0);
        let assigned = Mlir::int_select_assign(int(&[2, 3]), 0, int(&[0]), int(&[0, 3]), add);
        expect("select assign", assigned, &[2, 3], 1.0);
        let flags = Mlir::bool_scatter_or(0, ones(TRUTH, &[2]), int(&[0]), ones(TRUTH, &[0]));
        expect("scatter or", flags, &[2], 1.0);
        nothing("gather nd", Mlir::float_gather_nd(float(&[2, 3]), int(&[0, 2])), &[0]);
        expect("whole", Mlir::float_gather_nd(float(&[2, 3]), int(&[4, 0])), &[4, 2, 3], 1.0);
        let scattered = Mlir::float_scatter_nd(float(&[2, 3]), int(&[0, 1]), float(&[0, 3]), add);
        expect("scatter nd", scattered, &[2, 3], 1.0);
        nothing("embedding", Mlir::embedding(float(&[5, 3]), int(&[0, 2])), &[0, 2, 3]);
        let grad = Mlir::embedding_backward(float(&[5, 3]), float(&[0, 2, 3]), int(&[0, 2]));
        expect("embedding gradient", grad, &[5, 3], 0.0);
        // There is nothing that an index could name.
        refused("nothing to gather from", Mlir::float_gather(1, float(&[2, 0]), int(&[2, 1])));
    });
}

#[test]
fn parts() {
    each(|| {
        expect("cat", Mlir::float_cat(vec![float(&[0, 3]), float(&[2, 3]), float(&[0, 3])], 0), &[2, 3], 1.0);
        nothing("cat of nothing", Mlir::float_cat(vec![float(&[2, 0]), float(&[2, 0])], 1), &[2, 0]);
        nothing("cat beside", Mlir::float_cat(vec![float(&[2, 0]), float(&[3, 0])], 0), &[5, 0]);
        nothing("repeat", Mlir::float_repeat_dim(float(&[2, 3]), 0, 0), &[0, 3]);
        nothing("flip", Mlir::float_flip(float(&[2, 0]), &[0, 1]), &[2, 0]);
        nothing("reshape", Mlir::float_reshape(float(&[0, 4]), Shape::new([2, 0, 7])), &[2, 0, 7]);
        nothing("permute", Mlir::float_permute(float(&[2, 0, 3]), &[2, 1, 0]), &[3, 0, 2]);
        nothing("expand", Mlir::float_expand(float(&[1, 3]), Shape::new([0, 3])), &[0, 3]);
        nothing("slice", Mlir::float_slice(float(&[2, 3]), &[(1..1).into()]), &[0, 3]);
        nothing("of nothing", Mlir::float_slice(float(&[0, 3]), &[(0..0).into(), (1..2).into()]), &[0, 1]);
        let assigned = Mlir::float_slice_assign(float(&[2, 3]), &[(1..1).into()], float(&[0, 3]));
        expect("slice assign", assigned, &[2, 3], 1.0);
        nothing("windows", Mlir::float_unfold(float(&[2, 3]), 1, 4, 1), &[2, 0, 4]);
        nothing("windows of nothing", Mlir::float_unfold(float(&[0, 3]), 1, 2, 1), &[0, 2, 2]);
        let padded = Mlir::float_pad(float(&[0]), &[(1, 2)], PadMode::Constant(7.0));
        expect("pad", padded, &[3], 7.0);
        refused("mirrored", Mlir::float_pad(float(&[0]), &[(1, 0)], PadMode::Reflect));
        refused("edge", Mlir::float_pad(float(&[0]), &[(1, 0)], PadMode::Edge));
        nothing("cross", Mlir::float_cross(float(&[0, 3]), float(&[0, 3]), 1), &[0, 3]);
    });
}

#[test]
fn convolutions() {
    each(|| {
        let plain = || ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        let (none, w, bias) = (|| float(&[0, 3, 8, 8]), || float(&[4, 3, 3, 3]), || float(&[4]));
        nothing("forward", Mlir::conv2d(none(), w(), Some(bias()), plain()), &[0, 4, 8, 8]);
        nothing("input", Mlir::conv2d_x_backward(none(), w(), float(&[0, 4, 8, 8]), plain()), &[0, 3, 8, 8]);
        let weight = Mlir::conv2d_weight_backward(none(), w(), float(&[0, 4, 8, 8]), plain());
        expect("weight", weight, &[4, 3, 3, 3], 0.0);
        expect("bias", Mlir::conv2d_bias_backward(none(), bias(), float(&[0, 4, 8, 8])), &[4], 0.0);
        let one = ConvOptions::new([1], [0], [1], 1);
        nothing("1d", Mlir::conv1d(float(&[0, 3, 8]), float(&[4, 3, 3]), None, one), &[0, 4, 6]);
        let three = ConvOptions::new([1, 1, 1], [0, 0, 0], [1, 1, 1], 1);
        nothing(
            "3d",
            Mlir::conv3d(float(&[0, 2, 4, 4, 4]), float(&[1, 2, 2, 2, 2]), None, three),
            &[0, 1, 3, 3, 3],
        );
        let transposed = ConvTransposeOptions::new([2, 2], [0, 0], [0, 0], [1, 1], 1);
        let result = Mlir::conv_transpose2d(float(&[0, 3, 4, 4]), float(&[3, 2, 2, 2]), None, transposed);
        nothing("transposed", result, &[0, 2, 8, 8]);
        // No channels, no sum: the bias is left.
        let result = Mlir::conv2d(float(&[1, 0, 4, 4]), float(&[2, 0, 3, 3]), Some(float(&[2])), plain());
        expect("no channels", result, &[1, 2, 4, 4], 1.0);
        let columns =
            Mlir::unfold4d(float(&[0, 2, 4, 4]), [2, 2], UnfoldOptions::new([1, 1], [0, 0], [1, 1]));
        nothing("columns", columns, &[0, 8, 9]);
    });
}

#[test]
fn pools_and_norms() {
    each(|| {
        let x = || float(&[0, 3, 8, 8]);
        let (size, stride, none, unit) = ([2, 2], [2, 2], [0, 0], [1, 1]);
        nothing("max", Mlir::max_pool2d(x(), size, stride, none, unit, false), &[0, 3, 4, 4]);
        let both = Mlir::max_pool2d_with_indices(x(), size, stride, none, unit, false, IntDType::I32);
        nothing("values", both.output, &[0, 3, 4, 4]);
        nothing("indices", both.indices.clone(), &[0, 3, 4, 4]);
        let grad = float(&[0, 3, 4, 4]);
        let back =
            Mlir::max_pool2d_with_indices_backward(x(), size, stride, none, unit, false, grad, both.indices);
        nothing("gradient", back.x_grad, &[0, 3, 8, 8]);
        nothing("average", Mlir::avg_pool2d(x(), size, stride, none, true, false), &[0, 3, 4, 4]);
        nothing("adaptive", Mlir::adaptive_avg_pool2d(x(), [3, 3]), &[0, 3, 3, 3]);
        for mode in [InterpolateMode::Nearest, InterpolateMode::Bilinear, InterpolateMode::Bicubic] {
            let options =
                InterpolateOptions { mode, align_corners: true, output_size: None, scale_factor: None };
            nothing("interpolate", Mlir::interpolate(x(), [5, 5], options), &[0, 3, 5, 5]);
        }
        nothing("layer norm", Mlir::layer_norm(float(&[0, 4]), float(&[4]), None, 1e-5), &[0, 4]);
        nothing(
            "of nothing",
            Mlir::layer_norm(float(&[4, 0]), float(&[0]), Some(float(&[0])), 1e-5),
            &[4, 0],
        );
        let norm = Mlir::batch_norm(x(), float(&[3]), float(&[3]), float(&[3]), float(&[3]), 1e-5);
        nothing("batch norm", norm, &[0, 3, 8, 8]);
    });
}

/// What follows an empty tensor is computed as ever.
#[test]
fn work_goes_on_after_nothing() {
    each(|| {
        let nothing = Mlir::float_slice(float(&[4, 3]), &[(2..2).into()]);
        let sum = Mlir::float_sum_dim(nothing, 0);
        let all = Mlir::float_add(float(&[4, 3]), sum);
        assert_eq!(read_numbers(Mlir::float_into_int(all, IntDType::I32)), ints([1; 12]));
    });
}
