//! The textual form of plans (printed only: a plan is made from a graph).

use super::separated::Separated;
use crate::plan::{Argument, Buffer, BufferSource, Launch, Plan, ResultPlace};
use std::fmt;

/// `input 0`, `fresh` or `arena +64`, and the size.
impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            BufferSource::Input(slot) => write!(f, "input {slot}")?,
            BufferSource::Fresh => f.write_str("fresh")?,
            BufferSource::Arena { offset } => write!(f, "arena +{offset}")?,
        }
        write!(f, ", {} bytes", self.bytes)
    }
}

/// `#0 +12 f32`: a buffer, an offset in elements and the type of the elements.
impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:+} {}", self.buffer, self.offset, self.dtype)
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "launch kernel {} ({})", self.kernel.0, Separated(&self.arguments))?;
        if !self.scalars.is_empty() {
            let scalars: Vec<_> = self.scalars.iter().map(|slot| format!("${slot}")).collect();
            write!(f, " scalars [{}]", Separated(&scalars))?;
        }
        Ok(())
    }
}

impl fmt::Display for ResultPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}", self.buffer, self.layout)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {{\n  arena {} bytes", self.arena_bytes)?;
        for (index, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "  #{index} = {buffer}")?;
        }
        for (index, kernel) in self.kernels.iter().enumerate() {
            writeln!(f, "  kernel {index} = {}", kernel.to_string().replace('\n', "\n  "))?;
        }
        self.launches.iter().try_for_each(|launch| writeln!(f, "  {launch}"))?;
        write!(f, "  return {}\n}}", Separated(&self.results))
    }
}
