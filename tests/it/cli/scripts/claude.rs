//! Hooks of Claude Code as its documentation shows them, read from Claude Code's own settings.

#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rind_tests::cli::{Ran, Rind};
use serde_json::Value;

use super::results;

/// A model that writes and edits two files and runs two commands.
const WORK: &str = r#"
[[reply]]
tool_calls = [
    { name = "write_file", arguments = { path = "notes.md", content = "one  \ntwo\n" } },
    { name = "write_file", arguments = { path = "sub/.env", content = "KEY=1" } },
    { name = "bash", arguments = { command = "rm -rf build" } },
    { name = "bash", arguments = { command = "echo fine" } },
    { name = "read_file", arguments = { path = "notes.md" } },
]
[[reply]]
text = "Done."
[[reply]]
text = "Done, and tested."
"#;

/// Hooks from Claude Code's documentation: protect files, check commands, format after an edit,
/// notify, add context, do not stop before the tests ran.
const SETTINGS: &str = r#"{
  "model": "whatever",
  "hooks": {
    "PreToolUse": [
      { "matcher": "Edit|Write",
        "hooks": [{ "type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/protect-files.sh" }] },
      { "matcher": "Bash",
        "hooks": [{ "type": "command", "command": "~/.claude/hooks/block-rm.sh", "timeout": 30 }] }
    ],
    "PostToolUse": [
      { "matcher": "Edit|MultiEdit|Write",
        "hooks": [{ "type": "command",
          "command": "jq -r '.tool_input.file_path' | { read file_path; if echo \"$file_path\" | grep -q '\\.md$'; then sed -i 's/ *$//' \"$file_path\"; fi; }" }] }
    ],
    "UserPromptSubmit": [
      { "hooks": [{ "type": "command", "command": "echo \"The date is $(date +%Y)\"" }] }
    ],
    "SessionStart": [
      { "matcher": "startup", "hooks": [{ "type": "command", "command": "echo 'Branch: main'" }] },
      { "matcher": "resume", "hooks": [{ "type": "command", "command": "echo 'never'" }] }
    ],
    "Stop": [
      { "hooks": [{ "type": "command",
          "command": "if [ \"$(jq -r .stop_hook_active)\" = false ]; then echo '{\"decision\": \"block\", \"reason\": \"run the tests\"}'; fi" }] }
    ],
    "Notification": [
      { "matcher": "", "hooks": [{ "type": "command", "command": "jq -r .message >> notified" }] }
    ],
    "WorktreeCreate": [{ "hooks": [{ "type": "command", "command": "true" }] }]
  }
}"#;

const PROTECT: &str = r#"#!/bin/bash
INPUT=$(cat)
FILE_PATH=$(echo "$INPUT" | jq -r '.tool_input.file_path // empty')
for pattern in ".env" "package-lock.json" ".git/"; do
  if [[ "$FILE_PATH" == *"$pattern"* ]]; then
    echo "Blocked: $FILE_PATH matches protected pattern '$pattern'" >&2
    exit 2
  fi
done
exit 0
"#;

const BLOCK_RM: &str = r#"#!/bin/bash
COMMAND=$(jq -r '.tool_input.command')
if echo "$COMMAND" | grep -q 'rm -rf'; then
  jq -n '{ hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny",
    permissionDecisionReason: "Destructive command blocked by hook" } }'
else
  exit 0
fi
"#;

fn has_jq() -> bool {
    let ran = Command::new("jq").arg("--version").output();
    let has = ran.is_ok_and(|ran| ran.status.success());
    if !has {
        eprintln!("skipped: there is no jq");
    }
    has
}

/// Writes the settings and the scripts that they refer to.
fn machine(settings: &str) -> Rind {
    let rind = Rind::with_script(WORK);
    let executable = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    executable(
        rind.workspace().join(".claude/hooks/protect-files.sh"),
        PROTECT,
    );
    executable(rind.user_home().join(".claude/hooks/block-rm.sh"), BLOCK_RM);
    fs::write(rind.user_home().join(".claude/settings.json"), settings).unwrap();
    rind.config("[hooks]\nclaude = [\"~/.claude/settings.json\"]\n");
    rind
}

