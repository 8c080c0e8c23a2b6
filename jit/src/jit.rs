//! From a kernel's text to its code.

use crate::{
    Assembler, Config, Frontend, HostFn, JitError, Lower, Stage, Stats,
    cache::{Answer, Asked, Cache},
    compile::{Compiled, compile},
    dump::Dump,
    host_target, key,
    loader::{self, LoadedObject},
    stats::{Counters, bump},
    store::{Found, Store},
    workers,
};
use burn_mlir_ir::{HostTarget, NvptxTarget, Program, Target};
use std::{
    any::Any,
    env::consts::ARCH,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::Instant,
};

/// A compiled kernel.
#[derive(Debug)]
pub enum Code {
    /// Loaded in this process.
    Host(HostCode),
    /// For the CUDA driver.
    Ptx(PtxCode),
}

/// Host code in this process; unloaded on drop.
pub struct HostCode {
    program: Program,
    entries: Vec<HostFn>,
    _object: LoadedObject,
}

/// Code for an NVIDIA GPU.
#[derive(Clone, Debug)]
pub struct PtxCode {
    /// The kernels in the text and how to launch them.
    pub program: Program,
    /// PTX.
    pub text: String,
    /// What the request's [`Assembler`] made of the text.
    pub cubin: Option<Vec<u8>>,
}

impl Code {
    /// The functions of the kernel.
    pub fn program(&self) -> &Program {
        match self {
            Self::Host(code) => &code.program,
            Self::Ptx(code) => &code.program,
        }
    }
}

impl HostCode {
    /// The functions of the kernel.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The function of each phase. Valid for as long as `self` is alive.
    pub fn entries(&self) -> &[HostFn] {
        &self.entries
    }
}

impl fmt::Debug for HostCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCode").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A kernel to compile.
pub struct Request {
    /// The kernel's canonical text: equal texts mean equal code.
    pub kernel: String,
    /// What to compile for.
    pub target: Target,
    /// Builds the module if it comes to that.
    pub lower: Box<dyn Lower>,
    /// For a GPU: the last step, from PTX to machine code. Without one the code is PTX alone.
    pub assembler: Option<Assembler>,
}

/// Compiles kernels, and keeps them.
pub struct Jit {
    inner: Arc<Inner>,
}

struct Inner {
    frontend: Frontend,
    cache: Arc<Cache<Arc<Code>>>,
    store: Option<Store>,
    verify: bool,
    dump: Option<Dump>,
    counters: Counters,
}

impl Jit {
    /// A cache of the code that `frontend`'s modules become.
    pub fn new(config: Config, frontend: Frontend) -> Self {
        let Config { directory, max_bytes, verify, dump } = config;
        Self {
            inner: Arc::new(Inner {
                frontend,
                cache: Cache::new(),
                store: directory.map(|directory| Store::new(directory, max_bytes)),
                verify,
                dump: dump.map(Dump::new),
                counters: Counters::default(),
            }),
        }
    }

    /// The code of a kernel by its canonical text: from memory, from disk, or compiled. However many
    /// threads ask for one kernel, one compilation takes place. A failure is not remembered.
    ///
    /// Not to be called from within a [`Lower`].
    pub fn get_or_compile(
        &self,
        kernel: &str,
        target: &Target,
        lower: impl Lower,
    ) -> Result<Arc<Code>, JitError> {
        let request = Request {
            kernel: kernel.into(),
            target: target.clone(),
            lower: Box::new(lower),
            assembler: None,
        };
        self.ask(request).wait()
    }

    /// [`get_or_compile`](Self::get_or_compile) for many kernels, in parallel. The results are in
    /// the order of the requests.
    pub fn get_or_compile_many(&self, requests: Vec<Request>) -> Vec<Result<Arc<Code>, JitError>> {
        // All are under way before the first is waited for.
        let asked: Vec<_> = requests.into_iter().map(|request| self.ask(request)).collect();
        asked.into_iter().map(Answer::wait).collect()
    }

    /// The text of every stage of a kernel, from MLIR to assembly, and its program. Nothing is
    /// cached or loaded, so the target need not be present.
    pub fn emit(&self, target: &Target, lower: impl Lower) -> Result<(Program, Vec<Stage>), JitError> {
        let (sender, receiver) = mpsc::channel();
        let (frontend, target, failed) = (self.inner.frontend, target.clone(), sender.clone());
        let job = move || {
            let result = guarded(|| compile(frontend, &target, &lower, true));
            // Nobody is left to tell if the receiver is gone.
            let _ = sender.send(result.map(|(compiled, stages)| (compiled.program, stages)));
        };
        let on_fatal = move |reason| drop(failed.send(Err(JitError::Fatal(reason))));
        workers::spawn(Box::new(job), Arc::new(on_fatal));
        receiver.recv().unwrap_or_else(|_| Err(JitError::Panicked("the compilation was given up".into())))
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.inner.counters.snapshot()
    }

    /// Asks the memory cache, and puts a worker to it if this is the first to ask.
    fn ask(&self, request: Request) -> Answer<Arc<Code>> {
        let key = key::full_key(&request.kernel, &request.target, self.inner.frontend.version);
        let asked = match &request.assembler {
            None => self.inner.cache.ask(&key),
            Some(assembler) => self.inner.cache.ask(&key::assembled(&key, &assembler.version, None)),
        };
        let lease = match asked {
            Asked::Lead(lease) => Arc::new(lease),
            Asked::Answer(answer) => {
                bump(&self.inner.counters.memory_hits);
                return answer;
            }
        };
        let answer = lease.answer();
        let (inner, failed) = (self.inner.clone(), lease.clone());
        let job = move || lease.finish(guarded(|| inner.produce(&key, &request)));
        let on_fatal = move |reason| failed.finish(Err(JitError::Fatal(reason)));
        workers::spawn(Box::new(job), Arc::new(on_fatal));
        answer
    }
}

