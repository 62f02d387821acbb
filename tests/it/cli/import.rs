//! Tests of `rind import`, which converts the settings of another agent.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use rind_tests::cli::Rind;

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates a machine with settings of Claude Code in the home folder and in the project.
fn with_claude() -> Rind {
    let rind = Rind::default();
    let home = rind.user_home();
    put(
        &home.join(".claude/settings.json"),
        r#"{
            "permissions": { "allow": ["Bash(npm run test:*)", "WebFetch(domain:x.example)"], "deny": ["Read(.env)"], "defaultMode": "plan" },
            "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "grep -q '\"ls\"' && exit 2 || exit 0" }] }] },
            "statusLine": { "type": "command" }
        }"#,
    );
    put(
        &home.join(".claude.json"),
        r#"{ "numStartups": 3, "mcpServers": { "Docs": { "command": "python3", "args": ["server.py"], "env": { "TOKEN": "ghp_0123456789" } } } }"#,
    );
    put(
        &home.join(".claude/commands/git/fix.md"),
        "---\ndescription: Fixes an issue\nallowed-tools: Bash(git:*)\n---\nFix $ARGUMENTS.\n",
    );
    let project = rind.workspace();
    put(
        &project.join(".claude/settings.json"),
        r#"{ "permissions": { "allow": ["Bash(make:*)"], "deny": ["Bash(git push:*)"] }, "hooks": { "Stop": [{}] } }"#,
    );
    put(
        &project.join(".mcp.json"),
        r#"{ "mcpServers": { "issues": { "type": "http", "url": "https://x.example/mcp", "headers": { "Authorization": "Bearer ${ISSUES}" } } } }"#,
    );
    rind
}

