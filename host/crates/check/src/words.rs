//! Checks files next to the manifest: the README, the versions in package manifests, and secrets.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::place::line_number_at_offset;
use super::{PluginFaultCollector, PluginToolAndCommandNames};
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::secret::SecretScanner;

/// Possible names of the README, the usual name first.
const README_NAMES: [&str; 3] = ["README.md", "README", "readme.md"];

/// Maximum length of a description that a list shows on one line, in characters.
const MAX_LISTED_DESCRIPTION_CHARS: usize = 160;

/// Checks that the README exists and explains the settings and tools. Also checks the description
/// of the plugin.
pub(super) fn check_readme(
    found: &mut PluginFaultCollector<'_>,
    manifest: Option<&Manifest>,
    offered: &PluginToolAndCommandNames,
) {
    if let Some(manifest) = manifest {
        check_plugin_description(found, manifest);
    }
    let read = README_NAMES.iter().find_map(|name| {
        Some((
            *name,
            std::fs::read_to_string(found.folder.join(name)).ok()?,
        ))
    });
    let Some((name, text)) = read else {
        let message =
            "there is no README.md: say what the plugin does, its settings and its limits";
        found.add_fault("readme", README_NAMES[0], None, message);
        return;
    };
    if text.trim().lines().count() < 2 {
        found.add_fault("readme", name, Some(1), "says nothing but a title");
        return;
    }
    let Some(manifest) = manifest else {
        return;
    };
    let config = manifest
        .config
        .as_ref()
        .and_then(|config| config.get("properties"));
    // Do not require documentation of the settings if their check reported a fault, because a
    // setting that the plugin does not read should be removed instead.
    let is_unread = found.faults.iter().any(|fault| fault.rule == "settings");
    let config = config.filter(|_| !is_unread);
    let settings = config.and_then(Value::as_object).into_iter().flatten();
    for setting in settings.map(|(setting, _)| setting) {
        if !text.contains(setting.as_str()) {
            let message = format!("{name} does not explain the setting `{setting}`");
            found.add_fault_at_key("readme", &["config", "properties", setting], message);
        }
    }
    for tool in &offered.tools {
        if !text.contains(tool.as_str()) {
            let message = format!("does not mention the tool `{tool}`");
            found.add_fault("readme", name, Some(1), message);
        }
    }
    for command in &offered.commands {
        if !text.contains(&format!("/{command}")) {
            let message = format!("does not mention the command `/{command}`");
            found.add_fault("readme", name, Some(1), message);
        }
    }
    if offered.has_loop && !text.contains("loop") && !text.contains("Loop") {
        let message = "does not say what the loop does: what it waits for, and how often it runs";
        found.add_fault("readme", name, Some(1), message);
    }
}

fn check_plugin_description(found: &mut PluginFaultCollector<'_>, manifest: &Manifest) {
    let text = manifest.description.trim();
    let message = if text.is_empty()
        || text.eq_ignore_ascii_case(&manifest.name)
        || text.contains("TODO")
    {
        "`description` does not say what the plugin does".to_owned()
    } else if text.chars().count() > MAX_LISTED_DESCRIPTION_CHARS || text.contains('\n') {
        format!(
            "`description` is longer than {MAX_LISTED_DESCRIPTION_CHARS} characters; move the rest to the README"
        )
    } else {
        return;
    };
    found.add_fault_at_key("description", &["description"], message);
}

/// Checks that the package manifest of the plugin's language, such as `Cargo.toml`, has the same
/// version as `plugin.toml`.
pub(super) fn check_package_manifest_version(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
) {
    let version = manifest.version.to_string();
    for (file, keys) in [
        ("Cargo.toml", &["package", "version"][..]),
        ("pyproject.toml", &["project", "version"]),
        ("package.json", &["version"]),
    ] {
        let Ok(text) = std::fs::read_to_string(found.folder.join(file)) else {
            continue;
        };
        let value: Option<Value> = if std::path::Path::new(file)
            .extension()
            .is_some_and(|end| end == "json")
        {
            serde_json::from_str(&text).ok()
        } else {
            toml::from_str(&text).ok()
        };
        let named = value_at_keys(value.as_ref(), keys);
        // Skip a version that is not a string: the package tool of the language refuses it.
        let (other, place) = match named {
            Some(Value::String(other)) => (other.clone(), file.to_owned()),
            Some(inherits) if inherits.get("workspace") == Some(&Value::Bool(true)) => {
                let Some((other, path)) = find_cargo_workspace_version(found.folder) else {
                    continue;
                };
                let place = format!("{}, from which {file} inherits it", path.display());
                (other, place)
            }
            _ => continue,
        };
        if other != version {
            let message = format!("`version` is {version} here and {other} in {place}");
            found.add_fault_at_key("version", &["version"], message);
        }
    }
}

fn value_at_keys<'a>(value: Option<&'a Value>, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().try_fold(value?, |at, key| at.get(key))
}

/// Returns the version that members of the surrounding cargo workspace inherit, and the manifest
/// that defines it.
fn find_cargo_workspace_version(folder: &Path) -> Option<(String, PathBuf)> {
    let folder = folder.canonicalize().ok()?;
    folder.ancestors().find_map(|above| {
        let path = above.join("Cargo.toml");
        let value: Value = toml::from_str(&std::fs::read_to_string(&path).ok()?).ok()?;
        let version = value_at_keys(Some(&value), &["workspace", "package", "version"])?;
        Some((version.as_str()?.to_owned(), path))
    })
}

pub(super) fn check_text_for_secrets(found: &mut PluginFaultCollector<'_>, text: &str) {
    for finding in SecretScanner::shared().find_secrets(text) {
        let line = line_number_at_offset(text, finding.range.start);
        let message = format!(
            "this looks like a secret ({}): write `{{NAME}}`, and the operator sets the secret in `secrets.toml` or the environment",
            finding.rule
        );
        found.add_fault("secret", FILE_NAME, Some(line), message);
    }
}