fn injected(ran: &Ran) -> Vec<String> {
    let events = ran.json_lines();
    let injected = events.iter().filter(|event| event["type"] == "injected");
    injected
        .map(|event| event["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn its_documented_patterns_run_unchanged() {
    if !has_jq() {
        return;
    }
    let rind = machine(SETTINGS);
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    let results = results(&ran);
    let workspace = rind.workspace();
    let blocked = "refused by plugin claude-pre-tool-use-1: Blocked: [WORKSPACE]/sub/.env matches protected pattern '.env'";
    let of = |text: &str| results.iter().any(|result| result.contains(text));
    assert!(of(blocked), "{results:?}");
    assert!(
        of("refused by plugin claude-pre-tool-use-2: Destructive command blocked by hook"),
        "{results:?}"
    );
    assert!(of("fine"), "{results:?}");
    assert!(!workspace.join("sub/.env").exists());
    assert_eq!(
        fs::read_to_string(workspace.join("notes.md")).unwrap(),
        "one\ntwo\n"
    );
    assert_eq!(
        fs::read_to_string(workspace.join("notified")).unwrap(),
        "Rind is waiting for your input\n"
    );
    let injected = injected(&ran);
    assert!(
        injected.iter().any(|text| text == "Branch: main"),
        "{injected:?}"
    );
    assert!(
        injected
            .iter()
            .any(|text| text.starts_with("The date is 20")),
        "{injected:?}"
    );
    assert!(!injected.iter().any(|text| text == "never"));
    // The hook of `Stop` blocked the first answer, so the model answered again.
    let events = ran.json_lines();
    let end = events
        .iter()
        .find(|event| event["type"] == "turn-end")
        .unwrap();
    assert_eq!(end["output"], "Done, and tested.");
    assert!(
        ran.stderr.contains(
            "WorktreeCreate: this event is not supported; the supported events are PreToolUse"
        ),
        "{}",
        ran.stderr
    );
    assert_eq!(
        ran.stderr.matches("not supported").count(),
        1,
        "{}",
        ran.stderr
    );
    let list = rind.run(&["plugin", "list"]).exits(0);
    assert!(
        list.stdout
            .contains("settings.json: PreToolUse[0].hooks[0]: bash -c"),
        "{}",
        list.stdout
    );
}

/// A machine with one `PreToolUse` hook that matches all tools.
fn with_hook(hook: &str) -> Rind {
    machine(&format!(
        r#"{{"hooks": {{"PreToolUse": [{{"matcher": "*", "hooks": [{hook}]}}]}}}}"#
    ))
}

#[test]
fn what_a_hook_says_counts_and_one_that_fails_closes_the_gate() {
    for (command, expected) in [
        (
            "exit 2",
            "refused by plugin claude-pre-tool-use-1: exit code 2",
        ),
        (
            "echo '{\\\"decision\\\": \\\"block\\\", \\\"reason\\\": \\\"not so\\\"}'",
            "not so",
        ),
        (
            "echo '{\\\"continue\\\": false, \\\"stopReason\\\": \\\"enough\\\"}'",
            "enough",
        ),
        (
            "exit 1",
            "the hook failed, so what it checks is refused: the call reported an error: exit code 1",
        ),
        ("/no/such/script", "exit code 127"),
        ("echo '{oops'", "is not JSON"),
        ("kill -9 $$", "the script crashed: ended by signal 9"),
        (
            "echo '{\\\"hookSpecificOutput\\\": {\\\"permissionDecision\\\": \\\"maybe\\\"}}'",
            "`permissionDecision` is `maybe`",
        ),
        (
            "echo '{\\\"decision\\\": \\\"deny\\\"}'",
            "`decision` is `deny`; it must be approve or block",
        ),
        (
            "echo '{\\\"decision\\\": \\\"Block\\\"}'",
            "`decision` is `Block`",
        ),
        (
            "echo '{\\\"continue\\\": \\\"false\\\"}'",
            "`continue` is `false`",
        ),
        (
            "echo '{\\\"hookSpecificOutput\\\": {\\\"permissionDecision\\\": [\\\"deny\\\"]}}'",
            "`permissionDecision` is `[",
        ),
        (
            "echo '{\\\"hookSpecificOutput\\\": \\\"deny\\\"}'",
            "`hookSpecificOutput` is `deny`",
        ),
        (
            "echo '{\\\"hookSpecificOutput\\\": {\\\"updatedInput\\\": \\\"x\\\"}}'",
            "`updatedInput` is `x`",
        ),
        (
            "echo '{\\\"permissionDecision\\\": \\\"deny\\\"}'",
            "`permissionDecision` must be inside `hookSpecificOutput`",
        ),
        (
            "echo '{\\\"hookSpecificOutput\\\": {\\\"hookEventName\\\": \\\"PreToolUse\\\", \\\"decision\\\": \\\"block\\\"}}'",
            "`decision` must not be inside `hookSpecificOutput`",
        ),
        (
            "echo '[{\\\"decision\\\": \\\"block\\\"}]'",
            "may be a reply that cannot be read",
        ),
        (
            "echo checking; echo '{\\\"decision\\\": \\\"block\\\"}'",
            "may be a reply that cannot be read",
        ),
    ] {
        let rind = with_hook(&format!(r#"{{"type": "command", "command": "{command}"}}"#));
        let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
        let results = results(&ran);
        assert!(results[0].contains(expected), "{command}: {results:?}");
        assert!(!rind.workspace().join("notes.md").exists());
    }
    let slow = r#"{"type": "command", "command": "sleep 60", "timeout": 1}"#;
    let ran = with_hook(slow)
        .run(&["run", "go", "--yes", "--json"])
        .exits(0);
    assert!(results(&ran)[0].contains("deadline of 1000 ms"));
}

#[test]
fn nothing_that_a_hook_says_allows_what_the_policy_denies_and_changes_are_mapped_back() {
    let allow = r#"{"type": "command", "command": "echo '{\"hookSpecificOutput\": {\"permissionDecision\": \"allow\"}}'"}"#;
    let ran = with_hook(allow).run(&["run", "go", "--json"]).exits(0);
    assert!(
        results(&ran)[0].contains("needs approval"),
        "{:?}",
        results(&ran)
    );
    let change = r#"{"type": "command", "command": "if grep -q notes.md; then echo '{\"hookSpecificOutput\": {\"updatedInput\": {\"file_path\": \"'$CLAUDE_PROJECT_DIR'/other.md\", \"content\": \"x\"}}}'; fi"}"#;
    let rind = with_hook(change);
    rind.run(&["run", "go", "--yes"]).exits(0);
    assert!(!rind.workspace().join("notes.md").exists());
    assert_eq!(
        fs::read_to_string(rind.workspace().join("other.md")).unwrap(),
        "x"
    );
}

#[test]
fn what_is_not_supported_is_named_once_and_guards_must_be_callable() {
    let settings = r#"{"hooks": {
        "SessionEnd": [{ "hooks": [{ "type": "http", "url": "x" }, { "type": "command", "command": "true", "asyncRewake": true }] }],
        "Setup": [], "PermissionRequest": []
    }}"#;
    let ran = machine(settings).run(&["run", "go", "--yes"]).exits(0);
    for expected in [
        "SessionEnd[0].hooks[0]: hooks of the type `http` are not supported; it is not called",
        "SessionEnd[0].hooks[1]: `asyncRewake` is not supported; the hook is called without it",
        "Setup: this event is not supported",
        "PermissionRequest: this event is not supported",
    ] {
        assert_eq!(ran.stderr.matches(expected).count(), 1, "{}", ran.stderr);
    }
    for (hook, expected) in [
        (
            r#"{"type": "prompt", "prompt": "is it fine?"}"#,
            "hooks of the type `prompt` are not supported, but this hook could refuse actions",
        ),
        (r#"{"type": "command"}"#, "`command` is missing"),
        (
            r#"{"type": "command", "command": "true", "timeout": "5"}"#,
            "`timeout` is no number of seconds",
        ),
        ("5", "it is not an object"),
    ] {
        let ran = with_hook(hook).run(&["run", "go", "--yes"]).exits(2);
        assert!(ran.stderr.contains(expected), "{hook}: {}", ran.stderr);
        assert!(
            ran.stderr
                .contains("settings.json: PreToolUse[0].hooks[0]: "),
            "{hook}: {}",
            ran.stderr
        );
    }
    for (settings, expected) in [
        ("{\"hooks\": 5}", "`hooks` is not an object"),
        ("{\n\n!", "settings.json:3: "),
        (
            r#"{"hooks": {"PreToolUse": [{"matcher": "(?=a)", "hooks": []}]}}"#,
            "the matcher `(?=a)` cannot be used",
        ),
    ] {
        let ran = machine(settings).run(&["run", "go", "--yes"]).exits(2);
        assert!(ran.stderr.contains(expected), "{settings}: {}", ran.stderr);
    }
    let rind = machine("{}");
    fs::remove_file(rind.user_home().join(".claude/settings.json")).unwrap();
    let ran = rind.run(&["run", "go"]).exits(2);
    assert!(
        ran.stderr.contains("config.toml:2: [hooks] claude: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_hooks_of_a_plugin_find_their_folder() {
    let rind = Rind::with_script(WORK);
    let folder = rind.user_home().join("plugin");
    fs::create_dir_all(folder.join("hooks")).unwrap();
    fs::write(folder.join("word"), "from the plugin").unwrap();
    fs::write(
        folder.join("hooks/hooks.json"),
        r#"{"description": "d", "hooks": {"UserPromptSubmit": [{"hooks": [
            {"type": "command", "command": "cd \"$CLAUDE_PLUGIN_ROOT\" && cat word"},
            {"type": "command", "command": "cd \"$CLAUDE_PLUGIN_ROOT\" && cat word"}]}]}}"#,
    )
    .unwrap();
    rind.config("[hooks]\nclaude = [\"~/plugin/hooks/hooks.json\"]\n");
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    // Two identical hooks run once.
    assert_eq!(injected(&ran), ["from the plugin"]);
    let hook =
        |event: &Value| event["type"] == "hook" && event["plugin"] == "claude-user-prompt-submit-1";
    assert!(ran.json_lines().iter().any(hook));
}

