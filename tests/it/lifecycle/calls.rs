//! Tool calls on real files, and their results.

use serde_json::json;

use super::input::injections;
use super::scene::Scene;
use super::{Row, See, check, row};

pub(super) fn rows() -> Vec<Row> {
    let other = json!({"path": "d.txt", "content": "other"}).to_string();
    let asked = |outcome, sees| {
        let answer = json!({"when": "write_file", "ask": "is it meant?"});
        row("pre-tool", outcome, answer, sees)
    };
    let mut rows = vec![
        row(
            "pre-tool",
            "verdict.change",
            json!({"when": "write_file", "change": other}),
            vec![
                See::File("c.txt", None),
                See::File("d.txt", Some("other")),
                See::Entries("tool-start", "d.txt", 1),
                See::Events("tool-start", "d.txt", 1),
            ],
        ),
        asked(
            "verdict.ask",
            vec![See::Asked("is it meant?"), See::File("c.txt", Some("new"))],
        )
        .within(Scene::AskedYes),
        asked(
            "verdict.ask",
            vec![
                See::Asked("is it meant?"),
                See::File("c.txt", None),
                See::Messages("refused by the user: nobody is there", 1),
                See::Requests("refused by the user: nobody is there", &[2, 3]),
                See::Events("tool-end", "\"refused_by\":\"user\"", 1),
            ],
        )
        .within(Scene::AskedNo),
        row(
            "pre-tool",
            "verdict.block",
            json!({"when": "write_file", "block": "hands off"}),
            vec![
                See::File("c.txt", None),
                See::Requests("refused by plugin scripted-hook: hands off", &[2, 3]),
                See::Messages("tool!: refused by plugin scripted-hook: hands off", 1),
                See::Entries("tool-end", "\"refused_by\":\"plugin scripted-hook\"", 1),
                See::Events("tool-start", "write_file", 0),
            ],
        ),
        row(
            "pre-tool",
            "note",
            json!({"when": "write_file", "note": "the third time"}),
            vec![
                See::File("c.txt", Some("new")),
                See::Requests("[note from scripted-hook: the third time]", &[2, 3]),
                See::Messages("[note from scripted-hook: the third time]", 1),
            ],
        ),
        row(
            "post-tool",
            "content",
            json!({"when": "read_file", "content": "it says omega"}),
            vec![
                See::Requests("it says omega", &[1, 2, 3]),
                See::Requests("alpha", &[]),
                See::Messages("tool: it says omega", 1),
                See::Events("tool-end", "it says omega", 1),
            ],
        ),
        row(
            "post-tool",
            "is-error.true",
            json!({"when": "read_file", "is-error": true}),
            vec![
                See::Requests("\"is_error\":true", &[1, 2, 3]),
                See::Messages("tool!: ", 1),
            ],
        ),
        row(
            "post-tool",
            "is-error.false",
            json!({"when": "read_file", "is-error": false}),
            vec![
                See::Requests("\"is_error\":true", &[]),
                See::Messages("tool!: ", 0),
                See::Messages("missing.txt", 1),
            ],
        )
        .within(Scene::Failing),
    ];
    rows.extend(injections(
        "post-tool",
        &json!({"when": "read_file"}),
        Scene::Work,
        &[1, 2, 3],
    ));
    rows
}

#[tokio::test]
async fn what_hooks_say_to_calls_and_results() {
    check(rows()).await;
}
