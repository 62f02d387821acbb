//! Builds the texts about a session's entries that built-in commands show, such as `/cost`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use anyhow::Context;

use super::OpenSessionHandles;
use crate::exit_code::{Usage, bail_usage};
use crate::input::fence_input;
use crate::render;
use rind_lib::agent::CompactConfig;
use rind_lib::host::Session;
use rind_lib::message::{Content, Message, Role};
use rind_lib::prompt::ledger;
use rind_lib::session::{Body, Entry};
use rind_lib::tokens;

fn read_session_log_entries(open: &OpenSessionHandles) -> anyhow::Result<Vec<Entry>> {
    let (entries, _) = open.host.store().read_entries(open.stored.id())?;
    Ok(entries)
}

/// Describes the tokens and the cost of all finished turns, and the tokens of each model.
pub(super) fn describe_cost(open: &OpenSessionHandles) -> anyhow::Result<String> {
    let (mut n_turns, mut n_cut) = (0, 0);
    let (mut usd, mut unpriced) = (0.0, 0);
    let mut usage = rind_lib::message::Usage::default();
    let mut models: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for entry in read_session_log_entries(open)? {
        match entry.body {
            Body::TurnEnd { summary, .. } => {
                n_turns += 1;
                usage += summary.usage;
                usd += summary.cost_usd;
                unpriced += summary.unpriced_tokens;
            }
            Body::Command {
                usage: used,
                cost_usd,
                unpriced_tokens,
                ..
            }
            | Body::LoopRun {
                usage: used,
                cost_usd,
                unpriced_tokens,
                ..
            } => {
                usage += used;
                usd += cost_usd;
                unpriced += unpriced_tokens;
            }
            Body::Cut { .. } => n_cut += 1,
            Body::Step { model, usage, .. }
            | Body::Asked { model, usage, .. }
            | Body::HostAsked { model, usage, .. } => {
                let (n, input, output) = models.entry(model).or_default();
                *n += 1;
                *input += usage.input_tokens;
                *output += usage.output_tokens;
            }
            _ => {}
        }
    }
    let mut text = format!(
        "{}: {} tokens in{}, {} out · {}",
        render::format_count_with_noun(n_turns, "turn"),
        usage.input_tokens,
        render::estimated_usage_mark(&usage),
        usage.output_tokens,
        render::format_dollars(usd).unwrap_or_else(|| "$0".to_owned()),
    );
    if unpriced > 0 {
        let _ = write!(text, ", and {unpriced} tokens without a price");
    }
    for (model, (n, input, output)) in models {
        let requests = render::format_count_with_noun(n, "request");
        let _ = write!(
            text,
            "\n  {model}: {requests}, {input} tokens in, {output} out"
        );
    }
    if n_cut > 0 {
        let cut = render::format_count_with_noun(n_cut, "interrupted turn");
        let are = if n_cut == 1 { "is" } else { "are" };
        let _ = write!(text, "\n{cut} {are} not counted");
    }
    Ok(text)
}

