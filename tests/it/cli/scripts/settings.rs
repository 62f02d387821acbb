//! Settings of scripts: faults are reported with their line before a session starts.

use std::fs;

use rind_tests::cli::Rind;

use super::{WRITES, guarded, program};

#[test]
fn settings_that_do_not_fit_are_named_with_their_line() {
    for (settings, expected) in [
        (
            "point = \"pre-tools\"\ncommand = [\"sh\"]",
            "there is no point `pre-tools`",
        ),
        ("point = \"pre-tool\"\ncommand = []", "`command` is empty"),
        ("point = []\ncommand = [\"sh\"]", "`point` names no point"),
        (
            "point = \"pre-tool\"\ncommand = \"sh\"",
            "expected a sequence",
        ),
        ("command = [\"sh\"]", "missing field `point`"),
        (
            "point = \"pre-tool\"\ncommand = [\"no-such-program\"]",
            "there is no program `no-such-program` in PATH",
        ),
        (
            "point = \"pre-tool\"\ncommand = [\"hooks/none\"]",
            "config/hooks/none` does not exist",
        ),
        (
            "point = \"pre-tool\"\ncommand = [\"./config.toml\"]",
            "is not executable",
        ),
        (
            "point = \"pre-tool\"\ncommand = [\"sh\"]\nmatcher = \"(\"",
            "`matcher` is not a regular expression",
        ),
        (
            "point = \"turn-end\"\ncommand = [\"sh\"]\nmatcher = \"bash\"",
            "`turn-end` does not concern a tool",
        ),
        (
            "point = \"pre-tool\"\ncommand = [\"sh\"]\nasync = true",
            "`async` is for hooks that only observe",
        ),
        (
            "point = \"post-reason\"\ncommand = [\"sh\"]\nmay = [\"fly\"]",
            "its rights are: text, inject, block",
        ),
        (
            "point = \"pre-tool\"\ncommand = [\"sh\"]\ntimeout_seconds = 0",
            "write a number from 1 to 600",
        ),
        (
            "point = \"pre-tool\"\ncommand = [\"sh\"]\nwhen = 1",
            "unknown field `when`",
        ),
    ] {
        let rind = Rind::with_script(WRITES);
        rind.config(&format!(
            "[agent]\nmax_steps = 3\n[hooks.scripts.guard]\n{settings}\n"
        ));
        let ran = rind.run(&["run", "go"]).exits(2);
        assert!(ran.stderr.contains(expected), "{settings}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("config.toml:"),
            "{settings}: {}",
            ran.stderr
        );
        let doctor = rind.run(&["doctor"]);
        assert!(
            doctor.stdout.contains(expected),
            "{settings}: {}",
            doctor.stdout
        );
    }
}

#[test]
fn names_are_unique_and_nobody_elses() {
    for (name, expected) in [
        ("hello", "a plugin or another hook has this name"),
        ("policy", "the name `policy` is reserved"),
        ("\"Big Name\"", "is not made of 1 to 64 of a-z"),
    ] {
        let rind = Rind::with_script(WRITES);
        rind.managed("hello");
        rind.config(&format!(
            "[hooks.scripts.{name}]\npoint = \"turn-end\"\ncommand = [\"sh\"]\n"
        ));
        let ran = rind.run(&["run", "go"]);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(expected), "{name}: {}", ran.stderr);
    }
}

#[test]
fn a_project_brings_no_scripts() {
    let rind = Rind::with_script(WRITES);
    rind.file(
        ".rind/config.toml",
        "[hooks.scripts.x]\npoint = \"turn-end\"\ncommand = [\"sh\"]\n",
    );
    let ran = rind.run(&["run", "go", "--trust-project"]).exits(2);
    assert!(
        ran.stderr.contains("unknown section `hooks`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_policy_switches_scripts_off() {
    for policy in [
        "[scripts]\ndisable = true\n",
        "[plugins.guard]\ndisable = true\n",
    ] {
        let rind = guarded(WRITES, "exit 1", "point = \"pre-tool\"\n");
        fs::write(rind.home().join("config/policy.toml"), policy).unwrap();
        let ran = rind.run(&["run", "go", "--yes"]).exits(0);
        assert!(
            ran.stderr.contains("script `guard` is not called: ["),
            "{}",
            ran.stderr
        );
        assert!(rind.workspace().join("b.txt").exists());
    }
}

#[test]
fn a_script_that_the_agent_can_change_is_reported() {
    let script = |command: &str| {
        format!("[hooks.scripts.guard]\npoint = \"turn-end\"\ncommand = [{command}]\n")
    };
    let claude = |command: &str| {
        let hook = format!(r#"{{"type": "command", "command": "{command}"}}"#);
        format!(r#"{{"hooks": {{"SessionEnd": [{{"hooks": [{hook}]}}]}}}}"#)
    };
    let of_guard = "the agent can change what script `guard` does, because";
    let of_claude = "the agent can change what script `claude-session-end-1` does, because";
    let list = "[hooks]\nclaude = [\"../list.json\"]\n";
    for (settings, hooks, expected) in [
        (
            script("\"sh\", \"[WORKSPACE]/hooks/guard\""),
            String::new(),
            of_guard,
        ),
        (script("\"sh\", \"hooks/guard\""), String::new(), of_guard),
        (
            script("\"sh\", \"-c\", \"exec ./hooks/guard\""),
            String::new(),
            of_guard,
        ),
        (
            script("\"[WORKSPACE]/hooks/link\""),
            String::new(),
            of_guard,
        ),
        (
            script("\"sh\", \"[USER]/open/guard\""),
            String::new(),
            of_guard,
        ),
        (
            list.to_owned(),
            claude("\\\"$CLAUDE_PROJECT_DIR\\\"/hooks/guard"),
            of_claude,
        ),
        (list.to_owned(), claude("sh hooks/guard"), of_claude),
        (
            "[hooks]\nclaude = [\"[WORKSPACE]/list.json\"]\n".to_owned(),
            claude("true"),
            "the agent can change which hooks are called, because [WORKSPACE]/list.json is in [WORKSPACE]",
        ),
        // The agent can change no part of these hooks, so there is no warning.
        (script("\"sh\", \"-c\", \"true\""), String::new(), ""),
        (list.to_owned(), claude("true"), ""),
    ] {
        let rind = guarded(WRITES, "true", "point = \"turn-end\"\n");
        let own = rind
            .home()
            .join("config")
            .join(program(&rind, "guard", "#!/bin/sh\n"));
        let workspace = rind.workspace();
        for folder in [workspace.join("hooks"), rind.user_home().join("open")] {
            fs::create_dir_all(&folder).unwrap();
            fs::copy(&own, folder.join("guard")).unwrap();
        }
        // The agent could replace the link, although it cannot change the link's target.
        std::os::unix::fs::symlink(&own, workspace.join("hooks/link")).unwrap();
        rind.user_file("list.json", &hooks)
            .file("list.json", &hooks);
        let settings = settings
            .replace("[WORKSPACE]", workspace.to_str().unwrap())
            .replace("[USER]", rind.user_home().to_str().unwrap());
        rind.config(&format!("{settings}\n[sandbox]\nwrite = [\"~/open\"]\n"));
        let ran = rind.run(&["run", "go", "--yes"]).exits(0);
        let said = ran.stderr.contains("the agent can change");
        assert_eq!(said, !expected.is_empty(), "{settings}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{settings}: {}", ran.stderr);
        let doctor = rind.run(&["doctor"]).stdout;
        let said = doctor.contains("the agent can change");
        assert_eq!(said, !expected.is_empty(), "{settings}: {doctor}");
    }
}
