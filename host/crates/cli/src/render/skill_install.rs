//! Prints the outcomes of installing and removing skills.

use std::path::Path;

use super::{
    BAD, BOLD, DIM, GOOD, answer_line, indent_text, print_note, printable_text, say_line,
    style_text,
};
use rind_package::skill::{LockedSkill, SkillChange};

pub(in super::super) fn show_installed_skill(
    name: &str,
    skills: &Path,
    locked: &LockedSkill,
    change: SkillChange,
    kept: Option<&Path>,
) {
    let what = match change {
        SkillChange::Installed | SkillChange::Forced => {
            format!("installed in {}", skills.join(name).display())
        }
        SkillChange::Replaced => "replaced by different files".to_owned(),
        SkillChange::Unchanged => "is installed already".to_owned(),
    };
    let signed = locked
        .key
        .iter()
        .map(|key| format!(", signed with {key}: its trust is `package`"));
    answer_line(format_args!(
        "{} {} {} {}",
        style_text(GOOD, "✓"),
        style_text(BOLD, printable_text(name)),
        printable_text(&format!("{what}{}", signed.collect::<String>())),
        style_text(
            DIM,
            printable_text(&format!("from {}", locked.display_origin()))
        ),
    ));
    print_previous_files(kept);
}

/// Prints why a skill of a collection is not installed.
pub(in super::super) fn print_skipped_skill(why: &str) {
    say_line(format_args!(
        "{} {}",
        style_text(BAD, "✗"),
        indent_text(why)
    ));
}

pub(in super::super) fn show_removed_skill(name: &str, kept: Option<&Path>) {
    answer_line(format_args!(
        "{} {} removed",
        style_text(GOOD, "✓"),
        style_text(BOLD, printable_text(name))
    ));
    print_previous_files(kept);
}

/// Prints the names of installed skills whose folders no longer exist.
pub(in super::super) fn print_missing_skills(names: &[String]) {
    for name in names {
        print_note(&format!(
            "{name} was installed and its folder is gone; install it again, or run `rind skill remove {name}`"
        ));
    }
}

fn print_previous_files(kept: Option<&Path>) {
    if let Some(kept) = kept {
        print_note(&format!(
            "the previous files of the skill are in {}",
            kept.display()
        ));
    }
}
