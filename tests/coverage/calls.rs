//! A call of every function of Burn's traits, on small operands, and what it records.

use super::outcome::{Outcome, Seen};
use crate::agreement::{bools, float_in, int_in};
use burn_backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};
use burn_backend::ops::{
    ActivationOps, AttentionModuleOptions, BoolTensorOps, ConvOptions, ConvTransposeOptions,
    DeformConvOptions, FloatTensorOps, GridSampleOptions, IntTensorOps, InterpolateMode, InterpolateOptions,
    ModuleOps, PadMode, QTensorOps, TransactionOps, TransactionPrimitive, UnfoldOptions,
};
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    BoolDType, Device, Distribution, FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorPrimitive,
    read_sync, s,
};
use burn_mlir::{Mlir, MlirDevice, MlirTensor, QuantizedTensor};

const CPU: MlirDevice = MlirDevice::Cpu;
const F: FloatDType = FloatDType::F32;
const F16: FloatDType = FloatDType::F16;
const I: IntDType = IntDType::I32;
const I64: IntDType = IntDType::I64;
const B: BoolDType = BoolDType::Native;
const ADD: IndexingUpdateOp = IndexingUpdateOp::Add;

/// A float tensor of positive values.
fn f<const D: usize>(shape: [usize; D]) -> MlirTensor {
    float_in::<Mlir, D>(shape, 1, 0.25, 2.0)
}

/// An integer tensor of values below 4.
fn i<const D: usize>(shape: [usize; D]) -> MlirTensor {
    int_in::<Mlir, D>(shape, 2, 0, 4)
}

fn b<const D: usize>(shape: [usize; D]) -> MlirTensor {
    let values: Vec<bool> = (0..shape.iter().product()).map(|index| index % 3 == 0).collect();
    bools::<Mlir, D>(shape, &values)
}

fn x() -> MlirTensor {
    f([4, 6])
}

fn n() -> MlirTensor {
    i([4, 6])
}

fn m() -> MlirTensor {
    b([4, 6])
}

/// Two by two positions of whole points, for gather_nd.
fn points() -> MlirTensor {
    i([2, 2])
}

fn q() -> QuantizedTensor {
    Mlir::quantize_dynamic(x(), &QuantScheme::default())
}

fn qf() -> TensorPrimitive<Mlir> {
    TensorPrimitive::QFloat(q())
}

fn two() -> Scalar {
    2.into()
}

fn box_of() -> Vec<Slice> {
    vec![s![1..3], s![0..6;2]]
}

fn data() -> TensorData {
    TensorData::new(vec![1.0f32, 2.0], [2])
}

fn q_data() -> TensorData {
    read_sync(Mlir::q_into_data(q())).unwrap_or_else(|_| data())
}

fn shape() -> Shape {
    Shape::new([4, 6])
}

/// Observes calls: `(arguments) => functions;`. The operands are there before.
macro_rules! calls {
    ($seen:ident: $($arguments:tt => $($function:ident)*;)*) => {
        $($($seen.push((stringify!($function).to_string(), calls!(@observe $function $arguments)));)*)*
    };
    (@observe $function:ident ()) => { Seen::of((), |()| Mlir::$function()) };
    (@observe $function:ident ($a:expr)) => { Seen::of($a, |a| Mlir::$function(a)) };
    (@observe $function:ident ($a:expr, $b:expr)) => { Seen::of(($a, $b), |(a, b)| Mlir::$function(a, b)) };
    (@observe $function:ident ($a:expr, $b:expr, $c:expr)) => {
        Seen::of(($a, $b, $c), |(a, b, c)| Mlir::$function(a, b, c))
    };
    (@observe $function:ident ($a:expr, $b:expr, $c:expr, $d:expr)) => {
        Seen::of(($a, $b, $c, $d), |(a, b, c, d)| Mlir::$function(a, b, c, d))
    };
    (@observe $function:ident ($a:expr, $b:expr, $c:expr, $d:expr, $e:expr)) => {
        Seen::of(($a, $b, $c, $d, $e), |(a, b, c, d, e)| Mlir::$function(a, b, c, d, e))
    };
    (@observe $function:ident ($a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr)) => {
        Seen::of(($a, $b, $c, $d, $e, $f), |(a, b, c, d, e, f)| Mlir::$function(a, b, c, d, e, f))
    };
    (@observe $function:ident ($a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr, $g:expr)) => {
        Seen::of(($a, $b, $c, $d, $e, $f, $g), |(a, b, c, d, e, f, g)| Mlir::$function(a, b, c, d, e, f, g))
    };
    (@observe $function:ident ($a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr, $g:expr, $h:expr)) => {
        Seen::of(($a, $b, $c, $d, $e, $f, $g, $h), |(a, b, c, d, e, f, g, h)| {
            Mlir::$function(a, b, c, d, e, f, g, h)
        })
    };
}

