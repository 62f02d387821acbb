//! Properties for all inputs: refused changes have no effect, parsers do not panic, cleaned text is
//! clean.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use rind::message::{Content, Message, Role, ToolCall, ToolResult};
use rind::plugin::manifest::Manifest;
use rind::point::merge::{MAX_TEXT_BYTES, MergeEnv, MergeIntoPayload, MergedOutcome};
use rind::point::outcome::{ContextOutcome, MessageEdit, PartsOutcome, PromptOutcome, Replacement};
use rind::point::payload::{Decision, PromptContext, PromptPart, Tier};
use rind::text::{escape_and_truncate_line, is_deceptive_character, printable_text};

const ENV: MergeEnv<'static> = MergeEnv {
    plugin: "guest",
    may_change: true,
};

/// Disables files for failures, which are visible in the test's output.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn message(id: String, role: Role, content: Vec<Content>) -> Message {
    Message {
        id,
        ..Message::new(role, content)
    }
}

/// A conversation in which every call has a result in a message of its own. Each number is one exchange with that many calls.
fn conversation(exchanges: &[usize]) -> Vec<Message> {
    let mut messages = Vec::new();
    for (number, n_calls) in exchanges.iter().enumerate() {
        let call_id = |call: usize| format!("call-{number}-{call}");
        let text = Content::Text {
            text: "said".to_owned(),
        };
        let calls = (0..*n_calls).map(|call| {
            Content::ToolCall(ToolCall::new(
                call_id(call),
                "read_file",
                serde_json::json!({}),
            ))
        });
        let content = std::iter::once(text).chain(calls).collect();
        messages.push(message(format!("m{number}"), Role::Assistant, content));
        for call in 0..*n_calls {
            let result = ToolResult {
                call_id: call_id(call),
                name: "read_file".to_owned(),
                content: "alpha".into(),
                is_error: false,
            };
            let content = vec![Content::ToolResult(result)];
            messages.push(message(format!("m{number}-{call}"), Role::Tool, content));
        }
    }
    messages
}

/// Text that is short or, occasionally, too long to be accepted.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        30 => ".{0,12}",
        1 => Just("x".repeat(MAX_TEXT_BYTES + 1)),
    ]
}

/// An edit of an existing message or, occasionally, of a missing one.
fn edit(ids: Vec<String>) -> impl Strategy<Value = MessageEdit> {
    let id = (any::<Index>(), 0..12_u8).prop_map(move |(index, chance)| {
        if ids.is_empty() || chance == 0 {
            "nobody".to_owned()
        } else {
            index.get(&ids).clone()
        }
    });
    prop_oneof![
        id.clone().prop_map(MessageEdit::Drop),
        (id, text()).prop_map(|(id, text)| MessageEdit::Replace(Replacement { id, text })),
        text().prop_map(MessageEdit::Append),
    ]
}

fn edited_conversation() -> impl Strategy<Value = (Vec<Message>, Vec<MessageEdit>)> {
    proptest::collection::vec(0..4_usize, 0..5).prop_flat_map(|exchanges| {
        let messages = conversation(&exchanges);
        let ids = messages.iter().map(|message| message.id.clone()).collect();
        let edits = proptest::collection::vec(edit(ids), 0..5);
        (Just(messages), edits)
    })
}

fn part() -> impl Strategy<Value = PromptPart> {
    let tier = prop_oneof![
        Just(Tier::Stable),
        Just(Tier::Context),
        Just(Tier::Volatile)
    ];
    (tier, "[a-e]{0,2}", text()).prop_map(|(tier, key, text)| PromptPart {
        tier,
        key,
        source: "another".to_owned(),
        text,
    })
}

fn parts() -> impl Strategy<Value = Vec<PromptPart>> {
    proptest::collection::vec(part(), 0..6)
}

/// Parts of which no two have the same key.
fn distinct_parts() -> impl Strategy<Value = Vec<PromptPart>> {
    parts().prop_map(|mut parts| {
        let mut seen = HashSet::new();
        parts.retain(|part| seen.insert(part.key.clone()));
        parts
    })
}

fn has_distinct_keys(parts: &[PromptPart]) -> bool {
    let keys: HashSet<&str> = parts.iter().map(|part| part.key.as_str()).collect();
    keys.len() == parts.len()
}

/// A manifest with every section, for mutations to start from.
const GOOD_MANIFEST: &str = r#"
name = "every-section"
version = "0.1.0"
description = "Says everything that a manifest can say."
component = "every_section.wasm"
side_effects = ["filesystem", "network", "session", "external"]

[hooks.pre-tool]
priority = 12
on_failure = "skip"
timeout = "500ms"

[hooks.turn_end]
async = true

[filesystem]
read = ["workspace"]
write = ["data"]

[network]
hosts = ["api.github.com", "*.crates.io:443"]
[[network.credentials]]
host = "api.github.com"
header = "authorization"
value = "Bearer {GITHUB_TOKEN}"

[external]
model = true
tools = ["read_file"]

[limits]
memory = "64MiB"
timeout = "5s"

[config]
type = "object"
[config.properties.edits]
type = "integer"

[dependencies]
other-plugin = "^1"

[points.review]
kind = "gate"
[points.review.payload]
type = "object"

[implements]
"owner.check" = { priority = 3 }

