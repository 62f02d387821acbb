//! Shows derived skills: their files, the differences from existing files, and how to use the
//! skills.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_prose_for_display,
    format_token_usage, format_turn_cost, print_note, print_stdout_line, print_to_stdout,
    print_warning, style_text,
};
use rind_derive::{SkillBundle, SkillDraft};
use rind_lib::point::payload::TurnSummary;

/// Timeout for the diff of one file; afterwards the diff becomes coarser.
const FILE_DIFF_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of unchanged lines shown before and after a change.
const DIFF_CONTEXT_LINES: usize = 2;

/// Prints each file of a skill below a heading with the file's path.
pub(in super::super) fn print_skill_files(bundle: &SkillBundle) {
    let n_files = bundle.0.len();
    for (at, (path, text)) in bundle.0.iter().enumerate() {
        print_stdout_line(style_text(BOLD_STYLE, format_args!("==> {path} <==")));
        print_to_stdout(escape_prose_for_display(text));
        if at + 1 < n_files {
            print_stdout_line("");
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
        print_stdout_line(style_text(
            BOLD_STYLE,
            format_args!("{}{what}", escape_prose_for_display(path)),
        ));
        let diff = TextDiff::configure()
            .timeout(FILE_DIFF_TIMEOUT)
            .diff_lines(before, after);
        for (at, group) in diff.grouped_ops(DIFF_CONTEXT_LINES).iter().enumerate() {
            if at > 0 {
                print_stdout_line(style_text(DIM_STYLE, "  …"));
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (style, mark) = match change.tag() {
                    ChangeTag::Delete => (ERROR_STYLE, '-'),
                    ChangeTag::Insert => (SUCCESS_STYLE, '+'),
                    ChangeTag::Equal => (DIM_STYLE, ' '),
                };
                let line = escape_prose_for_display(change.value().trim_end_matches('\n'));
                print_stdout_line(style_text(style, format_args!("{mark} {line}")));
            }
        }
    }
}

/// Prints how to use a skill that was written to `folder`.
pub(in super::super) fn print_how_to_use_derived_skill(
    draft: &SkillDraft,
    folder: &Path,
    is_cached: bool,
    plugin: Option<&Path>,
) {
    let shown = escape_prose_for_display(&folder.display().to_string());
    if is_cached {
        print_note(&format!(
            "saved in the cache; to use the skill: `rind skill install {shown}`"
        ));
    } else {
        let plugin = plugin.map(|path| {
            format!(
                " --plugin {}",
                escape_prose_for_display(&path.display().to_string())
            )
        });
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
    let cost = format_turn_cost(turn).map_or_else(String::new, |cost| format!(", {cost}"));
    print_note(&format!(
        "writing the summary of the skill took {}{cost}",
        format_token_usage(&turn.usage)
    ));
}

/// Warns that the model wrote no summary of the skill, with the reason.
pub(in super::super) fn warn_skill_summary_missing(why: &str) {
    print_warning(&format!(
        "there is no summary: {}",
        escape_prose_for_display(why)
    ));
}

/// Warns that the summary of a skill was truncated to `limit` bytes.
pub(in super::super) fn warn_summary_truncated(limit: usize) {
    print_warning(&format!(
        "the summary is longer than {} KiB and was truncated",
        limit >> 10
    ));
}
