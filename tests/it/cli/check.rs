//! Tests of `rind plugin check`: each fault of a plugin is reported once, with its position.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::Value;

/// Creates a plugin in the folder `wrong` of the workspace: the component of a guest, a manifest
/// that `manifest` may change, and the README of the guest or a default one.
fn put(rind: &Rind, name: &str, guest: &str, manifest: impl FnOnce(String) -> String) -> PathBuf {
    let root = rind.workspace().join("wrong");
    let renamed = |text: String| {
        let own = text.lines().next().unwrap().to_owned();
        manifest(text.replacen(&own, &format!("name = \"{name}\""), 1))
    };
    let folder = guests::put(guest, &root, renamed);
    let readme = guests::guest(guest).join("README.md");
    let text = std::fs::read_to_string(readme)
        .unwrap_or_else(|_| "# A guest\n\nReads and writes.\n".to_owned());
    std::fs::write(folder.join("README.md"), text).unwrap();
    folder
}

/// Returns the component with its interfaces renamed to a version of the contract that does not
/// exist.
fn renumbered(component: &[u8]) -> Vec<u8> {
    let mut bytes = component.to_vec();
    let starts = |at: &usize| component[*at..].starts_with(b"rind:plugin/");
    for at in (0..bytes.len()).filter(starts) {
        let end = at + bytes[at..].iter().position(|byte| *byte == b'@').unwrap();
        assert_eq!(&bytes[end..end + 6], b"@0.1.1");
        bytes[end..end + 6].copy_from_slice(b"@0.9.0");
    }
    bytes
}

fn twelve() -> Rind {
    let rind = Rind::default();
    put(&rind, "greedy", "hello", |m| {
        m.replace("[\"none\"]", "[\"network\"]") + "\n[network]\nhosts = [\"api.github.com\"]\n"
    });
    put(&rind, "modest", "cost-tracker", |m| {
        m.replace("[\"session\"]", "[\"none\"]")
    });
    put(&rind, "unasked", "summarization", |m| {
        m.replace("model = true\n", "agents = false\n")
            .replace("timeout = \"60s\"\n", "")
    });
    put(&rind, "ghost", "hello", |m| {
        m + "\n[hooks.pre-tool]\npriority = 5\n"
    });
    put(&rind, "misspelt", "hello", |m| m + "priorty = 5\n");
    put(&rind, "slow", "loop-detection", |m| {
        m.replace("priority = 12", "priority = 12\ntimeout = \"20s\"")
    });
    put(&rind, "unfit", "loop-detection", |m| {
        m.replace("default = 5", "default = 0")
    });
    put(&rind, "deaf", "hello", |m| {
        m + "\n[config.properties.language]\ntype = \"string\"\ndescription = \"Language of the greeting.\"\n"
    });
    let drifted = put(&rind, "drifted", "hello", |m| m);
    std::fs::write(
        drifted.join("Cargo.toml"),
        "[package]\nname = \"drifted\"\nversion = \"0.2.0\"\n",
    )
    .unwrap();
    let silent = put(&rind, "silent", "loop-detection", |m| m);
    std::fs::write(
        silent.join("README.md"),
        "# silent\n\nKnows `edits`, `repeats`, `scope` and `tools`.\n",
    )
    .unwrap();
    let ahead = put(&rind, "ahead", "hello", |m| m).join("hello.wasm");
    std::fs::write(&ahead, renumbered(&std::fs::read(&ahead).unwrap())).unwrap();
    put(&rind, "twice", "audit-log", |m| {
        m.replace("[filesystem]", "[filesystem]\nread = [\"data\"]")
    });
    rind
}

fn manifest(rind: &Rind, name: &str) -> String {
    std::fs::read_to_string(
        rind.workspace()
            .join("wrong")
            .join(name)
            .join("plugin.toml"),
    )
    .unwrap()
}

