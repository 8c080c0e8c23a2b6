//! What the compiler and the runtime have to know of each other about GPUs.

use super::compile::Goal;
use burn_mlir_ir as ir;
use burn_mlir_jit::Assembler;
use burn_mlir_runtime::{
    CudaConfig, CudaMapElement, CudaMapSwizzle, CudaPhase, CudaProperties, CudaTensorMap, Device,
    RuntimeError,
};
use std::sync::Arc;

/// The variable that names another processor to compile for, such as `sm_80` to try on a newer GPU what an older one
/// gets.
const ARCHITECTURE: &str = "BURN_MLIR_CUDA_ARCH";

/// Compute capabilities before 9.0 that the compiler has a target for, as ten times major plus minor.
const BEFORE_HOPPER: [u32; 4] = [80, 86, 87, 89];

/// A GPU and what to compile for it, or why it cannot be used.
pub(super) fn open(index: usize) -> Result<(Device, Goal), String> {
    let device = Device::cuda(index, CudaConfig::default()).map_err(|error| match error {
        RuntimeError::NoDevice { reason, .. } => reason,
        other => other.to_string(),
    })?;
    let Some(properties) = device.cuda_properties() else {
        return Err("it is no CUDA device".into());
    };
    let asked = std::env::var(ARCHITECTURE).ok().filter(|name| !name.is_empty());
    let Some(cpu) = asked.or_else(|| processor(properties.compute_capability)) else {
        let CudaProperties { name, compute_capability: (major, minor), .. } = properties;
        return Err(format!("{name} has CUDA compute capability {major}.{minor}; 8.0 is the least"));
    };
    let target = ir::NvptxTarget::new(&cpu, Some(properties.multiprocessors as usize));
    let goal = Goal { target: ir::Target::Nvptx(target), assembler: Some(assembler(&device, properties)) };
    Ok((device, goal))
}

/// The processor to compile for, as LLVM names it. What is specific to Hopper (`sm_90a`) runs nowhere else, while
/// code for plain `sm_90` is fit for all that came later.
fn processor((major, minor): (u32, u32)) -> Option<String> {
    match (major, 10 * major + minor) {
        (0..8, _) => None,
        (8, number) if BEFORE_HOPPER.contains(&number) => Some(format!("sm_{number}")),
        (8, _) => Some("sm_80".into()),
        (9, 90) => Some("sm_90a".into()),
        _ => Some("sm_90".into()),
    }
}

/// The driver's compiler. What it makes depends on its version and the GPU's architecture.
fn assembler(device: &Device, properties: &CudaProperties) -> Assembler {
    let CudaProperties { compute_capability: (major, minor), driver_version, .. } = properties;
    let device = device.clone();
    Assembler {
        version: format!("cuda {driver_version} sm_{major}{minor}"),
        assemble: Arc::new(move |text: &str| device.assemble(text).map_err(|error| error.to_string())),
    }
}

/// A phase as the runtime launches it; `None` if the copy engine has no such element type.
pub(super) fn phase(phase: &ir::Phase) -> Option<CudaPhase> {
    Some(CudaPhase {
        symbol: phase.symbol.clone(),
        grid: phase.grid,
        block: phase.block,
        workgroup_bytes: phase.workgroup_bytes,
        tensor_maps: phase.tensor_maps.iter().map(tensor_map).collect::<Option<_>>()?,
    })
}

fn tensor_map(map: &ir::TensorMap) -> Option<CudaTensorMap> {
    let element = match map.dtype {
        ir::DType::F16 => CudaMapElement::F16,
        ir::DType::BF16 => CudaMapElement::BF16,
        ir::DType::F32 => CudaMapElement::F32,
        ir::DType::Flex32 => CudaMapElement::TF32,
        _ => return None,
    };
    let swizzle = match map.swizzle {
        ir::Swizzle::None => CudaMapSwizzle::None,
        ir::Swizzle::Bytes32 => CudaMapSwizzle::Bytes32,
        ir::Swizzle::Bytes64 => CudaMapSwizzle::Bytes64,
        ir::Swizzle::Bytes128 => CudaMapSwizzle::Bytes128,
    };
    Some(CudaTensorMap {
        param: map.param,
        offset: map.offset,
        element,
        sizes: map.sizes.clone(),
        strides: map.strides.clone(),
        box_sizes: map.box_sizes.clone(),
        swizzle,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_those_whose_code_runs_there() {
        let expected = [
            ((7, 5), None),
            ((8, 0), Some("sm_80")),
            ((8, 6), Some("sm_86")),
            ((8, 8), Some("sm_80")),
            ((8, 9), Some("sm_89")),
            ((9, 0), Some("sm_90a")),
            ((10, 0), Some("sm_90")),
            ((12, 1), Some("sm_90")),
        ];
        for (capability, name) in expected {
            assert_eq!(processor(capability).as_deref(), name, "{capability:?}");
        }
    }
}
