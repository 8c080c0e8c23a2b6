//! The scalar code is valid MLIR, of operations that both targets have instructions for. That it
//! computes the right values is tested where code can run, by the sweeps of the workspace's tests.

use super::*;
use crate::types::value_type;
use burn_mlir_ir::{CompareOp, DTypeKind, ReduceOp};
use melior::ir::{Module, operation::OperationLike};

/// A function of operands of these types.
fn function(
    name: &str,
    operands: &[DType],
    result: DType,
    body: impl FnOnce(&mut Emitter, &[Value]) -> Value,
) -> String {
    let mut e = Emitter::new(1);
    let names: Vec<Value> = (0..operands.len()).map(|i| format!("%a{i}")).collect();
    let value = body(&mut e, &names);
    let arguments: Vec<String> =
        names.iter().zip(operands).map(|(name, &dtype)| format!("{name}: {}", value_type(dtype))).collect();
    let (arguments, ty) = (arguments.join(", "), value_type(result));
    format!("func.func @{name}({arguments}) -> {ty} {{\n{}  return {value} : {ty}\n}}\n", e.finish())
}

fn unary_function(op: UnaryOp, dtype: DType) -> String {
    let result = if op.is_predicate() { DType::Bool } else { dtype };
    function(&format!("{op}_{dtype}"), &[dtype], result, |e, x| unary(e, op, dtype, &x[0]))
}

fn binary_function(op: BinaryOp, dtype: DType) -> String {
    function(&format!("{op}_{dtype}"), &[dtype; 2], dtype, |e, x| binary(e, op, dtype, &x[0], &x[1]))
}

/// Every function that is defined, in one module.
fn everything() -> String {
    let mut text = String::new();
    for dtype in DType::all() {
        for &op in UnaryOp::ALL.iter().filter(|&&op| has_unary(op, dtype)) {
            text += &unary_function(op, dtype);
        }
        for &op in BinaryOp::ALL.iter().filter(|&&op| has_binary(op, dtype)) {
            text += &binary_function(op, dtype);
        }
        for &op in CompareOp::ALL {
            let name = format!("compare_{op}_{dtype}");
            text += &function(&name, &[dtype; 2], DType::Bool, |e, x| compare(e, op, dtype, &x[0], &x[1]));
        }
        for to in DType::all() {
            let name = format!("cast_{dtype}_{to}");
            text += &function(&name, &[dtype], to, |e, x| cast(e, dtype, to, &x[0]));
            if to.size() == dtype.size() {
                let name = format!("bitcast_{dtype}_{to}");
                text += &function(&name, &[dtype], to, |e, x| bitcast(e, dtype, to, &x[0]));
            }
        }
        for &op in ReduceOp::ALL {
            let acc = accumulator(dtype);
            let name = format!("combine_{op}_{dtype}");
            text += &function(&name, &[acc], acc, |e, x| {
                let start = constant(e, acc, identity(op, acc));
                combine(e, op, acc, &start, &x[0])
            });
        }
        let operands = [DType::Bool, dtype, dtype];
        text += &function(&format!("select_{dtype}"), &operands, dtype, |e, x| {
            select(e, dtype, &x[0], &x[1], &x[2])
        });
    }
    let operands = [DType::U32, DType::U32, DType::I64];
    text + &function("philox", &operands, DType::U32, |e, x| philox(e, &x[0], &x[1], &x[2]))
}

#[test]
fn everything_is_valid() {
    let context = crate::context();
    let module = Module::parse(&context, &everything()).expect("parses");
    assert!(module.as_operation().verify());
}

/// What either target would have to call a library for never appears.
#[test]
fn only_operations_with_instructions_appear() {
    let allowed = ["fma", "absf", "copysign", "sqrt", "floor", "ceil", "trunc", "roundeven"];
    for line in everything().lines() {
        let Some((_, operation)) = line.split_once(" = ") else { continue };
        let name = operation.split(' ').next().unwrap_or_default();
        match name.split_once('.') {
            Some(("math", function)) => assert!(allowed.contains(&function), "{line}"),
            Some((dialect, function)) => {
                assert_eq!(dialect, "arith", "{line}");
                assert_ne!(function, "remf", "{line}");
                // Without hardware for bf16 these are calls.
                assert!(!(line.contains("bf16") && matches!(function, "extf" | "truncf")), "{line}");
                assert!(!line.contains("f64 to f16"), "{line}");
            }
            None => panic!("{line}"),
        }
    }
}

