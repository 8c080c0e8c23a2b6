//! What code is made for. Pure data: a target need not be present on the machine.

use crate::DType;
use std::fmt;

/// A processor to compile for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A host processor.
    Host(HostTarget),
    /// An NVIDIA GPU.
    Nvptx(NvptxTarget),
}

/// A host processor, as LLVM names it and as the schedules need it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostTarget {
    /// LLVM target triple.
    pub triple: String,
    /// LLVM processor name, such as `znver4` or `x86-64-v3`.
    pub cpu: String,
    /// LLVM feature string, such as `+avx2,+fma`; may be empty.
    pub features: String,
    /// Bytes of a vector register.
    pub vector_bytes: usize,
    /// Number of vector registers.
    pub vector_registers: usize,
    /// Whether there is a fused multiply-add.
    pub fma: bool,
    /// Bytes of the first-level data cache of a core.
    pub l1_bytes: usize,
    /// Bytes of the second-level cache of a core.
    pub l2_bytes: usize,
    /// Bytes of a result from which on it is written past the caches, if it can be.
    pub stream_bytes: Option<usize>,
}

/// An NVIDIA GPU architecture.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NvptxTarget {
    /// LLVM processor name, such as `sm_80` or `sm_90a`.
    pub cpu: String,
    /// PTX version as LLVM names it, such as `ptx83`.
    pub ptx: String,
    /// Multiprocessors of the GPU: how many blocks of threads a wave has steers the choice of tiles.
    pub multiprocessors: usize,
}

impl HostTarget {
    /// The x86-64-v3 level: AVX2 and FMA, 16 vector registers.
    pub fn x86_64_v3() -> Self {
        Self::x86_64("x86-64-v3", 32, 16)
    }

    /// The x86-64-v4 level: AVX-512, 32 vector registers.
    pub fn x86_64_v4() -> Self {
        Self::x86_64("x86-64-v4", 64, 32)
    }

    fn x86_64(cpu: &str, vector_bytes: usize, vector_registers: usize) -> Self {
        Self {
            triple: "x86_64-unknown-linux-gnu".into(),
            cpu: cpu.into(),
            features: String::new(),
            vector_bytes,
            vector_registers,
            fma: true,
            l1_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            stream_bytes: Some(8 << 20),
        }
    }
}

impl NvptxTarget {
    /// A GPU of an architecture, with the number of multiprocessors of its largest data-centre model unless
    /// given: 108 for `sm_80` (A100), 132 for `sm_90a` (H100, H200).
    pub fn new(cpu: &str, multiprocessors: Option<usize>) -> Self {
        let largest = if cpu.starts_with("sm_9") { 132 } else { 108 };
        Self { cpu: cpu.into(), ptx: "ptx83".into(), multiprocessors: multiprocessors.unwrap_or(largest) }
    }

    /// Whether the code may use what only Hopper has: warpgroup matrix instructions and the copy engine.
    pub fn is_hopper(&self) -> bool {
        self.cpu == "sm_90a"
    }
}

impl Target {
    /// Whether products of matrices of a type are computed by a unit made for them. f32 is not: it would be
    /// rounded, which is what `Flex32` stands for.
    pub fn multiplies_matrices_of(&self, dtype: DType) -> bool {
        matches!(self, Self::Nvptx(_)) && matches!(dtype, DType::Flex32 | DType::F16 | DType::BF16)
    }

    /// Bytes that rows in memory had better start at multiples of.
    pub fn row_bytes(&self) -> usize {
        match self {
            Self::Host(_) => 1,
            // The widest access, and what the copy engine asks for.
            Self::Nvptx(_) => 16,
        }
    }

    /// A target by the name users give it: `x86-64-v3`, `x86-64-v4`, `sm_80`, `sm_90a`. The host of
    /// this process is found by the jit crate, which can ask LLVM.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "x86-64-v3" => Some(Self::Host(HostTarget::x86_64_v3())),
            "x86-64-v4" => Some(Self::Host(HostTarget::x86_64_v4())),
            _ if name.starts_with("sm_") => Some(Self::Nvptx(NvptxTarget::new(name, None))),
            _ => None,
        }
    }
}

/// Everything that changes the code made: part of a kernel's key.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(t) => write!(
                f,
                "host {} {} [{}] vector {}x{} fma {} l1 {} l2 {} stream {:?}",
                t.triple,
                t.cpu,
                t.features,
                t.vector_registers,
                t.vector_bytes,
                t.fma,
                t.l1_bytes,
                t.l2_bytes,
                t.stream_bytes
            ),
            Self::Nvptx(t) => write!(f, "nvptx {} {} x{}", t.cpu, t.ptx, t.multiprocessors),
        }
    }
}
