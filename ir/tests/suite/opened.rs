//! Blocks whose extents and strides are arguments.

use burn_mlir_ir::{Access, Block, Instr, Kernel, Opened, opened};

fn block(text: &str) -> Block {
    let Ok(Kernel::Block(block)) = text.parse() else { panic!("no block: {text}") };
    block
}

const SOFTMAX: &str = "block [p 8, p 22, r 30] (f32) {
  @0 = in f32 align 64
  @1 = out f32 align 64
  %0 = load @0 [660, 30, 1] : f32
  %1 = scalar $0 : f32
  %2 = mul %0, %1 : f32
  %3 = reduce max %2 : f32
  %4 = sub %2, %3 : f32
  %5 = exp %4 : f32
  %6 = reduce sum %5 : f32
  %7 = div %5, %6 : f32
  store %7 -> @1 [660, 30, 1]
}";

#[test]
fn long_extents_and_large_strides_become_arguments() {
    let open = opened(&block(SOFTMAX)).unwrap();
    insta::assert_snapshot!(open.block, @r"
    block [p 8, p ?0 to 64, r ?1 to 64] (f32) {
      @0 = in f32 align 64
      @1 = out f32 align 64
      %0 = load @0 [?2, ?3, 1] : f32
      %1 = scalar $0 : f32
      %2 = mul %0, %1 : f32
      %3 = reduce max %2 : f32
      %4 = sub %2, %3 : f32
      %5 = exp %4 : f32
      %6 = reduce sum %5 : f32
      %7 = div %5, %6 : f32
      store %7 -> @1 [?4, ?5, 1]
    }
    ");
    assert_eq!(open.numbers, [22, 30, 660, 30, 660, 30]);
}

#[test]
fn shapes_of_a_class_are_one_block() {
    let other =
        SOFTMAX.replace("660", "3600").replace("p 22", "p 60").replace("30,", "60,").replace("r 30", "r 60");
    let (one, other) = (opened(&block(SOFTMAX)).unwrap(), opened(&block(&other)).unwrap());
    assert_eq!(one.block, other.block);
    assert_ne!(one.numbers, other.numbers);
}

#[test]
fn an_opened_block_prints_parses_and_verifies() {
    let open = Kernel::Block(opened(&block(SOFTMAX)).unwrap().block);
    open.verify().unwrap();
    assert_eq!(open.to_string().parse::<Kernel>().unwrap(), open);
}

/// The block with its numbers in place of the arguments.
fn closed(open: &Opened) -> Block {
    let mut block = open.block.clone();
    for dim in &mut block.domain {
        if let Some(argument) = dim.argument.take() {
            dim.size = open.numbers[argument as usize] as usize;
        }
    }
    let close = |access: &mut Access| {
        for stride in std::mem::take(&mut access.arguments) {
            access.strides[stride.dim as usize] = open.numbers[stride.argument as usize] as i64;
        }
    };
    for statement in &mut block.body {
        match &mut statement.instr {
            Instr::Load { access, .. } => close(access),
            Instr::Gather(gather) => close(&mut gather.access),
            _ => {}
        }
    }
    block.stores.iter_mut().for_each(|store| close(&mut store.access));
    block
}

#[test]
fn the_numbers_make_it_the_block_it_was() {
    let softmax = block(SOFTMAX);
    assert_eq!(closed(&opened(&softmax).unwrap()), softmax);
}

#[test]
fn what_cannot_be_an_argument_keeps_a_block_closed() {
    let backwards = SOFTMAX.replace("load @0 [660, 30, 1]", "load @0 [-660, 30, 1]");
    assert_eq!(opened(&block(&backwards)), None);
    let positions = "block [p 22, r 30] () {
  @0 = in f32 align 64
  @1 = out i64 align 64
  %0 = load @0 [30, 1] : f32
  %1 = argmax %0 : i64
  store %1 -> @1 [1, 0]
}";
    assert_eq!(opened(&block(positions)), None);
    let short = "block [p 7, p 3] () {
  @0 = in f32 align 64
  @1 = out f32 align 64
  %0 = load @0 [1, 7] : f32
  store %0 -> @1 [3, 1]
}";
    assert_eq!(opened(&block(short)), None);
    let open = opened(&block(SOFTMAX)).unwrap().block;
    assert_eq!(opened(&open), None, "an opened block is not opened again");
}
