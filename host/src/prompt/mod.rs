//! The system prompt: parts in three tiers, rendered to text blocks.
//!
//! Owns the host's own parts, the order of parts, the cache breakpoints and the ledger. The module
//! must not depend on the authors of parts: callers pass the parts of hooks as data, labeled with
//! the name of the plugin.
//!
//! Stable parts come first and do not change while the session is open, so that the provider's
//! prompt cache stays valid from one request to the next. They are built again when the session is
//! resumed, because other plugins may be loaded then; the ledger records the differences.
//!
//! A hook at `after-system-prompt` edits the rendered text, which has no tiers. Leading blocks that
//! the hook left unchanged keep their cache breakpoints; the remaining text has no breakpoint.
//!
//! Start from [`host_system_prompt_parts`], then [`render_system_blocks`]. [`ledger`] reads the
//! prompts that a session recorded.

mod files;
mod host;
#[doc(hidden)]
pub mod ledger;

pub(crate) use files::{ContextFileReadPolicy, read_context_files, read_context_files_down_to};
pub(crate) use host::{
    HostPromptFacts, answer_schema_prompt_part, host_prompt_part, host_system_prompt_parts,
    plan_mode_prompt_part,
};

use serde_json::{Value, json};

use crate::message::ToolSpec;
use crate::point::payload::{PromptPart, Tier};
use crate::provider::SystemPromptBlock;
use crate::session::PromptRow;
use crate::tokens;

/// Sorts parts by tier, then by the key without the plugin's prefix, then by the full key.
pub(crate) fn sort_prompt_parts(parts: &mut [PromptPart]) {
    parts.sort_by(|a, b| {
        (a.tier as u8, part_key_without_plugin(&a.key), &a.key).cmp(&(
            b.tier as u8,
            part_key_without_plugin(&b.key),
            &b.key,
        ))
    });
}

/// Returns a key without its plugin prefix. A colon in a key of the host, as part of a path, does
/// not end a plugin prefix.
fn part_key_without_plugin(key: &str) -> &str {
    let is_in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match key.split_once(':') {
        Some((plugin, chosen)) if plugin.chars().all(is_in_name) => chosen,
        _ => key,
    }
}

/// Converts the parts of a system prompt to the rows that the session records about them.
#[must_use]
pub(crate) fn to_prompt_part_records(parts: &[PromptPart]) -> Vec<PromptRow> {
    parts
        .iter()
        .map(|part| PromptRow {
            tier: part.tier,
            key: part.key.clone(),
            source: part.source.clone(),
            bytes: part.text.len(),
            tokens: tokens::estimate_tokens(&part.text),
            hash: short_hash(part.text.as_bytes()),
        })
        .collect()
}

/// Returns the hash of the tool definitions of a request, in their order; empty without tools.
#[must_use]
pub(crate) fn hash_tool_specs(tools: &[ToolSpec]) -> String {
    let defined = |tool: &ToolSpec| json!([tool.name, tool.description, tool.parameters]);
    let all: Vec<Value> = tools.iter().map(defined).collect();
    if all.is_empty() {
        return String::new();
    }
    short_hash(Value::Array(all).to_string().as_bytes())
}

fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(16).collect()
}

/// Renders sorted parts to one block per non-empty tier. The stable and the context block each end
/// at a cache breakpoint. The volatile block comes last, so that text that changes every turn does
/// not invalidate the cache of the blocks before it.
#[must_use]
pub(crate) fn render_system_blocks(parts: &[PromptPart]) -> Vec<SystemPromptBlock> {
    [Tier::Stable, Tier::Context, Tier::Volatile]
        .into_iter()
        .filter_map(|tier| {
            let texts: Vec<&str> = parts
                .iter()
                .filter(|part| part.tier == tier && !part.text.trim().is_empty())
                .map(|part| part.text.trim())
                .collect();
            (!texts.is_empty()).then(|| SystemPromptBlock {
                text: texts.join("\n\n"),
                is_cached: tier != Tier::Volatile,
            })
        })
        .collect()
}

/// Returns the tiers of `parts` for which `blocks` contains no cache breakpoint, because hooks
/// edited the text.
#[must_use]
pub(crate) fn tiers_missing_cache_breakpoint(
    parts: &[PromptPart],
    blocks: &[SystemPromptBlock],
) -> Vec<Tier> {
    let has_text = |tier| {
        let mut texts = parts.iter().filter(|part| part.tier == tier);
        texts.any(|part| !part.text.trim().is_empty())
    };
    let n_kept = blocks.iter().filter(|block| block.is_cached).count();
    [Tier::Stable, Tier::Context]
        .into_iter()
        .filter(|tier| has_text(*tier))
        .skip(n_kept)
        .collect()
}

