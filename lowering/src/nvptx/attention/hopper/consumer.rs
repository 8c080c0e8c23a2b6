//! The warpgroups that compute: a loop over tiles, and in each over the blocks of keys, newest first.
//!
//! While the tensor cores work on a block's scores and on the sum with the block before, the softmax of the
//! block before that runs. Everything carried around loops is a scalar. The order of waits, fences and
//! matrix instructions is one that the assembler does not serialise; see the comments.

use super::code::{Region, Ty, Typed, typed};
use super::kernel::{Kernel, Ring, Tile, Turn};
use crate::emit::Value;

/// What a softmax leaves behind of the rows of a thread: for each of two the largest score, and the sum of
/// exponentials over the thread's columns.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub max: [Value; 2],
    pub sum: [Value; 2],
}

/// The state of a tile between two blocks of keys.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub key: Turn,
    pub value: Turn,
    pub rows: Rows,
    /// Factors that the sums are still to be multiplied with.
    pub pending: Option<[Value; 2]>,
    /// Exponentials of the last block's scores, in pairs of 16 bits.
    pub weights: Vec<Value>,
    /// Sums of values.
    pub sums: Vec<Value>,
}

impl State {
    fn pack(&self) -> Vec<Typed> {
        let turns = [&self.key.stage, &self.key.phase, &self.value.stage, &self.value.phase];
        let rows = self.rows.max.iter().chain(&self.rows.sum).chain(self.pending.iter().flatten());
        let turns = turns.into_iter().map(|value| (value.clone(), Ty::I32));
        let mut all: Vec<Typed> = turns.chain(rows.map(|value| (value.clone(), Ty::F32))).collect();
        all.extend(typed(&self.weights, Ty::I32));
        all.extend(typed(&self.sums, Ty::F32));
        all
    }

    /// The same state with other values, as packed.
    fn unpack(&self, values: &[Value]) -> Self {
        let mut rest = values.iter().cloned();
        let mut next = || rest.next().unwrap_or_default();
        let key = Turn { stage: next(), phase: next() };
        let value = Turn { stage: next(), phase: next() };
        let rows = Rows { max: [next(), next()], sum: [next(), next()] };
        let pending = self.pending.as_ref().map(|_| [next(), next()]);
        let weights = self.weights.iter().map(|_| next()).collect();
        let sums = self.sums.iter().map(|_| next()).collect();
        Self { key, value, rows, pending, weights, sums }
    }
}

/// Where a thread is in its warpgroup, and what it uses all the time.
pub(super) struct Place {
    /// Number of the consumer, from 0.
    pub consumer: Value,
    /// Position in the warpgroup.
    pub thread: Value,
    /// Position in the warp.
    pub lane: Value,
    /// Whether this is the first thread of the warpgroup.
    pub first: Value,
    /// First of the thread's two rows in the tile; the other is 8 below.
    pub row: Value,
    /// First of the thread's columns in a block of keys.
    pub column: Value,
    /// Barrier that says that this consumer may use the tensor cores, and that of the next one.
    turns: [Value; 2],
    /// Barrier of the warpgroup's own threads.
    pub own: Value,
    /// Descriptors of the first buffers of queries, keys and values.
    pub queries: Value,
    pub keys: Value,
    pub values: Value,
    /// What scores are multiplied with to be exponents of 2.
    pub factor: Value,
    /// Its negative.
    pub negative: Value,
}

