//! Tools that are provided by a crate outside this library, such as the tools of MCP servers. The
//! list of tools may change while a session is open.
//!
//! A call of such a tool passes the schema check, hooks, policy, approval, masking of secrets,
//! limits and the session file, like a call of a plugin's tool. Start from [`ToolSource`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::material::PromptResourceProvider;
use crate::agent::{PluginReplacement, SharedPluginReplacementQueue, WeakPluginReplacementQueue};
use crate::event::{Event, EventSender};
use crate::point::handle::AgentHandle;
use crate::point::outcome::Level;
use crate::point::registry::HookRegistry;
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;
use crate::tool::SharedTool;
use crate::tool::outer::SecretMaskingExternalTool;

/// Source of tools, passed to [`HostBuilder::tool_source`](super::HostBuilder::tool_source).
///
/// Each tool must name the source in [`ToolSpec::plugin`](crate::message::ToolSpec::plugin). The
/// name contains a `:`, as in `mcp:docs`, so that no plugin can have the same name.
pub trait ToolSource: Send + Sync {
    /// Returns the name of the source, by which users and messages refer to it.
    fn name(&self) -> &str;

    /// Opens the source for one session. The tools are dropped when the session ends; dropping a
    /// tool must release its resources, such as a connection.
    fn open(&self, session: ToolSourceSessionHandle) -> OpenedToolSource;
}

/// Tools, prompts and resources that a source provides to a session, as of the session's start.
#[derive(Default)]
pub struct OpenedToolSource {
    /// Tools, each of which names the source as its origin.
    pub tools: Vec<SharedTool>,
    /// Warnings about the source that are shown to the user.
    pub warnings: Vec<String>,
    /// Prompts and resources that a person may fetch; `None` if the source has none.
    pub material: Option<Arc<dyn PromptResourceProvider>>,
}

/// Session as a tool source sees it. Cheap to clone; a clone does not keep the session open.
#[derive(Clone)]
pub struct ToolSourceSessionHandle {
    origin: Arc<str>,
    handle: Arc<dyn AgentHandle>,
    /// Weak reference: the queue holds tools that hold this `ToolSourceSessionHandle`, so a strong
    /// one would be a cycle that is never freed.
    replacements: WeakPluginReplacementQueue,
    events: EventSender,
    /// Whether a progress line of the source is shown at present.
    has_progress: Arc<AtomicBool>,
}

impl ToolSourceSessionHandle {
    pub(super) fn new(
        origin: &str,
        handle: &Arc<dyn AgentHandle>,
        replacements: &SharedPluginReplacementQueue,
        events: &EventSender,
    ) -> Self {
        Self {
            origin: origin.into(),
            handle: handle.clone(),
            replacements: replacements.downgrade(),
            events: events.clone(),
            has_progress: Arc::default(),
        }
    }

    /// Shows a notice to the user.
    pub fn show_notice(&self, text: impl Into<String>) {
        self.events.emit(Event::create_host_notice(
            Level::Warn,
            mask_secrets(&text.into()),
        ));
    }

    /// Returns the handle through which the source sends requests to the session and records them.
    #[must_use]
    pub fn agent_handle(&self) -> &Arc<dyn AgentHandle> {
        &self.handle
    }

    /// Replaces the tools of the source before the next step or the next turn, and shows the reason
    /// to the user.
    pub fn replace_tools(&self, tools: Vec<SharedTool>, reason: impl Into<String>) {
        let Some(replacements) = self.replacements.upgrade() else {
            return;
        };
        replacements.add_replacement(PluginReplacement {
            plugin: self.origin.to_string(),
            hooks: HookRegistry::default(),
            tools: self.wrap_tools_with_secret_masking(tools),
            agent_loop: None,
            event: Event::create_host_notice(Level::Warn, mask_secrets(&reason.into())),
        });
    }

    /// Shows the progress of a call in one line; an empty `text` removes the line.
    pub fn show_progress(&self, text: &str) {
        let had_progress = self.has_progress.swap(!text.is_empty(), Ordering::AcqRel);
        if text.is_empty() && !had_progress {
            return;
        }
        // Mask secrets before the line is truncated, because a truncated secret would not be
        // recognized. Only the beginning of the text can be shown, so only that part is masked.
        let text = &text[..text.floor_char_boundary(MAX_PROGRESS_SECRET_SCAN_BYTES)];
        let line = escape_and_truncate_line(&mask_secrets(text), MAX_PROGRESS_LINE_BYTES);
        self.handle.status(&self.origin, line);
    }

    pub(super) fn wrap_tools_with_secret_masking(&self, tools: Vec<SharedTool>) -> Vec<SharedTool> {
        let tools = tools.into_iter();
        tools
            .map(|tool| SecretMaskingExternalTool::wrap(tool, self.handle.clone()))
            .collect()
    }
}

/// Masks secrets in a text of the source, before it is shown and recorded.
fn mask_secrets(text: &str) -> String {
    SecretScanner::shared().to_masked_text(text).into_owned()
}

impl_partial_debug!(ToolSourceSessionHandle, self, origin = self.origin);

/// Maximum length of the part of a progress text that is searched for secrets, in bytes.
const MAX_PROGRESS_SECRET_SCAN_BYTES: usize = 8 << 10;

/// Maximum length of a source's progress line, in bytes.
const MAX_PROGRESS_LINE_BYTES: usize = 120;
