//! Reads and writes the hashes in `config.toml` by which Codex trusts hooks. Codex's command
//! `/hooks` writes the same hashes. Codex silently skips a hook that has no hash there.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toml_edit::{DocumentMut, Item, Table, value};

use super::jsonc::HookInSettingsFile;

/// Converts the name of an event to snake case, as Codex's keys and hashes contain it.
fn format_codex_event_key(event: &str) -> String {
    let mut key = String::new();
    for letter in event.chars() {
        if letter.is_ascii_uppercase() && !key.is_empty() {
            key.push('_');
        }
        key.push(letter.to_ascii_lowercase());
    }
    key
}

/// Returns the hash of a hook without a matcher: SHA-256 of the normalized hook as JSON with sorted
/// keys.
fn codex_hook_hash(event: &str, hook: &Value) -> String {
    let normal = json!({
        "event_name": format_codex_event_key(event),
        "hooks": [{
            "async": false,
            "command": hook.get("command").cloned().unwrap_or_default(),
            "timeout": hook.get("timeout").cloned().unwrap_or_default(),
            "type": "command",
        }],
    });
    let digest = Sha256::digest(json_with_sorted_keys(&normal).as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Serializes JSON without spaces and with sorted keys.
fn json_with_sorted_keys(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), json_with_sorted_keys(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json_with_sorted_keys).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

fn codex_hook_key(file: &Path, hook: &HookInSettingsFile) -> String {
    let event = format_codex_event_key(&hook.event);
    format!(
        "{}:{event}:{}:{}",
        file.display(),
        hook.group,
        hook.position
    )
}

/// Whether Codex trusts all of these hooks, which are in `file`.
pub(crate) fn are_hooks_trusted(config: &str, file: &Path, hooks: &[HookInSettingsFile]) -> bool {
    let Ok(document) = config.parse::<DocumentMut>() else {
        return false;
    };
    let state = document.get("hooks").and_then(|hooks| hooks.get("state"));
    hooks.iter().all(|hook| {
        let entry = state.and_then(|state| state.get(codex_hook_key(file, hook)));
        let known = entry.and_then(|entry| entry.get("trusted_hash")?.as_str());
        let is_off = entry.and_then(|entry| entry.get("enabled")?.as_bool()) == Some(false);
        !is_off && known == Some(&codex_hook_hash(&hook.event, &hook.hook))
    })
}

/// Hooks in a file before and after a change, each with its position and content.
#[derive(Default)]
pub(crate) struct HooksBeforeAndAfterChange {
    /// Hooks that Rind had installed before the change.
    pub(crate) old: Vec<HookInSettingsFile>,
    /// Hooks that Rind has installed after the change.
    pub(crate) new: Vec<HookInSettingsFile>,
    /// Hooks that Rind did not install but that the change may have moved, each before and after
    /// the change.
    pub(crate) moved: Vec<(HookInSettingsFile, HookInSettingsFile)>,
}

/// Returns the settings with trust in Rind's new hooks, and without trust in the old ones. Codex
/// stores trust by the position of a hook, so trust in other programs' hooks moves with them.
///
/// # Errors
/// The settings are not TOML, or `hooks` or `hooks.state` is not a table.
pub(crate) fn update_codex_hook_trust(
    config: &str,
    file: &Path,
    hooks: &HooksBeforeAndAfterChange,
) -> Result<String, String> {
    let mut document: DocumentMut = config.parse().map_err(|error| format!("{error}"))?;
    let moved = remove_trust_of_moved_hooks(&mut document, file, &hooks.moved);
    remove_trust(&mut document, file, &hooks.old);
    if !hooks.new.is_empty() || !moved.is_empty() {
        let state = get_or_insert_table(document.as_table_mut(), "hooks")?;
        let state = get_or_insert_table(state, "state")?;
        for (key, entry) in moved {
            state.insert(&key, entry);
        }
        for hook in &hooks.new {
            let mut entry = Table::new();
            entry.insert(
                "trusted_hash",
                value(codex_hook_hash(&hook.event, &hook.hook)),
            );
            state.insert(&codex_hook_key(file, hook), Item::Table(entry));
        }
    }
    Ok(document.to_string())
}

fn get_or_insert_table<'a>(table: &'a mut Table, key: &str) -> Result<&'a mut Table, String> {
    let made = table.entry(key).or_insert_with(|| {
        let mut made = Table::new();
        made.set_implicit(true);
        Item::Table(made)
    });
    made.as_table_mut()
        .ok_or_else(|| format!("its `{key}` is not a table"))
}

