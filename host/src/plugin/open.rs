//! Loaded plugins in one session: their hooks in a registry, their tools, the points they define.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::hooks::{self, WasmHooks, WasmImplement};
use super::instance::Slot;
use super::load::{Loaded, PluginSet};
use super::manifest::{HookOptions, PointDeclaration, SideEffect};
use super::tools::WasmTool;
use crate::point::catalog::PointRow;
use crate::point::defined::{DefinedPoint, DefinedPoints};
use crate::point::dispatch::Kind;
use crate::point::handle::AgentHandle;
use crate::point::registry::{DEFAULT_PRIORITY, HookSpec, Registry};
use crate::tool::{SharedTool, schema};

/// Deadline of a hook, from the pipeline design that its stages come from.
const HOOK_DEADLINE: Duration = Duration::from_secs(5);

/// Deadline of a hook that nobody waits for; same source.
const ASYNC_DEADLINE: Duration = Duration::from_secs(15);

/// What plugins bring to one session.
#[derive(Default)]
pub struct OpenPlugins {
    /// Their hooks.
    pub registry: Registry,
    /// Their tools.
    pub tools: Vec<SharedTool>,
    /// The points they define.
    pub points: DefinedPoints,
}

impl PluginSet {
    /// Makes the plugins ready for a session that they reach through `handle`. No instance is made before it is called.
    pub fn open(&self, handle: &Arc<dyn AgentHandle>) -> Result<OpenPlugins, Error> {
        let mut open = OpenPlugins::default();
        for plugin in &self.plugins {
            for (name, point) in &plugin.manifest.points {
                open.points
                    .add(&plugin.manifest.name, name, defined(name, point)?);
            }
            if let Some(template) = &plugin.template {
                let slot = Arc::new(Slot::new(template.clone(), plugin.backing(handle.clone())));
                plugin.open(&slot, &mut open);
            }
        }
        Ok(open)
    }
}

impl Loaded {
    fn open(&self, slot: &Arc<Slot>, open: &mut OpenPlugins) {
        let hooks = Arc::new(WasmHooks { slot: slot.clone() });
        let spec = |row: &PointRow| self.spec(row.name, row.kind, &self.manifest.hook(row.name));
        hooks::bind(&mut open.registry, &hooks, self, &spec);
        for (point, options) in &self.manifest.implements {
            // Whether it is a gate is its owner's say; an implementer that fails is skipped unless it says otherwise.
            let spec = self.spec(point, Kind::Mutate, options);
            open.registry.add(
                spec,
                Arc::new(WasmImplement {
                    slot: slot.clone(),
                    point: point.clone(),
                }),
            );
        }
        for spec in &self.tools {
            open.tools.push(Arc::new(WasmTool {
                spec: spec.clone(),
                slot: slot.clone(),
            }));
        }
    }

    /// A hook's options: the operator's over the manifest's over the defaults. A deadline can only be lowered.
    pub(super) fn spec(&self, point: &str, kind: Kind, options: &HookOptions) -> HookSpec {
        let operator = self.settings.hooks.get(point).cloned().unwrap_or_default();
        let is_async = options.is_async || operator.is_async && kind == Kind::Observe;
        let ceiling = if is_async {
            ASYNC_DEADLINE
        } else {
            HOOK_DEADLINE
        };
        let wanted = [
            operator.timeout,
            options.timeout,
            self.manifest.limits.timeout,
        ];
        HookSpec {
            plugin: Arc::from(self.manifest.name.as_str()),
            point: point.to_owned(),
            priority: operator
                .priority
                .or(options.priority)
                .unwrap_or(DEFAULT_PRIORITY),
            deadline: wanted.into_iter().flatten().fold(ceiling, Duration::min),
            on_failure: operator
                .on_failure
                .or(options.on_failure)
                .unwrap_or(kind.default_on_failure()),
            is_async,
            may_change: self.manifest.has(SideEffect::Session),
        }
    }
}

fn defined(name: &str, point: &PointDeclaration) -> Result<DefinedPoint, Error> {
    let compile = |which: &str, declared: &Option<Value>| match declared {
        None => Ok(schema::any()),
        Some(declared) => schema::compile_any(declared).map_err(|e| Error::UnknownPoint {
            point: name.to_owned(),
            why: format!("its `{which}` is not a JSON Schema: {e}"),
        }),
    };
    Ok(DefinedPoint {
        kind: point.kind,
        payload: compile("payload", &point.payload)?,
        result: compile("result", &point.result)?,
    })
}
