//! Input: the turn's text, its assessment, steering and follow-ups.

use rind::point::payload::StopReason;
use serde_json::{Value, json};

use super::scene::Scene;
use super::{Row, See, check, row};

/// Rows for both kinds of injection at a point: one that stays in the conversation and so in the
/// requests `kept`, and one that is only in the first of those.
pub(super) fn injections(
    point: &'static str,
    when: &Value,
    scene: Scene,
    kept: &'static [usize],
) -> [Row; 2] {
    let answer = |text: &str, keep: bool| {
        let mut answer = when.clone();
        answer["inject"] = json!([[text, keep]]);
        answer
    };
    let entry = |text, n| See::Entries("injected", text, n);
    [
        row(
            point,
            "inject.kept",
            answer("remember the tests", true),
            vec![
                See::Requests("[plugin scripted-hook] remember the tests", kept),
                See::Messages("user: [plugin scripted-hook] remember the tests", 1),
                See::Events("injected", "remember the tests", 1),
                entry("remember the tests", 1),
            ],
        )
        .within(scene),
        row(
            point,
            "inject.once",
            answer("it is raining", false),
            vec![
                See::Requests("[plugin scripted-hook] it is raining", &kept[..1]),
                See::Messages("raining", 0),
                See::Events("injected", "it is raining", 1),
                entry("it is raining", 1),
            ],
        )
        .within(scene),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for point in ["turn-start", "pre-assess"] {
        rows.push(row(
            point,
            "text",
            json!({"text": "do it gently"}),
            vec![
                See::Requests("do it gently", &[0, 1, 2, 3]),
                See::Requests("go on with", &[]),
                See::Messages("user: do it gently", 1),
                // The session records the user's original text.
                See::Entries("turn-start", "go on with", 1),
            ],
        ));
        rows.push(row(
            point,
            "block",
            json!({"block": "not today"}),
            vec![
                See::Stop(StopReason::Blocked),
                See::Output("[the input was refused by plugin scripted-hook: not today]"),
                See::Requests("go on with", &[]),
                See::Messages("go on with", 0),
                See::Steps(0),
            ],
        ));
        rows.extend(injections(point, &json!({}), Scene::Work, &[0, 1, 2, 3]));
    }
    rows.push(row(
        "post-assess",
        "assessment",
        json!({"decision": "plan", "confidence": 0.9, "reasons": ["I say so"]}),
        vec![
            See::Events(
                "assessed",
                "\"decision\":\"plan\",\"confidence\":0.9,\"reasons\":[\"I say so\"]",
                1,
            ),
            See::Requests("Write a short plan before", &[0, 1, 2]),
        ],
    ));
    rows.push(row(
        "post-assess",
        "assessment",
        json!({"decision": "direct", "confidence": 0.2, "reasons": ["who knows"]}),
        vec![
            See::Events("assessed", "\"decision\":\"ask-first\"", 1),
            See::Requests("say what you are about to do and ask the user", &[0, 1, 2]),
        ],
    ));
    let steering = "steering-received";
    rows.push(
        row(
            steering,
            "action.replace",
            json!({"when": "hurry", "replace": "take your time"}),
            vec![
                See::Requests("take your time", &[0, 1, 2, 3]),
                See::Requests("hurry", &[]),
                See::Messages("user: take your time", 1),
                See::Messages("user: never mind", 1),
            ],
        )
        .within(Scene::Steered),
    );
    rows.push(
        row(
            steering,
            "action.drop",
            json!({"when": "hurry", "drop": "no haste"}),
            vec![
                See::Requests("hurry", &[]),
                See::Requests("never mind", &[0, 1, 2, 3]),
                See::Events(
                    "notice",
                    "plugin scripted-hook dropped your input: no haste",
                    1,
                ),
            ],
        )
        .within(Scene::Steered),
    );
    rows.extend(injections(
        steering,
        &json!({"when": "hurry"}),
        Scene::Steered,
        &[0, 1, 2, 3],
    ));
    rows.push(
        row(
            steering,
            "action.replace",
            json!({"when": "and then", "replace": "sum it up"}),
            vec![
                See::Requests("sum it up", &[3, 4, 5]),
                See::Requests("and then?", &[]),
                See::Output("the draft\n\nbetter\n\nbetter"),
            ],
        )
        .within(Scene::FollowedUp),
    );
    // No text remains for the model, so no request is sent.
    rows.push(
        row(
            steering,
            "action.drop",
            json!({"drop": "enough"}),
            vec![
                See::Output("the draft"),
                See::Steps(3),
                See::Messages("never mind", 0),
                See::Events("notice", "dropped your input: enough", 2),
            ],
        )
        .within(Scene::FollowedUp),
    );
    rows.push(
        row(
            steering,
            "action.drop",
            json!({"when": "and then", "drop": "enough"}),
            vec![
                See::Output("the draft\n\nbetter"),
                See::Steps(4),
                See::Messages("never mind", 1),
            ],
        )
        .within(Scene::FollowedUp),
    );
    rows.extend(injections(
        steering,
        &json!({"when": "and then"}),
        Scene::FollowedUp,
        &[3, 4, 5],
    ));
    rows
}

#[tokio::test]
async fn what_hooks_say_to_what_comes_in() {
    check(rows()).await;
}
