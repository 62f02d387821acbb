//! Signals at which the program shuts down in order, so that no command is left running and files
//! planted by commands are found. It must not know the parts that are shut down. Start from
//! [`AnySignal`].

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A set of signals that are handled alike. Once a process has registered a handler for a signal,
/// the default action is lost for good.
pub(super) struct AnySignal(Vec<Signal>);

impl AnySignal {
    /// Listens for Ctrl-C, `Ctrl-\`, a closed terminal and `kill`.
    pub(super) fn interrupts() -> std::io::Result<Self> {
        Self::new(&[
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ])
    }

    /// Listens for the same but Ctrl-C, which a chat takes for the end of the turn only.
    pub(super) fn ends() -> std::io::Result<Self> {
        Self::new(&[
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ])
    }

    /// Listens for `Ctrl-\` and `kill`, not for the closing of the terminal, which may be signalled
    /// more than once.
    pub(super) fn kills() -> std::io::Result<Self> {
        Self::new(&[SignalKind::quit(), SignalKind::terminate()])
    }

    fn new(kinds: &[SignalKind]) -> std::io::Result<Self> {
        kinds
            .iter()
            .map(|kind| signal(*kind))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Waits for the next of them. Nothing is lost when the future is dropped.
    pub(super) async fn recv_signal(&mut self) {
        poll_fn(|context| {
            // While none is ready, all are polled, so that each wakes this task.
            let mut signals = self.0.iter_mut();
            match signals.any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Cancels the turn at the first signal, and ends the process at the second, in case the
    /// orderly shutdown hangs.
    pub(super) async fn pass_on(mut self, cancel: CancellationToken) {
        self.recv_signal().await;
        cancel.cancel();
        self.recv_signal().await;
        std::process::exit(130);
    }
}
