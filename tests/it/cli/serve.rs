//! `rind serve`: a process that runs loops until they are done or a signal arrives.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::Value;

const DONE: &str = "[[reply]]\ntext = \"done\"\ntimes = 0\n";

/// A machine with one plugin per pair of a name and the behavior of the plugin's loop.
fn with(loops: &[(&str, &str)]) -> Rind {
    let rind = Rind::with_script(DONE);
    for (name, how) in loops {
        guests::put("looper", &rind.home().join("managed"), |manifest| {
            manifest
                .replace("name = \"looper\"", &format!("name = \"{name}\""))
                .replace("default = \"done\"", &format!("default = \"{how}\""))
        });
    }
    rind
}

/// Texts of all session files of a machine.
fn sessions(rind: &Rind) -> Vec<String> {
    let folders = std::fs::read_dir(rind.home().join("data/sessions"));
    let folders = folders.into_iter().flatten().flatten();
    let files = folders.map(|folder| folder.path().join("session.jsonl"));
    files
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .collect()
}

/// Returns a check whether the sessions record at least `n` runs of loops.
fn has_runs(n: usize) -> impl Fn(&Rind) -> bool {
    move |rind| {
        let count = |text: &String| text.matches("\"type\":\"loop-run\"").count();
        sessions(rind).iter().map(count).sum::<usize>() >= n
    }
}

#[test]
fn loops_that_are_done_end_the_program_and_each_run_is_a_line() {
    let rind = with(&[("heart", "three")]);
    assert_snapshot!(rind.run(&["serve"]).screen(), @r"
    exit 0
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    serving heart; Ctrl-C ends it
    heart session [SESSION] (new)
    heart beat 1 · runs again in [T]
    heart beat 2 · runs again in [T]
    heart done [T]
    ");
}

#[test]
fn signals_end_running_and_waiting_loops_cleanly() {
    for signal in ["TERM", "INT"] {
        let rind = with(&[("clock", "ages"), ("heart", "busy"), ("spin", "spin")]);
        let mut serving = rind.start(&["serve"]);
        serving.wait_until(has_runs(3));
        serving.signal(signal);
        let ran = serving.end().exits(130);
        for name in ["clock", "heart", "spin"] {
            let line = format!("{name} interrupted");
            assert!(ran.stderr.contains(&line), "{line}\n{}", ran.stderr);
        }
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        // Every line of the session files is complete.
        for session in sessions(&rind) {
            assert!(session.ends_with('\n'));
            session
                .lines()
                .for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
        }
    }
}

#[test]
fn without_a_loop_it_says_what_to_do() {
    let rind = Rind::with_script(DONE);
    rind.managed("hello");
    assert_snapshot!(rind.run(&["serve"]).screen(), @r"
    exit 2
    ---- stderr
    error: no running plugin has a loop, so there is nothing to serve: name a plugin that has one with --plugin, or see `rind plugin list` for why one does not run; `rind plugin new NAME --kind loop` makes one; --listen serves the HTTP API
    ");
}

#[test]
fn events_are_lines_of_json_that_name_their_session() {
    let rind = with(&[("clock", "done"), ("heart", "three")]);
    let file = rind.workspace().join("events.jsonl");
    let args = ["serve", "--json", "--events", file.to_str().unwrap()];
    let ran = rind.run(&args).exits(0);
    let lines = ran.json_lines();
    let of = |kind: &str| {
        lines
            .iter()
            .filter(|line| line["type"] == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("session-opened").len(), 2);
    let runs = of("loop-run");
    assert_eq!(runs.len(), 4);
    let session = |plugin: &str| {
        let run = runs.iter().find(|run| run["plugin"] == plugin);
        run.unwrap()["session"].as_str().unwrap().to_owned()
    };
    assert_ne!(session("clock"), session("heart"));
    let waits = of("loop-wait");
    assert_eq!(waits[0]["delay_ms"], 100);
    assert_eq!(waits[0]["reason"], "beat 1");
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let written = std::fs::read_to_string(file).unwrap();
    assert_eq!(written.lines().count(), lines.len());
}

#[test]
fn a_failure_is_a_line_with_its_reason_and_the_next_run() {
    let rind = with(&[("bad", "fail")]);
    let mut serving = rind.start(&["serve"]);
    serving.wait_until(has_runs(2));
    serving.signal("TERM");
    let ran = serving.end().exits(130);
    for line in [
        "bad failed: the call reported an error: the well is dry\\u{1b}[2K · runs again in 1.0 s\n",
        "bad failed: the call reported an error: the well is dry\\u{1b}[2K · 2 times in a row · runs again in 2.0 s\n",
    ] {
        assert!(ran.stderr.contains(line), "{line}\n{}", ran.stderr);
    }
}

#[test]
fn nobody_is_asked_and_yes_allows_what_would_be_asked() {
    for (flags, is_written) in [(&["serve"][..], false), (&["serve", "--yes"], true)] {
        let rind = with(&[("heart", "write")]);
        let mut serving = rind.start(flags);
        serving.wait_until(has_runs(1));
        serving.signal("INT");
        let ran = serving.end().exits(130);
        let file = rind.workspace().join("beat-1.txt");
        assert_eq!(file.exists(), is_written, "{}", ran.stderr);
        assert_eq!(
            ran.stderr.contains("needs approval"),
            !is_written,
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_reader_that_reads_nothing_holds_runs_back_and_does_not_keep_the_program_from_ending() {
    let rind = with(&[("heart", "tell")]);
    // One run writes more than the buffer of a pipe holds, so the second run has to wait.
    let mut serving = rind.start(&["serve", "--json"]);
    serving.wait_until(has_runs(1));
    std::thread::sleep(Duration::from_secs(2));
    assert!(!has_runs(2)(&rind));
    serving.signal("TERM");
    let started = Instant::now();
    assert_eq!(serving.wait(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn listings_show_the_loop_and_how_long_a_run_may_take() {
    let rind = with(&[("heart", "three")]);
    let list = rind.run(&["plugin", "list"]).exits(0).stdout;
    assert!(
        list.lines()
            .any(|line| line.contains("heart") && line.trim_end().ends_with("loop")),
        "{list}"
    );
    let report = rind.run(&["plugin", "inspect", "heart"]).exits(0).stdout;
    let line = "each run takes at most 2.0 s (runs with its permissions while `rind serve` runs)";
    assert!(report.contains(line), "{report}");
}
