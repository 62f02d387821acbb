//! Outcomes for the system prompt: parts in each tier, and the rendered text. The prompt has one
//! block per tier.

use serde_json::{Value, json};

use super::{Row, See, check, row};

/// Tiers: the name, the index of the block, and the key and some words of a part that exists
/// without any plugin.
const TIERS: [(&str, usize, &str, &str); 3] = [
    ("stable", 0, "00-identity", "You are an agent"),
    ("context", 1, "files/00/AGENTS.md", "Mind the style."),
    ("volatile", 2, "00-environment", "The workspace is"),
];

/// Requests that hold a part of the first turn. A stable part also stays in the request of the
/// second turn.
fn first_turn(tier: &str) -> &'static [usize] {
    if tier == "stable" {
        &[0, 1, 2, 3]
    } else {
        &[0, 1, 2]
    }
}

fn part(tier: &str, key: &str) -> Value {
    json!([{"tier": tier, "key": key, "text": "Whistle while you work."}])
}

/// Name of an outcome in this tier, such as `parts.stable`.
fn named(field: &str, tier: &str) -> &'static str {
    match (field, tier) {
        ("parts", "stable") => "parts.stable",
        ("parts", "context") => "parts.context",
        ("parts", _) => "parts.volatile",
        (_, "stable") => "put.stable",
        (_, "context") => "put.context",
        (_, _) => "put.volatile",
    }
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (tier, block, key, words) in TIERS {
        for (point, field) in [("system-prompt", "parts"), ("before-system-prompt", "put")] {
            rows.push(row(
                point,
                named(field, tier),
                json!({field: part(tier, "tune")}),
                vec![
                    See::Requests("Whistle while you work.", first_turn(tier)),
                    See::System(0, block, "Whistle while you work."),
                    See::System(0, block, words),
                    See::Entries("prompt", "scripted-hook:tune", 1),
                ],
            ));
        }
        // The part replaces the existing one with the same key.
        rows.push(row(
            "before-system-prompt",
            named("put", tier),
            json!({"put": part(tier, key)}),
            vec![
                See::Requests("Whistle while you work.", first_turn(tier)),
                See::Requests(words, if tier == "stable" { &[] } else { &[3] }),
                See::System(0, block, "Whistle while you work."),
            ],
        ));
        rows.push(row(
            "before-system-prompt",
            "remove",
            json!({"remove": [key]}),
            vec![See::Requests(
                words,
                if tier == "stable" { &[] } else { &[3] },
            )],
        ));
    }
    rows.push(row(
        "after-system-prompt",
        "text",
        json!({"text": "And smile."}),
        vec![
            See::Requests("And smile.", &[0, 1, 2]),
            See::Requests("You are an agent", &[0, 1, 2, 3]),
        ],
    ));
    rows
}

#[tokio::test]
async fn what_hooks_make_of_the_system_prompt() {
    check(rows()).await;
}
