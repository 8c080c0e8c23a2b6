//! Operations of neural network modules.

use super::{Mlir, int_type};
use crate::MlirTensor;
use crate::ops::{Ctc, Deformable, PoolGeometry};
use burn_backend::IntDType;
use burn_backend::ops::{
    AttentionModuleOptions, BatchNormTrain, BatchNormTrainBackward, ConvOptions, ConvTransposeOptions,
    DeformConv2dBackward, DeformConvOptions, InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices,
    ModuleOps, UnfoldOptions,
};

/// Convolution and its gradients: `rank: methods`.
macro_rules! conv_rows {
    ($($rank:literal: $forward:ident, $input:ident, $weight:ident, $bias:ident;)*) => {
        $(
            fn $forward(
                x: MlirTensor,
                weight: MlirTensor,
                bias: Option<MlirTensor>,
                options: ConvOptions<$rank>,
            ) -> MlirTensor {
                x.conv(&weight, bias.as_ref(), &options)
            }

            fn $input(
                x: MlirTensor,
                weight: MlirTensor,
                output_grad: MlirTensor,
                options: ConvOptions<$rank>,
            ) -> MlirTensor {
                output_grad.conv_input_grad(&x.shape, &weight, &options)
            }

            fn $weight(
                x: MlirTensor,
                weight: MlirTensor,
                output_grad: MlirTensor,
                options: ConvOptions<$rank>,
            ) -> MlirTensor {
                x.conv_weight_grad(&weight.shape, &output_grad, &options)
            }

            fn $bias(_x: MlirTensor, _bias: MlirTensor, output_grad: MlirTensor) -> MlirTensor {
                output_grad.conv_bias_grad()
            }
        )*
    };
}

/// Transposed convolution and its gradients: `rank: methods`.
macro_rules! conv_transpose_rows {
    ($($rank:literal: $forward:ident, $input:ident, $weight:ident, $bias:ident;)*) => {
        $(
            fn $forward(
                x: MlirTensor,
                weight: MlirTensor,
                bias: Option<MlirTensor>,
                options: ConvTransposeOptions<$rank>,
            ) -> MlirTensor {
                x.conv_transpose(&weight, bias.as_ref(), &options)
            }

            fn $input(
                weight: MlirTensor,
                output_grad: MlirTensor,
                options: ConvTransposeOptions<$rank>,
            ) -> MlirTensor {
                output_grad.conv_transpose_input_grad(&weight, &options)
            }

            fn $weight(
                x: MlirTensor,
                weight: MlirTensor,
                output_grad: MlirTensor,
                options: ConvTransposeOptions<$rank>,
            ) -> MlirTensor {
                x.conv_transpose_weight_grad(&weight.shape, &output_grad, &options)
            }

            fn $bias(_x: MlirTensor, _bias: MlirTensor, output_grad: MlirTensor) -> MlirTensor {
                output_grad.conv_bias_grad()
            }
        )*
    };
}

impl ModuleOps<Mlir> for Mlir {
    conv_rows! {
        1: conv1d, conv1d_x_backward, conv1d_weight_backward, conv1d_bias_backward;
        2: conv2d, conv2d_x_backward, conv2d_weight_backward, conv2d_bias_backward;
        3: conv3d, conv3d_x_backward, conv3d_weight_backward, conv3d_bias_backward;
    }

    conv_transpose_rows! {
        1: conv_transpose1d, conv_transpose1d_x_backward, conv_transpose1d_weight_backward,
            conv_transpose1d_bias_backward;
        2: conv_transpose2d, conv_transpose2d_x_backward, conv_transpose2d_weight_backward,
            conv_transpose2d_bias_backward;
        3: conv_transpose3d, conv_transpose3d_x_backward, conv_transpose3d_weight_backward,
            conv_transpose3d_bias_backward;
    }

    fn linear(x: MlirTensor, weight: MlirTensor, bias: Option<MlirTensor>) -> MlirTensor {
        x.linear(&weight, bias.as_ref())
    }

    fn linear_x_backward(weight: MlirTensor, output_grad: MlirTensor) -> MlirTensor {
        output_grad.linear_input_grad(&weight)
    }

    fn linear_weight_backward(x: MlirTensor, output_grad: MlirTensor) -> MlirTensor {
        x.linear_weight_grad(&output_grad)
    }

    fn linear_bias_backward(output_grad: MlirTensor) -> MlirTensor {
        output_grad.linear_bias_grad()
    }

    fn layer_norm(
        tensor: MlirTensor,
        gamma: MlirTensor,
        beta: Option<MlirTensor>,
        epsilon: f64,
    ) -> MlirTensor {
        tensor.layer_norm(&gamma, beta.as_ref(), epsilon)
    }

    fn batch_norm(
        x: MlirTensor,
        gamma: MlirTensor,
        beta: MlirTensor,
        mean: MlirTensor,
        variance: MlirTensor,
        epsilon: f64,
    ) -> MlirTensor {
        x.batch_norm(&gamma, &beta, &mean, &variance, epsilon)
    }

    fn batch_norm_train(
        x: MlirTensor,
        gamma: MlirTensor,
        beta: MlirTensor,
        epsilon: f64,
    ) -> BatchNormTrain<Self> {
        let (mean, variance) = x.channel_statistics();
        let output = x.batch_norm(&gamma, &beta, &mean, &variance, epsilon);
        BatchNormTrain::new(output, mean, variance)
    }

    fn batch_norm_train_backward(
        x: MlirTensor,
        gamma: MlirTensor,
        mean: MlirTensor,
        variance: MlirTensor,
        epsilon: f64,
        output_grad: MlirTensor,
    ) -> BatchNormTrainBackward<Self> {
        let [input, gamma, beta] = x.batch_norm_grads(&gamma, &mean, &variance, epsilon, &output_grad);
        BatchNormTrainBackward::new(input, gamma, beta)
    }

