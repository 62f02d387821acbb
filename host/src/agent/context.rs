//! Context files of subdirectories: the first call that reads or changes a file in a directory gets
//! the `AGENTS.md` and `CLAUDE.md` of that directory appended to its result.
//!
//! They are appended to the result because a change of the system prompt would invalidate the
//! prompt cache. Each message records the context files that it contains, so the host knows which
//! files the model has, also after a resume, `/undo` or compaction: if the message with a file is
//! gone, the next call in its directory gets the file again.

use serde_json::json;

use super::scope::SharedTurnState;
use super::spec::AgentSpec;
use crate::event::Event;
use crate::message::{Message, SkillPart};
use crate::point::outcome::Level;
use crate::prompt::{self, ContextFileReadPolicy};
use crate::text::escape_and_truncate_line;
use crate::tool::policy::{PolicyCall, ToolVerdict};
use crate::tool::subject::{Subject, WorkspacePath};

/// Name of the tool whose policy decides which files the host itself may give to the model: context
/// files in the system prompt, and context files that are appended to the result of a tool call.
const READ_FILE_TOOL_NAME: &str = "read_file";

/// Returns a function that decides, by the policy for `read_file`, whether the host may give the
/// model the file at a path. If the agent does not have that tool, every file is allowed.
pub(super) fn build_context_file_policy(scope: &SharedTurnState) -> Box<ContextFileReadPolicy> {
    let entry = scope.skills.tools().get(READ_FILE_TOOL_NAME).cloned();
    let policy = scope.spec.policy.clone();
    Box::new(move |path| {
        let Some(entry) = &entry else {
            return ToolVerdict::Allow;
        };
        let subject = Subject::File(WorkspacePath::Known(path.to_owned()));
        let call = PolicyCall {
            spec: &entry.spec,
            arguments: &json!({"path": path}),
            subject: &subject,
            may: &entry.may,
            is_asked: false,
        };
        policy.decide(&call).verdict
    })
}

/// Returns the context files that apply to a call on `file` and that the model does not have yet.
/// The path is relative to the workspace.
pub(super) async fn load_context_files_for_call(
    scope: &SharedTurnState,
    call: &str,
    file: &str,
) -> Option<String> {
    // Skip files directly in the workspace: the context files that apply to them are in the system
    // prompt.
    if !scope.spec.config.context_files || !file.contains('/') {
        return None;
    }
    let given: Vec<String> = {
        let find_given = |messages: &[Message]| {
            let parts = messages.iter().flat_map(|message| &message.skills);
            parts
                .filter_map(|part| match part {
                    SkillPart::ContextFile(path) => Some(path.clone()),
                    SkillPart::Description(_) | SkillPart::Text(_) => None,
                })
                .collect()
        };
        scope.spec.session.inspect_all_messages(find_given)
    };
    let (workspace, path) = (scope.spec.workspace.clone(), file.to_owned());
    let rules = build_context_file_policy(scope);
    let read = move || {
        let is_given = |file: &str| given.iter().any(|given| given == file);
        prompt::read_context_files_down_to(&workspace, &path, is_given, &*rules)
    };
    let found = tokio::task::spawn_blocking(read).await.ok()?;
    for notice in found.notices {
        warn_user_once(&scope.spec, notice);
    }
    let mut text = String::new();
    for part in found.parts {
        let source = &escape_and_truncate_line(&part.source, 200);
        let line = format!(
            "[instructions of the project for work in the folder of {source}, which the host adds here:]"
        );
        let shown = escape_and_truncate_line(file, 200);
        let notice =
            format!("added {source} to the conversation, because the model works on {shown}");
        scope
            .spec
            .events
            .emit(Event::create_host_notice(Level::Info, notice));
        text.push_str(&format!("\n{line}\n{}", part.text));
        let part = SkillPart::ContextFile(part.source);
        scope.skills.parts.record_skill_content(call, part, line);
    }
    (!text.is_empty()).then_some(text)
}

/// Warns the user, but only once per agent with the same text.
fn warn_user_once(spec: &AgentSpec, text: String) {
    let mut told = crate::lock::lock_ignoring_poison(&spec.told);
    if told.insert(text.clone()) {
        spec.events
            .emit(Event::create_host_notice(Level::Warn, text));
    }
}
