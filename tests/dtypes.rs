//! What the backend says of each type, by doing it; and conversions between all of them.

mod families;

use crate::support::devices::{current, each};
use crate::support::numbers::{Number, TYPES, data, ints, numbers, read, read_numbers, tensor, upload};
use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    Backend, BoolDType, BoolStore, DType, DTypeUsage, FloatDType, IntDType, Shape, TensorMetadata,
};
use burn_mlir::ir::Target;
use burn_mlir::{Mlir, MlirDevice, MlirTensor, inspect};

/// A name, what is computed, and its elements.
type Case = (&'static str, fn(MlirTensor) -> MlirTensor, &'static [i128]);

const STORES: [(BoolDType, BoolStore); 3] = [
    (BoolDType::Native, BoolStore::Native),
    (BoolDType::U8, BoolStore::U8),
    (BoolDType::U32, BoolStore::U32),
];

/// A conversion in the backend's terms.
fn cast(tensor: MlirTensor, to: DType) -> MlirTensor {
    match (tensor.dtype(), to) {
        (DType::Bool(_), _) if to.is_float() => Mlir::bool_into_float(tensor, FloatDType::from(to)),
        (DType::Bool(_), DType::Bool(_)) => tensor,
        (DType::Bool(_), _) => Mlir::bool_into_int(tensor, IntDType::from(to)),
        (from, DType::Bool(store)) => {
            let out = BoolDType::from(DType::Bool(store));
            match from.is_float() {
                true => Mlir::float_not_equal_elem(tensor, 0.0.into(), out),
                false => Mlir::int_not_equal_elem(tensor, 0.into(), out),
            }
        }
        (from, _) if from.is_float() && to.is_float() => Mlir::float_cast(tensor, FloatDType::from(to)),
        (from, _) if from.is_float() => Mlir::float_into_int(tensor, IntDType::from(to)),
        (_, _) if to.is_float() => Mlir::int_into_float(tensor, FloatDType::from(to)),
        _ => Mlir::int_cast(tensor, IntDType::from(to)),
    }
}

/// Values at which conversions go wrong, in a type.
fn edges(dtype: DType) -> Vec<Number> {
    let powers = [7, 8, 15, 16, 31, 32, 53, 63, 64];
    let mut values = Vec::new();
    for power in powers {
        let two = 2f64.powi(power);
        values
            .extend([two, -two, two - 0.5, 0.5 - two, two * 0.999, two + 1.0, -two - 1.0].map(Number::Float));
    }
    values.extend([0.0, -0.0, 0.25, -0.5, 1.5, -1.75, 1e-30, -1e-300, 1e30, -1e300].map(Number::Float));
    values.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 65504.0, 1e-45].map(Number::Float));
    if !dtype.is_float() {
        let around = |power: i32| {
            let two = 1i128 << power;
            [two - 1, two, two + 1, -two - 1, -two, 1 - two]
        };
        values.clear();
        values.extend(ints(powers.into_iter().flat_map(around).chain([0, 1, -1, 5])));
    }
    values.into_iter().map(|value| value.to(dtype)).collect()
}

/// As Rust's `as`: saturating with NaN → 0 from floats to integers, wrapping between integers; anything that is not
/// 0 is true, NaN, fractions and negative numbers among them.
#[test]
fn every_type_becomes_every_other_as_in_rust() {
    each(|| {
        for from in TYPES {
            let values = edges(from);
            let x = tensor(from, &values);
            // Read when all is recorded, so that the kernels are compiled together.
            let results: Vec<_> = TYPES.into_iter().map(|to| (to, cast(x.clone(), to))).collect();
            for (to, result) in results {
                if !matches!((from, to), (DType::Bool(_), DType::Bool(_))) {
                    assert_eq!(result.dtype(), to);
                }
                for (value, result) in values.iter().zip(read_numbers(result)) {
                    assert_eq!(result, value.to(to), "{value:?} from {from:?} to {to:?}");
                }
            }
        }
    });
}

#[test]
fn claimed_types_store_their_values() {
    each(|| {
        for dtype in TYPES {
            let usage = Mlir::dtype_usage(&current(), dtype);
            assert!(usage.contains(DTypeUsage::Storage), "{dtype:?}");
            let data = data(dtype, &[3, 2], &edges(dtype)[..6]);
            let x = upload(data.clone());
            assert_eq!(x.dtype(), dtype);
            let back = read(x).unwrap();
            assert_eq!((back.dtype(), back.as_bytes()), (dtype, data.as_bytes()));
        }
    });
}

