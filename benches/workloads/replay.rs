//! Captured graphs: what a launch costs in a replay, and a small training step with and without.

use crate::Work;
use crate::check::{Values, agrees};
use crate::kernels::{done, normal};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::prelude::*;
use burn::tensor::activation::relu;
use burn::tensor::{Graph, capture};

/// Replays a graph; nothing else works on its tensors.
fn replay<T, F: FnMut() -> T>(graph: &mut Graph<T, F>) -> &T {
    assert!(graph.is_hardware(), "the capture was refused");
    // SAFETY: all work is this thread's.
    unsafe { graph.replay() }
}

/// 100 dependent additions, replayed: one launch if they may be fused, or 100.
pub fn additions(device: &Device, apart: bool) -> Work {
    let x: Tensor<1> = normal([1024], device);
    let (xs, at) = (Values::of(&x), device.clone());
    let mut graph = capture(device, move || {
        let mut y = x.clone();
        for _ in 0..100 {
            y = y + 1.0;
            if apart {
                done(&at);
            }
        }
        y
    });
    let result = graph.output().clone();
    let check = move || agrees(&Values::of(&result), 1e-5, |i| xs.at(i) + 100.0);
    Work::new(device, move || drop(replay(&mut graph).clone()), check)
}

#[derive(Module, Debug)]
struct Mlp {
    hidden: Linear,
    output: Linear,
}

/// A step of SGD of a two-layer perceptron on eight examples; the loss must fall.
pub fn mlp_step(device: &Device, replayed: bool) -> Work {
    let training = device.clone().autodiff();
    let (x, y): (Tensor<2>, Tensor<2>) = (normal([8, 64], &training), normal([8, 10], &training));
    let layer = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&training);
    let mut model = Some(Mlp { hidden: layer(64, 128), output: layer(128, 10) });
    let mut optimizer = SgdConfig::new().init();
    let mut step = move || {
        let current = model.take()?;
        let scores = current.output.forward(relu(current.hidden.forward(x.clone())));
        let loss = (scores - y.clone()).square().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &current);
        model = Some(optimizer.step(1e-2, current, gradients));
        Some(loss.inner())
    };
    let mut losses = Vec::new();
    let mut watch = move |loss: &Option<Tensor<1>>| {
        if losses.len() < 10 {
            losses.extend(loss.as_ref().map(|loss| Values::of(loss).at(0)));
            assert!(losses.len() < 10 || losses[9] < losses[0], "the loss does not fall: {losses:?}");
        }
    };
    if replayed {
        let mut graph = capture(device, step);
        Work::new(device, move || watch(replay(&mut graph)), || {})
    } else {
        Work::new(device, move || watch(&step()), || {})
    }
}
