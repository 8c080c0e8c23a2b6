//! The processor this process runs on, as LLVM and the schedules need to know it.

use burn_mlir_ir::HostTarget;
use inkwell::targets::TargetMachine;
use std::{collections::HashSet, fs, path::Path, sync::OnceLock};

/// A vector instruction set: the LLVM features it takes, bytes of a register, number of registers.
/// The first whose features are all there is used.
const VECTORS: &[(&[&str], usize, usize)] = &[
    // The 512-bit schedules use byte and word elements and masked 256-bit forms, too.
    (&["avx512f", "avx512bw", "avx512dq", "avx512vl"], 64, 32),
    (&["avx2"], 32, 16),
    (&["neon"], 16, 32),
    (&[], 16, 16),
];

/// Sizes assumed where the system does not say: nearly every core has at least these.
const L1_BYTES: usize = 32 << 10;
const L2_BYTES: usize = 1 << 20;
const L3_BYTES: usize = 32 << 20;

/// The part of the last cache that a result may take before it is written past it: what is read meanwhile, the other
/// cores and the results before it need room, too.
const STREAM_PART: usize = 4;

/// The host of this process. Found once.
pub fn host_target() -> HostTarget {
    static HOST: OnceLock<HostTarget> = OnceLock::new();
    HOST.get_or_init(detect).clone()
}

fn detect() -> HostTarget {
    let features = TargetMachine::get_host_cpu_features().to_string();
    let on: HashSet<&str> = features.split(',').filter_map(|f| f.strip_prefix('+')).collect();
    let (vector_bytes, vector_registers) = VECTORS
        .iter()
        .find(|(needed, ..)| needed.iter().all(|f| on.contains(f)))
        .map_or((16, 16), |&(_, bytes, registers)| (bytes, registers));
    let triple = TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned();
    HostTarget {
        // Elsewhere there is no fence for such stores.
        stream_bytes: triple.starts_with("x86_64").then(|| cache_bytes(3).unwrap_or(L3_BYTES) / STREAM_PART),
        triple,
        cpu: TargetMachine::get_host_cpu_name().to_string(),
        vector_bytes,
        vector_registers,
        fma: on.contains("fma") || on.contains("neon"),
        l1_bytes: cache_bytes(1).unwrap_or(L1_BYTES),
        l2_bytes: cache_bytes(2).unwrap_or(L2_BYTES),
        features,
    }
}

/// Size of the first core's data or unified cache of a level, as Linux tells it.
fn cache_bytes(level: u32) -> Option<usize> {
    let read = |path: &Path, name: &str| fs::read_to_string(path.join(name)).ok();
    fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        let is_level = read(&path, "level")?.trim().parse() == Ok(level);
        let holds_data = read(&path, "type")?.trim() != "Instruction";
        if is_level && holds_data { parse_size(read(&path, "size")?.trim()) } else { None }
    })
}

/// `32K`, `1M` or a plain number of bytes; zero is no size.
fn parse_size(text: &str) -> Option<usize> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("32K"), Some(32768));
        assert_eq!(parse_size("1M"), Some(1048576));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("0K"), None);
        assert_eq!(parse_size(""), None);
    }
}
