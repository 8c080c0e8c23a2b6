//! Connectionist temporal classification: the probability that a sequence of distributions over labels and a blank
//! spells a target, and its gradient.
//!
//! A target of `s` labels has `2s + 1` states: its labels with a blank before, between and after them. The sums over all
//! paths through the states are a kernel of their own ([`Op::Paths`]); backwards, it is the same kernel on both axes
//! reversed.

use super::{apply, invalid, unsupported};
use crate::MlirTensor;
use burn_mlir_ir::{BinaryOp, CompareOp, DType, Op, ScatterOp, Shape, UnaryOp};

/// Integers that index.
const INDEX: DType = DType::I64;

/// The operands: `logs: [t, n, c]`, `targets: [n, s]`, lengths `[n]`.
pub(crate) struct Ctc<'a> {
    pub(crate) logs: &'a MlirTensor,
    pub(crate) targets: &'a MlirTensor,
    pub(crate) input_lengths: &'a MlirTensor,
    pub(crate) target_lengths: &'a MlirTensor,
    pub(crate) blank: usize,
}

/// Operands that fit each other, in the types they are computed in.
struct Fitted {
    logs: MlirTensor,
    /// Labels of the states, `[n, states]`, in memory; -1 where a label or a length is none, which is an error when
    /// it is used as an index.
    labels: MlirTensor,
    /// Steps of every sequence, `[1, n, 1]`.
    steps: MlirTensor,
    /// The last state of every sequence, `[1, n, 1]`.
    last: MlirTensor,
    blank: usize,
    /// Steps, sequences, labels, states.
    extents: [usize; 4],
}

impl Ctc<'_> {
    /// The negative logarithm of the probability of every target, `[n]`; infinite if it is 0.
    pub(crate) fn loss(&self) -> MlirTensor {
        let shape = self.target_lengths.ir_shape();
        match self.fitted() {
            Some(fitted) => fitted.loss().reshape(shape).cast(self.logs.dtype),
            None => self.misfit("ctc_loss", shape),
        }
    }

    /// The gradient of [`loss`](Self::loss) in `logs`, as in PyTorch that of the logits which they are the logarithmic
    /// softmax of: probabilities minus posteriors. `grad: [n]` is that of the losses. 0 where a loss is infinite.
    pub(crate) fn grad(&self, grad: &MlirTensor) -> MlirTensor {
        let fits = |_: &Fitted| grad.shape == self.target_lengths.shape && grad.dtype == self.logs.dtype;
        match self.fitted().filter(fits) {
            Some(fitted) => fitted.grad(grad).cast(self.logs.dtype),
            None => self.misfit("ctc_loss_backward", self.logs.ir_shape()),
        }
    }

    fn misfit(&self, op: &'static str, shape: Shape) -> MlirTensor {
        let operands = [self.logs, self.targets, self.input_lengths, self.target_lengths];
        if !self.logs.dtype.is_float() {
            return unsupported(op, &operands, self.logs.dtype, shape);
        }
        let reason = format!("the operands do not fit with blank {}", self.blank);
        invalid(op, &operands, self.logs.dtype, shape, reason)
    }

    fn fitted(&self) -> Option<Fitted> {
        let (&[t, n, c], &[m, s]) = (&self.logs.shape[..], &self.targets.shape[..]) else {
            return None;
        };
        let lengths = [self.input_lengths, self.target_lengths];
        let fits = n == m
            && self.blank < c
            && self.logs.dtype.is_float()
            && self.targets.dtype.is_int()
            && lengths.iter().all(|t| t.shape[..] == [n] && t.dtype.is_int());
        if !fits {
            return None;
        }
        let [steps, length] = lengths.map(|t| t.cast(INDEX).reshape([n, 1]));
        let last = length.times(2.0);
        let states = 2 * s + 1;
        let device = self.logs.device;
        let state = MlirTensor::iota(device, INDEX, Shape::from([n, states]), 1);
        let blanks = state.constant_like(self.blank as f64);
        let inside = |t: &MlirTensor, limit: usize| {
            let after = t.compare_constant(CompareOp::Ge, 0.0);
            after.and(&t.compare_constant(CompareOp::Le, limit as f64))
        };
        let mut labels = blanks.clone();
        if s > 0 {
            let place = state.binary_constant(BinaryOp::Shr, 1.0).at_most(s as f64 - 1.0);
            let label = self.targets.cast(INDEX).gather(1, &place);
            let odd = state.binary_constant(BinaryOp::And, 1.0).compare_constant(CompareOp::Eq, 1.0);
            let is_label = odd.and(&state.compare(CompareOp::Lt, &last));
            labels = is_label.select(&label, &blanks);
        }
        let valid = inside(&labels, c - 1).and(&inside(&steps, t)).and(&inside(&length, s));
        Some(Fitted {
            logs: self.logs.widened(),
            labels: valid.select(&labels, &labels.constant_like(-1.0)).compact(),
            steps: steps.reshape([1, n, 1]),
            last: last.reshape([1, n, 1]),
            blank: self.blank,
            extents: [t, n, c, states],
        })
    }
}

impl Fitted {
    /// `[1, n, 1]` of what there is no element of the sums for.
    fn sequences(&self) -> Shape {
        Shape::from([1, self.extents[1], 1])
    }

    fn iota(&self, axis: usize, extent: usize) -> MlirTensor {
        let mut line = Shape::from([1, 1, 1]);
        line.0[axis] = extent;
        MlirTensor::iota(self.logs.device, INDEX, line, axis)
    }

