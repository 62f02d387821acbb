//! Points that plugins define: their declarations, and the one way to call them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::PluginPoint;
use super::caller::Caller;
use super::dispatch::{Dispatcher, PointKind};
use super::handle::{HandleError, PointAnswer};
use super::payload::{CheckArguments, PluginPayload};

/// One declared point.
#[derive(Clone)]
pub struct DefinedPoint {
    /// Kind of the point.
    pub kind: PointKind,
    /// Checks what the owner passes.
    pub payload: Arc<CheckArguments>,
    /// Checks what an implementer answers.
    pub result: Arc<CheckArguments>,
    /// Names of the plugins that may call it besides its owner.
    pub callers: Vec<String>,
}

/// Every declared point, by `owner.NAME`.
#[derive(Clone, Default)]
pub struct DefinedPoints {
    points: BTreeMap<String, DefinedPoint>,
}

impl std::fmt::Debug for DefinedPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.points.keys()).finish()
    }
}

impl DefinedPoints {
    /// Adds a point. Names are unique because plugins' names are.
    pub fn add(&mut self, owner: &str, name: &str, point: DefinedPoint) {
        self.points.insert(format!("{owner}.{name}"), point);
    }

    /// The point of a full name.
    #[must_use]
    pub fn get(&self, full_name: &str) -> Option<&DefinedPoint> {
        self.points.get(full_name)
    }

    /// Calls every implementer of a point through the dispatcher, for `plugin`: `name` is that of a point of its own, or
    /// `owner.NAME`. `caller` already counts the plugin among the causes, so one that implements the point itself is left out.
    pub async fn call(
        &self,
        dispatcher: &Dispatcher,
        plugin: &str,
        name: &str,
        value: Value,
        caller: &Caller,
    ) -> Result<PointAnswer, HandleError> {
        let (owner, name) = name.split_once('.').unwrap_or((plugin, name));
        let full_name = format!("{owner}.{name}");
        let point = self.points.get(&full_name).ok_or_else(|| {
            HandleError::NotFound(format!(
                "plugin `{owner}` declares no point `{name}`; add [points.{name}] to its \
             plugin.toml"
            ))
        })?;
        if plugin != owner && !point.callers.iter().any(|allowed| allowed == plugin) {
            return Err(HandleError::Denied(format!(
                "plugin `{plugin}` may not call `{full_name}`; the owner of the point lets it with `callers = [\"{plugin}\"]` \
                 under [points.{name}] in its plugin.toml"
            )));
        }
        (point.payload)(&value).map_err(|e| {
            HandleError::InvalidInput(format!(
                "the payload of `{full_name}` does not fit its schema: {e}"
            ))
        })?;
        // At a chain, what an implementer answers becomes the next one's payload, so it must fit both schemas.
        let (payload, result) = (point.payload.clone(), point.result.clone());
        let is_chain = point.kind.is_chain();
        let check: Arc<CheckArguments> = Arc::new(move |answer| {
            result(answer)?;
            if is_chain { payload(answer) } else { Ok(()) }
        });
        let payload = PluginPayload {
            value,
            collected: Vec::new(),
            kind: point.kind,
            check,
        };
        let done = dispatcher
            .dispatch_named::<PluginPoint>(Cow::Owned(full_name), point.kind, caller, payload)
            .await;
        let value = match point.kind {
            PointKind::Gate | PointKind::Mutate => done.value.value,
            PointKind::Collect => Value::Array(done.value.collected),
            PointKind::Observe => Value::Null,
        };
        Ok(PointAnswer {
            value,
            verdict: done.verdict,
        })
    }
}
