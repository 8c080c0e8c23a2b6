//! Writing every stage of every kernel to a directory.

use crate::{Stage, key, warn::warn};
use parking_lot::Mutex;
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Once,
    time::Duration,
};

const INDEX: &str = "index.txt";

pub(crate) struct Dump {
    directory: PathBuf,
    /// Number of the last kernel written, by this process or one before; `None` before the first.
    last: Mutex<Option<usize>>,
    /// Says once that the directory cannot be written to, not for every kernel.
    failed: Once,
}

impl Dump {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, last: Mutex::new(None), failed: Once::new() }
    }

    /// Writes a kernel's files and its line of the index. A failure is reported and does no harm.
    pub fn write(&self, key: &str, kernel: &str, cpu: &str, label: &str, time: Duration, stages: &[Stage]) {
        if let Err(error) = self.try_write(key, kernel, cpu, label, time, stages) {
            let directory = self.directory.display();
            self.failed.call_once(|| {
                warn(format_args!("BURN_MLIR_DUMP names {directory}, which cannot be written: {error}"));
            });
        }
    }

    fn try_write(
        &self,
        key: &str,
        kernel: &str,
        cpu: &str,
        label: &str,
        time: Duration,
        stages: &[Stage],
    ) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let hash = &key::hash(key)[..8];
        let number = {
            let mut last = self.last.lock();
            let number = last.unwrap_or_else(|| last_number(&self.directory)) + 1;
            *last = Some(number);
            number
        };
        let stem = format!("{number:04}-{hash}");
        fs::write(self.directory.join(format!("{stem}.1-ir.txt")), kernel)?;
        for (index, stage) in stages.iter().enumerate() {
            fs::write(self.directory.join(format!("{stem}.{}", stage.file_name(index + 2))), &stage.text)?;
        }
        let label = if label.is_empty() { kernel } else { label };
        let label = label.lines().next().unwrap_or_default();
        let line = format!("{stem}\t{:.1} ms\t{cpu}\t{label}\n", time.as_secs_f64() * 1e3);
        // One write, so that lines of several processes do not mix.
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory.join(INDEX))?
            .write_all(line.as_bytes())
    }
}

/// The highest number an earlier process gave.
fn last_number(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: &str| name.split_once('-')?.0.parse().ok();
    entries.filter_map(|entry| number(&entry.file_name().to_string_lossy())).max().unwrap_or(0)
}
