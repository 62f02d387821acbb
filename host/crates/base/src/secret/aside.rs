//! Runs long scans for secrets without blocking other tasks of the asynchronous runtime.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Minimum number of bytes for which a scan is considered long. Such a scan can take 20 ms and
/// more, about as long as a plugin computes before it yields.
const MIN_BLOCKING_SCAN_BYTES: usize = 64 << 10;

/// Runs `work`, which processes `bytes` bytes and blocks its thread. If this may take long on a
/// multi-threaded runtime, the other tasks of this thread are moved to other threads first.
pub fn run_blocking_scan<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || {
        Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    if bytes >= MIN_BLOCKING_SCAN_BYTES && has_threads() {
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
            run_blocking_scan(MIN_BLOCKING_SCAN_BYTES, || {
                waits.recv_timeout(Duration::from_secs(20))
            })
        };
        assert_eq!(tokio::spawn(scan).await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_itself() {
        assert_eq!(run_blocking_scan(MIN_BLOCKING_SCAN_BYTES, || 1), 1);
    }

    #[test]
    fn without_a_runtime_it_is_just_done() {
        assert_eq!(run_blocking_scan(MIN_BLOCKING_SCAN_BYTES, || 1), 1);
    }
}
