//! Network failures, and their messages for the user.

use std::time::Duration;

use super::*;

/// Retries as `attempt reason`, other events as they are shown for debugging.
fn shown(events: &[StreamEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            StreamEvent::Retry {
                attempt, reason, ..
            } => format!("{attempt} {reason}"),
            other => format!("{other:?}"),
        })
        .collect()
}

/// The provider's error when the server answers with `reply`, and the events before it.
async fn fail(name: &str, reply: Reply, http: HttpConfig) -> (String, Vec<String>) {
    let server = Server::start(vec![reply]).await;
    let provider = provider(name, &server.url, http);
    let body = provider.build_request_body(&request(), &RequestImagesByBlobId::default());
    let (error, events) = send(&*provider, body).await.error();
    (error.replace(&server.url, "http://HERE"), shown(&events))
}

/// The start of a recording, up to the end of the event that contains `text`.
fn up_to<'a>(recorded: &'a str, text: &str) -> &'a str {
    let at = recorded.find(text).unwrap();
    let end = recorded[at..].find("\n\n").unwrap();
    &recorded[..at + end + 2]
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let anthropic = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
    };
    let openai = |message: &str| json!({"error": {"message": message, "code": null}}).to_string();
    for (name, status, body, expected) in [
        (
            "anthropic",
            401,
            anthropic("authentication_error", "invalid x-api-key"),
            "anthropic refused the key in ANTHROPIC_API_KEY with status 401: check the key and what it may be used for; \
             the server said \"invalid x-api-key\"",
        ),
        (
            "openai",
            401,
            openai("Incorrect API key provided: sk-test-key."),
            "openai refused the key in OPENAI_API_KEY with status 401: check the key and what it may be used for; the \
             server said \"Incorrect API key provided: [key].\"",
        ),
        (
            "openai",
            404,
            openai("The model `test-model` does not exist"),
            "openai knows no model `test-model` at http://HERE/v1 (status 404): choose another with --model, or correct \
             provider.base_url; the server said \"The model `test-model` does not exist\"",
        ),
        (
            "anthropic",
            400,
            anthropic(
                "invalid_request_error",
                "messages: \u{1b}[2Jat least one\nis required",
            ),
            "anthropic rejected the request with status 400, the server said \"messages: [2Jat least one is required\": \
             correct the model's parameters, or the hook that changed the request",
        ),
        (
            "openai",
            302,
            String::new(),
            "provider.base_url of openai cannot be used: http://HERE/v1 redirects to \"http://elsewhere/\", and \
             redirects are not followed; set the new URL if it is correct",
        ),
    ] {
        let reply = Reply::plain(status, &["location: http://elsewhere/"], &body);
        let (error, events) = fail(name, reply, quick()).await;
        assert_eq!(error, expected);
        assert_eq!(events, [""; 0]);
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_the_server_asks() {
    let busy = Reply::plain(
        429,
        &["retry-after: 1"],
        r#"{"error":{"message":"slow down"}}"#,
    );
    let server = Server::start(vec![busy, Reply::stream([OPENAI_TEXT])]).await;
    let provider = provider("openai", &server.url, quick());
    let (response, events) = send(&*provider, json!({"model": "m"})).await.answer();
    assert_eq!(response.message.joined_text(), "Hello there.");
    let retry = StreamEvent::Retry {
        attempt: 2,
        delay_ms: 1_000,
        reason: "openai limits the rate or is overloaded (status 429, attempt 1): it asks to wait 1 s; the server said \
                 \"slow down\""
            .to_owned(),
    };
    assert_eq!(events, [retry, text("Hello "), text("there.")]);
    let bodies: Vec<Value> = server
        .received()
        .into_iter()
        .map(|sent| sent.body)
        .collect();
    assert_eq!(bodies, [json!({"model": "m"}), json!({"model": "m"})]);
}

#[tokio::test]
async fn a_rate_limit_of_an_hour_is_not_waited_for() {
    let busy = Reply::plain(429, &["retry-after: 3600"], "{}");
    let (error, events) = fail("openai", busy, quick()).await;
    assert_eq!(
        error,
        "openai limits the rate or is overloaded (status 429, attempt 1): it asks to wait 3600 s; the server said \"{}\""
    );
    assert_eq!(events, [""; 0]);
}

#[tokio::test]
async fn a_server_that_stays_overloaded_is_given_up_after_four_attempts() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let (error, events) = fail("anthropic", Reply::plain(529, &[], body), quick()).await;
    let told = |attempt: u32| {
        format!(
            "anthropic limits the rate or is overloaded (status 529, attempt {attempt}): wait, or choose another model \
             with --model; the server said \"Overloaded\""
        )
    };
    assert_eq!(error, told(4));
    let retry = |attempt: u32| format!("{attempt} {}", told(attempt - 1));
    assert_eq!(events, [retry(2), retry(3), retry(4)]);
}

