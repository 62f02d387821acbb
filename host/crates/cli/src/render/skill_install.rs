//! Outcomes of installing and removing skills.

use std::path::Path;

use super::{BAD, BOLD, DIM, GOOD, answer_line, indented, note, printable, say, styled};
use rind_package::skill::{Change, LockedSkill};

pub(in super::super) fn installed(
    name: &str,
    skills: &Path,
    locked: &LockedSkill,
    change: Change,
    kept: Option<&Path>,
) {
    let what = match change {
        Change::Installed | Change::Forced => {
            format!("installed in {}", skills.join(name).display())
        }
        Change::Replaced => "replaced by other files than before".to_owned(),
        Change::Unchanged => "is installed already".to_owned(),
    };
    let signed = locked
        .key
        .iter()
        .map(|key| format!(", signed with {key}: its trust is `package`"));
    answer_line(format_args!(
        "{} {} {} {}",
        styled(GOOD, "✓"),
        styled(BOLD, printable(name)),
        printable(&format!("{what}{}", signed.collect::<String>())),
        styled(DIM, printable(&format!("from {}", locked.origin()))),
    ));
    tell_kept(kept);
}

/// Line for a skill of a collection that is left out, with the reason.
pub(in super::super) fn left_out(why: &str) {
    say(format_args!("{} {}", styled(BAD, "✗"), indented(why)));
}

pub(in super::super) fn removed(name: &str, kept: Option<&Path>) {
    answer_line(format_args!(
        "{} {} removed",
        styled(GOOD, "✓"),
        styled(BOLD, printable(name))
    ));
    tell_kept(kept);
}

/// Names skills that were installed and are gone.
pub(in super::super) fn gone(names: &[String]) {
    for name in names {
        note(&format!(
            "{name} was installed and its folder is gone; install it again, or `rind skill remove {name}`"
        ));
    }
}

fn tell_kept(kept: Option<&Path>) {
    if let Some(kept) = kept {
        note(&format!("what was there is in {}", kept.display()));
    }
}
