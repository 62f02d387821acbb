//! The next version of the contract, `next.wit`, as the host serves it when the feature `evolution` is on: an example of what
//! a further version costs, its differences.

use wasmtime::component::{HasSelf, LinkerInstance};

use self::rind::plugin::{outcomes, payloads, types};
use super::super::bindings::rind::plugin::{outcomes as wo, payloads as wp, state};
use super::super::hooks::{Current, Typed, Wire};
use super::super::host::{CurrentCall, HostState};
use super::super::sanitize::Sanitizer;
use super::ContractVersion;
use crate::point::{catalog, outcome as o, payload as p};

wasmtime::component::bindgen!({
    path: "../tests/evolution/next.wit",
    world: "rind:plugin/next",
    imports: { default: async | trappable },
    // It did not change, so its types are those of the other version.
    with: { "rind:plugin/types@0.2.0": crate::point::contract::types },
});

/// Row in the table of versions.
pub(super) const VERSION: ContractVersion = ContractVersion {
    number: "0.2.0",
    imports: &[("state", link_state)],
    points: &[
        (
            "pre-output",
            "pre-output",
            &Typed::<catalog::PreOutput, V0_2>::BINDING,
        ),
        (
            "turn-end",
            "turn-end",
            &Typed::<catalog::TurnEnd, V0_2>::BINDING,
        ),
        (
            "turn-done",
            "post-output",
            &Typed::<catalog::PostOutput, V0_2>::BINDING,
        ),
    ],
};

/// The types of version 0.2.
struct V0_2;

/// Links what there was, and the function that came.
fn link_state(instance: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    state::add_to_linker_instance::<_, HasSelf<_>>(instance, |state| state)?;
    instance.func_wrap("count", |store, (prefix,): (String,)| {
        let backing = &store.data().backing;
        let keys = backing.handle.state_keys(&backing.keeper, &prefix);
        Ok((u32::try_from(keys.len()).unwrap_or(u32::MAX),))
    })
}

impl Wire<V0_2> for catalog::TurnEnd {
    type Shown = payloads::TurnSummary;
    type Answer = outcomes::Observed;

    fn show(turn: &p::TurnSummary, call: &mut CurrentCall) -> Self::Shown {
        let before = <Self as Wire<Current>>::show(turn, call);
        let stop = match before.stop {
            wp::StopReason::Done if turn.tool_calls > 0 => payloads::StopReason::Worked,
            wp::StopReason::Done => payloads::StopReason::Done,
            wp::StopReason::MaxSteps => payloads::StopReason::MaxSteps,
            wp::StopReason::Blocked => payloads::StopReason::Blocked,
            wp::StopReason::Cancelled => payloads::StopReason::Cancelled,
            wp::StopReason::Failed => payloads::StopReason::Failed,
        };
        payloads::TurnSummary {
            stop,
            steps: before.steps,
            tool_calls: before.tool_calls,
            usage: before.usage,
            cost_usd: before.cost_usd,
            unpriced_tokens: before.unpriced_tokens,
            duration_ms: before.duration_ms,
            output: before.output,
            calls_per_step: f64::from(turn.tool_calls) / f64::from(turn.steps.max(1)),
        }
    }

    fn outcome(answer: Self::Answer, sanitizer: Sanitizer<'_>) -> o::Observed {
        <Self as Wire<Current>>::outcome(observed(answer), sanitizer)
    }
}

impl Wire<V0_2> for catalog::PreOutput {
    type Shown = String;
    type Answer = outcomes::OutputOutcome;

    fn show(output: &String, call: &mut CurrentCall) -> String {
        <Self as Wire<Current>>::show(output, call)
    }

    fn outcome(mut answer: Self::Answer, sanitizer: Sanitizer<'_>) -> o::OutputOutcome {
        let level = types::Level::Info;
        let notice = answer
            .notice
            .map(|text| types::Effect::Notify(types::LogLine { level, text }));
        answer.effects.extend(notice);
        let before = wo::OutputOutcome {
            text: answer.text,
            block: answer.block,
            effects: answer.effects,
        };
        <Self as Wire<Current>>::outcome(before, sanitizer)
    }
}

impl Wire<V0_2> for catalog::PostOutput {
    type Shown = String;
    type Answer = outcomes::Observed;

    fn show(output: &String, call: &mut CurrentCall) -> String {
        <Self as Wire<Current>>::show(output, call)
    }

    fn outcome(answer: Self::Answer, sanitizer: Sanitizer<'_>) -> o::Observed {
        <Self as Wire<Current>>::outcome(observed(answer), sanitizer)
    }
}

/// Converts an outcome whose fields are the same.
fn observed(answer: outcomes::Observed) -> wo::Observed {
    let effects = answer.effects;
    wo::Observed { effects }
}
