//! The process-wide wasmtime engine and the thread that advances its epoch.

use std::time::Duration;

use wasmtime::{Config, Engine};

use super::Error;
use super::engine_config::{self, GuestMemoryReservation};

/// Interval at which the engine's epoch advances. A guest that computes yields at this interval, so
/// deadlines have this precision.
pub const EPOCH_TICK_INTERVAL: Duration = Duration::from_millis(10);

/// Returns the engine settings of this process and of the compile helpers that it starts.
pub(super) fn engine_config_for_process() -> Config {
    engine_config::config(match is_address_space_limited() {
        true => GuestMemoryReservation::Narrow,
        false => GuestMemoryReservation::for_processor(cfg!(target_arch = "x86_64")),
    })
}

/// Whether the address space of the process is limited (`ulimit -v`). A few memories with large
/// reservations would exhaust it.
#[cfg(unix)]
fn is_address_space_limited() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As);
    limit.current.is_some()
}

#[cfg(not(unix))]
fn is_address_space_limited() -> bool {
    false
}

/// Creates the engine and starts its epoch thread. One engine per process is enough.
pub fn create_engine() -> Result<Engine, Error> {
    let engine = Engine::new(&engine_config_for_process()).map_err(|e| Error::Start {
        message: format!("cannot create the WebAssembly engine: {e:#}"),
    })?;
    start_epoch_thread(&engine)?;
    Ok(engine)
}

/// Starts the thread that advances the engine's epoch, by which running guests are interrupted. The
/// thread ends when the engine is dropped. It is a thread instead of a task, because it must tick
/// even when every worker of the runtime is busy.
fn start_epoch_thread(engine: &Engine) -> Result<(), Error> {
    let engine = engine.weak();
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(EPOCH_TICK_INTERVAL);
        }
    };
    std::thread::Builder::new()
        .name("plugin-clock".to_owned())
        .spawn(tick)
        .map(drop)
        .map_err(|e| Error::Start {
            message: format!("cannot start the thread that enforces the deadlines of plugins: {e}"),
        })
}
