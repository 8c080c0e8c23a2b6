//! The disk store: a directory with one file per key, shared by any number of processes.
//!
//! Files are written elsewhere and renamed into place, so a reader sees all of an entry or none.
//! The store never fails a compilation: what cannot be read is compiled, what cannot be written is
//! done without.

use crate::{compile::Compiled, encode, key, warn::warn};
use parking_lot::Mutex;
use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

const EXTENSION: &str = "code";
const PARTIAL_PREFIX: &str = ".partial-";
/// Partial files older than this were left behind by a process that died.
const PARTIAL_AGE: Duration = Duration::from_secs(3600);
/// The directory is measured again after this many writes, because other processes write, too.
const WRITES_PER_SCAN: u32 = 64;

pub(crate) struct Store {
    directory: PathBuf,
    max_bytes: u64,
    usage: Mutex<Usage>,
    unwritable: AtomicBool,
    warned_of_damage: AtomicBool,
}

/// What is known of the directory's size since it was last measured.
#[derive(Default)]
struct Usage {
    bytes: u64,
    writes_to_scan: u32,
}

/// What looking for a key found.
pub(crate) enum Found {
    Entry(Compiled),
    Nothing,
    /// A file that is damaged or belongs to another key.
    Rejected,
}

impl Store {
    pub fn new(directory: PathBuf, max_bytes: u64) -> Self {
        Self {
            directory,
            max_bytes,
            usage: Mutex::default(),
            unwritable: AtomicBool::new(false),
            warned_of_damage: AtomicBool::new(false),
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(key::hash(key)).with_extension(EXTENSION)
    }

    pub fn read(&self, key: &str) -> Found {
        let path = self.path(key);
        let contents = File::open(&path).and_then(|mut file| {
            let mut contents = Vec::new();
            file.read_to_end(&mut contents)?;
            // The modification time is the time of last use; failing to set it costs nothing but order.
            let _ = file.set_modified(SystemTime::now());
            Ok(contents)
        });
        let contents = match contents {
            Ok(contents) => contents,
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                    tracing::debug!("cannot read {}: {error}", path.display());
                }
                return Found::Nothing;
            }
        };
        match encode::decode(key, &contents) {
            Some(compiled) => Found::Entry(compiled),
            None => {
                if !self.warned_of_damage.swap(true, Relaxed) {
                    warn(format_args!("{} is damaged and will be replaced", path.display()));
                }
                Found::Rejected
            }
        }
    }

    /// Keeps an entry. Returns whether it did.
    pub fn write(&self, key: &str, compiled: &Compiled) -> bool {
        if self.unwritable.load(Relaxed) {
            return false;
        }
        let contents = encode::encode(key, compiled);
        if contents.len() as u64 > self.max_bytes {
            return false;
        }
        match self.replace(&self.path(key), &contents) {
            Ok(()) => {
                self.account(contents.len() as u64);
                true
            }
            Err(error) => {
                if !self.unwritable.swap(true, Relaxed) {
                    let directory = self.directory.display();
                    warn(format_args!(
                        "cannot write compiled kernels to {directory}, so they are not kept: {error}"
                    ));
                }
                false
            }
        }
    }

    fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        create_private(&self.directory)?;
        let mut file = tempfile::Builder::new().prefix(PARTIAL_PREFIX).tempfile_in(&self.directory)?;
        file.write_all(contents)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Counts a write, and evicts when the store has grown too large.
    fn account(&self, written: u64) {
        // Whoever holds the lock is evicting already.
        let Some(mut usage) = self.usage.try_lock() else { return };
        usage.bytes += written;
        if usage.writes_to_scan == 0 || usage.bytes > self.max_bytes {
            usage.bytes = self.evict();
            usage.writes_to_scan = WRITES_PER_SCAN;
        }
        usage.writes_to_scan -= 1;
    }

    /// Removes what is too much and what was left behind. Returns the bytes that remain.
    fn evict(&self) -> u64 {
        let Ok(directory) = fs::read_dir(&self.directory) else { return 0 };
        let mut entries = Vec::new();
        for entry in directory.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with(PARTIAL_PREFIX) {
                if used.elapsed().is_ok_and(|age| age > PARTIAL_AGE) {
                    let _ = fs::remove_file(&path);
                }
            } else if path.extension().is_some_and(|e| e == EXTENSION) {
                entries.push((used, meta.len(), path));
            }
        }
        let mut bytes: u64 = entries.iter().map(|(_, len, _)| len).sum();
        if bytes <= self.max_bytes {
            return bytes;
        }
        // Some room is made at once, so that not every write has to.
        let goal = self.max_bytes / 8 * 7;
        entries.sort();
        for (_, len, path) in entries {
            if bytes <= goal {
                break;
            }
            match fs::remove_file(&path) {
                Ok(()) => bytes -= len,
                // Another process was faster.
                Err(error) if error.kind() == ErrorKind::NotFound => bytes -= len,
                Err(error) => tracing::debug!("cannot remove {}: {error}", path.display()),
            }
        }
        bytes
    }
}

/// Creates a directory that only its user can write to: what is in it gets run.
fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
