//! Steps of training the demo's network, on data made by a formula.

#[path = "../../examples/digits/model.rs"]
mod model;

use burn::module::{ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::TensorData;
use model::Network;

/// Every parameter's values, in the order of the fields.
pub fn parameters(network: &Network) -> Vec<f32> {
    struct Values(Vec<f32>);
    impl ModuleVisitor for Values {
        fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
            self.0.extend(parameter.val().into_data().iter::<f32>());
        }
    }
    let mut values = Values(Vec::new());
    network.visit(&mut values);
    values.0
}

/// Takes one step of Adam for each rate and calls `after` with the loss of each.
pub fn train(device: &Device, rates: &[f64], mut after: impl FnMut(f32)) -> Network {
    let device = device.clone().autodiff();
    device.seed(3);
    let mut network = Network::new(&device);
    let mut optimizer = AdamConfig::new().init();
    let pixels: Vec<f32> = (0..32 * 64).map(|i| ((i * 37 % 101) as f32 / 101.0).sin()).collect();
    let classes: Vec<i32> = (0..32).map(|i| i * 7 % 10).collect();
    let images = Tensor::<4>::from_data(TensorData::new(pixels, [32, 1, 8, 8]), &device);
    let classes = Tensor::<1, Int>::from_data(TensorData::new(classes, [32]), &device);
    for &rate in rates {
        let scores = network.forward(images.clone());
        let loss = CrossEntropyLossConfig::new().init(&device).forward(scores, classes.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(rate, network, gradients);
        after(loss.into_scalar::<f32>());
    }
    network
}
