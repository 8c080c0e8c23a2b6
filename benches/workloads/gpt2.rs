//! A training step of GPT-2 small in bf16: 12 layers of 768 features and 12 heads, 8 sequences of 1024 tokens.

use crate::Work;
use crate::training::training;
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::activation::{gelu, softmax};
use burn::tensor::{DType, TensorData};

const VOCABULARY: usize = 50257;
const LAYERS: usize = 12;
const FEATURES: usize = 768;
const HEADS: usize = 12;
const BATCH: usize = 8;
const LENGTH: usize = 1024;

#[derive(Module, Debug)]
struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(d: usize, device: &Device) -> Self {
        let linear = |from, to| LinearConfig::new(from, to).init(device);
        let norm = || LayerNormConfig::new(d).init(device);
        Self {
            norm1: norm(),
            qkv: linear(d, 3 * d),
            out: linear(d, d),
            norm2: norm(),
            up: linear(d, 4 * d),
            down: linear(4 * d, d),
        }
    }

    /// Rows are tokens of all sequences, so that each gradient of a weight is one product.
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let [rows, d] = x.dims();
        let qkv = self.qkv.forward(self.norm1.forward(x.clone()));
        let qkv = qkv.reshape([BATCH, LENGTH, 3, HEADS, d / HEADS]).permute([2, 0, 3, 1, 4]);
        let part = |i: usize| qkv.clone().slice(s![i..i + 1]).squeeze_dim::<4>(0);
        let context = causal_attention(part(0), part(1), part(2));
        let x = x + self.out.forward(context.swap_dims(1, 2).reshape([rows, d]));
        x.clone() + self.down.forward(gelu(self.up.forward(self.norm2.forward(x))))
    }
}

/// Written out, with the maximum kept out of the gradient: under autodiff, Burn's `attention` differentiates through
/// the maximum as well, which takes a scatter into the scores.
fn causal_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let [_, _, length, d] = q.dims();
    let scores = q.matmul(k.transpose()) * (d as f64).powf(-0.5);
    let future = Tensor::<2, Bool>::tril_mask([length, length], 0, &v.device()).unsqueeze::<4>();
    softmax(scores.mask_fill(future, f32::NEG_INFINITY), 3).matmul(v)
}

#[derive(Module, Debug)]
struct Gpt2 {
    tokens: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt2 {
    fn new(device: &Device) -> Self {
        Self {
            tokens: EmbeddingConfig::new(VOCABULARY, FEATURES).init(device),
            positions: EmbeddingConfig::new(LENGTH, FEATURES).init(device),
            blocks: (0..LAYERS).map(|_| Block::new(FEATURES, device)).collect(),
            norm: LayerNormConfig::new(FEATURES).init(device),
            head: LinearConfig::new(FEATURES, VOCABULARY).with_bias(false).init(device),
        }
    }

    fn loss(&self, ids: Tensor<2, Int>) -> Tensor<1> {
        let positions = Tensor::arange(0..LENGTH as i64, &ids.device()).unsqueeze();
        let x = self.tokens.forward(ids.clone()) + self.positions.forward(positions);
        let x = self.blocks.iter().fold(x.flatten(0, 1), |x, block| block.forward(x));
        cross_entropy(self.head.forward(self.norm.forward(x)), ids.flatten::<1>(0, 1))
    }
}

/// Mean cross-entropy in f32. The class is picked by comparison: the gradient of a gather would scatter into a
/// tensor as large as the scores.
fn cross_entropy(scores: Tensor<2>, classes: Tensor<1, Int>) -> Tensor<1> {
    let [rows, count] = scores.dims();
    let scores = scores.cast(DType::F32);
    let largest = scores.clone().detach().max_dim(1);
    let shifted = scores - largest;
    let sum = shifted.clone().exp().sum_dim(1).log();
    let all = Tensor::<1, Int>::arange(0..count as i64, &classes.device()).unsqueeze::<2>();
    let others = all.not_equal(classes.reshape([rows, 1]));
    let picked = shifted.mask_fill(others, 0.0).sum_dim(1);
    (sum - picked).mean()
}

/// Makes every parameter bf16.
struct ToBf16;

impl ModuleMapper for ToBf16 {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        parameter.map(|value| value.detach().cast(DType::BF16).detach().require_grad())
    }
}

pub fn train(device: &Device) -> Work {
    let device = device.clone().autodiff();
    let model = Gpt2::new(&device).map(&mut ToBf16);
    let ids: Vec<i32> = (0..BATCH * LENGTH).map(|i| (i * 7919 % VOCABULARY) as i32).collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [BATCH, LENGTH]), &device);
    // Untrained, all of the vocabulary is about as likely: ln 50257 = 10.82, and a little for its variance.
    training(&device, model, 1e-4, 10.7..11.3, move |model: &Gpt2| model.loss(ids.clone()))
}
