//! Plugins in packages of npm, PyPI and crates.io, from a mock registry on loopback.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rind_tests::cli::{Ran, Rind};
use rind_tests::server::{Received, Reply, Server};
use ring::digest::{Algorithm, SHA256, SHA512, digest};
use serde_json::{Value, json};

use super::install::{hello, installed, packed, plugin};
use super::install_signed::{key, sign, trust};

/// Status code, header lines and body.
type Answer = (u16, Vec<String>, Vec<u8>);

/// A mock registry for npm, PyPI and crates.io with fixed answers by path.
pub(super) struct Mock {
    pub(super) server: Server,
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
}

impl Mock {
    pub(super) async fn start() -> Self {
        let answers: Arc<Mutex<BTreeMap<String, Answer>>> = Arc::default();
        let known = answers.clone();
        let server = Server::start(move |request| {
            let path = request.line.trim_start_matches("GET ");
            let found = known.lock().unwrap().get(path).cloned();
            let (status, headers, body) = found.unwrap_or((404, Vec::new(), Vec::new()));
            Reply::Plain(status, headers, body)
        })
        .await;
        let mock = Self { server, answers };
        let config = json!({"dl": mock.at("/crates")});
        mock.put("/index/config.json", config.to_string());
        mock
    }

    pub(super) fn at(&self, path: &str) -> String {
        self.server.at("127.0.0.1", path)
    }

    /// Answers a path with this body.
    pub(super) fn put(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.answer(path, 200, Vec::new(), body);
    }

    pub(super) fn answer(
        &self,
        path: &str,
        status: u16,
        headers: Vec<String>,
        body: impl Into<Vec<u8>>,
    ) {
        let answer = (status, headers, body.into());
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// Runs the program with this registry configured for npm, pip and cargo.
    pub(super) fn run(&self, rind: &Rind, args: &[&str]) -> Ran {
        let cargo = rind.home().join("cargo");
        fs::create_dir_all(&cargo).unwrap();
        let config = format!(
            "[source.crates-io]\nreplace-with = 'mock'\n[source.mock]\nregistry = 'sparse+{}'\n",
            self.at("/index/")
        );
        fs::write(cargo.join("config.toml"), config).unwrap();
        let mut command = rind.command(args);
        command
            .env("npm_config_registry", self.at("/npm"))
            .env("PIP_INDEX_URL", self.at("/simple"))
            .env("CARGO_HOME", cargo);
        rind.finish(&mut command)
    }

    pub(super) fn install(&self, rind: &Rind, reference: &str) -> Ran {
        self.run(rind, &["plugin", "install", reference])
    }
}

fn hex(algorithm: &'static Algorithm, bytes: &[u8]) -> String {
    let found = digest(algorithm, bytes);
    found
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub(super) fn integrity(bytes: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(digest(&SHA512, bytes)))
}

/// Kind of a package.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Npm,
    Pypi,
    Crate,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Npm, Kind::Pypi, Kind::Crate];

