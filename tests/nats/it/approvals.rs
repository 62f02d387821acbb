//! Tests that approvals by people move with a session from worker to worker.

use std::sync::Arc;

use rind_lib::session::{Body, SessionStore};
use rind_nats_tests::Machine;

use super::front::{answer, send, start};

/// A model that runs the same command in each turn.
const SAME_COMMAND: &str = r#"
[[reply]]
when = { contains = "run it", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "mkdir -p made" } }]
[[reply]]
times = 0
text = "Done."
"#;

#[test]
fn always_of_a_person_holds_at_the_next_worker_of_the_session_and_in_no_other_session() {
    let (_servers, sessions, mut machine) = start(SAME_COMMAND);
    let worker = machine.start_worker(&["--ask", "60"]);
    machine.start_front(&[]);
    let turns = |machine: &Machine, session: &str, n: usize| {
        machine.wait_for("the end of the turn", |machine| {
            let shown = machine.get(&format!("/v1/sessions/{session}"));
            let turns = shown.json()["turns"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            turns.len() == n && turns.iter().all(|turn| turn["stop"] == "done")
        });
    };
    send(&machine, "s", "i-1", "run it");
    let question = machine.question(None);
    assert_eq!(answer(&machine, &question, "always"), 204);
    turns(&machine, "s", 1);
    let store = SessionStore::with_backend(Arc::new(sessions));
    let (entries, _) = store.read_entries("s").unwrap();
    let recorded = entries.iter().find_map(|entry| match &entry.body {
        Body::Allowed { parts, .. } => Some(parts.len()),
        _ => None,
    });
    assert_eq!(recorded, Some(1));
    std::fs::remove_dir(machine.path("workspace/made")).unwrap();
    machine.kill(worker);
    machine.start_worker(&["--ask", "60"]);
    send(&machine, "s", "i-2", "run it");
    // No person answers a question here, so the turn can only end if none is asked.
    turns(&machine, "s", 2);
    assert!(machine.path("workspace/made").exists());
    send(&machine, "other", "i-1", "run it");
    let question = machine.question(None);
    assert_eq!(question["session"], "other");
    assert_eq!(answer(&machine, &question, "no"), 204);
}
