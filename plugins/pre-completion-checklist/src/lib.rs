//! Sends an answer back once when files were edited in the turn and no check has passed since.

mod check;
mod command;
mod progress;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod pre_completion_checklist {
    use crate::progress::{Did, Progress, Settings};
    use rind_sdk::prelude::*;

    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        let settings: Settings = config::all()?;
        let did = Did::of(finished, &settings);
        if did != Did::Other {
            let mut progress = Progress::load(&caller::agent(), caller::turn())?;
            if progress.note(did) {
                progress.save(&caller::agent())?;
            }
        }
        Ok(ResultOutcome::default())
    }

    #[hook]
    fn post_reason(answer: Message) -> Result<ReplyOutcome, Error> {
        if answer.tool_calls().next().is_some() {
            return Ok(ReplyOutcome::default());
        }
        let mut progress = Progress::load(&caller::agent(), caller::turn())?;
        let Some(objection) = progress.objection(&answer.text()) else {
            return Ok(ReplyOutcome::default());
        };
        // Saved before the answer goes back: an objection that could not be saved would be repeated
        // again and again.
        progress.save(&caller::agent())?;
        Ok(ReplyOutcome::default()
            .inject(objection.to_model)
            .notify(Level::Info, objection.to_person))
    }
}
