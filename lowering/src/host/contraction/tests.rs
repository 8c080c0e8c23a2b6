//! What the lowered code looks like: register tiles without spills to memory, no allocation, no calls.

use crate::{Lowered, context, lower};
use burn_mlir_ir::{
    Access, BinaryOp, Block, DType, DimKind, DomainDim, HostTarget, Instr, Kernel, Operand, Param, ParamId,
    ParamMode, Statement, Store, Target,
};

fn dims(sizes: &[usize], summed: usize) -> burn_mlir_ir::Domain {
    let first = sizes.len() - summed;
    let kind = |d| if d < first { DimKind::Parallel } else { DimKind::Reduction };
    sizes.iter().enumerate().map(|(d, &size)| DomainDim::new(kind(d), size)).collect()
}

fn load(param: u32, dtype: DType, strides: &[i64]) -> Statement {
    let access = Access::new(strides.iter().copied());
    Statement { instr: Instr::Load { param: ParamId(param), access }, dtype }
}

/// `out[m, n] = Σ left[m, k] · right[k, n] + bias[n]`.
fn product(m: usize, n: usize, k: usize, dtype: DType) -> Block {
    let param = |mode| Param { dtype, mode, alignment: 64 };
    let (ni, ki) = (n as i64, k as i64);
    Block {
        domain: dims(&[m, n, k], 1),
        params: vec![param(ParamMode::In), param(ParamMode::In), param(ParamMode::In), param(ParamMode::Out)],
        scalars: vec![],
        body: vec![
            load(0, dtype, &[ki, 0, 1]),
            load(1, dtype, &[0, 1, ni]),
            Statement { instr: Instr::Contract(Operand(0), Operand(1)), dtype },
            load(2, dtype, &[0, 1, 0]),
            Statement { instr: Instr::Binary(BinaryOp::Add, Operand(2), Operand(3)), dtype },
        ],
        stores: vec![Store { param: ParamId(3), access: Access::new([ni, 1, 0]), value: Operand(4) }],
    }
}

/// The stage `name` of `block` lowered for `target`.
fn stage(block: Block, target: HostTarget, name: &str) -> String {
    let context = context();
    let lowered: Lowered =
        lower(&context, &Kernel::Block(block), &Target::Host(target), true).expect("lowers");
    lowered.stages.iter().find(|stage| stage.name == name).expect("a stage of that name").text.clone()
}

/// The innermost loop that carries accumulators.
fn sum_loop(scheduled: &str) -> &str {
    let start = scheduled.find("iter_args").expect("a loop with accumulators");
    let end = scheduled[start..].find("scf.yield").expect("the end of the loop");
    &scheduled[start..start + end]
}

#[test]
fn the_sum_runs_in_registers() {
    // Rows and columns of the register tile, and the steps of the sum in one iteration.
    let cases = [
        (HostTarget::x86_64_v4(), DType::F32, 12, 32, 2),
        (HostTarget::x86_64_v3(), DType::F32, 6, 16, 2),
        (HostTarget::x86_64_v4(), DType::F64, 12, 16, 2),
        (HostTarget::x86_64_v4(), DType::BF16, 12, 32, 2),
    ];
    for (target, dtype, rows, columns, steps) in cases {
        let text = stage(product(1020, 1024, 1024, dtype), target, "scheduled");
        let body = sum_loop(&text);
        let lane = if dtype == DType::F64 { "f64" } else { "f32" };
        let fma = body.lines().filter(|line| line.contains("vector.fma")).collect::<Vec<_>>();
        assert_eq!(fma.len(), rows * steps, "{dtype}");
        assert!(fma.iter().all(|line| line.contains(&format!("vector<{columns}x{lane}>"))), "{dtype}");
        let loads = body.lines().filter(|line| line.contains("vector.load")).count();
        assert_eq!(loads, 2 * steps, "each operand is read once a step: {body}");
        assert!(!body.contains("store") && !body.contains("transfer_write"), "{body}");
    }
}

#[test]
fn there_is_one_register_kernel_whatever_the_edges() {
    let text = stage(product(1000, 777, 5000, DType::F32), HostTarget::x86_64_v4(), "scheduled");
    assert_eq!(text.matches("iter_args").count(), 1);
}

#[test]
fn nothing_is_allocated_and_nothing_is_called() {
    for (m, n, k) in [(1, 1, 1), (7, 5, 3), (1000, 777, 513), (64, 64, 9000), (5, 7, 0)] {
        for dtype in [DType::F32, DType::BF16, DType::I32] {
            let text = stage(product(m, n, k, dtype), HostTarget::x86_64_v4(), "llvm");
            for unwanted in ["llvm.alloca", "llvm.call ", "@malloc", "memrefCopy", "llvm.intr.memcpy"] {
                assert!(!text.contains(unwanted), "{unwanted} in {m}x{n}x{k} {dtype}");
            }
        }
    }
}

