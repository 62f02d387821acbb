//! Reports the results of packing, publishing, installing and removing plugins, and shows the
//! folders that are searched for plugins.

use std::path::{Path, PathBuf};

use super::{
    BAD, BOLD, DIM, GOOD, answer_line, format_bytes, indent_text, print_note, printable_text,
    say_line, style_text,
};
use crate::install::{InstallChange, InstallOutcome, RemovedPlugin, StoredDataChange};
use rind_lib::grant::{Trust, describe_capability};
use rind_package::contents::PluginContents;
use rind_package::ecosystem::PackageKind;
use rind_package::registry::PublishedArtifact;

/// Prints a line for a packed plugin.
pub(in super::super) fn show_packed_plugin(contents: &PluginContents, out: &Path, n_bytes: u64) {
    answer_line(format_args!(
        "{} {} {} {}",
        style_text(GOOD, "✓"),
        style_text(BOLD, contents.name_and_version()),
        printable_text(&out.display().to_string()),
        style_text(DIM, format_bytes(n_bytes)),
    ));
}

/// Prints the command with which the person publishes a package.
pub(in super::super) fn show_publish_command(kind: PackageKind, out: &Path) {
    let shown = out.display();
    print_note(&match kind {
        PackageKind::Npm => format!("to publish the package, run `npm publish {shown}`"),
        PackageKind::Pypi => format!("to publish the package, run `twine upload {shown}`"),
        PackageKind::Crates => {
            format!(
                "to publish the package, unpack it with `tar -xzf {shown}`, and run `cargo publish` in the unpacked folder"
            )
        }
    });
}

/// Prints a line for a published plugin.
pub(in super::super) fn show_published_plugin(
    contents: &PluginContents,
    published: &PublishedArtifact,
    is_signed: bool,
) {
    let what = if published.was_there {
        "is published already as"
    } else {
        "published as"
    };
    answer_line(format_args!(
        "{} {} {what} {} {}",
        style_text(GOOD, "✓"),
        style_text(BOLD, contents.name_and_version()),
        printable_text(&published.reference.to_string()),
        style_text(DIM, &published.digest),
    ));
    if !is_signed {
        print_note("it is not signed: users with keys in [install] cannot install it");
    }
}

/// Prints the installed plugin, changes to its stored data, and the permissions that it will
/// request.
pub(in super::super) fn show_installed_plugin(outcome: &InstallOutcome) {
    let what = match &outcome.change {
        InstallChange::Installed => format!("installed in {}", outcome.folder.display()),
        InstallChange::Updated(before) => format!("updated from {before}"),
        InstallChange::Unchanged => "is installed already".to_owned(),
        InstallChange::Restored => "restored: its files had been changed or were gone".to_owned(),
    };
    let signed = outcome
        .key
        .iter()
        .map(|key| format!(", signed with {key}: its trust is `package`"));
    answer_line(format_args!(
        "{} {} {}",
        style_text(GOOD, "✓"),
        style_text(BOLD, format_args!("{} {}", outcome.name, outcome.version)),
        printable_text(&format!("{what}{}", signed.collect::<String>())),
    ));
    if let Some(claims) = outcome.provenance.as_ref().filter(|all| !all.is_empty()) {
        print_note(&format!(
            "the registry claims, and Rind does not verify: {}",
            claims.join(", ")
        ));
    }
    for notice in &outcome.notices {
        super::print_warning(notice);
    }
    if !outcome.is_called {
        super::print_warning(super::plugins::NEVER_CALLED);
    }
    for change in &outcome.stored {
        print_note(&match change {
            StoredDataChange::PutAside(folder) => format!(
                "the stored data of an earlier plugin `{}` is not for this one: it was moved to {}",
                outcome.name,
                folder.display()
            ),
            StoredDataChange::Back => "its earlier stored data is restored".to_owned(),
        });
    }
    if outcome.waiting.is_empty() {
        return;
    }
    let words = outcome.waiting.iter();
    let words =
        words.map(|capability| format!("\n  {} ({capability})", describe_capability(capability)));
    print_note(&format!(
        "the plugin runs once you have granted these permissions, when `rind run` asks you in a terminal, or with --grant {}:{}",
        outcome.name,
        words.collect::<String>()
    ));
}

/// Prints the line for a plugin that was not updated, with the reason.
pub(in super::super) fn print_update_failure(name: &str, error: &anyhow::Error) {
    let text = format!("{name} is not updated: {error:#}");
    say_line(format_args!(
        "{} {}",
        style_text(BAD, "✗"),
        indent_text(&text)
    ));
}

/// Prints the removed plugin, and what remains of it.
pub(in super::super) fn show_removed_plugin(removed: &RemovedPlugin) {
    answer_line(format_args!(
        "{} {} removed",
        style_text(GOOD, "✓"),
        style_text(BOLD, &removed.name)
    ));
    if removed.n_answers > 0 {
        let answers = super::format_count(removed.n_answers as u64, "answer");
        print_note(&format!(
            "revoked {answers} that you gave about its permissions"
        ));
    }
    if let Some((folder, source)) = &removed.data {
        print_note(&format!(
            "its stored data was moved to {}; installing the plugin from {source} again restores the data, and a plugin of the same name from elsewhere does not get it",
            folder.display()
        ));
    }
    if let Some(place) = &removed.configured {
        print_note(&format!(
            "{place} still configures the plugin, so sessions report the plugin as missing; remove that section"
        ));
    }
    if removed.is_pinned {
        print_note(
            "its name stays pinned to the key that signed it: see [keys] in plugins.lock.toml",
        );
    }
}

/// Prints the folders that are searched for plugins, in order. `carried` is a virtual folder that
/// is embedded in the program.
pub(in super::super) fn print_search_path(
    places: &[(Trust, PathBuf)],
    carried: &Path,
    is_json: bool,
) -> anyhow::Result<()> {
    if is_json {
        let rows = places.iter().map(|(trust, path)| {
            serde_json::json!({"trust": trust, "path": path.display().to_string(), "exists": path == carried || path.is_dir()})
        });
        return super::print_json(&rows.collect::<Vec<_>>());
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
            printable_text(&path.display().to_string()),
            style_text(DIM, format_args!("{missing}{when}"))
        ));
    }
    Ok(())
}
