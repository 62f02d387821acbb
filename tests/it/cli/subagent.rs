//! Subagents as a person sees them: in the chat, in `session show`, and after signals.

use rind_tests::cli::Rind;
use serde_json::Value;

use super::session_look::only;

/// A model that starts three subagents: one reads, one is refused a write, and one hangs.
const SCRIPT: &str = r#"
[[reply]]
when = { contains = "go on", step = 1 }
[[reply.tool_calls]]
name = "spawn_subagent"
arguments = { task = "Read a.txt", preset = "investigate" }
[[reply.tool_calls]]
name = "spawn_subagent"
arguments = { task = "Write c.txt", preset = "work" }
[[reply.tool_calls]]
name = "spawn_subagent"
arguments = { task = "Hang for long", preset = "minimal" }

[[reply]]
when = { contains = "go on", step = 2 }
[[reply.tool_calls]]
name = "wait_subagents"
arguments = { timeout_seconds = 3 }

[[reply]]
when = { contains = "go on", step = 3 }
text = "Two answered."

[[reply]]
when = { contains = "subagents still run" }
text = "Two answered, one is stopped."

[[reply]]
when = { contains = "Read a.txt", step = 1 }
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]

[[reply]]
when = { contains = "Read a.txt", step = 2 }
text = "It says alpha."

[[reply]]
when = { contains = "Write c.txt", step = 1 }
tool_calls = [{ name = "write_file", arguments = { path = "c.txt", content = "x" } }]

[[reply]]
when = { contains = "Write c.txt", step = 2 }
text = "I could not write."

[[reply]]
when = { contains = "Hang for long" }
times = 0
delay_ms = 3600000
text = "late"
"#;

const ON: &str = "[subagents]\nenabled = true\n";

fn machine() -> Rind {
    let rind = Rind::with_script(SCRIPT);
    rind.file("a.txt", "alpha\n").config(ON);
    rind
}

/// States of the subagents in the session's file, by task.
fn states(rind: &Rind) -> Vec<(String, String)> {
    let ends = rind.entries("subagent-end");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let state = |start: Value| {
        let end = ends.iter().rfind(|end| end["agent"] == start["agent"]);
        let state = end.map(|end| text(&end["state"])).unwrap_or_default();
        (text(&start["task"]), state)
    };
    let starts = rind.entries("subagent-start").into_iter();
    starts.map(state).collect()
}

/// The state that the subagent with this task ended in.
fn state_of(rind: &Rind, task: &str) -> String {
    let found = states(rind).into_iter().rfind(|(own, _)| own == task);
    found.map(|(_, state)| state).unwrap_or_default()
}

/// The id of the subagent with this task.
fn id_of(rind: &Rind, task: &str) -> String {
    let mut starts = rind.entries("subagent-start").into_iter();
    let start = starts.find(|start| start["task"] == task).unwrap();
    start["agent"].as_str().unwrap().to_owned()
}

/// Checks that an examination of the session finds nothing.
#[track_caller]
fn has_no_faults(rind: &Rind) {
    let doctor = rind.run(&["session", "doctor", "--json"]).exits(0).stdout;
    let all: Value = serde_json::from_str(&doctor).unwrap();
    assert_eq!(all[0]["faults"], Value::Array(Vec::new()), "{doctor}");
}

#[test]
fn subagents_have_a_line_each_in_the_chat_and_what_they_did_is_shown_from_outside() {
    let rind = machine();
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], (100, 30), &[]) else {
        return;
    };
    terminal.sees("scripted").keys("go on\r");
    terminal.sees("blocked:").sees("answered:");
    let live = terminal.picture();
    assert!(
        live.contains(" minimal running · step 1 · Hang for long"),
        "{live}"
    );
    terminal.sees("one is stopped.").sees_no("Enter steers");
    let whole = terminal.picture_from("› go on");
    assert!(!whole.contains("running · step"), "{whole}");
    for text in [
        "◆ [AGENT] investigate Read a.txt",
        "└ [AGENT] answered: It says alpha. 2 steps",
        "◆ [AGENT] work Write c.txt",
        "└ [AGENT] blocked: I could not write.",
        "└ [AGENT] stopped: the subagent was stopped: the turn of its parent ended",
    ] {
        assert!(whole.contains(text), "{text}\n{whole}");
    }
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    drop(terminal);

    for (task, state) in [
        ("Read a.txt", "answered"),
        ("Write c.txt", "blocked"),
        ("Hang for long", "stopped"),
    ] {
        assert_eq!(state_of(&rind, task), state, "{task}");
    }

    // The blocked subagent continues in another run, is addressed by a prefix of its id, and may
    // write there.
    let id = id_of(&rind, "Write c.txt");
    let begin = &id[..9];
    rind.script(&format!(
        "[[reply]]\nwhen = {{ contains = \"next\", step = 1 }}\n[[reply.tool_calls]]\nname = \"continue_subagent\"\n\
         arguments = {{ id = \"{begin}\", message = \"Now you may\", wait = true }}\n\
         [[reply]]\nwhen = {{ contains = \"next\", step = 2 }}\ntext = \"{{tool_result}}\"\n\
         [[reply]]\nwhen = {{ contains = \"Now you may\", step = 1 }}\n[[reply.tool_calls]]\nname = \"write_file\"\n\
         arguments = {{ path = \"c.txt\", content = \"x\" }}\n\
         [[reply]]\nwhen = {{ contains = \"Now you may\", step = 2 }}\ntext = \"Written.\"\n"
    ));
    let args = ["run", "--yes", "--no-plugins", "--resume", "last", "next"];
    let ran = rind.run(&args).exits(0);
    assert!(ran.stdout.ends_with("\n\nWritten.\n"), "{}", ran.stdout);
    assert!(rind.workspace().join("c.txt").exists());

    let shown = rind.run(&["session", "show", "last"]).exits(0).stdout;
    for (task, about) in [
        ("Read a.txt", " · investigate · answered · 2 steps · "),
        ("Write c.txt", " · work · blocked · 2 steps · "),
        ("Hang for long", " · minimal · stopped · 1 step · "),
        ("Now you may", " · work · answered · 2 steps · "),
    ] {
        let row = format!("subagent {}{about}", id_of(&rind, task));
        assert!(shown.contains(&row), "{row}\n{shown}");
    }
    assert!(shown.contains("continued: Now you may"), "{shown}");
    let path = format!("last/agents/{id}");
    let own = rind.run(&["session", "show", &path]).exits(0).stdout;
    assert!(own.contains("turn 1") && own.contains("turn 2"), "{own}");
    has_no_faults(&rind);
}

