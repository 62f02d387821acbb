//! OCI registries that lie, send too much or redirect elsewhere: each is refused, and nothing is
//! left on disk.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rind_tests::cli::{Ran, Rind};
use rind_tests::server::{Received, Reply, Server};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::install::{hello, installed, packed, plugin};

fn sha256(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("sha256:{}", hex.collect::<String>())
}

/// A packed plugin and a valid manifest for it.
struct Artifact {
    bytes: Vec<u8>,
    manifest: Value,
}

fn artifact(rind: &Rind, version: &str) -> Artifact {
    let file = packed(rind, &hello(rind, "src", version, ""), "hello.wasm");
    let bytes = fs::read(file).unwrap();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.wasm.config.v0+json",
            "digest": sha256(b"{}"),
            "size": 2,
        },
        "layers": [{
            "mediaType": "application/wasm",
            "digest": sha256(&bytes),
            "size": bytes.len(),
        }],
    });
    Artifact { bytes, manifest }
}

fn plain(bytes: &[u8]) -> Reply {
    Reply::Plain(200, Vec::new(), bytes.to_vec())
}

/// A body of `n_bytes` bytes without `content-length`, which ends when the connection closes.
fn unannounced(n_bytes: usize) -> Reply {
    Reply::Stream(vec![" ".repeat(n_bytes)])
}

fn install(rind: &Rind, server: &Server, tag: &str) -> Ran {
    let at = format!("oci://127.0.0.1:{}/hello{tag}", server.port);
    plugin(rind, "install", Path::new(&at))
}

