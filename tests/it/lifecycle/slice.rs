//! Hooks on compaction of a long conversation, and on archival of a turn that has ended.

use serde_json::json;

use super::scene::Scene;
use super::{Row, See, check, row};

pub(super) fn rows() -> Vec<Row> {
    let verdict =
        |outcome, answer, sees| row("before-compact", outcome, answer, sees).within(Scene::Long);
    let archive = |outcome, answer, sees| {
        row("before-archive", outcome, answer, sees).within(Scene::Archived)
    };
    vec![
        verdict(
            "verdict.cancel",
            json!({"cancel": "I need it all"}),
            vec![
                See::Entries("replaced", "alpha", 0),
                See::Told(
                    "compact-end",
                    "refused by plugin scripted-hook: I need it all",
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
        archive(
            "verdict.cancel",
            json!({"cancel": "I need it all"}),
            vec![
                See::Entries("replaced", "archived turn", 0),
                See::Messages("[archived turn]", 0),
                See::Told(
                    "archive-end",
                    "refused by plugin scripted-hook: I need it all",
                ),
            ],
        ),
        archive(
            "verdict.summary",
            json!({"summary": "they wrote it"}),
            vec![
                See::Messages("they wrote it", 1),
                See::Requests("they wrote it", &[3]),
                See::Told("archive-end", "they wrote it"),
            ],
        ),
    ]
}

#[tokio::test]
async fn what_hooks_say_to_compaction_and_archival() {
    check(rows()).await;
}
