//! Copies to, from and within a device. Those from and to the host go through pinned memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::context::call;
use super::event::RawEvent;
use super::pinned::Pinned;
use super::stream::CudaStream;
use crate::{Buffer, CopyOut, RuntimeError};

/// Copies up to this size share pinned blocks.
const SMALL: usize = 64 << 10;

/// Pinned blocks full of a copy to the host that are under way at once.
const LOADS: usize = 2;

/// Ranges that are copied to the host through one pinned block.
#[derive(Default)]
struct Load<'a> {
    /// Where from, where in the block, where to.
    parts: Vec<(u64, usize, &'a mut [u8])>,
    used: usize,
}

impl<'a> Load<'a> {
    fn push(&mut self, from: u64, to: &'a mut [u8]) {
        if !to.is_empty() {
            let bytes = aligned(to.len());
            self.parts.push((from, self.used, to));
            self.used += bytes;
        }
    }

    /// Copies from the block.
    ///
    /// # Safety
    /// It is large enough and nobody writes it.
    unsafe fn unpack(self, block: &Pinned) {
        for (_, offset, to) in self.parts {
            // SAFETY: by this function's contract.
            unsafe { block.start().add(offset).copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
        }
    }
}

/// Ranges packed into as few blocks of `size` bytes as their order allows; long ones are cut.
fn loads(copies: Vec<CopyOut<'_>>, size: usize) -> Vec<Load<'_>> {
    let mut loads = vec![Load::default()];
    for CopyOut { from, offset, to: mut rest } in copies {
        let mut from = address(from, offset);
        while !rest.is_empty() {
            if loads.last().is_none_or(|load| load.used >= size) {
                loads.push(Load::default());
            }
            let Some(load) = loads.last_mut() else { break };
            let (part, tail) = rest.split_at_mut(rest.len().min(size - load.used));
            let bytes = part.len();
            load.push(from, part);
            from += bytes as u64;
            rest = tail;
        }
    }
    loads
}

/// Bytes that so many take in a pinned block, in which copies start at multiples of 64 bytes.
fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

impl CudaStream {
    /// A new buffer with a copy of `data`. Other streams that use it wait for it.
    pub(crate) fn upload(&self, data: &[u8]) -> Result<Buffer, RuntimeError> {
        let buffer = self.allocate(data.len())?;
        self.write(address(&buffer, 0), data)?;
        if let Some(block) = buffer.cuda_block() {
            block.publish();
        }
        Ok(buffer)
    }

    /// Queues a copy of `data`, which is free when this returns. The range has been checked.
    pub(crate) fn copy_in(&self, to: &Buffer, offset: usize, data: &[u8]) -> Result<(), RuntimeError> {
        self.order(&mut *self.enter()?, [to])?;
        self.write(address(to, offset), data)
    }

    /// Copies ranges, which have been checked, after the work queued so far.
    pub(crate) fn copy_out(&self, copies: Vec<CopyOut<'_>>) -> Result<(), RuntimeError> {
        if self.calls.is_current() {
            return Err(RuntimeError::Reentrant);
        }
        {
            // The caller holds the buffers until everything is done, so their blocks need not note this stream.
            let mut state = self.enter()?;
            for copy in &copies {
                if let Some((home, born)) = copy.from.cuda_block().and_then(|block| block.origin()) {
                    self.follow(&mut state, home, born)?;
                }
            }
        }
        let bytes: usize = copies.iter().map(|copy| aligned(copy.to.len())).sum();
        if bytes > SMALL {
            self.read_loads(loads(copies, self.device.large.bytes()))?;
            return self.synchronize();
        }
        if bytes == 0 {
            return self.synchronize();
        }
        let mut load = Load::default();
        for copy in copies {
            load.push(address(copy.from, copy.offset), copy.to);
        }
        let block = self.device.small.take()?;
        // SAFETY: the block has room for the load and is kept until the copies are done.
        unsafe { self.queue_load(&load, &block)? };
        let result = self.synchronize();
        // SAFETY: as above; if the device is lost the bytes are whatever was there.
        unsafe { load.unpack(&block) };
        self.put_back(block);
        result
    }

    /// Queues a copy within the device. The ranges have been checked.
    pub(crate) fn copy(
        &self,
        (from, from_offset): (&Buffer, usize),
        (to, to_offset): (&Buffer, usize),
        bytes: usize,
    ) -> Result<(), RuntimeError> {
        let mut state = self.enter()?;
        self.order(&mut state, [from, to])?;
        let (source, target) = (address(from, from_offset), address(to, to_offset));
        if source.abs_diff(target) >= bytes as u64 {
            return self.queue_copy(source, target, bytes);
        }
        // The device's copy is undefined where ranges overlap.
        let between = self.allocate(bytes)?;
        self.queue_copy(source, address(&between, 0), bytes)?;
        self.queue_copy(address(&between, 0), target, bytes)
    }

    /// Queues copies of `data` to an address on the device.
    fn write(&self, to: u64, data: &[u8]) -> Result<(), RuntimeError> {
        match data.len() {
            0 => Ok(()),
            1..=SMALL => self.write_small(to, data),
            _ => self.write_chunks(to, data),
        }
    }

    /// One copy through the pinned block that small copies of this stream share.
    fn write_small(&self, to: u64, data: &[u8]) -> Result<(), RuntimeError> {
        let mut state = self.enter()?;
        if let Some((block, _)) = state.staging.take_if(|(block, used)| block.bytes() - *used < data.len()) {
            self.put_back_later(block)?;
        }
        let (block, used) = match &mut state.staging {
            Some(staging) => staging,
            none => none.insert((self.device.small.take()?, 0)),
        };
        // SAFETY: the rest of the block, of which nothing is under way, has room for the data.
        let from = unsafe {
            let from = block.start().add(*used);
            data.as_ptr().copy_to_nonoverlapping(from, data.len());
            from
        };
        // Copies start at multiples of 64 bytes.
        *used = (*used + data.len()).next_multiple_of(64).min(block.bytes());
        // SAFETY: the target's range was checked by the caller; this part of the block is not used again before
        // the block comes back from `put_back_later`.
        unsafe { self.queue_write(to, from, data.len()) }
    }

    /// Copies chunk by chunk: the processor fills a block while the device copies from another.
    fn write_chunks(&self, to: u64, data: &[u8]) -> Result<(), RuntimeError> {
        self.calls.settle();
        for (index, chunk) in data.chunks(self.device.large.bytes()).enumerate() {
            let block = self.device.large.take()?;
            self.context().enter()?;
            let to = to + (index * self.device.large.bytes()) as u64;
            // SAFETY: the block is of the size of a chunk, and kept until the copy is done; the target's range was
            // checked by the caller.
            unsafe {
                chunk.as_ptr().copy_to_nonoverlapping(block.start(), chunk.len());
                self.queue_write(to, block.start(), chunk.len())?;
            }
            let event = self.mark_or_wait()?;
            match event {
                Some(event) => self.device.large.give_back_after(block, event),
                None => self.device.large.give_back(block),
            }
        }
        Ok(())
    }

    /// Copies load by load: the device fills a block while the processor copies from another.
    fn read_loads(&self, loads: Vec<Load<'_>>) -> Result<(), RuntimeError> {
        let mut under_way: VecDeque<(Pinned, Option<RawEvent>, Load<'_>)> = VecDeque::new();
        let mut result = Ok(());
        for load in loads {
            result = result.and_then(|()| {
                let block = self.device.large.take()?;
                self.context().enter()?;
                // SAFETY: no load is larger than a block, which is kept until the copies are done.
                unsafe { self.queue_load(&load, &block)? };
                under_way.push_back((block, self.mark_or_wait()?, load));
                Ok(())
            });
            while under_way.len() >= LOADS
                && let Some(oldest) = under_way.pop_front()
            {
                result = result.and(self.finish_read(oldest));
            }
        }
        for rest in under_way {
            result = result.and(self.finish_read(rest));
        }
        result
    }

    fn finish_read(
        &self,
        (block, event, load): (Pinned, Option<RawEvent>, Load<'_>),
    ) -> Result<(), RuntimeError> {
        if let Some(event) = event {
            let waited = self.device.events.wait(&event);
            self.device.events.give_back(event);
            waited?;
        }
        // SAFETY: the block holds the load, and its copies are done.
        unsafe { load.unpack(&block) };
        self.device.large.give_back(block);
        Ok(())
    }

    /// # Safety
    /// The block has room for the load, and nobody uses it until the copies are done.
    unsafe fn queue_load(&self, load: &Load<'_>, block: &Pinned) -> Result<(), RuntimeError> {
        for (from, offset, to) in &load.parts {
            // SAFETY: by this function's contract.
            unsafe { self.queue_read(*from, block.start().add(*offset), to.len())? };
        }
        Ok(())
    }

    /// An event after what is queued, or none if it had to be waited for.
    fn mark_or_wait(&self) -> Result<Option<RawEvent>, RuntimeError> {
        match self.lane.mark() {
            Ok(event) => Ok(Some(event)),
            Err(_) => self.lane.synchronize().map(|()| None),
        }
    }

    /// Gives back a small block whose copies are done, unless the device is lost.
    fn put_back(&self, block: Pinned) {
        if self.context().alive().is_ok() {
            self.device.small.give_back(block);
        }
    }

    /// Gives back a small block after its copies.
    fn put_back_later(&self, block: Pinned) -> Result<(), RuntimeError> {
        match self.mark_or_wait()? {
            Some(event) => self.device.small.give_back_after(block, event),
            None => self.device.small.give_back(block),
        }
        Ok(())
    }

    /// # Safety
    /// `from` is pinned memory that stays as it is until the copy is done; the target is the caller's.
    unsafe fn queue_write(&self, to: u64, from: *const u8, bytes: usize) -> Result<(), RuntimeError> {
        let context = self.context();
        // SAFETY: by this function's contract.
        unsafe { call!(context, cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, self.lane.raw()))? };
        self.lane.count();
        Ok(())
    }

    /// # Safety
    /// `to` is pinned memory that nobody uses until the copy is done.
    unsafe fn queue_read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<(), RuntimeError> {
        let context = self.context();
        // SAFETY: by this function's contract; the source's range was checked.
        unsafe { call!(context, cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, self.lane.raw()))? };
        self.lane.count();
        Ok(())
    }

    fn queue_copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), RuntimeError> {
        if bytes == 0 {
            return Ok(());
        }
        let context: &Arc<_> = self.context();
        // SAFETY: the ranges were checked and do not overlap; the caller of `Stream::copy` keeps others off.
        unsafe { call!(context, cuMemcpyDtoDAsync_v2(to, from, bytes, self.lane.raw()))? };
        self.lane.count();
        Ok(())
    }
}

/// An address in a buffer of device memory, as the driver takes it.
fn address(buffer: &Buffer, offset: usize) -> u64 {
    (buffer.address().expose_provenance() + offset) as u64
}
