//! `rind serve --listen`: sessions, turns, events and questions over HTTP, with the real program.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rind_tests::api::{Api, exchange_at, exchange_bytes, token};
use rind_tests::cli::Rind;
use serde_json::{Value, json};

const COMMAND: &str = r#"
[[reply]]
text = "I run it."
tool_calls = [{ name = "bash", arguments = { command = "echo '<b>made</b>' > made" } }]
[[reply]]
text = "It ran."
[[reply]]
text = "Again."
tool_calls = [{ name = "bash", arguments = { command = "echo '<b>made</b>' > made" } }]
[[reply]]
text = "Second answer."
times = 0
"#;

/// Runs a turn and returns its events. Meanwhile runs `meanwhile` on this thread.
fn follow_turn(
    api: &Api<'_>,
    session: &str,
    text: &str,
    meanwhile: impl FnOnce(),
) -> Vec<(String, Value)> {
    let path = format!("/v1/sessions/{session}/turns");
    let answer = std::thread::scope(|scope| {
        let body = json!({ "text": text });
        let following =
            scope.spawn(move || api.send_as("POST", &path, "text/event-stream", Some(&body)));
        meanwhile();
        following.join().unwrap()
    });
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.events()
}

fn answer(api: &Api<'_>, question: &Value, body: &Value) -> u16 {
    let path = format!("/v1/questions/{}", question["id"].as_str().unwrap());
    api.post(&path, body).status
}

