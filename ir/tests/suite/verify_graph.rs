//! Every rule on graphs: text in, error text out.

use burn_mlir_ir::{DType, Graph, Labels, Layout, Op, Shape, ValueId};
use insta::assert_snapshot;

/// The verifier's answer to a graph of these lines, with scalars `$0: f32`, `$1: u32`.
fn check(lines: &str) -> String {
    let graph = Graph::parse(&format!("graph (f32, u32) {{\n{lines}\n return\n}}")).unwrap();
    match graph.verify() {
        Ok(()) => "ok".into(),
        Err(error) => error.to_string(),
    }
}

/// The answer to one operation on `%0: f32[4, 6]`, `%1: i64[4, 6]`, `%2: bool[4, 6]`.
fn check_op(node: &str) -> String {
    let inputs = "%0 = input 0 : f32[4, 6] %1 = input 1 : i64[4, 6] %2 = input 2 : bool[4, 6]";
    check(&format!("{inputs}\n%3 = {node}"))
}

#[test]
fn what_is_well_formed_passes() {
    for node in [
        "fill $0 : f32[]",
        "constant nan : f16[2]",
        "constant -1 : u8[2]",
        "iota axis 1 : u16[2, 3]",
        "random key $1 stream $1 : u32[0]",
        "neg %1 : i64[4, 6]",
        "not %2 : bool[4, 6]",
        "isnan %0 : bool[4, 6]",
        "shl %1, %1 : i64[4, 6]",
        "eq %2, %2 : bool[4, 6]",
        "select %2, %1, %1 : i64[4, 6]",
        "cast %0 : bool[4, 6]",
        "bitcast %1 : f64[4, 6]",
        "reshape %0 : f32[24, 1]",
        "permute [1, 0] %0 : f32[6, 4]",
        "slice [3:+4:-1, 6:+0:2] %0 : f32[4, 0]",
        "unfold axis 1 size 3 step 2 dilation 2 %0 : f32[4, 1, 3]",
        "unfold axis 0 size 5 step 1 dilation 1 %0 : f32[0, 6, 5]",
        "reduce max [0, 1] %2 : bool[1, 1]",
        "argmin [1] %0 : i32[4, 1]",
        "scan prod axis 0 %1 : i64[4, 6]",
        "reshape %0 : f32[2, 3, 4] %4 = reshape %2 : bool[2, 3, 4] %5 = paths %3, %4 : f32[2, 3, 4]",
        "contract \"mk,nk->nm\" %0, %0 : f32[4, 4]",
        "contract \"ab,cd->abcd\" %0, %0 : f32[4, 6, 4, 6]",
        "gather axis 0 %2, %1 : bool[4, 6]",
        "scatter max axis 1 %0, %1, %0 : f32[4, 6]",
        "sort descending axis 1 %0 : f32[4, 6]",
        "argsort axis 0 %1 : i64[4, 6]",
        "concat axis 0 %0, %0, %0 : f32[12, 6]",
        "slice_update [0:+4:1, 0:+6:1] %0, %0 : f32[4, 6]",
    ] {
        assert_eq!(check_op(node), "ok", "{node}");
    }
}

#[test]
fn operands_come_first() {
    assert_snapshot!(check("%0 = exp %0 : f32[]"), @"%0 = exp %0 : f32[]: operand %0 does not come before it");
    assert_snapshot!(check("%0 = exp %7 : f32[]"), @"%0 = exp %7 : f32[]: operand %7 does not come before it");
}

#[test]
fn arity() {
    assert_snapshot!(check_op("exp : f32[]"), @"%3 = exp : f32[]: applied to (): takes 1 operands, not 0");
    assert_snapshot!(check_op("concat axis 0 : f32[2]"), @"%3 = concat axis 0 : f32[2]: applied to (): takes at least one operand");
}

