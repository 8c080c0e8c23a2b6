//! The textual form: printing, reading, errors.

use crate::random;
use burn_mlir_ir::{BinaryOp, CompareOp, DType, Graph, Kernel, Literal, UnaryOp};
use insta::assert_snapshot;
use proptest::prelude::*;
use std::str::FromStr;

/// Canonical text prints as it stands.
fn is_canonical<T: FromStr<Err: std::fmt::Debug> + ToString>(text: &str) {
    assert_eq!(text.parse::<T>().unwrap().to_string(), text);
}

#[test]
fn graphs() {
    is_canonical::<Graph>("graph () {\n  return\n}");
    is_canonical::<Graph>(
        r#"graph (f32, u32) {
  %0 = input 0 : f32[128, 784]
  %1 = input 1 donated : f32[784, 512] strides [1, 784]
  %2 = input 7 : f32[2, 3] strides [0, -1] offset 2
  %3 = contract "mk,kn->mn" %0, %1 : f32[128, 512]
  %4 = fill $0 : f32[128, 512]
  %5 = constant 0.5 : f32[128, 512]
  %6 = max %3, %4 : f32[128, 512]
  %7 = lt %6, %5 : bool[128, 512]
  %8 = select %7, %6, %5 : f32[128, 512]
  %9 = slice [0:+64:2, 511:+512:-1] %8 : f32[64, 512]
  %10 = reduce sum [1] %9 : f32[64, 1]
  %11 = argmax [0, 1] %9 : i64[1, 1]
  %12 = random key $1 stream $1 : u32[4]
  %13 = sort descending axis 0 %10 : f32[64, 1]
  %14 = argsort axis 0 %10 : i32[64, 1]
  %15 = gather axis 0 %10, %14 : f32[64, 1]
  %16 = scatter add axis 0 %10, %14, %15 : f32[64, 1]
  %17 = concat axis 1 %15, %16, %10 : f32[64, 3]
  %18 = slice_update [0:+64:1, 0:+1:1] %17, %10 : f32[64, 3]
  %19 = unfold axis 0 size 3 step 2 dilation 1 %18 : f32[31, 3, 3]
  %20 = permute [2, 0, 1] %19 : f32[3, 31, 3]
  %21 = scan prod axis 2 %20 : f32[3, 31, 3]
  %22 = cast %21 : bf16[3, 31, 3]
  %23 = contract ",->" %0, %1 : f32[]
  return %22, %13, %22
}"#,
    );
}

#[test]
fn kernels() {
    is_canonical::<Kernel>("block [] () {\n}");
    is_canonical::<Kernel>(
        "block [p 128, r 784] (f32, u32) {
  @0 = in f32 align 64
  @1 = in i64 align 8
  @2 = out f32 align 4
  @3 = inout bool align 1
  %0 = load @0 [784, 1] : f32
  %1 = load @1 [0, -1] : i64
  %2 = gather @0 [784, 0] index %1 stride -2 extent 392 : f32
  %3 = scalar $0 : f32
  %4 = constant -1e-7 : f32
  %5 = index [784, 1] offset -5 : i32
  %6 = random key $1 stream $1 [784, 1] offset 12 : u32
  %7 = tanh %2 : f32
  %8 = atan2 %7, %3 : f32
  %9 = ne %8, %4 : bool
  %10 = select %9, %8, %7 : f32
  %11 = cast %10 : f16
  %12 = bitcast %11 : i16
  %13 = reduce min %10 : f32
  %14 = argmin %10 : i64
  %15 = contract %0, %2 : f32
  store %13 -> @2 [1, 0]
  store %9 -> @3 [784, 1]
}",
    );
    is_canonical::<Kernel>(
        "scatter assign f32 at i32 {\n  shape [2, 3] axis 1 extent 9\n  data [9, 1]\n  indices [3, 1]\n  updates [0, 0]\n}",
    );
    is_canonical::<Kernel>("sort f32 {\n  shape [2, 3] axis 1\n  input [3, 1]\n  output [1, 2]\n}");
    is_canonical::<Kernel>("sort descending f32 to i64 {\n  shape [4] axis 0\n  input [1]\n  output [-1]\n}");
    is_canonical::<Kernel>(
        "paths f32 {\n  shape [2, 3, 4]\n  scores [12, 4, 1]\n  skips [0, 4, 1]\n  output [12, 4, 1]\n}",
    );
    is_canonical::<Kernel>("scan max bool {\n  shape [4] axis 0\n  input [0]\n  output [1]\n}");
}

