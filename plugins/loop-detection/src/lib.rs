//! Detects that the model repeats a call or edits one file again and again, and warns it.

mod count;
mod subject;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod loop_detection {
    use crate::count::{LoopSettings, RepeatedCall, advice_for_repetitions};
    use crate::subject;
    use rind_sdk::prelude::*;

    thread_local! {
        /// Cached last call and its number of repetitions, for the agent that made the most recent
        /// call.
        static LAST: state::Cached<RepeatedCall> = const { state::Cached::new() };
    }

    #[hook]
    fn pre_tool(proposed: ProposedCall) -> Result<CallOutcome, Error> {
        let settings = config::shared::<LoopSettings>()?;
        let call = &proposed.call;
        let fingerprint = subject::call_fingerprint(&call.name, &call.arguments);
        let turn = Some(caller::turn());
        let repeats = LAST.with(|last| {
            last.change(&format!("row/{}", caller::agent()), |seen| {
                *seen = std::mem::take(seen).count_repeated_call(fingerprint, turn);
                seen.times
            })
        })?;
        let repeated = format!("`{}` with the same arguments", call.name);
        let mut advised = advice_for_repetitions(
            &repeated,
            "called in a row",
            repeats,
            settings.repeats,
            &settings,
        );

        if let Some(path) = subject::edited_file_path(call, &settings.tools) {
            let edited = subject::fnv1a_hash(path.as_bytes());
            let turn = settings
                .is_edit_count_reset_per_turn()
                .then_some(caller::turn());
            let edits = update_count(&format!("edits/{edited:016x}"), |seen| {
                seen.count_repeated_call(edited, turn)
            })?;
            let about_edits = advice_for_repetitions(
                &format!("`{path}`"),
                "edited",
                edits,
                settings.edits,
                &settings,
            );
            // Return one advice only: the advice that refuses the call; if both or neither refuse
            // it, the advice about edits.
            advised = match (about_edits, advised) {
                (Some(edits), Some(row)) if row.refuse && !edits.refuse => Some(row),
                (edits, row) => edits.or(row),
            };
        }

        let Some(advice) = advised else {
            return Ok(CallOutcome::pass());
        };
        let outcome = if advice.refuse {
            CallOutcome::block(&advice.text)
        } else {
            CallOutcome::pass().with_note(&advice.text)
        };
        Ok(outcome.notify(Level::Warn, advice.notice))
    }

    /// Replaces the record of repetitions stored under `key` by the record that `again` returns for
    /// it. Returns the new number of repetitions.
    fn update_count(key: &str, again: impl Fn(RepeatedCall) -> RepeatedCall) -> Result<u32, Error> {
        let seen = again(state::get_json(key)?.unwrap_or_default());
        state::set_json(key, &seen)?;
        Ok(seen.times)
    }
}
