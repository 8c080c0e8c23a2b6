//! Sums of products: matrices, linear layers, convolutions, attention.

use super::choices::{Choices, FLOATS, INTS};
use super::numbers::{BOOL, Domain};
use super::operation::{Operation, Reference, Tolerance, operations};
use super::run::family;
use super::value::{Case, Params, Value};
use Domain::{Any, Within};
use Tolerance::{Products, Scaled, Stored, Ulps};
use Value::{Float, Int};
use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, IntTensorOps,
};
use burn_backend::{BoolDType, DType, IntDType, Shape, Slice, TensorMetadata};
use burn_flex::Flex;

const SIZES: &[usize] = &[1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65, 70];

/// Numbers with signs, of which long sums fit f16.
const FACTORS: Domain = Within(-2.0, 2.0);

/// Products in i64, as burn-flex multiplies matrices of few integer types; both wrap.
fn wide_product(p: &Params, x: &[Value<Flex>]) -> Vec<Value<Flex>> {
    let wide = |x: &Value<Flex>| Flex::int_cast(x.i(), IntDType::I64);
    vec![Int(Flex::int_cast(Flex::int_matmul(wide(&x[0]), wide(&x[1])), p.int))]
}

/// Two matrices in batches that broadcast.
fn matrices(c: &mut Choices, types: &[DType], domain: Domain) -> Case {
    let dtype = c.pick(types);
    let [m, n, k] = [(); 3].map(|()| c.pick(SIZES));
    let batch: Vec<usize> = (0..c.within(0, 2)).map(|_| c.within(1, 3)).collect();
    let mut case = Case::of(c, dtype);
    for [rows, columns] in [[m, k], [k, n]] {
        let mut shape = c.broadcastable(&batch);
        shape.extend([rows, columns]);
        case.input(c, dtype, &shape, domain);
    }
    case
}

fn linear(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let [rows, inputs, outputs] = [(); 3].map(|()| c.pick(SIZES));
    let batch: Vec<usize> = (0..c.within(0, 2)).map(|_| c.within(1, 3)).collect();
    let of = |features: usize| batch.iter().copied().chain([rows, features]).collect::<Vec<_>>();
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &of(inputs), FACTORS);
    case.input(c, dtype, &[inputs, outputs], FACTORS);
    case.input(c, dtype, &[outputs], FACTORS);
    case.input(c, dtype, &of(outputs), FACTORS);
    case.params.flags = vec![c.one_in(2)];
    case
}

fn crossed(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    // The reference panics over no vectors.
    let mut shape: Vec<_> = c.shape(1, 3).iter().map(|&extent| extent.max(1)).collect();
    let axis = c.below(shape.len());
    shape[axis] = 3;
    let mut case = Case::of(c, dtype);
    case.input(c, dtype, &shape, FACTORS);
    case.input(c, dtype, &shape, FACTORS);
    case.params.axes = vec![axis];
    case
}

/// Element type and extents of a convolution's operands besides those that windows slide along.
struct Channels {
    dtype: DType,
    groups: usize,
    inputs: usize,
    outputs: usize,
    batch: usize,
}

impl Channels {
    /// Of each group one of `counts`; up to `most_batch` examples.
    fn draw(c: &mut Choices, most_groups: usize, counts: &[usize], most_batch: usize) -> Self {
        let dtype = c.pick(FLOATS);
        let groups = c.pick(&[1, 1, 2, 3]).min(most_groups);
        let [inputs, outputs] = [(); 2].map(|()| groups * c.pick(counts));
        Self { dtype, groups, inputs, outputs, batch: c.within(1, most_batch) }
    }

    /// Input, kernel, bias and gradient, where a kernel's first extents are `kernel`; four options of each axis and
    /// the groups in the parameters.
    fn case(
        &self,
        c: &mut Choices,
        kernel: [usize; 2],
        rank: usize,
        axis: impl Fn(&mut Choices) -> Axis,
    ) -> Case {
        let mut case = Case::of(c, self.dtype);
        let axes: Vec<Axis> = (0..rank).map(|_| axis(c)).collect();
        let shape = |first: [usize; 2], extent: fn(&Axis) -> usize| -> Vec<usize> {
            first.into_iter().chain(axes.iter().map(extent)).collect()
        };
        case.input(c, self.dtype, &shape([self.batch, self.inputs], |axis| axis.extent), FACTORS);
        case.input(c, self.dtype, &shape(kernel, |axis| axis.size), FACTORS);
        case.input(c, self.dtype, &[self.outputs], FACTORS);
        case.input(c, self.dtype, &shape([self.batch, self.outputs], |axis| axis.result), FACTORS);
        case.params.numbers =
            (0..4).flat_map(|list| axes.iter().map(move |axis| axis.options[list])).collect();
        case.params.numbers.push(self.groups);
        case.params.flags = vec![c.one_in(2)];
        case
    }
}

