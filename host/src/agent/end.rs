//! Ends a turn, whatever the reason: completes the session, emits the last events and returns the
//! outcome.

use std::sync::Arc;

use super::answer_schema::TurnAnswerSchemaChecker;
use super::calls::run_post_tool_hooks;
use super::outcome::{Error, TurnOutcome};
use super::stop::{EarlyTurnEndReason, blocked_answer_placeholder, hook_block_reason};
use super::turn::RunningTurn;
use crate::event::Event;
use crate::message::{Message, Role};
use crate::point::catalog as at;
use crate::point::payload::{FailureReport, StopReason, TurnSummary};
use crate::session::Body;
use crate::text::format_error_chain;

/// Prefix of the last line of the output of a turn whose model failed; the reason follows.
const MODEL_FAILED_NOTE_PREFIX: &str = "[the model gave no answer: ";

/// Prefix of the last line of the output of a turn whose answer does not match its schema; the
/// reason follows.
const ANSWER_SCHEMA_MISMATCH_NOTE_PREFIX: &str = "[the answer does not match the schema: ";

/// Prefix of the last line of the output of a turn whose loop failed; the name of the loop's plugin
/// follows.
const PLUGIN_LOOP_FAILED_NOTE_PREFIX: &str = "[the loop of plugin ";

/// Prefix of the last line of the output of a turn whose session could not be written; the reason
/// follows.
const HOST_FAILED_NOTE_PREFIX: &str = "[the host failed: ";

/// Advice that follows the reason if the session cannot be written.
const UNWRITABLE_SESSION_ADVICE: &str = "; make room there, or make it writable: an answer that was not written is kept until the program ends, and \
                         written with the next turn";

/// Returns the answer in the output of a turn that ended because the session could not be written;
/// `None` if the turn ended otherwise or has no answer.
#[must_use]
pub fn extract_unsaved_answer(output: &str) -> Option<&str> {
    let (answer, _) = output.rsplit_once(HOST_FAILED_NOTE_PREFIX)?;
    Some(answer.trim_end()).filter(|answer| !answer.is_empty())
}

/// Returns the incomplete answer in the output of a failed turn, without the reason.
#[must_use]
pub fn extract_unfinished_answer(output: &str) -> &str {
    let reasons = [
        MODEL_FAILED_NOTE_PREFIX,
        ANSWER_SCHEMA_MISMATCH_NOTE_PREFIX,
        PLUGIN_LOOP_FAILED_NOTE_PREFIX,
        HOST_FAILED_NOTE_PREFIX,
    ];
    let begun = reasons.iter().find_map(|reason| output.rsplit_once(reason));
    begun.map_or("", |(begun, _)| begun)
}

/// Returns the part of an output that the user has not been shown yet, or the complete output if
/// `shown` is not its prefix. White space is ignored in the comparison, because the parts of an
/// answer are joined in different ways.
#[must_use]
pub fn find_unshown_output<'a>(output: &'a str, shown: &str) -> &'a str {
    let mut chars = output.char_indices().filter(|(_, c)| !c.is_whitespace());
    let mut end = 0;
    for wanted in shown.chars().filter(|c| !c.is_whitespace()) {
        match chars.next() {
            Some((at, c)) if c == wanted => end = at + c.len_utf8(),
            _ => return output,
        }
    }
    output.get(end..).map_or(output, str::trim_start)
}

/// Result, for the model, of a call that the user interrupted.
const USER_CANCELLED_CALL_RESULT: &str =
    "[cancelled: the user interrupted the turn before this call had a result]";

/// Result, for the model, of a tool call that had no result when the turn ended for another reason.
const ABANDONED_CALL_RESULT: &str = "[abandoned: the turn ended before this call had a result]";

