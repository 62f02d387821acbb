//! Tests that the sandbox works on this machine, by trying it.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use wasmtime::{Instance, Module, Store, Trap};

use super::Error;
use super::cache::{CompileCache, ComponentBytes};
use super::compile::Compiler;
use super::engine::engine;

/// A module whose start function is `loop { }`.
const ENDLESS: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x08\x01\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

/// The smallest component.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

/// Time after which an endless loop counts as not stopped; a hundred ticks.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the engine, runs an endless loop, and says how long it took until that was stopped.
pub(crate) fn stops_endless_loop() -> Result<Duration, Error> {
    let failed = |message: String| Error::Start { message };
    let engine = engine()?;
    let module = Module::from_binary(&engine, ENDLESS).map_err(|e| failed(format!("{e:#}")))?;
    let (done, outcome) = mpsc::channel();
    let started = Instant::now();
    // A thread: should it not be stopped, it is left to loop.
    std::thread::Builder::new()
        .name("endless".to_owned())
        .spawn(move || {
            let mut store = Store::new(&engine, ());
            store.set_epoch_deadline(1);
            let trap = Instance::new(&mut store, &module, &[])
                .err()
                .and_then(|error| error.downcast_ref::<Trap>().copied());
            // Nobody waits any more when it took too long.
            let _ = done.send(trap);
        })
        .map_err(|e| failed(e.to_string()))?;
    match outcome.recv_timeout(PATIENCE) {
        Ok(Some(Trap::Interrupt)) => Ok(started.elapsed()),
        Ok(other) => Err(failed(format!("an endless loop ended with {other:?}"))),
        Err(_) => Err(failed(format!(
            "an endless loop was not stopped within {} s",
            PATIENCE.as_secs()
        ))),
    }
}

/// Compiles the smallest component as any other, and says how long that took, and why the process that did it could reach other
/// files, if it could.
pub(crate) async fn compiles(
    compiler: &Compiler,
    cache: &Path,
) -> Result<(Duration, Option<String>), Error> {
    let component = ComponentBytes {
        path: "the smallest component".into(),
        bytes: EMPTY.to_vec(),
        digest: String::new(),
    };
    let started = Instant::now();
    let compiled = compiler.compile(&engine()?, &component, cache).await?;
    Ok((started.elapsed(), compiled.unconfined))
}

/// Opens the cache of native code, which makes its folder private and its key.
pub(crate) fn opens_cache(folder: &Path, key: &Path) -> Result<(), Error> {
    CompileCache::open(folder, key)?;
    // A file that is made and removed: whether it can be written is otherwise only known when it matters.
    tempfile::NamedTempFile::new_in(folder)
        .map(drop)
        .map_err(Error::io("write in", folder))
}
