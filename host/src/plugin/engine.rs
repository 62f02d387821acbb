//! The process-wide wasmtime engine and the thread that advances its epoch.

use std::time::Duration;

use wasmtime::Engine;

use super::Error;
use super::engine_config::config;

/// Epoch interval: a computing guest yields this often, so deadlines have this precision.
pub const TICK: Duration = Duration::from_millis(10);

/// Creates the engine and starts its epoch thread. One engine per process is enough.
pub fn engine() -> Result<Engine, Error> {
    let engine = Engine::new(&config()).map_err(|e| Error::Start {
        message: format!("the WebAssembly engine: {e:#}"),
    })?;
    start_clock(&engine)?;
    Ok(engine)
}

/// Starts the epoch thread. A thread instead of a task, because it must tick even when every worker
/// of the runtime is busy. It ends when the engine is dropped.
fn start_clock(engine: &Engine) -> Result<(), Error> {
    let engine = engine.weak();
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(TICK);
        }
    };
    std::thread::Builder::new()
        .name("plugin-clock".to_owned())
        .spawn(tick)
        .map(drop)
        .map_err(|e| Error::Start {
            message: format!("cannot start the plugin clock: {e}"),
        })
}