impl RunningTurn<'_> {
    /// Completes the session and emits the end of the turn, whatever the reason for the end.
    pub(super) async fn end_turn(
        mut self,
        ended: Result<(), EarlyTurnEndReason>,
    ) -> Result<TurnOutcome, Error> {
        self.ctx.is_ending = true;
        let mut given = Ok(());
        let (stop, last_words, fault) = match ended {
            Ok(()) => (StopReason::Done, None, None),
            Err(EarlyTurnEndReason::MaxSteps) => (StopReason::MaxSteps, None, None),
            Err(EarlyTurnEndReason::Blocked(text)) => {
                self.emit_shown_text_correction_if_needed(&text);
                (StopReason::Blocked, Some(text), None)
            }
            Err(EarlyTurnEndReason::Cancelled) => {
                let text = "[cancelled by the user]".to_owned();
                (StopReason::Cancelled, Some(text), None)
            }
            Err(EarlyTurnEndReason::Provider(why)) => {
                self.report_failure("provider", &why).await;
                given = self.output_partial_answer().await;
                let text = format!("{MODEL_FAILED_NOTE_PREFIX}{why}]");
                (StopReason::Failed, Some(text), None)
            }
            Err(EarlyTurnEndReason::WrongAnswer(why)) => {
                let text = format!("{ANSWER_SCHEMA_MISMATCH_NOTE_PREFIX}{why}]");
                self.report_failure("answer", &text).await;
                self.emit_shown_text_correction_if_needed(&text);
                (StopReason::Failed, Some(text), None)
            }
            Err(EarlyTurnEndReason::Loop { plugin, why }) => {
                let text = format!(
                    "{PLUGIN_LOOP_FAILED_NOTE_PREFIX}{plugin} failed: {why}; the turn was ended]"
                );
                self.report_failure("loop", &text).await;
                given = self.emit_last_model_text().await;
                (StopReason::Failed, Some(text), None)
            }
            Err(EarlyTurnEndReason::Host(error)) => {
                let why = format_error_chain(&error) + UNWRITABLE_SESSION_ADVICE;
                self.report_failure("session", &why).await;
                if let Some(answer) = self.unkept.take().filter(|text| !text.trim().is_empty()) {
                    given = self.output_incomplete_answer(answer).await;
                }
                let text = format!("{HOST_FAILED_NOTE_PREFIX}{why}]");
                (StopReason::Failed, Some(text), Some(error))
            }
        };
        if let Some(text) = last_words
            && self.outputs.last() != Some(&text)
        {
            self.outputs.push(text);
        }
        let closed = given.and(self.add_missing_call_results(stop).await);
        let scope = self.ctx.scope.clone();
        self.agent.archive_summarized_turns(&scope).await;
        if self.ctx.scope.cancel.is_cancelled() {
            self.agent.archival.cancel_archival_preparation().await;
        }
        self.ctx.scope.stop_running_subagents().await;
        // Background hooks outlive the turn and may still start subagents, so disarm the guard that
        // would end the subagents.
        if let Some(guard) = self.agents_guard.take() {
            guard.disarm();
        }
        scope.end_skills(&self.ctx.caller()).await;
        let mut outcome = TurnOutcome {
            turn: self.ctx.scope.number,
            output: self.outputs.join("\n\n"),
            summary: self.summarize_turn(stop),
        };
        let session = self.agent.spec.session.clone();
        let written = session.append(Body::TurnEnd {
            turn: outcome.turn,
            summary: outcome.summary.clone(),
            output: outcome.output.clone(),
        });
        self.ctx
            .dispatch_hooks_of_point::<at::TurnEnd>(outcome.summary.clone())
            .await;
        self.block_outcome_after_hook_failure(&mut outcome);
        if let Some(keeping) = self.keeping.take() {
            // Ignore the error of the task: the task logs it.
            let _ = keeping.await;
        }
        let synced = session.sync_on_blocking_thread().await;
        self.ctx.scope.mark_turn_ended();
        self.ctx.emit_event(Event::TurnEnd {
            turn: outcome.turn,
            summary: outcome.summary.clone(),
            output: outcome.output.clone(),
        });
        // Return the error that ended the turn, because it caused the errors after it.
        if let Some(error) = fault {
            return Err(error);
        }
        match closed {
            Err(EarlyTurnEndReason::Host(error)) => Err(error),
            _ => {
                written?;
                synced?;
                let (compaction, stop) = (&self.agent.compaction, outcome.summary.stop);
                let archival = &mut self.agent.archival;
                archival
                    .record_turn_due_for_archive(&self.ctx.scope, compaction, self.begins_at, stop)
                    .await;
                Ok(outcome)
            }
        }
    }

    /// Changes the stop reason to `Blocked` if a hook with `on_failure = "block"` failed at a point
    /// that cannot be blocked.
    fn block_outcome_after_hook_failure(&self, outcome: &mut TurnOutcome) {
        if !self.agent.is_main() {
            return;
        }
        let was_blocked = outcome.summary.stop == StopReason::Blocked;
        if let Some(why) = self.ctx.scope.family.halt.take_reason()
            && !was_blocked
        {
            outcome.summary.stop = StopReason::Blocked;
            let words = format!("[stopped: {why}]");
            let parts = [outcome.output.as_str(), &words];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            outcome.output = parts.collect::<Vec<_>>().join("\n\n");
            outcome.summary.output.clone_from(&outcome.output);
        }
    }

    /// Adds a result for every tool call that has none yet, and stores the part of an interrupted
    /// answer that was already streamed.
    async fn add_missing_call_results(
        &mut self,
        stop: StopReason,
    ) -> Result<(), EarlyTurnEndReason> {
        let why = if stop == StopReason::Cancelled {
            USER_CANCELLED_CALL_RESULT
        } else {
            ABANDONED_CALL_RESULT
        };
        let session = self.agent.spec.session.clone();
        self.store_partial_answer().await?;
        // The result of a call that has ended is kept, but passes the `post-tool` hooks first,
        // because they may remove secrets from it.
        let ran = self.calls.take_unstored_call_results();
        let (mut known, mut inject) = (Vec::with_capacity(ran.len()), Vec::new());
        for mut call in ran {
            let finished = run_post_tool_hooks(&self.ctx, &mut self.reflected, &mut call).await;
            drop(call);
            let result = Arc::unwrap_or_clone(finished.value).result;
            let id = result.call_id.clone();
            let message = Message::from_tool_result(result);
            known.push(
                self.ctx
                    .scope
                    .skills
                    .parts
                    .attach_skill_content_to_message(message, &id),
            );
            inject.extend(finished.inject);
        }
        for message in session.close_calls_without_result(&known, why)? {
            self.ctx.emit_message(message).await;
        }
        self.ctx.inject_texts(inject).await
    }

    /// Outputs the part of an answer that arrived before the model failed, as far as hooks allow:
    /// the provider bills that part, and it may be useful.
    async fn output_partial_answer(&mut self) -> Result<(), EarlyTurnEndReason> {
        match self.store_partial_answer().await? {
            Some(text) => self.output_incomplete_answer(text).await,
            None => Ok(()),
        }
    }

    /// Outputs the last text that the model wrote before the plugin's agent loop that runs the turn
    /// failed, as far as hooks allow.
    async fn emit_last_model_text(&mut self) -> Result<(), EarlyTurnEndReason> {
        let draft = self.answer.take_last_model_text();
        match draft.trim().is_empty() {
            true => Ok(()),
            false => self.output_incomplete_answer(draft).await,
        }
    }

    /// Outputs the incomplete answer that the model gave before the turn failed.
    async fn output_incomplete_answer(&mut self, text: String) -> Result<(), EarlyTurnEndReason> {
        self.answers = TurnAnswerSchemaChecker::default();
        match self.emit_output(text).await {
            // The refusal by the hook is already in the output, and the turn counts as failed in
            // any case.
            Err(EarlyTurnEndReason::Blocked(_)) => Ok(()),
            given => given,
        }
    }

    /// Stores the streamed part of an interrupted answer, because the user has read it and may
    /// refer to it. Returns that text as changed by hooks; `None` if nothing was streamed or a hook
    /// withheld it.
    async fn store_partial_answer(&mut self) -> Result<Option<String>, EarlyTurnEndReason> {
        let partial = std::mem::take(&mut self.progress.partial);
        if partial.trim().is_empty() {
            return Ok(None);
        }
        let text = format!("{partial}\n\n[the answer was cut off here]");
        let message = Message::text(Role::Assistant, text);
        let reviewed = self
            .ctx
            .dispatch_hooks_of_point::<at::PostReason>(message)
            .await;
        if let Some(said) = hook_block_reason(&reviewed) {
            self.emit_shown_text_correction_if_needed(&blocked_answer_placeholder(said));
            return Ok(None);
        }
        let text = reviewed.value.joined_text();
        self.emit_shown_text_correction_if_needed(&text);
        self.ctx.append_and_emit_message(reviewed.value).await?;
        Ok(Some(text))
    }

    fn summarize_turn(&self, stop: StopReason) -> TurnSummary {
        let cost = self.ctx.scope.budget.cost_so_far();
        TurnSummary {
            stop,
            steps: self.ctx.step,
            tool_calls: self.ctx.scope.budget.n_tool_calls_made(),
            usage: self.ctx.scope.budget.usage(),
            cost_usd: cost.usd,
            unpriced_tokens: cost.unpriced_tokens,
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            output: self.outputs.join("\n\n"),
        }
    }

    async fn report_failure(&self, place: &str, why: &str) {
        self.ctx.emit_event(Event::Error {
            place: place.to_owned(),
            message: why.to_owned(),
        });
        self.ctx
            .dispatch_hooks_of_point::<at::Error>(FailureReport {
                where_: place.to_owned(),
                message: why.to_owned(),
                plugin: None,
            })
            .await;
    }
}