[compat]
sockets = "inert"
"#;

/// One change of a text, by character positions.
#[derive(Clone, Debug)]
enum Mutation {
    Insert(Index, String),
    Remove(Index, usize),
    Repeat(Index, usize),
    SwapLines(Index, Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let piece = prop_oneof![
        r#"[\[\]{}"'=.,#\n\\ -]{1,3}"#,
        "[0-9a-zA-Z_]{1,4}",
        any::<char>().prop_map(String::from),
        Just("1979-05-27T07:32:00Z".to_owned()),
        Just("9223372036854775808".to_owned()),
    ];
    prop_oneof![
        (any::<Index>(), piece).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        (any::<Index>(), 1..20_usize).prop_map(|(at, n)| Mutation::Remove(at, n)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, n)| Mutation::Repeat(at, n)),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Mutation::SwapLines(a, b)),
    ]
}

fn mutate(text: &str, mutation: &Mutation) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let at = |index: &Index| index.index(characters.len() + 1);
    match mutation {
        Mutation::Insert(index, piece) => {
            let at = at(index);
            characters.splice(at..at, piece.chars());
        }
        Mutation::Remove(index, n) => {
            let at = at(index);
            characters.drain(at..(at + n).min(text.chars().count()));
        }
        Mutation::Repeat(index, n) => {
            let at = at(index);
            let again = characters[at..(at + n).min(characters.len())].to_vec();
            characters.splice(at..at, again);
        }
        Mutation::SwapLines(a, b) => {
            let mut lines: Vec<&str> = text.split('\n').collect();
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
            return lines.join("\n");
        }
    }
    characters.into_iter().collect()
}

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(text, Path::new("plugin.toml")).map_err(|error| error.to_string())
}

#[test]
fn the_manifest_that_mutations_start_from_is_good() {
    assert_eq!(parse(GOOD_MANIFEST).unwrap().name, "every-section");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn refused_edits_leave_the_messages_and_taken_ones_no_call_without_its_result(
        (messages, edits) in edited_conversation()
    ) {
        let mut edited = Arc::new(messages.clone());
        let outcome = ContextOutcome { edits, ..ContextOutcome::default() };
        match outcome.merge(&mut edited, &mut MergedOutcome::default(), &ENV) {
            Err(_) => prop_assert_eq!(&*edited, &messages),
            Ok(_) => {
                let calls: BTreeSet<&str> = edited
                    .iter()
                    .flat_map(Message::tool_calls)
                    .map(|call| call.id.as_str())
                    .collect();
                let results: BTreeSet<&str> = edited
                    .iter()
                    .flat_map(Message::tool_results)
                    .map(|result| result.call_id.as_str())
                    .collect();
                prop_assert_eq!(calls, results);
            }
        }
    }

    #[test]
    fn refused_contributions_leave_the_prompt_and_taken_ones_keep_keys_distinct(
        host_system_prompt_parts in distinct_parts(),
        parts in parts(),
    ) {
        let before = PromptContext {
            model: "m".to_owned(),
            tools: Vec::new(),
            decision: Decision::Direct,
            parts: host_system_prompt_parts,
        };
        let mut after = before.clone();
        let outcome = PromptOutcome { parts, ..PromptOutcome::default() };
        match outcome.merge(&mut after, &mut MergedOutcome::default(), &ENV) {
            Err(_) => prop_assert_eq!(after, before),
            Ok(_) => prop_assert!(has_distinct_keys(&after.parts)),
        }
    }

    #[test]
    fn refused_edits_leave_the_parts_and_taken_ones_keep_keys_distinct(
        before in distinct_parts(),
        put in parts(),
        remove in proptest::collection::vec("[a-e]{0,2}", 0..3),
    ) {
        let mut after = before.clone();
        let outcome = PartsOutcome { put, remove, ..PartsOutcome::default() };
        match outcome.merge(&mut after, &mut MergedOutcome::default(), &ENV) {
            Err(_) => prop_assert_eq!(after, before),
            Ok(_) => prop_assert!(has_distinct_keys(&after)),
        }
    }

    #[test]
    fn any_text_is_a_manifest_or_an_error(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn a_good_manifest_with_mistakes_is_a_manifest_or_an_error(
        mutations in proptest::collection::vec(mutation(), 1..6)
    ) {
        let text = mutations
            .iter()
            .fold(GOOD_MANIFEST.to_owned(), |text, mutation| mutate(&text, mutation));
        match parse(&text) {
            Ok(manifest) => prop_assert!(manifest.name.len() <= 64),
            Err(message) => prop_assert!(message.starts_with("plugin.toml")),
        }
    }

    #[test]
    fn a_cleaned_text_is_one_line_within_its_limit_that_deceives_nobody(
        text in any::<String>(),
        noise in "[\\x00-\\x1f\\x7f-\\x9f\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{feff}é…a ]{0,60}",
        limit in 0..80_usize,
    ) {
        for text in [text, noise] {
            let cleaned = escape_and_truncate_line(&text, limit);
            prop_assert!(cleaned.len() <= limit);
            prop_assert!(!cleaned.chars().any(is_deceptive_character));
            let shown = printable_text(&text);
            prop_assert!(!shown.chars().any(|c| is_deceptive_character(c) && c != '\n' && c != '\t'));
        }
    }
}
