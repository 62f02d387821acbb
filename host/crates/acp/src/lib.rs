//! Serves the Agent Client Protocol, version 1: sessions of Rind in an editor, over standard input
//! and output.
//!
//! Owns the connection to the client: messages, requests, updates, questions, and the sessions that
//! the client has open. Turns run only through [`rind_lib::Host`], so the operator's rules, hooks
//! and limits apply as they do on the command line. Only the module `wire` imports the crate with
//! the protocol's types. This crate knows no command line, no settings and no plugin code: the
//! program implements [`backend::AcpSessionOpener`].
//!
//! The protocol's own SDK is not used: it reads lines of any length into memory, and a line that is
//! not UTF-8 ends its connection.
//!
//! Start from [`serve_client`].

mod ask;
pub mod backend;
mod calls;
mod carry_out;
mod client;
mod later;
mod lines;
mod live;
mod options;
mod permission;
mod plan;
mod prompt;
mod replay;
mod rpc;
mod server;
mod sessions;
mod view;
mod wire;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use backend::AcpSessionOpener;
use server::AcpClientConnection;

/// Time limit for writing the queued messages when the connection ends. Without it, a client that
/// does not read would block the exit.
const FINAL_OUTPUT_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves one client until its input ends, its output cannot be written any more, or `cancel` is
/// set. At the end, running prompts are interrupted and all sessions are closed; the client can
/// load them again later.
///
/// # Errors
/// A thread for reading or writing cannot be started.
pub async fn serve_client(
    backend: Arc<dyn AcpSessionOpener>,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    cancel: &CancellationToken,
) -> io::Result<()> {
    let mut lines = lines::start_line_reader(input)?;
    let (outbox, written) = lines::start_line_writer(output)?;
    let connection = Arc::new(AcpClientConnection::new(backend, outbox.clone()));
    loop {
        let line = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            () = outbox.broken.cancelled() => break,
            line = lines.recv() => line,
        };
        match line {
            Some(line) => connection.handle_line(line),
            None => break,
        }
    }
    connection.shut_down().await;
    outbox.end_writer_thread();
    if tokio::time::timeout(FINAL_OUTPUT_WRITE_TIMEOUT, written)
        .await
        .is_err()
    {
        tracing::debug!(
            "the last messages were not written, because the client has stopped reading"
        );
    }
    Ok(())
}
