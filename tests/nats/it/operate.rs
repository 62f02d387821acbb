//! Tests of `rind worker`, `rind cluster` and `rind run --nats`, also with workers that are paused
//! or end.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rind_nats::call::SessionRequestMessenger;
use rind_nats_tests::Machine;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::front::start;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nats-rind");

const SCRIPT: &str = r#"
[[reply]]
when = { contains = "run it", step = 1 }
times = 0
text = "I run it."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
[[reply]]
when = { contains = "twice", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
[[reply]]
when = { contains = "twice", step = 2 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
[[reply]]
when = { after_tool = "bash" }
times = 0
text = "It ran."
[[reply]]
when = { contains = "soon", step = 1 }
times = 0
delay_ms = 1500
text = "Soon."
[[reply]]
when = { contains = "slowly", step = 1 }
times = 0
delay_ms = 20000
text = "Slow."
[[reply]]
times = 0
text = "Fine."
"#;

fn signal(id: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn send(machine: &Machine, session: &str, text: &str) {
    machine.output(&["cluster", "send"], &["--session", session, text]);
}

fn text_of(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(both).unwrap()
}

fn is_running(machine: &Machine, session: &str) -> bool {
    let shown = machine.get(&format!("/v1/sessions/{session}"));
    shown.status == 200 && shown.json()["is_running"] == true
}

#[test]
fn the_commands_of_an_operator_say_what_is_and_what_they_did() {
    let (servers, _sessions, mut machine) = start(SCRIPT);
    let status = text_of(&machine.run(&["cluster", "status"], &[]));
    for part in ["0 sessions", "no worker answered", "1 replicas"] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let none = machine.run(&["cluster", "drain"], &["shop"]);
    assert!(
        !none.status.success()
            && text_of(&none).contains("no worker with the name or class `shop` answered")
    );
    for (args, why) in [
        (["--session", "a/b", "x"], "is not a session id"),
        (["--session", "*", "x"], "is not a session id"),
        (["--class=NO", "--session=s", "x"], "a class of workers has"),
    ] {
        let refused = machine.run(&["cluster", "send"], &args);
        assert!(
            !refused.status.success() && text_of(&refused).contains(why),
            "{refused:?}"
        );
    }
    let sent = machine.output(
        &["cluster", "send"],
        &["--session=s", "--input-id=i-1", "hello"],
    );
    assert_eq!(sent, "input i-1 is stored for session s\n");
    let status = text_of(&machine.run(&["cluster", "status"], &[]));
    assert!(status.contains("1 with inputs that wait"), "{status}");
    assert!(
        status.contains("class default: 1 sessions with work"),
        "{status}"
    );

    let worker = machine.start_worker(&["--slots", "2"]);
    let ended = machine.output(&["run"], &["--session=s", "--input-id=i-1", "hello"]);
    assert_eq!(ended, "Fine.\n");
    let [worker_row] = &machine.workers()[..] else {
        panic!("{:?}", machine.workers());
    };
    assert_eq!(worker_row["slots"], 2);

    // The input of an unreadable session becomes a dead letter with the cause.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(servers.urls()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        for stream in ["rind.t.log.0.bad._", "rind.t.log.1.bad._"] {
            let sent = context
                .publish(stream, "no session\n".into())
                .await
                .unwrap();
            sent.await.unwrap();
        }
    });
    send(&machine, "bad", "hello");
    machine.wait_for("the dead letter", |machine| {
        machine
            .output(&["cluster", "dead"], &[])
            .contains("bad input")
    });
    let dead = machine.output(&["cluster", "dead"], &[]);
    assert!(
        dead.contains("5 attempts") && dead.contains("is damaged in the store"),
        "{dead}"
    );
    let json: Value =
        serde_json::from_str(&machine.output(&["cluster", "dead"], &["--json"])).unwrap();
    assert_eq!(json[0]["session"], "bad");
    assert_eq!(
        machine.output(&["cluster", "replay"], &["bad"]),
        "1 inputs were sent again\n"
    );
    assert_eq!(
        machine.output(&["cluster", "replay"], &["bad"]),
        "0 inputs were sent again\n"
    );

    let drained = machine.output(&["cluster", "drain"], &["default"]);
    assert!(
        drained.contains(&format!("worker default-{worker} (default)")),
        "{drained}"
    );
    assert!(drained.contains("draining"), "{drained}");
    assert!(machine.child(worker).wait().unwrap().success());
    let log = machine.logs();
    assert!(log.contains("ended: 2 turns"), "{log}");
}

/// Returns the check of this name from the report of `rind doctor`.
fn check(machine: &Machine, args: &[&str], name: &str) -> Value {
    let output = machine.run(&["doctor"], &[&["--json"], args].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|own| own["name"] == name);
    found.unwrap_or_else(|| panic!("{report}")).clone()
}

