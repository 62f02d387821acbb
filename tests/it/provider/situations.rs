//! Situations that servers really bring about, put before each of the four wires: one table, whose every field is filled by a request to a server
//! that does it. A situation that one wire had no answer to would be a hole.

use std::fmt::Write;

use rind::provider::ModelApiFormat;

use super::wires::client;
use super::*;

const WIRES: [ModelApiFormat; 4] = ModelApiFormat::ALL;

/// Opaque data that a server attaches to its answer and expects in the next request.
const OPAQUE: &str = "b3BhcXVl";

/// One piece of an answer.
#[derive(Clone, Copy)]
enum Piece {
    Text(&'static str),
    /// Reasoning with an opaque signature.
    Thought(&'static str),
    /// Id, name, arguments.
    Call(&'static str, &'static str, &'static str),
    /// One half of a surrogate pair as a JSON escape.
    Half(&'static str),
}
use Piece::{Call, Half, Text, Thought};

/// Reason for the end of an answer.
#[derive(Clone, Copy)]
enum Reason {
    Done,
    Cut,
    Refused,
}

/// Placeholder for a surrogate escape until the event is written: a JSON library would refuse it.
fn half(escape: &str) -> String {
    format!("@{escape}@")
}

fn raw(event: &Value) -> String {
    event
        .to_string()
        .replace("@d83d@", "\\ud83d")
        .replace("@de00@", "\\ude00")
}

/// Events of an answer without those of its end, and the events of its end.
fn events(wire: ModelApiFormat, pieces: &[Piece], reason: Reason) -> (Vec<Value>, Vec<Value>) {
    let mut events = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        events.extend(match wire {
            ModelApiFormat::OpenaiChat => chat(at, *piece),
            ModelApiFormat::AnthropicMessages => messages(at, *piece),
            ModelApiFormat::OpenaiResponses => responses(at, *piece),
            ModelApiFormat::Gemini => gemini(*piece),
        });
    }
    let has_calls = pieces.iter().any(|piece| matches!(piece, Call(..)));
    let end = match (wire, reason) {
        (ModelApiFormat::OpenaiChat, _) => {
            let reason = match reason {
                Reason::Done if has_calls => "tool_calls",
                Reason::Done => "stop",
                Reason::Cut => "length",
                Reason::Refused => "content_filter",
            };
            let usage = json!({"prompt_tokens": 9, "completion_tokens": 5});
            vec![
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
                json!({"choices": [], "usage": usage}),
            ]
        }
        (ModelApiFormat::AnthropicMessages, _) => {
            let reason = match reason {
                Reason::Done if has_calls => "tool_use",
                Reason::Done => "end_turn",
                Reason::Cut => "max_tokens",
                Reason::Refused => "refusal",
            };
            events.insert(0, json!({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}));
            vec![
                json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}),
                json!({"type": "message_stop"}),
            ]
        }
        (ModelApiFormat::OpenaiResponses, reason) => {
            let (kind, details) = match reason {
                Reason::Done => ("response.completed", json!(null)),
                Reason::Cut => (
                    "response.incomplete",
                    json!({"reason": "max_output_tokens"}),
                ),
                Reason::Refused => ("response.incomplete", json!({"reason": "content_filter"})),
            };
            let status = kind.trim_start_matches("response.");
            let response = json!({"object": "response", "status": status, "output": [], "incomplete_details": details,
                "usage": {"input_tokens": 9, "output_tokens": 5}});
            vec![json!({"type": kind, "response": response})]
        }
        (ModelApiFormat::Gemini, reason) => {
            let reason = match reason {
                Reason::Done => "STOP",
                Reason::Cut => "MAX_TOKENS",
                Reason::Refused => "SAFETY",
            };
            let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 5});
            let candidate =
                json!({"content": {"role": "model", "parts": []}, "finishReason": reason});
            vec![json!({"candidates": [candidate], "usageMetadata": usage})]
        }
    };
    (events, end)
}

