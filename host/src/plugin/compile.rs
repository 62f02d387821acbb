//! Compiles components to native code, in a child process if a helper program is set. The helper is
//! the program of the host itself, started with other arguments.
//!
//! Components come from untrusted authors, and a compiler has no deadline; only a process can be
//! killed reliably. The child gets the bytes in a private directory, writes the native code there,
//! and can access nothing else. The host trusts the native code because the directory is private
//! and the child runs the same program as the host. Start from [`Compiler`].

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::cache::ComponentBytes;
use super::function_store::{CompiledFunctionStore, MIN_COMPONENT_BYTES_FOR_STORING};
use super::precompiled::PrecompiledComponents;
use super::{Error, engine, foreign};
use crate::tool::process::confine::{
    ConfinementFailureReason, confine_this_process, die_with_parent, limit_memory_and_cpu,
};
use crate::tool::process::{FinishedProcess, ProcessEndReason, ProcessSpec};

/// Hidden subcommand of the program that runs the compile helper.
pub const COMPILE_SUBCOMMAND_NAME: &str = "__compile";

/// Deadline of one compilation. A Python component takes about 10 s on a busy machine.
pub const MAX_COMPILE_TIME: Duration = Duration::from_secs(120);

/// Memory limit of the compiling process. 40 MB of dense code took 225 MiB with two processors;
/// huge functions and more processors take more.
pub const MAX_COMPILE_MEMORY_BYTES: u64 = 2 << 30;

/// Prefix of the names of compile directories inside the cache.
pub(super) const COMPILE_FOLDER_PREFIX: &str = "compiling-";

/// Configuration of the compiler, with its limits. Without a helper program, a thread of this
/// process compiles. At the time limit the thread continues but its result is ignored, and its
/// memory is not limited.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// Program that supports [`COMPILE_SUBCOMMAND_NAME`], normally this executable. If `None`, a
    /// thread compiles.
    pub helper: Option<PathBuf>,
    /// Time after which compiling one component is stopped. Default: [`MAX_COMPILE_TIME`].
    pub time_limit: Duration,
    /// Maximum memory for compiling one component, in bytes. Default: [`MAX_COMPILE_MEMORY_BYTES`].
    pub memory_limit: u64,
    /// Native code embedded in the program, for components that need not be compiled.
    pub precompiled: PrecompiledComponents,
    /// Whether to cache the native code of single functions of a large component: for plugin
    /// authors, who recompile the same interpreter after every edit. Needs `helper`. Default:
    /// false.
    pub keeps_functions: bool,
}

impl Default for Compiler {
    fn default() -> Self {
        Self {
            helper: None,
            time_limit: MAX_COMPILE_TIME,
            memory_limit: MAX_COMPILE_MEMORY_BYTES,
            precompiled: PrecompiledComponents::default(),
            keeps_functions: false,
        }
    }
}

pub(super) struct ComponentCompileOutput {
    pub(super) code: Vec<u8>,
    /// Reason why the kernel did not confine the compile process; `None` if it did.
    pub(super) unconfined: Option<String>,
    /// Encoded native code of single functions, to cache for the next compilation of the component.
    pub(super) functions: Option<Vec<u8>>,
}

impl Compiler {
    /// Whether the native code of this component's functions is cached function by function.
    pub(super) fn should_cache_compiled_functions(&self, component: &ComponentBytes) -> bool {
        let is_large = component.bytes.len() >= MIN_COMPONENT_BYTES_FOR_STORING;
        self.keeps_functions && self.helper.is_some() && is_large
    }

    /// Compiles the component to native code. `folder` must be private to this host. `functions` is
    /// the native code of single functions that the last compilation cached; `None` if functions
    /// are not cached.
    pub(super) async fn compile_component(
        &self,
        engine: &Engine,
        component: &ComponentBytes,
        folder: &Path,
        functions: Option<&[u8]>,
    ) -> Result<ComponentCompileOutput, Error> {
        match &self.helper {
            Some(helper) => {
                self.compile_in_child_process(helper, component, folder, functions)
                    .await
            }
            None => Ok(ComponentCompileOutput {
                code: self.compile_on_thread(engine, component).await?,
                unconfined: None,
                functions: None,
            }),
        }
    }

