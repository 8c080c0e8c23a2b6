//! Looking at what operations become: the recorded graph, its fused kernels, and every stage of
//! their compilation, for any target, present on this machine or not.
//!
//! ```no_run
//! use burn::tensor::{Device, Tensor};
//! use burn_mlir::{MlirDevice, inspect};
//!
//! let x = Tensor::<1>::ones([1024], &Device::new(MlirDevice::Cpu));
//! let (_y, graph) = inspect::graph(MlirDevice::Cpu, || (x.clone() * 2.0).tanh())?;
//! println!("{graph}");
//! for kernel in inspect::kernels(&graph, &burn_mlir::ir::Target::named("sm_90a").unwrap())? {
//!     println!("{}\n{}", kernel.label, kernel.stages.last().unwrap().text);
//! }
//! # Ok::<(), burn_mlir::MlirError>(())
//! ```

use crate::engine;
use crate::record;
use crate::{MlirDevice, MlirError};
use burn_mlir_ir::{Graph, Target, plan};

pub use burn_mlir_jit::Stage;

/// One kernel on its way from the intermediate representation to machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Operations, iteration space and element types in one line.
    pub label: String,
    /// The fused kernel, the text by which it is cached.
    pub kernel: String,
    /// `linalg`, `scheduled`, `llvm`, then LLVM IR, then assembly or PTX.
    pub stages: Vec<Stage>,
}

/// Records what `compute` does on this thread and returns its result with the graph that a flush at
/// this point would plan. Operations before it are flushed first; nothing that `compute` does is
/// started.
///
/// # Errors
///
/// If the device is not there or earlier operations fail.
pub fn graph<R>(device: MlirDevice, compute: impl FnOnce() -> R) -> Result<(R, Graph), MlirError> {
    record::observe(device, compute)
}

/// The plan of a graph on this process's processor as text: kernels, buffers, launches.
///
/// # Errors
///
/// If the graph cannot be planned.
pub fn plan_text(graph: &Graph) -> Result<String, MlirError> {
    Ok(engine::plan_of(graph, &host())?.to_string())
}

/// The kernels of a graph, compiled for `target` without being loaded or cached.
///
/// # Errors
///
/// If the graph cannot be planned or a kernel cannot be compiled.
pub fn kernels(graph: &Graph, target: &Target) -> Result<Vec<Inspected>, MlirError> {
    let plan: plan::Plan = engine::plan_of(graph, target)?;
    plan.kernels.iter().map(|kernel| engine::inspect(kernel, target)).collect()
}

/// The target of this process's own processor.
pub fn host() -> Target {
    Target::Host(burn_mlir_jit::host_target())
}
