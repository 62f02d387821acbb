//! Tests of WebSocket connections of loops, with servers that follow the protocol and servers that
//! break it.

mod dvm;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rind::egress::{EgressOptions, Secret, SecretStore};
use rind::grant::Trust;
use rind::grant::ask::GrantOptions;
use rind::plugin::loops::LoopRunResult;
use rind::provider::scripted::{Script, Scripted};
use rind::{Host, PluginFolders};
use rind_tests::guests;
use rind_tests::server::Names;
use rind_tests::session::Session;
use serde_json::{Value, json};
use server::{Act, SocketServer};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Secret of the operator for the server.
const TOKEN: &str = "tok-3n-of-the-operator";

struct Kept;

impl SecretStore for Kept {
    fn get(&self, name: &str) -> Option<Secret> {
        (name == "TOKEN").then(|| Secret::new(TOKEN))
    }
}

/// Result of a run of the guest's loop.
struct Came {
    reason: String,
    /// Access records as `OUTCOME | TARGET | REASON`.
    records: Vec<String>,
    took: Duration,
}

/// A host with the guest `socket`.
struct Setup {
    host: Host,
    _folder: TempDir,
}

impl Setup {
    async fn new(network: &str, url: &str, how: &str, names: Names) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("plugins");
        guests::put("socket", &plugins, |manifest| {
            let manifest = manifest
                .replace("default = \"\"", &format!("default = \"{url}\""))
                .replace("default = \"echo\"", &format!("default = \"{how}\""));
            format!("{manifest}\n[network]\n{network}\n")
        });
        let egress = EgressOptions {
            secrets: Arc::new(Kept),
            resolver: Arc::new(names),
            deadline: Duration::from_secs(3),
            ..EgressOptions::default()
        };
        // Loopback addresses need a grant even for a managed plugin.
        let grants = GrantOptions {
            flags: vec!["socket".parse().unwrap()],
            ..GrantOptions::default()
        };
        let script = Script::new(Vec::new());
        let host = Host::builder()
            .provider(Arc::new(Scripted::new(script)), "test-model")
            .home(folder.path().join("home"))
            .workspace(folder.path().join("workspace"))
            .plugins(
                PluginFolders::new(Trust::Managed, plugins)
                    .egress(egress)
                    .grants(grants),
            );
        Self {
            host: host.build().await.unwrap(),
            _folder: folder,
        }
    }

    async fn run(&self, cancel: &CancellationToken) -> Came {
        let started = Instant::now();
        let mut session = self.host.session().create().unwrap();
        let reply = session.run_loop("socket", cancel).await;
        let reason = match reply {
            Ok(LoopRunResult::Again { reason, .. }) => reason,
            other => format!("{other:?}"),
        };
        let took = started.elapsed();
        let id = session.id().to_owned();
        session.close().await.unwrap();
        let (entries, _) = self.host.store().read_entries(&id).unwrap();
        let entries = entries
            .iter()
            .map(|entry| serde_json::to_value(entry).unwrap());
        let accesses = entries.filter(|entry| entry["type"] == "access");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let records = accesses.map(|entry| {
            let record = &entry["record"];
            let parts = ["outcome", "target", "reason"].map(|key| text(&record[key]));
            parts.join(" | ")
        });
        Came {
            reason,
            records: records.collect(),
            took,
        }
    }
}

