//! Contributes the project, the workspace and the state of the task to the three tiers of the
//! system prompt.

mod project;
mod workspace;

#[rind_sdk::plugin]
mod briefing {
    use crate::{project, workspace};
    use rind_sdk::prelude::*;

    /// Key of the stored [`SessionStart`] in the state of the session. Storing it keeps the prompt
    /// the same during a session, so that the provider's prompt cache remains valid.
    const SESSION_START_STATE_KEY: &str = "begun";

    /// Key of the paths of changed files in the state of the session.
    const CHANGED_FILES_STATE_KEY: &str = "changed";

    /// Maximum number of changed files that are kept.
    const MAX_KEPT_CHANGED_FILES: usize = 40;

    /// Maximum number of characters of the session's first input that the prompt repeats.
    const MAX_QUOTED_INPUT_CHARS: usize = 400;

    #[data]
    struct Settings {
        parts: Vec<String>,
        max_entries: usize,
    }

    /// Texts of the prompt's parts, as written at the start of the session.
    #[data]
    struct SessionStart {
        project: String,
        workspace: String,
        /// First input of the person.
        input: String,
    }

    #[hook]
    fn system_prompt(_about: PromptContext) -> Result<PromptOutcome, Error> {
        let settings: Settings = config::all()?;
        // Add nothing to the prompt of a subagent, which gets everything that it needs in its task.
        if caller::depth() > 0 {
            return Ok(PromptOutcome::default());
        }
        let begun = match state::get_json::<SessionStart>(SESSION_START_STATE_KEY)? {
            Some(begun) => begun,
            None => describe_session_start(settings.max_entries)?,
        };
        let task = describe_task_state(&begun.input)?;
        let parts = [
            (Tier::Stable, "project", &begun.project),
            (Tier::Context, "workspace", &begun.workspace),
            (Tier::Volatile, "task", &task),
        ];
        let wanted = parts.into_iter().filter(|(_, key, text)| {
            !text.is_empty() && settings.parts.iter().any(|part| part == key)
        });
        Ok(PromptOutcome {
            parts: wanted
                .map(|(tier, key, text)| PromptPart::new(tier, key, text.clone()))
                .collect(),
            ..PromptOutcome::default()
        })
    }

    /// Remembers which files were changed.
    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        let call = finished.call();
        if finished.is_error() || !matches!(&*call.name, "write_file" | "edit_file") {
            return Ok(ResultOutcome::default());
        }
        let arguments: rind_sdk::serde_json::Value =
            rind_sdk::serde_json::from_str(&call.arguments)?;
        let Some(path) = arguments["path"].as_str() else {
            return Ok(ResultOutcome::default());
        };
        let mut changed: Vec<String> =
            state::get_json(CHANGED_FILES_STATE_KEY)?.unwrap_or_default();
        changed.retain(|known| known != path);
        changed.push(path.to_owned());
        let n_old = changed.len().saturating_sub(MAX_KEPT_CHANGED_FILES);
        changed.drain(..n_old);
        state::set_json(CHANGED_FILES_STATE_KEY, &changed)?;
        Ok(ResultOutcome::default())
    }

    fn describe_session_start(max_entries: usize) -> Result<SessionStart, Error> {
        let messages = session::messages(u32::MAX);
        let first = messages.iter().find(|message| message.role == Role::User);
        let begun = SessionStart {
            project: project::describe_project(),
            workspace: workspace::describe_workspace(max_entries),
            input: first.map(Message::text).unwrap_or_default(),
        };
        state::set_json(SESSION_START_STATE_KEY, &begun)?;
        Ok(begun)
    }

    /// Describes how the session began and which files were changed since; empty in the first turn.
    fn describe_task_state(first_input: &str) -> Result<String, Error> {
        if caller::turn() < 2 {
            return Ok(String::new());
        }
        let mut text = format!("This is turn {} of the session.", caller::turn());
        if !first_input.is_empty() {
            let shown: String = first_input.chars().take(MAX_QUOTED_INPUT_CHARS).collect();
            let cut = if shown.len() < first_input.len() {
                "…"
            } else {
                ""
            };
            text += &format!(" It began with: {}{cut}", shown.trim());
        }
        let changed: Vec<String> = state::get_json(CHANGED_FILES_STATE_KEY)?.unwrap_or_default();
        if !changed.is_empty() {
            text += &format!(
                "\nFiles that you changed in it, the last one last: {}",
                changed.join(", ")
            );
        }
        Ok(text)
    }
}
