//! A turn that another program steers, and the file to which its events are written.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rind_tests::cli::{Ran, Rind, Step};
use serde_json::{Value, json};

/// A model that runs a command, which waits for a file, and then answers each text.
const WAITS: &str = r#"
[[reply]]
tool_calls = [{ name = "bash", arguments = { command = "touch begun; while [ ! -e go ]; do sleep 0.05; done" } }]
[[reply]]
when = { contains = "and the third" }
text = "All three."
[[reply]]
text = "Both."
"#;

/// A hook that drops steering that mentions a secret.
const GUARD: &str = "[hooks.scripts.guard]\npoint = \"steering-received\"\ncommand = [\"sh\", \"-c\", \
    \"grep -q secret && echo '{\\\"action\\\": {\\\"drop\\\": \\\"no secrets\\\"}}' || true\"]\n";

fn answers(ran: &Ran) -> Vec<Value> {
    let lines = ran.json_lines();
    lines
        .into_iter()
        .filter(|line| line["type"] == "steer-answer")
        .collect()
}

/// Runs a turn with `--steer-from` a named pipe, writes `lines` to the pipe while the turn's
/// command waits, and then lets the command end.
fn steered(args: &[&str], lines: &[u8]) -> (Rind, Ran) {
    let rind = Rind::with_script(WAITS);
    rind.config(GUARD);
    let pipe = pipe(&rind);
    let mut all = vec![
        "run",
        "the first",
        "--yes",
        "--steer-from",
        pipe.to_str().unwrap(),
    ];
    all.extend(args);
    let mut running = rind.start(&all);
    running.wait_until(|rind| rind.workspace().join("begun").is_file());
    // The lines come from two writers in turn, so the first one closes the pipe in between.
    let (head, tail) = lines.split_at(lines.iter().position(|byte| *byte == b'\n').unwrap() + 1);
    for part in [head, tail] {
        let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
        writer.write_all(part).unwrap();
    }
    std::thread::sleep(Duration::from_secs(2));
    rind.file("go", "");
    let ran = running.end();
    (rind, ran)
}

#[test]
fn every_line_has_its_answers() {
    let long = "x".repeat(2 << 20);
    let lines = [
        r#"{"id": "a", "steer": "the second"}"#.to_owned(),
        r#"{"id": 2, "steer": "my secret"}"#.to_owned(),
        r#"{"follow_up": "and the third"}"#.to_owned(),
        "nonsense".to_owned(),
        r#"{"steer": "x", "cancel": true}"#.to_owned(),
        r#"{"steer": " "}"#.to_owned(),
        r#"{"steer": "x", "when": 5}"#.to_owned(),
        format!("{{\"steer\": \"{long}\"}}"),
        "\n{\"steer\": \"torn".to_owned(),
    ];
    let (_, ran) = steered(&["--json"], lines.join("\n").as_bytes());
    let ran = ran.exits(0);
    let mut answers = answers(&ran);
    for answer in &mut answers {
        if answer["status"] == "refused" {
            let reason = answer["reason"].as_str().unwrap();
            let end = reason
                .find(": ")
                .filter(|_| !reason.contains("incomplete"))
                .unwrap_or(reason.len());
            answer["reason"] = json!(reason[..end]);
        }
    }
    let of = |line: u64| -> Vec<&Value> {
        answers
            .iter()
            .filter(|answer| answer["line"] == line)
            .collect()
    };
    let answer = |line: u64, about: Value| {
        let mut answer = json!({"type": "steer-answer", "line": line});
        answer
            .as_object_mut()
            .unwrap()
            .extend(about.as_object().unwrap().clone());
        answer
    };
    assert_eq!(
        of(1),
        [
            &answer(1, json!({"id": "a", "status": "accepted"})),
            &answer(1, json!({"id": "a", "status": "taken", "step": 2}))
        ]
    );
    assert_eq!(
        of(2),
        [
            &answer(2, json!({"id": 2, "status": "accepted"})),
            &answer(
                2,
                json!({"id": 2, "status": "dropped", "step": 2, "by": "guard", "reason": "no secrets"})
            )
        ]
    );
    assert_eq!(of(3)[1]["status"], "taken");
    let refused: Vec<&Value> = (4..=9).map(|line| &of(line)[0]["reason"]).collect();
    assert_eq!(
        refused,
        [
            "the line is not one of {\"steer\"",
            "the line must have one of `steer`, `follow_up` and `cancel",
            "the text is empty",
            "the line is not one of {\"steer\"",
            "the line is longer than 1048576 bytes",
            "the line is incomplete: its line break is missing",
        ]
    );
    let lines = ran.json_lines();
    let end = lines
        .iter()
        .find(|event| event["type"] == "turn-end")
        .unwrap();
    assert_eq!(end["output"], "Both.\n\nAll three.");
}