/// The functions that compute or move tensors, by name.
pub fn observe() -> Vec<(String, Seen)> {
    let mut seen = Vec::new();
    floats(&mut seen);
    ints(&mut seen);
    truths(&mut seen);
    modules(&mut seen);
    convolutions(&mut seen);
    pools(&mut seen);
    quantised(&mut seen);
    around(&mut seen);
    seen
}

type All = Vec<(String, Seen)>;

fn floats(seen: &mut All) {
    calls! { seen:
        (data(), &CPU) => float_from_data;
        (shape(), Distribution::Default, &CPU, F) => float_random;
        (shape(), &CPU, F) => float_zeros float_ones float_empty;
        (shape(), two(), &CPU, F) => float_full;
        (x(), &CPU) => float_to_device;
        (x(), I) => float_into_int;
        (x(), F16) => float_cast;
        (x(), 1, 3) => float_repeat_dim;
        (x(), x()) => float_add float_sub float_mul float_div float_remainder float_powf float_hypot float_atan2;
        (x(), n()) => float_powi;
        (x(), two()) => float_add_scalar float_sub_scalar float_mul_scalar float_div_scalar float_remainder_scalar
            float_clamp_min float_clamp_max float_powi_scalar float_powi_scalar_impl float_powf_scalar float_powf_scalar_impl;
        (x(), 0.5.into(), two()) => float_clamp;
        (x(), f([6, 4])) => float_matmul;
        (f([4, 3]), f([4, 3]), 1) => float_cross;
        (x()) => float_neg float_recip float_transpose float_detach float_sum float_prod float_mean float_exp float_log
            float_log1p float_sqrt float_abs float_cos float_sin float_tan float_cosh float_sinh float_tanh float_acos
            float_acosh float_asin float_asinh float_atan float_atanh float_round float_floor float_ceil float_trunc
            float_erf float_max float_min float_max_abs float_sign;
        (x(), 0, 1) => float_swap_dims;
        (x(), &[1, 0][..]) => float_permute float_flip float_sum_dims;
        (x(), Shape::new([6, 4])) => float_reshape;
        (0, x(), i([2, 6])) => float_gather;
        (0, x(), i([2, 6]), f([2, 6]), ADD) => float_scatter;
        (x(), points(), f([2]), ADD) => float_scatter_nd;
        (x(), points()) => float_gather_nd;
        (x(), 1, i([3])) => float_select;
        (x(), 1, i([3]), f([4, 3]), ADD) => float_select_assign;
        (x(), &box_of()) => float_slice;
        (x(), &box_of(), f([2, 3])) => float_slice_assign;
        (x(), m(), x()) => float_mask_where;
        (x(), m(), two()) => float_mask_fill;
        (x(), x(), B) => float_equal float_not_equal float_greater float_greater_equal float_lower float_lower_equal;
        (x(), two(), B) => float_equal_elem float_not_equal_elem float_greater_elem float_greater_equal_elem
            float_lower_elem float_lower_equal_elem;
        (x(), true) => float_set_require_grad;
        (&x()) => float_is_require_grad;
        (x(), 1) => float_sum_dim float_prod_dim float_mean_dim float_cumsum float_cumprod float_cummin float_cummax
            float_max_dim float_min_dim float_max_abs_dim;
        (vec![x(), x()], 1) => float_cat;
        (x(), 1, I) => float_argmax float_argmin float_max_dim_with_indices float_min_dim_with_indices;
        (x(), 1, 2, I) => float_argtopk float_topk_with_indices;
        (x(), 1, 2) => float_topk;
        (x(), B) => float_any float_all float_is_nan float_is_inf;
        (x(), 1, B) => float_any_dim float_all_dim;
        (f([1, 6]), shape()) => float_expand;
        (x(), 1, true) => float_sort;
        (x(), 1, true, I) => float_sort_with_indices float_argsort;
        (f([1, 2, 5, 5]), f([1, 3, 3, 2]), GridSampleOptions::default()) => float_grid_sample_2d;
        (x(), 1, 3, 2) => float_unfold;
        (x(), &[(1, 1), (0, 2)][..], PadMode::Reflect) => float_pad;
    }
    seen.push(("float_into_data".into(), Seen::of(x(), |x| read_sync(Mlir::float_into_data(x)))));
    seen.push((
        "float_mask_select".into(),
        Seen::of((x(), m()), |(x, m)| read_sync(Mlir::float_mask_select(x, m))),
    ));
}

