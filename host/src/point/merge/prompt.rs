//! Parts of the system prompt: contributed by `system-prompt` hooks, edited by `before-system-prompt` hooks.

use super::{Merge, MergeEnv, Merged, check_text};
use crate::point::outcome as o;
use crate::point::payload as p;

/// Checks a part that a plugin wants in the prompt and marks it as the plugin's.
fn own_part(part: p::PromptPart, env: &MergeEnv<'_>) -> Result<p::PromptPart, String> {
    check_text("a prompt part", &part.text)?;
    if part.key.is_empty() || part.key.len() > 128 {
        return Err(format!(
            "a prompt part's key has {} bytes, 1 to 128 are allowed",
            part.key.len()
        ));
    }
    Ok(p::PromptPart {
        source: env.plugin.to_owned(),
        ..part
    })
}

impl Merge<p::PromptContext> for o::PromptOutcome {
    fn merge(self, payload: &mut p::PromptContext, env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        let mut parts: Vec<p::PromptPart> = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let taken = payload
                .parts
                .iter()
                .chain(&parts)
                .find(|other| other.key == part.key);
            if let Some(other) = taken {
                return Err(format!(
                    "the prompt part `{}` is already there, from `{}`",
                    part.key, other.source
                ));
            }
            parts.push(own_part(part, env)?);
        }
        if !parts.is_empty() {
            merged.changed.push("parts");
            payload.parts.append(&mut parts);
        }
        Ok(merged)
    }
}

impl Merge<Vec<p::PromptPart>> for o::PartsOutcome {
    fn merge(self, payload: &mut Vec<p::PromptPart>, env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        let put = self
            .put
            .into_iter()
            .map(|part| own_part(part, env))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(key) = self
            .remove
            .iter()
            .find(|key| !payload.iter().any(|part| part.key == **key))
        {
            return Err(format!("there is no prompt part `{key}` to remove"));
        }
        if !put.is_empty() || !self.remove.is_empty() {
            merged.changed.push("parts");
        }
        payload.retain(|part| !self.remove.contains(&part.key));
        for part in put {
            match payload.iter_mut().find(|other| other.key == part.key) {
                Some(other) => *other = part,
                None => payload.push(part),
            }
        }
        Ok(merged)
    }
}
