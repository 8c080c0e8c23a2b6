//! The seam to what turns PTX into the machine code of a GPU, which this crate does not know.

use std::{fmt, sync::Arc};

/// Machine code for a text, or why there is none. Called from several threads at once.
pub type Assemble = dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync;

/// Makes machine code of PTX, as a GPU's driver does.
#[derive(Clone)]
pub struct Assembler {
    /// Everything its output depends on besides the text, such as the versions of the driver and the GPU.
    pub version: String,
    /// Does it.
    pub assemble: Arc<Assemble>,
}

impl fmt::Debug for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Assembler({})", self.version)
    }
}
