//! Answers of the hooks.

use rind_sdk::prelude::*;
use std::fmt::Debug;

/// Remembers in the session what a hook was shown.
fn saw(point: &str, what: impl Debug) -> Result<(), Error> {
    state::set(point, &format!("{what:?}"))
}

/// Answers of hooks that only look at a record or a text.
pub(crate) fn observed(point: &str, shown: &dyn Debug) -> Result<Observed, Error> {
    saw(point, shown)?;
    if point != "session-start" {
        return Ok(Observed::default());
    }
    Ok(Observed::default()
        .log(Level::Debug, "a line")
        .metric("seen.count", 1.5)
        .store("seen", "yes")
        .notify(Level::Warn, "a notice\u{1b}[31m"))
}

pub(crate) fn turn_start(input: TurnInput) -> Result<InputOutcome, Error> {
    saw(
        "turn-start",
        (
            caller::turn(),
            caller::step(),
            caller::agent(),
            caller::depth(),
            caller::tokens_used(),
            caller::cost_usd(),
            caller::tool_calls(),
        ),
    )?;
    saw(
        "caller",
        (
            caller::session(),
            caller::workspace(),
            caller::model(),
            caller::skill(),
            caller::usage().output_tokens,
            caller::unpriced_tokens(),
        ),
    )?;
    Ok(InputOutcome::replace(input.text + " turn-start")
        .inject("kept")
        .inject_once("once"))
}

pub(crate) fn pre_assess(input: TurnInput) -> InputOutcome {
    InputOutcome::block(format!("{:?} {}", input.source, input.text))
}

pub(crate) fn post_assess(assessment: Assessment) -> AssessmentOutcome {
    let mut reasons = assessment.reasons;
    reasons.push(format!("was {:?}", assessment.decision));
    AssessmentOutcome::replace(Assessment {
        input: "ignored".to_owned(),
        decision: Decision::Plan,
        confidence: assessment.confidence / 2.0,
        reasons,
    })
}

pub(crate) fn system_prompt(context: PromptContext) -> PromptOutcome {
    let text = format!(
        "{} {:?} {:?}",
        context.model, context.tools, context.decision
    );
    PromptOutcome::part(PromptPart::new(Tier::Volatile, "every-point", text))
}

pub(crate) fn before_system_prompt(parts: Vec<PromptPart>) -> PartsOutcome {
    let put = parts
        .iter()
        .map(|part| PromptPart::new(part.tier, part.key.clone(), part.text.to_uppercase()));
    PartsOutcome {
        put: put.skip(1).collect(),
        remove: vec![parts[0].key.clone()],
        ..PartsOutcome::default()
    }
}

pub(crate) fn after_system_prompt(text: String) -> TextOutcome {
    TextOutcome::replace(text + " after")
}

pub(crate) fn context(messages: &Conversation) -> Result<ContextOutcome, Error> {
    saw(
        "context",
        messages
            .iter()
            .map(|message| (message.role, message.content.len()))
            .collect::<Vec<_>>(),
    )?;
    let mut outcome = ContextOutcome::default().append_message("at the end");
    for message in messages.iter() {
        for part in &message.content {
            outcome = match part {
                Content::Text(text) => {
                    outcome.replace_message(message.id.clone(), text.to_uppercase())
                }
                Content::ToolResult(_) => outcome.drop_message(message.id.clone()),
                Content::ToolCall(_) | Content::Thinking(_) | Content::Blob(_) => outcome,
            };
        }
    }
    Ok(outcome)
}

pub(crate) fn pre_reason(request: ModelRequest) -> Result<RequestOutcome, Error> {
    saw(
        "pre-reason",
        (
            request.provider,
            request.usage.input_tokens,
            request.messages,
        ),
    )?;
    Ok(RequestOutcome {
        model: Some(request.model + "-mini"),
        temperature: (request.temperature.unwrap_or(1.0) / 2.0).into(),
        max_tokens: (request.max_tokens.unwrap_or(10) + 1).into(),
        tools: NamesChange::Set(request.tools.into_iter().take(1).collect()),
        ..RequestOutcome::default()
    }
    .inject("kept")
    .inject_once("once"))
}

