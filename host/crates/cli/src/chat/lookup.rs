//! Runs searches in the background, so that keys stay responsive: files and models to complete,
//! models and sessions to choose from.
//!
//! The searches run on other threads and tasks; their results come back as
//! [`ChatBackgroundLookupResult`].

use super::clipboard;
use super::slash;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::command::InputLineCompletion;
use super::super::render::session::{describe_session_choice, is_session_in_workspace};
use super::super::render::{format_warning_line, truncate_to_one_line};
use super::complete::{CompletionMenu, list_workspace_files, partial_file_mention};
use super::keys::TerminalInputEvent;
use super::live::LiveChat;
use super::picker::{ChatPickerEntry, PickerKeyPressEffect, SearchableListPicker};
use rind_lib::host::{InputCompletionRequest, ListedResource};
use rind_lib::session::SessionStore;
use rind_mcp::mcp_tool_source_name;

/// Age at which the list of the workspace's files is read again.
const MAX_FILE_LIST_AGE: Duration = Duration::from_secs(5);

/// Maximum time to wait until a provider lists its models.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of sessions that are offered for resuming.
const MAX_RESUMABLE_SESSIONS_LISTED: usize = 500;

/// Names of the chat commands that open a list when they are typed without an argument.
const MODEL_COMMAND_NAME: &str = "model";
const RESUME_COMMAND_NAME: &str = "resume";

/// Name of the picker for tool calls. Choosing a call shows it and runs no command.
const TOOL_CALLS_PICKER_NAME: &str = "calls";

/// Result of a search that ran in the background of the chat.
pub(super) enum ChatBackgroundLookupResult {
    Files(Vec<String>),
    /// Resources of the MCP server with this name, or the reason why they cannot be listed.
    Resources(String, Result<Vec<ListedResource>, String>),
    /// Completions that an MCP server proposed, after the text before the cursor for which the
    /// server was asked.
    Completed(String, Result<Vec<InputLineCompletion>, String>),
    /// Names of the provider's models, or the reason why they cannot be listed.
    Models(Result<Vec<String>, String>),
    Sessions(Result<Vec<ChatPickerEntry>, String>),
    /// Image of the clipboard, or the reason why it cannot be read.
    Pasted(Result<Vec<u8>, String>),
}

impl LiveChat {
    /// Updates the menu with completions of the text before the cursor.
    pub(super) fn update_completion_menu(&mut self) {
        let before = self.editor.text_before_cursor();
        let is_stale = self
            .looked
            .is_none_or(|at| at.elapsed() >= MAX_FILE_LIST_AGE);
        let wants_models = before.starts_with("/model ");
        if is_stale && partial_file_mention(before).is_some() {
            self.looked = Some(Instant::now());
            let (finder, workspace) = (self.finder.clone(), self.setup.paths.workspace.clone());
            // Ignore a closed channel: the chat may have ended.
            tokio::task::spawn_blocking(move || {
                drop(
                    finder.send(ChatBackgroundLookupResult::Files(list_workspace_files(
                        &workspace,
                    ))),
                );
            });
        }
        if wants_models && !self.has_asked_models {
            self.request_models();
        }
        let begun = partial_file_mention(self.editor.text_before_cursor())
            .map(|(_, begun)| begun.to_owned());
        if let Some(server) =
            begun.and_then(|begun| self.resources.claim_server_for_resource_listing(&begun))
        {
            self.request_server_resources(server);
        }
        let before = self.editor.text_before_cursor();
        let commands = self.worker.slash_command_set();
        self.menu = CompletionMenu::new(before, commands, &self.files, &self.resources);
    }

    /// Asks an MCP server for the list of its resources. Starts the server if it does not run.
    fn request_server_resources(&self, server: String) {
        if self.worker.slash_command_set().is_dry_run_session() {
            return;
        }
        let (finder, materials) = (self.finder.clone(), self.resources.materials.clone());
        tokio::spawn(async move {
            let listed = materials
                .list_resources(&mcp_tool_source_name(&server))
                .await;
            // Ignore a closed channel: the chat may have ended.
            drop(finder.send(ChatBackgroundLookupResult::Resources(server, listed)));
        });
    }