    /// Elements of `[steps, n, inner]` at a step and a place in the inner axis of every sequence.
    fn pick(&self, from: &MlirTensor, step: &MlirTensor, place: &MlirTensor, shape: &Shape) -> MlirTensor {
        let (sequences, inner) = (self.extents[1] as f64, from.shape[2] as f64);
        let row = step.times(sequences).add(&self.iota(1, self.extents[1]));
        let flat = row.times(inner).add(place).expand(shape);
        // A place that is none is none of all elements.
        let none = place.compare_constant(CompareOp::Lt, 0.0).expand(shape);
        let flat = none.select(&flat.constant_like(-1.0), &flat);
        let (all, count) = (from.ir_shape().elements(), shape.elements());
        from.reshape([all]).gather(0, &flat.reshape([count])).reshape(shape.clone())
    }

    /// The states' scores, `[t, n, states]`: those of `labels` at `step`.
    fn scores(&self, step: &MlirTensor, labels: &MlirTensor) -> MlirTensor {
        let [t, n, _, states] = self.extents;
        let labels = labels.reshape([1, n, states]);
        self.pick(&self.logs, step, &labels, &Shape::from([t, n, states]))
    }

    /// Logarithms of the sums over all paths to every state, `[t, n, states]`.
    fn sums(&self, scores: &MlirTensor, labels: &MlirTensor) -> MlirTensor {
        let [t, n, _, states] = self.extents;
        let state = MlirTensor::iota(self.logs.device, INDEX, Shape::from([n, states]), 1);
        // The blank between two labels may be left out unless they are the same.
        let earlier = labels.gather(1, &state.plus(-2.0).at_least(0.0));
        let skips = (labels.compare_constant(CompareOp::Ne, self.blank as f64))
            .and(&labels.compare(CompareOp::Ne, &earlier))
            .and(&state.compare_constant(CompareOp::Ge, 2.0));
        let shape = Shape::from([t, n, states]);
        let skips = skips.reshape([1, n, states]).expand(&shape);
        apply("ctc_loss", Op::Paths, &[scores, &skips], scores.dtype, shape)
    }

    /// The logarithms of the targets' probabilities, `[1, n, 1]`, from the sums.
    fn total(&self, sums: &MlirTensor) -> MlirTensor {
        let shape = self.sequences();
        let zero = MlirTensor::constant(sums.device, 0.0, sums.dtype, shape.clone());
        let none = zero.constant_like(f64::NEG_INFINITY);
        let no_labels = self.last.compare_constant(CompareOp::Eq, 0.0);
        // Nothing spells nothing.
        let of_nothing = no_labels.select(&zero, &none);
        if self.extents[0] == 0 {
            return of_nothing;
        }
        let end = self.steps.plus(-1.0).at_least(0.0);
        let blank = self.pick(sums, &end, &self.last, &shape);
        let label = self.pick(sums, &end, &self.last.plus(-1.0).at_least(0.0), &shape);
        let label = no_labels.select(&none, &label);
        let (most, least) = (blank.max(&label), blank.min(&label));
        let unreached = most.compare_constant(CompareOp::Eq, f64::NEG_INFINITY);
        let base = unreached.select(&zero, &most);
        let total = base.add(&least.sub(&base).exp().log1p());
        let total = unreached.select(&none, &total);
        self.steps.compare_constant(CompareOp::Eq, 0.0).select(&of_nothing, &total)
    }

    /// Every step, `[t, 1, 1]`, and the same counted from the end of every sequence, `[t, n, 1]`.
    fn times(&self) -> [MlirTensor; 2] {
        let step = self.iota(0, self.extents[0]);
        let back = self.steps.sub(&step).plus(-1.0).at_least(0.0);
        [step, back]
    }

    fn loss(&self) -> MlirTensor {
        if self.extents[0] == 0 {
            return self.total(&self.logs).neg();
        }
        let [step, _] = self.times();
        let scores = self.scores(&step, &self.labels);
        self.total(&self.sums(&scores, &self.labels)).neg()
    }

    fn grad(&self, grad: &MlirTensor) -> MlirTensor {
        let [t, n, c, states] = self.extents;
        if t * n == 0 {
            return self.logs.clone();
        }
        let [step, back] = self.times();
        let scores = self.scores(&step, &self.labels);
        let forward = self.sums(&scores, &self.labels);
        let total = self.total(&forward);
        // From the end: both axes of every sequence reversed, and reversed again.
        let mirrored = self.last.sub(&self.iota(2, states)).at_least(0.0);
        let labels = self.labels.gather(1, &mirrored.reshape([n, states])).compact();
        let shape = Shape::from([t, n, states]);
        let backward = self.sums(&self.scores(&back, &labels), &labels);
        let backward = self.pick(&backward, &back, &mirrored, &shape);
        let grad = grad.widened().reshape(self.sequences());
        let reached = |t: &MlirTensor| t.compare_constant(CompareOp::Ne, f64::NEG_INFINITY);
        let counts = step.compare(CompareOp::Lt, &self.steps).and(&reached(&total));
        let posterior = forward.add(&backward).sub(&scores).sub(&total).exp();
        let is_state = self.iota(2, states).compare(CompareOp::Le, &self.last);
        let on_a_path = counts.and(&is_state).and(&reached(&forward)).and(&reached(&backward));
        let share = posterior.mul(&grad).unary(UnaryOp::Neg);
        let share = on_a_path.select(&share, &share.constant_like(0.0));
        let all = self.logs.exp().mul(&grad);
        let all = counts.select(&all, &all.constant_like(0.0));
        debug_assert_eq!(all.shape[..], [t, n, c]);
        let labels = self.labels.reshape([1, n, states]).expand(&shape);
        all.scatter(ScatterOp::Add, 2, &labels, &share)
    }
}