#[test]
fn a_line_cancels_the_turn_and_the_next_comes_too_late() {
    let lines = b"{\"cancel\": true}\n{\"steer\": \"late\"}\n";
    let (_, ran) = steered(&["--json"], lines);
    let ran = ran.exits(130);
    let answers = answers(&ran);
    assert_eq!(
        answers[0],
        json!({"type": "steer-answer", "line": 1, "status": "accepted"})
    );
    assert_eq!(answers.last().unwrap()["status"], "too-late");
    assert_eq!(answers.last().unwrap()["line"], 2);
}

#[test]
fn people_read_the_answers_on_standard_error() {
    let (_, ran) = steered(&[], b"{\"id\": \"a\", \"steer\": \"my secret\"}\n\n");
    let ran = ran.exits(0);
    assert!(
        ran.stderr.contains("--steer-from line 1 (\"a\"): accepted"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("--steer-from line 1 (\"a\"): dropped by plugin guard at step 2: no secrets"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "Both.\n");
}

#[test]
fn standard_input_steers_where_the_prompt_does_not_read_it() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Done.\"\ntimes = 2\n");
    let ran = rind
        .run_with_input(&["run", "--steer-from", "-"], "{\"steer\": \"x\"}\n")
        .exits(2);
    assert!(
        ran.stderr.contains("`--steer-from -` reads standard input"),
        "{}",
        ran.stderr
    );
    let ran = rind.run_with_input(
        &["run", "go", "--steer-from", "-", "--json"],
        "{\"steer\": \"x\"}\n",
    );
    let ran = ran.exits(0);
    assert_eq!(answers(&ran)[0]["line"], 1);
    // Standard input is steering only and does not become a part of the prompt.
    let lines = ran.json_lines();
    let start = lines
        .iter()
        .find(|event| event["type"] == "turn-start")
        .unwrap();
    assert_eq!(start["input"], "go");
    for path in ["none", "."] {
        let ran = rind.run(&["run", "go", "--steer-from", path]).exits(2);
        assert!(ran.stderr.contains("--steer-from"), "{}", ran.stderr);
    }
}

#[test]
fn a_file_has_the_lines_of_the_stream_for_its_owner_alone() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Done.\"\n");
    let path: PathBuf = rind.home().join("events.jsonl");
    let ran = rind
        .run(&["run", "go", "--json", "--events", path.to_str().unwrap()])
        .exits(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), ran.stdout);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // The next run appends to the file of events.
    rind.script("[[reply]]\ntext = \"Done.\"\n");
    let again = rind
        .run(&["run", "go", "--events", path.to_str().unwrap()])
        .exits(0);
    assert_eq!(again.stdout, "Done.\n");
    let all = fs::read_to_string(&path).unwrap();
    assert!(all.starts_with(&ran.stdout) && all.len() > ran.stdout.len());
    let ran = rind.run(&["run", "go", "--events", "."]).exits(2);
    assert!(
        ran.stderr.contains("cannot open . of --events"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_full_disk_is_told_once_and_the_turn_goes_on() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Done.\"\n");
    let ran = rind.run(&["run", "go", "--events", "/dev/full"]).exits(0);
    assert_eq!(ran.stdout, "Done.\n");
    let told = "cannot write to /dev/full of --events; this event and later ones are missing there: No space left";
    assert_eq!(ran.stderr.matches(told).count(), 1, "{}", ran.stderr);
}

