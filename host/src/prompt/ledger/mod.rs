//! The prompt ledger of a session: for each turn, the author of every part of the system prompt,
//! the changes since the previous turn, and the cache breakpoint that they invalidate.
//!
//! A provider caches prefixes of a request in the order tools, stable tier, context tier,
//! conversation. A change in one of them invalidates the cache of everything after it; the ledger
//! names the first invalid [`CacheBreakpoint`] and the causes.
//!
//! The module has no side effects: it reads session entries from memory, and must not depend on
//! files or terminals. Start from [`build_turn_prompt_reports`].

mod compare;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::message::Usage;
use crate::point::payload::Tier;
use crate::session::{Body, Entry, PromptRow};
use compare::{compare_prompt_parts, find_first_invalid_breakpoint};

/// Cache breakpoint: a position in the request. The provider is asked to cache the request up to
/// this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheBreakpoint {
    /// Breakpoint after the tool definitions.
    Tools,
    /// Breakpoint after the stable tier of the system prompt.
    Stable,
    /// Breakpoint after the context tier of the system prompt.
    Context,
    /// After the last message, and so after the volatile tier, which precedes the messages.
    Conversation,
}

impl CacheBreakpoint {
    /// Returns the first breakpoint that follows a tier in the request.
    fn after_prompt_tier(tier: Tier) -> Self {
        match tier {
            Tier::Stable => Self::Stable,
            Tier::Context => Self::Context,
            Tier::Volatile => Self::Conversation,
        }
    }
}

/// Change of a part of the system prompt since the previous turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptPartChange {
    Kept,
    Added,
    /// The text or the source changed.
    Changed,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptPartComparison {
    /// Part in the current turn; for a removed part, the part in the previous turn.
    #[serde(flatten)]
    pub part: PromptRow,
    /// Change of the part since the previous turn.
    pub change: PromptPartChange,
}

/// The first cache breakpoint that is no longer valid since the previous turn. Later breakpoints
/// are invalid as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidBreakpoint {
    /// First breakpoint up to which the cached request is no longer valid.
    pub border: CacheBreakpoint,
    /// Causes of the invalidation, as phrases for the user.
    pub by: Vec<String>,
}

/// A hook that changed the request after the parts were collected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RequestChangingHook {
    /// Extension point of the hook.
    pub point: String,
    /// Name of the hook's plugin.
    pub plugin: String,
}

/// Tokens that one step of a turn used, with the model and the tools of its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepUsage {
    /// Number of the step within the turn.
    pub step: u32,
    /// Name of the requested model.
    pub model: String,
    /// Hash of the tool definitions in the request.
    pub tools: String,
    /// Names of the tools; empty if the session was written by a version that did not record them.
    #[serde(skip)]
    pub tool_names: Vec<String>,
    /// Tokens used, including prompt cache reads and writes.
    pub usage: Usage,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnPromptReport {
    /// Number of the turn in the session.
    pub turn: u32,
    /// Start of the turn, in milliseconds since 1970.
    pub time: i64,
    /// Input text of the turn.
    pub input: String,
    /// Parts of the system prompt in order; removed parts come last.
    pub parts: Vec<PromptPartComparison>,
    /// First cache breakpoint of the prompt that became invalid since the previous turn; always
    /// `None` in the first turn.
    pub broken: Option<InvalidBreakpoint>,
    /// Tiers of the prompt that have no cache breakpoint because hooks changed their text.
    pub lost: Vec<Tier>,
    /// Hooks that changed something in the request that is not in `parts`, such as the messages.
    pub rewrites: Vec<RequestChangingHook>,
    /// Steps of the turn, in order.
    pub steps: Vec<StepUsage>,
    /// Tokens that all steps of the turn used.
    pub usage: Usage,
}

/// Returns the ledger of every turn that built a prompt, oldest first.
#[must_use]
pub fn build_turn_prompt_reports(entries: &[Entry]) -> Vec<TurnPromptReport> {
    let mut reader = TurnPromptReportBuilder::default();
    for entry in entries {
        reader.add_session_entry(entry);
    }
    reader.finish_turn_report();
    reader.done
}

