//! A small convolutional network and steps of training it, on data made by a formula.

use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::TensorData;

#[derive(Module, Debug)]
pub struct Network {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    output: Linear,
    activation: Relu,
}

impl Network {
    pub fn new(device: &Device) -> Self {
        let conv = |channels| {
            let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
            Conv2dConfig::new(channels, [3, 3]).with_padding(padding).init(device)
        };
        Self {
            conv1: conv([1, 8]),
            conv2: conv([8, 16]),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            hidden: LinearConfig::new(16 * 2 * 2, 32).init(device),
            output: LinearConfig::new(32, 10).init(device),
            activation: Relu::new(),
        }
    }

    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(self.activation.forward(self.conv1.forward(images)));
        let x = self.pool.forward(self.activation.forward(self.conv2.forward(x)));
        let x = self.activation.forward(self.hidden.forward(x.flatten(1, 3)));
        self.output.forward(x)
    }

    /// Every parameter's values, in the order of the fields.
    pub fn parameters(&self) -> Vec<f32> {
        let mut values = Vec::new();
        for conv in [&self.conv1, &self.conv2] {
            values.extend(conv.weight.val().into_data().iter::<f32>());
        }
        for linear in [&self.hidden, &self.output] {
            values.extend(linear.weight.val().into_data().iter::<f32>());
        }
        values
    }
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
