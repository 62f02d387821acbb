//! Points that plugins define: their declarations, and the only function that calls them.
//!
//! Payloads and results are checked against the owner's schemas. Permission to call is checked here
//! too: only the owner and the listed callers may call a point. Start from
//! [`PluginDefinedPoints::call_point`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::AnyPluginDefinedPoint;
use super::caller::Caller;
use super::dispatch::{ExtensionPointKind, HookDispatcher};
use super::handle::{HostFunctionError, PluginDefinedPointResult};
use super::payload::{PluginDefinedPointPayload, ToolArgumentsChecker};

/// Extension point of a plugin, as this plugin, its owner, declared it.
#[derive(Clone)]
pub struct PluginDefinedPoint {
    /// Kind of the point: gate, mutate, collect or observe.
    pub kind: ExtensionPointKind,
    /// Function that checks the payload which a caller passes.
    pub payload: Arc<ToolArgumentsChecker>,
    /// Function that checks the answer of an implementer.
    pub result: Arc<ToolArgumentsChecker>,
    /// Names of the plugins that may call the point, in addition to the plugin that defines it.
    pub callers: Vec<String>,
}

/// All points that plugins declare, keyed by `owner.NAME`.
#[derive(Clone, Default)]
pub struct PluginDefinedPoints {
    points: BTreeMap<String, PluginDefinedPoint>,
}

impl std::fmt::Debug for PluginDefinedPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.points.keys()).finish()
    }
}

impl PluginDefinedPoints {
    /// Adds a point. No other point has the same key, because plugin names are unique.
    pub fn add_extension_point(&mut self, owner: &str, name: &str, point: PluginDefinedPoint) {
        self.points.insert(format!("{owner}.{name}"), point);
    }

    /// Returns the point with the full name `owner.NAME`.
    #[must_use]
    pub fn get(&self, full_name: &str) -> Option<&PluginDefinedPoint> {
        self.points.get(full_name)
    }

    /// Calls every implementer of a point through the dispatcher, on behalf of `plugin`. `name` is
    /// either `owner.NAME`, or `NAME` for a point that the plugin itself defines. The call chain of
    /// `caller` already contains the plugin, so the plugin's own implementation is skipped.
    pub async fn call_point(
        &self,
        dispatcher: &HookDispatcher,
        plugin: &str,
        name: &str,
        value: Value,
        caller: &Caller,
    ) -> Result<PluginDefinedPointResult, HostFunctionError> {
        let (owner, name) = name.split_once('.').unwrap_or((plugin, name));
        let full_name = format!("{owner}.{name}");
        let point = self.points.get(&full_name).ok_or_else(|| {
            HostFunctionError::NotFound(format!(
                "plugin `{owner}` declares no point `{name}`; add [points.{name}] to its \
             plugin.toml"
            ))
        })?;
        if plugin != owner && !point.callers.iter().any(|allowed| allowed == plugin) {
            return Err(HostFunctionError::Denied(format!(
                "plugin `{plugin}` may not call `{full_name}`; the owner of the point can allow it with `callers = [\"{plugin}\"]` \
                 under [points.{name}] in its plugin.toml"
            )));
        }
        (point.payload)(&value).map_err(|e| {
            HostFunctionError::InvalidInput(format!(
                "the payload of `{full_name}` does not fit its schema: {e}"
            ))
        })?;
        // At a gate or mutate point, the answer of one implementer becomes the payload of the next,
        // so it must fit the schemas of both result and payload.
        let (payload, result) = (point.payload.clone(), point.result.clone());
        let is_chain = point.kind.runs_hooks_in_order();
        let check: Arc<ToolArgumentsChecker> = Arc::new(move |answer| {
            result(answer)?;
            if is_chain { payload(answer) } else { Ok(()) }
        });
        let payload = PluginDefinedPointPayload {
            value,
            collected: Vec::new(),
            kind: point.kind,
            check,
        };
        let done = dispatcher
            .dispatch_extension_point_by_name::<AnyPluginDefinedPoint>(
                Cow::Owned(full_name),
                point.kind,
                caller,
                payload,
            )
            .await;
        let value = match point.kind {
            ExtensionPointKind::Gate | ExtensionPointKind::Mutate => done.value.value,
            ExtensionPointKind::Collect => Value::Array(done.value.collected),
            ExtensionPointKind::Observe => Value::Null,
        };
        Ok(PluginDefinedPointResult {
            value,
            verdict: done.verdict,
        })
    }
}
