//! What only CUDA devices have. Without one there is little to test: that this is said.

mod common;

use std::time::{Duration, Instant};

use burn_mlir_runtime::{
    Batch, Buffer, CudaConfig, CudaKernel, CudaMapElement, CudaMapSwizzle, CudaPhase, CudaTensorMap, Device,
    DeviceId, Graph, Kernel, RuntimeError, cuda_device_count, cuda_driver_version,
};
use common::{
    ADD, PTX, SLOW_TRIPLE_ADD, TRIPLE_ADD, batch, child, cuda_devices, cuda_phase, device, kernel_on, launch,
    on_each_cuda_device, tripled, words, zeros,
};
use parking_lot::RwLock;
use smallvec::smallvec;

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

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let count = cuda_device_count();
    assert!(count == 0 || cuda_driver_version().is_some_and(|version| version >= 12000));
    for index in [count, count + 1, 1 << 20, usize::MAX] {
        let error = Device::cuda(index, CudaConfig::default()).unwrap_err();
        let RuntimeError::NoDevice { device, reason } = &error else { panic!("{error:?}") };
        assert_eq!(*device, DeviceId::Cuda(u32::try_from(index).unwrap_or(u32::MAX)));
        assert!(!reason.is_empty());
    }
}

#[test]
fn a_device_has_properties() {
    on_each_device(|device| {
        let properties = device.cuda_properties().unwrap();
        println!("{properties:?}");
        assert!(!properties.name.is_empty() && properties.compute_capability >= (7, 0));
        assert!(properties.multiprocessors > 0 && properties.memory_bytes > 1 << 28);
        assert!(properties.workgroup_bytes >= 64 << 10);
        assert_eq!(Some(properties.driver_version), cuda_driver_version());
    });
    assert_eq!(device(1).cuda_properties(), None);
}

#[test]
fn ptx_becomes_machine_code_that_runs() {
    assert!(matches!(device(1).assemble(PTX), Err(RuntimeError::Unsupported { .. })));
    on_each_device(|device| {
        let cubin = device.assemble(PTX).unwrap();
        // SAFETY: `add` follows the signature.
        let kernel = unsafe { CudaKernel::new("add", cubin, [cuda_phase("add", 3, 1)], 0) };
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 3);
        launch(&stream, &kernel, &buffer, &[5]);
        assert_eq!(words(&stream, &buffer), [5; 3]);

        let broken = PTX.replace("st.global.u32", "st.nowhere.u32");
        let error = device.assemble(&broken).unwrap_err();
        println!("{error}");
        assert!(matches!(error, RuntimeError::Assemble { log, .. } if log.contains("nowhere")));
        assert!(matches!(device.assemble("\0"), Err(RuntimeError::Assemble { .. })));
    });
}

#[test]
fn code_that_does_not_load_is_an_error_and_the_next_kernel_runs() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        let absent = cuda_kernel("absent", cuda_phase("no_such_function", 1, 1));
        let wide = cuda_kernel("wide", cuda_phase("add", 1, 1 << 20));
        let phase = cuda_phase("backwards", 1, 256);
        let hungry = cuda_kernel("hungry", CudaPhase { workgroup_bytes: 1 << 20, ..phase });
        // SAFETY: nothing of it runs.
        let nonsense = unsafe { CudaKernel::new("nonsense", "no PTX", [cuda_phase("add", 1, 1)], 0) };
        for kernel in [absent, wide, hungry, nonsense.into()] {
            let error = stream.submit(batch(&kernel, &buffer, &[1])).unwrap_err();
            println!("{error}");
            assert!(matches!(error, RuntimeError::Driver { device: told, .. } if told == device.id()));
            assert!(Graph::new(&stream, vec![batch(&kernel, &buffer, &[1])]).is_err());
            stream.synchronize().unwrap();
        }
        launch(&stream, &cuda_kernel("add", cuda_phase("add", 1, 1)), &buffer, &[1]);
        assert_eq!(words(&stream, &buffer), [1]);
    });
}

#[test]
fn a_launch_that_fails_does_not_keep_others_from_running() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        let (wide, add) = (cuda_phase("add", 1, 1 << 20), cuda_phase("add", 1, 1));
        let mut batch = Batch::new();
        let slot = batch.bind(buffer.clone());
        for phase in [add.clone(), wide, add] {
            // SAFETY: one tile on one word.
            unsafe { batch.launch(cuda_kernel("add", phase), [(slot, 0)], [1]).unwrap() };
        }
        assert!(matches!(stream.submit(batch), Err(RuntimeError::Driver { .. })));
        assert_eq!(words(&stream, &buffer), [2]);
    });
}

#[test]
fn a_block_of_threads_has_much_memory() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 256);
        let phase = CudaPhase { workgroup_bytes: 96 << 10, ..cuda_phase("backwards", 1, 256) };
        launch(&stream, &cuda_kernel("backwards", phase), &buffer, &[0]);
        assert_eq!(words(&stream, &buffer), (0..256).rev().collect::<Vec<u32>>());
    });
}

