//! The egress: what a plugin may reach over HTTP, through the host's own interface or WASI.

mod program;

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rind::egress::{EgressOptions, OutgoingRequest, Secret, SecretStore};
use rind::grant::Trust;
use rind::point::trace::{AccessOutcome, Reached};
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::{Value, json};

use rind_tests::server::{Names, Reply, Server, bomb, closed_port, gzip};

/// Interfaces through which the guest sends a request.
const FACES: [&str; 2] = ["rind", "wasi"];

/// A secret that only servers may see.
const TOKEN: &str = "tok/3n+of=the\"operator";

struct Kept;

impl SecretStore for Kept {
    fn get(&self, name: &str) -> Option<Secret> {
        match name {
            "TOKEN" => Some(Secret::new(TOKEN)),
            "A_SHORT_SECRET_WITH_A_LONG_NAME" => Some(Secret::new("12345678")),
            _ => None,
        }
    }
}

/// A host with the guest `fetch` and this `[network]` section, and the names that it can resolve.
struct Net {
    host: Host,
    names: Arc<Names>,
}

impl Net {
    fn new(network: &str) -> Self {
        let names = Arc::new(Names::default());
        let mut host = Host::default();
        host.options.egress = EgressOptions {
            secrets: Arc::new(Kept),
            resolver: names.clone(),
            ..EgressOptions::default()
        };
        // Access to loopback needs an answer at every trust, so it is granted here.
        host.options.grants.flags = vec!["fetch".parse().unwrap()];
        let network = format!("\n[network]\n{network}\n");
        host.plugin(Trust::Managed, "fetch", |manifest| manifest + &network);
        Self { host, names }
    }

    async fn session(&self) -> Session {
        let plugins = self.host.load().await;
        assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
        Session::open(&plugins)
    }
}

struct Ask<'a> {
    method: &'a str,
    url: &'a str,
    headers: &'a [&'a str],
    body: &'a str,
}

impl<'a> Ask<'a> {
    fn get(url: &'a str) -> Self {
        Self {
            method: "GET",
            url,
            headers: &[],
            body: "",
        }
    }
}

async fn fetch(session: &Session, face: &str, ask: &Ask<'_>) -> Value {
    let output = session
        .tool(
            "fetch:fetch",
            json!({
                "face": face, "method": ask.method, "url": ask.url,
                "headers": ask.headers, "body": ask.body,
            }),
        )
        .await;
    assert!(!output.is_error, "{}", output.content);
    serde_json::from_str(&output.content.text()).unwrap()
}

/// The error of a request as the guest sees it. Through WASI the error is a code.
async fn refused(session: &Session, face: &str, ask: &Ask<'_>) -> String {
    let answer = fetch(session, face, ask).await;
    let error = answer["error"].as_str();
    error
        .unwrap_or_else(|| panic!("{face} {}: {answer}", ask.url))
        .to_owned()
}

/// Outcome, target and reason of the last record.
fn record(session: &Session) -> (AccessOutcome, String, String) {
    let records = session.memory.accesses.lock().unwrap();
    let last = records.last().expect("no record was left");
    assert_eq!((last.reached, &*last.plugin), (Reached::Network, "fetch"));
    assert_eq!((last.origin.turn, last.origin.step), (1, 2));
    let reason = last.reason.clone().unwrap_or_default();
    (last.outcome, last.target.clone(), reason)
}

/// Checks that the request fails with this code and text on both interfaces and in the record.
async fn check_refused(session: &Session, ask: &Ask<'_>, kind: &str, code: &str, text: &str) {
    for face in FACES {
        let before = session.memory.accesses.lock().unwrap().len();
        let told = refused(session, face, ask).await;
        let url = ask.url;
        if face == "rind" {
            assert!(told.starts_with(&format!("Error::{kind}")), "{url}: {told}");
            assert!(told.contains(text), "{url}: {told}");
        } else {
            assert!(told.contains(code), "{url}: {told}");
        }
        let (outcome, target, reason) = record(session);
        assert_ne!(outcome, AccessOutcome::Done, "{url}");
        assert!(reason.contains(text), "{face} {url}: {target}: {reason}");
        assert!(session.memory.accesses.lock().unwrap().len() > before);
    }
}

