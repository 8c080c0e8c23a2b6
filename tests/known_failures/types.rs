//! Every element type.

use super::{int_list, ints};
use crate::support::devices::{device, each};
use burn::prelude::*;
use burn::tensor::{DType, IntDType, TensorData};

#[test]
fn shifts_of_every_type() {
    each(|| {
        let (values, by) = (ints(vec![1, 2, 3, 4], [4]), ints(vec![0, 1, 2, 3], [4]));
        assert_eq!(int_list(values.clone().bitwise_left_shift(by.clone())), [1, 4, 12, 32]);
        use IntDType::*;
        for (dtype, bits, signed) in [
            (I8, 8, true),
            (I16, 16, true),
            (I32, 32, true),
            (I64, 64, true),
            (U8, 8, false),
            (U16, 16, false),
            (U32, 32, false),
        ] {
            let low: i64 = if signed { -1 << (bits - 1) } else { 0 };
            let high: i64 = if signed { !low } else { (1 << bits) - 1 };
            let values = [1, 3, low, high, low + 1, 77];
            for by in 0..bits.min(32) {
                let of = |values: &[i64]| {
                    let options = (&device(), DType::from(dtype));
                    Tensor::<1, Int>::from_data(TensorData::new(values.to_vec(), [6]), options)
                };
                let (x, shift) = (of(&values), of(&[by; 6]));
                let wrapped = |v: i64| {
                    let v = v << (64 - bits);
                    if signed { v >> (64 - bits) } else { ((v as u64) >> (64 - bits)) as i64 }
                };
                let left: Vec<i64> = values.iter().map(|v| wrapped(v.wrapping_shl(by as u32))).collect();
                let right: Vec<i64> = values.iter().map(|v| v >> by).collect();
                assert_eq!(int_list(x.clone().bitwise_left_shift(shift.clone())), left, "{dtype:?} << {by}");
                assert_eq!(int_list(x.clone().bitwise_right_shift(shift)), right, "{dtype:?} >> {by}");
            }
        }
    });
}

#[test]
fn data_of_every_type() {
    each(|| {
        let check = |data: TensorData| {
            let tensor = Tensor::<1, Int>::from_data(data.clone(), &device());
            assert_eq!(int_list(tensor), data.iter::<i64>().collect::<Vec<_>>(), "{:?}", data.dtype());
            let dtype = data.dtype();
            let kept = Tensor::<1, Int>::from_data(data, (&device(), dtype));
            assert_eq!(kept.dtype(), dtype);
            assert_eq!(int_list(kept + 1), [2, 3, 101]);
        };
        check(TensorData::new(vec![1i8, 2, 100], [3]));
        check(TensorData::new(vec![1i16, 2, 100], [3]));
        check(TensorData::new(vec![1i32, 2, 100], [3]));
        check(TensorData::new(vec![1i64, 2, 100], [3]));
        check(TensorData::new(vec![1u8, 2, 100], [3]));
        check(TensorData::new(vec![1u16, 2, 100], [3]));
        check(TensorData::new(vec![1u32, 2, 100], [3]));
        check(TensorData::new(vec![1u64, 2, 100], [3]));
        let truth = Tensor::<1, Bool>::from_data(TensorData::new(vec![true, false, true], [3]), &device());
        assert_eq!(truth.clone().into_data().iter::<bool>().collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(int_list(truth.int()), [1, 0, 1]);
    });
}