/// A convolution of `batch × channels × size × size` with as many 3×3 filters, out of an unfolded input.
fn convolution(batch: usize, channels: usize, size: usize) -> Block {
    let dtype = DType::F32;
    let param = |mode| Param { dtype, mode, alignment: 64 };
    let out = size - 2;
    let (c, s, o) = (channels as i64, size as i64, out as i64);
    Block {
        // Batch, filter, row, column; channel, row and column of the filter.
        domain: dims(&[batch, channels, out, out, channels, 3, 3], 3),
        params: vec![param(ParamMode::In), param(ParamMode::In), param(ParamMode::Out)],
        scalars: vec![],
        body: vec![
            load(0, dtype, &[c * s * s, 0, s, 1, s * s, s, 1]),
            load(1, dtype, &[0, c * 9, 0, 0, 9, 3, 1]),
            Statement { instr: Instr::Contract(Operand(0), Operand(1)), dtype },
        ],
        stores: vec![Store {
            param: ParamId(2),
            access: Access::new([c * o * o, o * o, o, 1, 0, 0, 0]),
            value: Operand(2),
        }],
    }
}

#[test]
fn an_unfolded_operand_is_not_copied_as_a_whole() {
    let context = context();
    let target = Target::Host(HostTarget::x86_64_v4());
    let program = |block| lower(&context, &Kernel::Block(block), &target, false).expect("lowers").program;
    // 64 filters of 64·9 elements in panels of at most 12 rows, at most 72 rows in all.
    let small = program(convolution(8, 64, 58));
    assert!(small.shared_bytes <= 72 * 576 * 4, "{}", small.shared_bytes);
    assert!(small.worker_bytes < 1 << 20, "{}", small.worker_bytes);
}

#[test]
fn products_with_few_rows_use_one_phase_and_no_shared_scratch() {
    let context = context();
    let target = Target::Host(HostTarget::x86_64_v4());
    for (m, n) in [(1, 4096), (4, 1000), (4096, 1), (1000, 1)] {
        let block = product(m, n, 512, DType::F32);
        let program = lower(&context, &Kernel::Block(block), &target, false).expect("lowers").program;
        assert_eq!((program.phases.len(), program.shared_bytes), (1, 0), "{m}x{n}");
    }
}

#[test]
fn there_are_enough_tiles_of_equal_work() {
    let context = context();
    let target = Target::Host(HostTarget::x86_64_v4());
    for (m, n, k) in [(1024, 1024, 1024), (512, 3072, 768), (128, 512, 784), (784, 512, 128), (256, 256, 256)]
    {
        let block = product(m, n, k, DType::F32);
        let program = lower(&context, &Kernel::Block(block), &target, false).expect("lowers").program;
        let tiles = program.phases.last().expect("a phase").tiles;
        assert!(tiles >= 8, "{m}x{n}x{k}: {tiles}");
    }
}

#[test]
fn a_product_without_elements_has_nothing_to_run() {
    let context = context();
    let target = Target::Host(HostTarget::x86_64_v4());
    let program = lower(&context, &Kernel::Block(product(0, 5, 7, DType::F32)), &target, false)
        .expect("lowers")
        .program;
    assert!(program.phases.is_empty());
}

#[test]
fn the_length_of_a_part_of_a_vector_is_not_known_to_llvm() {
    // A single bf16 is stored by a mask of one lane, which LLVM must not see (see `Index::opaque`).
    let text = stage(product(1, 1, 9, DType::BF16), HostTarget::x86_64_v4(), "scheduled");
    assert!(text.contains("inline_asm") && text.contains("create_mask"), "{text}");
    assert!(!text.contains("constant_mask [1]"), "{text}");
}

#[test]
fn a_random_mask_is_drawn_in_the_epilogue() {
    let mut block = product(64, 64, 64, DType::F32);
    block.scalars = vec![DType::U32, DType::U32];
    let access = Access::new([64, 1, 0]);
    block
        .body
        .push(Statement { instr: Instr::Random { key: 0, stream: 1, access, offset: 0 }, dtype: DType::U32 });
    block.params.push(Param { dtype: DType::U32, mode: ParamMode::Out, alignment: 64 });
    block.stores.push(Store { param: ParamId(4), access: Access::new([64, 1, 0]), value: Operand(5) });
    let text = stage(block, HostTarget::x86_64_v4(), "llvm");
    assert!(!text.contains("llvm.call "));
}
