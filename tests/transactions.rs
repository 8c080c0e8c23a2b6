//! Reading many tensors with one wait.

use crate::agreement::{bools, float, int_in, ints};
use crate::support::child::{self, MARK};
use crate::support::devices::{VARIABLE, current, each, name};
use burn_backend::ops::{
    BoolTensorOps, FloatTensorOps, IntTensorOps, QTensorOps, TransactionOps, TransactionPrimitive,
    TransactionPrimitiveData,
};
use burn_backend::quantization::{QuantScheme, ScaleDtype};
use burn_backend::{Backend, ExecutionError, FloatDType, IntDType, TensorData, TensorPrimitive, read_sync};
use burn_mlir::{Mlir, MlirDevice, MlirTensor, stats};

fn execute(
    floats: Vec<MlirTensor>,
    ints: Vec<MlirTensor>,
    bools: Vec<MlirTensor>,
) -> Result<TransactionPrimitiveData, ExecutionError> {
    read_sync(Mlir::tr_execute(TransactionPrimitive::new(floats, vec![], ints, bools)))
}

fn numbers(data: &TensorData) -> Vec<f64> {
    data.iter::<f64>().collect()
}

#[test]
fn kinds_and_types_are_mixed_and_keep_their_order() {
    each(|| {
        let mut transaction = TransactionPrimitive::<Mlir>::new(vec![], vec![], vec![], vec![]);
        let x = float::<Mlir, 2>([3, 5], 1);
        let half = Mlir::float_cast(
            Mlir::float_full([7].into(), 0.5.into(), &current(), FloatDType::F32),
            FloatDType::F16,
        );
        transaction.register_int(Mlir::int_add_scalar(ints::<Mlir, 1>([3], &[1, 2, 3]), 10.into()));
        transaction.register_float(TensorPrimitive::Float(half));
        transaction.register_bool(Mlir::bool_not(bools::<Mlir, 1>([2], &[true, false])));
        // Not contiguous, and of no elements.
        transaction.register_float(TensorPrimitive::Float(Mlir::float_swap_dims(x.clone(), 0, 1)));
        transaction.register_float(TensorPrimitive::Float(Mlir::float_zeros(
            [2, 0].into(),
            &current(),
            FloatDType::F64,
        )));
        transaction.register_int(Mlir::int_arange(0..4, &current(), IntDType::I64));
        let data = read_sync(transaction.execute_async()).unwrap();
        assert_eq!(numbers(&data[0]), [11.0, 12.0, 13.0]);
        assert_eq!((numbers(&data[1]), data[1].dtype()), (vec![0.5; 7], burn_backend::DType::F16));
        assert_eq!(data[2].iter::<bool>().collect::<Vec<_>>(), [false, true]);
        let plain = numbers(&read_sync(Mlir::float_into_data(x)).unwrap());
        let turned: Vec<f64> = (0..15).map(|i| plain[i % 3 * 5 + i / 3]).collect();
        assert_eq!((numbers(&data[3]), data[3].shape().to_vec()), (turned, vec![5, 3]));
        assert_eq!((numbers(&data[4]), data[4].shape().to_vec()), (vec![], vec![2, 0]));
        assert_eq!(numbers(&data[5]), [0.0, 1.0, 2.0, 3.0]);
    });
}

#[test]
fn one_failed_member_fails_the_transaction_and_nothing_else() {
    each(|| {
        let (a, b) = (float::<Mlir, 1>([4], 1), float::<Mlir, 1>([4], 2));
        let sum = Mlir::float_add(a.clone(), b.clone());
        let failed = Mlir::float_add(a.clone(), float::<Mlir, 1>([5], 3));
        let error =
            execute(vec![sum.clone(), failed.clone()], vec![], vec![]).err().expect("one member failed");
        assert!(error.to_string().contains("add") && error.to_string().contains("f32[4], f32[5]"), "{error}");
        let [a, b, sum] = [a, b, sum].map(|t| numbers(&read_sync(Mlir::float_into_data(t)).unwrap()));
        let expected: Vec<f64> = a.iter().zip(&b).map(|(a, b)| f64::from(*a as f32 + *b as f32)).collect();
        assert_eq!(sum, expected);
        assert!(execute(vec![], vec![int_in::<Mlir, 1>([9], 1, 0, 9)], vec![]).is_ok());
    });
}

#[test]
fn quantised_members_are_what_they_are_alone() {
    each(|| {
        let x = float::<Mlir, 2>([4, 32], 1);
        let scheme = QuantScheme::default().per_block([16], ScaleDtype::F16);
        let quantised =
            [QuantScheme::default(), scheme].map(|scheme| Mlir::quantize_dynamic(x.clone(), &scheme));
        let alone = quantised.clone().map(|tensor| read_sync(Mlir::q_into_data(tensor)).unwrap());
        let transaction = TransactionPrimitive::new(vec![x.clone()], quantised.to_vec(), vec![], vec![]);
        let data = read_sync(Mlir::tr_execute(transaction)).unwrap();
        assert_eq!(data.read_qfloats, alone);
        assert_eq!(data.read_floats, [read_sync(Mlir::float_into_data(x)).unwrap()]);
    });
}

#[test]
fn nothing_to_read_is_read() {
    let data = execute(vec![], vec![], vec![]).unwrap();
    assert!(data.read_floats.is_empty() && data.read_ints.is_empty() && data.read_bools.is_empty());
}

#[test]
fn long_tensors_beside_short_ones() {
    each(|| {
        // More than the pinned memory that a copy from a GPU goes through.
        let long = Mlir::int_arange(0..3_000_000, &current(), IntDType::I32);
        let short = Mlir::int_arange(5..8, &current(), IntDType::I32);
        let data = execute(vec![], vec![short.clone(), long, short], vec![]).unwrap().read_ints;
        assert_eq!([numbers(&data[0]), numbers(&data[2])], [[5.0, 6.0, 7.0], [5.0, 6.0, 7.0]]);
        assert!(data[1].iter::<i64>().eq(0..3_000_000));
    });
}

#[test]
#[ignore = "run alone by the test that checks its output"]
fn counts_waits() {
    let tensors = || {
        let x = float::<Mlir, 2>([50, 60], 1);
        let many = (0..20).map(|i| Mlir::float_mul_scalar(x.clone(), f64::from(i).into()));
        let many: Vec<_> = many.chain([Mlir::float_swap_dims(x.clone(), 0, 1)]).collect();
        Mlir::sync(&current()).unwrap();
        many
    };
    // Compiling waits for nothing, but the first use of a device may.
    execute(tensors(), vec![], vec![]).unwrap();
    let many: Vec<_> = tensors().into_iter().map(Mlir::float_exp).collect();
    let before = stats().waits;
    execute(many, vec![], vec![]).unwrap();
    let together = stats().waits - before;
    let before = stats().waits;
    for tensor in tensors().into_iter().map(Mlir::float_exp) {
        read_sync(Mlir::float_into_data(tensor)).unwrap();
    }
    println!("{MARK} {together} {}", stats().waits - before);
}

#[test]
fn a_transaction_waits_once() {
    each(|| {
        let lines = child::run("transactions::counts_waits", &[(VARIABLE, name(current()))]);
        let counts: Vec<u64> = lines[0].split(' ').map(|count| count.parse().unwrap()).collect();
        // A host's worker may be done before.
        let least = u64::from(current() != MlirDevice::Cpu);
        assert!((least..=1).contains(&counts[0]), "{} waits of one transaction of 21 tensors", counts[0]);
        assert!(counts[1] > 10, "{} waits of 21 reads", counts[1]);
    });
}
