//! The trust of Codex in a hook: a hash of the hook in `config.toml`, as its command `/hooks` writes
//! it. A hook without it is skipped without a word.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toml_edit::{DocumentMut, Item, Table, value};

use super::jsonc::FoundHook;

/// Name of an event in keys and hashes.
fn event_key(event: &str) -> String {
    let mut key = String::new();
    for letter in event.chars() {
        if letter.is_ascii_uppercase() && !key.is_empty() {
            key.push('_');
        }
        key.push(letter.to_ascii_lowercase());
    }
    key
}

/// Returns the hash of a hook without a matcher: SHA-256 of its normal form as JSON with sorted keys.
fn trusted_hash(event: &str, hook: &Value) -> String {
    let normal = json!({
        "event_name": event_key(event),
        "hooks": [{
            "async": false,
            "command": hook.get("command").cloned().unwrap_or_default(),
            "timeout": hook.get("timeout").cloned().unwrap_or_default(),
            "type": "command",
        }],
    });
    let digest = Sha256::digest(sorted_text(&normal).as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Writes JSON with sorted keys and without blanks, whatever order the map keeps.
fn sorted_text(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), sorted_text(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(sorted_text).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

fn state_key(file: &Path, hook: &FoundHook) -> String {
    let event = event_key(&hook.event);
    format!(
        "{}:{event}:{}:{}",
        file.display(),
        hook.group,
        hook.position
    )
}

/// Whether Codex trusts all of these hooks of a file.
pub(crate) fn is_trusted(config: &str, file: &Path, hooks: &[FoundHook]) -> bool {
    let Ok(document) = config.parse::<DocumentMut>() else {
        return false;
    };
    let state = document.get("hooks").and_then(|hooks| hooks.get("state"));
    hooks.iter().all(|hook| {
        let entry = state.and_then(|state| state.get(state_key(file, hook)));
        let known = entry.and_then(|entry| entry.get("trusted_hash")?.as_str());
        known == Some(&trusted_hash(&hook.event, &hook.hook))
    })
}

/// Returns the settings with the trust in these hooks, and without that in the hooks `before`.
///
/// # Errors
/// The settings are no TOML, or have something else in these places.
pub(crate) fn with_trust(
    config: &str,
    file: &Path,
    before: &[FoundHook],
    hooks: &[FoundHook],
) -> Result<String, String> {
    let mut document: DocumentMut = config.parse().map_err(|error| format!("{error}"))?;
    remove_trust(&mut document, file, before);
    if !hooks.is_empty() {
        let state = implicit_table(document.as_table_mut(), "hooks")?;
        let state = implicit_table(state, "state")?;
        for hook in hooks {
            let mut entry = Table::new();
            entry.insert("trusted_hash", value(trusted_hash(&hook.event, &hook.hook)));
            state.insert(&state_key(file, hook), Item::Table(entry));
        }
    }
    Ok(document.to_string())
}

fn implicit_table<'a>(table: &'a mut Table, key: &str) -> Result<&'a mut Table, String> {
    let made = table.entry(key).or_insert_with(|| {
        let mut made = Table::new();
        made.set_implicit(true);
        Item::Table(made)
    });
    made.as_table_mut()
        .ok_or_else(|| format!("its `{key}` is not a table"))
}

fn remove_trust(document: &mut DocumentMut, file: &Path, hooks: &[FoundHook]) {
    let Some(all) = document.get_mut("hooks").and_then(Item::as_table_mut) else {
        return;
    };
    let Some(state) = all.get_mut("state").and_then(Item::as_table_mut) else {
        return;
    };
    for hook in hooks {
        state.remove(&state_key(file, hook));
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

    fn hook() -> FoundHook {
        FoundHook {
            event: "PreToolUse".to_owned(),
            group: 1,
            position: 0,
            hook: json!({"type": "command", "command": "x", "timeout": 60}),
        }
    }

    #[test]
    fn the_hash_is_that_of_codex() {
        // Written by Codex 0.171.0 for a hook of this command.
        let hook = json!({"type": "command", "command": "/tmp/dump.sh prompt", "timeout": 10});
        let text = "{\"event_name\":\"user_prompt_submit\",\"hooks\":[{\"async\":false,\"command\":\"/tmp/dump.sh prompt\",\"timeout\":10,\"type\":\"command\"}]}";
        let digest = Sha256::digest(text.as_bytes());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            trusted_hash("UserPromptSubmit", &hook),
            format!("sha256:{hex}")
        );
    }

    #[test]
    fn trust_comes_and_goes_and_the_rest_stays() {
        let file = Path::new("/h/.codex/hooks.json");
        let config = "# mine\nmodel = \"x\"\n\n[features]\nhooks = true\n";
        let trusted = with_trust(config, file, &[], &[hook()]).unwrap();
        assert!(trusted.starts_with(config), "{trusted}");
        assert!(
            trusted.contains("[hooks.state.\"/h/.codex/hooks.json:pre_tool_use:1:0\"]"),
            "{trusted}"
        );
        assert!(is_trusted(&trusted, file, &[hook()]));
        let mut other = hook();
        other.hook["command"] = json!("y");
        assert!(!is_trusted(&trusted, file, &[other]));
        assert_eq!(with_trust(&trusted, file, &[hook()], &[]).unwrap(), config);
        assert!(with_trust("hooks = 1", file, &[], &[hook()]).is_err());
    }
}
