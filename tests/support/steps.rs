//! Steps of training a small network, written on the functions of `Backend`: for backends that Burn's tensors do not reach.

use crate::agreement::{float_in, int_in};
use crate::support::devices::Tested;
use burn_backend::ops::{ConvOptions, FloatTensorOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, TensorData, TensorMetadata, read_sync};

/// Takes `count` steps of gradient descent. Returns what each computed: the loss and the gradient of every parameter; at the
/// end the parameters.
pub fn train<B: Tested + AutodiffBackend>(count: usize) -> Vec<TensorData> {
    let mut results = Vec::new();
    let mut parameters = parameters::<B>();
    for _ in 0..count {
        let tracked: Vec<_> = parameters
            .iter()
            .map(|parameter| B::float_set_require_grad(B::from_inner(parameter.clone()), true))
            .collect();
        let loss = loss::<B>(&tracked);
        results.push(read_sync(B::float_into_data(loss.clone())).unwrap());
        let gradients = B::backward(loss);
        for (parameter, tracked) in parameters.iter_mut().zip(&tracked) {
            let gradient = B::grad(tracked, &gradients).expect("the loss depends on every parameter");
            results.push(read_sync(B::InnerBackend::float_into_data(gradient.clone())).unwrap());
            let step = B::InnerBackend::float_mul_scalar(gradient, 0.05.into());
            *parameter = B::InnerBackend::float_sub(parameter.clone(), step);
        }
    }
    let read = |parameter| read_sync(B::InnerBackend::float_into_data(parameter)).unwrap();
    results.extend(parameters.into_iter().map(read));
    results
}

fn parameters<B: Tested + AutodiffBackend>() -> Vec<FloatTensor<B::InnerBackend>> {
    let small = |tensor| B::inner(B::float_mul_scalar(tensor, 0.2.into()));
    vec![
        small(float_in::<B, 4>([4, 1, 3, 3], 1, -2.0, 2.0)),
        small(float_in::<B, 1>([4], 2, -2.0, 2.0)),
        small(float_in::<B, 2>([64, 32], 3, -2.0, 2.0)),
        small(float_in::<B, 1>([32], 4, -2.0, 2.0)),
        small(float_in::<B, 1>([32], 5, 4.0, 6.0)),
        small(float_in::<B, 1>([32], 6, -2.0, 2.0)),
        small(float_in::<B, 2>([10, 32], 7, -2.0, 2.0)),
        small(float_in::<B, 2>([32, 10], 8, -2.0, 2.0)),
    ]
}

/// Cross-entropy of a convolution, a pool, linear layers, a norm, an embedding and a gate, with decay of one weight.
fn loss<B: Tested>(parameters: &[FloatTensor<B>]) -> FloatTensor<B> {
    let [filters, bias, dense, dense_bias, gamma, beta, words, scores] = parameters else {
        panic!("eight parameters");
    };
    let images = float_in::<B, 4>([8, 1, 8, 8], 20, -1.0, 1.0);
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let x = B::conv2d(images, filters.clone(), Some(bias.clone()), options);
    let x = B::max_pool2d(B::gelu(x), [2, 2], [2, 2], [0, 0], [1, 1], false);
    let x = B::float_reshape(x, [8, 64].into());
    let x = B::linear(x, dense.clone(), Some(dense_bias.clone()));
    let x = B::layer_norm(x, gamma.clone(), Some(beta.clone()), 1e-5);
    let gate = B::sigmoid(x.clone());
    let x = B::float_mul(B::float_tanh(x), gate);
    let word = B::embedding(words.clone(), int_in::<B, 2>([8, 1], 21, 0, 10));
    let x = B::relu(B::float_add(x, B::float_reshape(word, [8, 32].into())));
    let x = B::float_div_scalar(B::float_exp(B::float_neg(x.clone())), 2.0.into());
    let x = B::log_softmax(B::float_matmul(x, scores.clone()), 1);
    let picked = B::float_gather(1, x, int_in::<B, 2>([8, 1], 22, 0, 10));
    let decay = B::float_sqrt(B::float_sum(B::float_powf_scalar(dense.clone(), 2.0.into())));
    let decay = B::float_mul_scalar(decay, 0.01.into());
    let loss = B::float_sub(decay, B::float_mean(picked));
    assert_eq!(loss.shape().to_vec(), [1]);
    loss
}

/// Fails unless two runs gave the same bits.
pub fn same(ours: &[TensorData], theirs: &[TensorData]) {
    assert_eq!(ours.len(), theirs.len());
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.shape(), theirs.shape(), "result {index}");
        assert_eq!(ours.as_bytes(), theirs.as_bytes(), "result {index}: {ours} and {theirs}");
    }
}

/// Fails unless floats of two runs are equal within `tolerance`, relative to the larger of 1 and the value.
pub fn close(ours: &[TensorData], theirs: &[TensorData], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len());
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.shape(), theirs.shape(), "result {index}");
        for (a, b) in ours.iter::<f64>().zip(theirs.iter::<f64>()) {
            assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "result {index}: {a} and {b}");
        }
    }
}
