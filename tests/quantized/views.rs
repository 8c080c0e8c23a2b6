//! Views and choices of quantised values against the same of the dequantised values by `burn-flex`.

use super::{load, numbers, quantized, same, values};
use crate::support::devices::{current, each};
use burn_backend::ops::{FloatTensorOps, IntTensorOps, QTensorOps};
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn_backend::{DType, Shape, Slice, TensorData, TensorMetadata, read_sync};
use burn_flex::{Flex, FlexTensor};
use burn_mlir::{Mlir, MlirTensor, QuantizedTensor};

/// Schemes with every width of codes and every kind of scales.
fn schemes() -> Vec<QuantScheme> {
    let of = |value| QuantScheme::default().with_value(value);
    vec![
        of(QuantValue::Q2F).with_store(QuantStore::Native),
        of(QuantValue::Q8S).per_block([4], ScaleDtype::F32),
        of(QuantValue::Q4F).per_block([2, 4], ScaleDtype::F16),
        of(QuantValue::E2M1).per_block([4], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32),
    ]
}

/// Whether a result has the values themselves or has been quantised again.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kept {
    Exactly,
    Again,
}

use Kept::{Again, Exactly};

fn flex(values: &[f32], shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values.to_vec(), Shape::from(shape)))
}

fn indices(values: &[i32], shape: &[usize]) -> (MlirTensor, FlexTensor) {
    let data = TensorData::new(values.to_vec(), Shape::from(shape));
    (Mlir::int_from_data(data.clone(), &current()), FlexTensor::from_data(data))
}

/// The largest error of quantising `values` once more: half a step of any block's scale, or a power of two above.
fn error(scheme: &QuantScheme, values: &[f32]) -> f32 {
    let peak = values.iter().fold(0f32, |peak, x| peak.max(x.abs()));
    let (low, high) = scheme.value.range();
    let steps = match scheme.value {
        QuantValue::E4M3 => 16.0,
        QuantValue::E5M2 => 8.0,
        QuantValue::E2M1 => 6.0,
        _ => high - low,
    };
    let coarser = if scheme.scale_dtype() == ScaleDtype::UE8M0 { 2.0 } else { 1.13 };
    peak * coarser / steps * 1.001
}

/// Compares a quantised result with the same operation on floats.
fn check(q: QuantizedTensor, expected: FlexTensor, kept: Kept, what: &str) {
    let DType::QFloat(scheme) = q.dtype() else { panic!("{what}: {:?}", q.dtype()) };
    assert_eq!(q.shape(), expected.shape(), "{what}");
    let expected: Vec<f32> = read_sync(Flex::float_into_data(expected)).unwrap().iter::<f32>().collect();
    let actual = values(q);
    match kept {
        Exactly => same(&actual, &expected, what),
        Again => {
            let bound = error(&scheme, &expected);
            for (at, (a, b)) in actual.iter().zip(&expected).enumerate() {
                assert!((a - b).abs() <= bound, "{what}: {a} instead of {b} at {at}, more than {bound} off");
            }
        }
    }
}

/// As [`check`], and by way of data.
fn check_data(q: QuantizedTensor, expected: FlexTensor, kept: Kept, what: &str) {
    let actual = values(q.clone());
    check(q.clone(), expected, kept, what);
    same(&values(load(super::data(q))), &actual, &format!("{what}, by way of data"));
}

fn slice(start: isize, end: isize, step: isize) -> Slice {
    Slice::new(start, Some(end), step)
}

#[test]
fn shapes() {
    each(|| {
        for scheme in schemes() {
            let (x, block) = (numbers(8 * 16, 30), scheme.block_size());
            let q = quantized(&x, &[8, 16], &scheme);
            let f = flex(&values(q.clone()), &[8, 16]);
            let rectangle = block.is_some_and(|size| size.as_slice().len() == 2);
            let cut = if block.is_some() { Again } else { Exactly };
            for (shape, kept) in [
                (vec![2, 4, 16], Exactly),
                (vec![16, 8], if rectangle { Again } else { Exactly }),
                (vec![128], if rectangle { Again } else { Exactly }),
                (vec![2, 2, 2, 2, 2, 2, 2], cut),
            ] {
                let what = format!("{shape:?} from [8, 16] by {scheme:?}");
                let to = Shape::from(shape);
                let expected = Flex::float_reshape(f.clone(), to.clone());
                check(Mlir::q_reshape(q.clone(), to), expected, kept, &what);
            }
        }
    });
}

