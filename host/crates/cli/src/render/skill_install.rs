//! Prints the outcomes of installing and removing skills.

use std::path::Path;

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_and_indent_continuation_lines,
    print_note, print_stderr_line, print_stdout_line, printable_text, style_text,
};
use rind_package::skill::{SkillInstallResult, SkillLockFileEntry};

pub(in super::super) fn show_installed_skill(
    name: &str,
    skills: &Path,
    locked: &SkillLockFileEntry,
    change: SkillInstallResult,
    kept: Option<&Path>,
) {
    let what = match change {
        SkillInstallResult::Installed | SkillInstallResult::Forced => {
            format!("installed in {}", skills.join(name).display())
        }
        SkillInstallResult::Replaced => "replaced by different files".to_owned(),
        SkillInstallResult::Unchanged => "is installed already".to_owned(),
    };
    let signed = locked
        .key
        .iter()
        .map(|key| format!(", signed with {key}: its trust is `package`"));
    print_stdout_line(format_args!(
        "{} {} {} {}",
        style_text(SUCCESS_STYLE, "✓"),
        style_text(BOLD_STYLE, printable_text(name)),
        printable_text(&format!("{what}{}", signed.collect::<String>())),
        style_text(
            DIM_STYLE,
            printable_text(&format!("from {}", locked.display_origin()))
        ),
    ));
    print_kept_files_location(kept);
}

/// Prints why a skill of a collection is not installed.
pub(in super::super) fn print_skipped_skill(why: &str) {
    print_stderr_line(format_args!(
        "{} {}",
        style_text(ERROR_STYLE, "✗"),
        escape_and_indent_continuation_lines(why)
    ));
}

pub(in super::super) fn show_removed_skill(name: &str, kept: Option<&Path>) {
    print_stdout_line(format_args!(
        "{} {} removed",
        style_text(SUCCESS_STYLE, "✓"),
        style_text(BOLD_STYLE, printable_text(name))
    ));
    print_kept_files_location(kept);
}

/// Prints the names of installed skills whose folders no longer exist.
pub(in super::super) fn print_missing_skills(names: &[String]) {
    for name in names {
        print_note(&format!(
            "{name} was installed and its folder is gone; install it again, or run `rind skill remove {name}`"
        ));
    }
}

fn print_kept_files_location(kept: Option<&Path>) {
    if let Some(kept) = kept {
        print_note(&format!(
            "the previous files of the skill are in {}",
            kept.display()
        ));
    }
}
