//! The Responses API and Gemini against recorded answers: one for each situation. The next request
//! must contain everything that the server attached to its answer.

use rind::provider::endpoint::{ApiKey, ModelApiEndpoint};
use rind::provider::profile::ModelServerProfile;
use rind::provider::{ModelApiFormat, connect};

use super::*;

const RESPONSES_TOOLS: &str = include_str!("../../recorded/responses_tools.sse");
const GEMINI_TOOLS: &str = include_str!("../../recorded/gemini_tools.sse");

pub(super) fn client(wire: ModelApiFormat, url: &str) -> Arc<dyn Provider> {
    client_with(wire, url, quick())
}

pub(crate) fn client_with(wire: ModelApiFormat, url: &str, http: HttpConfig) -> Arc<dyn Provider> {
    let endpoint = ModelApiEndpoint {
        provider: "test".to_owned(),
        url: ModelApiEndpoint::parse_url("test", "URL", url).unwrap(),
        url_env: "URL".to_owned(),
        key: ApiKey::new("sk-test-key"),
        key_env: "KEY".to_owned(),
        advice: String::new(),
        headers: Default::default(),
        key_in: None,
    };
    connect(wire, endpoint, http, ModelServerProfile::default()).unwrap()
}

/// A request to a model that reasons.
fn request_to(model: &str, messages: Vec<Message>) -> Request {
    Request {
        model: model.to_owned(),
        messages,
        ..request()
    }
}

fn as_json(message: &Message) -> Value {
    let mut content = json!(message.content);
    for part in content.as_array_mut().unwrap() {
        // Ids that the program makes up contain the time, so they are masked.
        if part["id"].as_str().is_some_and(|id| id.len() > 16) {
            part["id"] = json!("made-up");
        }
    }
    content
}