fn ints(seen: &mut All) {
    calls! { seen:
        (TensorData::new(vec![1i32, 2], [2]), &CPU) => int_from_data;
        (shape(), Distribution::Uniform(0.0, 9.0), &CPU, I) => int_random;
        (shape(), &CPU, I) => int_empty int_zeros int_ones;
        (shape(), two(), &CPU, I) => int_full;
        (0..5, 2, &CPU, I) => int_arange_step;
        (0..5, &CPU, I) => int_arange;
        (n(), &CPU) => int_to_device;
        (n(), F) => int_into_float;
        (n(), I64) => int_cast;
        (n(), 1, 3) => int_repeat_dim;
        (n(), n()) => int_add int_sub int_mul int_div int_remainder int_powi bitwise_and bitwise_or bitwise_xor
            bitwise_left_shift bitwise_right_shift;
        (n(), two()) => int_add_scalar int_sub_scalar int_mul_scalar int_div_scalar int_remainder_scalar int_powi_scalar
            int_powi_scalar_impl int_clamp_min int_clamp_max bitwise_and_scalar bitwise_or_scalar bitwise_xor_scalar
            bitwise_left_shift_scalar bitwise_right_shift_scalar;
        (n(), 0.into(), two()) => int_clamp;
        (n(), i([6, 4])) => int_matmul;
        (n()) => int_neg int_square int_transpose int_sum int_prod int_mean int_max int_min int_max_abs int_abs int_sign
            bitwise_not;
        (n(), 0, 1) => int_swap_dims;
        (n(), &[1, 0][..]) => int_permute int_flip;
        (n(), Shape::new([6, 4])) => int_reshape;
        (0, n(), i([2, 6])) => int_gather;
        (0, n(), i([2, 6]), i([2, 6]), ADD) => int_scatter;
        (n(), points(), i([2]), ADD) => int_scatter_nd;
        (n(), points()) => int_gather_nd;
        (n(), 1, i([3])) => int_select;
        (n(), 1, i([3]), i([4, 3]), ADD) => int_select_assign;
        (n(), &box_of()) => int_slice;
        (n(), &box_of(), i([2, 3])) => int_slice_assign;
        (n(), m(), n()) => int_mask_where;
        (n(), m(), two()) => int_mask_fill;
        (n(), n(), B) => int_equal int_not_equal int_greater int_greater_equal int_lower int_lower_equal;
        (n(), two(), B) => int_equal_elem int_not_equal_elem int_greater_elem int_greater_equal_elem int_lower_elem
            int_lower_equal_elem;
        (n(), 1) => int_sum_dim int_prod_dim int_mean_dim int_cumsum int_cumprod int_cummin int_cummax int_max_dim
            int_min_dim int_max_abs_dim int_argmax int_argmin int_max_dim_with_indices int_min_dim_with_indices;
        (vec![n(), n()], 1) => int_cat;
        (n(), 1, 2) => int_argtopk int_topk int_topk_with_indices;
        (n(), B) => int_any int_all;
        (n(), 1, B) => int_any_dim int_all_dim;
        (i([1, 6]), shape()) => int_expand;
        (n(), 1, true) => int_sort int_sort_with_indices int_argsort;
        (n(), 1, 3, 2) => int_unfold;
        (n(), &[(1, 1), (0, 2)][..], PadMode::Reflect) => int_pad;
    }
    seen.push(("int_into_data".into(), Seen::of(n(), |n| read_sync(Mlir::int_into_data(n)))));
    seen.push((
        "int_mask_select".into(),
        Seen::of((n(), m()), |(n, m)| read_sync(Mlir::int_mask_select(n, m))),
    ));
}