/// Sums, products, quotients, reductions, matrices, order and indices, of numbers that every type holds exactly.
#[test]
fn claimed_types_compute() {
    let values = [3, 1, 2, 6, 5, 4];
    let cases: [Case; 9] = [
        ("square and double", |x| add(mul(x.clone(), x.clone()), x), &[12, 2, 6, 42, 30, 20]),
        ("quotient", |x| div(add(x.clone(), x.clone()), x), &[2; 6]),
        ("sum", |x| if_float(x, |x| Mlir::float_sum_dim(x, 1), |x| Mlir::int_sum_dim(x, 1)), &[6, 15]),
        ("product", |x| if_float(x, Mlir::float_prod, |x| Mlir::int_prod_dim(x, 0)), &[18, 5, 8]),
        ("largest", |x| if_float(x, Mlir::float_max, Mlir::int_max), &[6]),
        (
            "prefix sums",
            |x| if_float(x, |x| Mlir::float_cumsum(x, 1), |x| Mlir::int_cumsum(x, 1)),
            &[3, 4, 6, 6, 11, 15],
        ),
        ("matrix times its transpose", times_transpose, &[14, 31, 31, 77]),
        (
            "sorted",
            |x| if_float(x, |x| Mlir::float_sort(x, 1, true), |x| Mlir::int_sort(x, 1, true)),
            &[3, 2, 1, 6, 5, 4],
        ),
        ("added at indices", add_first_row_to_second, &[3, 1, 2, 9, 6, 6]),
    ];
    each(|| {
        for dtype in TYPES.into_iter().filter(|dtype| !matches!(dtype, DType::Bool(_))) {
            let usage = Mlir::dtype_usage(&current(), dtype);
            assert!(
                usage.contains(DTypeUsage::Arithmetic) && Mlir::supports_dtype(&current(), dtype),
                "{dtype:?}"
            );
            let x = upload(data(dtype, &[2, 3], &ints(values)));
            let results: Vec<_> = cases.iter().map(|(name, case, _)| (name, case(x.clone()))).collect();
            for ((name, result), (_, _, expected)) in results.into_iter().zip(&cases) {
                let product_of_all = [720];
                let expected =
                    if *name == "product" && dtype.is_float() { &product_of_all } else { *expected };
                let back = read(result).unwrap();
                assert_eq!(back.dtype(), dtype, "{name}");
                let expected: Vec<_> = ints(expected.iter().copied()).iter().map(|v| v.to(dtype)).collect();
                assert_eq!(numbers(&back), expected, "{name} of {dtype:?}");
            }
        }
    });
}

fn if_float(
    x: MlirTensor,
    float: impl Fn(MlirTensor) -> MlirTensor,
    int: impl Fn(MlirTensor) -> MlirTensor,
) -> MlirTensor {
    if x.dtype().is_float() { float(x) } else { int(x) }
}

fn add(x: MlirTensor, y: MlirTensor) -> MlirTensor {
    if_float(x, |x| Mlir::float_add(x, y.clone()), |x| Mlir::int_add(x, y.clone()))
}

fn mul(x: MlirTensor, y: MlirTensor) -> MlirTensor {
    if_float(x, |x| Mlir::float_mul(x, y.clone()), |x| Mlir::int_mul(x, y.clone()))
}

fn div(x: MlirTensor, y: MlirTensor) -> MlirTensor {
    if_float(x, |x| Mlir::float_div(x, y.clone()), |x| Mlir::int_div(x, y.clone()))
}

fn times_transpose(x: MlirTensor) -> MlirTensor {
    if_float(
        x,
        |x| Mlir::float_matmul(x.clone(), Mlir::float_transpose(x)),
        |x| Mlir::int_matmul(x.clone(), Mlir::int_transpose(x)),
    )
}

fn add_first_row_to_second(x: MlirTensor) -> MlirTensor {
    let row = || tensor(DType::I32, &ints([1]));
    if_float(
        x,
        |x| {
            let first = Mlir::float_slice(x.clone(), &[(0..1).into()]);
            Mlir::float_select_assign(x, 0, row(), first, IndexingUpdateOp::Add)
        },
        |x| {
            let first = Mlir::int_slice(x.clone(), &[(0..1).into()]);
            Mlir::int_select_assign(x, 0, row(), first, IndexingUpdateOp::Add)
        },
    )
}

