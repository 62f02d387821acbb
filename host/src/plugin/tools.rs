//! Adapts a plugin's tools to tools of the host.
//!
//! Tools are listed when the plugin is loaded, and their descriptions are part of the digest that
//! grants refer to. A plugin's tool passes policy and approval like every other tool.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::Error;
use super::convert;
use super::exports::PluginExportedFunctions;
use super::instance::{PluginInstanceInCall, ReusableInstanceSlot};
use super::load::{FoundPluginSet, LoadedPlugin};
use super::manifest::Manifest;
use super::sanitize::GuestTextSanitizer;
use crate::grant::{self, FolderAccess, GrantedCapabilities, RootFolderKind, SideEffect};
use crate::json;
use crate::message::{EffectClass, ToolSpec};
use crate::point::deadline::run_call_with_deadline;
use crate::point::failure::Failure;
use crate::secret::SecretScanner;
use crate::tool::registry::{MAX_TOOL_DESCRIPTION_BYTES, MAX_TOOLS_PER_PLUGIN, is_valid_tool_name};
use crate::tool::{
    FileChangeTrackingMethod, InterruptedCallRepetitionRule, Tool, ToolCtx, ToolOutput, schema,
};

/// Names of the built-in tools; a plugin's tool with such a name is not offered.
pub const BUILT_IN_TOOL_NAMES: [&str; 8] = [
    "background",
    "bash",
    "edit_file",
    "list_files",
    "read_file",
    "search",
    "skill",
    "write_file",
];

/// Two tools with the same name, of which a session offers only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNameCollision {
    /// Name that both tools have.
    pub tool: String,
    /// Plugin whose tool is not offered.
    pub plugin: String,
    /// Plugin whose tool is offered instead; `None` for a built-in tool.
    pub taken_by: Option<String>,
}

impl ToolNameCollision {
    /// Whether the plugin provides one of the two tools with the same name.
    #[must_use]
    pub fn involves_plugin(&self, plugin: &str) -> bool {
        self.plugin == plugin || self.taken_by.as_deref() == Some(plugin)
    }
}

impl std::fmt::Display for ToolNameCollision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tool, plugin, .. } = self;
        match &self.taken_by {
            Some(by) => write!(
                f,
                "the tool `{tool}` of plugin {plugin} is not offered: plugin {by} has one of that name, and is more trusted or comes \
                 first; rename one of them, or switch one of the plugins off"
            ),
            None => write!(
                f,
                "the tool `{tool}` of plugin {plugin} is not offered: a built-in one has that name; rename it"
            ),
        }
    }
}

impl FoundPluginSet {
    /// Lists the tools that a session does not offer because another tool has the same name. The
    /// tool of the first plugin is offered; plugins are ordered by trust, then by name.
    #[must_use]
    pub fn find_tool_collisions(&self) -> Vec<ToolNameCollision> {
        let mut plugins: Vec<&LoadedPlugin> = self.plugins.iter().map(|plugin| &**plugin).collect();
        plugins.sort_by_key(|plugin| plugin.trust);
        let built_in = BUILT_IN_TOOL_NAMES.iter().map(|name| (*name, None));
        let mut taken: BTreeMap<&str, Option<&str>> = built_in.collect();
        let mut found = Vec::new();
        for plugin in plugins {
            let own = plugin.manifest.name.as_str();
            for tool in &plugin.tools {
                match taken.get(tool.name.as_str()) {
                    Some(by) => found.push(ToolNameCollision {
                        tool: tool.name.clone(),
                        plugin: own.to_owned(),
                        taken_by: by.map(str::to_owned),
                    }),
                    None => _ = taken.insert(&tool.name, Some(own)),
                }
            }
        }
        found
    }
}

/// Tool of a plugin, as a session calls it.
pub(super) struct WasmTool {
    pub(super) spec: ToolSpec,
    pub(super) slot: Arc<ReusableInstanceSlot>,
    pub(super) deadline: Duration,
    /// Permissions of the plugin, described for approval questions.
    pub(super) may: Arc<[String]>,
    /// Method by which the host detects which files the plugin changes.
    pub(super) tracking: FileChangeTrackingMethod,
    /// Whether an interrupted call may run again, according to the manifest.
    pub(super) repetition: InterruptedCallRepetitionRule,
}

