//! The instructions of ARCHITECTURE.md are complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files that the guide tells to change for an elementwise function.
fn listed(guide: &str) -> BTreeSet<String> {
    let (_, rest) = guide.split_once("<!-- places of atanh -->").expect("the list begins");
    let (list, _) = rest.split_once("<!-- end of places -->").expect("the list ends");
    let place = |line: &str| Some(line.split_once(". `")?.1.split_once('`')?.0.to_string());
    list.lines().filter_map(place).collect()
}

/// All Rust files below a directory.
fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn the_places_named_for_an_elementwise_function_are_all_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the guide");
    let mut files = Vec::new();
    for part in ["ir/src", "lowering/src", "jit/src", "runtime/src", "src"] {
        sources(&root.join(part), &mut files);
    }
    let names = |path: &&PathBuf| {
        let text = std::fs::read_to_string(path).expect("a source file").to_lowercase();
        // Code outside unit tests; words of prose do not contain the name.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        code.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("atanh"))
    };
    let relative = |path: &PathBuf| path.strip_prefix(root).expect("below the root").display().to_string();
    let naming: BTreeSet<String> = files.iter().filter(names).map(relative).collect();
    assert_eq!(naming, listed(&guide));
}