#[test]
fn a_turn_is_followed_and_its_call_approved_over_the_api() {
    let rind = Rind::with_script(COMMAND);
    let api = Api::start(&rind);
    let session = api.new_session();
    let events = follow_turn(&api, &session, "run it", || {
        let question = api.question();
        assert_eq!(question["session"], session.as_str());
        assert_eq!(question["tool"], "bash");
        // The question shows the complete command, not escaped.
        let lines = &question["arguments"];
        assert_eq!(lines[0]["text"], "echo '<b>made</b>' > made");
        assert_eq!(answer(&api, &question, &json!({"answer": "maybe"})), 400);
        assert_eq!(answer(&api, &question, &json!({"answer": "always"})), 204);
        assert_eq!(answer(&api, &question, &json!({"answer": "yes"})), 404);
    });
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    for kind in ["turn-start", "question", "question-closed", "tool-end"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert_eq!(kinds.last(), Some(&"turn-end"));
    assert!(rind.workspace().join("made").exists());
    // The answer "always" applies to the next call, so no question comes.
    let events = follow_turn(&api, &session, "again", || ());
    assert!(events.iter().all(|(kind, _)| kind != "question"));
    let shown = api.get(&format!("/v1/sessions/{session}")).json();
    assert_eq!(shown["turns"].as_array().unwrap().len(), 2);
    assert_eq!(shown["is_open"], true);
}

#[test]
fn a_no_reaches_the_model_and_what_is_denied_is_never_asked() {
    let rind = Rind::with_script(COMMAND);
    let api = Api::start(&rind);
    let session = api.new_session();
    follow_turn(&api, &session, "run it", || {
        let no = json!({"answer": "no", "reason": "not on a Thursday"});
        assert_eq!(answer(&api, &api.question(), &no), 204);
    });
    let lines = rind.session_lines().join("\n");
    assert!(lines.contains("not on a Thursday"));
    drop(api);
    rind.config("[[tools.rules]]\ntool = \"bash\"\ndecision = \"deny\"\n");
    let api = Api::start(&rind);
    let events = follow_turn(&api, &api.new_session(), "run it", || ());
    assert!(events.iter().all(|(kind, _)| kind != "question"));
    assert!(!rind.workspace().join("made").exists());
}

#[test]
fn an_input_with_an_id_is_taken_once_and_a_busy_session_says_so() {
    let rind = Rind::with_script(
        "[[reply]]\ntext = \"Slow.\"\ndelay_ms = 1500\n[[reply]]\ntext = \"Next.\"\ntimes = 0\n",
    );
    let api = Api::start(&rind);
    let session = api.new_session();
    let turns = format!("/v1/sessions/{session}/turns");
    let first = json!({"text": "a", "input_id": "one"});
    let accepted = api.post(&turns, &first).has_status(202).json();
    let busy = api.post(&turns, &json!({"text": "b"}));
    assert_eq!(busy.has_status(409).json()["error"]["code"], "busy");
    let waits = json!({"text": "a", "input_id": "one", "wait": true, "queue": true});
    let outcome = api.post(&turns, &waits).has_status(200).json();
    assert_eq!(
        (&outcome["turn"], &outcome["output"]),
        (&json!(1), &json!("Slow."))
    );
    // A client that connects later asks for events after the number it was given. The session is
    // closed, so there are none.
    let closed = api.post(&format!("/v1/sessions/{session}/close"), &json!({}));
    assert_eq!(closed.has_status(200).json()["was_open"], true);
    let after = accepted["after"].as_u64().unwrap();
    let events = api.get(&format!("/v1/sessions/{session}/events?after={after}"));
    assert_eq!(events.status, 204);
}

#[test]
fn a_running_turn_is_steered_and_interrupted() {
    let rind = Rind::with_script(
        "[[reply]]\ntext = \"\"\ntool_calls = [{ name = \"bash\", arguments = { command = \"sleep 1\" } }]\n[[reply]]\ntext = \
         \"Steered.\"\n[[reply]]\ntext = \"Slow.\"\ndelay_ms = 60000\n",
    );
    let api = Api::start_with(&rind, &["--yes"]);
    let session = api.new_session();
    let of = |what: &str| format!("/v1/sessions/{session}/{what}");
    let steered = api.post(&of("steer"), &json!({"text": "x"}));
    assert_eq!(steered.has_status(409).json()["error"]["code"], "idle");
    let events = follow_turn(&api, &session, "work", || {
        while api
            .post(&of("steer"), &json!({"text": "to the left"}))
            .status
            != 200
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(events.iter().any(|(kind, _)| kind == "steering-taken"));
    let events = follow_turn(&api, &session, "more", || {
        while api.post(&of("interrupt"), &json!({})).json()["was_running"] != true {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let (_, end) = events.last().unwrap();
    assert_eq!(end["summary"]["stop"], "cancelled");
}

#[test]
fn a_signal_ends_running_turns_within_its_grace_and_a_cut_turn_goes_on() {
    let script = "[[reply]]\ntext = \"Slow.\"\ndelay_ms = 60000\n";
    let rind = Rind::with_script(script);
    let api = Api::start(&rind);
    let session = api.new_session();
    let turn = api.post(
        &format!("/v1/sessions/{session}/turns"),
        &json!({"text": "a"}),
    );
    assert_eq!(turn.status, 202);
    while rind.entries("turn-start").is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let begun = Instant::now();
    api.running.signal("KILL");
    drop(api);
    rind.script("[[reply]]\ntext = \"It goes on.\"\ntimes = 0\n");
    let api = Api::start(&rind);
    let went_on = api.post(
        &format!("/v1/sessions/{session}/continue"),
        &json!({"wait": true}),
    );
    assert_eq!(went_on.has_status(200).json()["output"], "It goes on.");
    api.running.signal("TERM");
    let Api { running, .. } = api;
    assert_eq!(running.wait(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(rind.entries("turn-end").len(), 1);
}

#[test]
fn requests_without_token_from_other_origins_or_for_other_names_are_refused() {
    let rind = Rind::with_script(COMMAND);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let address = format!("127.0.0.1:{port}");
    let mut running = rind.start(&["serve", "--listen", &address]);
    running.wait_until(|_| std::net::TcpStream::connect(&address).is_ok());
    let bearer = format!("Authorization: Bearer {}\r\n", token(&rind));
    let own = format!("Host: {address}\r\n");
    let send = |head: &str, length: u64| {
        let request = format!(
            "POST /v1/sessions HTTP/1.0\r\n{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{}}"
        );
        exchange_at(port, &request).status
    };
    for (head, length, status) in [
        (own.clone(), 2, 401),
        (format!("{own}Authorization: Bearer wrong\r\n"), 2, 401),
        (format!("{own}Cookie: rind={}\r\n", token(&rind)), 2, 401),
        (format!("Host: evil.example:{port}\r\n{bearer}"), 2, 403),
        (format!("Host: localhost\r\n{bearer}"), 2, 403),
        (bearer.clone(), 2, 403),
        (
            format!("{own}{bearer}Origin: http://evil.example\r\n"),
            2,
            403,
        ),
        (format!("{own}{bearer}Origin: null\r\n"), 2, 403),
        (format!("{own}{bearer}"), 1 << 40, 413),
        (format!("{own}{bearer}Origin: http://{address}\r\n"), 2, 201),
    ] {
        assert_eq!(send(&head, length), status, "{head}");
    }
}

#[test]
fn an_address_that_others_reach_and_a_token_that_others_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let rind = Rind::with_script(COMMAND);
    let ran = rind.run(&["serve", "--listen", "0.0.0.0:0"]).exits(2);
    assert!(ran.stderr.contains("has no encryption"), "{}", ran.stderr);
    let data = rind.home().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let path = data.join("serve-token");
    std::fs::write(&path, "x".repeat(40)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = rind.run(&["serve", "--listen", "127.0.0.1:0"]).exits(1);
    assert!(
        ran.stderr.contains("other users can read"),
        "{}",
        ran.stderr
    );
}

#[test]
fn pages_are_read_without_a_script_and_show_markup_as_text() {
    let rind = Rind::with_script(COMMAND);
    let api = Api::start(&rind);
    let session = api.new_session();
    follow_turn(&api, &session, "<script>alert(1)</script>", || {
        let question = api.question();
        let page = api.get(&format!("/sessions/{session}")).has_status(200);
        assert!(
            page.body
                .contains("echo '&lt;b&gt;made&lt;/b&gt;' &gt; made")
        );
        assert!(page.body.contains("Always in this session"));
        let listed = api.get("/questions").has_status(200);
        assert!(listed.body.contains(question["id"].as_str().unwrap()));
        assert_eq!(answer(&api, &question, &json!({"answer": "yes"})), 204);
    });
    for path in ["/", &format!("/sessions/{session}")] {
        let page = api.get(path).has_status(200);
        assert!(page.body.contains("&lt;script&gt;alert(1)"), "{path}");
        assert!(!page.body.contains("<script>alert"), "{path}");
        assert!(page.head.contains("script-src 'self'"), "{}", page.head);
    }
    let plugins = api.get("/plugins").has_status(200);
    assert!(plugins.body.contains("Plugins"));
    let described = api.get("/v1/openapi.json").has_status(200).json();
    assert_eq!(described["openapi"], "3.1.0");
}

#[test]
fn the_page_of_a_session_leads_to_its_entries_and_compares_its_turns() {
    let rind = Rind::with_script(
        "[[reply]]\ntext = \"One <i>answer</i>.\"\n[[reply]]\ntext = \"Another.\"\ntimes = 0\n",
    );
    let api = Api::start(&rind);
    let session = api.new_session();
    for text in ["first", "second"] {
        let body = json!({ "text": text, "wait": true });
        let turn = api.post(&format!("/v1/sessions/{session}/turns"), &body);
        assert_eq!(turn.status, 200, "{turn:?}");
    }
    let at = |rest: &str| format!("/sessions/{session}{rest}");
    let page = api.get(&at("")).has_status(200).body;
    let line = rind
        .session_lines()
        .iter()
        .position(|line| line.contains("\"type\":\"message\""))
        .unwrap()
        + 1;
    assert!(page.contains(&at(&format!("/entries/{line}"))), "{page}");
    let entry = api.get(&at(&format!("/entries/{line}"))).has_status(200);
    assert!(entry.body.contains("&quot;first&quot;"), "{}", entry.body);
    let diff = api.get(&at("/diff?from=1&to=2")).has_status(200).body;
    for words in [
        "<del>-  first",
        "<ins>+  second",
        "<del>-  One &lt;i&gt;answer",
    ] {
        assert!(diff.contains(words), "{words}\n{diff}");
    }
    let same = api.get(&at("/diff?from=2&to=2")).has_status(200).body;
    assert!(same.contains("say and do the same"), "{same}");
    for (path, status) in [
        ("/entries/9999", 404),
        ("/entries/x", 400),
        ("/diff?from=1&to=7", 404),
        ("/diff?from=1", 400),
    ] {
        assert_eq!(api.get(&at(path)).status, status, "{path}");
    }
    assert_eq!(api.get("/sessions/..%2f..%2fx/entries/1").status, 404);
}

#[test]
fn a_body_is_an_object_with_each_field_once() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Done.\"\ntimes = 0\n");
    let api = Api::start(&rind);
    for (body, status) in [
        ("[null, null]", 400),
        ("\"x\"", 400),
        (r#"{"id": "a-1", "id": "a-2"}"#, 400),
        ("{", 400),
        (r#"{"id": "a-1"}"#, 201),
    ] {
        let body = body.as_bytes();
        let answer = exchange_bytes(&api, "/v1/sessions", "application/json", body);
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[test]
fn an_ordered_turn_can_be_interrupted_at_once_and_a_closed_session_begins_no_further_one() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Slow.\"\ndelay_ms = 60000\ntimes = 0\n");
    let api = Api::start(&rind);
    let session = api.new_session();
    let of = |what: &str| format!("/v1/sessions/{session}/{what}");
    let turns = of("turns");
    let first = api.post(&turns, &json!({"text": "a"}));
    assert_eq!(first.status, 202);
    let interrupted = api.post(&of("interrupt"), &json!({}));
    assert_eq!(interrupted.json()["was_running"], true);
    let waits = json!({"text": "b", "queue": true});
    for _ in 0..3 {
        assert_eq!(api.post(&turns, &waits).status, 202);
    }
    while rind.entries("turn-start").len() < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let closed = api.post(&of("close"), &json!({}));
    assert_eq!(closed.json()["was_open"], true);
    assert_eq!(rind.entries("turn-start").len(), 2);
    assert_eq!(rind.entries("turn-end").len(), 2);
}
