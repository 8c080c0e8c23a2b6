//! Contractions that are not plain aligned matrix products in the types of matrix units: f32, f64 and integers, views
//! that start and end anywhere, short sides, shared sums, convolutions with their gradients.
//!
//! Operands are small multiples of 1/8 or integers, so that sums are exact in any order: results are compared bit for
//! bit with integer arithmetic, rounded once.

use crate::support::devices::{current, each};
use crate::support::exact::{integers, product, rounded, tensor, transposed, values};
use burn_backend::ops::{ConvOptions, FloatTensorOps, IntTensorOps, ModuleOps};
use burn_backend::{DType, FloatDType, IntDType, Slice, TensorData, read_sync};
use burn_mlir::{Mlir, MlirDevice, MlirTensor};

/// Small integers that look random.
fn numbers(count: usize, salt: usize) -> Vec<i64> {
    integers(count, salt, 4)
}

fn same(name: &str, ours: MlirTensor, exact: &[i64], dtype: DType) {
    let ours = values(ours);
    assert_eq!(ours.len(), exact.len(), "{name}");
    for (at, (&ours, &exact)) in ours.iter().zip(exact).enumerate() {
        let expected = rounded(exact as f64 / 64.0, dtype);
        assert!(ours == expected, "{name}: element {at} is {ours}, should be {expected}");
    }
}

/// Types to test: all on a GPU, which has several kinds of kernels.
fn types() -> Vec<DType> {
    let all = [DType::F32, DType::BF16, DType::F16, DType::Flex32, DType::F64];
    let count = if current() == MlirDevice::Cpu { 2 } else { all.len() };
    all[..count].to_vec()
}

/// Short sides, odd sizes, tiles that are full and not, long sums of few results.
const SHAPES: [[usize; 3]; 18] = [
    [1, 1, 3],
    [1, 1, 5000],
    [1, 1000, 257],
    [1000, 1, 257],
    [1, 640, 2048],
    [3, 5, 4000],
    [16, 500, 300],
    [500, 12, 300],
    [65, 63, 17],
    [64, 64, 64],
    [128, 128, 16],
    [127, 129, 33],
    [256, 192, 100],
    [100, 77, 1333],
    [64, 64, 4096],
    [300, 2, 1],
    [513, 257, 40],
    [1024, 1040, 48],
];

#[test]
fn products_of_wide_types() {
    for [m, n, k] in SHAPES {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let exact = product(&a, &b, [m, n, k]);
        each(|| {
            let mut products = Vec::new();
            for dtype in types().into_iter().filter(|dtype| matches!(dtype, DType::F32 | DType::F64)) {
                for (left, right) in [(false, false), (false, true), (true, false), (true, true)] {
                    let x = if left {
                        Mlir::float_swap_dims(tensor(&transposed(&a, m, k), [k, m], dtype), 0, 1)
                    } else {
                        tensor(&a, [m, k], dtype)
                    };
                    let y = if right {
                        Mlir::float_swap_dims(tensor(&transposed(&b, k, n), [n, k], dtype), 0, 1)
                    } else {
                        tensor(&b, [k, n], dtype)
                    };
                    let name = format!("{m}x{n}x{k} {dtype:?} {left} {right}");
                    products.push((name, dtype, Mlir::float_matmul(x, y)));
                }
            }
            for (name, dtype, product) in products {
                same(&name, product, &exact, dtype);
            }
        });
    }
}

#[test]
fn products_of_integers() {
    for [m, n, k] in [[1, 1, 3], [33, 65, 100], [128, 128, 512], [1, 300, 700], [130, 70, 31]] {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let exact = product(&a, &b, [m, n, k]);
        each(|| {
            for dtype in [IntDType::I32, IntDType::I64, IntDType::I16, IntDType::I8] {
                let int = |values: &[i64], shape: [usize; 2]| {
                    let tensor = Mlir::int_from_data(TensorData::new(values.to_vec(), shape), &current());
                    Mlir::int_cast(tensor, dtype)
                };
                let product = Mlir::int_matmul(int(&a, [m, k]), int(&b, [k, n]));
                let product: Vec<i64> =
                    read_sync(Mlir::int_into_data(product)).unwrap().iter::<i64>().collect();
                let wrapped = exact.iter().map(|&sum| match dtype {
                    IntDType::I8 => i64::from(sum as i8),
                    IntDType::I16 => i64::from(sum as i16),
                    _ => sum,
                });
                assert_eq!(product, wrapped.collect::<Vec<_>>(), "{m}x{n}x{k} {dtype:?}");
            }
        });
    }
}

