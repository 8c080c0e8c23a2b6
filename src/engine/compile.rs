//! From the kernels of a plan to code that the runtime can launch.

use super::cuda;
use crate::MlirError;
use burn_mlir_ir::plan::Plan;
use burn_mlir_ir::{DomainDim, Graph, Instr, Kernel, KernelId, Target};
use burn_mlir_jit::{Assembler, Code, Frontend, HostCode, Jit, Lower, LowerError, PtxCode, Request, Stage};
use burn_mlir_runtime::{CudaKernel, Device, HostKernel};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The compiler's front end, as the jit needs to know it.
pub(super) const FRONTEND: Frontend =
    Frontend { version: burn_mlir_lowering::VERSION, context: burn_mlir_lowering::context };

/// What a device's kernels are compiled for.
pub(super) struct Goal {
    pub(super) target: Target,
    /// The device's own assembler, if it has one.
    pub(super) assembler: Option<Assembler>,
}

/// Makes kernels for a device.
pub(super) struct Compiler {
    jit: &'static Jit,
    device: Device,
    goal: Goal,
    /// By the address of the code, which is kept: plans share their kernels.
    loaded: Mutex<FxHashMap<usize, (Arc<Code>, burn_mlir_runtime::Kernel)>>,
}

impl Compiler {
    pub(super) fn new(jit: &'static Jit, device: Device, goal: Goal) -> Self {
        Self { jit, device, goal, loaded: Mutex::default() }
    }

    /// What kernels are compiled for.
    pub(super) fn target(&self) -> &Target {
        &self.goal.target
    }

    /// Every kernel of a plan, compiled in parallel where it is not at hand.
    pub(super) fn kernels(&self, plan: &Plan) -> Result<Vec<burn_mlir_runtime::Kernel>, MlirError> {
        let requests = plan.kernels.iter().map(|kernel| request(kernel, &self.goal)).collect();
        let codes = self.jit.get_or_compile_many(requests);
        let load = |(index, (code, kernel)): &(usize, (Result<Arc<Code>, _>, &Kernel))| match code {
            Ok(code) => match plan.numbers.get(&KernelId(*index as u32)) {
                // How many tiles there are is the launch's own.
                Some(numbers) => load(code.clone(), kernel, numbers),
                None => self.loaded(code.clone(), kernel),
            },
            Err(error) => Err(failure(kernel, error)),
        };
        let all: Vec<_> = codes.into_iter().zip(&plan.kernels).enumerate().collect();
        if self.goal.assembler.is_none() {
            return all.iter().map(load).collect();
        }
        // A driver may have to compile what it loads.
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(all.len()).max(1);
        std::thread::scope(|scope| {
            let share = |first: usize| all.iter().skip(first).step_by(threads).map(load).collect::<Vec<_>>();
            let others: Vec<_> = (1..threads).map(|first| scope.spawn(move || share(first))).collect();
            let mut shares = vec![share(0).into_iter()];
            for other in others {
                shares
                    .push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).into_iter());
            }
            (0..all.len()).filter_map(|index| shares[index % threads].next()).collect()
        })
    }

    fn loaded(&self, code: Arc<Code>, kernel: &Kernel) -> Result<burn_mlir_runtime::Kernel, MlirError> {
        let address = Arc::as_ptr(&code) as usize;
        if let Some((_, known)) = self.loaded.lock().get(&address) {
            return Ok(known.clone());
        }
        let made = load(code.clone(), kernel, &[])?;
        if let burn_mlir_runtime::Kernel::Cuda(cuda) = &made {
            self.device.load(cuda).map_err(|error| failure(kernel, &error))?;
        }
        let mut loaded = self.loaded.lock();
        let (_, known) = loaded.entry(address).or_insert_with(|| (code, made));
        Ok(known.clone())
    }
}

/// What the jit is asked for a kernel.
fn request(kernel: &Kernel, goal: &Goal) -> Request {
    Request {
        kernel: kernel.to_string(),
        target: goal.target.clone(),
        lower: Box::new(Lowering { kernel: kernel.clone(), target: goal.target.clone() }),
        assembler: goal.assembler.clone(),
    }
}

/// A kernel that knows how to lower itself.
pub(super) struct Lowering {
    pub(super) kernel: Kernel,
    pub(super) target: Target,
}

impl Lower for Lowering {
    fn lower<'c>(
        &self,
        context: &'c melior::Context,
        stages: bool,
    ) -> Result<burn_mlir_jit::Lowered<'c>, LowerError> {
        let lowered = burn_mlir_lowering::lower(context, &self.kernel, &self.target, stages)?;
        let stages = lowered.stages.into_iter().map(|stage| Stage::mlir(stage.name, stage.text));
        Ok(burn_mlir_jit::Lowered {
            module: lowered.module,
            program: lowered.program,
            stages: stages.collect(),
        })
    }

    fn label(&self) -> String {
        label(&self.kernel)
    }
}