fn chat(at: usize, piece: Piece) -> Vec<Value> {
    let delta = match piece {
        Text(text) => json!({"content": text}),
        Half(escape) => json!({"content": half(escape)}),
        Thought(text) => {
            json!({"reasoning_content": text, "reasoning_details": [{"type": "x", "data": OPAQUE}]})
        }
        Call(id, name, arguments) => {
            json!({"tool_calls": [{"index": at, "id": id, "type": "function",
            "extra_content": OPAQUE, "function": {"name": name, "arguments": arguments}}]})
        }
    };
    vec![json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})]
}

fn messages(at: usize, piece: Piece) -> Vec<Value> {
    let (block, deltas) = match piece {
        Text(text) => (
            json!({"type": "text", "text": ""}),
            vec![json!({"type": "text_delta", "text": text})],
        ),
        Half(escape) => {
            let delta = json!({"type": "text_delta", "text": half(escape)});
            (json!({"type": "text", "text": ""}), vec![delta])
        }
        Thought(text) => {
            let signature = json!({"type": "signature_delta", "signature": OPAQUE});
            let deltas = vec![
                json!({"type": "thinking_delta", "thinking": text}),
                signature,
            ];
            (json!({"type": "thinking", "thinking": ""}), deltas)
        }
        Call(id, name, arguments) => {
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            (
                block,
                vec![json!({"type": "input_json_delta", "partial_json": arguments})],
            )
        }
    };
    let start = json!({"type": "content_block_start", "index": at, "content_block": block});
    let deltas = deltas
        .into_iter()
        .map(|delta| json!({"type": "content_block_delta", "index": at, "delta": delta}));
    let stop = json!({"type": "content_block_stop", "index": at});
    [start].into_iter().chain(deltas).chain([stop]).collect()
}

fn responses(at: usize, piece: Piece) -> Vec<Value> {
    let added = |item: Value| json!({"type": "response.output_item.added", "output_index": at, "item": item});
    let done = |item: Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
    let said = |text: &str| {
        let item = json!({"id": format!("msg_{at}"), "type": "message", "role": "assistant", "content": []});
        vec![
            added(item),
            json!({"type": "response.output_text.delta", "output_index": at, "delta": text}),
        ]
    };
    match piece {
        Text(text) => said(text),
        Half(escape) => said(&half(escape)),
        Thought(text) => {
            let item = json!({"id": "rs_1", "type": "reasoning", "encrypted_content": OPAQUE,
                "summary": [{"type": "summary_text", "text": text}]});
            vec![done(item)]
        }
        Call(id, name, arguments) => {
            let item = |arguments: &str| json!({"id": format!("fc_{at}"), "type": "function_call", "call_id": id, "name": name, "arguments": arguments});
            let delta = json!({"type": "response.function_call_arguments.delta", "output_index": at, "delta": arguments});
            vec![added(item("")), delta, done(item(arguments))]
        }
    }
}

fn gemini(piece: Piece) -> Vec<Value> {
    let part = match piece {
        Text(text) => json!({"text": text}),
        Half(escape) => json!({"text": half(escape)}),
        Thought(text) => json!({"text": text, "thought": true}),
        // Gemini sends calls in one piece: a truncated call is never sent.
        Call(id, name, arguments) => match serde_json::from_str::<Value>(arguments) {
            Ok(args) => {
                json!({"functionCall": {"id": id, "name": name, "args": args}, "thoughtSignature": OPAQUE})
            }
            Err(_) => return Vec::new(),
        },
    };
    vec![json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]})]
}

/// An event in the framing of this wire.
fn framed(wire: ModelApiFormat, event: &Value) -> String {
    let name = match wire {
        ModelApiFormat::AnthropicMessages | ModelApiFormat::OpenaiResponses => {
            event["type"].as_str()
        }
        ModelApiFormat::OpenaiChat | ModelApiFormat::Gemini => None,
    };
    let name = name.map_or_else(String::new, |name| format!("event: {name}\n"));
    format!("{name}data: {}\n\n", raw(event))
}

fn stream(wire: ModelApiFormat, pieces: &[Piece], reason: Reason) -> String {
    let (events, end) = events(wire, pieces, reason);
    events
        .iter()
        .chain(&end)
        .map(|event| framed(wire, event))
        .collect()
}