#[tokio::test]
async fn every_recorded_answer_is_read() {
    let item = json!({"id": "rs_68a3", "type": "reasoning", "encrypted_content": "gAAAAABoYW1wbGU=",
        "summary": [{"type": "summary_text", "text": "The user wants the weather."}]});
    let said = json!({"type": "text", "text": "Ich schaue für dich nach 🌦️."});
    let text = |text: &str| json!({"type": "text", "text": text});
    let hello = text("Hello there.");
    let opaque = |extra: Value| json!({"type": "thinking", "text": "", "extra": extra});
    let call = |id: &str, name: &str, arguments: Value| json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments});
    let mut signed = call("fc-1", "get_weather", json!({"city": "München"}));
    signed["extra"] = json!({"thoughtSignature": "CiQBcall="});
    let thought = "The user wants the weather.";
    let (responses, gemini) = (ModelApiFormat::OpenaiResponses, ModelApiFormat::Gemini);
    // Columns: wire, recording, reason for the end, tokens of input, output and cache, content.
    let table = [
        (
            responses,
            include_str!("../../recorded/responses_text.sse"),
            Finish::Done,
            [320, 44, 256],
            json!([hello]),
        ),
        (
            responses,
            RESPONSES_TOOLS,
            Finish::ToolCalls,
            [320, 44, 256],
            json!([
                {"type": "thinking", "text": thought, "extra": item},
                opaque(json!({"phase": "commentary"})),
                said,
                call("call_a1", "get_weather", json!({"city": "München"})),
                call("call_b2", "get_time", json!({})),
            ]),
        ),
        (
            responses,
            include_str!("../../recorded/responses_refused.sse"),
            Finish::Refused,
            [9, 4, 0],
            json!([text("I cannot help.")]),
        ),
        (
            responses,
            include_str!("../../recorded/responses_filtered.sse"),
            Finish::Refused,
            [9, 2, 0],
            json!([text("Half ")]),
        ),
        (
            responses,
            include_str!("../../recorded/responses_cut.sse"),
            Finish::MaxTokens,
            [9, 100, 0],
            json!([call(
                "call_a1",
                "write_file",
                json!("{\"path\":\"a\",\"text\":\"ha")
            )]),
        ),
        (
            responses,
            include_str!("../../recorded/responses_nulls.sse"),
            Finish::Done,
            [12, 0, 0],
            json!([hello]),
        ),
        (
            gemini,
            include_str!("../../recorded/gemini_text.sse"),
            Finish::Done,
            [320, 44, 256],
            json!([
                hello,
                opaque(json!({"text": "", "thoughtSignature": "CiQBsig="}))
            ]),
        ),
        (
            gemini,
            GEMINI_TOOLS,
            Finish::ToolCalls,
            [320, 44, 256],
            json!([
                {"type": "thinking", "text": thought},
                said,
                signed,
                call("made-up", "get_time", json!({})),
            ]),
        ),
        (
            gemini,
            include_str!("../../recorded/gemini_refused.sse"),
            Finish::Refused,
            [9, 2, 0],
            json!([text("Half ")]),
        ),
        (
            gemini,
            include_str!("../../recorded/gemini_blocked.sse"),
            Finish::Refused,
            [9, 0, 0],
            json!([]),
        ),
        (
            gemini,
            include_str!("../../recorded/gemini_cut.sse"),
            Finish::MaxTokens,
            [9, 100, 0],
            json!([text("Half of")]),
        ),
        (
            gemini,
            include_str!("../../recorded/gemini_nulls.sse"),
            Finish::Done,
            [12, 3, 0],
            json!([hello]),
        ),
    ];
    for (wire, recorded, finish, [input, output, cached], content) in table {
        let server = Server::start(vec![Reply::stream([recorded])]).await;
        let body = json!({"model": "m"});
        let response = send(&*client(wire, &server.url), body)
            .await
            .result
            .unwrap();
        assert_eq!(as_json(&response.message), content, "{recorded}");
        let usage = response.usage;
        let counts = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
        ];
        assert_eq!(
            (response.finish, counts),
            (finish, [input, output, cached]),
            "{recorded}"
        );
        let writer = response.message.writer.unwrap();
        assert_eq!((&*writer.wire, &*writer.model), (wire.name(), "m"));
        let models = ["gpt-5.1-2025-11-13", "gemini-3.8-flash"];
        let named = response.model.as_deref();
        assert!(named.is_none_or(|name| models.contains(&name)), "{named:?}");
    }
}

#[tokio::test]
async fn an_error_in_an_answer_is_told_as_what_it_is() {
    let (responses, gemini) = (ModelApiFormat::OpenaiResponses, ModelApiFormat::Gemini);
    // Columns: wire, recording, number of requests, a part of the error.
    for (wire, recorded, n_requests, words) in [
        (
            responses,
            include_str!("../../recorded/responses_failed.sse"),
            4,
            "Rate limit reached for gpt-5.1",
        ),
        (
            responses,
            include_str!("../../recorded/responses_error.sse"),
            1,
            "exceeds the context window",
        ),
        (
            gemini,
            include_str!("../../recorded/gemini_error.sse"),
            4,
            "The model is overloaded",
        ),
        (
            gemini,
            include_str!("../../recorded/gemini_malformed.sse"),
            4,
            "Malformed function call",
        ),
    ] {
        let server = Server::start(vec![Reply::stream([recorded]); 4]).await;
        let (error, _) = send(&*client(wire, &server.url), json!({"model": "m"}))
            .await
            .error();
        assert!(error.contains(words), "{error}");
        assert_eq!(server.received().len(), n_requests, "{error}");
    }
}

/// Messages of `model`'s recorded answer and of the results of its two calls.
async fn answered(wire: ModelApiFormat, model: &str, recorded: &str) -> Vec<Message> {
    let server = Server::start(vec![Reply::stream([recorded])]).await;
    let response = send(&*client(wire, &server.url), json!({"model": model}))
        .await
        .result
        .unwrap();
    let results: Vec<Content> = response
        .message
        .tool_calls()
        .map(|call| {
            Content::ToolResult(ToolResult::new(
                &*call.id,
                &*call.name,
                "sunny",
                call.name == "get_time",
            ))
        })
        .collect();
    vec![
        Message::text(Role::User, "Wie ist das Wetter?"),
        response.message,
        Message::new(Role::Tool, results),
        Message::text(Role::User, "München!"),
    ]
}

