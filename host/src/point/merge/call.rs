//! Merges outcomes of hooks on tool calls: whether a proposed call may run, and the changes of a
//! call's result.

use std::sync::Arc;

use super::{
    HookObjection, MergeEnv, MergeIntoPayload, MergedOutcome, check_count, check_optional_text,
    check_text_limit,
};
use crate::json;
use crate::message::part::MAX_ANSWER_PARTS;
use crate::message::{Part, Parts};
use crate::point::outcome as o;
use crate::point::payload as p;

impl MergeIntoPayload<p::ProposedCall> for o::CallOutcome {
    const RIGHTS: &'static [&'static str] = &["arguments", "note", "ask", "block"];

    fn merge(
        self,
        payload: &mut p::ProposedCall,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        check_optional_text("the note", self.note.as_ref())?;
        merged.add_effects(self.effects)?;
        merged.note = self.note;
        match self.verdict {
            o::CallVerdict::Pass => {}
            o::CallVerdict::Ask(reason) => merged.answer = Some(HookObjection::Ask(reason)),
            o::CallVerdict::Block(reason) => merged.answer = Some(HookObjection::Block(reason)),
            o::CallVerdict::Change(arguments) => {
                env.check_may_change("it changes arguments")?;
                check_text_limit("the new arguments", &arguments)?;
                let arguments = json::parse_json(&arguments, json::DEFAULT_MAX_JSON_BYTES)
                    .map_err(|e| format!("the text of the new arguments {e}"))?;
                (payload.check)(&arguments)
                    .map_err(|e| format!("the new arguments do not fit the tool's schema: {e}"))?;
                let slot = &mut payload.call.arguments;
                merged.rewrites = merged.set_if_changed("arguments", slot, Some(arguments));
            }
        }
        if merged.note.is_some() {
            merged.changed.push("note");
        }
        Ok(())
    }
}

impl MergeIntoPayload<Arc<p::FinishedCall>> for o::ResultOutcome {
    const RIGHTS: &'static [&'static str] = &["content", "is-error", "inject"];

    fn merge(
        self,
        payload: &mut Arc<p::FinishedCall>,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        let content = self
            .content
            .map(|parts| convert_replacement_parts(parts, &payload.result.content));
        let content = content.transpose()?;
        merged.add_effects(self.effects)?;
        merged.add_injections(self.inject)?;
        if let Some(content) = content
            && payload.result.content != content
        {
            Arc::make_mut(payload).result.content = content;
            merged.changed.push("content");
        }
        if let Some(is_error) = self.is_error
            && is_error != payload.result.is_error
        {
            Arc::make_mut(payload).result.is_error = is_error;
            merged.changed.push("is-error");
        }
        Ok(())
    }
}

/// Converts the parts with which a hook replaces a tool's result.
fn convert_replacement_parts(parts: Vec<o::Part>, result: &Parts) -> Result<Parts, String> {
    check_count("parts of a result", parts.len(), MAX_ANSWER_PARTS)?;
    let part = |part| match part {
        o::Part::Text(text) => {
            check_text_limit("the new content", &text)?;
            Ok(Part::Text { text })
        }
        o::Part::Json(text) => {
            let value = json::parse_json(&text, json::DEFAULT_MAX_JSON_BYTES);
            let value = value.map_err(|e| format!("the text of a JSON part {e}"))?;
            Ok(Part::Json { value })
        }
        o::Part::Blob(named) => {
            let known = result.blobs().find(|blob| blob.id == named.id);
            let known = known.ok_or("it adds a blob that the result did not have")?;
            Ok(Part::Blob(known.clone()))
        }
    };
    let parts: Result<Vec<Part>, String> = parts.into_iter().map(part).collect();
    parts.map(Parts::from)
}
