//! Ordered queues of work.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::cuda::CudaStream;
use crate::host::{HostDevice, Queue, Work};
use crate::{Batch, Buffer, DeviceId, Event, Graph, Launch, RuntimeError};

/// An ordered queue of work on a device. Submitting returns at once, so that the thread that records runs
/// ahead; it blocks only when far ahead. Dropping a stream finishes its work first.
///
/// Work of one stream runs in order. Work of different streams is only ordered by events:
/// [`record`](Self::record) on one, [`wait`](Self::wait) on the other.
pub struct Stream {
    kind: Kind,
    arena: Mutex<Option<Buffer>>,
}

/// A range of bytes to be copied to the host.
#[derive(Debug)]
pub struct CopyOut<'a> {
    /// Where from.
    pub from: &'a Buffer,
    /// The first byte there.
    pub offset: usize,
    /// Where to, and how many.
    pub to: &'a mut [u8],
}

enum Kind {
    Host(Arc<Queue>),
    Cuda(Box<CudaStream>),
}

impl Stream {
    pub(crate) fn host(device: Arc<HostDevice>) -> Self {
        Self { kind: Kind::Host(Queue::new(device)), arena: Mutex::default() }
    }

    pub(crate) fn cuda(stream: CudaStream) -> Self {
        Self { kind: Kind::Cuda(Box::new(stream)), arena: Mutex::default() }
    }

    /// The stream, if it is one of a CUDA device.
    pub(crate) fn as_cuda(&self) -> Option<&CudaStream> {
        match &self.kind {
            Kind::Host(_) => None,
            Kind::Cuda(stream) => Some(stream),
        }
    }

    /// Where this stream runs.
    pub fn device(&self) -> DeviceId {
        match &self.kind {
            Kind::Host(_) => DeviceId::Host,
            Kind::Cuda(stream) => stream.id(),
        }
    }

    /// Queues one launch.
    ///
    /// # Safety
    /// That of [`Batch::launch`].
    pub unsafe fn launch(&self, launch: Launch) -> Result<(), RuntimeError> {
        // SAFETY: by this function's contract.
        self.submit(unsafe { launch.into_batch()? })
    }

    /// Queues the launches of a batch.
    pub fn submit(&self, batch: Batch) -> Result<(), RuntimeError> {
        batch.check_device(self.device())?;
        match &self.kind {
            Kind::Host(queue) => {
                queue.submit(Work::Batch(batch));
                Ok(())
            }
            Kind::Cuda(stream) => stream.submit(&batch),
        }
    }

    /// Queues the launches of a batch and waits for them and all work before them: faster than
    /// [`submit`](Self::submit) and [`synchronize`](Self::synchronize), as no worker is woken. Returns what
    /// [`synchronize`](Self::synchronize) would.
    pub fn run(&self, batch: Batch) -> Result<(), RuntimeError> {
        batch.check_device(self.device())?;
        match &self.kind {
            Kind::Host(queue) => queue.run(Work::Batch(batch)),
            Kind::Cuda(stream) => stream.run(&batch),
        }
    }

    /// Queues all launches of a graph. They work on what its buffers hold then.
    ///
    /// What the caller of [`Batch::launch`] promised has to hold now, too.
    pub fn replay(&self, graph: &Graph) -> Result<(), RuntimeError> {
        let (expected, found) = (self.device(), graph.device());
        match (&self.kind, graph.as_cuda()) {
            (Kind::Host(queue), None) => {
                queue.submit(Work::Replay(graph.clone()));
                Ok(())
            }
            (Kind::Cuda(stream), Some(graph)) if expected == found => stream.replay(graph),
            _ => Err(RuntimeError::WrongDevice { expected, found }),
        }
    }