#[test]
fn settings_of_claude_code_are_shown_and_then_taken_over() {
    let rind = with_claude();
    let plan = rind
        .run(&["import", "claude-code", "--project", "--dry-run"])
        .exits(0);
    assert_snapshot!(plan.stdout, @r#"
    read [FOLDER]/user/.claude/settings.json
    read [FOLDER]/user/.claude.json
    read [FOLDER]/user/.claude/commands/git/fix.md
    read [WORKSPACE]/.claude/settings.json
    read [WORKSPACE]/.mcp.json
    rules for tool calls
      Bash(npm run test:*)               { command = "npm run test *", decision = "allow" }
      Read(.env)                         { tool = "read_file", path = "**/.env", decision = "deny" }
      Read(.env)                         { tool = "search", path = "**/.env", decision = "deny" }
      Read(.env)                         { tool = "list_files", path = "**/.env", decision = "deny" }
      Bash(git push:*)                   { command = "git push *", decision = "deny" }
    MCP servers, each asked about before its first use
      docs                               python3 server.py
      issues                             https://x.example/mcp
    slash commands
      git-fix                            [FOLDER]/user/.claude/commands/git/fix.md
    hooks: programs that run at tool calls, as in the other agent
      [FOLDER]/user/.claude/settings.json
    used where it is
      [WORKSPACE]/.claude/settings.json its hooks are asked about when `rind` starts at a terminal there
    not imported, or only in part
      [FOLDER]/user/.claude/settings.json: WebFetch(domain:x.example)
        the program has no such tool; the plugin `web` has `fetch_url` and `web_search`, and policy.toml says which hosts it may reach
      [FOLDER]/user/.claude/settings.json: permissions.defaultMode = "plan"
        the mode is chosen for a run with --mode: ask, accept-edits, plan or full
      [FOLDER]/user/.claude/settings.json: statusLine
        the screen is Rind's own; plugins add a line to it
      [FOLDER]/user/.claude.json: MCP server `Docs`: env TOKEN
        the value is not copied, because it may be a secret: put TOKEN into your environment or secrets.toml
      [FOLDER]/user/.claude/commands/git/fix.md: /git-fix: allowed-tools
        a template has none of these: it runs with the model, tools and rules of the session
      [WORKSPACE]/.claude/settings.json: Bash(make:*)
        the rule allows calls in this project only, but in Rind it would apply to all projects; if you want that, add { command = "make *", decision = "allow" } to `rules` in [tools] of config.toml
    "#);
    assert!(!rind.home().join("config/config.toml").exists());
    let ran = rind.run(&["import", "claude-code", "--project"]).exits(2);
    assert!(
        ran.stderr.contains("no terminal to ask at"),
        "{}",
        ran.stderr
    );

    rind.run(&["import", "claude-code", "--project", "--yes"])
        .exits(0);
    let settings = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    let home = rind.user_home().display().to_string();
    assert_snapshot!(settings.replace(&home, "[HOME]"), @r#"
    [mcp.docs]
    command = "python3"
    args = ["server.py"]
    env = ["TOKEN"]

    [mcp.issues]
    url = "https://x.example/mcp"
    headers = { authorization = "Bearer {ISSUES}" }

    [tools]
    rules = [
        { command = "npm run test *", decision = "allow" },
        { tool = "read_file", path = "**/.env", decision = "deny" },
        { tool = "search", path = "**/.env", decision = "deny" },
        { tool = "list_files", path = "**/.env", decision = "deny" },
        { command = "git push *", decision = "deny" },
    ]

    [hooks]
    claude = [
        "[HOME]/.claude/settings.json",
    ]
    "#);
    let template = fs::read_to_string(rind.home().join("config/prompts/git-fix.md")).unwrap();
    assert_snapshot!(template, @r#"
    ---
    description: "Fixes an issue"
    ---
    Fix {{ arguments }}.
    "#);

    // The imported rules and hook refuse calls, and the imported template is a slash command.
    rind.file(
        "script.toml",
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"git push\" } }]\n[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"ls\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    let args = ["run", "/git-fix seven", "--script", "script.toml", "--json"];
    let events = rind.run(&args).exits(0).stdout;
    assert!(events.contains("Fix seven."), "{events}");
    let session = rind.run(&["session", "show", "last"]).exits(0).stdout;
    assert!(session.contains("git push"), "{session}");
    let refused: Vec<&str> = events.split("\"refused_by\":").skip(1).collect();
    assert_eq!(refused.len(), 2, "{events}");
    assert!(refused[0].contains("rule"), "{events}");
    assert!(
        refused[1].starts_with("\"plugin claude-pre-tool-use-1\""),
        "{events}"
    );

    // A second import finds nothing new.
    let again = rind
        .run(&["import", "claude-code", "--project", "--yes"])
        .exits(0);
    assert!(
        again.stderr.contains("nothing to write"),
        "{}",
        again.stderr
    );
    let same = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    assert_eq!(same, settings);
}

#[test]
fn settings_of_codex_and_opencode_are_taken_over() {
    let rind = Rind::default();
    let home = rind.user_home();
    put(
        &home.join(".codex/config.toml"),
        "model = \"m\"\nsandbox_mode = \"workspace-write\"\n[mcp_servers.docs]\ncommand = \"docs-mcp\"\nenv = { A_TOKEN = \"x\" }\n[mcp_servers.web]\nurl = \"https://w.example/mcp\"\nbearer_token_env_var = \"WEB\"\n",
    );
    put(&home.join(".codex/prompts/plan.md"), "Plan $1\n");
    put(
        &home.join(".codex/rules/default.rules"),
        "prefix_rule(pattern=[\"cargo\", [\"test\", \"check\"]], decision=\"allow\")\nload(\"x\")\n",
    );
    put(
        &home.join(".codex/hooks.json"),
        r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}}"#,
    );
    let ran = rind.run(&["import", "codex", "--yes"]).exits(0);
    for lost in ["hook PreToolUse (Bash): ./check.sh", "line 2: load(\"x\")"] {
        assert!(ran.stdout.contains(lost), "{lost}: {}", ran.stdout);
    }
    put(
        &home.join(".config/opencode/opencode.jsonc"),
        "{ // mine\n \"permission\": { \"bash\": { \"git push *\": \"deny\" }, \"edit\": \"ask\", },\n \"mcp\": { \"notes\": { \"type\": \"local\", \"command\": [\"notes\", \"--all\"], \"enabled\": false } } }",
    );
    put(
        &home.join(".config/opencode/agent/review.md"),
        "---\ndescription: Reviews\nmode: subagent\ntools:\n  write: false\n  edit: false\n  bash: false\n---\nReview.\n",
    );
    rind.run(&["import", "opencode", "--yes"]).exits(0);
    let settings = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    assert_snapshot!(settings, @r#"
    [mcp.docs]
    command = "docs-mcp"
    env = ["A_TOKEN"]

    [mcp.web]
    url = "https://w.example/mcp"
    headers = { authorization = "Bearer {WEB}" }

    [mcp.notes]
    enabled = false
    command = "notes"
    args = ["--all"]

    [tools]
    rules = [
        { command = "cargo test *", decision = "allow" },
        { command = "cargo check *", decision = "allow" },
        { command = "git push *", decision = "deny" },
        { tool = "edit_file", decision = "ask" },
        { tool = "write_file", decision = "ask" },
    ]
    "#);
    let listed = rind.run(&["mcp", "list"]).exits(0).stdout;
    for name in ["docs", "web", "notes"] {
        assert!(listed.contains(name), "{listed}");
    }
    let preset = fs::read_to_string(rind.home().join("config/agents/review.md")).unwrap();
    assert!(preset.contains("tools: Glob, Grep, Read\n"), "{preset}");
}

#[test]
fn files_that_cannot_be_read_are_named_and_nothing_is_written() {
    for (name, text, why) in [
        (".claude/settings.json", "{", "settings.json"),
        (".claude/settings.json", "[1]", "it is not an object"),
        (".claude.json", "{\"a\": }", ".claude.json"),
    ] {
        let rind = Rind::default();
        put(&rind.user_home().join(name), text);
        let ran = rind.run(&["import", "claude-code", "--yes"]);
        assert_eq!(ran.code, Some(1), "{text}");
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        assert!(!rind.home().join("config/config.toml").exists());
    }
    let rind = Rind::default();
    let ran = rind.run(&["import", "codex"]).exits(0);
    assert!(ran.stderr.contains("nothing to write"));
}

#[test]
fn a_file_of_another_content_is_not_written_over() {
    let rind = with_claude();
    let path = rind.home().join("config/prompts/git-fix.md");
    put(&path, "mine");
    let ran = rind.run(&["import", "claude-code", "--yes"]).exits(0);
    assert!(
        ran.stdout.contains("nothing is written over"),
        "{}",
        ran.stdout
    );
    assert_eq!(fs::read_to_string(path).unwrap(), "mine");
}

#[test]
fn settings_of_other_agents_that_are_not_used_are_told_once_for_each_project() {
    let rind = with_claude();
    rind.script("[[reply]]\ntext = \"Done.\"\ntimes = 9\n");
    let told = |rind: &Rind| rind.run(&["run", "work"]).exits(0).stderr;
    let first = told(&rind);
    assert_snapshot!(
        first.lines().find(|line| line.contains("other agents")).unwrap_or_default(),
        @"▲ this project has settings of other agents, which are not used here: .claude/settings.json (its rules would judge your calls, and the project can change them at any time; its hooks can be used in place, after a question); `rind import claude-code --project --dry-run` shows which of them can be imported (shown once)"
    );
    assert!(!told(&rind).contains("other agents"));
    put(&rind.workspace().join("opencode.json"), "{}");
    let third = told(&rind);
    assert!(
        third.contains(
            "opencode.json (its format is another one); `rind import claude-code --project --dry-run` or `rind import opencode"
        ),
        "{third}"
    );
    assert!(!told(&rind).contains("other agents"));
    // A settings file that Rind is configured to use is not reported.
    let used = rind
        .workspace()
        .canonicalize()
        .unwrap()
        .join(".claude/settings.json");
    put(&used, "{}");
    rind.config(&format!(
        "[hooks]\nclaude = [{:?}]\n",
        used.display().to_string()
    ));
    let used = told(&rind);
    assert!(used.contains("not used here: opencode.json ("), "{used}");
}

#[test]
fn commands_of_claude_code_are_slash_commands_of_a_trusted_project_and_of_no_other() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Done.\"\ntimes = 9\n");
    let commands = rind.workspace().join(".claude/commands");
    put(
        &commands.join("fix.md"),
        "---\ndescription: Fixes an issue\nallowed-tools: Bash(git:*)\n---\nFix $ARGUMENTS, first {{ $1 }}.\n",
    );
    put(&commands.join("git/Sum.md"), "Sum up: !`touch ran`\n");
    let ran = rind.run(&["run", "/fix 12"]);
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("no command"), "{}", ran.stderr);
    let ran = rind
        .run(&["run", "--trust-project", "/fix 12 now"])
        .exits(0);
    let told = "parts of the project's slash commands have no effect (shown once):";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    for part in ["fix.md: /fix: allowed-tools: ", "Sum.md: /git-sum: !`…`: "] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let shown = |rind: &Rind| {
        rind.run(&["session", "show", "last", "--full"])
            .exits(0)
            .stdout
    };
    let text = shown(&rind);
    assert!(text.contains("Fix 12 now, first {{ 12 }}."), "{text}");
    let ran = rind.run(&["run", "--trust-project", "/git-sum"]).exits(0);
    assert!(!ran.stderr.contains(told), "{}", ran.stderr);
    assert!(shown(&rind).contains("Sum up: !`touch ran`"));
    assert!(!rind.workspace().join("ran").exists());
}
