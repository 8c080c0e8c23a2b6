//! Captured training steps of a two-layer perceptron equal the same steps without a graph, bit for bit.

use super::{Cell, cell, record, refresh, refusal, replay, tensor, values};
use crate::support::devices::{device, each};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::prelude::*;
use burn::tensor::activation::relu;
use burn::tensor::{TensorData, capture};
use std::cell::RefCell;
use std::rc::Rc;

/// Runs of a closure by [`record`] and by Burn's helper.
const RUNS: usize = 4;

#[derive(Module, Debug)]
struct Perceptron {
    hidden: Linear,
    output: Linear,
}

/// A formula's values in `-1..1`.
fn wave<const D: usize>(shape: [usize; D], step: f32) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i as f32 * step).sin()).collect();
    Tensor::from_data(TensorData::new(values, shape), &device().autodiff())
}

impl Perceptron {
    fn new() -> Self {
        let layer = |sizes: [usize; 2], step| Linear {
            weight: Param::from_tensor(wave(sizes, step) * 0.3),
            bias: Some(Param::from_tensor(wave([sizes[1]], step) * 0.1)),
        };
        Self { hidden: layer([6, 16], 0.7), output: layer([16, 3], 1.3) }
    }

    /// Of eight fixed examples.
    fn loss(&self) -> Tensor<1> {
        let scores = self.output.forward(relu(self.hidden.forward(wave([8, 6], 0.37))));
        (scores - wave([8, 3], 0.91)).square().mean()
    }

    fn parameters(&self) -> Vec<u32> {
        let layer = |layer: &Linear| {
            let bias = layer.bias.as_ref().map(|bias| values(&bias.val())).unwrap_or_default();
            [values(&layer.weight.val()), bias].concat()
        };
        [layer(&self.hidden), layer(&self.output)].concat().iter().map(|value| value.to_bits()).collect()
    }
}

/// A model that learns, step by step.
#[derive(Clone)]
struct Training {
    model: Rc<RefCell<Option<Perceptron>>>,
    optimizer: Rc<RefCell<ModuleOptimizer>>,
}

impl Training {
    fn new(optimizer: ModuleOptimizer) -> Self {
        let model = Rc::new(RefCell::new(Some(Perceptron::new())));
        Self { model, optimizer: Rc::new(RefCell::new(optimizer)) }
    }

    fn step(&self, rate: f64) -> Tensor<1> {
        let model = self.model.take().unwrap();
        let loss = model.loss();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        *self.model.borrow_mut() = Some(self.optimizer.borrow_mut().step(rate, model, gradients));
        loss.inner()
    }

    fn parameters(&self) -> Vec<u32> {
        self.model.borrow().as_ref().unwrap().parameters()
    }
}

/// Runs a step without a graph, in a window of its own as the captured one is: across windows nothing is fused, and where
/// sums are fused with other operations they may be rounded in another way.
fn alone(step: impl FnOnce() -> Tensor<1>) -> Vec<f32> {
    device().sync().unwrap();
    let loss = step();
    device().sync().unwrap();
    values(&loss)
}

fn sgd() -> ModuleOptimizer {
    SgdConfig::new().init()
}

fn momentum() -> ModuleOptimizer {
    SgdConfig::new().with_momentum(Some(MomentumConfig::new())).init()
}

#[test]
fn steps_at_a_fixed_rate() {
    each(|| {
        for optimizer in [sgd, momentum] {
            let (eager, captured) = (Training::new(optimizer()), Training::new(optimizer()));
            let step = captured.clone();
            let mut graph = capture(&device(), move || step.step(0.05));
            assert!(graph.is_hardware());
            for _ in 0..RUNS {
                alone(|| eager.step(0.05));
            }
            assert_eq!(captured.parameters(), eager.parameters(), "before the first replay");
            for step in 0..100 {
                let loss = alone(|| eager.step(0.05));
                // SAFETY: one thread.
                let replayed = unsafe { graph.replay() };
                assert_eq!(values(replayed), loss, "loss of replay {step}");
            }
            assert_eq!(captured.parameters(), eager.parameters());
        }
    });
}

