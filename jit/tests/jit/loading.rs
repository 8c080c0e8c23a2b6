//! Objects in this process.

use crate::{
    add, jit,
    kernels::{TILE, Text, assert_adds, elementwise, host, run, sm_90a},
};
use burn_mlir_ir::{HostTarget, Target};
use burn_mlir_jit::{Config, JitError};
use std::thread;
use tempfile::tempdir;

const CALLS: &str = "
llvm.func @beyond(i64)
llvm.func @above(i64)
llvm.func @phase(%n: i64) {
  llvm.call @beyond(%n) : (i64) -> ()
  llvm.call @above(%n) : (i64) -> ()
  llvm.return
}";

#[test]
fn unknown_symbols_are_named() {
    for target in [host(), sm_90a()] {
        let error = jit(Config::disabled()).get_or_compile("calls", &target, Text::new(CALLS)).unwrap_err();
        assert!(
            matches!(&error, JitError::Unresolved { symbols } if symbols == &["above", "beyond"]),
            "{error:?}"
        );
        assert!(error.to_string().contains("above, beyond"));
    }
}

/// A function of the compiler's run-time library, which only shows in the object.
#[test]
fn symbols_of_the_code_generator_are_named() {
    let divide = "llvm.func @phase(%p: !llvm.ptr) {
      %a = llvm.load %p : !llvm.ptr -> i128
      %q = llvm.sdiv %a, %a2 : i128
      llvm.store %q, %p : i128, !llvm.ptr
      llvm.return
    }"
    .replace("      %q", "      %p2 = llvm.getelementptr %p[1] : (!llvm.ptr) -> !llvm.ptr, i128\n      %a2 = llvm.load %p2 : !llvm.ptr -> i128\n      %q");
    let error = jit(Config::disabled()).get_or_compile("divide", &host(), Text::new(divide)).unwrap_err();
    assert!(matches!(&error, JitError::Unresolved { symbols } if symbols == &["__divti3"]), "{error:?}");
}

#[test]
fn emitting_checks_symbols_too() {
    // Only a processor with bf16 instructions does this without help.
    let source = "llvm.func @phase(%p: !llvm.ptr) {
      %x = llvm.load %p : !llvm.ptr -> f32
      %y = llvm.fptrunc %x : f32 to bf16
      llvm.store %y, %p : bf16, !llvm.ptr
      llvm.return
    }";
    let error =
        jit(Config::disabled()).emit(&Target::Host(HostTarget::x86_64_v3()), Text::new(source)).unwrap_err();
    assert!(matches!(&error, JitError::Unresolved { symbols } if symbols == &["__truncsfbf2"]), "{error:?}");
}

/// Copies `end` bytes from the first buffer to the second.
const COPIES: &str = r#"
llvm.func @phase(%buffers: !llvm.ptr, %scalars: !llvm.ptr, %shared: !llvm.ptr, %worker: !llvm.ptr,
                 %status: !llvm.ptr, %begin: i64, %end: i64) {
  %x = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %second = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %y = llvm.load %second : !llvm.ptr -> !llvm.ptr
  "llvm.intr.memcpy"(%y, %x, %end) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  llvm.return
}"#;

#[test]
fn copying_is_provided_by_libc() {
    let code = jit(Config::disabled()).get_or_compile("copies", &host(), Text::new(COPIES)).unwrap();
    let y = run(&code, 0.0, 2, 0, 20);
    assert_eq!(y[..6], [0.0, 1.0, 2.0, 3.0, 4.0, -1.0]);
}

/// A table that the code refers to by address.
#[test]
fn constants_are_loaded_with_the_code() {
    let table: Vec<String> = (0..TILE).map(|i| format!("{}.25", i * i)).collect();
    let table = table.join(", ");
    let constant =
        format!("  %table = llvm.mlir.constant(dense<[{table}]> : vector<16xf32>) : vector<16xf32>\n");
    let entry = "  llvm.br ^head(%begin : i64)";
    let source = elementwise("fadd").replace("%v, %all", "%v, %table").replace(entry, &(constant + entry));
    let code = jit(Config::disabled()).get_or_compile("table", &host(), Text::new(source)).unwrap();
    for (i, value) in run(&code, 0.0, 1, 0, 1).into_iter().enumerate() {
        assert_eq!(value, (i * i + i) as f32 + 0.25);
    }
}

#[test]
fn code_is_unloaded_and_loaded_again() {
    let directory = tempdir().unwrap();
    jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap();
    for _ in 0..200 {
        let jit = jit(Config::at(directory.path()));
        assert_adds(&jit.get_or_compile("add", &host(), add()).unwrap());
        assert_eq!(jit.stats().disk_hits, 1);
    }
}

#[test]
fn threads_load_and_unload_at_once() {
    let directory = tempdir().unwrap();
    jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap();
    let load = || {
        for _ in 0..50 {
            assert_adds(&jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap());
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(load))));
}