#[tokio::test]
async fn the_responses_api_gets_its_reasoning_back_and_nothing_is_stored() {
    let messages = answered(ModelApiFormat::OpenaiResponses, "gpt-5.1", RESPONSES_TOOLS).await;
    let server = Server::start(vec![Reply::stream([RESPONSES_TOOLS])]).await;
    let client = client(
        ModelApiFormat::OpenaiResponses,
        &format!("{}/v1/", server.url),
    );
    let body = client.build_request_body(
        &request_to("gpt-5.1", messages),
        &RequestImagesByBlobId::default(),
    );
    send(&*client, body).await.answer();
    let [sent] = &server.received()[..] else {
        panic!("one request");
    };
    assert_eq!(sent.line, "POST /v1/responses");
    assert!(sent.has("authorization: Bearer sk-test-key"));
    assert_eq!(
        sent.body,
        json!({
            "model": "gpt-5.1",
            "max_output_tokens": 100,
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "instructions": "Be brief.\n\nIt is Monday.",
            "tools": [{
                "type": "function", "name": "get_weather", "description": "Weather of a city.", "strict": false,
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            }],
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Wie ist das Wetter?"}]},
                {"id": "rs_68a3", "type": "reasoning", "encrypted_content": "gAAAAABoYW1wbGU=",
                    "summary": [{"type": "summary_text", "text": "The user wants the weather."}]},
                {"role": "assistant", "content": "Ich schaue für dich nach 🌦️.", "phase": "commentary"},
                {"type": "function_call", "call_id": "call_a1", "name": "get_weather",
                    "arguments": "{\"city\":\"München\"}"},
                {"type": "function_call", "call_id": "call_b2", "name": "get_time", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_a1", "output": "sunny"},
                {"type": "function_call_output", "call_id": "call_b2", "output": "error: sunny"},
                {"role": "user", "content": [{"type": "input_text", "text": "München!"}]},
            ],
        })
    );
    let body = client.build_request_body(
        &request_to("gpt-4.1", Vec::new()),
        &RequestImagesByBlobId::default(),
    );
    assert_eq!(body.get("include"), None);
}

#[tokio::test]
async fn gemini_gets_its_signatures_back_and_the_model_in_the_path() {
    let mut messages = answered(ModelApiFormat::Gemini, "gemini-3.8-flash", GEMINI_TOOLS).await;
    let made_up = messages[1].tool_calls().nth(1).unwrap().id.clone();
    let unsigned = ToolCall::new("x", "get_time", json!({}));
    messages.extend([
        Message::new(Role::Assistant, vec![Content::ToolCall(unsigned)]),
        Message::from_tool_result(ToolResult::new("x", "get_time", "noon", false)),
    ]);
    // A base URL with and one without the version mean the same.
    for suffix in ["", "/", "/v1beta", "/v1beta/"] {
        let server = Server::start(vec![Reply::stream([GEMINI_TOOLS])]).await;
        let client = client(ModelApiFormat::Gemini, &format!("{}{suffix}", server.url));
        let request = request_to("gemini-3.8-flash", messages.clone());
        let body = client.build_request_body(&request, &RequestImagesByBlobId::default());
        assert_eq!(body["model"], "gemini-3.8-flash");
        send(&*client, body).await.answer();
        let [sent] = &server.received()[..] else {
            panic!("one request");
        };
        assert_eq!(
            sent.line,
            "POST /v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
        );
        assert!(sent.has("x-goog-api-key: sk-test-key"));
        assert_eq!(
            sent.body,
            json!({
                "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "It is Monday."}]},
                "tools": [{"functionDeclarations": [{
                    "name": "get_weather", "description": "Weather of a city.",
                    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                }]}],
                "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"includeThoughts": true}},
                "contents": [
                    {"role": "user", "parts": [{"text": "Wie ist das Wetter?"}]},
                    {"role": "model", "parts": [
                        {"text": "Ich schaue für dich nach 🌦️."},
                        {"functionCall": {"id": "fc-1", "name": "get_weather", "args": {"city": "München"}},
                            "thoughtSignature": "CiQBcall="},
                        {"functionCall": {"id": made_up, "name": "get_time", "args": {}}},
                    ]},
                    {"role": "user", "parts": [
                        {"functionResponse": {"id": "fc-1", "name": "get_weather", "response": {"output": "sunny"}}},
                        {"functionResponse": {"id": made_up, "name": "get_time", "response": {"error": "sunny"}}},
                        {"text": "München!"},
                    ]},
                    {"role": "model", "parts": [{"functionCall": {"id": "x", "name": "get_time", "args": {}},
                        "thoughtSignature": "skip_thought_signature_validator"}]},
                    {"role": "user", "parts": [
                        {"functionResponse": {"id": "x", "name": "get_time", "response": {"output": "noon"}}},
                    ]},
                ],
            })
        );
    }
}