#[test]
fn the_doctor_says_what_the_servers_keep_and_whether_workers_are_there() {
    let (_servers, _sessions, mut machine) = start(SCRIPT);
    let kept = check(&machine, &[], "sessions on NATS");
    assert_eq!(kept["state"], "weaker");
    assert!(
        kept["means"].as_str().unwrap().contains("is not declared"),
        "{kept}"
    );
    assert_eq!(check(&machine, &[], "workers")["state"], "ok");
    send(&machine, "s", "hello");
    let waits = check(&machine, &["--sync-interval", "always"], "workers");
    assert_eq!(waits["state"], "weaker");
    assert!(
        waits["means"]
            .as_str()
            .unwrap()
            .contains("the class default wait"),
        "{waits}"
    );
    machine.start_worker(&[]);
    machine.wait_for("the turn", |machine| {
        machine
            .workers()
            .first()
            .is_some_and(|own| own["turns"] == 1)
    });
    assert_eq!(check(&machine, &[], "workers")["state"], "ok");
    let nowhere = Machine::new(PROGRAM, "nats://127.0.0.1:1", SCRIPT);
    let missing = check(&nowhere, &[], "sessions on NATS");
    assert_eq!(
        (&missing["state"], &missing["required"]),
        (&json!("missing"), &json!(true))
    );
}

/// Starts an HTTP server that accepts all requests. Returns its address and a channel of their
/// bodies.
fn collector() -> (String, std::sync::mpsc::Receiver<Vec<u8>>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream
                .set_read_timeout(Some(Duration::from_millis(300)))
                .unwrap();
            let mut body = Vec::new();
            let _ = stream.read_to_end(&mut body);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = sender.send(body);
        }
    });
    (address, bodies)
}

#[test]
fn a_worker_sends_its_numbers_to_a_collector() {
    let (_servers, _sessions, mut machine) = start(SCRIPT);
    let (address, bodies) = collector();
    machine.set_variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &address);
    machine.set_variable("OTEL_METRIC_EXPORT_INTERVAL", "500");
    machine.start_worker(&[]);
    send(&machine, "s", "hello");
    machine.wait_for("the turn", |machine| {
        machine
            .workers()
            .first()
            .is_some_and(|own| own["turns"] == 1)
    });
    let until = Instant::now() + Duration::from_secs(30);
    let mut text = String::new();
    while !text.contains("rind.worker.turns") && Instant::now() < until {
        let body = bodies.recv_timeout(Duration::from_secs(30)).unwrap();
        text = String::from_utf8_lossy(&body).into_owned();
    }
    for name in [
        "rind.worker.slots",
        "rind.worker.claims",
        "rind.worker.fences",
        "rind.queue.age",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(
        text.contains("rind.class") && text.contains("default"),
        "{text}"
    );
    // The exported figures contain no text of the session.
    assert!(!text.contains("hello") && !text.contains("Fine."), "{text}");
}

#[test]
fn a_worker_that_was_paused_past_its_lease_says_that_another_has_the_session() {
    let (_servers, sessions, mut machine) = start(SCRIPT);
    let paused = machine.start_worker(&["--ask", "120"]);
    machine.start_front(&[]);
    send(&machine, "s", "do it, twice if need be");
    let first = machine.question(None);
    signal(paused, Signal::STOP);
    let late = machine.post("/v1/sessions/s/interrupt", &json!({}));
    assert!(
        late.has_status(503)
            .body
            .contains("may have received the request")
    );
    machine.start_worker(&["--ask", "120"]);
    let second = machine.question(Some(&first));
    // After it continues, the first worker still has its question open, but can no longer run the
    // call.
    signal(paused, Signal::CONT);
    machine.wait_for("the message of the first worker", |machine| {
        let fenced = machine.workers().iter().any(|own| own["fenced"] == 1);
        fenced
            && machine
                .logs()
                .contains("another worker has continued the session")
    });
    let answer = |question: &Value| {
        let path = format!("/v1/questions/{}", question["id"].as_str().unwrap());
        machine.post(&path, &json!({"answer": "yes"})).status
    };
    assert_eq!(answer(&first), 404);
    assert!(!machine.path("workspace/made").exists());
    assert_eq!(answer(&second), 204);
    machine.wait_for("the end", |machine| {
        machine.get("/v1/sessions/s").body.contains("It ran.")
            && !SessionRequestMessenger::new(&sessions).is_held_now("s")
    });
    let made = std::fs::read_to_string(machine.path("workspace/made")).unwrap();
    assert_eq!(made, "made\n");
    // The two workers still run turns.
    for session in ["a", "b", "c"] {
        send(&machine, session, "hello");
    }
    machine.wait_for("the other turns", |machine| {
        let turns = machine
            .workers()
            .iter()
            .filter_map(|own| own["turns"].as_u64())
            .sum::<u64>();
        // The sum may exceed 4: an input that both workers had counts twice, because the session
        // returned its outcome again.
        turns >= 4
    });
}

