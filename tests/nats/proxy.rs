//! A proxy between a client and a server that can lose the server's answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Treatment of the bytes that a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// Passes all bytes on.
    None,
    /// Drops the bytes and then closes the connection, so that requests arrive but not their
    /// answers.
    LosesAnswers,
}

/// A proxy on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    fault: Arc<AtomicU8>,
    n_lost: Arc<AtomicU64>,
    _runtime: tokio::runtime::Runtime,
}

impl FaultProxy {
    /// Starts a proxy for the server at this local port.
    ///
    /// # Panics
    /// No port is free.
    #[must_use]
    pub fn start(to: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(TcpListener::bind(("127.0.0.1", 0)))
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let (fault, n_lost) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicU64::new(0)));
        let (own_fault, own_lost) = (fault.clone(), n_lost.clone());
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await {
                    let (fault, n_lost) = (own_fault.clone(), own_lost.clone());
                    tokio::spawn(pass(client, server, fault, n_lost));
                }
            }
        });
        Self {
            port,
            fault,
            n_lost,
            _runtime: runtime,
        }
    }

    /// Returns the port of the proxy.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes how the proxy treats answers from now on.
    pub fn set(&self, fault: ProxyFault) {
        self.fault.store(
            u8::from(fault == ProxyFault::LosesAnswers),
            Ordering::SeqCst,
        );
    }

    /// Returns how often answers were lost.
    #[must_use]
    pub fn n_lost(&self) -> u64 {
        self.n_lost.load(Ordering::SeqCst)
    }
}

async fn pass(client: TcpStream, server: TcpStream, fault: Arc<AtomicU8>, n_lost: Arc<AtomicU64>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async { tokio::io::copy(&mut from_client, &mut to_server).await };
    let answers = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n_read = from_server.read(&mut buffer).await.unwrap_or_default();
            if n_read == 0 {
                return;
            }
            if fault.load(Ordering::SeqCst) > 0 {
                n_lost.fetch_add(1, Ordering::SeqCst);
                // Gives requests on their way time to arrive at the server.
                tokio::time::sleep(Duration::from_millis(30)).await;
                return;
            }
            if to_client.write_all(&buffer[..n_read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = requests => {}
        () = answers => {}
    }
}
