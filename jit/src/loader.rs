//! Loading objects in this process, by ORC: one linker for the process, one dylib for each object.

use crate::{JitError, codegen, elf};
use inkwell::{
    llvm_sys::{
        error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage},
        orc2::{
            LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols,
            LLVMOrcCJITDylibSearchOrderElement, LLVMOrcCLookupSetElement, LLVMOrcCSymbolMapPair,
            LLVMOrcCSymbolMapPairs, LLVMOrcDisposeMaterializationUnit,
            LLVMOrcExecutionSessionCreateBareJITDylib, LLVMOrcExecutionSessionLookup,
            LLVMOrcExecutionSessionRef, LLVMOrcExecutionSessionSetErrorReporter, LLVMOrcJITDylibClear,
            LLVMOrcJITDylibDefine, LLVMOrcJITDylibLookupFlags, LLVMOrcJITDylibRef, LLVMOrcLookupKind,
            LLVMOrcReleaseSymbolStringPoolEntry, LLVMOrcRetainSymbolStringPoolEntry,
            LLVMOrcSymbolLookupFlags, LLVMOrcSymbolStringPoolEntryRef,
            lljit::{
                LLVMOrcCreateLLJIT, LLVMOrcLLJITAddObjectFile, LLVMOrcLLJITGetExecutionSession,
                LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
            },
        },
    },
    memory_buffer::MemoryBuffer,
};
use parking_lot::Mutex;
use std::{
    ffi::{CStr, CString, c_int, c_void},
    ptr,
    sync::{LazyLock, mpsc},
};

/// A phase of a host kernel; see [`Program`](burn_mlir_ir::Program) for what it takes.
///
/// Calling it is sound if the buffers are those the kernel was planned for, the scratch is as large
/// as its program says, and this machine has the features of its target.
pub type HostFn = unsafe extern "C" fn(
    buffers: *const *mut u8,
    scalars: *const u64,
    shared: *mut u8,
    worker: *mut u8,
    status: *mut u32,
    begin: i64,
    end: i64,
);

unsafe extern "C" {
    fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memset(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void;
}

/// The functions of libc that LLVM may call of its own accord.
static PROVIDED: LazyLock<[(&str, usize); 3]> = LazyLock::new(|| {
    [
        ("memcpy", memcpy as *const () as usize),
        ("memmove", memmove as *const () as usize),
        ("memset", memset as *const () as usize),
    ]
});

/// Whether code may refer to a symbol that it does not define.
pub(crate) fn provides(name: &str) -> bool {
    PROVIDED.iter().any(|&(provided, _)| provided == name)
}

/// An object in this process; unloaded on drop.
pub(crate) struct LoadedObject {
    dylib: Dylib,
}

#[derive(Clone, Copy)]
struct Dylib(LLVMOrcJITDylibRef);

// SAFETY: the dylib belongs to the linker's session, whose operations are thread-safe.
unsafe impl Send for Dylib {}
unsafe impl Sync for Dylib {}

struct Linker {
    jit: LLVMOrcLLJITRef,
    session: LLVMOrcExecutionSessionRef,
    /// Cleared dylibs: the C interface cannot remove one, so they are used again.
    free: Mutex<Vec<Dylib>>,
    made: Mutex<usize>,
}

// SAFETY: ORC's sessions lock internally; the pointers are never freed.
unsafe impl Send for Linker {}
unsafe impl Sync for Linker {}

static LINKER: LazyLock<Result<Linker, JitError>> = LazyLock::new(Linker::new);

/// Loads `object` and finds its functions `symbols`.
pub(crate) fn load(object: &[u8], symbols: &[&str]) -> Result<(LoadedObject, Vec<HostFn>), JitError> {
    let linker = LINKER.as_ref().map_err(Clone::clone)?;
    let needed = check_object(object, symbols)?;
    // Clears the dylib again if anything fails from here on.
    let loaded = LoadedObject { dylib: linker.dylib()? };
    linker.define(loaded.dylib, &needed)?;
    linker.add(loaded.dylib, object)?;
    let addresses = linker.lookup(loaded.dylib, symbols)?;
    // SAFETY: the addresses are those of functions whose signature the lowering guarantees.
    let entries = addresses
        .into_iter()
        .map(|address| unsafe { std::mem::transmute::<usize, HostFn>(address) })
        .collect();
    Ok((loaded, entries))
}

/// Checks that an object has the functions `defined` and needs nothing but what is provided, of which
/// it returns the part needed.
pub(crate) fn check_object<'a>(object: &'a [u8], defined: &[&str]) -> Result<Vec<&'a str>, JitError> {
    // Other formats leave the checks to the linker, which does not name what it misses as well.
    let Some(table) = elf::symbols(object) else {
        return Ok(PROVIDED.iter().map(|pair| pair.0).collect());
    };
    let unknown = table.undefined.iter().filter(|name| !provides(name));
    let mut symbols: Vec<String> = unknown.map(|name| name.to_string()).collect();
    if !symbols.is_empty() {
        symbols.sort();
        return Err(JitError::Unresolved { symbols });
    }
    match defined.iter().find(|symbol| !table.defined.contains(symbol)) {
        Some(missing) => Err(JitError::MissingPhase(missing.to_string())),
        None => Ok(table.undefined),
    }
}