#[tokio::test]
async fn a_listed_host_is_reached_and_every_request_leaves_a_record() {
    let server = Server::start(|_| Reply::ok("hello")).await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let session = net.session().await;
    for face in FACES {
        let url = server.at("127.0.0.1", "/a%20b?token=hunter2#part");
        let answer = fetch(
            &session,
            face,
            &Ask {
                method: "POST",
                url: url.trim_end_matches("#part"),
                headers: &["x-mine: yes", "cookie: a=b"],
                body: "question",
            },
        )
        .await;
        assert_eq!(
            (&answer["status"], &answer["body"]),
            (&json!(200), &json!("hello")),
            "{face}: {answer}"
        );
        assert_eq!(answer["headers"], json!(["content-length: 5"]));
        let request = server.last();
        assert_eq!(request.line, "POST /a%20b?token=hunter2");
        assert_eq!(request.body, b"question");
        let host = format!("host: 127.0.0.1:{}", server.port);
        for header in ["x-mine: yes", "cookie: a=b", "content-length: 8", &host] {
            assert!(request.has(header), "{face}: {request:?}");
        }
        let target = format!("POST http://127.0.0.1:{}/a%20b", server.port);
        let done = (AccessOutcome::Done, target, String::new());
        assert_eq!(record(&session), done, "without the query");
    }
    assert_eq!(session.memory.accesses.lock().unwrap().len(), 2);
    assert!(net.names.asked().is_empty(), "an address is not looked up");
}

#[tokio::test]
async fn hosts_that_are_not_listed_and_urls_that_are_none_are_refused() {
    let server = Server::start(|_| Reply::ok("never")).await;
    let port = server.port;
    let net = Net::new(&format!(
        "hosts = [\"*\", \"http://*:{port}\"]\nprivate = [\"http://127.0.0.1:{port}\"]"
    ));
    net.names.set("mixed.test", &[&["1.1.1.1", "10.0.0.1"]]);
    net.names.set("meta.test", &[&["169.254.169.254"]]);
    net.names.set("none.test", &[&[]]);
    let session = net.session().await;
    let (denied, prohibited) = ("HttpRequestDenied", "DestinationIpProhibited");
    let url = |host: &str| format!("http://{host}:{port}/x");
    let table = [
        (
            "http://127.0.0.1:1/".to_owned(),
            "Denied",
            denied,
            "`http://127.0.0.1:1` is not among the hosts",
        ),
        (
            "http://example.com/".to_owned(),
            "Denied",
            denied,
            "`http://example.com:80` is not among the hosts",
        ),
        (
            url("127.0.0.2"),
            "Denied",
            prohibited,
            "`127.0.0.2` is a loopback address; list it under [network] private",
        ),
        (
            url("mixed.test"),
            "Denied",
            prohibited,
            "`mixed.test` resolves to 10.0.0.1, a private address; list it under [network] private",
        ),
        (
            url("meta.test"),
            "Denied",
            prohibited,
            "`meta.test` resolves to 169.254.169.254, an address of cloud metadata; no plugin may reach that",
        ),
        (
            url("169.254.169.254"),
            "Denied",
            prohibited,
            "`169.254.169.254` is an address of cloud metadata",
        ),
        (
            url("none.test"),
            "Failed",
            "DnsError",
            "`none.test` has 0 addresses",
        ),
        (
            url("unknown.test"),
            "Failed",
            "DnsError",
            "`unknown.test` has no address: nobody knows this name",
        ),
        (
            format!("http://user:hunter2@127.0.0.1:{port}/"),
            "InvalidInput",
            "HttpRequestUriInvalid",
            "a URL must not contain a user or a password",
        ),
        (
            "ftp://127.0.0.1/".to_owned(),
            "InvalidInput",
            "HttpProtocolError",
            "the scheme `ftp` is not supported",
        ),
    ];
    for (url, kind, code, text) in &table {
        if url.starts_with("ftp") {
            // WASI's types can express no other scheme.
            let told = refused(&session, "wasi", &Ask::get(url)).await;
            assert!(told.contains(code), "{told}");
            let told = refused(&session, "rind", &Ask::get(url)).await;
            assert!(told.contains(text), "{told}");
        } else {
            check_refused(&session, &Ask::get(url), kind, code, text).await;
        }
    }
    for record in session.memory.accesses.lock().unwrap().iter() {
        assert!(!format!("{record:?}").contains("hunter2"), "{record:?}");
    }
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn every_spelling_of_loopback_is_loopback() {
    let server = Server::start(|_| Reply::ok("never")).await;
    let port = server.port;
    let net = Net::new(&format!("hosts = [\"http://*:{port}\"]\n"));
    let session = net.session().await;
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ] {
        let url = format!("http://{host}:{port}/");
        let told = refused(&session, "rind", &Ask::get(&url)).await;
        assert!(told.starts_with("Error::Denied"), "{host}: {told}");
        assert!(
            told.contains("list it under [network] private"),
            "{host}: {told}"
        );
        // An address that WASI's types reject fails before it reaches the host.
        let told = refused(&session, "wasi", &Ask::get(&url)).await;
        let is_refused = [
            "DestinationIpProhibited",
            "no authority",
            "HttpRequestUriInvalid",
        ];
        assert!(
            is_refused.iter().any(|code| told.contains(code)),
            "{host}: {told}"
        );
    }
    assert_eq!(server.received().len(), 0);
}

/// A public address that is not assigned, so that no packet of a test reaches anybody.
const NOBODY: &str = "2000::1";

