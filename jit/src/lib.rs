//! Machine code from MLIR: compiled once, kept in memory and on disk, loaded in process.
//!
//! A [`Jit`] is asked for the [`Code`] of a kernel by the kernel's canonical text and a target.
//! Equal kernels compile once however many threads ask; what was compiled lands in a disk store
//! that later processes read. On a miss a [`Lower`] builds the LLVM-dialect module, which becomes
//! an object loaded in this process, or PTX text, and what an [`Assembler`] makes of that. Compiling runs on worker threads of this crate,
//! each with a deep stack and an MLIR context of its own.
//!
//! [`Jit::emit`] gives the text of every stage for a target that need not be present.

mod assembler;
mod cache;
mod codegen;
mod compile;
mod config;
mod context;
mod diagnostics;
mod dump;
mod elf;
mod encode;
mod error;
mod host;
mod jit;
mod key;
mod loader;
mod lower;
mod sharing;
mod stats;
mod store;
mod warn;
mod workers;

pub use assembler::{Assemble, Assembler};
pub use config::Config;
pub use error::JitError;
pub use host::host_target;
pub use jit::{Code, HostCode, Jit, PtxCode, Request};
pub use loader::HostFn;
pub use lower::{Frontend, Lower, LowerError, Lowered, Stage};
pub use stats::Stats;
pub use warn::warn;