/// Each literal as its exact text, the bits from IEEE 754.
#[test]
fn constants() {
    for (literal, text) in [
        (Literal::Int(0), "0"),
        (Literal::Int(i64::MIN), "-9223372036854775808"),
        (Literal::Float(0), "0.0"),
        (Literal::Float(1 << 63), "-0.0"),
        (Literal::Float(0x3fe0_0000_0000_0000), "0.5"),
        (Literal::Float(1), "5e-324"),
        (Literal::Float(0x4415_af1d_78b5_8c40), "1e20"),
        (Literal::Float(0x7ff0_0000_0000_0000), "inf"),
        (Literal::Float(0xfff0_0000_0000_0000), "-inf"),
        (Literal::Float(0x7ff8_0000_0000_0000), "nan"),
        (Literal::Float(0xfff8_0000_0000_0001), "nan0xfff8000000000001"),
    ] {
        assert_eq!(literal.to_string(), text);
        assert_eq!(text.parse(), Ok(literal));
    }
    for text in
        ["", "NaN", "-nan", "nan0x1", "nan0x", "infinity", "1_000", "9223372036854775808", "0x10", "e", "."]
    {
        assert_eq!(text.parse::<Literal>(), Err(()), "{text}");
    }
}

#[test]
fn white_space_and_comments_only_separate() {
    let spaced = "// a graph\n graph( f32 )\n{ %0=fill $0:f32[ 2,3 ]// it\n\r\n\treturn %0 } // end";
    let graph = Graph::parse(spaced).unwrap();
    assert_snapshot!(graph, @r"
    graph (f32) {
      %0 = fill $0 : f32[2, 3]
      return %0
    }
    ");
}

/// Every elementwise function is read by its name alone, in graphs and in kernels.
#[test]
fn functions_come_from_their_tables() {
    let names = (UnaryOp::ALL.iter().map(|op| (op.name(), 1)))
        .chain(BinaryOp::ALL.iter().map(|op| (op.name(), 2)))
        .chain(CompareOp::ALL.iter().map(|op| (op.name(), 2)));
    for (name, arity) in names {
        let operands = &"%0, %0"[..4 * arity - 2];
        is_canonical::<Graph>(&format!("graph () {{\n  %0 = {name} {operands} : f32[]\n  return\n}}"));
        is_canonical::<Kernel>(&format!("block [] () {{\n  %0 = {name} {operands} : f32\n}}"));
    }
}

fn graph_error(text: &str) -> String {
    Graph::parse(text).unwrap_err().to_string()
}

fn kernel_error(text: &str) -> String {
    Kernel::parse(text).unwrap_err().to_string()
}

#[test]
fn errors_in_graphs() {
    assert_snapshot!(graph_error(""), @"1:1: expected `graph`, found the end of the text");
    assert_snapshot!(graph_error("graph (f31) {"), @"1:8: expected an element type, found `f31`");
    assert_snapshot!(graph_error("graph (f32 f32) {"), @"1:12: expected `,` or `)`, found `f32`");
    assert_snapshot!(graph_error("graph () {\n  %1 = cast"), @"2:3: expected `%0` (definitions are numbered in order), found `%`");
    assert_snapshot!(graph_error("graph () {\n  store"), @"2:3: expected `%0` or `return`, found `store`");
    assert_snapshot!(graph_error("graph () {\n  %0 = expp %0"), @"2:8: expected an operation, found `expp`");
    assert_snapshot!(graph_error("graph () {\n  %0 = exp %0 f32[]"), @"2:15: expected `:`, found `f32`");
    assert_snapshot!(graph_error("graph () {\n  %0 = exp %0 : f32[-1]"), @"2:21: expected an extent, found `-1`");
    assert_snapshot!(graph_error("graph () {\n  %0 = exp %0 : f32[1"), @"2:22: expected `,` or `]`, found the end of the text");
    assert_snapshot!(graph_error("graph () {\n  %0 = exp %0, : f32[1]"), @"2:16: expected `%`, found `:`");
    assert_snapshot!(graph_error("graph () { %0 = reduce mean [0] %0"), @"1:24: expected a reduction, found `mean`");
    assert_snapshot!(graph_error("graph () { %0 = iota 1"), @"1:22: expected `axis`, found `1`");
    assert_snapshot!(graph_error("graph () { %0 = constant half"), @"1:26: expected a constant, found `half`");
    assert_snapshot!(graph_error("graph () { %0 = slice [0:4:1] %0"), @"1:26: expected `+`, found `4`");
    assert_snapshot!(graph_error("graph () { %0 = contract \"mk->m\" %0"), @r#"1:26: expected labels in quotes, such as "mk,kn->mn", found `"mk->m"`"#);
    assert_snapshot!(graph_error("graph () { %0 = contract \"mk"), @r#"1:26: expected a closing `"` on the same line, found the end of the line"#);
    assert_snapshot!(graph_error("graph () { %0 = input 0 : f32[9223372036854775807, 4]"), @"1:30: expected extents whose product fits 63 bits, found `[`");
    assert_snapshot!(graph_error("graph () { return }\n// é\n é;"), @"3:2: expected a token, found `é`");
    assert_snapshot!(graph_error("graph () { return } graph"), @"1:21: expected the end of the text, found `graph`");
    assert_snapshot!(graph_error("graph () { return %4294967296 }"), @"1:20: expected a number, found `4294967296`");
}

#[test]
fn errors_in_kernels() {
    assert_snapshot!(kernel_error("graph"), @"1:1: expected `block`, `scatter`, `sort`, `scan`, `paths` or `attention`, found `graph`");
    assert_snapshot!(kernel_error("block [q 3] () {"), @"1:8: expected `p` (parallel) or `r` (reduction), found `q`");
    assert_snapshot!(kernel_error("block [] () {\n@0 = f32 align 4"), @"2:6: expected `in`, `out` or `inout`, found `f32`");
    assert_snapshot!(kernel_error("block [] () {\n@0 = in f32 }"), @"2:13: expected `align`, found `}`");
    assert_snapshot!(kernel_error("block [] () {\n%0 = reshape %0 : f32 }"), @"2:6: expected a statement, found `reshape`");
    assert_snapshot!(kernel_error("block [] () {\n%0 = add %0 : f32 }"), @"2:13: expected `,`, found `:`");
    assert_snapshot!(kernel_error("block [] () {\nstore %0 @0 [] }"), @"2:10: expected `->`, found `@`");
    assert_snapshot!(kernel_error("block [] () {\nstore %0 -> @0 []\n%0 = scalar $0 : f32 }"), @"3:1: expected `store` or `}` (after parameters `@`, then statements `%`), found `%`");
    assert_snapshot!(kernel_error("scatter sub f32"), @"1:9: expected a scatter operation, found `sub`");
    assert_snapshot!(kernel_error("sort f32 { shape [2] axis 0 output [1] }"), @"1:29: expected `input`, found `output`");
}

#[test]
fn element_types_read_back() {
    for dtype in DType::all() {
        assert_eq!(dtype.to_string().parse(), Ok(dtype));
    }
}

/// Words and characters of the grammar in any order.
fn soup() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "graph",
        "block",
        "sort",
        "scan",
        "scatter",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "=",
        "+",
        "%",
        "$",
        "@",
        "->",
        "-",
        "\"",
        "//",
        "\n",
        "é",
        "0",
        "1",
        "%0 =",
        "@0 =",
        "input",
        "reduce",
        "sum",
        "max",
        "add",
        "exp",
        "f32",
        "return",
        "store",
        "p",
        "r",
        "axis",
        "shape",
        "contract",
        "\"mk,kn->mn\"",
        "slice",
        "nan0x",
        "1e-",
        "1e5",
        "-inf",
        "constant",
    ];
    proptest::collection::vec(proptest::sample::select(WORDS), 0..30).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn a_graph_reads_back(graph in random::graph()) {
        let text = graph.to_string();
        prop_assert_eq!(Graph::parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?, graph);
    }

    /// So different kernels have different texts: the text can be a key.
    #[test]
    fn a_kernel_reads_back(kernel in random::kernel()) {
        let text = kernel.to_string();
        prop_assert_eq!(Kernel::parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?, kernel);
    }

    #[test]
    fn a_constant_reads_back(literal in random::literal()) {
        prop_assert_eq!(literal.to_string().parse(), Ok(literal));
    }

    /// Verifiers answer whatever they are given; most of this is refused.
    #[test]
    fn verifiers_do_not_panic(graph in random::graph(), kernel in random::kernel()) {
        let _ = (graph.verify(), kernel.verify());
    }

    #[test]
    fn parsers_do_not_panic(text in soup(), noise in ".{0,20}") {
        for text in [&text, &noise, &format!("graph () {{ {text}"), &format!("block [] () {{ {text}")] {
            let _ = (Graph::parse(text), Kernel::parse(text));
        }
    }

    /// Text cut off anywhere is refused where it ends, or in the token that was cut.
    #[test]
    fn a_cut_graph_is_refused(graph in random::graph(), part in 0.0..1.0) {
        let text = graph.to_string();
        let cut = (text.len() as f64 * part) as usize;
        prop_assert!(Graph::parse(&text[..cut]).is_err());
    }
}