/// Makes a named pipe.
fn pipe(rind: &Rind) -> PathBuf {
    let pipe = rind.home().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    pipe
}

#[test]
fn lines_without_a_turn_come_too_late_and_the_command_is_an_event() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Done.\"\n");
    rind.managed("asker");
    let lines = rind.home().join("lines");
    fs::write(&lines, "{\"steer\": \"a\"}\n{\"follow_up\": \"b\"}\n").unwrap();
    let log = rind.home().join("events.jsonl");
    // A built-in command, a plugin's command, and one that fails.
    for (n, (line, code)) in [("/help", 0), ("/line on main", 0), ("/help none", 2)]
        .into_iter()
        .enumerate()
    {
        let args = [
            "run",
            line,
            "--json",
            "--steer-from",
            lines.to_str().unwrap(),
        ];
        let ran = rind.run(&[&args[..], &["--events", log.to_str().unwrap()]].concat());
        let ran = ran.exits(code);
        let last = |line: u64| {
            let mut answers = answers(&ran).into_iter().rev();
            let last = answers.find(|answer| answer["line"] == line)?;
            Some(last["status"].clone())
        };
        for n_line in [1, 2] {
            let last = last(n_line);
            assert_eq!(last, Some(json!("too-late")), "{line}: {}", ran.stdout);
        }
        let events = fs::read_to_string(&log).unwrap();
        assert_eq!(
            events.matches("\"type\":\"command\"").count(),
            n + 1,
            "{events}"
        );
    }
}

/// A model that makes a call, and a hook that is still running when the question about the call
/// opens.
fn with_late_hook() -> Rind {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"a\", content = \"b\" } }]\n\
         [[reply]]\ntext = \"Done.\"\n",
    );
    rind.config(
        "[hooks.scripts.late]\npoint = \"message-end\"\nasync = true\ntimeout_seconds = 60\n\
         command = [\"sh\", \"-c\", \"while [ ! -e asked ]; do sleep 0.05; done\"]\n",
    );
    rind
}

#[test]
fn programs_are_told_and_heard_while_a_question_is_open() {
    let rind = with_late_hook();
    let (pipe, log) = (pipe(&rind), rind.home().join("events.jsonl"));
    let args = ["run", "go", "--steer-from", pipe.to_str().unwrap()];
    let args = [&args[..], &["--events", log.to_str().unwrap()]].concat();
    let step = Step {
        once: "[n]o",
        meanwhile: Box::new(|| {
            rind.file("asked", "");
            let late = |event: &str| event.contains("\"hook\"") && event.contains("\"late\"");
            let has_come = || {
                let events = fs::read_to_string(&log).unwrap_or_default();
                events.lines().any(late)
            };
            let started = std::time::Instant::now();
            while !has_come() {
                assert!(started.elapsed() < Duration::from_secs(30), "it never came");
                std::thread::sleep(Duration::from_millis(20));
            }
            fs::write(&pipe, "{\"cancel\": true}\n").unwrap();
        }),
        typed: "",
    };
    let Some(screen) = rind.at_terminal_then(&args, "echo code $?", vec![step]) else {
        return;
    };
    assert!(screen.contains("code 130"), "{screen}");
    assert!(screen.contains("--steer-from line 1: accepted"), "{screen}");
    assert!(!rind.workspace().join("a").exists());
}

#[test]
fn a_chat_in_lines_tells_programs_while_a_question_is_open() {
    let rind = with_late_hook();
    let log = rind.home().join("events.jsonl");
    let args = ["chat", "go", "--plain", "--events", log.to_str().unwrap()];
    let Some(mut terminal) = rind.terminal(&args, (100, 30), &[]) else {
        return;
    };
    terminal.sees("[n]o");
    rind.file("asked", "");
    terminal.until("the hook in the file", |_| {
        let events = fs::read_to_string(&log).unwrap_or_default();
        events.contains("\"plugin\":\"late\"")
    });
    terminal.keys("y\n").sees("Done.");
    assert!(rind.workspace().join("a").exists());
}
