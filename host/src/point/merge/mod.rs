//! Merges outcomes of hooks into payloads. An outcome is checked completely before it is applied,
//! so a refused outcome leaves the payload unchanged.
//!
//! This module owns the size limits and the rule of dispatch that a change is merged and then
//! checked again. It must not depend on single plugins and calls no hook. One submodule per kind of
//! payload contains the rules of its points: `turn` for texts and decisions of a turn, `prompt` for
//! the system prompt, `context` for the messages of a request, `model` for the request and its
//! answer, `call` for tool calls, `delta` for streamed text, and `defined` for points that plugins
//! define.
//!
//! Start from [`MergeIntoPayload`].

mod call;
mod context;
mod defined;
mod delta;
mod model;
mod prompt;
#[cfg(test)]
mod tests;
mod turn;

use super::outcome as o;

pub use context::create_injected_message;

/// Maximum length of a text that a hook may add to a conversation, in bytes. Such a text exceeds
/// the context window of any model, and ten hooks with such texts cannot exhaust memory.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// Maximum number of messages that one outcome may inject.
pub const MAX_INJECTIONS: usize = 16;

/// Maximum number of prompt parts, or criteria for an answer, that one outcome may add or remove.
/// Each is compared with all others, so the time grows with the square of the number.
pub const MAX_PARTS: usize = 256;

/// Maximum number of effects, such as log lines and notices, that one outcome may contain.
pub const MAX_EFFECTS: usize = 64;

/// Facts about the hook's plugin that a merge of the hook's outcome needs, besides the outcome and
/// the payload.
#[derive(Clone, Copy, Debug)]
pub struct MergeEnv<'a> {
    /// Name of the plugin that returned the outcome.
    pub plugin: &'a str,
    /// Whether the hook's plugin may change the conversation (side effect `session`).
    pub may_change: bool,
}

impl MergeEnv<'_> {
    /// Refuses a change if the plugin lacks the side effect `session`. `what` names the change in
    /// the error, as in "it changes arguments".
    fn check_may_change(&self, what: &str) -> Result<(), String> {
        match self.may_change {
            true => Ok(()),
            false => Err(format!("{what}, which needs the side effect `session`")),
        }
    }
}

/// Objection of a hook to the value that it judges: a request to ask the user, or a refusal, each
/// with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookObjection {
    /// Asks the user, with this reason, before the turn continues.
    Ask(String),
    Block(String),
}

/// Result of merging the outcome of one hook into the payload.
#[derive(Clone, Debug, Default)]
pub struct MergedOutcome {
    /// Objection of the hook; `None` means that it accepts the value.
    pub answer: Option<HookObjection>,
    /// Note for the model about a tool call; `None` at all other points.
    pub note: Option<String>,
    /// Messages that the hook adds to the conversation.
    pub inject: Vec<o::Injection>,
    /// Names of the rights that the outcome's changes to the payload require, such as `text` for a
    /// changed text.
    pub changed: Vec<&'static str>,
    /// Whether the outcome changed the value that gates judge, such as the arguments of a call or a
    /// summary. Gates that judged the value before must then judge it again.
    pub rewrites: bool,
    /// Log lines, metrics, stored values and notices that the hook requests besides the outcome.
    pub effects: Vec<o::Effect>,
}

impl MergedOutcome {
    fn add_effects(&mut self, effects: Vec<o::Effect>) -> Result<(), String> {
        check_count("effects", effects.len(), MAX_EFFECTS)?;
        self.effects = effects;
        Ok(())
    }

    fn add_injections(&mut self, inject: Vec<o::Injection>) -> Result<(), String> {
        check_count("injected messages", inject.len(), MAX_INJECTIONS)?;
        for injection in &inject {
            check_text_limit("an injected message", &injection.text)?;
        }
        if !inject.is_empty() {
            self.changed.push("inject");
        }
        self.inject = inject;
        Ok(())
    }

    fn set_block_objection(&mut self, reason: Option<String>) {
        self.answer = reason.map(HookObjection::Block);
    }

    /// Sets `slot` to `new` if there is a new value and it differs, and then records the use of
    /// `right`. Returns whether `slot` changed.
    fn set_if_changed<T: PartialEq>(
        &mut self,
        right: &'static str,
        slot: &mut T,
        new: Option<T>,
    ) -> bool {
        let new = new.filter(|new| slot != new);
        let has_changed = new.is_some();
        if let Some(new) = new {
            *slot = new;
            self.changed.push(right);
        }
        has_changed
    }

    /// Checks a new text, sets `slot` to it, and records the use of the right `text`. Callers must
    /// do all other checks first, because this function changes the payload.
    fn set_text(
        &mut self,
        what: &str,
        slot: &mut String,
        new: Option<String>,
    ) -> Result<(), String> {
        check_optional_text(what, new.as_ref())?;
        self.set_if_changed("text", slot, new);
        Ok(())
    }
}

/// Merges outcomes of one type into payloads of one type.
///
/// Implementations must check the whole outcome before they change the payload, because an outcome
/// that causes an error must have no effect. Each change is recorded in [`MergedOutcome::changed`]
/// under the name of its right.
pub trait MergeIntoPayload<P> {
    /// Names of the rights that the outcome can use: every name that can occur in
    /// [`MergedOutcome::changed`], `ask` if the outcome can ask the user, and `block` if it can
    /// refuse.
    const RIGHTS: &'static [&'static str];

    /// Checks the outcome, then applies it. `merged` must be empty, and must not be used after an
    /// error. (It is an output parameter because the type is too large to return by value.)
    fn merge(
        self,
        payload: &mut P,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String>;
}

fn check_text_limit(what: &str, text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!(
            "{what} has {} bytes, at most {MAX_TEXT_BYTES} are allowed",
            text.len()
        ));
    }
    Ok(())
}

/// Refuses more than `most` items. `what` names the items in the error.
fn check_count(what: &str, n: usize, most: usize) -> Result<(), String> {
    if n > most {
        return Err(format!("{n} {what}, at most {most} are allowed"));
    }
    Ok(())
}

fn check_optional_text(what: &str, text: Option<&String>) -> Result<(), String> {
    text.map_or(Ok(()), |text| check_text_limit(what, text))
}

impl<P> MergeIntoPayload<P> for o::Observed {
    const RIGHTS: &'static [&'static str] = &[];

    fn merge(
        self,
        _payload: &mut P,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)
    }
}