/// An answer with `null` in every field that does not carry content.
fn with_nulls(wire: ModelApiFormat, pieces: &[Piece]) -> String {
    let (mut events, mut end) = events(wire, pieces, Reason::Done);
    for event in events.iter_mut().chain(&mut end) {
        for field in [
            "id",
            "model",
            "usage",
            "usageMetadata",
            "error",
            "system_fingerprint",
            "annotations",
        ] {
            event[field] = Value::Null;
        }
        for pointer in [
            "/message/usage",
            "/message/model",
            "/response/usage",
            "/delta/citations",
            "/choices/0/logprobs",
        ] {
            if let Some(value) = event.pointer_mut(pointer) {
                *value = Value::Null;
            }
        }
        if event["choices"] == json!([]) {
            event["choices"] = Value::Null;
        }
    }
    events
        .iter()
        .chain(&end)
        .map(|event| framed(wire, event))
        .collect()
}

/// An error of this wire with the server's message.
fn refusal(wire: ModelApiFormat, kind: &str, words: &str) -> Value {
    match wire {
        ModelApiFormat::OpenaiChat | ModelApiFormat::OpenaiResponses => {
            json!({"error": {"message": words, "type": kind, "code": kind}})
        }
        ModelApiFormat::AnthropicMessages => {
            json!({"type": "error", "error": {"type": kind, "message": words}})
        }
        ModelApiFormat::Gemini => {
            let (code, status) = match kind {
                "rate_limit_error" => (429, "RESOURCE_EXHAUSTED"),
                _ => (400, "INVALID_ARGUMENT"),
            };
            json!({"error": {"code": code, "message": words, "status": status}})
        }
    }
}

fn whole(wire: ModelApiFormat, text: &str) -> Value {
    match wire {
        ModelApiFormat::OpenaiChat => {
            json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
        }
        ModelApiFormat::AnthropicMessages => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
        }
        ModelApiFormat::OpenaiResponses => {
            json!({"object": "response", "status": "completed", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]})
        }
        ModelApiFormat::Gemini => {
            json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]})
        }
    }
}

