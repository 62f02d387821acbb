//! Shows derived skills: their files, the differences from existing files, and how to use the
//! skills.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::{
    BAD, BOLD, DIM, GOOD, answer_line, format_cost, format_token_usage, print_answer, print_note,
    print_warning, printable_prose, style_text,
};
use rind_derive::{SkillBundle, SkillDraft};
use rind_lib::point::payload::TurnSummary;

/// Timeout for the diff of one file; afterwards the diff becomes coarser.
const MAX_DIFF_TIME: Duration = Duration::from_secs(2);

/// Number of unchanged lines shown before and after a change.
const CONTEXT: usize = 2;

/// Prints each file of a skill below a heading with the file's path.
pub(in super::super) fn print_skill_files(bundle: &SkillBundle) {
    let n_files = bundle.0.len();
    for (at, (path, text)) in bundle.0.iter().enumerate() {
        answer_line(style_text(BOLD, format_args!("==> {path} <==")));
        print_answer(printable_prose(text));
        if at + 1 < n_files {
            answer_line("");
        }
    }
}

/// Prints the changed lines of all files, with some unchanged lines around them.
pub(in super::super) fn print_skill_diff(earlier: &SkillBundle, bundle: &SkillBundle) {
    let paths: BTreeSet<&String> = earlier.0.keys().chain(bundle.0.keys()).collect();
    for path in paths {
        let [before, after] =
            [earlier, bundle].map(|one| one.0.get(path).map_or("", String::as_str));
        if before == after {
            continue;
        }
        let what = match (earlier.0.contains_key(path), bundle.0.contains_key(path)) {
            (false, _) => " (added)",
            (_, false) => " (removed)",
            _ => "",
        };
        answer_line(style_text(
            BOLD,
            format_args!("{}{what}", printable_prose(path)),
        ));
        let diff = TextDiff::configure()
            .timeout(MAX_DIFF_TIME)
            .diff_lines(before, after);
        for (at, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
            if at > 0 {
                answer_line(style_text(DIM, "  …"));
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (style, mark) = match change.tag() {
                    ChangeTag::Delete => (BAD, '-'),
                    ChangeTag::Insert => (GOOD, '+'),
                    ChangeTag::Equal => (DIM, ' '),
                };
                let line = printable_prose(change.value().trim_end_matches('\n'));
                answer_line(style_text(style, format_args!("{mark} {line}")));
            }
        }
    }
}

/// Prints how to use a skill that was written to `folder`.
pub(in super::super) fn print_made_skill(
    draft: &SkillDraft,
    folder: &Path,
    is_cached: bool,
    plugin: Option<&Path>,
) {
    let shown = printable_prose(&folder.display().to_string());
    if is_cached {
        print_note(&format!(
            "saved in the cache; to use the skill: `rind skill install {shown}`"
        ));
    } else {
        let plugin = plugin
            .map(|path| format!(" --plugin {}", printable_prose(&path.display().to_string())));
        print_note(&format!(
            "`rind skill check {shown}{}` checks whether it can be used here",
            plugin.unwrap_or_default()
        ));
    }
    if let [plugin] = draft.library_depends.as_slice() {
        print_note(&format!(
            "it depends on the plugin {plugin}, whose tools are available only while the skill is active; remove `library_depends` to make them always available"
        ));
    }
}

pub(in super::super) fn print_summary_cost(turn: &TurnSummary) {
    let cost = format_cost(turn).map_or_else(String::new, |cost| format!(", {cost}"));
    print_note(&format!(
        "writing the summary of the skill took {}{cost}",
        format_token_usage(&turn.usage)
    ));
}

/// Warns that there is no summary, with the reason.
pub(in super::super) fn warn_no_summary(why: &str) {
    print_warning(&format!("there is no summary: {}", printable_prose(why)));
}

/// Warns that a summary was truncated to `limit` bytes.
pub(in super::super) fn warn_summary_truncated(limit: usize) {
    print_warning(&format!(
        "the summary is longer than {} KiB and was truncated",
        limit >> 10
    ));
}
