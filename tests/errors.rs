//! Operands that do not fit are an error on reading, and harm nothing else.

use crate::agreement::{float, ints};
use crate::support::devices::each;
use burn_backend::ops::{FloatTensorOps, GridSampleOptions, InterpolateMode, PadMode};
use burn_backend::{ExecutionError, TensorData, read_sync};
use burn_mlir::{Mlir, MlirTensor};

fn read(tensor: MlirTensor) -> Result<TensorData, ExecutionError> {
    read_sync(Mlir::float_into_data(tensor))
}

fn message(tensor: MlirTensor) -> String {
    format!("{:?}", read(tensor).expect_err("does not fit"))
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    each(|| {
        let (a, b) = (float::<Mlir, 2>([2, 3], 1), float::<Mlir, 2>([4, 5], 2));
        let text = message(Mlir::float_add(a.clone(), b.clone()));
        assert!(text.contains("add") && text.contains("f32[2, 3], f32[4, 5]"), "{text}");
        let text = message(Mlir::float_matmul(a.clone(), b));
        assert!(text.contains("matmul") && text.contains("f32[2, 3]"), "{text}");
        // An operation on a failed tensor fails with the first error; others work.
        let failed = Mlir::float_add(a.clone(), float::<Mlir, 1>([7], 3));
        let text = message(Mlir::float_exp(failed));
        assert!(text.contains("add"), "{text}");
        assert!(read(Mlir::float_exp(a)).is_ok());
    });
}

/// What Burn's own check of paddings says, as a message of the tensor.
#[test]
fn paddings_that_do_not_fit_are_named() {
    each(|| {
        let row = || float::<Mlir, 2>([1, 3], 1);
        let text = message(Mlir::float_pad(row(), &[(0, 0), (3, 0)], PadMode::Reflect));
        assert!(
            text.contains("Reflect padding must be less than dimension size: 3 and 0 at axis 1"),
            "{text}"
        );
        let nothing = || float::<Mlir, 2>([0, 3], 1);
        let text = message(Mlir::float_pad(nothing(), &[(1, 1), (0, 0)], PadMode::Reflect));
        assert!(text.contains("Reflect padding"), "{text}");
        let text = message(Mlir::float_pad(nothing(), &[(1, 1), (0, 0)], PadMode::Edge));
        assert!(text.contains("cannot apply edge padding to an empty dimension"), "{text}");
        assert!(read(Mlir::float_pad(nothing(), &[(0, 0), (1, 1)], PadMode::Edge)).is_ok());
        assert!(read(Mlir::float_pad(row(), &[(0, 0), (2, 2)], PadMode::Reflect)).is_ok());
    });
}

#[test]
fn types_that_differ_are_named() {
    each(|| {
        let (a, b) = (float::<Mlir, 1>([2], 1), ints::<Mlir, 1>([2], &[1, 2]));
        let text = message(Mlir::float_mul(a, b));
        assert!(text.contains("mul") && text.contains("f32[2], i32[2]"), "{text}");
    });
}

#[test]
fn operations_that_do_not_exist_are_named() {
    each(|| {
        let (x, grid) = (float::<Mlir, 4>([1, 1, 4, 4], 1), float::<Mlir, 4>([1, 2, 2, 2], 2));
        let options = GridSampleOptions::new(InterpolateMode::Lanczos3);
        let text = message(Mlir::float_grid_sample_2d(x, grid, options));
        assert!(text.contains("grid_sample_2d by Lanczos3"), "{text}");
    });
}
