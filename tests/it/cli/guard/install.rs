//! Tests of adding hooks to the settings files of other agents, and of removing them again.

use serde_json::Value;

use super::Guarded;

const SETTINGS: &str = r#"{
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "mine.sh" }] }
    ]
  }
}
"#;

#[test]
fn hooks_are_added_once_and_exactly_they_are_removed() {
    let own = Guarded::new();
    own.put(".claude/settings.json", SETTINGS);
    let refused = own.rind.run(&["guard", "install", "claude-code"]).exits(2);
    assert!(refused.stderr.contains("add --yes"), "{refused:?}");
    assert_eq!(own.user_text(".claude/settings.json"), SETTINGS);
    let ran = own
        .rind
        .run(&["guard", "install", "claude-code", "--yes"])
        .exits(0);
    assert!(
        ran.stdout.contains("+ ") && ran.stdout.contains("claude-code pre-tool"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("a copy of the old"), "{ran:?}");
    let text = own.user_text(".claude/settings.json");
    let settings: Value = serde_json::from_str(&text).unwrap();
    let before = settings["hooks"]["PreToolUse"].as_array().unwrap();
    assert_eq!(before[0]["hooks"][0]["command"], "mine.sh");
    assert_eq!(before[1]["hooks"][0]["onFailure"], "block");
    assert_eq!(settings["model"], "opus");
    let again = own
        .rind
        .run(&["guard", "install", "claude-code", "--yes"])
        .exits(0);
    assert!(again.stderr.contains("already installed"), "{again:?}");
    assert_eq!(own.user_text(".claude/settings.json"), text);
    own.rind
        .run(&["guard", "remove", "claude-code", "--yes"])
        .exits(0);
    let left: Value = serde_json::from_str(&own.user_text(".claude/settings.json")).unwrap();
    assert_eq!(left, serde_json::from_str::<Value>(SETTINGS).unwrap());
    let none = own
        .rind
        .run(&["guard", "remove", "claude-code", "--yes"])
        .exits(0);
    assert!(none.stderr.contains("no guard"), "{none:?}");
}

#[test]
fn codex_trusts_the_hooks_and_keeps_its_settings() {
    let config = "# mine\nmodel = \"x\" # this one\n";
    let own = Guarded::new();
    own.put(".codex/config.toml", config);
    own.rind
        .run(&["guard", "install", "codex", "--yes"])
        .exits(0);
    let trusted = own.user_text(".codex/config.toml");
    assert!(
        trusted.starts_with(config) && trusted.contains("trusted_hash"),
        "{trusted}"
    );
    let status = own.rind.run(&["guard", "status", "codex"]).exits(0);
    assert!(status.stdout.contains("✓ codex: installed"), "{status:?}");
    // The guard turns terminals off, because no hook sees input that is typed into a running
    // terminal.
    assert!(trusted.contains("unified_exec_tty = false"), "{trusted}");
    own.put(
        ".codex/config.toml",
        &trusted.replace("unified_exec_tty = false", "unified_exec_tty = true"),
    );
    let status = own.rind.run(&["guard", "status", "codex"]).exits(1);
    assert!(status.stdout.contains("may have a terminal"), "{status:?}");
    own.put(".codex/config.toml", config);
    let status = own.rind.run(&["guard", "status", "codex"]).exits(1);
    assert!(
        status.stdout.contains("does not trust its hooks"),
        "{status:?}"
    );
    own.rind
        .run(&["guard", "install", "codex", "--yes"])
        .exits(0);
    assert_eq!(own.user_text(".codex/config.toml"), trusted);
    own.rind
        .run(&["guard", "remove", "codex", "--yes"])
        .exits(0);
    assert_eq!(own.user_text(".codex/config.toml"), config);
    assert!(!own.user_file(".codex/hooks.json").exists());
}

#[test]
fn modules_of_others_are_not_written_over() {
    let own = Guarded::new();
    for (agent, file) in [
        ("opencode", ".config/opencode/plugins/rind-guard.js"),
        ("pi", ".pi/agent/extensions/rind-guard.ts"),
    ] {
        own.put(file, "// mine\n");
        let refused = own.rind.run(&["guard", "install", agent, "--yes"]).exits(1);
        assert!(
            refused.stderr.contains("nothing is written over"),
            "{refused:?}"
        );
        let kept = own.rind.run(&["guard", "remove", agent, "--yes"]).exits(1);
        assert!(kept.stderr.contains("nothing is written over"), "{kept:?}");
        assert_eq!(own.user_text(file), "// mine\n");
        std::fs::remove_file(own.user_file(file)).unwrap();
        own.rind.run(&["guard", "install", agent, "--yes"]).exits(0);
        assert!(own.user_text(file).contains("node:child_process"));
        own.rind.run(&["guard", "remove", agent, "--yes"]).exits(0);
        assert!(!own.user_file(file).exists());
    }
}

#[test]
fn the_plugin_of_goose_comes_and_goes() {
    let own = Guarded::of("goose");
    let hooks: Value =
        serde_json::from_str(&own.user_text(".agents/plugins/rind-guard/hooks/hooks.json"))
            .unwrap();
    let hook = &hooks["hooks"]["PreToolUse"][0]["hooks"][0];
    assert_eq!(hook["on_failure"], "block");
    assert!(
        own.user_text(".agents/plugins/rind-guard/plugin.json")
            .contains("rind-guard")
    );
    own.rind
        .run(&["guard", "remove", "goose", "--yes"])
        .exits(0);
    assert!(!own.user_file(".agents/plugins/rind-guard").exists());
    assert!(own.user_file(".agents/plugins").exists());
}

#[test]
fn a_project_has_a_guard_of_its_own() {
    let own = Guarded::new();
    own.rind
        .run(&["guard", "install", "claude-code", "--project", "--yes"])
        .exits(0);
    let file = own.rind.workspace().join(".claude/settings.local.json");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("claude-code pre-tool")
    );
    assert!(!own.user_file(".claude/settings.json").exists());
    let status = own.rind.run(&["guard", "status", "claude-code"]).exits(0);
    assert!(status.stdout.contains("not installed"), "{status:?}");
    own.rind
        .run(&["guard", "status", "claude-code", "--project"])
        .exits(0);
}

