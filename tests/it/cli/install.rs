//! Tests of `rind plugin pack`, `install`, `update`, `remove` and `search-path` with real plugins.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use insta::assert_snapshot;
use rind_tests::cli::{Ran, Rind, masked};
use rind_tests::guests;

/// Writes the plugin `hello` into a folder of the workspace, with this version and the lines `more`
/// at the beginning of its manifest.
pub(super) fn hello(rind: &Rind, folder: &str, version: &str, more: &str) -> PathBuf {
    let root = rind.workspace().join(folder);
    guests::put("hello", &root, |manifest| {
        let manifest = manifest.replace("version = \"0.1.0\"", &format!("version = \"{version}\""));
        format!("{more}\n{manifest}")
    })
}

/// Runs `rind plugin` with a command and a path.
pub(super) fn plugin(rind: &Rind, command: &str, path: &Path) -> Ran {
    rind.run(&["plugin", command, path.to_str().unwrap()])
}

/// Packs a plugin's folder into a file of the workspace.
pub(super) fn packed(rind: &Rind, folder: &Path, name: &str) -> PathBuf {
    let out = rind.workspace().join(name);
    let (folder, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    rind.run(&["plugin", "pack", folder, "--out", to]).exits(0);
    out
}

/// Returns the names of the entries in the folder of installed plugins.
pub(super) fn installed(rind: &Rind) -> Vec<String> {
    let entries = fs::read_dir(rind.user_plugins()).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Whether the installed plugin runs in a turn.
fn acts(rind: &Rind) -> bool {
    let ran = rind.run(&["run", "hello"]).exits(0);
    ran.stderr.contains("1 hook call of 1 plugin")
}

fn lock_file(rind: &Rind) -> String {
    fs::read_to_string(rind.home().join("config/plugins.lock.toml")).unwrap()
}

#[test]
fn a_packed_plugin_is_the_same_every_time_and_installs_to_what_it_was_made_from() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    let inside = [
        ("README.md", "# Hello"),
        ("prompts/greet.md", "Greet."),
        ("skills/wave/SKILL.md", "Wave."),
    ];
    for (name, text) in inside {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }
    // Sources are not packed.
    fs::create_dir(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    let one = packed(&rind, &folder, "one.wasm");
    let other = packed(&rind, &folder, "other.wasm");
    assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap());

    let ran = plugin(&rind, "install", &one).exits(0);
    assert_snapshot!(masked(&ran.stdout), @"✓ hello 0.1.0 installed in [RIND_HOME]/config/plugins/hello");
    let place = rind.user_plugins().join("hello");
    let names = ["plugin.toml", "hello.wasm"];
    let [manifest, component] = names.map(|name| fs::read(place.join(name)).unwrap());
    assert_eq!(manifest, fs::read(folder.join("plugin.toml")).unwrap());
    // A built component also has the manifest appended; installation stores the manifest only as
    // `plugin.toml`.
    let built = fs::read(folder.join("hello.wasm")).unwrap();
    assert!(built.len() > component.len() && built.starts_with(&component));
    for (name, text) in inside {
        assert_eq!(fs::read_to_string(place.join(name)).unwrap(), text);
    }
    assert!(!place.join("src").exists());
    assert!(acts(&rind));
    assert_eq!(installed(&rind), ["hello"]);

    // Packing the installed folder gives the same bytes again.
    let again = packed(&rind, &place, "again.wasm");
    assert_eq!(fs::read(&one).unwrap(), fs::read(&again).unwrap());
}

#[test]
fn a_plugin_of_prompts_only_can_be_packed_and_installed() {
    let rind = Rind::default();
    let manifest = "name = \"words\"\nversion = \"1.0.0\"\ndescription = \"Prompts.\"\n";
    rind.file("words/plugin.toml", manifest);
    rind.file("words/prompts/a.md", "A");
    let file = packed(&rind, &rind.workspace().join("words"), "words.wasm");
    plugin(&rind, "install", &file).exits(0);
    let prompt = rind.user_plugins().join("words/prompts/a.md");
    assert_eq!(fs::read_to_string(prompt).unwrap(), "A");
}

#[test]
fn what_the_loader_would_refuse_is_not_packed() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    let manifest = folder.join("plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let refused = |what: &str| {
        let ran = plugin(&rind, "pack", &folder).exits(1);
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
        assert!(!rind.workspace().join("hello-0.1.0.wasm").exists());
    };
    fs::write(&manifest, format!("{text}\n[hooks.pre-tool]\n")).unwrap();
    refused("hello is not packed, because it cannot be loaded");
    fs::write(&manifest, format!("{text}\nunknown = 1\n")).unwrap();
    refused("unknown field `unknown`");
    fs::write(&manifest, &text).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("README.md")).unwrap();
    refused("README.md is a link");
    fs::remove_file(folder.join("README.md")).unwrap();
    fs::create_dir(folder.join("prompts")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("prompts/a.md")).unwrap();
    refused("links and devices are refused");
    fs::remove_dir_all(folder.join("prompts")).unwrap();
    plugin(&rind, "pack", &folder).exits(0);
    assert!(rind.workspace().join("hello-0.1.0.wasm").is_file());
}

