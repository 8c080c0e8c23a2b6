//! Tensors of no axes, and of many.

use crate::support::devices::each;
use crate::support::numbers::{Number, data, ints, read_numbers, upload};
use burn_backend::ops::{ActivationOps, BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{BoolDType, DType, FloatDType, IntDType, Shape, Slice, TensorMetadata};
use burn_mlir::{Mlir, MlirTensor};

fn scalar(dtype: DType, value: i128) -> MlirTensor {
    upload(data(dtype, &[], &ints([value])))
}

fn value(tensor: MlirTensor) -> f64 {
    read_numbers(tensor)[0].float()
}

/// Burn's tensors have an axis, but data and the tensors of other frontends need not.
#[test]
fn no_axes() {
    each(|| {
        let x = || scalar(DType::F32, 3);
        for (result, expected) in [
            (Mlir::float_mul(x(), x()), 9.0),
            (Mlir::float_add_scalar(x(), 1.5.into()), 4.5),
            (Mlir::float_exp(Mlir::float_sub(x(), x())), 1.0),
            (Mlir::float_cast(x(), FloatDType::F16), 3.0),
            (Mlir::float_into_int(x(), IntDType::I64), 3.0),
            (Mlir::float_transpose(x()), 3.0),
            (Mlir::float_flip(x(), &[]), 3.0),
            (Mlir::float_permute(x(), &[]), 3.0),
            (Mlir::float_slice(x(), &[]), 3.0),
            (Mlir::int_abs(scalar(DType::I64, -4)), 4.0),
            (Mlir::float_greater_elem(x(), 2.0.into(), BoolDType::Native), 1.0),
        ] {
            assert_eq!(result.rank(), 0);
            assert_eq!(value(result), expected);
        }
        for (result, expected) in [
            (Mlir::float_sum(x()), 3.0),
            (Mlir::float_mean(x()), 3.0),
            (Mlir::float_prod(x()), 3.0),
            (Mlir::float_max(x()), 3.0),
            (Mlir::int_min(scalar(DType::I8, -4)), -4.0),
            (Mlir::float_reshape(x(), Shape::new([1])), 3.0),
        ] {
            assert_eq!(&result.shape()[..], [1]);
            assert_eq!(value(result), expected);
        }
        let wide = Mlir::float_expand(x(), Shape::new([2, 3]));
        assert_eq!(read_numbers(wide), [Number::Float(3.0); 6]);
        let sum = Mlir::float_add(x(), upload(data(DType::F32, &[2], &ints([1, 2]))));
        assert_eq!(read_numbers(sum), [4.0, 5.0].map(Number::Float));
    });
}

/// The extents of a tensor of a rank: some 1, some 2, one 3.
fn extents(rank: usize) -> Vec<usize> {
    (0..rank).map(|axis| if axis == rank / 2 { 3 } else { 1 + axis % 2 }).collect()
}

/// Row-major coordinates of each element.
fn coordinates(shape: &[usize]) -> Vec<Vec<usize>> {
    let unravel = |mut at: usize| {
        let mut coordinate = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            (coordinate[axis], at) = (at % shape[axis], at / shape[axis]);
        }
        coordinate
    };
    (0..shape.iter().product()).map(unravel).collect()
}

