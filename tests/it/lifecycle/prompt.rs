//! The system prompt: parts in each tier, and the rendered text. The prompt has a block for each tier.

use serde_json::{Value, json};

use super::{Row, See, check, row};

/// The tiers: the name of the rows, the block, and a part that is there without any plugin, with words of it.
const TIERS: [(&str, usize, &str, &str); 3] = [
    ("stable", 0, "00-identity", "You are an agent"),
    ("context", 1, "files/00/AGENTS.md", "Mind the style."),
    ("volatile", 2, "00-environment", "The workspace is"),
];

/// Requests of the first turn, and the one of the second: stable parts stay as the first turn made them.
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

/// The name of an outcome with its tier.
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
        // In place of the one that is there.
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
