//! Tests of the queue on real folders with simulated turns.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rind_sdk::serde_json::{Value, from_slice, json};
use rind_sdk::turns::{TurnOrder, TurnReport, TurnSession};
use rind_sdk::types::Error;
use rind_sdk::waiting::Wakeup;
use rind_sdk::{LoopOutcome, store, testing};
use tempfile::TempDir;

use crate::folder::QueueFolder;
use crate::queue::run;

/// A queue in a temporary folder, and the turns that it ordered.
struct Queue {
    folder: TempDir,
    orders: Rc<RefCell<Vec<TurnOrder>>>,
}

fn turn_report(order: &TurnOrder, state: &str) -> TurnReport {
    TurnReport {
        session: "loop.queue.x".to_owned(),
        turn: 1,
        state: state.to_owned(),
        answer: format!("did: {}", order.input.trim()),
        steps: 1,
        tool_calls: 0,
        cost_usd: 0.5,
        unpriced_tokens: 0,
    }
}

impl Queue {
    fn new() -> Self {
        testing::reset();
        testing::set_config(json!({"settle_seconds": 0, "preset": "", "model": ""}));
        let folder = tempfile::tempdir().unwrap();
        testing::set_caller(testing::Caller {
            workspace: folder.path().to_str().unwrap().to_owned(),
            ..testing::Caller::default()
        });
        fs::create_dir(folder.path().join("queue")).unwrap();
        let queue = Self {
            folder,
            orders: Rc::default(),
        };
        queue.answer_turns_with(|order| Ok(turn_report(order, "done")));
        testing::answer_waits(|_| Ok(Wakeup::Shutdown));
        queue
    }

    fn answer_turns_with(
        &self,
        answer: impl Fn(&TurnOrder) -> Result<TurnReport, Error> + 'static,
    ) {
        let orders = self.orders.clone();
        testing::answer_turns(move |order| {
            orders.borrow_mut().push(order.clone());
            answer(&order)
        });
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("queue").join(name)
    }

