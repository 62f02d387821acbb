//! Runs searches in the background, so that keys stay responsive: files and models to complete,
//! models and sessions to choose from.
//!
//! The searches run on other threads and tasks; their results come back as [`ChatLookupResult`].

use super::clipboard;
use super::slash;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::command::LineCompletion;
use super::super::render::session::{belongs_to_folder, describe_session_choice};
use super::super::render::{one_line, warning_text};
use super::complete::{CompletionMenu, list_files, partial_file_name};
use super::keys::KeyInput;
use super::live::LiveChat;
use super::picker::{ChatPicker, PickerEntry, PickerKeyEffect};
use rind_lib::host::{ListedResource, PartialText};
use rind_lib::session::SessionStore;
use rind_mcp::mcp_server_origin;

/// Age at which the list of the workspace's files is read again.
const FILE_LIST_MAX_AGE: Duration = Duration::from_secs(5);

/// Maximum time to wait until a provider lists its models.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of sessions that are offered for resuming.
const MAX_SESSIONS: usize = 500;

/// Names of the chat commands that open a list when they are typed without an argument.
const MODEL_COMMAND: &str = "model";
const RESUME_COMMAND: &str = "resume";

/// Name of the picker for tool calls. Choosing a call shows it and runs no command.
const CALLS_PICKER: &str = "calls";

/// Result of a search.
pub(super) enum ChatLookupResult {
    Files(Vec<String>),
    /// Resources of the MCP server with this name, or the reason why they cannot be listed.
    Resources(String, Result<Vec<ListedResource>, String>),
    /// Completions that an MCP server proposed, after the text before the cursor for which the
    /// server was asked.
    Completed(String, Result<Vec<LineCompletion>, String>),
    /// Names of the provider's models, or the reason why they cannot be listed.
    Models(Result<Vec<String>, String>),
    Sessions(Result<Vec<PickerEntry>, String>),
    /// Image of the clipboard, or the reason why it cannot be read.
    Pasted(Result<Vec<u8>, String>),
}

impl LiveChat {
    /// Proposes completions of the text before the cursor.
    pub(super) fn propose_completions(&mut self) {
        let before = self.editor.text_before_cursor();
        let is_stale = self
            .looked
            .is_none_or(|at| at.elapsed() >= FILE_LIST_MAX_AGE);
        let wants_models = before.starts_with("/model ");
        if is_stale && partial_file_name(before).is_some() {
            self.looked = Some(Instant::now());
            let (finder, workspace) = (self.finder.clone(), self.setup.paths.workspace.clone());
            // Ignore a closed channel: the chat may have ended.
            tokio::task::spawn_blocking(move || {
                drop(finder.send(ChatLookupResult::Files(list_files(&workspace))));
            });
        }
        if wants_models && !self.has_asked_models {
            self.request_models();
        }
        let begun =
            partial_file_name(self.editor.text_before_cursor()).map(|(_, begun)| begun.to_owned());
        if let Some(server) = begun.and_then(|begun| self.resources.begin_listing(&begun)) {
            self.list_resources(server);
        }
        let before = self.editor.text_before_cursor();
        let commands = self.worker.commands();
        self.menu = CompletionMenu::new(before, commands, &self.files, &self.resources);
    }

    /// Asks an MCP server for the list of its resources. Starts the server if it does not run.
    fn list_resources(&self, server: String) {
        if self.worker.commands().is_dry_run() {
            return;
        }
        let (finder, materials) = (self.finder.clone(), self.resources.materials.clone());
        tokio::spawn(async move {
            let listed = materials.list_resources(&mcp_server_origin(&server)).await;
            // Ignore a closed channel: the chat may have ended.
            drop(finder.send(ChatLookupResult::Resources(server, listed)));
        });
    }

    /// Asks an MCP server to complete an argument of one of its prompts, or the URI of one of its
    /// resources. Returns whether a server was asked.
    pub(super) fn request_server_completion(&mut self) -> bool {
        let before = self.editor.text_before_cursor().to_owned();
        let commands = self.worker.commands();
        if self.worker.is_running() || commands.is_dry_run() || before.contains('\n') {
            return false;
        }
        let of_resource = || {
            let (start, begun) = partial_file_name(&before)?;
            let (server, uri) = begun.split_once(':')?;
            let server = self
                .resources
                .servers()
                .into_iter()
                .find(|own| own == server)?;
            let begun = PartialText::Address(uri.to_owned());
            Some((server.clone(), begun, start + server.len() + 1))
        };
        let Some((server, begun, start)) = commands
            .parse_server_prompt_argument(&before)
            .or_else(of_resource)
        else {
            return false;
        };
        let (finder, materials) = (self.finder.clone(), self.resources.materials.clone());
        tokio::spawn(async move {
            let found = materials
                .complete_text(&mcp_server_origin(&server), &begun)
                .await;
            let found = found.map_err(|why| format!("MCP server `{server}`: it {why}"));
            let found = found.map(|texts| {
                let item = |text| LineCompletion {
                    start,
                    text,
                    help: format!("by the MCP server {server}"),
                };
                texts.into_iter().map(item).collect()
            });
            // Ignore a closed channel: the chat may have ended.
            drop(finder.send(ChatLookupResult::Completed(before, found)));
        });
        true
    }