#[test]
fn a_scheduled_rate_is_refused() {
    each(|| {
        let (eager, captured) = (Training::new(sgd()), Training::new(sgd()));
        let rates = |step: usize| 0.1 / (1.0 + step as f64);
        let mut steps = 0;
        let (_, reason) = refusal(|| {
            steps += 1;
            captured.step(rates(steps - 1))
        });
        for part in ["`mul f32[", "0.033333335", "0.025", "in a tensor"] {
            assert!(reason.contains(part), "`{part}` is missing in: {reason}");
        }
        (0..RUNS).for_each(|step| drop(alone(|| eager.step(rates(step)))));
        assert_eq!(captured.parameters(), eager.parameters(), "the refused step has been taken");

        // Burn's helper then runs the closure.
        let step = captured.clone();
        let mut graph = capture(&device(), move || {
            steps += 1;
            step.step(rates(steps - 1))
        });
        assert!(!graph.is_hardware());
        for _ in 0..10 {
            // SAFETY: one thread.
            unsafe { graph.replay() };
            device().sync().unwrap();
        }
        (RUNS..2 * RUNS + 10).for_each(|step| drop(alone(|| eager.step(rates(step)))));
        assert_eq!(captured.parameters(), eager.parameters());
    });
}

#[test]
fn the_step_count_of_adam_is_refused() {
    each(|| {
        let [eager, captured] = [(); 2].map(|()| Training::new(AdamConfig::new().init()));
        let (_, reason) = refusal(|| captured.step(1e-2));
        for part in ["the scalar of `mul f32[", "in a tensor"] {
            assert!(reason.contains(part), "`{part}` is missing in: {reason}");
        }
        (0..RUNS).for_each(|_| drop(alone(|| eager.step(1e-2))));
        assert_eq!(captured.parameters(), eager.parameters());
    });
}

/// Four parameters and a rate that lies in a tensor.
#[derive(Clone)]
struct Manual {
    parameters: Rc<RefCell<Vec<Tensor<2>>>>,
    rate: Cell<1>,
}

impl Manual {
    fn new() -> Self {
        let shapes = [([6, 16], 0.7), ([1, 16], 0.2), ([16, 3], 1.3), ([1, 3], 0.4)];
        let parameters = shapes.map(|(shape, step)| wave(shape, step).inner() * 0.3).to_vec();
        Self { parameters: Rc::new(RefCell::new(parameters)), rate: cell(tensor(&[0.0])) }
    }

    fn step(&self) -> Tensor<1> {
        let track = |p: Tensor<2>| Tensor::from_inner(p).require_grad();
        let [w1, b1, w2, b2] = self.parameters.take().try_into().unwrap();
        let [w1, b1, w2, b2] = [w1, b1, w2, b2].map(track);
        let hidden = relu(wave([8, 6], 0.37).matmul(w1.clone()) + b1.clone());
        let loss = (hidden.matmul(w2.clone()) + b2.clone() - wave([8, 3], 0.91)).square().mean();
        let gradients = loss.backward();
        let rate = self.rate.borrow().clone().reshape([1, 1]);
        let updated = [w1, b1, w2, b2].map(|p| {
            let gradient = p.grad(&gradients).unwrap();
            p.inner() - gradient * rate.clone()
        });
        *self.parameters.borrow_mut() = updated.to_vec();
        loss.inner()
    }

    fn bits(&self) -> Vec<u32> {
        self.parameters.borrow().iter().flat_map(values).map(f32::to_bits).collect()
    }
}

#[test]
fn steps_with_the_rate_in_a_tensor() {
    each(|| {
        let (eager, captured) = (Manual::new(), Manual::new());
        let rate = |step: usize| 0.2 / (1.0 + 0.1 * step as f32);
        for training in [&eager, &captured] {
            refresh(&training.rate, &[rate(0)]);
        }
        let (loss, graph) = record(|| captured.step());
        let graph = graph.unwrap();
        (0..RUNS).for_each(|_| drop(alone(|| eager.step())));
        assert_eq!(captured.bits(), eager.bits());
        for step in 0..100 {
            for training in [&eager, &captured] {
                refresh(&training.rate, &[rate(step)]);
            }
            let expected = alone(|| eager.step());
            replay(&graph);
            assert_eq!(values(&loss), expected, "loss of replay {step}");
            assert_eq!(captured.bits(), eager.bits(), "parameters after replay {step}");
        }
    });
}
