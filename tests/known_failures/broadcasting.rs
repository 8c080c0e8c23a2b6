//! Operands of unequal shapes, and of none.

use super::{counting, list};
use crate::support::devices::{device, each};
use burn::prelude::*;
use burn::tensor::{FloatDType, TensorData};

#[test]
fn one_tensor_broadcast_against_itself() {
    each(|| {
        let x = Tensor::<1, Int>::arange(0..4, &device()).float();
        let product = x.clone().reshape([2, 2, 1]) * x.reshape([1, 2, 2]);
        assert_eq!(list(product.sum_dim(1)), [2.0, 3.0, 6.0, 11.0]);
        for [a, b, c] in [[2, 2, 2], [3, 4, 5], [7, 1, 3], [5, 33, 2]] {
            // The same numbers as [a, b, 1] and, in the same order, as [1, b, c]: both of length a·b·c.
            let x = counting([a * b * c]);
            let left = x.clone().narrow(0, 0, a * b).reshape([a, b, 1]);
            let right = x.narrow(0, 0, b * c).reshape([1, b, c]);
            let value = |i: usize, j: usize, k: usize| ((i * b + j) * (j * c + k)) as f64;
            for axis in 0..3 {
                let extents = [a, b, c];
                let mut expected = vec![0.0; a * b * c / extents[axis]];
                let others: Vec<usize> = (0..3).filter(|&d| d != axis).collect();
                for i in 0..a {
                    for j in 0..b {
                        for k in 0..c {
                            let at = [i, j, k];
                            expected[at[others[0]] * extents[others[1]] + at[others[1]]] += value(i, j, k);
                        }
                    }
                }
                let sum = (left.clone() * right.clone()).sum_dim(axis);
                assert_eq!(list(sum), expected, "{extents:?} along {axis}");
            }
        }
    });
}

#[test]
fn masks_and_values_broadcast() {
    use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
    use burn_backend::{Shape, TensorMetadata, read_sync};
    use burn_mlir::Mlir;
    let shapes: [&[usize]; 5] = [&[1], &[2], &[3, 1], &[1, 2], &[3, 2]];
    each(|| {
        let device = crate::support::devices::current();
        for of in shapes {
            for masked in shapes {
                for value in shapes {
                    let rank = [of, masked, value].iter().map(|s| s.len()).max().unwrap();
                    let extent = |shape: &[usize], axis: usize| {
                        (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at])
                    };
                    let all: Vec<usize> = (0..rank)
                        .map(|axis| [of, masked, value].map(|s| extent(s, axis)).into_iter().max().unwrap())
                        .collect();
                    let at = |shape: &[usize], index: usize| {
                        let mut rest = index;
                        let mut coordinates = vec![0; rank];
                        for axis in (0..rank).rev() {
                            coordinates[axis] = rest % all[axis];
                            rest /= all[axis];
                        }
                        (0..rank).fold(0, |sum, axis| {
                            let e = extent(shape, axis);
                            sum * e + if e == 1 { 0 } else { coordinates[axis] }
                        })
                    };
                    let count = |shape: &[usize]| shape.iter().product::<usize>();
                    let data = |shape: &[usize], from: i64| -> Vec<i64> {
                        (0..count(shape) as i64).map(|i| from + i).collect()
                    };
                    let (x, y) = (data(of, 0), data(value, 100));
                    let m: Vec<bool> = (0..count(masked)).map(|i| i % 2 == 0).collect();
                    let expected: Vec<i64> = (0..count(&all))
                        .map(|i| if m[at(masked, i)] { y[at(value, i)] } else { x[at(of, i)] })
                        .collect();
                    let shape = |shape: &[usize]| Shape::from(shape.to_vec());
                    let mask = Mlir::bool_from_data(TensorData::new(m, shape(masked)), &device);
                    let tensor = |values: &[i64], of: &[usize]| {
                        Mlir::int_from_data(TensorData::new(values.to_vec(), shape(of)), &device)
                    };
                    let result = Mlir::int_mask_where(tensor(&x, of), mask.clone(), tensor(&y, value));
                    assert_eq!(result.shape(), shape(&all));
                    let read = read_sync(Mlir::int_into_data(result)).unwrap();
                    assert_eq!(
                        read.iter::<i64>().collect::<Vec<_>>(),
                        expected,
                        "{of:?} {masked:?} {value:?}"
                    );
                    let wide = |values: &[i64], of: &[usize]| {
                        Mlir::int_into_float(tensor(values, of), FloatDType::F32)
                    };
                    let result = Mlir::float_mask_where(wide(&x, of), mask, wide(&y, value));
                    let read = read_sync(Mlir::float_into_data(result)).unwrap();
                    assert_eq!(read.iter::<i64>().collect::<Vec<_>>(), expected);
                }
            }
        }
    });
}

#[test]
fn nothing_broadcasts() {
    each(|| {
        let (none, one) = (Tensor::<2>::zeros([2, 0], &device()), Tensor::<2>::ones([2, 1], &device()));
        assert_eq!((none.clone() + one.clone()).dims(), [2, 0]);
        assert!(list(none.clone() + one.clone()).is_empty());
        assert_eq!((one.clone() * none.clone()).dims(), [2, 0]);
        assert_eq!(none.clone().lower(one.clone()).into_data().shape()[..], [2, 0]);
        let (flat, row) = (Tensor::<2>::zeros([0, 3], &device()), Tensor::<2>::ones([1, 3], &device()));
        assert!(list(flat.clone() - row.clone()).is_empty());
        assert_eq!((flat.clone() - row).dims(), [0, 3]);
        // Sums of nothing along what there is nothing of.
        assert_eq!(list(none.clone().sum_dim(1)), [0.0, 0.0]);
        assert_eq!(list(none.clone().prod_dim(1)), [1.0, 1.0]);
        assert_eq!(none.sum_dim(0).dims(), [1, 0]);
        assert_eq!(list(flat.clone().sum()), [0.0]);
        assert_eq!(list(Tensor::<2>::ones([4, 0], &device()).matmul(flat)), [0.0; 12]);
    });
}
