//! Runs cases of a table, on several threads, and shrinks what fails.

use super::choices::{Choices, LENGTH};
use super::compare::{differences, numbers};
use super::layout::Positions;
use super::layout::View;
use super::numbers::Numbers;
use super::operation::{Operation, Ours, Reference, Tolerance};
use super::value::{Case, Value};
use crate::support::devices;
use burn_backend::{Backend, DType, FloatDType};
use burn_flex::Flex;
use burn_mlir::{Mlir, MlirDevice};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// How many sets of values each set of shapes, types and layouts is tried with: compiling takes longest.
const VALUES: usize = 8;

/// A number from the environment.
fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, should be a number")),
        Err(_) => default,
    }
}

/// What an operation computes for one set of values, compared with the reference.
fn check(operation: &Operation, case: &Case, seed: u32) -> Result<(), String> {
    let drawn: Vec<Numbers> = case
        .inputs
        .iter()
        .enumerate()
        .map(|(at, input)| {
            let count = input.base.iter().product();
            Numbers::draw(input.domain, input.dtype, count, seed, at as u64 + 1)
        })
        .collect();
    let ours = caught("the backend", || ours(operation, case, &drawn))??;
    let (exact, shapes) = caught("the reference", || reference(operation, case, &drawn))??;
    let magnitudes = match (operation.tolerance, &operation.reference) {
        (
            Tolerance::Sum(_) | Tolerance::Stored(_) | Tolerance::Products(_),
            Reference::Flex(_) | Reference::Elements(_),
        ) => {
            let drawn: Vec<Numbers> = drawn.iter().map(Numbers::magnitudes).collect();
            Some(caught("the reference", || reference(operation, case, &drawn))??.0)
        }
        _ => None,
    };
    if ours.len() != exact.len() {
        return Err(format!("{} results instead of {}", ours.len(), exact.len()));
    }
    for (at, (actual, exact)) in ours.iter().zip(&exact).enumerate() {
        if let Some(shape) = shapes.get(at)
            && actual.shape()[..] != shape[..]
        {
            return Err(format!("result {at} has shape {:?} instead of {shape:?}", actual.shape()));
        }
        let expected = DType::from(case.params.float);
        // Data has no type of its own for flex32.
        let stored = if expected == DType::Flex32 { DType::F32 } else { expected };
        if actual.dtype().is_float() && actual.dtype() != stored && actual.dtype() != expected {
            return Err(format!("result {at} is of type {:?} instead of {expected:?}", actual.dtype()));
        }
        let magnitude = magnitudes.as_ref().map(|all| &all[at]);
        let elements = case.inputs.iter().map(|input| input.base.iter().product()).max().unwrap_or(1);
        differences(actual, exact, magnitude, operation.tolerance, expected, elements)
            .map_err(|difference| format!("result {at}: {difference}"))?;
    }
    Ok(())
}

/// A panic is a failure like any other.
fn caught<T>(who: &str, run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        format!("{who} panicked: {text}")
    })
}

fn ours(
    operation: &Operation,
    case: &Case,
    drawn: &[Numbers],
) -> Result<Vec<burn_backend::TensorData>, String> {
    let inputs: Vec<Value<Mlir>> =
        case.inputs.iter().zip(drawn).map(|(input, numbers)| input.tensor(numbers)).collect();
    if case.stored {
        Mlir::sync(&devices::current()).map_err(|error| format!("{error:?}"))?;
    }
    let results = match operation.ours {
        Ours::Any(run) => run(&case.params, &inputs),
        Ours::Unary(run) => vec![Value::Float(run(inputs[0].f()))],
    };
    let back = |value: Value<Mlir>| if case.consumed { value.there_and_back() } else { value };
    let results: Vec<_> = results.into_iter().map(back).collect();
    results.into_iter().map(Value::read).collect()
}