/// Burn sets no limit; these go beyond what other backends take.
#[test]
fn many_axes() {
    each(|| {
        for rank in [6, 9, 12, 16] {
            let shape = extents(rank);
            let count = shape.iter().product::<usize>() as i128;
            let x = || upload(data(DType::F32, &shape, &ints(0..count)));
            let at = coordinates(&shape);
            let middle = rank / 2;
            let position =
                |coordinate: &[usize]| coordinate.iter().zip(&shape).fold(0, |p, (c, n)| p * n + c);
            let expect = |name: &str, result: MlirTensor, expected: Vec<usize>| {
                let result: Vec<_> = read_numbers(result).iter().map(|v| v.int() as usize).collect();
                assert_eq!(result, expected, "{name} of rank {rank}");
            };
            expect("double", Mlir::float_add(x(), x()), (0..at.len()).map(|i| 2 * i).collect());
            let axes: Vec<_> = (0..rank).rev().collect();
            let turned: Vec<_> = axes.iter().map(|&axis| shape[axis]).collect();
            let back = |c: &Vec<usize>| position(&c.iter().rev().copied().collect::<Vec<_>>());
            expect(
                "permute",
                Mlir::float_permute(x(), &axes),
                coordinates(&turned).iter().map(back).collect(),
            );
            let flipped =
                |c: &Vec<usize>| position(&c.iter().zip(&shape).map(|(c, n)| n - 1 - c).collect::<Vec<_>>());
            let all: Vec<_> = (0..rank).collect();
            expect("flip", Mlir::float_flip(x(), &all), at.iter().map(flipped).collect());
            let mut slices = vec![Slice::full(); rank];
            slices[middle] = Slice::new(0, None, -2);
            let kept = coordinates(
                &shape.iter().enumerate().map(|(i, &n)| if i == middle { 2 } else { n }).collect::<Vec<_>>(),
            );
            let stepped = kept.iter().map(|c| {
                let mut c = c.clone();
                c[middle] = 2 - 2 * c[middle];
                position(&c)
            });
            expect("slice", Mlir::float_slice(x(), &slices), stepped.collect());
            let summed = coordinates(
                &shape.iter().enumerate().map(|(i, &n)| if i == middle { 1 } else { n }).collect::<Vec<_>>(),
            );
            let over_middle = |c: &Vec<usize>| {
                let mut c = c.clone();
                (0..3)
                    .map(|i| {
                        c[middle] = i;
                        position(&c)
                    })
                    .sum()
            };
            expect("sum", Mlir::float_sum_dim(x(), middle), summed.iter().map(over_middle).collect());
            let first = |c: &Vec<usize>| {
                (0..=c[middle])
                    .map(|i| {
                        let mut c = c.clone();
                        c[middle] = i;
                        position(&c)
                    })
                    .sum()
            };
            expect("prefixes", Mlir::float_cumsum(x(), middle), at.iter().map(first).collect());
            let mirrored = |c: &Vec<usize>| {
                let mut c = c.clone();
                c[middle] = 2 - c[middle];
                position(&c)
            };
            expect("sort", Mlir::float_sort(x(), middle, true), at.iter().map(mirrored).collect());
            let last = upload(data(DType::I32, &[3], &ints([2, 1, 0])));
            expect(
                "select",
                Mlir::float_select(x(), middle, last.clone()),
                at.iter().map(mirrored).collect(),
            );
            let zero = Mlir::float_sub(x(), x());
            let assigned = Mlir::float_select_assign(zero, middle, last, x(), IndexingUpdateOp::Add);
            expect("select assign", assigned, at.iter().map(mirrored).collect());
            let ones: Vec<_> = vec![1; at.len()];
            let shares = Mlir::float_sum(Mlir::softmax(x(), middle));
            expect("softmax", Mlir::float_round(shares), vec![at.len() / 3]);
            expect("argmax", Mlir::float_argmax(x(), middle, IntDType::I32), vec![2; at.len() / 3]);
            let mask = Mlir::float_equal(x(), x(), BoolDType::Native);
            expect("truth", Mlir::bool_into_int(mask, IntDType::I32), ones);
            let halves = Mlir::float_cat(vec![x(), x()], 0);
            expect(
                "cat",
                Mlir::float_slice(halves, &[Slice::new(shape[0] as isize, None, 1)]),
                (0..at.len()).collect(),
            );
            let doubled =
                |c: &Vec<usize>| position(&c.iter().zip(&shape).map(|(c, n)| c % n).collect::<Vec<_>>());
            let long: Vec<_> =
                shape.iter().enumerate().map(|(i, &n)| if i == middle { 6 } else { n }).collect();
            expect(
                "repeat",
                Mlir::float_repeat_dim(x(), middle, 2),
                coordinates(&long).iter().map(doubled).collect(),
            );
            // Each matrix times the matrix of ones.
            let square: Vec<_> = shape.iter().take(rank - 2).copied().chain([shape[rank - 1], 1]).collect();
            let ones = upload(data(DType::F32, &square, &vec![Number::Int(1); square.iter().product()]));
            let row = shape[rank - 1];
            let sums = (0..at.len() / row).map(|r| (0..row).map(|c| r * row + c).sum());
            expect("matmul", Mlir::float_matmul(x(), ones), sums.collect());
        }
    });
}
