//! Activations and normalisations, with their gradients.

use crate::agreement::{agree, float, float_in};

agree! {
    fn functions<B>(results) within 3e-6 {
        let x = float_in::<B, 2>([5, 40], 1, -9.0, 9.0);
        let grad = float::<B, 2>([5, 40], 2);
        results.float::<B>("relu", B::relu(x.clone()));
        results.float::<B>("relu gradient", B::relu_backward(B::relu(x.clone()), grad.clone()));
        results.float::<B>("leaky relu", B::leaky_relu(x.clone(), 0.1.into()));
        results.float::<B>("gelu", B::gelu(x.clone()));
        results.float::<B>("gelu gradient", B::gelu_backward(x.clone(), grad.clone()));
        let y = B::sigmoid(x.clone());
        results.float::<B>("sigmoid", y.clone());
        results.float::<B>("sigmoid gradient", B::sigmoid_backward(y, grad.clone()));
        results.float::<B>("hard sigmoid", B::hard_sigmoid(x.clone(), 0.2.into(), 0.5.into()));
        results.float::<B>("log sigmoid", B::log_sigmoid(x.clone()));
        results.float::<B>("log sigmoid gradient", B::log_sigmoid_backward(x.clone(), grad));
        for dim in 0..2 {
            results.float::<B>(format!("softmax {dim}"), B::softmax(x.clone(), dim));
            results.float::<B>(format!("log softmax {dim}"), B::log_softmax(x.clone(), dim));
        }
        results.float::<B>("softmin", B::softmin(x, 1));
    }

    fn normalisations<B>(results) within 1e-5 {
        let x = float::<B, 3>([3, 4, 50], 1);
        let (gamma, beta) = (float::<B, 1>([50], 2), float::<B, 1>([50], 3));
        results.float::<B>("layer", B::layer_norm(x.clone(), gamma, Some(beta), 1e-5));
        let (gamma, beta) = (float::<B, 1>([4], 4), float::<B, 1>([4], 5));
        let batch = B::batch_norm_train(x.clone(), gamma.clone(), beta, 1e-5);
        results.float::<B>("batch", batch.output.clone());
        results.float::<B>("mean", batch.mean.clone());
        results.float::<B>("variance", batch.variance.clone());
        let grads = B::batch_norm_train_backward(
            x, gamma, batch.mean, batch.variance, 1e-5, B::float_abs(batch.output),
        );
        results.float::<B>("batch gradient", grads.x_grad);
        results.float::<B>("gamma gradient", grads.gamma_grad);
        results.float::<B>("beta gradient", grads.beta_grad);
    }
}
