//! `rind demo`, which is what a new user sees first.

use rind_tests::cli::{Ran, Rind, masked};
use rind_tests::guests;

fn demo(args: &[&str]) -> Ran {
    // Built once before, so that its cargo call finds everything done.
    let _ = guests::guest("hello");
    let rind = Rind::default();
    let ran = rind
        .finish(rind.command(args).current_dir(guests::workspace()))
        .exits(0);
    let list = rind.run(&["plugin", "list"]).exits(0).stdout;
    assert_eq!(
        list.lines().count(),
        10,
        "the core is there for later runs, and no example: {list}"
    );
    ran
}

#[test]
fn the_demo_shows_every_first_party_plugin_at_work() {
    let ran = demo(&["demo"]);
    assert!(
        ran.stdout.starts_with("The station is calibrated"),
        "{}",
        ran.stdout
    );
    let screen = masked(&ran.stderr);
    for line in [
        "    ▲ injection-guard possible prompt injection in the result of `read_file`: it says to drop",
        "    pre-reason injection-guard [T] changed inject",
        "      ▲ loop-detection `station.toml` edited 5 times",
        "      ▲ loop-detection `station.toml` edited 6 times",
        "      post-tool tool-output-sandbox [T] changed content",
        "    ● read_output of tool-output-sandbox {\"handle\":\"out-1\",\"search\":\"level_cm=31\"}",
        "    ● greet of hello {\"name\":\"Ada\"}",
        "  pre-output, post-output, turn-end [T] 8 hooks passed",
        "    ▲ pre-completion-checklist answer sent back: nothing has checked `station.toml`",
        "11 steps · 10 tool calls · ",
    ] {
        let squeezed = screen
            .lines()
            .map(squeeze)
            .any(|shown| shown.starts_with(line));
        assert!(squeezed, "{line}\n{screen}");
    }
    assert!(!screen.contains("edited 4 times"), "{screen}");
    let n_timed = ran
        .stderr
        .lines()
        .filter(|line| line.contains(" µs "))
        .count();
    assert!(
        n_timed >= 10,
        "hook lines carry microseconds\n{}",
        ran.stderr
    );
    assert!(
        !screen.contains("✗") && !screen.contains("error"),
        "{screen}"
    );
}

/// The line with its columns one space apart; what it is indented by stays.
fn squeeze(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let words: Vec<&str> = line.split_whitespace().collect();
    format!("{}{}", &line[..indent], words.join(" "))
}

#[test]
fn the_demo_as_json_is_one_event_a_line() {
    let ran = demo(&["demo", "--json"]);
    let events = ran.json_lines();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(events[0]["type"], "session-opened");
    assert_eq!(events.last().unwrap()["type"], "turn-end");
    // One more end than starts is a call that was refused: the notices say by whom.
    let calls = (of("tool-start"), of("tool-end"));
    assert_eq!(calls, (10, 10), "{}\n{}", ran.stderr, ran.stdout);
    assert_eq!(of("step-start"), 11);
    let hook = events.iter().find(|event| event["type"] == "hook").unwrap();
    assert!(hook["micros"].as_f64().unwrap() > 0.0, "{hook}");
}
