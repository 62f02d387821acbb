//! What an outcome comes to: each is checked first and applied after, so that a refused one leaves no trace.
//!
//! Owns the sizes and rules of rule 4 of dispatch ("merged, then checked again"). It knows no plugin by name and calls
//! nothing.

use serde_json::Value;

use super::outcome as o;
use super::payload as p;
use crate::message::{Content, Message};

/// Longest text that a hook may put into a conversation, in bytes. Larger than any model's window of text, small enough
/// that ten hooks cannot fill the memory.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// Most messages that one outcome may add.
pub const MAX_INJECTIONS: usize = 16;

/// Most effects that one outcome may carry.
pub const MAX_EFFECTS: usize = 64;

/// What merging may depend on besides the payload.
#[derive(Clone, Copy, Debug)]
pub struct MergeEnv<'a> {
    /// Name of the plugin whose outcome it is.
    pub plugin: &'a str,
    /// Whether the plugin may change what the conversation holds (the side effect `session`).
    pub may_change: bool,
}

/// What a hook says to going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Ask the user first.
    Ask(String),
    /// Refuse.
    Block(String),
}

/// What one outcome came to.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// What it says to going on; `None` is pass.
    pub answer: Option<Answer>,
    /// A warning for the model.
    pub note: Option<String>,
    /// Messages to add.
    pub inject: Vec<o::Injection>,
    /// Names of what changed.
    pub changed: Vec<&'static str>,
    /// Extra requests.
    pub effects: Vec<o::Effect>,
}

impl Merged {
    /// A merge that changed one thing.
    #[must_use]
    pub fn changed(what: &'static str) -> Self {
        Self {
            changed: vec![what],
            ..Self::default()
        }
    }

    fn with(effects: Vec<o::Effect>) -> Result<Self, String> {
        if effects.len() > MAX_EFFECTS {
            return Err(format!(
                "{} effects, at most {MAX_EFFECTS} are allowed",
                effects.len()
            ));
        }
        Ok(Self {
            effects,
            ..Self::default()
        })
    }

    fn inject(&mut self, inject: Vec<o::Injection>) -> Result<(), String> {
        if inject.len() > MAX_INJECTIONS {
            return Err(format!(
                "{} injected messages, at most {MAX_INJECTIONS} are allowed",
                inject.len()
            ));
        }
        for injection in &inject {
            check_text("an injected message", &injection.text)?;
        }
        if !inject.is_empty() {
            self.changed.push("inject");
        }
        self.inject = inject;
        Ok(())
    }

    fn block(&mut self, block: Option<String>) {
        if let Some(reason) = block {
            self.answer = Some(Answer::Block(reason));
        }
    }
}

/// How one outcome type applies to one payload type.
pub trait Merge<P> {
    /// Checks, then applies.
    fn merge(self, payload: &mut P, env: &MergeEnv<'_>) -> Result<Merged, String>;
}

fn check_text(what: &str, text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!(
            "{what} has {} bytes, at most {MAX_TEXT_BYTES} are allowed",
            text.len()
        ));
    }
    Ok(())
}

/// Puts a new text in place if there is one and it differs.
fn set_text(merged: &mut Merged, slot: &mut String, text: Option<String>, what: &'static str) {
    if let Some(text) = text
        && *slot != text
    {
        *slot = text;
        merged.changed.push(what);
    }
}

fn check_option(what: &str, text: Option<&String>) -> Result<(), String> {
    text.map_or(Ok(()), |text| check_text(what, text))
}

impl<P> Merge<P> for o::Observed {
    fn merge(self, _payload: &mut P, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        Merged::with(self.effects)
    }
}

impl Merge<p::TurnInput> for o::InputOutcome {
    fn merge(self, payload: &mut p::TurnInput, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new input", self.text.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        merged.inject(self.inject)?;
        merged.block(self.block);
        set_text(&mut merged, &mut payload.text, self.text, "text");
        Ok(merged)
    }
}

impl Merge<p::Assessment> for o::AssessmentOutcome {
    fn merge(self, payload: &mut p::Assessment, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        if let Some(new) = self.assessment {
            if !(0.0..=1.0).contains(&new.confidence) {
                return Err(format!(
                    "a confidence of {} is not between 0 and 1",
                    new.confidence
                ));
            }
            let new = p::Assessment {
                input: payload.input.clone(),
                ..new
            };
            if *payload != new {
                *payload = new;
                merged.changed.push("assessment");
            }
        }
        Ok(merged)
    }
}

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

