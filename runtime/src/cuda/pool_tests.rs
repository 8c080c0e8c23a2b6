//! The pool over memory that is none and streams that are numbers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use proptest::prelude::*;

use super::*;

/// A stream that counts the work queued and done.
#[derive(Default)]
struct Queue {
    id: u64,
    queued: AtomicU64,
    done: Arc<AtomicU64>,
    closed: std::sync::atomic::AtomicBool,
}

struct Mark {
    place: u64,
    done: Arc<AtomicU64>,
}

impl Queue {
    fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, ..Self::default() })
    }

    fn work(&self) {
        self.queued.fetch_add(1, SeqCst);
    }
}

impl Order for Queue {
    type Mark = Mark;

    fn id(&self) -> u64 {
        self.id
    }

    fn mark(&self) -> Option<Mark> {
        Some(Mark { place: self.queued.load(SeqCst), done: self.done.clone() })
    }

    fn has_passed(mark: &Mark) -> bool {
        mark.done.load(SeqCst) >= mark.place
    }

    fn wait_for(mark: &Mark) {
        mark.done.fetch_max(mark.place, SeqCst);
    }

    fn is_idle(&self) -> bool {
        self.done.load(SeqCst) >= self.queued.load(SeqCst)
    }

    fn finish(&self) {
        self.done.store(self.queued.load(SeqCst), SeqCst);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }
}

/// Addresses without memory behind them.
#[derive(Debug)]
struct Addresses {
    next: AtomicUsize,
    left: AtomicUsize,
}

// SAFETY: nobody accesses the blocks.
unsafe impl Backing for Addresses {
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(bytes)).ok()?;
        let address = self.next.fetch_add(bytes.next_multiple_of(STEP), SeqCst);
        NonNull::new(std::ptr::without_provenance_mut(address))
    }

    unsafe fn release(&self, _: NonNull<u8>, bytes: usize) {
        self.left.fetch_add(bytes, SeqCst);
    }
}

fn pool(memory: usize) -> Pool<Queue> {
    let addresses = Addresses { next: AtomicUsize::new(1 << 40), left: AtomicUsize::new(memory) };
    Pool::new(DeviceId::Cuda(0), Box::new(addresses), usize::MAX, false)
}

/// Gives a block back whose other users are those streams.
fn give_back(pool: &Pool<Queue>, address: usize, home: Option<&Arc<Queue>>, users: &[&Arc<Queue>]) {
    let marks = users.iter().filter_map(|user| Order::mark(&***user)).collect();
    // SAFETY: there is no memory.
    unsafe { pool.give_back(address, home, marks) };
}

#[test]
fn a_stream_gets_its_block_back_at_once_and_another_when_it_is_done() {
    for bytes in [100, 5000, 3 << 20, 100 << 20] {
        let (pool, first, second) = (pool(1 << 30), Queue::new(1), Queue::new(2));
        let block = pool.allocate(bytes, Some(&first)).unwrap();
        first.work();
        give_back(&pool, block, Some(&first), &[]);
        assert_ne!(pool.allocate(bytes, Some(&second)).unwrap(), block);
        assert_eq!(pool.allocate(bytes, Some(&first)).unwrap(), block);
        give_back(&pool, block, Some(&first), &[]);
        first.finish();
        // Once there is no other memory left.
        assert!((0..20_000).any(|_| pool.allocate(bytes, Some(&second)).unwrap() == block));
    }
}

#[test]
fn an_owner_takes_its_free_neighbourhood_before_new_memory() {
    let (pool, first) = (pool(64 << 20), Queue::new(1));
    // A segment of 64 MiB, of which a busy stream owns 2 MiB and nobody the rest.
    let block = pool.allocate(2 << 20, Some(&first)).unwrap();
    first.work();
    give_back(&pool, block, Some(&first), &[]);
    assert_eq!(pool.allocate(63 << 20, Some(&first)).unwrap(), block);
    assert!(!first.is_idle());
}

