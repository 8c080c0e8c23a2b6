//! What the windows of a device share: the device, the compiler, and the plans made so far.

mod compile;
mod cuda;
mod executable;
mod planned;
mod random;
mod shapes;

pub(crate) use executable::Executable;
pub(crate) use planned::Planned;

use crate::inspect::Inspected;
use crate::{MlirDevice, MlirError};
use burn_mlir_ir::plan::{self, Plan};
use burn_mlir_ir::{Graph, Kernel, Target};
use burn_mlir_jit::{Config, Jit};
use burn_mlir_runtime::{Device, DeviceId, HostConfig, cuda_device_count};
use compile::{Compiler, Goal};
use parking_lot::Mutex;
use random::Random;
use rustc_hash::{FxHashMap, FxHasher};
use shapes::Shapes;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// The compiler, common to all devices of the process.
static JIT: LazyLock<Jit> = LazyLock::new(|| Jit::new(Config::from_env(), compile::FRONTEND));

/// One engine per device that was used.
static ENGINES: Mutex<Vec<(MlirDevice, Arc<Engine>)>> = Mutex::new(Vec::new());

/// Plans kept before the half of the table that was not used for longest is thrown away.
const MOST_PLANS: usize = 8192;

type Plans = FxHashMap<u64, Vec<Arc<Planned>>>;

/// A device with its compiler.
pub(crate) struct Engine {
    pub(crate) device: Device,
    pub(crate) random: Random,
    compiler: Compiler,
    shapes: Shapes,
    /// By the hash of the graph; graphs are compared as well.
    plans: Mutex<Plans>,
    planned: AtomicU64,
    reused: AtomicU64,
}

/// The engine of a device, made on first use.
///
/// # Errors
///
/// [`MlirError::DeviceUnavailable`] if the machine has no such device.
pub(crate) fn engine(device: MlirDevice) -> Result<Arc<Engine>, MlirError> {
    let mut engines = ENGINES.lock();
    if let Some((_, engine)) = engines.iter().find(|(owner, _)| *owner == device) {
        return Ok(engine.clone());
    }
    let engine = Arc::new(Engine::new(device)?);
    engines.push((device, engine.clone()));
    Ok(engine)
}

/// Number of GPUs of this machine.
pub(crate) fn gpus() -> usize {
    cuda_device_count()
}

impl Engine {
    fn new(device: MlirDevice) -> Result<Self, MlirError> {
        let opened = match device {
            MlirDevice::Cpu => {
                let target = Target::Host(burn_mlir_jit::host_target());
                Ok((Device::host(HostConfig::default()), Goal { target, assembler: None }))
            }
            MlirDevice::Cuda(index) => cuda::open(index),
            MlirDevice::Absent(_) => Err("burn-mlir has only `cpu` and `cuda` devices".into()),
        };
        let (device, goal) =
            opened.map_err(|reason| MlirError::DeviceUnavailable { device: device.to_string(), reason })?;
        Ok(Self {
            random: Random::new(),
            compiler: Compiler::new(&JIT, device.clone(), goal),
            device,
            shapes: Shapes::from_env(),
            plans: Mutex::default(),
            planned: AtomicU64::new(0),
            reused: AtomicU64::new(0),
        })
    }

    /// What kernels are compiled for.
    pub(crate) fn target(&self) -> &Target {
        self.compiler.target()
    }

    /// Whether the device is the processor of this process.
    pub(crate) fn is_host(&self) -> bool {
        self.device.id() == DeviceId::Host
    }