#[test]
fn tickets_start_at_zero_in_every_stream_and_graph() {
    on_each_device(|device| {
        let ticket = cuda_kernel("ticket", cuda_phase("ticket", 300, 1));
        for _ in 0..3 {
            let stream = device.stream().unwrap();
            let buffer = zeros(&stream, 1);
            let graph = Graph::new(&stream, vec![batch(&ticket, &buffer, &[300])]).unwrap();
            for _ in 0..10 {
                launch(&stream, &ticket, &buffer, &[300]);
                stream.replay(&graph).unwrap();
            }
            assert_eq!(words(&stream, &buffer), [6000]);
        }
    });
}

#[test]
fn the_copy_engine_walks_a_tensor_map() {
    in_a_child("the_copy_engine_walks_a_tensor_map", walk_a_tensor_map);
}

fn walk_a_tensor_map() {
    const LOAD: &str = include_str!("common/tensor_map.ptx");
    on_each_cuda_device(|device| {
        if device.cuda_properties().is_none_or(|properties| properties.compute_capability < (9, 0)) {
            println!("{} has no copy engine for tensors", device.id());
            return;
        }
        // 5 rows of 6 words, 12 words apart.
        let map = CudaTensorMap {
            param: 1,
            offset: 0,
            element: CudaMapElement::F32,
            sizes: smallvec![6, 5],
            strides: smallvec![48],
            box_sizes: smallvec![8, 4],
            swizzle: CudaMapSwizzle::None,
        };
        let phase = CudaPhase { tensor_maps: vec![map.clone()], ..cuda_phase("load_box", 1, 32) };
        // SAFETY: the function has this signature and stores 32 words to buffer 0.
        let kernel = unsafe { CudaKernel::new("load_box", LOAD, [phase], 0) };
        let stream = device.stream().unwrap();
        let (target, direct) = (zeros(&stream, 32), zeros(&stream, 32));
        // Several sources, so that maps are encoded anew.
        for source in 0..3_u32 {
            let numbers: Vec<u8> =
                (0..60).flat_map(|word: u32| (1000 * source + word).to_le_bytes()).collect();
            let source_buffer = stream.upload(&numbers).unwrap();
            let launch = |target: &Buffer| {
                let mut batch = Batch::new();
                let slots = [batch.bind(target.clone()), batch.bind(source_buffer.clone())];
                let arguments = [(slots[0], 0), (slots[1], 0)];
                // SAFETY: as above; the box starts at column 4 of row 2.
                unsafe { batch.launch(kernel.clone(), arguments, [4, 2]).unwrap() };
                batch
            };
            stream.submit(launch(&direct)).unwrap();
            let graph = Graph::new(&stream, vec![launch(&target)]).unwrap();
            stream.replay(&graph).unwrap();
            let expected: Vec<u32> = (2..6)
                .flat_map(|row| (4..12).map(move |column| (row, column)))
                .map(
                    |(row, column)| if row < 5 && column < 6 { 1000 * source + 12 * row + column } else { 0 },
                )
                .collect();
            assert_eq!(words(&stream, &direct), expected);
            assert_eq!(words(&stream, &target), expected);
        }
        // An address that is no multiple of 16, and extents that do not fit one another.
        let source = zeros(&stream, 64);
        for (map, offset) in [(map.clone(), 4), (CudaTensorMap { strides: smallvec![], ..map }, 0)] {
            let phase = CudaPhase { tensor_maps: vec![map], ..cuda_phase("load_box", 1, 32) };
            // SAFETY: nothing of it runs.
            let kernel = unsafe { CudaKernel::new("load_box", LOAD, [phase], 0) };
            let mut batch = Batch::new();
            let slots = [batch.bind(target.clone()), batch.bind(source.clone())];
            // SAFETY: as above.
            unsafe { batch.launch(kernel, [(slots[0], 0), (slots[1], offset)], [0, 0]).unwrap() };
            assert!(matches!(stream.submit(batch), Err(RuntimeError::Driver { .. })));
        }
        stream.synchronize().unwrap();
    });
}

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

#[test]
fn submitting_is_ahead_of_the_device_but_not_without_bound() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 1)], 0);
        let Kernel::Cuda(code) = &slow else { panic!("{slow:?}") };
        device.load(code).unwrap();
        launch(&stream, &triple, &buffer, &[0]);
        stream.synchronize().unwrap();
        for scalar in 1..21 {
            launch(&stream, &slow, &buffer, &[scalar]);
        }
        let event = stream.record();
        // No bound on the time: what other tests do meanwhile may hold the driver up.
        assert!(!event.is_done());
        for scalar in 21..5000 {
            launch(&stream, &triple, &buffer, &[scalar]);
        }
        // Far behind by now.
        assert!(event.is_done());
        assert_eq!(words(&stream, &buffer), [tripled(5000)]);
    });
}

