//! Tests of `rind serve --nats` with the real program: it shows sessions that workers run, and
//! passes on answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rind_lib::session::SessionStore;
use rind_nats::call::{SessionRequestError, SessionRequestMessenger};
use rind_nats::{NatsConfig, NatsSessions};
use rind_nats_tests::{Machine, NatsServers, ServerSetup};
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_nats-rind");

/// A model that runs a command and then says that it ran.
pub(crate) const COMMAND: &str = r#"
[[reply]]
when = { contains = "run it", step = 1 }
times = 0
text = "I run it."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
[[reply]]
when = { after_tool = "bash" }
times = 0
text = "It ran."
[[reply]]
when = { contains = "slowly", step = 1 }
times = 0
delay_ms = 4000
text = "Slow."
[[reply]]
times = 0
text = "Fine."
"#;

/// A model that makes a call again in the second step of its turn.
pub(crate) const CALLS_AGAIN: &str = r#"
[[reply]]
when = { step = 1 }
times = 0
text = "I run it."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
[[reply]]
when = { step = 2 }
times = 0
text = "Then I run it now."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
[[reply]]
when = { step = 3 }
times = 0
text = "It ran."
"#;

/// Starts a server, creates the tenant's streams with a short lease, and creates a machine.
pub(crate) fn start(script: &str) -> (NatsServers, NatsSessions, Machine) {
    let servers = NatsServers::start(ServerSetup::ONE);
    let sessions = NatsSessions::connect(servers.config("t")).unwrap();
    let machine = Machine::new(PROGRAM, &servers.urls(), script);
    (servers, sessions, machine)
}

pub(crate) fn send(machine: &Machine, session: &str, id: &str, text: &str) {
    let args = ["--session", session, "--input-id", id, text];
    machine.output(&["cluster", "send"], &args);
}

pub(crate) fn answer(machine: &Machine, question: &Value, answer: &str) -> u16 {
    let path = format!("/v1/questions/{}", question["id"].as_str().unwrap());
    machine.post(&path, &json!({ "answer": answer })).status
}

/// Returns the process id of the worker that has a busy slot.
fn busy_worker(machine: &Machine) -> u32 {
    let workers = machine.workers();
    let busy: Vec<&Value> = workers.iter().filter(|own| own["busy"] == 1).collect();
    assert_eq!(busy.len(), 1, "{workers:?}");
    let name = busy[0]["name"].as_str().unwrap();
    name.rsplit('-').next().unwrap().parse().unwrap()
}

fn last_turn(machine: &Machine, session: &str) -> Value {
    let shown = machine.get(&format!("/v1/sessions/{session}"));
    let shown = shown.has_status(200).json();
    shown["turns"].as_array().unwrap().last().unwrap().clone()
}

#[test]
fn a_worker_dies_while_it_asks_and_the_turn_ends_on_the_other_with_an_answer_at_the_front() {
    let (_servers, sessions, mut machine) = start(CALLS_AGAIN);
    machine.start_worker(&["--ask", "120"]);
    machine.start_worker(&["--ask", "120"]);
    machine.start_front(&[]);
    send(&machine, "order-17", "mail-1", "run it");
    let first = machine.question(None);
    assert_eq!(
        (&first["session"], &first["tool"]),
        (&json!("order-17"), &json!("bash"))
    );
    assert_eq!(first["arguments"][0]["text"], "echo made >> made");
    let listed = machine.get("/v1/sessions").has_status(200).json();
    assert_eq!(
        (
            &listed["sessions"][0]["is_running"],
            &listed["sessions"][0]["is_waiting"]
        ),
        (&json!(true), &json!(true))
    );
    machine.kill(busy_worker(&machine));
    // The question of the killed worker is closed, and the session can still be read.
    machine.wait_for("the end of the question", |machine| {
        let open = machine.get("/v1/questions").has_status(200).json();
        open["questions"].as_array().unwrap().is_empty()
    });
    assert_eq!(answer(&machine, &first, "yes"), 404);
    assert_eq!(last_turn(&machine, "order-17")["stop"], Value::Null);
    let second = machine.question(Some(&first));
    assert_eq!(second["arguments"], first["arguments"]);
    assert!(!machine.path("workspace/made").exists());
    // The page for browsers comes from the worker, with a form for the answer.
    let path = format!("/questions/{}", second["id"].as_str().unwrap());
    let page = machine.get("/sessions/order-17").has_status(200);
    assert!(
        page.body.contains(&format!("action=\"{path}\"")),
        "{page:?}"
    );
    assert!(
        page.head.contains("default-src 'none'; script-src 'self'"),
        "{page:?}"
    );
    let answered = machine.send_form(&path, "answer=yes&back=/sessions/order-17");
    let head = answered.has_status(303).head.to_lowercase();
    assert!(head.contains("location: /sessions/order-17"), "{head}");
    assert_eq!(answer(&machine, &second, "yes"), 404);
    machine.wait_for("the end of the turn", |machine| {
        last_turn(machine, "order-17")["stop"] != Value::Null
    });
    let made = std::fs::read_to_string(machine.path("workspace/made")).unwrap();
    assert_eq!(made, "made\n");
    let page = machine.get("/sessions/order-17").has_status(200).body;
    assert!(page.contains("It ran."), "{page}");
    let store = SessionStore::with_backend(Arc::new(sessions));
    let (entries, _) = store.read_entries("order-17").unwrap();
    let told = serde_json::to_string(&entries).unwrap();
    assert!(
        told.contains("cut off before this call began; it did nothing"),
        "{told}"
    );
}