#[tokio::test]
async fn an_overload_reported_inside_a_stream_is_tried_again_while_nothing_was_said() {
    let start = up_to(ANTHROPIC_TEXT, "message_start");
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    let busy = Reply::stream([start, error]);
    let server = Server::start(vec![busy, Reply::stream([ANTHROPIC_TEXT])]).await;
    let provider = provider("anthropic", &server.url, quick());
    let (response, events) = send(&*provider, json!({})).await.answer();
    assert_eq!(response.message.joined_text(), "Hello there.");
    assert_eq!(
        shown(&events),
        [
            "2 anthropic limits the rate or is overloaded (status 529, attempt 1): wait, or choose another model with \
             --model; the server said \"busy\"",
            "Text(\"Hello \")",
            "Text(\"there.\")",
        ]
    );
}

#[tokio::test]
async fn an_error_inside_a_stream_is_tried_again_and_the_answer_begins_anew() {
    let broken = Reply::stream([
        up_to(OPENAI_TEXT, "Hello "),
        "data: {\"error\":{\"code\":503,\"message\":\"upstream died\"}}\n\n",
    ]);
    let server = Server::start(vec![broken.clone(), Reply::stream([OPENAI_TEXT])]).await;
    let client = provider("openai", &server.url, quick());
    let (response, events) = send(&*client, json!({})).await.answer();
    assert_eq!(response.message.joined_text(), "Hello there.");
    assert_eq!(
        shown(&events),
        [
            "Text(\"Hello \")",
            "2 openai limits the rate or is overloaded (status 503, attempt 1): wait, or choose another model with \
             --model; the server said \"upstream died\"",
            "Text(\"Hello \")",
            "Text(\"there.\")",
        ]
    );
    let (error, events) = fail("openai", broken, quick()).await;
    assert!(error.contains("(status 503, attempt 4)"), "{error}");
    assert_eq!(events.len(), 7, "{events:?}");
}

#[tokio::test]
async fn an_error_inside_a_stream_that_would_come_again_ends_it() {
    let reply = Reply::stream([
        up_to(OPENAI_TEXT, "Hello "),
        "data: {\"error\":{\"code\":400,\"message\":\"too long\"}}\n\n",
    ]);
    let (error, events) = fail("openai", reply, quick()).await;
    assert!(error.contains("status 400"), "{error}");
    assert_eq!(events, ["Text(\"Hello \")"]);
}

#[tokio::test]
async fn an_error_with_status_200_is_an_error() {
    let body = r#"{"error":{"message":"no such model","code":"model_not_found"}}"#;
    let (error, _) = fail("openai", Reply::plain(200, &[], body), quick()).await;
    assert_eq!(
        error,
        "openai knows no model `test-model` at http://HERE/v1 (status 404): choose another with --model, or correct \
         provider.base_url; the server said \"no such model\""
    );
}

#[tokio::test]
async fn no_server_at_the_address_says_what_to_start() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let provider = provider("ollama", &format!("http://{address}"), quick());
    let (error, events) = send(&*provider, json!({})).await.error();
    assert_eq!(
        error,
        format!(
            "cannot reach ollama at http://{address}/v1: connection refused (os error 111); start it with \
             `ollama serve`, or set OPENAI_BASE_URL to where it runs"
        )
    );
    assert_eq!(events.len(), 3);
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_named() {
    let server = Server::start(vec![Reply::mute()]).await;
    let url = server.url.replace("http:", "https:");
    let http = HttpConfig {
        max_attempts: 1,
        ..quick()
    };
    let (error, events) = send(&*provider("openai", &url, http), json!({}))
        .await
        .error();
    let start = format!("cannot reach openai at {url}/v1: ");
    assert!(error.starts_with(&start), "{error}");
    assert!(
        error.ends_with("; start that server, or correct provider.base_url"),
        "{error}"
    );
    assert_eq!(events, []);
}

