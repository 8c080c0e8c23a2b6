//! Host memory, straight from the operating system.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::{ALIGNMENT, Backing};

/// Blocks of at least one huge page are mapped on their own, aligned to a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of memory assumed where the system does not tell.
const UNKNOWN_MEMORY: usize = 8 << 30;

/// Host memory as the backing of a pool.
#[derive(Debug)]
pub(crate) struct HostPages;

// SAFETY: blocks come from the system's allocators, which hand out disjoint memory. All of it is
// zeroed, so that every byte of a block is always initialised.
unsafe impl Backing for HostPages {
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        if cfg!(unix) && bytes >= HUGE_PAGE {
            return map(bytes);
        }
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout has a size.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    unsafe fn release(&self, block: NonNull<u8>, bytes: usize) {
        if cfg!(unix) && bytes >= HUGE_PAGE {
            // SAFETY: `allocate` mapped this range.
            return unsafe { unmap(block.as_ptr(), bytes) };
        }
        // SAFETY: `allocate` made the same layout for this block.
        unsafe {
            dealloc(block.as_ptr(), Layout::from_size_align_unchecked(bytes.max(1), ALIGNMENT));
        }
    }
}

/// Bytes of memory this process may use: the machine's, or less if its control group says so.
pub(crate) fn host_memory() -> usize {
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(usize::MAX);
    physical_memory().unwrap_or(UNKNOWN_MEMORY).min(group)
}

#[cfg(unix)]
fn physical_memory() -> Option<usize> {
    // SAFETY: sysconf only reads its argument.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).ok()?.checked_mul(usize::try_from(size).ok()?).filter(|bytes| *bytes > 0)
}

#[cfg(not(unix))]
fn physical_memory() -> Option<usize> {
    None
}

#[cfg(unix)]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let reserved = bytes.checked_add(HUGE_PAGE)?;
    // SAFETY: an anonymous mapping at an address of the system's choice touches no other memory.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            reserved,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let head = start.align_offset(HUGE_PAGE);
    // SAFETY: head < HUGE_PAGE, so head, block and tail lie in the mapping; head and tail are whole
    // pages, as `bytes` (a size class of at least 2 MiB) is a multiple of 512 KiB.
    unsafe {
        let block = start.add(head);
        unmap(start, head);
        unmap(block.add(bytes), HUGE_PAGE - head);
        #[cfg(target_os = "linux")]
        libc::madvise(block.cast(), bytes, libc::MADV_HUGEPAGE);
        NonNull::new(block)
    }
}

/// Returns a range of pages to the system.
///
/// # Safety
/// The range is part of a mapping of ours that nobody uses any more.
#[cfg(unix)]
unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: by this function's contract.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}

#[cfg(not(unix))]
fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(unix))]
unsafe fn unmap(_: *mut u8, _: usize) {}
