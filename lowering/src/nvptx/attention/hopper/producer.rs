//! The warpgroup that copies: hands out tiles and keeps the rings full.

use super::code::Ty;
use super::kernel::{Kernel, Ring, Tile, Turn};
use super::maps::{BOX_COLUMNS, MOVED};
use crate::emit::Value;
use burn_mlir_ir::AttentionOperand;

impl Kernel<'_> {
    /// Code of the copying warpgroup; one of its threads does all.
    pub fn produce(&mut self) {
        self.c.line(format_args!("nvvm.setmaxregister decrease {}", self.tiling.copy_registers()));
        let first_warp = self.c.cmp_with("ult", &self.thread.clone(), 32);
        self.c.e().open(format_args!("scf.if {first_warp} {{"));
        let elected = self.c.op("nvvm.elect.sync -> i1");
        self.c.e().open(format_args!("scf.if {elected} {{"));
        self.copy_tiles();
        self.c.e().close("}");
        self.c.e().close("}");
    }

    /// Copies what one tile after the other needs. Tiles are drawn from a counter, which the last draw of the
    /// launch puts back to 0.
    fn copy_tiles(&mut self) {
        let tiles = self.tiles() as i64;
        let block = self.c.op("nvvm.read.ptx.sreg.ctaid.x : i32");
        let blocks = self.c.op("nvvm.read.ptx.sreg.nctaid.x : i32");
        let (zero, one) = (self.zero.clone(), self.one.clone());
        // Tile, then stage and phase of the rings. Buffers are empty at first: as if a round had passed.
        let initial: Vec<_> =
            [&block, &zero, &one, &zero, &one, &zero, &one].map(|value| (value.clone(), Ty::I32)).into();
        let (region, carried) =
            self.c.open_while(&initial, |c, carried| c.cmp_with("ult", &carried[0], tiles));
        let [number, qs, qp, ks, kp, vs, vp] = [0, 1, 2, 3, 4, 5, 6].map(|index| carried[index].clone());
        let query = Turn { stage: qs, phase: qp };
        let key = Turn { stage: ks, phase: kp };
        let value = Turn { stage: vs, phase: vp };

        let drawn =
            self.c.op(format_args!("llvm.atomicrmw add %counters, {one} monotonic : !llvm.ptr<1>, i32"));
        let next = self.c.add(&drawn, &blocks);
        let last = self.c.cmp_with("eq", &drawn, tiles - 1);
        self.c.when(&last, |c| {
            c.line(format_args!("llvm.store volatile {zero}, %counters : i32, !llvm.ptr<1>"))
        });

        let tile = self.tile(&number);
        let newest = self.c.with("subi", &tile.blocks, 1);
        self.copy(Ring::Key, &key, &newest, &tile);
        let key = self.advance(Ring::Key, &key);
        self.copy_query(&query, &number, &tile);

        let carried = [&key.stage, &key.phase, &value.stage, &value.phase].map(|v| (v.clone(), Ty::I32));
        let (blocks, from, inner) = self.c.open_for(&one, &tile.blocks, &carried);
        let key = Turn { stage: inner[0].clone(), phase: inner[1].clone() };
        let value = Turn { stage: inner[2].clone(), phase: inner[3].clone() };
        let older = self.c.sub(&newest, &from);
        self.copy(Ring::Key, &key, &older, &tile);
        let key = self.advance(Ring::Key, &key);
        let newer = self.c.with("addi", &older, 1);
        self.copy(Ring::Value, &value, &newer, &tile);
        let value = self.advance(Ring::Value, &value);
        let rings = self.c.close(blocks, &[key.stage, key.phase, value.stage, value.phase]);
        let value = Turn { stage: rings[2].clone(), phase: rings[3].clone() };
        self.copy(Ring::Value, &value, &zero, &tile);
        let value = self.advance(Ring::Value, &value);
        let query = self.advance(Ring::Query, &query);
        let carried = [&next, &query.stage, &query.phase, &rings[0], &rings[1], &value.stage, &value.phase];
        let end = self.c.close(region, &carried.map(Value::clone));

        // No more tiles.
        let query = Turn { stage: end[1].clone(), phase: end[2].clone() };
        self.wait(Ring::Query, false, &query);
        let none = self.c.i32(-1);
        self.announce(&query, &none);
        let full = self.barrier(Ring::Query, true, &query.stage);
        self.c.asm("mbarrier.arrive.shared::cta.b64 _, [$0];", &[(full, Ty::I32)]);
    }

    /// Says which tile a buffer of queries is of.
    fn announce(&mut self, query: &Turn, number: &Value) {
        let slot = self.slot(&query.stage);
        self.c.asm("st.shared.b32 [$0], $1;", &[(slot, Ty::I32), (number.clone(), Ty::I32)]);
    }

    /// Where that is written.
    pub fn slot(&mut self, stage: &Value) -> Value {
        let offset = self.c.with("muli", stage, 4);
        let at = self.c.add(&self.memory, &offset);
        self.c.with("addi", &at, self.tiling.slot_offset() as i64)
    }

    fn copy_query(&mut self, turn: &Turn, number: &Value, tile: &Tile) {
        self.wait(Ring::Query, false, turn);
        self.announce(turn, number);
        let stage = self.c.with("muli", &turn.stage, self.tiling.query_bytes() as i64);
        let target = self.c.add(&self.memory, &stage);
        let full = self.barrier(Ring::Query, true, &turn.stage);
        self.copy_boxes(AttentionOperand::Query, &full, &target, &tile.row, tile);
    }

    /// Copies block `block` of keys or values once its buffer is empty.
    fn copy(&mut self, ring: Ring, turn: &Turn, block: &Value, tile: &Tile) {
        let (operand, bytes, offset) = match ring {
            Ring::Value => (AttentionOperand::Value, self.tiling.value_bytes(), self.tiling.value_offset()),
            _ => (AttentionOperand::Key, self.tiling.key_bytes(), self.tiling.key_offset()),
        };
        self.wait(ring, false, turn);
        let stage = self.c.with("muli", &turn.stage, bytes as i64);
        let target = self.c.add(&self.memory, &stage);
        let target = self.c.with("addi", &target, offset as i64);
        let row = self.c.with("muli", block, self.tiling.keys as i64);
        let full = self.barrier(ring, true, &turn.stage);
        self.copy_boxes(operand, &full, &target, &row, tile);
    }

    /// Starts the copies of rows from `row` on to memory of the block; `full` counts their bytes.
    fn copy_boxes(
        &mut self,
        operand: AttentionOperand,
        full: &Value,
        target: &Value,
        row: &Value,
        tile: &Tile,
    ) {
        let (columns, rows) = match operand {
            AttentionOperand::Query => (self.tiling.width, self.tiling.queries()),
            AttentionOperand::Key => (self.tiling.width, self.tiling.keys),
            _ => (self.tiling.value_width, self.tiling.keys),
        };
        let bytes = self.c.i32(2 * (columns * rows) as i64);
        let text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;";
        self.c.asm(text, &[(full.clone(), Ty::I32), (bytes, Ty::I32)]);
        let map = MOVED.iter().position(|&other| other == operand).unwrap_or_default();
        for part in 0..columns / BOX_COLUMNS {
            let at = self.c.with("addi", target, (part * rows * 2 * BOX_COLUMNS) as i64);
            let corner = self.corner(operand, part * BOX_COLUMNS, row, tile);
            let mut operands = vec![(at, Ty::I32), (format!("%map{map}"), Ty::Ptr)];
            operands.extend(corner.map(|coordinate| (coordinate, Ty::I32)));
            operands.push((full.clone(), Ty::I32));
            self.c.asm(
                "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
                 [$0], [$1, {$2, $3, $4, $5}], [$6];",
                &operands,
            );
        }
    }
}
