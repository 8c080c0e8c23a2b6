//! Host and GPU beside each other: the same bits, tensors on their way between them, and many threads.

mod bits;
mod crowd;

use crate::agreement::float;
use crate::support::child::{self, MARK};
use crate::support::devices::{gpu, tested};
use crate::support::numbers::INTS;
use bits::{Comparison, input};
use burn_backend::ops::{ActivationOps, BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{
    Backend, BoolDType, DType, Distribution, FloatDType, IntDType, Shape, Slice, TensorData, read_sync,
};
use burn_mlir::{Mlir, MlirDevice, MlirTensor};

/// What a device computed, under names for the message.
type Named = Vec<(String, MlirTensor)>;
type Unary = fn(MlirTensor) -> MlirTensor;
type Binary = fn(MlirTensor, MlirTensor) -> MlirTensor;

const FLOATS: [FloatDType; 4] = [FloatDType::F64, FloatDType::F32, FloatDType::F16, FloatDType::BF16];
const NATIVE: BoolDType = BoolDType::Native;

/// Beside those of the sweep.
const FLOAT_UNARY: &[(&str, Unary)] = &[
    ("is_nan", |x| Mlir::float_is_nan(x, NATIVE)),
    ("is_inf", |x| Mlir::float_is_inf(x, NATIVE)),
    ("relu", Mlir::relu),
    ("gelu", Mlir::gelu),
    ("log_sigmoid", Mlir::log_sigmoid),
    ("clamp", |x| Mlir::float_clamp(x, (-0.75).into(), 1.5.into())),
    ("square", |x| Mlir::float_powf_scalar(x, 2.0.into())),
    ("power 2.5", |x| Mlir::float_powf_scalar(x, 2.5.into())),
    ("times scalar", |x| Mlir::float_mul_scalar(x, 1.7.into())),
    ("chain", |x| {
        let inner = Mlir::float_add_scalar(Mlir::float_mul_scalar(x.clone(), 1.5.into()), 0.3.into());
        let product = Mlir::float_mul(Mlir::float_tanh(inner), Mlir::sigmoid(x.clone()));
        Mlir::float_add(product, Mlir::float_mul(x.clone(), x))
    }),
];

const FLOAT_BINARY: &[(&str, Binary)] = &[
    ("add", Mlir::float_add),
    ("sub", Mlir::float_sub),
    ("mul", Mlir::float_mul),
    ("div", Mlir::float_div),
    ("remainder", Mlir::float_remainder),
    ("pow", Mlir::float_powf),
    ("atan2", Mlir::float_atan2),
    ("hypot", Mlir::float_hypot),
    ("equal", |a, b| Mlir::float_equal(a, b, NATIVE)),
    ("not equal", |a, b| Mlir::float_not_equal(a, b, NATIVE)),
    ("greater", |a, b| Mlir::float_greater(a, b, NATIVE)),
    ("greater equal", |a, b| Mlir::float_greater_equal(a, b, NATIVE)),
    ("lower", |a, b| Mlir::float_lower(a, b, NATIVE)),
    ("lower equal", |a, b| Mlir::float_lower_equal(a, b, NATIVE)),
    ("where", |a, b| {
        let mask = Mlir::float_lower(a.clone(), b.clone(), NATIVE);
        Mlir::float_mask_where(a, mask, b)
    }),
];

const INT_UNARY: &[(&str, Unary)] = &[
    ("neg", Mlir::int_neg),
    ("abs", Mlir::int_abs),
    ("sign", Mlir::int_sign),
    ("not", Mlir::bitwise_not),
    ("clamp", |x| Mlir::int_clamp(x, 3.into(), 100.into())),
    ("cubed", |x| Mlir::int_powi_scalar(x, 3.into())),
];

const INT_BINARY: &[(&str, Binary)] = &[
    ("add", Mlir::int_add),
    ("sub", Mlir::int_sub),
    ("mul", Mlir::int_mul),
    ("div", Mlir::int_div),
    ("remainder", Mlir::int_remainder),
    ("and", Mlir::bitwise_and),
    ("or", Mlir::bitwise_or),
    ("xor", Mlir::bitwise_xor),
    ("shift left", Mlir::bitwise_left_shift),
    ("shift right", Mlir::bitwise_right_shift),
    ("power", Mlir::int_powi),
    ("equal", |a, b| Mlir::int_equal(a, b, NATIVE)),
    ("not equal", |a, b| Mlir::int_not_equal(a, b, NATIVE)),
    ("greater", |a, b| Mlir::int_greater(a, b, NATIVE)),
    ("greater equal", |a, b| Mlir::int_greater_equal(a, b, NATIVE)),
    ("lower", |a, b| Mlir::int_lower(a, b, NATIVE)),
    ("lower equal", |a, b| Mlir::int_lower_equal(a, b, NATIVE)),
];

/// Every function of one tensor and of two, of a type.
fn elementwise(dtype: DType, unary: &[(&str, Unary)], binary: &[(&str, Binary)]) {
    let Some(mut comparison) = Comparison::new() else { return };
    comparison.same(|device| {
        let x = Mlir::float_from_data(input(dtype), device);
        let (a, b) = bits::pairs(dtype);
        let (a, b) = (Mlir::float_from_data(a, device), Mlir::float_from_data(b, device));
        let unary = unary.iter().map(|(name, f)| (format!("{name} of {dtype:?}"), f(x.clone())));
        let binary = binary.iter().map(|(name, f)| (format!("{name} of {dtype:?}"), f(a.clone(), b.clone())));
        unary.chain(binary).collect()
    });
    comparison.finish();
}

fn float_elementwise(dtype: FloatDType) {
    let sweep = crate::sweep::FUNCTIONS.iter().map(|(name, function, _)| (*name, *function));
    let unary: Vec<_> = sweep.chain(FLOAT_UNARY.iter().copied()).collect();
    elementwise(dtype.into(), &unary, FLOAT_BINARY);
}

#[test]
fn functions_of_f64_are_the_same_bits() {
    float_elementwise(FloatDType::F64);
}

#[test]
fn functions_of_f32_are_the_same_bits() {
    float_elementwise(FloatDType::F32);
}

#[test]
fn functions_of_f16_are_the_same_bits() {
    float_elementwise(FloatDType::F16);
}

#[test]
fn functions_of_bf16_are_the_same_bits() {
    float_elementwise(FloatDType::BF16);
}

#[test]
fn functions_of_integers_are_the_same_bits() {
    INTS.into_iter().for_each(|dtype| elementwise(dtype.into(), INT_UNARY, INT_BINARY));
}

#[test]
fn functions_of_truth_values_are_the_same_bits() {
    let binary: &[(&str, Binary)] = &[
        ("and", Mlir::bool_and),
        ("or", Mlir::bool_or),
        ("xor", Mlir::bool_xor),
        ("equal", Mlir::bool_equal),
        ("not equal", Mlir::bool_not_equal),
    ];
    elementwise(DType::Bool(burn_backend::BoolStore::Native), &[("not", Mlir::bool_not)], binary);
}

#[test]
fn casts_are_the_same_bits() {
    let Some(mut comparison) = Comparison::new() else { return };
    for from in FLOATS {
        comparison.same(|device| {
            let x = Mlir::float_from_data(input(from.into()), device);
            let floats = FLOATS.map(|to| (format!("{from:?} to {to:?}"), Mlir::float_cast(x.clone(), to)));
            let ints = INTS.map(|to| (format!("{from:?} to {to:?}"), Mlir::float_into_int(x.clone(), to)));
            floats.into_iter().chain(ints).collect()
        });
    }
    for from in INTS {
        comparison.same(|device| {
            let x = Mlir::int_from_data(input(from.into()), device);
            let floats =
                FLOATS.map(|to| (format!("{from:?} to {to:?}"), Mlir::int_into_float(x.clone(), to)));
            let ints = INTS.map(|to| (format!("{from:?} to {to:?}"), Mlir::int_cast(x.clone(), to)));
            floats.into_iter().chain(ints).collect()
        });
    }
    comparison.same(|device| {
        let x = Mlir::bool_from_data(input(DType::Bool(burn_backend::BoolStore::Native)), device);
        let floats = FLOATS.map(|to| (format!("bool to {to:?}"), Mlir::bool_into_float(x.clone(), to)));
        let ints = INTS.map(|to| (format!("bool to {to:?}"), Mlir::bool_into_int(x.clone(), to)));
        floats.into_iter().chain(ints).collect()
    });
    comparison.finish();
}

/// Random tensors of every distribution and type. Shapes that are no multiple of a vector or a block.
fn random(device: &MlirDevice) -> Named {
    Mlir::seed(device, 20);
    let distributions = [
        ("default", Distribution::Default),
        ("uniform", Distribution::Uniform(-3.0, 5.0)),
        ("normal", Distribution::Normal(1.0, 2.5)),
        ("bernoulli", Distribution::Bernoulli(0.3)),
    ];
    let mut results = Named::new();
    for (name, distribution) in distributions {
        for dtype in FLOATS {
            let tensor = Mlir::float_random(Shape::new([257, 1033]), distribution, device, dtype);
            results.push((format!("{name} {dtype:?}"), tensor));
        }
        for dtype in [IntDType::I64, IntDType::I32, IntDType::U8] {
            let tensor = Mlir::int_random(Shape::new([33, 7, 19]), distribution, device, dtype);
            results.push((format!("{name} {dtype:?}"), tensor));
        }
    }
    let wide = Distribution::Uniform(-1e12, 1e12);
    let tensor = Mlir::int_random(Shape::new([1001]), wide, device, IntDType::I64);
    results.push(("a wide range".into(), tensor));
    results
}

#[test]
#[ignore = "run alone by the test that checks its output: seeds are the device's"]
fn compares_random_tensors() {
    let Some(mut comparison) = Comparison::new() else { return };
    comparison.same(random);
    comparison.finish();
    println!("{MARK} the same");
}

#[test]
fn random_tensors_are_the_same_bits() {
    if gpu().is_none() {
        return;
    }
    assert_eq!(child::run("devices::compares_random_tensors", &[]), ["the same"]);
}

fn read(tensor: MlirTensor) -> TensorData {
    read_sync(Mlir::float_into_data(tensor)).expect("it can be read")
}

#[test]
fn tensors_go_to_every_device_and_back() {
    let devices = tested();
    for (&from, &to) in devices.iter().flat_map(|from| devices.iter().map(move |to| (from, to))) {
        let round = |name: &str, tensor: MlirTensor| {
            let there = Mlir::float_to_device(tensor.clone(), &to);
            assert_eq!(burn_backend::TensorMetadata::device(&there), to);
            let doubled = Mlir::float_to_device(Mlir::float_mul_scalar(there.clone(), 2.0.into()), &from);
            let expected = read(Mlir::float_mul_scalar(tensor.clone(), 2.0.into()));
            assert_eq!(read(doubled), expected, "{name}, doubled on {to}, back to {from}");
            assert_eq!(read(there), read(tensor), "{name} from {from} to {to}");
        };
        let x = Mlir::float_to_device(float::<Mlir, 3>([5, 70, 33], 1), &from);
        round("a tensor", x.clone());
        round("a computed one", Mlir::float_exp(x.clone()));
        round("a transposed view", Mlir::float_swap_dims(x.clone(), 0, 2));
        round("an expanded view", Mlir::float_expand(part(&x, 1), Shape::new([5, 70, 33])));
        round("a part that starts inside", part(&x, 3));
        round("nothing", part(&x, 0));
        for dtype in FLOATS {
            round("another type", Mlir::float_cast(x.clone(), dtype));
        }
        let truth = Mlir::float_lower_elem(x, 0.0.into(), NATIVE);
        let there = Mlir::bool_to_device(truth.clone(), &to);
        assert_eq!(read(Mlir::bool_not(there)), read(Mlir::bool_not(truth)));
    }
}

/// A slice of the middle axis, `size` long.
fn part(x: &MlirTensor, size: isize) -> MlirTensor {
    Mlir::float_slice(x.clone(), &[Slice::full(), Slice::new(7, Some(7 + size), 1), Slice::full()])
}

#[test]
fn devices_that_are_there_can_be_listed() {
    let devices = MlirDevice::available();
    assert_eq!(devices[0], MlirDevice::Cpu);
    let gpus: Vec<_> = (0..devices.len() - 1).map(MlirDevice::Cuda).collect();
    assert_eq!(devices[1..], gpus);
    for device in devices {
        assert!(Mlir::sync(&device).is_ok());
    }
}

#[test]
fn a_gpu_that_is_not_there_is_a_clear_error() {
    let missing = MlirDevice::Cuda(MlirDevice::available().len() - 1);
    let tensor =
        Mlir::float_add_scalar(Mlir::float_from_data(TensorData::from([1.0f32, 2.0]), &missing), 1.0.into());
    let error = read_sync(Mlir::float_into_data(tensor)).expect_err("there is no such device").to_string();
    assert!(error.contains(&format!("device {missing} is not available")), "{error}");
    // The reason names what is missing: the driver, any GPU, or how many there are.
    assert!(["driver", "CUDA"].iter().any(|part| error.contains(part)), "{error}");
    assert!(Mlir::sync(&missing).is_err());
    assert!(Mlir::sync(&MlirDevice::Cpu).is_ok());
}

#[test]
fn eight_threads_share_and_pass_tensors_on_each_device() {
    tested().into_iter().for_each(|device| crowd::run(&[device]));
}

#[test]
fn eight_threads_share_and_pass_tensors_between_devices() {
    if let Some(gpu) = gpu() {
        crowd::run(&[MlirDevice::Cpu, gpu]);
    }
}
