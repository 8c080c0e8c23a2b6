//! Memory: reused in the order of streams, all of it, and no more.

use super::common::{
    ADD, PTX, SLOW_TRIPLE_ADD, TRIPLE_ADD, batch, cuda_phase, kernel_on, launch, on_each_cuda_device, words,
    zeros,
};
use super::{MEMORY, on_each_device};
use burn_mlir_runtime::{CudaConfig, CudaKernel, Device, Kernel, RuntimeError, cuda_device_count};

#[test]
fn freed_memory_is_reused_in_stream_order() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 1)], 0);
        for bytes in [100_000, 3 << 20] {
            let first = stream.upload(&vec![1; bytes]).unwrap();
            let address = first.address();
            launch(&stream, &slow, &first, &[1]);
            drop(first);
            // The kernel may not have run, yet the memory is free for this stream's next work ...
            let second = stream.upload(&7_u32.to_le_bytes().repeat(bytes / 4)).unwrap();
            let exact = std::env::var_os("BURN_MLIR_CUDA_EXACT_MEMORY").is_some();
            assert!(exact || second.address().addr().abs_diff(address.addr()) < bytes);
            launch(&stream, &triple, &second, &[1]);
            assert_eq!(words(&stream, &second), {
                let mut expected = vec![7; bytes / 4];
                expected[0] = 22;
                expected
            });
        }
    });
}

#[test]
fn memory_under_way_is_not_given_to_another_stream() {
    on_each_device(|device| {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        // Used on a stream that is not its own.
        let buffer = zeros(&first, 1);
        second.synchronize().unwrap();
        for scalar in 0..20 {
            launch(&second, &slow, &buffer, &[scalar]);
        }
        drop(buffer);
        let event = second.record();
        let mut kept = Vec::new();
        while !event.is_done() {
            // New memory of the owner, all of which the slow kernels must leave alone.
            let next = zeros(&first, 1);
            kept.push(next);
            if kept.len() > 2000 {
                break;
            }
        }
        event.wait();
        assert!(kept.iter().all(|buffer| words(&first, buffer) == [0]));
        first.synchronize().unwrap();
        second.synchronize().unwrap();
    });
}

#[test]
fn a_fresh_buffer_of_one_stream_is_in_order_on_another() {
    on_each_device(|device| {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let add = kernel_on(device, "add", &[(ADD, 1)], 0);
        for _ in 0..10 {
            let old = zeros(&first, 1);
            launch(&first, &slow, &old, &[1]);
            drop(old);
            // The memory of `old`, which the slow kernel is about to write, on a stream nobody has ordered.
            let fresh = first.allocate(4).unwrap();
            // SAFETY: nobody else uses the buffer.
            unsafe { second.copy_in(&fresh, 0, 10_u32.to_le_bytes()).unwrap() };
            launch(&second, &add, &fresh, &[1]);
            assert_eq!(words(&second, &fresh), [11]);
            first.synchronize().unwrap();
            assert_eq!(words(&second, &fresh), [11]);
        }
    });
}

#[test]
fn too_much_memory_is_an_error_and_the_rest_is_usable() {
    let _memory = MEMORY.read();
    for index in 0..cuda_device_count() {
        let device =
            Device::cuda(index, CudaConfig { memory_limit: Some(64 << 20), ..CudaConfig::default() })
                .unwrap();
        let stream = device.stream().unwrap();
        for requested in [usize::MAX, isize::MAX as usize, 1 << 60, 1 << 46, 65 << 20] {
            for error in [device.allocate(requested).unwrap_err(), stream.allocate(requested).unwrap_err()] {
                assert!(
                    matches!(error, RuntimeError::OutOfMemory { requested: told, .. } if told == requested)
                );
            }
        }
        // More than half, again and again, on streams whose work is under way.
        let slow = kernel_on(&device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let other = device.stream().unwrap();
        for round in 0..10 {
            let stream = if round % 2 == 0 { &stream } else { &other };
            let bytes = (34 + round) << 20;
            let buffer = stream.allocate(bytes).unwrap();
            launch(stream, &slow, &buffer, &[1]);
        }
        let kept = stream.allocate(30 << 20).unwrap();
        assert!(matches!(stream.allocate(40 << 20), Err(RuntimeError::OutOfMemory { .. })));
        assert!(matches!(stream.arena(40 << 20), Err(RuntimeError::OutOfMemory { .. })));
        // SAFETY: nothing of it runs.
        let hungry = unsafe { CudaKernel::new("hungry", PTX, [cuda_phase("add", 1, 1)], 40 << 20) };
        let buffer = zeros(&stream, 1);
        let error = stream.submit(batch(&hungry, &buffer, &[1])).unwrap_err();
        assert!(matches!(error, RuntimeError::OutOfMemory { .. }));
        launch(&stream, &kernel_on(&device, "add", &[(ADD, 1)], 0), &buffer, &[1]);
        assert_eq!(words(&stream, &buffer), [1]);
        drop((kept, buffer, stream, other));
        assert_eq!(device.memory_usage().in_use, 0);
        device.memory_cleanup();
        let usage = device.memory_usage();
        assert!(usage.reserved == 0 && usage.peak >= 43 << 20);
    }
}

#[test]
fn all_of_a_devices_memory_is_usable_and_more_an_error() {
    let _memory = MEMORY.write();
    on_each_cuda_device(|device| {
        let stream = device.stream().unwrap();
        let add = kernel_on(device, "add", &[(ADD, 1)], 0);
        let Kernel::Cuda(code) = &add else { panic!("{add:?}") };
        // Code takes memory, too.
        device.load(code).unwrap();
        let mut kept = Vec::new();
        let error = loop {
            match stream.allocate(1 << 30) {
                Ok(buffer) => kept.push(buffer),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, RuntimeError::OutOfMemory { .. }), "{error:?}");
        println!("{} GiB of {:?}", kept.len(), device.cuda_properties().unwrap().memory_bytes);
        if let Some(buffer) = kept.last() {
            launch(&stream, &add, buffer, &[1]);
        }
        stream.synchronize().unwrap();
        drop(kept);
        device.memory_cleanup();
        let buffer = zeros(&stream, 1);
        launch(&stream, &add, &buffer, &[1]);
        assert_eq!(words(&stream, &buffer), [1]);
    });
}