#[cfg(test)]
#[cfg(feature = "scripted")]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::find_unshown_output;
    use crate::agent::{AgentConfig, AgentSpec, LiveAgent, TurnSpec};
    use crate::event::EventSender;
    use crate::point::payload::Source;
    use crate::provider::scripted::{Reply, Script, Scripted};
    use crate::session::Session;
    use crate::tool::approval::AllowAllApprover;
    use crate::tool::builtin;
    use crate::tool::live::RunningToolCallOutputs;
    use crate::tool::policy::{ToolPolicy, ToolPolicyOptions};
    use crate::tool::registry::ToolRegistry;
    use crate::tool::workspace::Workspace;

    /// Runs a turn. Returns whether it failed, and the names of its events.
    async fn run_scripted_turn(
        session: Session,
        script: Vec<Reply>,
        place: &Path,
    ) -> (bool, Vec<&'static str>) {
        let (events, mut receiver) = EventSender::new_with_receiver();
        let mut tools = ToolRegistry::default();
        if place.is_dir() {
            let workspace = Arc::new(Workspace::open_root_folder(place).unwrap());
            for tool in builtin::unconfined_built_in_tools(&workspace) {
                tools.add(tool).unwrap();
            }
        }
        let mut agent = LiveAgent::new(AgentSpec {
            provider: Arc::new(Scripted::new(Script::new(script))),
            model: "m".to_owned(),
            temperature: None,
            max_tokens: None,
            tools,
            deferred: Arc::default(),
            hooks: Arc::default(),
            policy: Arc::new(ToolPolicy {
                mode: ToolPolicyOptions {
                    yes: true,
                    ..ToolPolicyOptions::default()
                },
                ..ToolPolicy::default()
            }),
            approver: Arc::new(AllowAllApprover),
            session: Arc::new(session),
            events,
            keep_in_store: Arc::new(|_, _, _| {}),
            config: AgentConfig::default(),
            workspace: place.to_owned(),
            parts: Vec::new(),
            skills: Arc::default(),
            presets: Arc::default(),
            plugins: Arc::default(),
            own_folders: Arc::default(),
            name: "main".into(),
            depth: 0,
            call_chain: Vec::new(),
            agent_loop: None,
            known: Arc::default(),
            live: RunningToolCallOutputs::default(),
            background: crate::tool::background::BackgroundCommands::default(),
            told: Arc::default(),
        });
        let cancel = CancellationToken::new();
        let outcome = agent
            .run_turn(TurnSpec::new("hello", Source::Terminal), &cancel)
            .await;
        let mut names = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            names.push(event.event.name());
        }
        (outcome.is_err(), names)
    }

    #[tokio::test]
    async fn a_turn_still_emits_its_end_event_if_the_disk_is_full() {
        for room in (0..10_000).step_by(100) {
            let (session, _) = Session::session_on_small_disk(room);
            let script = vec![Reply::text("done")];
            let (has_failed, names) = run_scripted_turn(session, script, Path::new("/none")).await;
            assert_eq!(names.last(), Some(&"turn-end"), "{room}");
            if !has_failed {
                assert!(room > 1_000, "{room}");
                assert!(!names.contains(&"error"));
                return;
            }
        }
        panic!("never enough room");
    }

    #[tokio::test]
    async fn a_tool_changes_files_only_after_its_call_is_on_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let arguments = serde_json::json!({"path": "new.txt", "content": "x"});
        let script = || {
            vec![
                Reply::call("write_file", arguments.clone()),
                Reply::text("done"),
            ]
        };
        let (has_failed, names) =
            run_scripted_turn(Session::session_on_broken_disk(), script(), place.path()).await;
        assert!(has_failed);
        assert_eq!(names.last(), Some(&"turn-end"));
        assert!(!place.path().join("new.txt").exists());

        let (session, _) = Session::session_on_small_disk(100_000);
        let (has_failed, _) = run_scripted_turn(session, script(), place.path()).await;
        assert!(!has_failed && place.path().join("new.txt").exists());
    }

    #[test]
    fn the_end_of_a_turn_shows_only_text_that_was_not_shown_yet() {
        let table = [
            ("all of it", "", "all of it"),
            ("all of it", "all of it\n", ""),
            ("one\ntwo", "onetwo", ""),
            ("all of it\n\n-- é", "all of it", "-- é"),
            ("other", "all of it", "other"),
            ("all", "all of it", "all"),
        ];
        for (output, shown, expected) in table {
            assert_eq!(
                find_unshown_output(output, shown),
                expected,
                "{output:?} {shown:?}"
            );
        }
    }
}