#[tokio::test]
async fn a_silent_server_is_given_up_before_and_within_the_answer() {
    let http = HttpConfig {
        first_byte_timeout_ms: 150,
        idle_timeout_ms: 100,
        max_attempts: 1,
        ..quick()
    };
    let (error, events) = fail("openai", Reply::mute(), http.clone()).await;
    assert_eq!(
        error,
        "openai sent no answer: waited 150 ms for the first byte of the answer; try again, or raise \
         provider.http.first_byte_timeout_ms"
    );
    assert_eq!(events, [""; 0]);
    let no_body = Reply::stream([""; 0]).silent();
    let (error, _) = fail("openai", no_body, http.clone()).await;
    assert!(
        error.contains("waited 150 ms for the first byte"),
        "{error}"
    );
    let stalled = Reply::stream([up_to(OPENAI_TEXT, "Hello ")]).silent();
    let (error, events) = fail("openai", stalled, http).await;
    assert_eq!(
        error,
        "openai sent no answer: waited 100 ms for more of an answer that had begun; try again, or raise \
         provider.http.idle_timeout_ms"
    );
    assert_eq!(events, ["Text(\"Hello \")"]);
}

#[tokio::test]
async fn a_torn_stream_is_tried_again_and_an_error_in_the_end() {
    for (name, recorded) in [("anthropic", ANTHROPIC_TEXT), ("openai", OPENAI_TEXT)] {
        let begun = up_to(recorded, "Hello ");
        let torn = Reply::stream([begun]).torn();
        let server = Server::start(vec![torn.clone(), Reply::stream([recorded])]).await;
        let client = provider(name, &server.url, quick());
        let (response, events) = send(&*client, json!({})).await.answer();
        assert_eq!(response.message.joined_text(), "Hello there.");
        assert!(matches!(events[1], StreamEvent::Retry { attempt: 2, .. }));

        let (error, events) = fail(name, torn, quick()).await;
        assert!(
            error.starts_with(&format!("the answer of {name} ended early (")),
            "{error}"
        );
        assert_eq!(events.len(), 7, "{events:?}");
        let (error, _) = fail(name, Reply::stream([begun]), quick()).await;
        assert_eq!(
            error,
            format!("the answer of {name} ended early (the connection was closed): try again")
        );
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_without_an_answer_is_replaced_at_once_but_only_once() {
    let http = HttpConfig {
        retry_delay_ms: 60_000,
        ..quick()
    };
    let closed = Reply::mute().torn();
    let server = Server::start(vec![closed.clone(), Reply::stream([OPENAI_TEXT])]).await;
    let client = provider("openai", &server.url, http.clone());
    let answered = tokio::time::timeout(Duration::from_secs(30), send(&*client, json!({})));
    let (response, events) = answered.await.expect("no delay").answer();
    assert_eq!(response.message.joined_text(), "Hello there.");
    assert!(matches!(
        events[0],
        StreamEvent::Retry {
            attempt: 2,
            delay_ms: 0,
            ..
        }
    ));

    let server = Server::start(vec![closed]).await;
    let client = provider("openai", &server.url, http);
    let waits = tokio::time::timeout(Duration::from_secs(2), send(&*client, json!({})));
    assert!(waits.await.is_err(), "the third attempt waits");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn comments_and_pings_keep_a_request_alive_up_to_a_bound_of_their_own() {
    let http = HttpConfig {
        first_byte_timeout_ms: 400,
        idle_timeout_ms: 400,
        ping_timeout_ms: 1_000,
        ..quick()
    };
    let words = "waited 1000 ms while it sent nothing but pings";
    let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    for (name, noise, begun) in [
        ("openai", ": keep-alive\n\n", up_to(OPENAI_TEXT, "Hello ")),
        ("anthropic", ping, up_to(ANTHROPIC_TEXT, "Hello ")),
    ] {
        let reply = Reply::stream([noise; 200]).every(20);
        let (error, _) = fail(name, reply, http.clone()).await;
        assert!(error.contains(words), "{error}");
        let mut pieces = vec![begun];
        pieces.extend([noise; 200]);
        let (error, events) = fail(name, Reply::stream(pieces).every(20), http.clone()).await;
        assert!(error.contains(words), "{error}");
        assert_eq!(events, ["Text(\"Hello \")"]);
        // Comments for twice the idle limit do not end the stream, if the rest follows.
        let rest = if name == "openai" {
            OPENAI_TEXT
        } else {
            ANTHROPIC_TEXT
        };
        let mut pieces = vec![begun];
        pieces.extend([noise; 40]);
        pieces.push(rest.strip_prefix(begun).unwrap());
        let server = Server::start(vec![Reply::stream(pieces).every(20)]).await;
        let client = provider(name, &server.url, http.clone());
        let (response, _) = send(&*client, json!({})).await.answer();
        assert_eq!(response.message.joined_text(), "Hello there.");
    }
}

#[tokio::test]
async fn an_answer_that_trickles_is_bounded_as_a_whole() {
    let http = HttpConfig {
        idle_timeout_ms: 60_000,
        total_timeout_ms: 500,
        ..quick()
    };
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let (error, events) = fail(
        "openai",
        Reply::stream([chunk; 500]).every(20),
        http.clone(),
    )
    .await;
    assert_eq!(
        error,
        "openai did not finish its answer within 500 ms, all attempts together; ask for less at once, or raise \
         provider.http.total_timeout_ms"
    );
    assert!(!events.is_empty() && events.len() < 200, "{}", events.len());
    // Delays between attempts count towards the limit as well.
    let busy = Reply::plain(429, &["retry-after: 20"], "{}");
    let (error, _) = fail("openai", busy, http).await;
    assert!(error.contains("within 500 ms"), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_refused_whatever_it_consists_of() {
    let http = HttpConfig {
        max_answer_bytes: 100_000,
        ..quick()
    };
    let text = json!({"choices": [{"delta": {"content": "x".repeat(3_000)}}]});
    let reasoning = json!({"choices": [{"delta": {"reasoning": "x".repeat(3_000)}}]});
    let call = |n: usize| {
        let call = json!({"index": n, "id": format!("c{n}"), "function": {"name": "look", "arguments": "{}"}});
        json!({"choices": [{"delta": {"tool_calls": [call]}}]})
    };
    let calls: Vec<Value> = (0..20_000).map(call).collect();
    for chunks in [vec![text; 40], vec![reasoning; 40], calls] {
        let pieces = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
        let stream: String = pieces.collect();
        let (error, _) = fail("openai", Reply::stream([stream]), http.clone()).await;
        assert_eq!(
            error,
            "the answer of openai was cut off: it is longer than 100000 bytes; ask for less, or raise \
             provider.http.max_answer_bytes"
        );
    }
    let whole = json!({"choices": [{"message": {"content": "x".repeat(200_000)}, "finish_reason": "stop"}]});
    let reply = Reply::plain(200, &[], &whole.to_string());
    let (error, _) = fail("openai", reply, http).await;
    assert!(error.contains("longer than 100000 bytes"), "{error}");
}

#[tokio::test]
async fn an_address_without_its_version_is_not_taken_for_an_unknown_model() {
    let page = Reply::plain(404, &[], "404 page not found");
    let server = Server::start(vec![page]).await;
    let bare = server.url.clone();
    let client = provider_at("openai", &bare, quick());
    let (error, _) = send(&*client, json!({"model": "m"})).await.error();
    assert_eq!(
        error.replace(&bare, "http://HERE"),
        "openai has no model API at http://HERE/chat/completions (status 404): set provider.base_url to \
         http://HERE/v1, which is probably meant, or choose another model with --model; the server said \
         \"404 page not found\""
    );
    let server = Server::start(vec![Reply::page("<html>Welcome</html>")]).await;
    let client = provider_at("openai", &server.url, quick());
    let (error, _) = send(&*client, json!({"model": "m"})).await.error();
    assert!(
        error.contains("it is a web page, near \"<html>Welcome</html>\""),
        "{error}"
    );
    assert!(error.contains("/v1, which is probably meant"), "{error}");
}

#[tokio::test]
async fn a_stream_torn_before_anything_was_said_is_tried_again() {
    let torn = Reply::stream([up_to(ANTHROPIC_TEXT, "message_start")]).torn();
    let server = Server::start(vec![torn, Reply::stream([ANTHROPIC_TEXT])]).await;
    let provider = provider("anthropic", &server.url, quick());
    let (response, events) = send(&*provider, json!({})).await.answer();
    assert_eq!(response.message.joined_text(), "Hello there.");
    assert!(matches!(events[0], StreamEvent::Retry { attempt: 2, .. }));
}

#[tokio::test]
async fn what_follows_the_end_of_an_answer_is_not_waited_for() {
    for (name, recorded) in [("anthropic", ANTHROPIC_TEXT), ("openai", OPENAI_TEXT)] {
        let server = Server::start(vec![Reply::stream([recorded]).silent()]).await;
        let provider = provider(name, &server.url, quick());
        let (response, _) = send(&*provider, json!({})).await.answer();
        assert_eq!(response.message.joined_text(), "Hello there.");
    }
}

#[tokio::test]
async fn garbage_in_a_stream_is_passed_over_and_shown_when_there_is_nothing_else() {
    let begun = up_to(OPENAI_TEXT, "Hello ");
    let rest = OPENAI_TEXT.strip_prefix(begun).unwrap();
    let garbage = "<html>Bad Gateway</html>\n\ndata: [null]\n\ndata: null\n\ndata\n\n";
    let server = Server::start(vec![Reply::stream([begun, garbage, rest])]).await;
    let client = provider("openai", &server.url, quick());
    let (response, _) = send(&*client, json!({})).await.answer();
    assert_eq!(response.message.joined_text(), "Hello there.");
    let (error, _) = fail(
        "anthropic",
        Reply::stream(["data: {\"type\":\n\n"]),
        quick(),
    )
    .await;
    assert_eq!(
        error,
        "anthropic sent an answer that cannot be read: not an event of this API, near \"{\"type\":\"; check \
         that provider.base_url has the URL of an API that speaks the configured protocol (`wire`)"
    );
}

#[tokio::test]
async fn a_cancelled_request_stops_at_once_and_hangs_up() {
    let reply = Reply::stream([up_to(ANTHROPIC_TEXT, "Hello ")]).silent();
    let server = Server::start(vec![reply]).await;
    let provider = provider("anthropic", &server.url, quick());
    let cancel = CancellationToken::new();
    let mut events = Vec::new();
    let on = &mut |event| {
        events.push(event);
        cancel.cancel();
    };
    let result = provider.send(json!({}), on, &cancel).await;
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert_eq!(events, [text("Hello ")]);
    let hung_up = server.hung_up.notified();
    tokio::time::timeout(Duration::from_secs(2), hung_up)
        .await
        .expect("the client hangs up");
}

#[tokio::test]
async fn a_request_can_be_cancelled_while_it_waits_to_try_again() {
    let busy = Reply::plain(503, &["retry-after: 5"], "{}");
    let server = Server::start(vec![busy]).await;
    let provider = provider("anthropic", &server.url, quick());
    let cancel = CancellationToken::new();
    let on = &mut |_| cancel.cancel();
    let result = provider.send(json!({}), on, &cancel).await;
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert_eq!(server.received().len(), 1);
    let result = provider.send(json!({}), &mut |_| (), &cancel).await;
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert_eq!(server.received().len(), 1, "nothing is sent once cancelled");
}

#[tokio::test]
async fn the_raw_answer_is_cut_at_its_limit() {
    let long = "ü".repeat(rind::provider::MAX_KEPT_RAW_ANSWER_BYTES / 2);
    let chunk = json!({"choices": [{"delta": {"content": long}}]});
    let stream = format!("data: {chunk}\n\n{OPENAI_TEXT}");
    let server = Server::start(vec![Reply::stream([stream.as_str()])]).await;
    let provider = provider("openai", &server.url, quick());
    let (response, _) = send(&*provider, json!({})).await.answer();
    assert_eq!(
        response.message.joined_text(),
        format!("{long}Hello there.")
    );
    assert!(response.raw.len() <= rind::provider::MAX_KEPT_RAW_ANSWER_BYTES);
    assert!(stream.starts_with(&response.raw));
}
