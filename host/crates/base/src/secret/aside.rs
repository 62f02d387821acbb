//! Runs long scans without blocking other tasks of the runtime.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Minimum size in bytes for which a scan counts as long. It can then take some 20 ms, about as
/// long as guests compute before they yield.
const LONG_BYTES: usize = 64 << 10;

/// Runs `work`, which processes `bytes` bytes and blocks its thread. If that may take long, the
/// other tasks of a multi-threaded runtime are moved to other threads first.
pub fn run_aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || {
        Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    if bytes >= LONG_BYTES && has_threads() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_a_long_text_is_scanned() {
        let scan = async {
            let (done, waits) = mpsc::channel();
            tokio::spawn(async move { done.send(()) });
            run_aside(LONG_BYTES, || waits.recv_timeout(Duration::from_secs(20)))
        };
        assert_eq!(tokio::spawn(scan).await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_itself() {
        assert_eq!(run_aside(LONG_BYTES, || 1), 1);
    }

    #[test]
    fn without_a_runtime_it_is_just_done() {
        assert_eq!(run_aside(LONG_BYTES, || 1), 1);
    }
}
