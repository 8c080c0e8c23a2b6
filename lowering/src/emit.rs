//! Writing MLIR text.

use std::fmt::Display;

/// The name of an SSA value, with its `%`.
pub(crate) type Value = String;

/// Writes MLIR text, handing out fresh SSA names.
///
/// One emitter writes one function: names are unique in it, so that nested regions never redefine
/// a name of an enclosing one.
#[derive(Debug, Default)]
pub(crate) struct Emitter {
    text: String,
    indent: usize,
    names: usize,
    gpu: bool,
}

impl Emitter {
    /// An empty text whose lines are indented by `indent` levels of two spaces.
    pub fn new(indent: usize) -> Self {
        Self { text: String::new(), indent, ..Self::default() }
    }

    /// An empty text for code that runs on a GPU.
    pub fn for_gpu() -> Self {
        Self { gpu: true, ..Self::default() }
    }

    /// Whether the code runs on a GPU.
    pub fn is_for_gpu(&self) -> bool {
        self.gpu
    }

    /// A name not used before, for instance for a block argument.
    pub fn fresh(&mut self) -> Value {
        self.names += 1;
        format!("%v{}", self.names)
    }

    /// Writes `%vN = <text>` and returns the name.
    pub fn op(&mut self, text: impl Display) -> Value {
        let name = self.fresh();
        self.line(format_args!("{name} = {text}"));
        name
    }

    /// Writes a line as it is.
    pub fn line(&mut self, text: impl Display) {
        use std::fmt::Write;
        let width = 2 * self.indent;
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{:width$}{text}", "");
    }

    /// Writes a line that opens a region, and indents what follows.
    pub fn open(&mut self, text: impl Display) {
        self.line(text);
        self.indent += 1;
    }

    /// Ends the indentation of a region and writes the line that closes it.
    pub fn close(&mut self, text: impl Display) {
        self.indent = self.indent.saturating_sub(1);
        self.line(text);
    }

    /// The text written.
    pub fn finish(self) -> String {
        self.text
    }
}
