//! Merges outcomes of hooks on texts and decisions of a turn: input, assessment, steering,
//! reflection, output, and the summary that replaces old messages of the conversation.

use std::sync::Arc;

use super::{
    HookObjection, MAX_PARTS, MergeEnv, MergeIntoPayload, MergedOutcome, check_count,
    check_optional_text, check_text_limit,
};
use crate::point::outcome as o;
use crate::point::payload as p;

impl MergeIntoPayload<p::TurnInput> for o::InputOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "inject", "block"];

    fn merge(
        self,
        payload: &mut p::TurnInput,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        merged.add_injections(self.inject)?;
        merged.set_block_objection(self.block);
        merged.set_text("the new input", &mut payload.text, self.text)
    }
}

impl MergeIntoPayload<p::Assessment> for o::AssessmentOutcome {
    const RIGHTS: &'static [&'static str] = &["assessment"];

    fn merge(
        self,
        payload: &mut p::Assessment,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        if let Some(new) = self.assessment {
            if !(0.0..=1.0).contains(&new.confidence) {
                return Err(format!(
                    "a confidence of {} is not between 0 and 1",
                    new.confidence
                ));
            }
            let input = payload.input.clone();
            merged.set_if_changed("assessment", payload, Some(p::Assessment { input, ..new }));
        }
        Ok(())
    }
}

impl MergeIntoPayload<p::TurnInput> for o::SteeringOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "inject", "block"];

    fn merge(
        self,
        payload: &mut p::TurnInput,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        merged.add_injections(self.inject)?;
        match self.action {
            o::SteeringAction::Pass => Ok(()),
            o::SteeringAction::Drop(reason) => {
                merged.set_block_objection(Some(reason));
                Ok(())
            }
            o::SteeringAction::Replace(text) => {
                merged.set_text("the new text", &mut payload.text, Some(text))
            }
        }
    }
}

impl MergeIntoPayload<p::Reflection> for o::ReflectionOutcome {
    const RIGHTS: &'static [&'static str] = &["draft", "criteria", "verdict"];

    fn merge(
        self,
        payload: &mut p::Reflection,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        check_optional_text("the new draft", self.draft.as_ref())?;
        check_count("criteria", self.criteria.len(), MAX_PARTS)?;
        for criterion in &self.criteria {
            check_text_limit("a criterion", criterion)?;
        }
        if let o::VerdictChange::Again(reason) = &self.verdict {
            check_text_limit("the reason", reason)?;
        }
        merged.add_effects(self.effects)?;
        merged.set_if_changed("draft", &mut payload.draft, self.draft);
        if !self.criteria.is_empty() {
            payload.criteria.extend(self.criteria);
            merged.changed.push("criteria");
        }
        if self.verdict != o::VerdictChange::Keep {
            merged.set_if_changed("verdict", &mut payload.verdict, Some(self.verdict));
        }
        Ok(())
    }
}

impl MergeIntoPayload<p::ReflectVerdict> for o::VerdictOutcome {
    const RIGHTS: &'static [&'static str] = &["verdict"];

    fn merge(
        self,
        payload: &mut p::ReflectVerdict,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        let verdict = match self.verdict {
            o::VerdictChange::Keep => return Ok(()),
            o::VerdictChange::Done => None,
            o::VerdictChange::Again(reason) => Some(reason),
        };
        check_optional_text("the reason", verdict.as_ref())?;
        merged.set_if_changed("verdict", &mut payload.continue_because, Some(verdict));
        Ok(())
    }
}

impl MergeIntoPayload<String> for o::TextOutcome {
    const RIGHTS: &'static [&'static str] = &["text"];

    fn merge(
        self,
        payload: &mut String,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        merged.set_text("the new text", payload, self.text)
    }
}

impl MergeIntoPayload<String> for o::OutputOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "block"];

    fn merge(
        self,
        payload: &mut String,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        merged.set_block_objection(self.block);
        merged.set_text("the new output", payload, self.text)
    }
}

impl MergeIntoPayload<Arc<p::Slice>> for o::SliceOutcome {
    const RIGHTS: &'static [&'static str] = &["summary", "block"];

    fn merge(
        self,
        payload: &mut Arc<p::Slice>,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        match self.verdict {
            o::SliceVerdict::Pass => {}
            o::SliceVerdict::Cancel(reason) => merged.answer = Some(HookObjection::Block(reason)),
            o::SliceVerdict::Summary(summary) => {
                env.check_may_change("it brings its own summary")?;
                check_text_limit("the summary", &summary)?;
                if summary != payload.summary {
                    Arc::make_mut(payload).summary = summary;
                    merged.changed.push("summary");
                    merged.rewrites = true;
                }
            }
        }
        Ok(())
    }
}
