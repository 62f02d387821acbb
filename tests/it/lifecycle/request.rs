//! Hooks on a request to the model: messages, model and parameters, tools, body.

use rind::point::payload::StopReason;
use serde_json::json;

use super::input::injections;
use super::scene::Scene;
use super::{Row, See, check, row};

/// A row about the `context` point in the second step.
fn edit(outcome: &'static str, edit: serde_json::Value, sees: Vec<See>) -> Row {
    row(
        "context",
        outcome,
        json!({"step": 2, "edits": [edit]}),
        sees,
    )
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        // Message 1 has a call, which is dropped together with its result, but only from this
        // request.
        edit(
            "edits.drop",
            json!({"drop": 1}),
            vec![
                See::Requests("alpha", &[2, 3]),
                See::Requests("I will look", &[2, 3]),
                See::Messages("alpha", 1),
            ],
        ),
        edit(
            "edits.replace",
            json!({"replace": [2, "it says omega"]}),
            vec![
                See::Requests("it says omega", &[1]),
                See::Requests("alpha", &[2, 3]),
                See::Messages("omega", 0),
            ],
        ),
        edit(
            "edits.append",
            json!({"append": "think of the cache"}),
            vec![
                See::Requests("[plugin scripted-hook] think of the cache", &[1]),
                See::Messages("cache", 0),
            ],
        ),
        row(
            "pre-reason",
            "model",
            json!({"step": 2, "model": "small"}),
            vec![
                See::Body(0, "/model", json!("test-model")),
                See::Body(1, "/model", json!("small")),
                See::Body(2, "/model", json!("test-model")),
                See::Entries("step", "\"model\":\"small\"", 1),
            ],
        ),
        row(
            "pre-reason",
            "temperature.set",
            json!({"step": 1, "temperature": 0.25}),
            vec![
                See::Body(0, "/temperature", json!(0.25)),
                See::Requests("temperature", &[0]),
            ],
        ),
        row(
            "pre-reason",
            "max-tokens.set",
            json!({"step": 3, "max-tokens": 99}),
            vec![
                See::Body(2, "/max_tokens", json!(99)),
                See::Requests("max_tokens", &[2]),
            ],
        ),
        // An inactive tool is neither offered to the model nor can it be called.
        row(
            "pre-reason",
            "tools.set",
            json!({"step": 2, "tools": ["read_file"]}),
            vec![
                See::Body(1, "/tools/0/name", json!("read_file")),
                See::Requests("\"write_file\",\"description\"", &[0, 2, 3]),
                See::File("c.txt", None),
                See::Events("tool-end", "there is no tool `write_file` in this step", 1),
            ],
        ),
        row(
            "pre-reason",
            "block",
            json!({"step": 2, "block": "the budget is spent"}),
            vec![
                See::Stop(StopReason::Blocked),
                See::Steps(2),
                See::Output(
                    "[the request was refused by plugin scripted-hook: the budget is spent]",
                ),
                See::File("c.txt", None),
            ],
        ),
        // The sent body is rewritten, and the recorded conversation is not.
        row(
            "before-provider-request",
            "body",
            json!({"step": 2, "body": ["alpha", "omega"]}),
            vec![
                See::Requests("omega", &[1]),
                See::Requests("alpha", &[2, 3]),
                See::Messages("omega", 0),
            ],
        ),
    ];
    rows.extend(injections(
        "pre-reason",
        &json!({"step": 2}),
        Scene::Work,
        &[1, 2, 3],
    ));
    rows
}

#[tokio::test]
async fn what_hooks_make_of_a_request() {
    check(rows()).await;
}