#[test]
fn a_block_used_elsewhere_waits_for_that_stream() {
    let (pool, first, second) = (pool(1 << 30), Queue::new(1), Queue::new(2));
    let block = pool.allocate(4096, Some(&first)).unwrap();
    first.work();
    second.work();
    give_back(&pool, block, Some(&first), &[&second]);
    let other = pool.allocate(4096, Some(&first)).unwrap();
    assert_ne!(other, block);
    second.finish();
    // Whoever needs memory next looks.
    let third = pool.allocate(8 << 20, Some(&first)).unwrap();
    give_back(&pool, other, Some(&first), &[]);
    give_back(&pool, third, Some(&first), &[]);
    let again: Vec<_> = (0..2).map(|_| pool.allocate(4096, Some(&first)).unwrap()).collect();
    assert!(again.contains(&block) && again.contains(&other));
}

#[test]
fn the_blocks_of_a_closed_stream_are_anybodys() {
    let (pool, first, second) = (pool(1 << 30), Queue::new(1), Queue::new(2));
    let (block, late) = (pool.allocate(1 << 20, Some(&first)), pool.allocate(1 << 20, Some(&first)));
    first.work();
    give_back(&pool, block.clone().unwrap(), Some(&first), &[]);
    first.finish();
    first.closed.store(true, SeqCst);
    pool.close(&first);
    assert_eq!(pool.allocate(1 << 20, Some(&second)), block);
    give_back(&pool, late.clone().unwrap(), Some(&first), &[]);
    assert_eq!(pool.allocate(1 << 20, Some(&second)), late);
}

#[test]
fn short_memory_is_waited_for_and_given_back() {
    let (pool, first) = (pool(64 << 20), Queue::new(1));
    let second = Queue::new(2);
    // Takes a segment for small blocks and one for large ones.
    let blocks = [1000, 30 << 20].map(|bytes| pool.allocate(bytes, Some(&first)).unwrap());
    first.work();
    for block in blocks {
        give_back(&pool, block, Some(&first), &[]);
    }
    assert!(!first.is_idle());
    let large = pool.allocate(60 << 20, Some(&second)).unwrap();
    assert!(first.is_idle());
    let usage = pool.usage();
    assert_eq!((usage.in_use, usage.reserved), (60 << 20, 60 << 20));
    let error = pool.allocate(60 << 20, Some(&second)).unwrap_err();
    assert!(matches!(error, RuntimeError::OutOfMemory { requested: 0x3c0_0000, in_use: 0x3c0_0000, .. }));
    assert!(pool.allocate(usize::MAX, None).is_err() && pool.allocate(isize::MAX as usize, None).is_err());
    give_back(&pool, large, Some(&second), &[]);
    pool.cleanup();
    let usage = pool.usage();
    assert_eq!((usage.in_use, usage.reserved, usage.peak), (0, 0, 60 << 20));
}

#[test]
fn the_limit_counts_segments() {
    let addresses = Addresses { next: AtomicUsize::new(1 << 40), left: AtomicUsize::new(usize::MAX) };
    let pool: Pool<Queue> = Pool::new(DeviceId::Cuda(0), Box::new(addresses), 1 << 20, false);
    let block = pool.allocate(1 << 20, None).unwrap();
    assert!(pool.allocate(1, None).is_err());
    give_back(&pool, block, None, &[]);
    let few: Vec<_> = (0..4).map(|_| pool.allocate(256 << 10, None).unwrap()).collect();
    assert!(pool.allocate(1, None).is_err());
    for block in few {
        give_back(&pool, block, None, &[]);
    }
    pool.allocate(1 << 20, None).unwrap();
}

