//! Reports the results of packing, publishing, installing and removing plugins, and shows the
//! folders that are searched for plugins.

use std::path::{Path, PathBuf};

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_and_indent_continuation_lines,
    format_bytes, print_note, print_stderr_line, print_stdout_line, printable_text, style_text,
};
use crate::install::{
    PluginDataMoveOnInstall, PluginInstallChangeKind, PluginInstallOutcome, PluginRemovalOutcome,
};
use rind_lib::grant::{Trust, describe_capability};
use rind_package::contents::PluginContents;
use rind_package::ecosystem::PackageKind;
use rind_package::registry::PublishedArtifact;

/// Prints a line about the plugin that was packed into the file `out`.
pub(in super::super) fn show_packed_plugin(contents: &PluginContents, out: &Path, n_bytes: u64) {
    print_stdout_line(format_args!(
        "{} {} {} {}",
        style_text(SUCCESS_STYLE, "✓"),
        style_text(BOLD_STYLE, contents.name_and_version()),
        printable_text(&out.display().to_string()),
        style_text(DIM_STYLE, format_bytes(n_bytes)),
    ));
}

/// Prints the command with which the person publishes a package.
pub(in super::super) fn print_publish_instructions(kind: PackageKind, out: &Path) {
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

/// Prints a line about the plugin that was published in a registry.
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
    print_stdout_line(format_args!(
        "{} {} {what} {} {}",
        style_text(SUCCESS_STYLE, "✓"),
        style_text(BOLD_STYLE, contents.name_and_version()),
        printable_text(&published.reference.to_string()),
        style_text(DIM_STYLE, &published.digest),
    ));
    if !is_signed {
        print_note("it is not signed: users with keys in [install] cannot install it");
    }
}

/// Prints the installed plugin, changes to its stored data, and the permissions that it will
/// request.
pub(in super::super) fn show_installed_plugin(outcome: &PluginInstallOutcome) {
    let what = match &outcome.change {
        PluginInstallChangeKind::Installed => format!("installed in {}", outcome.folder.display()),
        PluginInstallChangeKind::Updated(before) => format!("updated from {before}"),
        PluginInstallChangeKind::Unchanged => "is installed already".to_owned(),
        PluginInstallChangeKind::Restored => {
            "restored: its files had been changed or were gone".to_owned()
        }
    };
    let signed = outcome
        .key
        .iter()
        .map(|key| format!(", signed with {key}: its trust is `package`"));
    print_stdout_line(format_args!(
        "{} {} {}",
        style_text(SUCCESS_STYLE, "✓"),
        style_text(
            BOLD_STYLE,
            format_args!("{} {}", outcome.name, outcome.version)
        ),
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
        super::print_warning(super::plugins::NO_USABLE_EXPORT_NOTE);
    }
    for change in &outcome.stored {
        print_note(&match change {
            PluginDataMoveOnInstall::PutAside(folder) => format!(
                "the stored data of an earlier plugin `{}` is not for this one: it was moved to {}",
                outcome.name,
                folder.display()
            ),
            PluginDataMoveOnInstall::Back => "its earlier stored data is restored".to_owned(),
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
    print_stderr_line(format_args!(
        "{} {}",
        style_text(ERROR_STYLE, "✗"),
        escape_and_indent_continuation_lines(&text)
    ));
}

/// Prints which plugin was removed, and what remains of it.
pub(in super::super) fn show_removed_plugin(removed: &PluginRemovalOutcome) {
    print_stdout_line(format_args!(
        "{} {} removed",
        style_text(SUCCESS_STYLE, "✓"),
        style_text(BOLD_STYLE, &removed.name)
    ));
    if removed.n_answers > 0 {
        let answers = super::format_count_with_noun(removed.n_answers as u64, "answer");
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
pub(in super::super) fn print_plugin_search_folders(
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
        print_stdout_line(format_args!(
            "{:<8} {}{}",
            trust.to_string(),
            printable_text(&path.display().to_string()),
            style_text(DIM_STYLE, format_args!("{missing}{when}"))
        ));
    }
    Ok(())
}
