//! Launches, and batches of them.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::{Buffer, DeviceId, Kernel, RuntimeError};

/// One kernel with its arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What to run.
    pub kernel: Kernel,
    /// For each parameter a buffer and the distance in bytes from its start.
    pub buffers: SmallVec<[(Buffer, usize); 4]>,
    /// For each scalar its bits in the low bytes.
    pub scalars: SmallVec<[u64; 4]>,
}

/// Launches that run in order as one item of a stream's queue: a whole plan.
///
/// Every buffer is bound once and named by its slot from then on, as a plan names its buffers.
#[derive(Debug, Default)]
pub struct Batch {
    lists: Lists,
    bytes: usize,
}

/// What a batch consists of.
#[derive(Debug, Default)]
struct Lists {
    buffers: Vec<Buffer>,
    addresses: Vec<Address>,
    scalars: Vec<u64>,
    launches: Vec<Entry>,
}

/// The longest lists that are kept for the next batch.
const KEPT: usize = 1 << 12;

thread_local! {
    /// The room of the last batch that ended on this thread: a small batch takes less time than its lists.
    static SPARE: Cell<Lists> = const {
        Cell::new(Lists { buffers: Vec::new(), addresses: Vec::new(), scalars: Vec::new(), launches: Vec::new() })
    };
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut lists = std::mem::take(&mut self.lists);
        lists.buffers.clear();
        lists.launches.clear();
        if lists.addresses.capacity().max(lists.scalars.capacity()) <= KEPT {
            lists.addresses.clear();
            lists.scalars.clear();
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(lists));
        }
    }
}

/// A buffer bound to a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u32);

/// An argument's address, laid out as kernels take them.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Address(*mut u8);

// SAFETY: only an address; the batch keeps the buffer behind it alive.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// The address as a number.
    pub(crate) fn get(self) -> usize {
        self.0.expose_provenance()
    }
}

#[derive(Debug)]
struct Entry {
    kernel: Kernel,
    addresses: u32,
    scalars: u32,
}

/// A launch of a batch, ready to run.
pub(crate) struct Ready<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) addresses: &'a [Address],
    pub(crate) scalars: &'a [u64],
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for that many buffers, launches, and arguments of all launches.
    pub fn with_capacity(buffers: usize, launches: usize, arguments: usize) -> Self {
        let mut lists = SPARE.try_with(Cell::take).unwrap_or_default();
        lists.buffers.reserve(buffers);
        lists.addresses.reserve(arguments);
        lists.launches.reserve(launches);
        Self { lists, bytes: 0 }
    }

    /// Makes a buffer available to launches and keeps it alive until the batch has run.
    pub fn bind(&mut self, buffer: Buffer) -> Slot {
        self.bytes = self.bytes.saturating_add(buffer.bytes());
        self.lists.buffers.push(buffer);
        Slot(self.lists.buffers.len() as u32 - 1)
    }

    /// Adds a launch: for each parameter a slot and a distance in bytes, for each scalar its bits.
    ///
    /// A slot of another batch is an error or names another buffer.
    ///
    /// # Safety
    /// The kernel takes these arguments and stays within the buffers. While it runs, nothing else
    /// accesses what it writes or writes what it reads: other streams are ordered by events.
    pub unsafe fn launch(
        &mut self,
        kernel: impl Into<Kernel>,
        arguments: impl IntoIterator<Item = (Slot, usize)>,
        scalars: impl IntoIterator<Item = u64>,
    ) -> Result<(), RuntimeError> {
        let (addresses, first_scalar) = (self.lists.addresses.len(), self.lists.scalars.len());
        for (slot, offset) in arguments {
            match self.address(slot, offset) {
                Ok(address) => self.lists.addresses.push(address),
                Err(error) => {
                    self.lists.addresses.truncate(addresses);
                    return Err(error);
                }
            }
        }
        self.lists.scalars.extend(scalars);
        self.lists.launches.push(Entry {
            kernel: kernel.into(),
            addresses: addresses as u32,
            scalars: first_scalar as u32,
        });
        Ok(())
    }

    /// Number of launches.
    pub fn len(&self) -> usize {
        self.lists.launches.len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.lists.launches.is_empty()
    }

    /// Bytes of all bound buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bound buffers.
    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.lists.buffers
    }

    /// Checks that all buffers and kernels are for one device.
    pub(crate) fn check_device(&self, expected: DeviceId) -> Result<(), RuntimeError> {
        if let Some(found) = self.lists.buffers.iter().map(Buffer::device).find(|found| *found != expected) {
            return Err(RuntimeError::WrongDevice { expected, found });
        }
        match self.lists.launches.iter().map(|entry| &entry.kernel).find(|kernel| !kernel.is_for(expected)) {
            None => Ok(()),
            Some(kernel) => {
                Err(RuntimeError::WrongKernel { kernel: kernel.label().clone(), device: expected })
            }
        }
    }

    /// The launches in order.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Ready<'_>> {
        self.lists.launches.iter().enumerate().map(|(index, entry)| {
            let next = self.lists.launches.get(index + 1);
            let addresses = next.map_or(self.lists.addresses.len(), |next| next.addresses as usize);
            let scalars = next.map_or(self.lists.scalars.len(), |next| next.scalars as usize);
            Ready {
                kernel: &entry.kernel,
                addresses: &self.lists.addresses[entry.addresses as usize..addresses],
                scalars: &self.lists.scalars[entry.scalars as usize..scalars],
            }
        })
    }

    fn address(&self, slot: Slot, offset: usize) -> Result<Address, RuntimeError> {
        let out_of_bounds = RuntimeError::OutOfBounds { offset, bytes: 0, size: 0 };
        let buffer = self.lists.buffers.get(slot.0 as usize).ok_or(out_of_bounds)?;
        buffer.check(offset, 0)?;
        Ok(Address(buffer.address().wrapping_add(offset)))
    }
}

impl Launch {
    /// The batch of this launch alone.
    ///
    /// # Safety
    /// That of [`Batch::launch`].
    pub(crate) unsafe fn into_batch(self) -> Result<Batch, RuntimeError> {
        let count = self.buffers.len();
        let mut batch = Batch::with_capacity(count, 1, count);
        let mut arguments = SmallVec::<[(Slot, usize); 8]>::new();
        for (buffer, offset) in self.buffers {
            arguments.push((batch.bind(buffer), offset));
        }
        // SAFETY: by this function's contract.
        unsafe { batch.launch(self.kernel, arguments, self.scalars)? };
        Ok(batch)
    }
}
