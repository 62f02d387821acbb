//! Registries of packages that lie, send too much or redirect elsewhere, and malicious packages:
//! each is refused, and nothing is left on disk.

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use rind_tests::cli::{Ran, Rind};
use rind_tests::server::{Reply, Server};
use serde_json::{Value, json};
use tar::{EntryType, Header};

use super::install::{hello, installed, packed};
use super::install_package::{KINDS, Kind, Mock, integrity, package};

/// Checks that the installation failed with this reason and that no plugin is installed.
fn refused(rind: &Rind, ran: &Ran, what: &str) {
    assert_eq!(ran.code, Some(1), "{what}: {} {}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}'), "{what}: {}", ran.stderr);
    assert!(ran.stderr.len() < 3000, "{what}: {}", ran.stderr.len());
    assert!(installed(rind).is_empty(), "{what}");
}

/// Sets the value at a JSON pointer.
fn set(document: &mut Value, path: &str, value: Value) {
    *document.pointer_mut(path).unwrap() = value;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_npm_that_lie_are_refused() {
    let rind = Rind::default();
    let mock = Mock::start().await;
    let bytes = package(&rind, Kind::Npm, "0.1.0", "");
    let versions = [("0.1.0", bytes.as_slice())];
    Kind::Npm.list(&mock, &versions, &[]);
    let good: Value = serde_json::from_str(&Kind::Npm.list_text(&mock, &versions, &[])).unwrap();
    let dist = "/versions/0.1.0/dist";
    let (at_integrity, at_tarball) = (format!("{dist}/integrity"), format!("{dist}/tarball"));
    let table: Vec<(&str, Value, &str)> = vec![
        ("", json!("text"), "does not have npm's format"),
        ("", json!({}), "does not have npm's format"),
        (
            "/name",
            json!("other\u{1b}[2J"),
            "answered with the package `other",
        ),
        ("/dist-tags", json!({}), "has no tag `latest`"),
        ("/dist-tags/latest", json!("9.9.9"), "has no version 9.9.9"),
        (
            "/dist-tags/latest",
            json!("../../x\n"),
            "has no version ../../x",
        ),
        ("/versions", json!([]), "does not have npm's format"),
        ("/versions/0.1.0/name", json!("other"), "lists other@0.1.0"),
        (
            "/versions/0.1.0/version",
            json!("0.2.0"),
            "lists hello@0.2.0",
        ),
        (dist, json!({}), "does not have npm's format"),
        (
            &at_integrity,
            json!(null),
            "the field has no SHA-512 digest",
        ),
        (
            &at_integrity,
            json!("sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="),
            "the field has no SHA-512 digest",
        ),
        (&at_integrity, json!("sha512-AAAA"), "is not 64 bytes"),
        (
            &at_integrity,
            json!(integrity(b"other")),
            "but the registry lists sha512-",
        ),
        (&at_tarball, json!("hello.tgz"), "is not a URL"),
        (
            &at_tarball,
            json!("file:///etc/passwd"),
            "not a public address",
        ),
        (
            &at_tarball,
            json!("https://10.0.0.1/x.tgz"),
            "not a public address",
        ),
        (
            &at_tarball,
            json!("https://169.254.169.254/latest"),
            "not a public address",
        ),
        (
            &at_tarball,
            json!("https://[::ffff:127.0.0.1]/x"),
            "not a public address",
        ),
        (
            &at_tarball,
            json!("https://localhost/x.tgz"),
            "not a public address",
        ),
        (
            &at_tarball,
            json!("http://a.example/x.tgz"),
            "not a public address",
        ),
        (
            &at_tarball,
            json!("https://u:p@a.example/x.tgz"),
            "not a public address",
        ),
        (
            &at_tarball,
            json!(mock.at("/npm/gone.tgz")),
            "127.0.0.1 has no hello-0.1.0.tgz",
        ),
    ];
    for (path, value, what) in table {
        let mut document = good.clone();
        set(&mut document, path, value);
        mock.put("/npm/hello", document.to_string());
        refused(&rind, &mock.install(&rind, "npm:hello"), what);
    }
    // A very long key id of a signature is truncated in the record, and of thousands only a few are
    // recorded.
    let mut document = good;
    let signature = json!({"keyid": "x".repeat(100_000)});
    set(
        &mut document,
        &format!("{dist}/signatures"),
        json!(vec![signature; 100]),
    );
    mock.put("/npm/hello", document.to_string());
    mock.install(&rind, "npm:hello").exits(0);
    let lock = fs::read_to_string(rind.home().join("config/plugins.lock.toml")).unwrap();
    assert!(lock.len() < 5000, "{}", lock.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_of_python_packages_and_crates_that_lie_are_refused() {
    let rind = Rind::default();
    let mock = Mock::start().await;
    let wheel = package(&rind, Kind::Pypi, "0.1.0", "");
    let versions = [("0.1.0", wheel.as_slice())];
    Kind::Pypi.list(&mock, &versions, &[]);
    let good: Value = serde_json::from_str(&Kind::Pypi.list_text(&mock, &versions, &[])).unwrap();
    let file = good["files"][0].clone();
    let zeros = "0".repeat(64);
    let table: Vec<(&str, Value, &str)> = vec![
        ("", json!([]), "does not have the format of a package index"),
        (
            "/meta/api-version",
            json!("2.0"),
            "the index has the format version 2.0",
        ),
        ("/name", json!("other"), "answered with the package `other`"),
        (
            "/files",
            json!([]),
            "of its 0 files, none is a wheel for all platforms",
        ),
        ("/files", json!([file.clone(), file]), "lists two wheels"),
        (
            "/files/0/filename",
            json!("hello-0.1.0.tar.gz"),
            "none is a wheel",
        ),
        (
            "/files/0/filename",
            json!("hello-0.1.0-cp311-cp311-linux_x86_64.whl"),
            "none is a wheel",
        ),
        (
            "/files/0/filename",
            json!("other-0.1.0-py3-none-any.whl"),
            "none is a wheel",
        ),
        (
            "/files/0/filename",
            json!("hello-0.2.0-py3-none-any.whl"),
            "the package and the plugin must have the same version",
        ),
        (
            "/files/0/hashes",
            json!({"md5": "x"}),
            "the index has no SHA-256",
        ),
        (
            "/files/0/hashes/sha256",
            json!("x"),
            "is not 64 hexadecimal digits",
        ),
        (
            "/files/0/hashes/sha256",
            json!(zeros),
            "but the registry lists sha256:0000",
        ),
        (
            "/files/0/url",
            json!("//10.0.0.1/x.whl"),
            "not a public address",
        ),
        (
            "/files/0/url",
            json!("https://[fe80::1]/x.whl"),
            "not a public address",
        ),
        (
            "/files/0/url",
            json!("data:text/plain,x"),
            "not a public address",
        ),
        ("/files/0/url", json!("http://"), "is not a URL"),
    ];
    for (path, value, what) in table {
        let mut document = good.clone();
        set(&mut document, path, value);
        mock.put("/simple/hello/", document.to_string());
        refused(&rind, &mock.install(&rind, "pypi:hello"), what);
    }
    // The same index, as an HTML page instead of JSON.
    let wrong = format!("#sha256={zeros}\"");
    let link = |rest: &str| {
        format!(
            "<!DOCTYPE html><a href=\"../../files/hello-0.1.0-py3-none-any.whl{rest}>hello-0.1.0-py3-none-any.whl</a>"
        )
    };
    for (rest, what) in [
        ("\"", "the index has no SHA-256"),
        ("#sha256=x\"", "is not 64 hexadecimal digits"),
        (wrong.as_str(), "but the registry lists sha256:0000"),
        ("\" data-yanked=\"\"", "is a pre-release or was yanked"),
    ] {
        mock.put("/simple/hello/", link(rest));
        refused(&rind, &mock.install(&rind, "pypi:hello"), what);
    }

    let bytes = package(&rind, Kind::Crate, "0.1.0", "");
    let versions = [("0.1.0", bytes.as_slice())];
    Kind::Crate.list(&mock, &versions, &[]);
    let line = Kind::Crate.list_text(&mock, &versions, &[]);
    let good: Value = serde_json::from_str(&line).unwrap();
    let table: Vec<(&str, Value, &str)> = vec![
        ("/name", json!("other"), "lists the crate `other` as hello"),
        (
            "/vers",
            json!("0.2.0"),
            "127.0.0.1 has no hello-0.2.0.crate",
        ),
        (
            "/vers",
            json!("../../x"),
            "the index lists no version of crate hello",
        ),
        ("/cksum", json!("x"), "is not 64 hexadecimal digits"),
        ("/cksum", json!(zeros), "but the registry lists sha256:0000"),
    ];
    for (path, value, what) in table {
        let mut document = good.clone();
        set(&mut document, path, value);
        mock.put("/index/he/ll/hello", format!("not json\n{document}\n"));
        let what = if what.starts_with("has no") {
            "127.0.0.1 has no hello-0.2.0.crate"
        } else {
            what
        };
        refused(&rind, &mock.install(&rind, "crates:hello"), what);
    }
    mock.put("/index/he/ll/hello", format!("{line}{line}"));
    refused(
        &rind,
        &mock.install(&rind, "crates:hello"),
        "lists version 0.1.0 of crate hello twice",
    );
    mock.put("/index/he/ll/hello", line);
    for (config, what) in [
        (json!([]), "is not the configuration of a sparse index"),
        (
            json!({"dl": "x"}),
            "the download address in the index is not a URL",
        ),
        (
            json!({"dl": "https://192.168.0.1/c"}),
            "not a public address",
        ),
        (
            json!({"dl": "https://a.example@127.0.0.1/{crate}"}),
            "not a public address",
        ),
    ] {
        mock.put("/index/config.json", config.to_string());
        refused(&rind, &mock.install(&rind, "crates:hello"), what);
    }
}

type Answer = Box<dyn Fn(&str) -> Reply + Send + Sync>;

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_end_errors_and_redirects_to_private_places_are_refused() {
    let rind = Rind::default();
    let endless = |n_bytes: usize| Reply::Stream(vec![" ".repeat(n_bytes)]);
    let other = Server::start(|_| Reply::ok("{}")).await;
    let away = other.at("127.0.0.1", "/x");
    let table: Vec<(Answer, &str)> = vec![
        (
            Box::new(move |_| endless((32 << 20) + 1)),
            "has more than 33554432 bytes",
        ),
        (
            Box::new(|_| {
                Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_vec())
            }),
            "has more than 33554432 bytes",
        ),
        (
            Box::new(|_| Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec())),
            "broke off",
        ),
        (Box::new(|_| Reply::Raw(b"\x1b[2J".to_vec())), "not HTTP"),
        (
            Box::new(|_| Reply::Plain(500, Vec::new(), vec![b'x'; 1 << 20])),
            "answered 500",
        ),
        (
            Box::new(|_| Reply::Plain(429, Vec::new(), Vec::new())),
            "limits the rate of requests",
        ),
        (
            Box::new(|_| Reply::Plain(401, Vec::new(), Vec::new())),
            "asks for credentials",
        ),
        (
            Box::new(|_| Reply::Plain(403, Vec::new(), Vec::new())),
            "asks for credentials",
        ),
        (
            Box::new(|_| Reply::Plain(404, Vec::new(), Vec::new())),
            "127.0.0.1 has no package hello",
        ),
        (
            Box::new(|_| Reply::Plain(304, Vec::new(), Vec::new())),
            "answered with a redirect that names no target",
        ),
        (
            Box::new(|_| Reply::to(302, "/npm/hello")),
            "more than 5 times",
        ),
        (
            Box::new(move |_| Reply::to(307, &away)),
            "not a public address with https",
        ),
        (
            Box::new(|_| Reply::to(301, "https://10.1.2.3/hello")),
            "not a public address with https",
        ),
        (
            Box::new(|_| Reply::to(302, "https://metadata.localhost/")),
            "not a public address with https",
        ),
        (
            Box::new(|_| Reply::to(302, "file:///etc/passwd")),
            "not a public address with https",
        ),
        (
            Box::new(|_| Reply::to(302, "https://u:p@a.example/")),
            "not a public address with https",
        ),
        (Box::new(|_| Reply::to(302, "http://[bad/")), "not a URL"),
    ];
    for (answer, what) in table {
        let server = Server::start(move |request| answer(&request.line)).await;
        let mut command = rind.command(&["plugin", "install", "npm:hello"]);
        command.env("npm_config_registry", server.at("127.0.0.1", "/npm/"));
        refused(&rind, &rind.finish(&mut command), what);
    }
    assert!(other.received().is_empty(), "{:?}", other.received());
    let mut command = rind.command(&["plugin", "install", "npm:hello"]);
    command.env("npm_config_registry", "http://registry.example/");
    refused(
        &rind,
        &rind.finish(&mut command),
        "neither https nor on this machine",
    );
    let npmrc = "registry=https://a.example/\n//a.example/:_authToken=${NOT_SET}\n";
    fs::write(rind.user_home().join(".npmrc"), npmrc).unwrap();
    let ran = rind.run(&["plugin", "install", "npm:hello"]);
    refused(&rind, &ran, "`NOT_SET`, which is not set");
    // An `.npmrc` in the current folder belongs to a project, so its registry is ignored.
    fs::remove_file(rind.user_home().join(".npmrc")).unwrap();
    let mock = Mock::start().await;
    rind.file(".npmrc", "registry=http://registry.example/\n");
    refused(
        &rind,
        &mock.install(&rind, "npm:none"),
        "127.0.0.1 has no package none",
    );
}

/// An archive of a package with these entries. Names are written without normalization.
fn tarball(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, kind, content) in entries {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    gzip(&archive.into_inner().unwrap())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_of_packages_that_are_made_to_hurt_are_refused_by_name() {
    let rind = Rind::default();
    let mock = Mock::start().await;
    let folder = hello(&rind, "src", "0.1.0", "");
    let wasm = fs::read(packed(&rind, &folder, "hello.wasm")).unwrap();
    let regular = EntryType::Regular;
    let good = ("package/hello.wasm", regular, wasm.as_slice());
    let many: Vec<(String, EntryType, &[u8])> = (0..10_001)
        .map(|n| (format!("package/{n}"), regular, &b""[..]))
        .collect();
    let many: Vec<_> = many
        .iter()
        .map(|(name, kind, bytes)| (name.as_str(), *kind, *bytes))
        .collect();
    let zeros = vec![0; 257 << 20];
    let whole = tarball(&[good]);
    let table: Vec<(Vec<u8>, &str)> = vec![
        (
            tarball(&[good, ("package/../../x", regular, b"")]),
            "`package/../../x` is refused: a path with `..` is not allowed",
        ),
        (
            tarball(&[good, ("/etc/x", regular, b"")]),
            "`/etc/x` is refused: an absolute path is not allowed",
        ),
        (
            tarball(&[good, ("package/a\x1bb", regular, b"")]),
            "has control characters",
        ),
        (
            tarball(&[good, ("package/l", EntryType::Symlink, b"")]),
            "`package/l` is a link",
        ),
        (
            tarball(&[good, ("package/l", EntryType::Link, b"")]),
            "`package/l` is a link",
        ),
        (
            tarball(&[good, ("package/f", EntryType::Fifo, b"")]),
            "`package/f` is neither a file nor a folder",
        ),
        (tarball(&[good, good]), "it has `package/hello.wasm` twice"),
        (tarball(&many), "more than 10000 entries"),
        (
            tarball(&[good, ("package/zeros", regular, &zeros)]),
            "more than 256 MiB",
        ),
        (gzip(b"text"), "cannot read"),
        (whole[..whole.len() - 9].to_vec(), "cannot read"),
        (b"text".to_vec(), "is not a package"),
        (Vec::new(), "is not a package"),
        (
            tarball(&[
                ("package/package.json", regular, b"{}"),
                ("package/index.js", regular, b""),
            ]),
            "contains no plugin: it must contain exactly one `.wasm` file that `rind plugin pack` made, and none of its 2 files is a `.wasm`",
        ),
        (
            tarball(&[("package/a.wasm", regular, b"\0asm\x01\0\0\0")]),
            "have no manifest: `package/a.wasm`",
        ),
        (
            tarball(&[good, ("package/b.wasm", regular, &wasm)]),
            "contains 2 packed plugins, `package/b.wasm`, `package/hello.wasm`; it must contain exactly one",
        ),
        (
            tarball(&[good, ("package/hello.wasm.minisig", regular, &[b'x'; 9000])]),
            "the signature has 9000 bytes",
        ),
    ];
    for (bytes, what) in table {
        Kind::Npm.list(&mock, &[("0.1.0", &bytes)], &[]);
        refused(&rind, &mock.install(&rind, "npm:hello"), what);
    }
    // A package with install scripts and further modules is accepted, and its scripts do not run.
    let script =
        br#"{"name": "hello", "scripts": {"preinstall": "touch ran", "install": "touch ran"}}"#;
    let bytes = tarball(&[
        ("package/package.json", regular, script),
        ("package/binding.gyp", regular, b"{}"),
        ("package/plain.wasm", regular, b"\0asm\x01\0\0\0"),
        good,
    ]);
    Kind::Npm.list(&mock, &[("0.1.0", &bytes)], &[]);
    mock.install(&rind, "npm:hello").exits(0);
    assert!(!rind.workspace().join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn references_and_versions_that_are_none_are_refused_before_anything_is_asked() {
    let rind = Rind::default();
    let mock = Mock::start().await;
    for (reference, what) in [
        (
            "npm:../hello",
            "is not a reference, which has the form npm:NAME or npm:NAME@VERSION",
        ),
        ("npm:hello@^1", "neither a version nor a tag"),
        ("pypi:hello@1.0", "is not the name of a package"),
        (
            "pypi:hello==1.0.post1",
            "is not a version that a plugin can have",
        ),
        ("crates:hello@1", "ranges are not supported"),
        ("npm:hello\u{1b}[2J", "is not the name of a package"),
        ("crate:hello", "begins with oci://, npm:, pypi: or crates:"),
    ] {
        refused(&rind, &mock.install(&rind, reference), what);
    }
    assert!(mock.server.received().is_empty());
    // A version that the registry does not have.
    for kind in KINDS {
        let bytes = package(&rind, kind, "0.1.0", "");
        kind.list(&mock, &[("0.1.0", &bytes)], &[]);
        let ran = mock.install(&rind, &kind.reference("0.3.0"));
        refused(&rind, &ran, "0.3.0");
        // A package whose version differs from the version of the plugin in it.
        kind.list(&mock, &[("0.2.0", &bytes)], &[]);
        let ran = mock.install(&rind, &kind.reference(""));
        refused(
            &rind,
            &ran,
            "the package contains version 0.1.0 of hello, but the package and the plugin must have the same version",
        );
    }
}
