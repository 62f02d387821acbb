//! Context files of subfolders: the model is given `AGENTS.md` and `CLAUDE.md` of a folder beneath the result of the first call
//! that reads or changes a file there.
//!
//! Beneath the result, because the system prompt stays the same to the byte: one that grew would take the prompt cache with it.
//! The messages of the conversation say which files the model has, so that is right after a resume, `/undo` and compaction:
//! a file whose message is gone is given again with the next call in its folder.

use super::scope::TurnScope;
use crate::event::Event;
use crate::message::SkillPart;
use crate::point::outcome::Level;
use crate::prompt;
use crate::text::clean;

impl TurnScope {
    /// Returns the context files that come with a call on a file, by its path from the workspace, unless the model has them.
    pub(super) async fn context_of(&self, call: &str, file: &str) -> Option<String> {
        // Most files of a workspace are in its own folder, whose context files are in the system prompt.
        if !self.spec.config.context_files || !file.contains('/') {
            return None;
        }
        let given: Vec<String> = {
            let messages = self.spec.session.messages();
            let parts = messages.into_iter().flat_map(|message| message.skills);
            parts
                .filter_map(|part| match part {
                    SkillPart::ContextFile(path) => Some(path),
                    SkillPart::Description(_) | SkillPart::Text(_) => None,
                })
                .collect()
        };
        let (workspace, path) = (self.spec.workspace.clone(), file.to_owned());
        let read = move || {
            let is_given = |file: &str| given.iter().any(|given| given == file);
            prompt::below(&workspace, &path, is_given)
        };
        let found = tokio::task::spawn_blocking(read).await.ok()?;
        for notice in found.notices {
            self.tell_once(notice);
        }
        let mut text = String::new();
        for part in found.parts {
            let source = &part.source;
            let line = format!(
                "[instructions of the project for work in the folder of {source}, which the host adds here:]"
            );
            let shown = clean(file, 200);
            let notice = format!("the model is given {source}, because it works on {shown}");
            self.spec.events.emit(Event::notice(Level::Info, notice));
            text.push_str(&format!("\n{line}\n{}", part.text));
            let part = SkillPart::ContextFile(part.source);
            self.skill_parts.note(call, part, line);
        }
        (!text.is_empty()).then_some(text)
    }

    /// Warns the user, once for each text of an agent.
    fn tell_once(&self, text: String) {
        let mut told = crate::lock::lock(&self.spec.told);
        if told.insert(text.clone()) {
            self.spec.events.emit(Event::notice(Level::Warn, text));
        }
    }
}
