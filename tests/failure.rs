//! What goes wrong is a clear error, and nothing else is harmed by it.

use crate::support::child::{self, MARK};
use crate::support::devices::{VARIABLE, current, device, each, name};
use burn::prelude::*;
use burn_mlir::MlirDevice;
use std::path::Path;
use std::process::Command;

/// The reason a tensor cannot be read.
fn failure<const D: usize>(tensor: Tensor<D>) -> String {
    match tensor.try_into_data() {
        Ok(data) => panic!("expected an error, read {data}"),
        Err(error) => error.to_string(),
    }
}

fn works(device: &Device) {
    let sum = Tensor::<1>::from_floats([1.0, 2.0, 3.0], device).sum().into_scalar::<f32>();
    assert_eq!(sum, 6.0);
}

#[test]
fn a_missing_device_is_an_error_of_the_tensor() {
    for (missing, name) in
        [(MlirDevice::Cuda(999), "cuda:999"), (MlirDevice::Mps, "mps"), (MlirDevice::Vulkan, "vulkan")]
    {
        let device = Device::new(missing);
        let tensor = Tensor::<1>::from_floats([1.0, 2.0], &device) * 3.0;
        let reason = failure(tensor);
        assert!(reason.contains(name) && reason.contains("not available"), "{reason}");
        assert!(device.sync().is_err());
    }
    each(|| works(&device()));
}

#[test]
fn shapes_that_do_not_fit_name_the_operation_and_the_shapes() {
    each(|| {
        use burn_backend::{Backend, Distribution, FloatDType, TensorMetadata};
        use burn_mlir::Mlir;
        let random = |shape: [usize; 2]| {
            <Mlir as burn_backend::ops::FloatTensorOps<Mlir>>::float_random(
                shape.into(),
                Distribution::Default,
                &current(),
                FloatDType::F32,
            )
        };
        let (a, b) = (random([2, 3]), random([4, 5]));
        let sum = <Mlir as burn_backend::ops::FloatTensorOps<Mlir>>::float_add(a.clone(), b.clone());
        let product = <Mlir as burn_backend::ops::FloatTensorOps<Mlir>>::float_matmul(a.clone(), b);
        for (tensor, name) in [(sum, "add"), (product, "matmul")] {
            let read = <Mlir as burn_backend::ops::FloatTensorOps<Mlir>>::float_into_data(tensor);
            let reason = burn_backend::read_sync(read).expect_err("the shapes do not fit").to_string();
            for part in [name, "[2, 3]", "[4, 5]", "f32"] {
                assert!(reason.contains(part), "`{part}` is missing in: {reason}");
            }
        }
        assert_eq!(a.shape().to_vec(), [2, 3]);
        assert!(Mlir::sync(&current()).is_ok());
        works(&device());
    });
}

#[test]
fn a_failed_operation_fails_no_neighbour() {
    each(|| {
        let device = device();
        let a = Tensor::<1>::from_floats([1.0, 2.0], &device);
        let doubled = a.clone() * 2.0;
        let huge = Tensor::<1>::ones([1usize << 45], &device) + 1.0;
        let sum = (doubled.clone() + a).sum();
        let reason = failure(huge);
        assert!(reason.contains("out of memory"), "{reason}");
        assert_eq!(doubled.into_data().iter::<f32>().collect::<Vec<_>>(), [2.0, 4.0]);
        assert_eq!(sum.into_scalar::<f32>(), 9.0);
    });
}

#[test]
#[ignore = "run alone by the test that sets the number of threads"]
fn sums_on_as_many_threads_as_it_is_told() {
    let host = Device::new(MlirDevice::Cpu);
    let sum = Tensor::<1>::ones([1 << 20], &host).sum().into_scalar::<f32>();
    println!("{MARK} {sum}");
}

#[test]
fn numbers_of_threads_that_make_no_sense_do_no_harm() {
    for threads in ["0", "abc", "-1", "", "99999"] {
        let variables = [("BURN_MLIR_THREADS", threads)];
        let lines = child::run("failure::sums_on_as_many_threads_as_it_is_told", &variables);
        assert_eq!(lines, ["1048576"], "with `{threads}`");
    }
}

#[test]
fn an_index_out_of_range_is_reported_once() {
    each(|| {
        let device = device();
        let table = Tensor::<2>::ones([4, 3], &device);
        let ids = Tensor::<1, Int>::from_ints([0, 7, 1], &device);
        let reason = failure(table.clone().select(0, ids));
        assert!(reason.contains("index"), "{reason}");
        works(&device);
        let ids = Tensor::<1, Int>::from_ints([3, 0], &device);
        assert_eq!(table.select(0, ids).sum().into_scalar::<f32>(), 6.0);
    });
}

