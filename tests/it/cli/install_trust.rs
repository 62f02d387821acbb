//! Trust of installed plugins: `package` only if a configured key signed exactly the installed
//! files. Attempts to obtain that trust otherwise fail.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rind_tests::cli::Rind;
use serde_json::Value;

use super::install::{hello, packed, plugin};
use super::install_signed::{Key, key, sign, trust};

/// Makes the plugin request network access to a host. That is granted to a plugin with the trust
/// `package`, and needs an answer for one with the trust `user`.
fn with_network(folder: &Path) {
    let path = folder.join("plugin.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("[\"none\"]", "[\"network\"]");
    let text = format!("{text}\n[network]\nhosts = [\"example.com\"]\n");
    fs::write(path, text).unwrap();
}

/// Packs and signs a version of hello.
fn signed(rind: &Rind, key: &Key, version: &str) -> PathBuf {
    let folder = hello(rind, "src", version, "");
    with_network(&folder);
    let file = packed(rind, &folder, "hello.wasm");
    sign(key, &file);
    file
}

/// A machine with a signed plugin installed, and the key that signed it.
fn machine() -> (Rind, Key) {
    let rind = Rind::default();
    let ours = key();
    trust(&rind, &[("ours", &ours)]);
    let file = signed(&rind, &ours, "0.1.0");
    plugin(&rind, "install", &file).exits(0);
    (rind, ours)
}

fn place(rind: &Rind) -> PathBuf {
    rind.user_plugins().join("hello")
}

/// Trust that the plugin hello runs with (`None` if it does not run), and the output of `plugin
/// list`.
fn runs_as(rind: &Rind) -> (Option<String>, String) {
    let ran = rind.run(&["plugin", "list", "--json"]);
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    let running = list["plugins"].as_array().unwrap();
    let hello = running.iter().find(|plugin| plugin["name"] == "hello");
    let trust = hello.map(|plugin| plugin["trust"].as_str().unwrap().to_owned());
    (trust, format!("{}{}", ran.stdout, ran.stderr))
}

/// Checks that a session refuses to load the plugin, and that the message has the reason and the
/// remedies.
fn refused(rind: &Rind, why: &str) {
    let ran = rind.run(&["run", "hello"]).exits(3);
    for said in [why, "rind plugin update hello", "rind plugin remove hello"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    assert_eq!(runs_as(rind).0, None);
}

fn lock_file(rind: &Rind) -> PathBuf {
    rind.home().join("config/plugins.lock.toml")
}

#[test]
fn what_a_configured_key_signed_is_a_package_and_anything_else_is_the_users() {
    let (rind, _) = machine();
    assert_eq!(runs_as(&rind).0.as_deref(), Some("package"));
    rind.run(&["run", "hello"]).exits(0);

    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    plugin(&rind, "install", &folder).exits(0);
    assert_eq!(runs_as(&rind).0.as_deref(), Some("user"));
    // A plugin cannot claim trust in its manifest.
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "trust = \"package\"");
    plugin(&rind, "install", &folder).exits(0);
    assert_eq!(runs_as(&rind).0.as_deref(), Some("user"));
}

#[test]
fn files_that_are_not_those_that_were_installed_are_refused_until_they_are_restored() {
    let (rind, _) = machine();
    let place = place(&rind);
    let keep = rind.workspace().join("keep");
    let attempts: [(&str, &dyn Fn()); 6] = [
        ("not those that were installed", &|| {
            let path = place.join("hello.wasm");
            let mut bytes = fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("not those that were installed", &|| {
            let path = place.join("plugin.toml");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("example.com", "example.org")).unwrap();
        }),
        ("not those that were installed", &|| {
            fs::create_dir(place.join("prompts")).unwrap();
            fs::write(place.join("prompts/more.md"), "Obey.").unwrap();
        }),
        ("cannot be verified", &|| {
            std::os::unix::fs::symlink("/etc/passwd", place.join("README.md")).unwrap();
        }),
        ("cannot be verified", &|| {
            // The same bytes behind a symlink, in a folder that others may be able to write.
            fs::rename(&place, &keep).unwrap();
            std::os::unix::fs::symlink(&keep, &place).unwrap();
        }),
        ("the folder of the package is gone", &|| {
            fs::remove_file(&place).unwrap()
        }),
    ];
    for (why, attempt) in attempts {
        attempt();
        refused(&rind, why);
        if why != "cannot be verified" || place.is_symlink() {
            continue;
        }
        rind.run(&["plugin", "update"]).exits(0);
        assert_eq!(runs_as(&rind).0.as_deref(), Some("package"));
    }
    rind.run(&["plugin", "update"]).exits(0);
    assert_eq!(runs_as(&rind).0.as_deref(), Some("package"));
}

#[test]
fn an_installed_plugin_without_a_signature_is_held_to_its_digest_too() {
    let rind = Rind::default();
    plugin(&rind, "install", &hello(&rind, "src", "0.1.0", "")).exits(0);
    fs::write(place(&rind).join("plugin.toml"), "x").unwrap();
    refused(&rind, "not those that were installed");
    rind.run(&["plugin", "remove", "hello"]).exits(0);
    rind.run(&["run", "hello"]).exits(0);
}

#[test]
fn a_copy_of_a_package_has_the_trust_of_its_own_place() {
    let (rind, _) = machine();
    let copy = |to: &Path| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(place(&rind)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    // Copies in the project's folder and under another folder name: the installed package shadows
    // them.
    copy(&rind.workspace().join(".rind/plugins/hello"));
    copy(&rind.user_plugins().join("a-copy"));
    let (trust, said) = runs_as(&rind);
    assert_eq!(trust.as_deref(), Some("package"));
    assert!(said.contains("shadowed"), "{said}");
    // A copy does not take the place of a package that is broken.
    fs::write(place(&rind).join("hello.wasm"), "x").unwrap();
    let ran = rind.run(&["plugin", "list", "--trust-project", "--json"]);
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(list["plugins"], serde_json::json!([]), "{}", ran.stdout);
    refused(&rind, "not those that were installed");

    rind.run(&["plugin", "remove", "hello"]).exits(0);
    // The remaining copy has the trust `user`, so its network access needs an answer.
    let (trust, said) = runs_as(&rind);
    assert_eq!(trust, None);
    assert!(said.contains("network:example.com"), "{said}");
    fs::remove_dir_all(rind.user_plugins().join("a-copy")).unwrap();
    let ran = rind.run(&["plugin", "list", "--trust-project", "--json"]);
    assert!(ran.stdout.contains("\"project\""), "{}", ran.stdout);
    assert!(!ran.stdout.contains("\"package\""), "{}", ran.stdout);
}

#[test]
fn without_its_key_a_package_is_the_users_and_says_so() {
    let (rind, ours) = machine();
    let note = "is trusted as `user` and no longer as `package`";
    for keys in [&[][..], &[("theirs", &key())]] {
        trust(&rind, keys);
        // Without the trust `package`, network access needs an answer, so the plugin does not run.
        let (trust, said) = runs_as(&rind);
        assert_eq!(trust, None, "{said}");
        assert!(said.contains(note), "{said}");
        assert!(said.contains("network:example.com"), "{said}");
    }
    trust(&rind, &[("renamed", &ours)]);
    let (trust, said) = runs_as(&rind);
    assert_eq!(trust.as_deref(), Some("package"), "{said}");
    assert!(!said.contains(note), "{said}");
}

#[test]
fn a_project_cannot_name_keys_or_plugins_that_were_installed() {
    let (rind, ours) = machine();
    let keys = format!("[install.keys]\nours = \"{}\"\n", ours.public());
    trust(&rind, &[]);
    rind.file(".rind/config.toml", &keys);
    let ran = rind.run(&["plugin", "list", "--trust-project"]).exits(2);
    assert!(ran.stderr.contains("install"), "{}", ran.stderr);
    fs::remove_file(rind.workspace().join(".rind/config.toml")).unwrap();

    // A lock file in the project has no effect, in either folder.
    let text = fs::read_to_string(lock_file(&rind)).unwrap();
    rind.run(&["plugin", "remove", "hello"]).exits(0);
    trust(&rind, &[("ours", &ours)]);
    let source = rind.workspace().join("src");
    let project = rind.workspace().join(".rind/plugins");
    fs::create_dir_all(&project).unwrap();
    fs::rename(source.join("hello"), project.join("hello")).unwrap();
    for place in [".rind/plugins.lock.toml", ".rind/plugins/plugins.lock.toml"] {
        rind.file(place, &text);
    }
    let ran = rind.run(&["plugin", "list", "--trust-project", "--json"]);
    assert!(ran.stdout.contains("\"project\""), "{}", ran.stdout);
    assert!(!ran.stdout.contains("\"package\""), "{}", ran.stdout);
    // An agent whose workspace is the folder of the lock file could write the lock file, so the run
    // is refused.
    let config = rind.home().join("config");
    let ran = rind.run(&["run", "--workspace", config.to_str().unwrap(), "hello"]);
    let ran = ran.exits(2);
    assert!(
        ran.stderr.contains("is in Rind's own folder"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_signature_of_another_version_is_worth_nothing() {
    let (rind, ours) = machine();
    let file = signed(&rind, &ours, "0.1.0");
    let signature = rind.workspace().join("hello.wasm.minisig");
    let (old, old_signature) = (fs::read(&file).unwrap(), fs::read(&signature).unwrap());
    signed(&rind, &ours, "0.2.0");
    let new_signature = fs::read(&signature).unwrap();
    fs::write(&signature, &old_signature).unwrap();
    let update = |what: &str| {
        let ran = rind.run(&["plugin", "update"]).exits(1);
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    };
    update("was changed after it was signed");
    fs::write(&signature, new_signature).unwrap();
    rind.run(&["plugin", "update"]).exits(0);
    // A downgrade to the old version with its genuine signature is refused.
    fs::write(&file, old).unwrap();
    fs::write(&signature, old_signature).unwrap();
    update("0.1.0 is older than the installed 0.2.0");
    assert_eq!(runs_as(&rind).0.as_deref(), Some("package"));
}

#[test]
fn a_session_that_begins_in_the_middle_of_an_update_waits_for_its_end() {
    let (rind, _) = machine();
    let path = place(&rind).join("plugin.toml");
    let whole = fs::read(&path).unwrap();
    let lock = File::create(rind.home().join("config/plugins.exchange.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(&path, "x").unwrap();
    let mut running = rind.command(&["plugin", "list"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(running.try_wait().unwrap().is_none());
    fs::write(&path, whole).unwrap();
    lock.unlock().unwrap();
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_torn_lock_file_stops_sessions_and_names_itself() {
    let (rind, _) = machine();
    let text = fs::read_to_string(lock_file(&rind)).unwrap();
    fs::write(lock_file(&rind), &text[..text.len() / 2]).unwrap();
    let ran = rind.run(&["run", "hello"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("plugins.lock.toml"), "{}", ran.stderr);
}
