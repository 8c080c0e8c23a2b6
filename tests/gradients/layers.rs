//! Products, norms and attention.

use super::{Operand, Row, bools, differentiate, ints, rows};
use burn_backend::ops::AttentionModuleOptions;

const A: Operand = (&[2, 3, 4], -1.0, 1.0);
const CHANNELS: Operand = (&[3], 0.5, 1.5);
const Q: Operand = (&[1, 2, 3, 4], -1.0, 1.0);
const K: Operand = (&[1, 2, 5, 4], -1.0, 1.0);
const SCORES: Operand = (&[1, 2, 3, 5], -1.0, 1.0);

const PLAIN: AttentionModuleOptions = AttentionModuleOptions { scale: None, softcap: None, is_causal: false };

#[rustfmt::skip]
const ROWS: &[Row] = rows! {
    matmul[A, (&[2, 4, 5], -1.0, 1.0)] |x, B| B::float_matmul(x[0].clone(), x[1].clone());
    matmul_shared_right[A, (&[1, 4, 5], -1.0, 1.0)] |x, B| B::float_matmul(x[0].clone(), x[1].clone());
    matmul_shared_left[(&[1, 3, 4], -1.0, 1.0), (&[2, 4, 1], -1.0, 1.0)] |x, B| B::float_matmul(x[0].clone(), x[1].clone());
    matmul_transposed[A, (&[2, 5, 4], -1.0, 1.0)] |x, B| B::float_matmul(x[0].clone(), B::float_transpose(x[1].clone()));
    linear[A, (&[4, 5], -1.0, 1.0), (&[5], -1.0, 1.0)] |x, B| {
        B::linear(x[0].clone(), x[1].clone(), Some(x[2].clone()))
    };
    linear_without_bias[(&[3, 4], -1.0, 1.0), (&[4, 5], -1.0, 1.0)] |x, B| B::linear(x[0].clone(), x[1].clone(), None);
    layer_norm[A, (&[4], 0.5, 1.5), (&[4], -1.0, 1.0)] |x, B| {
        B::layer_norm(x[0].clone(), x[1].clone(), Some(x[2].clone()), 1e-5)
    };
    layer_norm_without_bias[A, (&[4], 0.5, 1.5)] |x, B| B::layer_norm(x[0].clone(), x[1].clone(), None, 1e-5);
    batch_norm[(&[4, 3, 2, 2], -2.0, 2.0), CHANNELS, (&[3], -1.0, 1.0), (&[3], -1.0, 1.0), CHANNELS] |x, B| {
        B::batch_norm(x[0].clone(), x[1].clone(), x[2].clone(), x[3].clone(), x[4].clone(), 1e-5)
    };
    batch_norm_train[(&[4, 3, 2, 2], -2.0, 2.0), CHANNELS, (&[3], -1.0, 1.0)] |x, B| {
        B::batch_norm_train(x[0].clone(), x[1].clone(), x[2].clone(), 1e-5).output
    };
    attention[Q, K, K] |x, B| B::attention(x[0].clone(), x[1].clone(), x[2].clone(), None, None, PLAIN);
    attention_with_mask_and_bias[Q, K, K, SCORES] |x, B| {
        let mask: Vec<bool> = (0..30).map(|at| at % 4 == 2).collect();
        let mask = bools::<B>(&mask, &[1, 2, 3, 5]);
        let options = AttentionModuleOptions { scale: Some(0.7), ..PLAIN };
        B::attention(x[0].clone(), x[1].clone(), x[2].clone(), Some(mask), Some(x[3].clone()), options)
    };
    attention_causal_with_softcap[K, K, K] |x, B| {
        let options = AttentionModuleOptions { softcap: Some(2.0), is_causal: true, ..PLAIN };
        B::attention(x[0].clone(), x[1].clone(), x[2].clone(), None, None, options)
    };
    ctc_loss[(&[6, 2, 4], -2.0, 2.0)] |x, B| {
        let log_probabilities = B::log_softmax(x[0].clone(), 2);
        let targets = ints::<B>(&[1, 2, 2, 3, 1, 1], &[2, 3]);
        B::ctc_loss(log_probabilities, targets, ints::<B>(&[6, 5], &[2]), ints::<B>(&[3, 2], &[2]), 0)
    };
};

#[test]
fn layers() {
    differentiate(ROWS);
}