    /// Asks an MCP server to complete an argument of one of its prompts, or the URI of one of its
    /// resources. Returns whether a server was asked.
    pub(super) fn request_server_completion(&mut self) -> bool {
        let before = self.editor.text_before_cursor().to_owned();
        let commands = self.worker.slash_command_set();
        if self.worker.is_job_running() || commands.is_dry_run_session() || before.contains('\n') {
            return false;
        }
        let of_resource = || {
            let (start, begun) = partial_file_mention(&before)?;
            let (server, uri) = begun.split_once(':')?;
            let server = self
                .resources
                .server_names()
                .into_iter()
                .find(|own| own == server)?;
            let begun = InputCompletionRequest::Address(uri.to_owned());
            Some((server.clone(), begun, start + server.len() + 1))
        };
        let Some((server, begun, start)) = commands
            .parse_partial_mcp_prompt_argument(&before)
            .or_else(of_resource)
        else {
            return false;
        };
        let (finder, materials) = (self.finder.clone(), self.resources.materials.clone());
        tokio::spawn(async move {
            let found = materials
                .complete_user_input(&mcp_tool_source_name(&server), &begun)
                .await;
            let found = found.map_err(|why| format!("MCP server `{server}` {why}"));
            let found = found.map(|texts| {
                let item = |text| InputLineCompletion {
                    start,
                    text,
                    help: format!("by the MCP server {server}"),
                };
                texts.into_iter().map(item).collect()
            });
            // Ignore a closed channel: the chat may have ended.
            drop(finder.send(ChatBackgroundLookupResult::Completed(before, found)));
        });
        true
    }

    /// Shows the completions that an MCP server proposed, unless the text has changed since the
    /// server was asked.
    fn show_mcp_server_completions(
        &mut self,
        before: &str,
        found: Result<Vec<InputLineCompletion>, String>,
    ) {
        let is_same = self.editor.text_before_cursor() == before;
        match found {
            Ok(items) if is_same && self.picker.is_none() && self.search.is_none() => {
                self.menu = CompletionMenu::with_completions(items);
            }
            Ok(_) => {}
            Err(why) => self
                .view
                .add_finished_output_line(format_warning_line(&truncate_to_one_line(&why, 400))),
        }
    }

    fn handle_listed_resources(
        &mut self,
        server: String,
        listed: Result<Vec<ListedResource>, String>,
    ) {
        match listed {
            Ok(resources) => self.resources.store_server_resources(server, resources),
            Err(why) => {
                let words = format!("cannot list the resources of MCP server `{server}`: it {why}");
                self.view
                    .add_finished_output_line(format_warning_line(&truncate_to_one_line(
                        &words, 400,
                    )));
            }
        }
    }

    /// Opens a picker with the tool calls that have ended.
    pub(super) fn show_ended_call_picker(&mut self) {
        let mut picker =
            SearchableListPicker::new("tool calls, the last one first", TOOL_CALLS_PICKER_NAME);
        picker.set_entries(
            self.view.ended.picker_entries(),
            "no tool call has ended yet",
        );
        if let Some(number) = self.view.partly_shown_call_ordinal() {
            picker.select_entry_with_value(number);
        }
        self.menu = CompletionMenu::default();
        self.picker = Some(picker);
    }

    /// Asks the current provider for the list of its models.
    fn request_models(&mut self) {
        let Some((provider, _)) = self.worker.slash_command_set().model_of_open_session() else {
            return;
        };
        self.has_asked_models = true;
        let finder = self.finder.clone();
        tokio::spawn(async move {
            let cancel = CancellationToken::new();
            let _ends = cancel.clone().drop_guard();
            let asked = tokio::time::timeout(MODEL_LIST_TIMEOUT, provider.models(&cancel)).await;
            let names = match asked {
                Ok(Ok(names)) => Ok(names),
                Ok(Err(error)) => Err(format!("{:#}", anyhow::Error::new(error))),
                Err(_) => Err(format!(
                    "the provider did not answer within {} s",
                    MODEL_LIST_TIMEOUT.as_secs()
                )),
            };
            drop(finder.send(ChatBackgroundLookupResult::Models(names)));
        });
    }

    /// Checks in the background whether the provider lists a model that was just chosen, and warns
    /// if it does not.
    pub(super) fn check_model_name_in_background(&mut self, name: String) {
        self.unchecked_model = Some(name);
        self.request_models();
    }

    /// Opens the picker for a command that was typed without an argument. Returns false if the
    /// command has no picker.
    pub(super) fn open_picker(&mut self, line: &str) -> bool {
        match line.trim_end().strip_prefix('/') {
            Some(MODEL_COMMAND_NAME) => {
                self.picker = Some(SearchableListPicker::new(
                    "? which model, from the next turn on",
                    MODEL_COMMAND_NAME,
                ));
                self.request_models();
            }
            Some(RESUME_COMMAND_NAME) if !self.worker.is_job_running() => {
                self.picker = Some(SearchableListPicker::new(
                    "? which session, the last used first",
                    RESUME_COMMAND_NAME,
                ));
                self.load_sessions_for_picker();
            }
            _ => return false,
        }
        true
    }

