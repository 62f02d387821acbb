//! Registry of tools: the built-in ones and those of plugins, each with its argument check.
//!
//! The registry enforces the limits on names, descriptions and schemas. It must not know which
//! tools a turn may use. Start from [`ToolRegistry`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SharedTool;
use super::schema;
use crate::message::ToolSpec;
use crate::point::payload::ToolArgumentsChecker;

/// Maximum length of a tool name, in bytes; providers refuse longer ones.
pub const MAX_TOOL_NAME_BYTES: usize = 64;

/// Maximum length of a tool description, in bytes: every request carries it.
pub const MAX_TOOL_DESCRIPTION_BYTES: usize = 4096;

/// Maximum number of tools of one plugin.
pub const MAX_TOOLS_PER_PLUGIN: usize = 128;

/// Maximum number of tools of one source outside the host, such as an MCP server.
pub const MAX_TOOLS_PER_EXTERNAL_SOURCE: usize = 1000;

/// Prefix of the names of tools of MCP servers; no tool of a plugin may use it.
const MCP_TOOL_NAME_PREFIX: &str = "mcp__";

/// Whether the origin of a tool is a source outside the host, such as an MCP server, and not a
/// plugin: only the name of a source contains `:`.
#[must_use]
pub fn is_external_tool_origin(origin: &str) -> bool {
    origin.contains(':')
}

fn describe_tool_origin(spec: &ToolSpec) -> String {
    match &spec.plugin {
        None => "the built-in tools".to_owned(),
        Some(name) if is_external_tool_origin(name) => format!("`{name}`"),
        Some(name) => format!("plugin `{name}`"),
    }
}

/// Error for a tool that the registry refuses: the name of the tool, its origin and the reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolRegistrationError(String);

/// Tool in the registry, with its spec and the check of its arguments.
#[derive(Clone)]
pub struct RegisteredTool {
    /// Implementation of the tool, which runs the calls.
    pub tool: SharedTool,
    /// Spec of the tool at registration; later changes of it are ignored.
    pub spec: Arc<ToolSpec>,
    /// Check of arguments against the schema in `spec`.
    pub check: Arc<ToolArgumentsChecker>,
    /// Permissions of the tool's plugin in plain language, for the user. The model does not see
    /// them.
    pub may: Arc<[String]>,
}

impl_partial_debug!(RegisteredTool, self, spec = self.spec);

/// Registered tools, by name.
///
/// Names are unique across built-in tools and plugins. Use [`ToolRegistry::only_named_tools`] to
/// restrict the tools of a subagent.
#[derive(Clone, Debug, Default)]
pub struct ToolRegistry {
    entries: BTreeMap<String, RegisteredTool>,
}

impl ToolRegistry {
    /// Adds a tool. The origin of the tool is in the field `plugin` of its spec, which the host
    /// sets for tools of plugins.
    ///
    /// # Errors
    /// The name, description or schema is not accepted, or there are too many tools. The registry
    /// is then unchanged.
    pub fn add(&mut self, tool: SharedTool) -> Result<(), ToolRegistrationError> {
        let spec = Arc::new(tool.spec().clone());
        let origin = describe_tool_origin(&spec);
        let name = spec.name.clone();
        if !is_valid_tool_name(&name) {
            let mut name = name.escape_debug().to_string();
            name.truncate(name.floor_char_boundary(MAX_TOOL_NAME_BYTES));
            return Err(ToolRegistrationError(format!(
                "{origin}: `{name}` is not a name for a tool (1 to {MAX_TOOL_NAME_BYTES} of a-z, A-Z, 0-9, _ and -)"
            )));
        }
        let check = self.check_spec(&spec).map_err(|why| {
            ToolRegistrationError(format!("tool `{name}` of {origin} is refused: {why}"))
        })?;
        let entry = RegisteredTool {
            may: tool.plugin_permission_texts(),
            tool,
            spec,
            check,
        };
        self.entries.insert(name, entry);
        Ok(())
    }

    /// Checks the spec, except for the syntax of the name, and compiles the argument check.
    fn check_spec(&self, spec: &ToolSpec) -> Result<Arc<ToolArgumentsChecker>, String> {
        if let Some(taken) = self.entries.get(&spec.name) {
            let taken_by = describe_tool_origin(&taken.spec);
            return Err(format!("the name is already taken by {taken_by}"));
        }
        // Reserve the prefix: otherwise a plugin could register the name of an MCP server's tool,
        // and rules for that tool would apply to the plugin.
        let is_plugin = spec
            .plugin
            .as_deref()
            .is_some_and(|own| !is_external_tool_origin(own));
        if is_plugin && spec.name.starts_with(MCP_TOOL_NAME_PREFIX) {
            return Err(format!(
                "names that begin with `{MCP_TOOL_NAME_PREFIX}` are for tools of MCP servers"
            ));
        }
        let bytes = spec.description.len();
        if bytes > MAX_TOOL_DESCRIPTION_BYTES {
            return Err(format!(
                "the description of the tool has {bytes} bytes, more than {MAX_TOOL_DESCRIPTION_BYTES}"
            ));
        }
        let own = self.entries.values();
        let n_own = own.filter(|entry| entry.spec.plugin == spec.plugin).count();
        let (what, most) = match &spec.plugin {
            None => ("the host", usize::MAX),
            Some(origin) if is_external_tool_origin(origin) => {
                ("one source", MAX_TOOLS_PER_EXTERNAL_SOURCE)
            }
            Some(_) => ("one plugin", MAX_TOOLS_PER_PLUGIN),
        };
        if n_own >= most {
            return Err(format!("{what} may have at most {most} tools"));
        }
        schema::compile_tool_argument_check(&spec.parameters)
    }

    /// Removes the tool with this name and returns it.
    pub fn remove(&mut self, name: &str) -> Option<RegisteredTool> {
        self.entries.remove(name)
    }

    /// Returns a registry with only the tools in `names`.
    #[must_use]
    pub fn only_named_tools(&self, names: &[String]) -> Self {
        let mut only = self.clone();
        only.entries.retain(|name, _| names.contains(name));
        only
    }

    /// Returns the tool with this name; `None` if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RegisteredTool> {
        self.entries.get(name)
    }

    /// Returns all tools: built-in first, then by plugin name, then by tool name. The stable order
    /// keeps provider prompt caches valid.
    #[must_use]
    pub fn entries(&self) -> Vec<&RegisteredTool> {
        let mut entries: Vec<&RegisteredTool> = self.entries.values().collect();
        // The sort is stable and the map is ordered by tool name; `None` (built-in) sorts first.
        entries.sort_by(|a, b| a.spec.plugin.cmp(&b.spec.plugin));
        entries
    }

    /// Returns the descriptions of all tools, in the order of [`Self::entries`].
    #[must_use]
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.entries()
            .into_iter()
            .map(|entry| entry.spec.clone())
            .collect()
    }
}

/// Whether providers accept this as a tool name: `[a-zA-Z0-9_-]{1,64}`.
#[must_use]
pub fn is_valid_tool_name(name: &str) -> bool {
    (1..=MAX_TOOL_NAME_BYTES).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