/// Removes the trust entries of hooks whose position changes, and returns the entries with the keys
/// for the new positions.
fn remove_trust_of_moved_hooks(
    document: &mut DocumentMut,
    file: &Path,
    moved: &[(HookInSettingsFile, HookInSettingsFile)],
) -> Vec<(String, Item)> {
    let all = document.get_mut("hooks").and_then(Item::as_table_mut);
    let state = all.and_then(|all| all.get_mut("state")?.as_table_mut());
    let Some(state) = state else {
        return Vec::new();
    };
    let keys = moved
        .iter()
        .map(|(before, after)| (codex_hook_key(file, before), codex_hook_key(file, after)));
    keys.filter(|(before, after)| before != after)
        .filter_map(|(before, after)| Some((after, state.remove(&before)?)))
        .collect()
}

fn remove_trust(document: &mut DocumentMut, file: &Path, hooks: &[HookInSettingsFile]) {
    let Some(all) = document.get_mut("hooks").and_then(Item::as_table_mut) else {
        return;
    };
    let Some(state) = all.get_mut("state").and_then(Item::as_table_mut) else {
        return;
    };
    for hook in hooks {
        state.remove(&codex_hook_key(file, hook));
    }
    if state.is_empty() {
        all.remove("state");
    }
    if all.is_empty() {
        document.remove("hooks");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook() -> HookInSettingsFile {
        HookInSettingsFile {
            event: "PreToolUse".to_owned(),
            group: 1,
            position: 0,
            is_for_all: true,
            hook: json!({"type": "command", "command": "x", "timeout": 60}),
        }
    }

    #[test]
    fn the_hash_is_that_of_codex() {
        // Codex 0.171.0 wrote this hash when its user trusted a hook of this command.
        let hook = json!({"type": "command", "command": "/tmp/gx/dump.sh prompt", "timeout": 10});
        let hash = "sha256:f44239ffe5f5d63d1175e6ca9f72ea045665eeee5329a63b9207111de45027a9";
        assert_eq!(codex_hook_hash("UserPromptSubmit", &hook), hash);
    }

    #[test]
    fn trust_comes_and_goes_and_the_rest_stays() {
        let file = Path::new("/h/.codex/hooks.json");
        let config = "# mine\nmodel = \"x\"\n\n[features]\nhooks = true\n";
        let new = HooksBeforeAndAfterChange {
            new: vec![hook()],
            ..HooksBeforeAndAfterChange::default()
        };
        let trusted = update_codex_hook_trust(config, file, &new).unwrap();
        assert!(trusted.starts_with(config), "{trusted}");
        assert!(
            trusted.contains("[hooks.state.\"/h/.codex/hooks.json:pre_tool_use:1:0\"]"),
            "{trusted}"
        );
        assert!(are_hooks_trusted(&trusted, file, &[hook()]));
        let mut other = hook();
        other.hook["command"] = json!("y");
        assert!(!are_hooks_trusted(&trusted, file, &[other]));
        let switched_off = trusted.replace("trusted_hash", "enabled = false\ntrusted_hash");
        assert!(!are_hooks_trusted(&switched_off, file, &[hook()]));
        let old = HooksBeforeAndAfterChange {
            old: vec![hook()],
            ..HooksBeforeAndAfterChange::default()
        };
        assert_eq!(
            update_codex_hook_trust(&trusted, file, &old).unwrap(),
            config
        );
        assert!(update_codex_hook_trust("hooks = 1", file, &new).is_err());
    }

    #[test]
    fn trust_in_hooks_of_others_moves_with_them() {
        let file = Path::new("/h/.codex/hooks.json");
        let at = |group| HookInSettingsFile { group, ..hook() };
        let theirs = |group: usize| {
            format!(
                "[hooks.state.\"/h/.codex/hooks.json:pre_tool_use:{group}:0\"]\ntrusted_hash = \"sha256:{group}\"\n"
            )
        };
        let config = format!("{}\n{}", theirs(2), theirs(3));
        let hooks = HooksBeforeAndAfterChange {
            old: vec![at(1)],
            moved: vec![(at(2), at(1)), (at(3), at(2))],
            ..HooksBeforeAndAfterChange::default()
        };
        let text = update_codex_hook_trust(&config, file, &hooks).unwrap();
        for (key, hash) in [(1, 2), (2, 3)] {
            let entry = format!("pre_tool_use:{key}:0\"]\ntrusted_hash = \"sha256:{hash}\"");
            assert!(text.contains(&entry), "{text}");
        }
        assert_eq!(text.matches("trusted_hash").count(), 2);
    }
}