/// Checks that the installation failed with this reason and that no plugin is installed.
fn refused(rind: &Rind, ran: &Ran, what: &str) {
    assert_eq!(ran.code, Some(1), "{what}: {} {}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    assert!(installed(rind).is_empty(), "{what}");
}

type Answer = Box<dyn Fn(&Received) -> Reply + Send + Sync>;

/// Starts a registry that answers requests for manifests with `manifest` and all others with
/// `other`.
async fn serve(manifest: impl Fn() -> Reply + Send + Sync + 'static, other: Answer) -> Server {
    Server::start(move |request| {
        if request.line.contains("/manifests/") {
            manifest()
        } else {
            other(request)
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_are_not_those_of_one_component_are_refused() {
    let rind = Rind::default();
    let good = artifact(&rind, "0.1.0").manifest;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        manifest.to_string().into_bytes()
    };
    let layer = good["layers"][0].clone();
    let table: Vec<(Vec<u8>, &str)> = vec![
        (b"<html>".to_vec(), "the manifest is not JSON"),
        (
            b"{}".to_vec(),
            "the manifest lacks a field, or a field has the wrong type",
        ),
        (
            with(&|m| m["mediaType"] = "application/vnd.oci.image.index.v1+json".into()),
            "the manifest has the type",
        ),
        (with(&|m| m["schemaVersion"] = 1.into()), "version 1"),
        (
            with(&|m| m["config"]["mediaType"] = "application/x\u{1b}[2J".into()),
            "not a component",
        ),
        (with(&|m| m["layers"] = json!([])), "has 0 layers"),
        (
            with(&|m| m["layers"] = json!([layer.clone(), layer.clone()])),
            "has 2 layers",
        ),
        (
            with(&|m| m["layers"][0]["mediaType"] = "application/tar+gzip".into()),
            "the layer has the type",
        ),
        (
            with(&|m| m["layers"][0]["digest"] = "sha256:../../etc".into()),
            "is not a SHA-256",
        ),
        (
            with(&|m| m["layers"][0]["size"] = (10_u64 << 30).into()),
            "at most 256 MiB",
        ),
        (
            with(&|m| m["layers"][0]["size"] = (-1).into()),
            "the manifest lacks a field, or a field has the wrong type",
        ),
        (
            with(&|m| m["annotations"] = json!({"rind.minisig": "x".repeat(9000)})),
            "the signature has 9000 bytes",
        ),
    ];
    for (manifest, what) in table {
        let server = serve(move || plain(&manifest), Box::new(|_| plain(b""))).await;
        let ran = install(&rind, &server, ":0.1.0");
        refused(&rind, &ran, what);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
        let asked = server.received();
        let is_blob = |request: &Received| request.line.contains("/blobs/");
        assert!(!asked.iter().any(is_blob), "{what}: {asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_longer_than_it_may_be_is_not_read_to_its_end() {
    let rind = Rind::default();
    let Artifact { bytes, manifest } = artifact(&rind, "0.1.0");
    let text = manifest.to_string().into_bytes();
    let long = 2 << 20;
    let server = serve(move || plain(&vec![b' '; long]), Box::new(|_| plain(b""))).await;
    let ran = install(&rind, &server, ":0.1.0");
    refused(&rind, &ran, "has more than 1048576 bytes");
    let server = serve(move || unannounced(long), Box::new(|_| plain(b""))).await;
    let ran = install(&rind, &server, ":0.1.0");
    refused(&rind, &ran, "has more than 1048576 bytes");
    // Lists of tags, error bodies and layers are bounded as well.
    let server = serve(|| plain(b"{}"), Box::new(move |_| unannounced(long))).await;
    let ran = install(&rind, &server, "");
    refused(
        &rind,
        &ran,
        "the list of tags that 127.0.0.1 sends has more than",
    );
    let server = serve(
        || Reply::Plain(500, Vec::new(), vec![b'x'; 2 << 20]),
        Box::new(|_| plain(b"")),
    )
    .await;
    let ran = install(&rind, &server, ":0.1.0");
    refused(&rind, &ran, "answered 500");
    assert!(ran.stderr.len() < 1000, "{}", ran.stderr.len());

    let n_bytes = bytes.len();
    let shorter = bytes[..n_bytes - 1].to_vec();
    let mut other = bytes.clone();
    *other.last_mut().unwrap() ^= 1;
    let endless = unannounced(n_bytes + 1);
    let Reply::Stream(endless) = endless else {
        unreachable!()
    };
    let table: Vec<(Answer, &str)> = vec![
        (Box::new(move |_| plain(&shorter)), "and the manifest says"),
        (Box::new(move |_| plain(&other)), "the layer has the digest"),
        (
            Box::new(move |_| Reply::Stream(endless.clone())),
            "has more than",
        ),
        (
            Box::new(|_| {
                Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_vec())
            }),
            "has more than",
        ),
        (
            Box::new(|_| Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec())),
            "broke off",
        ),
    ];
    for (layer, what) in table {
        let text = text.clone();
        let server = serve(move || plain(&text), layer).await;
        refused(&rind, &install(&rind, &server, ":0.1.0"), what);
    }
    // The manifest must have the requested digest.
    let server = serve(move || plain(&text), Box::new(move |_| plain(&bytes))).await;
    let asked = format!("@{}", sha256(b"other"));
    let ran = install(&rind, &server, &asked);
    refused(&rind, &ran, "a different manifest than the requested one");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_urls_in_a_manifest_have_no_effect() {
    let rind = Rind::default();
    let Artifact {
        bytes,
        mut manifest,
    } = artifact(&rind, "0.1.0");
    let elsewhere = Server::start(|_| Reply::ok("")).await;
    manifest["layers"][0]["urls"] = json!([elsewhere.at("127.0.0.1", "/x")]);
    let title = json!({"org.opencontainers.image.title": "../../../../tmp/x"});
    manifest["layers"][0]["annotations"] = title.clone();
    manifest["annotations"] = title;
    let text = manifest.to_string().into_bytes();
    let server = serve(move || plain(&text), Box::new(move |_| plain(&bytes))).await;
    install(&rind, &server, ":0.1.0").exits(0);
    assert_eq!(installed(&rind), ["hello"]);
    assert!(elsewhere.received().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_lead_to_a_layer_only_and_without_credentials() {
    let rind = Rind::default();
    let login = STANDARD.encode("ada:hunter2");
    let Artifact { bytes, manifest } = artifact(&rind, "0.1.0");
    let text = Arc::new(manifest.to_string().into_bytes());
    let other = Server::start(|_| Reply::ok("")).await;
    let away = other.at("127.0.0.1", "/layer");
    let to = away.clone();
    let server = serve(move || Reply::to(307, &to), Box::new(|_| plain(b""))).await;
    let ran = install(&rind, &server, ":0.1.0");
    refused(&rind, &ran, "redirects from");
    for (to, what) in [
        (away.as_str(), "which is not a public address with https"),
        (
            "http://a.example/x",
            "which is not a public address with https",
        ),
        (
            "file:///etc/passwd",
            "is not http or https, or has credentials",
        ),
        (
            "https://user:pw@a.example/x",
            "is not http or https, or has credentials",
        ),
        ("/v2/hello/blobs/again", "too often"),
    ] {
        let (text, to) = (text.clone(), to.to_owned());
        let server = serve(move || plain(&text), Box::new(move |_| Reply::to(302, &to))).await;
        refused(&rind, &install(&rind, &server, ":0.1.0"), what);
    }
    assert!(other.received().is_empty(), "{:?}", other.received());

    // A redirect within the registry is followed, and the password is not sent to its target. All
    // other paths require the password.
    let expected = format!("authorization: Basic {login}");
    let server = Server::start(move |request| {
        if request.line.contains("/stored") {
            assert!(!request.names("authorization"));
            plain(&bytes)
        } else if !request.has(&expected) {
            let ask = "www-authenticate: Basic realm=\"here\"".to_owned();
            Reply::Plain(401, vec![ask], Vec::new())
        } else if request.line.contains("/blobs/") {
            Reply::to(307, "/stored")
        } else {
            plain(&text)
        }
    })
    .await;
    let ran = install(&rind, &server, ":0.1.0");
    refused(&rind, &ran, "log in with `docker login 127.0.0.1:");
    log_in(&rind, &server, &login);
    install(&rind, &server, ":0.1.0").exits(0);
    let all = server.received();
    let stored = all.iter().find(|request| request.line.contains("/stored"));
    assert!(!stored.unwrap().names("authorization"));
}

/// Writes the credentials as `docker login` would.
fn log_in(rind: &Rind, server: &Server, login: &str) {
    let host = format!("127.0.0.1:{}", server.port);
    let config = json!({"auths": {host: {"auth": login}}});
    let folder = rind.user_home().join(".docker");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_come_from_a_server_that_nobody_can_listen_to() {
    let rind = Rind::default();
    let login = STANDARD.encode("ada:hunter2");
    let Artifact { bytes, manifest } = artifact(&rind, "0.1.0");
    let text = manifest.to_string().into_bytes();
    for (challenge, what) in [
        ("Bearer realm=\"http://a.example/token\"", "is not https"),
        (
            "Bearer realm=\"https://u:p@a.example/token\"",
            "is not https",
        ),
        ("Bearer realm=\"file:///etc/passwd\"", "is not https"),
        ("Bearer service=\"x\"", "contains no token server"),
        ("Negotiate", "of a kind that is not known"),
        ("\"", "cannot be parsed"),
    ] {
        let server = Server::start(move |_| {
            let ask = format!("www-authenticate: {challenge}");
            Reply::Plain(401, vec![ask], Vec::new())
        })
        .await;
        log_in(&rind, &server, &login);
        let ran = install(&rind, &server, ":0.1.0");
        refused(&rind, &ran, what);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
    // A token server on loopback is allowed because the registry is there, too. The token is
    // requested once and reused.
    let tokens = Server::start(|request| {
        if request.line.contains("long") {
            unannounced(1 << 20)
        } else {
            Reply::ok("{\"token\": \"t0ken\"}")
        }
    })
    .await;
    let realm = tokens.at("127.0.0.1", "/token");
    let server = |realm: String, bytes: Vec<u8>, text: Vec<u8>| {
        Server::start(move |request| {
            if !request.has("authorization: Bearer t0ken") {
                let ask = format!("www-authenticate: Bearer realm=\"{realm}\",service=\"x y\"");
                Reply::Plain(401, vec![ask], Vec::new())
            } else if request.line.contains("/manifests/") {
                plain(&text)
            } else {
                plain(&bytes)
            }
        })
    };
    let refusing = server(format!("{realm}/long"), bytes.clone(), text.clone()).await;
    let ran = install(&rind, &refusing, ":0.1.0");
    refused(&rind, &ran, "the token that 127.0.0.1 sends has more than");
    let serving = server(realm, bytes, text).await;
    log_in(&rind, &serving, &login);
    install(&rind, &serving, ":0.1.0").exits(0);
    let asked = tokens.last();
    assert!(asked.has(&format!("authorization: Basic {login}")));
    assert_eq!(
        asked.line,
        "GET /token?service=x+y&scope=repository%3Ahello%3Apull"
    );
    assert_eq!(tokens.received().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_that_lie_or_move_are_refused() {
    let rind = Rind::default();
    let first = artifact(&rind, "0.1.0");
    let file = packed(
        &rind,
        &hello(&rind, "src", "0.1.0", "# moved"),
        "moved.wasm",
    );
    let moved = fs::read(file).unwrap();
    let mut second = first.manifest.clone();
    second["layers"][0]["digest"] = sha256(&moved).into();
    second["layers"][0]["size"] = moved.len().into();
    let (one, two) = (first.manifest.to_string(), second.to_string());
    let (bytes, digest) = (first.bytes, sha256(&moved));
    let tags = json!({"tags": ["../../x", "0.0.1", "9.9.9/../..", "9.9.9", "x\n", ""]});
    let server = Server::start(move |request| {
        let line = request.line.as_str();
        match () {
            () if line.contains("/tags/") => Reply::ok(&tags.to_string()),
            () if line.contains("/manifests/moved") => Reply::ok(&two),
            () if line.contains("/manifests/") => Reply::ok(&one),
            () if line.contains(&digest) => plain(&moved),
            () => plain(&bytes),
        }
    })
    .await;
    let ran = install(&rind, &server, "");
    refused(
        &rind,
        &ran,
        "9.9.9 contains version 0.1.0 of hello, but its tag names another version",
    );
    install(&rind, &server, ":latest").exits(0);
    // An update follows only the installed tag, `latest`, which is not a version.
    rind.run(&["plugin", "update"]).exits(0);
    let ran = install(&rind, &server, ":moved").exits(1);
    let what = "has other files under the same version";
    assert!(ran.stderr.contains(what), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_to_the_registry_or_nowhere() {
    let rind = Rind::default();
    let file = packed(&rind, &hello(&rind, "src", "0.1.0", ""), "hello.wasm");
    let other = Server::start(|_| Reply::Plain(201, Vec::new(), Vec::new())).await;
    let away = other.at("127.0.0.1", "/upload");
    let server = Server::start(move |request| {
        if request.line.starts_with("POST") {
            Reply::Plain(202, vec![format!("location: {away}")], Vec::new())
        } else {
            Reply::Plain(404, Vec::new(), Vec::new())
        }
    })
    .await;
    let at = format!("oci://127.0.0.1:{}/hello", server.port);
    let ran = rind.run(&["plugin", "publish", file.to_str().unwrap(), &at]);
    let ran = ran.exits(1);
    let what = "redirects the upload to another host";
    assert!(ran.stderr.contains(what), "{}", ran.stderr);
    assert!(other.received().is_empty());
}