/// Joins rendered blocks to the text of the whole prompt.
#[must_use]
pub(crate) fn join_system_blocks(blocks: &[SystemPromptBlock]) -> String {
    let texts: Vec<&str> = blocks.iter().map(|block| block.text.as_str()).collect();
    texts.join("\n\n")
}

/// Splits the prompt text into blocks, after hooks may have edited the joined text of `blocks`.
/// Leading blocks that are unchanged keep their cache breakpoints; the remaining text becomes one
/// block without a breakpoint.
#[must_use]
pub(crate) fn split_prompt_into_blocks(
    blocks: Vec<SystemPromptBlock>,
    text: &str,
) -> Vec<SystemPromptBlock> {
    let mut rest = text;
    let mut kept = Vec::new();
    for block in blocks {
        let Some(after) = rest.strip_prefix(block.text.as_str()) else {
            break;
        };
        let Some(after) = after
            .strip_prefix("\n\n")
            .or(after.is_empty().then_some(""))
        else {
            break;
        };
        rest = after;
        kept.push(block);
    }
    if !rest.is_empty() {
        kept.push(SystemPromptBlock::new(rest, false));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::host_prompt_part as part;

    fn block(text: &str, is_cached: bool) -> SystemPromptBlock {
        SystemPromptBlock::new(text, is_cached)
    }

    fn blocks() -> Vec<SystemPromptBlock> {
        vec![block("a\n\nb", true), block("c", true), block("d", false)]
    }

    #[test]
    fn parts_are_rendered_by_tier_then_key_with_cache_borders() {
        let mut parts = vec![
            part(Tier::Volatile, "z", "d"),
            part(Tier::Stable, "20", "b"),
            part(Tier::Context, "f", " c\n"),
            part(Tier::Stable, "10", "a"),
            part(Tier::Context, "g", "  "),
        ];
        sort_prompt_parts(&mut parts);
        assert_eq!(render_system_blocks(&parts), blocks());
    }

    #[test]
    fn parts_of_plugins_stand_where_the_key_they_chose_puts_them() {
        let mut parts = ["zeta:20-a", "30", "beta:40", "files/00/a:b", "20-b"]
            .map(|key| part(Tier::Stable, key, "x"));
        sort_prompt_parts(&mut parts);
        let keys = parts.map(|part| part.key);
        assert_eq!(keys, ["zeta:20-a", "20-b", "30", "beta:40", "files/00/a:b"]);
    }

    #[test]
    fn a_change_keeps_the_borders_before_it() {
        let kept = [block("a\n\nb", true), block("c", true)];
        for (text, n_kept, rest) in [
            (&*join_system_blocks(&blocks()), 2, Some("d")),
            ("a\n\nb\n\nc\n\nD", 2, Some("D")),
            ("X a\n\nb\n\nc\n\nd", 0, Some("X a\n\nb\n\nc\n\nd")),
            // A longer block must not match the shorter block that it starts with.
            ("a\n\nbb", 0, Some("a\n\nbb")),
            ("", 0, None),
        ] {
            let mut expected = kept[..n_kept].to_vec();
            expected.extend(rest.map(|rest| block(rest, false)));
            assert_eq!(split_prompt_into_blocks(blocks(), text), expected, "{text}");
        }
    }

    #[test]
    fn borders_behind_a_change_are_lost() {
        let parts = [
            part(Tier::Stable, "10", "a"),
            part(Tier::Context, "f", "c"),
            part(Tier::Volatile, "z", "d"),
        ];
        let lost = |text| {
            tiers_missing_cache_breakpoint(
                &parts,
                &split_prompt_into_blocks(render_system_blocks(&parts), text),
            )
        };
        assert_eq!(lost("a\n\nc\n\nD"), []);
        assert_eq!(lost("a\n\nC\n\nd"), [Tier::Context]);
        assert_eq!(lost("A\n\nc\n\nd"), [Tier::Stable, Tier::Context]);
        assert_eq!(tiers_missing_cache_breakpoint(&parts[2..], &[]), []);
    }

    #[test]
    fn the_ledger_names_every_part_with_its_hash() {
        let rows = to_prompt_part_records(&[part(Tier::Stable, "k", "hello")]);
        assert_eq!((rows[0].bytes, rows[0].tokens), (5, 1));
        assert_eq!(rows[0].hash, "ea8f163db3868292");
    }
}