/// Boxes inside larger matrices: what is around them is not a number.
#[test]
fn products_of_views() {
    let cases =
        [([64, 64, 64], [0, 0], [8, 8]), ([100, 76, 332], [4, 2], [4, 6]), ([130, 70, 50], [1, 3], [7, 3])];
    for ([m, n, k], before, after) in cases {
        let (a, b) = (numbers(m * k, 3), numbers(k * n, 4));
        let exact = product(&a, &b, [m, n, k]);
        each(|| {
            for dtype in types() {
                for other in [false, true] {
                    let inside = |values: &[i64], [rows, columns]: [usize; 2]| {
                        let (rows, columns, values) = match other {
                            true => (columns, rows, transposed(values, rows, columns)),
                            false => (rows, columns, values.to_vec()),
                        };
                        let [height, width] = [rows + before[0] + after[0], columns + before[1] + after[1]];
                        let mut around = vec![f64::NAN; height * width];
                        for (at, &value) in values.iter().enumerate() {
                            let (row, column) = (at / columns + before[0], at % columns + before[1]);
                            around[row * width + column] = value as f64 / 8.0;
                        }
                        let stored = if dtype == DType::Flex32 { DType::F32 } else { dtype };
                        let data = TensorData::new(around, [height, width]).convert_dtype(stored);
                        let mut tensor = Mlir::float_from_data(data, &current());
                        if dtype == DType::Flex32 {
                            tensor = Mlir::float_cast(tensor, FloatDType::Flex32);
                        }
                        let rows = Slice::from(before[0] as isize..(before[0] + rows) as isize);
                        let columns = Slice::from(before[1] as isize..(before[1] + columns) as isize);
                        let view = Mlir::float_slice(tensor, &[rows, columns]);
                        if other { Mlir::float_swap_dims(view, 0, 1) } else { view }
                    };
                    let product = Mlir::float_matmul(inside(&a, [m, k]), inside(&b, [k, n]));
                    same(&format!("{m}x{n}x{k} {dtype:?} {other}"), product, &exact, dtype);
                }
            }
        });
    }
}

/// The heads of an attention: batches between rows and sums, one operand the same for all of a batch.
#[test]
fn batches_between_other_dimensions() {
    let [batch, heads, m, n, k] = [3, 4, 40, 24, 72];
    let (a, b) = (numbers(batch * m * heads * k, 5), numbers(n * heads * k, 6));
    let mut exact = Vec::new();
    for at in 0..batch {
        for head in 0..heads {
            for row in 0..m {
                for column in 0..n {
                    let terms = (0..k).map(|i| {
                        a[((at * m + row) * heads + head) * k + i] * b[(column * heads + head) * k + i]
                    });
                    exact.push(terms.sum());
                }
            }
        }
    }
    each(|| {
        for dtype in types() {
            let x = Mlir::float_swap_dims(tensor(&a, [batch, m, heads, k], dtype), 1, 2);
            let y = Mlir::float_permute(tensor(&b, [1, n, heads, k], dtype), &[0, 2, 3, 1]);
            same(&format!("{dtype:?}"), Mlir::float_matmul(x, y), &exact, dtype);
        }
    });
}

/// A sum that many blocks share has the same bits every time.
#[test]
fn shared_sums_are_the_same_every_time() {
    each(|| {
        for dtype in types() {
            let ramp = |count: usize, step: f64| -> Vec<f64> {
                (0..count).map(|i| (i as f64 * step).sin()).collect()
            };
            let make = |values: Vec<f64>, shape: [usize; 2]| {
                let stored = if dtype == DType::Flex32 { DType::F32 } else { dtype };
                let data = TensorData::new(values, shape).convert_dtype(stored);
                let tensor = Mlir::float_from_data(data, &current());
                if dtype == DType::Flex32 { Mlir::float_cast(tensor, FloatDType::Flex32) } else { tensor }
            };
            let (m, n, k) = (70, 50, 6000);
            let x = make(ramp(m * k, 0.7), [m, k]);
            let y = make(ramp(n * k, 1.3), [k, n]);
            let first: Vec<u64> =
                values(Mlir::float_matmul(x.clone(), y.clone())).iter().map(|v| v.to_bits()).collect();
            for _ in 0..5 {
                let again = values(Mlir::float_matmul(x.clone(), y.clone()));
                assert!(again.iter().map(|v| v.to_bits()).eq(first.iter().copied()), "{dtype:?}");
            }
        }
    });
}

/// Sizes of a 2D convolution.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    channels: usize,
    filters: usize,
    extent: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

impl Sizes {
    fn count(&self, axis: usize) -> usize {
        let reach = self.dilation[axis] * (self.kernel[axis] - 1);
        (self.extent[axis] + 2 * self.padding[axis] - reach - 1) / self.stride[axis] + 1
    }

