//! Long scans, without keeping a thread that other work waits for.

use tokio::runtime::{Handle, RuntimeFlavor};

/// A scan of this many bytes takes some 20 ms at worst, about as long as guests compute before they give way.
const LONG_BYTES: usize = 64 << 10;

/// Runs `work`, which goes over `bytes` bytes and cannot be interrupted. When that may take long, the runtime's other tasks go
/// on elsewhere meanwhile. A runtime of one thread has no elsewhere.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
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
            aside(LONG_BYTES, || waits.recv_timeout(Duration::from_secs(20)))
        };
        assert_eq!(tokio::spawn(scan).await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_itself() {
        assert_eq!(aside(LONG_BYTES, || 1), 1);
    }

    #[test]
    fn without_a_runtime_it_is_just_done() {
        assert_eq!(aside(LONG_BYTES, || 1), 1);
    }
}
