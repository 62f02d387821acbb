//! Updates that request more permissions than the installed version.

use std::fs;

use rind_tests::cli::Rind;

use super::install::{hello, installed, plugin};

/// Makes version 0.2.0, which requests more permissions than 0.1.0.
fn widen(rind: &Rind) {
    let folder = hello(rind, "src", "0.2.0", "");
    let path = folder.join("plugin.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text
        .lines()
        .filter(|line| !line.starts_with("side_effects"));
    let text: Vec<&str> = text.collect();
    let text = text.join("\n");
    let (head, rest) = text.split_once("\n[").unwrap_or((&text, ""));
    let rest = if rest.is_empty() {
        String::new()
    } else {
        format!("\n[{rest}")
    };
    let asked = "side_effects = [\"session\", \"network\"]\n[network]\nhosts = [\"example.com\"]\n";
    fs::write(path, format!("{head}\n{asked}{rest}")).unwrap();
}

/// A machine on which 0.1.0 is installed, and its source now holds 0.2.0, which requests more
/// permissions.
fn wider() -> Rind {
    let rind = Rind::default();
    plugin(&rind, "install", &hello(&rind, "src", "0.1.0", "")).exits(0);
    widen(&rind);
    rind
}

fn version(rind: &Rind) -> String {
    let text = fs::read_to_string(rind.user_plugins().join("hello/plugin.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&text).unwrap();
    manifest["version"].as_str().unwrap().to_owned()
}

#[test]
fn without_a_terminal_the_difference_is_shown_and_the_plugin_stays_as_it_is() {
    let rind = wider();
    let ran = rind.run(&["plugin", "update"]).exits(1);
    for said in [
        "hello stays at 0.1.0, because version 0.2.0 requests more permissions",
        "(session)",
        "(network:example.com)",
        "add --grant hello",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    assert_eq!(version(&rind), "0.1.0");
    assert_eq!(installed(&rind), ["hello"]);
    // There is no flag that says yes to everything.
    rind.run(&["plugin", "update", "--yes"]).exits(2);
}

#[test]
fn a_flag_accepts_what_it_names() {
    let rind = wider();
    let with = |flag: &str| rind.run(&["plugin", "update", "hello", "--grant", flag]);
    let ran = with("hello=session").exits(1);
    assert!(!ran.stderr.contains("(session)"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("(network:example.com)"),
        "{}",
        ran.stderr
    );
    with("other").exits(1);
    assert_eq!(version(&rind), "0.1.0");
    let ran = with("hello").exits(0);
    assert_eq!(version(&rind), "0.2.0");
    // Accepting the update does not grant its permissions.
    assert!(
        ran.stderr.contains("the plugin runs once you have granted"),
        "{}",
        ran.stderr
    );
    let ran = rind.run(&["run", "hello"]);
    assert!(ran.stderr.contains("needs permissions"), "{}", ran.stderr);
}

#[test]
fn at_a_terminal_it_is_asked_and_no_changes_nothing() {
    let rind = wider();
    for (typed, expected) in [("\nn\n", "0.1.0"), ("n\n", "0.1.0"), ("y\n", "0.2.0")] {
        let screen = if expected == "0.2.0" {
            rind.at_terminal(&["plugin", "update"], typed)
        } else {
            let steps = typed
                .split_inclusive('\n')
                .map(|line| rind_tests::cli::Step {
                    once: "[n]o",
                    meanwhile: Box::new(|| {}),
                    typed: line,
                });
            rind.at_terminal_then(&["plugin", "update"], "true", steps.collect())
        };
        let Some(screen) = screen else {
            return;
        };
        for said in [
            "asks for more in version",
            "it may then also:",
            "network:example.com",
        ] {
            assert!(screen.contains(said), "{said}: {screen}");
        }
        assert_eq!(version(&rind), expected, "{typed:?}: {screen}");
    }
}

#[test]
fn a_source_that_is_swapped_while_somebody_answers_changes_nothing() {
    let rind = wider();
    let swap = || {
        let manifest = rind.workspace().join("src/hello/plugin.toml");
        fs::write(manifest, "name = \"other\"").unwrap();
    };
    let Some(screen) = rind.at_terminal_once(&["plugin", "update"], "[n]o", swap, "y\n") else {
        return;
    };
    assert_eq!(version(&rind), "0.2.0", "{screen}");
}

#[test]
fn an_update_that_no_longer_lowers_its_trust_asks_for_more() {
    let rind = Rind::default();
    plugin(
        &rind,
        "install",
        &hello(&rind, "src", "0.1.0", "trust = \"local\""),
    )
    .exits(0);
    hello(&rind, "src", "0.2.0", "");
    let ran = rind.run(&["plugin", "update"]).exits(1);
    assert!(
        ran.stderr
            .contains("the manifest of the earlier version lowered it to local"),
        "{}",
        ran.stderr
    );
    rind.run(&["plugin", "update", "--grant", "hello=session"])
        .exits(1);
    rind.run(&["plugin", "update", "--grant", "hello"]).exits(0);
}

#[test]
fn what_somebody_wrote_into_the_installed_manifest_does_not_count_as_granted() {
    let rind = wider();
    // The installed manifest was edited to request all that the update requests. Nobody approved
    // those requests.
    let source = rind.workspace().join("src/hello/plugin.toml");
    let place = rind.user_plugins().join("hello/plugin.toml");
    let text = fs::read_to_string(source).unwrap();
    fs::write(place, text.replace("0.2.0", "0.1.0")).unwrap();
    let ran = rind.run(&["plugin", "update"]).exits(1);
    for said in ["stays at an unreadable version", "(network:example.com)"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
}