    /// Calls `visit` with the positions of result, input and weight of every product.
    fn visit(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (inputs, outputs) = (self.channels / self.groups, self.filters / self.groups);
        let counts = [self.count(0), self.count(1)];
        for n in 0..self.batch {
            for o in 0..self.filters {
                for y in 0..counts[0] {
                    for x in 0..counts[1] {
                        let result = ((n * self.filters + o) * counts[0] + y) * counts[1] + x;
                        for c in 0..inputs {
                            for i in 0..self.kernel[0] {
                                for j in 0..self.kernel[1] {
                                    let row = y * self.stride[0] + i * self.dilation[0];
                                    let column = x * self.stride[1] + j * self.dilation[1];
                                    let (Some(row), Some(column)) = (
                                        row.checked_sub(self.padding[0]).filter(|&r| r < self.extent[0]),
                                        column.checked_sub(self.padding[1]).filter(|&c| c < self.extent[1]),
                                    ) else {
                                        continue;
                                    };
                                    let channel = o / outputs * inputs + c;
                                    let input = ((n * self.channels + channel) * self.extent[0] + row)
                                        * self.extent[1]
                                        + column;
                                    let weight = ((o * inputs + c) * self.kernel[0] + i) * self.kernel[1] + j;
                                    visit(result, input, weight);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn convolution(sizes: Sizes) {
    let (inputs, counts) = (sizes.channels / sizes.groups, [sizes.count(0), sizes.count(1)]);
    let input_shape = [sizes.batch, sizes.channels, sizes.extent[0], sizes.extent[1]];
    let weight_shape = [sizes.filters, inputs, sizes.kernel[0], sizes.kernel[1]];
    let result_shape = [sizes.batch, sizes.filters, counts[0], counts[1]];
    let all = |shape: [usize; 4]| shape.iter().product::<usize>();
    let (x, w) = (numbers(all(input_shape), 7), numbers(all(weight_shape), 8));
    let grad = numbers(all(result_shape), 9);
    let (mut forward, mut input_grad, mut weight_grad) =
        (vec![0; grad.len()], vec![0; x.len()], vec![0; w.len()]);
    sizes.visit(|result, input, weight| {
        forward[result] += x[input] * w[weight];
        input_grad[input] += grad[result] * w[weight];
        weight_grad[weight] += grad[result] * x[input];
    });
    each(|| {
        let Sizes { stride, padding, dilation, groups, .. } = sizes;
        for dtype in types() {
            let options = ConvOptions::new(stride, padding, dilation, groups);
            let (x, w) = (tensor(&x, input_shape, dtype), tensor(&w, weight_shape, dtype));
            let grad = tensor(&grad, result_shape, dtype);
            let y = Mlir::conv2d(x.clone(), w.clone(), None, options.clone());
            let dx = Mlir::conv2d_x_backward(x.clone(), w.clone(), grad.clone(), options.clone());
            let dw = Mlir::conv2d_weight_backward(x, w, grad, options);
            same(&format!("forward {dtype:?} {sizes:?}"), y, &forward, dtype);
            same(&format!("input {dtype:?} {sizes:?}"), dx, &input_grad, dtype);
            same(&format!("weight {dtype:?} {sizes:?}"), dw, &weight_grad, dtype);
        }
    });
}

#[test]
fn convolutions_over_many_channels() {
    let plain = Sizes {
        batch: 2,
        channels: 16,
        filters: 24,
        extent: [14, 14],
        kernel: [3, 3],
        stride: [1, 1],
        padding: [1, 1],
        dilation: [1, 1],
        groups: 1,
    };
    convolution(plain);
    convolution(Sizes { padding: [0, 0], ..plain });
    convolution(Sizes { stride: [2, 2], extent: [15, 13], ..plain });
    convolution(Sizes { dilation: [2, 1], padding: [2, 0], ..plain });
    convolution(Sizes { kernel: [1, 1], padding: [0, 0], ..plain });
    convolution(Sizes { channels: 64, filters: 64, extent: [28, 28], batch: 1, ..plain });
    convolution(Sizes { channels: 32, filters: 32, groups: 2, extent: [9, 7], ..plain });
}

#[test]
fn convolutions_over_few_channels() {
    let plain = Sizes {
        batch: 3,
        channels: 3,
        filters: 10,
        extent: [17, 19],
        kernel: [5, 3],
        stride: [1, 2],
        padding: [2, 1],
        dilation: [1, 1],
        groups: 1,
    };
    convolution(plain);
    convolution(Sizes { channels: 6, filters: 6, groups: 6, kernel: [3, 3], padding: [1, 1], ..plain });
    convolution(Sizes { channels: 4, filters: 6, groups: 2, stride: [2, 1], ..plain });
}
