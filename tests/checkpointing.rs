//! Gradients by `Autodiff<Mlir>`, with every intermediate kept and with cheap ones computed again.

use crate::support::devices::each;
use crate::support::steps::{close, same, train};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn_flex::Flex;
use burn_mlir::Mlir;

#[test]
fn gradients_are_those_of_another_backend() {
    let theirs = train::<Autodiff<Flex>>(3);
    each(|| close(&train::<Autodiff<Mlir>>(3), &theirs, 2e-5));
}

#[test]
fn checkpointing_changes_no_gradient() {
    each(|| {
        // What is computed again may fuse in another way, and a sum then has another tree.
        close(&train::<Autodiff<Mlir, BalancedCheckpointing>>(3), &train::<Autodiff<Mlir>>(3), 2e-6);
    });
}

#[test]
fn checkpointing_gives_the_same_bits_every_time() {
    each(|| {
        let run = || train::<Autodiff<Mlir, BalancedCheckpointing>>(2);
        same(&run(), &run());
    });
}
