//! Words that kernels set when an index was out of range, one per kernel so that an error has its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::context::Context;
use super::module::CudaKernel;
use super::pinned::Pinned;
use crate::RuntimeError;

/// Words of a page.
const WORDS: usize = 1024;

/// The status words of a stream or graph. They are in host memory, so that looking costs no copy.
pub(super) struct Status {
    context: Arc<Context>,
    pages: Vec<Page>,
    /// Number of the word of each kernel, by the kernel's number; 0: none yet, else one more.
    words: Vec<u32>,
    labels: Vec<Arc<str>>,
}

struct Page {
    memory: Pinned,
    address: u64,
}

impl Status {
    pub(super) fn new(context: &Arc<Context>) -> Self {
        Self { context: context.clone(), pages: Vec::new(), words: Vec::new(), labels: Vec::new() }
    }

    /// Address on the device of a kernel's word.
    pub(super) fn word(&mut self, kernel: &CudaKernel) -> Result<u64, RuntimeError> {
        let number = match self.words.get(kernel.number()) {
            Some(&word) if word > 0 => word as usize - 1,
            _ => self.assign(kernel)?,
        };
        Ok(self.pages[number / WORDS].address + 4 * (number % WORDS) as u64)
    }

    fn assign(&mut self, kernel: &CudaKernel) -> Result<usize, RuntimeError> {
        let number = self.labels.len();
        if number == self.pages.len() * WORDS {
            let memory = Pinned::new(&self.context, 4 * WORDS)?;
            self.pages.push(Page { address: memory.device_address()?, memory });
        }
        if self.words.len() <= kernel.number() {
            self.words.resize(kernel.number() + 1, 0);
        }
        self.labels.push(kernel.label().clone());
        self.words[kernel.number()] = number as u32 + 1;
        Ok(number)
    }

    /// The error of some kernel that set its word; all words are zero then.
    pub(super) fn take(&mut self) -> Result<(), RuntimeError> {
        let mut result = Ok(());
        for (number, label) in self.labels.iter().enumerate() {
            // SAFETY: the word lies in the page, and is only accessed atomically here. The device writes
            // whole words.
            let word = unsafe {
                let words = self.pages[number / WORDS].memory.start().cast::<u32>();
                AtomicU32::from_ptr(words.add(number % WORDS))
            };
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
                result = result.and(Err(RuntimeError::IndexOutOfRange { kernel: label.clone() }));
            }
        }
        result
    }
}
