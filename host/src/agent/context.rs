//! Context files of subdirectories: the first call that reads or changes a file in a directory gets
//! the `AGENTS.md` and `CLAUDE.md` of that directory appended to its result.
//!
//! They go below the result because the system prompt must stay byte-identical: a change would
//! invalidate the prompt cache. The messages of the conversation record the files that the model
//! has, so the record is correct after a resume, `/undo` and compaction: if the message with a file
//! is gone, the next call in its directory gets the file again.

use serde_json::json;

use super::scope::TurnScope;
use super::spec::AgentSpec;
use crate::event::Event;
use crate::message::{Message, SkillPart};
use crate::point::outcome::Level;
use crate::prompt::{self, ReadRules};
use crate::text::clean_line;
use crate::tool::policy::{PolicyCall, ToolVerdict};
use crate::tool::subject::{Subject, WorkspacePath};

/// Tool whose rules decide about files that the host gives to the model.
const READ_FILE: &str = "read_file";

/// Returns the operator's decision about `read_file` of a path, for files that the host itself
/// gives to the model. Without that tool there is no rule about reading.
pub(super) fn read_rules(scope: &TurnScope) -> Box<ReadRules> {
    let entry = scope.skills.tools().get(READ_FILE).cloned();
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

/// Returns the context files for a call on a file (path relative to the workspace) that the
/// model does not have yet.
pub(super) async fn context_of(scope: &TurnScope, call: &str, file: &str) -> Option<String> {
    // Files directly in the workspace need no lookup: its context files are in the system
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
        scope.spec.session.view_messages(find_given)
    };
    let (workspace, path) = (scope.spec.workspace.clone(), file.to_owned());
    let rules = read_rules(scope);
    let read = move || {
        let is_given = |file: &str| given.iter().any(|given| given == file);
        prompt::files_below(&workspace, &path, is_given, &*rules)
    };
    let found = tokio::task::spawn_blocking(read).await.ok()?;
    for notice in found.notices {
        show_once(&scope.spec, notice);
    }
    let mut text = String::new();
    for part in found.parts {
        let source = &clean_line(&part.source, 200);
        let line = format!(
            "[instructions of the project for work in the folder of {source}, which the host adds here:]"
        );
        let shown = clean_line(file, 200);
        let notice = format!("the model is given {source}, because it works on {shown}");
        scope.spec.events.emit(Event::notice(Level::Info, notice));
        text.push_str(&format!("\n{line}\n{}", part.text));
        let part = SkillPart::ContextFile(part.source);
        scope.skills.parts.note_part(call, part, line);
    }
    (!text.is_empty()).then_some(text)
}

/// Warns the user, once per agent for each text.
fn show_once(spec: &AgentSpec, text: String) {
    let mut told = crate::lock::lock(&spec.told);
    if told.insert(text.clone()) {
        spec.events.emit(Event::notice(Level::Warn, text));
    }
}