#[test]
fn kernels_may_be_dropped_with_their_work_under_way() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        for scalar in 0..20 {
            let kernel = kernel_on(device, "short-lived", &[(SLOW_TRIPLE_ADD, 1)], 0);
            launch(&stream, &kernel, &buffer, &[scalar]);
            if scalar == 10 {
                device.memory_cleanup();
            }
        }
        assert_eq!(words(&stream, &buffer), [tripled(20)]);
        device.memory_cleanup();
    });
}

#[test]
fn a_graph_outlives_its_kernels_and_is_dropped_with_replays_under_way() {
    on_each_device(|device| {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let buffer = zeros(&stream, 1);
        let list = (0..4).map(|scalar| {
            let function = if scalar == 1 { SLOW_TRIPLE_ADD } else { TRIPLE_ADD };
            batch(&kernel_on(device, "short-lived", &[(function, 1)], 0), &buffer, &[scalar])
        });
        let graph = Graph::new(&stream, list.collect()).unwrap();
        device.memory_cleanup();
        for _ in 0..5 {
            stream.replay(&graph).unwrap();
            other.wait(&stream.record());
            other.replay(&graph).unwrap();
            stream.wait(&other.record());
        }
        drop(graph);
        drop(other);
        let expected = (0..40).fold(0_u32, |word, step| word.wrapping_mul(3).wrapping_add(step % 4));
        assert_eq!(words(&stream, &buffer), [expected]);
    });
}

#[test]
fn graphs_are_made_while_other_threads_work() {
    on_each_device(|device| {
        let end = Instant::now() + Duration::from_millis(500);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    let mut round = 0_u32;
                    while Instant::now() < end {
                        let buffer = zeros(&stream, 1000 << (round % 8));
                        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 1)], 0);
                        let list = vec![batch(&triple, &buffer, &[1]), batch(&triple, &buffer, &[2])];
                        if thread % 2 == 0 {
                            let graph = Graph::new(&stream, list).unwrap();
                            stream.replay(&graph).unwrap();
                        } else {
                            list.into_iter().for_each(|batch| stream.submit(batch).unwrap());
                            device.memory_cleanup();
                        }
                        assert_eq!(words(&stream, &buffer)[0], 5);
                        round += 1;
                    }
                });
            }
        });
    });
}

#[test]
fn a_kernel_that_goes_astray_loses_its_device_and_nothing_else() {
    in_a_child("a_kernel_that_goes_astray_loses_its_device_and_nothing_else", || {
        lose_the_device(&cuda_devices()[0]);
    });
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

fn lose_the_device(device: &Device) {
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let (buffer, add) = (zeros(&stream, 1), kernel_on(device, "add", &[(ADD, 1)], 0));
    let graph = Graph::new(&stream, vec![batch(&add, &buffer, &[1])]).unwrap();
    stream.synchronize().unwrap();
    launch(&stream, &cuda_kernel("stray", cuda_phase("stray", 1, 1)), &buffer, &[0]);
    let error = stream.synchronize().unwrap_err();
    println!("{error}");
    let RuntimeError::DevicePoisoned { device: lost, reason } = &error else { panic!("{error:?}") };
    assert!(*lost == device.id() && reason.contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
    let same = |result: Result<(), RuntimeError>| assert_eq!(result.as_ref(), Err(&error));
    same(stream.synchronize());
    same(other.synchronize());
    same(stream.submit(batch(&add, &buffer, &[1])));
    same(other.run(batch(&add, &buffer, &[1])));
    same(stream.replay(&graph));
    same(Graph::new(&other, vec![batch(&add, &buffer, &[1])]).map(drop));
    same(stream.upload(&[1]).map(drop));
    same(stream.allocate(1 << 20).map(drop));
    same(device.allocate(1).map(drop));
    same(device.stream().map(drop));
    same(device.assemble(PTX).map(drop));
    // SAFETY: nothing is copied.
    unsafe {
        same(stream.copy((&buffer, 0), (&buffer, 0), 4));
        same(stream.copy_in(&buffer, 0, [1]));
        same(stream.copy_out(&buffer, 0, &mut [0]));
        same(stream.copy_out(&buffer, 0, &mut []));
    }
    // There is nothing to wait for.
    let event = stream.record();
    event.wait();
    other.wait(&event);
    assert!(event.is_done());
    let (send, receive) = std::sync::mpsc::channel();
    stream.call(move || send.send(()).unwrap());
    receive.recv().unwrap();
    device.memory_cleanup();
    drop((stream, other, buffer, graph));
    // The host works on.
    the_host_works();
}

fn the_host_works() {
    let host = device(2);
    let stream = host.stream().unwrap();
    let buffer = zeros(&stream, 1);
    launch(&stream, &kernel_on(&host, "add", &[(ADD, 1)], 0), &buffer, &[1]);
    assert_eq!(words(&stream, &buffer), [1]);
}
