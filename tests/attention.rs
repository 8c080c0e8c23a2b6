//! Attention against the same computation in f64.

use crate::support::devices::{Tested, each};
use burn_backend::ops::{AttentionModuleOptions, FloatTensorOps, ModuleOps};
use burn_backend::{FloatDType, Shape, Slice, TensorData, read_sync};
use burn_mlir::{Mlir, MlirTensor};

/// Extents, and what is special.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
    causal: bool,
    scale: Option<f64>,
    softcap: Option<f64>,
    mask: Mask,
    bias: bool,
    /// Queries, keys and values are parts of one tensor.
    packed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mask {
    None,
    /// The end of each sequence is padding.
    Padding,
    /// Any element; some queries see nothing.
    Any,
}

/// As many queries as keys, in two sequences of two heads.
fn square(tokens: usize, width: usize) -> Case {
    Case {
        batch: 2,
        heads: 2,
        kv_heads: 2,
        queries: tokens,
        keys: tokens,
        width,
        value_width: width,
        causal: false,
        scale: None,
        softcap: None,
        mask: Mask::None,
        bias: false,
        packed: false,
    }
}

/// Largest relative error of a query's result, per type.
const TYPES: [(FloatDType, f64); 4] =
    [(FloatDType::F64, 1e-10), (FloatDType::F32, 1e-5), (FloatDType::F16, 2e-3), (FloatDType::BF16, 1.5e-2)];

fn data(tensor: &MlirTensor) -> Vec<f64> {
    read_sync(Mlir::float_into_data(tensor.clone())).unwrap().iter::<f64>().collect()
}

/// Values in [-2, 2) without structure, rounded to a type.
fn tensor(shape: [usize; 4], salt: u64, dtype: FloatDType) -> MlirTensor {
    let mut state = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
        })
        .collect();
    let values = TensorData::new(values, Shape::new(shape));
    Mlir::float_cast(Mlir::float_from_data(values, &Mlir::current()), dtype)
}

/// Parts `[batch, heads, tokens, width]` of one tensor `[batch, tokens, all heads · width]`.
fn parts(case: &Case, dtype: FloatDType) -> [MlirTensor; 3] {
    let Case { batch, heads, kv_heads, queries, width, .. } = *case;
    let all = heads + 2 * kv_heads;
    let whole = tensor([batch, queries, all * width, 1], 1, dtype);
    let whole = Mlir::float_reshape(whole, Shape::new([batch, queries, all * width]));
    let mut start = 0;
    [heads, kv_heads, kv_heads].map(|count| {
        let columns = Slice::new(start as isize, Some((start + count * width) as isize), 1);
        start += count * width;
        let part = Mlir::float_slice(whole.clone(), &[Slice::full(), Slice::full(), columns]);
        let part = Mlir::float_reshape(part, Shape::new([batch, queries, count, width]));
        Mlir::float_swap_dims(part, 1, 2)
    })
}

/// Whether a mask hides a key from a query.
fn hides(case: &Case, [batch, head, query, key]: [usize; 4]) -> bool {
    match case.mask {
        Mask::None => false,
        Mask::Padding => key + batch * 3 >= case.keys.saturating_sub(1).max(1),
        Mask::Any => query % 5 == 3 || (query * 7 + key * 5 + head * 3 + batch) % 4 == 0,
    }
}

fn every(shape: [usize; 4]) -> impl Iterator<Item = [usize; 4]> {
    let [b, h, q, k] = shape;
    (0..b * h * q * k).map(move |i| [i / (h * q * k), i / (q * k) % h, i / k % q, i % k])
}

