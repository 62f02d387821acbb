//! `rind:plugin/points`: calling the implementers of a plugin's own points.

use super::super::bindings::rind::plugin::{points, types};
use super::super::host::HostState;
use super::super::limits::MAX_POINT_CALLS;
use super::super::sanitize::Sanitizer;
use crate::json;
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
        let answer = answer.map(|answer| points::Answer {
            value: answer.value.to_string(),
            blocked: answer.blocked,
        });
        Ok(answer.map_err(Into::into))
    }
}