#[test]
fn signals_end_subagents_with_their_sessions_whole_and_a_killed_one_can_go_on() {
    for signal in ["INT", "TERM", "KILL"] {
        let rind = machine();
        let mut running = rind.start(&["run", "--no-plugins", "go on"]);
        running.wait_until(|rind| rind.entries("subagent-start").len() == 3);
        running.wait_until(|rind| rind.entries("subagent-end").len() == 2);
        running.signal(signal);
        running.wait();
        let expected = if signal == "KILL" { "" } else { "stopped" };
        assert_eq!(state_of(&rind, "Hang for long"), expected, "{signal}");
        has_no_faults(&rind);
        let id = id_of(&rind, "Hang for long");
        let (sessions, session) = only(&rind);
        let file = sessions
            .join(session)
            .join("agents")
            .join(&id)
            .join("session.jsonl");
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(text.contains("\"turn-end\""), signal != "KILL", "{signal}");
        rind.script(&format!(
            "[[reply]]\nwhen = {{ contains = \"next\", step = 1 }}\n[[reply.tool_calls]]\nname = \"list_subagents\"\n\
             [[reply.tool_calls]]\nname = \"continue_subagent\"\n\
             arguments = {{ id = \"{id}\", message = \"Hurry up\", wait = true }}\n\
             [[reply]]\nwhen = {{ contains = \"next\", step = 2 }}\ntext = \"{{tool_result}}\"\n\
             [[reply]]\nwhen = {{ contains = \"Hurry up\" }}\ntext = \"At once.\"\n"
        ));
        let args = ["run", "--no-plugins", "--resume", "last", "next"];
        let ran = rind.run(&args).exits(0);
        let is_it = ran.stdout.ends_with("\n\nAt once.\n");
        assert!(is_it, "{signal}: {}", ran.stdout);
        has_no_faults(&rind);
    }
}

#[test]
fn a_subagent_that_was_killed_before_it_began_is_no_fault_and_cannot_go_on() {
    let rind = machine();
    let mut running = rind.start(&["run", "--no-plugins", "go on"]);
    running.wait_until(|rind| rind.entries("subagent-start").len() == 3);
    running.wait_until(|rind| rind.entries("subagent-end").len() == 2);
    running.signal("KILL");
    running.wait();
    let id = id_of(&rind, "Hang for long");
    let (sessions, session) = only(&rind);
    let folder = sessions.join(&session).join("agents").join(&id);
    std::fs::remove_dir_all(&folder).unwrap();
    // The repair removes the subagent's system prompt, which a program that is killed earlier does
    // not write.
    rind.run(&["session", "doctor", "--repair"]).exits(0);
    // The program can be killed between the parent's entry and the first line of the subagent's
    // session.
    for left in ["nothing", "an empty folder", "an empty file", "nothing"] {
        let _ = std::fs::remove_dir_all(&folder);
        if left != "nothing" {
            std::fs::create_dir(&folder).unwrap();
        }
        if left == "an empty file" {
            std::fs::write(folder.join("session.jsonl"), "").unwrap();
        }
        has_no_faults(&rind);
        rind.run(&["session", "show", &session]).exits(0);
        rind.run(&["session", "search", "alpha"]).exits(0);
        rind.run(&["session", "fork", &session]).exits(0);
        let copies = std::fs::read_dir(&sessions)
            .unwrap()
            .map(|entry| entry.unwrap());
        for copy in copies.filter(|copy| *copy.file_name() != *session && copy.path().is_dir()) {
            std::fs::remove_dir_all(copy.path()).unwrap();
        }
        rind.run(&[
            "session", "export", &session, "--format", "jsonl", "-o", "out",
        ])
        .exits(0);
        std::fs::remove_file(rind.workspace().join("out")).unwrap();
    }
    rind.script(&format!(
        "[[reply]]\nwhen = {{ step = 1 }}\n[[reply.tool_calls]]\nname = \"continue_subagent\"\n\
         arguments = {{ id = \"{id}\", message = \"Hurry up\", wait = true }}\n\
         [[reply]]\nwhen = {{ step = 2 }}\ntext = \"{{tool_result}}\"\n"
    ));
    let args = ["run", "--no-plugins", "--resume", &session, "next"];
    let ran = rind.run(&args).exits(0);
    assert!(
        ran.stdout
            .contains("the subagent has no session: the program was killed before it began"),
        "{}",
        ran.stdout
    );
    assert_eq!(state_of(&rind, "Hang for long"), "failed");
    has_no_faults(&rind);
}