/// As the issue that other backends have with it: two blocks become rows.
#[test]
fn blocks_become_rows() {
    each(|| {
        let scheme = QuantScheme::default().with_value(QuantValue::Q8S).per_block([16], ScaleDtype::F32);
        let x: Vec<f32> = (0..32).map(|at| if at < 16 { at as f32 } else { at as f32 / 1000.0 }).collect();
        let q = quantized(&x, &[32], &scheme);
        let f = flex(&values(q.clone()), &[32]);
        let to = Shape::from([2, 16]);
        let rows = Mlir::q_reshape(q, to.clone());
        assert_eq!(rows.dtype(), DType::QFloat(scheme));
        check_data(rows, Flex::float_reshape(f, to), Exactly, "[2, 16] from [32]");
    });
}

#[test]
fn orders_of_axes() {
    each(|| {
        for scheme in schemes() {
            let x = numbers(3 * 8 * 4, 31);
            let q = quantized(&x, &[3, 8, 4], &scheme);
            let f = flex(&values(q.clone()), &[3, 8, 4]);
            for axes in [[0, 2, 1], [2, 0, 1], [1, 2, 0]] {
                let what = format!("axes {axes:?} by {scheme:?}");
                let permuted = Mlir::q_permute(q.clone(), &axes);
                let expected = Flex::float_permute(f.clone(), &axes);
                check_data(permuted.clone(), expected, Exactly, &what);
                let back = [0, 1, 2].map(|axis| axes.iter().position(|&a| a == axis).unwrap());
                let back = Mlir::q_permute(permuted, &back);
                assert_eq!(back.dtype(), q.dtype(), "{what} and back");
                check(back, f.clone(), Exactly, &format!("{what} and back"));
            }
            let swapped = Mlir::q_swap_dims(q.clone(), 0, 1);
            check(swapped, Flex::float_swap_dims(f.clone(), 0, 1), Exactly, "swapped");
            // A view of a view.
            let what = format!("a slice of what was transposed by {scheme:?}");
            let slices = [slice(0, 4, 1), slice(0, 8, 1), slice(1, 3, 1)];
            let part = Mlir::q_slice(Mlir::q_swap_dims(q.clone(), 0, 2), &slices);
            let expected = Flex::float_slice(Flex::float_swap_dims(f.clone(), 0, 2), &slices);
            let kept = if scheme.block_size().is_none_or(|size| size.as_slice().len() < 3) {
                Exactly
            } else {
                Again
            };
            check_data(part, expected, kept, &what);
        }
    });
}

#[test]
fn parts() {
    each(|| {
        for scheme in schemes() {
            let x = numbers(8 * 16, 32);
            let q = quantized(&x, &[8, 16], &scheme);
            let f = flex(&values(q.clone()), &[8, 16]);
            let block = scheme.block_size().map_or([1, 1], |size| size.as_dim::<2>());
            let through = |axis: usize| if block[axis] > 1 { Again } else { Exactly };
            let all = slice(0, 16, 1);
            for (slices, kept) in [
                (vec![slice(0, 8, 1), slice(4, 12, 1)], Exactly),
                (vec![slice(0, 8, 1), slice(3, 9, 1)], through(1)),
                (vec![slice(0, 8, 1), slice(1, 16, 2)], through(1)),
                (vec![slice(1, 8, 3), all], through(0)),
                (vec![slice(0, 8, 1), slice(0, 12, -1)], Exactly),
                (vec![slice(0, 8, 1), slice(5, 6, 1)], Exactly),
                (vec![slice(0, 8, 1), slice(3, 3, 1)], Exactly),
            ] {
                let what = format!("{slices:?} by {scheme:?}");
                let expected = Flex::float_slice(f.clone(), &slices);
                check(Mlir::q_slice(q.clone(), &slices), expected, kept, &what);
            }
            let flipped = Mlir::q_flip(q.clone(), &[0, 1]);
            check(flipped, Flex::float_flip(f.clone(), &[0, 1]), Exactly, &format!("flipped by {scheme:?}"));
            let odd = quantized(&x[..35], &[5, 7], &scheme);
            let of_odd = flex(&values(odd.clone()), &[5, 7]);
            let kept = if scheme.block_size().is_some() { Again } else { Exactly };
            let flipped = Mlir::q_flip(odd, &[0, 1]);
            check(flipped, Flex::float_flip(of_odd, &[0, 1]), kept, &format!("odd, flipped by {scheme:?}"));
        }
    });
}

