//! COVERAGE.md: for every function of Burn's traits, whether this crate writes it itself and what it records.
//!
//! The list of functions is read from the published sources of burn-backend, what is written here from this crate's; the
//! operations are those that a call of each recorded.

mod calls;
mod outcome;
mod sources;

use crate::support::child::{self, MARK};
use crate::support::devices::VARIABLE;
use outcome::Seen;
use sources::{Function, files, implemented, published, traits};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The traits in the order of the table.
const TRAITS: &[&str] = &[
    "Backend",
    "FloatTensorOps",
    "IntTensorOps",
    "BoolTensorOps",
    "ModuleOps",
    "ActivationOps",
    "QTensorOps",
    "TransactionOps",
    "DistributedOps",
];

/// Functions that may wait for the device: what they give is on the host, or as large as data says.
const READERS: &[&str] = &[
    "float_into_data",
    "int_into_data",
    "bool_into_data",
    "q_into_data",
    "tr_execute",
    "float_mask_select",
    "int_mask_select",
    "bool_mask_select",
    "bool_argwhere",
];

/// What functions do that a call of the coverage test says nothing about.
const BEHAVIOUR: &[(&str, &str)] = &[
    ("ad_enabled", "false: gradients are `Autodiff<Mlir>`'s"),
    (
        "memory_persistent_allocations",
        "runs the closure: memory that is long in use stays with its tensors as it is",
    ),
    (
        "memory_pool_report",
        "none: pools are not sliced as Burn's report has it; `memory_pool_usage` has the totals",
    ),
    ("profile", "the time between two syncs"),
    ("profile_start", "none: `profile` measures"),
    ("profile_end", "none was started"),
    ("profile_abandon", "none was started"),
    ("staging", "nothing to prepare: uploads go through pinned memory by themselves"),
    ("supports_dtype", "by `dtype_usage`"),
    ("float_detach", "the tensor itself"),
    ("float_set_require_grad", "the tensor itself: gradients are `Autodiff<Mlir>`'s"),
    ("float_is_require_grad", "false"),
    ("q_detach", "the tensor itself"),
    ("q_set_require_grad", "the tensor itself: gradients are `Autodiff<Mlir>`'s"),
    ("q_is_require_grad", "false"),
    ("start_communication_server", "Burn's server of gradients in this process"),
    ("close_communication_server", "Burn's server of gradients in this process"),
    ("register_sync_parameters", "Burn's server of gradients in this process"),
    ("submit_sync_collective", "Burn's server of gradients in this process"),
    ("submit_gradient_sync", "Burn's server of gradients in this process"),
    ("comm_device", "the device of the tensor"),
    ("float_from_ref", "a clone of the handle"),
];

#[test]
#[ignore = "run alone by the next one, as waits are counted"]
fn calls_every_function() {
    for (name, seen) in calls::observe() {
        let error = seen.error.unwrap_or_default().replace(['\n', '|', '\r'], " ");
        let operations = seen.operations.join(", ");
        println!("{MARK} {name}|{operations}|{}|{}|{error}", seen.launches, seen.waits);
    }
}

/// What each call did, by the name of the function.
fn observed() -> BTreeMap<String, Seen> {
    let lines = child::run("coverage::calls_every_function", &[(VARIABLE, "cpu")]);
    let parse = |line: &String| {
        let parts: Vec<&str> = line.splitn(5, '|').collect();
        let operations = parts[1].split(", ").filter(|name| !name.is_empty()).map(str::to_string).collect();
        let error = Some(parts[4].to_string()).filter(|error| !error.is_empty());
        let seen =
            Seen { operations, launches: parts[2].parse().unwrap(), waits: parts[3].parse().unwrap(), error };
        (parts[0].to_string(), seen)
    };
    lines.iter().map(parse).collect()
}

