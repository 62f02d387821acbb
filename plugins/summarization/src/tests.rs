//! Tests of the summary with a simulated model, and of the hook where another plugin has written
//! the summary.

use crate::chunk::split_messages_into_chunks;
use crate::summarization::__rind_hook_before_compact as before_compact;
use crate::summary::{SummarySettings, summarize_messages};
use rind_sdk::model::Question;
use rind_sdk::prelude::*;
use rind_sdk::testing;

fn build_message(id: &str, role: Role, part: Content) -> Message {
    testing::message(id, role, vec![part])
}

fn user_message(id: &str, text: &str) -> Message {
    build_message(id, Role::User, Content::Text(text.to_owned()))
}

fn summary_settings(chunk_bytes: usize) -> SummarySettings {
    SummarySettings {
        model: Some("small".to_owned()),
        max_tokens: 700,
        chunk_bytes,
        result_bytes: 100,
    }
}

#[test]
fn a_short_conversation_is_summarized_with_one_model_request() {
    let messages = [
        user_message("m1", "make it fast"),
        user_message("m2", "and small"),
    ];
    let mut asked: Vec<Question> = Vec::new();
    let summary = summarize_messages(&messages, &summary_settings(1000), |question| {
        asked.push(question.clone());
        Ok("## Goal\n- fast\n".to_owned())
    });
    assert_eq!(summary.unwrap(), "## Goal\n- fast");
    let [question] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (question.model.as_deref(), question.max_tokens),
        (Some("small"), 700)
    );
    assert!(question.system.contains("## Open questions"));
    assert_eq!(
        question.prompt,
        "<conversation m1>\nuser: make it fast\nuser: and small\n</conversation m1>\n\nSummarize it."
    );
}

#[test]
fn a_long_conversation_is_summarized_in_chunks_with_the_summary_so_far() {
    let messages: Vec<Message> = (0..6)
        .map(|n| user_message(&format!("m{n}"), &"word ".repeat(20)))
        .collect();
    let mut asked = Vec::new();
    let summary = summarize_messages(&messages, &summary_settings(250), |question| {
        asked.push(question.prompt.clone());
        Ok(format!("summary {}", asked.len()))
    });
    assert_eq!(summary.unwrap(), "summary 3");
    assert!(!asked[0].contains("<summary"));
    assert!(
        asked[2].contains("<summary m0>\nsummary 2\n</summary m0>"),
        "{}",
        asked[2]
    );
    let words: usize = asked
        .iter()
        .map(|prompt| prompt.matches("word").count())
        .sum();
    assert_eq!(words, 120);
}

#[test]
fn too_many_parts_an_empty_answer_and_a_failing_model_are_errors() {
    let messages: Vec<Message> = (0..9)
        .map(|n| user_message(&format!("m{n}"), &"x".repeat(200)))
        .collect();
    let many = summarize_messages(&messages, &summary_settings(210), |_| {
        panic!("nobody is asked")
    });
    assert!(matches!(many, Err(Error::Limit(_))), "{many:?}");
    let empty = summarize_messages(&messages[..1], &summary_settings(1000), |_| {
        Ok(" \n".to_owned())
    });
    assert!(matches!(empty, Err(Error::Failed(_))), "{empty:?}");
    let failed = summarize_messages(&messages[..1], &summary_settings(1000), |_| {
        Err(Error::Limit("enough".into()))
    });
    assert!(matches!(failed, Err(Error::Limit(_))), "{failed:?}");
}

#[test]
fn calls_and_results_are_labeled_and_long_ones_keep_both_ends() {
    let call = ToolCall {
        id: "c".to_owned(),
        name: "bash".to_owned(),
        arguments: "{\"command\":\"make\"}".to_owned(),
    };
    let result = ToolResult {
        call_id: "c".to_owned(),
        name: "bash".to_owned(),
        parts: vec![Part::Text(format!("first{}é last", "é".repeat(500)))],
        is_error: true,
    };
    let messages = [
        build_message("m1", Role::Assistant, Content::ToolCall(call)),
        build_message("m2", Role::Tool, Content::ToolResult(result)),
        build_message("m3", Role::Assistant, Content::Thinking("hm".to_owned())),
    ];
    let all = split_messages_into_chunks(&messages, 10_000, 100).concat();
    assert!(
        all.starts_with("agent calls bash: {\"command\":\"make\"}\nresult of bash (failed): first"),
        "{all}"
    );
    assert!(all.ends_with("é last\n") && all.contains("[…]"), "{all}");
    assert!(!all.contains("hm") && all.len() < 200, "{all}");
    for limit in [10, 57, 130] {
        let parts = split_messages_into_chunks(&messages, limit, 100);
        assert!(parts.iter().all(|part| part.len() <= limit), "{parts:?}");
    }
}

#[test]
fn a_summary_of_another_plugin_is_left_as_it_is() {
    testing::reset();
    let slice = testing::slice(vec![user_message("m1", "hi")]).with_summary("theirs");
    let outcome = before_compact(&slice).unwrap();
    assert!(matches!(outcome.verdict, SliceVerdict::Pass));
}
