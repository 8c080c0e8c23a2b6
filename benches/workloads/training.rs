//! Training steps, and the latency of a small network.

use crate::Work;
use crate::check::{Values, agrees};
use crate::kernels::{done, normal};
use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::TensorData;
use burn::tensor::activation::{gelu, relu};
use std::ops::Range;

/// Steps of Adam on one batch; the loss must start within `first` and fall over the first ten.
pub fn training<M: Module + 'static>(
    device: &Device,
    module: M,
    rate: f64,
    first: Range<f64>,
    loss: impl Fn(&M) -> Tensor<1> + 'static,
) -> Work {
    let mut optimizer = AdamConfig::new().init();
    let mut module = Some(module);
    let mut losses = Vec::new();
    let step = move || {
        let Some(current) = module.take() else { return };
        let value = loss(&current);
        let gradients = GradientsParams::from_grads(value.backward(), &current);
        module = Some(optimizer.step(rate, current, gradients));
        if losses.len() < 10 {
            losses.push(Values::of(&value).at(0));
            assert!(first.contains(&losses[0]), "the first loss is {losses:?}, should be in {first:?}");
            assert!(losses.len() < 10 || losses[9] < losses[0], "the loss does not fall: {losses:?}");
        }
    };
    Work::new(device, step, || {})
}

fn classes(count: usize, device: &Device) -> Tensor<1, Int> {
    let classes: Vec<i32> = (0..count).map(|i| (i * 7 % 10) as i32).collect();
    Tensor::from_data(TensorData::new(classes, [count]), device)
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    fn new(sizes: &[usize], device: &Device) -> Self {
        let layer = |pair: &[usize]| LinearConfig::new(pair[0], pair[1]).init(device);
        Self { layers: sizes.windows(2).map(layer).collect() }
    }

    fn forward(&self, mut x: Tensor<2>, activation: fn(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x);
            if index + 1 < self.layers.len() {
                x = activation(x);
            }
        }
        x
    }
}

pub fn mlp_train(device: &Device) -> Work {
    let device = device.clone().autodiff();
    let (x, y) = (normal([128, 784], &device), classes(128, &device));
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    let model = Mlp::new(&[784, 512, 512, 10], &device);
    training(&device, model, 1e-3, 2.0..3.5, move |model: &Mlp| {
        cross_entropy.forward(model.forward(x.clone(), relu), y.clone())
    })
}

#[derive(Module, Debug)]
struct Cnn {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    output: Linear,
}

pub fn cnn_train(device: &Device) -> Work {
    let device = device.clone().autodiff();
    let conv = |channels| {
        let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
        Conv2dConfig::new(channels, [3, 3]).with_padding(padding).init(&device)
    };
    let model = Cnn {
        conv1: conv([1, 32]),
        conv2: conv([32, 64]),
        pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        hidden: LinearConfig::new(3136, 128).init(&device),
        output: LinearConfig::new(128, 10).init(&device),
    };
    let (x, y): (Tensor<4>, _) = (normal([64, 1, 28, 28], &device), classes(64, &device));
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    training(&device, model, 1e-3, 2.0..3.5, move |m: &Cnn| {
        let h = m.pool.forward(relu(m.conv1.forward(x.clone())));
        let h = m.pool.forward(relu(m.conv2.forward(h)));
        let h = relu(m.hidden.forward(h.flatten::<2>(1, 3)));
        cross_entropy.forward(m.output.forward(h), y.clone())
    })
}

/// A pre-norm transformer block.
#[derive(Module, Debug)]
struct Block {
    norm1: LayerNorm,
    attention: MultiHeadAttention,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(d: usize, heads: usize, device: &Device) -> Self {
        Self {
            norm1: LayerNormConfig::new(d).init(device),
            attention: MultiHeadAttentionConfig::new(d, heads).with_dropout(0.0).init(device),
            norm2: LayerNormConfig::new(d).init(device),
            up: LinearConfig::new(d, 4 * d).init(device),
            down: LinearConfig::new(4 * d, d).init(device),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, _] = x.dims();
        let mask = burn::nn::attention::generate_autoregressive_mask(batch, length, &x.device());
        let input = MhaInput::self_attn(self.norm1.forward(x.clone())).mask_attn(mask);
        let x = x + self.attention.forward(input).context;
        x.clone() + self.down.forward(gelu(self.up.forward(self.norm2.forward(x))))
    }
}

pub fn gpt_block_train(device: &Device) -> Work {
    let device = device.clone().autodiff();
    let x: Tensor<3> = normal([8, 128, 256], &device);
    let block = Block::new(256, 8, &device);
    training(&device, block, 1e-3, 0.5..4.0, move |block: &Block| {
        block.forward(x.clone()).powi_scalar(2).mean()
    })
}

pub fn tiny_mlp(device: &Device) -> Work {
    let model = Mlp::new(&[6, 64, 8, 4], device);
    let x: Tensor<2> = normal([1, 6], device);
    let (inputs, checked) = (x.clone(), model.clone());
    let check = move || {
        let outputs = checked.forward(inputs.clone(), |t| t.tanh());
        let expected = expected(&checked, &inputs);
        agrees(&Values::of(&outputs), 1e-5, |index| expected[index]);
    };
    Work::waiting(move || drop(model.forward(x.clone(), |t| t.tanh()).into_data()), check)
}

/// The network's outputs in f64.
fn expected(model: &Mlp, x: &Tensor<2>) -> Vec<f64> {
    let x = Values::of(x);
    let mut activations: Vec<f64> = x.range(0, x.len()).collect();
    for (index, layer) in model.layers.iter().enumerate() {
        let weight = Values::of(&layer.weight.val());
        let bias = layer.bias.as_ref().map(|bias| Values::of(&bias.val()));
        let outputs = bias.as_ref().map_or(0, Values::len);
        let dot = |j: usize| {
            let products = activations.iter().enumerate().map(|(k, a)| a * weight.at(k * outputs + j));
            products.sum::<f64>() + bias.as_ref().map_or(0.0, |bias| bias.at(j))
        };
        let sums: Vec<f64> = (0..outputs).map(dot).collect();
        let last = index + 1 == model.layers.len();
        activations = if last { sums } else { sums.iter().map(|v| v.tanh()).collect() };
    }
    activations
}

pub fn dynamic_shapes(device: &Device) -> Work {
    let block = Block::new(256, 8, device);
    let device = device.clone();
    let start = move || {
        for step in 0..100 {
            let length = 17 + step * 5;
            let output = block.forward(normal([1, length, 256], &device));
            done(&device);
            drop(output);
        }
    };
    Work::waiting(start, || {})
}
