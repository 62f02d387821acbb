//! Registry of tools: the built-in ones and those of plugins, each with the check of its arguments.
//!
//! It must not know which of them a turn may use. Start from [`ToolRegistry`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SharedTool;
use super::schema;
use crate::message::ToolSpec;
use crate::point::payload::CheckArguments;

/// Longest name of a tool; providers refuse longer ones.
pub const MAX_NAME_BYTES: usize = 64;

/// Longest description of a tool: every request carries it.
pub const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Most tools of one plugin.
pub const MAX_TOOLS_PER_PLUGIN: usize = 128;

fn origin(spec: &ToolSpec) -> String {
    match &spec.plugin {
        None => "the built-in tools".to_owned(),
        Some(name) => format!("plugin `{name}`"),
    }
}

/// A tool that is refused: which one, of whom, and why.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RegistryError(String);

/// One registered tool.
#[derive(Clone)]
pub struct ToolEntry {
    /// Code of the tool.
    pub tool: SharedTool,
    /// Description at registration; later descriptions are ignored.
    pub spec: Arc<ToolSpec>,
    /// Checks arguments against its schema.
    pub check: Arc<CheckArguments>,
    /// Permissions of its plugin, in plain words, for people. The model is not told.
    pub may: Arc<[String]>,
}

debug_some!(ToolEntry, self, spec = self.spec);

/// All tools by name.
#[derive(Clone, Debug, Default)]
pub struct ToolRegistry {
    entries: BTreeMap<String, ToolEntry>,
}

impl ToolRegistry {
    /// Adds a tool; its spec names its origin (`plugin`), which the host fills in for a plugin's tool.
    ///
    /// # Errors
    /// Its name, description or schema is not taken, or there are too many; the registry is then as it was.
    pub fn add(&mut self, tool: SharedTool) -> Result<(), RegistryError> {
        let spec = Arc::new(tool.spec().clone());
        let origin = origin(&spec);
        let name = spec.name.clone();
        if !is_tool_name(&name) {
            let mut name = name.escape_debug().to_string();
            name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
            return Err(RegistryError(format!(
                "{origin}: `{name}` is not a name for a tool (1 to {MAX_NAME_BYTES} of a-z, A-Z, 0-9, _ and -)"
            )));
        }
        let check = self
            .check(&spec)
            .map_err(|why| RegistryError(format!("tool `{name}` of {origin} is refused: {why}")))?;
        let entry = ToolEntry {
            may: tool.may(),
            tool,
            spec,
            check,
        };
        self.entries.insert(name, entry);
        Ok(())
    }

    /// Checks all but the name's form, and compiles the check of arguments.
    fn check(&self, spec: &ToolSpec) -> Result<Arc<CheckArguments>, String> {
        if let Some(taken) = self.entries.get(&spec.name) {
            let taken_by = origin(&taken.spec);
            return Err(format!("the name is already taken by {taken_by}"));
        }
        let bytes = spec.description.len();
        if bytes > MAX_DESCRIPTION_BYTES {
            return Err(format!(
                "its description has {bytes} bytes, more than {MAX_DESCRIPTION_BYTES}"
            ));
        }
        let own = self.entries.values();
        let n_own = own.filter(|entry| entry.spec.plugin == spec.plugin).count();
        if spec.plugin.is_some() && n_own >= MAX_TOOLS_PER_PLUGIN {
            return Err(format!(
                "one plugin may have at most {MAX_TOOLS_PER_PLUGIN} tools"
            ));
        }
        schema::compile_arguments(&spec.parameters)
    }

    /// Takes out the tool of this name.
    pub fn remove(&mut self, name: &str) -> Option<ToolEntry> {
        self.entries.remove(name)
    }

    /// Returns the tools that `names` contains.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        let mut only = self.clone();
        only.entries.retain(|name, _| names.contains(name));
        only
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolEntry> {
        self.entries.get(name)
    }

    /// All tools: built-in first, then by plugin name, then by tool name. The order is stable, so that provider prompt caches
    /// hold.
    #[must_use]
    pub fn entries(&self) -> Vec<&ToolEntry> {
        let mut entries: Vec<&ToolEntry> = self.entries.values().collect();
        // Stable, and the map is in order of tool names; `None`, the built-in tools, sorts first.
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

/// Whether providers take this as the name of a tool: `[a-zA-Z0-9_-]{1,64}`.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
