//! Finds the contract's interfaces that a component exports, and loads their functions from an
//! instance.
//!
//! The interfaces are looked up by the names that the component uses, so that hooks of a component
//! built against an older contract version are bound with the types of that version.

use std::any::Any;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower,
    TypedFunc,
};
use wasmtime::{Engine, Store};

use super::bindings::exports::rind::plugin::commands::{CommandOutcome, CommandSpec};
use super::bindings::exports::rind::plugin::implement::Outcome;
use super::bindings::exports::rind::plugin::loop_::LoopOutcome;
use super::bindings::exports::rind::plugin::tools::ToolSpec;
use super::bindings::rind::plugin::types::{Answer, Error};
use super::contract;
use super::hooks::VersionedHookBinder;
use super::host::HostState;

/// Interfaces that are not points, each with its functions. A component that exports such an
/// interface without all of its functions is refused at load.
pub(super) const NON_HOOK_EXPORT_FUNCTIONS: &[(&str, &[&str])] = &[
    ("tools", &["list", "call"]),
    ("implement", &["run"]),
    ("loop", &["run"]),
    ("agent-loop", &["run"]),
    ("commands", &["list", "run"]),
];

pub(super) struct ExportedHook {
    pub(super) point: &'static str,
    /// Types of the point in the contract version that the component was built against.
    pub(super) binding: &'static dyn VersionedHookBinder,
}

/// Interfaces of the plugin contract that a component exports.
#[derive(Default)]
pub(super) struct ComponentExports {
    pub(super) hooks: Vec<ExportedHook>,
    tools: Option<[ComponentExportIndex; 2]>,
    implement: Option<ComponentExportIndex>,
    run_loop: Option<ComponentExportIndex>,
    run_agent_loop: Option<ComponentExportIndex>,
    commands: Option<[ComponentExportIndex; 2]>,
}

/// Function `run` of `implement`, which takes the point's name and the payload as JSON text.
type ExtensionPointRunFunction = TypedFunc<(String, String), (Result<Outcome, Error>,)>;

/// Function `run` of the exported interface `loop`.
type RunLoopFunction = TypedFunc<(), (Result<LoopOutcome, Error>,)>;

/// Function `run` of the exported interface `agent-loop`.
type RunAgentLoopFunction = TypedFunc<(), (Result<(), Error>,)>;

pub(super) struct PluginExportedFunctions {
    hooks: Vec<Box<dyn Any + Send + Sync>>,
    pub(super) tools: Option<ToolExportFunctions>,
    pub(super) implement: Option<ExtensionPointRunFunction>,
    pub(super) run_loop: Option<RunLoopFunction>,
    pub(super) run_agent_loop: Option<RunAgentLoopFunction>,
    pub(super) commands: Option<SlashCommandExportFunctions>,
}

pub(super) struct SlashCommandExportFunctions {
    pub(super) list: TypedFunc<(), (Vec<CommandSpec>,)>,
    pub(super) run: TypedFunc<(String, String), (Result<CommandOutcome, Error>,)>,
}

pub(super) struct ToolExportFunctions {
    pub(super) list: TypedFunc<(), (Vec<ToolSpec>,)>,
    pub(super) call: TypedFunc<(String, String), (Result<Answer, Error>,)>,
}

