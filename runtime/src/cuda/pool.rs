//! Device memory in stream order: a block that was freed on a stream is free for that stream at once, as its
//! work runs in order, and for others when the stream has got there.
//!
//! Memory is taken from the backing in large segments, which are split into blocks and merged again. Every free
//! block belongs to an order (a stream), or to none if nothing under way uses it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::memory::Backing;
use crate::{DeviceId, MemoryUsage, RuntimeError};

/// Sizes are multiples of this, and addresses if the backing's are.
const GRAIN: usize = 512;

/// Blocks up to this size share segments of their own: they would split the large ones.
const SMALL: usize = 1 << 20;

/// A large block is handed out whole if less than this would be left of it.
const LARGE_REST: usize = 256 << 10;

/// Bytes of segments for blocks up to a size; larger blocks get a segment each, in steps of [`STEP`].
const SEGMENTS: [(usize, usize); 2] = [(SMALL, 8 << 20), (16 << 20, 64 << 20)];
const STEP: usize = 2 << 20;

/// Belongs to no order.
const NOBODY: u64 = 0;

/// What orders uses of memory: a stream.
pub(super) trait Order: Send + Sync {
    /// A place in the order.
    type Mark: Send;

    /// A number of its own, not 0.
    fn id(&self) -> u64;

    /// The place after everything queued so far; none if all of that has run.
    fn mark(&self) -> Option<Self::Mark>;

    /// Whether a place has been reached.
    fn has_passed(mark: &Self::Mark) -> bool;

    /// Waits until a place has been reached.
    fn wait_for(mark: &Self::Mark);

    /// Whether everything queued so far has run.
    fn is_idle(&self) -> bool;

    /// Waits until everything queued so far has run.
    fn finish(&self);

    /// Whether everything has run and nothing more will be queued.
    fn is_closed(&self) -> bool;
}

/// A caching allocator of device memory.
pub(super) struct Pool<O: Order> {
    device: DeviceId,
    limit: usize,
    /// Whether every block is memory of its own of exactly its size.
    exact: bool,
    backing: Box<dyn Backing>,
    state: Mutex<State<O>>,
}

struct State<O: Order> {
    /// All blocks by address.
    blocks: BTreeMap<usize, Block>,
    free: BTreeSet<Free>,
    /// Freed blocks that orders other than their own still use.
    pending: VecDeque<Pending<O>>,
    /// Orders that own free blocks or may come to.
    orders: BTreeMap<u64, Arc<O>>,
    usage: MemoryUsage,
}

#[derive(Clone, Copy)]
struct Block {
    bytes: usize,
    segment: Segment,
    /// Whose free block this is, if it is free.
    free: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Segment {
    address: usize,
    bytes: usize,
    small: bool,
}

/// A free block: those of an order together, by size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    order: u64,
    small: bool,
    bytes: usize,
    address: usize,
}

struct Pending<O: Order> {
    address: usize,
    order: u64,
    marks: Vec<O::Mark>,
}

impl<O: Order> Pool<O> {
    /// An empty pool that takes at most `limit` bytes. `exact`: nothing is kept for reuse, and every block is memory
    /// of its own of exactly its size, so that tools see who leaves it.
    pub(super) fn new(device: DeviceId, backing: Box<dyn Backing>, limit: usize, exact: bool) -> Self {
        let state = State {
            blocks: BTreeMap::new(),
            free: BTreeSet::new(),
            pending: VecDeque::new(),
            orders: BTreeMap::new(),
            usage: MemoryUsage::default(),
        };
        Self { device, limit, exact, backing, state: Mutex::new(state) }
    }

    /// The device whose memory this is.
    pub(super) fn device(&self) -> DeviceId {
        self.device
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.state.lock().usage
    }