/// The exact results, and their shapes where the reference has some.
#[allow(clippy::type_complexity)]
fn reference(
    operation: &Operation,
    case: &Case,
    drawn: &[Numbers],
) -> Result<(Vec<Numbers>, Vec<Vec<usize>>), String> {
    let operands = || case.inputs.iter().zip(drawn).map(|(input, numbers)| input.logical(numbers));
    let floats = |numbers: &Numbers| match numbers {
        Numbers::Floats(values) => values.clone(),
        Numbers::Ints(values) => values.iter().map(|&v| v as f64).collect(),
    };
    Ok(match operation.reference {
        Reference::Flex(run) => {
            let inputs: Vec<Value<Flex>> =
                case.inputs.iter().zip(drawn).map(|(input, numbers)| input.reference(numbers)).collect();
            let mut params = case.params.clone();
            params.float = FloatDType::F64;
            let results: Result<Vec<_>, String> =
                run(&params, &inputs).into_iter().map(Value::read).collect();
            let results = results?;
            let shapes = results.iter().map(|data| data.shape()[..].to_vec()).collect();
            (results.iter().map(numbers).collect(), shapes)
        }
        Reference::Pointwise(function) => {
            let (values, shape) = operands().next().ok_or("no operand")?;
            (vec![Numbers::Floats(floats(&values).into_iter().map(function).collect())], vec![shape])
        }
        Reference::Pair(function) => {
            let operands: Vec<_> = operands().collect();
            let [(a, a_shape), (b, b_shape)] = &operands[..] else { return Err("not two operands".into()) };
            let shape: Vec<usize> =
                a_shape.iter().zip(b_shape).map(|(&a, &b)| if a == 1 { b } else { a }).collect();
            let spread = |values: &Numbers, of: &[usize]| {
                let whole = Positions::whole(of).view(&View::Expand(shape.clone()));
                floats(&values.at(&whole.at))
            };
            let pairs = spread(a, a_shape).into_iter().zip(spread(b, b_shape));
            (vec![Numbers::Floats(pairs.map(|(a, b)| function(a, b)).collect())], vec![shape])
        }
        Reference::Elements(function) => {
            let operands: Vec<_> = operands().collect();
            (function(&case.params, &operands), Vec::new())
        }
    })
}

/// What the threads of a family share.
struct Family<'a> {
    name: &'a str,
    table: &'a [Operation],
    seed: u64,
    failures: Mutex<BTreeMap<&'static str, String>>,
    done: AtomicUsize,
}

impl Family<'_> {
    /// One structure with all its values, of the operations in turn; an operation that failed once is not tried again.
    fn structure(&self, number: usize) {
        let operation = &self.table[(self.seed as usize * 7 + number) % self.table.len()];
        if self.failures.lock().unwrap().contains_key(operation.name) {
            return;
        }
        let mut seed = [0; 32];
        let name = self.name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte as u64));
        for (at, part) in [self.seed, number as u64, name].into_iter().enumerate() {
            seed[8 * at..8 * at + 8].copy_from_slice(&part.to_le_bytes());
        }
        let config =
            Config { cases: 1, failure_persistence: None, max_shrink_iters: 1500, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let structure = proptest::collection::vec(any::<u16>(), LENGTH);
        let values = proptest::collection::vec(any::<u32>(), VALUES);
        let failed = AtomicBool::new(false);
        let outcome = runner.run(&(structure, values), |(structure, values)| {
            let case = (operation.draw)(&mut Choices::new(&structure));
            for seed in values {
                check(operation, &case, seed).map_err(|reason| {
                    failed.store(true, Ordering::Relaxed);
                    TestCaseError::fail(format!("values {seed:#x}: {reason}"))
                })?;
                // What shrinking tries is not counted.
                self.done.fetch_add(!failed.load(Ordering::Relaxed) as usize, Ordering::Relaxed);
            }
            Ok(())
        });
        if let Err(TestError::Fail(reason, (structure, _))) = outcome {
            let case = (operation.draw)(&mut Choices::new(&structure));
            let report = format!("{} (structure {number}): {reason}\n    {case:?}", operation.name);
            println!("{report}");
            self.failures.lock().unwrap().insert(operation.name, report);
        }
    }
}

/// Tries `share` thousandths of all cases on the operations of a table.
pub fn family(name: &str, share: u64, table: &[Operation]) {
    let cases = (variable("BURN_MLIR_PROPERTY_CASES", 1000) * share).div_ceil(1000) as usize;
    let only = std::env::var("BURN_MLIR_PROPERTY_ONLY").ok();
    devices::each(|| {
        let device = devices::current();
        let family = Family {
            name,
            table,
            seed: variable("BURN_MLIR_PROPERTY_SEED", 1),
            failures: Mutex::default(),
            done: AtomicUsize::new(0),
        };
        let started = Instant::now();
        if let Some(only) = &only {
            // All operations but one are marked as failed.
            let skipped = table.iter().filter(|row| row.name != only);
            family.failures.lock().unwrap().extend(skipped.map(|row| (row.name, String::new())));
        }
        let structures = cases.div_ceil(VALUES);
        let next = AtomicUsize::new(0);
        let threads = variable("BURN_MLIR_PROPERTY_THREADS", 1).max(1);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| work(&family, device, &next, structures));
            }
        });
        let done = family.done.into_inner();
        let seconds = started.elapsed().as_secs_f64();
        println!("{name} on {device}: {done} cases, {seconds:.1} s, {:.1} a second", done as f64 / seconds);
        let failures = family.failures.into_inner().unwrap();
        let failed: Vec<_> = failures.values().filter(|report| !report.is_empty()).collect();
        assert!(failed.is_empty(), "seed {}, {} operations failed: {failed:#?}", family.seed, failed.len());
    });
}

/// Takes structures until there are no more.
fn work(family: &Family, device: MlirDevice, next: &AtomicUsize, structures: usize) {
    devices::on(device, || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= structures {
                break;
            }
            family.structure(number);
        }
    });
}
