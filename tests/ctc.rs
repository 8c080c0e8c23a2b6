//! Connectionist temporal classification against PyTorch, all alignments one by one, and differences.

use crate::support::devices::{current, each};
use crate::support::exact::values;
use burn_backend::ops::{ActivationOps, FloatTensorOps, IntTensorOps, ModuleOps};
use burn_backend::{DType, FloatDType, Shape, TensorData, TensorMetadata, read_sync};
use burn_mlir::{Mlir, MlirTensor};

/// Labels of sequences, without the padding.
type Targets<'a> = &'a [&'a [i64]];

struct Case<'a> {
    /// Steps, labels.
    extents: [usize; 2],
    steps: &'a [i64],
    targets: Targets<'a>,
    blank: usize,
}

impl Case<'_> {
    fn logits(&self) -> Vec<f64> {
        let ([t, c], n) = (self.extents, self.steps.len());
        let one = |at: usize| {
            let (t, n, c) = (at / c / n, at / c % n, at % c);
            ((t * 7 + n * 13 + c * 3) as f64 * 0.1).sin() * 2.0
        };
        (0..t * n * c).map(one).collect()
    }

    fn tensor(&self, logits: &[f64], dtype: FloatDType) -> MlirTensor {
        let shape = Shape::new([self.extents[0], self.steps.len(), self.extents[1]]);
        let logits = Mlir::float_from_data(TensorData::new(logits.to_vec(), shape), &current());
        Mlir::log_softmax(Mlir::float_cast(logits, dtype), 2)
    }

    /// Targets padded with what is no label, and lengths.
    fn integers(&self) -> [MlirTensor; 3] {
        let longest = self.targets.iter().map(|t| t.len()).max().unwrap_or(0);
        let padded = |t: &&[i64]| (0..longest).map(|i| *t.get(i).unwrap_or(&-100)).collect::<Vec<_>>();
        let rows = self.targets.iter().flat_map(padded).collect();
        let int =
            |values: Vec<i64>, shape: Shape| Mlir::int_from_data(TensorData::new(values, shape), &current());
        let n = self.steps.len();
        let lengths = self.targets.iter().map(|t| t.len() as i64).collect();
        [
            int(rows, Shape::new([n, longest])),
            int(self.steps.to_vec(), Shape::new([n])),
            int(lengths, Shape::new([n])),
        ]
    }

    fn loss(&self, logs: MlirTensor) -> MlirTensor {
        let [targets, steps, lengths] = self.integers();
        Mlir::ctc_loss(logs, targets, steps, lengths, self.blank)
    }

    fn grad(&self, logs: MlirTensor, factors: &[f64]) -> MlirTensor {
        let [targets, steps, lengths] = self.integers();
        let data = TensorData::new(factors.to_vec(), Shape::new([factors.len()]));
        let factors = Mlir::float_from_data(data, &current());
        let factors = Mlir::float_cast(factors, logs.dtype().into());
        Mlir::ctc_loss_backward(logs, targets, steps, lengths, factors, self.blank)
    }
}