fn truths(seen: &mut All) {
    calls! { seen:
        (TensorData::new(vec![true, false], [2]), &CPU) => bool_from_data;
        (shape(), &CPU, B) => bool_empty bool_zeros bool_ones;
        (m(), &CPU) => bool_to_device;
        (m(), I) => bool_into_int;
        (m(), F) => bool_into_float;
        (m(), 1, 3) => bool_repeat_dim;
        (m(), m()) => bool_equal bool_not_equal bool_and bool_or bool_xor;
        (m(), true.into()) => bool_equal_elem bool_not_equal_elem;
        (m()) => bool_not bool_transpose bool_any bool_all;
        (m(), 0, 1) => bool_swap_dims;
        (m(), &[1, 0][..]) => bool_permute bool_flip;
        (m(), Shape::new([6, 4])) => bool_reshape;
        (0, m(), i([2, 6])) => bool_gather;
        (0, m(), i([2, 6]), b([2, 6])) => bool_scatter_or;
        (m(), 1, i([3])) => bool_select;
        (m(), 1, i([3]), b([4, 3])) => bool_select_or;
        (m(), &box_of()) => bool_slice;
        (m(), &box_of(), b([2, 3])) => bool_slice_assign;
        (m(), m(), m()) => bool_mask_where;
        (m(), m(), true.into()) => bool_mask_fill;
        (m(), 1) => bool_any_dim bool_all_dim;
        (vec![m(), m()], 1) => bool_cat;
        (b([1, 6]), shape()) => bool_expand;
        (m(), 1, 3, 2) => bool_unfold;
    }
    seen.push(("bool_into_data".into(), Seen::of(m(), |m| read_sync(Mlir::bool_into_data(m)))));
    seen.push((
        "bool_mask_select".into(),
        Seen::of((m(), m()), |(a, m)| read_sync(Mlir::bool_mask_select(a, m))),
    ));
    seen.push(("bool_argwhere".into(), Seen::of(m(), |m| read_sync(Mlir::bool_argwhere(m, I)))));
}

fn modules(seen: &mut All) {
    let heads = || f([1, 2, 5, 4]);
    calls! { seen:
        (x(), 0.1.into()) => leaky_relu;
        (x()) => relu gelu sigmoid log_sigmoid;
        (x(), x()) => relu_backward gelu_backward sigmoid_backward log_sigmoid_backward;
        (x(), f([1])) => prelu;
        (x(), 0.2.into(), 0.5.into()) => hard_sigmoid;
        (x(), 1) => softmax log_softmax softmin;
        (f([2, 3, 4]), f([3]), f([3]), f([3]), f([3]), 1e-5) => batch_norm;
        (f([2, 3, 4]), f([3]), f([3]), 1e-5) => batch_norm_train;
        (f([2, 3, 4]), f([3]), f([3]), f([3]), 1e-5, f([2, 3, 4])) => batch_norm_train_backward;
        (x(), i([2, 3])) => embedding;
        (x(), f([2, 3, 6]), i([2, 3])) => embedding_backward;
        (x(), f([6, 5]), Some(f([5]))) => linear;
        (f([6, 5]), f([4, 5])) => linear_x_backward;
        (x(), f([4, 5])) => linear_weight_backward;
        (f([4, 5])) => linear_bias_backward;
        (x(), f([6]), Some(f([6])), 1e-5) => layer_norm;
        (heads(), heads(), heads(), Some(b([1, 2, 5, 5])), Some(f([1, 2, 5, 5])), AttentionModuleOptions::default()) => attention;
        (f([6, 2, 5]), i([2, 2]), int_in::<Mlir, 1>([2], 1, 6, 7), int_in::<Mlir, 1>([2], 1, 2, 3), 0) => ctc_loss;
        () => has_ctc_loss_backward;
        (f([6, 2, 5]), i([2, 2]), int_in::<Mlir, 1>([2], 1, 6, 7), int_in::<Mlir, 1>([2], 1, 2, 3), f([2]), 0) => ctc_loss_backward;
    }
}