fn load(code: Arc<Code>, kernel: &Kernel, numbers: &[u64]) -> Result<burn_mlir_runtime::Kernel, MlirError> {
    match &*code {
        Code::Host(host) => Ok(load_host(host, code.clone(), kernel, numbers).into()),
        Code::Ptx(ptx) => Ok(load_cuda(ptx, kernel)?.into()),
    }
}

/// `code` is what `host` is part of.
fn load_host(host: &HostCode, code: Arc<Code>, kernel: &Kernel, numbers: &[u64]) -> Arc<HostKernel> {
    let program = host.program();
    let tiles = program.phases.iter().map(|phase| phase.tiles_of(numbers));
    let phases: Vec<_> = host.entries().iter().copied().zip(tiles).collect();
    let (shared, worker) = (program.shared_bytes as usize, program.worker_bytes as usize);
    // SAFETY: lowering makes every phase with this signature, for disjoint ranges of its tiles, within
    // the scratch the program names; `code` keeps the functions loaded.
    unsafe { HostKernel::new(label(kernel), phases, shared, worker, code) }
}

fn load_cuda(ptx: &PtxCode, kernel: &Kernel) -> Result<Arc<CudaKernel>, MlirError> {
    let phases = ptx.program.phases.iter().map(cuda::phase).collect::<Option<Vec<_>>>();
    let phases = phases.ok_or_else(|| failure(kernel, &"a tensor map of a type that has none"))?;
    let image = ptx.cubin.clone().unwrap_or_else(|| ptx.text.clone().into_bytes());
    let shared = ptx.program.shared_bytes as usize;
    // SAFETY: lowering makes every function with these parameters, within the buffers the kernel was planned for
    // and the scratch the program names, for this grid.
    Ok(unsafe { CudaKernel::new(label(kernel), image, phases, shared) })
}

fn failure(kernel: &Kernel, reason: &impl ToString) -> MlirError {
    MlirError::Compile { summary: label(kernel), reason: reason.to_string() }
}

/// One line that tells a kernel from another: its operations, iteration space and element types.
pub(super) fn label(kernel: &Kernel) -> String {
    match kernel {
        Kernel::Block(block) => {
            let size = |dim: &DomainDim| match dim.argument {
                None => dim.size.to_string(),
                Some(_) => format!("to {}", dim.size),
            };
            let sizes: Vec<_> = block.domain.iter().map(size).collect();
            let types: Vec<_> = block.params.iter().map(|param| param.dtype.name()).collect();
            let names: Vec<_> = block.body.iter().filter_map(|statement| name(&statement.instr)).collect();
            let names = if names.is_empty() { "copy".to_string() } else { brief(&names) };
            format!("{names} over [{}] of {}", sizes.join(", "), types.join(", "))
        }
        Kernel::Scatter(scatter) => {
            format!("scatter {} {:?} of {}", scatter.op, scatter.shape, scatter.dtype)
        }
        Kernel::Sort(sort) => format!("sort {:?} of {}", sort.shape, sort.dtype),
        Kernel::Scan(scan) => format!("scan {} {:?} of {}", scan.op, scan.shape, scan.dtype),
        Kernel::Paths(paths) => format!("paths {:?} of {}", paths.shape, paths.dtype),
        Kernel::Attention(attention) => {
            let s = &attention.sizes;
            let causal = if attention.causal { "causal " } else { "" };
            format!(
                "{causal}attention of [{}, {}, {}, {}] to {} keys of {}",
                s.batch, s.heads, s.queries, s.width, s.keys, attention.dtype
            )
        }
    }
}

fn name(instr: &Instr) -> Option<&'static str> {
    Some(match instr {
        Instr::Unary(op, _) => op.name(),
        Instr::Binary(op, ..) => op.name(),
        Instr::Compare(op, ..) => op.name(),
        Instr::Reduce(op, _) => op.name(),
        Instr::ArgReduce(op, _) => op.name(),
        Instr::Select(..) => "select",
        Instr::Cast(_) => "cast",
        Instr::Bitcast(_) => "bitcast",
        Instr::Contract(..) => "contract",
        Instr::Gather(_) => "gather",
        Instr::Random { .. } => "random",
        Instr::Load { .. } | Instr::Scalar { .. } | Instr::Constant { .. } | Instr::Index { .. } => {
            return None;
        }
    })
}

/// The operations in order, at most the first twelve.
fn brief(names: &[&str]) -> String {
    let more = if names.len() > 12 { format!("+{} more", names.len() - 12) } else { String::new() };
    format!("{}{more}", names[..names.len().min(12)].join("+"))
}

/// What an error says of a graph: its results with their types.
pub(super) fn summary(graph: &Graph) -> String {
    let result = |id: &burn_mlir_ir::ValueId| {
        let node = graph.node(*id);
        format!("{}{}", node.dtype, node.shape)
    };
    let results: Vec<_> = graph.results.iter().take(4).map(result).collect();
    format!("{} operations with results {}", graph.nodes.len(), results.join(", "))
}
