//! Zeros, infinities, no elements, rank 0, schemes that cannot be; gradients beside quantised tensors.

use super::{data, load, model, quantized, same, tensor, values};
use crate::support::devices::{device, each};
use burn::prelude::Tensor;
use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{
    QuantMode, QuantScheme, QuantStore, QuantValue, QuantizationParametersPrimitive, ScaleDtype,
};
use burn_backend::{Backend, DType, FloatDType, Shape, TensorData, TensorMetadata, read_sync};
use burn_mlir::{Mlir, QuantizedTensor};

fn scheme(value: QuantValue) -> QuantScheme {
    QuantScheme::default().with_value(value)
}

#[test]
fn zeros() {
    each(|| {
        for value in super::VALUES {
            for dtype in [ScaleDtype::F32, ScaleDtype::F16, ScaleDtype::UE4M3, ScaleDtype::UE8M0] {
                let q = quantized(&[0.0; 8], &[2, 4], &scheme(value).per_block([4], dtype));
                same(&values(q), &[0.0; 8], &format!("{value:?} {dtype:?}"));
            }
        }
        let two = scheme(QuantValue::Q8S).per_block([4], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32);
        same(&values(quantized(&[0.0; 8], &[2, 4], &two)), &[0.0; 8], "two levels");
    });
}

/// NaN counts for no scale and becomes 0 where there is no NaN. An infinity makes the scale of its block the least
/// there is, or the largest of a narrow type, and itself the largest code: nothing becomes NaN.
#[test]
fn what_is_no_number() {
    each(|| {
        let x = [1.0, f32::NAN, -3.0, 0.5, f32::INFINITY, 1.0, f32::NEG_INFINITY, 0.0];
        for value in super::VALUES {
            for dtype in [ScaleDtype::F32, ScaleDtype::BF16, ScaleDtype::UE4M3] {
                let scheme = scheme(value).per_block([4], dtype);
                let model = model::quantized(&x, &[8], &scheme);
                let q = quantized(&x, &[8], &scheme);
                same(&values(q), &model.values, &format!("{scheme:?}"));
                let numbers = model.values.iter().enumerate().all(|(at, v)| at == 1 || !v.is_nan());
                assert!(numbers, "{scheme:?}: {:?}", model.values);
            }
        }
    });
}

#[test]
fn no_elements_and_no_axes() {
    each(|| {
        for value in [QuantValue::Q8S, QuantValue::Q4F, QuantValue::E2M1] {
            for scheme in [scheme(value), scheme(value).per_block([8], ScaleDtype::F32)] {
                for shape in [vec![0], vec![3, 0], vec![0, 16]] {
                    let q = quantized(&[], &shape, &scheme);
                    assert_eq!(values(load(data(q.clone()))), [0f32; 0], "{shape:?} {scheme:?}");
                    let flat = Mlir::q_reshape(q, Shape::from([0, 5]));
                    assert_eq!(flat.shape(), Shape::from([0, 5]));
                    assert_eq!(values(flat), [0f32; 0]);
                }
                let store = scheme.with_store(QuantStore::Native);
                let q = quantized(&[-2.5], &[], &store);
                let expected = model::quantized(&[-2.5], &[], &store).values;
                same(&values(load(data(q.clone()))), &expected, &format!("rank 0 by {store:?}"));
                let row = Mlir::q_reshape(q, Shape::from([1]));
                same(&values(row), &expected, &format!("from rank 0 by {store:?}"));
            }
        }
    });
}

fn reason(q: QuantizedTensor) -> String {
    read_sync(Mlir::q_into_data(q)).unwrap_err().to_string()
}

#[test]
fn schemes_that_cannot_be() {
    each(|| {
        let device = crate::support::devices::current();
        let plain = scheme(QuantValue::Q8S);
        for refused in [
            plain.with_mode(QuantMode::Lookup),
            plain.per_block([4], ScaleDtype::F32).per_tensor(ScaleDtype::F32),
            plain.per_block([4], ScaleDtype::UE4M3).per_tensor(ScaleDtype::BF16),
            plain.per_block([0], ScaleDtype::F32),
        ] {
            assert!(!Mlir::supports_dtype(&device, DType::QFloat(refused)), "{refused:?}");
            assert!(reason(quantized(&[1.0; 4], &[4], &refused)).contains("cannot be stored"));
        }
        for value in super::VALUES {
            assert!(Mlir::supports_dtype(&device, DType::QFloat(scheme(value))));
        }
        let packed = plain.with_store(QuantStore::PackedU32(1));
        assert!(reason(quantized(&[1.0; 4], &[4], &packed)).contains("packed along"));
        let short = TensorData::from_bytes_vec(vec![0; 5], [4], DType::QFloat(plain));
        assert!(reason(load(short)).contains("5 bytes"));
        assert!(reason(load(TensorData::from([1.0f32]))).contains("no quantised type"));
        let scales = tensor(&[1.0, 2.0], &[2]);
        let qparams = QuantizationParametersPrimitive { scales, global: None };
        let q = Mlir::quantize(tensor(&[1.0; 4], &[4]), &plain, qparams);
        assert!(reason(q).contains("2] scales for [1] blocks"));
    });
}

/// The base is frozen, and what is computed with it has gradients.
#[test]
fn gradients_beside_a_quantised_weight() {
    each(|| {
        let device = device().autodiff();
        let scheme = scheme(QuantValue::Q4S).per_block([4], ScaleDtype::F32);
        let w = Tensor::<2>::from_data([[0.5, -1.0, 0.25, 2.0], [1.5, 0.0, -0.75, 1.0]], &device);
        let w = w.quantize_dynamic(&scheme);
        let known: Vec<f32> = w.clone().dequantize().into_data().iter::<f32>().collect();
        let x = Tensor::<2>::from_data([[1.0, -2.0], [0.5, 3.0], [0.0, 1.0]], &device).require_grad();
        let grads = x.clone().matmul(w).sum().backward();
        let gradient: Vec<f32> = x.grad(&grads).unwrap().into_data().iter::<f32>().collect();
        let sums: Vec<f32> = known.chunks(4).map(|row| row.iter().sum()).collect();
        for (at, g) in gradient.iter().enumerate() {
            assert!((g - sums[at % 2]).abs() < 1e-5, "{gradient:?} {sums:?}");
        }
        let q = x.transpose().slice([0..2, 0..2]).quantize_dynamic(&scheme.per_block([2], ScaleDtype::F32));
        assert!(!q.is_require_grad());
        assert_eq!(q.dequantize().into_data().shape()[..], [2, 2]);
    });
}

/// Given scales are rounded up to their type, so that data holds what was divided by.
#[test]
fn given_scales() {
    each(|| {
        let scheme = scheme(QuantValue::Q8S).per_block([2], ScaleDtype::UE4M3);
        let qparams = QuantizationParametersPrimitive { scales: tensor(&[0.3, 0.0], &[2]), global: None };
        let q = Mlir::quantize(tensor(&[1.0, -0.5, 0.0, 0.002], &[4]), &scheme, qparams);
        // 0.3 is between 0.28125 and 0.3125; no scale is less than 2^-9.
        let expected = [0.9375, -0.625, 0.0, 0.001953125];
        same(&super::read(Mlir::dequantize(q, FloatDType::F32)), &expected, "rounded up");
    });
}
