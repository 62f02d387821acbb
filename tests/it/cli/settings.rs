//! The operator's settings for hooks: order, failure action, and settings without effect.

use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::Value;

const SCRIPT: &str = "[[reply]]\ntext = \"the draft\"\n";

/// A machine with the guest installed under each of these names, and with these settings.
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
    assert!(!ran.stderr.contains("has no effect"), "{}", ran.stderr);
    assert_eq!(order(&rind, "turn-start"), ["cow", "ant", "bee"]);
    // A hook's priority overrides the plugin's, and the setting may use any name of the point.
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
    // A failing gate refuses the call unless the settings say `skip`.
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
                    [plugins.guard.hooks.pre-tol]\non_failure = \"block\"\n";
    let ran = rind(&["guard"], settings).run(&["run", "hello there"]);
    let ran = ran.exits(3);
    for line in [
        "plugin gaurd cannot run: there is no such plugin",
        "config/config.toml:1 configures it",
        "config.toml:5: [plugins.guard.hooks.pre-tol]: this setting has no effect: the plugin has no hook at this point",
    ] {
        assert!(ran.stderr.contains(line), "{line}\n{}", ran.stderr);
    }

    let flag = rind(&["guard"], "").run(&["run", "hello", "--set", "plugins.gaurd.priority=3"]);
    let expected = "it is required, because --set plugins.gaurd.priority=3 configures it";
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
        (
            "[plugins.guard]\ntimeout_seconds = 0\n",
            "config.toml:2: in [plugins]: 0 is out of range; write a number from 1 to 86400",
        ),
        (
            "[agent]\n\nmax_steps = 0\n",
            "config.toml:3: in [agent]: 0 is out of range; write a number from 1 to 100000",
        ),
        (
            "[archival]\n\nenabled = true\n",
            "config.toml:3: archival.enabled requires subagents.enabled",
        ),
        (
            "[agent.reflect]\nenable = true\n",
            "config.toml:2: in [agent]: unknown field `enable`",
        ),
    ];
    for (settings, expected) in table {
        let ran = rind(&["guard"], settings).run(&["run", "hello there"]);
        let ran = ran.exits(2);
        assert!(ran.stderr.contains(expected), "{expected}\n{}", ran.stderr);
    }
}

#[test]
fn settings_of_plugins_that_mean_nothing_are_named_when_they_are_json_too() {
    let rind = rind(&["guard"], "");
    let file = rind.home().join("config/config.json");
    let text = "{\"plugins\": {\n  \"gaurd\": {\"on_failure\": \"block\"}\n}}";
    std::fs::write(file, text).unwrap();
    let ran = rind.run(&["run", "hello there"]).exits(3);
    let expected = "config.json:2 configures it";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn settings_that_do_not_fit_a_plugin_are_named_with_their_line() {
    let rind = Rind::default();
    for name in ["loop-detection", "cost-tracker", "hello", "injection-guard"] {
        rind.managed(name);
    }
    rind.config(
        "[plugins.loop-detection.config]\n\nedit = 3\n[plugins.cost-tracker.config]\nbudget_usd = { turn = \"1\" }\n\
         [plugins.hello.config]\nx = 1\n",
    );
    let mode = "plugins.injection-guard.config.mode=blok";
    let ran = rind.run(&["run", "hello there", "--set", mode]).exits(3);
    for line in [
        "`edit`: `edit` is not a known key; the keys are block_after, edits, repeats, scope, tools; see [RIND_HOME]/config/config.toml:3",
        "`budget_usd.turn`: \"1\" is not of type \"number\"; see [RIND_HOME]/config/config.toml:5",
        "the plugin takes no settings; see [RIND_HOME]/config/config.toml:6",
        "`mode`: \"blok\" is not one of \"warn\" or \"block\"; see --set plugins.injection-guard.config.mode=blok",
    ] {
        assert!(ran.stderr.contains(line), "{line}\n{}", ran.stderr);
    }
    let sessions = rind.run(&["session", "list"]).exits(0);
    assert_eq!(sessions.stdout, "");
}

#[test]
fn settings_that_do_not_fit_do_not_switch_the_audit_log_off() {
    let rind = Rind::default();
    rind.managed("audit-log");
    rind.config("[plugins.audit-log.config]\nx = 1\n");
    let ran = rind.run(&["run", "hello there"]).exits(0);
    let told = "plugin audit-log runs without its settings: ";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    rind.run(&["session", "audit", "--verify"]).exits(0);
}

#[test]
fn settings_that_are_wrong_leave_no_session_behind() {
    let rind = rind(&[], "[agent]\nmax_stepps = 3\n");
    rind.run(&["run", "hello there"]).exits(2);
    assert_eq!(rind.run(&["session", "list"]).stdout, "");
}