/// Runs the guest with a loopback server for which it has a grant.
async fn run(server: &SocketServer, how: &str) -> Came {
    let network = format!("private = [\"{}\"]", server.grant());
    let setup = Setup::new(&network, &server.url(), how, Names::default()).await;
    setup.run(&CancellationToken::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_both_ways_with_the_credential_and_leave_records() {
    let server = SocketServer::start(Act::Echo).await;
    let network = format!(
        "private = [\"{0}\"]\n[[network.credentials]]\nhost = \"{0}\"\nheader = \"authorization\"\nvalue = \"Bearer {{TOKEN}}\"",
        server.grant()
    );
    let setup = Setup::new(&network, &server.url(), "echo", Names::default()).await;
    let came = setup.run(&CancellationToken::new()).await;
    // The server sends `hi` and echoes the guest's three messages. Its record of the handshake is
    // checked below.
    assert_eq!(
        came.reason,
        "4 bye; the server closed the connection: 1000 done"
    );
    let asked = server.asked();
    assert!(asked.contains(&format!("Bearer {TOKEN}")), "{asked}");
    assert!(
        asked
            .to_lowercase()
            .contains("sec-websocket-protocol: test.v1"),
        "{asked}"
    );
    assert_eq!(came.records.len(), 2, "{:?}", came.records);
    assert_eq!(
        came.records[0],
        format!("done | OPEN {}/socket | ", server.url_base())
    );
    assert!(
        came.records[1].starts_with(&format!(
            "done | CLOSE {}/socket | received 4 messages,",
            server.url_base()
        )) && came.records[1].contains("sent 3 messages, 1008 bytes; the server closed"),
        "{:?}",
        came.records
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_comes_back_is_masked() {
    let server = SocketServer::start(Act::SayHandshake).await;
    let network = format!(
        "private = [\"{0}\"]\n[[network.credentials]]\nhost = \"{0}\"\nheader = \"x-key\"\nvalue = \"{{TOKEN}}\"",
        server.grant()
    );
    let setup = Setup::new(&network, &server.url(), "listen", Names::default()).await;
    let came = setup.run(&CancellationToken::new()).await;
    assert!(
        came.reason.starts_with("1 x-key: [masked: TOKEN]"),
        "{}",
        came.reason
    );
}

/// Each behavior of a server ends the run with this reason.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_break_the_rules_are_cut_off_by_name() {
    for (act, expected) in [
        (
            Act::Huge,
            "0 ; the server sent a message of more than 1048576 bytes",
        ),
        (
            Act::HugeInParts,
            "0 ; the server sent a message of more than 1048576 bytes",
        ),
        (
            Act::PingFlood,
            "0 ; the server sent more than 500 pings or pongs within 10s",
        ),
        (
            Act::TextAfterClose,
            "1 before; the server closed the connection: 1000 done",
        ),
        (
            Act::Masked,
            "0 ; the server violated the WebSocket protocol: ",
        ),
        (Act::Drop, "0 ; the server broke the connection off"),
        (
            Act::Silent,
            "Error::Failed(\"the handshake of the WebSocket took longer than 3s\")",
        ),
        (
            Act::Redirect,
            "Error::Denied(\"the server answered the handshake of the WebSocket with a redirect (302), which is not followed",
        ),
        (
            Act::Refuse,
            "Error::Failed(\"the server answered the handshake of the WebSocket with 403 and opened no connection",
        ),
        (
            Act::EndlessHeaders,
            "Error::Failed(\"the handshake failed: ",
        ),
        (Act::WrongAccept, "Error::Failed(\"the handshake failed: "),
        (
            Act::ForeignProtocol,
            "Error::Failed(\"the handshake failed: ",
        ),
    ] {
        let server = SocketServer::start(act).await;
        let came = run(&server, "listen").await;
        assert!(
            came.reason.starts_with(expected),
            "{act:?}: {}",
            came.reason
        );
        assert!(
            came.took < Duration::from_secs(10),
            "{act:?}: {:?}",
            came.took
        );
        if act == Act::Redirect {
            assert_eq!(server.n_connections(), 1);
            assert!(
                came.records[0].starts_with("denied | OPEN ws://"),
                "{:?}",
                came.records
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_loop_stops_the_reading_and_loses_nothing() {
    let server = SocketServer::start(Act::Stream).await;
    let came = run(&server, "slow").await;
    // The server could only send as much as the host's queue and the kernel's buffers hold.
    let before = server.sent_while_slow();
    assert!(before < 24 << 20, "{before}");
    assert_eq!(
        came.reason,
        format!(
            "{} 65536 bytes; the server closed the connection: 1000 done",
            server::STREAMED
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_messages_have_bounds_and_secrets_are_not_sent() {
    let server = SocketServer::start(Act::Hold).await;
    let many = run(&server, "many").await.reason;
    assert!(
        many.starts_with(
            "4 opened, then Error::Limit(\"the plugin already has 4 WebSocket connections"
        ),
        "{many}"
    );
    let long = run(&server, "long").await.reason;
    assert!(
        long.starts_with("Error::Limit(\"the message has 1048577 bytes"),
        "{long}"
    );
    let secret = run(&server, "secret").await.reason;
    assert!(secret.starts_with("Error::Denied("), "{secret}");
    let closed = run(&server, "closed").await.reason;
    assert!(
        closed.starts_with("Err(Error::NotFound(") && closed.contains(" Err(Error::NotFound("),
        "{closed}"
    );
    // The end of a run closes the connections that it left open.
    assert_eq!(run(&server, "leave").await.reason, "left open");
    let started = Instant::now();
    while server.n_open() > 0 {
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{} are open",
            server.n_open()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_host_ends_a_wait_for_messages_and_closes_the_connection() {
    let server = SocketServer::start(Act::Hold).await;
    let network = format!("private = [\"{}\"]", server.grant());
    let setup = Setup::new(&network, &server.url(), "listen", Names::default()).await;
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    let came = setup.run(&cancel).await;
    assert!(came.took < Duration::from_secs(5), "{:?}", came.took);
    assert!(
        came.records.last().unwrap().contains("CLOSE"),
        "{:?}",
        came.records
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.n_open(), 0);
}

/// Cases of `[network]` grants, URL, address of the URL's name, and refusal.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_addresses_that_were_not_granted_are_refused() {
    for (network, url, address, expected) in [
        (
            "hosts = [\"a.example\"]",
            "wss://a.example/",
            "10.0.0.1",
            "Error::Denied(\"`a.example` resolves to 10.0.0.1, a private address; list it under [network] private",
        ),
        (
            "hosts = [\"a.example\"]",
            "wss://a.example/",
            "169.254.169.254",
            "Error::Denied(\"`a.example` resolves to 169.254.169.254, an address of cloud metadata",
        ),
        (
            "hosts = [\"a.example\"]",
            "ws://a.example/",
            "1.1.1.1",
            "Error::Denied(\"`http://a.example:80` is not among the hosts that the plugin was granted",
        ),
        (
            "hosts = [\"a.example\"]",
            "wss://b.example/",
            "1.1.1.1",
            "Error::Denied(\"`https://b.example:443` is not among the hosts",
        ),
        (
            "hosts = [\"*\"]",
            "ws://127.0.0.1:1/",
            "",
            "Error::Denied(\"`http://127.0.0.1:1` is not among",
        ),
        (
            "hosts = [\"*\"]",
            "wss://127.0.0.1/",
            "",
            "Error::Denied(\"`127.0.0.1` is a loopback address",
        ),
        (
            "hosts = [\"*\"]",
            "https://a.example/",
            "1.1.1.1",
            "Error::InvalidInput(\"the URL of a WebSocket begins with",
        ),
        (
            "hosts = [\"*\"]",
            "wss://u:p@a.example/",
            "1.1.1.1",
            "Error::InvalidInput(\"a URL must not contain a user",
        ),
    ] {
        let names = Names::default();
        names.set("a.example", &[&[address][..address.len().min(1)]]);
        let setup = Setup::new(network, url, "listen", names).await;
        let came = setup.run(&CancellationToken::new()).await;
        assert!(came.reason.starts_with(expected), "{url}: {}", came.reason);
        assert!(
            came.records[0].starts_with("denied | OPEN "),
            "{:?}",
            came.records
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_opens_no_connection() {
    let mut host = guests::Host::default();
    host.options.grants.flags = vec!["socket".parse().unwrap()];
    host.plugin(Trust::Managed, "socket", |manifest| {
        manifest + "\n[network]\nhosts = [\"a.example\"]\n"
    });
    let session = Session::open(&host.load().await);
    let output = session.tool("socket:connect", json!({})).await;
    let text = output.content.text();
    let expected = "only the loop of plugin `socket` may use `websocket`, but one of its tools or commands used it";
    assert!(output.is_error && text.contains(expected), "{text}");
}

/// The host connects to the address of its only look-up, although a second one would give another
/// address.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_looked_up_once() {
    let server = SocketServer::start(Act::Drop).await;
    let SocketAddr::V4(at) = server.address() else {
        panic!("the server listens on IPv4");
    };
    let host = format!("http://a.example:{}", at.port());
    let names = Names::default();
    names.set("a.example", &[&["127.0.0.1"], &["10.0.0.1"]]);
    let url = format!("ws://a.example:{}/", at.port());
    let setup = Setup::new(&format!("private = [\"{host}\"]"), &url, "listen", names).await;
    let came = setup.run(&CancellationToken::new()).await;
    assert_eq!(came.reason, "0 ; the server broke the connection off");
    assert_eq!(server.n_connections(), 1);
}
