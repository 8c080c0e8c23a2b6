//! What blocks become on a host: the structure of the text after each stage.

use burn_mlir_ir::{
    Access, BinaryOp, Block, DType, DimKind, DomainDim, HostTarget, Instr, Kernel, Operand, Param, ParamId,
    ParamMode, Program, ReduceOp, Scan, Statement, Store, Target, UnaryOp,
};
use burn_mlir_lowering::{context, lower};

/// The program of a kernel and its texts as linalg, scheduled and in the LLVM dialect.
fn lowered(kernel: &Kernel, target: HostTarget) -> (Program, [String; 3]) {
    let context = context();
    let lowered = lower(&context, kernel, &Target::Host(target), true).expect("the kernel is supported");
    let names: Vec<_> = lowered.stages.iter().map(|stage| stage.name).collect();
    assert_eq!(names, ["linalg", "scheduled", "llvm"]);
    let mut texts = lowered.stages.into_iter().map(|stage| stage.text);
    (lowered.program, std::array::from_fn(|_| texts.next().unwrap_or_default()))
}

fn param(mode: ParamMode) -> Param {
    Param { dtype: DType::F32, mode, alignment: 64 }
}

fn f32(instr: Instr) -> Statement {
    Statement { instr, dtype: DType::F32 }
}

fn load(strides: &[i64]) -> Statement {
    f32(Instr::Load { param: ParamId(0), access: Access::new(strides.iter().copied()) })
}

/// A block over `domain` of f32: what `body` computes is stored with `strides`.
fn block(domain: &[(usize, DimKind)], body: Vec<Statement>, strides: &[i64]) -> Kernel {
    let value = Operand(body.len() as u32 - 1);
    Kernel::Block(Block {
        domain: domain.iter().map(|&(size, kind)| DomainDim::new(kind, size)).collect(),
        params: vec![param(ParamMode::In), param(ParamMode::Out)],
        scalars: vec![],
        body,
        stores: vec![Store { param: ParamId(1), access: Access::new(strides.iter().copied()), value }],
    })
}

fn square(size: usize) -> Kernel {
    let body = vec![load(&[1]), f32(Instr::Binary(BinaryOp::Mul, Operand(0), Operand(0)))];
    block(&[(size, DimKind::Parallel)], body, &[1])
}

#[test]
fn a_map_is_linalg_then_native_vectors() {
    for (target, vector) in
        [(HostTarget::x86_64_v4(), "vector<16xf32>"), (HostTarget::x86_64_v3(), "vector<8xf32>")]
    {
        let (program, [linalg, scheduled, llvm]) = lowered(&square(1 << 20), target);
        assert!(linalg.contains("linalg.generic"));
        assert!(!scheduled.contains("linalg.") && !scheduled.contains("tensor<"));
        assert!(scheduled.contains("arith.mulf") && scheduled.contains(vector));
        assert!(llvm.contains("llvm.fmul") && llvm.contains(vector));
        assert_eq!(program.phases.len(), 1);
        assert!(program.phases[0].tiles >= 32, "enough tiles for many threads: {program:?}");
    }
}

/// A copy of `rows` rows of a view, which lie `stride` elements apart in the result, of a parameter of that mode.
fn copy(rows: usize, stride: i64, mode: ParamMode) -> Kernel {
    let domain = [(rows, DimKind::Parallel), (64, DimKind::Parallel)];
    let Kernel::Block(mut copied) = block(&domain, vec![load(&[64, 1])], &[stride, 1]) else {
        unreachable!()
    };
    copied.params[1].mode = mode;
    Kernel::Block(copied)
}

/// Rows of 64 less their largest element.
fn centred(rows: usize) -> Kernel {
    let body = vec![
        load(&[64, 1]),
        f32(Instr::Reduce(ReduceOp::Max, Operand(0))),
        f32(Instr::Binary(BinaryOp::Sub, Operand(0), Operand(1))),
    ];
    block(&[(rows, DimKind::Parallel), (64, DimKind::Reduction)], body, &[64, 1])
}

