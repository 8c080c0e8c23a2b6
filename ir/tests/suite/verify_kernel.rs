//! Every rule on kernels: text in, error text out.

use burn_mlir_ir::Kernel;
use insta::assert_snapshot;

fn check(text: &str) -> String {
    match Kernel::parse(text).unwrap().verify() {
        Ok(()) => "ok".into(),
        Err(error) => error.to_string(),
    }
}

/// The answer to these statements and stores in a space of 4 rows of 6 columns, where `%0` is a
/// float, `%1` an integer and `%2` a row value.
fn check_row(statements: &str) -> String {
    check(&format!(
        "block [p 4, r 6] (f32, u32) {{
            @0 = in f32 align 4   @1 = in i64 align 64   @2 = out f32 align 64   @3 = inout f32 align 4
            %0 = load @0 [6, 1] : f32
            %1 = load @1 [6, 1] : i64
            %2 = reduce sum %0 : f32
            {statements}
            store %2 -> @2 [1, 0]
            store %2 -> @3 [1, 0]
        }}"
    ))
}

/// A matrix product with statements after the contraction `%2`.
fn check_contraction(statements: &str) -> String {
    check(&format!(
        "block [p 4, p 8, r 6] () {{
            @0 = in f32 align 4  @1 = in f32 align 4  @2 = out f32 align 4
            %0 = load @0 [6, 0, 1] : f32
            %1 = load @1 [0, 1, 8] : f32
            %2 = contract %0, %1 : f32
            {statements}
            store %2 -> @2 [8, 1, 0]
        }}"
    ))
}

#[test]
fn what_is_well_formed_passes() {
    for statements in [
        "%3 = gather @0 [6, 0] index %1 stride 1 extent 6 : f32",
        "%3 = scalar $0 : f32 %4 = sub %0, %2 : f32 %5 = mul %4, %3 : f32",
        "%3 = constant inf : f32 %4 = index [6, 1] offset -3 : i32",
        "%3 = random key $1 stream $1 [6, 1] offset 9 : u32",
        "%3 = lt %0, %2 : bool %4 = select %3, %0, %2 : f32",
        "%3 = cast %1 : f16 %4 = bitcast %3 : i16",
        "%3 = argmax %0 : i64",
        "%3 = load @3 [1, 0] : f32",
    ] {
        assert_eq!(check_row(statements), "ok", "{statements}");
    }
    assert_eq!(check_contraction("%3 = exp %2 : f32"), "ok");
    for text in [
        "block [] () { @0 = out f32 align 4 %0 = constant 0.0 : f32 store %0 -> @0 [] }",
        "block [p 3, r 0] () { @0 = out f32 align 4 %0 = constant 0.0 : f32 %1 = reduce max %0 : f32 store %1 -> @0 [-1, 0] }",
        "scatter add f32 at i32 { shape [2, 3] axis 1 extent 9 data [9, 1] indices [0, 1] updates [3, 1] }",
        "sort f32 { shape [2, 3] axis 1 input [3, 1] output [1, 2] }",
        "sort descending f16 to i64 { shape [2] axis 0 input [0] output [1] }",
        "scan max bool { shape [2, 3] axis 0 input [3, 1] output [3, 1] }",
        "paths f16 { shape [2, 3, 4] scores [12, 4, 1] skips [0, 4, 1] output [12, 4, 1] }",
    ] {
        assert_eq!(check(text), "ok", "{text}");
    }
}

#[test]
fn domains() {
    assert_snapshot!(check("block [p 1] () { }"), @"block [p 1]: dimension 0 has size 1 and must be left out");
    assert_snapshot!(check("block [r 2, p 0] () { }"), @"block [r 2, p 0]: parallel dimension 1 has size 0: such a kernel is never launched");
    let many = vec!["p 2"; 33].join(", ");
    assert!(
        check(&format!("block [{many}] () {{ }}")).ends_with("a domain has at most 32 dimensions, not 33")
    );
    let copy = |load: &str| {
        check(&format!(
            "block [p 2, p 3] () {{ @0 = in f32 align 4 @1 = out f32 align 4
                %0 = load @0 [{load}] : f32 store %0 -> @1 [3, 1] }}"
        ))
    };
    assert_eq!(copy("1, 2"), "ok");
    assert_snapshot!(copy("6, 2"), @"block [p 2, p 3]: dimensions 0 and 1 are walked as one by every access and must be merged");
}

