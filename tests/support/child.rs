//! Runs one test of this binary in a process of its own, for what is process-wide: counters, caches,
//! the number of threads.

use std::process::{Command, Output};

/// What the tests that run in a process of their own print their results behind.
pub const MARK: &str = "child says:";

/// Runs an ignored test alone with `variables` set. It must pass.
fn output(test: &str, variables: &[(&str, &str)]) -> Output {
    let binary = std::env::current_exe().expect("this binary has a path");
    let mut command = Command::new(binary);
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().copied());
    let output = command.output().expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} failed:\n{text}\n{errors}");
    output
}

/// What an ignored test, run alone with `variables` set, writes to the standard error.
pub fn errors(test: &str, variables: &[(&str, &str)]) -> String {
    String::from_utf8_lossy(&output(test, variables).stderr).into_owned()
}

/// The result lines of an ignored test, run alone with `variables` set.
pub fn run(test: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let output = output(test, variables);
    let text = String::from_utf8_lossy(&output.stdout);
    // With --nocapture the harness may write on the same line before the mark.
    let results = text.lines().filter_map(|line| Some(line.split_once(MARK)?.1.trim().to_string()));
    let results: Vec<String> = results.collect();
    assert!(!results.is_empty(), "{test} printed no result:\n{text}");
    results
}