    fn load_sessions_for_picker(&self) {
        let (finder, paths) = (self.finder.clone(), self.setup.paths.clone());
        let own = self.id.to_string();
        tokio::task::spawn_blocking(move || {
            let heads = SessionStore::new(paths.sessions()).list_session_summaries();
            let now = rind_lib::clock::now_ms();
            let sessions = heads.map(|heads| {
                let mut rows = heads.rows;
                rows.retain(|row| row.aside.is_none() && row.id != own && row.turns > 0);
                // Put sessions of this folder first. Other sessions are shown with their folder.
                rows.sort_by_key(|row| !is_session_in_workspace(row, &paths.workspace));
                let entry = |row: &rind_lib::session::SessionSummary| ChatPickerEntry {
                    value: row.id.clone(),
                    about: describe_session_choice(row, &paths.workspace, now),
                };
                rows.iter()
                    .take(MAX_RESUMABLE_SESSIONS_LISTED)
                    .map(entry)
                    .collect()
            });
            let sessions = sessions.map_err(|error| error.to_string());
            drop(finder.send(ChatBackgroundLookupResult::Sessions(sessions)));
        });
    }

    pub(super) fn handle_background_lookup_result(&mut self, found: ChatBackgroundLookupResult) {
        match found {
            ChatBackgroundLookupResult::Files(files) => self.files = files,
            ChatBackgroundLookupResult::Resources(server, listed) => {
                self.handle_listed_resources(server, listed)
            }
            ChatBackgroundLookupResult::Completed(before, found) => {
                return self.show_mcp_server_completions(&before, found);
            }
            ChatBackgroundLookupResult::Models(names) => self.show_listed_models(names),
            ChatBackgroundLookupResult::Pasted(read) => {
                clipboard::save_and_mention_pasted_image(self, read)
            }
            ChatBackgroundLookupResult::Sessions(sessions) => {
                if let Some(picker) = self
                    .picker
                    .as_mut()
                    .filter(|own| own.command == RESUME_COMMAND_NAME)
                {
                    match sessions {
                        Ok(entries) => picker.set_entries(entries, "there is no other session yet"),
                        Err(why) => picker.set_entries(Vec::new(), why),
                    }
                }
                return;
            }
        }
        if self.picker.is_none() && self.search.is_none() {
            self.update_completion_menu();
        }
    }

    fn show_listed_models(&mut self, names: Result<Vec<String>, String>) {
        let commands = self.worker.slash_command_set();
        let current = commands.model_of_open_session().map(|(_, model)| model);
        if let Some(name) = self.unchecked_model.take()
            && let Ok(names) = &names
            && !names.is_empty()
            && !names.contains(&name)
        {
            let words = format!(
                "the server does not list the model {}, so the next turn may fail; /model lists its models",
                truncate_to_one_line(&name, 120)
            );
            self.view
                .add_finished_output_line(format_warning_line(&words));
        }
        if let Some(picker) = self
            .picker
            .as_mut()
            .filter(|own| own.command == MODEL_COMMAND_NAME)
        {
            match &names {
                Ok(names) => {
                    let entry = |name: &String| ChatPickerEntry {
                        value: name.clone(),
                        about: match current.as_ref() == Some(name) {
                            true => "in use".to_owned(),
                            false => String::new(),
                        },
                    };
                    picker.set_entries(
                        names.iter().map(entry).collect(),
                        "the server lists no models",
                    );
                    picker.select_entry_with_value(current.as_deref().unwrap_or_default());
                }
                Err(why) => picker.set_entries(Vec::new(), why.clone()),
            }
        }
        self.worker
            .slash_command_set()
            .set_model_names_to_propose(names.unwrap_or_default());
    }

    pub(super) fn handle_picker_key(&mut self, input: &TerminalInputEvent) {
        let Some(picker) = &mut self.picker else {
            return;
        };
        match picker.handle_key_input(input) {
            PickerKeyPressEffect::Stays => {}
            PickerKeyPressEffect::Closed => self.picker = None,
            PickerKeyPressEffect::Chosen(value) if picker.command == TOOL_CALLS_PICKER_NAME => {
                self.picker = None;
                self.view.show_more_rows_of_opened_call(&value);
            }
            PickerKeyPressEffect::Chosen(value) => {
                let line = format!("/{} {value}", picker.command);
                self.picker = None;
                slash::run_command(self, &line);
            }
        }
    }
}