    async fn compile_in_child_process(
        &self,
        helper: &Path,
        component: &ComponentBytes,
        folder: &Path,
        functions: Option<&[u8]>,
    ) -> Result<ComponentCompileOutput, Error> {
        let private = tempfile::Builder::new()
            .prefix(COMPILE_FOLDER_PREFIX)
            .tempdir_in(folder)
            .map_err(Error::io("make a folder in", folder))?;
        // Write the hashed bytes to a file instead of passing the component's path: the file at the
        // path may have changed since it was hashed.
        let input = private.path().join(COMPILE_INPUT_FILE_NAME);
        fs::write(&input, &component.bytes).map_err(Error::io("write", &input))?;
        let kept = private.path().join(COMPILED_FUNCTION_CACHE_FILE_NAME);
        // If the file with the cached functions cannot be written, the compiling process compiles
        // every function.
        let keeps = functions.is_some_and(|functions| fs::write(&kept, functions).is_ok());
        let args: Vec<OsString> = vec![
            COMPILE_SUBCOMMAND_NAME.into(),
            self.memory_limit.to_string().into(),
            self.cpu_limit_seconds().to_string().into(),
            private.path().into(),
        ];
        let finished = ProcessSpec {
            args,
            // Without this variable the allocator of this binary would commit a gigabyte that it
            // does not use, and the memory limit would count it.
            env: vec![("MIMALLOC_ARENA_EAGER_COMMIT".into(), "0".into())],
            deadline: self.time_limit,
            ..ProcessSpec::new_unconfined(helper, private.path())
        }
        .run(&CancellationToken::new())
        .await
        .map_err(|error| Error::Start {
            message: error.to_string(),
        })?;
        if finished.ending == ProcessEndReason::Exited(1)
            && let Ok(message) =
                fs::read_to_string(private.path().join(FOREIGN_COMPONENT_ERROR_FILE_NAME))
        {
            return Err(component.incompatible_host_error(message));
        }
        self.check_helper_exit(&finished, component)?;
        let output = private.path().join(COMPILE_OUTPUT_FILE_NAME);
        Ok(ComponentCompileOutput {
            code: fs::read(&output).map_err(Error::io("read", output))?,
            unconfined: fs::read_to_string(private.path().join(UNCONFINED_REASON_FILE_NAME)).ok(),
            functions: keeps.then(|| fs::read(&kept).ok()).flatten(),
        })
    }

    /// Returns the CPU time limit of the child in seconds. The CPU limit stops the child if the
    /// host dies before it can kill the child. Compiling uses all processors, so the limit grows
    /// with their number.
    fn cpu_limit_seconds(&self) -> u64 {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (self.time_limit.as_secs() + 1).saturating_mul(processors as u64)
    }

    fn check_helper_exit(
        &self,
        finished: &FinishedProcess,
        component: &ComponentBytes,
    ) -> Result<(), Error> {
        let said = finished.stderr.text();
        let said = said.trim().trim_start_matches("rind: ").to_owned();
        let message = match finished.ending {
            ProcessEndReason::Exited(0) => return Ok(()),
            ProcessEndReason::Deadline | ProcessEndReason::Cancelled => {
                return Err(self.compile_timeout_error(component));
            }
            ProcessEndReason::Exited(1) => said,
            _ if said.contains(OUT_OF_MEMORY_ABORT_PREFIX) => format!(
                "compiling it takes more than {} MiB of memory",
                self.memory_limit >> 20
            ),
            ProcessEndReason::Exited(code) => {
                format!("the compiler failed with exit code {code}: {said}")
            }
            ProcessEndReason::Exceeded(limit) => format!("the compiler was stopped: {limit}"),
            ProcessEndReason::Signaled(signal) => {
                format!("the compiler was ended by signal {signal}: {said}")
            }
        };
        Err(component.invalid_component_error(message))
    }

    fn compile_timeout_error(&self, component: &ComponentBytes) -> Error {
        Error::CompileTime {
            path: component.path.clone(),
            seconds: self.time_limit.as_secs(),
        }
    }

    /// Compiles on a separate thread, so that the runtime is not blocked and an endless compilation
    /// does not delay the exit.
    async fn compile_on_thread(
        &self,
        engine: &Engine,
        component: &ComponentBytes,
    ) -> Result<Vec<u8>, Error> {
        let (engine, bytes) = (engine.clone(), component.bytes.clone());
        let (done, result) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name("plugin-compile".to_owned())
            .spawn(move || {
                let compiled = Component::from_binary(&engine, &bytes);
                let compiled = compiled.and_then(|component| component.serialize());
                let compiled = compiled
                    .map_err(|error| (error, foreign::describe_disabled_wasm_proposals(&bytes)));
                // After the time limit the receiver is gone, and the result is dropped.
                let _ = done.send(compiled);
            })
            .map_err(|e| Error::Start {
                message: format!("cannot start a thread to compile it: {e}"),
            })?;
        match tokio::time::timeout(self.time_limit, result).await {
            Err(_) => Err(self.compile_timeout_error(component)),
            Ok(Err(_)) => {
                Err(component.invalid_component_error("internal error of the compiler".to_owned()))
            }
            Ok(Ok(Err((_, Some(message))))) => Err(component.incompatible_host_error(message)),
            Ok(Ok(Err((error, None)))) => {
                Err(component.invalid_component_error(format!("{error:#}")))
            }
            Ok(Ok(Ok(compiled))) => Ok(compiled),
        }
    }
}