impl Drop for LoadedObject {
    fn drop(&mut self) {
        let Ok(linker) = LINKER.as_ref() else { return };
        // SAFETY: nothing refers to the code any more: entry points are only lent with the object.
        match check(unsafe { LLVMOrcJITDylibClear(self.dylib.0) }) {
            Ok(()) => linker.free.lock().push(self.dylib),
            Err(error) => tracing::warn!("an object could not be unloaded: {error}"),
        }
    }
}

impl Linker {
    fn new() -> Result<Self, JitError> {
        codegen::initialize();
        let mut jit = ptr::null_mut();
        // SAFETY: a null builder stands for the defaults; `jit` is written on success.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()) })?;
        // SAFETY: `jit` is alive for good, and its session with it.
        let session = unsafe {
            let session = LLVMOrcLLJITGetExecutionSession(jit);
            LLVMOrcExecutionSessionSetErrorReporter(session, report, ptr::null_mut());
            session
        };
        Ok(Self { jit, session, free: Mutex::default(), made: Mutex::new(0) })
    }

    fn dylib(&self) -> Result<Dylib, JitError> {
        if let Some(dylib) = self.free.lock().pop() {
            return Ok(dylib);
        }
        let mut made = self.made.lock();
        *made += 1;
        let name = c_string(&format!("kernel{made}"))?;
        // SAFETY: the session is alive, the name is new.
        Ok(Dylib(unsafe { LLVMOrcExecutionSessionCreateBareJITDylib(self.session, name.as_ptr()) }))
    }

