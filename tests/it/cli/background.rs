//! Background commands of a run: they end with their session, however the session ends.

use std::time::{Duration, Instant};

use rind_tests::cli::Rind;

/// A command that ignores signals, closes its output and leaves processes in sessions of their own.
const STUBBORN: &str = "echo begun; echo $$ > pid; (setsid sh -c \"trap '' TERM INT HUP; while :; do sleep 1; done\" &); \
                        trap '' TERM INT HUP; exec >&- 2>&-; while :; do sleep 1; done";

/// Returns a script that starts a command in the background and continues with `then`.
fn script(command: &str, then: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!(
        "[[reply]]\ntext = \"I start it.\"\n[[reply.tool_calls]]\nname = \"bash\"\narguments = {{ command = {command}, \
         background = true }}\n{then}"
    )
}

const ANSWERS: &str = "[[reply]]\ntext = \"Done.\"\n";

/// Returns the results of tool calls in the session, in order.
fn results(rind: &Rind) -> Vec<String> {
    let messages = rind.entries("message").into_iter();
    let parts = messages.flat_map(|entry| {
        entry["message"]["content"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    });
    let results = parts.filter(|part| part["type"] == "tool_result");
    results
        .map(|part| part["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Returns the texts of the messages with role `user`.
fn user_texts(rind: &Rind) -> Vec<String> {
    let messages = rind.entries("message").into_iter();
    let of_user = messages.filter(|entry| entry["message"]["role"] == "user");
    of_user
        .map(|entry| {
            entry["message"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

/// Whether a process of a command is running, recognized by the workspace as its working directory.
fn is_running(rind: &Rind) -> bool {
    let folders = std::fs::read_dir("/proc").unwrap();
    let mut folders = folders.map(|entry| std::fs::read_link(entry.unwrap().path().join("cwd")));
    folders.any(|cwd| cwd.is_ok_and(|cwd| cwd == rind.workspace()))
}

#[track_caller]
fn until_gone(rind: &Rind, what: &str) {
    let since = Instant::now();
    while is_running(rind) {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "{what}: a process is left"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_command_goes_on_between_steps_and_ends_with_the_session() {
    let reads = "[[reply]]\ntool_calls = [{ name = \"background\", arguments = { id = \"bg-1\", wait_seconds = 60, until = \"4\" } }, \
                 { name = \"background\", arguments = {} }]\n";
    let command = "for n in 1 2 3 4 5 6; do echo $n; sleep 0.5; done; sleep 600";
    let rind = Rind::with_script(&script(command, &format!("{reads}{ANSWERS}")));
    let ran = rind.run(&["run", "work", "--yes"]).exits(0);
    assert_eq!(ran.stdout, "Done.\n");
    let shown =
        "bash for n in 1 2 3 4 5 6; do echo $n; sleep 0.5; done; sleep 600 (in the background)";
    assert!(ran.stderr.contains(shown), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("ended with the session: bg-1"),
        "{}",
        ran.stderr
    );
    assert!(!is_running(&rind));
    let results = results(&rind);
    assert!(
        results[0].ends_with("[started in the background as bg-1; it ends with the session]"),
        "{results:?}"
    );
    let both = format!("{}\n{}", results[0], results[1]);
    for line in ["1", "2", "3", "4"] {
        assert_eq!(both.lines().filter(|own| *own == line).count(), 1, "{both}");
    }
    assert!(results[2].starts_with("bg-1 runs since "), "{results:?}");

    // The model is informed once that the command has ended, and a new command gets a new id.
    rind.script(&script("sleep 600", ANSWERS));
    let ran = rind
        .run(&["run", "go on", "--resume", "last", "--yes"])
        .exits(0);
    assert!(
        ran.stderr.contains("ended with the session: bg-2"),
        "{}",
        ran.stderr
    );
    let gone = |id: &str| {
        format!(
            "[commands in the background ended with the program that ran them: {id}; start again what is still needed]"
        )
    };
    assert_eq!(user_texts(&rind), ["work", "go on", &gone("bg-1")]);
    rind.script(ANSWERS);
    rind.run(&["run", "and on", "--resume", "last"]).exits(0);
    assert_eq!(user_texts(&rind)[3..], ["and on".to_owned(), gone("bg-2")]);
    rind.script(ANSWERS);
    rind.run(&["run", "more", "--resume", "last"]).exits(0);
    assert_eq!(user_texts(&rind)[5..], ["more"]);
}

#[test]
fn nothing_outlives_the_program_however_it_ends() {
    let waits = "[[reply]]\ntext = \"late\"\ndelay_ms = 3600000\n";
    for (signal, bash) in [
        ("INT", "required"),
        ("TERM", "required"),
        ("HUP", "required"),
        ("KILL", "required"),
        ("KILL", "off"),
        ("TERM", "off"),
    ] {
        let rind = Rind::with_script(&script(STUBBORN, waits));
        rind.config(&format!("[sandbox]\nbash = \"{bash}\"\n"));
        let mut running = rind.start(&["run", "work", "--yes"]);
        running.wait_until(|rind| results(rind).len() == 1);
        assert!(is_running(&rind), "{signal} {bash}: {:?}", results(&rind));
        running.signal(signal);
        let ran = running.end();
        assert_eq!(ran.code.is_none(), signal == "KILL", "{signal}");
        until_gone(&rind, &format!("{signal} {bash}"));
    }
}

#[test]
fn starting_asks_exactly_as_the_same_command_does_and_reading_is_free() {
    let ask = script("touch started; sleep 600", ANSWERS);
    let rind = Rind::with_script(&ask);
    let ran = rind.run(&["run", "work"]);
    assert!(
        ran.stderr.contains("bash refused by policy"),
        "{}",
        ran.stderr
    );
    assert!(!rind.workspace().join("started").exists());

    let reads = "[[reply]]\ntool_calls = [{ name = \"background\", arguments = { id = \"bg-1\", stop = true } }]\n";
    let rind = Rind::with_script(&script("sleep 600", &format!("{reads}{ANSWERS}")));
    rind.config(
        "[tools]\nrules = [{ tool = \"bash\", command = \"sleep *\", decision = \"allow\" }]\n",
    );
    rind.run(&["run", "work"]).exits(0);
    let results = results(&rind);
    assert!(results[1].ends_with(": stopped: by you]"), "{results:?}");
}

#[test]
fn a_secret_of_the_environment_is_masked_even_when_it_comes_in_two_pieces() {
    let command = "printf 'key my-deploy'; sleep 3; echo '-word end'; sleep 600";
    let reads = "[[reply]]\ntool_calls = [{ name = \"background\", arguments = { id = \"bg-1\" } }]\n\
                 [[reply]]\ntool_calls = [{ name = \"background\", arguments = { id = \"bg-1\", wait_seconds = 60, until = \"end\" } }]\n";
    let rind = Rind::with_script(&script(command, &format!("{reads}{ANSWERS}")));
    rind.config("[sandbox]\nenv = [\"DEPLOY_TOKEN\"]\n");
    let mut run = rind.command(&["run", "work", "--yes"]);
    run.env("DEPLOY_TOKEN", "my-deploy-word");
    rind.finish(&mut run).exits(0);
    let all = results(&rind).join("\n");
    assert!(
        all.contains("key [secret masked: DEPLOY_TOKEN] end\n"),
        "{all}"
    );
    assert!(
        !all.contains("my-deploy") && !all.contains("-word"),
        "{all}"
    );
}

#[test]
fn the_commands_of_a_subagent_end_with_it() {
    let rind = Rind::with_script(
        r#"
[[reply]]
when = { contains = "go on", step = 1 }
tool_calls = [{ name = "spawn_subagent", arguments = { task = "Serve it", preset = "work" } }, { name = "wait_subagents", arguments = {} }]

[[reply]]
when = { contains = "Serve it", step = 1 }
tool_calls = [{ name = "bash", arguments = { command = "sleep 600", background = true } }]

[[reply]]
when = { contains = "Serve it", step = 2 }
text = "It is served."

[[reply]]
when = { contains = "go on", step = 2 }
tool_calls = [{ name = "background", arguments = {} }, { name = "background", arguments = { id = "bg-1" } }]

[[reply]]
text = "Done."
"#,
    );
    let config = "[subagents]\nenabled = true\n[tools]\nrules = [{ tool = \"bash\", command = \"sleep *\", decision = \"allow\" }]\n";
    rind.config(config);
    let ran = rind.run(&["run", "go on"]).exits(0);
    assert!(
        ran.stderr.contains("bg-1 ended after")
            && ran.stderr.contains("stopped: its subagent ended"),
        "{}",
        ran.stderr
    );
    let results = results(&rind);
    assert!(
        results
            .iter()
            .any(|text| text == "no command runs in the background"),
        "{results:?}"
    );
    assert!(
        results
            .iter()
            .any(|text| text.starts_with("there is no command `bg-1`")),
        "{results:?}"
    );
    assert!(!is_running(&rind));
}

#[test]
fn a_run_at_a_terminal_shows_the_last_line_of_a_running_command() {
    let calls = "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"echo first; echo \\u001b[2Jsecond; sleep 3\" } }]\n";
    let rind = Rind::with_script(&format!("{calls}{ANSWERS}"));
    let Some(shown) = rind.at_terminal(&["run", "work", "--yes"], "") else {
        return;
    };
    assert!(shown.contains(" s │ second"), "{shown}");
    assert!(
        !shown.contains("│ first") && !shown.contains("\u{1b}[2J"),
        "{shown}"
    );
    let rind = Rind::with_script(&format!("{calls}{ANSWERS}"));
    let ran = rind.run(&["run", "work", "--yes"]).exits(0);
    assert!(!ran.stderr.contains("│ second"), "{}", ran.stderr);
}
