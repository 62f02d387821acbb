//! Outcomes of packing, installing and removing plugins, and the folders that are searched.

use std::path::{Path, PathBuf};

use super::{BAD, BOLD, DIM, GOOD, answer_line, bytes, indented, note, printable, say, styled};
use crate::install::{Change, Outcome, Removed, StoredData};
use rind_lib::grant::{Trust, in_words};
use rind_package::contents::Contents;
use rind_package::registry::Published;

/// One line for a packed plugin.
pub(in super::super) fn packed(contents: &Contents, out: &Path, n_bytes: u64) {
    answer_line(format_args!(
        "{} {} {} {}",
        styled(GOOD, "✓"),
        styled(BOLD, contents.title()),
        printable(&out.display().to_string()),
        styled(DIM, bytes(n_bytes)),
    ));
}

/// One line for a published plugin.
pub(in super::super) fn published(contents: &Contents, published: &Published, is_signed: bool) {
    let what = if published.was_there {
        "is published already as"
    } else {
        "published as"
    };
    answer_line(format_args!(
        "{} {} {what} {} {}",
        styled(GOOD, "✓"),
        styled(BOLD, contents.title()),
        printable(&published.reference.to_string()),
        styled(DIM, &published.digest),
    ));
    if !is_signed {
        note("it is not signed: whoever has [install] keys cannot install it");
    }
}

/// Prints the installed plugin and the permissions it will request.
pub(in super::super) fn installed(outcome: &Outcome) {
    let what = match &outcome.change {
        Change::Installed => format!("installed in {}", outcome.folder.display()),
        Change::Updated(before) => format!("updated from {before}"),
        Change::Unchanged => "is installed already".to_owned(),
        Change::Restored => "restored: its files had been changed or were gone".to_owned(),
    };
    let signed = outcome
        .key
        .iter()
        .map(|key| format!(", signed with {key}: its trust is `package`"));
    answer_line(format_args!(
        "{} {} {}",
        styled(GOOD, "✓"),
        styled(BOLD, format_args!("{} {}", outcome.name, outcome.version)),
        printable(&format!("{what}{}", signed.collect::<String>())),
    ));
    if !outcome.is_called {
        super::warn(super::plugins::NEVER_CALLED);
    }
    for change in &outcome.stored {
        note(&match change {
            StoredData::PutAside(folder) => format!(
                "what an earlier plugin `{}` stored is not for this one: it was put aside, in {}",
                outcome.name,
                folder.display()
            ),
            StoredData::Back => "what it stored before is there again".to_owned(),
        });
    }
    if outcome.waiting.is_empty() {
        return;
    }
    let words = outcome.waiting.iter();
    let words = words.map(|capability| format!("\n  {} ({capability})", in_words(capability)));
    note(&format!(
        "it runs once you have granted, at the terminal of `rind run` or with --grant {}:{}",
        outcome.name,
        words.collect::<String>()
    ));
}

/// One line for a plugin that was not updated, with the reason.
pub(in super::super) fn not_updated(name: &str, error: &anyhow::Error) {
    let text = format!("{name} is not updated: {error:#}");
    say(format_args!("{} {}", styled(BAD, "✗"), indented(&text)));
}

/// Prints the removed plugin and the parts that stay.
pub(in super::super) fn removed(removed: &Removed) {
    answer_line(format_args!(
        "{} {} removed",
        styled(GOOD, "✓"),
        styled(BOLD, &removed.name)
    ));
    if removed.n_answers > 0 {
        let answers = super::count(removed.n_answers as u64, "answer");
        note(&format!("{answers} about its permissions taken back"));
    }
    if let Some((folder, source)) = &removed.data {
        note(&format!(
            "what it stored was put aside, in {}; installing it from {source} brings it back, and no other plugin of its name gets it",
            folder.display()
        ));
    }
    if let Some(place) = &removed.configured {
        note(&format!(
            "{place} still configures it, so that sessions miss it; remove that section"
        ));
    }
    if removed.is_pinned {
        note("its name stays pinned to the key that signed it: see [keys] in plugins.lock.toml");
    }
}

/// Prints the folders that are searched for plugins, in order. `carried` is in the program and not
/// on the disk.
pub(in super::super) fn search_path(
    places: &[(Trust, PathBuf)],
    carried: &Path,
    is_json: bool,
) -> anyhow::Result<()> {
    if is_json {
        let rows = places.iter().map(|(trust, path)| {
            serde_json::json!({"trust": trust, "path": path.display().to_string(), "exists": path == carried || path.is_dir()})
        });
        return super::json(&rows.collect::<Vec<_>>());
    }
    for (trust, path) in places {
        let missing = if path == carried {
            " (in the program)"
        } else if path.is_dir() {
            ""
        } else {
            " (not there)"
        };
        let when = match trust {
            Trust::Project => " (once the project is trusted)",
            _ => "",
        };
        answer_line(format_args!(
            "{:<8} {}{}",
            trust.to_string(),
            printable(&path.display().to_string()),
            styled(DIM, format_args!("{missing}{when}"))
        ));
    }
    Ok(())
}