/// The result's rows in f64 from rounded operands.
fn expected(case: &Case, [query, key, value]: [&[f64]; 3], bias: Option<&[f64]>) -> Vec<Vec<f64>> {
    let Case { batch, heads, kv_heads, queries, keys, width, value_width, .. } = *case;
    let scale = case.scale.unwrap_or(1.0 / (width as f64).sqrt());
    let row = |values: &[f64], at: usize, width: usize| values[at * width..(at + 1) * width].to_vec();
    every([batch, heads, queries, 1])
        .map(|[b, h, q, _]| {
            let of = b * kv_heads + h / (heads / kv_heads);
            let mine = row(query, (b * heads + h) * queries + q, width);
            let scores: Vec<f64> = (0..keys)
                .map(|k| {
                    let theirs = row(key, of * keys + k, width);
                    let mut score = mine.iter().zip(&theirs).map(|(a, b)| a * b).sum::<f64>() * scale;
                    if let Some(cap) = case.softcap {
                        score = cap * (score / cap).tanh();
                    }
                    if hides(case, [b, h, q, k]) || case.causal && k + queries > q + keys {
                        score = f64::NEG_INFINITY;
                    }
                    score + bias.map_or(0.0, |bias| bias[(h * queries + q) * keys + k])
                })
                .collect();
            let max = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
            let total = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            let mut result = vec![0.0; value_width];
            for (k, weight) in weights.iter().enumerate() {
                let theirs = &value[(of * keys + k) * value_width..][..value_width];
                result.iter_mut().zip(theirs).for_each(|(sum, v)| *sum += weight / total * v);
            }
            result
        })
        .collect()
}

fn check_in(case: Case, types: &[FloatDType]) {
    let Case { batch, heads, kv_heads, queries, keys, width, value_width, .. } = case;
    for &(dtype, tolerance) in TYPES.iter().filter(|(dtype, _)| types.contains(dtype)) {
        let known = std::cell::OnceCell::new();
        each(|| {
            let [query, key, value] = if case.packed {
                parts(&case, dtype)
            } else {
                [
                    tensor([batch, heads, queries, width], 1, dtype),
                    tensor([batch, kv_heads, keys, width], 2, dtype),
                    tensor([batch, kv_heads, keys, value_width], 3, dtype),
                ]
            };
            let bias = case.bias.then(|| tensor([1, heads, queries, keys], 4, dtype));
            let mask = (case.mask != Mask::None).then(|| {
                let shape = match case.mask {
                    Mask::Padding => [batch, 1, 1, keys],
                    _ => [batch, heads, queries, keys],
                };
                let values: Vec<bool> = every(shape).map(|index| hides(&case, index)).collect();
                <Mlir as burn_backend::ops::BoolTensorOps<Mlir>>::bool_from_data(
                    TensorData::new(values, Shape::new(shape)),
                    &Mlir::current(),
                )
            });
            let rows = known.get_or_init(|| {
                let operands = [data(&query), data(&key), data(&value)];
                let bias = bias.as_ref().map(data);
                expected(&case, operands.each_ref().map(Vec::as_slice), bias.as_deref())
            });
            let options =
                AttentionModuleOptions { scale: case.scale, softcap: case.softcap, is_causal: case.causal };
            let result = data(&Mlir::attention(query, key, value, mask, bias, options));
            assert_eq!(result.len(), rows.len() * value_width);
            for (index, (row, should)) in result.chunks(value_width).zip(rows.iter()).enumerate() {
                let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
                let error = norm(&mut row.iter().zip(should).map(|(a, b)| a - b));
                let size = norm(&mut should.iter().copied());
                assert!(
                    error <= tolerance * size,
                    "{case:?} in {dtype:?} on {:?}: query {index} is off by {error:e} of {size:e}",
                    Mlir::current()
                );
            }
        });
    }
}

fn check(case: Case) {
    check_in(case, &[FloatDType::F32, FloatDType::BF16, FloatDType::F16]);
}

#[test]
fn as_many_queries_as_keys() {
    for tokens in [1, 64, 70, 129] {
        for width in [16, 40, 64, 80, 128, 256] {
            let causal = (tokens + width) % 3 == 0;
            check_in(Case { causal, ..square(tokens, width) }, &[FloatDType::BF16]);
        }
    }
    check_in(square(20, 8), &[FloatDType::F64]);
}

#[test]
fn every_type_and_both_orders() {
    for causal in [false, true] {
        for width in [64, 128] {
            check(Case { causal, ..square(70, width) });
        }
        check(Case { causal, heads: 1, kv_heads: 1, batch: 1, ..square(200, 192) });
    }
}

