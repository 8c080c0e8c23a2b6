//! The seam to what turns PTX into the machine code of a GPU, which this crate does not know.

use std::{fmt, sync::Arc};

/// Makes machine code of PTX, as a GPU's driver does. It may be called from several threads at once.
#[derive(Clone)]
pub struct Assembler {
    /// Everything its output depends on besides the text, such as the versions of the driver and the GPU.
    pub version: String,
    /// Machine code for a text, or why there is none.
    pub assemble: Arc<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>,
}

impl fmt::Debug for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Assembler({})", self.version)
    }
}
