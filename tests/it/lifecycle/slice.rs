//! Compaction of a conversation that is too long.

use serde_json::json;

use super::scene::Scene;
use super::{Row, See, check, row};

pub(super) fn rows() -> Vec<Row> {
    let verdict =
        |outcome, answer, sees| row("before-compact", outcome, answer, sees).within(Scene::Long);
    vec![
        verdict(
            "verdict.cancel",
            json!({"cancel": "I need it all"}),
            vec![
                See::Entries("replaced", "alpha", 0),
                See::Told(
                    "compact-end",
                    "plugin scripted-hook held it back: I need it all",
                ),
            ],
        ),
        verdict(
            "verdict.summary",
            json!({"summary": "they read it"}),
            vec![
                See::Messages("they read it", 1),
                See::Told("compact-end", "they read it"),
            ],
        ),
    ]
}

#[tokio::test]
async fn what_hooks_say_to_compaction() {
    check(rows()).await;
}
