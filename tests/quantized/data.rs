//! Burn's data, to and from `burn-flex` and Burn's own helpers.

use super::{data, load, model, numbers, quantized, same, tensor, values};
use crate::support::devices::each;
use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, QuantizedBytes, ScaleDtype};
use burn_backend::{DType, FloatDType, Shape, TensorData, read_sync};
use burn_flex::Flex;

const INTEGERS: [QuantValue; 6] =
    [QuantValue::Q8F, QuantValue::Q8S, QuantValue::Q4F, QuantValue::Q4S, QuantValue::Q2F, QuantValue::Q2S];

/// Levels of scales.
fn levels(scheme: QuantScheme) -> [QuantScheme; 4] {
    [
        scheme,
        scheme.per_tensor(ScaleDtype::UE8M0),
        scheme.per_block([2, 8], ScaleDtype::BF16),
        scheme.per_block([8], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32),
    ]
}

fn flex_values(data: TensorData) -> Vec<f32> {
    let q = Flex::q_from_data(data, &Default::default());
    let float = Flex::dequantize(q, FloatDType::F32);
    read_sync(<Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_into_data(float))
        .unwrap()
        .iter::<f32>()
        .collect()
}

#[test]
fn flex_quantises_alike() {
    each(|| {
        let x = numbers(128, 20);
        for value in INTEGERS {
            for scheme in levels(QuantScheme::default().with_value(value)) {
                let ours = data(quantized(&x, &[4, 32], &scheme));
                let float = Flex::q_from_float(&x);
                let theirs = read_sync(Flex::q_into_data(Flex::quantize_dynamic(float, &scheme))).unwrap();
                let split = |data: &TensorData| {
                    let DType::QFloat(scheme) = data.dtype() else { panic!("{:?}", data.dtype()) };
                    let bytes = QuantizedBytes {
                        bytes: data.clone().into_bytes(),
                        scheme,
                        shape: data.shape().clone(),
                    };
                    bytes.into_vec_i8()
                };
                let ((a, scales), (b, expected)) = (split(&ours), split(&theirs));
                assert_eq!(scales, expected, "{scheme:?}");
                // Flex multiplies by the reciprocal of the scale, so it may round the other way.
                let far = a.iter().zip(&b).filter(|(a, b)| a != b).count();
                assert!(far <= 1 && a.iter().zip(&b).all(|(a, b)| a.abs_diff(*b) <= 1), "{scheme:?}");
            }
        }
    });
}

trait FromFloats {
    fn q_from_float(values: &[f32]) -> burn_flex::FlexTensor;
}

impl FromFloats for Flex {
    fn q_from_float(values: &[f32]) -> burn_flex::FlexTensor {
        burn_flex::FlexTensor::from_data(TensorData::new(values.to_vec(), [4, 32]))
    }
}

#[test]
fn flex_reads_and_writes() {
    each(|| {
        let x = numbers(128, 21);
        for value in INTEGERS {
            for store in [QuantStore::Native, QuantStore::PackedU32(0)] {
                for scheme in levels(QuantScheme::default().with_value(value).with_store(store)) {
                    let what = format!("{scheme:?}");
                    let model = model::quantized(&x, &[4, 32], &scheme);
                    let ours = data(quantized(&x, &[4, 32], &scheme));
                    same(&flex_values(ours.clone()), &model.values, &what);
                    let flex = Flex::q_from_data(ours, &Default::default());
                    let theirs = read_sync(Flex::q_into_data(flex)).unwrap();
                    same(&values(load(theirs)), &model.values, &what);
                }
            }
        }
    });
}