/// State of the ledger at the end of the last turn that had a system prompt.
struct PreviousTurnPromptState {
    rows: Vec<PromptRow>,
    lost: Vec<Tier>,
    /// Last step before the current turn, in any turn.
    step: Option<StepUsage>,
}

/// Builds the ledger while entries are read.
#[derive(Default)]
struct TurnPromptReportBuilder {
    done: Vec<TurnPromptReport>,
    turn: Option<TurnPromptReport>,
    rows: Vec<PromptRow>,
    lost: Vec<Tier>,
    before: Option<PreviousTurnPromptState>,
    /// Whether a prompt was built for the current turn. A turn that was refused early has no
    /// prompt.
    has_prompt: bool,
    rewrites: BTreeSet<RequestChangingHook>,
}

impl TurnPromptReportBuilder {
    fn add_session_entry(&mut self, entry: &Entry) {
        match &entry.body {
            Body::TurnStart { turn, input, .. } => {
                self.finish_turn_report();
                self.turn = Some(TurnPromptReport {
                    turn: *turn,
                    time: entry.time,
                    input: input.clone(),
                    ..TurnPromptReport::default()
                });
            }
            Body::Prompt { parts, lost, .. } => {
                self.rows.clone_from(parts);
                self.lost.clone_from(lost);
                self.has_prompt = true;
            }
            Body::Step {
                step,
                model,
                usage,
                tools,
                tool_names,
                ..
            } => {
                self.has_prompt = true;
                if let Some(turn) = &mut self.turn {
                    turn.usage += *usage;
                    turn.steps.push(StepUsage {
                        step: *step,
                        model: model.clone(),
                        tools: tools.clone(),
                        tool_names: tool_names.clone(),
                        usage: *usage,
                    });
                }
            }
            Body::Trace { record } => self.rewrites.extend(parse_request_changing_hook(record)),
            _ => {}
        }
    }

    fn finish_turn_report(&mut self) {
        let rewrites = std::mem::take(&mut self.rewrites);
        let has_prompt = std::mem::take(&mut self.has_prompt);
        let Some(mut turn) = self.turn.take().filter(|_| has_prompt) else {
            return;
        };
        turn.rewrites = rewrites.into_iter().collect();
        turn.lost.clone_from(&self.lost);
        let before = self.before.take();
        let rows = before.as_ref().map_or(&[][..], |before| &before.rows);
        turn.parts = compare_prompt_parts(rows, &self.rows);
        turn.broken = before
            .as_ref()
            .and_then(|before| find_first_invalid_breakpoint(before, &turn));
        let last = turn.steps.last().cloned();
        self.before = Some(PreviousTurnPromptState {
            rows: self.rows.clone(),
            lost: self.lost.clone(),
            step: last.or(before.and_then(|before| before.step)),
        });
        self.done.push(turn);
    }
}