impl Merge<String> for o::TextOutcome {
    fn merge(self, payload: &mut String, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new text", self.text.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        set_text(&mut merged, payload, self.text, "text");
        Ok(merged)
    }
}

/// Ids of the tool calls that a message makes or answers.
fn call_ids(message: &Message) -> impl Iterator<Item = &str> {
    message
        .tool_calls()
        .map(|call| call.id.as_str())
        .chain(message.tool_results().map(|result| result.call_id.as_str()))
}

/// Leaves out a message and, so that no result is an orphan, every message its calls or results go with.
fn drop_message(messages: &mut Vec<Message>, id: &str) -> Result<(), String> {
    let at = position(messages, id)?;
    let calls: Vec<String> = call_ids(&messages[at]).map(str::to_owned).collect();
    messages.retain(|message| {
        message.id != id && !call_ids(message).any(|call| calls.iter().any(|c| c == call))
    });
    Ok(())
}

fn position(messages: &[Message], id: &str) -> Result<usize, String> {
    messages
        .iter()
        .position(|message| message.id == id)
        .ok_or_else(|| format!("there is no message `{id}`"))
}

impl Merge<Vec<Message>> for o::ContextOutcome {
    fn merge(self, payload: &mut Vec<Message>, env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        if self.edits.is_empty() {
            return Ok(merged);
        }
        let mut edited = payload.clone();
        for edit in self.edits {
            match edit {
                o::MessageEdit::Drop(id) => drop_message(&mut edited, &id)?,
                o::MessageEdit::Replace { id, text } => {
                    check_text("a replaced message", &text)?;
                    let at = position(&edited, &id)?;
                    replace_text(&mut edited[at], text);
                }
                o::MessageEdit::Append(text) => {
                    check_text("an appended message", &text)?;
                    edited.push(injected_message(env.plugin, &text));
                }
            }
        }
        *payload = edited;
        merged.changed.push("messages");
        Ok(merged)
    }
}

/// A tool message keeps its calls' ids and gets the new content in its first result; others get a new text.
fn replace_text(message: &mut Message, text: String) {
    let first_result = message.content.iter_mut().find_map(|part| match part {
        Content::ToolResult(result) => Some(result),
        _ => None,
    });
    match first_result {
        Some(result) => result.content = text,
        None => message.set_text(text),
    }
}

/// The message by which a plugin's words reach the model: a user message that says who speaks.
#[must_use]
pub fn injected_message(plugin: &str, text: &str) -> Message {
    let mut message = Message::text(
        crate::message::Role::User,
        format!("[plugin {plugin}] {text}"),
    );
    message.plugin = Some(plugin.to_owned());
    message
}

impl Merge<p::ModelRequest> for o::RequestOutcome {
    fn merge(self, payload: &mut p::ModelRequest, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        if let Some(t) = self.temperature
            && !(0.0..=2.0).contains(&t)
        {
            return Err(format!("a temperature of {t} is not between 0 and 2"));
        }
        if self.max_tokens == Some(0) {
            return Err("max-tokens is 0".to_owned());
        }
        if self.model.as_ref().is_some_and(String::is_empty) {
            return Err("the model's name is empty".to_owned());
        }
        if let Some(name) = self
            .tools
            .iter()
            .flatten()
            .find(|name| !payload.tools.contains(name))
        {
            return Err(format!(
                "the tool `{name}` is not active, and a hook can only leave tools out"
            ));
        }
        let mut merged = Merged::with(self.effects)?;
        merged.inject(self.inject)?;
        merged.block(self.block);
        set_text(&mut merged, &mut payload.model, self.model, "model");
        if self.temperature.is_some() && self.temperature != payload.temperature {
            payload.temperature = self.temperature;
            merged.changed.push("temperature");
        }
        if self.max_tokens.is_some() && self.max_tokens != payload.max_tokens {
            payload.max_tokens = self.max_tokens;
            merged.changed.push("max-tokens");
        }
        if let Some(tools) = self.tools
            && tools != payload.tools
        {
            payload.tools = tools;
            merged.changed.push("tools");
        }
        Ok(merged)
    }
}

impl Merge<p::WireRequest> for o::WireOutcome {
    fn merge(self, payload: &mut p::WireRequest, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        if let Some(body) = &self.body {
            check_text("the new body", body)?;
            if !matches!(serde_json::from_str(body), Ok(Value::Object(_))) {
                return Err("the new body is not a JSON object".to_owned());
            }
        }
        set_text(&mut merged, &mut payload.body, self.body, "body");
        Ok(merged)
    }
}

