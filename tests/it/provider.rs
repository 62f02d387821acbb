//! The provider layer against a local server that replays recorded traffic: requests, streamed
//! events, answers, and every kind of failure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod asked;
mod failures;
mod schemas;
mod scripted;
pub(crate) mod server;
mod situations;
mod tunnel;
mod wires;

pub(crate) use wires::client_with;

use std::sync::Arc;

use proptest::prelude::*;
use rind::message::{Content, EffectClass, Message, Role, ToolCall, ToolResult, ToolSpec, Usage};
use rind::provider::{
    Error, Finish, HttpConfig, Provider, ProviderConfig, Request, RequestImagesByBlobId, Response,
    StreamEvent, SystemPromptBlock, select_provider,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::server::{Reply, Server};

const ANTHROPIC_TEXT: &str = include_str!("../recorded/anthropic_text.sse");
const ANTHROPIC_TOOLS: &str = include_str!("../recorded/anthropic_tools.sse");
const OPENAI_TEXT: &str = include_str!("../recorded/openai_text.sse");
const OPENAI_TOOLS: &str = include_str!("../recorded/openai_tools.sse");

/// Limits that keep the tests quick.
pub(crate) fn quick() -> HttpConfig {
    HttpConfig {
        connect_timeout_ms: 2_000,
        first_byte_timeout_ms: 2_000,
        idle_timeout_ms: 2_000,
        max_attempts: 4,
        retry_delay_ms: 1,
        max_retry_after_ms: 30_000,
        ..HttpConfig::default()
    }
}

/// The provider `name` at `url`, with the key `sk-test-key`.
pub(crate) fn provider(name: &str, url: &str, http: HttpConfig) -> Arc<dyn Provider> {
    let suffix = if name == "anthropic" { "" } else { "/v1" };
    provider_at(name, &format!("{url}{suffix}"), http)
}

/// The provider at exactly this base URL.
fn provider_at(name: &str, url: &str, http: HttpConfig) -> Arc<dyn Provider> {
    let config = ProviderConfig {
        name: Some(name.to_owned()),
        model: Some("test-model".to_owned()),
        base_url: Some(url.to_owned()),
        http,
        ..ProviderConfig::default()
    };
    let env = |name: &str| name.ends_with("_API_KEY").then(|| "sk-test-key".to_owned());
    select_provider(&config, &env).unwrap().provider
}

/// Outcome of a request.
struct Outcome {
    result: Result<Response, Error>,
    events: Vec<StreamEvent>,
}

impl Outcome {
    /// The answer and its events, without the fields that differ between runs.
    fn answer(self) -> (Response, Vec<StreamEvent>) {
        let mut response = self.result.unwrap();
        response.message.id = String::new();
        response.message.writer = None;
        response.latency_ms = 0;
        (response, self.events)
    }

    /// The error's text, and the events before it.
    fn error(self) -> (String, Vec<StreamEvent>) {
        (self.result.unwrap_err().to_string(), self.events)
    }
}

async fn send(provider: &dyn Provider, body: Value) -> Outcome {
    let mut events = Vec::new();
    let on = &mut |event| events.push(event);
    let result = provider.send(body, on, &CancellationToken::new()).await;
    Outcome { result, events }
}

/// A request with every kind of content and option.
pub(crate) fn request() -> Request {
    Request {
        model: "test-model".to_owned(),
        system: vec![
            SystemPromptBlock {
                text: "Be brief.".to_owned(),
                is_cached: true,
            },
            SystemPromptBlock {
                text: "It is Monday.".to_owned(),
                is_cached: false,
            },
        ],
        messages: vec![
            Message::text(Role::User, "Wie ist das Wetter?"),
            Message::new(
                Role::Assistant,
                vec![Content::ToolCall(ToolCall::new(
                    "call_1",
                    "get_weather",
                    json!({"city": "Köln"}),
                ))],
            ),
            Message::new(
                Role::Tool,
                vec![Content::ToolResult(ToolResult {
                    call_id: "call_1".to_owned(),
                    name: "get_weather".to_owned(),
                    content: "no such city".into(),
                    is_error: true,
                })],
            ),
            Message::text(Role::User, "München!"),
        ],
        tools: vec![ToolSpec {
            name: "get_weather".to_owned(),
            description: "Weather of a city.".to_owned(),
            parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
            effect_class: EffectClass::Read,
            plugin: None,
        }],
        temperature: None,
        max_tokens: Some(100),
        output: None,
    }
}

fn text(text: &str) -> StreamEvent {
    StreamEvent::Text(text.to_owned())
}

/// Expected content of both recordings with tools.
fn expected_content(signature: Option<&str>, ids: [&str; 2]) -> Vec<Content> {
    let call =
        |id: &str, name: &str, arguments| Content::ToolCall(ToolCall::new(id, name, arguments));
    vec![
        Content::Thinking {
            text: "The user wants the weather.".to_owned(),
            signature: signature.map(str::to_owned),
            // Chat completions return reasoning to the server in the field in which it arrived.
            extra: signature.is_none().then(|| json!("reasoning_content")),
        },
        Content::Text {
            text: "Ich schaue für dich nach 🌦️.".to_owned(),
        },
        call(ids[0], "get_weather", json!({"city": "München"})),
        call(ids[1], "get_time", json!({})),
    ]
}

fn response(content: Vec<Content>, finish: Finish, usage: Usage, raw: &str) -> Response {
    let named = ["claude-sonnet-4-5-20250929", "gpt-4o-2024-08-06"];
    let model = named.into_iter().find(|model| raw.contains(model));
    Response {
        model: model.map(str::to_owned),
        message: Message {
            id: String::new(),
            ..Message::new(Role::Assistant, content)
        },
        finish,
        usage,
        cost_usd: None,
        status: 200,
        latency_ms: 0,
        raw: raw.to_owned(),
    }
}

fn anthropic_tools() -> Response {
    let usage = Usage {
        input_tokens: 2572,
        output_tokens: 89,
        cache_read_tokens: 2000,
        cache_write_tokens: 100,
        estimated: false,
    };
    let content = expected_content(
        Some("EqQBCgIYAhIM1gbcDa9GJwZA2b3h"),
        ["toolu_01T1x", "toolu_01T2y"],
    );
    response(content, Finish::ToolCalls, usage, ANTHROPIC_TOOLS)
}

fn openai_tools() -> Response {
    let usage = Usage {
        input_tokens: 320,
        output_tokens: 44,
        cache_read_tokens: 256,
        cache_write_tokens: 0,
        estimated: false,
    };
    let content = expected_content(None, ["call_a1", "call_b2"]);
    response(content, Finish::ToolCalls, usage, OPENAI_TOOLS)
}

fn tool(name: &str) -> StreamEvent {
    StreamEvent::ToolCall {
        name: name.to_owned(),
    }
}

/// Pieces cut within the first `ü`, and within the sun of the emoji.
fn cut_inside_characters(recorded: &str) -> Vec<Vec<u8>> {
    let (first, second) = (
        recorded.find('ü').unwrap() + 1,
        recorded.find('🌦').unwrap() + 2,
    );
    let bytes = recorded.as_bytes();
    vec![
        bytes[..first].to_vec(),
        bytes[first..second].to_vec(),
        bytes[second..].to_vec(),
    ]
}

#[tokio::test]
async fn anthropic_is_sent_the_whole_request_and_its_answer_is_read() {
    let server = Server::start(vec![Reply::stream(cut_inside_characters(ANTHROPIC_TOOLS))]).await;
    let provider = provider("anthropic", &server.url, quick());
    let body = provider.build_request_body(&request(), &RequestImagesByBlobId::default());
    let (response, events) = send(&*provider, body).await.answer();
    assert_eq!(response, anthropic_tools());
    assert_eq!(
        events,
        [
            StreamEvent::Thinking("The user wants ".to_owned()),
            StreamEvent::Thinking("the weather.".to_owned()),
            text("Ich schaue für "),
            text("dich nach 🌦️."),
            tool("get_weather"),
            tool("get_time"),
        ]
    );
    let [sent] = &server.received()[..] else {
        panic!("one request");
    };
    assert_eq!(sent.line, "POST /v1/messages");
    assert!(sent.has("anthropic-version: 2023-06-01"));
    assert!(sent.has("x-api-key: sk-test-key"));
    assert!(sent.has("content-type: application/json"));
    assert_eq!(
        sent.body,
        json!({
            "model": "test-model",
            "max_tokens": 100,
            "stream": true,
            "system": [
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "It is Monday."},
            ],
            "tools": [{
                "name": "get_weather",
                "description": "Weather of a city.",
                "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
                "cache_control": {"type": "ephemeral"},
            }],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Wie ist das Wetter?"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Köln"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "no such city", "is_error": true},
                    {"type": "text", "text": "München!", "cache_control": {"type": "ephemeral"}},
                ]},
            ],
        })
    );
}