impl Kind {
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Npm => "--npm",
            Self::Pypi => "--pypi",
            Self::Crate => "--crate",
        }
    }

    /// Reference to the package `hello`, with a version unless `version` is empty.
    pub(super) fn reference(self, version: &str) -> String {
        let (scheme, separator) = match self {
            Self::Npm => ("npm:", "@"),
            Self::Pypi => ("pypi:", "=="),
            Self::Crate => ("crates:", "@"),
        };
        match version {
            "" => format!("{scheme}hello"),
            version => format!("{scheme}hello{separator}{version}"),
        }
    }

    /// File name of a version.
    pub(super) fn file(self, version: &str) -> String {
        match self {
            Self::Npm => format!("hello-{version}.tgz"),
            Self::Pypi => format!("hello-{version}-py3-none-any.whl"),
            Self::Crate => format!("hello-{version}.crate"),
        }
    }

    /// Path of a version's file in the registry.
    pub(super) fn file_path(self, version: &str) -> String {
        match self {
            Self::Npm => format!("/npm/hello/-/{}", self.file(version)),
            Self::Pypi => format!("/files/{}", self.file(version)),
            Self::Crate => format!("/crates/hello/{version}/download"),
        }
    }

    /// Path of the list of versions in the registry.
    pub(super) fn list_path(self) -> &'static str {
        match self {
            Self::Npm => "/npm/hello",
            Self::Pypi => "/simple/hello/",
            Self::Crate => "/index/he/ll/hello",
        }
    }

    /// Publishes these versions of the package, the newest last. Versions in `withdrawn` are
    /// deprecated or yanked, with a reason where the format has one.
    pub(super) fn list(self, mock: &Mock, versions: &[(&str, &[u8])], withdrawn: &[&str]) {
        for (version, bytes) in versions {
            mock.put(&self.file_path(version), *bytes);
        }
        mock.put(self.list_path(), self.list_text(mock, versions, withdrawn));
    }

    pub(super) fn list_text(
        self,
        mock: &Mock,
        versions: &[(&str, &[u8])],
        withdrawn: &[&str],
    ) -> String {
        let of = |(version, bytes): &(&str, &[u8])| {
            let is_withdrawn = withdrawn.contains(version);
            let at = mock.at(&self.file_path(version));
            match self {
                Self::Npm => json!({
                    "name": "hello",
                    "version": version,
                    "deprecated": if is_withdrawn { json!("use\u{1b}[2J another") } else { Value::Null },
                    "dist": {
                        "tarball": at,
                        "integrity": integrity(bytes),
                        "shasum": "unused",
                        "signatures": [{"keyid": "SHA256:abc", "sig": "unused"}],
                        "attestations": {"url": at, "provenance": {"predicateType": "https://slsa.example/provenance/v1"}},
                    },
                }),
                Self::Pypi => json!({
                    "filename": self.file(version),
                    "url": format!("../../files/{}", self.file(version)),
                    "hashes": {"sha256": hex(&SHA256, bytes)},
                    "requires-python": ">=3.8",
                    "yanked": if is_withdrawn { json!("it\u{1b}[2J breaks") } else { json!(false) },
                    "provenance": format!("https://a.example/integrity/{version}"),
                }),
                Self::Crate => json!({
                    "name": "hello",
                    "vers": version,
                    "deps": [],
                    "cksum": hex(&SHA256, bytes),
                    "features": {},
                    "yanked": is_withdrawn,
                }),
            }
        };
        let all: Vec<Value> = versions.iter().map(of).collect();
        let newest = versions.last().map(|(version, _)| *version);
        match self {
            Self::Npm => {
                let by_version = all.iter().map(|one| {
                    let version = one["version"].as_str().unwrap().to_owned();
                    (version, one.clone())
                });
                let by_version: serde_json::Map<String, Value> = by_version.collect();
                json!({"name": "hello", "dist-tags": {"latest": newest}, "versions": by_version})
                    .to_string()
            }
            Self::Pypi => {
                json!({"meta": {"api-version": "1.3"}, "name": "hello", "files": all}).to_string()
            }
            Self::Crate => all.iter().map(|one| format!("{one}\n")).collect(),
        }
    }
}

/// Packs a version of `hello` with the lines `more` in its manifest, and returns the package.
pub(super) fn package(rind: &Rind, kind: Kind, version: &str, more: &str) -> Vec<u8> {
    fs::read(package_file(rind, kind, version, more)).unwrap()
}

pub(super) fn package_file(rind: &Rind, kind: Kind, version: &str, more: &str) -> PathBuf {
    let folder = hello(rind, "src", version, more);
    let file = rind.workspace().join(kind.file(version));
    let (from, to) = (folder.to_str().unwrap(), file.to_str().unwrap());
    rind.run(&["plugin", "pack", from, kind.flag(), "--out", to])
        .exits(0);
    file
}