impl Merge<Message> for o::ReplyOutcome {
    fn merge(self, payload: &mut Message, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new text", self.text.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        merged.inject(self.inject)?;
        merged.block(self.block);
        if let Some(text) = self.text
            && payload.joined_text() != text
        {
            payload.set_text(text);
            merged.changed.push("text");
        }
        Ok(merged)
    }
}

impl Merge<p::ProposedCall> for o::CallOutcome {
    fn merge(self, payload: &mut p::ProposedCall, env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the note", self.note.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        merged.note = self.note;
        match self.verdict {
            o::CallVerdict::Pass => {}
            o::CallVerdict::Ask(reason) => merged.answer = Some(Answer::Ask(reason)),
            o::CallVerdict::Block(reason) => merged.answer = Some(Answer::Block(reason)),
            o::CallVerdict::Change(arguments) => {
                if !env.may_change {
                    return Err(
                        "it changes arguments, which needs the side effect `session`".to_owned(),
                    );
                }
                check_text("the new arguments", &arguments)?;
                let arguments: Value = serde_json::from_str(&arguments)
                    .map_err(|e| format!("the new arguments are not JSON: {e}"))?;
                (payload.check)(&arguments)
                    .map_err(|e| format!("the new arguments do not fit the tool's schema: {e}"))?;
                if arguments != payload.call.arguments {
                    payload.call.arguments = arguments;
                    merged.changed.push("arguments");
                }
            }
        }
        if merged.note.is_some() {
            merged.changed.push("note");
        }
        Ok(merged)
    }
}

impl Merge<p::FinishedCall> for o::ResultOutcome {
    fn merge(self, payload: &mut p::FinishedCall, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new content", self.content.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        merged.inject(self.inject)?;
        set_text(
            &mut merged,
            &mut payload.result.content,
            self.content,
            "content",
        );
        if let Some(is_error) = self.is_error
            && is_error != payload.result.is_error
        {
            payload.result.is_error = is_error;
            merged.changed.push("is-error");
        }
        Ok(merged)
    }
}

impl Merge<p::TurnInput> for o::SteeringOutcome {
    fn merge(self, payload: &mut p::TurnInput, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        merged.inject(self.inject)?;
        match self.action {
            o::SteeringAction::Pass => {}
            o::SteeringAction::Drop(reason) => merged.answer = Some(Answer::Block(reason)),
            o::SteeringAction::Replace(text) => {
                check_text("the new text", &text)?;
                set_text(&mut merged, &mut payload.text, Some(text), "text");
            }
        }
        Ok(merged)
    }
}

impl Merge<p::Reflection> for o::ReflectionOutcome {
    fn merge(self, payload: &mut p::Reflection, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new draft", self.draft.as_ref())?;
        for criterion in &self.criteria {
            check_text("a criterion", criterion)?;
        }
        let mut merged = Merged::with(self.effects)?;
        set_text(&mut merged, &mut payload.draft, self.draft, "draft");
        if !self.criteria.is_empty() {
            payload.criteria.extend(self.criteria);
            merged.changed.push("criteria");
        }
        Ok(merged)
    }
}

impl Merge<p::ReflectVerdict> for o::VerdictOutcome {
    fn merge(self, payload: &mut p::ReflectVerdict, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        let verdict = match self.verdict {
            o::VerdictChange::Keep => return Ok(merged),
            o::VerdictChange::Done => None,
            o::VerdictChange::Again(reason) => Some(reason),
        };
        check_option("the reason", verdict.as_ref())?;
        if payload.continue_because != verdict {
            payload.continue_because = verdict;
            merged.changed.push("verdict");
        }
        Ok(merged)
    }
}

impl Merge<String> for o::OutputOutcome {
    fn merge(self, payload: &mut String, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new output", self.text.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        merged.block(self.block);
        set_text(&mut merged, payload, self.text, "text");
        Ok(merged)
    }
}

impl Merge<p::Slice> for o::SliceOutcome {
    fn merge(self, payload: &mut p::Slice, env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        match self.verdict {
            o::SliceVerdict::Pass => {}
            o::SliceVerdict::Cancel(reason) => merged.answer = Some(Answer::Block(reason)),
            o::SliceVerdict::Summary(summary) => {
                if !env.may_change {
                    return Err(
                        "it brings its own summary, which needs the side effect `session`"
                            .to_owned(),
                    );
                }
                check_text("the summary", &summary)?;
                set_text(&mut merged, &mut payload.summary, Some(summary), "summary");
            }
        }
        Ok(merged)
    }
}
