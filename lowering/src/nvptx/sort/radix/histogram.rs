//! How often each digit of each pass occurs in a row.

use super::{DIGITS, Ends, FEW_ITEMS, Radix, THREADS};
use crate::emit::Value;
use crate::host::tiles::open_for;
use crate::nvptx::ENOUGH_BLOCKS;
use crate::nvptx::code::Code;
use crate::nvptx::writer::{GLOBAL, KernelWriter, WORKGROUP};

/// Entries that a block reads at once.
const STEP: usize = THREADS * FEW_ITEMS;

impl Radix {
    /// Blocks that count a row's digits.
    pub(super) fn parts(&self) -> usize {
        (4 * ENOUGH_BLOCKS).div_ceil(self.rows.max(1)).min(self.size.div_ceil(STEP)).max(1)
    }

    /// Counts the digits of `parts` parts of each row, each in the memory of its block before they are added up.
    pub(super) fn histogram(&self, ends: &impl Ends, symbol: &str, parts: usize) -> String {
        let ty = "index";
        let mut kernel = ends.open(symbol);
        let (block, thread) = (kernel.block('x'), kernel.thread());
        let counts = kernel.workgroup(4 * self.passes() * DIGITS);
        let e = &mut kernel.emitter;
        let parts_value = e.int(ty, parts);
        let (row, part) =
            (e.arith("divui", ty, &block, &parts_value), e.arith("remui", ty, &block, &parts_value));
        let length = self.size.div_ceil(parts).next_multiple_of(STEP);
        let (length, size) = (e.int(ty, length), e.int(ty, self.size));
        let from = e.arith("muli", ty, &part, &length);
        let end = e.arith("addi", ty, &from, &length);
        let end = e.arith("minui", ty, &end, &size);
        for pass in 0..self.passes() {
            let at = own_count(&mut kernel, &counts, pass, &thread);
            let e = &mut kernel.emitter;
            let zero = e.int("i32", 0);
            e.line(format_args!("llvm.store {zero}, {at} : i32, {WORKGROUP}"));
        }
        kernel.barrier();
        let step = open_for(&mut kernel.emitter, &from, &end, STEP);
        let mut list = Vec::new();
        for item in 0..FEW_ITEMS {
            let e = &mut kernel.emitter;
            let shift = e.int(ty, item * THREADS);
            let at = e.arith("addi", ty, &step, &thread);
            let at = e.arith("addi", ty, &at, &shift);
            let inside = e.compare("ult", ty, &at, &end);
            let last = e.int(ty, self.size - 1);
            let at = e.arith("minui", ty, &at, &last);
            list.push((inside, ends.read(&mut kernel, &row, &at)));
        }
        for (inside, entry) in list {
            ends.check(&mut kernel, &entry);
            let e = &mut kernel.emitter;
            let key = self.entries.key(e, &entry);
            let key = ends.order(e, &key);
            let one = e.int("i32", 1);
            e.open(format_args!("scf.if {inside} {{"));
            for pass in 0..self.passes() {
                let number = e.int("i32", pass);
                let digit = self.digit(e, &key, &number);
                let shift = e.int("i32", pass * DIGITS);
                let at = e.arith("addi", "i32", &digit, &shift);
                let at = e.op(format_args!(
                    "llvm.getelementptr {counts}[{at}] : ({WORKGROUP}, i32) -> {WORKGROUP}, i32"
                ));
                e.op(format_args!(
                    "llvm.atomicrmw add {at}, {one} syncscope(\"block\") monotonic : {WORKGROUP}, i32"
                ));
            }
            e.close("}");
        }
        kernel.emitter.close("}");
        kernel.barrier();
        for pass in 0..self.passes() {
            let at = own_count(&mut kernel, &counts, pass, &thread);
            let e = &mut kernel.emitter;
            let count = e.op(format_args!("llvm.load {at} : {WORKGROUP} -> i32"));
            let zero = e.int("i32", 0);
            let any = e.compare("ne", "i32", &count, &zero);
            e.open(format_args!("scf.if {any} {{"));
            let pass = e.int(ty, pass);
            let to = self.counted(&mut kernel, &row, &pass, &thread);
            let e = &mut kernel.emitter;
            e.op(format_args!(
                "llvm.atomicrmw add {to}, {count} syncscope(\"device\") monotonic : {GLOBAL}, i32"
            ));
            e.close("}");
        }
        kernel.finish()
    }
}

/// Where a block counts the digit of a pass that is a thread's position.
fn own_count(kernel: &mut KernelWriter, counts: &Value, pass: usize, thread: &Value) -> Value {
    let e = &mut kernel.emitter;
    let shift = e.int("index", pass * DIGITS);
    let at = e.arith("addi", "index", thread, &shift);
    kernel.element(counts, WORKGROUP, &at, "i32")
}