#[test]
fn floats_have_every_function_but_the_bitwise_ones() {
    for dtype in DType::all().filter(|dtype| dtype.is_float()) {
        for &op in UnaryOp::ALL {
            assert_eq!(has_unary(op, dtype), op != UnaryOp::Not, "{op} {dtype}");
        }
        for &op in BinaryOp::ALL {
            use BinaryOp::*;
            assert_eq!(has_binary(op, dtype), !matches!(op, And | Or | Xor | Shl | Shr), "{op} {dtype}");
        }
    }
}

#[test]
fn integers_have_every_binary_function_but_the_angle() {
    for dtype in DType::all().filter(|dtype| dtype.is_int()) {
        for &op in BinaryOp::ALL {
            assert_eq!(has_binary(op, dtype), op != BinaryOp::Atan2, "{op} {dtype}");
        }
        assert!(!has_unary(UnaryOp::Sin, dtype));
    }
}

#[test]
fn identities_of_reductions() {
    let text = |op, dtype| constant::text(dtype, identity(op, dtype));
    assert_eq!(text(ReduceOp::Max, DType::I8), "arith.constant -128 : i8");
    assert_eq!(text(ReduceOp::Min, DType::I8), "arith.constant 127 : i8");
    // Integers of MLIR have no sign: the largest u16 is -1.
    assert_eq!(text(ReduceOp::Min, DType::U16), "arith.constant -1 : i16");
    assert_eq!(text(ReduceOp::Max, DType::F32), "arith.constant 0xFF800000 : f32");
    assert_eq!(text(ReduceOp::Min, DType::F64), "arith.constant 0x7FF0000000000000 : f64");
    assert_eq!(text(ReduceOp::Max, DType::Bool), "arith.constant false");
    assert_eq!(text(ReduceOp::Prod, DType::F32), "arith.constant 1.0e0 : f32");
    for dtype in DType::all() {
        if dtype.kind() != DTypeKind::Bool {
            assert_ne!(text(ReduceOp::Min, dtype), text(ReduceOp::Max, dtype));
        }
    }
}

#[test]
fn constants_round_once() {
    let text = |dtype, value| constant::text(dtype, Literal::float(value));
    // f16 has 65504 as its largest number; half a step above, ties to even give infinity.
    assert_eq!(text(DType::F16, 65519.0), "arith.constant 6.5519e4 : f16");
    assert_eq!(text(DType::F16, 65520.0), "arith.constant 0x7C00 : f16");
    assert_eq!(text(DType::F32, -1e39), "arith.constant 0xFF800000 : f32");
    assert_eq!(text(DType::BF16, f64::NAN), "arith.constant 0x7FC0 : bf16");
    assert_eq!(text(DType::F64, 1e-7), "arith.constant 1.0e-7 : f64");
    assert_eq!(text(DType::U8, 200.0), "arith.constant -56 : i8");
}

