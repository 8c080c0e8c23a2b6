//! Which workloads there are, by the kind of device they are meant for.

use crate::{Setup, gpt2, kernels, replay, training};
use burn::tensor::DType::{BF16, F16, F32, Flex32};

/// For a host.
pub const CPU: &[(&str, Setup)] = &[
    ("matmul_f32_256", |d| kernels::matmul(d, 256, false, F32)),
    ("matmul_f32_1024", |d| kernels::matmul(d, 1024, false, F32)),
    ("matmul_f32_2048", |d| kernels::matmul(d, 2048, false, F32)),
    ("matmul_nt_f32_1024", |d| kernels::matmul(d, 1024, true, F32)),
    ("matmul_bf16_1024", |d| kernels::matmul(d, 1024, false, BF16)),
    ("linear_gelu_f32", |d| kernels::linear_gelu(d, [512, 768, 3072], F32)),
    ("elementwise_f32_16m", |d| kernels::elementwise(d, 1 << 24)),
    ("copy_f32_16m", kernels::copy),
    ("softmax_f32_4096x1024", |d| kernels::softmax_rows(d, 4096, 1024, F32)),
    ("layer_norm_f32_4096x1024", |d| kernels::layer_norm(d, 4096, 1024, F32)),
    ("sum_all_f32_16m", |d| kernels::sum_all(d, 1 << 24)),
    ("sum_dim0_f32_4096", kernels::sum_columns),
    ("argmax_dim1_f32_4096", kernels::argmax_rows),
    ("transpose_copy_f32_4096", kernels::transpose_copy),
    ("conv2d_f32", |d| kernels::convolution(d, [8, 64, 56], F32)),
    ("max_pool2d_f32", kernels::pool),
    ("attention_f32", |d| kernels::attention(d, [4, 8, 512, 64], true, F32)),
    ("embedding_f32", kernels::lookup),
    ("op_overhead_100", kernels::overhead),
    ("graph_replay_100", |d| replay::additions(d, false)),
    ("graph_replay_100_launches", |d| replay::additions(d, true)),
    ("mlp_step_8_eager", |d| replay::mlp_step(d, false)),
    ("mlp_step_8_replay", |d| replay::mlp_step(d, true)),
    ("mlp_train_f32", training::mlp_train),
    ("cnn_train_f32", training::cnn_train),
    ("gpt_block_train_f32", training::gpt_block_train),
    ("tiny_mlp_latency", training::tiny_mlp),
    ("dynamic_shapes_100", training::dynamic_shapes),
];

/// For a GPU.
pub const CUDA: &[(&str, Setup)] = &[
    ("matmul_bf16_1024", |d| kernels::matmul(d, 1024, false, BF16)),
    ("matmul_bf16_4096", |d| kernels::matmul(d, 4096, false, BF16)),
    ("matmul_bf16_8192", |d| kernels::matmul(d, 8192, false, BF16)),
    ("matmul_f16_4096", |d| kernels::matmul(d, 4096, false, F16)),
    ("matmul_f32_4096", |d| kernels::matmul(d, 4096, false, F32)),
    ("matmul_tf32_4096", |d| kernels::matmul(d, 4096, false, Flex32)),
    ("linear_gelu_bf16_8192", |d| kernels::linear_gelu(d, [8192, 4096, 16384], BF16)),
    ("elementwise_f32_64m", |d| kernels::elementwise(d, 1 << 26)),
    ("softmax_f32_8192", |d| kernels::softmax_rows(d, 8192, 8192, F32)),
    ("softmax_bf16_8192", |d| kernels::softmax_rows(d, 8192, 8192, BF16)),
    ("layer_norm_bf16_16384x4096", |d| kernels::layer_norm(d, 16384, 4096, BF16)),
    ("sum_all_f32_256m", |d| kernels::sum_all(d, 1 << 28)),
    ("attention_bf16", |d| kernels::attention(d, [8, 16, 4096, 128], false, BF16)),
    ("attention_causal_bf16", |d| kernels::attention(d, [8, 16, 4096, 128], true, BF16)),
    ("conv2d_bf16", |d| kernels::convolution(d, [64, 256, 56], BF16)),
    ("op_overhead_100", kernels::overhead),
    ("graph_replay_100", |d| replay::additions(d, false)),
    ("graph_replay_100_launches", |d| replay::additions(d, true)),
    ("mlp_step_8_eager", |d| replay::mlp_step(d, false)),
    ("mlp_step_8_replay", |d| replay::mlp_step(d, true)),
    ("gpt2_small_train_bf16", gpt2::train),
    ("mlp_train_f32", training::mlp_train),
    ("tiny_mlp_latency", training::tiny_mlp),
];