/// The row of a function: what it is, what it records, how many kernels, remarks.
fn row(function: &Function, own: bool, seen: Option<&Seen>) -> String {
    let name = &function.name;
    let remark = BEHAVIOUR.iter().find(|(known, _)| known == name).map_or("", |(_, what)| what);
    let calls = function.default.as_deref().unwrap_or_default();
    let of = |calls: &[String]| calls.iter().map(|call| format!("`{call}`")).collect::<Vec<_>>().join(", ");
    let default = match (own, calls) {
        (true, _) | (_, []) => remark.to_string(),
        (false, calls) if remark.is_empty() => format!("Burn's, of {}", of(calls)),
        (false, _) => remark.to_string(),
    };
    let Some(seen) = seen else {
        return format!("| `{name}` | {} | | | {default} |", if own { "native" } else { "default" });
    };
    if let Some(error) = &seen.error {
        return format!("| `{name}` | missing | | | {error} |");
    }
    let computing =
        seen.operations.iter().filter(|name| !["fill", "constant"].contains(&name.as_str())).count();
    let kind = match (own, computing) {
        (false, _) => "default",
        (true, 0 | 1) => "native",
        (true, _) => "composed",
    };
    let waits = if seen.waits > 0 { "waits for the device" } else { "" };
    let remarks: Vec<&str> = [default.as_str(), waits].into_iter().filter(|text| !text.is_empty()).collect();
    format!(
        "| `{name}` | {kind} | {} | {} | {} |",
        seen.operations.join(", "),
        seen.launches,
        remarks.join("; ")
    )
}

#[test]
fn the_table_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let theirs = traits(&files(&published("burn-backend").join("src/backend")));
    let ours = files(&root.join("src/backend"));
    let mut observed = observed();
    let mut problems = Vec::new();
    let mut tables = String::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in TRAITS {
        let functions = theirs.get(*name).unwrap_or_else(|| panic!("burn-backend has a trait {name}"));
        let implemented = implemented(&ours, name);
        writeln!(
            tables,
            "\n## {name}\n\n| function | how | records | kernels | remarks |\n|---|---|---|---|---|"
        )
        .unwrap();
        for function in functions {
            let own = implemented.contains(&function.name);
            let seen = observed.remove(&function.name);
            let known = BEHAVIOUR.iter().any(|(known, _)| *known == function.name);
            let computes = *name != "Backend" && *name != "DistributedOps";
            if seen.is_none() && computes || !own && seen.is_none() && !known {
                problems.push(format!(
                    "{}: neither called in tests/coverage/calls.rs nor described",
                    function.name
                ));
            }
            if let Some(seen) = &seen
                && seen.waits > 0
                && !READERS.contains(&function.name.as_str())
            {
                problems.push(format!("{}: reads back to the host", function.name));
            }
            let row = row(function, own, seen.as_ref());
            for kind in ["native", "composed", "default", "missing"] {
                *counts.entry(kind).or_default() += usize::from(row.contains(&format!("| {kind} |")));
            }
            writeln!(tables, "{row}").unwrap();
        }
    }
    problems.extend(observed.keys().map(|name| format!("{name}: not a function of these traits")));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let summary: Vec<String> = ["native", "composed", "default", "missing"]
        .iter()
        .map(|kind| format!("{} {kind}", counts.get(kind).unwrap_or(&0)))
        .collect();
    let text =
        format!("{HEAD}\nOf {} functions: {}.\n{tables}", counts.values().sum::<usize>(), summary.join(", "));
    let path = root.join("COVERAGE.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = written.lines().zip(text.lines()).find(|(written, new)| written != new);
    assert!(
        written == text,
        "COVERAGE.md is out of date (first difference {difference:?}): \
         INSTA_UPDATE=always cargo test --test integration coverage"
    );
}

/// What stands before the tables.
const HEAD: &str = "# Coverage of Burn's backend traits

Every function of the traits of burn-backend 0.22.1 and what becomes of it here. `tests/coverage.rs` writes this table: the functions
come from the published sources, *records* is what one call of each recorded (operations of `ir/src/op.rs`, each once, in
their order; of one that waits for the device, what came after that), and *kernels* is how many launches the planner made
of that call alone, on the host.

- **native**: written here; one operation, or none where no element is computed (data, handles).
- **composed**: written here, of the operations named; they fuse with each other and with their neighbours.
- **default**: Burn's own composition of functions that are themselves in this table.
- **missing**: an error that names it, when the result is read.

No function reads elements back to the host, save those whose result is there or has a size that data decides.
";
