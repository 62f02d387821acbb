//! The next version of the contract, `next.wit`, as the host serves it when the feature `evolution` is on: an example of what
//! a further version costs, its differences.

use wasmtime::Store;
use wasmtime::component::{HasSelf, Instance, InstancePre, LinkerInstance};

use self::rind::plugin::{outcomes, payloads, types};
use super::super::bindings::rind::plugin::{outcomes as wo, payloads as wp, state};
use super::super::convert::{GuestFunctionArgument, GuestPayload};
use super::super::hooks::{CurrentContractVersion, TypedHookBinder, VersionedExtensionPoint};
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use super::ContractVersionDifferences;
use crate::point::{catalog, outcome as o, payload as p};

wasmtime::component::bindgen!({
    path: "../tests/evolution/next.wit",
    world: "rind:plugin/next",
    imports: { default: async | trappable },
    exports: { default: async },
    // It did not change, so its types are those of the other version.
    with: { "rind:plugin/types@0.2.0": crate::point::contract::types },
});

/// Row in the table of versions.
pub(super) const VERSION: ContractVersionDifferences = ContractVersionDifferences {
    number: "0.2.0",
    imports: &[("state", link_state)],
    points: &[
        (
            "pre-output",
            "pre-output",
            &TypedHookBinder::<catalog::PreOutput, V0_2>::SINGLETON,
        ),
        (
            "turn-end",
            "turn-end",
            &TypedHookBinder::<catalog::TurnEnd, V0_2>::SINGLETON,
        ),
        (
            "turn-done",
            "post-output",
            &TypedHookBinder::<catalog::PostOutput, V0_2>::SINGLETON,
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

/// The interface of a point; with `as it is`, also the call of one whose payload is a text that did not change.
macro_rules! guest {
    ($module:ident, as it is) => {
        guest!($module);

        async fn call_guest(
            guest: &Self::GuestInterface,
            store: &mut Store<HostState>,
            text: &String,
        ) -> wasmtime::Result<Result<Self::Answer, types::Error>> {
            guest.call_run(store, text).await
        }
    };
    ($module:ident) => {
        type GuestInterface = exports::rind::plugin::$module::Guest;

        fn find_guest_interface(
            pre: &InstancePre<HostState>,
            store: &mut Store<HostState>,
            instance: &Instance,
        ) -> wasmtime::Result<Self::GuestInterface> {
            exports::rind::plugin::$module::GuestIndices::new(pre)?.load(store, instance)
        }
    };
}

impl VersionedExtensionPoint<V0_2> for catalog::TurnEnd {
    guest!(turn_end);
    type Answer = outcomes::Observed;

    async fn call_guest(
        guest: &Self::GuestInterface,
        store: &mut Store<HostState>,
        turn: &p::TurnSummary,
    ) -> wasmtime::Result<Result<Self::Answer, types::Error>> {
        let before = turn.to_guest_form(&mut store.data_mut().call);
        let before = before.as_passed_value();
        let stop = match before.stop {
            wp::StopReason::Done if turn.tool_calls > 0 => payloads::StopReason::Worked,
            wp::StopReason::Done => payloads::StopReason::Done,
            wp::StopReason::MaxSteps => payloads::StopReason::MaxSteps,
            wp::StopReason::Blocked => payloads::StopReason::Blocked,
            wp::StopReason::Cancelled => payloads::StopReason::Cancelled,
            wp::StopReason::Failed => payloads::StopReason::Failed,
        };
        let shown = payloads::TurnSummary {
            stop,
            steps: before.steps,
            tool_calls: before.tool_calls,
            usage: before.usage,
            cost_usd: before.cost_usd,
            unpriced_tokens: before.unpriced_tokens,
            duration_ms: before.duration_ms,
            output: before.output.clone(),
            calls_per_step: f64::from(turn.tool_calls) / f64::from(turn.steps.max(1)),
        };
        guest.call_run(store, &shown).await
    }

    fn convert_answer_to_outcome(
        answer: Self::Answer,
        sanitizer: GuestTextSanitizer<'_>,
    ) -> o::Observed {
        <Self as VersionedExtensionPoint<CurrentContractVersion>>::convert_answer_to_outcome(
            observed(answer),
            sanitizer,
        )
    }
}

impl VersionedExtensionPoint<V0_2> for catalog::PreOutput {
    guest!(pre_output, as it is);
    type Answer = outcomes::OutputOutcome;

    fn convert_answer_to_outcome(
        mut answer: Self::Answer,
        sanitizer: GuestTextSanitizer<'_>,
    ) -> o::OutputOutcome {
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
        <Self as VersionedExtensionPoint<CurrentContractVersion>>::convert_answer_to_outcome(
            before, sanitizer,
        )
    }
}

impl VersionedExtensionPoint<V0_2> for catalog::PostOutput {
    guest!(turn_done, as it is);
    type Answer = outcomes::Observed;

    fn convert_answer_to_outcome(
        answer: Self::Answer,
        sanitizer: GuestTextSanitizer<'_>,
    ) -> o::Observed {
        <Self as VersionedExtensionPoint<CurrentContractVersion>>::convert_answer_to_outcome(
            observed(answer),
            sanitizer,
        )
    }
}

/// Converts an outcome whose fields are the same.
fn observed(answer: outcomes::Observed) -> wo::Observed {
    let effects = answer.effects;
    wo::Observed { effects }
}