    /// Address of a block of at least `bytes` bytes, for work queued on the order from now on; without one for
    /// all uses at once.
    pub(super) fn allocate(&self, bytes: usize, order: Option<&Arc<O>>) -> Result<usize, RuntimeError> {
        let mut state = self.state.lock();
        let error = RuntimeError::OutOfMemory {
            device: self.device,
            requested: bytes,
            in_use: state.usage.in_use,
            limit: self.limit,
        };
        let grain = if self.exact { 1 } else { GRAIN };
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(grain) else { return Err(error) };
        let id = order.map_or(NOBODY, |order| order.id());
        let found = state
            .take(id, bytes)
            .or_else(|| state.collect().then(|| state.take(id, bytes)).flatten())
            .or_else(|| state.settle().then(|| state.take(id, bytes)).flatten())
            .or_else(|| state.adopt(id).then(|| state.take(id, bytes)).flatten())
            .or_else(|| self.grow(&mut state, id, bytes))
            .or_else(|| {
                state.finish();
                self.release(&mut state);
                // What was freed may have merged into something large enough.
                state.take(id, bytes).or_else(|| self.grow(&mut state, id, bytes))
            });
        let Some(address) = found else { return Err(error) };
        let taken = state.blocks[&address].bytes;
        state.usage.in_use += taken;
        state.usage.peak = state.usage.peak.max(state.usage.in_use);
        Ok(address)
    }

    /// Takes a block back for its order; `marks`: places in other orders up to which it is used.
    ///
    /// # Safety
    /// The block came from this pool and nothing queued later uses it.
    pub(super) unsafe fn give_back(&self, address: usize, order: Option<&Arc<O>>, marks: Vec<O::Mark>) {
        let mut state = self.state.lock();
        let Some(block) = state.blocks.get(&address) else { return };
        state.usage.in_use -= block.bytes;
        if self.exact {
            marks.iter().for_each(O::wait_for);
            order.into_iter().for_each(|order| order.finish());
            state.insert_free(address, NOBODY);
            return self.release(&mut state);
        }
        let order = match order.filter(|order| !order.is_closed()) {
            Some(order) => {
                state.orders.entry(order.id()).or_insert_with(|| order.clone());
                order.id()
            }
            None => NOBODY,
        };
        if marks.is_empty() {
            state.insert_free(address, order);
        } else {
            state.pending.push_back(Pending { address, order, marks });
        }
    }

    /// Forgets an order that is closed: its free blocks are anybody's.
    pub(super) fn close(&self, order: &O) {
        let mut state = self.state.lock();
        state.disown(order.id());
        state.orders.remove(&order.id());
        for pending in &mut state.pending {
            if pending.order == order.id() {
                pending.order = NOBODY;
            }
        }
    }

    /// Gives back all memory that is free once work under way is done, for which it waits.
    pub(super) fn cleanup(&self) {
        let mut state = self.state.lock();
        state.finish();
        self.release(&mut state);
    }

    /// A new segment with a block of that size in use.
    fn grow(&self, state: &mut State<O>, order: u64, bytes: usize) -> Option<usize> {
        let left = self.limit.saturating_sub(state.usage.reserved);
        let preferred = SEGMENTS.iter().find(|(largest, _)| bytes <= *largest).map(|(_, segment)| *segment);
        let exact = bytes.checked_next_multiple_of(STEP).unwrap_or(bytes);
        let sizes = if self.exact { [bytes; 3] } else { [preferred.unwrap_or(exact), exact, bytes] };
        let (address, size) = sizes
            .into_iter()
            .filter(|size| *size <= left)
            .find_map(|size| Some((self.backing.allocate(size)?.as_ptr().addr(), size)))?;
        let segment = Segment { address, bytes: size, small: bytes <= SMALL };
        state.usage.reserved += size;
        state.blocks.insert(address, Block { bytes: size, segment, free: None });
        // Nobody has used what is left of it.
        state.insert_free(address, NOBODY);
        state.take(order, bytes)
    }

    /// Gives back the segments that are wholly free and nobody's.
    fn release(&self, state: &mut State<O>) {
        let whole = |free: &Free| {
            let segment = state.blocks[&free.address].segment;
            (free.order == NOBODY && free.bytes == segment.bytes).then_some((*free, segment))
        };
        let found: Vec<_> = state.free.iter().filter_map(whole).collect();
        for (free, segment) in found {
            state.free.remove(&free);
            state.blocks.remove(&free.address);
            state.usage.reserved -= segment.bytes;
            if let Some(address) = NonNull::new(std::ptr::with_exposed_provenance_mut(segment.address)) {
                // SAFETY: the segment came from the backing with that size, all of it is free, and what
                // used it has run.
                unsafe { self.backing.release(address, segment.bytes) };
            }
        }
    }
}

impl<O: Order> Drop for Pool<O> {
    fn drop(&mut self) {
        // Every block is back: buffers hold the pool.
        self.cleanup();
    }
}

