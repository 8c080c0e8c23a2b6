//! PTX to machine code, by the driver.

use std::ffi::{CStr, CString, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use cudarc::driver::sys::{
    CUjit_option_enum as JitOption, CUjitInputType_enum::CU_JIT_INPUT_PTX, CUlinkState,
};

use super::context::{Context, call};
use crate::RuntimeError;

/// Bytes of the assembler's messages that are kept.
const LOG_BYTES: usize = 16 << 10;

/// Added to the number of a target that is specific to its architecture, as `sm_90a`.
const SPECIFIC: usize = 0x10000;

/// Moves registers between the warpgroups of a block of threads.
const MOVES_REGISTERS: &str = "setmaxnreg";

/// Machine code of the context's device for a text of PTX; the text itself, for the driver to compile when it is
/// loaded, if it moves registers. Machine code is only to be had from the driver's linker, and what is to be linked is
/// compiled without knowing how many registers a thread starts with: those moves are ignored then, registers spill
/// and matrix instructions wait for each other, which halves the speed.
pub(super) fn assemble(context: &Context, ptx: &str) -> Result<Vec<u8>, RuntimeError> {
    if ptx.contains(MOVES_REGISTERS) {
        return Ok(ptx.as_bytes().to_vec());
    }
    let error = |log: String| RuntimeError::Assemble { device: context.id(), log };
    let text = CString::new(ptx).map_err(|_| error("the text contains a zero byte".into()))?;
    context.enter()?;
    match link(context, &text, None) {
        Ok(cubin) => Ok(cubin),
        // Should the driver not take the target from the text, it is told.
        Err(Failure { log, .. }) if specific_target(ptx).is_some() => {
            context.alive()?;
            link(context, &text, specific_target(ptx)).map_err(|_| error(log))
        }
        Err(Failure { log, error: other }) => {
            context.alive()?;
            Err(if log.is_empty() { other } else { error(log) })
        }
    }
}

struct Failure {
    log: String,
    error: RuntimeError,
}

/// The number of an architecture-specific target that a text of PTX names.
fn specific_target(ptx: &str) -> Option<usize> {
    let (_, after) = ptx.split_once(".target sm_")?;
    let digits = after.find(|character: char| !character.is_ascii_digit())?;
    let number: usize = after[..digits].parse().ok()?;
    after[digits..].starts_with('a').then_some(SPECIFIC + number)
}

fn link(context: &Context, ptx: &CStr, target: Option<usize>) -> Result<Vec<u8>, Failure> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options = vec![JitOption::CU_JIT_ERROR_LOG_BUFFER, JitOption::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: Vec<*mut c_void> = vec![log.as_mut_ptr().cast(), without_provenance_mut(LOG_BYTES)];
    if let Some(target) = target {
        options.push(JitOption::CU_JIT_TARGET);
        values.push(without_provenance_mut(target));
    }
    let mut state: CUlinkState = null_mut();
    // SAFETY: options and their values, of which the log is one, outlive the state, which is destroyed below. The
    // cubin belongs to the state and is copied before that.
    let result = unsafe {
        let created = call!(
            context,
            cuLinkCreate_v2(options.len() as u32, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut state)
        );
        let cubin = created.and_then(|()| complete(context, state, ptx));
        if !state.is_null() {
            context.driver().cuLinkDestroy(state);
        }
        cubin
    };
    result.map_err(|error| Failure { log: text(&log), error })
}

/// Adds the text and returns a copy of the machine code.
///
/// # Safety
/// The state was created and is not used elsewhere.
unsafe fn complete(context: &Context, state: CUlinkState, ptx: &CStr) -> Result<Vec<u8>, RuntimeError> {
    let bytes = ptx.to_bytes_with_nul();
    let (mut cubin, mut size) = (null_mut(), 0);
    // SAFETY: text, name and results outlive the calls; the driver does not write to the text.
    unsafe {
        call!(
            context,
            cuLinkAddData_v2(
                state,
                CU_JIT_INPUT_PTX,
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
                c"kernel".as_ptr(),
                0,
                null_mut(),
                null_mut(),
            )
        )?;
        call!(context, cuLinkComplete(state, &raw mut cubin, &raw mut size))?;
        Ok(std::slice::from_raw_parts(cubin.cast::<u8>(), size).to_vec())
    }
}

/// What was written to a log, up to its first zero.
fn text(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_found_if_it_is_specific() {
        assert_eq!(specific_target(".version 8.3\n.target sm_90a\n"), Some(0x10000 + 90));
        assert_eq!(specific_target(".version 8.3\n.target sm_80\n"), None);
        assert_eq!(specific_target("no target"), None);
    }
}
