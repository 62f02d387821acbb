//! The one table of built-in extension points: name, kind, payload, outcome, aliases.
//!
//! Everything that must know every point is generated from this table with `for_each_point!`: the marker types below,
//! the host's bindings to components, `rind plugin inspect`. Tests hold it equal to `wit/` and to the table in `wit/README.md`.

use std::sync::Arc;

use super::Point;
use super::dispatch::PointKind;
use super::failure::OnFailure;
use super::merge::{Merge, MergeEnv, Merged};
use super::outcome as o;
use super::payload as p;

/// Payloads that can be large are shared: guests read them in parts through a handle (`wit/handles.wit`), and only a change
/// copies them.
///
/// Calls `$m!` with one row per built-in point:
/// `Marker, "name", wit_module, PointKind, Payload, Outcome, [aliases], "what may come back";`.
macro_rules! for_each_point {
    ($m:ident) => {
        $m! {
            SessionStart, "session-start", session_start, Observe, p::SessionInfo, o::Observed, [], "–";
            SessionEnd, "session-end", session_end, Observe, p::SessionInfo, o::Observed, [], "–";
            TurnStart, "turn-start", turn_start, Mutate, p::TurnInput, o::InputOutcome, ["before_turn", "before_agent_start", "loop.on_message"], "new text, inject, block";
            PreAssess, "pre-assess", pre_assess, Mutate, p::TurnInput, o::InputOutcome, [], "new text, inject, block";
            PostAssess, "post-assess", post_assess, Mutate, p::Assessment, o::AssessmentOutcome, [], "new assessment";
            SystemPrompt, "system-prompt", system_prompt, Collect, p::PromptContext, o::PromptOutcome, ["context.system_prompt"], "parts";
            BeforeSystemPrompt, "before-system-prompt", before_system_prompt, Mutate, Vec<p::PromptPart>, o::PartsOutcome, ["before_system_prompt"], "put, remove, replace parts";
            AfterSystemPrompt, "after-system-prompt", after_system_prompt, Mutate, String, o::TextOutcome, ["after_system_prompt", "transform_system_prompt"], "new text";
            Context, "context", context, Mutate, Arc<Vec<crate::message::Message>>, o::ContextOutcome, ["transform_history"], "edits, for this request only";
            PreReason, "pre-reason", pre_reason, Mutate, p::ModelRequest, o::RequestOutcome, ["loop.before_llm"], "model, parameters, active tools, inject, block";
            BeforeProviderRequest, "before-provider-request", before_provider_request, Mutate, Arc<p::WireRequest>, o::WireOutcome, ["before_provider_request"], "new body";
            OutputDelta, "output-delta", output_delta, Mutate, p::TextDelta, o::DeltaOutcome, [], "new text, how much of it to keep back, stop";
            AfterProviderResponse, "after-provider-response", after_provider_response, Observe, Arc<p::WireResponse>, o::Observed, ["after_provider_response"], "–";
            PostReason, "post-reason", post_reason, Mutate, crate::message::Message, o::ReplyOutcome, ["loop.after_llm"], "new text, inject (asks for another step), block";
            MessageEnd, "message-end", message_end, Observe, crate::message::Message, o::Observed, ["message_end"], "–";
            PreTool, "pre-tool", pre_tool, Gate, p::ProposedCall, o::CallOutcome, ["tool_call", "loop.before_tool"], "pass, change arguments, ask, block; a note";
            PostTool, "post-tool", post_tool, Mutate, Arc<p::FinishedCall>, o::ResultOutcome, ["tool_result", "loop.after_tool"], "new content, error flag, inject";
            SteeringReceived, "steering-received", steering_received, Mutate, p::TurnInput, o::SteeringOutcome, ["steering_received"], "pass, replace, drop, inject";
            PreReflect, "pre-reflect", pre_reflect, Mutate, p::Reflection, o::ReflectionOutcome, [], "new draft, criteria, \
             own verdict";
            PostReflect, "post-reflect", post_reflect, Mutate, p::ReflectVerdict, o::VerdictOutcome, [], "new verdict \
             (bounded)";
            PreOutput, "pre-output", pre_output, Mutate, String, o::OutputOutcome, ["loop.before_send"], "new text, block";
            PostOutput, "post-output", post_output, Observe, String, o::Observed, ["loop.after_send"], "–";
            TurnEnd, "turn-end", turn_end, Observe, p::TurnSummary, o::Observed, ["turn_end"], "–";
            BeforeCompact, "before-compact", before_compact, Gate, Arc<p::Slice>, o::SliceOutcome, ["session_before_compact"], "cancel, own summary";
            AfterCompact, "after-compact", after_compact, Observe, Arc<p::Slice>, o::Observed, ["session_compact"], "–";
            BeforeArchive, "before-archive", before_archive, Gate, Arc<p::Slice>, o::SliceOutcome, [], "cancel, own summary";
            AfterArchive, "after-archive", after_archive, Observe, Arc<p::Slice>, o::Observed, [], "–";
            SubagentStart, "subagent-start", subagent_start, Observe, p::SubagentInfo, o::Observed, [], "–";
            SubagentEnd, "subagent-end", subagent_end, Observe, p::SubagentInfo, o::Observed, [], "–";
            Error, "error", error, Observe, p::FailureReport, o::Observed, ["loop.on_error"], "–";
        }
    };
}
pub(crate) use for_each_point;

/// One built-in point, for tables and checks.
#[derive(Clone, Copy, Debug)]
pub struct PointRow {
    /// Name, that of its WIT interface.
    pub name: &'static str,
    /// Kind of the point.
    pub kind: PointKind,
    /// Names that other systems use; accepted in `plugin.toml`, nowhere else.
    pub aliases: &'static [&'static str],
    /// Description of what a hook may return.
    pub returns: &'static str,
    /// Names of what a hook may do, which `may` in a manifest can narrow.
    pub rights: &'static [&'static str],
}

impl PointRow {
    /// Default of `on_failure`: that of the kind of the point. Text that `output-delta` lets through is shown and
    /// cannot be taken back, so a hook that failed there must not have let it through.
    #[must_use]
    pub fn default_on_failure(&self) -> OnFailure {
        if self.name == OutputDelta::NAME {
            OnFailure::Block
        } else {
            self.kind.default_on_failure()
        }
    }
}

macro_rules! table {
    ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
        /// Every built-in point in the order of a session.
        pub const CATALOG: &[PointRow] = &[
            $(PointRow {
                name: $name,
                kind: PointKind::$kind,
                aliases: &[$($alias),*],
                returns: $returns,
                rights: <$outcome as Merge<$payload>>::RIGHTS,
            },)*
        ];

        $(
            #[doc = concat!("The point `", $name, "`.")]
            #[derive(Debug)]
            pub struct $marker;

            impl Point for $marker {
                const NAME: &'static str = $name;
                const KIND: PointKind = PointKind::$kind;
                type Payload = $payload;
                type Outcome = $outcome;

                fn merge(payload: &mut $payload, outcome: $outcome, env: &MergeEnv<'_>) -> Result<Merged, String> {
                    outcome.merge(payload, env)
                }
            }
        )*
    };
}
for_each_point!(table);

/// The row of a built-in point, by its name or one of its aliases.
#[must_use]
pub fn find(name: &str) -> Option<&'static PointRow> {
    CATALOG
        .iter()
        .find(|row| row.name == name || row.aliases.contains(&name))
}