    fn intern(&self, name: &str) -> Result<LLVMOrcSymbolStringPoolEntryRef, JitError> {
        let name = c_string(name)?;
        // SAFETY: the linker is alive; the caller passes the reference on or releases it.
        Ok(unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, name.as_ptr()) })
    }

    /// Defines those of the provided functions that are needed.
    fn define(&self, dylib: Dylib, needed: &[&str]) -> Result<(), JitError> {
        let flags = LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
            | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8;
        let mut pairs = Vec::new();
        for &(name, address) in PROVIDED.iter().filter(|(name, _)| needed.contains(name)) {
            pairs.push(LLVMOrcCSymbolMapPair {
                Name: self.intern(name)?,
                Sym: LLVMJITEvaluatedSymbol {
                    Address: address as u64,
                    Flags: LLVMJITSymbolFlags { GenericFlags: flags, TargetFlags: 0 },
                },
            });
        }
        if pairs.is_empty() {
            return Ok(());
        }
        // SAFETY: the pairs' names are passed on; the unit is passed to the dylib or disposed of.
        unsafe {
            let unit = LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len());
            check(LLVMOrcJITDylibDefine(dylib.0, unit))
                .inspect_err(|_| LLVMOrcDisposeMaterializationUnit(unit))
        }
    }

    fn add(&self, dylib: Dylib, object: &[u8]) -> Result<(), JitError> {
        let buffer = MemoryBuffer::create_from_memory_range_copy(object, "kernel");
        let raw = buffer.as_mut_ptr();
        std::mem::forget(buffer);
        // SAFETY: the linker takes the buffer over, whether it succeeds or not.
        check(unsafe { LLVMOrcLLJITAddObjectFile(self.jit, dylib.0, raw) })
    }

    /// Links what `symbols` need and returns their addresses.
    fn lookup(&self, dylib: Dylib, symbols: &[&str]) -> Result<Vec<usize>, JitError> {
        let mut names = Vec::new();
        for symbol in symbols {
            names.push(self.intern(symbol)?);
        }
        let mut set: Vec<_> = names
            .iter()
            .map(|&name| LLVMOrcCLookupSetElement {
                Name: name,
                LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
            })
            .collect();
        let mut order = [LLVMOrcCJITDylibSearchOrderElement {
            JD: dylib.0,
            JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchAllSymbols,
        }];
        let (sender, receiver) = mpsc::sync_channel::<Found>(1);
        // SAFETY: the lookup takes one reference of each name over, we keep another until the
        // results, which are the same interned pointers, are compared. It calls `found` exactly
        // once, which takes the boxed sender back.
        unsafe {
            names.iter().for_each(|&name| LLVMOrcRetainSymbolStringPoolEntry(name));
            LLVMOrcExecutionSessionLookup(
                self.session,
                LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
                order.as_mut_ptr(),
                order.len(),
                set.as_mut_ptr(),
                set.len(),
                found,
                Box::into_raw(Box::new(sender)).cast(),
            );
        }
        let result =
            receiver.recv().unwrap_or_else(|_| Err(JitError::Load("the lookup was given up".into())));
        let addresses = result.and_then(|pairs| {
            let address = |&name: &LLVMOrcSymbolStringPoolEntryRef| {
                pairs.iter().find(|pair| pair.0 == name as usize).map(|pair| pair.1)
            };
            let all: Option<Vec<usize>> = names.iter().map(address).collect();
            all.ok_or_else(|| JitError::Load("the linker left a symbol out".into()))
        });
        // SAFETY: our own references.
        names.iter().for_each(|&name| unsafe { LLVMOrcReleaseSymbolStringPoolEntry(name) });
        addresses
    }
}

/// Name, as its interned pointer, and address of each symbol.
type Found = Result<Vec<(usize, usize)>, JitError>;

extern "C" fn found(error: LLVMErrorRef, pairs: LLVMOrcCSymbolMapPairs, count: usize, sender: *mut c_void) {
    // SAFETY: `sender` is the box made by `lookup`; `pairs` holds `count` elements on success.
    let (sender, result) = unsafe {
        let sender = Box::from_raw(sender.cast::<mpsc::SyncSender<Found>>());
        let result = check(error).map(|()| {
            let pairs = if count == 0 { &[] } else { std::slice::from_raw_parts(pairs, count) };
            pairs.iter().map(|pair| (pair.Name as usize, pair.Sym.Address as usize)).collect()
        });
        (sender, result)
    };
    // The receiver waits in `lookup`, and there is room for one result.
    let _ = sender.send(result);
}

/// Failures also reach whoever looks symbols up; ORC would print this second report.
extern "C" fn report(_: *mut c_void, error: LLVMErrorRef) {
    if let Err(error) = check(error) {
        tracing::debug!("linker: {error}");
    }
}

fn check(error: LLVMErrorRef) -> Result<(), JitError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: getting the message takes the error over; the message is freed once.
    let text = unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        text
    };
    Err(JitError::Load(text))
}

fn c_string(text: &str) -> Result<CString, JitError> {
    CString::new(text).map_err(|_| JitError::Load(format!("`{text:?}` is no symbol")))
}