#[test]
fn parameters() {
    assert_snapshot!(check("block [] () { @0 = in f64 align 4 }"), @"@0 = in f64 align 4: an alignment is a power of two from 8 to 64, not 4");
    assert_snapshot!(check("block [] () { @0 = in u8 align 3 }"), @"@0 = in u8 align 3: an alignment is a power of two from 1 to 64, not 3");
    assert_snapshot!(check("block [] () { @0 = in u8 align 128 }"), @"@0 = in u8 align 128: an alignment is a power of two from 1 to 64, not 128");
    assert_snapshot!(check("block [] () { @0 = out u8 align 1 }"), @"@0 = out u8 align 1: nothing is stored to it");
    assert_snapshot!(check_row("%3 = load @4 [6, 1] : f32"), @"%3 = load @4 [6, 1] : f32: there is no parameter @4, only 4");
    assert_snapshot!(check_row("%3 = load @0 [6, 1] : f64"), @"%3 = load @0 [6, 1] : f64: parameter @0 has type f32, not f64");
    assert_snapshot!(check_row("%3 = load @2 [1, 0] : f32"), @"%3 = load @2 [1, 0] : f32: parameter @2 is `out` and cannot be read");
    assert_snapshot!(check_row("%3 = load @3 [6, 1] : f32"), @"@3 = inout f32 align 4: parameter @3 is `inout` and must be accessed in one way only");
    assert_snapshot!(check_row("%3 = gather @3 [1, 0] index %1 stride 1 extent 2 : f32"), @"%3 = gather @3 [1, 0] index %1 stride 1 extent 2 : f32: parameter @3 is `inout` and cannot be gathered from");
    assert_snapshot!(check_row("store %2 -> @0 [1, 0]"), @"store %2 -> @0 [1, 0]: parameter @0 is `in` and cannot be stored to");
}

#[test]
fn accesses() {
    assert_snapshot!(check_row("%3 = load @0 [6] : f32"), @"%3 = load @0 [6] : f32: 1 strides for 2 dimensions");
    assert_snapshot!(check_row("%3 = load @0 [9223372036854775807, 1] : f32"), @"%3 = load @0 [9223372036854775807, 1] : f32: reaches over more bytes than there can be");
    assert_snapshot!(check_row("%3 = index [0, 1] offset 9223372036854775807 : i64"), @"%3 = index [0, 1] offset 9223372036854775807 : i64: reaches over more bytes than there can be");
    assert_snapshot!(check_row("%3 = gather @0 [6, 0] index %1 stride 1 extent 0 : f32"), @"%3 = gather @0 [6, 0] index %1 stride 1 extent 0 : f32: cannot gather from an axis of extent 0");
    assert_snapshot!(check_row("%3 = gather @0 [6, 0] index %0 stride 1 extent 6 : f32"), @"%3 = gather @0 [6, 0] index %0 stride 1 extent 6 : f32: applied to (f32): indices must be integers, not f32");
}

#[test]
fn statements() {
    assert_snapshot!(check_row("%3 = exp %3 : f32"), @"%3 = exp %3 : f32: operand %3 does not come before it");
    assert_snapshot!(check_row("%3 = exp %1 : i64"), @"%3 = exp %1 : i64: applied to (i64): takes floats, not i64");
    assert_snapshot!(check_row("%3 = add %0, %1 : f32"), @"%3 = add %0, %1 : f32: applied to (f32, i64): element types must agree");
    assert_snapshot!(check_row("%3 = exp %0 : f16"), @"%3 = exp %0 : f16: the value is f32, not f16");
    assert_snapshot!(check_row("%3 = eq %0, %0 : f32"), @"%3 = eq %0, %0 : f32: the value is bool, not f32");
    assert_snapshot!(check_row("%3 = select %0, %0, %0 : f32"), @"%3 = select %0, %0, %0 : f32: applied to (f32, f32, f32): the condition must be bool, not f32");
    assert_snapshot!(check_row("%3 = scalar $2 : f32"), @"%3 = scalar $2 : f32: there is no scalar $2, only 2");
    assert_snapshot!(check_row("%3 = scalar $1 : f32"), @"%3 = scalar $1 : f32: scalar $1 must be f32, not u32");
    assert_snapshot!(check_row("%3 = random key $0 stream $1 [6, 1] offset 0 : u32"), @"%3 = random key $0 stream $1 [6, 1] offset 0 : u32: scalar $0 must be u32, not f32");
    assert_snapshot!(check_row("%3 = constant 1 : f32"), @"%3 = constant 1 : f32: 1 is no constant of type f32");
    assert_snapshot!(check_row("%3 = index [6, 1] offset 0 : f32"), @"%3 = index [6, 1] offset 0 : f32: applied to (): the result is a position and must be an integer type, not f32");
    assert_snapshot!(check_row("%3 = bitcast %0 : i64"), @"%3 = bitcast %0 : i64: applied to (f32): f32 and i64 are not reinterpretable: sizes differ or one is bool");
    assert_snapshot!(check_row("%3 = argmin %0 : f32"), @"%3 = argmin %0 : f32: applied to (f32): the result is a position and must be an integer type, not f32");
    assert_snapshot!(check("block [r 0] () { %0 = constant 0.0 : f32 %1 = argmin %0 : i64 }"), @"%1 = argmin %0 : i64: applied to (f32): there is no position among 0 elements");
}