/// Results are stored as asked for, or like what they are made of, and read so.
#[test]
fn truth_values_keep_their_store() {
    each(|| {
        for (dtype, store) in STORES {
            let usage = Mlir::dtype_usage(&current(), DType::Bool(store));
            assert_eq!(usage, DTypeUsage::general());
            let expect = |name: &str, result: MlirTensor, expected: &[i128]| {
                assert_eq!(result.dtype(), DType::Bool(store), "{name}");
                let back = read(result).unwrap();
                assert_eq!(back.dtype(), DType::Bool(store), "{name}");
                assert_eq!(numbers(&back), ints(expected.iter().copied()), "{name} in {store:?}");
            };
            let device = current();
            let x = || tensor(DType::F32, &[1.0, f64::NAN, f64::INFINITY].map(Number::Float));
            let i = || tensor(DType::I32, &ints([1, 0, 2]));
            let b = || tensor(DType::Bool(store), &ints([1, 0, 1]));
            let other = || tensor(DType::Bool(BoolStore::Native), &ints([0, 0, 1]));
            expect("zeros", Mlir::bool_zeros(Shape::new([2]), &device, dtype), &[0, 0]);
            expect("ones", Mlir::bool_ones(Shape::new([2]), &device, dtype), &[1, 1]);
            expect("nan", Mlir::float_is_nan(x(), dtype), &[0, 1, 0]);
            expect("inf", Mlir::float_is_inf(x(), dtype), &[0, 0, 1]);
            expect("equal", Mlir::float_equal(x(), x(), dtype), &[1, 0, 1]);
            expect("greater", Mlir::int_greater_elem(i(), 1.into(), dtype), &[0, 0, 1]);
            expect("any", Mlir::int_any(i(), dtype), &[1]);
            expect("all", Mlir::float_all_dim(x(), 0, dtype), &[1]);
            expect("not", Mlir::bool_not(b()), &[0, 1, 0]);
            expect("and", Mlir::bool_and(b(), other()), &[0, 0, 1]);
            expect("equal truth", Mlir::bool_equal(b(), other()), &[0, 1, 1]);
            expect("equal one", Mlir::bool_equal_elem(b(), true.into()), &[1, 0, 1]);
            expect("where", Mlir::bool_mask_where(b(), other(), other()), &[1, 0, 1]);
            expect("fill", Mlir::bool_mask_fill(b(), other(), false.into()), &[1, 0, 0]);
            expect("cat", Mlir::bool_cat(vec![b(), other()], 0), &[1, 0, 1, 0, 0, 1]);
            expect("repeat", Mlir::bool_repeat_dim(b(), 0, 2), &[1, 0, 1, 1, 0, 1]);
            expect("flip", Mlir::bool_flip(Mlir::bool_slice(b(), &[(1..3).into()]), &[0]), &[1, 0]);
            expect("select", Mlir::bool_select(b(), 0, i()), &[0, 1, 1]);
            expect("all truth", Mlir::bool_all(b()), &[0]);
            expect("moved", Mlir::bool_to_device(b(), &MlirDevice::Cpu), &[1, 0, 1]);
            expect("empty", Mlir::bool_slice(b(), &[(0..0).into()]), &[]);
            let failed = Mlir::bool_and(b(), tensor(DType::Bool(store), &ints([1; 4])));
            assert_eq!(failed.dtype(), DType::Bool(store));
        }
    });
}

/// Integers that stand for truth need not be 1.
#[test]
fn any_stored_integer_but_zero_is_true() {
    each(|| {
        for (store, integer) in [(BoolStore::U8, DType::U8), (BoolStore::U32, DType::U32)] {
            let (bytes, shape, _) = data(integer, &[3], &ints([0, 1, 200])).into_parts();
            let x = upload(burn_backend::TensorData::from_bytes(bytes, shape, DType::Bool(store)));
            assert_eq!(read_numbers(x.clone()), ints([0, 1, 1]));
            assert_eq!(read_numbers(Mlir::bool_into_int(x, IntDType::I64)), ints([0, 1, 1]));
        }
    });
}

/// Whether products of matrices of a type run on a unit made for them, by their code.
#[test]
fn claimed_types_are_accelerated() {
    for name in ["x86-64-v3", "sm_80", "sm_90a"] {
        let target = Target::named(name).unwrap();
        for dtype in TYPES.into_iter().filter(|dtype| !matches!(dtype, DType::Bool(_))) {
            let values = || upload(data(dtype, &[64, 64], &ints((0..4096).map(|i| i % 3))));
            let (x, y) = (values(), values());
            let product = || {
                if_float(x.clone(), |x| Mlir::float_matmul(x, y.clone()), |x| Mlir::int_matmul(x, y.clone()))
            };
            let (_kept, graph) = inspect::graph(current(), product).unwrap();
            let kernels = inspect::kernels(&graph, &target).unwrap();
            let code = &kernels[0].stages.last().unwrap().text;
            let found = code.contains("mma.sync") || code.contains("wgmma.mma_async");
            let ours =
                burn_mlir::ir::DType::all().find(|t| format!("{dtype:?}").eq_ignore_ascii_case(t.name()));
            let claimed = target.multiplies_matrices_of(ours.unwrap());
            assert_eq!(found, claimed, "{dtype:?} on {name}");
        }
    }
    each(|| {
        for dtype in TYPES {
            let claimed = Mlir::dtype_usage(&current(), dtype).contains(DTypeUsage::Accelerated);
            let multiplied = matches!(dtype, DType::Flex32 | DType::F16 | DType::BF16);
            assert_eq!(claimed, multiplied && current() != MlirDevice::Cpu, "{dtype:?}");
        }
    });
}

/// Nothing is claimed of a device that is not there, and using it is an error that says so.
#[test]
fn absent_devices_have_no_types() {
    let device = MlirDevice::Vulkan;
    for dtype in TYPES {
        assert!(Mlir::dtype_usage(&device, dtype).is_empty());
        let x = Mlir::float_from_data(data(dtype, &[2], &ints([1, 0])), &device);
        let error = read(x).unwrap_err().to_string();
        assert!(error.contains("vulkan"), "{error}");
    }
}