/// Deadline of a plugin's tool if the manifest sets none. Guests only compute and need no longer
/// deadline, unlike a shell command that waits for a build.
const DEFAULT_TOOL_DEADLINE: Duration = Duration::from_secs(60);

/// Maximum deadline that a manifest may set for its tools.
pub const MAX_TOOL_DEADLINE: Duration = Duration::from_secs(600);

/// Returns the deadline of each call of a plugin's tools: that of the manifest, or the default.
pub(super) fn tool_call_deadline(manifest: &Manifest) -> Duration {
    let wanted = manifest.limits.timeout.unwrap_or(DEFAULT_TOOL_DEADLINE);
    wanted.min(MAX_TOOL_DEADLINE)
}

/// Runs a call of a guest until its deadline, or until the call is cancelled. `name` is the tool's
/// name in messages about a failure.
pub(super) async fn run_guest_tool(
    name: &str,
    deadline: Duration,
    ctx: &ToolCtx,
    call: impl Future<Output = Result<ToolOutput, Failure>>,
) -> ToolOutput {
    let call = pin!(call);
    let answer = tokio::select! {
        answer = run_call_with_deadline(deadline, Instant::now(), call) => answer,
        () = ctx.cancel.cancelled() => return ToolOutput::from_error_content("cancelled"),
    };
    answer.unwrap_or_else(|failure| {
        ToolOutput::from_fault_content(format!("the tool {name} failed: {failure}"))
    })
}

impl Tool for WasmTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plugin_permission_texts(&self) -> Arc<[String]> {
        self.may.clone()
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        self.tracking
    }

    fn interrupted_call_repetition_rule(&self) -> InterruptedCallRepetitionRule {
        self.repetition.clone()
    }

    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        let plugin = self.spec.plugin.as_deref().unwrap_or_default();
        let name = format!("`{}` of plugin `{plugin}`", self.spec.name);
        Box::pin(async move {
            run_guest_tool(&name, self.deadline, ctx, self.call_guest(&arguments, ctx)).await
        })
    }
}

impl WasmTool {
    async fn call_guest(&self, arguments: &Value, ctx: &ToolCtx) -> Result<ToolOutput, Failure> {
        let find = |functions: &PluginExportedFunctions| Some(functions.tools.as_ref()?.call);
        let arguments = (self.spec.name.clone(), arguments.to_string());
        let called = self.slot.call_guest(&ctx.caller, "tools", find, arguments);
        let (answer,) = called.await?;
        let sanitizer =
            GuestTextSanitizer::new(self.slot.shared_plugin_state(), &ctx.caller, "tool");
        Ok(match answer {
            Ok(answer) => convert::convert_tool_answer(answer, sanitizer),
            Err(error) => {
                ToolOutput::from_error_content(convert::describe_guest_error(error, sanitizer))
            }
        })
    }
}

