//! Rounding errors of long sums: whatever the layout, no chain of additions is longer than 32.

use crate::support::devices::{current, each};
use burn_backend::ops::{FloatTensorOps, IntTensorOps, ModuleOps};
use burn_backend::{DType, FloatDType, IntDType, Shape, Slice, TensorData, TensorMetadata, read_sync};
use burn_mlir::{Mlir, MlirTensor};
use half::{bf16, f16};

const COUNT: usize = 1 << 20;

/// What a cascade of `count` equal addends may lose, relative to the sum: each level has chains of at most 32, each
/// of whose additions may round to the same side by half a unit in the last place of what is there so far.
fn bound(count: usize) -> f64 {
    let (mut levels, mut reach) = (0, 1);
    while reach < count {
        (levels, reach) = (levels + 1, reach * 32);
    }
    (levels * 32 / 4) as f64 * f64::from(f32::EPSILON)
}

/// 0.1 as a type has it.
fn value(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => bf16::from_f32(0.1).to_f64(),
        DType::F16 => f16::from_f32(0.1).to_f64(),
        _ => f64::from(0.1f32),
    }
}

/// That many times, in memory, not a constant.
fn equal(shape: &[usize], dtype: DType) -> MlirTensor {
    let count = shape.iter().product();
    let data = match dtype {
        DType::BF16 => TensorData::new(vec![bf16::from_f32(0.1); count], shape.to_vec()),
        DType::F16 => TensorData::new(vec![f16::from_f32(0.1); count], shape.to_vec()),
        _ => TensorData::new(vec![0.1f32; count], shape.to_vec()),
    };
    Mlir::float_from_data(data, &current())
}

fn expand(x: MlirTensor, shape: &[usize]) -> MlirTensor {
    Mlir::float_expand(x, Shape::from(shape.to_vec()))
}

/// A layout of equal numbers with the axes to sum over.
type Layout = (&'static str, fn(DType) -> MlirTensor, &'static [usize]);

#[rustfmt::skip]
const LAYOUTS: &[Layout] = &[
    ("a row", |t| equal(&[COUNT], t), &[0]),
    ("a constant", |t| Mlir::float_full(Shape::new([COUNT]), value(t).into(), &current(), FloatDType::from(t)), &[0]),
    ("expanded", |t| expand(equal(&[1], t), &[COUNT]), &[0]),
    ("expanded rows", |t| expand(equal(&[5, 1], t), &[5, COUNT]), &[1]),
    ("expanded columns", |t| expand(equal(&[1, 5], t), &[COUNT, 5]), &[0]),
    // So many that threads of a large GPU have chains, too.
    ("expanded far", |t| expand(equal(&[1], t), &[1 << 28]), &[0]),
    ("expanded far beside each other", |t| expand(equal(&[1, 40_000], t), &[1 << 13, 40_000]), &[0]),
    ("flipped", |t| Mlir::float_flip(equal(&[COUNT], t), &[0]), &[0]),
    ("flipped columns", |t| Mlir::float_flip(equal(&[COUNT, 3], t), &[0, 1]), &[0]),
    ("every third", |t| Mlir::float_slice(equal(&[3 * COUNT], t), &[Slice::new(1, None, 3)]), &[0]),
    ("every fifth backwards", |t| Mlir::float_slice(equal(&[5 * COUNT], t), &[Slice::new(0, None, -5)]), &[0]),
    ("a column", |t| Mlir::float_slice(equal(&[COUNT, 3], t), &[Slice::full(), Slice::new(1, Some(2), 1)]), &[0]),
    ("the middle axis", |t| equal(&[3, COUNT, 2], t), &[1]),
    ("around a short axis", |t| equal(&[COUNT / 512, 3, 512], t), &[0, 2]),
    ("around a long axis", |t| equal(&[4, 300, COUNT / 4], t), &[0, 2]),
    ("short rows", |t| Mlir::float_permute(equal(&[3, COUNT / 4, 4], t), &[1, 0, 2]), &[0, 2]),
    ("chosen", |t| {
        let places = Mlir::int_full(Shape::new([COUNT]), 3.into(), &current(), IntDType::I32);
        Mlir::float_select(equal(&[7], t), 0, places)
    }, &[0]),
];

#[test]
fn of_equal_numbers() {
    each(|| {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            for (name, layout, axes) in LAYOUTS {
                // Rounded to f32 whatever the addends are.
                let x = Mlir::float_cast(layout(dtype), FloatDType::F32);
                let count = axes.iter().map(|&axis| x.shape()[axis]).product();
                let sums = read_sync(Mlir::float_into_data(Mlir::float_sum_dims(x, axes))).unwrap();
                let exact = count as f64 * value(dtype);
                for sum in sums.iter::<f64>() {
                    let (error, most) = ((sum - exact).abs() / exact, bound(count));
                    assert!(error <= most, "{name} of {dtype:?}: {sum} instead of {exact}: {error} > {most}");
                }
            }
        }
    });
}

/// Sums of two passes, which are not split among workers.
#[test]
fn of_channels() {
    let (channels, exact) = (3, value(DType::F32));
    each(|| {
        for shape in [[2, channels, 512, 1024], [512, channels, 64, 32]] {
            let line = |value: f32| {
                Mlir::float_full(Shape::new([channels]), value.into(), &current(), FloatDType::F32)
            };
            let x = equal(&shape, DType::F32);
            let norm = Mlir::batch_norm_train(x, line(1.0), line(0.0), 0.1);
            assert_eq!(norm.mean.shape().num_elements(), channels);
            for mean in read_sync(Mlir::float_into_data(norm.mean)).unwrap().iter::<f64>() {
                let (error, most) = ((mean - exact).abs() / exact, bound(COUNT));
                assert!(error <= most, "{shape:?}: {mean} instead of {exact}: {error} > {most}");
            }
        }
    });
}
