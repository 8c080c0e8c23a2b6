//! Training as a whole: what is compiled, and that the same bits come out every time.

use crate::support::child::{self, MARK};
use crate::support::devices::{VARIABLE, current, device, each, name};
use crate::support::network::{parameters, train};
use burn_mlir::{MlirDevice, stats};

#[test]
#[ignore = "run alone by the test that checks its output"]
fn counts_what_each_step_compiles() {
    let mut counts = vec![stats()];
    // A new rate each step; Adam's own step count changes as well.
    let rates: Vec<f64> = (0..6).map(|step| 1e-2 / (step + 1) as f64).collect();
    train(&device(), &rates, |_| counts.push(stats()));
    for pair in counts.windows(2) {
        let compiled = pair[1].kernels_compiled - pair[0].kernels_compiled;
        println!("{MARK} {compiled} {}", pair[1].plans - pair[0].plans);
    }
}

#[test]
fn a_changed_rate_and_step_count_compile_nothing() {
    each(|| {
        let steps = child::run(
            "training::counts_what_each_step_compiles",
            &[("BURN_MLIR_CACHE", "off"), (VARIABLE, name(current()))],
        );
        let compiled: Vec<u64> =
            steps.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(compiled.len(), 6);
        assert!(compiled[0] > 0, "the first step has kernels to compile");
        // Adam's state does not exist before the second step, which is therefore another program.
        assert_eq!(compiled[2..], [0, 0, 0, 0], "kernels compiled by each step: {compiled:?}");
    });
}

#[test]
#[ignore = "run alone by the test that checks its output"]
fn prints_the_bits_of_three_steps() {
    let mut losses = Vec::new();
    let network = train(&device(), &[1e-2, 5e-3, 2e-3], |loss| losses.push(loss.to_bits()));
    let parameters = parameters(&network);
    assert_eq!(parameters.len(), 160 + 4640 + 8256 + 650, "two convolutions and two linear layers");
    // FNV-1a over the bits of every parameter.
    let fold = |hash: u64, value: &f32| (hash ^ value.to_bits() as u64).wrapping_mul(0x100_0000_01b3);
    let hash = parameters.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    println!("{MARK} {losses:x?} {hash:x}");
}

#[test]
fn three_steps_give_the_same_bits_in_any_process() {
    each(|| {
        let bits = |threads| {
            let variables = [("BURN_MLIR_THREADS", threads), (VARIABLE, name(current()))];
            child::run("training::prints_the_bits_of_three_steps", &variables)
        };
        // How many threads there are matters on the host only.
        let numbers: &[&str] = if current() == MlirDevice::Cpu { &["2", "2", "5"] } else { &["2", "2"] };
        let one = bits("1");
        for threads in numbers {
            assert_eq!(one, bits(threads), "with {threads} threads");
        }
    });
}

#[test]
fn the_loss_falls() {
    each(|| {
        let mut losses = Vec::new();
        train(&device(), &[1e-2; 30], |loss| losses.push(loss));
        assert!(losses[29] < 0.5 * losses[0], "{losses:?}");
    });
}
