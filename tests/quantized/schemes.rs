//! Quantising and dequantising by every scheme.

use super::{VALUES, data, model, numbers, quantized, same, values};
use crate::support::devices::each;
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn_backend::{DType, TensorData, TensorMetadata};

use ScaleDtype::{BF16, F16, F32, UE4M3, UE8M0};

/// Quantises, and compares values and bytes.
fn check(x: &[f32], shape: &[usize], scheme: &QuantScheme) {
    let what = format!("{shape:?} by {scheme:?}");
    let model = model::quantized(x, shape, scheme);
    let q = quantized(x, shape, scheme);
    let stored = data(q.clone());
    let dtype = q.dtype();
    same(&values(q), &model.values, &what);
    let DType::QFloat(written) = stored.dtype() else { panic!("{what}: {:?}", stored.dtype()) };
    assert_eq!(stored.shape()[..], *shape, "{what}");
    assert_eq!(stored.as_bytes(), model.bytes(shape, &written), "bytes of {what}");
    assert_eq!(dtype, stored.dtype(), "{what}");
    let native = scheme.with_store(QuantStore::Native);
    assert!(written == *scheme || written == native, "{what} written as {written:?}");
}

#[test]
fn types_of_values() {
    each(|| {
        for value in VALUES {
            let scheme = QuantScheme::default().with_value(value);
            check(&numbers(64, 1), &[4, 16], &scheme);
            check(&numbers(64, 2), &[4, 16], &scheme.per_block([8], F32));
        }
    });
}

#[test]
fn types_of_scales() {
    each(|| {
        for dtype in [F32, F16, BF16, UE4M3, UE8M0] {
            let scheme = QuantScheme::default().with_value(QuantValue::Q8S);
            // From subnormals of the narrow types to beyond their ends.
            for size in [1e-7, 1.0, 3e5] {
                let x: Vec<f32> = numbers(48, 3).iter().map(|x| x * size).collect();
                check(&x, &[3, 16], &scheme.per_tensor(dtype));
                check(&x, &[3, 16], &scheme.per_block([8], dtype));
            }
        }
    });
}

#[test]
fn two_levels() {
    each(|| {
        for value in [QuantValue::Q8S, QuantValue::E2M1] {
            for dtype in [UE4M3, F16] {
                let scheme =
                    QuantScheme::default().with_value(value).per_block([2, 8], dtype).per_tensor(F32);
                check(&numbers(128, 4), &[4, 32], &scheme);
            }
        }
    });
}

#[test]
fn stores_and_odd_extents() {
    use QuantStore::{Native, PackedNative, PackedU32};
    each(|| {
        for value in [QuantValue::Q8F, QuantValue::Q2S, QuantValue::E2M1] {
            for store in [Native, PackedU32(0), PackedU32(1), PackedNative(0)] {
                let scheme = QuantScheme::default().with_value(value).with_store(store);
                check(&numbers(16 * 32, 5), &[16, 32], &scheme);
                check(&numbers(15, 6), &[3, 5], &scheme);
            }
        }
    });
}

#[test]
fn blocks_of_any_extents() {
    each(|| {
        for value in [QuantValue::Q8S, QuantValue::Q4F] {
            let scheme = QuantScheme::default().with_value(value);
            // Rectangles, blocks cut off at the ends, one block for all, blocks along an outer axis.
            check(&numbers(32, 7), &[4, 8], &scheme.per_block([2, 4], F32));
            check(&numbers(35, 8), &[5, 7], &scheme.per_block([2, 4], F16));
            check(&numbers(10, 9), &[2, 5], &scheme.per_block([32], F32));
            check(&numbers(60, 10), &[3, 5, 4], &scheme.per_block([2, 1, 1], BF16));
            check(&numbers(7, 11), &[7], &scheme.per_block([1], F32));
        }
    });
}

#[test]
fn floats_of_every_code() {
    each(|| {
        for (value, codes) in [(QuantValue::E4M3, 256), (QuantValue::E5M2, 256), (QuantValue::E2M1, 16)] {
            let scheme = QuantScheme::default().with_value(value).with_store(QuantStore::Native);
            let mut bytes: Vec<u8> = (0..codes).map(|code| code as u8).collect();
            bytes.extend(1f32.to_ne_bytes());
            let data = TensorData::from_bytes_vec(bytes.clone(), [codes as usize], DType::QFloat(scheme));
            let q = super::load(data);
            assert_eq!(super::data(q.clone()).as_bytes(), bytes, "{value:?}");
            let expected: Vec<f32> = (0..codes).map(|code| model::decode(value, code) as f32).collect();
            same(&values(q), &expected, &format!("{value:?}"));
        }
    });
}

#[test]
fn floats_between_two_codes() {
    use burn_backend::ops::QTensorOps;
    use burn_backend::quantization::QuantizationParametersPrimitive;
    use burn_mlir::Mlir;
    each(|| {
        for (value, last) in [(QuantValue::E4M3, 0x7e), (QuantValue::E5M2, 0x7b), (QuantValue::E2M1, 7)] {
            let mut x = Vec::new();
            for code in 0..last {
                let (a, b) = (model::decode(value, code) as f32, model::decode(value, code + 1) as f32);
                let middle = (a + b) / 2.0;
                x.extend([middle, -middle, middle.next_up(), middle.next_down(), a, -b]);
            }
            x.extend([1e9, -1e9, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-30, -0.0]);
            let scheme = QuantScheme::default().with_value(value).with_store(QuantStore::Native);
            let scales = super::tensor(&[1.0], &[1]);
            let qparams = QuantizationParametersPrimitive { scales, global: None };
            let q = Mlir::quantize(super::tensor(&x, &[x.len()]), &scheme, qparams);
            let codes: Vec<u8> = x.iter().map(|&x| model::encode(value, x) as u8).collect();
            let written = data(q);
            for (at, (a, b)) in written.as_bytes().iter().zip(&codes).enumerate() {
                // A NaN's sign is nobody's business.
                assert!(
                    a == b || x[at].is_nan() && a & 0x7f == b & 0x7f,
                    "{value:?} of {}: {a} for {b}",
                    x[at]
                );
            }
        }
    });
}