/// Names of input and output in the private directory of the compiling process.
const COMPILE_INPUT_FILE_NAME: &str = "component.wasm";
const COMPILE_OUTPUT_FILE_NAME: &str = "component.cwasm";
/// File with the cached functions of the last compilation, if functions are cached. The compiling
/// process replaces the file.
const COMPILED_FUNCTION_CACHE_FILE_NAME: &str = "functions";
/// Name of a file with an error message, which is written if the component needs a host other than
/// Rind.
const FOREIGN_COMPONENT_ERROR_FILE_NAME: &str = "foreign";
/// File with the reason why the kernel does not confine the process, written only in that case.
const UNCONFINED_REASON_FILE_NAME: &str = "unconfined";

/// Prefix of the message with which Rust aborts a process that is out of memory.
const OUT_OF_MEMORY_ABORT_PREFIX: &str = "memory allocation of";

/// Runs the compile helper. `args` are the arguments after [`COMPILE_SUBCOMMAND_NAME`]: the memory
/// limit in bytes, the CPU time limit in seconds, and the private directory. Must run in a separate
/// process, because it limits and confines the whole process.
///
/// # Errors
/// The reason why there is no native code, to print to standard error.
pub fn run_compile_helper(mut args: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
    let (Some(memory), Some(seconds)) = (number(), number()) else {
        return Err("the compiler got invalid arguments".to_owned());
    };
    let folder = PathBuf::from(args.next().unwrap_or_default());
    die_with_parent();
    limit_memory_and_cpu(memory, seconds)
        .map_err(|e| format!("cannot set resource limits: {e}"))?;
    match confine_this_process(&folder) {
        Ok(()) => {}
        // If the kernel cannot confine a process, the compiler still runs: it is safe Rust code,
        // even on untrusted bytes. `rind doctor` reports that the compiler is not confined.
        Err(ConfinementFailureReason::Missing(why)) => {
            fs::write(folder.join(UNCONFINED_REASON_FILE_NAME), why).map_err(|e| {
                format!("cannot store the reason why the compiler is not confined: {e}")
            })?;
        }
        Err(ConfinementFailureReason::Failed(why)) => {
            return Err(format!("cannot confine the compiler: {why}; try again"));
        }
    }
    let bytes = fs::read(folder.join(COMPILE_INPUT_FILE_NAME))
        .map_err(|e| format!("cannot read the component: {e}"))?;
    let kept = folder.join(COMPILED_FUNCTION_CACHE_FILE_NAME);
    let functions = fs::read(&kept)
        .ok()
        .map(|bytes| Arc::new(CompiledFunctionStore::decode(&bytes)));
    let engine = create_compile_engine(functions.clone())?;
    // Not `Component::new`: that would also map the code as executable.
    let code = engine.precompile_component(&bytes).map_err(|error| {
        if let Some(message) = foreign::describe_disabled_wasm_proposals(&bytes) {
            // If the file with this more precise message cannot be written, the engine's own
            // message is shown.
            let _ = fs::write(folder.join(FOREIGN_COMPONENT_ERROR_FILE_NAME), message);
        }
        format!("{error:#}")
    })?;
    fs::write(folder.join(COMPILE_OUTPUT_FILE_NAME), code)
        .map_err(|e| format!("cannot store the compiled component: {e}"))?;
    if let Some(functions) = functions {
        // If this file is missing or incomplete, the next compilation cannot reuse all functions
        // and takes longer.
        let _ = fs::write(kept, functions.encode());
    }
    Ok(())
}

/// Creates an engine that compiles components and never runs them.
fn create_compile_engine(functions: Option<Arc<CompiledFunctionStore>>) -> Result<Engine, String> {
    let mut config = engine::engine_config_for_process();
    if let Some(functions) = functions {
        let enabled = config.enable_incremental_compilation(functions);
        enabled.map_err(|e| format!("cannot use the store of compiled functions: {e:#}"))?;
    }
    Engine::new(&config).map_err(|e| format!("cannot create the WebAssembly engine: {e:#}"))
}
