//! The devices a tensor can live on.

use crate::engine;
use burn_backend::{BoolDType, DeviceId, DeviceOps, DeviceSettings, FloatDType, IntDType};

/// Where tensors live and kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MlirDevice {
    /// The processor this program runs on.
    #[default]
    Cpu,
    /// An NVIDIA GPU by index.
    Cuda(usize),
    /// A kind of device that Burn can name and this backend does not have: using it is an error
    /// that says so.
    #[doc(hidden)]
    Absent(&'static str),
}

impl MlirDevice {
    /// The devices of this machine: the processor, then its GPUs.
    pub fn available() -> Vec<Self> {
        std::iter::once(Self::Cpu).chain((0..engine::gpus()).map(Self::Cuda)).collect()
    }

    /// Number of devices of a kind, by the type id of their [`DeviceId`].
    pub(crate) fn count(type_id: u16) -> usize {
        match type_id {
            CUDA => engine::gpus(),
            CPU => 1,
            _ => 0,
        }
    }
}

#[allow(non_upper_case_globals)] // the names Burn's device constructors use
impl MlirDevice {
    #[doc(hidden)]
    pub const Mps: Self = Self::Absent("mps");
    #[doc(hidden)]
    pub const Vulkan: Self = Self::Absent("vulkan");
}

/// Type ids in a [`DeviceId`], so that an id can be turned back into a device. To list devices, Burn 0.22 counts
/// kind 0 and takes them for GPUs.
const CUDA: u16 = 0;
const CPU: u16 = 1;
const ABSENT: u16 = 2;

impl burn_backend::Device for MlirDevice {
    fn from_id(id: DeviceId) -> Self {
        match id.type_id {
            CPU => Self::Cpu,
            ABSENT if id.index_id == 0 => Self::Mps,
            ABSENT => Self::Vulkan,
            _ => Self::Cuda(id.index_id as usize),
        }
    }

    fn to_id(&self) -> DeviceId {
        match self {
            Self::Cpu => DeviceId::new(CPU, 0),
            Self::Cuda(index) => DeviceId::new(CUDA, *index as u16),
            Self::Absent(_) => DeviceId::new(ABSENT, (*self != Self::Mps) as u16),
        }
    }
}

impl DeviceOps for MlirDevice {
    fn defaults(&self) -> DeviceSettings {
        DeviceSettings::with_dtypes(FloatDType::F32, IntDType::I32, BoolDType::Native)
    }
}

impl std::fmt::Display for MlirDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Absent(name) => f.write_str(name),
        }
    }
}