#[test]
fn exact_memory_is_of_its_own_and_goes_back_at_once() {
    let addresses = Addresses { next: AtomicUsize::new(1 << 40), left: AtomicUsize::new(1000) };
    let pool = Pool::new(DeviceId::Cuda(0), Box::new(addresses), usize::MAX, true);
    let (first, second) = (Queue::new(1), Queue::new(2));
    let blocks = [100, 899, 1].map(|bytes| pool.allocate(bytes, Some(&first)).unwrap());
    assert!(pool.allocate(1, Some(&first)).is_err());
    first.work();
    second.work();
    give_back(&pool, blocks[1], Some(&first), &[&second]);
    assert!(first.is_idle() && second.is_idle());
    let usage = pool.usage();
    assert_eq!((usage.in_use, usage.reserved), (101, 101));
    assert_ne!(pool.allocate(899, Some(&first)).unwrap(), blocks[1]);
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { bytes: usize, stream: usize },
    Free { which: prop::sample::Index, user: Option<usize> },
    Work { stream: usize },
    Finish { stream: usize },
    Cleanup,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes =
        (0_u32..26, 0.5_f64..1.5).prop_map(|(log2, factor)| ((1_usize << log2) as f64 * factor) as usize);
    prop_oneof![
        6 => (bytes, 0_usize..4).prop_map(|(bytes, stream)| Step::Allocate { bytes, stream }),
        6 => (any::<prop::sample::Index>(), prop::option::of(0_usize..3))
            .prop_map(|(which, user)| Step::Free { which, user }),
        4 => (0_usize..3).prop_map(|stream| Step::Work { stream }),
        2 => (0_usize..3).prop_map(|stream| Step::Finish { stream }),
        1 => Just(Step::Cleanup),
    ]
}

/// A freed range, the streams that may use it still, with the place up to which, and its home.
struct Freed {
    range: std::ops::Range<usize>,
    home: usize,
    home_place: u64,
    user: Option<(usize, u64)>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Living blocks never overlap, and no block is handed out while a stream may use it that is not waited for.
    #[test]
    fn no_block_is_used_twice_at_a_time(steps in prop::collection::vec(step(), 1..200)) {
        let pool = pool(1 << 30);
        let streams: Vec<_> = (1..4).map(Queue::new).collect();
        let home = |stream: usize| streams.get(stream);
        let mut living: Vec<(usize, usize, usize)> = Vec::new();
        let mut freed: Vec<Freed> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate { bytes, stream } => {
                    let Ok(address) = pool.allocate(bytes, home(stream)) else { continue };
                    let range = address..address + bytes.max(1);
                    prop_assert_eq!(address % GRAIN, 0);
                    for (other, size, _) in &living {
                        prop_assert!(range.end <= *other || other + size.max(&1) <= range.start);
                    }
                    for old in freed.iter().filter(|old| old.range.start < range.end && range.start < old.range.end) {
                        let done = |stream: usize, place: u64| {
                            streams.get(stream).is_none_or(|queue| queue.done.load(SeqCst) >= place)
                        };
                        prop_assert!(old.home == stream || done(old.home, old.home_place));
                        if let Some((user, place)) = old.user {
                            prop_assert!(done(user, place));
                        }
                    }
                    living.push((address, bytes, stream));
                }
                Step::Free { which, user } if !living.is_empty() => {
                    let (address, bytes, stream) = living.swap_remove(which.index(living.len()));
                    let queued = |stream: usize| streams.get(stream).map_or(0, |queue| queue.queued.load(SeqCst));
                    freed.push(Freed {
                        range: address..address + bytes.max(1),
                        home: stream,
                        home_place: queued(stream),
                        user: user.map(|user| (user, queued(user))),
                    });
                    let users: Vec<_> = user.iter().map(|user| &streams[*user]).collect();
                    give_back(&pool, address, home(stream), &users);
                }
                Step::Free { .. } => {}
                Step::Work { stream } => streams[stream].work(),
                Step::Finish { stream } => streams[stream].finish(),
                Step::Cleanup => {
                    pool.cleanup();
                    freed.clear();
                }
            }
            let usage = pool.usage();
            let wanted: usize = living.iter().map(|(_, bytes, _)| *bytes).sum();
            prop_assert!(wanted <= usage.in_use && usage.in_use <= usage.reserved);
        }
        for (address, _, stream) in living {
            give_back(&pool, address, home(stream), &[]);
        }
        pool.cleanup();
        let usage = pool.usage();
        prop_assert_eq!((usage.in_use, usage.reserved), (0, 0));
    }
}
