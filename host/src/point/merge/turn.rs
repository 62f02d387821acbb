//! Texts and decisions of a turn: input, assessment, steering, reflection, output, and what takes an old slice's place.

use std::sync::Arc;

use super::{
    MAX_PARTS, Merge, MergeEnv, Merged, Objection, check_number, check_option, check_text, set_text,
};
use crate::point::outcome as o;
use crate::point::payload as p;

impl Merge<p::TurnInput> for o::InputOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "inject", "block"];

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
    const RIGHTS: &'static [&'static str] = &["assessment"];

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

impl Merge<p::TurnInput> for o::SteeringOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "inject", "block"];

    fn merge(self, payload: &mut p::TurnInput, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        merged.inject(self.inject)?;
        match self.action {
            o::SteeringAction::Pass => {}
            o::SteeringAction::Drop(reason) => merged.answer = Some(Objection::Block(reason)),
            o::SteeringAction::Replace(text) => {
                check_text("the new text", &text)?;
                set_text(&mut merged, &mut payload.text, Some(text), "text");
            }
        }
        Ok(merged)
    }
}

impl Merge<p::Reflection> for o::ReflectionOutcome {
    const RIGHTS: &'static [&'static str] = &["draft", "criteria", "verdict"];

    fn merge(self, payload: &mut p::Reflection, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new draft", self.draft.as_ref())?;
        check_number("criteria", self.criteria.len(), MAX_PARTS)?;
        for criterion in &self.criteria {
            check_text("a criterion", criterion)?;
        }
        let own = match self.verdict {
            o::VerdictChange::Keep => None,
            o::VerdictChange::Done => Some(p::OwnVerdict::Done),
            o::VerdictChange::Again(reason) => {
                check_text("the reason", &reason)?;
                Some(p::OwnVerdict::Again(reason))
            }
        };
        let mut merged = Merged::with(self.effects)?;
        set_text(&mut merged, &mut payload.draft, self.draft, "draft");
        if !self.criteria.is_empty() {
            payload.criteria.extend(self.criteria);
            merged.changed.push("criteria");
        }
        if own.is_some() && payload.verdict != own {
            payload.verdict = own;
            merged.changed.push("verdict");
        }
        Ok(merged)
    }
}

impl Merge<p::ReflectVerdict> for o::VerdictOutcome {
    const RIGHTS: &'static [&'static str] = &["verdict"];

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

impl Merge<String> for o::TextOutcome {
    const RIGHTS: &'static [&'static str] = &["text"];

    fn merge(self, payload: &mut String, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new text", self.text.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        set_text(&mut merged, payload, self.text, "text");
        Ok(merged)
    }
}

impl Merge<String> for o::OutputOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "block"];

    fn merge(self, payload: &mut String, _env: &MergeEnv<'_>) -> Result<Merged, String> {
        check_option("the new output", self.text.as_ref())?;
        let mut merged = Merged::with(self.effects)?;
        merged.block(self.block);
        set_text(&mut merged, payload, self.text, "text");
        Ok(merged)
    }
}

impl Merge<Arc<p::Slice>> for o::SliceOutcome {
    const RIGHTS: &'static [&'static str] = &["summary", "block"];

    fn merge(self, payload: &mut Arc<p::Slice>, env: &MergeEnv<'_>) -> Result<Merged, String> {
        let mut merged = Merged::with(self.effects)?;
        match self.verdict {
            o::SliceVerdict::Pass => {}
            o::SliceVerdict::Cancel(reason) => merged.answer = Some(Objection::Block(reason)),
            o::SliceVerdict::Summary(summary) => {
                if !env.may_change {
                    return Err(
                        "it brings its own summary, which needs the side effect `session`"
                            .to_owned(),
                    );
                }
                check_text("the summary", &summary)?;
                if summary != payload.summary {
                    Arc::make_mut(payload).summary = summary;
                    merged.changed.push("summary");
                    merged.rewrites = true;
                }
            }
        }
        Ok(merged)
    }
}