/// Runs `body`, with a panic as an error.
fn guarded<R>(body: impl FnOnce() -> Result<R, JitError>) -> Result<R, JitError> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(JitError::Panicked(panic_text(&*panic))))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").into()
}

impl Inner {
    /// Code that is not in memory: read from disk or compiled.
    fn produce(&self, key: &str, request: &Request) -> Result<Arc<Code>, JitError> {
        if let Target::Host(host) = &request.target {
            check_runs_here(host)?;
        }
        let mut code = self.load_or_compile(key, request)?;
        if let (Code::Ptx(ptx), Some(assembler)) = (&mut code, &request.assembler) {
            ptx.cubin = Some(self.assembled(key, &ptx.text, assembler)?);
        }
        Ok(Arc::new(code))
    }

    fn load_or_compile(&self, key: &str, request: &Request) -> Result<Code, JitError> {
        if let Some((stored, code)) = self.read_stored(key, &request.target) {
            bump(&self.counters.disk_hits);
            if self.verify && self.compile(key, request)? != stored {
                return Err(JitError::Unreproducible(key::hash(key)));
            }
            return Ok(code);
        }
        let compiled = self.compile(key, request)?;
        // Only what loads is worth keeping.
        let code = load(&compiled, &request.target)?;
        if let Some(store) = &self.store {
            store.write(key, &compiled);
        }
        Ok(code)
    }

    /// What the assembler makes of the PTX of a kernel: read from disk or made, and stored beside it.
    fn assembled(&self, key: &str, text: &str, assembler: &Assembler) -> Result<Vec<u8>, JitError> {
        let key = key::assembled(key, &assembler.version, Some(text));
        let make = || {
            let start = Instant::now();
            let made = (assembler.assemble)(text).map_err(JitError::Assembly);
            bump(&self.counters.assembled);
            self.counters.compile_nanos.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
            made
        };
        match self.store.as_ref().map(|store| store.read(&key)) {
            Some(Found::Entry(stored)) => {
                if self.verify && make()? != stored.code {
                    return Err(JitError::Unreproducible(key::hash(&key)));
                }
                return Ok(stored.code);
            }
            Some(Found::Rejected) => bump(&self.counters.disk_rejects),
            Some(Found::Nothing) | None => {}
        }
        let code = make()?;
        if let Some(store) = &self.store {
            store.write(&key, &Compiled { program: Program::default(), code: code.clone() });
        }
        Ok(code)
    }

    /// What the disk store has, if it can be used.
    fn read_stored(&self, key: &str, target: &Target) -> Option<(Compiled, Code)> {
        // A dump needs the stages, which are not stored.
        let store = self.store.as_ref().filter(|_| self.dump.is_none())?;
        let stored = match store.read(key) {
            Found::Nothing => return None,
            Found::Rejected => None,
            Found::Entry(stored) => {
                let code =
                    load(&stored, target).inspect_err(|error| tracing::warn!("a stored kernel: {error}"));
                code.ok().map(|code| (stored, code))
            }
        };
        if stored.is_none() {
            bump(&self.counters.disk_rejects);
        }
        stored
    }

    fn compile(&self, key: &str, request: &Request) -> Result<Compiled, JitError> {
        let start = Instant::now();
        let result = compile(self.frontend, &request.target, &*request.lower, self.dump.is_some());
        let time = start.elapsed();
        bump(&self.counters.compiled);
        self.counters.compile_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
        let (compiled, stages) = result?;
        if let Some(dump) = &self.dump {
            let (Target::Host(HostTarget { cpu, .. }) | Target::Nvptx(NvptxTarget { cpu, .. })) =
                &request.target;
            dump.write(key, &request.kernel, cpu, &request.lower.label(), time, &stages);
        }
        Ok(compiled)
    }
}

/// Makes code of a compiled kernel: a host's is loaded in this process.
fn load(compiled: &Compiled, target: &Target) -> Result<Code, JitError> {
    let program = compiled.program.clone();
    match target {
        Target::Host(_) => {
            let (object, entries) = loader::load(&compiled.code, &compiled.symbols())?;
            Ok(Code::Host(HostCode { program, entries, _object: object }))
        }
        Target::Nvptx(_) => {
            let text = String::from_utf8(compiled.code.clone())
                .map_err(|_| JitError::Load("the PTX is not text".into()))?;
            Ok(Code::Ptx(PtxCode { program, text, cubin: None }))
        }
    }
}

/// Refuses what this machine could not run.
fn check_runs_here(host: &HostTarget) -> Result<(), JitError> {
    let refuse = |reason: &str| {
        Err(JitError::Target { target: Target::Host(host.clone()).to_string(), reason: reason.into() })
    };
    if host.triple.split('-').next() != Some(ARCH) {
        return refuse("this process runs on another architecture");
    }
    if host.vector_bytes > host_target().vector_bytes {
        return refuse("this machine's vectors are shorter");
    }
    Ok(())
}