#[test]
fn each_of_twelve_subtly_wrong_plugins_has_its_fault_named_once_at_its_place() {
    assert_snapshot!(twelve().run(&["plugin", "check", "wrong"]).screen(), @r#"
    exit 1
    ---- stdout
    wrong/ahead/hello.wasm: the component imports `rind:plugin/types@0.9.0`, which needs version 0.9.0 of the plugin contract; this host supports 0.1.1, 0.2.0: update Rind, or build the plugin with an SDK for a supported version [contract]
    wrong/deaf/plugin.toml:9: declares settings, but the component does not import `config`, so they change nothing: remove them [settings]
    wrong/drifted/hello.wasm: its sources have changed since it was built: build it again with `rind plugin build wrong/drifted` [component]
    wrong/drifted/plugin.toml:2: `version` is 0.1.0 here and 0.2.0 in Cargo.toml [version]
    wrong/ghost/plugin.toml:9: the manifest has options for a hook on `pre-tool`, which the component does not export: write the hook, or remove the section [missing-export]
    wrong/greedy/plugin.toml:5: asks for `network`, but the component imports neither `http` nor `wasi:http`: remove `network` [unused-permission]
    wrong/misspelt/plugin.toml:8: unknown field `priorty`, expected one of `priority`, `on_failure`, `async`, `timeout`, `may`, `only_with`, `only_tools`, `only_final`, `only_over`; did you mean `priority`? [manifest]
    wrong/modest/plugin.toml:5: the component exports `rind:plugin/pre-reason@0.1.1`, a mutate point, which needs `side_effects = ["session"]` in plugin.toml [missing-permission]
    wrong/silent/plugin.toml:27: README.md does not explain the setting `block_after` [readme]
    wrong/slow/plugin.toml:9: `timeout` is above the maximum of [T] for a hook of this plugin, which is used instead [limits]
    wrong/twice/plugin.toml:8: `data` is redundant, because `write` has `data`, which includes reading: remove it here [unused-permission]
    wrong/unasked/plugin.toml:11: the component imports `rind:plugin/model@0.1.1`, which needs `model = true` under `[external]` in plugin.toml [missing-permission]
    wrong/unfit/plugin.toml:18: the default of `edits` does not match its schema: 0 is less than the minimum of 1 [schema]
    ---- stderr
    ✗ 12 plugins checked, 13 faults; `--fix` corrects 4
    "#);
}

#[test]
fn commands_that_nobody_can_call_or_understand_are_faults() {
    let rind = Rind::default();
    put(&rind, "helper", "starter", |m| m);
    assert_snapshot!(rind.run(&["plugin", "check", "wrong/helper"]).screen(), @r"
    exit 1
    ---- stdout
    wrong/helper/README.md:1: does not mention the command `/answer` [readme]
    wrong/helper/README.md:1: does not mention the command `/help` [readme]
    wrong/helper/guest_starter.wasm: the command `/help` has the name of a built-in command, which is called instead: rename it; it is called as `/helper:help` until then [commands]
    wrong/helper/guest_starter.wasm: the description of the command `/help` does not tell a person what it does: `Helps.` [description]
    wrong/helper/guest_starter.wasm: the argument `topic` of the command `/help` has no description [description]
    ---- stderr
    ✗ 1 plugin checked, 5 faults
    ");
}

#[test]
fn a_readme_that_does_not_speak_of_the_loop_is_a_fault() {
    let rind = Rind::default();
    put(&rind, "heart", "looper", |m| m);
    let stdout = rind
        .run(&["plugin", "check", "wrong/heart"])
        .exits(1)
        .stdout;
    let fault = "wrong/heart/README.md:1: does not say what the loop does: what it waits for, and how often it runs [readme]";
    assert!(stdout.contains(fault), "{stdout}");
}

#[test]
fn the_first_party_plugins_have_no_faults() {
    let rind = Rind::default();
    let root = guests::guest("hello").parent().unwrap();
    let checked = rind.run(&["plugin", "check", root.to_str().unwrap()]);
    // The two findings are intended: the person chooses which hosts these plugins reach.
    assert_snapshot!(checked.screen().replace(root.to_str().unwrap(), "[PLUGINS]"), @r#"
    exit 1
    ---- stdout
    [PLUGINS]/dvm/plugin.toml:14: requests every host: list the hosts that it uses, or allow this rule if the person chooses the hosts [broad-permission]
    [PLUGINS]/web/plugin.toml:8: requests every host: list the hosts that it uses, or allow this rule if the person chooses the hosts [broad-permission]
    ---- stderr
    ✗ 25 plugins checked, 2 faults
    "#);
}

#[test]
fn json_has_the_rule_the_line_and_whether_it_can_be_fixed() {
    let rind = Rind::default();
    put(&rind, "ghost", "hello", |m| {
        m + "\n[hooks.pre-tool]\npriority = 5\n"
    });
    let ran = rind.run(&["plugin", "check", "wrong", "--json"]).exits(1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&report["plugins"][0]["faults"]).unwrap(), @r#"
    [
      {
        "rule": "missing-export",
        "path": "wrong/ghost/plugin.toml",
        "line": 9,
        "message": "the manifest has options for a hook on `pre-tool`, which the component does not export: write the hook, or remove the section",
        "is_refused": true,
        "is_fixable": false
      }
    ]
    "#);
}

#[test]
fn what_asks_for_less_is_fixed_and_the_rest_of_the_manifest_stays() {
    let rind = twelve();
    let untouched = manifest(&rind, "modest");
    let ran = rind.run(&["plugin", "check", "wrong", "--fix"]).exits(1);
    assert_snapshot!(ran.stderr, @r#"
    fixed wrong/deaf/plugin.toml:9: declares settings, but the component does not import `config`, so they change nothing: remove them [settings]
    fixed wrong/greedy/plugin.toml:5: asks for `network`, but the component imports neither `http` nor `wasi:http`: remove `network` [unused-permission]
    fixed wrong/slow/plugin.toml:9: `timeout` is above the maximum of 5 s for a hook of this plugin, which is used instead [limits]
    fixed wrong/twice/plugin.toml:8: `data` is redundant, because `write` has `data`, which includes reading: remove it here [unused-permission]
    ✗ 12 plugins checked, 9 faults
    "#);
    assert_snapshot!(manifest(&rind, "greedy"), @r#"
    name = "greedy"
    version = "0.1.0"
    description = "Greets people: the smallest plugin with a tool and a hook."
    component = "hello.wasm"
    side_effects = ["none"]

    [hooks.turn-end]
    "#);
    assert!(manifest(&rind, "slow").contains("priority = 12\ntimeout = \"5s\"\n"));
    assert!(!manifest(&rind, "deaf").contains("config"));
    assert!(!manifest(&rind, "twice").contains("read ="));
    assert_eq!(
        manifest(&rind, "modest"),
        untouched,
        "more permissions are never added"
    );
    let folders = ["greedy", "slow", "deaf", "twice"].map(|name| format!("wrong/{name}"));
    let mut args = vec!["plugin", "check"];
    args.extend(folders.iter().map(String::as_str));
    rind.run(&args).exits(0);
}

#[test]
fn a_secret_in_a_manifest_is_named_by_its_kind_only() {
    let rind = Rind::default();
    let token = format!("ghp_{}", "1aB2cD3eF4gH5iJ6kL7mN8oP9qR0sT1uV2wX");
    put(&rind, "leaked", "hello", |m| format!("# {token}\n{m}"));
    let screen = rind
        .run(&["plugin", "check", "wrong/leaked"])
        .exits(1)
        .stdout;
    assert!(
        screen.contains("plugin.toml:1: this looks like a secret"),
        "{screen}"
    );
    assert!(!screen.contains(&token));
}

#[test]
fn an_allowed_rule_is_not_reported_and_an_unknown_one_is_refused() {
    let rind = Rind::default();
    let folder = put(&rind, "bare", "hello", |m| m);
    std::fs::remove_file(folder.join("README.md")).unwrap();
    let path = Path::new("wrong/bare").to_str().unwrap();
    rind.run(&["plugin", "check", path]).exits(1);
    rind.run(&["plugin", "check", path, "--allow", "readme"])
        .exits(0);
    let refused = rind
        .run(&["plugin", "check", path, "--allow", "redme"])
        .exits(2);
    assert!(
        refused
            .stderr
            .contains("there is no such rule; the rules are manifest, component")
    );
    rind.run(&["plugin", "check", "."]).exits(2);
}