/// Calls the plugin instance to list its tools. Raises each tool's effect class to the minimum that
/// the manifest's side effects imply: a tool of a plugin that may write files is not read-only,
/// even if the plugin declares it so.
pub(super) async fn list_plugin_tools(
    manifest: &Manifest,
    mut busy: PluginInstanceInCall<'_>,
) -> Result<Vec<ToolSpec>, Error> {
    let start = |failure: Failure| Error::Start {
        message: format!("when the host asked for its tools, {failure}"),
    };
    let instance = &mut busy.instance;
    let Some(tools) = instance.functions.tools.as_ref() else {
        return Ok(Vec::new());
    };
    let result = tools.list.call_async(&mut instance.store, ()).await;
    let floor = min_tool_effect_class(manifest);
    let mut specs: Vec<ToolSpec> = Vec::new();
    let (listed,) = busy.finish_guest_call(result).map_err(start)?;
    for tool in listed {
        let refuse = |why: String| Error::Tool {
            tool: crate::text::escape_and_truncate_line(&tool.name, 64),
            why,
        };
        if specs.len() >= MAX_TOOLS_PER_PLUGIN {
            return Err(refuse(format!(
                "a plugin may have at most {MAX_TOOLS_PER_PLUGIN} tools, but this plugin lists more"
            )));
        }
        if tool.description.len() > MAX_TOOL_DESCRIPTION_BYTES {
            return Err(refuse(format!(
                "the description of the tool has {} bytes, more than {MAX_TOOL_DESCRIPTION_BYTES}",
                tool.description.len()
            )));
        }
        if !is_valid_tool_name(&tool.name) {
            return Err(refuse(
                "a name is made of 1 to 64 of a-z, A-Z, 0-9, `_` and `-`".to_owned(),
            ));
        }
        // Refuse a secret in a tool description instead of masking it: the description comes from
        // the author, who must remove the secret.
        for text in [&tool.description, &tool.parameters] {
            if let Some(finding) = SecretScanner::shared().find_secrets(text).first() {
                return Err(refuse(format!(
                    "the description or schema of the tool contains what looks like a secret ({})",
                    finding.rule
                )));
            }
        }
        let parameters = json::parse_json(&tool.parameters, schema::MAX_SCHEMA_BYTES)
            .map_err(|e| refuse(format!("the schema of the tool {e}")))?;
        schema::compile_json_schema_check(&parameters).map_err(refuse)?;
        specs.push(ToolSpec {
            name: tool.name,
            description: tool.description,
            parameters,
            effect_class: convert::effect_class_from_wit(tool.effect_class).max(floor),
            plugin: Some(manifest.name.clone()),
        });
    }
    check_declared_tools(manifest, &specs)?;
    Ok(specs)
}

/// Checks that the component lists every tool that `[tools]` in the manifest names.
fn check_declared_tools(manifest: &Manifest, specs: &[ToolSpec]) -> Result<(), Error> {
    let is_listed = |name: &String| specs.iter().any(|spec| spec.name == *name);
    for (tool, options) in &manifest.tools {
        let named = std::iter::once(tool).chain(&options.check);
        if let Some(missing) = named.into_iter().find(|name| !is_listed(name)) {
            return Err(Error::Tool {
                tool: tool.clone(),
                why: format!(
                    "[tools.{tool}] of the manifest names the tool `{missing}`, which the component does not list"
                ),
            });
        }
    }
    Ok(())
}

/// Returns whether the host may run a tool call again if it was interrupted.
pub(super) fn interrupted_call_retry_rule(
    manifest: &Manifest,
    tool: &str,
) -> InterruptedCallRepetitionRule {
    match manifest.tools.get(tool) {
        Some(options) if options.idempotent => InterruptedCallRepetitionRule::Idempotent,
        Some(options) => options.check.clone().map_or(
            InterruptedCallRepetitionRule::Never,
            InterruptedCallRepetitionRule::Checked,
        ),
        None => InterruptedCallRepetitionRule::Never,
    }
}

/// Describes the permissions of a plugin, for approval questions about its tools.
pub(super) fn describe_tool_rights(
    granted: &GrantedCapabilities,
    has_hooks: bool,
) -> Arc<[String]> {
    let each = granted
        .capabilities()
        .iter()
        .map(grant::describe_capability);
    each.chain(grant::describe_combined_risk(granted, has_hooks))
        .collect()
}

/// Returns the method by which the host detects which files a plugin changes. A snapshot of the
/// workspace is needed only if the plugin may write there.
pub(super) fn file_change_tracking_method(
    granted: &GrantedCapabilities,
) -> FileChangeTrackingMethod {
    let folders = granted.folders();
    let mut folders = folders.iter();
    match folders.any(|(access, folder)| {
        *access != FolderAccess::Read && folder.root != RootFolderKind::Data
    }) {
        true => FileChangeTrackingMethod::Snapshot,
        false => FileChangeTrackingMethod::Unneeded,
    }
}

/// Returns the minimum effect class of a tool of the plugin.
pub(super) fn min_tool_effect_class(manifest: &Manifest) -> EffectClass {
    let writes = manifest.filesystem.as_ref().is_some_and(|filesystem| {
        filesystem
            .write
            .iter()
            .any(|folder| folder.root != RootFolderKind::Data)
    });
    if manifest.has_side_effect(SideEffect::Network)
        || manifest.has_side_effect(SideEffect::External)
    {
        EffectClass::External
    } else if writes {
        EffectClass::Write
    } else {
        EffectClass::Read
    }
}