#[track_caller]
fn near(actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    for (at, (a, b)) in actual.iter().zip(expected).enumerate() {
        let close = a == b || (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(close, "element {at}: {a} for {b}");
    }
}

const STEPS: [i64; 5] = [12, 7, 10, 12, 3];

/// What PyTorch 2 gives in f64; gradients are of sequences 0 and 3 at steps 2 and 8, for the factors below.
#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    let cases: [(usize, Targets<'_>, [f64; 5], [f64; 20]); 3] = [
        (
            0,
            &[&[1, 1, 2], &[3, 2], &[], &[1, 2, 1, 2], &[1, 1, 3]],
            [12.408493540887127, 6.8596589208137795, 16.675737090188893, 11.413646578538721, f64::INFINITY],
            [
                -0.2254581578,
                -0.2559882279,
                0.2212641517,
                0.1595205597,
                0.1006616743,
                0.1297976066,
                0.2917701237,
                0.2944691781,
                -0.2543101364,
                -0.4617267719,
                -0.0935948295,
                -0.1284518418,
                -0.5028266699,
                0.2638636242,
                0.461009717,
                0.1771248949,
                0.0514201527,
                -0.0563320123,
                -0.0971368367,
                -0.0750761985,
            ],
        ),
        (
            2,
            &[&[1, 1, 3], &[4, 3], &[], &[1, 3, 1, 3], &[1, 1, 4]],
            [11.61931372614868, 8.346658292015167, 17.852273132176276, 10.660972400315517, f64::INFINITY],
            [
                0.2576654017,
                -0.2763454425,
                -0.2415021932,
                0.1595205597,
                0.1006616743,
                -0.0568376213,
                0.0807987109,
                0.1502775488,
                0.2874881335,
                -0.4617267719,
                0.0485531533,
                -0.0055371698,
                -0.1077897539,
                -0.3962359467,
                0.461009717,
                -0.4376726995,
                0.3473113872,
                0.1422636493,
                0.0231738614,
                -0.0750761985,
            ],
        ),
        (
            4,
            &[&[1, 1, 2], &[3, 2], &[], &[1, 2, 1, 2], &[1, 1, 3]],
            [11.12530779415771, 8.035832470780774, 18.98109062174756, 9.286941532497337, f64::INFINITY],
            [
                0.2576654017,
                -0.4564846567,
                0.2212641517,
                0.1595205597,
                -0.1819654564,
                -0.0568376213,
                0.0248585922,
                -0.0154906991,
                -0.2543101364,
                0.3017798646,
                0.0485531533,
                -0.044297756,
                0.0590152081,
                0.2638636242,
                -0.3271342296,
                -0.4376726995,
                0.2902835205,
                0.1854741015,
                -0.0971368367,
                0.0590519142,
            ],
        ),
    ];
    each(|| {
        for (blank, targets, losses, grads) in &cases {
            let case = Case { extents: [12, 5], steps: &STEPS, targets, blank: *blank };
            for (dtype, tolerance) in
                [(FloatDType::F64, 1e-9), (FloatDType::F32, 1e-5), (FloatDType::F16, 5e-3)]
            {
                let logs = case.tensor(&case.logits(), dtype);
                let loss = case.loss(logs.clone());
                assert_eq!(loss.dtype(), DType::from(dtype));
                near(&values(loss), losses, tolerance);
                let all = values(case.grad(logs, &[1.0, 2.0, 0.5, -1.0, 3.0]));
                assert!(all.iter().all(|v| v.is_finite()));
                let at = |t: usize, n: usize| all[(t * 5 + n) * 5..][..5].to_vec();
                near(&[at(2, 0), at(2, 3), at(8, 0), at(8, 3)].concat(), grads, tolerance);
                // Behind the end of a sequence, and where a target does not fit.
                assert_eq!([at(8, 1), at(2, 4)].concat(), vec![0.0; 10]);
            }
        }
    });
}

#[test]
fn a_loss_is_the_sum_over_all_alignments() {
    let targets: Targets<'_> = &[&[1, 1], &[2, 0, 2], &[], &[0], &[2, 2, 2]];
    let case = Case { extents: [5, 4], steps: &[5, 5, 4, 1, 4], targets, blank: 3 };
    let logs = |t: usize, n: usize, c: usize| {
        let row = &case.logits()[(t * 5 + n) * 4..][..4];
        row[c] - row.iter().map(|v| v.exp()).sum::<f64>().ln()
    };
    let expected: Vec<f64> = (0..5)
        .map(|n| {
            let steps = case.steps[n] as usize;
            let mut sum = 0.0;
            for number in 0..4usize.pow(steps as u32) {
                let path: Vec<usize> = (0..steps).map(|t| number / 4usize.pow(t as u32) % 4).collect();
                let mut spelled: Vec<i64> = path.iter().map(|&c| c as i64).collect();
                spelled.dedup();
                spelled.retain(|&c| c != 3);
                if spelled == targets[n] {
                    sum += path.iter().enumerate().map(|(t, &c)| logs(t, n, c)).sum::<f64>().exp();
                }
            }
            -sum.ln()
        })
        .collect();
    each(|| near(&values(case.loss(case.tensor(&case.logits(), FloatDType::F64))), &expected, 1e-12));
}