impl ComponentExports {
    /// Finds the exported interfaces of a component and their functions. An interface that lacks
    /// one of its functions is an error.
    pub(super) fn find_exports(component: &Component, engine: &Engine) -> wasmtime::Result<Self> {
        let mut exports = Self::default();
        for (interface, item) in component.component_type().exports(engine) {
            let Some((name, version)) = contract::split_interface_name(interface) else {
                continue;
            };
            if !matches!(item.ty, ComponentItem::ComponentInstance(_)) {
                continue;
            }
            let found = component.get_export_index(None, interface);
            let function = |function: &str| {
                component
                    .get_export_index(found.as_ref(), function)
                    .ok_or_else(|| missing_function_error(interface, function))
            };
            if let Some((point, binding)) = contract::find_hook_binder(name, version) {
                function("run")?;
                // A component can export two semver-compatible versions of one interface, but the
                // bindings look up a point by name and would find only one of the versions.
                if exports.hooks.iter().any(|hook| hook.point == point) {
                    return Err(duplicate_export_error("point", point, interface));
                }
                exports.hooks.push(ExportedHook { point, binding });
                continue;
            }
            for (_, functions) in NON_HOOK_EXPORT_FUNCTIONS
                .iter()
                .filter(|(other, _)| *other == name)
            {
                functions
                    .iter()
                    .try_for_each(|name| function(name).map(drop))?;
            }
            let is_found = match name {
                "tools" => exports.tools.is_some(),
                "implement" => exports.implement.is_some(),
                "loop" => exports.run_loop.is_some(),
                "agent-loop" => exports.run_agent_loop.is_some(),
                "commands" => exports.commands.is_some(),
                _ => false,
            };
            if is_found {
                return Err(duplicate_export_error("interface", name, interface));
            }
            match name {
                "tools" => exports.tools = Some([function("list")?, function("call")?]),
                "implement" => exports.implement = Some(function("run")?),
                "loop" => exports.run_loop = Some(function("run")?),
                "agent-loop" => exports.run_agent_loop = Some(function("run")?),
                "commands" => exports.commands = Some([function("list")?, function("run")?]),
                _ => {}
            }
        }
        Ok(exports)
    }

    /// Looks up the exported functions in `instance`, which was created from `pre`, and checks
    /// their types.
    pub(super) fn load_functions(
        &self,
        pre: &InstancePre<HostState>,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<PluginExportedFunctions> {
        let mut hooks = Vec::with_capacity(self.hooks.len());
        for hook in &self.hooks {
            hooks.push(
                hook.binding
                    .load_guest_hook_functions(pre, store, instance)?,
            );
        }
        let tools = match &self.tools {
            Some([list, call]) => Some(ToolExportFunctions {
                list: load_typed_function(store, instance, list)?,
                call: load_typed_function(store, instance, call)?,
            }),
            None => None,
        };
        let commands = match &self.commands {
            Some([list, run]) => Some(SlashCommandExportFunctions {
                list: load_typed_function(store, instance, list)?,
                run: load_typed_function(store, instance, run)?,
            }),
            None => None,
        };
        let implement = self.implement.as_ref();
        let implement = implement.map(|run| load_typed_function(store, instance, run));
        let run_loop = self.run_loop.as_ref();
        let run_loop = run_loop.map(|run| load_typed_function(store, instance, run));
        let run_agent_loop = self.run_agent_loop.as_ref();
        let run_agent_loop = run_agent_loop.map(|run| load_typed_function(store, instance, run));
        Ok(PluginExportedFunctions {
            hooks,
            tools,
            commands,
            implement: implement.transpose()?,
            run_loop: run_loop.transpose()?,
            run_agent_loop: run_agent_loop.transpose()?,
        })
    }
}

impl PluginExportedFunctions {
    /// Returns the loaded functions of the hook at index `at` of [`ComponentExports::hooks`];
    /// `None` if their type is not `G`.
    pub(super) fn loaded_hook_functions<G: 'static>(&self, at: usize) -> Option<&G> {
        self.hooks.get(at)?.downcast_ref()
    }
}

/// Looks up one exported function in an instance, and checks the function's type.
fn load_typed_function<Params, Results>(
    store: &mut Store<HostState>,
    instance: &Instance,
    function: &ComponentExportIndex,
) -> wasmtime::Result<TypedFunc<Params, Results>>
where
    Params: ComponentNamedList + Lower,
    Results: ComponentNamedList + Lift,
{
    instance.get_typed_func(store, function)
}

/// Returns the error for an export that occurs twice, of which only one would be called.
fn duplicate_export_error(kind: &str, name: &str, interface: &str) -> wasmtime::Error {
    wasmtime::Error::msg(format!(
        "the component exports the {kind} `{name}` twice, the second time as `{interface}`"
    ))
}

fn missing_function_error(interface: &str, function: &str) -> wasmtime::Error {
    wasmtime::Error::msg(format!(
        "the component exports `{interface}` without the function `{function}`"
    ))
}
