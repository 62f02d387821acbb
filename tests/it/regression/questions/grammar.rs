//! Tests of commands that once bypassed rules.

use super::with_commands;

/// Command lines that once ran `touch pwn` although a rule denied it, because shells and programs
/// parse them differently than they look.
const AROUND_DENIALS: &[&str] = &[
    "echo \"$\\\n(touch pwn)\"",
    "echo $\\\n(touch pwn)",
    "touch >&-pwn",
    "touch >& -pwn",
    "eval -- 'touch pwn'",
    "env -- A=b touch pwn",
    "timeout -- 5 touch pwn",
    "find . -maxdepth 0 -exec env -u + touch pwn ';'",
    "sh -c 'true &>/dev/null touch pwn'",
    "dash -c 'true &>/dev/null touch pwn'",
    "sh -c + 'touch pwn'",
    "rbash -c 'touch pwn'",
    "ssh-agent touch pwn",
    "x86_64 touch pwn",
    "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch pwn",
    "make --eval='X:=$(shell touch pwn)' X",
    "npm --prefix . exec --offline -c 'touch pwn'",
    "git --attr-source HEAD -c alias.x='!touch pwn' x",
    "printf 'connect git-upload-pack\\n' | git remote-ext x 'touch pwn'",
    "git submodule--helper foreach 'touch pwn'",
    "docker --context d run a touch pwn",
    "bundle exec touch pwn",
    "mise exec -- touch pwn",
    "conda run touch pwn",
    "stack exec touch pwn",
    "cross-env A=b touch pwn",
    "wait -np 'a[$(touch pwn)]'",
];

#[test]
fn what_shells_and_programs_read_otherwise_than_it_looks_runs_nothing_that_is_denied() {
    for flags in [&["run", "x"][..], &["run", "x", "--yes"]] {
        let rind = with_commands(AROUND_DENIALS);
        rind.config(
            "[tools]\nrules = [{ command = \"*\", decision = \"allow\" }, { command = \"touch pwn*\", decision = \"deny\" }]\n",
        );
        let ran = rind.run(flags).exits(0);
        let refused = ran.stderr.matches("bash refused by policy").count();
        assert_eq!(refused, AROUND_DENIALS.len(), "{}", ran.stderr);
        assert!(!rind.workspace().join("pwn").exists());
    }
}

#[test]
fn rules_for_harmless_programs_let_no_other_command_through() {
    let rind = with_commands(AROUND_DENIALS);
    let programs = [
        "echo", "printf", "find", "env", "make", "sh", "true", "git", "npm", "timeout", "docker",
        "bundle", "dash", "eval", "mise", "conda", "stack", "wait",
    ];
    let rules = programs
        .map(|program| format!("{{ command = \"{program} *\", decision = \"allow\" }}"))
        .join(", ");
    rind.config(&format!("[tools]\nrules = [{rules}]\n"));
    let ran = rind.run(&["run", "x"]).exits(0);
    // A rule that allows `make *` also allows the program that its arguments name, so one line is
    // not refused.
    let refused = ran.stderr.matches("bash refused by policy").count();
    assert_eq!(refused, AROUND_DENIALS.len() - 1, "{}", ran.stderr);
    let made = std::fs::read_dir(rind.workspace()).unwrap().count();
    assert!(made <= 1, "{}", ran.stderr);
}

#[test]
fn a_file_that_output_goes_to_is_looked_up_where_it_is() {
    let rind = with_commands(&[
        "echo x > target/../pwn",
        "echo x > link/pwn",
        "cd target && echo x > ../target/pwn",
        "echo x > ./src/pwn",
        "echo x > target/made",
    ]);
    rind.file("target/a", "").file("src/a", "");
    std::os::unix::fs::symlink("src", rind.workspace().join("link")).unwrap();
    let absolute = rind.workspace().canonicalize().unwrap().join("target");
    rind.config(
        "[tools]\nrules = [\n{ command = \"echo *\", decision = \"allow\" },\n{ command = \"cd *\", decision = \"allow\" },\n\
         { command = \"> target/*\", decision = \"allow\" },\n{ command = \"> src/*\", decision = \"deny\" }]\n",
    );
    let ran = rind.run(&["run", "x"]).exits(0);
    for place in ["pwn", "src/pwn", "target/pwn"] {
        assert!(
            !rind.workspace().join(place).exists(),
            "{place}: {}",
            ran.stderr
        );
    }
    assert!(absolute.join("made").exists(), "{}", ran.stderr);
}

#[test]
fn a_pattern_that_can_match_nothing_is_refused_with_its_line_and_what_to_write() {
    let rind = with_commands(&[]);
    for (pattern, why) in [
        ("touch $(x)", "an expansion with `$`"),
        ("touch a\\ b", "a backslash"),
        ("touch a?", "outside of quotes"),
    ] {
        rind.config(&format!(
            "[tools]\nrules = [\n  {{ tool = \"bash\", decision = \"ask\" }},\n  {{ command = '{pattern}', decision = \"deny\" }},\n]\n"
        ));
        let ran = rind.run(&["run", "x"]).exits(2);
        for said in [
            "config.toml:",
            "can match no command",
            why,
            "write `*` for what varies",
        ] {
            assert!(ran.stderr.contains(said), "{said}\n{}", ran.stderr);
        }
    }
}

#[test]
fn a_matcher_that_names_no_tool_is_told_with_its_line() {
    let rind = with_commands(&[]);
    rind.file(
        "hooks.json",
        r#"{"hooks": {"PreToolUse": [
            {"matcher": "Bash(touch *)", "hooks": [{"type": "command", "command": "true"}]},
            {"matcher": "Edit|Write|MultiEdit", "hooks": [{"type": "command", "command": "true"}]}
        ]}}"#,
    );
    let file = rind.workspace().join("hooks.json");
    rind.config(&format!(
        "[hooks]\nclaude = [\"{}\"]\n\n[hooks.scripts.guard]\npoint = \"pre-tool\"\ncommand = [\"true\"]\nmatcher = \"Bash\"\n",
        file.display()
    ));
    let ran = rind.run(&["run", "x"]).exits(0);
    for said in [
        "config.toml:4: script `guard`: `matcher`: there is no tool `Bash`, so the script is not called for it; write `bash`",
        "PreToolUse[0].hooks[0]: script `claude-pre-tool-use-1`: `matcher`: there is no tool `Bash(touch *)`",
    ] {
        assert!(ran.stderr.contains(said), "{said}\n{}", ran.stderr);
    }
    assert_eq!(
        ran.stderr.matches("there is no tool").count(),
        2,
        "{}",
        ran.stderr
    );
}

#[test]
fn a_command_too_long_for_any_system_is_refused_without_parsing() {
    let long = format!("ls {}", "$a;".repeat(1 << 20));
    let rind = with_commands(&[&long]);
    rind.config("[tools]\nrules = [{ tool = \"bash\", decision = \"allow\" }, { command = \"rm *\", decision = \"deny\" }]\n");
    let ran = rind.run(&["run", "x", "--yes"]).exits(0);
    assert!(
        ran.stderr.contains("write it to a file and run that"),
        "{}",
        ran.stderr
    );
}