/// The replies of a server to the requests of one situation.
fn replies(situation: &str, wire: ModelApiFormat) -> Vec<Reply> {
    let good = || Reply::stream([stream(wire, &[Text("Hello.")], Reason::Done)]);
    let of = |pieces: &[Piece]| Reply::stream([stream(wire, pieces, Reason::Done)]);
    let look = Call("call_0", "look", r#"{"at":1}"#);
    let refused =
        |status, kind, words| Reply::plain(status, &[], &refusal(wire, kind, words).to_string());
    match situation {
        "text" => vec![good()],
        "reasoning and a call" => vec![of(&[Thought("hm"), look])],
        "two calls side by side" => vec![of(&[look, Call("call_1", "walk", "{}")])],
        "no arguments" => vec![of(&[Call("call_0", "look", "{}")])],
        "null in other fields" => vec![Reply::stream([with_nulls(wire, &[Text("Hello.")])])],
        "half of a pair in each event" => {
            vec![of(&[Text("Hi "), Half("d83d"), Half("de00"), Text("!")])]
        }
        "comments for longer than the idle limit" => {
            let (events, end) = events(wire, &[Text("Hel"), Text("lo.")], Reason::Done);
            let mut pieces: Vec<String> = vec![framed(wire, &events[0])];
            pieces.extend((0..8).map(|_| ": alive\n\n".to_owned()));
            pieces.extend(
                events[1..]
                    .iter()
                    .chain(&end)
                    .map(|event| framed(wire, event)),
            );
            vec![Reply::stream(pieces).every(60)]
        }
        "torn behind the end" => vec![good().torn()],
        "silent behind the end" => vec![good().silent()],
        "torn before the end" => {
            let (events, _) = events(wire, &[Text("Hel")], Reason::Done);
            let half: String = events.iter().map(|event| framed(wire, event)).collect();
            vec![Reply::stream([half]).torn(), good()]
        }
        "silent before the end" => {
            let (events, _) = events(wire, &[Text("Hel")], Reason::Done);
            let half: String = events.iter().map(|event| framed(wire, event)).collect();
            vec![Reply::stream([half]).silent(), good()]
        }
        "a stream as application/json" => {
            vec![Reply::plain(
                200,
                &[],
                &stream(wire, &[Text("Hello.")], Reason::Done),
            )]
        }
        "a document as text/event-stream" => {
            vec![Reply::stream([whole(wire, "Hello.").to_string()])]
        }
        "text cut at the limit" => {
            vec![Reply::stream([stream(wire, &[Text("Half")], Reason::Cut)])]
        }
        "a call cut at the limit" => {
            let cut = Call("call_0", "look", r#"{"at":"#);
            vec![Reply::stream([stream(wire, &[cut], Reason::Cut)])]
        }
        "held back" => vec![Reply::stream([stream(
            wire,
            &[Text("Ha")],
            Reason::Refused,
        )])],
        "empty" => vec![of(&[])],
        "an error in the stream" => {
            let error = framed(wire, &refusal(wire, "rate_limit_error", "slow down"));
            vec![Reply::stream([error]), good()]
        }
        "too many requests" => {
            let body = refusal(wire, "rate_limit_error", "slow down").to_string();
            vec![Reply::plain(429, &["retry-after-ms: 5"], &body), good()]
        }
        "a status of a gateway" => vec![Reply::plain(524, &[], "error code: 524"), good()],
        "longer than the window" => {
            vec![refused(
                400,
                "invalid_request_error",
                "prompt is too long: the maximum context length is 9",
            )]
        }
        "a field that is refused" => {
            vec![
                refused(
                    400,
                    "invalid_request_error",
                    "Unsupported parameter: 'temperature' is not supported",
                ),
                good(),
            ]
        }
        "reasoning that is refused" => {
            vec![
                refused(
                    400,
                    "invalid_request_error",
                    "Invalid signature in `thinking` block",
                ),
                good(),
            ]
        }
        other => panic!("no such situation: {other}"),
    }
}

const SITUATIONS: [&str; 23] = [
    "text",
    "reasoning and a call",
    "two calls side by side",
    "no arguments",
    "null in other fields",
    "half of a pair in each event",
    "comments for longer than the idle limit",
    "torn behind the end",
    "silent behind the end",
    "torn before the end",
    "silent before the end",
    "a stream as application/json",
    "a document as text/event-stream",
    "text cut at the limit",
    "a call cut at the limit",
    "held back",
    "empty",
    "an error in the stream",
    "too many requests",
    "a status of a gateway",
    "longer than the window",
    "a field that is refused",
    "reasoning that is refused",
];

/// A client with limits short enough to test a silent server.
fn impatient(wire: ModelApiFormat, url: &str) -> Arc<dyn Provider> {
    let http = HttpConfig {
        idle_timeout_ms: 300,
        ..quick()
    };
    super::wires::client_with(wire, url, http)
}

/// A message of this wire's model, with reasoning of its own and a call with its result.
async fn history(wire: ModelApiFormat, provider: &dyn Provider, id: &'static str) -> Vec<Message> {
    let pieces = [Thought("hm"), Call(id, "look", r#"{"at":1}"#)];
    let server = Server::start(vec![Reply::stream([stream(wire, &pieces, Reason::Done)])]).await;
    let response = send(&*client(wire, &server.url), json!({"model": "m"}))
        .await
        .result
        .unwrap();
    assert_eq!(provider.name(), "test");
    let mut messages = vec![Message::text(Role::User, "go"), response.message];
    let calls: Vec<ToolCall> = messages[1].tool_calls().cloned().collect();
    messages.extend(
        calls
            .iter()
            .map(|call| Message::from_tool_result(call.create_result("seen", false))),
    );
    messages
}

/// Outcome of a situation in a few words.
async fn outcome(situation: &str, wire: ModelApiFormat) -> String {
    let server = Server::start(replies(situation, wire)).await;
    let provider = impatient(wire, &server.url);
    let mut messages = history(wire, &*provider, "call_0").await;
    messages.push(Message::text(Role::User, "and?"));
    let request = Request {
        model: "m".to_owned(),
        messages,
        temperature: Some(0.5),
        ..Request::default()
    };
    let sent =
        |request: &Request| provider.build_request_body(request, &RequestImagesByBlobId::default());
    let mut result = send(&*provider, sent(&request)).await.result;
    let mut note = "";
    if let Err(Error::BadRequest {
        mend: Some(mend), ..
    }) = &result
        && provider.remember_correction(mend, &request)
    {
        note = " after a correction";
        result = send(&*provider, sent(&request)).await.result;
    }
    let received = server.received();
    let has_proof = |received: &server::Received| received.body.to_string().contains(OPAQUE);
    assert!(
        has_proof(&received[0]),
        "{situation} {wire:?}: its own reasoning went back"
    );
    if situation.starts_with("reasoning that") {
        assert!(
            !has_proof(&received[1]),
            "{wire:?}: refused reasoning went out again"
        );
    }
    let n = received.len();
    let said = match result {
        Ok(response) => {
            let mut said = format!("{:?} {:?}", response.finish, response.message.joined_text());
            for call in response.message.tool_calls() {
                let proof = if call.extra.is_some() {
                    " with its proof"
                } else {
                    ""
                };
                write!(said, " {}({}){proof}", call.name, call.arguments).unwrap();
            }
            said
        }
        Err(Error::WindowExceeded { .. }) => "window exceeded".to_owned(),
        Err(error) => format!("error {error}"),
    };
    format!("{said}{note}, {n} request{}", if n == 1 { "" } else { "s" })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_situation_is_met_on_every_wire() {
    let mut table = String::new();
    for situation in SITUATIONS {
        let outcomes = WIRES.map(|wire| outcome(situation, wire));
        let outcomes = futures_util::future::join_all(outcomes).await;
        let all_same = outcomes.iter().all(|outcome| *outcome == outcomes[0]);
        if all_same {
            writeln!(table, "{situation}: all four wires: {}", outcomes[0]).unwrap();
            continue;
        }
        writeln!(table, "{situation}:").unwrap();
        for (wire, outcome) in WIRES.iter().zip(&outcomes) {
            writeln!(table, "  {}: {outcome}", wire.name()).unwrap();
        }
    }
    insta::assert_snapshot!(table, @r#"
    text: all four wires: Done "Hello.", 1 request
    reasoning and a call:
      anthropic-messages: ToolCalls "" look({"at":1}), 1 request
      openai-chat: ToolCalls "" look({"at":1}) with its proof, 1 request
      openai-responses: ToolCalls "" look({"at":1}), 1 request
      gemini: ToolCalls "" look({"at":1}) with its proof, 1 request
    two calls side by side:
      anthropic-messages: ToolCalls "" look({"at":1}) walk({}), 1 request
      openai-chat: ToolCalls "" look({"at":1}) with its proof walk({}) with its proof, 1 request
      openai-responses: ToolCalls "" look({"at":1}) walk({}), 1 request
      gemini: ToolCalls "" look({"at":1}) with its proof walk({}) with its proof, 1 request
    no arguments:
      anthropic-messages: ToolCalls "" look({}), 1 request
      openai-chat: ToolCalls "" look({}) with its proof, 1 request
      openai-responses: ToolCalls "" look({}), 1 request
      gemini: ToolCalls "" look({}) with its proof, 1 request
    null in other fields: all four wires: Done "Hello.", 1 request
    half of a pair in each event: all four wires: Done "Hi 😀!", 1 request
    comments for longer than the idle limit: all four wires: Done "Hello.", 1 request
    torn behind the end: all four wires: Done "Hello.", 1 request
    silent behind the end: all four wires: Done "Hello.", 1 request
    torn before the end: all four wires: Done "Hello.", 2 requests
    silent before the end: all four wires: Done "Hello.", 2 requests
    a stream as application/json: all four wires: Done "Hello.", 1 request
    a document as text/event-stream: all four wires: Done "Hello.", 1 request
    text cut at the limit: all four wires: MaxTokens "Half", 1 request
    a call cut at the limit:
      anthropic-messages: MaxTokens "" look("{\"at\":"), 1 request
      openai-chat: MaxTokens "" look("{\"at\":") with its proof, 1 request
      openai-responses: MaxTokens "" look("{\"at\":"), 1 request
      gemini: MaxTokens "", 1 request
    held back: all four wires: Refused "Ha", 1 request
    empty: all four wires: Done "", 1 request
    an error in the stream: all four wires: Done "Hello.", 2 requests
    too many requests: all four wires: Done "Hello.", 2 requests
    a status of a gateway: all four wires: Done "Hello.", 2 requests
    longer than the window: all four wires: window exceeded, 1 request
    a field that is refused: all four wires: Done "Hello." after a correction, 2 requests
    reasoning that is refused: all four wires: Done "Hello." after a correction, 2 requests
    "#);
}

/// Checks a conversation in a request's body against the documented rules of this wire's API.
fn accepts(wire: ModelApiFormat, body: &Value) -> Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut last_role = String::new();
    let mut call = |id: &Value, name: &Value, open: &mut Vec<String>| {
        let (id, name) = (
            id.as_str().unwrap_or_default(),
            name.as_str().unwrap_or_default(),
        );
        let is_safe = |text: &str| {
            !text.is_empty()
                && text.len() <= 64
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        };
        if !is_safe(id) || !is_safe(name) || !seen.insert(id.to_owned()) {
            return Err(format!("the call {id:?} of {name:?}"));
        }
        open.push(id.to_owned());
        Ok(())
    };
    let result = |id: &Value, open: &mut Vec<String>| {
        let id = id.as_str().unwrap_or_default();
        let at = open.iter().position(|open| open == id);
        at.map(|at| drop(open.remove(at)))
            .ok_or_else(|| format!("a result of {id:?}"))
    };
    let field = match wire {
        ModelApiFormat::OpenaiChat | ModelApiFormat::AnthropicMessages => "messages",
        ModelApiFormat::OpenaiResponses => "input",
        ModelApiFormat::Gemini => "contents",
    };
    for item in body[field].as_array().unwrap() {
        let role = item["role"]
            .as_str()
            .or(item["type"].as_str())
            .unwrap_or_default()
            .to_owned();
        let is_answer = matches!(&*role, "tool" | "function_call_output");
        if !open.is_empty()
            && role == "user"
            && matches!(
                wire,
                ModelApiFormat::OpenaiChat | ModelApiFormat::OpenaiResponses
            )
        {
            return Err(format!("{open:?} has no result"));
        }
        if !is_answer
            && role == last_role
            && matches!(
                wire,
                ModelApiFormat::OpenaiChat
                    | ModelApiFormat::AnthropicMessages
                    | ModelApiFormat::Gemini
            )
        {
            return Err(format!("two messages of {role} in a row"));
        }
        for made in item["tool_calls"].as_array().into_iter().flatten() {
            call(&made["id"], &made["function"]["name"], &mut open)?;
        }
        match &*role {
            "tool" => result(&item["tool_call_id"], &mut open)?,
            "function_call" => call(&item["call_id"], &item["name"], &mut open)?,
            "function_call_output" => result(&item["call_id"], &mut open)?,
            _ => {}
        }
        let parts = item["parts"].as_array().or(item["content"].as_array());
        for part in parts.into_iter().flatten() {
            if part["type"] == "tool_use" {
                call(&part["id"], &part["name"], &mut open)?;
            } else if part["type"] == "tool_result" {
                result(&part["tool_use_id"], &mut open)?;
            } else if let Some(made) = part.get("functionCall") {
                call(&made["id"], &made["name"], &mut open)?;
            } else if let Some(answer) = part.get("functionResponse") {
                result(&answer["id"], &mut open)?;
            }
        }
        if item["content"].is_null() && item.get("content").is_some() {
            return Err("null in place of content".to_owned());
        }
        last_role = role;
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("{open:?} has no result")),
    }
}

#[tokio::test]
async fn a_conversation_goes_on_over_each_other_wire_and_back() {
    let mut messages = Vec::new();
    // Each wire runs twice, the second time after all others. All of them number their calls anew.
    for wire in [WIRES, [WIRES[2], WIRES[0], WIRES[3], WIRES[1]]].concat() {
        let server = Server::start(vec![Reply::stream([stream(
            wire,
            &[Text("ok")],
            Reason::Done,
        )])])
        .await;
        let provider = client(wire, &server.url);
        messages.extend(history(wire, &*provider, "call_0").await);
        messages.push(Message::new(
            Role::Assistant,
            vec![Content::ToolCall(ToolCall::new(
                "call_0",
                "functions.look<|channel|>",
                json!("{bad"),
            ))],
        ));
        messages.push(Message::text(Role::User, "and?"));
        let request = Request {
            model: "m".to_owned(),
            messages: messages.clone(),
            ..Request::default()
        };
        let body = provider.build_request_body(&request, &RequestImagesByBlobId::default());
        accepts(wire, &body).unwrap_or_else(|why| panic!("{wire:?}: {why} in {body:#}"));
        // Only messages with calls have a signature.
        let own = messages
            .iter()
            .filter(|message| message.tool_calls().next().is_some())
            .filter_map(|message| message.writer.as_ref());
        let n_own = own.filter(|writer| writer.wire == wire.name()).count();
        let n_proofs = body.to_string().matches(OPAQUE).count();
        assert!(n_proofs >= n_own, "{wire:?}: {n_proofs} proofs of {n_own}");
        let others = WIRES.iter().filter(|other| **other != wire);
        let marks = others.map(|other| match other {
            ModelApiFormat::OpenaiChat => "reasoning_content",
            ModelApiFormat::AnthropicMessages => "\"signature\"",
            ModelApiFormat::OpenaiResponses => "rs_1",
            // Gemini's signature is not counted: calls of other wires get a placeholder for it.
            ModelApiFormat::Gemini => "never",
        });
        let foreign: Vec<&str> = marks
            .filter(|mark| body.to_string().contains(mark))
            .collect();
        assert_eq!(foreign, [""; 0], "{wire:?}");
        let answer = send(&*provider, body).await.result.unwrap();
        messages.push(answer.message);
    }
}

/// Any JSON value, of a few levels.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// JSON pointers to every value within a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                places(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Whether the place is an error or decides the answer's end, so that changing it may lose all.
fn is_vital(place: &str) -> bool {
    [
        "finish_reason",
        "stop_reason",
        "finishReason",
        "error",
        "status",
        "type",
        "incomplete_details",
        "blockReason",
        "refusal",
    ]
    .iter()
    .any(|name| place.contains(name))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// The other events are still read, whatever value one field of one event has.
    #[test]
    fn a_field_of_any_value_changes_at_most_its_own_effect(pick in any::<prop::sample::Index>(), event in any::<prop::sample::Index>(), value in any_json()) {
        for wire in WIRES {
            let pieces = [Text("first "), Text("second "), Text("third")];
            let (mut events, end) = events(wire, &pieces, Reason::Done);
            let at = event.index(events.len());
            let mut found = Vec::new();
            places(&events[at], "", &mut found);
            let place = found[pick.index(found.len())].clone();
            if is_vital(&place) || (place.is_empty() && value.get("error").is_some()) {
                continue;
            }
            *events[at].pointer_mut(&place).unwrap() = value.clone();
            let bytes: String = events.iter().chain(&end).map(|event| framed(wire, event)).collect();
            let read = rind::provider::replay::decode_recorded_answer(wire, &[bytes.as_bytes()]);
            let message = read.unwrap_or_else(|why| panic!("{wire:?} {place}: {why}\n{bytes}"));
            let text = message.joined_text().replace('\n', "");
            // The change affects at most one of the three pieces.
            let n_left = ["first ", "second ", "third"].iter().filter(|piece| text.contains(*piece)).count();
            prop_assert!(n_left >= 2, "{wire:?} {place}: {text:?}\n{bytes}");
        }
    }
}
