//! Operations on quantised tensors against f64 arithmetic on the values they have, and against the order of those.

use super::{data, numbers, quantized, read, same, tensor, values};
use crate::support::devices::{current, each};
use burn_backend::ops::{IntTensorOps, QTensorOps};
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn_backend::{DType, FloatDType, IntDType, Scalar, TensorMetadata, TensorPrimitive, read_sync};
use burn_mlir::{Mlir, MlirTensor, QuantizedTensor, inspect};

fn schemes() -> Vec<QuantScheme> {
    let of = |value| QuantScheme::default().with_value(value);
    vec![
        of(QuantValue::Q8F).with_store(QuantStore::Native),
        of(QuantValue::E5M2),
        of(QuantValue::Q4S).per_block([8], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32),
    ]
}

fn float(result: TensorPrimitive<Mlir>) -> Vec<f32> {
    match result {
        TensorPrimitive::Float(tensor) => read(tensor),
        TensorPrimitive::QFloat(_) => panic!("quantised again without being asked to"),
    }
}

fn ints(tensor: MlirTensor) -> Vec<i64> {
    read_sync(Mlir::int_into_data(tensor)).unwrap().iter::<i64>().collect()
}

fn close(actual: &[f32], expected: impl Iterator<Item = f64>, what: &str) {
    let expected: Vec<f64> = expected.collect();
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (at, (&a, &b)) in actual.iter().zip(&expected).enumerate() {
        assert!((f64::from(a) - b).abs() <= 1e-5 * b.abs().max(1.0), "{what}: {a} instead of {b} at {at}");
    }
}

#[test]
fn products_of_matrices() {
    each(|| {
        for scheme in schemes() {
            for [m, k, n] in [[1, 32, 24], [20, 48, 40]] {
                let what = format!("[{m}, {k}] times [{k}, {n}] by {scheme:?}");
                let (x, w) = (numbers(m * k, 40), numbers(k * n, 41));
                let (a, b) = (quantized(&x, &[m, k], &scheme), quantized(&w, &[k, n], &scheme));
                let product = |a: &[f32], b: &[f32], i: usize| {
                    let (row, column) = (i / n, i % n);
                    (0..k).map(|p| f64::from(a[row * k + p]) * f64::from(b[p * n + column])).sum::<f64>()
                };
                let (of_a, of_b) = (values(a.clone()), values(b.clone()));
                let [qa, qb] = [a, b].map(TensorPrimitive::<Mlir>::QFloat);
                let fx = TensorPrimitive::Float(tensor(&x, &[m, k]));
                let fw = TensorPrimitive::Float(tensor(&w, &[k, n]));
                let all = 0..m * n;
                close(
                    &float(Mlir::q_matmul(fx, qb.clone())),
                    all.clone().map(|i| product(&x, &of_b, i)),
                    &what,
                );
                close(
                    &float(Mlir::q_matmul(qa.clone(), fw)),
                    all.clone().map(|i| product(&of_a, &w, i)),
                    &what,
                );
                close(&float(Mlir::q_matmul(qa, qb)), all.map(|i| product(&of_a, &of_b, i)), &what);
            }
        }
    });
}

#[test]
fn arithmetic() {
    each(|| {
        for scheme in schemes() {
            let what = format!("{scheme:?}");
            let [a, b] = [42, 43].map(|salt| quantized(&numbers(64, salt), &[4, 16], &scheme));
            let [x, y] = [&a, &b].map(|q| values(q.clone()));
            let pairs = || x.iter().zip(&y).map(|(&a, &b)| (f64::from(a), f64::from(b)));
            close(&float(Mlir::q_add(a.clone(), b.clone())), pairs().map(|(a, b)| a + b), &what);
            close(&float(Mlir::q_mul(a.clone(), b.clone())), pairs().map(|(a, b)| a * b), &what);
            let scaled = Mlir::q_mul_scalar(a.clone(), Scalar::Float(2.5));
            close(&float(scaled), pairs().map(|(a, _)| a * 2.5), &what);
            close(&float(Mlir::q_tanh(a.clone())), pairs().map(|(a, _)| a.tanh()), &what);
            close(&float(Mlir::q_sum(a.clone())), std::iter::once(pairs().map(|(a, _)| a).sum()), &what);
            let sums = (0..4).map(|row| x[row * 16..][..16].iter().map(|&x| f64::from(x)).sum());
            close(&float(Mlir::q_sum_dim(a.clone(), 1)), sums, &what);
            let clamped = Mlir::q_clamp(a.clone(), Scalar::Float(-0.5), Scalar::Float(0.25));
            close(&float(clamped), pairs().map(|(a, _)| a.clamp(-0.5, 0.25)), &what);
        }
    });
}

