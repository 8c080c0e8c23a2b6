//! The printed form of plans.

use burn_mlir_ir::plan::{Argument, Buffer, BufferSource, Launch, Plan, ResultPlace};
use burn_mlir_ir::{DType, Kernel, KernelId, Layout, Shape};
use insta::assert_snapshot;

#[test]
fn plans_print_kernels_buffers_launches_and_results() {
    let kernel = "block [p 6] (f32) {
        @0 = in f32 align 64  @1 = out f32 align 64
        %0 = load @0 [1] : f32  %1 = scalar $0 : f32  %2 = mul %0, %1 : f32
        store %2 -> @1 [1]
    }";
    let argument = |buffer, offset| Argument { buffer, offset, dtype: DType::F32 };
    let launch =
        |from, to, scalar| Launch { kernel: KernelId(0), arguments: vec![from, to], scalars: vec![scalar] };
    let dense = Layout::contiguous(&Shape::new([2, 3]));
    let transposed = Layout { shape: Shape::new([3, 2]), strides: [1i64, 3].as_slice().into(), offset: 4 };
    let plan = Plan {
        numbers: Default::default(),
        kernels: vec![Kernel::parse(kernel).unwrap()],
        buffers: vec![
            Buffer { source: BufferSource::Input(3), bytes: 0 },
            Buffer { source: BufferSource::Arena { offset: 64 }, bytes: 24 },
            Buffer { source: BufferSource::Fresh, bytes: 40 },
        ],
        launches: vec![launch(argument(0, -5), argument(1, 0), 2), launch(argument(1, 0), argument(2, 4), 0)],
        results: vec![
            ResultPlace { buffer: 1, layout: dense },
            ResultPlace { buffer: 2, layout: transposed },
        ],
        arena_bytes: 128,
    };
    assert_snapshot!(plan, @r"
    plan {
      arena 128 bytes
      #0 = input 3, 0 bytes
      #1 = arena +64, 24 bytes
      #2 = fresh, 40 bytes
      kernel 0 = block [p 6] (f32) {
        @0 = in f32 align 64
        @1 = out f32 align 64
        %0 = load @0 [1] : f32
        %1 = scalar $0 : f32
        %2 = mul %0, %1 : f32
        store %2 -> @1 [1]
      }
      launch kernel 0 (#0 -5 f32, #1 +0 f32) scalars [$2]
      launch kernel 0 (#1 +0 f32, #2 +4 f32) scalars [$0]
      return #1 [2, 3], #2 [3, 2] strides [1, 3] offset 4
    }
    ");
}