#[test]
fn a_worker_that_dies_after_the_answer_does_not_have_the_call_run_twice() {
    let slow = COMMAND.replace(
        "echo made >> made",
        "echo made >> made; sleep 5; echo late >> made",
    );
    let (_servers, sessions, mut machine) = start(&slow);
    machine.start_worker(&["--ask", "120"]);
    machine.start_worker(&["--ask", "120"]);
    machine.start_front(&[]);
    send(&machine, "s", "i-1", "run it");
    assert_eq!(answer(&machine, &machine.question(None), "yes"), 204);
    machine.wait_for("the effect", |machine| {
        machine.path("workspace/made").exists()
    });
    machine.kill(busy_worker(&machine));
    machine.wait_for("the end of the turn", |machine| {
        last_turn(machine, "s")["stop"] != Value::Null
    });
    // The next worker neither asks again nor runs the call again: it tells the model that the call
    // may have run.
    let made = std::fs::read_to_string(machine.path("workspace/made")).unwrap();
    assert_eq!(made.matches("made").count(), 1, "{made}");
    let store = SessionStore::with_backend(Arc::new(sessions));
    let (entries, _) = store.read_entries("s").unwrap();
    let told = serde_json::to_string(&entries).unwrap();
    assert!(told.contains("may have run"), "{told}");
}

#[test]
fn a_session_of_a_worker_is_steered_interrupted_and_given_turns_at_the_front() {
    let (_servers, _sessions, mut machine) = start(COMMAND);
    machine.start_worker(&[]);
    machine.start_front(&[]);
    send(&machine, "s", "i-1", "go slowly");
    machine.wait_for("the turn", |machine| {
        machine.get("/v1/sessions/s").status == 200
            && machine.get("/v1/sessions/s").json()["is_running"] == true
    });
    let busy = machine.post("/v1/sessions/s/turns", &json!({"text": "now"}));
    assert_eq!(busy.has_status(409).json()["error"]["code"], "busy");
    let steered = machine.post("/v1/sessions/s/steer", &json!({"text": "faster"}));
    assert!(steered.has_status(200).json()["number"].is_number());
    // A text has a smaller limit than a request, which may contain images.
    let large = json!({"text": "x".repeat(800 << 10)});
    let refused = machine.post("/v1/sessions/s/turns", &large);
    assert!(refused.has_status(413).body.contains("700 KiB"));
    let waits = json!({"text": "one more", "queue": true, "wait": true});
    let outcome = machine.post("/v1/sessions/s/turns", &waits);
    assert_eq!(outcome.has_status(200).json()["output"], "Fine.");
    send(&machine, "s", "i-2", "go slowly");
    machine.wait_for("the second turn", |machine| {
        let ended = machine.post("/v1/sessions/s/interrupt", &json!({}));
        ended.has_status(200).json()["was_running"] == true
    });
    machine.wait_for("the end", |machine| {
        last_turn(machine, "s")["stop"] != Value::Null
            && machine.get("/v1/sessions/s").json()["is_open"] == false
    });
    assert_eq!(last_turn(&machine, "s")["stop"], "cancelled");
}