/// Processors order such stores only by a fence; where an address may be no multiple of the vector, LLVM would take them
/// apart; and what is written over is in the caches already.
#[test]
fn large_results_are_written_past_the_caches() {
    let (large, small) = (1 << 15, 1 << 14);
    for target in [HostTarget::x86_64_v4(), HostTarget::x86_64_v3()] {
        let streamed = |kernel| {
            let (_, [_, _, llvm]) = lowered(&kernel, target.clone());
            let (store, fence) = (llvm.find("nontemporal"), llvm.find("llvm.x86.sse.sfence"));
            assert_eq!(store.is_some(), fence.is_some(), "{llvm}");
            assert!(store <= fence, "{llvm}");
            store.is_some()
        };
        assert!(streamed(copy(large, 64, ParamMode::Out)));
        assert!(streamed(copy(large, 80, ParamMode::Out)));
        assert!(!streamed(copy(small, 64, ParamMode::Out)), "small");
        assert!(!streamed(copy(large, 65, ParamMode::Out)), "not aligned");
        assert!(!streamed(copy(large, 64, ParamMode::InOut)), "written over");
        assert!(streamed(centred(large)) && !streamed(centred(small)), "rows");
        let elsewhere = HostTarget { stream_bytes: None, ..target.clone() };
        let (_, [_, _, llvm]) = lowered(&copy(large, 64, ParamMode::Out), elsewhere);
        assert!(!llvm.contains("nontemporal") && !llvm.contains("sfence"));
    }
}

/// The second value folds to what was loaded from where the first is stored.
#[test]
fn what_is_overwritten_is_read_before() {
    let body = vec![
        load(&[1]),
        f32(Instr::Unary(UnaryOp::Neg, Operand(0))),
        f32(Instr::Unary(UnaryOp::Neg, Operand(1))),
    ];
    let stores = [(0, 1), (1, 2)].map(|(param, value)| Store {
        param: ParamId(param),
        access: Access::new([1]),
        value: Operand(value),
    });
    let kernel = Kernel::Block(Block {
        domain: [DomainDim::new(DimKind::Parallel, 1 << 12)].into_iter().collect(),
        params: vec![param(ParamMode::InOut), param(ParamMode::Out)],
        scalars: vec![],
        body,
        stores: stores.into(),
    });
    let (_, [_, scheduled, _]) = lowered(&kernel, HostTarget::x86_64_v4());
    assert!(!scheduled.contains("alloc") && !scheduled.contains("memref.copy"), "{scheduled}");
    let places = |of: &str| scheduled.match_indices(of).map(|found| found.0).collect::<Vec<_>>();
    let (loads, stores) = (places("vector.load"), places("vector.transfer_write"));
    assert_eq!((loads.len(), stores.len()), (1, 2), "{scheduled}");
    assert!(loads[0] < stores[0], "{scheduled}");
}

#[test]
fn nothing_is_allocated() {
    let max = f32(Instr::Reduce(ReduceOp::Max, Operand(0)));
    let softmax = vec![
        load(&[100, 1]),
        max,
        f32(Instr::Binary(BinaryOp::Sub, Operand(0), Operand(1))),
        f32(Instr::Unary(UnaryOp::Exp, Operand(2))),
        f32(Instr::Reduce(ReduceOp::Sum, Operand(3))),
        f32(Instr::Binary(BinaryOp::Div, Operand(3), Operand(4))),
    ];
    let domain = [(50, DimKind::Parallel), (100, DimKind::Reduction)];
    let (program, [_, scheduled, llvm]) =
        lowered(&block(&domain, softmax, &[100, 1]), HostTarget::x86_64_v4());
    for text in [&scheduled, &llvm] {
        assert!(!text.contains("alloc"), "{text}");
        assert!(!text.contains("llvm.call"), "{text}");
    }
    // The exponentials of a row are kept, not computed twice.
    assert_eq!(program.worker_bytes, 448);
}

#[test]
fn the_rest_of_a_row_is_one_narrow_vector() {
    let (_, [_, scheduled, _]) = lowered(&square(37), HostTarget::x86_64_v4());
    assert!(scheduled.contains("vector<16xf32>") && scheduled.contains("vector<5xf32>"));
}

