//! A long session over a real provider's wire format with all core plugins, archival and
//! compaction: every detail from earlier turns can still be found.

use std::sync::atomic::{AtomicUsize, Ordering};

use rind_tests::cli::Rind;
use rind_tests::guests;
use rind_tests::server::{Received, Reply, Server};
use serde_json::{Value, json};

const N_TURNS: usize = 60;

/// Number of tokens at which the conversation is compacted.
const THRESHOLD: usize = 9_000;

/// Maximum number of turns that are still due for archival at the end. One failed summary, which is
/// retried a second later, accounts for about ten on an idle machine.
const MAX_DUE: i32 = 40;

/// Bytes per token that the model server of this test assumes.
const BYTES_PER_TOKEN: usize = 4;

/// Names of the details; every third file contains one.
const GATES: [&str; 20] = [
    "amber", "birch", "cobalt", "dune", "ember", "fjord", "garnet", "heron", "indigo", "juniper",
    "kestrel", "larch", "maple", "nimbus", "onyx", "poplar", "quartz", "raven", "sable", "tundra",
];

fn code(gate: &str) -> String {
    let sum: usize = gate.bytes().map(usize::from).sum();
    format!("{}-{sum}", gate.to_uppercase())
}

/// Rows of a file whose content is just short enough to stay in the conversation.
const SHORT_ROWS: usize = 330;

/// Rows of a file of 38 KB, most of which a plugin stores outside the conversation.
const LONG_ROWS: usize = 1_100;

/// Returns the text of file `n`; every third one has a detail in its middle.
fn report(n: usize, n_rows: usize) -> String {
    let mut lines: Vec<String> = (0..n_rows)
        .map(|row| format!("gate report {n} row {row}: level {} ok", row * 7 % 113))
        .collect();
    if n.is_multiple_of(3) {
        let gate = GATES[n / 3];
        lines[n_rows / 2] = format!("clearance of the {gate} gate is {}", code(gate));
    }
    lines.join("\n")
}

/// Returns one answer as server-sent events of the wire format.
fn events(text: &str, call: Option<(&str, Value)>, n_tokens: usize) -> String {
    static N_CALLS: AtomicUsize = AtomicUsize::new(0);
    let id = N_CALLS.fetch_add(1, Ordering::SeqCst);
    let (block, delta, reason) = match &call {
        Some((name, arguments)) => (
            json!({"type": "tool_use", "id": format!("toolu_{id}"), "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
            "tool_use",
        ),
        None => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text}),
            "end_turn",
        ),
    };
    let usage = json!({"input_tokens": n_tokens, "output_tokens": 1});
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    };
    events.iter().map(event).collect()
}

/// Returns the text between `start` and the first of `ends`.
fn after<'a>(text: &'a str, start: &str, ends: &[char]) -> Option<&'a str> {
    let rest = &text[text.find(start)? + start.len()..];
    rest.split(ends).next()
}

/// Returns the person's last input and the tool results since then.
fn last_input(body: &Value) -> (String, Vec<String>) {
    let (mut input, mut results) = (String::new(), Vec::new());
    for message in body["messages"].as_array().unwrap() {
        let parts = match &message["content"] {
            Value::Array(parts) => parts.clone(),
            text => vec![json!({"type": "text", "text": text})],
        };
        for part in parts {
            let text = part["text"].as_str().unwrap_or_default();
            if message["role"] == "user" && (text.starts_with("Read ") || text.starts_with("Find "))
            {
                (input, results) = (text.to_owned(), Vec::new());
            } else if part["type"] == "tool_result" {
                results.push(part["content"].to_string());
            }
        }
    }
    (input, results)
}

/// Model server that reads the file of a `Read` input, and searches for the detail of a `Find`
/// input.
fn model(request: &Received) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let n_tokens = request.body.len() / BYTES_PER_TOKEN;
    let headers = vec!["content-type: text/event-stream".to_owned()];
    let reply = |text: &str, call| {
        Reply::Plain(
            200,
            headers.clone(),
            events(text, call, n_tokens).into_bytes(),
        )
    };
    if body["tools"].as_array().is_none_or(Vec::is_empty) {
        // The summary omits the details on purpose, so that a search must find them.
        let summary =
            json!({"outcome": "a report was read", "key_findings": ["all levels are ok"]});
        return reply(&summary.to_string(), None);
    }
    let (input, results) = last_input(&body);
    let call = |name, arguments| reply("", Some((name, arguments)));
    if let Some(path) = input.strip_prefix("Read ") {
        return match results.is_empty() {
            true => call("read_file", json!({"path": path})),
            false => reply("It was read.", None),
        };
    }
    let gate = input.strip_prefix("Find ").unwrap_or("nothing").to_owned();
    let last = results.last().cloned().unwrap_or_default();
    match results.len() {
        0 => call(
            "query_subagent",
            json!({"search": format!("clearance {gate} gate")}),
        ),
        n_results => match after(
            &last,
            &format!("the {gate} gate is "),
            &['\\', '"', '\n', '<', ']'],
        ) {
            Some(found) => reply(&format!("{gate} is {found}."), None),
            // The holder has only part of the result; `read_output` searches the stored rest.
            None if n_results == 1 => {
                call("read_output", json!({"search": format!("{gate} gate")}))
            }
            None => reply(&format!("{gate} is nowhere."), None),
        },
    }
}