impl Kernel<'_> {
    /// Code of a computing warpgroup, `warpgroup` of the block.
    pub fn consume(&mut self, warpgroup: &Value) {
        self.c.line(format_args!("nvvm.setmaxregister increase {}", self.tiling.registers()));
        let place = self.place(warpgroup);
        if self.takes_turns() {
            // The last consumer lets the first one begin.
            let last = self.c.cmp_with("eq", &place.consumer, self.tiling.consumers as i64 - 1);
            let next = place.turns[1].clone();
            self.c.when(&last, |c| c.asm("bar.arrive $0, 256;", &[(next, Ty::I32)]));
        }
        if self.tiling.cross_tile {
            self.chained_tiles(&place)
        } else {
            self.separate_tiles(&place)
        }
        self.c.when(&place.first, |c| c.asm("cp.async.bulk.wait_group 0;", &[]));
    }

    fn takes_turns(&self) -> bool {
        self.tiling.ping_pong && self.tiling.consumers > 1
    }

    fn place(&mut self, warpgroup: &Value) -> Place {
        let all = self.thread.clone();
        let consumers = self.tiling.consumers as i64;
        let c = &mut self.c;
        let consumer = c.with("subi", warpgroup, 1);
        let thread = c.with("andi", &all, 127);
        let lane = c.with("andi", &all, 31);
        let warp = c.with("shrui", &thread, 5);
        let first = c.cmp_with("eq", &thread, 0);
        let next = c.with("addi", &consumer, 1);
        let wraps = c.cmp_with("eq", &next, consumers);
        let next = c.select(&wraps, &self.zero, &next, "i32");
        let turns = [c.with("addi", &consumer, 1), c.with("addi", &next, 1)];
        let own = c.with("addi", &consumer, 1 + consumers);
        let quad = c.with("andi", &lane, 3);
        let column = c.with("muli", &quad, 2);
        let in_warp = c.with("shrui", &lane, 2);
        let in_group = c.with("muli", &warp, 16);
        let in_tile = c.with("muli", &consumer, 64);
        let row = c.add(&in_group, &in_warp);
        let row = c.add(&in_tile, &row);
        let mine = c.with("muli", &consumer, 8192);
        let queries = c.add(&self.memory, &mine);
        let queries = self.descriptor(&queries, 1);
        let keys = self.c.with("addi", &self.memory, self.tiling.key_offset() as i64);
        let keys = self.descriptor(&keys, 1);
        let values = self.c.with("addi", &self.memory, self.tiling.value_offset() as i64);
        let values = self.descriptor(&values, 8 * self.tiling.keys as i64);
        let factor = self.factor();
        let negative = self.c.op(format_args!("arith.negf {factor} : f32"));
        Place {
            consumer,
            thread,
            lane,
            first,
            row,
            column,
            turns,
            own,
            queries,
            keys,
            values,
            factor,
            negative,
        }
    }

    /// Says that this warpgroup is done with a buffer.
    fn release(&mut self, place: &Place, ring: Ring, stage: &Value) {
        let barrier = self.barrier(ring, false, stage);
        // Predicated, no branch: behind a branch that not all threads take, the assembler no longer takes stages
        // for uniform, and moves every descriptor to uniform registers before its matrix instruction.
        let text = "{ .reg .pred p; setp.eq.u32 p, $1, 0; @p mbarrier.arrive.shared::cta.b64 _, [$0]; }";
        self.c.asm(text, &[(barrier, Ty::I32), (place.thread.clone(), Ty::I32)]);
    }

    fn rescale(&mut self, sums: &[Value], factors: &[Value; 2]) -> Vec<Value> {
        sums.iter().enumerate().map(|(index, sum)| self.c.fmul(sum, &factors[index / 2 % 2])).collect()
    }

    /// The scores of a block and the sum with the block before; then the softmax of these scores. `fresh`:
    /// the scores begin another tile, whose queries are `queries`.
    fn step(
        &mut self,
        place: &Place,
        queries: &Value,
        mut state: State,
        block: Option<(&Tile, Value)>,
        fresh: bool,
    ) -> State {
        let key = state.key.clone();
        self.wait(Ring::Key, true, &key);
        if self.takes_turns() {
            self.c.asm("bar.sync $0, 256;", &[(place.turns[0].clone(), Ty::I32)]);
        }
        let scores;
        if let Some(pending) = state.pending.clone() {
            self.c.asm("wgmma.fence.sync.aligned;", &[]);
            scores = self.start_scores(place, queries, &key);
            state.sums = self.rescale(&state.sums, &pending);
            self.wait(Ring::Value, true, &state.value.clone());
            self.fence(&mut state);
        } else {
            self.fence(&mut state);
            scores = self.start_scores(place, queries, &key);
            self.wait(Ring::Value, true, &state.value.clone());
            // Once more behind the wait, which is a loop: else matrix instructions are serialised.
            self.c.asm("wgmma.fence.sync.aligned;", &[]);
        }
        self.start_sums(place, &mut state);
        if self.takes_turns() {
            self.c.asm("bar.arrive $0, 256;", &[(place.turns[1].clone(), Ty::I32)]);
        }
        let scores = self.settle(1, &scores);
        self.release(place, Ring::Key, &key.stage);
        let before = (!fresh).then(|| state.rows.clone());
        let (weights, rows, factors) = self.softmax(place, scores, block, before.as_ref());
        // The weights are packed behind the wait: into registers that the sum before still reads.
        let all: Vec<Value> = state.sums.iter().chain(&weights).cloned().collect();
        let mut all = self.settle(0, &all);
        let weights = all.split_off(state.sums.len());
        state.sums = all;
        self.release(place, Ring::Value, &state.value.stage.clone());
        state.weights = self.packed(&weights);
        state.rows = rows;
        match factors {
            Some(factors) if state.pending.is_some() => state.pending = Some(factors),
            Some(factors) => state.sums = self.rescale(&state.sums, &factors),
            None => {}
        }
        // The sums with this block's values come next.
        state.value = key.clone();
        state.key = self.advance(Ring::Key, &key);
        state
    }

    /// The scores of the first block of a tile, with nothing under way.
    fn first(&mut self, place: &Place, queries: &Value, key: &Turn, tile: &Tile) -> State {
        self.wait(Ring::Key, true, key);
        self.c.asm("wgmma.fence.sync.aligned;", &[]);
        let scores = self.start_scores(place, queries, key);
        let scores = self.settle(0, &scores);
        self.release(place, Ring::Key, &key.stage);
        let newest = self.c.with("subi", &tile.blocks, 1);
        let block = self.edits_first().then_some((tile, newest));
        let (weights, rows, _) = self.softmax(place, scores, block, None);
        let weights = self.packed(&weights);
        let next = self.advance(Ring::Key, key);
        State { key: next, value: key.clone(), rows, pending: None, weights, sums: Vec::new() }
    }

    /// All blocks of a tile but the first, which `state` is of.
    fn blocks(&mut self, place: &Place, queries: &Value, tile: &Tile, mut state: State) -> State {
        let [_, count] = self.tiling.accumulators();
        let (zero, one) = (self.c.f32("0.0"), self.c.f32("1.0"));
        state.sums = vec![zero; count];
        state.pending = self.tiling.late_rescale.then(|| [one.clone(), one]);
        let newest = self.c.with("subi", &tile.blocks, 1);
        let mut from = self.one.clone();
        if self.edits_more() {
            // Blocks that some query of the tile sees only in part.
            let whole = self.c.with("addi", &tile.row, self.ahead() + 1);
            let whole = self.c.with("maxsi", &whole, 0);
            let whole = self.c.with("divui", &whole, self.tiling.keys as i64);
            let partial = self.c.sub(&tile.blocks, &whole);
            let partial = self.c.with("maxsi", &partial, 1);
            state = self.block_loop(place, queries, [&from, &partial], state, Some((tile, &newest)));
            from = partial;
        }
        let edits = self.edits_all().then_some((tile, &newest));
        state = self.block_loop(place, queries, [&from, &tile.blocks], state, edits);
        if let Some(pending) = state.pending.take() {
            state.sums = self.rescale(&state.sums, &pending);
        }
        state
    }

    fn block_loop(
        &mut self,
        place: &Place,
        queries: &Value,
        [from, to]: [&Value; 2],
        state: State,
        edits: Option<(&Tile, &Value)>,
    ) -> State {
        let (region, variable, carried) = self.c.open_for(from, to, &state.pack());
        let inner = state.unpack(&carried);
        let block = edits.map(|(tile, newest)| (tile, self.c.sub(newest, &variable)));
        let next = self.step(place, queries, inner, block, false);
        let values: Vec<Value> = next.pack().into_iter().map(|value| value.0).collect();
        let results = self.c.close(region, &values);
        state.unpack(&results)
    }

    /// Adds the last block's share to the sums.
    fn last_sums(&mut self, place: &Place, mut state: State) -> State {
        self.wait(Ring::Value, true, &state.value.clone());
        self.fence(&mut state);
        self.start_sums(place, &mut state);
        state.sums = self.settle(0, &state.sums.clone());
        self.release(place, Ring::Value, &state.value.stage.clone());
        state
    }

    /// Waits for queries and reads which tile they are of; -1 if there are no more.
    fn announced(&mut self, query: &Turn) -> Value {
        self.wait(Ring::Query, true, query);
        let slot = self.slot(&query.stage);
        let number =
            self.c.asm_results("ld.shared.b32 $0, [$1];", &[Ty::I32], &[(slot, Ty::I32)]).swap_remove(0);
        self.c.shuffle("idx", &number, 0, Ty::I32)
    }

    fn queries(&mut self, place: &Place, query: &Turn) -> Value {
        if self.tiling.query_buffers() == 1 {
            return place.queries.clone();
        }
        self.staged(&place.queries, &query.stage, self.tiling.query_bytes())
    }

    /// One tile after the other.
    fn separate_tiles(&mut self, place: &Place) {
        let zero = self.zero.clone();
        let start = Turn { stage: zero.clone(), phase: zero.clone() };
        let number = self.announced(&start);
        let initial: Vec<Typed> = [&number, &zero, &zero, &zero, &zero].map(|v| (v.clone(), Ty::I32)).into();
        let (region, carried) = self.c.open_while(&initial, |c, carried| c.cmp_with("sge", &carried[0], 0));
        let query = Turn { stage: carried[1].clone(), phase: carried[2].clone() };
        let key = Turn { stage: carried[3].clone(), phase: carried[4].clone() };
        let tile = self.tile(&carried[0]);
        let queries = self.queries(place, &query);
        let state = self.first(place, &queries, &key, &tile);
        let state = self.blocks(place, &queries, &tile, state);
        if !self.tiling.output_in_query {
            self.release(place, Ring::Query, &query.stage);
        }
        let next_key = state.key.clone();
        let rows = state.rows.clone();
        let state = self.last_sums(place, state);
        self.epilogue(place, &tile, &query, &rows, &state.sums);
        let next = self.advance(Ring::Query, &query);
        let number = self.announced(&next);
        self.c.close(region, &[number, next.stage, next.phase, next_key.stage, next_key.phase]);
    }

    /// One tile after the other, the first scores of each together with the last sum of the one before.
    fn chained_tiles(&mut self, place: &Place) {
        let zero = self.zero.clone();
        let start = Turn { stage: zero.clone(), phase: zero.clone() };
        let number = self.announced(&start);
        let tile = self.tile(&number);
        let queries = self.queries(place, &start);
        let state = self.first(place, &queries, &start, &tile);
        let mut initial: Vec<Typed> = [&number, &zero, &zero].map(|v| (v.clone(), Ty::I32)).into();
        initial.extend(state.pack());
        let (region, carried) = self.c.open_while(&initial, |c, carried| c.cmp_with("sge", &carried[0], 0));
        let query = Turn { stage: carried[1].clone(), phase: carried[2].clone() };
        let tile = self.tile(&carried[0]);
        let queries = self.queries(place, &query);
        let state = self.blocks(place, &queries, &tile, state.unpack(&carried[3..]));
        self.release(place, Ring::Query, &query.stage);
        let next_query = self.advance(Ring::Query, &query);
        let number = self.announced(&next_query);
        let rows = state.rows.clone();

        let another = self.c.cmp_with("sge", &number, 0);
        let types: Vec<Ty> = state.pack().iter().map(|value| value.1).collect();
        let region_if: Region = self.c.open_if(&another, types);
        let next_tile = self.tile(&number);
        let next_queries = self.queries(place, &next_query);
        let newest = self.c.with("subi", &next_tile.blocks, 1);
        let block = self.edits_first().then_some((&next_tile, newest));
        let one = self.c.f32("1.0");
        let pending = self.tiling.late_rescale.then(|| [one.clone(), one]);
        let mut next = self.step(place, &next_queries, State { pending, ..state.clone() }, block, true);
        next.pending = None;
        let values: Vec<Value> = next.pack().into_iter().map(|value| value.0).collect();
        self.c.otherwise(&region_if, &values);
        let last = self.last_sums(place, state.clone());
        let values: Vec<Value> = last.pack().into_iter().map(|value| value.0).collect();
        let results = self.c.close(region_if, &values);
        let mut state = state.unpack(&results);
        let sums = std::mem::take(&mut state.sums);
        self.epilogue(place, &tile, &query, &rows, &sums);
        let mut values = vec![number, next_query.stage, next_query.phase];
        values.extend(state.pack().into_iter().map(|value| value.0));
        self.c.close(region, &values);
    }
}
