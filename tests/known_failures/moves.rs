//! Elements that change places or are only read again.

use super::{counting, floats, int_list, list, noise};
use crate::support::devices::{device, each};
use burn::prelude::*;
use burn::tensor::{DType, IntDType, TensorData};

#[test]
fn relayout_writes_every_element() {
    each(|| {
        for [n, c, h, w] in
            [[1, 3, 5, 7], [2, 4, 3, 13], [1, 1, 9, 33], [2, 5, 1, 1], [1, 8, 7, 127], [1, 16, 3, 65]]
        {
            let x = counting([n, c, h, w]);
            let behind = x.clone().permute([0, 2, 3, 1]);
            let mut expected = Vec::new();
            for (i, y, x, k) in
                (0..n * h * w * c).map(|at| (at / c / w / h, at / c / w % h, at / c % w, at % c))
            {
                expected.push((((i * c + k) * h + y) * w + x) as f64);
            }
            assert_eq!(list(behind.clone()), expected, "{:?}", [n, c, h, w]);
            assert_eq!(list(behind.clone() + 0.0), expected);
            for dtype in [DType::F16, DType::F64] {
                let small = expected.iter().map(|v| v % 1024.0).collect::<Vec<_>>();
                let other = (x.clone() % 1024.0).cast(dtype).permute([0, 2, 3, 1]);
                assert_eq!(list(other.clone() * 1.0), small, "{dtype:?}");
                assert_eq!(list(other.permute([0, 3, 1, 2]) * 1.0), list(x.clone() % 1024.0));
            }
            let bytes = (x.clone() % 100.0).int().cast(IntDType::I8).permute([0, 2, 3, 1]);
            assert_eq!(int_list(bytes), expected.iter().map(|v| (v % 100.0) as i64).collect::<Vec<_>>());
        }
    });
}

/// Many operations, each of which needs the one before; `read` after each of them.
fn dependent(read: impl Fn(&Tensor<2>)) -> Vec<u32> {
    let mut x = floats(noise(33 * 17, 5), [33, 17]);
    let weight = floats(noise(17 * 17, 6), [17, 17]) * 0.2;
    for step in 0..120 {
        x = match step % 6 {
            0 => x * 1.25 + 0.125,
            1 => x.tanh(),
            2 => x.matmul(weight.clone()),
            3 => x.clone() - x.mean_dim(1),
            4 => x.clone().slice_assign([0..33, 3..4], x.clone().slice([0..33, 5..6]) * 2.0),
            _ => x.clone() + x.flip([0]),
        };
        read(&x);
    }
    x.into_data().iter::<f32>().map(f32::to_bits).collect()
}

#[test]
fn a_loop_of_dependent_operations_is_the_same_with_waits() {
    each(|| {
        let plain = dependent(|_| ());
        assert!(plain.iter().all(|bits| f32::from_bits(*bits).is_finite()));
        assert_eq!(plain, dependent(|_| device().sync().unwrap()));
    });
}

#[test]
fn gradients_through_nothing() {
    each(|| {
        let device = device().autodiff();
        let leaf = || Tensor::<2>::ones([3, 4], &device).require_grad();
        let none = || Tensor::<1, Int>::from_data(TensorData::new(Vec::<i64>::new(), [0]), &device);
        let zero = |x: &Tensor<2>, y: Tensor<2>| {
            let sum = y.sum();
            let grads = sum.backward();
            assert_eq!(list(sum), [0.0]);
            assert_eq!(list(x.grad(&grads).unwrap()), [0.0; 12]);
        };
        for dim in [0, 1] {
            let x = leaf();
            zero(&x, x.clone().select(dim, none()));
        }
        // A slice of nothing is no part of Burn's graphs.
        let x = leaf();
        let indices = Tensor::<2, Int>::from_data(TensorData::new(Vec::<i64>::new(), [3, 0]), &device);
        zero(&x, x.clone().gather(1, indices));
        let x = leaf();
        zero(&x, x.clone().matmul(Tensor::<2>::zeros([4, 0], &device)));
    });
}

#[test]
fn blocks_of_a_quantised_row_as_rows() {
    use burn::tensor::quantization::{QuantScheme, QuantValue, ScaleDtype};
    each(|| {
        let scheme = QuantScheme::default().with_value(QuantValue::Q8S).per_block([16], ScaleDtype::F32);
        let row = (0..32).map(|i| (i * 37 % 64) as f32 - 31.5).collect::<Vec<_>>();
        let quantised = floats(row.clone(), [32]).quantize_dynamic(&scheme);
        let rows = quantised.clone().reshape([2, 16]).dequantize();
        assert_eq!(rows.dims(), [2, 16]);
        let values = list(rows);
        assert_eq!(values, list(quantised.dequantize()));
        for (block, values) in row.chunks(16).zip(values.chunks(16)) {
            let scale = block.iter().fold(0f32, |peak, v| peak.max(v.abs())) / 127.0;
            for (a, b) in block.iter().zip(values) {
                assert!((*a as f64 - b).abs() <= scale as f64 * 0.5001, "{b} for {a}");
            }
        }
    });
}
