//! The function: its signature, what all its threads share, and their parting into roles.

use super::code::{Code, Ty};
use super::maps::{MOVED, Moved, moved};
use super::tiling::{STAGES, Tiling};
use crate::emit::Value;
use crate::nvptx::writer::{KernelWriter, WORKGROUP};
use burn_mlir_ir::{Attention, AttentionOperand, DType};

/// The function's name.
pub(super) const SYMBOL: &str = "attention";

/// A ring of buffers in the memory of a block of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    Query,
    Key,
    Value,
}

/// A buffer of a ring, and the parity of the round it is in.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub stage: Value,
    pub phase: Value,
}

/// A tile of queries.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    /// Its first query.
    pub row: Value,
    pub batch: Value,
    pub head: Value,
    /// Blocks of keys that it sees, at least one.
    pub blocks: Value,
}

/// The function being written.
pub(super) struct Kernel<'a> {
    pub attention: &'a Attention,
    pub tiling: &'a Tiling,
    pub c: Code,
    /// Address of the block's memory.
    pub memory: Value,
    pub zero: Value,
    pub one: Value,
    /// Position in the block of threads.
    pub thread: Value,
    moved: Vec<Moved>,
}

impl<'a> Kernel<'a> {
    pub fn new(attention: &'a Attention, tiling: &'a Tiling) -> Option<Self> {
        let moved: Option<Vec<Moved>> =
            MOVED.iter().map(|&operand| moved(attention, tiling, operand)).collect();
        let (buffers, scalars) = (attention.operands().len(), attention.scalars().len());
        let threads = tiling.threads() as u32;
        let writer = KernelWriter::with_tensor_maps(SYMBOL, buffers, scalars, MOVED.len(), threads);
        let mut c = Code { writer };
        let thread = c.op("nvvm.read.ptx.sreg.tid.x : i32");
        let memory = c.writer.workgroup(tiling.memory_bytes());
        let memory = c.op(format_args!("llvm.ptrtoint {memory} : {WORKGROUP} to i32"));
        let (zero, one) = (c.i32(0), c.i32(1));
        let mut kernel = Self { attention, tiling, c, memory, zero, one, thread, moved: moved? };
        kernel.prologue();
        Some(kernel)
    }

    /// The maps of the launch.
    pub fn tensor_maps(&self) -> Vec<burn_mlir_ir::TensorMap> {
        self.moved.iter().map(|moved| moved.map.clone()).collect()
    }

    /// Writes the function and returns its text.
    pub fn write(mut self) -> String {
        let warpgroup = self.c.shuffled_warpgroup(&self.thread);
        let copies = self.c.cmp_with("eq", &warpgroup, 0);
        self.c.e().open(format_args!("scf.if {copies} {{"));
        self.produce();
        self.c.line("} else {");
        self.consume(&warpgroup);
        self.c.e().close("}");
        self.c.writer.finish()
    }

    /// Makes the barriers ready.
    fn prologue(&mut self) {
        let c = &mut self.c;
        let first = c.cmp_with("eq", &self.thread, 0);
        c.e().open(format_args!("scf.if {first} {{"));
        for index in 0..MOVED.len() {
            c.asm("prefetch.tensormap [$0];", &[(format!("%map{index}"), Ty::Ptr)]);
        }
        let rings = [(Ring::Query, self.tiling.query_buffers()), (Ring::Key, STAGES), (Ring::Value, STAGES)];
        for (ring, count) in rings {
            for (full, arrivals) in [(true, 1), (false, self.tiling.consumers)] {
                for stage in 0..count {
                    let stage = self.c.i32(stage as i64);
                    let barrier = self.barrier(ring, full, &stage);
                    let arrivals = self.c.i32(arrivals as i64);
                    let text = "mbarrier.init.shared::cta.b64 [$0], $1;";
                    self.c.asm(text, &[(barrier, Ty::I32), (arrivals, Ty::I32)]);
                }
            }
        }
        self.c.asm("fence.mbarrier_init.release.cluster;", &[]);
        self.c.e().close("}");
        self.c.line("nvvm.barrier0");
    }

    /// The barrier that tells that a buffer is full, or empty.
    pub fn barrier(&mut self, ring: Ring, full: bool, stage: &Value) -> Value {
        let buffers = self.tiling.query_buffers();
        let (start, count) = match ring {
            Ring::Query => (0, buffers),
            Ring::Key => (2 * buffers, STAGES),
            Ring::Value => (2 * buffers + 2 * STAGES, STAGES),
        };
        let index = start + if full { 0 } else { count };
        let offset = self.c.with("muli", stage, 8);
        let at = self.c.add(&self.memory, &offset);
        self.c.with("addi", &at, (self.tiling.barrier_offset() + 8 * index) as i64)
    }

