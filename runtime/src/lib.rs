//! burn-mlir-runtime
