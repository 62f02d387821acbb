//! Messages on plugins that were not found, and on demos without any.

use std::fs;
use std::path::PathBuf;

use rind_tests::cli::Rind;
use rind_tests::guests;

const ANSWER: &str = "[[reply]]\ntext = \"the answer\"\n";

/// A machine with the plugin `hello` in the user's folder, which stays there with another name for its manifest.
fn misnamed(manifest: Option<&str>) -> Rind {
    let rind = Rind::with_script(ANSWER);
    let folder = guests::put("hello", &rind.user_plugins(), |manifest| manifest);
    let path = folder.join("plugin.toml");
    match manifest {
        Some(name) => fs::rename(&path, folder.join(name)).unwrap(),
        None => fs::remove_file(&path).unwrap(),
    }
    rind
}

#[test]
fn a_folder_that_is_meant_for_a_plugin_and_has_no_manifest_is_left_out_and_said_by_every_command() {
    for (manifest, todo) in [
        (Some("Plugin.toml"), "rename Plugin.toml to it"),
        (Some("plugin.json"), "rename plugin.json to it"),
        (None, "put the manifest of hello.wasm beside it"),
    ] {
        let rind = misnamed(manifest);
        let said = format!("[RIND_HOME]/config/plugins/hello has no plugin.toml: {todo}");
        let ran = rind.run(&["run", "hello"]).exits(3);
        assert!(ran.stderr.contains(&said), "{}", ran.stderr);
        let list = rind.run(&["plugin", "list"]).exits(1);
        assert!(list.stdout.contains(&said), "{}", list.stdout);
        let json = rind.run(&["plugin", "list", "--json"]).exits(1);
        assert!(json.stdout.contains(&said), "{}", json.stdout);
        let doctor = rind.run(&["doctor"]);
        assert!(doctor.stdout.contains(&said), "{}", doctor.stdout);
        let ran = rind.run(&["run", "hello", "--without", "hello"]).exits(0);
        assert_eq!(ran.stdout, "the answer\n");
    }
}

#[test]
fn sources_and_loose_files_among_plugins_are_said_and_keep_nothing_from_running() {
    let rind = Rind::with_script(ANSWER);
    let plugins = rind.user_plugins();
    fs::create_dir_all(plugins.join("crate")).unwrap();
    fs::write(plugins.join("crate/Cargo.toml"), "[package]\n").unwrap();
    fs::create_dir_all(plugins.join("notes")).unwrap();
    fs::write(plugins.join("notes/README.md"), "notes").unwrap();
    fs::write(plugins.join("loose.wasm"), "\0asm").unwrap();
    let said = [
        "[RIND_HOME]/config/plugins/crate is ignored: it has no plugin.toml",
        "[RIND_HOME]/config/plugins/loose.wasm has no effect",
    ];
    for args in [&["run", "hello"][..], &["plugin", "list"], &["doctor"]] {
        let ran = rind.run(args);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.iter().all(|said| all.contains(said)),
            "{args:?}: {all}"
        );
        assert!(!all.contains("notes"), "{args:?}: {all}");
    }
    rind.run(&["run", "hello"]).exits(0);
}

#[test]
fn a_flag_for_a_folder_that_is_no_plugin_says_what_is_there() {
    let rind = misnamed(Some("Plugin.toml"));
    let folder = rind.user_plugins().join("hello");
    let other = rind.user_home().join("hello");
    fs::rename(&folder, &other).unwrap();
    let at = |path: &PathBuf| {
        let path = path.to_str().unwrap();
        let ran = rind.run(&["run", "hello", "--plugin", path]).exits(2);
        let list = rind.run(&["plugin", "list", "--plugin", path]).exits(2);
        assert_eq!(ran.stderr, list.stderr);
        ran.stderr
    };
    let said = at(&other);
    assert!(
        said.contains("there is no plugin.toml in it or in its folders; rename Plugin.toml to it"),
        "{said}"
    );
    let said = at(&other.join("hello.wasm"));
    assert!(said.contains("it is not a folder"), "{said}");
    let said = at(&other.join("nowhere"));
    assert!(said.contains("No such file or directory"), "{said}");
}

#[test]
fn a_demo_without_plugins_is_wrong_usage_that_says_where_they_were_looked_for() {
    let rind = Rind::default();
    for args in [&["demo"][..], &["demo", "--all"]] {
        let ran = rind.run(args).exits(2);
        let said = "no core plugin runs, so there is nothing to show; they were looked for in [RIND_HOME]/managed";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[test]
fn a_run_without_plugins_does_not_speak_of_the_audit_log() {
    let rind = Rind::with_script(ANSWER);
    rind.managed("audit-log");
    let ran = rind.run(&["run", "hello", "--no-plugins"]).exits(0);
    assert!(!ran.stderr.contains("audit-log"), "{}", ran.stderr);
    rind.run(&["session", "audit", "--verify"]).exits(0);
}
