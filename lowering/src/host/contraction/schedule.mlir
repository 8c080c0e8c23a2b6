module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // One step of the sum per iteration; accumulators become loop-carried vectors.
    %contraction = transform.structured.match attributes{contraction} in %root : (!transform.any_op) -> !transform.any_op
    %step, %loop = transform.structured.tile_using_for %contraction tile_sizes [0, 0, SUM_STEP] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %step : !transform.any_op
    %start = transform.structured.match attributes{start} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %start : !transform.any_op
    // Rows of packed operands and of results, the rest of a vector masked off.
    %pack_left = transform.structured.match attributes{pack_left} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %pack_left vector_sizes [LEFT_LANES] : !transform.any_op
    %pack_right = transform.structured.match attributes{pack_right} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %pack_right vector_sizes [RIGHT_LANES] : !transform.any_op
    %epilogue = transform.structured.match attributes{epilogue} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %epilogue vector_sizes [RIGHT_LANES] : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.vector.transfer_permutation_patterns
    } : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.canonicalization
      transform.apply_patterns.tensor.fold_tensor_subset_ops_into_vector_transfers
      transform.apply_patterns.vector.lower_masked_transfers
    } : !transform.any_op
    %loops = transform.structured.match ops{["scf.for"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.loop.hoist_loop_invariant_subsets %loops : !transform.any_op
    transform.apply_patterns to %functions { transform.apply_patterns.canonicalization } : !transform.any_op
    transform.apply_cse to %functions : !transform.any_op
    transform.yield
  }
  transform.named_sequence @lower(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.canonicalization
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
    } : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.canonicalization
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_masks
    } : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.canonicalization
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.vector.transfer_to_scf max_transfer_rank = 1 full_unroll = true
    } : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.canonicalization
      transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
      transform.apply_patterns.vector.lower_shape_cast
      transform.apply_patterns.vector.lower_broadcast
    } : !transform.any_op
    transform.apply_cse to %functions : !transform.any_op
    transform.yield
  }
}
