//! Kernels written by hand in the LLVM dialect, and what runs them.

use burn_mlir_ir::{NvptxTarget, Phase, Program, Target};
use burn_mlir_jit::{Code, Frontend, Lower, LowerError, Lowered, Stage, host_target};
use melior::{
    Context,
    dialect::DialectRegistry,
    ir::Module,
    utility::{register_all_dialects, register_all_llvm_translations},
};
use std::{
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// Elements of a tile of the host kernels here.
pub const TILE: usize = 16;

fn context() -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    let context = Context::new_with_registry(&registry, false);
    context.load_all_available_dialects();
    register_all_llvm_translations(&context);
    context
}

pub const FRONTEND: Frontend = Frontend { version: 1, context };

pub fn host() -> Target {
    Target::Host(host_target())
}

pub fn sm_90a() -> Target {
    Target::Nvptx(NvptxTarget::new("sm_90a", None))
}

/// A module given as text, which counts how often it is lowered.
#[derive(Clone)]
pub struct Text {
    pub source: String,
    pub symbols: Vec<&'static str>,
    pub lowered: Arc<AtomicUsize>,
}

impl Text {
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), symbols: vec!["phase"], lowered: Arc::default() }
    }

    pub fn times_lowered(&self) -> usize {
        self.lowered.load(SeqCst)
    }

    pub fn program(&self) -> Program {
        let phase = |symbol: &&str| Phase {
            symbol: symbol.to_string(),
            tiles: 4,
            grid: [1, 2, 3],
            block: [4, 5, 6],
            ..Phase::default()
        };
        Program { phases: self.symbols.iter().map(phase).collect(), shared_bytes: 64, worker_bytes: 128 }
    }
}

impl Lower for Text {
    fn lower<'c>(&self, context: &'c Context, stages: bool) -> Result<Lowered<'c>, LowerError> {
        self.lowered.fetch_add(1, SeqCst);
        let module = Module::parse(context, &self.source).ok_or("the text does not parse")?;
        let stages = if stages { vec![Stage::mlir("linalg", "the first stage".into())] } else { Vec::new() };
        Ok(Lowered { module, program: self.program(), stages })
    }

    fn label(&self) -> String {
        "add 64xf32".into()
    }
}

/// `y[i] = x[i] OP s` over tiles of 16 elements; buffers are x and y.
pub fn elementwise(op: &str) -> String {
    format!(
        r#"llvm.func @phase(%buffers: !llvm.ptr, %scalars: !llvm.ptr, %shared: !llvm.ptr, %worker: !llvm.ptr,
                 %status: !llvm.ptr, %begin: i64, %end: i64) {{
  %one = llvm.mlir.constant(1 : i64) : i64
  %tile = llvm.mlir.constant({TILE} : i64) : i64
  %lane = llvm.mlir.constant(0 : i32) : i32
  %x = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %second = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %y = llvm.load %second : !llvm.ptr -> !llvm.ptr
  %s = llvm.load %scalars : !llvm.ptr -> f32
  %none = llvm.mlir.poison : vector<{TILE}xf32>
  %first = llvm.insertelement %s, %none[%lane : i32] : vector<{TILE}xf32>
  %all = llvm.shufflevector %first, %none [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : vector<{TILE}xf32>
  llvm.br ^head(%begin : i64)
^head(%i: i64):
  %more = llvm.icmp "slt" %i, %end : i64
  llvm.cond_br %more, ^body, ^exit
^body:
  %at = llvm.mul %i, %tile : i64
  %from = llvm.getelementptr %x[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %to = llvm.getelementptr %y[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %from {{alignment = 4 : i64}} : !llvm.ptr -> vector<{TILE}xf32>
  %r = llvm.{op} %v, %all : vector<{TILE}xf32>
  llvm.store %r, %to {{alignment = 4 : i64}} : vector<{TILE}xf32>, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^head(%next : i64)
^exit:
  llvm.return
}}
"#
    )
}

/// Runs tiles `begin..end` of an elementwise kernel on 0, 1, 2, ... with scalar `s`; what is not
/// computed stays -1.
pub fn run(code: &Code, s: f32, tiles: usize, begin: usize, end: usize) -> Vec<f32> {
    let Code::Host(code) = code else { panic!("not host code") };
    let mut x: Vec<f32> = (0..tiles * TILE).map(|i| i as f32).collect();
    let mut y = vec![-1.0f32; tiles * TILE];
    let buffers: [*mut u8; 2] = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
    let scalars = [u64::from(s.to_bits()) | 0xdead_beef << 32];
    let mut status = 0;
    let (begin, end) = (begin as i64, end as i64);
    // SAFETY: both buffers have `tiles` tiles, and the kernel takes no scratch.
    unsafe {
        code.entries()[0](
            buffers.as_ptr(),
            scalars.as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            &mut status,
            begin,
            end,
        )
    };
    assert_eq!(status, 0);
    y
}

/// Checks that `code` adds.
pub fn assert_adds(code: &Code) {
    let y = run(code, 0.5, 4, 1, 3);
    for (i, &value) in y.iter().enumerate() {
        let inside = (TILE..3 * TILE).contains(&i);
        assert_eq!(value, if inside { i as f32 + 0.5 } else { -1.0 }, "element {i}");
    }
}

/// Arithmetic on one element per thread.
pub const PTX_KERNEL: &str = r#"
llvm.func @phase(%x: !llvm.ptr, %s: f32) attributes {nvvm.kernel} {
  %i = nvvm.read.ptx.sreg.tid.x : i32
  %p = llvm.getelementptr %x[%i] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %v = llvm.load %p : !llvm.ptr -> f32
  %m = llvm.fmul %v, %s : f32
  %a = llvm.fadd %m, %v : f32
  %d = llvm.fdiv %a, %s : f32
  llvm.store %d, %p : f32, !llvm.ptr
  llvm.return
}"#;
