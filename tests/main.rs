//! The backend's operations, executed on the host: against `burn-flex`, an independent
//! implementation, and against closed forms.

mod activations;
mod adjoints;
mod agreement;
mod attention;
mod contractions;
mod contractions_gpu;
mod contractions_gpu_mma;
mod convolutions;
mod ctc;
mod devices;
mod dtypes;
mod edges;
mod elementwise;
mod errors;
mod failure;
mod gradients;
mod graphs;
mod guide;
mod indexing;
mod known_failures;
mod memory_kernels;
mod order;
mod pools;
mod property;
mod quantized;
mod randomness;
mod recorded;
mod reductions;
mod sampling;
mod stages;
mod support;
mod sweep;
mod training;
mod views;
