//! Tensors of the three kinds as one type, and what a case gives an operation.

use super::layout::{Positions, View};
use super::numbers::{Domain, Numbers};
use crate::support::devices::Tested;
use burn_backend::tensor::{BoolTensor, FloatTensor, IndexingUpdateOp, IntTensor};
use burn_backend::{Backend, DType, FloatDType, IntDType, Scalar, Slice, TensorData, read_sync};

/// A tensor of some kind.
pub enum Value<B: Backend> {
    /// Of floats.
    Float(FloatTensor<B>),
    /// Of integers.
    Int(IntTensor<B>),
    /// Of truth values.
    Bool(BoolTensor<B>),
}

impl<B: Backend> Clone for Value<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Float(x) => Self::Float(x.clone()),
            Self::Int(x) => Self::Int(x.clone()),
            Self::Bool(x) => Self::Bool(x.clone()),
        }
    }
}

impl<B: Backend> Value<B> {
    /// The tensor, which is one of floats.
    pub fn f(&self) -> FloatTensor<B> {
        match self {
            Self::Float(x) => x.clone(),
            _ => panic!("no tensor of floats"),
        }
    }

    /// The tensor, which is one of integers.
    pub fn i(&self) -> IntTensor<B> {
        match self {
            Self::Int(x) => x.clone(),
            _ => panic!("no tensor of integers"),
        }
    }

    /// The tensor, which is one of truth values.
    pub fn b(&self) -> BoolTensor<B> {
        match self {
            Self::Bool(x) => x.clone(),
            _ => panic!("no tensor of truth values"),
        }
    }

    /// The same values by way of two operations that undo each other, so that producers and consumers are fused.
    pub fn there_and_back(self) -> Self {
        match self {
            Self::Float(x) => Self::Float(B::float_neg(B::float_neg(x))),
            Self::Int(x) => Self::Int(B::int_neg(B::int_neg(x))),
            Self::Bool(x) => Self::Bool(B::bool_not(B::bool_not(x))),
        }
    }

    /// Its elements.
    pub fn read(self) -> Result<TensorData, String> {
        let data = match self {
            Self::Float(x) => read_sync(B::float_into_data(x)),
            Self::Int(x) => read_sync(B::int_into_data(x)),
            Self::Bool(x) => read_sync(B::bool_into_data(x)),
        };
        data.map_err(|error| format!("{error}"))
    }
}

/// An operand.
#[derive(Clone, Debug)]
pub struct Input {
    /// The type of its elements.
    pub dtype: DType,
    /// What it may hold.
    pub domain: Domain,
    /// The shape of what it is a view of.
    pub base: Vec<usize>,
    /// Those views.
    pub views: Vec<View>,
    /// Whether it is the result of operations of the same window.
    pub computed: bool,
}

/// What is not a tensor.
#[derive(Clone, Debug)]
pub struct Params {
    /// The type of float results; the reference's is f64.
    pub float: FloatDType,
    /// The type of integer results.
    pub int: IntDType,
    /// Axes.
    pub axes: Vec<usize>,
    /// Sizes, strides and the like.
    pub numbers: Vec<usize>,
    /// Switches.
    pub flags: Vec<bool>,
    /// Numbers.
    pub scalars: Vec<Scalar>,
    /// Parts of axes.
    pub slices: Vec<Slice>,
    /// Padding.
    pub pads: Vec<(usize, usize)>,
    /// A shape.
    pub shape: Vec<usize>,
    /// What a scatter does.
    pub update: IndexingUpdateOp,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            float: FloatDType::F32,
            int: IntDType::I32,
            axes: Vec::new(),
            numbers: Vec::new(),
            flags: Vec::new(),
            scalars: Vec::new(),
            slices: Vec::new(),
            pads: Vec::new(),
            shape: Vec::new(),
            update: IndexingUpdateOp::Add,
        }
    }
}

/// Arguments of an operation but for the values.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Operands.
    pub inputs: Vec<Input>,
    /// What is not a tensor.
    pub params: Params,
    /// Whether results are consumed by operations of the same window.
    pub consumed: bool,
    /// Whether operands are in memory before the operation is recorded.
    pub stored: bool,
}

impl Input {
    /// Its shape.
    pub fn shape(&self) -> Vec<usize> {
        let none = Numbers::Ints(vec![0; self.base.iter().product()]);
        self.logical(&none).1
    }

    /// The elements it shows, given all that lie in memory.
    pub fn logical(&self, numbers: &Numbers) -> (Numbers, Vec<usize>) {
        let whole = Positions::whole(&self.base);
        let shown = self.views.iter().fold(whole, |positions, view| positions.view(view));
        (numbers.at(&shown.at), shown.shape)
    }

    /// As a tensor of the backend under test.
    pub fn tensor<B: Tested>(&self, numbers: &Numbers) -> Value<B> {
        let base = tensor::<B>(numbers.data(self.dtype, &self.base), self.dtype);
        let shown = self.views.iter().fold(base, |tensor, view| view.apply(tensor));
        if self.computed { shown.there_and_back() } else { shown }
    }

    /// As a contiguous tensor of the reference, floats in f64.
    pub fn reference<B: Tested>(&self, numbers: &Numbers) -> Value<B> {
        let (numbers, shape) = self.logical(numbers);
        let dtype = if self.dtype.is_float() { DType::F64 } else { self.dtype };
        tensor::<B>(numbers.data(dtype, &shape), dtype)
    }
}

/// A tensor in memory.
pub fn tensor<B: Tested>(data: TensorData, dtype: DType) -> Value<B> {
    let device = &B::current();
    match dtype {
        DType::Flex32 => Value::Float(B::float_cast(B::float_from_data(data, device), FloatDType::Flex32)),
        DType::Bool(_) => Value::Bool(B::bool_from_data(data, device)),
        dtype if dtype.is_float() => Value::Float(B::float_from_data(data, device)),
        _ => Value::Int(B::int_from_data(data, device)),
    }
}