/// Returns the lock file's entry for `hello`.
fn locked(rind: &Rind) -> toml::Table {
    let text = fs::read_to_string(rind.home().join("config/plugins.lock.toml")).unwrap();
    let file: toml::Table = toml::from_str(&text).unwrap();
    file["plugins"]["hello"].as_table().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_each_registry_is_installed_updated_restored_and_removed() {
    for kind in KINDS {
        let rind = Rind::default();
        let mock = Mock::start().await;
        let (one, two) = (
            package(&rind, kind, "0.1.0", ""),
            package(&rind, kind, "0.2.0", ""),
        );
        kind.list(&mock, &[("0.1.0", &one)], &[]);
        let ran = mock.install(&rind, &kind.reference("")).exits(0);
        let said = "✓ hello 0.1.0 installed in ";
        assert!(ran.stdout.starts_with(said), "{}", ran.stdout);
        assert_eq!(installed(&rind), ["hello"]);
        let entry = locked(&rind);
        assert_eq!(entry["source"].as_str().unwrap(), kind.reference("0.1.0"));
        let record = entry["package"].as_table().unwrap();
        let sha256 = format!("sha256:{}", hex(&SHA256, &one));
        assert_eq!(record["digest"].as_str(), Some(sha256.as_str()));
        let published = if kind == Kind::Npm {
            integrity(&one)
        } else {
            sha256
        };
        assert_eq!(record["integrity"].as_str(), Some(published.as_str()));
        let registry = record["registry"].as_str().unwrap();
        assert!(registry.starts_with(&mock.at("/")), "{registry}");
        let claims = record.get("provenance").map(ToString::to_string);
        let claims = claims.unwrap_or_default();
        match kind {
            Kind::Npm => {
                assert!(
                    claims.contains("attestation https://slsa.example/provenance/v1"),
                    "{claims}"
                );
                assert!(claims.contains("signature of key SHA256:abc"), "{claims}");
            }
            Kind::Pypi => assert!(claims.contains("attestation https://a.example"), "{claims}"),
            Kind::Crate => assert_eq!(claims, ""),
        }
        assert_eq!(
            ran.stderr.contains("Rind does not verify"),
            kind != Kind::Crate,
            "{}",
            ran.stderr
        );

        let list = rind.run(&["plugin", "list"]).exits(0);
        assert!(list.stdout.contains("hello"), "{}", list.stdout);
        rind.run(&["plugin", "inspect", "hello"]).exits(0);
        let again = mock.install(&rind, &kind.reference("0.1.0")).exits(0);
        assert!(
            again.stdout.contains("is installed already"),
            "{}",
            again.stdout
        );
        // Changed files are restored from the version in the lock file.
        let manifest = rind.user_plugins().join("hello/plugin.toml");
        fs::write(&manifest, "").unwrap();
        let ran = mock.run(&rind, &["plugin", "update"]).exits(0);
        assert!(ran.stdout.contains("restored"), "{}", ran.stdout);

        kind.list(&mock, &[("0.1.0", &one), ("0.2.0", &two)], &[]);
        let ran = mock.run(&rind, &["plugin", "update", "hello"]).exits(0);
        assert!(
            ran.stdout.contains("hello 0.2.0 updated from 0.1.0"),
            "{}",
            ran.stdout
        );
        assert_eq!(
            locked(&rind)["source"].as_str().unwrap(),
            kind.reference("0.2.0")
        );
        let older = mock.install(&rind, &kind.reference("0.1.0")).exits(1);
        assert!(
            older.stderr.contains("is older than the installed 0.2.0"),
            "{}",
            older.stderr
        );
        rind.run(&["plugin", "remove", "hello"]).exits(0);
        assert!(installed(&rind).is_empty());
        let old = mock.install(&rind, &kind.reference("0.1.0")).exits(0);
        assert!(
            old.stdout.contains("hello 0.1.0 installed"),
            "{}",
            old.stdout
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_bytes_of_a_version_and_another_registry_are_refused() {
    for kind in KINDS {
        let rind = Rind::default();
        let mock = Mock::start().await;
        let one = package(&rind, kind, "0.1.0", "");
        kind.list(&mock, &[("0.1.0", &one)], &[]);
        mock.install(&rind, &kind.reference("")).exits(0);
        let update = |mock: &Mock, what: &str| {
            let ran = mock.run(&rind, &["plugin", "update"]).exits(1);
            assert!(ran.stderr.contains(what), "{kind:?} {what}: {}", ran.stderr);
        };
        // Other files under the same version, then other bytes of the package with the same files.
        let other = package(&rind, kind, "0.1.0", "# changed");
        kind.list(&mock, &[("0.1.0", &other)], &[]);
        update(&mock, "has other files under the same version");
        let folder = hello(&rind, "src", "0.1.0", "");
        let out = rind.workspace().join(kind.file("0.1.0"));
        let licensed = [
            "plugin",
            "pack",
            folder.to_str().unwrap(),
            kind.flag(),
            "--license",
            "MIT",
            "--out",
            out.to_str().unwrap(),
        ];
        rind.run(&licensed).exits(0);
        kind.list(&mock, &[("0.1.0", &fs::read(&out).unwrap())], &[]);
        update(&mock, "versions of a registry do not change");
        // The same package in another registry.
        let elsewhere = Mock::start().await;
        kind.list(&elsewhere, &[("0.1.0", &one)], &[]);
        update(&elsewhere, "was installed from the registry");
        let reference = kind.reference("");
        elsewhere
            .run(&rind, &["plugin", "install", &reference, "--change-source"])
            .exits(0);
        elsewhere.run(&rind, &["plugin", "update"]).exits(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn yanked_and_deprecated_versions_are_left_out_or_told() {
    for kind in KINDS {
        let rind = Rind::default();
        let mock = Mock::start().await;
        let (one, two) = (
            package(&rind, kind, "0.1.0", ""),
            package(&rind, kind, "0.2.0", ""),
        );
        let both = [("0.1.0", one.as_slice()), ("0.2.0", two.as_slice())];
        let what = match kind {
            Kind::Npm => "hello@0.2.0 is deprecated: use",
            Kind::Pypi => "hello==0.2.0 was yanked: it",
            Kind::Crate => "hello@0.2.0 was yanked",
        };
        kind.list(&mock, &both, &["0.2.0"]);
        let ran = mock.install(&rind, &kind.reference("")).exits(0);
        // npm installs deprecated versions; the others skip yanked ones by default.
        let taken = if kind == Kind::Npm { "0.2.0" } else { "0.1.0" };
        assert!(
            ran.stdout.contains(&format!("hello {taken} installed")),
            "{}",
            ran.stdout
        );
        assert_eq!(
            ran.stderr.contains(what),
            kind == Kind::Npm,
            "{}",
            ran.stderr
        );
        let ran = mock.install(&rind, &kind.reference("0.2.0")).exits(0);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
        let ran = mock.run(&rind, &["plugin", "update"]).exits(0);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);

        kind.list(&mock, &both, &["0.1.0", "0.2.0"]);
        rind.run(&["plugin", "remove", "hello"]).exits(0);
        if kind != Kind::Npm {
            let ran = mock.install(&rind, &kind.reference("")).exits(1);
            assert!(
                ran.stderr.contains("was yanked; name one, as"),
                "{}",
                ran.stderr
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_without_the_attestation_of_the_version_before_is_told() {
    let rind = Rind::default();
    let mock = Mock::start().await;
    let (one, two) = (
        package(&rind, Kind::Npm, "0.1.0", ""),
        package(&rind, Kind::Npm, "0.2.0", ""),
    );
    Kind::Npm.list(&mock, &[("0.1.0", &one)], &[]);
    mock.install(&rind, "npm:hello").exits(0);
    Kind::Npm.list(&mock, &[("0.1.0", &one), ("0.2.0", &two)], &[]);
    let text = Kind::Npm.list_text(&mock, &[("0.1.0", &one), ("0.2.0", &two)], &[]);
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let dist = document["versions"]["0.2.0"]["dist"].as_object_mut();
    dist.unwrap().remove("attestations");
    mock.put("/npm/hello", document.to_string());
    let ran = mock.run(&rind, &["plugin", "update"]).exits(0);
    assert!(
        ran.stderr
            .contains("but none for npm:hello@0.2.0: ask the owner of the package why"),
        "{}",
        ran.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_of_npm_are_followed_and_scopes_are_one_part_of_the_path() {
    let rind = Rind::default();
    let mock = Mock::start().await;
    let (one, two) = (
        package(&rind, Kind::Npm, "0.1.0", ""),
        package(&rind, Kind::Npm, "0.2.0-rc.1", ""),
    );
    let versions = [("0.2.0-rc.1", two.as_slice()), ("0.1.0", one.as_slice())];
    Kind::Npm.list(&mock, &versions, &[]);
    let text = Kind::Npm.list_text(&mock, &versions, &[]);
    let text = text.replace("\"hello\"", "\"@team/hello\"");
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["dist-tags"]["next"] = "0.1.0".into();
    mock.put("/npm/@team%2fhello", document.to_string());
    mock.install(&rind, "npm:@team/hello@next").exits(0);
    assert_eq!(
        locked(&rind)["source"].as_str(),
        Some("npm:@team/hello@next")
    );
    document["dist-tags"]["next"] = "0.2.0-rc.1".into();
    mock.put("/npm/@team%2fhello", document.to_string());
    let ran = mock.run(&rind, &["plugin", "update"]).exits(0);
    assert!(
        ran.stdout.contains("0.2.0-rc.1 updated from 0.1.0"),
        "{}",
        ran.stdout
    );
    let asked = mock.server.received();
    let accept = "accept: application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8";
    assert!(asked[0].has(accept), "{asked:?}");
    let ran = mock.install(&rind, "npm:@team/hello@gone").exits(1);
    assert!(ran.stderr.contains("has no tag `gone`"), "{}", ran.stderr);
    // A package of another name does not replace the plugin without `--change-source`.
    let ran = mock.install(&rind, "npm:hello").exits(1);
    assert!(
        ran.stderr.contains("pass --change-source"),
        "{}",
        ran.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_the_clients_go_to_their_registry_only_and_are_never_shown() {
    let rind = Rind::default();
    let bytes = package(&rind, Kind::Npm, "0.1.0", "");
    let state: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (document, file) = (state.clone(), bytes.clone());
    let server = Server::start(move |request: &Received| {
        if !request.has("authorization: Bearer hunter2") {
            Reply::Plain(401, Vec::new(), Vec::new())
        } else if request.line.ends_with(".tgz") {
            Reply::Plain(200, Vec::new(), file.clone())
        } else {
            Reply::Plain(200, Vec::new(), document.lock().unwrap().clone())
        }
    })
    .await;
    let host = format!("127.0.0.1:{}", server.port);
    let at = |path: &str| server.at("127.0.0.1", path);
    let listed = |tarball: &str| {
        json!({
            "name": "hello",
            "dist-tags": {"latest": "0.1.0"},
            "versions": {"0.1.0": {"name": "hello", "version": "0.1.0", "dist": {"tarball": tarball, "integrity": integrity(&bytes)}}},
        })
    };
    *state.lock().unwrap() = listed(&at("/npm/hello.tgz")).to_string().into_bytes();
    let npmrc =
        |token: &str| format!("registry=http://{host}/npm/\n//{host}/npm/:_authToken={token}\n");
    let install = |npmrc: &str| {
        fs::write(rind.user_home().join(".npmrc"), npmrc).unwrap();
        rind.run(&["plugin", "install", "npm:hello"])
    };
    let ran = install(&format!("registry=http://{host}/npm/\n")).exits(1);
    assert!(
        ran.stderr
            .contains("asks for credentials: set `//HOST/:_authToken`"),
        "{}",
        ran.stderr
    );
    let ran = install(&npmrc("hunter3")).exits(1);
    assert!(
        ran.stderr
            .contains("refuses access to package hello with the configured credentials"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("hunter3"), "{}", ran.stderr);
    // A file on another server gets no credentials; a private address is not even requested.
    let elsewhere = Server::start(|_| Reply::ok("")).await;
    *state.lock().unwrap() = listed(&elsewhere.at("127.0.0.1", "/x.tgz"))
        .to_string()
        .into_bytes();
    let ran = install(&npmrc("hunter2")).exits(1);
    assert!(
        ran.stderr
            .contains("which is not a public address with https"),
        "{}",
        ran.stderr
    );
    assert!(elsewhere.received().is_empty());
    *state.lock().unwrap() = listed(&at("/npm/hello.tgz")).to_string().into_bytes();
    install(&npmrc("hunter2")).exits(0);
    let text = fs::read_to_string(rind.home().join("config/plugins.lock.toml")).unwrap();
    assert!(!text.contains("hunter2"), "{text}");

    // The address of an index may contain the password.
    let mock = Mock::start().await;
    let url = mock.at("/simple").replace("http://", "http://ada:hunter2@");
    let mut command = rind.command(&["plugin", "install", "pypi:none"]);
    let ran = rind.finish(command.env("PIP_INDEX_URL", url)).exits(1);
    assert!(
        ran.stderr.contains("127.0.0.1 has no package none"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    let basic = format!("authorization: Basic {}", STANDARD.encode("ada:hunter2"));
    assert!(mock.server.last().has(&basic));
}

#[test]
fn package_files_on_this_machine_are_installed_and_their_signature_counts() {
    for kind in KINDS {
        let rind = Rind::default();
        let file = package_file(&rind, kind, "0.1.0", "");
        let ran = plugin(&rind, "install", &file).exits(0);
        assert!(
            ran.stdout.contains("hello 0.1.0 installed"),
            "{}",
            ran.stdout
        );
        rind.run(&["plugin", "remove", "hello"]).exits(0);

        let ours = key();
        trust(&rind, &[("ours", &ours)]);
        let ran = plugin(&rind, "install", &file).exits(1);
        let what = "sign the packed file before `rind plugin pack` makes a package of it";
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        let wasm = packed(&rind, &hello(&rind, "src", "0.1.0", ""), "hello.wasm");
        sign(&ours, &wasm);
        let (from, to) = (wasm.to_str().unwrap(), file.to_str().unwrap());
        let pack = ["plugin", "pack", from, kind.flag(), "--out", to];
        rind.run(&pack).exits(0);
        let ran = plugin(&rind, "install", &file).exits(0);
        assert!(
            ran.stdout.contains("its trust is `package`"),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn packages_are_the_same_each_time_and_packed_under_the_names_that_clients_expect() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    let folder = folder.to_str().unwrap();
    let pack = |more: &[&str]| rind.run(&[&["plugin", "pack", folder][..], more].concat());
    for (kind, more, file, next) in [
        (
            Kind::Npm,
            &["--package-name", "@team/hello"][..],
            "team-hello-0.1.0.tgz",
            "npm publish",
        ),
        (
            Kind::Pypi,
            &["--license", "MIT"],
            "hello-0.1.0-py3-none-any.whl",
            "twine upload",
        ),
        (Kind::Crate, &[][..], "hello-0.1.0.crate", "cargo publish"),
    ] {
        let args = [&[kind.flag()][..], more].concat();
        let ran = pack(&args).exits(0);
        assert!(ran.stdout.contains(file), "{}", ran.stdout);
        assert!(ran.stderr.contains(next), "{}", ran.stderr);
        let one = fs::read(rind.workspace().join(file)).unwrap();
        pack(&args).exits(0);
        assert!(
            one == fs::read(rind.workspace().join(file)).unwrap(),
            "{file}"
        );
    }
    for (args, what) in [
        (&["--npm", "--crate"][..], "cannot be used with"),
        (&["--license", "MIT"][..], "required"),
        (
            &["--pypi", "--out", "x.whl"],
            "a wheel must be named hello-0.1.0-py3-none-any.whl",
        ),
    ] {
        let ran = pack(args).exits(2);
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    }
    let ran = pack(&["--crate", "--package-name", "9x"]).exits(1);
    assert!(
        ran.stderr.contains("is not the name of a package"),
        "{}",
        ran.stderr
    );
    rind.file("text.wasm", "text");
    let text = rind.workspace().join("text.wasm");
    for file in [text.as_path(), Path::new("none")] {
        let file = file.to_str().unwrap();
        let ran = rind.run(&["plugin", "pack", file, "--npm"]);
        assert!(ran.code == Some(1) || ran.code == Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("not a"), "{}", ran.stderr);
    }
}