/// Blocking variant of `SessionRequestMessenger::is_session_held`, for tests without a runtime.
trait IsHeldNow {
    fn is_held_now(&self, session: &str) -> bool;
}

impl IsHeldNow for SessionRequestMessenger {
    fn is_held_now(&self, session: &str) -> bool {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(self.is_session_held(session)).unwrap()
    }
}

#[test]
fn a_turn_that_runs_elsewhere_is_followed_and_interrupted_from_the_terminal() {
    let (_servers, _sessions, mut machine) = start(SCRIPT);
    machine.start_worker(&["--ask", "60"]);
    machine.start_front(&[]);
    let mut run = machine.command(&["run"], &["--session", "s", "run it"]);
    let running = run.stdin(Stdio::null()).spawn().unwrap();
    let question = machine.question(None);
    std::thread::sleep(Duration::from_secs(1));
    let path = format!("/v1/questions/{}", question["id"].as_str().unwrap());
    assert_eq!(machine.post(&path, &json!({"answer": "yes"})).status, 204);
    let output = running.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "It ran.\n");
    assert!(errors.contains("waits for an answer"), "{errors}");
    assert!(
        errors.contains("bash") && errors.contains("echo made"),
        "{errors}"
    );

    let began = Instant::now();
    let mut run = machine.command(&["run"], &["--session", "s", "go slowly"]);
    let running = run.spawn().unwrap();
    machine.wait_for("the slow turn", |machine| is_running(machine, "s"));
    std::thread::sleep(Duration::from_millis(500));
    signal(running.id(), Signal::INT);
    let output = running.wait_with_output().unwrap();
    let errors = text_of(&output);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(began.elapsed() < Duration::from_secs(15), "{errors}");
    assert!(errors.contains("interrupted; Ctrl-C again"), "{errors}");

    let events = machine.output(&["run"], &["--session=s", "--json", "soon"]);
    let kinds: Vec<String> = events
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let (first, last) = (kinds.first().unwrap(), kinds.last().unwrap());
    assert_eq!((first.as_str(), last.as_str()), ("turn-start", "turn-end"));
    // Sending the same input again returns its outcome without events.
    let args = ["--session=s", "--input-id=i-9", "hello"];
    assert_eq!(machine.output(&["run"], &args), "Fine.\n");
    let again = machine.output(&["run"], &[&["--json"], &args[..]].concat());
    let end: Value = serde_json::from_str(again.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&end["type"], &end["output"]),
        (&json!("turn-end"), &json!("Fine."))
    );
}

#[test]
fn a_server_whose_turns_workers_run_keeps_inputs_until_one_is_free() {
    let (_servers, _sessions, mut machine) = start(SCRIPT);
    machine.start_front(&["--class", "default"]);
    let made = machine.post("/v1/sessions", &json!({"id": "s"}));
    assert_eq!(made.has_status(201).json()["id"], "s");
    let turn = json!({"text": "soon", "input_id": "i-1"});
    for _ in 0..2 {
        let accepted = machine.post("/v1/sessions/s/turns", &turn);
        assert_eq!(accepted.has_status(202).json()["session"], "s");
    }
    for (body, status) in [
        (json!({"text": "x", "max_cost_usd": 1}), 400),
        (json!({"text": "x", "input_id": "a b"}), 400),
        (json!({"text": "x".repeat(600 << 10)}), 400),
    ] {
        assert_eq!(machine.post("/v1/sessions/s/turns", &body).status, status);
    }
    assert_eq!(
        machine.post("/v1/sessions", &json!({"id": "a b"})).status,
        400
    );
    // A client that waits for events gets those of a worker that starts later.
    std::thread::scope(|scope| {
        let following = scope.spawn(|| machine.get("/v1/sessions/s/events").has_status(200).body);
        std::thread::sleep(Duration::from_millis(500));
        let mut other = Machine::new(PROGRAM, machine.urls(), SCRIPT);
        other.start_worker(&[]);
        let followed = following.join().unwrap();
        assert!(followed.contains("event: turn-end\n"), "{followed}");
        let waits = json!({"text": "again", "wait": true});
        let outcome = machine
            .post("/v1/sessions/s/turns", &waits)
            .has_status(200)
            .json();
        assert_eq!(
            (&outcome["turn"], &outcome["output"]),
            (&json!(2), &json!("Fine."))
        );
    });
}