    fn write_job(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read_job_result(&self, name: &str) -> Value {
        from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Returns the names of the files in a subfolder of the queue.
    fn file_names_in(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

fn run_and_get_reason() -> String {
    match run() {
        Ok(LoopOutcome::Again { reason, .. }) => reason,
        other => format!("{other:?}"),
    }
}

#[test]
fn a_job_runs_once_and_its_result_is_stored_next_to_it() {
    let queue = Queue::new();
    queue.write_job(
        "b.json",
        r#"{"input": "second", "session": "mail", "max_cost_usd": 2}"#,
    );
    queue.write_job("a.md", "first\n");
    queue.write_job("notes.txt", "no job");
    assert_eq!(run_and_get_reason(), "a.md done: did: first");
    assert_eq!(run_and_get_reason(), "b.json done: did: second");
    assert_eq!(run_and_get_reason(), "the host ends");
    let result = queue.read_job_result("a.result.json");
    assert_eq!(
        (&result["state"], &result["job"]),
        (&json!("done"), &json!("a.md"))
    );
    let id = result["id"].as_str().unwrap();
    assert_eq!(queue.file_names_in("done").len(), 2);
    assert!(queue.file_names_in("claimed").is_empty());
    let orders = queue.orders.borrow();
    assert_eq!(orders[0].input_id.as_deref(), Some(&*format!("{id}.1")));
    assert_eq!(orders[0].session, TurnSession::Named(format!("job-{id}")));
    assert_eq!(orders[1].session, TurnSession::Named("s-mail".to_owned()));
    assert_eq!(orders[1].max_cost_usd, Some(2.0));
}

#[test]
fn a_second_job_of_the_same_name_does_not_overwrite_the_result_of_the_first() {
    let queue = Queue::new();
    queue.write_job("a.md", "first");
    run_and_get_reason();
    queue.write_job("a.md", "second");
    run_and_get_reason();
    assert_eq!(
        queue.read_job_result("a.result.json")["answer"],
        "did: first"
    );
    let names = queue.file_names_in("");
    let other = names
        .iter()
        .find(|name| name.starts_with("a.") && name.len() > 20);
    assert_eq!(
        queue.read_job_result(other.unwrap())["answer"],
        "did: second"
    );
}

#[test]
fn a_crash_at_any_step_loses_no_job_and_writes_no_result_twice() {
    let root = |queue: &Queue| QueueFolder::open(queue.path("")).unwrap();
    // A crash after the claim.
    let queue = Queue::new();
    queue.write_job("a.md", "work");
    root(&queue).claim_job("a.md", "1").unwrap().unwrap();
    assert_eq!(run_and_get_reason(), "a.md done: did: work");
    assert_eq!(queue.orders.borrow()[0].input_id.as_deref(), Some("1.1"));
    // A crash while the result was written.
    let queue = Queue::new();
    queue.write_job("a.md", "work");
    root(&queue).claim_job("a.md", "1").unwrap().unwrap();
    fs::write(queue.path("claimed/1.result"), "{\"id\": ").unwrap();
    assert_eq!(run_and_get_reason(), "a.md done: did: work");
    assert_eq!(queue.read_job_result("a.result.json")["id"], "1");
    // A crash after the result was written: the turn is not repeated.
    for state in ["done", "failed"] {
        let queue = Queue::new();
        queue.write_job("a.md", "work");
        root(&queue).claim_job("a.md", "1").unwrap().unwrap();
        let result = format!(r#"{{"id": "1", "state": "{state}"}}"#);
        fs::write(queue.path("a.result.json"), result).unwrap();
        assert_eq!(run_and_get_reason(), format!("a.md ended before: {state}"));
        assert!(queue.orders.borrow().is_empty());
        assert!(queue.file_names_in("claimed").is_empty());
        assert_eq!(queue.file_names_in(state), ["1~a.md"]);
    }
    // A result file that has the job's name but contains another job's id is ignored: the job runs.
    let queue = Queue::new();
    queue.write_job("a.md", "work");
    root(&queue).claim_job("a.md", "2").unwrap().unwrap();
    fs::write(
        queue.path("a.result.json"),
        r#"{"id": "1", "state": "done"}"#,
    )
    .unwrap();
    assert_eq!(run_and_get_reason(), "a.md done: did: work");
    assert_eq!(queue.read_job_result("a.2.result.json")["id"], "2");
}

#[test]
fn a_job_interrupted_by_the_end_of_the_host_continues_at_the_next_start() {
    let queue = Queue::new();
    queue.write_job("a.md", "work");
    queue.answer_turns_with(|order| Ok(turn_report(order, "cancelled")));
    assert_eq!(run_and_get_reason(), "the host ends");
    assert_eq!(queue.file_names_in("claimed").len(), 1);
    queue.answer_turns_with(|order| Ok(turn_report(order, "done")));
    assert_eq!(run_and_get_reason(), "a.md done: did: work");
    let ids: Vec<_> = queue
        .orders
        .borrow()
        .iter()
        .map(|order| order.input_id.clone())
        .collect();
    assert!(ids[0].as_deref().unwrap().ends_with(".1"), "{ids:?}");
    assert!(ids[1].as_deref().unwrap().ends_with(".2"), "{ids:?}");
    assert!(store::keys("").unwrap().is_empty());
}

#[test]
fn a_job_that_a_person_interrupts_has_that_as_its_result() {
    let queue = Queue::new();
    queue.write_job("a.md", "work");
    queue.answer_turns_with(|order| Ok(turn_report(order, "cancelled")));
    testing::answer_waits(|_| Ok(Wakeup::Timer));
    assert_eq!(run_and_get_reason(), "a.md cancelled: did: work");
    assert_eq!(queue.file_names_in("failed").len(), 1);
}

#[test]
fn temporary_refusals_are_retried_and_other_errors_fail_the_job() {
    let queue = Queue::new();
    queue.write_job("a.md", "work");
    testing::answer_waits(|_| Ok(Wakeup::Timer));
    let n = RefCell::new(0);
    queue.answer_turns_with(move |order| {
        *n.borrow_mut() += 1;
        match *n.borrow() {
            1..=5 => Err(Error::Limit("20 turns of this minute".to_owned())),
            _ => Ok(turn_report(order, "done")),
        }
    });
    assert_eq!(run_and_get_reason(), "a.md done: did: work");
    queue.write_job("b.md", "work");
    queue.answer_turns_with(|_| Err(Error::Failed("the session is open elsewhere".to_owned())));
    assert_eq!(
        run_and_get_reason(),
        "b.md failed: the session is open elsewhere"
    );
    assert_eq!(queue.read_job_result("b.result.json")["state"], "failed");
}

#[test]
fn files_that_are_not_jobs_are_moved_to_failed_with_the_reason() {
    let queue = Queue::new();
    std::os::unix::fs::symlink("/etc/passwd", queue.path("a.md")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(queue.path("b.md")).unwrap();
    fs::create_dir(queue.path("c.md")).unwrap();
    let huge = fs::File::create(queue.path("d.md")).unwrap();
    huge.set_len(1 << 30).unwrap();
    queue.write_job("e.json", r#"{"input": "x", "inptu": 1}"#);
    queue.write_job("f.md", " \n");
    fs::write(queue.path("g.md"), [0xff, 0xfe]).unwrap();
    for (name, why) in [
        ("a", "no link, pipe or folder"),
        ("b", "no link, pipe or folder"),
        ("c", "no link, pipe or folder"),
        ("d", "1073741824 bytes, at most"),
        ("e", "unknown field `inptu`"),
        ("f", "is empty"),
        ("g", "no UTF-8"),
    ] {
        let reason = run_and_get_reason();
        assert!(reason.starts_with(name) && reason.contains(why), "{reason}");
        assert_eq!(
            queue.read_job_result(&format!("{name}.result.json"))["state"],
            "failed"
        );
    }
    assert!(queue.orders.borrow().is_empty());
    assert_eq!(queue.file_names_in("failed").len(), 7);
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn a_file_that_is_still_being_written_is_not_claimed() {
    let queue = Queue::new();
    let folder = QueueFolder::open(queue.path("")).unwrap();
    queue.write_job("a.md", "half");
    let settle = Duration::from_secs(3600);
    let left = folder
        .find_next_ready_job(settle)
        .unwrap()
        .unwrap_err()
        .unwrap();
    assert!(left > Duration::from_secs(3500), "{left:?}");
    assert_eq!(
        folder.find_next_ready_job(Duration::ZERO).unwrap(),
        Ok("a.md".to_owned())
    );
    // Hidden files, results, and names that would be too long with an id are not jobs.
    fs::remove_file(queue.path("a.md")).unwrap();
    for name in [".a.md", "a.result.json", &format!("{}.md", "x".repeat(200))] {
        queue.write_job(name, "x");
    }
    assert_eq!(
        folder.find_next_ready_job(Duration::ZERO).unwrap(),
        Err(None)
    );
}