#[test]
fn stores() {
    assert_snapshot!(check_row("store %9 -> @2 [1, 0]"), @"store %9 -> @2 [1, 0]: operand %9 does not come before it");
    assert_snapshot!(check_row("store %1 -> @2 [1, 0]"), @"store %1 -> @2 [1, 0]: parameter @2 has type f32, not i64");
    assert_snapshot!(check_row("store %2 -> @2 [1]"), @"store %2 -> @2 [1]: 1 strides for 2 dimensions");
    assert_snapshot!(check_row("store %2 -> @2 [6, 1]"), @"store %2 -> @2 [6, 1]: %2 is a row value: its store must have stride 0 on reduction dimension 1");
    assert_snapshot!(check_row("store %0 -> @2 [1, 0]"), @"store %0 -> @2 [1, 0]: %0 depends on dimension 1, but its store has stride 0 there");
    assert_snapshot!(check_row("store %0 -> @2 [5, 1]"), @"store %0 -> @2 [5, 1]: accesses [5, 1] may reach an element more than once");
    assert_eq!(check_row("store %0 -> @2 [-6, 1]"), "ok");
}

#[test]
fn contractions() {
    assert_snapshot!(check_contraction("%3 = contract %0, %1 : f32"), @"%3 = contract %0, %1 : f32: a block has at most one contraction, and %2 is one");
    assert_snapshot!(check_contraction("%3 = reduce sum %0 : f32"), @"%3 = reduce sum %0 : f32: a block with a contraction (%2) has no other reduction");
    assert_snapshot!(check_contraction("%3 = mul %2, %0 : f32"), @"%3 = mul %2, %0 : f32: depends on reduction dimensions, but only the operands of contraction %2 may");
    let contraction = |operand: &str| {
        check(&format!(
            "block [p 4, r 6] () {{ @0 = in f16 align 4  @1 = out f32 align 4
                %0 = load @0 [6, 1] : f16  %1 = cast %0 : f32  %2 = {operand}
                %3 = contract %1, %2 : f32  store %3 -> @1 [1, 0] }}"
        ))
    };
    assert_eq!(contraction("cast %0 : f32"), "ok");
    assert_snapshot!(contraction("exp %1 : f32"), @"%3 = contract %1, %2 : f32: operand %2 of a contraction must be a load or a cast of one");
    assert_snapshot!(contraction("cast %0 : f64"), @"%3 = contract %1, %2 : f32: applied to (f32, f64): element types must agree");
}

#[test]
fn kernels_that_are_no_blocks() {
    let scatter = |fields: &str| check(&format!("scatter add f32 at {fields} }}"));
    assert_snapshot!(scatter("f32 { shape [2] axis 0 extent 3 data [1] indices [1] updates [1]"), @"scatter add f32 at f32: applied to (f32, f32, f32): indices must be integers, not f32");
    assert_snapshot!(scatter("i32 { shape [2] axis 1 extent 3 data [1] indices [1] updates [1]"), @"scatter add f32 at i32: applied to ([2]): axis 1 is out of range for rank 1");
    assert_snapshot!(scatter("i32 { shape [2] axis 0 extent 3 data [0] indices [1] updates [1]"), @"scatter add f32 at i32: accesses [0] may reach an element more than once");
    assert_snapshot!(scatter("i32 { shape [2] axis 0 extent 3 data [1] indices [] updates [1]"), @"scatter add f32 at i32: 0 strides for 1 dimensions");
    assert_snapshot!(check("sort bool { shape [2] axis 0 input [1] output [1] }"), @"sort bool: applied to (bool): takes floats or integers, not bool");
    assert_snapshot!(check("sort f32 to bool { shape [2] axis 0 input [1] output [1] }"), @"sort f32 to bool: applied to (f32): the result is a position and must be an integer type, not bool");
    assert_snapshot!(check("sort f32 { shape [] axis 0 input [] output [] }"), @"sort f32: applied to ([]): axis 0 is out of range for rank 0");
    assert_snapshot!(check("scan sum bool { shape [2] axis 0 input [1] output [1] }"), @"scan sum bool: applied to (bool): takes floats or integers, not bool");
    assert_snapshot!(check("scan sum f32 { shape [2] axis 0 input [1] output [0] }"), @"scan sum f32: accesses [0] may reach an element more than once");
    assert_snapshot!(check("scan sum f32 { shape [2] axis 0 input [] output [1] }"), @"scan sum f32: 0 strides for 1 dimensions");
}