    /// A buffer of `bytes` bytes with undefined contents, usable on every stream.
    ///
    /// Unlike [`Device::allocate`](crate::Device::allocate) this waits, when memory is short, for what work
    /// under way on this stream gives back. On a CUDA device the memory may still be in use by earlier work of
    /// this stream, which orders other streams behind that when they first use the buffer.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, RuntimeError> {
        let memory = match &self.kind {
            Kind::Host(queue) => &queue.device.memory,
            Kind::Cuda(stream) => return stream.allocate(bytes),
        };
        memory.allocate(bytes).or_else(|error| {
            if self.record().is_done() {
                return Err(error);
            }
            self.record().wait();
            memory.allocate(bytes)
        })
    }

    /// A new buffer that holds a copy of `data`, usable on every stream at once.
    pub fn upload(&self, data: &[u8]) -> Result<Buffer, RuntimeError> {
        if let Kind::Cuda(stream) = &self.kind {
            return stream.upload(data);
        }
        let buffer = self.allocate(data.len())?;
        // SAFETY: the buffer is new, so nobody else uses it, and as long as the data.
        unsafe { data.as_ptr().copy_to_nonoverlapping(buffer.address(), data.len()) };
        Ok(buffer)
    }

    /// Queues a copy of `data` into a buffer from byte `offset` on.
    ///
    /// # Safety
    /// Nothing but earlier or later work of this stream accesses these bytes meanwhile.
    pub unsafe fn copy_in(
        &self,
        to: &Buffer,
        offset: usize,
        data: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<(), RuntimeError> {
        self.check_device(to)?;
        to.check(offset, data.as_ref().len())?;
        match &self.kind {
            Kind::Host(queue) => {
                queue.submit(Work::Write { data: Box::new(data), to: to.clone(), offset });
                Ok(())
            }
            Kind::Cuda(stream) => stream.copy_in(to, offset, data.as_ref()),
        }
    }

    /// Waits for the work queued so far and copies bytes of a buffer, from `offset` on, to `data`.
    ///
    /// # Safety
    /// Nothing but earlier work of this stream writes these bytes meanwhile.
    pub unsafe fn copy_out(&self, from: &Buffer, offset: usize, data: &mut [u8]) -> Result<(), RuntimeError> {
        // SAFETY: by this function's contract.
        unsafe { self.copy_out_all([CopyOut { from, offset, to: data }]) }
    }

    /// As [`copy_out`](Self::copy_out), for many ranges with one wait. If it fails, no bytes need have been copied.
    ///
    /// # Safety
    /// That of [`copy_out`](Self::copy_out), for each range.
    pub unsafe fn copy_out_all<'a>(
        &self,
        copies: impl IntoIterator<Item = CopyOut<'a>>,
    ) -> Result<(), RuntimeError> {
        let copies: SmallVec<[CopyOut<'_>; 2]> = copies.into_iter().collect();
        for copy in &copies {
            self.check_device(copy.from)?;
            copy.from.check(copy.offset, copy.to.len())?;
        }
        if let Kind::Cuda(stream) = &self.kind {
            return stream.copy_out(copies.into_vec());
        }
        self.synchronize()?;
        for CopyOut { from, offset, to } in copies {
            // SAFETY: the range lies within the buffer, all its bytes are initialised (the pool's pages are
            // zeroed), and by this function's contract nobody writes them.
            unsafe { from.address().add(offset).copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
        }
        Ok(())
    }

    /// Queues a copy between buffers of this device. The ranges may overlap.
    ///
    /// # Safety
    /// Nothing but earlier or later work of this stream accesses these bytes meanwhile.
    pub unsafe fn copy(
        &self,
        (from, from_offset): (&Buffer, usize),
        (to, to_offset): (&Buffer, usize),
        bytes: usize,
    ) -> Result<(), RuntimeError> {
        for (buffer, offset) in [(from, from_offset), (to, to_offset)] {
            self.check_device(buffer)?;
            buffer.check(offset, bytes)?;
        }
        match &self.kind {
            Kind::Host(queue) => {
                let (from, to) = (from.clone(), to.clone());
                queue.submit(Work::Copy { from, from_offset, to, to_offset, bytes });
                Ok(())
            }
            Kind::Cuda(stream) => stream.copy((from, from_offset), (to, to_offset), bytes),
        }
    }

    /// Queues a call. It must not wait for this stream; a panic becomes an error of the stream.
    ///
    /// On a CUDA device the next use of the stream by anybody but the call itself waits until it has returned.
    pub fn call(&self, call: impl FnOnce() + Send + 'static) {
        match &self.kind {
            Kind::Host(queue) => {
                queue.submit(Work::Call(Box::new(call)));
            }
            Kind::Cuda(stream) => stream.call(Box::new(call)),
        }
    }

    /// The place in the order after everything queued so far.
    pub fn record(&self) -> Event {
        match &self.kind {
            Kind::Host(queue) => Event::host(queue),
            Kind::Cuda(stream) => Event::cuda(stream.record()),
        }
    }

    /// Lets all later work of this stream wait until the event's place is reached. For an event of the host a CUDA
    /// stream blocks the calling thread.
    pub fn wait(&self, event: &Event) {
        match (&self.kind, event.as_cuda()) {
            (Kind::Host(queue), _) if event.is_of(queue) || event.is_done() => {}
            (Kind::Host(queue), _) => {
                queue.submit(Work::Wait(event.clone()));
            }
            (Kind::Cuda(stream), Some(event)) => stream.wait(event),
            (Kind::Cuda(_), None) => event.wait(),
        }
    }

    /// Waits until everything queued so far has run. Returns the first error since the last time it was
    /// asked for; the stream works on in any case, unless its device is lost.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        match &self.kind {
            Kind::Host(queue) => queue.synchronize(),
            Kind::Cuda(stream) => stream.synchronize(),
        }
    }

    /// Memory for intermediate values of at least `bytes` bytes, the same at every call unless it has to
    /// grow: plans that run one after the other on this stream can share it.
    pub fn arena(&self, bytes: usize) -> Result<Buffer, RuntimeError> {
        let mut arena = self.arena.lock();
        if let Some(buffer) = arena.as_ref().filter(|buffer| buffer.bytes() >= bytes) {
            return Ok(buffer.clone());
        }
        *arena = None;
        let buffer = self.allocate(bytes)?;
        Ok(arena.insert(buffer).clone())
    }

    fn check_device(&self, buffer: &Buffer) -> Result<(), RuntimeError> {
        let (expected, found) = (self.device(), buffer.device());
        if expected == found { Ok(()) } else { Err(RuntimeError::WrongDevice { expected, found }) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Kind::Host(queue) = &self.kind {
            queue.close();
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({}, {:?})", self.device(), self.record())
    }
}