/// What is sorted or chosen keeps its value where one scale is for all; in blocks it is within a step.
fn near(q: QuantizedTensor, expected: &[f32], what: &str) {
    let DType::QFloat(scheme) = q.dtype() else { panic!("{what}: {:?}", q.dtype()) };
    let actual = values(q);
    let asymmetric = scheme.value == QuantValue::Q8F && what.starts_with("abs");
    if scheme.block_size().is_none() && !asymmetric {
        return same(&actual, expected, what);
    }
    let peak = expected.iter().fold(0f32, |peak, x| peak.max(x.abs()));
    let (low, high) = scheme.value.range();
    let bound = peak * 1.13 / (high - low) * 1.001;
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (at, (a, b)) in actual.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= bound, "{what}: {a} instead of {b} at {at}");
    }
}

#[test]
fn orders_and_extremes() {
    each(|| {
        for scheme in schemes() {
            let what = |op: &str| format!("{op} by {scheme:?}");
            let q = quantized(&numbers(4 * 16, 44), &[4, 16], &scheme);
            let x = values(q.clone());
            let rows = || x.chunks(16);
            let of_rows = |f: &dyn Fn(&[f32]) -> f32| rows().map(f).collect::<Vec<f32>>();
            let largest = |row: &[f32]| row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let least = |row: &[f32]| row.iter().copied().fold(f32::INFINITY, f32::min);
            let magnitude = |row: &[f32]| row.iter().fold(0f32, |m, x| m.max(x.abs()));
            near(Mlir::q_max_dim(q.clone(), 1), &of_rows(&largest), &what("max"));
            near(Mlir::q_min_dim(q.clone(), 1), &of_rows(&least), &what("min"));
            near(Mlir::q_max_abs_dim(q.clone(), 1), &of_rows(&magnitude), &what("abs max"));
            near(Mlir::q_max(q.clone()), &[largest(&x)], &what("max of all"));
            near(Mlir::q_min(q.clone()), &[least(&x)], &what("min of all"));
            near(Mlir::q_max_abs(q.clone()), &[magnitude(&x)], &what("abs max of all"));
            let absolute: Vec<f32> = x.iter().map(|x| x.abs()).collect();
            near(Mlir::q_abs(q.clone()), &absolute, &what("abs"));
            let first = |best: f32, row: &[f32]| row.iter().position(|&x| x == best).unwrap() as i64;
            let positions = ints(Mlir::q_argmax(q.clone(), 1, IntDType::I64));
            let expected: Vec<i64> = rows().map(|row| first(largest(row), row)).collect();
            assert_eq!(positions, expected, "{}", what("argmax"));
            let positions = ints(Mlir::q_argmin(q.clone(), 1, IntDType::I32));
            let expected: Vec<i64> = rows().map(|row| first(least(row), row)).collect();
            assert_eq!(positions, expected, "{}", what("argmin"));
            for descending in [false, true] {
                let order = |row: &[f32]| {
                    let mut order: Vec<usize> = (0..16).collect();
                    order.sort_by(|&a, &b| {
                        let ascending = row[a].partial_cmp(&row[b]).unwrap();
                        if descending { ascending.reverse() } else { ascending }
                    });
                    order
                };
                let sorted: Vec<f32> =
                    rows().flat_map(|row| order(row).into_iter().map(|at| row[at])).collect();
                let positions: Vec<i64> =
                    rows().flat_map(|row| order(row).into_iter().map(|at| at as i64)).collect();
                let op = what(if descending { "sort, descending," } else { "sort" });
                near(Mlir::q_sort(q.clone(), 1, descending), &sorted, &op);
                let (both, at) = Mlir::q_sort_with_indices(q.clone(), 1, descending, IntDType::I64);
                near(both, &sorted, &op);
                assert_eq!(ints(at), positions, "{op}");
                assert_eq!(ints(Mlir::q_argsort(q.clone(), 1, descending, IntDType::I64)), positions, "{op}");
                if descending {
                    let top = |row: &[f32]| sorted_top(row, 3);
                    let expected: Vec<f32> = rows().flat_map(top).collect();
                    near(Mlir::q_topk(q.clone(), 1, 3), &expected, &what("topk"));
                    let (top, at) = Mlir::q_topk_with_indices(q.clone(), 1, 3, IntDType::I32);
                    near(top, &expected, &what("topk"));
                    let expected: Vec<i64> = positions.chunks(16).flat_map(|row| row[..3].to_vec()).collect();
                    assert_eq!(ints(at), expected, "{}", what("topk"));
                }
            }
        }
    });
}

