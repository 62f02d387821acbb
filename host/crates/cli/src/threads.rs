//! Checks before anything starts that the system gives the program the threads that it needs. Where
//! it does not (`ulimit -u`, `pids.max` of a control group), the runtime would panic in the middle of
//! a turn.

use std::io;
use std::sync::Mutex;
use std::thread;

/// Threads that block beside the workers of the runtime: the session file, a search, a plugin that is
/// compiled, the terminal.
const BLOCKING: usize = 8;

/// Checks that threads for the workers and for blocking work can run at the same time.
///
/// # Errors
/// The error of the system for the first thread that it does not give.
pub(super) fn check() -> io::Result<()> {
    let number = thread::available_parallelism().map_or(1, usize::from) + BLOCKING;
    // All are alive until the last was asked for.
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let held = gate.lock();
        let wait = || drop(gate.lock());
        let spawned = (0..number).try_for_each(|_| {
            let thread = thread::Builder::new().stack_size(64 << 10);
            thread.spawn_scoped(scope, wait).map(drop)
        });
        drop(held);
        spawned
    })
}
