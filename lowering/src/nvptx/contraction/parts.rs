//! A sum cut into parts: each a block's own, added in a fixed order by the block that is done last.

use super::asm::{shared_address, word};
use crate::emit::{Emitter, Value};
use crate::host::lanes::{vector_type, zero_of};
use crate::host::tiles::{Carried, index, index_op, open_carrying_for, scaled};
use crate::nvptx::ACCESS_BYTES;
use crate::nvptx::chunk::bytes_of;
use crate::nvptx::writer::{GLOBAL, KernelWriter, WORKGROUP};

/// How the sums of tiles are shared. Blocks of a tile follow each other.
pub(super) struct Parts {
    /// Parts of a tile's sum.
    pub parts: usize,
    /// Tiles, at most as many as there are counters if there are several parts.
    pub tiles: usize,
    /// Threads of a block.
    pub threads: usize,
    /// Type of the accumulators, 4 or 8 bytes.
    pub element: &'static str,
}

impl Parts {
    /// Scratch the parts need, for so many accumulators a thread.
    pub fn bytes(&self, accumulators: usize) -> usize {
        if self.parts == 1 {
            return 0;
        }
        self.tiles * self.parts * self.threads * accumulators * bytes_of(self.element)
    }

    /// Leaves this block's accumulators where the last block finds them. What follows, up to
    /// [`close`](Self::close), is done by the last block of a tile, with the sums returned.
    pub fn open(
        &self,
        writer: &mut KernelWriter,
        block: &Value,
        thread: &Value,
        sums: Vec<Value>,
    ) -> Vec<Value> {
        if self.parts == 1 {
            return sums;
        }
        let lanes = ACCESS_BYTES / bytes_of(self.element);
        let vectors = sums.len() / lanes;
        let ty = vector_type(lanes, self.element);
        let ticket = writer.workgroup(ACCESS_BYTES);
        let own = scaled(&mut writer.emitter, block, (vectors * self.threads) as i64);
        let own = self.vector(writer, &own, thread);
        let e = &mut writer.emitter;
        for (number, sums) in sums.chunks(lanes).enumerate() {
            let vector = e.op(format_args!("vector.from_elements {} : {ty}", sums.join(", ")));
            let at = self.ahead(e, &own, number);
            e.line(format_args!("llvm.store {vector}, {at} {{alignment = 16 : i64}} : {ty}, {GLOBAL}"));
        }
        fence(e);
        writer.barrier();
        let tile = {
            let e = &mut writer.emitter;
            let parts = index(e, self.parts);
            index_op(e, "arith.divui", block, &parts)
        };
        let counter = writer.element(&"%counters".into(), GLOBAL, &tile, "i32");
        let e = &mut writer.emitter;
        let zero = index(e, 0);
        let first_thread = e.op(format_args!("arith.cmpi eq, {thread}, {zero} : index"));
        let ticket_address = shared_address(e, &ticket);
        e.open(format_args!("scf.if {first_thread} {{"));
        let taken = e.op(format_args!(
            "llvm.inline_asm has_side_effects asm_dialect = att \"atom.acq_rel.gpu.global.inc.u32 $0, [$1], {};\", \
             \"=r,l,~{{memory}}\" {counter} : ({GLOBAL}) -> i32",
            self.parts - 1
        ));
        let to = super::asm::shared_pointer(e, &ticket_address);
        e.line(format_args!("llvm.store {taken}, {to} : i32, {WORKGROUP}"));
        e.close("}");
        writer.barrier();
        let e = &mut writer.emitter;
        let taken = e.op(format_args!("llvm.load {ticket} : {WORKGROUP} -> i32"));
        let last = word(e, self.parts - 1);
        let is_last = e.op(format_args!("arith.cmpi eq, {taken}, {last} : i32"));
        e.open(format_args!("scf.if {is_last} {{"));
        fence(e);
        let zero = e.op(format_args!("arith.constant {} : {}", zero_of(self.element), self.element));
        let zero = Carried { value: zero, ty: self.element.into() };
        let (none, parts) = (index(e, 0), index(e, self.parts));
        let open = open_carrying_for(e, &none, &parts, 1, &vec![zero; sums.len()]);
        let first = scaled(e, &tile, self.parts as i64);
        let block = index_op(e, "arith.addi", &first, &open.variable);
        let from = scaled(e, &block, (vectors * self.threads) as i64);
        let from = self.vector(writer, &from, thread);
        let e = &mut writer.emitter;
        let add = if self.element.starts_with('i') { "addi" } else { "addf" };
        let loaded: Vec<Value> = (0..vectors)
            .map(|number| {
                let at = self.ahead(e, &from, number);
                e.op(format_args!("llvm.load {at} {{alignment = 16 : i64}} : {GLOBAL} -> {ty}"))
            })
            .collect();
        let mut totals = Vec::new();
        for (position, total) in open.carried.iter().enumerate() {
            let (vector, lane) = (&loaded[position / lanes], position % lanes);
            let part = e.op(format_args!("vector.extract {vector}[{lane}] : {} from {ty}", self.element));
            let total = e.op(format_args!("arith.{add} {}, {part} : {}", total.value, self.element));
            totals.push(Carried { value: total, ty: self.element.into() });
        }
        open.close(e, &totals).into_iter().map(|total| total.value).collect()
    }

    /// Ends what only the last block of a tile does.
    pub fn close(&self, writer: &mut KernelWriter) {
        if self.parts > 1 {
            writer.emitter.close("}");
        }
    }

    /// Address of this thread's vector in the `first`-th run of vectors.
    fn vector(&self, writer: &mut KernelWriter, first: &Value, thread: &Value) -> Value {
        let at = index_op(&mut writer.emitter, "arith.addi", first, thread);
        let at = scaled(&mut writer.emitter, &at, (ACCESS_BYTES / bytes_of(self.element)) as i64);
        writer.element(&"%shared".into(), GLOBAL, &at, self.element)
    }

    /// Address of a thread's `number`-th vector.
    fn ahead(&self, e: &mut Emitter, at: &Value, number: usize) -> Value {
        let bytes = number * self.threads * ACCESS_BYTES;
        e.op(format_args!("llvm.getelementptr {at}[{bytes}] : ({GLOBAL}) -> {GLOBAL}, i8"))
    }
}

/// Orders this thread's accesses for all threads of the device.
fn fence(e: &mut Emitter) {
    e.line(
        "llvm.inline_asm has_side_effects asm_dialect = att \"fence.acq_rel.gpu;\", \"~{memory}\" : () -> ()",
    );
}
