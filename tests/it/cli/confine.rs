//! Tests of what commands of `bash` can access in a real run, and of the notice if they cannot be
//! confined.

#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::fs;

use rind_tests::cli::Rind;
use serde_json::Value;

/// Returns a script of a model that runs one command.
fn script(command: &str) -> String {
    let command = toml::Value::String(command.to_owned());
    format!(
        "[[reply]]\ntool_calls = [{{ name = \"bash\", arguments = {{ command = {command} }} }}]\n[[reply]]\ntext = \"Done.\"\n"
    )
}

/// Returns the result of the only call, as the model sees it.
fn result(rind: &Rind) -> String {
    let text = |entry: &Value| {
        let part = entry["message"]["content"].as_array()?.first()?;
        let is_result = part["type"] == "tool_result";
        is_result.then(|| part["content"].as_str().unwrap_or_default().to_owned())
    };
    let results: Vec<String> = rind.entries("message").iter().filter_map(text).collect();
    assert_eq!(results.len(), 1, "{results:?}");
    results.into_iter().next().unwrap()
}

/// Whether this machine can confine commands. If it cannot, prints why the test is skipped.
fn can_confine() -> bool {
    let ran = Rind::default().run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let commands = &report["checks"][0];
    let can = commands["state"] == "ok";
    if !can {
        eprintln!("skipped: {commands}");
    }
    can
}

/// Creates a machine on which confinement fails, because commands get access to `~/go`, which is a
/// link to Rind's own folder.
fn cannot_confine(script: &str) -> Rind {
    let rind = Rind::with_script(script);
    std::os::unix::fs::symlink(rind.home(), rind.user_home().join("go")).unwrap();
    rind
}