/// An axis that windows slide along.
struct Axis {
    extent: usize,
    /// Elements of a window.
    size: usize,
    result: usize,
    options: [usize; 4],
}

/// Input, kernel, bias and gradient of a convolution over `rank` axes; strides, both paddings, dilations and groups in
/// the parameters.
fn convolution(c: &mut Choices, rank: usize, asymmetric: bool, most_groups: usize) -> Case {
    let channels = Channels::draw(c, most_groups, &[1, 2, 3, 8, 17], 3);
    channels.case(c, [channels.outputs, channels.inputs / channels.groups], rank, |c| {
        let (size, stride, dilation) = (c.within(1, 4), c.within(1, 3), c.within(1, 2));
        let begin = c.within(0, 2);
        let end = if asymmetric { c.within(0, 2) } else { begin };
        let span = dilation * (size - 1) + 1;
        let least = span.saturating_sub(begin + end).max(1);
        let extent = c.within(least, least + [40, 12, 5][rank - 1]);
        let result = (extent + begin + end - span) / stride + 1;
        Axis { extent, size, result, options: [stride, begin, end, dilation] }
    })
}

/// The same for a transposed convolution, with what it adds to the result in place of the second padding.
fn transposed(c: &mut Choices, rank: usize) -> Case {
    let channels = Channels::draw(c, 3, &[1, 2, 3, 8], 2);
    channels.case(c, [channels.inputs, channels.outputs / channels.groups], rank, |c| {
        let (size, stride, dilation) = (c.within(1, 4), c.within(1, 3), c.within(1, 2));
        let extra = c.below(stride);
        let span = dilation * (size - 1) + 1;
        // Nothing is cut off but what was added.
        let padding = c.within(0, 2).min((span - 1) / 2);
        let extent = c.within(1, [30, 8, 4][rank - 1]);
        let result = (extent - 1) * stride + span + extra - 2 * padding;
        Axis { extent, size, result, options: [stride, padding, extra, dilation] }
    })
}

/// A convolution over two axes with offsets and a mask. Not in 16-bit types, whose places are too coarse.
fn deformed(c: &mut Choices) -> Case {
    let mut case = convolution(c, 2, false, 3);
    if case.inputs[0].dtype != DType::F64 {
        case.params.float = DType::F32.into();
        case.inputs.iter_mut().for_each(|input| input.dtype = DType::F32);
    }
    let dtype = case.inputs[0].dtype;
    let (kernel, result) = (case.inputs[1].shape(), case.inputs[3].shape());
    let groups = if c.one_in(2) { case.params.numbers[8] } else { 1 };
    let places = kernel[2] * kernel[3] * groups;
    case.input(c, dtype, &[result[0], 2 * places, result[2], result[3]], Within(-1.5, 1.5));
    case.input(c, dtype, &[result[0], places, result[2], result[3]], Within(0.0, 1.0));
    case.params.numbers.push(groups);
    case.params.flags.push(c.one_in(2));
    case
}

/// The options that [`convolution`] drew.
fn options<const N: usize>(p: &Params) -> ConvOptions<N> {
    let at = |list: usize, axis: usize| p.numbers[list * N + axis];
    let each = |list: usize| std::array::from_fn(|axis| at(list, axis));
    let padding = std::array::from_fn(|axis| (at(1, axis), at(2, axis)));
    ConvOptions::new_with_padding(each(0), padding, each(3), p.numbers[4 * N])
}

/// The options that [`transposed`] drew.
fn transposed_options<const N: usize>(p: &Params) -> ConvTransposeOptions<N> {
    let each = |list: usize| std::array::from_fn(|axis| p.numbers[list * N + axis]);
    ConvTransposeOptions::new(each(0), each(1), each(2), each(3), p.numbers[4 * N])
}