#[test]
fn an_archive_installs_with_and_without_a_folder_around_it() {
    for top in ["", "./", "hello-0.1.0/"] {
        let rind = Rind::default();
        let folder = hello(&rind, "src", "0.1.0", "");
        let file = fs::File::create(rind.workspace().join("hello.tar.gz")).unwrap();
        let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
        let inner = if top.is_empty() { "." } else { top };
        tar.append_dir_all(inner, &folder).unwrap();
        tar.into_inner().unwrap().finish().unwrap();
        plugin(&rind, "install", &rind.workspace().join("hello.tar.gz")).exits(0);
        assert!(acts(&rind), "{top:?}");
    }
}

#[test]
fn an_update_takes_the_recorded_source_and_an_older_or_changed_version_is_refused() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    plugin(&rind, "install", &folder).exits(0);
    let update = || rind.run(&["plugin", "update"]);
    assert_snapshot!(masked(&update().exits(0).stdout), @"✓ hello 0.1.0 is installed already");

    hello(&rind, "src", "0.2.0", "");
    assert_snapshot!(masked(&update().exits(0).stdout), @"✓ hello 0.2.0 updated from 0.1.0");
    assert!(lock_file(&rind).contains("version = \"0.2.0\""));
    assert!(acts(&rind));

    hello(&rind, "src", "0.1.0", "");
    let refused = |what: &str| {
        let ran = update().exits(1);
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    };
    refused("hello is not updated: hello 0.1.0 is older than the installed 0.2.0");
    hello(&rind, "src", "0.2.0", "# other bytes");
    refused("has other files under the same version");
    assert!(lock_file(&rind).contains("version = \"0.2.0\""));
    assert_eq!(installed(&rind), ["hello"]);

    fs::remove_dir_all(&folder).unwrap();
    let ran = update().exits(1);
    assert!(
        ran.stderr.contains("hello is not updated: cannot read"),
        "{}",
        ran.stderr
    );
    assert!(acts(&rind));
    rind.run(&["plugin", "update", "other"]).exits(2);
}

#[test]
fn files_that_were_changed_or_deleted_after_the_installation_are_restored() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    plugin(&rind, "install", &folder).exits(0);
    let manifest = rind.user_plugins().join("hello/plugin.toml");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, "x").unwrap();
    let ran = plugin(&rind, "install", &folder).exits(0);
    assert!(ran.stdout.contains("restored"), "{}", ran.stdout);
    assert_eq!(fs::read(&manifest).unwrap(), whole);
    fs::remove_dir_all(manifest.parent().unwrap()).unwrap();
    plugin(&rind, "install", &folder).exits(0);
    assert!(acts(&rind));
}

