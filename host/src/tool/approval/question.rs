//! Defines the approval question about one tool call: its parts, all safe to display, and the keys
//! of the approvals that make it unnecessary.

use serde_json::Value;

use super::SessionWideToolApproval;
use crate::message::{EffectClass, ToolSpec};
use crate::point::dispatch::PluginAttributedText;
use crate::text::{escape_and_truncate_line, escape_to_one_line};
use crate::tool::ProposedFileChange;
use crate::tool::preview::{FileChangePreviewLine, preview_call_arguments};
use crate::tool::subject::Subject;

/// Maximum length, in bytes, of a hook's reason in an approval question. Longer reasons are
/// truncated.
const MAX_HOOK_REASON_BYTES: usize = 500;

/// Approval question about one tool call. All names are single lines and safe to display.
/// `arguments` holds the text exactly as in the call, so code that displays it must escape it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name of the tool that would be called.
    pub tool: String,
    /// Class of the tool's effects: read, write, execute or external.
    pub effect_class: EffectClass,
    /// Name of the plugin that provides the tool; `None` for a built-in tool.
    pub plugin: Option<String>,
    /// Name of the plugin that makes the call; `None` for the model.
    pub by: Option<String>,
    /// Name of the skill, if the question is about the use of a skill rather than a tool.
    pub skill: Option<String>,
    /// Id of the tool call, as in its events; `None` if the question is not about a tool call.
    pub call: Option<String>,
    /// Permissions of the plugin that provides the tool, in plain language.
    pub may: Vec<String>,
    /// Complete preview of the call, for the user.
    pub arguments: Vec<FileChangePreviewLine>,
    /// Change that the call would make to an existing file, if that change is known. It is the
    /// change that the lines of `arguments` marked `- ` and `+ ` show, with its position in the
    /// file.
    pub change: Option<Box<ProposedFileChange>>,
    /// Exact text that the call would write: the lines of `arguments` do not show whether it ends
    /// with a line feed. `None` unless a built-in tool writes a text from the arguments.
    pub written: Option<Box<ProposedFileText>>,
    /// Plugins whose hooks asked for approval, each with its reason; empty if only the policy asks.
    pub reasons: Vec<(String, String)>,
    /// Calls that [`ApprovalAnswer::Always`](super::ApprovalAnswer::Always) would allow, in words,
    /// or the reason why that answer is not offered.
    pub covers: Result<String, String>,
    /// Identity of the tool: a hash of its name, plugin, description, schema and effect class, and
    /// of the caller if that is a plugin.
    tool_key: [u8; 32],
    /// Parts of the call that an "always" answer covers, as listed in `covers`; empty if that
    /// answer is not offered.
    pub(super) parts: Vec<String>,
}

/// Text that a call of `write_file` or `edit_file` would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedFileText {
    /// Path of the file, as in the call.
    pub path: String,
    /// Text in the file that is replaced; `None` if the whole file is written.
    pub old: Option<String>,
    /// Text that replaces `old`, or the complete content of the file.
    pub new: String,
}

impl ProposedFileText {
    fn from_tool_call(spec: &ToolSpec, arguments: &Value) -> Option<Self> {
        let text = |name: &str| Some(arguments.get(name)?.as_str()?.to_owned());
        let (old, new) = match (&spec.plugin, spec.name.as_str()) {
            (None, "write_file") => (None, text("content")?),
            (None, "edit_file") => (Some(text("old_text")?), text("new_text")?),
            _ => return None,
        };
        Some(Self {
            path: text("path")?,
            old,
            new,
        })
    }
}

impl Question {
    /// Creates a question about a call of the tool `spec` with these final arguments, which acts on
    /// `subject`. `reasons` contains the plugins whose hooks asked for approval, each with its
    /// reason.
    #[must_use]
    pub fn new(
        spec: &ToolSpec,
        arguments: &Value,
        subject: &Subject,
        reasons: &[PluginAttributedText],
    ) -> Self {
        let tool = escape_to_one_line(&spec.name);
        // The question of a hook is about this call only, so "always" is not offered.
        let covers = match reasons.is_empty() {
            true => subject.session_approval_scopes(&tool),
            false => Err("a plugin asks about each call".to_owned()),
        };
        let parts = covers.clone().unwrap_or_default();
        Self {
            covers: covers.map(|parts| parts.join("; ")).map_err(|why| {
                escape_and_truncate_line(&format!("asks every time: {why}"), MAX_HOOK_REASON_BYTES)
            }),
            parts,
            tool,
            effect_class: spec.effect_class,
            plugin: spec.plugin.as_deref().map(escape_to_one_line),
            by: None,
            skill: None,
            call: None,
            may: Vec::new(),
            arguments: preview_call_arguments(spec, arguments),
            change: None,
            written: ProposedFileText::from_tool_call(spec, arguments).map(Box::new),
            reasons: reasons
                .iter()
                .map(|PluginAttributedText { plugin, text }| {
                    let end = text.floor_char_boundary(MAX_HOOK_REASON_BYTES.min(text.len()));
                    (escape_to_one_line(plugin), escape_to_one_line(&text[..end]))
                })
                .collect(),
            tool_key: hash_tool_spec(spec),
        }
    }

