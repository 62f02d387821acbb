//! Kills the program at random moments of archival and compaction: nothing may be lost or archived
//! twice.

use std::path::PathBuf;
use std::time::Duration;

use rind_tests::cli::Rind;
use serde_json::Value;

/// Number of kills. `RIND_TEST_KILLS` sets more for a longer test.
const N_KILLS: usize = 12;

const CONFIG: &str = "[subagents]\nenabled = true\n[archival]\nenabled = true\n[archival.trigger]\ntool_call_threshold = 2\n\
     [agent.compact]\nthreshold_tokens = 3000\nkeep_tokens = 300\nkeep_last_messages = 1\nmax_summary_tokens = 300\n";

/// A model that reads a file in four calls per turn, and writes summaries.
const SCRIPT: &str = r#"
[[reply]]
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }, { name = "read_file", arguments = { path = "b.txt" } }]
delay_ms = 5
[[reply]]
tool_calls = [{ name = "read_file", arguments = { path = "b.txt" } }, { name = "spawn_subagent", arguments = { task = "Look" } }]
delay_ms = 5
[[reply]]
text = "done"
times = 0
[[reply]]
when = { contains = "Sum up this turn." }
text = "It was read."
times = 0
"#;

/// Returns the path and the content of the session's file.
fn file(rind: &Rind) -> (PathBuf, Vec<u8>) {
    let sessions = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let mut files = sessions.map(|entry| entry.unwrap().path().join("session.jsonl"));
    let file = files.find(|file| file.is_file()).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    (file, bytes)
}

fn faults(rind: &Rind) -> Vec<Value> {
    let ran = rind.run(&["session", "doctor", "--json"]);
    let found: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stderr));
    let all = found.as_array().unwrap().iter();
    all.flat_map(|own| own["faults"].as_array().unwrap().clone())
        .collect()
}

#[test]
fn a_kill_at_any_moment_loses_nothing_and_leaves_nothing_that_a_doctor_finds() {
    let n_kills = std::env::var("RIND_TEST_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(N_KILLS);
    let rind = Rind::with_script(SCRIPT);
    rind.config(CONFIG);
    rind.file("a.txt", &"alpha is a letter of the alphabet\n".repeat(40));
    rind.file("b.txt", &"beta is a letter of the alphabet\n".repeat(60));
    let started = std::time::Instant::now();
    rind.run(&["run", "--no-plugins", "turn 0"]).exits(0);
    let whole = started.elapsed().as_millis() as u64;
    let mut before = file(&rind).1;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for n in 1..=n_kills {
        let input = format!("turn {n}");
        let mut running = rind.start(&["run", "--no-plugins", "--resume", "last", &input]);
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Waits at least a third of a complete run, because archival and compaction come late in
        // it.
        let wait = whole / 3 + seed % whole.max(1);
        std::thread::sleep(Duration::from_millis(wait));
        running.signal_if_running("KILL");
        drop(running);
        let after = file(&rind).1;
        assert!(after.starts_with(&before), "{n}: the file was rewritten");
        assert_eq!(
            faults(&rind),
            Vec::<Value>::new(),
            "after kill {n} at {wait} ms"
        );
        before = after;
    }
    // Runs that are not killed archive the turns that are due, at most four per run.
    for n in 0..n_kills / 3 + 3 {
        rind.run(&[
            "run",
            "--no-plugins",
            "--resume",
            "last",
            &format!("last {n}"),
        ])
        .exits(0);
    }
    assert_eq!(faults(&rind), Vec::<Value>::new());
    let held: Vec<String> = rind
        .entries("replaced")
        .iter()
        .filter_map(|entry| Some(entry["holder"]["agent"].as_str()?.to_owned()))
        .collect();
    let mut unique = held.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), held.len(), "a turn was archived twice");
    let due = rind.entries("archival");
    let mut open: Vec<&Value> = due
        .iter()
        .filter(|entry| entry["is_over"] == false)
        .map(|entry| &entry["turn"])
        .collect();
    let over: Vec<&Value> = due
        .iter()
        .filter(|entry| entry["is_over"] == true)
        .map(|entry| &entry["turn"])
        .collect();
    open.retain(|turn| !over.contains(turn));
    // Only the last turn may still be due.
    assert!(open.len() <= 1, "{open:?} are due");
    let turns: std::collections::BTreeSet<String> = over.iter().map(ToString::to_string).collect();
    assert_eq!(
        held.len(),
        turns.len(),
        "each turn that is over has its holder"
    );
    for id in held {
        let shown = rind
            .run(&["session", "show", &format!("last/agents/{id}")])
            .exits(0)
            .stdout;
        assert!(
            shown.contains("turn-end") || shown.contains("done"),
            "{shown}"
        );
    }
}
