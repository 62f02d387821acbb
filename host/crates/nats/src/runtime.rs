//! The threads on which the store talks to its servers.
//!
//! The traits of stores block, and may be called within an async runtime, where blocking on a
//! future is forbidden. So requests run on a runtime of the store's own, and the caller waits on a
//! channel.

use std::future::Future;
use std::sync::mpsc;
use std::thread;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::NatsError;

/// Runs a call that waits for the servers. On a thread that runs tasks of the program, the other tasks
/// go on with another thread meanwhile: the end of a session waits up to ten seconds for servers that do
/// not answer, and neither timers nor other sessions may wait with it.
pub(crate) fn blocking<T>(call: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(call),
        // A runtime of one thread has none to go on with.
        _ => call(),
    }
}

/// A runtime on threads of its own. It ends when the value is dropped.
pub(crate) struct NatsRuntime {
    handle: Handle,
    /// Dropping it ends the thread that owns the runtime: a runtime must not be dropped within
    /// another one.
    _stop: oneshot::Sender<()>,
}

impl std::fmt::Debug for NatsRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NatsRuntime")
    }
}

impl NatsRuntime {
    /// Starts a runtime with this number of threads, besides the one that owns it.
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

    /// Runs a future on the runtime and blocks until it is done.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, NatsError>> + Send + 'static,
    ) -> Result<T, NatsError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(future.await);
        });
        blocking(|| receiver.recv()).unwrap_or(Err(NatsError::Ended))
    }

    /// Starts a task on the runtime.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }
}
