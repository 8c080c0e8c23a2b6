//! Collecting what MLIR and LLVM complain about, in the place of their printing it or exiting.

use inkwell::{
    context::Context as LlvmContext,
    llvm_sys::{
        LLVMDiagnosticSeverity,
        core::{
            LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription,
            LLVMGetDiagInfoSeverity,
        },
        prelude::LLVMDiagnosticInfoRef,
    },
};
use melior::Context;
use std::{
    cell::RefCell,
    ffi::{CStr, c_void},
    rc::Rc,
};

/// Runs `body` and returns with its result what MLIR said in `context` meanwhile.
pub(crate) fn collect_mlir<R>(context: &Context, body: impl FnOnce() -> R) -> (R, String) {
    let said = Rc::new(RefCell::new(Vec::new()));
    let sink = said.clone();
    let id = context.attach_diagnostic_handler(move |diagnostic| {
        sink.borrow_mut().push(diagnostic.to_string());
        true
    });
    let result = body();
    context.detach_diagnostic_handler(id);
    let text = said.borrow().join("; ");
    (result, text)
}

/// Errors LLVM reports in one context.
pub(crate) struct LlvmErrors(Box<RefCell<Vec<String>>>);

impl LlvmErrors {
    /// Collects the errors of `context`. Keep it for as long as the context is used.
    pub fn collect(context: &LlvmContext) -> Self {
        let errors = Box::new(RefCell::new(Vec::new()));
        // SAFETY: the context is alive; the box does not move, and callers keep it while they use
        // the context.
        unsafe {
            LLVMContextSetDiagnosticHandler(context.raw(), Some(handle), &raw const *errors as *mut c_void)
        };
        Self(errors)
    }

    /// The errors since the last call.
    pub fn take(&self) -> Option<String> {
        let errors = self.0.take();
        if errors.is_empty() { None } else { Some(errors.join("; ")) }
    }
}

extern "C" fn handle(info: LLVMDiagnosticInfoRef, errors: *mut c_void) {
    // SAFETY: `info` is valid during the call, `errors` is the cell given to `collect`, used by
    // this thread only; the description is freed once.
    unsafe {
        if LLVMGetDiagInfoSeverity(info) != LLVMDiagnosticSeverity::LLVMDSError {
            return;
        }
        let text = LLVMGetDiagInfoDescription(info);
        let errors = &*(errors as *const RefCell<Vec<String>>);
        errors.borrow_mut().push(CStr::from_ptr(text).to_string_lossy().into_owned());
        LLVMDisposeMessage(text);
    }
}
