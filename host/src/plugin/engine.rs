//! The one engine, and the thread that drives its clock.

use std::time::Duration;

use wasmtime::Engine;

use super::Error;
use super::engine_config::config;

/// Interval at which computing guests yield, and so the precision of deadlines.
pub const TICK: Duration = Duration::from_millis(10);

/// Makes the engine and starts its clock. One per process is enough.
pub fn engine() -> Result<Engine, Error> {
    let engine = Engine::new(&config()).map_err(|e| Error::Start {
        message: format!("the WebAssembly engine: {e:#}"),
    })?;
    start_clock(&engine)?;
    Ok(engine)
}

/// A thread, not a task: it still ticks when every worker of the runtime is busy. It ends with the engine.
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
