//! From a tile's sums to the result in memory.

use super::code::{Ty, typed};
use super::consumer::{Place, Rows};
use super::kernel::{Kernel, Ring, Tile, Turn};
use super::maps::{BOX_COLUMNS, MOVED};
use crate::emit::Value;
use burn_mlir_ir::AttentionOperand;

impl Kernel<'_> {
    /// Divides sums by the sums of exponentials and has the copy engine store them.
    pub fn epilogue(&mut self, place: &Place, tile: &Tile, query: &Turn, rows: &Rows, sums: &[Value]) {
        let totals = self.row_sums(rows);
        let shares = totals.each_ref().map(|total| {
            let zero = self.c.f32("0.0");
            let none = self.c.op(format_args!("arith.cmpf oeq, {total}, {zero} : f32"));
            let share = self.c.approximate("rcp", total);
            self.c.select(&none, &zero, &share, "f32")
        });
        let results: Vec<Value> =
            sums.iter().enumerate().map(|(index, sum)| self.c.fmul(sum, &shares[index / 2 % 2])).collect();
        self.store_lse(place, tile, rows, &totals);

        let (own, first) = (place.own.clone(), place.first.clone());
        let barrier = |kernel: &mut Self| kernel.c.asm("bar.sync $0, 128;", &[(own.clone(), Ty::I32)]);
        let (staging, apart) = if self.tiling.output_in_query {
            // Every warp's last read of the queries is over.
            let mine = self.c.with("muli", &place.consumer, 8192);
            let stage = self.c.with("muli", &query.stage, self.tiling.query_bytes() as i64);
            let at = self.c.add(&mine, &stage);
            (self.c.add(&self.memory, &at), self.tiling.queries() * 128)
        } else {
            self.c.when(&first, |c| c.asm("cp.async.bulk.wait_group.read 0;", &[]));
            let bytes = 128 * self.tiling.value_width;
            let mine = self.c.with("muli", &place.consumer, bytes as i64);
            let at = self.c.with("addi", &mine, self.tiling.output_offset() as i64);
            (self.c.add(&self.memory, &at), 8192)
        };
        barrier(self);
        self.stage(place, &staging, apart, &results);
        self.c.asm("fence.proxy.async.shared::cta;", &[]);
        barrier(self);

        self.c.e().open(format_args!("scf.if {first} {{"));
        let map = MOVED.iter().position(|&other| other == AttentionOperand::Output).unwrap_or_default();
        let mine = self.c.with("muli", &place.consumer, 64);
        let row = self.c.add(&tile.row, &mine);
        for part in 0..self.tiling.value_width / BOX_COLUMNS {
            let at = self.c.with("addi", &staging, (part * apart) as i64);
            let corner = self.corner(AttentionOperand::Output, part * BOX_COLUMNS, &row, tile);
            let mut operands = vec![(format!("%map{map}"), Ty::Ptr)];
            operands.extend(corner.map(|coordinate| (coordinate, Ty::I32)));
            operands.push((at, Ty::I32));
            self.c.asm(
                "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [$0, {$1, $2, $3, $4}], [$5];",
                &operands,
            );
        }
        self.c.asm("cp.async.bulk.commit_group;", &[]);
        if self.tiling.output_in_query {
            self.c.asm("cp.async.bulk.wait_group.read 0;", &[]);
            let empty = self.barrier(Ring::Query, false, &query.stage);
            self.c.asm("mbarrier.arrive.shared::cta.b64 _, [$0];", &[(empty, Ty::I32)]);
        }
        self.c.e().close("}");
    }

    /// Writes a warpgroup's results to memory of the block, as the copy engine expects them: in 64-column
    /// parts `apart` bytes from each other, their 16-byte pieces permuted within 128-byte rows.
    fn stage(&mut self, place: &Place, staging: &Value, apart: usize, results: &[Value]) {
        let c = &mut self.c;
        let low = c.with("andi", &place.lane, 7);
        let half = c.with("andi", &place.lane, 15);
        let warp = c.with("shrui", &place.thread, 5);
        let warp = c.with("muli", &warp, 16);
        let row = c.add(&half, &warp);
        let row = c.with("muli", &row, 128);
        let row = c.add(staging, &row);
        let piece = c.with("shrui", &place.lane, 4);
        for group in 0..self.tiling.columns / 16 {
            let (part, quarter) = (group / 4, group % 4);
            let piece = self.c.with("addi", &piece, 2 * quarter as i64);
            let piece = self.c.bin("xori", &piece, &low);
            let piece = self.c.with("muli", &piece, 16);
            let at = self.c.add(&row, &piece);
            let at = self.c.with("addi", &at, (part * apart) as i64);
            let mine = &results[8 * group..8 * group + 8];
            let pairs: Vec<Value> = mine.chunks_exact(2).map(|pair| self.pair(&pair[0], &pair[1])).collect();
            let mut operands = vec![(at, Ty::I32)];
            operands.extend(typed(&pairs, Ty::I32));
            self.c.asm("stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", &operands);
        }
    }

    /// Stores the logarithms of the sums of exponentials, if they are wanted.
    fn store_lse(&mut self, place: &Place, tile: &Tile, rows: &Rows, totals: &[Value; 2]) {
        let operand = AttentionOperand::Lse;
        let (Some(view), Some(position)) = (self.attention.view(operand), self.attention.position(operand))
        else {
            return;
        };
        let quad = self.c.with("andi", &place.lane, 3);
        let writes = self.c.cmp_with("eq", &quad, 0);
        self.c.e().open(format_args!("scf.if {writes} {{"));
        for (index, below) in [0, 8].into_iter().enumerate() {
            let row = self.c.with("addi", &place.row, below);
            let row = self.c.add(&tile.row, &row);
            let logarithm = self.c.approximate("lg2", &totals[index]);
            let logarithm = self.c.fma(&rows.max[index], &place.factor, &logarithm);
            let ln_2 = self.c.f32("0x3F317218");
            let logarithm = self.c.fmul(&logarithm, &ln_2);
            let inside = self.c.cmp_with("ult", &row, self.attention.sizes.queries as i64);
            self.c.e().open(format_args!("scf.if {inside} {{"));
            let at = [&tile.batch, &tile.head, &row].map(|coordinate| self.c.indexed(coordinate));
            self.c.writer.store(position, "f32", &view.access, &at, &logarithm);
            self.c.e().close("}");
        }
        self.c.e().close("}");
    }
}