#[tokio::test]
async fn answers_that_are_not_streamed_are_read_too() {
    let responses = json!({"object": "response", "status": "completed", "model": "gpt-5.1", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello there."}]},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{\"at\":1}"},
        {"type": "computer_call", "call_id": "b"},
    ], "usage": {"input_tokens": 9, "output_tokens": 1}});
    let piece = json!({"candidates": [{"content": {"parts": [{"text": "Hello there."}]}}]});
    let end = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "look", "args": {"at": 1}}}]},
        "finishReason": "STOP"}]});
    for (wire, answer) in [
        (ModelApiFormat::OpenaiResponses, responses),
        (ModelApiFormat::Gemini, json!([piece, end])),
    ] {
        let server = Server::start(vec![Reply::plain(200, &[], &answer.to_string())]).await;
        let (response, _) = send(&*client(wire, &server.url), json!({"model": "m"}))
            .await
            .answer();
        assert_eq!(response.message.joined_text(), "Hello there.");
        let arguments: Vec<&Value> = response
            .message
            .tool_calls()
            .map(|call| &call.arguments)
            .collect();
        assert_eq!(
            (arguments, response.finish),
            (vec![&json!({"at": 1})], Finish::ToolCalls)
        );
    }
}

#[tokio::test]
async fn lists_of_models_are_read_from_each_api() {
    let openai = json!({"data": [{"id": "gpt-5.1"}]});
    let gemini = json!({"models": [
        {"name": "models/gemini-3.8-flash", "supportedGenerationMethods": ["generateContent", "countTokens"]},
        {"name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]},
    ]});
    for (wire, list, line, name) in [
        (
            ModelApiFormat::OpenaiResponses,
            openai,
            "GET /models",
            "gpt-5.1",
        ),
        (
            ModelApiFormat::Gemini,
            gemini,
            "GET /v1beta/models?pageSize=1000",
            "gemini-3.8-flash",
        ),
    ] {
        let server = Server::start(vec![Reply::plain(200, &[], &list.to_string())]).await;
        let models = client(wire, &server.url)
            .models(&CancellationToken::new())
            .await;
        assert_eq!(models.unwrap(), [name]);
        assert_eq!(server.received()[0].line, line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn where_a_stream_is_cut_makes_no_difference_to_these_wires(cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        for (wire, recorded) in [(ModelApiFormat::OpenaiResponses, RESPONSES_TOOLS), (ModelApiFormat::Gemini, GEMINI_TOOLS)] {
            let pieces = cut(recorded, &cuts);
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let read = |pieces: &[&[u8]]| as_json(&rind::provider::replay::decode_recorded_answer(wire, pieces).unwrap());
            assert_eq!(read(&pieces), read(&[recorded.as_bytes()]));
        }
    }
}