/// Queries, keys, values, a mask and a bias.
fn attended(c: &mut Choices) -> Case {
    let dtype = c.pick(FLOATS);
    let (batch, heads) = (c.within(1, 2), c.within(1, 3));
    let [queries, keys] = [(); 2].map(|()| c.pick(&[1, 2, 5, 16, 33, 65]));
    let width = c.pick(&[1, 4, 8, 16, 32, 33]);
    let values = if c.one_in(3) { c.pick(&[1, 8, 17]) } else { width };
    let mut case = Case::of(c, dtype);
    for shape in [[queries, width], [keys, width], [keys, values]] {
        case.input(c, dtype, &[batch, heads, shape[0], shape[1]], FACTORS);
    }
    case.input(c, BOOL, &[batch, heads, queries, keys], Any);
    case.input(c, dtype, &[batch, heads, queries, keys], FACTORS);
    case.params.flags = (0..5).map(|_| c.one_in(2)).collect();
    case
}

#[rustfmt::skip]
fn matrix_operations() -> Vec<Operation> {
    operations! {
        float_matmul(|c| matrices(c, FLOATS, FACTORS), Products(8.0)) |p, x, B| vec![Float(B::float_matmul(x[0].f(), x[1].f()))];
        int_matmul(|c| matrices(c, INTS, Any), Ulps(0.0)) against Reference::Flex(wide_product), |p, x, B| vec![Int(B::int_matmul(x[0].i(), x[1].i()))];
        float_cross(crossed, Scaled(8.0)) |p, x, B| vec![Float(B::float_cross(x[0].f(), x[1].f(), p.axes[0]))];
        linear(linear, Stored(1.0)) |p, x, B| vec![Float(B::linear(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f())))];
        linear_x_backward(linear, Products(8.0)) |p, x, B| vec![Float(B::linear_x_backward(x[1].f(), x[3].f()))];
        linear_weight_backward(linear, Products(8.0)) |p, x, B| vec![Float(B::linear_weight_backward(x[0].f(), x[3].f()))];
        linear_bias_backward(linear, Products(8.0)) |p, x, B| vec![Float(B::linear_bias_backward(x[3].f()))];
        attention(attended, Scaled(24.0)) |p, x, B| {
            // Every query sees the first key: what a row without any is, differs among backends.
            let mask = x[3].b();
            let [batch, heads, queries, _] = mask.shape().dims::<4>();
            let first = B::bool_zeros(Shape::new([batch, heads, queries, 1]), &B::current(), BoolDType::Native);
            let part = [Slice::full(), Slice::full(), Slice::full(), Slice::new(0, Some(1), 1)];
            let mask = B::bool_slice_assign(mask, &part, first);
            let options = AttentionModuleOptions {
                scale: p.flags[2].then_some(0.3),
                softcap: p.flags[3].then_some(2.0),
                is_causal: p.flags[4],
            };
            let (mask, bias) = (p.flags[0].then_some(mask), p.flags[1].then(|| x[4].f()));
            vec![Float(B::attention(x[0].f(), x[1].f(), x[2].f(), mask, bias, options))]
        };
    }
}

