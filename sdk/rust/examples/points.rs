//! One hook for each extension point, each with a typical use of the point. A plugin needs only a
//! few of them: copy those.
//!
//! `cargo build -p rind-sdk --example points --target wasm32-wasip2` builds its component.

#[rind_sdk::plugin]
mod points {
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::Value;

    /// Counts sessions.
    #[hook]
    fn session_start(session: SessionInfo) -> Result<Observed, Error> {
        let n_sessions: u32 = store::get_json("sessions")?.unwrap_or(0);
        let kind = if session.resumed { "resumed" } else { "fresh" };
        let text = (n_sessions + 1).to_string();
        Ok(Observed::default()
            .store("sessions", text)
            .log(Level::Info, kind))
    }

    /// Logs how many messages the session had.
    #[hook]
    fn session_end(session: SessionInfo) {
        log::info(format_args!("{} messages", session.messages));
    }

    /// Tells the model the date that the user means by "today".
    #[hook]
    fn turn_start(input: TurnInput) -> InputOutcome {
        if input.text.contains("today") {
            return InputOutcome::default().inject_once("Today is a Monday.");
        }
        InputOutcome::default()
    }

    /// Expands an abbreviation before the input is assessed.
    #[hook]
    fn pre_assess(input: TurnInput) -> InputOutcome {
        match input.text.strip_prefix("wip:") {
            Some(rest) => InputOutcome::replace(format!("Without committing anything: {rest}")),
            None => InputOutcome::default(),
        }
    }

    /// Asks the user first if the input mentions deleting.
    #[hook]
    fn post_assess(assessment: Assessment) -> AssessmentOutcome {
        if !assessment.input.contains("delete") {
            return AssessmentOutcome::default();
        }
        AssessmentOutcome::replace(Assessment {
            decision: Decision::AskFirst,
            reasons: vec!["it speaks of deleting".to_owned()],
            ..assessment
        })
    }

    /// Adds a part to the system prompt that stays the same for the whole session.
    #[hook]
    fn system_prompt(about: PromptContext) -> PromptOutcome {
        let text = format!("You have {} tools.", about.tools.len());
        PromptOutcome::part(PromptPart::new(Tier::Stable, "tools", text))
    }

    /// Removes the parts that a plugin added under the key `chatter`.
    #[hook]
    fn before_system_prompt(parts: Vec<PromptPart>) -> PartsOutcome {
        let chatty = parts
            .into_iter()
            .filter(|part| part.key.ends_with(":chatter"));
        PartsOutcome {
            remove: chatty.map(|part| part.key).collect(),
            ..PartsOutcome::default()
        }
    }

    /// Trims trailing whitespace from the finished system prompt.
    #[hook]
    fn after_system_prompt(text: &str) -> TextOutcome {
        match text.trim_end() {
            trimmed if trimmed.len() < text.len() => TextOutcome::replace(trimmed),
            _ => TextOutcome::default(),
        }
    }

    /// Reminds the model of the task at the end of a long conversation. Only the messages that the
    /// hook reads are copied from the host.
    #[hook]
    fn context(messages: &Conversation) -> ContextOutcome {
        if messages.len() < 100 {
            return ContextOutcome::default();
        }
        let first = messages.message(0).map(|message| message.text());
        ContextOutcome::default().append_message(format!("The task: {}", first.unwrap_or_default()))
    }

    /// Sends short conversations to a small model, and limits every answer.
    #[hook]
    fn pre_reason(request: ModelRequest) -> RequestOutcome {
        RequestOutcome {
            max_tokens: 1_000.into(),
            model: (request.messages < 3).then(|| "small-model".to_owned()),
            ..RequestOutcome::default()
        }
    }

    /// Adds a field to the request as it goes over the wire.
    #[hook]
    fn before_provider_request(request: &WireRequest) -> Result<WireOutcome, Error> {
        let mut body: Value = rind_sdk::serde_json::from_str(&request.text())?;
        body["metadata"] = "from rind".into();
        Ok(WireOutcome::replace(body.to_string()))
    }

    /// Hides a code name while the answer streams. The last word of a delta may be incomplete, so
    /// it is held back.
    #[hook]
    fn output_delta(delta: TextDelta) -> DeltaOutcome {
        let last = delta.text.rfind(' ').map_or(0, |space| space + 1);
        let keep = if delta.is_last {
            0
        } else {
            delta.text.len() - last
        };
        DeltaOutcome::replace(delta.text.replace("Bluebird", "[project]")).keep(keep)
    }

    /// Records how long the provider took.
    #[hook]
    fn after_provider_response(response: &WireResponse) -> Observed {
        let seconds = response.latency_ms() as f64 / 1_000.0;
        Observed::default().metric("provider.seconds", seconds)
    }

    /// Requests another step if the model only promises to do something.
    #[hook]
    fn post_reason(message: Message) -> ReplyOutcome {
        if message.text().ends_with("I will do that now.") {
            return ReplyOutcome::default().inject("Do it, then answer.");
        }
        ReplyOutcome::default()
    }

    /// Counts the words of every message.
    #[hook]
    fn message_end(message: Message) -> Observed {
        let words = message.text().split_whitespace().count();
        Observed::default().metric("message.words", words as f64)
    }

    /// Refuses to write lock files, and asks the user before a program runs.
    #[hook]
    fn pre_tool(call: ProposedCall) -> CallOutcome {
        if call.call.arguments.contains(".lock\"") {
            return CallOutcome::block("lock files are made by tools");
        }
        match call.effect_class {
            EffectClass::Execute => CallOutcome::ask("it runs a program"),
            _ => CallOutcome::pass(),
        }
    }