    /// Adds the permissions of the tool's plugin, in plain language, to the question.
    #[must_use]
    pub fn with_plugin_permissions(mut self, may: &[String]) -> Self {
        self.may = may.iter().map(|words| escape_to_one_line(words)).collect();
        self
    }

    /// Adds the [current state](crate::tool::Tool::describe_call_target) of the call's target,
    /// shown below the name of the file.
    #[must_use]
    pub fn with_call_target_description(mut self, target: Option<String>) -> Self {
        let shown = target.map(|text| FileChangePreviewLine {
            mark: "now: ",
            text: escape_to_one_line(&text),
        });
        let at = self.arguments.len().min(1);
        self.arguments.splice(at..at, shown);
        self
    }

    /// Adds the [change](crate::tool::Tool::preview_file_change) that the call would make to a
    /// file.
    #[must_use]
    pub fn with_file_change(mut self, change: Option<ProposedFileChange>) -> Self {
        self.change = change.map(Box::new);
        self
    }

    /// Marks the call as made by a plugin. An "always" answer to a call of the model does not cover
    /// calls of the plugin.
    #[must_use]
    pub fn with_plugin_caller(mut self, plugin: &str) -> Self {
        self.tool_key = *blake3::keyed_hash(&self.tool_key, plugin.as_bytes()).as_bytes();
        self.by = Some(escape_to_one_line(plugin));
        self
    }

    /// Sets the id of the tool call, so that a view of its events can show the question next to it.
    #[must_use]
    pub fn with_call_id(mut self, id: &str) -> Self {
        self.call = Some(id.to_owned());
        self
    }

    /// Changes the question so that it asks whether to use the skill `skill`, which `lines`
    /// describe.
    #[must_use]
    pub(crate) fn into_skill_question(
        mut self,
        skill: &str,
        lines: Vec<FileChangePreviewLine>,
    ) -> Self {
        self.skill = Some(escape_to_one_line(skill));
        self.arguments = lines;
        self
    }

    /// Makes the answer [`ApprovalAnswer::Always`](super::ApprovalAnswer::Always) unavailable, for
    /// the reason `why`.
    #[must_use]
    pub(crate) fn without_always_answer(mut self, why: &str) -> Self {
        self.covers = Err(why.to_owned());
        self.parts = Vec::new();
        self
    }

    /// Returns the keys of the approvals that the call needs to run without a question: each must
    /// have an "always" answer. Empty if no such answer is possible.
    pub(super) fn required_approval_hashes(&self) -> impl Iterator<Item = [u8; 32]> {
        let key = |part: &String| *blake3::keyed_hash(&self.tool_key, part.as_bytes()).as_bytes();
        self.parts.iter().map(key)
    }

    /// Returns the permissions that an "always" answer to this question grants, one for each
    /// covered part of the call.
    pub(super) fn approvals_from_always_answer(
        &self,
    ) -> impl Iterator<Item = SessionWideToolApproval> {
        let parts = self.parts.iter();
        parts.map(|part| SessionWideToolApproval {
            tool: self.tool.clone(),
            plugin: self.plugin.clone(),
            by: self.by.clone(),
            covers: escape_to_one_line(part),
        })
    }
}

fn hash_tool_spec(spec: &ToolSpec) -> [u8; 32] {
    // Hash the JSON form, so that two different specs never produce the same bytes.
    let json = serde_json::json!([
        spec.plugin,
        spec.name,
        spec.description,
        spec.parameters,
        spec.effect_class
    ]);
    *blake3::hash(json.to_string().as_bytes()).as_bytes()
}