#[test]
fn a_long_sum_is_split_into_parts_that_a_second_phase_combines() {
    let body = vec![load(&[1]), f32(Instr::Reduce(ReduceOp::Sum, Operand(0)))];
    let kernel = block(&[(1 << 20, DimKind::Reduction)], body, &[0]);
    let (program, [linalg, ..]) = lowered(&kernel, HostTarget::x86_64_v4());
    let symbols: Vec<_> = program.phases.iter().map(|phase| phase.symbol.as_str()).collect();
    assert_eq!(symbols, ["parts", "whole"]);
    assert_eq!(program.shared_bytes, 4 * program.phases[0].tiles);
    assert!(linalg.contains("func.func @parts") && linalg.contains("func.func @whole"));
}

#[test]
fn columns_are_reduced_without_a_tree() {
    let body = vec![load(&[64, 1]), f32(Instr::Reduce(ReduceOp::Sum, Operand(0)))];
    let domain = [(10, DimKind::Reduction), (64, DimKind::Parallel)];
    let (_, [_, scheduled, _]) = lowered(&block(&domain, body, &[0, 1]), HostTarget::x86_64_v4());
    assert!(scheduled.contains("iter_args") && !scheduled.contains("extract_strided_slice"));
}

#[test]
fn a_transposed_load_goes_through_registers() {
    let domain = [(128, DimKind::Parallel), (128, DimKind::Parallel)];
    let (program, [_, scheduled, _]) =
        lowered(&block(&domain, vec![load(&[1, 128])], &[128, 1]), HostTarget::x86_64_v4());
    assert_eq!(scheduled.matches("vector.shuffle").count(), 16 * 4);
    assert!(!scheduled.contains("vector.gather"));
    assert_eq!(program.worker_bytes, 64 * 64 * 4);
}

#[test]
fn small_strides_are_shuffled_and_large_ones_gathered() {
    for (stride, op, other) in
        [(2, "vector.shuffle", "vector.gather"), (9, "vector.gather", "vector.shuffle")]
    {
        let kernel = block(&[(64, DimKind::Parallel)], vec![load(&[stride])], &[1]);
        let (_, [_, scheduled, _]) = lowered(&kernel, HostTarget::x86_64_v4());
        assert!(scheduled.contains(op) && !scheduled.contains(other), "{scheduled}");
    }
}

#[test]
fn loops_need_no_schedule() {
    let access = || Access::new([10, 1]);
    let scan = Scan {
        op: ReduceOp::Sum,
        dtype: DType::BF16,
        shape: [4, 10].into_iter().collect(),
        axis: 1,
        accesses: [access(), access()],
    };
    let (program, [_, _, llvm]) = lowered(&Kernel::Scan(scan), HostTarget::x86_64_v3());
    assert_eq!(program.phases[0].symbol, "scan");
    // Sums of bf16 run in f32.
    assert!(llvm.lines().any(|line| line.contains("llvm.fadd") && line.ends_with(": f32")), "{llvm}");
}

#[test]
fn the_same_kernel_gives_the_same_text() {
    let kernel = square(1000);
    assert_eq!(lowered(&kernel, HostTarget::x86_64_v4()).1, lowered(&kernel, HostTarget::x86_64_v4()).1);
}

/// Neither scratch nor result grows with queries times keys.
#[test]
fn attention_keeps_no_scores() {
    let text = "attention bf16 causal softcap {
      batch 2 heads 4 kv_heads 2 queries 1000 keys 1000 width 24 value_width 40
      query [96000, 24000, 24, 1] align 2
      key [48000, 24000, 24, 1] align 2
      value [80000, 40000, 40, 1] align 2
      bias [0, 1000000, 1000, 1] align 2
      output [160000, 40000, 40, 1] align 2
    }";
    let kernel = Kernel::parse(text).unwrap();
    kernel.verify().unwrap();
    for (target, lanes) in [(HostTarget::x86_64_v3(), 8), (HostTarget::x86_64_v4(), 16)] {
        let (program, [_, _, llvm]) = lowered(&kernel, target);
        let symbols: Vec<_> = program.phases.iter().map(|phase| phase.symbol.as_str()).collect();
        assert_eq!(symbols, ["pack", "attention"]);
        // Keys and values in f32, with whole blocks of keys and whole vectors of columns.
        let (keys, columns) = (1000usize.next_multiple_of(4 * lanes), 40usize.next_multiple_of(lanes));
        assert_eq!(program.shared_bytes, (4 * 2 * 2 * keys * (24 + columns)) as u64);
        assert!(program.worker_bytes < 64 << 10);
        assert!(llvm.contains("llvm.intr.fma"));
    }
}
