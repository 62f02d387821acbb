//! Signals at which the program shuts down in order, so that no command is left running and files
//! planted by commands are found. It must not know the parts that are shut down. Start from
//! [`AnySignal`].

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A set of signals that mean the same. Once a process has listened for a signal, its default is
/// gone for good.
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
    pub(super) async fn recv(&mut self) {
        let any = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures_util::future::select_all(any).await;
    }
}