/// All ways in which values of one tensor may lie in data.
#[test]
fn every_layout_is_read() {
    each(|| {
        for (value, shape) in [
            (QuantValue::Q8S, [3, 5]),
            (QuantValue::Q4S, [3, 5]),
            (QuantValue::Q2F, [5, 3]),
            (QuantValue::E2M1, [3, 5]),
            (QuantValue::E4M3, [6, 3]),
        ] {
            for store in [QuantStore::Native, QuantStore::PackedU32(0), QuantStore::PackedU32(1)] {
                let scheme = QuantScheme::default().with_value(value).with_store(store);
                let x = numbers(15.max(shape[0] * shape[1]), 22);
                let model = model::quantized(&x, &shape, &scheme);
                let scale = model.scales[0].to_ne_bytes();
                let with_scale = |values: Vec<u8>| {
                    let bytes = values.into_iter().chain(scale).collect();
                    TensorData::from_bytes_vec(bytes, shape, DType::QFloat(scheme))
                };
                let lines = model::packed(&model.codes, &shape, &scheme);
                same(
                    &values(load(with_scale(lines))),
                    &model.values,
                    &format!("lines: {shape:?} {scheme:?}"),
                );
                let bytes = model.codes.iter().map(|&code| code as u8).collect();
                same(
                    &values(load(with_scale(bytes))),
                    &model.values,
                    &format!("bytes: {shape:?} {scheme:?}"),
                );
                if store == QuantStore::PackedU32(0) {
                    let running = model::packed(&model.codes, &[model.codes.len()], &scheme);
                    let what = format!("running: {shape:?} {scheme:?}");
                    same(&values(load(with_scale(running))), &model.values, &what);
                }
            }
        }
    });
}

#[test]
fn data_of_burns_own_making() {
    each(|| {
        let scheme = QuantScheme::default().with_value(QuantValue::Q8S).per_block([8], ScaleDtype::F32);
        let codes = vec![-127i8, -71, 0, 35, -127, -71, 0, 35, -32, -63, -95, -127, -32, -63, -95, -127];
        let made = TensorData::quantized(codes.clone(), [16], scheme, &[0.5, 0.25], None);
        let q = load(made.clone());
        data(q.clone()).assert_eq(&made, true);
        let expected: Vec<f32> =
            codes.iter().enumerate().map(|(at, &code)| f32::from(code) * [0.5, 0.25][at / 8]).collect();
        same(&values(q), &expected, "values and two scales");
    });
}

#[test]
fn bytes_of_the_size_that_stores_expect() {
    each(|| {
        for value in super::VALUES {
            for shape in [vec![4, 16], vec![3, 5], vec![7]] {
                let q = quantized(
                    &numbers(shape.iter().product(), 23),
                    &shape,
                    &QuantScheme::default().with_value(value),
                );
                let written = data(q);
                let DType::QFloat(scheme) = written.dtype() else { panic!("{:?}", written.dtype()) };
                let expected = burn::tensor::quantization::quantized_data_len(&scheme, &Shape::from(shape));
                assert_eq!(written.as_bytes().len(), expected, "{scheme:?}");
            }
        }
    });
}

#[test]
fn float_types() {
    each(|| {
        let x = numbers(32, 24);
        let scheme = QuantScheme::default().with_value(QuantValue::Q8S).per_block([8], ScaleDtype::F32);
        let model = model::quantized(&x, &[32], &scheme);
        for dtype in [FloatDType::F64, FloatDType::F32, FloatDType::Flex32, FloatDType::F16, FloatDType::BF16]
        {
            let q = quantized(&x, &[32], &scheme);
            let out = burn_mlir::Mlir::dequantize(q, dtype);
            assert_eq!(burn_backend::TensorMetadata::dtype(&out), DType::from(dtype));
            let rounded: Vec<f32> = match dtype {
                FloatDType::F16 => model.values.iter().map(|&v| half::f16::from_f32(v).to_f32()).collect(),
                FloatDType::BF16 => model.values.iter().map(|&v| half::bf16::from_f32(v).to_f32()).collect(),
                _ => model.values.clone(),
            };
            same(&super::read(out), &rounded, &format!("{dtype:?}"));
            // From such floats: f16 and bf16 lose bits before.
            let source = <burn_mlir::Mlir as burn_backend::ops::FloatTensorOps<_>>::float_cast(
                tensor(&x, &[32]),
                dtype,
            );
            let seen = super::read(source.clone());
            let expected = model::quantized(&seen, &[32], &scheme);
            same(
                &values(burn_mlir::Mlir::quantize_dynamic(source, &scheme)),
                &expected.values,
                &format!("from {dtype:?}"),
            );
        }
    });
}