#[test]
fn events_of_a_worker_are_followed_at_the_front() {
    let (_servers, _sessions, mut machine) = start(COMMAND);
    machine.start_worker(&["--ask", "60"]);
    machine.start_front(&[]);
    assert_eq!(machine.get("/v1/sessions/s/events").status, 404);
    send(&machine, "s", "i-1", "run it");
    let question = machine.question(None);
    let followed = std::thread::scope(|scope| {
        let following = scope.spawn(|| machine.get("/v1/sessions/s/events").has_status(200).body);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(answer(&machine, &question, "no"), 204);
        // The stream of events ends when the worker closes the session.
        following.join().unwrap()
    });
    for kind in ["turn-start", "question", "question-closed", "turn-end"] {
        assert!(
            followed.contains(&format!("event: {kind}\n")),
            "{kind}: {followed}"
        );
    }
    assert!(!machine.path("workspace/made").exists());
    assert_eq!(machine.get("/v1/sessions/s/events").status, 204);
}

#[test]
fn nobody_is_asked_by_a_worker_without_the_flag_and_a_question_without_an_answer_is_a_no() {
    let (_servers, _sessions, mut machine) = start(COMMAND);
    let worker = machine.start_worker(&[]);
    machine.start_front(&[]);
    send(&machine, "s", "i-1", "run it");
    let is_ended = |machine: &Machine| {
        let shown = machine.get("/v1/sessions/s");
        shown.status == 200 && shown.json()["turns"][0]["stop"] != Value::Null
    };
    machine.wait_for("the end", is_ended);
    machine.kill(worker);
    machine.start_worker(&["--ask", "1"]);
    send(&machine, "s2", "i-1", "run it");
    machine.wait_for("the end of the other", |machine| {
        machine
            .get("/v1/sessions/s2")
            .body
            .contains("nobody answered within 1 s")
    });
    assert!(!machine.path("workspace/made").exists());
    for (session, is_asked) in [("s", false), ("s2", true)] {
        let shown = machine.get(&format!("/v1/sessions/{session}")).body;
        assert_eq!(
            shown.contains("nobody answered within"),
            is_asked,
            "{shown}"
        );
    }
}

#[test]
fn who_only_sends_inputs_cannot_answer_questions_where_the_server_forbids_it() {
    let users = r#"authorization { users: [
        { user: "fleet", password: "f" }
        { user: "sender", password: "s", permissions: {
            publish: { deny: ["rind.*.call.>", "rind.*.boards", "rind.*.control"] }
            subscribe: { deny: ["rind.*.call.>", "rind.*.boards", "rind.*.control"] } } }
    ] }"#;
    let servers = NatsServers::start_with(ServerSetup::ONE, users);
    let urls = |user: &str| {
        servers
            .urls()
            .replace("nats://", &format!("nats://{user}@"))
    };
    let config = |user: &str| NatsConfig::new(&urls(user), "t").unwrap();
    let sessions = NatsSessions::connect(config("fleet:f").with_partitions(2)).unwrap();
    let mut machine = Machine::new(PROGRAM, &urls("fleet:f"), COMMAND);
    machine.start_worker(&["--ask", "60"]);
    machine.start_front(&[]);
    let sender = Machine::new(PROGRAM, &urls("sender:s"), COMMAND);
    send(&sender, "a", "i-1", "run it");
    let question = machine.question(None);
    let path = format!("/v1/questions/{}", question["id"].as_str().unwrap());
    let yes = r#"{"answer": "yes"}"#;
    let forged = NatsSessions::connect(config("sender:s")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let request = http::Request::post(&path).body(Bytes::from_static(yes.as_bytes()));
    let forged = runtime.block_on(
        SessionRequestMessenger::new(&forged).send_session_request("a", request.unwrap()),
    );
    assert!(matches!(forged, Err(SessionRequestError::Silent)));
    assert!(!machine.path("workspace/made").exists());
    let calls = SessionRequestMessenger::new(&sessions);
    assert_eq!(ask(&calls, "a", "POST", &path, yes), Some(204));
    machine.wait_for("the effect", |machine| {
        machine.path("workspace/made").exists()
    });
}