    fn attention(
        query: MlirTensor,
        key: MlirTensor,
        value: MlirTensor,
        mask: Option<MlirTensor>,
        attn_bias: Option<MlirTensor>,
        options: AttentionModuleOptions,
    ) -> MlirTensor {
        query.attention(&key, &value, mask.as_ref(), attn_bias.as_ref(), &options)
    }

    fn unfold4d(x: MlirTensor, kernel_size: [usize; 2], options: UnfoldOptions) -> MlirTensor {
        x.unfold_2d(kernel_size, options.stride, options.padding, options.dilation)
    }

    fn fold4d(
        x: MlirTensor,
        output_size: [usize; 2],
        kernel_size: [usize; 2],
        options: UnfoldOptions,
    ) -> MlirTensor {
        x.fold_2d(output_size, kernel_size, options.stride, options.padding, options.dilation)
    }

    fn max_pool2d(
        x: MlirTensor,
        size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> MlirTensor {
        x.max_pool(&PoolGeometry { size, stride, padding, dilation, ceil_mode })
    }

    fn max_pool2d_with_indices(
        x: MlirTensor,
        size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<Self> {
        let geometry = PoolGeometry { size, stride, padding, dilation, ceil_mode };
        let (values, indices) = x.max_pool_with_indices(&geometry, int_type(indices_dtype));
        MaxPool2dWithIndices::new(values, indices)
    }

    fn max_pool2d_with_indices_backward(
        x: MlirTensor,
        _size: [usize; 2],
        _stride: [usize; 2],
        _padding: [usize; 2],
        _dilation: [usize; 2],
        _ceil_mode: bool,
        output_grad: MlirTensor,
        indices: MlirTensor,
    ) -> MaxPool2dBackward<Self> {
        MaxPool2dBackward::new(output_grad.max_pool_grad(&x.shape, &indices))
    }

    fn avg_pool2d(
        x: MlirTensor,
        size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> MlirTensor {
        let geometry = PoolGeometry { size, stride, padding, dilation: [1, 1], ceil_mode };
        x.avg_pool(&geometry, count_include_pad)
    }

    fn avg_pool2d_backward(
        x: MlirTensor,
        grad: MlirTensor,
        size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> MlirTensor {
        let geometry = PoolGeometry { size, stride, padding, dilation: [1, 1], ceil_mode };
        grad.avg_pool_grad(&x.shape, &geometry, count_include_pad)
    }

    fn adaptive_avg_pool2d(x: MlirTensor, output_size: [usize; 2]) -> MlirTensor {
        x.adaptive_avg_pool(&output_size)
    }

    fn adaptive_avg_pool2d_backward(x: MlirTensor, grad: MlirTensor) -> MlirTensor {
        grad.adaptive_avg_pool_grad(&x.shape)
    }

    fn adaptive_avg_pool3d(x: MlirTensor, output_size: [usize; 3]) -> MlirTensor {
        x.adaptive_avg_pool(&output_size)
    }

    fn adaptive_avg_pool3d_backward(x: MlirTensor, grad: MlirTensor) -> MlirTensor {
        grad.adaptive_avg_pool_grad(&x.shape)
    }

    fn interpolate(x: MlirTensor, output_size: [usize; 2], options: InterpolateOptions) -> MlirTensor {
        x.interpolate(output_size, &options)
    }

    fn interpolate_backward(
        x: MlirTensor,
        grad: MlirTensor,
        _output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> MlirTensor {
        grad.interpolate_grad(&x.shape, &options)
    }

    fn deform_conv2d(
        x: MlirTensor,
        offset: MlirTensor,
        weight: MlirTensor,
        mask: Option<MlirTensor>,
        bias: Option<MlirTensor>,
        options: DeformConvOptions<2>,
    ) -> MlirTensor {
        let (mask, bias) = (mask.as_ref(), bias.as_ref());
        Deformable { x: &x, offset: &offset, weight: &weight, mask, bias, options }.forward()
    }

    fn deform_conv2d_backward(
        x: MlirTensor,
        offset: MlirTensor,
        weight: MlirTensor,
        mask: Option<MlirTensor>,
        bias: Option<MlirTensor>,
        output_grad: MlirTensor,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Self> {
        let (mask, bias) = (mask.as_ref(), bias.as_ref());
        let operands = Deformable { x: &x, offset: &offset, weight: &weight, mask, bias, options };
        let grads = operands.backward(&output_grad);
        DeformConv2dBackward::new(grads.input, grads.offset, grads.weight, grads.mask, grads.bias)
    }

    fn ctc_loss(
        log_probs: MlirTensor,
        targets: MlirTensor,
        input_lengths: MlirTensor,
        target_lengths: MlirTensor,
        blank: usize,
    ) -> MlirTensor {
        let (logs, targets) = (&log_probs, &targets);
        let (input_lengths, target_lengths) = (&input_lengths, &target_lengths);
        Ctc { logs, targets, input_lengths, target_lengths, blank }.loss()
    }

    fn has_ctc_loss_backward() -> bool {
        true
    }

    fn ctc_loss_backward(
        log_probs: MlirTensor,
        targets: MlirTensor,
        input_lengths: MlirTensor,
        target_lengths: MlirTensor,
        grad_loss: MlirTensor,
        blank: usize,
    ) -> MlirTensor {
        let (logs, targets) = (&log_probs, &targets);
        let (input_lengths, target_lengths) = (&input_lengths, &target_lengths);
        Ctc { logs, targets, input_lengths, target_lengths, blank }.grad(&grad_loss)
    }
}
