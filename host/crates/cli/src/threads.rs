//! Checks at the start that the system allows as many threads as the program needs. With fewer
//! (`ulimit -u`, or `pids.max` of a control group), the runtime would panic in the middle of a
//! turn.

use std::io;
use std::sync::Mutex;
use std::thread;

/// Number of threads for blocking work, in addition to the runtime's workers: writing the session
/// file, searching, compiling a plugin, reading the terminal.
const N_BLOCKING_THREADS: usize = 8;

/// Checks that the threads for workers and for blocking work can all exist at the same time.
///
/// # Errors
/// The system's error for the first thread that cannot be created.
pub(super) fn check_runtime_threads_can_start() -> io::Result<()> {
    let number = thread::available_parallelism().map_or(1, usize::from) + N_BLOCKING_THREADS;
    // Each thread waits for this lock, so that all of them exist at the same time.
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
