//! `rind:plugin/points`: lets a plugin call the plugins that implement a plugin-defined point.

use super::super::bindings::rind::plugin::points;
use super::super::host::HostState;
use super::super::limits::MAX_POINT_CALLS_PER_PLUGIN_CALL;
use super::super::sanitize::GuestTextSanitizer;
use crate::json;
use crate::point::dispatch::{CombinedHookVerdict, PluginAttributedText};
use crate::point::handle::HostFunctionError;

impl points::Host for HostState {
    async fn call(
        &mut self,
        name: String,
        payload: String,
    ) -> Result<points::Answer, HostFunctionError> {
        let Some(left) = self.call.point_calls_left.checked_sub(1) else {
            return Err(HostFunctionError::Limit(format!(
                "a plugin may call points at most {MAX_POINT_CALLS_PER_PLUGIN_CALL} times in one call of the plugin"
            )));
        };
        self.call.point_calls_left = left;
        let payload =
            GuestTextSanitizer::for_current_guest_call(self, "points").json("payload", payload);
        let payload = json::parse_json(&payload, json::DEFAULT_MAX_JSON_BYTES)
            .map_err(|e| HostFunctionError::InvalidInput(format!("the payload {e}")))?;
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let called =
            backing
                .handle
                .call_plugin_defined_point(&backing.plugin, &name, payload, caller);
        let answer = called.await?;
        let objection = |said: PluginAttributedText| points::Objection {
            plugin: said.plugin.to_string(),
            reason: said.text,
        };
        Ok(points::Answer {
            value: answer.value.to_string(),
            verdict: match answer.verdict {
                CombinedHookVerdict::Pass => points::Verdict::Pass,
                CombinedHookVerdict::Ask(said) => {
                    points::Verdict::Ask(said.into_iter().map(objection).collect())
                }
                CombinedHookVerdict::Block(said) => points::Verdict::Block(objection(said)),
            },
        })
    }
}