/// Sends a request to the worker that holds a session, as a foreign program could. Returns the
/// status, or `None` if no worker holds the session.
fn ask(
    calls: &SessionRequestMessenger,
    session: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Option<u16> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match runtime.block_on(calls.send_session_request(session, request)) {
        Ok(answer) => Some(answer.status().as_u16()),
        Err(SessionRequestError::NoHolder) => None,
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

#[test]
fn a_holder_answers_for_one_session_and_nothing_else() {
    let (servers, sessions, mut machine) = start(COMMAND);
    machine.start_worker(&["--ask", "60"]);
    machine.start_front(&[]);
    send(&machine, "a", "i-1", "run it");
    let question = machine.question(None);
    send(&machine, "b", "i-1", "run it");
    machine.wait_for("both questions", |machine| {
        let open = machine.get("/v1/questions").json();
        open["questions"].as_array().unwrap().len() == 2
    });
    let calls = SessionRequestMessenger::new(&sessions);
    let answer = format!("/v1/questions/{}", question["id"].as_str().unwrap());
    let yes = r#"{"answer": "yes"}"#;
    for (session, method, path, body, status) in [
        ("a", "GET", "/v1/sessions/a", "", Some(200)),
        ("a", "GET", "/v1/sessions/b", "", Some(403)),
        ("a", "GET", "/v1/sessions", "", Some(403)),
        ("a", "GET", "/v1/questions", "", Some(403)),
        ("a", "GET", "/v1/questions?session=a", "", Some(200)),
        (
            "a",
            "GET",
            "/v1/questions?session=a&session=b",
            "",
            Some(403),
        ),
        ("a", "GET", "/v1/plugins", "", Some(403)),
        ("a", "GET", "/login?code=x", "", Some(403)),
        ("a", "POST", "/new", "", Some(403)),
        ("a", "POST", "/v1/sessions/a/close", "{}", Some(403)),
        ("a", "GET", "/v1/sessions/a/../b", "", Some(403)),
        ("a", "POST", "/v1/sessions/a/turns", "{", Some(400)),
        ("b", "POST", &answer, yes, Some(403)),
        ("nobody", "POST", &answer, yes, None),
    ] {
        let found = ask(&calls, session, method, path, body);
        assert_eq!(found, status, "{session} {method} {path}");
    }
    // A client of another tenant reaches no worker, and invalid requests are refused or ignored.
    let other = NatsSessions::connect(servers.config("other")).unwrap();
    let other = SessionRequestMessenger::new(&other);
    assert_eq!(ask(&other, "a", "POST", &answer, yes), None);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(servers.urls()).await.unwrap();
        for payload in ["", "{\"drain\": 1", "\u{1b}[2J"] {
            let refused = client.request("rind.t.call.a", payload.into()).await;
            let headers = refused.unwrap().headers.unwrap();
            assert_eq!(headers.get("Rind-Status").unwrap().as_str(), "400");
            client.publish("rind.t.boards", payload.into()).await.unwrap();
        }
        // A program that claims sessions that it does not hold, and answers requests with nonsense.
        let mut asked = client.subscribe("rind.t.boards").await.unwrap();
        let liar = client.clone();
        tokio::spawn(async move {
            use futures_util::StreamExt;
            while let Some(message) = asked.next().await {
                let board = json!({"from": "liar", "sessions": ["c", "../d"], "told": [
                    {"id": "c", "questions": ["q-of-nobody"]}, {"id": "../d", "questions": ["x"]}]});
                for payload in [board.to_string(), "[]".to_owned(), "nonsense".to_owned()] {
                    let reply = message.reply.clone().unwrap();
                    liar.publish(reply, payload.into()).await.unwrap();
                }
            }
        });
        client.flush().await.unwrap();
        let open = tokio::task::block_in_place(|| machine.get("/v1/questions").has_status(200).json());
        assert_eq!(open["questions"].as_array().unwrap().len(), 2);
    });
    assert!(!machine.path("workspace/made").exists());
    assert_eq!(self::answer(&machine, &question, "yes"), 204);
    machine.wait_for("the effect", |machine| {
        machine.path("workspace/made").exists()
    });
}
