//! Listens for signals on which the program shuts down in an orderly way: it ends running commands,
//! and finds files that commands planted.
//!
//! The callers shut down; this module only waits for signals. Start from [`ShutdownSignals`].

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Set of signals that are handled alike. Once a handler for a signal is registered, the signal's
/// default action is lost for the rest of the process.
pub(super) struct ShutdownSignals(Vec<Signal>);

impl ShutdownSignals {
    /// Listens for Ctrl-C, `Ctrl-\`, SIGTERM and the closing of the terminal.
    pub(super) fn listen_for_interrupts() -> std::io::Result<Self> {
        Self::new(&[
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ])
    }

    /// Listens for the signals of [`listen_for_interrupts`](Self::listen_for_interrupts) except
    /// Ctrl-C, which only ends the turn in a chat.
    pub(super) fn listen_without_ctrl_c() -> std::io::Result<Self> {
        Self::new(&[
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ])
    }

    /// Listens for `Ctrl-\` and SIGTERM, but not for SIGHUP, because the closing of a terminal may
    /// cause it more than once.
    pub(super) fn listen_without_hangup() -> std::io::Result<Self> {
        Self::new(&[SignalKind::quit(), SignalKind::terminate()])
    }

    fn new(kinds: &[SignalKind]) -> std::io::Result<Self> {
        kinds
            .iter()
            .map(|kind| signal(*kind))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Waits for the next signal. Cancel-safe: no signal is lost when the future is dropped.
    pub(super) async fn wait_for_signal(&mut self) {
        poll_fn(|context| {
            // `any` polls every signal while none is ready, so that each of them can wake this
            // task.
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
    pub(super) async fn cancel_then_exit_on_second_signal(mut self, cancel: CancellationToken) {
        self.wait_for_signal().await;
        cancel.cancel();
        self.wait_for_signal().await;
        std::process::exit(130);
    }
}
