//! What only CUDA devices have. Without one there is little to test: that this is said.

mod code;
#[path = "../common/mod.rs"]
mod common;
mod lost;
mod memory;
mod under_way;

use burn_mlir_runtime::{CudaKernel, CudaPhase, Device, Kernel, cuda_device_count};
use common::{PTX, child, on_each_cuda_device};
use parking_lot::RwLock;

/// Set in a child process that may lose its device.
const CHILD: &str = "BURN_MLIR_TEST_CHILD";

/// Taken for writing by the test that wants a device's whole memory.
static MEMORY: RwLock<()> = RwLock::new(());

/// Runs a test on every CUDA device.
fn on_each_device(test: impl Fn(&Device)) {
    let _memory = MEMORY.read();
    on_each_cuda_device(test);
}

/// A kernel of one function of the tests' PTX.
fn cuda_kernel(label: &str, phase: CudaPhase) -> Kernel {
    // SAFETY: the functions of the file follow the signature; `stray` is for the test that wants it.
    unsafe { CudaKernel::new(label, PTX, [phase], 0) }.into()
}

/// Runs a test that may lose a device in a process of its own, if there is a device.
fn in_a_child(name: &str, test: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return test();
    }
    let _memory = MEMORY.read();
    if cuda_device_count() > 0 {
        assert!(child(name, &[(CHILD, "1")]).wait().unwrap().success());
    }
}
