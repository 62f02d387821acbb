//! Rejects the model's answer, at most once a turn, if files were edited in the turn and no check
//! has passed since.

mod check;
mod command;
mod progress;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod pre_completion_checklist {
    use crate::progress::{ChecklistSettings, ToolCallProgressEffect, TurnProgress};
    use rind_sdk::prelude::*;

    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        let settings = config::shared::<ChecklistSettings>()?;
        let did = ToolCallProgressEffect::classify_finished_call(finished, &settings);
        if did != ToolCallProgressEffect::Other {
            let mut progress = TurnProgress::load_progress(&caller::agent(), caller::turn())?;
            if progress.record_call_effect(did) {
                progress.save_progress(&caller::agent())?;
            }
        }
        Ok(ResultOutcome::default())
    }

    #[hook]
    fn post_reason(answer: Message) -> Result<ReplyOutcome, Error> {
        let mut progress = TurnProgress::load_progress(&caller::agent(), caller::turn())?;
        let Some(objection) = progress.take_answer_rejection_reason(&answer.text()) else {
            return Ok(ReplyOutcome::default());
        };
        // Save the progress before rejecting the answer. If saving fails, do not reject the answer:
        // without the saved progress, every later answer would be rejected too.
        progress.save_progress(&caller::agent())?;
        Ok(ReplyOutcome::default()
            .inject(objection.to_model)
            .notify(Level::Info, objection.to_person))
    }
}