#[test]
fn element_types() {
    assert_snapshot!(check_op("exp %1 : i64[4, 6]"), @"%3 = exp %1 : i64[4, 6]: applied to (i64[4, 6]): takes floats, not i64");
    assert_snapshot!(check_op("add %0, %1 : f32[4, 6]"), @"%3 = add %0, %1 : f32[4, 6]: applied to (f32[4, 6], i64[4, 6]): element types must agree");
    assert_snapshot!(check_op("add %2, %2 : bool[4, 6]"), @"%3 = add %2, %2 : bool[4, 6]: applied to (bool[4, 6], bool[4, 6]): takes floats or integers, not bool");
    assert_snapshot!(check_op("and %0, %0 : f32[4, 6]"), @"%3 = and %0, %0 : f32[4, 6]: applied to (f32[4, 6], f32[4, 6]): takes integers or bool, not f32");
    assert_snapshot!(check_op("shl %2, %2 : bool[4, 6]"), @"%3 = shl %2, %2 : bool[4, 6]: applied to (bool[4, 6], bool[4, 6]): takes integers, not bool");
    assert_snapshot!(check_op("lt %2, %2 : bool[4, 6]"), @"%3 = lt %2, %2 : bool[4, 6]: applied to (bool[4, 6], bool[4, 6]): takes floats or integers, not bool");
    assert_snapshot!(check_op("select %0, %0, %0 : f32[4, 6]"), @"%3 = select %0, %0, %0 : f32[4, 6]: applied to (f32[4, 6], f32[4, 6], f32[4, 6]): the condition must be bool, not f32");
    assert_snapshot!(check_op("bitcast %0 : f64[4, 6]"), @"%3 = bitcast %0 : f64[4, 6]: applied to (f32[4, 6]): f32 and f64 are not reinterpretable: sizes differ or one is bool");
    assert_snapshot!(check_op("reduce sum [0] %2 : bool[1, 6]"), @"%3 = reduce sum [0] %2 : bool[1, 6]: applied to (bool[4, 6]): takes floats or integers, not bool");
    assert_snapshot!(check_op("argmax [0] %0 : f32[1, 6]"), @"%3 = argmax [0] %0 : f32[1, 6]: applied to (f32[4, 6]): the result is a position and must be an integer type, not f32");
    assert_snapshot!(check_op("gather axis 0 %0, %0 : f32[4, 6]"), @"%3 = gather axis 0 %0, %0 : f32[4, 6]: applied to (f32[4, 6], f32[4, 6]): indices must be integers, not f32");
    assert_snapshot!(check_op("scatter add axis 0 %2, %1, %2 : bool[4, 6]"), @"%3 = scatter add axis 0 %2, %1, %2 : bool[4, 6]: applied to (bool[4, 6], i64[4, 6], bool[4, 6]): takes floats or integers, not bool");
    assert_snapshot!(check_op("contract \"ab,ab->\" %2, %2 : bool[]"), @r#"%3 = contract "ab,ab->" %2, %2 : bool[]: applied to (bool[4, 6], bool[4, 6]): takes floats or integers, not bool"#);
    assert_snapshot!(check_op("random key $1 stream $1 : i32[2]"), @"%3 = random key $1 stream $1 : i32[2]: applied to (): the result must be u32, not i32");
    assert_snapshot!(check_op("isnan %0 : f32[4, 6]"), @"%3 = isnan %0 : f32[4, 6]: the value is bool[4, 6], not f32[4, 6]");
}

#[test]
fn shapes() {
    assert_snapshot!(check_op("exp %0 : f32[4, 7]"), @"%3 = exp %0 : f32[4, 7]: the value is f32[4, 6], not f32[4, 7]");
    assert_snapshot!(check("%0 = constant 1.0 : f32[2]\n%1 = constant 1.0 : f32[1]\n%2 = add %0, %1 : f32[2]"), @"%2 = add %0, %1 : f32[2]: applied to (f32[2], f32[1]): shapes must agree");
    assert_snapshot!(check_op("iota axis 2 : i32[2, 3]"), @"%3 = iota axis 2 : i32[2, 3]: applied to (): axis 2 is out of range for rank 2");
    assert_snapshot!(check_op("reshape %0 : f32[25]"), @"%3 = reshape %0 : f32[25]: applied to (f32[4, 6]): cannot become [25]: another number of elements");
    assert_snapshot!(check_op("permute [0, 0] %0 : f32[4, 4]"), @"%3 = permute [0, 0] %0 : f32[4, 4]: applied to (f32[4, 6]): axes must be a permutation of 0..2");
    assert_snapshot!(check_op("expand %0 : f32[4, 12]"), @"%3 = expand %0 : f32[4, 12]: applied to (f32[4, 6]): cannot expand to [4, 12]: axes must be kept or have extent 1");
    assert_snapshot!(check_op("unfold axis 0 size 1 step 0 dilation 1 %0 : f32[4, 6, 1]"), @"%3 = unfold axis 0 size 1 step 0 dilation 1 %0 : f32[4, 6, 1]: applied to (f32[4, 6]): size, step and dilation of a window must be at least 1");
    assert_snapshot!(check_op("reduce sum [1, 0] %0 : f32[1, 1]"), @"%3 = reduce sum [1, 0] %0 : f32[1, 1]: applied to (f32[4, 6]): axes must be strictly increasing");
    assert_snapshot!(check_op("reduce sum [2] %0 : f32[4, 6]"), @"%3 = reduce sum [2] %0 : f32[4, 6]: applied to (f32[4, 6]): axis 2 is out of range for rank 2");
    assert_snapshot!(check("%0 = constant 1.0 : f32[2, 0]\n%1 = argmax [1] %0 : i64[2, 1]"), @"%1 = argmax [1] %0 : i64[2, 1]: applied to (f32[2, 0]): there is no position among 0 elements");
    assert_snapshot!(check("%0 = constant 1.0 : f32[2]\n%1 = constant 1 : i32[3, 1]\n%2 = gather axis 0 %0, %1 : f32[3, 1]"), @"%2 = gather axis 0 %0, %1 : f32[3, 1]: applied to (f32[2], i32[3, 1]): ranks must agree");
    assert_snapshot!(check("%0 = constant 1.0 : f32[2, 2]\n%1 = constant 1 : i32[3, 2]\n%2 = gather axis 1 %0, %1 : f32[3, 2]"), @"%2 = gather axis 1 %0, %1 : f32[3, 2]: applied to (f32[2, 2], i32[3, 2]): indices must not exceed the data on any axis but 1");
    assert_snapshot!(check("%0 = constant 1.0 : f32[2, 2]\n%1 = constant 1.0 : f32[3, 3]\n%2 = concat axis 1 %0, %1 : f32[2, 5]"), @"%2 = concat axis 1 %0, %1 : f32[2, 5]: applied to (f32[2, 2], f32[3, 3]): shapes must agree");
    assert_snapshot!(check("%0 = constant 1.0 : f32[4611686018427387904]"), @"%0 = constant 1.0 : f32[4611686018427387904]: applied to (): f32[4611686018427387904] is too large");
    // The number of elements is 0, but no strides could be computed.
    assert_snapshot!(check("%0 = constant 1.0 : f32[4294967296, 0, 4294967296]"), @"%0 = constant 1.0 : f32[4294967296, 0, 4294967296]: applied to (): f32[4294967296, 0, 4294967296] is too large");
}

#[test]
fn ranges() {
    assert_snapshot!(check_op("slice [0:+4:1] %0 : f32[4]"), @"%3 = slice [0:+4:1] %0 : f32[4]: applied to (f32[4, 6]): 1 ranges for rank 2");
    assert_snapshot!(check_op("slice [0:+4:0, 0:+6:1] %0 : f32[4, 6]"), @"%3 = slice [0:+4:0, 0:+6:1] %0 : f32[4, 6]: applied to (f32[4, 6]): the step of axis 0 is 0");
    assert_snapshot!(check_op("slice [0:+4:1, 1:+6:1] %0 : f32[4, 6]"), @"%3 = slice [0:+4:1, 1:+6:1] %0 : f32[4, 6]: applied to (f32[4, 6]): the range of axis 1 leaves its extent of 6");
    assert_snapshot!(check_op("slice [2:+4:-1, 0:+6:1] %0 : f32[4, 6]"), @"%3 = slice [2:+4:-1, 0:+6:1] %0 : f32[4, 6]: applied to (f32[4, 6]): the range of axis 0 leaves its extent of 4");
    assert_snapshot!(check_op("slice_update [0:+2:1, 0:+6:1] %0, %0 : f32[4, 6]"), @"%3 = slice_update [0:+2:1, 0:+6:1] %0, %0 : f32[4, 6]: applied to (f32[4, 6], f32[4, 6]): updates must have the shape of the box, [2, 6]");
    // Products and sums beyond 64 bits do not wrap around into the range.
    for range in [
        "0:+3:9223372036854775807",
        "1:+4611686018427387904:4",
        "18446744073709551615:+2:1",
        "0:+2:-9223372036854775808",
    ] {
        let found = check_op(&format!("slice [{range}, 0:+6:1] %0 : f32[4, 6]"));
        assert!(found.ends_with("the range of axis 0 leaves its extent of 4"), "{found}");
    }
}

#[test]
fn labels() {
    assert_snapshot!(check_op("contract \"k,mk->m\" %0, %0 : f32[4]"), @r#"%3 = contract "k,mk->m" %0, %0 : f32[4]: applied to (f32[4, 6], f32[4, 6]): labels "k" do not name the axes of [4, 6] one by one"#);
    assert_snapshot!(check_op("contract \"kk,mk->m\" %0, %0 : f32[4]"), @r#"%3 = contract "kk,mk->m" %0, %0 : f32[4]: applied to (f32[4, 6], f32[4, 6]): label 'k' stands twice in "kk""#);
    assert_snapshot!(check_op("contract \"mk,kn->mn\" %0, %0 : f32[4, 6]"), @r#"%3 = contract "mk,kn->mn" %0, %0 : f32[4, 6]: applied to (f32[4, 6], f32[4, 6]): label 'k' has extents 6 and 4"#);
    assert_snapshot!(check_op("contract \"mk,nk->mx\" %0, %0 : f32[4, 6]"), @r#"%3 = contract "mk,nk->mx" %0, %0 : f32[4, 6]: applied to (f32[4, 6], f32[4, 6]): label 'n' is in one operand only and not in the result"#);
    assert_snapshot!(check_op("contract \"mk,mk->mx\" %0, %0 : f32[4, 6]"), @r#"%3 = contract "mk,mk->mx" %0, %0 : f32[4, 6]: applied to (f32[4, 6], f32[4, 6]): label 'x' of the result is in no operand"#);
}

/// The parser only reads letters; a label made otherwise is refused, too.
#[test]
fn labels_are_letters() {
    let mut graph = Graph::parse("graph () { %0 = input 0 : f32[4] return }").unwrap();
    let labels = Labels::new("1");
    let op = Op::Contract { lhs: labels.clone(), rhs: labels, out: Labels::new("") };
    graph.push(op, &[ValueId(0), ValueId(0)], DType::F32, Shape::default());
    assert_snapshot!(graph.verify().unwrap_err(), @r#"%1 = contract "1,1->" %0, %0 : f32[]: applied to (f32[4], f32[4]): labels must be letters"#);
}

#[test]
fn scalars_and_constants() {
    assert_snapshot!(check("%0 = fill $2 : f32[2]"), @"%0 = fill $2 : f32[2]: there is no scalar $2, only 2");
    assert_snapshot!(check("%0 = fill $1 : f32[2]"), @"%0 = fill $1 : f32[2]: scalar $1 must be f32, not u32");
    assert_snapshot!(check("%0 = random key $1 stream $0 : u32[2]"), @"%0 = random key $1 stream $0 : u32[2]: scalar $0 must be u32, not f32");
    assert_snapshot!(check("%0 = constant 2 : bool[]"), @"%0 = constant 2 : bool[]: 2 is no constant of type bool");
    assert_snapshot!(check("%0 = constant 256 : u8[]"), @"%0 = constant 256 : u8[]: 256 is no constant of type u8");
    assert_snapshot!(check("%0 = constant 1 : f32[]"), @"%0 = constant 1 : f32[]: 1 is no constant of type f32");
    assert_snapshot!(check("%0 = constant 1.0 : i32[]"), @"%0 = constant 1.0 : i32[]: 1.0 is no constant of type i32");
}

#[test]
fn inputs() {
    assert_snapshot!(check("%0 = input 0 : f32[2, 3] strides [1]"), @"%0 = input 0 : f32[2, 3] strides [1]: 1 strides for 2 dimensions");
    assert_snapshot!(check("%0 = input 0 : f32[2] offset 1"), @"%0 = input 0 : f32[2] offset 1: an input's layout has offset 0, not 1");
    assert_snapshot!(check("%0 = input 0 : f32[3] strides [4611686018427387904]"), @"%0 = input 0 : f32[3] strides [4611686018427387904]: reaches over more bytes than there can be");
    assert_snapshot!(check("%0 = input 3 : f32[]\n%1 = input 3 : f32[]"), @"%1 = input 3 : f32[]: input 3 is bound twice");

    let mut graph = Graph::default();
    let layout = Layout::contiguous(&Shape::new([2]));
    graph.push(Op::Input { slot: 0, layout, donated: false, alignment: 1 }, &[], DType::F32, Shape::new([3]));
    assert_snapshot!(graph.verify().unwrap_err(), @"%0 = input 0 : f32[3]: the value is f32[2], not f32[3]");
}

#[test]
fn results() {
    let graph = Graph::parse("graph () { return %0 }").unwrap();
    assert_snapshot!(graph.verify().unwrap_err(), @"return: result %0 is no node");
}
