//! Binary content and plugins: what a hook sees of it, which hook may read the bytes, and how a
//! tool returns it.

use rind::message::{Blob, Content, Message, Part, Parts, Role, ToolCall, ToolResult};
use rind::point::catalog::{Context, MessageEnd, PostTool};
use rind::point::payload::FinishedCall;
use rind::point::trace::{AccessOutcome, TraceOutcome};
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;

const DOT: &[u8] = include_bytes!("../recorded/dot.png");

/// Opens a session with this guest, whose store has the bytes of the image.
async fn session(guest: &str) -> (Session, Blob) {
    let mut host = Host::default();
    host.guest(guest);
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    let session = Session::open(&plugins);
    let blob = Blob::from_bytes(DOT, "");
    let bytes = (blob.id.clone(), DOT.to_vec());
    session.memory.blobs.lock().unwrap().extend([bytes]);
    (session, blob)
}

fn user(text: &str, blob: Option<&Blob>) -> Message {
    let text = Content::Text {
        text: text.to_owned(),
    };
    let blob = blob.map(|blob| Content::Blob(blob.clone()));
    Message::new(Role::User, std::iter::once(text).chain(blob).collect())
}

fn result(content: impl Into<Parts>) -> ToolResult {
    ToolResult {
        call_id: "c".to_owned(),
        name: "draw".to_owned(),
        content: content.into(),
        is_error: false,
    }
}

/// Returns the lines that the guest has logged since the last call.
fn logged(session: &Session) -> Vec<String> {
    let lines = std::mem::take(&mut *session.memory.log.lock().unwrap());
    lines.into_iter().map(|(_, _, text)| text).collect()
}

#[tokio::test]
async fn a_hook_on_context_sees_blobs_without_bytes_and_gets_them_when_it_asks() {
    let (session, blob) = session("viewer").await;
    let results = result(vec![Part::text("a dot"), Part::Blob(blob.clone())]);
    let results = Message::new(Role::Tool, vec![Content::ToolResult(results)]);
    let messages = vec![user("look", Some(&blob)), results, user("and", None)];
    session.memory.blobs.lock().unwrap().clear();
    session
        .dispatcher
        .dispatch::<Context>(&session.caller, messages.clone())
        .await;
    let seen = "image/png of 70 bytes; image/png of 70 bytes";
    // The hook ran although the bytes were missing, because reading a conversation does not load
    // them.
    assert_eq!(session.state("viewer", "seen"), seen);
    let bytes = (blob.id.clone(), DOT.to_vec());
    session.memory.blobs.lock().unwrap().extend([bytes]);
    let messages = [messages, vec![user("read", None)]].concat();
    session
        .dispatcher
        .dispatch::<Context>(&session.caller, messages)
        .await;
    let seen = "image/png of 70 bytes, 70 read; image/png of 70 bytes, 70 read";
    assert_eq!(session.state("viewer", "seen"), seen);
}

#[tokio::test]
async fn a_plugin_reads_the_blobs_that_it_is_shown_and_no_others_unless_it_may_read_the_session() {
    let (session, blob) = session("picture").await;
    let shown = user("read", Some(&blob));
    session
        .dispatcher
        .dispatch::<MessageEnd>(&session.caller, shown)
        .await;
    assert_eq!(
        logged(&session),
        ["image/png of 70 bytes", "Ok(true) Ok([80, 78, 71]) Ok([])"]
    );
    // Refers to the same blob in a message that does not show it: blobs of earlier calls are
    // denied.
    let asks = user(&blob.id, None);
    session
        .dispatcher
        .dispatch::<MessageEnd>(&session.caller, asks.clone())
        .await;
    let lines = logged(&session);
    assert!(lines[0].starts_with("Err(Error::Denied("), "{lines:?}");
    let denied = session.memory.accesses.lock().unwrap()[0].clone();
    assert_eq!(denied.outcome, AccessOutcome::Denied);
    assert_eq!(denied.target, format!("read blob {}", blob.id));
    // Shows a blob whose bytes are gone, which is a different error.
    session.memory.blobs.lock().unwrap().clear();
    let gone = user(&blob.id, Some(&blob));
    session
        .dispatcher
        .dispatch::<MessageEnd>(&session.caller, gone)
        .await;
    let lines = logged(&session);
    assert!(lines[1].starts_with("Err(Error::NotFound("), "{lines:?}");
}

#[tokio::test]
async fn a_tool_answers_parts_and_images_are_told_by_their_bytes() {
    let (session, blob) = session("picture").await;
    let draw = async |what: &str| session.tool("draw", json!({"what": what})).await;
    let dot = draw("dot").await;
    let value = json!({"dots": 1});
    let expected = vec![Part::text("a dot"), Part::Json { value }, Part::Blob(blob)];
    assert_eq!(dot.content, Parts::from(expected));
    assert_eq!(
        (dot.bytes, dot.is_error, dot.is_fault),
        (vec![DOT.to_vec()], false, false)
    );
    let failed = draw("failed").await;
    assert!(failed.is_error && !failed.is_fault && failed.bytes.len() == 1);
    // The type of an image is detected from its bytes; the tool's own claim is ignored.
    assert_eq!(
        draw("text").await.content.text(),
        "[application/octet-stream, 8 B]"
    );
    let broken = draw("broken").await;
    assert!(
        broken.is_fault && broken.content.text().contains("JSON part"),
        "{broken:?}"
    );
    let many = draw("many").await;
    assert!(
        many.is_fault && many.content.text().contains("at most 100"),
        "{many:?}"
    );
}

#[tokio::test]
async fn secrets_in_bytes_that_are_text_and_in_json_are_masked() {
    let (session, _) = session("picture").await;
    let token = format!("ghp_{}", "A1b2C3d4E5f6".repeat(3));
    let output = session.tool("draw", json!({"what": token})).await;
    let said = format!("{} {:?}", output.content.text(), output.bytes);
    let bytes = String::from_utf8(output.bytes[0].clone()).unwrap();
    assert_eq!(bytes, "[secret masked: github-token]");
    assert!(!said.contains(&token), "{said}");
    assert!(said.contains(r#"{"token":"[secret masked"#), "{said}");
}

#[tokio::test]
async fn a_hook_on_results_puts_parts_in_place_and_makes_up_no_blob() {
    let (session, blob) = session("viewer").await;
    let value = json!([1]);
    let parts = vec![Part::text("a"), Part::Json { value }, Part::Blob(blob)];
    let finish = async |name: &str| {
        let call = ToolCall::new("c", name, json!({}));
        let finished = FinishedCall {
            call,
            result: result(parts.clone()),
            is_refused: false,
            duration_ms: 1,
            plugin: None,
        };
        session
            .dispatcher
            .dispatch::<PostTool>(&session.caller, finished)
            .await
            .value
            .result
            .content
            .clone()
    };
    let reversed: Vec<Part> = parts.iter().rev().cloned().collect();
    assert_eq!(finish("draw").await, Parts::from(reversed));
    for (name, why) in [
        ("forge", "it adds a blob that the result did not have"),
        ("torn", "JSON part"),
    ] {
        assert_eq!(finish(name).await, Parts::from(parts.clone()));
        let trace = session.memory.traces.lock().unwrap().pop().unwrap();
        assert_eq!(trace.outcome, TraceOutcome::Failed);
        let reason = trace.reason.unwrap();
        assert!(reason.contains(why), "{reason}");
    }
}