#[tokio::test]
async fn an_openai_server_is_sent_the_whole_request_and_its_answer_is_read() {
    let server = Server::start(vec![Reply::stream(cut_inside_characters(OPENAI_TOOLS))]).await;
    let provider = provider("openai", &server.url, quick());
    let body = provider.build_request_body(&request(), &RequestImagesByBlobId::default());
    let (response, events) = send(&*provider, body).await.answer();
    assert_eq!(response, openai_tools());
    assert_eq!(
        events,
        [
            StreamEvent::Thinking("The user wants the weather.".to_owned()),
            text("Ich schaue für "),
            text("dich nach 🌦️."),
            tool("get_weather"),
            tool("get_time"),
        ]
    );
    let [sent] = &server.received()[..] else {
        panic!("one request");
    };
    assert_eq!(sent.line, "POST /v1/chat/completions");
    assert!(sent.has("authorization: Bearer sk-test-key"));
    assert_eq!(
        sent.body,
        json!({
            "model": "test-model",
            "max_tokens": 100,
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "get_weather",
                "description": "Weather of a city.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            }}],
            "messages": [
                {"role": "system", "content": "Be brief.\n\nIt is Monday."},
                {"role": "user", "content": "Wie ist das Wetter?"},
                {"role": "assistant", "tool_calls": [{
                    "id": "call_1", "type": "function",
                    "function": {"name": "get_weather", "arguments": "{\"city\":\"Köln\"}"},
                }]},
                {"role": "tool", "tool_call_id": "call_1", "content": "error: no such city"},
                {"role": "user", "content": "München!"},
            ],
        })
    );
}

