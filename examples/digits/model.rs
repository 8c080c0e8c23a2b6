//! The network.

use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::prelude::*;

/// Two convolutions, each halved by a pool, and two linear layers.
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
    /// Random initial weights on `device`.
    pub fn new(device: &Device) -> Self {
        let conv = |channels| {
            let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
            Conv2dConfig::new(channels, [3, 3]).with_padding(padding).init(device)
        };
        Self {
            conv1: conv([1, 16]),
            conv2: conv([16, 32]),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            hidden: LinearConfig::new(32 * 2 * 2, 64).init(device),
            output: LinearConfig::new(64, 10).init(device),
            activation: Relu::new(),
        }
    }

    /// `[batch, 1, 8, 8]` images to `[batch, 10]` scores.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(self.activation.forward(self.conv1.forward(images)));
        let x = self.pool.forward(self.activation.forward(self.conv2.forward(x)));
        let x = self.activation.forward(self.hidden.forward(x.flatten(1, 3)));
        self.output.forward(x)
    }
}
