//! Proxies from the environment and certificates of a private authority: the real program, a proxy
//! that accepts `CONNECT`, and a server that speaks TLS.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rind_tests::cli::{Ran, Rind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

/// Authority that signed the certificate of `models.test`. Both are valid until 2126, and the key
/// is used by tests only.
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded/tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("../../recorded/tls/server.pem");
const KEY: &[u8] = include_bytes!("../../recorded/tls/server.key");

const ANSWER: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\n";

/// Reads a request: the head, and as many bytes of body as the head announces.
fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut piece) {
            Ok(n @ 1..) => bytes.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    }
}

/// Starts a proxy in front of a model server at `models.test`. Returns the port and the first lines
/// of the requests.
fn start() -> (u16, Arc<Mutex<Vec<String>>>) {
    let provider = rustls::crypto::ring::default_provider();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = lines.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, log) = (config.clone(), log.clone());
            thread::spawn(move || serve(stream.ok()?, config, &log));
        }
    });
    (port, lines)
}

fn serve(mut stream: TcpStream, config: Arc<ServerConfig>, log: &Mutex<Vec<String>>) -> Option<()> {
    let say = |request: &str| {
        let line = request.lines().next().unwrap_or_default().to_owned();
        log.lock().unwrap().push(line);
    };
    say(&read_request(&mut stream)?);
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let mut connection = ServerConnection::new(config).unwrap();
    let mut tls = Stream::new(&mut connection, &mut stream);
    let request = read_request(&mut tls)?;
    say(&request);
    let (kind, body) = match request.starts_with("POST") {
        true => ("text/event-stream", ANSWER),
        false => ("application/json", "{}"),
    };
    let n = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {n}\r\nconnection: close\r\n\r\n"
    );
    tls.write_all(head.as_bytes()).ok()?;
    tls.write_all(body.as_bytes()).ok()?;
    connection.send_close_notify();
    connection.complete_io(&mut stream).ok()?;
    Some(())
}

/// Asks the server behind the proxy at this port.
fn ask(port: u16, env: &[(&str, &str)], settings: &str) -> Ran {
    let rind = Rind::default();
    let settings = format!(
        "[providers.company]\nbase_url = \"https://models.test/v1\"\nmodel = \"m\"\n[provider.http]\nmax_attempts = 1\n{settings}"
    );
    rind.config(&settings);
    let mut command = rind.command(&["run", "--no-plugins", "hi", "--provider", "company"]);
    command.env("HTTPS_PROXY", format!("http://127.0.0.1:{port}"));
    for (name, value) in env {
        command.env(name, value);
    }
    rind.finish(&mut command)
}

#[test]
fn a_server_of_a_private_authority_is_reached_through_the_proxy_of_the_environment() {
    let (port, lines) = start();
    let setting = format!("ca_file = \"{AUTHORITY}\"\n");
    let ran = ask(port, &[], &setting).exits(0);
    assert!(ran.stdout.contains("Hello."), "{}", ran.stdout);
    let lines = lines.lock().unwrap().clone();
    assert_eq!(lines[0], "CONNECT models.test:443 HTTP/1.1");
    assert!(
        lines.contains(&"POST /v1/chat/completions HTTP/1.1".to_owned()),
        "{lines:?}"
    );

    let ran = ask(port, &[("SSL_CERT_FILE", AUTHORITY)], "").exits(0);
    assert!(ran.stdout.contains("Hello."), "{}", ran.stdout);
}

#[test]
fn an_unknown_authority_is_refused_and_no_proxy_is_honored() {
    let (port, lines) = start();
    let ran = ask(port, &[], "").exits(1);
    assert!(ran.stderr.contains("certificate"), "{}", ran.stderr);
    let is_post = |line: &String| line.starts_with("POST");
    assert!(!lines.lock().unwrap().iter().any(is_post));

    lines.lock().unwrap().clear();
    let setting = format!("ca_file = \"{AUTHORITY}\"\n");
    let ran = ask(port, &[("NO_PROXY", "models.test")], &setting).exits(1);
    assert!(
        ran.stderr.contains("cannot reach company"),
        "{}",
        ran.stderr
    );
    assert_eq!(*lines.lock().unwrap(), [""; 0]);
}

#[test]
fn a_file_of_authorities_that_is_none_is_named() {
    for (text, expected) in [("nonsense", "no certificate"), ("", "no certificate")] {
        let rind = Rind::default();
        rind.config("[providers.company]\nbase_url = \"https://models.test/v1\"\nmodel = \"m\"\n[provider.http]\nca_file = \"own.pem\"\n");
        std::fs::write(rind.home().join("config/own.pem"), text).unwrap();
        let ran = rind.run(&["run", "hi", "--provider", "company"]).exits(2);
        assert!(
            ran.stderr.contains("config/own.pem") && ran.stderr.contains(expected),
            "{}",
            ran.stderr
        );
    }
}