#[test]
fn a_policy_that_disables_one_hook_leaves_the_others_of_its_event() {
    let guard = |file: &str| {
        format!(
            r#"{{ "type": "command", "command": "if grep -q '{file}'; then echo {file} >&2; exit 2; fi" }}"#
        )
    };
    let settings = |guards: &[String]| {
        format!(
            r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{}]}}]}}}}"#,
            guards.join(",")
        )
    };
    let rind = machine(&settings(&[guard("notes.md"), guard("rm -rf")]));
    let other = rind.user_home().join(".claude/other.json");
    fs::write(other, settings(&[guard("echo fine")])).unwrap();
    rind.config("[hooks]\nclaude = [\"~/.claude/settings.json\", \"~/.claude/other.json\"]\n");
    rind.user_file(
        "config/policy.toml",
        "[plugins.claude-pre-tool-use-1]\ndisable = true\n",
    );
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    assert_eq!(
        ran.stderr.matches("is not called: ").count(),
        1,
        "{}",
        ran.stderr
    );
    assert!(rind.workspace().join("notes.md").exists());
    let results = results(&ran);
    for refused in [
        "refused by plugin claude-pre-tool-use-2: rm -rf",
        "refused by plugin claude-pre-tool-use-3: echo fine",
    ] {
        assert!(
            results.iter().any(|result| result.starts_with(refused)),
            "{refused}: {results:?}"
        );
    }
}