#[test]
#[ignore = "run alone by the tests that set its cache directory"]
fn trains_and_prints_what_was_cached() {
    crate::support::network::train(&device(), &[1e-2, 1e-2], |_| {});
    let stats = burn_mlir::stats();
    println!("{MARK} {} {}", stats.kernels_compiled, stats.kernels_from_disk);
}

/// Kernels compiled and kernels from disk of a small training with that cache directory, on the running
/// test's device.
fn train_with_cache(directory: &Path) -> (u64, u64) {
    let path = directory.to_str().expect("the path is text");
    let variables = [("BURN_MLIR_CACHE", path), (VARIABLE, name(current()))];
    let lines = child::run("failure::trains_and_prints_what_was_cached", &variables);
    let (compiled, read) = lines[0].split_once(' ').expect("two numbers");
    (compiled.parse().expect("a number"), read.parse().expect("a number"))
}

#[test]
fn a_corrupt_cache_is_compiled_again() {
    each(|| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (compiled, _) = train_with_cache(directory.path());
        assert!(compiled > 0);
        assert_eq!(train_with_cache(directory.path()), (0, compiled));
        let files = std::fs::read_dir(directory.path()).expect("it is there").flatten();
        for (index, file) in files.enumerate() {
            let mut bytes = std::fs::read(file.path()).expect("it can be read");
            let length = bytes.len();
            match index % 3 {
                0 => bytes.truncate(length / 2),
                1 => bytes[length - 20] ^= 0x40,
                _ => bytes.clear(),
            }
            std::fs::write(file.path(), bytes).expect("it can be written");
        }
        assert_eq!(train_with_cache(directory.path()), (compiled, 0));
        assert_eq!(train_with_cache(directory.path()), (0, compiled));
    });
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without() {
    each(|| {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        // A file where a directory should be: it cannot be written even by root.
        let (compiled, read) = train_with_cache(&file.path().join("cache"));
        assert!(compiled > 0 && read == 0);
    });
}

#[test]
#[ignore = "run alone by the test that sets where kernels are dumped"]
fn compiles_two_kernels() {
    let x = Tensor::<1>::from_floats([1.0, 2.0], &device());
    assert_eq!((x.clone() * 2.0).into_data().iter::<f32>().collect::<Vec<_>>(), [2.0, 4.0]);
    assert_eq!((x + 2.0).into_data().iter::<f32>().collect::<Vec<_>>(), [3.0, 4.0]);
}

#[test]
fn a_dump_that_cannot_be_written_is_reported_once() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let place = file.path().join("dump");
    let variables = [("BURN_MLIR_DUMP", place.to_str().expect("the path is text")), (VARIABLE, "cpu")];
    let errors = child::errors("failure::compiles_two_kernels", &variables);
    assert_eq!(errors.matches("BURN_MLIR_DUMP").count(), 1, "{errors}");
    assert!(errors.contains(variables[0].1), "{errors}");
}

/// What the build script prints with these variables, and whether it lets the build go on.
fn build_script(variables: &[(&str, &str)]) -> (bool, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = directory.path().join("script");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let built = Command::new(compiler).args(["--edition", "2024", "-o"]).arg(&script).arg(source).status();
    assert!(built.expect("rustc runs").success());
    let mut command = Command::new(script);
    for name in ["MLIR_SYS_220_PREFIX", "LLVM_SYS_221_PREFIX", "TABLEGEN_220_PREFIX"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().expect("the script runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_missing_llvm_is_a_short_error() {
    let (passed, text) = build_script(&[]);
    assert!(!passed);
    for part in ["LLVM 22", "libmlir-22-dev", "/usr/lib/llvm-22", "MLIR_SYS_220_PREFIX", "is not set"] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    let nowhere = "/nonexistent";
    let all =
        ["MLIR_SYS_220_PREFIX", "LLVM_SYS_221_PREFIX", "TABLEGEN_220_PREFIX"].map(|name| (name, nowhere));
    let (passed, text) = build_script(&all);
    assert!(!passed && text.contains("llvm-config does not run"), "{text}");
    assert!(text.lines().filter(|line| line.starts_with("cargo::error")).count() <= 3, "{text}");
}
