//! burn-mlir-lowering