    /// Waits until a buffer's barrier has left the phase of `turn`.
    pub fn wait(&mut self, ring: Ring, full: bool, turn: &Turn) {
        let barrier = self.barrier(ring, full, &turn.stage);
        let text = "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1, 0x989680; \
                    @p bra.uni done; bra.uni again; done: }";
        self.c.asm(text, &[(barrier, Ty::I32), (turn.phase.clone(), Ty::I32)]);
    }

    /// The turn after one.
    pub fn advance(&mut self, ring: Ring, turn: &Turn) -> Turn {
        let count = if ring == Ring::Query { self.tiling.query_buffers() } else { STAGES };
        let c = &mut self.c;
        if count == 1 {
            return Turn { stage: self.zero.clone(), phase: c.with("xori", &turn.phase, 1) };
        }
        let next = c.with("addi", &turn.stage, 1);
        let wraps = c.cmp_with("eq", &next, count as i64);
        let stage = c.select(&wraps, &self.zero, &next, "i32");
        let flip = c.op(format_args!("arith.extui {wraps} : i1 to i32"));
        Turn { stage, phase: c.bin("xori", &turn.phase, &flip) }
    }

    /// The number of tiles of queries.
    pub fn tiles(&self) -> usize {
        let sizes = &self.attention.sizes;
        sizes.batch * sizes.heads * sizes.queries.div_ceil(self.tiling.queries())
    }

    /// How much later than a query the last key is that it sees.
    pub fn ahead(&self) -> i64 {
        self.attention.sizes.keys as i64 - self.attention.sizes.queries as i64
    }

    /// The tile of a number.
    pub fn tile(&mut self, number: &Value) -> Tile {
        let sizes = &self.attention.sizes;
        let (queries, keys) = (self.tiling.queries() as i64, self.tiling.keys as i64);
        let rows = sizes.queries.div_ceil(self.tiling.queries()) as i64;
        let all_heads = (sizes.batch * sizes.heads) as i64;
        let (causal, ahead) = (self.attention.causal, self.ahead());
        let c = &mut self.c;
        let (head, row) = match self.tiling.longest_first {
            Some(together) => {
                let together = together as i64;
                let group = c.with("divui", number, rows * together);
                let first = c.with("muli", &group, together);
                let total = c.i32(all_heads);
                let left = c.sub(&total, &first);
                let heads = c.with("minui", &left, together);
                let before = c.with("muli", &group, rows * together);
                let within = c.sub(number, &before);
                let turn = c.bin("divui", &within, &heads);
                let skipped = c.bin("muli", &turn, &heads);
                let nth = c.sub(&within, &skipped);
                let last = c.i32(rows - 1);
                (c.add(&first, &nth), if causal { c.sub(&last, &turn) } else { turn })
            }
            None => {
                let head = c.with("divui", number, rows);
                let before = c.with("muli", &head, rows);
                let row = c.sub(number, &before);
                (head, row)
            }
        };
        let row = c.with("muli", &row, queries);
        let all_blocks = (sizes.keys as i64 + keys - 1) / keys;
        let blocks = if causal {
            let beyond = c.with("addi", &row, queries + ahead + keys - 1);
            let beyond = c.with("maxsi", &beyond, keys);
            let blocks = c.with("divui", &beyond, keys);
            c.with("minui", &blocks, all_blocks)
        } else {
            c.i32(all_blocks)
        };
        let batch = c.with("divui", &head, sizes.heads as i64);
        let before = c.with("muli", &batch, sizes.heads as i64);
        let head = c.sub(&head, &before);
        Tile { row, batch, head, blocks }
    }

    /// The coordinates of a box of one of [`MOVED`]: column, row, head, batch.
    pub fn corner(
        &mut self,
        operand: AttentionOperand,
        column: usize,
        row: &Value,
        tile: &Tile,
    ) -> [Value; 4] {
        let index = MOVED.iter().position(|&other| other == operand).unwrap_or_default();
        let shared = (self.attention.sizes.heads / self.attention.sizes.kv_heads) as i64;
        let walks = self.moved[index].walks;
        let head = match operand {
            AttentionOperand::Key | AttentionOperand::Value if shared > 1 => {
                self.c.with("divui", &tile.head, shared)
            }
            _ => tile.head.clone(),
        };
        let [batch, head] = [(&tile.batch, walks[0]), (&head, walks[1])]
            .map(|(at, walks)| if walks { at.clone() } else { self.zero.clone() });
        [self.c.i32(column as i64), row.clone(), head, batch]
    }

    /// PTX's name of the element type.
    pub fn element(&self) -> &'static str {
        if self.attention.dtype == DType::F16 { "f16" } else { "bf16" }
    }
}

impl Code {
    /// The number of a thread's warpgroup, known to be the same in all of a warp.
    fn shuffled_warpgroup(&mut self, thread: &Value) -> Value {
        let warpgroup = self.with("shrui", thread, 7);
        self.shuffle("idx", &warpgroup, 0, Ty::I32)
    }
}
