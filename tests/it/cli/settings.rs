//! What an operator sets of plugins' hooks: their order and what their failure does; and names that mean nothing.

use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::Value;

const SCRIPT: &str = "[[reply]]\ntext = \"the draft\"\n";

/// A machine with the guest under these names, and these settings.
fn rind(names: &[&str], settings: &str) -> Rind {
    let rind = Rind::with_script(SCRIPT);
    for name in names {
        guests::put("scripted-hook", &rind.home().join("managed"), |manifest| {
            manifest.replace("name = \"scripted-hook\"", &format!("name = \"{name}\""))
        });
    }
    rind.config(settings);
    rind
}

/// The plugins in the order in which their hooks ran at a point.
fn order(rind: &Rind, point: &str) -> Vec<String> {
    let traces = rind.entries("trace");
    let records = traces.iter().map(|entry| &entry["record"]);
    let plugin = |record: &Value| record["plugin"].as_str().unwrap().to_owned();
    let here = records.filter(|record| record["point"] == point);
    here.map(plugin).collect()
}

#[test]
fn hooks_run_in_the_order_that_the_operator_sets() {
    let rind = rind(
        &["ant", "bee", "cow"],
        "[plugins.cow]\npriority = 1\n[plugins.cow.hooks.pre-output]\npriority = 300\n\
         [plugins.bee.hooks.\"loop.before_send\"]\npriority = 2\n",
    );
    let ran = rind.run(&["run", "hello there"]).exits(0);
    assert!(!ran.stderr.contains("counts for nothing"), "{}", ran.stderr);
    assert_eq!(order(&rind, "turn-start"), ["cow", "ant", "bee"]);
    // The hook's own number goes before the plugin's, by any name of the point.
    assert_eq!(order(&rind, "pre-output"), ["bee", "ant", "cow"]);
}

#[test]
fn what_a_failure_does_is_what_the_operator_says() {
    let fails = "[plugins.guard.config.answers.pre-output]\nfail = \"out of ideas\"\n";
    let block = "[plugins.guard]\non_failure = \"block\"\n";
    let skip = "[plugins.guard.hooks.pre-output]\non_failure = \"skip\"\n";
    for (settings, code) in [
        (fails.to_owned(), 0),
        (format!("{block}{fails}"), 3),
        (format!("{block}{skip}{fails}"), 0),
    ] {
        let ran = rind(&["guard"], &settings).run(&["run", "hello there"]);
        let ran = ran.exits(code);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        let held_back = all.contains("held back by plugin guard");
        assert_eq!(held_back, code == 3, "{settings}\n{all}");
    }
    // A gate refuses unless it is told not to.
    let call =
        "[[reply]]\n[[reply.tool_calls]]\nname = \"read_file\"\narguments = { path = \"a.txt\" }\n";
    let fails = "[plugins.guard.config.answers.pre-tool]\nfail = \"out of ideas\"\n";
    for (settings, is_refused) in [
        (fails.to_owned(), true),
        (
            format!("[plugins.guard]\non_failure = \"skip\"\n{fails}"),
            false,
        ),
    ] {
        let rind = rind(&["guard"], &settings);
        rind.script(&format!("{call}{SCRIPT}"));
        rind.file("a.txt", "alpha");
        rind.run(&["run", "read it"]).exits(0);
        let ends = rind.entries("tool-end");
        let refused = ends[0]["refused_by"] == "plugin guard";
        assert_eq!(refused, is_refused, "{settings}\n{ends:?}");
    }
}

#[test]
fn names_that_mean_nothing_are_said_with_their_line() {
    let settings = "[plugins.gaurd]\non_failure = \"block\"\n\
                    [plugins.guard]\npriority = 3\n\
                    [plugins.guard.hooks.pre-tol]\non_failure = \"block\"\n\
                    [plugins.guard.hooks.turn-end]\non_failure = \"block\"\n";
    let ran = rind(&["guard"], settings).run(&["run", "hello there"]);
    let ran = ran.exits(0);
    for line in [
        "config.toml:1: [plugins.gaurd]: there is no such plugin",
        "config.toml:5: [plugins.guard.hooks.pre-tol]: the plugin has no hook there",
        "config.toml:7: [plugins.guard.hooks.turn-end]: a hook that only looks has nothing to block",
    ] {
        assert!(ran.stderr.contains(line), "{line}\n{}", ran.stderr);
    }

    let flag = rind(&["guard"], "").run(&["run", "hello", "--set", "plugins.gaurd.priority=3"]);
    let expected = "--set plugins.gaurd.priority=3: [plugins.gaurd]: there is no such plugin";
    assert!(flag.stderr.contains(expected), "{}", flag.stderr);
}

#[test]
fn keys_and_values_that_mean_nothing_are_errors_with_their_line() {
    let table = [
        (
            "[plugins.guard]\nprio = 7\n",
            "config.toml:2: in [plugins]: unknown field `prio`",
        ),
        (
            "[plugins.guard]\n\non_failure = \"stop\"\n",
            "config.toml:3: in [plugins]: unknown variant `stop`",
        ),
        (
            "[plugins.guard.hooks.pre-tool]\npriority = 70000\n",
            "config.toml:2: in [plugins]: ",
        ),
    ];
    for (settings, expected) in table {
        let ran = rind(&["guard"], settings).run(&["run", "hello there"]);
        let ran = ran.exits(2);
        assert!(ran.stderr.contains(expected), "{expected}\n{}", ran.stderr);
    }
}
