//! `BackendServer<Mlir>`: a client's operations run here, over WebSocket on the loopback.

use crate::agreement::{check, float, ints};
use crate::support::child::{self, MARK};
use crate::support::devices::{Tested, VARIABLE, current, each, name, tested};
use crate::support::program::program;
use crate::support::steps::{close, train};
use burn_autodiff::Autodiff;
use burn_backend::ops::{FloatTensorOps, TransactionOps, TransactionPrimitive};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType, FloatDType, TensorData, read_sync, s};
use burn_mlir::{Mlir, MlirDevice};
use burn_remote::server::{BackendServer, WebSocketTransport};
use burn_remote::{HostSpec, RemoteBackend, RemoteDevice};
use std::net::TcpListener;
use std::sync::OnceLock;

type Remote = RemoteBackend;

/// A server of the tested devices, which lives as long as this process.
fn host() -> &'static HostSpec {
    static HOST: OnceLock<HostSpec> = OnceLock::new();
    HOST.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        let serving =
            BackendServer::<Mlir>::new(tested()).serve_async(WebSocketTransport::from_listener(listener));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(serving).unwrap();
        });
        HostSpec::websocket(&address)
    })
}

impl Tested for Remote {
    fn current() -> RemoteDevice {
        let index = tested().iter().position(|device| *device == current()).unwrap();
        host().connect(index).unwrap()
    }
}

fn read(tensor: FloatTensor<Remote>) -> Result<Vec<f32>, String> {
    let data = read_sync(Remote::float_into_data(tensor)).map_err(|error| error.to_string())?;
    Ok(data.iter::<f32>().collect())
}

#[test]
fn operations_give_what_they_give_here() {
    // Where a sum fuses in another way, its last bits may differ.
    each(|| check("program", &program::<Remote>(), &program::<Mlir>(), 1e-6));
}

#[test]
fn training_gives_what_it_gives_here() {
    let theirs = train::<Autodiff<burn_flex::Flex>>(2);
    each(|| close(&train::<Autodiff<Remote>>(2), &theirs, 3e-5));
}

#[test]
fn every_type_travels() {
    each(|| {
        let device = Remote::current();
        for dtype in [FloatDType::F64, FloatDType::F32, FloatDType::F16, FloatDType::BF16] {
            let data = TensorData::new(vec![-1.5f32, 0.25, 3.0], [3]).convert_dtype(DType::from(dtype));
            let tensor = Remote::float_from_data(data.clone(), &device);
            assert_eq!(read_sync(Remote::float_into_data(tensor)).unwrap(), data);
        }
    });
}

#[test]
#[ignore = "run alone by the next one"]
fn fails_and_goes_on() {
    let table = float::<Remote, 2>([3, 2], 3);
    let good = Remote::float_add_scalar(table.clone(), 1.into());
    let outside = Remote::float_select(table.clone(), 0, ints::<Remote, 1>([1], &[7]));
    // Another session, on a thread of its own.
    let here = Mlir::float_exp(float::<Mlir, 1>([4], 1));
    assert!(read_sync(Mlir::float_into_data(here)).is_ok());
    let error = read(Remote::float_exp(outside)).unwrap_err();
    assert!(error.contains("index out of range"), "{error}");
    assert_eq!(read(good).unwrap(), read(table).unwrap().iter().map(|x| x + 1.0).collect::<Vec<_>>());
    Remote::sync(&Remote::current()).unwrap();
    println!("{MARK} went on");
}

/// An index out of range is reported to the next who reads in the same session, which all threads of a client share.
#[test]
fn errors_reach_the_client_and_the_session_goes_on() {
    each(|| drop(child::run("remote::fails_and_goes_on", &[(VARIABLE, name(current()))])));
}

#[test]
fn many_clients_work_at_once() {
    each(|| {
        let device = Remote::current();
        std::thread::scope(|scope| {
            for client in 0..8 {
                let device = device.clone();
                scope.spawn(move || {
                    for round in 0..20 {
                        let start = (100 * client + round).into();
                        let x = Remote::float_full([33].into(), start, &device, FloatDType::F32);
                        let x = Remote::float_mul_scalar(Remote::float_add(x.clone(), x), 0.5.into());
                        assert_eq!(read(x).unwrap(), [(100 * client + round) as f32; 33]);
                    }
                });
            }
        });
    });
}

#[test]
fn a_transaction_reads_from_the_server() {
    each(|| {
        let x = float::<Remote, 2>([3, 4], 1);
        let n = ints::<Remote, 1>([2], &[5, 6]);
        let view = Remote::float_slice(x.clone(), &[s![1..], s![..2]]);
        let data = TransactionPrimitive::new(vec![x.clone(), view], vec![], vec![n], vec![]);
        let data = read_sync(Remote::tr_execute(data)).unwrap();
        let x = read(x).unwrap();
        assert_eq!(data.read_floats[1].iter::<f32>().collect::<Vec<_>>(), [x[4], x[5], x[8], x[9]]);
        assert_eq!(data.read_ints[0].iter::<i32>().collect::<Vec<_>>(), [5, 6]);
    });
}

#[test]
fn a_device_that_is_not_served_is_refused() {
    let error = host().connect(tested().len()).unwrap_err();
    assert!(error.to_string().contains("device"), "{error}");
    // A server may offer what its machine does not have: its tensors are errors.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}", listener.local_addr().unwrap());
    let server = BackendServer::<Mlir>::new([MlirDevice::Absent("mps")]);
    let serving = server.serve_async(WebSocketTransport::from_listener(listener));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(serving);
    let device = HostSpec::websocket(&address).connect(0).unwrap();
    let error = read(Remote::float_ones([2].into(), &device, FloatDType::F32)).unwrap_err();
    assert!(error.contains("mps"), "{error}");
    runtime.shutdown_background();
}
