//! Tests whether the sandbox works on this machine.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use wasmtime::{Instance, Module, Store, Trap};

use super::Error;
use super::cache::{CompileCache, ComponentBytes};
use super::compile::Compiler;
use super::engine::create_engine;

/// WebAssembly module whose start function never ends: `loop { }`.
const ENDLESS_LOOP_MODULE: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x08\x01\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

/// Smallest valid WebAssembly component, in binary form.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// Time after which the trial fails because the engine did not stop the endless loop: a hundred
/// ticks of the epoch.
const ENDLESS_LOOP_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the engine, runs an endless loop, and returns the time until the engine stopped the loop.
pub fn measure_endless_loop_interrupt_delay() -> Result<Duration, Error> {
    let failed = |message: String| Error::Start { message };
    let engine = create_engine()?;
    let module =
        Module::from_binary(&engine, ENDLESS_LOOP_MODULE).map_err(|e| failed(format!("{e:#}")))?;
    let (done, outcome) = mpsc::channel();
    let started = Instant::now();
    // Run the loop on a separate thread, which can be left behind if the engine does not stop the
    // loop.
    std::thread::Builder::new()
        .name("endless".to_owned())
        .spawn(move || {
            let mut store = Store::new(&engine, ());
            store.set_epoch_deadline(1);
            let trap = Instance::new(&mut store, &module, &[])
                .err()
                .and_then(|error| error.downcast_ref::<Trap>().copied());
            // After the timeout the receiver is dropped, and sending fails.
            let _ = done.send(trap);
        })
        .map_err(|e| failed(e.to_string()))?;
    match outcome.recv_timeout(ENDLESS_LOOP_STOP_TIMEOUT) {
        Ok(Some(Trap::Interrupt)) => Ok(started.elapsed()),
        Ok(other) => Err(failed(format!(
            "an endless loop ended with {other:?} instead of being interrupted"
        ))),
        Err(_) => Err(failed(format!(
            "an endless loop was not stopped within {} s",
            ENDLESS_LOOP_STOP_TIMEOUT.as_secs()
        ))),
    }
}

/// Compiles the smallest valid component in the same way as a plugin. Returns the duration, and the
/// reason why the compile process was not sandboxed, if it was not.
pub async fn measure_trial_compilation(
    compiler: &Compiler,
    cache: &Path,
) -> Result<(Duration, Option<String>), Error> {
    let component = ComponentBytes {
        path: "the smallest component".into(),
        bytes: EMPTY_COMPONENT.to_vec(),
        digest: String::new(),
    };
    let started = Instant::now();
    let compiled = compiler
        .compile_component(&create_engine()?, &component, cache, None)
        .await?;
    Ok((started.elapsed(), compiled.unconfined))
}

/// Opens the cache of native code, which creates its private directory and its key.
pub fn check_compile_cache_folder(folder: &Path, key: &Path) -> Result<(), Error> {
    CompileCache::open_cache(folder, key)?;
    // Create and remove a file: otherwise a read-only cache would be noticed only when it is
    // needed.
    tempfile::NamedTempFile::new_in(folder)
        .map(drop)
        .map_err(Error::io("write in", folder))
}
