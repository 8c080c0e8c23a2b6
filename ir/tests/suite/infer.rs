//! Result types against counting by hand, and answers to whatever operands.

use crate::random;
use burn_mlir_ir::{DType, Declared, Op, Rule, Shape, SliceDim, infer};
use proptest::prelude::*;
use smallvec::smallvec;

proptest! {
    /// Windows are counted by placing them one after the other.
    #[test]
    fn windows(length in 0usize..20, size in 1usize..6, step in 1usize..6, dilation in 1usize..4) {
        let fits = |index: &usize| index * step + (size - 1) * dilation < length;
        let expected = (0..=length).take_while(fits).count();
        let op = Op::Unfold { axis: 0, size, step, dilation };
        let from = Shape::new([length, 3]);
        let (dtype, shape) = infer(&op, &[(DType::I8, &from)], Declared::default()).unwrap();
        prop_assert_eq!((dtype, shape), (DType::I8, Shape::new([expected, 3, size])));
    }

    /// A range is accepted if each index it takes is inside.
    #[test]
    fn ranges(extent in 0usize..9, start in 0usize..10, size in 0usize..10, step in -4i64..5) {
        let inside = (0..size as i64).all(|i| (0..extent as i64).contains(&(start as i64 + i * step)));
        let expected = step != 0 && if size == 0 { start <= extent } else { inside };
        let op = Op::Slice { dims: smallvec![SliceDim { start, size, step }] };
        let from = Shape::new([extent]);
        let found = infer(&op, &[(DType::F32, &from)], Declared::default());
        prop_assert_eq!(found.is_ok(), expected, "{:?}", found);
    }

    /// Any operation on any operands has an answer, and it names the operation.
    #[test]
    fn every_operation_is_answered(graph in random::graph(), dims in prop::collection::vec(0usize..4, 0..4), dtype in 0usize..14) {
        let shape = Shape::new(dims);
        let dtype = DType::all().nth(dtype).unwrap();
        let operands = [(dtype, &shape); 5];
        for node in &graph.nodes {
            let operands = &operands[..node.op.arity().unwrap_or(2)];
            for declared in [Declared::default(), Declared::both(node.dtype, &node.shape), Declared::both(dtype, &shape)] {
                match infer(&node.op, operands, declared) {
                    Ok((_, shape)) => prop_assert!(shape.iter().all(|&extent| extent <= isize::MAX as usize)),
                    Err(error) => prop_assert!(error.to_string().starts_with(&node.op.to_string())),
                }
            }
        }
    }
}

/// What cannot follow from operands must be declared.
#[test]
fn parameters_of_results() {
    let from = Shape::new([2, 3]);
    let rule = |op: &Op, declared| infer(op, &[(DType::F32, &from)], declared).unwrap_err().rule;
    assert_eq!(rule(&Op::Cast, Declared::default()), Rule::NoDType);
    assert_eq!(rule(&Op::Reshape, Declared::dtype(DType::F32)), Rule::NoShape);
    assert_eq!(rule(&Op::Expand, Declared::default()), Rule::NoShape);
    let to = Shape::new([6]);
    let found = infer(&Op::Reshape, &[(DType::F32, &from)], Declared::shape(&to));
    assert_eq!(found, Ok((DType::F32, to.clone())));
    let found = infer(&Op::Cast, &[(DType::F32, &from)], Declared::dtype(DType::Bool));
    assert_eq!(found, Ok((DType::Bool, from.clone())));
}