/// Runs one chat process with these input lines, which resumes the last session if `is_resumed`.
fn chat(rind: &Rind, server: &Server, is_resumed: bool, lines: &[String]) -> String {
    let base_url = format!("provider.base_url={:?}", server.at("127.0.0.1", ""));
    let mut args = vec![
        "chat",
        "--plain",
        "--provider",
        "anthropic",
        "--model",
        "m",
        "--yes",
        "--set",
        &base_url,
    ];
    if is_resumed {
        args.extend(["--resume", "last"]);
    }
    rind.file("input.txt", &(lines.join("\n") + "\n"));
    let input = rind.workspace().join("input.txt");
    let mut command = rind.command(&args);
    command.env("ANTHROPIC_API_KEY", "sk-test-key");
    command.stdin(std::fs::File::open(&input).unwrap());
    let ran = rind.finish(&mut command).exits(0);
    format!("{}\n{}", ran.stdout, ran.stderr)
}

fn check_found(said: &str) {
    for gate in GATES {
        let answer = format!("{gate} is {}.", code(gate));
        assert!(said.contains(&answer), "{gate}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_detail_of_sixty_turns_is_found_after_compaction_and_after_a_resume() {
    find_all(SHORT_ROWS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_detail_of_results_that_were_kept_aside_is_found_after_compaction_and_after_a_resume()
{
    let rind = find_all(LONG_ROWS).await;
    let kept = rind.entries("state").into_iter();
    let kept = kept.filter(|entry| entry["blob"].is_string());
    assert!(kept.count() >= N_TURNS, "results were kept aside");
    let calls = rind.entries("tool-start").into_iter();
    let calls = calls.filter(|entry| entry["name"] == "read_output");
    // `read_output` found each detail once; the second process finds the first one's answers.
    assert!(calls.count() >= GATES.len());
}

/// Reads sixty files with this number of rows and finds all details, then finds them again in a
/// second process.
async fn find_all(n_rows: usize) -> Rind {
    let server = Server::start(model).await;
    let rind = Rind::default();
    for plugin in guests::CORE {
        rind.managed(plugin);
    }
    rind.config(&format!(
        "[subagents]\nenabled = true\n[archival]\nenabled = true\n[archival.trigger]\ntoken_threshold = 300\n\
         [archival.list]\nmax_tokens = 600\n\
         [agent.compact]\nthreshold_tokens = {THRESHOLD}\nkeep_tokens = 3000\nkeep_last_messages = 2\nmax_summary_tokens = 1000\n"
    ));
    let mut lines = Vec::new();
    for n in 0..N_TURNS {
        rind.file(&format!("r{n}.txt"), &report(n, n_rows));
        lines.push(format!("Read r{n}.txt"));
    }
    let finds: Vec<String> = GATES.iter().map(|gate| format!("Find {gate}")).collect();
    lines.extend(finds.clone());
    let said = tokio::task::block_in_place(|| chat(&rind, &server, false, &lines));
    check_found(&said);
    let replaced = rind.entries("replaced");
    let n_archived = replaced
        .iter()
        .filter(|entry| entry["holder"].is_object())
        .count();
    // Archival runs in the background, so turns whose summary was not ready at the end are still
    // due.
    let n_due = rind.entries("archival").iter().fold(0, |n_due, entry| {
        match (entry["is_over"].as_bool(), entry["tries"].as_u64()) {
            (Some(true), _) => n_due - 1,
            (_, Some(0)) => n_due + 1,
            _ => n_due,
        }
    });
    let n_turns = N_TURNS + GATES.len();
    assert_eq!(n_archived + usize::try_from(n_due).unwrap(), n_turns);
    assert!(n_due <= MAX_DUE, "{n_due}");
    let compacted: Vec<&Value> = replaced
        .iter()
        .filter(|entry| !entry["holder"].is_object())
        .collect();
    // Long results are stored outside the conversation, which may leave nothing to compact.
    if n_rows == SHORT_ROWS {
        assert!(compacted.len() >= 2, "{}", compacted.len());
    }
    if let Some(last) = compacted.last() {
        let last = last["messages"][0].to_string();
        assert!(last.contains("archived turns are kept by held-"), "{last}");
    }

    let said = tokio::task::block_in_place(|| chat(&rind, &server, true, &finds));
    check_found(&said);

    // The list of holders and the largest request stay within their limits.
    let largest = server
        .received()
        .iter()
        .map(|request| request.body.len() / BYTES_PER_TOKEN)
        .max();
    let bound = THRESHOLD + 16_384 / BYTES_PER_TOKEN + 1000;
    assert!(largest.unwrap() <= bound, "{largest:?} {bound}");
    // Takes the last request with tools; a later one may ask for the summary of the last turn.
    let bodies = server.received().into_iter();
    let mut bodies = bodies.filter_map(|r| serde_json::from_slice::<Value>(&r.body).ok());
    let is_of_turn = |body: &Value| body["tools"].as_array().is_some_and(|all| !all.is_empty());
    let body = bodies.rfind(is_of_turn).unwrap();
    let system = body["system"].to_string();
    assert!(system.contains("older ones, not listed"), "{system}");
    let ran = rind.run(&["session", "doctor", "--json"]).exits(0);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found[0]["faults"], json!([]), "{}", ran.stdout);
    rind
}