/// Returns the hook of a trace record if the hook changed something that the parts do not contain:
/// the rendered text, the messages, the tools, the model or the request body.
fn parse_request_changing_hook(record: &Value) -> Option<RequestChangingHook> {
    let text = |name: &str| record.get(name).and_then(Value::as_str);
    let (point, plugin) = (text("point")?, text("plugin")?);
    let changed = record.get("changed").and_then(Value::as_array)?;
    let counts = match point {
        "after-system-prompt" | "context" | "before-provider-request" => !changed.is_empty(),
        "pre-reason" => changed
            .iter()
            .any(|name| name == "tools" || name == "model"),
        _ => false,
    };
    counts.then(|| RequestChangingHook {
        point: point.to_owned(),
        plugin: plugin.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::payload::Source;
    use serde_json::json;

    fn row(tier: Tier, key: &str, hash: &str) -> PromptRow {
        PromptRow {
            tier,
            key: key.into(),
            source: "host".into(),
            bytes: 8,
            tokens: 2,
            hash: hash.into(),
        }
    }

    fn start(turn: u32) -> Body {
        Body::TurnStart {
            turn,
            input: "hi".into(),
            source: Source::Terminal,
            command: None,
            input_id: None,
            continues: None,
            attached: Vec::new(),
            plugins: None,
        }
    }

    fn prompt(parts: &[PromptRow]) -> Body {
        Body::Prompt {
            parts: parts.to_vec(),
            lost: Vec::new(),
            sent: Vec::new(),
            sent_bytes: Vec::new(),
        }
    }

    fn step(turn: u32, tools: &str) -> Body {
        Body::Step {
            turn,
            step: 1,
            model: "m".into(),
            usage: Usage {
                input_tokens: 10,
                cache_read_tokens: 4,
                ..Usage::default()
            },
            cost_usd: None,
            latency_ms: 1,
            tools: tools.into(),
            tool_names: tools.chars().map(String::from).collect(),
            aside: None,
        }
    }

    fn read(bodies: Vec<Body>) -> Vec<TurnPromptReport> {
        let entry = |body| Entry {
            id: String::new(),
            parent: None,
            time: 0,
            body,
        };
        build_turn_prompt_reports(&bodies.into_iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn the_first_border_behind_a_change_is_the_one_that_broke() {
        let stable = row(Tier::Stable, "a", "1");
        let same = [stable.clone(), row(Tier::Volatile, "v", "1")];
        let date = [stable, row(Tier::Volatile, "v", "2")];
        let all = [
            row(Tier::Stable, "b", "1"),
            row(Tier::Context, "c", "1"),
            row(Tier::Volatile, "v", "2"),
        ];
        let (more, other) = ("`u` added", "`u` added, `t` removed");
        let from = |tools: &str| format!("tools from step 1 on: {tools}");
        for (parts, tools, expected) in [
            (&same[..], "t", None),
            (&same, "u", Some((CacheBreakpoint::Tools, &*from(other)))),
            (&same, "tu", Some((CacheBreakpoint::Tools, &*from(more)))),
            (
                &date,
                "t",
                Some((CacheBreakpoint::Conversation, "`v` changed")),
            ),
            (
                &all,
                "t",
                Some((CacheBreakpoint::Stable, "`b` added, `a` removed")),
            ),
        ] {
            let first = vec![start(1), prompt(&same), step(1, "t"), start(2)];
            let turns = read([first, vec![prompt(parts), step(2, tools)]].concat());
            assert_eq!(turns[0].broken, None);
            let broken = turns[1].broken.as_ref();
            let broken = broken.map(|broken| (broken.border, broken.by.join(", ")));
            let expected = expected.map(|(border, by)| (border, by.to_owned()));
            assert_eq!(broken, expected);
            assert_eq!(turns[1].usage.cache_read_tokens, 4);
        }
    }

    #[test]
    fn a_turn_without_an_entry_of_its_own_has_the_prompt_of_the_one_before() {
        let parts = [row(Tier::Stable, "a", "1")];
        // The second turn was refused, so nothing was sent.
        let first = vec![start(1), prompt(&parts), step(1, "t"), start(2)];
        let turns = read([first, vec![start(3), step(3, "t")]].concat());
        let numbers: Vec<u32> = turns.iter().map(|turn| turn.turn).collect();
        assert_eq!(numbers, [1, 3]);
        assert_eq!(turns[1].parts[0].change, PromptPartChange::Kept);
        assert_eq!(turns[1].broken, None);
    }

    #[test]
    fn hooks_that_change_what_the_ledger_does_not_see_are_named() {
        let trace = |point: &str, changed: Value| Body::Trace {
            record: json!({"point": point, "plugin": "p", "outcome": "changed", "changed": changed}),
        };
        let bodies = vec![
            start(1),
            prompt(&[]),
            trace("after-system-prompt", json!(["text"])),
            trace("pre-reason", json!(["inject"])),
            trace("pre-reason", json!(["tools"])),
            trace("pre-reason", json!(["tools"])),
        ];
        let rewrites = &read(bodies)[0].rewrites;
        let points: Vec<&str> = rewrites.iter().map(|rewrite| &*rewrite.point).collect();
        assert_eq!(points, ["after-system-prompt", "pre-reason"]);
    }
}