#[test]
fn tools_of_plugins_have_the_same_name_before_and_after_the_call() {
    let hook = |event: &str| {
        format!(
            r#""{event}": [{{ "matcher": "mcp__hello__.*",
                "hooks": [{{ "type": "command", "command": "echo {event} $(grep -o 'mcp__[a-z_]*') >> seen" }}]}}]"#
        )
    };
    let rind = machine(&format!(
        "{{\"hooks\": {{{}, {}}}}}",
        hook("PreToolUse"),
        hook("PostToolUse")
    ));
    rind.managed("hello").script(
        "[[reply]]\ntool_calls = [{ name = \"greet\", arguments = { name = \"Ada\" } }, \
         { name = \"list_files\", arguments = {} }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    rind.run(&["run", "go", "--yes"]).exits(0);
    assert_eq!(
        fs::read_to_string(rind.workspace().join("seen")).unwrap(),
        "PreToolUse mcp__hello__greet\nPostToolUse mcp__hello__greet\n"
    );
}

#[test]
fn a_hook_with_arguments_runs_with_them_and_one_that_cannot_is_an_error() {
    let guard =
        "#!/bin/sh\nif [ \"$1\" = command ] && grep -q rm; then echo 'not here' >&2; exit 2; fi\n";
    let settings = |args: &str| {
        format!(
            r#"{{"hooks": {{"PreToolUse": [{{"matcher": "Bash", "hooks": [
                {{"type": "command", "command": "sh", "args": {args}}}]}}]}}}}"#
        )
    };
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"rm -f x\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    fs::create_dir_all(rind.user_home().join(".claude")).unwrap();
    let script = rind.user_home().join(".claude/guard.sh");
    fs::write(&script, guard).unwrap();
    rind.config("[hooks]\nclaude = [\"~/.claude/settings.json\"]\n");
    let file = rind.user_home().join(".claude/settings.json");
    fs::write(&file, settings(&format!("[{script:?}, \"command\"]"))).unwrap();
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    let results = results(&ran);
    assert!(results[0].contains("not here"), "{results:?}");
    fs::write(&file, settings("[\"it's\"]")).unwrap();
    let ran = rind.run(&["run", "go", "--yes", "--json"]);
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    assert!(ran.stderr.contains("a word with a quote"), "{}", ran.stderr);
}