fn convolutions(seen: &mut All) {
    let one = || ConvOptions::new([1], [1], [1], 1);
    let two = || ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let three = || ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    let back1 = || ConvTransposeOptions::new([1], [1], [0], [1], 1);
    let back2 = || ConvTransposeOptions::new([1; 2], [1; 2], [0; 2], [1; 2], 1);
    let back3 = || ConvTransposeOptions::new([1; 3], [1; 3], [0; 3], [1; 3], 1);
    let (x1, x2, x3) = (|| f([2, 2, 5]), || f([2, 2, 5, 5]), || f([2, 2, 4, 4, 4]));
    let (w1, w2, w3) = (|| f([2, 2, 3]), || f([2, 2, 3, 3]), || f([2, 2, 3, 3, 3]));
    let unfold = || UnfoldOptions::new([1, 1], [0, 0], [1, 1]);
    let deform = || DeformConvOptions::new([1, 1], [1, 1], [1, 1], 1, 1);
    let offset = || f([2, 18, 5, 5]);
    calls! { seen:
        (x1(), w1(), Some(f([2])), one()) => conv1d;
        (x1(), w1(), x1(), one()) => conv1d_x_backward conv1d_weight_backward;
        (x1(), f([2]), x1()) => conv1d_bias_backward conv_transpose1d_bias_backward;
        (x2(), w2(), Some(f([2])), two()) => conv2d;
        (x2(), w2(), x2(), two()) => conv2d_x_backward conv2d_weight_backward;
        (x2(), f([2]), x2()) => conv2d_bias_backward conv_transpose2d_bias_backward;
        (x3(), w3(), Some(f([2])), three()) => conv3d;
        (x3(), w3(), x3(), three()) => conv3d_x_backward conv3d_weight_backward;
        (x3(), f([2]), x3()) => conv3d_bias_backward conv_transpose3d_bias_backward;
        (x1(), w1(), Some(f([2])), back1()) => conv_transpose1d;
        (w1(), x1(), back1()) => conv_transpose1d_x_backward;
        (x1(), w1(), x1(), back1()) => conv_transpose1d_weight_backward;
        (x2(), w2(), Some(f([2])), back2()) => conv_transpose2d;
        (w2(), x2(), back2()) => conv_transpose2d_x_backward;
        (x2(), w2(), x2(), back2()) => conv_transpose2d_weight_backward;
        (x3(), w3(), Some(f([2])), back3()) => conv_transpose3d;
        (w3(), x3(), back3()) => conv_transpose3d_x_backward;
        (x3(), w3(), x3(), back3()) => conv_transpose3d_weight_backward;
        (x2(), offset(), w2(), Some(f([2, 9, 5, 5])), Some(f([2])), deform()) => deform_conv2d;
        (x2(), offset(), w2(), Some(f([2, 9, 5, 5])), Some(f([2])), x2(), deform()) => deform_conv2d_backward;
        (x2(), [2, 2], unfold()) => unfold4d;
        (f([2, 8, 16]), [5, 5], [2, 2], unfold()) => fold4d;
    }
}

fn pools(seen: &mut All) {
    let (x1, x2, x3) = (|| f([2, 2, 6]), || f([2, 2, 6, 6]), || f([2, 2, 4, 4, 4]));
    let (y1, y2) = (|| f([2, 2, 3]), || f([2, 2, 3, 3]));
    let interpolate = || InterpolateOptions {
        mode: InterpolateMode::Bilinear,
        align_corners: false,
        output_size: None,
        scale_factor: None,
    };
    calls! { seen:
        (x1(), 2, 2, 0, true, false) => avg_pool1d;
        (x1(), y1(), 2, 2, 0, true, false) => avg_pool1d_backward;
        (x2(), [2, 2], [2, 2], [0, 0], true, false) => avg_pool2d;
        (x2(), y2(), [2, 2], [2, 2], [0, 0], true, false) => avg_pool2d_backward;
        (x1(), 3) => adaptive_avg_pool1d;
        (x1(), y1()) => adaptive_avg_pool1d_backward;
        (x2(), [3, 3]) => adaptive_avg_pool2d;
        (x2(), y2()) => adaptive_avg_pool2d_backward;
        (x3(), [2, 2, 2]) => adaptive_avg_pool3d;
        (x3(), f([2, 2, 2, 2, 2])) => adaptive_avg_pool3d_backward;
        (x1(), 2, 2, 0, 1, false) => max_pool1d;
        (x1(), 2, 2, 0, 1, false, I) => max_pool1d_with_indices;
        (x1(), 2, 2, 0, 1, false, y1(), i([2, 2, 3])) => max_pool1d_with_indices_backward;
        (x2(), [2, 2], [2, 2], [0, 0], [1, 1], false) => max_pool2d;
        (x2(), [2, 2], [2, 2], [0, 0], [1, 1], false, I) => max_pool2d_with_indices;
        (x2(), [2, 2], [2, 2], [0, 0], [1, 1], false, y2(), i([2, 2, 3, 3])) => max_pool2d_with_indices_backward;
        (x2(), [9, 9], interpolate()) => interpolate;
        (x2(), f([2, 2, 9, 9]), [9, 9], interpolate()) => interpolate_backward;
    }
}