    /// Truncates a long result. The text of a short one is not copied from the host.
    #[hook]
    fn post_tool(finished: &FinishedCall) -> ResultOutcome {
        if finished.size() < 100_000 {
            return ResultOutcome::default();
        }
        ResultOutcome::replace(format!("{}\n[cut]", finished.content(0, 10_000)))
    }

    /// Drops text that was typed by mistake while the turn runs.
    #[hook]
    fn steering_received(input: TurnInput) -> SteeringOutcome {
        if input.text.trim().is_empty() {
            return SteeringOutcome::drop("it is empty");
        }
        SteeringOutcome::default()
    }

    /// Adds a criterion for a good answer if a tool call failed; otherwise declares the turn done.
    #[hook]
    fn pre_reflect(turn: Reflection) -> ReflectionOutcome {
        if turn.tools.iter().any(|tool| tool.is_error) {
            return ReflectionOutcome::criterion("It says which tool calls failed.");
        }
        ReflectionOutcome::done()
    }

    /// Overrides a reflection that asks for another step only because of style.
    #[hook]
    fn post_reflect(verdict: ReflectVerdict) -> VerdictOutcome {
        match verdict.continue_because {
            Some(reason) if reason.contains("style") => VerdictOutcome::done(),
            _ => VerdictOutcome::default(),
        }
    }

    /// Blocks an answer that contains the code name.
    #[hook]
    fn pre_output(output: &str) -> OutputOutcome {
        if output.contains("Bluebird") {
            return OutputOutcome::block("it names the project");
        }
        OutputOutcome::default()
    }

    /// Records the length of the shown text.
    #[hook]
    fn post_output(output: &str) -> Observed {
        Observed::default().metric("output.bytes", output.len() as f64)
    }

    /// Tells the person the usage of the turn.
    #[hook]
    fn turn_end(turn: TurnSummary) -> Observed {
        let text = format!("{} steps, ${:.2}", turn.steps, turn.cost_usd);
        Observed::default().notify(Level::Info, text)
    }

    /// Summarizes from the first and the last message, in place of the model.
    #[hook]
    fn before_compact(slice: &Slice) -> SliceOutcome {
        match (slice.message(0), slice.last()) {
            (Some(first), Some(last)) => {
                SliceOutcome::summary(format!("Asked: {}\nLast: {}", first.text(), last.text()))
            }
            _ => SliceOutcome::cancel("there is nothing to sum up"),
        }
    }

    /// Records how much was compacted.
    #[hook]
    fn after_compact(slice: &Slice) -> Observed {
        Observed::default().metric("compacted.messages", slice.len().into())
    }

    /// Prevents the archiving of short conversations.
    #[hook]
    fn before_archive(slice: &Slice) -> SliceOutcome {
        if slice.len() < 4 {
            return SliceOutcome::cancel("it is short");
        }
        SliceOutcome::default()
    }

    /// Logs the reason for archiving.
    #[hook]
    fn after_archive(slice: &Slice) {
        log::info(format_args!("archived: {}", slice.reason()));
    }

    /// Logs the task of a subagent.
    #[hook]
    fn subagent_start(agent: SubagentInfo) {
        log::info(format_args!("{} starts: {}", agent.id, agent.task));
    }

    /// Notifies the user of a subagent that failed.
    #[hook]
    fn subagent_end(agent: SubagentInfo) -> Observed {
        if agent.is_error {
            return Observed::default().notify(Level::Warn, agent.answer);
        }
        Observed::default()
    }

    /// Tells the person which tools an active skill allows.
    #[hook]
    fn skill_activated(skill: SkillInfo) -> Observed {
        match skill.allow {
            Some(allow) => Observed::default().notify(Level::Info, allow.join(", ")),
            None => Observed::default(),
        }
    }

    /// Logs why a skill ended.
    #[hook]
    fn skill_ended(skill: SkillInfo) {
        log::info(format_args!("{} ended: {}", skill.id, skill.reason));
    }

    /// Counts failures by the place where they happened.
    #[hook]
    fn error(failure: Failure) -> Observed {
        let place = failure.where_.replace('-', "_");
        Observed::default().metric(format!("failures.{place}"), 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::points::*;
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::json;
    use rind_sdk::testing;

    #[test]
    fn a_gate_judges_and_a_result_is_cut() {
        let call = testing::proposed_call("write_file", json!({ "path": "Cargo.lock" }));
        let outcome = __rind_hook_pre_tool(call).unwrap();
        assert!(matches!(outcome.verdict, CallVerdict::Block(_)));
        let long = testing::finished_call("read_file", "x".repeat(200_000));
        let outcome = __rind_hook_post_tool(&long).unwrap();
        let parts = outcome.content.unwrap();
        assert!(rind_sdk::text_of(&parts).ends_with("[cut]"));
    }

    #[test]
    fn a_word_that_may_go_on_is_held_back() {
        let delta = |text: &str, is_last| TextDelta {
            before: String::new(),
            text: text.to_owned(),
            is_last,
        };
        let outcome = __rind_hook_output_delta(delta("about Blue", false)).unwrap();
        assert_eq!(outcome.keep, 4);
        let outcome = __rind_hook_output_delta(delta("about Bluebird", true)).unwrap();
        assert_eq!(outcome.text.as_deref(), Some("about [project]"));
    }
}