#[test]
fn narrow_floats_are_extended_and_rounded_around_a_statement() {
    insta::assert_snapshot!(unary_function(UnaryOp::Sqrt, DType::F16), @r#"
    func.func @sqrt_f16(%a0: i16) -> i16 {
      %v1 = arith.bitcast %a0 : i16 to f16
      %v2 = arith.extf %v1 : f16 to f32
      %v3 = math.sqrt %v2 : f32
      %v4 = arith.truncf %v3 : f32 to f16
      %v5 = arith.bitcast %v4 : f16 to i16
      return %v5 : i16
    }
    "#);
    insta::assert_snapshot!(binary_function(BinaryOp::Add, DType::BF16), @r#"
    func.func @add_bf16(%a0: i16, %a1: i16) -> i16 {
      %v1 = arith.extui %a0 : i16 to i32
      %v2 = arith.constant 16 : i32
      %v3 = arith.shli %v1, %v2 : i32
      %v4 = arith.bitcast %v3 : i32 to f32
      %v5 = arith.extui %a1 : i16 to i32
      %v6 = arith.constant 16 : i32
      %v7 = arith.shli %v5, %v6 : i32
      %v8 = arith.bitcast %v7 : i32 to f32
      %v9 = arith.addf %v4, %v8 : f32
      %v10 = arith.bitcast %v9 : f32 to i32
      %v11 = arith.constant 16 : i32
      %v12 = arith.constant 1 : i32
      %v13 = arith.constant 32767 : i32
      %v14 = arith.shrui %v10, %v11 : i32
      %v15 = arith.andi %v14, %v12 : i32
      %v16 = arith.addi %v15, %v13 : i32
      %v17 = arith.addi %v10, %v16 : i32
      %v18 = arith.constant 4194304 : i32
      %v19 = arith.ori %v10, %v18 : i32
      %v20 = arith.cmpf uno, %v9, %v9 : f32
      %v21 = arith.select %v20, %v19, %v17 : i32
      %v22 = arith.shrui %v21, %v11 : i32
      %v23 = arith.trunci %v22 : i32 to i16
      return %v23 : i16
    }
    "#);
}

#[test]
fn integer_division_cannot_trap() {
    insta::assert_snapshot!(binary_function(BinaryOp::Div, DType::I32), @r#"
    func.func @div_i32(%a0: i32, %a1: i32) -> i32 {
      %v1 = arith.constant 0 : i32
      %v2 = arith.constant 1 : i32
      %v3 = arith.constant -1 : i32
      %v4 = arith.cmpi eq, %a1, %v1 : i32
      %v5 = arith.cmpi eq, %a1, %v3 : i32
      %v6 = arith.ori %v4, %v5 : i1
      %v7 = arith.select %v6, %v2, %a1 : i32
      %v8 = arith.constant 0 : i32
      %v9 = arith.divsi %a0, %v7 : i32
      %v10 = arith.subi %v8, %a0 : i32
      %v11 = arith.select %v5, %v10, %v9 : i32
      %v12 = arith.select %v4, %v8, %v11 : i32
      return %v12 : i32
    }
    "#);
}

#[test]
fn a_function_reads_as_its_formula() {
    insta::assert_snapshot!(unary_function(UnaryOp::Sigmoid, DType::F32), @r#"
    func.func @sigmoid_f32(%a0: f32) -> f32 {
      %v1 = arith.negf %a0 : f32
      %v2 = arith.constant -1.8e1 : f32
      %v3 = arith.cmpf ogt, %v2, %v1 : f32
      %v4 = arith.select %v3, %v2, %v1 : f32
      %v5 = arith.constant 1.04e2 : f32
      %v6 = arith.cmpf olt, %v5, %v4 : f32
      %v7 = arith.select %v6, %v5, %v4 : f32
      %v8 = arith.constant 1.2582912e7 : f32
      %v9 = arith.constant 1.4426950408889634e0 : f32
      %v10 = math.fma %v7, %v9, %v8 : f32
      %v11 = arith.subf %v10, %v8 : f32
      %v12 = arith.constant -6.93145751953125e-1 : f32
      %v13 = math.fma %v11, %v12, %v7 : f32
      %v14 = arith.constant -1.4286067653e-6 : f32
      %v15 = math.fma %v11, %v14, %v13 : f32
      %v16 = arith.bitcast %v10 : f32 to i32
      %v17 = arith.constant 23 : i32
      %v18 = arith.shli %v16, %v17 : i32
      %v19 = arith.constant 1.991416357e-4 : f32
      %v20 = arith.constant 1.394105144e-3 : f32
      %v21 = math.fma %v19, %v15, %v20 : f32
      %v22 = arith.constant 8.333273232e-3 : f32
      %v23 = math.fma %v21, %v15, %v22 : f32
      %v24 = arith.constant 4.166635498e-2 : f32
      %v25 = math.fma %v23, %v15, %v24 : f32
      %v26 = arith.constant 1.666666716e-1 : f32
      %v27 = math.fma %v25, %v15, %v26 : f32
      %v28 = arith.constant 5.0e-1 : f32
      %v29 = math.fma %v27, %v15, %v28 : f32
      %v30 = arith.mulf %v15, %v15 : f32
      %v31 = math.fma %v30, %v29, %v15 : f32
      %v32 = arith.constant 819287381 : i32
      %v33 = arith.addi %v18, %v32 : i32
      %v34 = arith.bitcast %v33 : i32 to f32
      %v35 = arith.constant 1.5522042910257976e-9 : f32
      %v36 = arith.addf %v35, %v34 : f32
      %v37 = math.fma %v34, %v31, %v36 : f32
      %v38 = arith.divf %v35, %v37 : f32
      return %v38 : f32
    }
    "#);
}