#[test]
fn a_command_sees_the_workspace_and_no_personal_files() {
    if !can_confine() {
        return;
    }
    let rind = Rind::with_script(&script(
        "cat ~/.ssh/id; cat ~/.aws/credentials; cat \"$RIND/config/config.toml\"; cat ../rind/data/cache.key; \
         cat /proc/$PPID/environ; echo stolen > ~/.bashrc; echo fine > made; ls",
    ));
    for (name, text) in [
        (".ssh/id", "the secret"),
        (".aws/credentials", "the secret"),
    ] {
        let path = rind.user_home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut command = rind.command(&["run", "work", "--yes"]);
    let ran = rind.finish(command.env("SOME_API_KEY", "the secret"));
    let ran = ran.exits(0);
    assert!(!ran.stderr.contains("unconfined"), "{}", ran.stderr);
    let result = result(&rind);
    assert!(!result.contains("the secret"), "{result}");
    let refused = ["Permission denied", "No such file", "Read-only file system"];
    let n_refused: usize = refused
        .iter()
        .map(|words| result.matches(words).count())
        .sum();
    // The file in the home folder does not count as refused: the test's home is in `/tmp`, where
    // commands have a private folder, so the write succeeds but is lost.
    assert_eq!(n_refused, 5, "{result}");
    assert!(result.ends_with("made\n[exit code 0]"), "{result}");
    assert!(!rind.user_home().join(".bashrc").exists());
}

#[test]
fn the_operator_can_open_folders_and_the_network() {
    if !can_confine() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rind = Rind::with_script(&script(&format!(
        "cat ~/notes/a && echo more > ~/shared/b && exec 3<>/dev/tcp/127.0.0.1/{port} && echo x > ~/notes/c"
    )));
    for folder in ["notes", "shared"] {
        fs::create_dir(rind.user_home().join(folder)).unwrap();
    }
    fs::write(rind.user_home().join("notes/a"), "a note\n").unwrap();
    rind.config("[sandbox]\nnetwork = true\nread = [\"~/notes\"]\nwrite = [\"~/shared\"]\n");
    rind.run(&["run", "work", "--yes"]).exits(0);
    let result = result(&rind);
    assert!(result.starts_with("a note\n"), "{result}");
    assert!(
        result.contains("notes/c: Read-only file system"),
        "{result}"
    );
    assert!(rind.user_home().join("shared/b").exists());
    listener.accept().unwrap();
}

#[test]
fn settings_that_make_no_sense_are_named() {
    for (setting, said) in [
        ("write = [\"~/missing\"]", "which does not exist"),
        ("read = [\"relative\"]", "`relative` in [sandbox]"),
        ("read = [\"~/../rind/config\"]", "a folder of Rind's own"),
        ("write = [\"/\"]", "a folder of Rind's own"),
        ("bash = \"sometimes\"", "unknown variant `sometimes`"),
    ] {
        let rind = Rind::with_script(&script("true"));
        rind.config(&format!("[sandbox]\n{setting}\n"));
        let ran = rind.run(&["run", "work", "--yes"]).exits(2);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

/// Settings with which commands are refused if confinement fails on a machine that supports it.
const CONFINED: [&str; 3] = [
    "",
    "[sandbox]\nbash = \"required\"\n",
    "[sandbox]\nbash = \"when-possible\"\n",
];

#[test]
fn where_commands_cannot_be_confined_bash_is_refused_by_name_and_that_is_said_once_at_the_start() {
    for settings in CONFINED {
        let rind = cannot_confine(&script("echo ran > ran"));
        rind.config(settings);
        let ran = rind.run(&["run", "work", "--yes"]).exits(0);
        let why = "commands would have access to [FOLDER]/user/go, which overlaps";
        assert_eq!(ran.stderr.matches("bash is refused until").count(), 1);
        assert!(ran.stderr.contains(why), "{settings}{}", ran.stderr);
        let result = result(&rind);
        assert!(
            result.contains("`bash` is refused") && result.contains("overlaps"),
            "{settings}{result}"
        );
        assert!(!rind.workspace().join("ran").exists(), "{settings}");
    }
}

#[test]
fn a_confinement_that_fails_at_the_start_refuses_commands_and_is_tried_again_at_each_call() {
    if !can_confine() {
        return;
    }
    let calls = "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"touch first ../outside\" } }]\n\
                 [[reply]]\ndelay_ms = 3000\n\
                 tool_calls = [{ name = \"bash\", arguments = { command = \"touch ../outside; touch second\" } }]\n\
                 [[reply]]\ntext = \"Done.\"\n";
    for settings in CONFINED {
        let rind = Rind::with_script(calls);
        rind.config(settings);
        // The missing TMPDIR makes confinement fail at the start, as a full disk would.
        let temporary = rind.user_home().join("tmp");
        let mut command = rind.command(&["run", "work", "--yes"]);
        command.env("TMPDIR", &temporary);
        let mut running = rind.begin(&mut command);
        running.wait_until(|rind| rind.entries("message").len() == 3);
        fs::create_dir(&temporary).unwrap();
        let ran = running.end().exits(0);
        assert!(
            ran.stderr
                .contains("bash is refused until its commands can be confined"),
            "{settings}{}",
            ran.stderr
        );
        assert!(!rind.workspace().join("first").exists(), "{settings}");
        assert!(rind.workspace().join("second").exists(), "{settings}");
        assert!(!rind.workspace().join("../outside").exists(), "{settings}");
    }
}

#[test]
fn what_a_guard_is_given_to_judge_lies_where_no_command_can_change_it() {
    if !can_confine() {
        return;
    }
    let guard = "[hooks.scripts.guard]\npoint = \"pre-tool\"\n\
                 command = [\"sh\", \"-c\", \"readlink /proc/self/fd/0 >> judged; echo $TMPDIR >> judged\"]\n";
    for (place, is_link) in [("tmp", false), ("later/tmp", false), ("tmp", true)] {
        let rind = Rind::with_script(&script("echo $TMPDIR > temporary"));
        rind.config(guard);
        let inside = rind.workspace().join(place);
        if place == "tmp" {
            fs::create_dir(&inside).unwrap();
        }
        let named = match is_link {
            false => inside,
            true => rind.user_home().join("link"),
        };
        if is_link {
            std::os::unix::fs::symlink(rind.workspace().join(place), &named).unwrap();
        }
        let mut command = rind.command(&["run", "work", "--yes"]);
        rind.finish(command.env("TMPDIR", &named)).exits(0);
        let read = |name: &str| fs::read_to_string(rind.workspace().join(name)).unwrap();
        let workspace = rind.workspace().canonicalize().unwrap();
        for path in [read("judged"), read("temporary")].concat().lines() {
            assert!(!path.starts_with(workspace.to_str().unwrap()), "{path}");
            assert!(!path.starts_with(named.to_str().unwrap()), "{path}");
            assert!(path.starts_with('/'), "{path}");
        }
    }
}

#[test]
fn a_script_whose_confinement_fails_does_not_run_and_refuses_what_it_guards() {
    let rind = cannot_confine(
        "[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"made\", content = \"\" } }]\n\
         [[reply]]\ntext = \"Done.\"\n",
    );
    let seen = rind.workspace().join("seen");
    rind.config(&format!(
        "[hooks.scripts.guard]\npoint = \"pre-tool\"\ncommand = [\"sh\", \"-c\", \"touch {}\"]\n",
        seen.display()
    ));
    rind.run(&["run", "work", "--yes"]);
    let result = result(&rind);
    assert!(result.contains("must run confined"), "{result}");
    assert!(!seen.exists() && !rind.workspace().join("made").exists());
}

#[test]
fn switched_off_nothing_is_said_and_nothing_confined() {
    let rind = Rind::with_script(&script("cat ~/file"));
    fs::write(rind.user_home().join("file"), "personal\n").unwrap();
    let ran = rind
        .run(&["run", "work", "--yes", "--set", "sandbox.bash=off"])
        .exits(0);
    assert!(!ran.stderr.contains("confined"), "{}", ran.stderr);
    assert!(result(&rind).starts_with("personal\n"));
}

#[test]
fn a_question_about_a_confined_command_says_nothing_of_it() {
    if !can_confine() {
        return;
    }
    let rind = Rind::with_script(&script("echo ran"));
    let Some(screen) = rind.at_terminal(&["run", "work"], "n\n") else {
        return;
    };
    assert!(screen.contains("wants to run a program"), "{screen}");
    assert!(!screen.contains("confine"), "{screen}");
}

#[test]
fn the_environment_of_the_program_is_closed_to_others_of_the_same_user() {
    // Files in `/proc` of a process that other processes of the user may not inspect belong to
    // root. For a root user this restricts nothing; the confinement of commands has to.
    let rind = Rind::with_script(&script("exec sleep 30"));
    let mut running = rind.start(&["run", "work", "--yes"]);
    running.wait_until(|rind| !rind.entries("tool-start").is_empty());
    let owner = fs::metadata(format!("/proc/{}/environ", running.id())).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), 0);
    running.signal("INT");
    assert_eq!(running.end().code, Some(130));
}