impl<O: Order> State<O> {
    /// Takes the smallest block that suits from an order's own or from nobody's.
    fn take(&mut self, order: u64, bytes: usize) -> Option<usize> {
        let small = bytes <= SMALL;
        let best = |order: u64| {
            let from = Free { order, small, bytes, address: 0 };
            let to = Free { order, small, bytes: usize::MAX, address: usize::MAX };
            self.free.range(from..=to).next().copied()
        };
        let free = best(order).or_else(|| best(NOBODY))?;
        self.free.remove(&free);
        let rest = free.bytes - bytes;
        let block = self.blocks.get_mut(&free.address)?;
        block.free = None;
        if rest >= if small { GRAIN } else { LARGE_REST } {
            block.bytes = bytes;
            let rest_of = Block { bytes: rest, segment: block.segment, free: Some(free.order) };
            let address = free.address + bytes;
            self.blocks.insert(address, rest_of);
            self.free.insert(Free { bytes: rest, address, ..free });
        }
        Some(free.address)
    }

    /// Makes a block free, merged with its neighbours of the same order.
    fn insert_free(&mut self, address: usize, order: u64) {
        self.insert_merged(address, order, |owner| owner == order);
    }

    /// Makes a block free, merged with its free neighbours of some owners.
    fn insert_merged(&mut self, address: usize, order: u64, joins: impl Fn(u64) -> bool) {
        let Some(mut block) = self.blocks.remove(&address) else { return };
        let mut start = address;
        let neighbour = |(address, other): (&usize, &Block)| {
            let owner = other.free.filter(|owner| joins(*owner) && other.segment == block.segment)?;
            Some(Free { order: owner, small: block.segment.small, bytes: other.bytes, address: *address })
        };
        let after = self.blocks.range(address..).next().and_then(neighbour);
        let before = self.blocks.range(..address).next_back().and_then(neighbour);
        for free in after.into_iter().chain(before) {
            self.blocks.remove(&free.address);
            self.free.remove(&free);
            block.bytes += free.bytes;
            start = start.min(free.address);
        }
        block.free = Some(order);
        self.free.insert(Free { order, small: block.segment.small, bytes: block.bytes, address: start });
        self.blocks.insert(start, block);
    }

    /// Merges an order's free blocks with their neighbours that are nobody's; whether there were any.
    fn adopt(&mut self, order: u64) -> bool {
        let before = self.free.len();
        let own = self.free.iter().filter(|free| free.order == order);
        let own: Vec<_> = own.copied().collect();
        for free in own {
            // It may have been merged with the one before.
            if self.free.remove(&free) {
                self.insert_merged(free.address, order, |owner| owner == order || owner == NOBODY);
            }
        }
        self.free.len() < before
    }

    /// Makes an order's free blocks anybody's.
    fn disown(&mut self, order: u64) {
        let from = Free { order, small: false, bytes: 0, address: 0 };
        while let Some(free) = self.free.range(from..).next().copied().filter(|free| free.order == order) {
            self.free.remove(&free);
            self.insert_free(free.address, NOBODY);
        }
    }

    /// Frees pending blocks whose marks have passed; whether there were any.
    fn collect(&mut self) -> bool {
        let before = self.pending.len();
        let passed: Vec<_>;
        (passed, self.pending) = std::mem::take(&mut self.pending).into_iter().fold(
            (Vec::new(), VecDeque::new()),
            |(mut passed, mut pending), mut block| {
                block.marks.retain(|mark| !O::has_passed(mark));
                match block.marks.is_empty() {
                    true => passed.push((block.address, block.order)),
                    false => pending.push_back(block),
                }
                (passed, pending)
            },
        );
        for (address, order) in passed {
            self.insert_free(address, order);
        }
        self.pending.len() < before
    }

    /// Makes the free blocks of orders with nothing under way anybody's; whether there were any.
    fn settle(&mut self) -> bool {
        let owners: BTreeSet<u64> = self.free.iter().map(|free| free.order).collect();
        let idle: Vec<u64> = owners
            .into_iter()
            .filter(|owner| self.orders.get(owner).is_some_and(|order| order.is_idle()))
            .collect();
        for order in &idle {
            self.disown(*order);
        }
        !idle.is_empty()
    }

    /// Waits for all orders, after which all free blocks are anybody's.
    fn finish(&mut self) {
        for (order, waited) in std::mem::take(&mut self.orders) {
            waited.finish();
            self.disown(order);
        }
        for pending in std::mem::take(&mut self.pending) {
            pending.marks.iter().for_each(O::wait_for);
            self.insert_free(pending.address, NOBODY);
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