fn sorted_top(row: &[f32], count: usize) -> Vec<f32> {
    let mut sorted = row.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.truncate(count);
    sorted
}

/// The kernels of a graph on the host.
fn kernels(graph: &burn_mlir::ir::Graph) -> usize {
    inspect::kernels(graph, &inspect::host()).unwrap().len()
}

#[test]
fn dequantisation_joins_its_reader() {
    for scheme in schemes() {
        let q = quantized(&numbers(32 * 64, 45), &[32, 64], &scheme);
        let _ = data(q.clone());
        let bias = tensor(&numbers(64, 46), &[64]);
        let (_y, graph) = inspect::graph(current(), || {
            use burn_backend::ops::FloatTensorOps;
            let x = Mlir::float_tanh(Mlir::dequantize(q.clone(), FloatDType::F32));
            Mlir::float_add(x, Mlir::float_reshape(bias.clone(), [1, 64].into()))
        })
        .unwrap();
        assert_eq!(kernels(&graph), 1, "{scheme:?}\n{graph}");
        let (_sums, graph) = inspect::graph(current(), || Mlir::q_sum_dim(q.clone(), 1)).unwrap();
        assert_eq!(kernels(&graph), 1, "{scheme:?}\n{graph}");
    }
}

#[test]
fn codes_fill_their_bytes() {
    for (value, bits) in
        [(QuantValue::Q8S, 8), (QuantValue::Q4S, 4), (QuantValue::Q2F, 2), (QuantValue::E2M1, 4)]
    {
        for store in [QuantStore::Native, QuantStore::PackedU32(0)] {
            let scheme = QuantScheme::default().with_value(value).with_store(store);
            let x = tensor(&numbers(64 * 128, 47), &[64, 128]);
            let (_q, graph) =
                inspect::graph(current(), || Mlir::quantize_dynamic(x.clone(), &scheme)).unwrap();
            let results: usize = (graph.results.iter())
                .map(|id| &graph.nodes[id.index()])
                .map(|node| node.shape.elements() * node.dtype.size())
                .sum();
            assert_eq!(results, 64 * 128 * bits / 8 + 4, "{scheme:?}");
        }
    }
}

/// Quantising, dequantising and packed views are kernels for GPUs, too.
#[test]
fn gpus_have_the_kernels() {
    let target = burn_mlir::ir::Target::named("sm_90a").unwrap();
    let schemes = [
        QuantScheme::default().with_value(QuantValue::Q4S).per_block([8], ScaleDtype::UE8M0),
        QuantScheme::default()
            .with_value(QuantValue::E2M1)
            .per_block([8], ScaleDtype::UE4M3)
            .per_tensor(ScaleDtype::F32),
        QuantScheme::default().with_value(QuantValue::Q8F),
    ];
    for scheme in schemes {
        let x = tensor(&numbers(32 * 64, 48), &[32, 64]);
        let row = TensorPrimitive::Float(tensor(&numbers(32, 49), &[1, 32]));
        let rows = TensorPrimitive::Float(tensor(&numbers(32 * 32, 50), &[32, 32]));
        let (_results, graph) = inspect::graph(current(), || {
            let q = Mlir::quantize_dynamic(x.clone(), &scheme);
            let flipped = Mlir::q_flip(q.clone(), &[1]);
            let product = Mlir::q_matmul(row.clone(), TensorPrimitive::QFloat(q.clone()));
            let products = Mlir::q_matmul(rows.clone(), TensorPrimitive::QFloat(q.clone()));
            (Mlir::dequantize(q.clone(), FloatDType::BF16), flipped, product, products, q)
        })
        .unwrap();
        for kernel in inspect::kernels(&graph, &target).unwrap() {
            assert!(kernel.stages.iter().any(|stage| stage.text.contains(".entry")), "{}", kernel.label);
        }
    }
}
