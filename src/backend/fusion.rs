//! `Fusion<Mlir>`: Burn's fusion queues the operations of all threads and replays them here, on a thread of its own.
//!
//! It has nothing left to fuse: what it replays is recorded in that thread's window, and the planner fuses it as it
//! does without. So there are no optimisations of Burn's kind, and operations are passed on one by one at once.

use super::representation::MlirHandle;
use super::{Mlir, float_type};
use crate::{MlirDevice, MlirTensor};
use burn_backend::DType;
use burn_fusion::stream::{Context, OrderedExecution};
use burn_fusion::{FusionBackend, FusionRuntime, NumOperations, OperationFuser, Optimization};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What Burn's fusion has to know of this backend.
#[derive(Debug)]
pub struct MlirFusion;

/// An optimisation of Burn's kind, of which there are none.
#[derive(Debug)]
pub enum NoOptimization {}

impl NumOperations for NoOptimization {
    fn len(&self) -> usize {
        match *self {}
    }

    fn name(&self) -> &'static str {
        match *self {}
    }
}

impl Serialize for NoOptimization {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

impl<'de> Deserialize<'de> for NoOptimization {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("burn-mlir has no optimisations of Burn's kind"))
    }
}

impl Optimization<MlirFusion> for NoOptimization {
    fn execute(&mut self, _: &mut Context<MlirHandle>, _: &OrderedExecution<MlirFusion>) {
        match *self {}
    }

    fn to_state(&self) -> Self {
        match *self {}
    }

    fn from_state(_: &MlirDevice, state: Self) -> Self {
        state
    }
}

impl FusionRuntime for MlirFusion {
    type OptimizationState = NoOptimization;
    type Optimization = NoOptimization;
    type FusionHandle = MlirHandle;
    type FusionDevice = MlirDevice;

    fn fusers(_: MlirDevice) -> Vec<Box<dyn OperationFuser<NoOptimization>>> {
        Vec::new()
    }
}

impl FusionBackend for Mlir {
    type FusionRuntime = MlirFusion;
    type FullPrecisionBackend = Self;

    fn cast_float(tensor: MlirTensor, dtype: DType) -> MlirHandle {
        MlirHandle::Plain(tensor.cast(float_type(dtype.into())))
    }
}