fn quantised(seen: &mut All) {
    let scales = || QuantizationParametersPrimitive { scales: f([1]), global: None };
    calls! { seen:
        (q_data(), &CPU) => q_from_data;
        (x(), &QuantScheme::default(), scales()) => quantize;
        (x(), &QuantScheme::default()) => quantize_dynamic;
        (q(), F) => dequantize;
        (q(), &CPU) => q_to_device;
        (q(), Shape::new([6, 4])) => q_reshape;
        (q()) => q_detach q_transpose q_neg q_recip q_sum q_prod q_mean q_exp q_log q_log1p q_sqrt q_abs q_cos q_sin q_tan
            q_cosh q_sinh q_tanh q_erf q_max q_min q_max_abs;
        (q(), true) => q_set_require_grad;
        (&q()) => q_is_require_grad;
        (q(), Shape::new([2, 4, 6])) => q_expand;
        (q(), 0, 1) => q_swap_dims;
        (q(), &[1, 0][..]) => q_permute q_flip;
        (q(), 1, i([3])) => q_select;
        (q(), &box_of()) => q_slice;
        (0, q(), i([2, 6])) => q_gather;
        (q(), 1, 3) => q_repeat_dim;
        (q(), q()) => q_add q_sub q_mul q_div q_powf;
        (q(), two()) => q_add_scalar q_sub_scalar q_mul_scalar q_div_scalar q_clamp_min q_clamp_max q_powi_scalar q_powf_scalar;
        (q(), 0.5.into(), two()) => q_clamp;
        (q(), n()) => q_powi;
        (qf(), TensorPrimitive::QFloat(Mlir::q_transpose(q()))) => q_matmul;
        (q(), 1) => q_sum_dim q_prod_dim q_mean_dim q_cumsum q_cumprod q_cummin q_cummax q_max_dim q_min_dim q_max_abs_dim;
        (vec![q(), q()], 1) => q_cat;
        (q(), 1, I) => q_argmax q_argmin q_max_dim_with_indices q_min_dim_with_indices;
        (q(), 1, 2, I) => q_argtopk q_topk_with_indices;
        (q(), 1, 2) => q_topk;
        (q(), B) => q_any q_all;
        (q(), 1, B) => q_any_dim q_all_dim;
        (q(), 1, true) => q_sort;
        (q(), 1, true, I) => q_sort_with_indices q_argsort;
    }
    seen.push(("q_into_data".into(), Seen::of(q(), |q| read_sync(Mlir::q_into_data(q)))));
}

fn around(seen: &mut All) {
    let transaction = || TransactionPrimitive::<Mlir>::new(vec![x(), x()], vec![], vec![n()], vec![m()]);
    seen.push(("tr_execute".into(), Seen::of(transaction(), |t| read_sync(Mlir::tr_execute(t)))));
    let alone = vec![CPU.to_id()];
    seen.push(("all_reduce".into(), Seen::of(x(), |x| Mlir::all_reduce(x, ReduceOperation::Sum, alone))));
}

impl Outcome for CollectiveTensor<Mlir> {
    fn error(&self) -> Option<String> {
        Outcome::error(&self.clone().resolve())
    }
}