pub(crate) fn before_provider_request(request: &WireRequest) -> WireOutcome {
    WireOutcome::replace(request.text().replace("\"a\"", "\"b\""))
}

pub(crate) fn output_delta(delta: TextDelta) -> DeltaOutcome {
    match &*delta.text {
        "secret" => DeltaOutcome::stop("it is a secret"),
        text => DeltaOutcome::replace(format!("{}+{text}+{}", delta.before, delta.is_last))
            .keep(if delta.is_last { 0 } else { 2 }),
    }
}

pub(crate) fn after_provider_response(response: &WireResponse) -> Result<(), Error> {
    saw(
        "after-provider-response",
        (
            response.purpose(),
            response.provider(),
            response.status(),
            response.latency_ms(),
            response.text(),
        ),
    )
}

pub(crate) fn post_reason(message: Message) -> ReplyOutcome {
    ReplyOutcome::replace(format!("{:?}", message.role)).inject("go on")
}

pub(crate) fn pre_tool(call: ProposedCall) -> Result<CallOutcome, Error> {
    saw("pre-tool", (call.effect_class, call.plugin))?;
    let outcome = match call.call.name.as_str() {
        "ask" => CallOutcome::ask("sure?"),
        "block" => CallOutcome::block("never"),
        "change" => CallOutcome::change(call.call.arguments.replace("\"a\"", "\"b\"")),
        _ => CallOutcome::pass(),
    };
    Ok(outcome.with_note("noted"))
}

pub(crate) fn post_tool(call: &FinishedCall) -> ResultOutcome {
    let text = format!(
        "{} of {:?} took {} ms: {}",
        call.call().name,
        call.plugin(),
        call.duration_ms(),
        call.text()
    );
    let mut outcome = ResultOutcome::replace(text).inject("look");
    outcome.is_error = Some(!call.is_error());
    outcome
}

pub(crate) fn steering_received(input: TurnInput) -> SteeringOutcome {
    match input.text.as_str() {
        "drop" => SteeringOutcome::drop("not now"),
        text => SteeringOutcome::replace(text.to_uppercase()).inject("steered"),
    }
}

pub(crate) fn pre_reflect(reflection: Reflection) -> ReflectionOutcome {
    let mut outcome =
        ReflectionOutcome::replace(format!("{} for {}", reflection.draft, reflection.input));
    outcome.criteria = reflection
        .tools
        .iter()
        .map(|tool| format!("{} {}", tool.name, tool.is_error))
        .collect();
    outcome
}

pub(crate) fn post_reflect(verdict: ReflectVerdict) -> VerdictOutcome {
    match verdict.continue_because {
        None => VerdictOutcome::again(format!("not {}", verdict.draft)),
        Some(_) => VerdictOutcome {
            verdict: VerdictChange::Done,
            ..VerdictOutcome::default()
        },
    }
}

pub(crate) fn pre_output(text: String) -> OutputOutcome {
    match text.as_str() {
        "secret" => OutputOutcome::block("it is a secret"),
        text => OutputOutcome::replace(text.to_uppercase()),
    }
}

pub(crate) fn before_compact(slice: &Slice) -> SliceOutcome {
    SliceOutcome::summary(format!("{} messages, {}", slice.len(), slice.reason()))
}

pub(crate) fn after_compact(slice: &Slice) -> Result<(), Error> {
    saw("after-compact", slice.summary())
}

pub(crate) fn before_archive(slice: &Slice) -> SliceOutcome {
    SliceOutcome::cancel(slice.reason())
}

pub(crate) fn after_archive(slice: &Slice) -> Result<(), Error> {
    saw("after-archive", slice.summary())
}
