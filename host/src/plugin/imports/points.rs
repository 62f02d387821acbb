//! `rind:plugin/points`: calling the implementers of points that plugins define.

use super::super::bindings::rind::plugin::{points, types};
use super::super::host::HostState;
use super::super::limits::MAX_POINT_CALLS;
use super::super::sanitize::Sanitizer;
use crate::json;
use crate::point::dispatch::{AttributedText, HookVerdict};
use crate::point::handle::HandleError;

impl points::Host for HostState {
    async fn call(
        &mut self,
        name: String,
        payload: String,
    ) -> wasmtime::Result<Result<points::Answer, types::Error>> {
        let Some(left) = self.call.point_calls_left.checked_sub(1) else {
            let limit = HandleError::Limit(format!(
                "at most {MAX_POINT_CALLS} calls of points in one call of the plugin"
            ));
            return Ok(Err(limit.into()));
        };
        self.call.point_calls_left = left;
        let payload = Sanitizer::of(self, "points").json("payload", payload);
        let payload = match json::parse(&payload, json::MAX_BYTES) {
            Ok(payload) => payload,
            Err(e) => {
                return Ok(Err(
                    HandleError::InvalidInput(format!("the payload {e}")).into()
                ));
            }
        };
        let backing = self.backing.clone();
        let caller = self.call.caller.caused_by(&backing.plugin);
        let answer = backing
            .handle
            .call_point(&backing.plugin, &name, payload, caller)
            .await;
        let objection = |said: AttributedText| points::Objection {
            plugin: said.plugin.to_string(),
            reason: said.text,
        };
        let answer = answer.map(|answer| points::Answer {
            value: answer.value.to_string(),
            verdict: match answer.verdict {
                HookVerdict::Pass => points::Verdict::Pass,
                HookVerdict::Ask(said) => {
                    points::Verdict::Ask(said.into_iter().map(objection).collect())
                }
                HookVerdict::Block(said) => points::Verdict::Block(objection(said)),
            },
        });
        Ok(answer.map_err(Into::into))
    }
}