#[test]
fn gradients_of_logits_are_differences() {
    let targets: Targets<'_> = &[&[1, 1, 2], &[2]];
    let case = Case { extents: [6, 3], steps: &[6, 4], targets, blank: 0 };
    let factors = [1.5, -0.5];
    each(|| {
        let logits = case.logits();
        let grad = values(case.grad(case.tensor(&logits, FloatDType::F64), &factors));
        let sum = |logits: &[f64]| -> f64 {
            let losses = values(case.loss(case.tensor(logits, FloatDType::F64)));
            losses.iter().zip(factors).map(|(a, b)| a * b).sum()
        };
        let difference = |at: usize| {
            let moved = |by: f64| {
                let mut logits = logits.clone();
                logits[at] += by;
                sum(&logits)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        };
        near(&grad, &(0..logits.len()).map(difference).collect::<Vec<_>>(), 1e-8);
    });
}

/// The recursion in f64.
fn reference(case: &Case<'_>, n: usize) -> f64 {
    let (c, sequences, logits) = (case.extents[1], case.steps.len(), case.logits());
    let blank = case.blank as i64;
    let states: Vec<i64> = case.targets[n].iter().flat_map(|&l| [blank, l]).chain([blank]).collect();
    let mut alpha = vec![f64::NEG_INFINITY; states.len()];
    for t in 0..case.steps[n] as usize {
        let row = &logits[(t * sequences + n) * c..][..c];
        let norm = row.iter().map(|v| v.exp()).sum::<f64>().ln();
        let before = alpha.clone();
        for (s, &label) in states.iter().enumerate() {
            let skips = s >= 2 && label != blank && label != states[s - 2];
            let from = (0..=s.min(1 + usize::from(skips))).map(|back| before[s - back]);
            let most = from.clone().fold(f64::NEG_INFINITY, f64::max);
            let sum = match (t, most.is_finite()) {
                (0, _) if s < 2 => 0.0,
                (0, _) | (_, false) => f64::NEG_INFINITY,
                _ => most + from.map(|v| (v - most).exp()).sum::<f64>().ln(),
            };
            alpha[s] = sum + row[label as usize] - norm;
        }
    }
    let ends = &alpha[alpha.len().saturating_sub(2)..];
    let most = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    -(most + ends.iter().map(|v| (v - most).exp()).sum::<f64>().ln())
}

#[test]
fn long_targets() {
    let long: Vec<i64> = (0..290).map(|i| 1 + i * i % 3).collect();
    let targets: Targets<'_> = &[&long, &long[..7]];
    let case = Case { extents: [420, 4], steps: &[420, 333], targets, blank: 0 };
    let expected = [reference(&case, 0), reference(&case, 1)];
    each(|| {
        let loss = |dtype| values(case.loss(case.tensor(&case.logits(), dtype)));
        near(&loss(FloatDType::F64), &expected, 1e-12);
        near(&loss(FloatDType::F32), &expected, 2e-6);
    });
}

#[test]
fn nothing_and_what_is_out_of_range() {
    each(|| {
        let case = Case { extents: [3, 4], steps: &[0, 0, 3], targets: &[&[], &[1], &[]], blank: 2 };
        let losses = values(case.loss(case.tensor(&case.logits(), FloatDType::F32)));
        assert_eq!((losses[0], losses[1]), (0.0, f64::INFINITY));
        near(&losses[2..], &[reference(&case, 2)], 1e-6);
        let none = Case { extents: [3, 4], steps: &[], targets: &[], blank: 2 };
        assert_eq!(none.loss(none.tensor(&[], FloatDType::F32)).shape(), Shape::new([0]));
        let outside = |steps: &[i64], targets: Targets<'_>, blank| {
            let case = Case { extents: [3, 4], steps, targets, blank };
            read_sync(Mlir::float_into_data(case.loss(case.tensor(&case.logits(), FloatDType::F32)))).is_err()
        };
        assert!(!outside(&[3], &[&[1, 3]], 2));
        assert!(outside(&[4], &[&[1, 3]], 2));
        assert!(outside(&[3], &[&[1, 4]], 2));
        assert!(outside(&[3], &[&[-1, 3]], 2));
        assert!(outside(&[3], &[&[1, 3]], 4));
    });
}