/// burn-flex's gradients of convolutions over one and three axes are wrong where the paddings differ, and their weight
/// gradients where groups are strided with a rest; `tests/gradients` has both.
#[rustfmt::skip]
fn convolutions() -> Vec<Operation> {
    operations! {
        conv1d(|c| convolution(c, 1, true, 3), Stored(1.0)) |p, x, B| vec![Float(B::conv1d(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f()), options(p)))];
        conv2d(|c| convolution(c, 2, true, 3), Stored(1.0)) |p, x, B| vec![Float(B::conv2d(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f()), options(p)))];
        conv3d(|c| convolution(c, 3, true, 3), Stored(1.0)) |p, x, B| vec![Float(B::conv3d(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f()), options(p)))];
        conv1d_x_backward(|c| convolution(c, 1, false, 3), Products(8.0)) |p, x, B| vec![Float(B::conv1d_x_backward(x[0].f(), x[1].f(), x[3].f(), options(p)))];
        conv2d_x_backward(|c| convolution(c, 2, true, 3), Products(8.0)) |p, x, B| vec![Float(B::conv2d_x_backward(x[0].f(), x[1].f(), x[3].f(), options(p)))];
        conv3d_x_backward(|c| convolution(c, 3, false, 3), Products(8.0)) |p, x, B| vec![Float(B::conv3d_x_backward(x[0].f(), x[1].f(), x[3].f(), options(p)))];
        conv1d_weight_backward(|c| convolution(c, 1, false, 1), Products(8.0)) |p, x, B| vec![Float(B::conv1d_weight_backward(x[0].f(), x[1].f(), x[3].f(), options(p)))];
        conv2d_weight_backward(|c| convolution(c, 2, true, 3), Products(8.0)) |p, x, B| vec![Float(B::conv2d_weight_backward(x[0].f(), x[1].f(), x[3].f(), options(p)))];
        conv3d_weight_backward(|c| convolution(c, 3, false, 1), Products(8.0)) |p, x, B| vec![Float(B::conv3d_weight_backward(x[0].f(), x[1].f(), x[3].f(), options(p)))];
        conv1d_bias_backward(|c| convolution(c, 1, true, 3), Products(8.0)) |p, x, B| vec![Float(B::conv1d_bias_backward(x[0].f(), x[2].f(), x[3].f()))];
        conv2d_bias_backward(|c| convolution(c, 2, true, 3), Products(8.0)) |p, x, B| vec![Float(B::conv2d_bias_backward(x[0].f(), x[2].f(), x[3].f()))];
        conv3d_bias_backward(|c| convolution(c, 3, true, 3), Products(8.0)) |p, x, B| vec![Float(B::conv3d_bias_backward(x[0].f(), x[2].f(), x[3].f()))];
        deform_conv2d(deformed, Scaled(64.0)) |p, x, B| {
            let plain = options::<2>(p);
            let [groups, offset_groups] = [p.numbers[8], p.numbers[9]];
            let options =
                DeformConvOptions::new(plain.stride, plain.padding_begin(), plain.dilation, groups, offset_groups);
            let (mask, bias) = (p.flags[1].then(|| x[5].f()), p.flags[0].then(|| x[2].f()));
            vec![Float(B::deform_conv2d(x[0].f(), x[4].f(), x[1].f(), mask, bias, options))]
        };
        conv_transpose1d(|c| transposed(c, 1), Stored(1.0)) |p, x, B| vec![Float(B::conv_transpose1d(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f()), transposed_options(p)))];
        conv_transpose2d(|c| transposed(c, 2), Stored(1.0)) |p, x, B| vec![Float(B::conv_transpose2d(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f()), transposed_options(p)))];
        conv_transpose3d(|c| transposed(c, 3), Stored(1.0)) |p, x, B| vec![Float(B::conv_transpose3d(x[0].f(), x[1].f(), p.flags[0].then(|| x[2].f()), transposed_options(p)))];
        conv_transpose1d_x_backward(|c| transposed(c, 1), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose1d_x_backward(x[1].f(), x[3].f(), transposed_options(p)))];
        conv_transpose2d_x_backward(|c| transposed(c, 2), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose2d_x_backward(x[1].f(), x[3].f(), transposed_options(p)))];
        conv_transpose3d_x_backward(|c| transposed(c, 3), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose3d_x_backward(x[1].f(), x[3].f(), transposed_options(p)))];
        conv_transpose1d_weight_backward(|c| transposed(c, 1), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose1d_weight_backward(x[0].f(), x[1].f(), x[3].f(), transposed_options(p)))];
        conv_transpose2d_weight_backward(|c| transposed(c, 2), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose2d_weight_backward(x[0].f(), x[1].f(), x[3].f(), transposed_options(p)))];
        conv_transpose3d_weight_backward(|c| transposed(c, 3), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose3d_weight_backward(x[0].f(), x[1].f(), x[3].f(), transposed_options(p)))];
        conv_transpose1d_bias_backward(|c| transposed(c, 1), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose1d_bias_backward(x[0].f(), x[2].f(), x[3].f()))];
        conv_transpose2d_bias_backward(|c| transposed(c, 2), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose2d_bias_backward(x[0].f(), x[2].f(), x[3].f()))];
        conv_transpose3d_bias_backward(|c| transposed(c, 3), Products(8.0)) |p, x, B| vec![Float(B::conv_transpose3d_bias_backward(x[0].f(), x[2].f(), x[3].f()))];
    }
}

#[test]
fn matrices_and_attention() {
    family("matrices", 70, &matrix_operations());
}

#[test]
fn convolutions_and_their_gradients() {
    family("convolutions", 80, &convolutions());
}