    /// The plan of a graph with its kernels compiled; made once for each structure.
    pub(crate) fn planned(&self, graph: &Graph) -> Result<Arc<Planned>, MlirError> {
        let mut hasher = FxHasher::default();
        graph.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(known) = self.plans.lock().get(&hash)
            && let Some(planned) = known.iter().find(|known| known.graph == *graph)
        {
            self.reuse(planned);
            return Ok(planned.clone());
        }
        let mut plan = plan_of(graph, self.compiler.target())?;
        if self.is_host() {
            self.shapes.open(&mut plan);
        }
        let kernels = self.compiler.kernels(&plan)?;
        let planned = Arc::new(Planned::new(graph.clone(), Executable::new(plan, kernels)));
        self.planned.fetch_add(1, Ordering::Relaxed);
        planned.used.store(self.reused.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut plans = self.plans.lock();
        if plans.len() >= MOST_PLANS {
            forget_half(&mut plans);
        }
        plans.entry(hash).or_default().push(planned.clone());
        Ok(planned)
    }

    /// Notes that a window had its plan already.
    pub(crate) fn reuse(&self, planned: &Planned) {
        planned.used.store(self.reused.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Keeps the plans that were used last.
fn forget_half(plans: &mut Plans) {
    let last =
        |known: &[Arc<Planned>]| known.iter().map(|planned| planned.used.load(Ordering::Relaxed)).max();
    let mut times: Vec<_> = plans.values().map(|known| last(known)).collect();
    let middle = times.len() / 2;
    let (_, &mut median, _) = times.select_nth_unstable(middle);
    // Plans that were never used again may have one time.
    let mut equal = middle - times[..middle].iter().filter(|time| **time < median).count();
    plans.retain(|_, known| match last(known).cmp(&median) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal if equal > 0 => {
            equal -= 1;
            false
        }
        _ => true,
    });
}

/// The plan of a graph for a target, with an error that names its results.
pub(crate) fn plan_of(graph: &Graph, target: &Target) -> Result<Plan, MlirError> {
    plan::plan_for(graph, target)
        .map_err(|error| MlirError::Plan { summary: compile::summary(graph), reason: error.to_string() })
}

/// Every stage of a kernel's compilation.
pub(crate) fn inspect(kernel: &Kernel, target: &Target) -> Result<Inspected, MlirError> {
    let label = compile::label(kernel);
    let lowering = compile::Lowering { kernel: kernel.clone(), target: target.clone() };
    match JIT.emit(target, lowering) {
        Ok((_, stages)) => Ok(Inspected { label, kernel: kernel.to_string(), stages }),
        Err(error) => Err(MlirError::Compile { summary: label, reason: error.to_string() }),
    }
}

/// What the compiler of this process has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Structures planned.
    pub plans: u64,
    /// Windows that found their plan.
    pub plans_reused: u64,
    /// Kernels compiled.
    pub kernels_compiled: u64,
    /// Kernels loaded from the disk store.
    pub kernels_from_disk: u64,
    /// Kernels found in memory.
    pub kernels_from_memory: u64,
    /// Kernels that a GPU's driver compiled further.
    pub kernels_assembled: u64,
    /// Times a thread waited for work of a device, or ran it itself.
    pub waits: u64,
    /// Time spent compiling, summed over threads, in nanoseconds.
    pub compile_nanoseconds: u64,
}

/// What the compiler of this process has done so far, over all devices.
pub fn stats() -> Stats {
    let engines = ENGINES.lock();
    let sum = |count: fn(&Engine) -> &AtomicU64| {
        engines.iter().map(|(_, engine)| count(engine).load(Ordering::Relaxed)).sum()
    };
    let jit = JIT.stats();
    Stats {
        plans: sum(|engine| &engine.planned),
        plans_reused: sum(|engine| &engine.reused),
        kernels_compiled: jit.compiled,
        kernels_from_disk: jit.disk_hits,
        kernels_from_memory: jit.memory_hits,
        kernels_assembled: jit.assembled,
        waits: burn_mlir_runtime::waits(),
        compile_nanoseconds: jit.compile_nanos,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_mlir_ir::{DType, Layout, Op, Shape};

    /// A view: a plan without kernels.
    fn view(extent: usize) -> Graph {
        let mut graph = Graph::default();
        let shape = Shape::from([extent]);
        let op = Op::Input { slot: 0, layout: Layout::contiguous(&shape), donated: false, alignment: 64 };
        let input = graph.push(op, &[], DType::F32, shape);
        let row = graph.push(Op::Reshape, &[input], DType::F32, Shape::from([1, extent]));
        graph.results.push(row);
        graph
    }

    #[test]
    fn plans_that_are_used_are_kept() {
        let engine = Engine::new(MlirDevice::Cpu).unwrap();
        let planned = || engine.planned.load(Ordering::Relaxed);
        engine.planned(&view(1)).unwrap();
        for extent in 2..MOST_PLANS + MOST_PLANS / 2 {
            engine.planned(&view(extent)).unwrap();
            if extent % 100 == 0 {
                engine.planned(&view(1)).unwrap();
            }
        }
        let before = planned();
        assert_eq!(before, (MOST_PLANS + MOST_PLANS / 2 - 1) as u64, "each was made once");
        assert!(engine.plans.lock().len() <= MOST_PLANS);
        engine.planned(&view(1)).unwrap();
        engine.planned(&view(MOST_PLANS + MOST_PLANS / 2 - 1)).unwrap();
        assert_eq!(planned(), before);
        engine.planned(&view(2)).unwrap();
        assert_eq!(planned(), before + 1, "what was not used again was forgotten");
    }
}
