//! burn-mlir-jit
