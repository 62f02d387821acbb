//! Hooks on the model's answer, on reflection, and on the output for the user.

use rind::point::payload::StopReason;
use serde_json::json;

use super::input::injections;
use super::scene::Scene;
use super::{Row, See, check, row};

fn of_reply() -> Vec<Row> {
    let mut rows = vec![
        row(
            "post-reason",
            "text",
            json!({"when": "the draft", "text": "other words"}),
            vec![
                See::Output("other words"),
                See::Messages("assistant: other words", 1),
                See::Messages("the draft", 0),
                See::Requests("other words", &[3]),
            ],
        ),
        // A replaced text keeps the tool calls of the answer.
        row(
            "post-reason",
            "text",
            json!({"when": "I will look", "text": "I look"}),
            vec![
                See::Messages("assistant: I look +read_file", 1),
                See::Requests("alpha", &[1, 2, 3]),
            ],
        ),
        // A blocked answer loses its tool calls.
        row(
            "post-reason",
            "block",
            json!({"when": "+write_file", "block": "too far"}),
            vec![
                See::Stop(StopReason::Blocked),
                See::Output("[the answer was refused by plugin scripted-hook: too far]"),
                See::Messages("+write_file", 0),
                See::File("c.txt", None),
            ],
        ),
    ];
    rows.extend(injections(
        "post-reason",
        &json!({"when": "I will look"}),
        Scene::Work,
        &[1, 2, 3],
    ));
    // An injection after the last answer makes the agent run another step.
    for mut row in injections(
        "post-reason",
        &json!({"when": "the draft"}),
        Scene::Work,
        &[3, 4],
    ) {
        row.sees.push(See::Steps(4));
        row.sees.push(See::Output("better"));
        rows.push(row);
    }
    rows
}

fn of_reflection() -> Vec<Row> {
    let criteria = json!({"criteria": ["it is short"]});
    vec![
        row(
            "pre-reflect",
            "draft",
            json!({"draft": "another draft"}),
            vec![
                See::Output("another draft"),
                See::Messages("another draft", 0),
            ],
        ),
        row(
            "pre-reflect",
            "criteria",
            criteria.clone(),
            vec![
                See::Messages("user: [reflection] Before this is done", 1),
                See::Requests("- it is short", &[3, 4]),
                See::Steps(4),
                See::Output("better"),
            ],
        ),
        row(
            "pre-reflect",
            "verdict.done",
            json!({"criteria": ["it is short"], "done": true}),
            vec![
                See::Messages("[reflection]", 0),
                See::Steps(3),
                See::Output("the draft"),
            ],
        ),
        row(
            "pre-reflect",
            "verdict.again",
            json!({"when": "the draft", "again": "say more"}),
            vec![
                See::Messages("user: [reflection] say more", 1),
                See::Requests("[reflection] say more", &[3, 4]),
                See::Output("better"),
            ],
        ),
        // The verdict of `post-reflect` overrides the reflection in both directions.
        row(
            "post-reflect",
            "verdict.done",
            json!({"done": true}),
            vec![See::Messages("[reflection]", 0), See::Output("the draft")],
        )
        .also("pre-reflect", criteria),
        row(
            "post-reflect",
            "verdict.again",
            json!({"again": "say more"}),
            vec![
                // A turn reflects at most twice.
                See::Messages("user: [reflection] say more", 2),
                See::Steps(5),
                See::Stop(StopReason::Done),
                See::Events(
                    "notice",
                    "reflection asked the model to continue, but the turn has no step left",
                    1,
                ),
            ],
        ),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = of_reply();
    rows.extend(of_reflection());
    rows.push(row(
        "output-delta",
        "text",
        json!({"text": ["the draft", "the masked draft"]}),
        vec![
            See::Output("the masked draft"),
            See::Messages("assistant: the draft", 1),
            See::Entries("corrected", "", 0),
        ],
    ));
    rows.push(row(
        "output-delta",
        "keep",
        json!({"keep": 5}),
        vec![See::Output("the draft"), See::Entries("corrected", "", 0)],
    ));
    rows.push(row(
        "output-delta",
        "stop",
        json!({"stop": "it holds a key"}),
        vec![
            See::Stop(StopReason::Blocked),
            See::Output("[the answer was held back by plugin scripted-hook: it holds a key]"),
            See::Messages("the draft", 0),
        ],
    ));
    rows.push(row(
        "pre-output",
        "text",
        json!({"text": "the draft, with a bow"}),
        vec![
            See::Output("the draft, with a bow"),
            // The conversation keeps the model's own text.
            See::Messages("assistant: the draft", 1),
            See::Messages("bow", 0),
            See::Entries("turn-end", "with a bow", 1),
        ],
    ));
    rows.push(row(
        "pre-output",
        "block",
        json!({"block": "it holds a key"}),
        vec![
            See::Stop(StopReason::Blocked),
            See::Output("[the answer was held back by plugin scripted-hook: it holds a key]"),
        ],
    ));
    rows
}

#[tokio::test]
async fn what_hooks_make_of_the_answer() {
    check(rows()).await;
}
