//! burn-mlir
