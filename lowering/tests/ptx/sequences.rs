//! Scatter, sort and scan.

use crate::check;
use burn_mlir_ir::{DType, DTypeKind};

/// An embedding's gradient, a loss's, a histogram, lists of their own.
const SCATTERS: &[&str] = &[
    "shape [8192, 768] axis 0 extent 50257\n  data [768, 1]\n  indices [1, 0]\n  updates [768, 1]",
    "shape [8192, 1] axis 1 extent 50257\n  data [50257, 1]\n  indices [1, 1]\n  updates [1, 1]",
    "shape [1000003] axis 0 extent 10\n  data [1]\n  indices [1]\n  updates [1]",
    "shape [3, 200, 5] axis 1 extent 100\n  data [500, 5, 1]\n  indices [1000, 5, 1]\n  updates [1000, 5, 1]",
    "shape [100, 65536] axis 0 extent 7\n  data [65536, 1]\n  indices [65536, 1]\n  updates [0, -1]",
];

fn numbers() -> impl Iterator<Item = DType> {
    DType::all().filter(|dtype| dtype.kind() != DTypeKind::Bool)
}

#[test]
fn scatters() {
    let types =
        [("add", "bf16", "i64"), ("assign", "bool", "i32"), ("max", "f32", "u8"), ("mul", "i64", "u32")];
    for (number, body) in SCATTERS.iter().enumerate() {
        let (op, dtype, index) = types[number % types.len()];
        check(&format!("scatter {op} {dtype} at {index} {{\n  {body}\n}}"));
    }
    let sorted: &[&str] = &["segments", "joins"];
    for (op, dtype, index, ends) in [
        ("add", "f32", "i64", &["clear", "keys", "totals", "write"][..]),
        ("add", "bf16", "i32", &["clear", "keys", "totals", "write"]),
        ("max", "f64", "i32", &["keys", "updates", "write"]),
        ("min", "f16", "i64", &["keys", "updates", "write"]),
        ("mul", "i8", "i32", sorted),
        ("add", "f64", "i32", sorted),
        ("assign", "f64", "i64", &["clear", "mark", "write"]),
        ("add", "u32", "i64", &["scatter"]),
    ] {
        let body = "shape [1048576] axis 0 extent 1048576\n  data [1]\n  indices [1]\n  updates [1]";
        let emitted = check(&format!("scatter {op} {dtype} at {index} {{\n  {body}\n}}"));
        let symbols: Vec<_> = emitted.program.phases.iter().map(|phase| phase.symbol.as_str()).collect();
        assert!(symbols.ends_with(ends), "{op} {dtype}: {symbols:?}");
        assert_eq!(symbols.len() > ends.len(), ends == sorted, "{op} {dtype}: {symbols:?}");
    }
    for (op, dtype, index) in types {
        check(&format!("scatter {op} {dtype} at {index} {{\n  {}\n}}", SCATTERS[3]));
    }
}

#[test]
fn sorts() {
    let bodies = [
        "shape [1048576] axis 0\n  input [1]\n  output [1]",
        "shape [100, 10] axis 1\n  input [10, 1]\n  output [10, 1]",
        "shape [3000, 7] axis 0\n  input [1, -3000]\n  output [7, 1]",
        "shape [2000000, 4] axis 0\n  input [1, -2000000]\n  output [4, 1]",
        "shape [3000000000] axis 0\n  input [1]\n  output [1]",
    ];
    check(&format!("sort bf16 to i64 {{\n  {}\n}}", bodies[4]));
    check(&format!("sort i64 to i64 {{\n  {}\n}}", bodies[3]));
    check(&format!("sort descending f32 to i64 {{\n  {}\n}}", bodies[0]));
    check(&format!("sort f64 to i32 {{\n  {}\n}}", bodies[1]));
    for dtype in numbers() {
        check(&format!("sort {dtype} {{\n  {}\n}}", bodies[2]));
    }
    for dtype in ["f32", "bf16", "i8", "u64"] {
        check(&format!("sort descending {dtype} {{\n  {}\n}}", bodies[3]));
    }
}

#[test]
fn scans() {
    let bodies = [
        "shape [4096, 1024] axis 1\n  input [1024, 1]\n  output [1024, 1]",
        "shape [4096, 1024] axis 0\n  input [1024, 1]\n  output [1024, 1]",
        "shape [16777216] axis 0\n  input [1]\n  output [1]",
        "shape [5, 1001] axis 1\n  input [1001, -1]\n  output [1001, 1]",
        "shape [1000000, 8] axis 0\n  input [8, 1]\n  output [8, 1]",
        "shape [1000, 3] axis 1\n  input [3, 1]\n  output [3, 1]",
    ];
    for body in bodies {
        check(&format!("scan max f32 {{\n  {body}\n}}"));
    }
    for dtype in numbers() {
        check(&format!("scan sum {dtype} {{\n  {}\n}}", bodies[0]));
        check(&format!("scan prod {dtype} {{\n  {}\n}}", bodies[1]));
    }
}

#[test]
fn paths() {
    for dtype in ["f16", "bf16", "f32", "f64"] {
        for [t, n, s] in [[100, 4, 41], [9, 3, 1], [1, 2, 7], [50, 2, 1401], [3, 5, 3201]] {
            check(&format!(
                "paths {dtype} {{\n  shape [{t}, {n}, {s}]\n  scores [{0}, {s}, 1]\n  skips [0, {s}, 1]\n  output [{0}, {s}, 1]\n}}",
                n * s
            ));
        }
    }
}