    /// Shows the completions that an MCP server proposed, unless the text has changed since the
    /// server was asked.
    fn show_completions(&mut self, before: &str, found: Result<Vec<LineCompletion>, String>) {
        let is_same = self.editor.text_before_cursor() == before;
        match found {
            Ok(items) if is_same && self.picker.is_none() && self.search.is_none() => {
                self.menu = CompletionMenu::with_completions(items);
            }
            Ok(_) => {}
            Err(why) => self.view.say_line(warning_text(&one_line(&why, 400))),
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
                self.view.say_line(warning_text(&one_line(&words, 400)));
            }
        }
    }

    /// Opens a picker with the tool calls that have ended.
    pub(super) fn open_call_list(&mut self) {
        let mut picker = ChatPicker::new("tool calls, the last one first", CALLS_PICKER);
        picker.set_entries(self.view.ended.entries(), "no tool call has ended yet");
        if let Some(number) = self.view.partly_shown_call_id() {
            picker.select_entry_with_value(number);
        }
        self.menu = CompletionMenu::default();
        self.picker = Some(picker);
    }

    /// Asks the current provider for the list of its models.
    fn request_models(&mut self) {
        let Some((provider, _)) = self.worker.commands().open_session_model() else {
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
                    "no answer within {} s",
                    MODEL_LIST_TIMEOUT.as_secs()
                )),
            };
            drop(finder.send(ChatLookupResult::Models(names)));
        });
    }

    /// Checks in the background whether the provider lists a model that was just chosen, and warns
    /// if it does not.
    pub(super) fn check_model_name(&mut self, name: String) {
        self.unchecked_model = Some(name);
        self.request_models();
    }

    /// Opens the picker for a command that was typed without an argument. Returns false if the
    /// command has no picker.
    pub(super) fn open_picker(&mut self, line: &str) -> bool {
        match line.trim_end().strip_prefix('/') {
            Some(MODEL_COMMAND) => {
                self.picker = Some(ChatPicker::new(
                    "? which model, from the next turn on",
                    MODEL_COMMAND,
                ));
                self.request_models();
            }
            Some(RESUME_COMMAND) if !self.worker.is_running() => {
                self.picker = Some(ChatPicker::new(
                    "? which session, the last used first",
                    RESUME_COMMAND,
                ));
                self.request_sessions();
            }
            _ => return false,
        }
        true
    }

    fn request_sessions(&self) {
        let (finder, paths) = (self.finder.clone(), self.setup.paths.clone());
        let own = self.id.to_string();
        tokio::task::spawn_blocking(move || {
            let heads = SessionStore::new(paths.sessions()).heads();
            let now = rind_lib::clock::now_ms();
            let sessions = heads.map(|heads| {
                let mut rows = heads.rows;
                rows.retain(|row| row.aside.is_none() && row.id != own && row.turns > 0);
                // Put sessions of this folder first. Other sessions are shown with their folder.
                rows.sort_by_key(|row| !belongs_to_folder(row, &paths.workspace));
                let entry = |row: &rind_lib::session::SessionHead| PickerEntry {
                    value: row.id.clone(),
                    about: describe_session_choice(row, &paths.workspace, now),
                };
                rows.iter().take(MAX_SESSIONS).map(entry).collect()
            });
            let sessions = sessions.map_err(|error| error.to_string());
            drop(finder.send(ChatLookupResult::Sessions(sessions)));
        });
    }

    pub(super) fn handle_lookup_result(&mut self, found: ChatLookupResult) {
        match found {
            ChatLookupResult::Files(files) => self.files = files,
            ChatLookupResult::Resources(server, listed) => {
                self.handle_listed_resources(server, listed)
            }
            ChatLookupResult::Completed(before, found) => {
                return self.show_completions(&before, found);
            }
            ChatLookupResult::Models(names) => self.show_listed_models(names),
            ChatLookupResult::Pasted(read) => clipboard::insert_pasted_image(self, read),
            ChatLookupResult::Sessions(sessions) => {
                if let Some(picker) = self
                    .picker
                    .as_mut()
                    .filter(|own| own.command == RESUME_COMMAND)
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
            self.propose_completions();
        }
    }

    fn show_listed_models(&mut self, names: Result<Vec<String>, String>) {
        let commands = self.worker.commands();
        let current = commands.open_session_model().map(|(_, model)| model);
        if let Some(name) = self.unchecked_model.take()
            && let Ok(names) = &names
            && !names.is_empty()
            && !names.contains(&name)
        {
            let words = format!(
                "the server does not list the model {}, so the next turn may fail; /model lists its models",
                one_line(&name, 120)
            );
            self.view.say_line(warning_text(&words));
        }
        if let Some(picker) = self
            .picker
            .as_mut()
            .filter(|own| own.command == MODEL_COMMAND)
        {
            match &names {
                Ok(names) => {
                    let entry = |name: &String| PickerEntry {
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
        self.worker.commands().set_models(names.unwrap_or_default());
    }

    pub(super) fn handle_picker_key(&mut self, input: &KeyInput) {
        let Some(picker) = &mut self.picker else {
            return;
        };
        match picker.press_key(input) {
            PickerKeyEffect::Stays => {}
            PickerKeyEffect::Closed => self.picker = None,
            PickerKeyEffect::Chosen(value) if picker.command == CALLS_PICKER => {
                self.picker = None;
                self.view.show_call_in_full(&value);
            }
            PickerKeyEffect::Chosen(value) => {
                let line = format!("/{} {value}", picker.command);
                self.picker = None;
                slash::run_command(self, &line);
            }
        }
    }
}
