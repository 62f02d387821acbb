//! A server with many sessions: one host, and one session for each connection.
//!
//! `cargo run -p rind --example server` listens on loopback; `nc 127.0.0.1 7878` talks to it. The
//! first line of a client is the id of a session to continue, or empty for a new session. Each
//! further line is the input of a turn, whose answer is streamed to the client.
#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::sync::Arc;

use rind::Host;
use rind::event::Event;
use rind::provider::scripted::Scripted;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    // The folder of `home` keeps the sessions between runs. There is no approver, so a call that
    // needs approval is refused.
    let host = Host::builder()
        .provider(Arc::new(Scripted::built_in()?), "scripted")
        .home("target/server")
        .file_tools()
        .observe(|event| {
            if let Event::TurnEnd { turn, summary, .. } = &event.event {
                let session = event.session.as_deref().unwrap_or_default();
                println!("{session}: turn {turn} ended: {:?}", summary.stop);
            }
        })
        .build()
        .await?;
    let listener = TcpListener::bind("127.0.0.1:7878").await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await?;
        let host = host.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_client(&host, client).await {
                println!("a connection ended: {error}");
            }
        });
    }
}

/// Serves one client until the client closes its connection.
async fn serve_client(host: &Host, client: TcpStream) -> Result<()> {
    let (read, mut write) = client.into_split();
    let mut lines = BufReader::new(read).lines();
    let Some(id) = lines.next_line().await? else {
        return Ok(());
    };
    let mut session = match id.trim() {
        "" => host.session().create()?,
        id => host.session().resume(id)?,
    };
    let greeting = format!("session {}\n", session.id());
    write.write_all(greeting.as_bytes()).await?;
    let mut events = session.events();
    while let Some(text) = lines.next_line().await? {
        let cancel = CancellationToken::new();
        let mut turn = session.turn(text).until(&cancel);
        let outcome = loop {
            tokio::select! {
                Some(stamped) = events.recv() => send_text(&mut write, stamped.event, &cancel).await,
                outcome = &mut turn => break outcome?,
            }
        };
        while let Ok(stamped) = events.try_recv() {
            send_text(&mut write, stamped.event, &cancel).await;
        }
        let end = format!("\n({} steps)\n", outcome.summary.steps);
        write.write_all(end.as_bytes()).await?;
    }
    session.close().await?;
    Ok(())
}

/// Sends new text of the answer to the client. If the client has disconnected, interrupts the turn.
async fn send_text(client: &mut OwnedWriteHalf, event: Event, cancel: &CancellationToken) {
    if let Event::TextDelta { text } = event
        && client.write_all(text.as_bytes()).await.is_err()
    {
        cancel.cancel();
    }
}