#[test]
fn a_name_from_another_source_needs_a_flag_and_a_folder_of_ones_own_is_left_alone() {
    let rind = Rind::default();
    plugin(&rind, "install", &hello(&rind, "one", "0.1.0", "")).exits(0);
    let other = hello(&rind, "other", "0.2.0", "");
    let ran = plugin(&rind, "install", &other).exits(1);
    assert!(
        ran.stderr.contains("pass --change-source"),
        "{}",
        ran.stderr
    );
    let other = other.to_str().unwrap();
    rind.run(&["plugin", "install", other, "--change-source"])
        .exits(0);

    let rind = Rind::default();
    let own = guests::put("hello", &rind.user_plugins(), |manifest| manifest);
    let ran = plugin(&rind, "install", &hello(&rind, "src", "0.2.0", "")).exits(1);
    assert!(
        ran.stderr.contains("without `rind plugin install`"),
        "{}",
        ran.stderr
    );
    assert!(own.join("plugin.toml").is_file());
    let ran = rind.run(&["plugin", "remove", "hello"]).exits(2);
    assert!(
        ran.stderr.contains("delete the folder yourself"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_a_removed_plugin_stored_comes_back_with_its_source_and_goes_to_no_other() {
    let rind = Rind::default();
    let [one, two] = ["one", "two"].map(|name| hello(&rind, name, "0.1.0", "").join("."));
    let key = rind.home().join("data/plugins/hello/store/key");
    let store = |text: &str| {
        fs::create_dir_all(key.parent().unwrap()).unwrap();
        fs::write(&key, text).unwrap();
    };
    let stored = || fs::read_to_string(&key).ok();
    let remove = || {
        let ran = rind.run(&["plugin", "remove", "hello"]).exits(0);
        assert!(ran.stderr.contains("was moved to"), "{}", ran.stderr);
    };
    plugin(&rind, "install", &one).exits(0);
    store("of one");
    remove();
    plugin(&rind, "install", &two).exits(0);
    assert_eq!(stored(), None);
    store("of two");
    remove();
    let ran = plugin(&rind, "install", &one).exits(0);
    assert!(
        ran.stderr.contains("its earlier stored data is restored"),
        "{}",
        ran.stderr
    );
    assert_eq!(stored().as_deref(), Some("of one"));
    // Reinstalling a plugin keeps its stored data, even if the operator has changed its source.
    plugin(&rind, "install", &one).exits(0);
    rind.run(&["plugin", "update"]).exits(0);
    let two = two.to_str().unwrap();
    rind.run(&["plugin", "install", two, "--change-source"])
        .exits(0);
    assert_eq!(stored().as_deref(), Some("of one"));
    remove();
    // Stored data of a plugin that was copied there by hand has no known source.
    store("of somebody");
    let ran = plugin(&rind, "install", &one).exits(0);
    assert!(
        ran.stderr.contains("not for this one: it was moved to"),
        "{}",
        ran.stderr
    );
    assert_eq!(stored(), None);
}

#[test]
fn a_removed_plugin_is_gone_with_the_answers_about_it_and_no_session_misses_it() {
    let rind = Rind::default();
    let guard = guests::guest("injection-guard");
    plugin(&rind, "install", guard).exits(0);
    rind.run(&["run", "hello"]).exits(0);
    let ran = rind.run(&["plugin", "remove", "injection-guard"]).exits(0);
    assert!(
        ran.stdout.contains("injection-guard removed"),
        "{}",
        ran.stdout
    );
    assert!(installed(&rind).is_empty());
    rind.run(&["run", "hello"]).exits(0);
    let ran = rind.run(&["plugin", "remove", "injection-guard"]).exits(2);
    assert!(
        ran.stderr.contains("was installed; see `rind plugin list`"),
        "{}",
        ran.stderr
    );
    rind.run(&["plugin", "remove", "../../data"]).exits(2);
    assert!(rind.home().join("data").is_dir());
}

#[test]
fn the_search_path_is_the_order_in_which_plugins_are_found() {
    let rind = Rind::default();
    rind.managed("hello");
    assert_snapshot!(rind.run(&["plugin", "search-path"]).exits(0).stdout, @r"
    managed  [RIND_HOME]/managed
    user     [RIND_HOME]/config/plugins (not there)
    project  [WORKSPACE]/.rind/plugins (not there) (once the project is trusted)
    ");
    let ran = rind.run(&["plugin", "search-path", "--json"]).exits(0);
    let rows: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(rows[0]["trust"], "managed");
    assert_eq!(rows[0]["exists"], true);
}