#[test]
fn choices() {
    each(|| {
        for scheme in schemes() {
            let x = numbers(8 * 16, 33);
            let q = quantized(&x, &[8, 16], &scheme);
            let f = flex(&values(q.clone()), &[8, 16]);
            let block = scheme.block_size().map_or([1, 1], |size| size.as_dim::<2>());
            for axis in [0, 1] {
                let what = format!("along {axis} by {scheme:?}");
                let kept = if block[axis] > 1 { Again } else { Exactly };
                let (ours, theirs) = indices(&[3, 3, 0, 7, 5], &[5]);
                let expected = Flex::float_select(f.clone(), axis, theirs);
                check(Mlir::q_select(q.clone(), axis, ours), expected, kept, &format!("selected {what}"));
                let shape = [[6, 16], [8, 6]][axis];
                let chosen: Vec<i32> = (0..(shape[0] * shape[1]) as i32).map(|at| at * 5 % 8).collect();
                let (ours, theirs) = indices(&chosen, &shape);
                let kept = if scheme.block_size().is_some() { Again } else { Exactly };
                let expected = Flex::float_gather(axis, f.clone(), theirs);
                check(Mlir::q_gather(axis, q.clone(), ours), expected, kept, &format!("gathered {what}"));
                let repeated = Mlir::q_repeat_dim(q.clone(), axis, 3);
                let expected = Flex::float_repeat_dim(f.clone(), axis, 3);
                check(repeated, expected, Exactly, &format!("repeated {what}"));
            }
            let row = Mlir::q_slice(q.clone(), &[slice(2, 3, 1)]);
            let of_row = Flex::float_slice(f.clone(), &[slice(2, 3, 1)]);
            let to = Shape::from([2, 6, 16]);
            let expected = Flex::float_expand(of_row, to.clone());
            check(Mlir::q_expand(row, to), expected, Exactly, &format!("expanded by {scheme:?}"));
        }
    });
}

#[test]
fn one_after_the_other() {
    each(|| {
        for scheme in schemes() {
            let x = numbers(8 * 16, 34);
            let parts = [&x[..64], &x[64..96], &x[96..]].map(|x| quantized(x, &[x.len() / 16, 16], &scheme));
            let floats = parts.iter().map(|q| flex(&values(q.clone()), &q.shape())).collect();
            let expected = Flex::float_cat(floats, 0);
            let one_level = scheme.block_size().is_some() && scheme.num_levels() == 1;
            let kept = if one_level { Exactly } else { Again };
            let what = format!("rows by {scheme:?}");
            check(Mlir::q_cat(parts.to_vec(), 0), expected, kept, &what);
            let columns = [&x[..64], &x[64..]].map(|x| quantized(x, &[8, 8], &scheme));
            let floats = columns.iter().map(|q| flex(&values(q.clone()), &[8, 8])).collect();
            let expected = Flex::float_cat(floats, 1);
            check(Mlir::q_cat(columns.to_vec(), 1), expected, kept, &format!("columns by {scheme:?}"));
        }
    });
}

#[test]
fn views_of_what_does_not_fit_are_errors() {
    each(|| {
        let q = quantized(&numbers(32, 35), &[2, 16], &QuantScheme::default().with_value(QuantValue::Q4S));
        let reason = |q: QuantizedTensor| read_sync(Mlir::q_into_data(q)).unwrap_err().to_string();
        let reshaped = Mlir::q_reshape(q.clone(), Shape::from([3, 5]));
        assert!(reason(reshaped).contains("another number of elements"));
        assert!(reason(Mlir::q_swap_dims(q.clone(), 0, 2)).contains("no axes"));
        assert!(reason(Mlir::q_flip(q.clone(), &[2])).contains("no axis"));
        let (outside, _) = indices(&[16], &[1]);
        assert!(read_sync(Mlir::q_into_data(Mlir::q_select(q, 1, outside))).is_err());
        assert_eq!(values(quantized(&[1.0], &[1], &QuantScheme::default())).len(), 1);
    });
}