#[test]
fn status_says_what_is_inert_and_when_the_agent_goes_on_without_the_guard() {
    let own = Guarded::of("codex");
    own.rind.managed("injection-guard");
    let status = own.rind.run(&["guard", "status", "codex"]).exits(0).stdout;
    for part in [
        "pre-tool    block, change arguments, notes PreToolUse",
        "Codex runs the call when a hook crashes",
        "`|| exit 2`",
        "skipped silently",
        "sentry judges at",
        "inert: ",
        "pre-reason",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let inspected = own
        .rind
        .run(&["plugin", "inspect", "injection-guard"])
        .exits(0)
        .stdout;
    assert!(
        inspected.contains("codex: inert: pre-reason"),
        "{inspected}"
    );
}

#[test]
fn a_trial_runs_the_hook_as_the_agent_does() {
    let own = Guarded::of("codex");
    let open = own.rind.run(&["guard", "test", "codex"]).exits(1);
    assert!(
        open.stdout
            .contains("✗ `git push --force origin main` let through"),
        "{open:?}"
    );
    assert!(
        open.stderr.contains("no plugin of yours refuses this call"),
        "{open:?}"
    );
    assert!(open.stdout.contains("✓ `ls` let through"), "{open:?}");
    assert!(
        open.stdout
            .contains("✓ `ls, with no daemon to ask` refused"),
        "{open:?}"
    );
    own.rind
        .config("[tools]\nrules = [{ command = \"git push *\", decision = \"deny\" }]\n");
    for agent in ["claude-code", "opencode", "goose", "pi"] {
        own.rind.run(&["guard", "install", agent, "--yes"]).exits(0);
        let ran = own.rind.run(&["guard", "test", agent]).exits(0);
        assert!(ran.stdout.contains("denied by"), "{agent}: {ran:?}");
    }
    own.rind
        .run(&["guard", "remove", "codex", "--yes"])
        .exits(0);
    own.rind.run(&["guard", "test", "codex"]).exits(2);
}

#[test]
fn hooks_of_another_program_are_replaced() {
    let own = Guarded::of("claude-code");
    let text = own.user_text(".claude/settings.json");
    let old = text.replace("/rind-guard-hook'", "/old/rind-guard-hook'");
    own.put(".claude/settings.json", &old);
    let status = own.rind.run(&["guard", "status", "claude-code"]).exits(1);
    assert!(status.stdout.contains("for another program"), "{status:?}");
    own.rind
        .run(&["guard", "install", "claude-code", "--yes"])
        .exits(0);
    assert!(!own.user_text(".claude/settings.json").contains("/old/rind"));
}

#[test]
fn files_that_are_no_json_and_links_to_nothing_stay_as_they_are() {
    let own = Guarded::new();
    own.put(".claude/settings.json", "{ \"hooks\": [");
    let refused = own
        .rind
        .run(&["guard", "install", "claude-code", "--yes"])
        .exits(1);
    assert!(refused.stderr.contains("settings.json"), "{refused:?}");
    assert_eq!(own.user_text(".claude/settings.json"), "{ \"hooks\": [");
    let file = own.user_file(".codex/hooks.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", &file).unwrap();
    let refused = own
        .rind
        .run(&["guard", "install", "codex", "--yes"])
        .exits(1);
    assert!(
        refused
            .stderr
            .contains("is dangling: its target does not exist"),
        "{refused:?}"
    );
}

#[test]
fn a_guard_that_no_longer_sees_every_call_is_told() {
    let own = Guarded::of("claude-code");
    let text = own.user_text(".claude/settings.json");
    let narrowed = text.replacen(
        "\"hooks\": [\n",
        "\"matcher\": \"Bash\",\n\"hooks\": [\n",
        1,
    );
    assert_ne!(narrowed, text);
    own.put(".claude/settings.json", &narrowed);
    own.rind.run(&["guard", "status", "claude-code"]).exits(1);
    own.rind
        .run(&["guard", "install", "codex", "--yes"])
        .exits(0);
    let config = own.user_text(".codex/config.toml");
    own.put(
        ".codex/config.toml",
        &config.replacen("trusted_hash", "enabled = false\ntrusted_hash", 1),
    );
    own.rind.run(&["guard", "status", "codex"]).exits(1);
    own.rind
        .run(&["guard", "install", "goose", "--yes"])
        .exits(0);
    std::fs::remove_file(own.user_file(".agents/plugins/rind-guard/plugin.json")).unwrap();
    own.rind.run(&["guard", "status", "goose"]).exits(1);
    own.rind
        .run(&["guard", "install", "goose", "--yes"])
        .exits(0);
    own.rind.run(&["guard", "status", "goose"]).exits(0);
}