#[tokio::test]
async fn a_name_is_looked_up_once_for_each_request() {
    let server = Server::start(|_| Reply::ok("never")).await;
    for face in FACES {
        let mut net = Net::new(&format!("hosts = [\"http://rebind.test:{}\"]", server.port));
        net.host.options.egress.deadline = Duration::from_millis(500);
        net.names
            .set("rebind.test", &[&[NOBODY], &["127.0.0.1"], &["127.0.0.1"]]);
        let session = net.session().await;
        let url = server.at("rebind.test", "/");
        refused(&session, face, &Ask::get(&url)).await;
        assert_eq!(net.names.asked(), ["rebind.test"], "{face}");
        assert_eq!(record(&session).0, AccessOutcome::Failed, "{face}");
        refused(&session, face, &Ask::get(&url)).await;
        assert_eq!(net.names.asked().len(), 2, "{face}");
        let (outcome, _, reason) = record(&session);
        assert_eq!(outcome, AccessOutcome::Denied);
        assert!(reason.contains("resolves to 127.0.0.1"), "{face}: {reason}");
    }
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn a_connection_goes_to_the_address_that_was_checked() {
    let server = Server::start(|_| Reply::ok("hello")).await;
    let net = Net::new(&format!("private = [\"http://*.test:{}\"]", server.port));
    // The first address refuses the connection, so the second one is tried.
    net.names.set("a.test", &[&["127.9.9.9", "127.0.0.1"]]);
    let session = net.session().await;
    for face in FACES {
        let url = server.at("A.TEST.", "/");
        let answer = fetch(&session, face, &Ask::get(&url)).await;
        assert_eq!(answer["status"], 200, "{face}: {answer}");
        let host = format!("host: a.test:{}", server.port);
        assert!(server.last().has(&host), "{:?}", server.last());
    }
    assert_eq!(net.names.asked(), ["a.test", "a.test"]);
}

#[tokio::test]
async fn a_redirect_is_checked_like_a_request_of_its_own() {
    let other = Server::start(|_| Reply::ok("other")).await;
    let to = other.at("127.0.0.1", "/there");
    let server = Server::start(move |request| match &*request.line {
        "GET /near" => Reply::to(302, "/end?secret=1"),
        "GET /far" => Reply::to(307, &to),
        "GET /meta" => Reply::to(302, "http://169.254.169.254/latest"),
        "GET /name" => Reply::to(302, "http://10.0.0.1.test/"),
        "GET /user" => Reply::to(302, "http://u:hunter2@127.0.0.1/"),
        "GET /file" => Reply::to(302, "file:///etc/passwd"),
        "GET /round" => Reply::to(302, "/round"),
        "POST /post" => Reply::to(303, "/end"),
        _ => Reply::ok("end"),
    })
    .await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let session = net.session().await;
    for face in FACES {
        let answer = fetch(&session, face, &Ask::get(&server.at("127.0.0.1", "/near"))).await;
        assert_eq!(answer["body"], "end", "{answer}");
        let posted = Ask {
            method: "POST",
            url: &server.at("127.0.0.1", "/post"),
            headers: &["content-type: text/plain", "x-kept: 1"],
            body: "question",
        };
        let answer = fetch(&session, face, &posted).await;
        assert_eq!(answer["body"], "end", "{answer}");
        let last = server.last();
        assert_eq!((last.line.as_str(), last.body.len()), ("GET /end", 0));
        assert!(
            last.has("x-kept: 1") && !last.names("content-type"),
            "{last:?}"
        );
    }
    let records = session.memory.accesses.lock().unwrap().len();
    assert_eq!(records, 8, "one for each request and each redirect");
    let far = format!("`http://127.0.0.1:{}` is not among the hosts", other.port);
    for (path, text) in [
        ("/far", far.as_str()),
        ("/meta", "`http://169.254.169.254:80` is not among"),
        ("/name", "`http://10.0.0.1.test:80` is not among"),
        ("/user", "must not contain a user or a password"),
        ("/file", "the scheme `file` is not supported"),
        ("/round", "redirected more than 5 times"),
    ] {
        let url = server.at("127.0.0.1", path);
        check_refused(
            &session,
            &Ask::get(&url),
            "Denied",
            "HttpRequestDenied",
            text,
        )
        .await;
    }
    assert_eq!(other.received().len(), 0);
}

#[tokio::test]
async fn a_redirect_elsewhere_takes_no_identity_along() {
    let other = Server::start(|_| Reply::ok("other")).await;
    let to = other.at("b.test", "/there");
    let server = Server::start(move |_| Reply::to(307, &to)).await;
    let net = Net::new(&format!(
        "private = [\"http://a.test:{0}\", \"http://b.test:{1}\"]\n[[network.credentials]]\nhost = \"http://a.test:{0}\"\nheader = \"x-key\"\nvalue = \"{{TOKEN}}\"",
        server.port, other.port
    ));
    for name in ["a.test", "b.test"] {
        net.names.set(name, &[&["127.0.0.1"]]);
    }
    let session = net.session().await;
    for face in FACES {
        let ask = Ask {
            method: "POST",
            url: &server.at("a.test", "/"),
            headers: &["authorization: mine", "cookie: a=b", "x-kept: 1"],
            body: "question",
        };
        let answer = fetch(&session, face, &ask).await;
        assert_eq!(answer["body"], "other", "{answer}");
        let (first, last) = (server.last(), other.last());
        assert!(first.has("authorization: mine") && first.has(&format!("x-key: {TOKEN}")));
        assert_eq!(last.body, b"question");
        assert!(last.has("x-kept: 1"), "{last:?}");
        for name in ["authorization", "cookie", "x-key"] {
            assert!(!last.names(name), "{face}: {last:?}");
        }
    }
}

#[tokio::test]
async fn headers_methods_and_bodies_have_rules() {
    let server = Server::start(|_| Reply::ok("hello")).await;
    let port = server.port;
    let net = Net::new(&format!(
        "private = [\"http://127.0.0.1:{port}\"]\n[[network.credentials]]\nhost = \"http://127.0.0.1:{port}\"\nheader = \"authorization\"\nvalue = \"{{TOKEN}}\""
    ));
    let session = net.session().await;
    let url = server.at("127.0.0.1", "/");
    for header in [
        "Host: a.example",
        "transfer-encoding: chunked",
        "connection: close",
        "upgrade: h2c",
        "te: trailers",
        "expect: 100-continue",
        "proxy-authorization: x",
        "accept-encoding: br",
        "sec-fetch-mode: cors",
        "authorization: mine",
    ] {
        let ask = Ask {
            headers: &[header],
            ..Ask::get(&url)
        };
        let told = refused(&session, "rind", &ask).await;
        assert!(told.starts_with("Error::Denied"), "{header}: {told}");
        let told = refused(&session, "wasi", &ask).await;
        let is_refused = ["HeaderError::Forbidden", "HttpRequestDenied"];
        assert!(
            is_refused.iter().any(|code| told.contains(code)),
            "{header}: {told}"
        );
    }
    assert_eq!(server.received().len(), 0);
    // Libraries for WASI set `content-length` themselves, so only WASI may set it.
    let ask = Ask {
        method: "POST",
        headers: &["content-length: 8"],
        body: "question",
        url: &url,
    };
    let told = refused(&session, "rind", &ask).await;
    assert!(
        told.contains("`content-length`, because the host sets it"),
        "{told}"
    );
    assert_eq!(fetch(&session, "wasi", &ask).await["status"], 200);
    assert_eq!(server.last().body, b"question");
    let ask = Ask {
        method: "HEAD",
        ..Ask::get(&url)
    };
    for face in FACES {
        let answer = fetch(&session, face, &ask).await;
        assert_eq!(answer["headers"], json!(["content-length: 5"]));
        assert_eq!(answer["length"], 0, "{face}: {answer}");
    }

    let ask = Ask {
        method: "TRACE",
        ..Ask::get(&url)
    };
    let text = "`TRACE` is not a method that can be sent";
    check_refused(
        &session,
        &ask,
        "InvalidInput",
        "HttpRequestMethodInvalid",
        text,
    )
    .await;
    let ask = Ask {
        method: "POST",
        body: "10485761 bytes",
        ..Ask::get(&url)
    };
    let text = "the body of the request has more than 10 MiB";
    check_refused(&session, &ask, "Limit", "HttpRequestBodySize", text).await;
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn answers_have_limits_after_decoding() {
    let (small, huge) = (gzip(b'a', 40_000), bomb(b'a', 1_000_000));
    let server = Server::start(move |request| match &*request.line {
        "GET /big" => Reply::Plain(200, Vec::new(), vec![b'x'; 11 << 20]),
        // The body has no length, so its size is known only once it was read.
        "GET /endless" => {
            let mut bytes = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
            bytes.resize(12 << 20, b'x');
            Reply::Raw(bytes)
        }
        "GET /bomb" => {
            let encoding = "content-encoding: gzip".to_owned();
            Reply::Plain(200, vec![encoding], huge.clone())
        }
        "GET /gzip" => {
            let encoding = "content-encoding: gzip".to_owned();
            Reply::Plain(200, vec![encoding], small.clone())
        }
        "GET /headers" => {
            let line = format!("x: {}", "y".repeat(10_000));
            Reply::Plain(200, vec![line; 7], Vec::new())
        }
        "GET /whole" => Reply::Plain(200, Vec::new(), vec![b'x'; 10 << 20]),
        "GET /torn" => Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec()),
        _ => Reply::Raw(b"SSH-2.0-not-http\r\n\r\n".to_vec()),
    })
    .await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let session = net.session().await;
    let at = |path: &str| server.at("127.0.0.1", path);
    for face in FACES {
        let answer = fetch(&session, face, &Ask::get(&at("/whole"))).await;
        assert_eq!(answer["length"], 10 << 20, "{face}");
        let answer = fetch(&session, face, &Ask::get(&at("/gzip"))).await;
        assert_eq!(answer["length"], 1 + 40_000 * 258, "{face}");
        assert_eq!(answer["headers"], json!([]), "{face}");
        assert!(server.last().has("accept-encoding: gzip"));
    }
    let size = "HttpResponseBodySize";
    let text = "the answer has more than 10 MiB, after decoding";
    let started = Instant::now();
    for path in ["/big", "/endless", "/bomb"] {
        check_refused(&session, &Ask::get(&at(path)), "Limit", size, text).await;
    }
    // Decoding the complete bomb would produce 258 MB.
    assert!(started.elapsed() < Duration::from_secs(20));
    let text = "the headers of the answer have more than 64 KiB";
    check_refused(&session, &Ask::get(&at("/headers")), "Limit", size, text).await;
    let broken = "HttpResponseIncomplete";
    for path in ["/torn", "/other"] {
        let text = "the answer broke off or is not HTTP";
        check_refused(&session, &Ask::get(&at(path)), "Failed", broken, text).await;
    }
}

#[tokio::test]
async fn a_slow_drip_and_a_silent_server_end_at_the_deadline() {
    let server = Server::start(|request| match &*request.line {
        "GET /drip" => Reply::Drip(Duration::from_millis(20)),
        _ => Reply::Held,
    })
    .await;
    let mut net = Net::new(&format!(
        "private = [\"http://127.0.0.1:{}\", \"http://127.0.0.1:{}\"]",
        server.port,
        closed_port().await
    ));
    net.host.options.egress.deadline = Duration::from_millis(300);
    let session = net.session().await;
    let started = Instant::now();
    for path in ["/drip", "/silent"] {
        let url = server.at("127.0.0.1", path);
        let text = "the request took longer than 300ms";
        check_refused(
            &session,
            &Ask::get(&url),
            "Failed",
            "ConnectionTimeout",
            text,
        )
        .await;
        assert_eq!(record(&session).0, AccessOutcome::Failed);
    }
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_without_paths_and_queries() {
    let port = closed_port().await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{port}\"]"));
    let session = net.session().await;
    let url = format!("http://127.0.0.1:{port}/?token=hunter2");
    let text = "the connection failed: ";
    check_refused(
        &session,
        &Ask::get(&url),
        "Failed",
        "ConnectionRefused",
        text,
    )
    .await;
    let told = refused(&session, "rind", &Ask::get(&url)).await;
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test]
async fn a_server_without_tls_is_none_for_https() {
    let server = Server::start(|_| Reply::ok("never")).await;
    let net = Net::new(&format!("private = [\"127.0.0.1:{}\"]", server.port));
    let session = net.session().await;
    let url = format!("https://127.0.0.1:{}/", server.port);
    let text = "the connection failed: received corrupt message";
    check_refused(
        &session,
        &Ask::get(&url),
        "Failed",
        "ConnectionRefused",
        text,
    )
    .await;
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn a_request_that_is_given_up_leaves_a_record() {
    let server = Server::start(|_| Reply::Held).await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    for face in FACES {
        let session = net.session().await;
        let url = server.at("127.0.0.1", "/slow");
        let short = Duration::from_millis(500);
        let asked = Ask::get(&url);
        let stopped = tokio::time::timeout(short, fetch(&session, face, &asked)).await;
        assert!(stopped.is_err());
        // Through WASI the request is a separate task, which ends shortly after the instance.
        let ended = Instant::now();
        while session.memory.accesses.lock().unwrap().is_empty() {
            assert!(ended.elapsed() < Duration::from_secs(20), "{face}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (outcome, target, reason) = record(&session);
        assert_eq!(outcome, AccessOutcome::Failed);
        assert!(target.ends_with("/slow"), "{target}");
        assert!(reason.contains("ended before the request did"), "{reason}");
    }
}

#[tokio::test]
async fn the_requests_of_a_session_are_counted_redirects_too() {
    let server = Server::start(|request| match &*request.line {
        "GET /twice" => Reply::to(302, "/end"),
        _ => Reply::ok("end"),
    })
    .await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let plugins = net.host.load().await;
    let session = Session::open(&plugins);
    let url = server.at("127.0.0.1", "/twice");
    for n in 0..50 {
        let answer = fetch(&session, FACES[n % 2], &Ask::get(&url)).await;
        assert_eq!(answer["status"], 200, "{n}: {answer}");
    }
    assert_eq!(server.received().len(), 100);
    let told = refused(&session, "rind", &Ask::get(&url)).await;
    assert!(told.starts_with("Error::Limit"), "{told}");
    assert!(
        told.contains("used its 100 requests of this session"),
        "{told}"
    );
    let told = refused(&session, "wasi", &Ask::get(&url)).await;
    assert!(told.contains("ConnectionLimitReached"), "{told}");
    assert_eq!(server.received().len(), 100);
    let records = session.memory.accesses.lock().unwrap().len();
    assert_eq!(records, 101, "that nothing is left is told once");
    let (_, target, _) = record(&session);
    assert_eq!(target, format!("GET {url}"), "with where it was to go");
    // The limit applies to each session separately.
    let answer = fetch(&Session::open(&plugins), "rind", &Ask::get(&url)).await;
    assert_eq!(answer["status"], 200);
}

#[tokio::test]
async fn a_manifest_may_ask_for_other_numbers_of_requests_up_to_a_limit() {
    let server = Server::start(|_| Reply::ok("end")).await;
    let private = format!("private = [\"http://127.0.0.1:{}\"]", server.port);
    let net = Net::new(&format!("{private}\n[limits]\nrequests = 1"));
    let session = net.session().await;
    let url = server.at("127.0.0.1", "/");
    assert_eq!(
        fetch(&session, "rind", &Ask::get(&url)).await["status"],
        200
    );
    let told = refused(&session, "rind", &Ask::get(&url)).await;
    assert!(told.contains("its 1 requests"), "{told}");
}

#[tokio::test]
async fn eight_requests_run_at_once_and_the_ninth_is_refused() {
    let server = Server::start(|_| Reply::Held).await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let session = Arc::new(net.session().await);
    let url = server.at("127.0.0.1", "/");
    let asked = json!({ "url": url, "count": 9, "waits": false });
    let running = {
        let session = session.clone();
        tokio::spawn(async move { session.tool("fetch:many", asked).await })
    };
    let patience = Instant::now();
    while server.received().len() < 8 && patience.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.release();
    let output = running.await.unwrap();
    let answers: Vec<Value> = serde_json::from_str(&output.content.text()).unwrap();
    let n_fine = answers.iter().filter(|answer| **answer == 200).count();
    assert_eq!((server.received().len(), n_fine), (8, 8), "{answers:?}");
    let limit = json!("ErrorCode::ConnectionLimitReached");
    assert!(answers.contains(&limit), "{answers:?}");
    let records = session.memory.accesses.lock().unwrap();
    let denied = records.iter().find(|r| r.outcome == AccessOutcome::Denied);
    let reason = denied.unwrap().reason.clone().unwrap();
    assert!(
        reason.contains("already has 8 requests in progress"),
        "{reason}"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_read_counts_until_it_is() {
    let server = Server::start(|_| Reply::ok("hello")).await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let session = net.session().await;
    let asked = json!({ "url": server.at("127.0.0.1", "/"), "count": 9, "waits": true });
    for _ in 0..2 {
        let output = session.tool("fetch:many", asked.clone()).await;
        let answers: Vec<Value> = serde_json::from_str(&output.content.text()).unwrap();
        let mut expected = vec![json!(200); 8];
        expected.push(json!("ErrorCode::ConnectionLimitReached"));
        assert_eq!(answers, expected);
    }
}

/// An answer that echoes the complete request, with the token in several encodings.
fn echo(request: &rind_tests::server::Received) -> Reply {
    let token = request
        .headers
        .iter()
        .find_map(|line| line.strip_prefix("authorization: "))
        .unwrap_or_default();
    let json = serde_json::to_string(&request.headers).unwrap();
    let mut percent = String::new();
    for byte in token.bytes() {
        percent.push_str(&format!("%{byte:02X}"));
    }
    let body = format!("{token}\n{json}\n{percent}\n");
    let headers = vec![format!("x-echo: {token}"), "set-cookie: a=b".to_owned()];
    Reply::Plain(200, headers, body.into_bytes())
}

#[tokio::test]
async fn a_credential_reaches_the_server_and_never_the_guest() {
    let server = Server::start(|request| match &*request.line {
        "GET /loop" => {
            let token = request.headers.iter().find(|line| line.contains("tok/"));
            Reply::to(302, &format!("/{}", token.unwrap()))
        }
        "GET /packed" => Reply::Plain(200, vec!["content-encoding: br".into()], b"x".to_vec()),
        _ => echo(request),
    })
    .await;
    let port = server.port;
    let net = Net::new(&format!(
        "private = [\"http://127.0.0.1:{port}\"]\n[[network.credentials]]\nhost = \"http://127.0.0.1:{port}\"\nheader = \"authorization\"\nvalue = \"Bearer {{TOKEN}}\""
    ));
    let session = net.session().await;
    let mut seen = session
        .tool("fetch:environment", json!({}))
        .await
        .content
        .to_string();
    for face in FACES {
        let url = server.at("127.0.0.1", "/echo");
        let answer = fetch(&session, face, &Ask::get(&url)).await;
        assert!(server.last().has(&format!("authorization: Bearer {TOKEN}")));
        let headers = answer["headers"].to_string();
        assert!(headers.contains("x-echo: [masked: TOKEN]"), "{answer}");
        assert!(headers.contains("set-cookie: a=b"), "{answer}");
        let body = answer["body"].as_str().unwrap();
        assert_eq!(body.matches("[masked: TOKEN]").count(), 3, "{body}");
        seen.push_str(&answer.to_string());
    }
    for (path, text) in [
        ("/loop", "redirects to a URL with the secret `TOKEN`"),
        ("/packed", "encoded in a way that was not asked for"),
    ] {
        for face in FACES {
            let url = server.at("127.0.0.1", path);
            seen.push_str(&refused(&session, face, &Ask::get(&url)).await);
            assert!(record(&session).2.contains(text), "{:?}", record(&session));
        }
    }
    let records = session.memory.accesses.lock().unwrap();
    seen.push_str(&format!("{records:?} {:?}", net.host.options));
    for part in ["tok/3n", "tok\\/3n", "%74%6F%6B", "746f6b2f", "dG9rLzNu"] {
        assert!(!seen.contains(part), "{part} in {seen}");
    }
}

#[tokio::test]
async fn a_secret_that_is_repeated_in_parts_or_without_end_is_kept_from_the_guest_too() {
    let server = Server::start(|request| match &*request.line {
        "GET /part" => Reply::Plain(
            206,
            vec!["content-range: bytes 0-3/20".into()],
            b"1234".into(),
        ),
        _ => Reply::Plain(200, Vec::new(), b"12345678".repeat(1 << 20)),
    })
    .await;
    let port = server.port;
    let net = Net::new(&format!(
        "private = [\"http://127.0.0.1:{port}\", \"http://localhost:{port}\"]\n[[network.credentials]]\nhost = \"http://127.0.0.1:{port}\"\nheader = \"x-key\"\nvalue = \"{{A_SHORT_SECRET_WITH_A_LONG_NAME}}\""
    ));
    net.names.set("localhost", &[&["127.0.0.1"]]);
    let session = net.session().await;
    let url = server.at("127.0.0.1", "/part");
    let ask = Ask {
        headers: &["range: bytes=0-3"],
        ..Ask::get(&url)
    };
    let text = "the answer is only a part of the content";
    check_refused(&session, &ask, "Failed", "HttpResponseIncomplete", text).await;
    let url = server.at("127.0.0.1", "/many");
    let text = "the answer has more than 10 MiB";
    check_refused(
        &session,
        &Ask::get(&url),
        "Limit",
        "HttpResponseBodySize",
        text,
    )
    .await;
    // A partial answer is accepted if no credential was sent.
    let url = server.at("localhost", "/part");
    assert_eq!(
        fetch(&session, "rind", &Ask { url: &url, ..ask }).await["status"],
        206
    );
}

#[tokio::test]
async fn a_secret_that_is_not_set_refuses_the_request_and_says_what_to_do() {
    let server = Server::start(|_| Reply::ok("never")).await;
    let port = server.port;
    let net = Net::new(&format!(
        "private = [\"http://127.0.0.1:{port}\"]\n[[network.credentials]]\nhost = \"http://127.0.0.1:{port}\"\nheader = \"authorization\"\nvalue = \"Bearer {{MISSING_KEY}}\""
    ));
    let session = net.session().await;
    let url = server.at("127.0.0.1", "/");
    let text = "needs the secret `MISSING_KEY`, which the operator has not set: set the environment variable";
    check_refused(
        &session,
        &Ask::get(&url),
        "Denied",
        "HttpRequestDenied",
        text,
    )
    .await;
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn what_leaves_is_looked_at_before_it_leaves() {
    let server = Server::start(|_| Reply::ok("never")).await;
    let mut net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    net.host.options.egress.inspect = Some(Arc::new(|out: &OutgoingRequest<'_>| {
        assert_eq!((out.plugin, out.method), ("fetch", "POST"));
        assert!(out.url.ends_with("/x") && out.headers.contains_key("x-a"));
        match out.body {
            b"private key" => Err("the body holds a key".to_owned()),
            _ => Ok(()),
        }
    }));
    let session = net.session().await;
    let ask = Ask {
        method: "POST",
        url: &server.at("127.0.0.1", "/x"),
        headers: &["x-a: b"],
        body: "private key",
    };
    check_refused(
        &session,
        &ask,
        "Denied",
        "HttpRequestDenied",
        "the body holds a key",
    )
    .await;
    assert_eq!(server.received().len(), 0);
    let fine = Ask {
        body: "hello",
        ..ask
    };
    assert_eq!(fetch(&session, "rind", &fine).await["status"], 200);
}

/// Random addresses of every range that is not public.
fn not_public() -> impl Strategy<Value = [u8; 4]> {
    let tail = any::<[u8; 3]>();
    prop_oneof![
        tail.prop_map(|[b, c, d]| [127, b, c, d]),
        any::<[u8; 3]>().prop_map(|[b, c, d]| [10, b, c, d]),
        any::<[u8; 3]>().prop_map(|[b, c, d]| [172, 16 + b % 16, c, d]),
        any::<[u8; 2]>().prop_map(|[c, d]| [192, 168, c, d]),
        any::<[u8; 2]>().prop_map(|[c, d]| [169, 254, c, d]),
        any::<[u8; 3]>().prop_map(|[b, c, d]| [100, 64 + b % 64, c, d]),
        any::<[u8; 3]>().prop_map(|[b, c, d]| [0, b, c, d]),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| [224 + a % 32, b, c, d]),
        any::<[u8; 2]>().prop_map(|[b, d]| [198, 18 + b % 2, b, d]),
        Just([169, 254, 169, 254]),
    ]
}

/// Writes an address as the host of a URL, in one of 17 spellings.
fn spelled([a, b, c, d]: [u8; 4], how: usize) -> String {
    let number = u32::from_be_bytes([a, b, c, d]);
    let (high, low) = (number >> 16, number & 0xffff);
    match how {
        0 => format!("{a}.{b}.{c}.{d}"),
        1 => format!("{number}"),
        2 => format!("{number:#x}"),
        3 => format!("0{number:o}"),
        4 => format!("{a:#x}.{b:#X}.0{c:o}.{d}"),
        5 => format!("{a}.{}", number & 0xff_ffff),
        6 => format!("{a}.{b}.{low}"),
        7 => format!("{a}.{b}.{c}.{d}."),
        8 => {
            let text = a.to_string();
            format!("%3{text}.{b}.{c}.{d}")
        }
        9 => format!("[::ffff:{a}.{b}.{c}.{d}]"),
        10 => format!("[::FFFF:{high:x}:{low:x}]"),
        11 => format!("[0:0:0:0:0:ffff:{high:04x}:{low:04x}]"),
        12 => format!("[::{high:x}:{low:x}]"),
        13 => format!("[64:ff9b::{high:x}:{low:x}]"),
        14 => format!("[2002:{high:x}:{low:x}::1]"),
        15 => format!("[::ffff:0:{high:x}:{low:x}]"),
        _ => format!("[fe80::5efe:{high:x}:{low:x}]"),
    }
}

#[test]
fn no_spelling_of_an_address_that_is_not_public_gets_through() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    // All hosts are granted, so only the check of addresses can refuse.
    let net = Net::new("hosts = [\"http://*\", \"*\"]\n[limits]\nrequests = 1000");
    let plugins = runtime.block_on(net.host.load());
    proptest!(ProptestConfig::with_cases(256), |(address in not_public(), how in 0..17_usize, tls: bool)| {
        let scheme = if tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/", spelled(address, how));
        let session = Session::open(&plugins);
        let told = runtime.block_on(refused(&session, "rind", &Ask::get(&url)));
        let is_refused = told.starts_with("Error::Denied") || told.starts_with("Error::InvalidInput");
        prop_assert!(is_refused, "{}: {}", url, told);
        prop_assert_eq!(record(&session).0, AccessOutcome::Denied);
        let told = runtime.block_on(refused(&session, "wasi", &Ask::get(&url)));
        let codes = ["DestinationIpProhibited", "no authority", "HttpRequestUriInvalid"];
        prop_assert!(codes.iter().any(|code| told.contains(code)), "{}: {}", url, told);
    });
}

#[tokio::test]
async fn a_request_without_a_body_says_its_length_where_the_method_has_one() {
    let server = Server::start(|_| Reply::ok("")).await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let session = net.session().await;
    let url = server.at("127.0.0.1", "/");
    for face in FACES {
        for (method, has_length) in [
            ("POST", true),
            ("PUT", true),
            ("PATCH", true),
            ("GET", false),
            ("DELETE", false),
        ] {
            let ask = Ask {
                method,
                ..Ask::get(&url)
            };
            fetch(&session, face, &ask).await;
            let last = server.last();
            assert_eq!(
                last.has("content-length: 0"),
                has_length,
                "{face} {method}: {last:?}"
            );
            let lengths = last
                .headers
                .iter()
                .filter(|line| line.starts_with("content-length"));
            assert_eq!(lengths.count(), usize::from(has_length), "{face} {method}");
        }
    }
}

#[tokio::test]
async fn an_answer_with_more_than_a_hundred_headers_is_read_and_one_with_too_many_bytes_is_not() {
    let server = Server::start(|request| {
        let n_headers = if request.line.contains("few") {
            500
        } else {
            1_500
        };
        let header = |n| format!("x-{n}: {}", "v".repeat(60));
        Reply::Plain(200, (0..n_headers).map(header).collect(), b"body".to_vec())
    });
    let server = server.await;
    let net = Net::new(&format!("private = [\"http://127.0.0.1:{}\"]", server.port));
    let session = net.session().await;
    for face in FACES {
        let answer = fetch(&session, face, &Ask::get(&server.at("127.0.0.1", "/few"))).await;
        assert_eq!(answer["body"], "body", "{face}: {answer}");
        let why = refused(&session, face, &Ask::get(&server.at("127.0.0.1", "/many"))).await;
        assert!(!why.is_empty(), "{face}");
    }
}
