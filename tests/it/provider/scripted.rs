//! The scripted provider from outside: files, the built-in script, and bodies that hooks changed.

use rind::provider::scripted::{Reply as Line, Script, Scripted};

use super::*;

fn ask(text: &str) -> Request {
    Request {
        messages: vec![Message::text(Role::User, text)],
        ..request()
    }
}

#[tokio::test]
async fn a_script_file_is_played_as_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.json");
    let script = json!({"reply": [{
        "thinking": "hm, well", "text": "You said {input}.", "delay_ms": 1,
        "tool_calls": [{"name": "look", "arguments": {"at": 1}}, {"name": "walk", "arguments": "{oops"}],
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_tokens": 1},
    }]});
    std::fs::write(&path, script.to_string()).unwrap();
    let config = ProviderConfig {
        script: Some(path.clone()),
        ..ProviderConfig::default()
    };
    let chosen = select_provider(&config, &|_| None).unwrap();
    assert_eq!(chosen.provider.name(), "scripted");
    let body = chosen
        .provider
        .build_request_body(&ask("good day"), &RequestImagesByBlobId::default());
    let (response, events) = send(&*chosen.provider, body.clone()).await.answer();
    let call =
        |id: &str, name: &str, arguments| Content::ToolCall(ToolCall::new(id, name, arguments));
    let raw = json!({
        "model": body["model"], "text": "You said good day.", "thinking": "hm, well",
        "tool_calls": [{"name": "look", "arguments": {"at": 1}}, {"name": "walk", "arguments": "{oops"}],
    });
    let usage = Usage {
        input_tokens: 3,
        output_tokens: 4,
        cache_read_tokens: 1,
        cache_write_tokens: 0,
        estimated: false,
    };
    let content = vec![
        Content::from_thinking("hm, well"),
        Content::Text {
            text: "You said good day.".to_owned(),
        },
        call("call_1", "look", json!({"at": 1})),
        call("call_2", "walk", json!("{oops")),
    ];
    let expected = Response {
        status: 0,
        ..super::response(content, Finish::ToolCalls, usage, &raw.to_string())
    };
    assert_eq!(response, expected);
    assert_eq!(
        events,
        [
            StreamEvent::Thinking("hm, ".to_owned()),
            StreamEvent::Thinking("well".to_owned()),
            text("You "),
            text("said "),
            text("good "),
            text("day."),
            tool("look"),
            tool("walk"),
        ]
    );
    let (error, _) = send(&*chosen.provider, body).await.error();
    assert_eq!(
        error,
        format!(
            "script {} has no reply left for step 1 after the input \"good day\" (used 1 so far): add a [[reply]], or \
             raise `times` of one",
            path.display()
        )
    );
}

#[tokio::test]
async fn a_script_sees_the_body_that_a_hook_changed() {
    let script = Script::new(vec![Line::text("{input}")]);
    let provider = Scripted::new(script).with_request_recording();
    let mut body =
        provider.build_request_body(&ask("my key is 123"), &RequestImagesByBlobId::default());
    body["messages"][0]["text"] = json!("my key is [masked]");
    let (response, _) = send(&provider, body.clone()).await.answer();
    assert_eq!(response.message.joined_text(), "my key is [masked]");
    assert!(response.usage.input_tokens > 0 && response.usage.output_tokens > 0);
    assert_eq!(provider.recorded_request_bodies(), [body]);
    let (error, _) = send(&provider, json!({"messages": 1})).await.error();
    assert!(
        error.starts_with("script (made in code): the request is not one of the scripted provider")
    );
}

#[tokio::test]
async fn a_script_can_fail_and_be_cancelled() {
    let provider = Scripted::from_toml(
        r#"
        [[reply]]
        error = { status = 529, message = "busy" }
        [[reply]]
        delay_ms = 3600000
        text = "never"
        [[reply]]
        text = "one two three"
        finish = "max-tokens"
        [[reply]]
        text = "one two"
        finish = "max-tokens"
        "#,
    )
    .unwrap();
    let body = provider.build_request_body(&ask("hi"), &RequestImagesByBlobId::default());
    let (error, _) = send(&provider, body.clone()).await.error();
    assert_eq!(
        error,
        "script (TOML in code), reply 1 simulates a failure, with status 529: \"busy\""
    );
    let cancel = CancellationToken::new();
    let mut ignore = |_| ();
    let sending = provider.send(body.clone(), &mut ignore, &cancel);
    let (result, ()) = tokio::join!(sending, async { cancel.cancel() });
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    let cancel = CancellationToken::new();
    let mut events = Vec::new();
    let on = &mut |event| {
        events.push(event);
        cancel.cancel();
    };
    let result = provider.send(body.clone(), on, &cancel).await;
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert_eq!(events, [text("one ")]);
    let (response, _) = send(&provider, body).await.answer();
    assert_eq!(response.finish, Finish::MaxTokens);
}

#[tokio::test]
async fn the_built_in_script_looks_around_and_says_what_it_is() {
    let chosen = select_provider(&ProviderConfig::default(), &|_| None).unwrap();
    let provider = &*chosen.provider;
    let mut request = ask("Hello!");
    let (response, _) = send(
        provider,
        provider.build_request_body(&request, &RequestImagesByBlobId::default()),
    )
    .await
    .answer();
    let greeting = response.message.joined_text();
    assert!(
        greeting.starts_with("I am the scripted model"),
        "{greeting}"
    );
    assert!(greeting.contains("You said: Hello!"), "{greeting}");

    request = ask("What does this project do?");
    for (tool, content) in [
        ("list_files", "README.md"),
        ("read_file", "# Rind\nAn agent host."),
    ] {
        let (response, _) = send(
            provider,
            provider.build_request_body(&request, &RequestImagesByBlobId::default()),
        )
        .await
        .answer();
        let calls: Vec<ToolCall> = response.message.tool_calls().cloned().collect();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].name, tool);
        let result = ToolResult {
            call_id: calls[0].id.clone(),
            name: tool.to_owned(),
            content: content.into(),
            is_error: false,
        };
        let result = Message::new(Role::Tool, vec![Content::ToolResult(result)]);
        request.messages.extend([response.message, result]);
    }
    let (response, _) = send(
        provider,
        provider.build_request_body(&request, &RequestImagesByBlobId::default()),
    )
    .await
    .answer();
    let answer = response.message.joined_text();
    assert!(
        answer.starts_with("I am the scripted model: I follow a script"),
        "{answer}"
    );
    assert!(answer.contains("# Rind\nAn agent host."), "{answer}");
    assert_eq!(response.finish, Finish::Done);
}
