//! A device that is lost.

use super::common::{ADD, PTX, batch, cuda_devices, cuda_phase, device, kernel_on, launch, words, zeros};
use super::{cuda_kernel, in_a_child};
use burn_mlir_runtime::{Device, Graph, RuntimeError};

#[test]
fn a_kernel_that_goes_astray_loses_its_device_and_nothing_else() {
    in_a_child("lost::a_kernel_that_goes_astray_loses_its_device_and_nothing_else", || {
        lose_the_device(&cuda_devices()[0]);
    });
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