#[tokio::test]
async fn a_plain_text_answer_is_read_in_both_formats() {
    for (name, recorded, usage) in [
        ("anthropic", ANTHROPIC_TEXT, (2572, 12)),
        ("openai", OPENAI_TEXT, (320, 44)),
    ] {
        let server = Server::start(vec![Reply::stream([recorded])]).await;
        let provider = provider(name, &server.url, quick());
        let (response, events) = send(&*provider, json!({})).await.answer();
        assert_eq!(response.message.joined_text(), "Hello there.", "{name}");
        assert_eq!(response.finish, Finish::Done);
        let used = (response.usage.input_tokens, response.usage.output_tokens);
        assert_eq!(used, usage, "{name}");
        assert_eq!(events, [text("Hello "), text("there.")]);
    }
}

#[tokio::test]
async fn a_body_that_a_hook_changed_is_sent_as_it_is() {
    let server = Server::start(vec![Reply::stream([OPENAI_TEXT])]).await;
    let provider = provider("openai", &server.url, quick());
    let mut body = provider.build_request_body(&request(), &RequestImagesByBlobId::default());
    body["seed"] = json!(7);
    body["messages"] = json!([]);
    send(&*provider, body.clone()).await.answer();
    assert_eq!(server.received()[0].body, body);
}

#[tokio::test]
async fn a_server_without_a_key_is_sent_none() {
    let server = Server::start(vec![Reply::stream([OPENAI_TEXT])]).await;
    let config = ProviderConfig {
        name: Some("ollama".to_owned()),
        model: Some("m".to_owned()),
        base_url: Some(format!("{}/v1", server.url)),
        ..ProviderConfig::default()
    };
    let chosen = select_provider(&config, &|_| None).unwrap();
    send(&*chosen.provider, json!({})).await.answer();
    let sent = &server.received()[0];
    let is_keyed = |line: &String| line.starts_with("authorization:");
    assert!(!sent.headers.iter().any(is_keyed), "{:?}", sent.headers);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let openai = json!({
        "choices": [{"message": {"role": "assistant", "content": "Hello there."}, "finish_reason": "stop"}],
    });
    let anthropic = json!({
        "type": "message", "stop_reason": "end_turn", "content": [{"type": "text", "text": "Hello there."}],
    });
    for (name, answer) in [("openai", openai), ("anthropic", anthropic)] {
        let answer = answer.to_string();
        let server = Server::start(vec![Reply::plain(200, &[], &answer)]).await;
        let provider = provider(name, &server.url, quick());
        let (response, events) = send(&*provider, json!({})).await.answer();
        assert_eq!(response.message.joined_text(), "Hello there.");
        assert_eq!((events, response.raw), (vec![text("Hello there.")], answer));
    }
}

/// Splits `recorded` at `cuts`, which may be in any order and out of bounds.
fn cut(recorded: &str, cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|at| at % recorded.len()).collect();
    cuts.extend([0, recorded.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|pair| recorded.as_bytes()[pair[0]..pair[1]].to_vec())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn where_the_stream_is_cut_makes_no_difference(cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for (name, recorded, expected) in [
                ("anthropic", ANTHROPIC_TOOLS, anthropic_tools()),
                ("openai", OPENAI_TOOLS, openai_tools()),
            ] {
                let server = Server::start(vec![Reply::stream(cut(recorded, &cuts))]).await;
                let provider = provider(name, &server.url, quick());
                let (response, _) = send(&*provider, json!({})).await.answer();
                assert_eq!(response, expected);
            }
        });
    }
}

#[tokio::test]
async fn one_byte_at_a_time_makes_no_difference() {
    let bytes = ANTHROPIC_TOOLS.as_bytes().chunks(1).map(<[u8]>::to_vec);
    let server = Server::start(vec![Reply::stream(bytes)]).await;
    let provider = provider("anthropic", &server.url, quick());
    let (response, _) = send(&*provider, json!({})).await.answer();
    assert_eq!(response, anthropic_tools());
}