/// Lists the parts of the system prompt, the tools and the kinds of messages with their tokens.
pub(super) fn describe_context_token_usage(
    open: &OpenSessionHandles,
    compact: &CompactConfig,
) -> anyhow::Result<String> {
    let entries = read_session_log_entries(open)?;
    let turns = ledger::build_turn_prompt_reports(&entries);
    let mut rows: Vec<(String, u64)> = Vec::new();
    if let Some(turn) = turns.iter().rev().find(|turn| !turn.parts.is_empty()) {
        let kept = turn
            .parts
            .iter()
            .filter(|row| row.change != ledger::PromptPartChange::Removed);
        rows.extend(kept.map(|row| {
            let part = &row.part;
            let (key, source) = (
                render::truncate_to_one_line(&part.key, 60),
                render::truncate_to_one_line(&part.source, 60),
            );
            (format!("system prompt: {key} ({source})"), part.tokens)
        }));
    }
    let specs = &open.tools;
    let tools = specs.iter().map(|spec| {
        let text = format!("{}{}{}", spec.name, spec.description, spec.parameters);
        tokens::estimate_tokens(&text)
    });
    rows.push((
        render::format_count_with_noun(specs.len() as u64, "tool"),
        tools.sum(),
    ));
    let messages = open.stored.messages();
    for (role, what) in [
        (Role::User, "input"),
        (Role::Assistant, "answer"),
        (Role::Tool, "tool result"),
    ] {
        let of = messages.iter().filter(|message| message.role == role);
        let n = of.clone().count() as u64;
        rows.push((
            render::format_count_with_noun(n, what),
            of.map(estimate_message_tokens).sum(),
        ));
    }
    let total: u64 = rows.iter().map(|(_, tokens)| tokens).sum();
    let mut text = String::new();
    for (what, tokens) in rows {
        let _ = writeln!(text, "{tokens:>9}  {what}");
    }
    let _ = write!(text, "{total:>9}  tokens in all, estimated");
    let profile = open.provider.profile(&open.model);
    if let Some(most) = compact.compaction_threshold(&profile) {
        let part = total * 100 / most.max(1);
        let _ = write!(
            text,
            "; {part} % of the {most} from which on older messages are replaced by a summary"
        );
    }
    Ok(text)
}

fn estimate_message_tokens(message: &Message) -> u64 {
    let of = |part: &Content| match part {
        Content::Text { text } => tokens::estimate_tokens(text),
        Content::ToolCall(call) => tokens::estimate_tokens(&call.arguments.to_string()),
        Content::ToolResult(result) => tokens::estimate_tokens(&result.content.text()),
        _ => 0,
    };
    message.content.iter().map(of).sum()
}

/// Writes the conversation to a new file, and returns a message with its path.
pub(super) fn export_session(session: &Session, file: Option<&str>) -> anyhow::Result<String> {
    let messages = session.messages();
    if messages.is_empty() {
        bail_usage!("the conversation is empty, so there is nothing to export");
    }
    let name = file.map_or_else(|| format!("session-{}.md", session.id()), str::to_owned);
    let path = session.host().workspace().join(name);
    let text = format_transcript_as_markdown(session.id(), &messages);
    let mut options = OpenOptions::new();
    let mut made = match options.write(true).create_new(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail_usage!("{} exists; name another file: /export FILE", path.display())
        }
        made => made.with_context(|| Usage(format!("cannot write {}", path.display())))?,
    };
    let written = made.write_all(text.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display()))?;
    let n = render::format_count_with_noun(messages.len() as u64, "message");
    Ok(format!("wrote {n} to {}", path.display()))
}

fn format_transcript_as_markdown(id: &str, messages: &[Message]) -> String {
    let mut text = format!("# Session {id}\n");
    for message in messages {
        match message.role {
            Role::User => match &message.plugin {
                Some(plugin) => _ = write!(text, "\n## Plugin {plugin}\n"),
                None => text.push_str("\n## User\n"),
            },
            Role::Assistant => text.push_str("\n## Model\n"),
            Role::Tool => {}
        }
        for part in &message.content {
            let _ = match part {
                Content::Text { text: own } => write!(text, "\n{}\n", own.trim_end()),
                Content::ToolCall(call) => {
                    let arguments = fence_input(&call.arguments.to_string());
                    write!(text, "\nCalls `{}`:\n\n{arguments}\n", call.name)
                }
                Content::Thinking { .. } => Ok(()),
                Content::ToolResult(result) => {
                    let what = if result.is_error {
                        "failed"
                    } else {
                        "answered"
                    };
                    let own = result.content.text();
                    write!(
                        text,
                        "\n`{}` {what}:\n\n{}\n",
                        result.name,
                        fence_input(own.trim_end())
                    )
                }
                Content::Blob(_) => write!(text, "\n[content that is not text]\n"),
            };
        }
    }
    text
}