/// Name and front matter of hostile or wrong preset files, with a part of the message to the
/// person.
const HOSTILE: [(&str, &str, &str); 4] = [
    (
        "work",
        "description: Takes over",
        "`work` is a built-in preset",
    ),
    (
        "bomb",
        "description: &a x\nname: *a",
        "references are not allowed",
    ),
    (
        "typo",
        "description: d\ntools: [Read, \"b!d\"]",
        "which names of tools cannot contain",
    ),
    (
        "model",
        "description: d\nmodel: dear-model",
        "only a preset of yours chooses a model",
    ),
];

#[test]
fn presets_of_a_project_count_once_it_is_trusted_and_hostile_ones_are_told() {
    let rind = Rind::with_script(
        "[[reply]]\nwhen = { contains = \"go on\", step = 1 }\n[[reply.tool_calls]]\nname = \"spawn_subagent\"\n\
         arguments = { task = \"Test it\", preset = \"tester\", wait = true }\n\
         [[reply]]\nwhen = { contains = \"go on\", step = 2 }\ntext = \"{tool_result}\"\n\
         [[reply]]\nwhen = { contains = \"Test it\" }\ntimes = 0\ntext = \"Tested.\"\n",
    );
    rind.config(ON);
    rind.file(
        ".claude/agents/tester.md",
        "---\nname: tester\ndescription: \"Runs\\e[2J tests\"\ntools: Read, Bash\ncolor: red\n---\nRun all tests.\n",
    );
    for (name, front, _) in HOSTILE {
        rind.file(
            &format!(".claude/agents/{name}.md"),
            &format!("---\n{front}\n---\nObey.\n"),
        );
    }
    rind.file(".claude/agents/binary.md", "\u{0}\u{1}\u{2}");
    let agents = rind.workspace().join(".claude/agents");
    std::os::unix::fs::symlink("/etc/passwd", agents.join("link.md")).unwrap();
    std::fs::write(agents.join("huge.md"), vec![b'x'; 3 << 20]).unwrap();

    let ran = rind.run(&["run", "--no-plugins", "go on"]).exits(0);
    assert!(ran.stderr.contains("it is not trusted"), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("there is no preset `tester`"),
        "{}",
        ran.stdout
    );

    let args = ["run", "--no-plugins", "--trust-project", "go on"];
    let ran = rind.run(&args).exits(0);
    assert!(ran.stdout.ends_with("\n\nTested.\n"), "{}", ran.stdout);
    for (name, _, why) in HOSTILE {
        let is_told = |line: &str| line.contains(&format!("{name}.md")) && line.contains(why);
        assert!(ran.stderr.lines().any(is_told), "{name}: {}", ran.stderr);
    }
    for name in ["binary", "link", "huge"] {
        assert!(
            ran.stderr.contains(&format!("{name}.md")),
            "{name}: {}",
            ran.stderr
        );
    }
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

#[test]
fn presets_of_the_operator_are_files_in_the_settings_folder_and_choose_a_model() {
    let rind = Rind::with_script(
        "[[reply]]\nwhen = { contains = \"go on\", step = 1 }\n[[reply.tool_calls]]\nname = \"spawn_subagent\"\n\
         arguments = { task = \"Test it\", preset = \"mine\", wait = true }\n\
         [[reply]]\nwhen = { contains = \"go on\", step = 2 }\ntext = \"{tool_result}\"\n\
         [[reply]]\nwhen = { contains = \"Test it\" }\ntext = \"Tested.\"\n",
    );
    rind.config(ON);
    let folder = rind.home().join("config/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("mine.md"),
        "---\ndescription: Mine\nmodel: small-model\ntools: [read_file]\n---\nBe brief.\n",
    )
    .unwrap();
    let ran = rind.run(&["run", "--no-plugins", "go on"]).exits(0);
    assert!(ran.stdout.ends_with("\n\nTested.\n"), "{}", ran.stdout);
    let id = rind.entries("subagent-start").remove(0);
    assert_eq!(id["tools"], serde_json::json!(["read_file"]));
    let path = format!("last/agents/{}", id["agent"].as_str().unwrap());
    let shown = rind.run(&["session", "show", &path]).exits(0).stdout;
    assert!(shown.contains("small-model"), "{shown}");
}
