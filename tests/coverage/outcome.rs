//! What a call recorded, and whether it gave a tensor.

use burn_backend::ops::{
    BatchNormTrain, BatchNormTrainBackward, DeformConv2dBackward, MaxPool1dBackward, MaxPool1dWithIndices,
    MaxPool2dBackward, MaxPool2dWithIndices, TransactionPrimitiveData,
};
use burn_backend::{ExecutionError, TensorData, TensorPrimitive};
use burn_mlir::ir::{Graph, Op};
use burn_mlir::{Mlir, MlirDevice, MlirTensor, QuantizedTensor, inspect, stats};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What one call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The operations it recorded, in their order, each once.
    pub operations: Vec<String>,
    /// Launches of the plan.
    pub launches: usize,
    /// Times it waited for the device.
    pub waits: u64,
    /// Why there is no result.
    pub error: Option<String>,
}

impl Seen {
    /// Observes a call with operands that exist. A panic is an error, too.
    pub fn of<A, R: Outcome>(operands: A, call: impl FnOnce(A) -> R) -> Self {
        let before = std::cell::Cell::new(0);
        let observed = catch_unwind(AssertUnwindSafe(|| {
            let observed = inspect::graph(MlirDevice::Cpu, || {
                burn_backend_sync();
                before.set(stats().waits);
                let result = call(operands);
                let waits = stats().waits - before.get();
                (result, waits)
            });
            observed.unwrap()
        }));
        let ((result, waits), graph) = match observed {
            Ok(observed) => observed,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
                let error = Some(text.unwrap_or_else(|| "panics".into()));
                return Self { operations: vec![], launches: 0, waits: 0, error };
            }
        };
        let error = result.error();
        Self { operations: operations(&graph), launches: launches(&graph), waits, error }
    }
}

/// Nothing is left of earlier calls.
fn burn_backend_sync() {
    use burn_backend::Backend;
    Mlir::sync(&MlirDevice::Cpu).unwrap();
}

/// The operations of a graph without its inputs and the values of scalars.
fn operations(graph: &Graph) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for node in &graph.nodes {
        if matches!(node.op, Op::Input { .. }) {
            continue;
        }
        let name = name(&node.op);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// `reduce sum` of `reduce sum [0, 1]`.
fn name(op: &Op) -> String {
    let text = op.to_string();
    let parameters = ["axis", "key", "descending", "scale"];
    let word = |word: &&str| {
        word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !parameters.contains(word)
    };
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    let second = words.next().filter(word).filter(|_| ["reduce", "scan", "scatter"].contains(&first));
    second.map_or(first.to_string(), |second| format!("{first} {second}"))
}

fn launches(graph: &Graph) -> usize {
    if graph.results.is_empty() {
        return 0;
    }
    let plan = inspect::plan_text(graph).unwrap();
    plan.lines().filter(|line| line.trim_start().starts_with("launch ")).count()
}

/// What a function returns.
pub trait Outcome {
    /// Why there is no value.
    fn error(&self) -> Option<String>;
}

impl Outcome for MlirTensor {
    fn error(&self) -> Option<String> {
        MlirTensor::error(self).map(|error| error.to_string())
    }
}

impl Outcome for QuantizedTensor {
    fn error(&self) -> Option<String> {
        QuantizedTensor::error(self).map(|error| error.to_string())
    }
}

impl Outcome for TensorPrimitive<Mlir> {
    fn error(&self) -> Option<String> {
        match self {
            Self::Float(tensor) => Outcome::error(tensor),
            Self::QFloat(tensor) => Outcome::error(tensor),
        }
    }
}

impl Outcome for bool {
    fn error(&self) -> Option<String> {
        None
    }
}

impl Outcome for Result<TensorData, ExecutionError> {
    fn error(&self) -> Option<String> {
        self.as_ref().err().map(ToString::to_string)
    }
}

impl Outcome for Result<TransactionPrimitiveData, ExecutionError> {
    fn error(&self) -> Option<String> {
        self.as_ref().err().map(ToString::to_string)
    }
}

impl<A: Outcome, B: Outcome> Outcome for (A, B) {
    fn error(&self) -> Option<String> {
        self.0.error().or_else(|| self.1.error())
    }
}

/// Structures of tensors.
macro_rules! structures {
    ($($name:ident: $($field:ident),*;)*) => {
        $(impl Outcome for $name<Mlir> {
            fn error(&self) -> Option<String> {
                [$(Outcome::error(&self.$field)),*].into_iter().flatten().next()
            }
        })*
    };
}

structures! {
    BatchNormTrain: output, mean, variance;
    BatchNormTrainBackward: x_grad, gamma_grad, beta_grad;
    MaxPool1dWithIndices: output, indices;
    MaxPool2dWithIndices: output, indices;
    MaxPool1dBackward: x_grad;
    MaxPool2dBackward: x_grad;
    DeformConv2dBackward: x_grad, offset_grad, weight_grad;
}