#[test]
fn long_sequences() {
    let long = |width| Case { batch: 1, ..square(777, width) };
    check_in(Case { causal: true, ..long(64) }, &[FloatDType::BF16]);
    check_in(long(64), &[FloatDType::F16]);
    check_in(Case { causal: true, heads: 1, kv_heads: 1, ..long(128) }, &[FloatDType::BF16]);
}

/// More tiles than multiprocessors, so that blocks of threads take several.
#[test]
fn many_heads() {
    for (batch, tokens, width) in [(10, 10, 128), (10, 10, 64), (2, 200, 16)] {
        for causal in [false, true] {
            let case = Case { batch, heads: 40, kv_heads: 40, causal, ..square(tokens, width) };
            check_in(case, &[FloatDType::BF16]);
        }
    }
}

#[test]
fn other_numbers_of_keys() {
    for (queries, keys) in [(1, 300), (100, 30), (130, 257), (300, 70), (65, 1)] {
        for causal in [false, true] {
            let case = Case { queries, keys, causal, width: 64, value_width: 64, ..square(1, 1) };
            check(case);
            check_in(Case { width: 128, value_width: 128, ..case }, &[FloatDType::BF16]);
        }
    }
}

#[test]
fn heads_that_share_keys() {
    for kv_heads in [1, 2] {
        check(Case { heads: 6, kv_heads, causal: true, ..square(66, 64) });
    }
}

#[test]
fn values_of_another_width() {
    for (width, value_width) in [(64, 128), (192, 128), (36, 20), (128, 8)] {
        check(Case { value_width, keys: 90, ..square(77, width) });
    }
}

#[test]
fn parts_of_a_packed_tensor() {
    check(Case { packed: true, causal: true, ..square(140, 64) });
    check(Case { packed: true, heads: 4, ..square(33, 128) });
}

#[test]
fn masks() {
    for mask in [Mask::Padding, Mask::Any] {
        check(Case { mask, ..square(70, 64) });
        check_in(Case { mask, causal: true, keys: 150, ..square(131, 128) }, &[FloatDType::BF16]);
        check_in(Case { mask, ..square(40, 256) }, &[FloatDType::BF16]);
    }
}

#[test]
fn biases_caps_and_scales() {
    check(Case { bias: true, ..square(70, 64) });
    check(Case { softcap: Some(0.7), ..square(70, 64) });
    check(Case { scale: Some(0.3), ..square(70, 64) });
    check(Case { scale: Some(-0.1), causal: true, ..square(70, 64) });
    check(Case { scale: Some(0.0), ..square(70, 64) });
    let all = Case { bias: true, softcap: Some(2.0), mask: Mask::Any, causal: true, ..square(130, 128) };
    check(Case { scale: Some(0.2), keys: 170, ..all });
}

/// Nothing to attend to gives 0.
#[test]
fn no_keys() {
    each(|| {
        let query = tensor([1, 2, 3, 4], 1, FloatDType::F32);
        let none = tensor([1, 2, 0, 4], 2, FloatDType::F32);
        let options = AttentionModuleOptions::default();
        let result = data(&Mlir::attention(query, none.clone(), none, None, None, options));
        assert_eq!(result, [0.0; 24]);
    });
}

/// Queries and keys without elements: all keys count alike.
#[test]
fn no_elements() {
    each(|| {
        let none = tensor([1, 1, 2, 0], 1, FloatDType::F32);
        let value = tensor([1, 1, 2, 3], 2, FloatDType::F32);
        let options = AttentionModuleOptions { scale: Some(1.0), ..Default::default() };
        let result = data(&Mlir::attention(none.clone(), none, value.clone(), None, None, options));
        let value = data(&value);
        for (column, is) in result.iter().enumerate() {
            let should = (value[column % 3] + value[3 + column % 3]) / 2.0;
            assert!((is - should).abs() < 1e-6, "{is}, should be {should}");
        }
    });
}

/// The same bits every time.
#[test]
fn repeated() {
    each(|| {
        let [q, k, v] = [1, 2, 3].map(|salt| tensor([2, 20, 300, 64], salt, FloatDType::BF16));
        let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
        let run = || data(&Mlir::attention(q.clone(), k.clone(), v.clone(), None, None, options));
        let first = run();
        assert!((0..5).all(|_| run() == first));
    });
}
