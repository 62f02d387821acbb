//! Parts of the system prompt: contributed by `system-prompt` hooks, edited by
//! `before-system-prompt` hooks.
//!
//! The key of a plugin's part is prefixed with the plugin's name (`PLUGIN:KEY`), so that a plugin
//! cannot use another plugin's key and thereby exclude its part.

use super::{MAX_PARTS, MergeEnv, MergeIntoPayload, MergedOutcome, check_count, check_text_limit};
use crate::point::outcome as o;
use crate::point::payload as p;

/// Maximum length of the key that a plugin chooses for its part of the system prompt, in bytes,
/// without the `PLUGIN:` prefix.
const MAX_PROMPT_PART_KEY_BYTES: usize = 128;

/// Checks a part of the system prompt that a plugin contributes, and prefixes the part's key with
/// the plugin's name.
fn check_and_prefix_prompt_part(
    part: p::PromptPart,
    env: &MergeEnv<'_>,
) -> Result<p::PromptPart, String> {
    check_text_limit("a prompt part", &part.text)?;
    if part.key.is_empty() || part.key.len() > MAX_PROMPT_PART_KEY_BYTES {
        return Err(format!(
            "a prompt part's key has {} bytes, 1 to {MAX_PROMPT_PART_KEY_BYTES} are allowed",
            part.key.len()
        ));
    }
    Ok(p::PromptPart {
        key: prefix_key_with_plugin_name(&part.key, env),
        source: env.plugin.to_owned(),
        ..part
    })
}

/// Returns the key with the plugin's name as prefix. The prefix is added if it is missing.
fn prefix_key_with_plugin_name(key: &str, env: &MergeEnv<'_>) -> String {
    let is_own = |rest: &str| rest.starts_with(':');
    if key.strip_prefix(env.plugin).is_some_and(is_own) {
        key.to_owned()
    } else {
        format!("{}:{key}", env.plugin)
    }
}

/// Returns the index of the part that a plugin refers to: the part with exactly this key, or else
/// the plugin's own part.
fn find_prompt_part(parts: &[p::PromptPart], key: &str, env: &MergeEnv<'_>) -> Option<usize> {
    let at = |key: &str| parts.iter().position(|part| part.key == key);
    at(key).or_else(|| at(&prefix_key_with_plugin_name(key, env)))
}

impl MergeIntoPayload<p::PromptContext> for o::PromptOutcome {
    const RIGHTS: &'static [&'static str] = &["parts"];

    fn merge(
        self,
        payload: &mut p::PromptContext,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        check_count("prompt parts", self.parts.len(), MAX_PARTS)?;
        let mut parts: Vec<p::PromptPart> = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let part = check_and_prefix_prompt_part(part, env)?;
            let mut taken = payload.parts.iter().chain(&parts);
            if taken.any(|other| other.key == part.key) {
                return Err(format!("two prompt parts have the key `{}`", part.key));
            }
            parts.push(part);
        }
        if !parts.is_empty() {
            merged.changed.push("parts");
            payload.parts.append(&mut parts);
        }
        Ok(())
    }
}

impl MergeIntoPayload<Vec<p::PromptPart>> for o::PartsOutcome {
    const RIGHTS: &'static [&'static str] = &["parts"];

    fn merge(
        self,
        payload: &mut Vec<p::PromptPart>,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        // Allow as many edits as there are parts, so that a hook may remove all parts.
        let most = MAX_PARTS.max(payload.len());
        check_count("prompt parts to put", self.put.len(), most)?;
        check_count("prompt parts to remove", self.remove.len(), most)?;
        if !self.put.is_empty() || !self.remove.is_empty() {
            merged.changed.push("parts");
        }
        let mut edited = payload.clone();
        for key in &self.remove {
            // Look up keys in the list that was passed to the hook, so that it is no error to
            // remove the same key twice.
            let Some(at) = find_prompt_part(payload, key, env) else {
                return Err(format!("there is no prompt part `{key}` to remove"));
            };
            let removed = payload.get(at).map(|part| part.key.as_str());
            edited.retain(|part| Some(part.key.as_str()) != removed);
        }
        for part in self.put {
            let wanted = part.key.clone();
            let own = check_and_prefix_prompt_part(part, env)?;
            match find_prompt_part(&edited, &wanted, env).and_then(|at| edited.get_mut(at)) {
                Some(other) => {
                    let key = std::mem::take(&mut other.key);
                    *other = p::PromptPart { key, ..own };
                }
                None => edited.push(own),
            }
        }
        *payload = edited;
        Ok(())
    }
}
