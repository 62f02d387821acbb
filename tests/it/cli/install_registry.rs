//! Plugins from OCI registries, tested with a real registry on loopback. Skipped unless Debian's
//! `docker-registry` is installed.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rind_tests::cli::{PATIENCE, Ran, Rind};
use serde_json::Value;
use tempfile::TempDir;

use super::install::{hello, installed, packed, plugin};
use super::install_signed::{Key, key, sign, trust};

/// A running registry that stores uploads in a temporary folder.
struct Registry {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    /// Starts a registry; `None` if the program is not installed.
    #[allow(clippy::print_stderr, reason = "a test that cannot run here says why")]
    fn start() -> Option<Self> {
        let program = Path::new("/usr/bin/docker-registry");
        if !program.is_file() {
            eprintln!("skipped: docker-registry is not installed");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.yml");
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            folder.path().join("data").display()
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new(program);
        let command = command.arg("serve").arg(&config);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let registry = Self {
            process: command.spawn().unwrap(),
            port,
            folder,
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < PATIENCE, "the registry does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(registry)
    }

    fn at(&self, tag: &str) -> String {
        format!("oci://127.0.0.1:{}/team/hello{tag}", self.port)
    }

    /// Path of the file in which the registry stores the blob with this digest.
    fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").unwrap();
        let blobs = "data/docker/registry/v2/blobs/sha256";
        let folder = self.folder.path().join(blobs).join(&hex[..2]);
        folder.join(hex).join("data")
    }
}

fn publish(rind: &Rind, file: &Path, at: &str) -> Ran {
    rind.run(&["plugin", "publish", file.to_str().unwrap(), at])
}

/// Packs a version of hello and signs it.
fn signed(rind: &Rind, key: &Key, version: &str) -> PathBuf {
    let folder = hello(rind, "src", version, "");
    let file = packed(rind, &folder, &format!("hello-{version}.wasm"));
    sign(key, &file);
    file
}

fn install(rind: &Rind, at: &str) -> Ran {
    plugin(rind, "install", Path::new(at))
}

/// The entry for hello in the lock file.
fn locked(rind: &Rind) -> toml::Table {
    let text = fs::read_to_string(rind.home().join("config/plugins.lock.toml")).unwrap();
    let file: toml::Table = toml::from_str(&text).unwrap();
    file["plugins"]["hello"].as_table().unwrap().clone()
}

fn list(rind: &Rind) -> Value {
    let ran = rind.run(&["plugin", "list", "--json"]);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_signed_plugin_is_published_installed_updated_and_refused_once_it_was_tampered_with() {
    let Some(registry) = Registry::start() else {
        return;
    };
    let rind = Rind::default();
    let ours = key();
    trust(&rind, &[("ours", &ours)]);
    let file = signed(&rind, &ours, "0.1.0");
    let ran = publish(&rind, &file, &registry.at("")).exits(0);
    let said = format!("✓ hello 0.1.0 published as {}", registry.at(":0.1.0"));
    assert!(ran.stdout.starts_with(&said), "{}", ran.stdout);
    let again = publish(&rind, &file, &registry.at("")).exits(0);
    assert!(
        again.stdout.contains("is published already"),
        "{}",
        again.stdout
    );

    // Without a tag the newest version is taken.
    let ran = install(&rind, &registry.at("")).exits(0);
    assert!(
        ran.stdout.contains("its trust is `package`"),
        "{}",
        ran.stdout
    );
    assert_eq!(list(&rind)["plugins"][0]["trust"], "package");
    let pinned = locked(&rind);
    assert_eq!(pinned["source"].as_str(), Some(&*registry.at(":0.1.0")));
    let manifest = registry.blob(pinned["manifest"].as_str().unwrap());
    let manifest: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    let config = registry.blob(manifest["config"]["digest"].as_str().unwrap());
    let config: Value = serde_json::from_slice(&fs::read(config).unwrap()).unwrap();
    assert_eq!(
        (&config["architecture"], &config["os"]),
        (&"wasm".into(), &"wasip2".into())
    );
    assert_eq!(config["layerDigests"][0], manifest["layers"][0]["digest"]);

    // A tag that already exists is not overwritten.
    let other = packed(
        &rind,
        &hello(&rind, "src", "0.1.0", "# other"),
        "other.wasm",
    );
    let ran = publish(&rind, &other, &registry.at(":0.1.0")).exits(1);
    assert!(ran.stderr.contains("already exists"), "{}", ran.stderr);

    publish(&rind, &signed(&rind, &ours, "0.2.0"), &registry.at("")).exits(0);
    let ran = rind.run(&["plugin", "update"]).exits(0);
    assert!(
        ran.stdout.contains("hello 0.2.0 updated from 0.1.0"),
        "{}",
        ran.stdout
    );
    assert_eq!(
        locked(&rind)["source"].as_str(),
        Some(&*registry.at(":0.2.0"))
    );

    // An attacker may publish but has no key: 0.3.0 comes with the signature of 0.2.0.
    let third = signed(&rind, &ours, "0.3.0");
    let signature = format!("{}.minisig", third.display());
    fs::copy(
        rind.workspace().join("hello-0.2.0.wasm.minisig"),
        &signature,
    )
    .unwrap();
    publish(&rind, &third, &registry.at("")).exits(0);
    let ran = rind.run(&["plugin", "update"]).exits(1);
    assert!(
        ran.stderr.contains("was changed after it was signed"),
        "{}",
        ran.stderr
    );
    assert_eq!(locked(&rind)["version"].as_str(), Some("0.2.0"));

    // An attacker changes a blob in the registry's storage.
    let layer = registry.blob(manifest["layers"][0]["digest"].as_str().unwrap());
    let mut bytes = fs::read(&layer).unwrap();
    *bytes.last_mut().unwrap() = b' ';
    fs::write(&layer, bytes).unwrap();
    let fresh = Rind::default();
    let ran = install(&fresh, &registry.at(":0.1.0")).exits(1);
    assert!(
        ran.stderr.contains("the layer has the digest"),
        "{}",
        ran.stderr
    );
    assert!(installed(&fresh).is_empty());

    // An attacker changes the installed component.
    let component = rind.user_plugins().join("hello/hello.wasm");
    let mut bytes = fs::read(&component).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(component, bytes).unwrap();
    let ran = rind.run(&["run", "hello"]).exits(3);
    assert!(
        ran.stderr.contains("are not those that were installed"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_is_not_in_the_registry_or_was_pinned_to_a_digest_stays_as_it_is() {
    let Some(registry) = Registry::start() else {
        return;
    };
    let rind = Rind::default();
    let ran = install(&rind, &registry.at(":0.1.0")).exits(1);
    assert!(
        ran.stderr.contains("127.0.0.1 has no oci://"),
        "{}",
        ran.stderr
    );
    let folder = hello(&rind, "src", "0.1.0", "");
    let file = packed(&rind, &folder, "hello.wasm");
    let ran = publish(&rind, &file, &registry.at("")).exits(0);
    assert!(ran.stderr.contains("it is not signed"), "{}", ran.stderr);
    let digest = ran.stdout.trim().rsplit(' ').next().unwrap().to_owned();
    install(&rind, &registry.at(&format!("@{digest}"))).exits(0);
    assert_eq!(list(&rind)["plugins"][0]["trust"], "user");

    let newer = packed(&rind, &hello(&rind, "src", "0.2.0", ""), "newer.wasm");
    publish(&rind, &newer, &registry.at("")).exits(0);
    let ran = rind.run(&["plugin", "update"]).exits(0);
    assert!(
        ran.stdout.contains("0.1.0 is installed already"),
        "{}",
        ran.stdout
    );
    // Installing without the digest moves on to the newest version.
    install(&rind, &registry.at("")).exits(0);
    assert_eq!(locked(&rind)["version"].as_str(), Some("0.2.0"));
    // A different repository counts as a different source.
    let elsewhere = format!("oci://127.0.0.1:{}/others/hello", registry.port);
    let newest = packed(&rind, &hello(&rind, "src", "0.3.0", ""), "newest.wasm");
    publish(&rind, &newest, &elsewhere).exits(0);
    let ran = install(&rind, &elsewhere).exits(1);
    assert!(
        ran.stderr.contains("pass --change-source"),
        "{}",
        ran.stderr
    );
    // An update skips a pre-release, which is installed only if its version is requested.
    let release = packed(&rind, &hello(&rind, "src", "0.4.0-rc.1", ""), "rc.wasm");
    publish(&rind, &release, &registry.at("")).exits(0);
    let ran = rind.run(&["plugin", "update"]).exits(0);
    assert!(
        ran.stdout.contains("0.2.0 is installed already"),
        "{}",
        ran.stdout
    );
    install(&rind, &registry.at(":0.4.0-rc.1")).exits(0);

    for (file, at, what) in [
        (&folder, registry.at(""), "is not a packed plugin"),
        (&file, "hello.wasm".to_owned(), "does not begin with oci://"),
        (&file, registry.at(&format!("@{digest}")), "not to a digest"),
        (
            &file,
            "oci://127.0.0.1/../x".to_owned(),
            "is not a reference",
        ),
    ] {
        let ran = publish(&rind, file, &at);
        assert!(
            ran.code != Some(0) && ran.stderr.contains(what),
            "{what}: {}",
            ran.stderr
        );
    }
}
