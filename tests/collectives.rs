//! Reductions over the devices of a process: over one they change nothing, over several they are refused.

use crate::agreement::float;
use crate::support::devices::{Tested, current, each};
use burn_autodiff::Autodiff;
use burn_backend::distributed::{DistributedOps, ReduceOperation};
use burn_backend::ops::FloatTensorOps;
use burn_backend::{AutodiffBackend, Device, read_sync};
use burn_mlir::{Mlir, MlirDevice};

type Tracked = Autodiff<Mlir>;

#[test]
fn a_reduction_over_one_device_is_its_operand() {
    each(|| {
        for operation in [ReduceOperation::Sum, ReduceOperation::Mean] {
            let x = Tracked::float_set_require_grad(float::<Tracked, 2>([3, 4], 1), true);
            let devices = vec![Tracked::current().to_id()];
            let reduced = Tracked::all_reduce(x.clone(), operation, devices).resolve();
            let square = Tracked::float_mul(reduced.clone(), reduced.clone());
            let gradients = Tracked::backward(Tracked::float_sum(square));
            let gradient = Tracked::grad(&x, &gradients).unwrap();
            let read =
                |tensor| read_sync(Mlir::float_into_data(tensor)).unwrap().iter::<f32>().collect::<Vec<_>>();
            let x = read(Tracked::inner(x));
            assert_eq!(read(Tracked::inner(reduced)), x);
            assert_eq!(read(gradient), x.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_reduction_over_several_devices_is_refused_by_name() {
    let devices = [current(), MlirDevice::Cuda(7)].map(|device| device.to_id()).to_vec();
    let reduced = Mlir::all_reduce(float::<Mlir, 1>([3], 1), ReduceOperation::Sum, devices).resolve();
    let error = read_sync(Mlir::float_into_data(reduced)).unwrap_err().to_string();
    assert!(error.contains("all_reduce over several devices") && error.contains("f32[3]"), "{error}");
}
