//! Runs the requests of the store on separate threads.
//!
//! The methods of a session store block, and may be called within an async runtime, which does not
//! allow blocking on a future. So requests run on a separate runtime, and the caller waits on a
//! channel.

use std::future::Future;
use std::sync::mpsc;
use std::thread;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::NatsError;

/// Runs a call that may block for seconds, such as closing a session while the servers do not
/// answer. On a worker thread of a multi-threaded Tokio runtime, moves the other tasks to another
/// thread, so that the call does not delay timers and other sessions.
pub(crate) fn run_blocking<T>(call: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(call),
        // Outside of a Tokio runtime, or on one with a single thread, there is no thread to which
        // tasks could be moved.
        _ => call(),
    }
}

/// Tokio runtime with threads of its own. It ends when this value is dropped.
pub(crate) struct NatsTokioRuntime {
    handle: Handle,
    /// Channel whose end stops the thread that owns the runtime. That thread drops the runtime,
    /// because a runtime must not be dropped within another runtime.
    _stop: oneshot::Sender<()>,
}

impl std::fmt::Debug for NatsTokioRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NatsTokioRuntime")
    }
}

impl NatsTokioRuntime {
    /// Starts a runtime with this number of worker threads, and one more thread that owns the
    /// runtime.
    pub(crate) fn start(name: &str, n_threads: usize) -> Result<Self, NatsError> {
        let failed = |source: std::io::Error| NatsError::Unanswered {
            what: "the start of a thread".to_owned(),
            source: Box::new(source),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(n_threads)
            .thread_name(name)
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    /// Runs a future on the runtime, and blocks until it completes.
    pub(crate) fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, NatsError>> + Send + 'static,
    ) -> Result<T, NatsError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(future.await);
        });
        run_blocking(|| receiver.recv()).unwrap_or(Err(NatsError::Ended))
    }

    /// Starts a task on the tokio runtime of the store, and does not wait for it.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }
}
