//! Runs searches in the background, so that keys stay responsive: files and models to complete,
//! models and sessions to choose from.
//!
//! The searches run on other threads and tasks; their results come back as [`FoundChoices`].

use super::clipboard;
use super::slash;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::command::LineCompletion;
use super::super::render::session::{describe_choice, is_of_folder};
use super::super::render::{one_line, warning_text};
use super::complete::{CompletionMenu, list_files, partial_file};
use super::keys::KeyInput;
use super::live::LiveChat;
use super::picker::{ChatPicker, PickerEffect, PickerEntry};
use rind_lib::host::{ListedResource, PartialText};
use rind_lib::session::SessionStore;
use rind_mcp::origin_of;

/// Age from which on the list of the workspace's files is read again.
const STALE: Duration = Duration::from_secs(5);

/// Maximum wait for a server to list its models.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of sessions to choose from.
const MAX_SESSIONS: usize = 500;

/// Commands that open a list when they are typed without an argument.
const MODEL: &str = "model";
const RESUME: &str = "resume";

/// Name of the list of tool calls. A choice opens the call and runs no command.
const CALLS: &str = "calls";

/// Result of a search.
pub(super) enum FoundChoices {
    Files(Vec<String>),
    /// Resources of this MCP server, or the reason why there are none.
    Resources(String, Result<Vec<ListedResource>, String>),
    /// Completions of this text, which was before the cursor, by an MCP server.
    Completed(String, Result<Vec<LineCompletion>, String>),
    /// Names of the models, or the reason why there are none.
    Models(Result<Vec<String>, String>),
    Sessions(Result<Vec<PickerEntry>, String>),
    /// Image of the clipboard, or the reason why there is none.
    Pasted(Result<Vec<u8>, String>),
}

impl LiveChat {
    /// Proposes completions of the text before the cursor.
    pub(super) fn propose_completions(&mut self) {
        let before = self.editor.before();
        let is_stale = self.looked.is_none_or(|at| at.elapsed() >= STALE);
        let wants_models = before.starts_with("/model ");
        if is_stale && partial_file(before).is_some() {
            self.looked = Some(Instant::now());
            let (finder, workspace) = (self.finder.clone(), self.setup.paths.workspace.clone());
            // Ignore a closed channel: the chat may be over.
            tokio::task::spawn_blocking(move || {
                drop(finder.send(FoundChoices::Files(list_files(&workspace))));
            });
        }
        if wants_models && !self.has_asked_models {
            self.ask_models();
        }
        let begun = partial_file(self.editor.before()).map(|(_, begun)| begun.to_owned());
        if let Some(server) = begun.and_then(|begun| self.resources.begin_listing(&begun)) {
            self.list_resources(server);
        }
        let before = self.editor.before();
        let commands = self.worker.commands();
        self.menu = CompletionMenu::new(before, commands, &self.files, &self.resources);
    }

    /// Asks a server which resources it has. The server is started if it does not run.
    fn list_resources(&self, server: String) {
        if self.worker.commands().is_dry_run() {
            return;
        }
        let (finder, materials) = (self.finder.clone(), self.resources.materials.clone());
        tokio::spawn(async move {
            let listed = materials.list_resources(&origin_of(&server)).await;
            // Ignore a closed channel: the chat may be over.
            drop(finder.send(FoundChoices::Resources(server, listed)));
        });
    }

    /// Asks an MCP server to complete an argument of one of its prompts, or the URI of one of its
    /// resources. Returns whether a server was asked.
    pub(super) fn complete_at_server(&mut self) -> bool {
        let before = self.editor.before().to_owned();
        let commands = self.worker.commands();
        if self.worker.is_running() || commands.is_dry_run() || before.contains('\n') {
            return false;
        }
        let of_resource = || {
            let (start, begun) = partial_file(&before)?;
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
            .partial_text_at_server(&before)
            .or_else(of_resource)
        else {
            return false;
        };
        let (finder, materials) = (self.finder.clone(), self.resources.materials.clone());
        tokio::spawn(async move {
            let found = materials.complete_text(&origin_of(&server), &begun).await;
            let found = found.map_err(|why| format!("MCP server `{server}`: it {why}"));
            let found = found.map(|texts| {
                let item = |text| LineCompletion {
                    start,
                    text,
                    help: format!("by the MCP server {server}"),
                };
                texts.into_iter().map(item).collect()
            });
            // Ignore a closed channel: the chat may be over.
            drop(finder.send(FoundChoices::Completed(before, found)));
        });
        true
    }

    /// Shows the proposals of a server, unless the text has changed since it was asked.
    fn take_completed(&mut self, before: &str, found: Result<Vec<LineCompletion>, String>) {
        let is_same = self.editor.before() == before;
        match found {
            Ok(items) if is_same && self.picker.is_none() && self.search.is_none() => {
                self.menu = CompletionMenu::of_proposals(items);
            }
            Ok(_) => {}
            Err(why) => self.view.say_line(warning_text(&one_line(&why, 400))),
        }
    }

    fn take_resources(&mut self, server: String, listed: Result<Vec<ListedResource>, String>) {
        match listed {
            Ok(resources) => self.resources.note_listed(server, resources),
            Err(why) => {
                let words = format!("no resources of MCP server `{server}` to name: it {why}");
                self.view.say_line(warning_text(&one_line(&words, 400)));
            }
        }
    }

    /// Opens the list of the tool calls that ended.
    pub(super) fn pick_call(&mut self) {
        let mut picker = ChatPicker::new("tool calls, the last one first", CALLS);
        picker.fill(self.view.ended.entries(), "no tool call has ended yet");
        if let Some(number) = self.view.opened_call() {
            picker.choose_value(number);
        }
        self.menu = CompletionMenu::default();
        self.picker = Some(picker);
    }

    /// Asks the server of the model which models it has.
    fn ask_models(&mut self) {
        let Some((provider, _)) = self.worker.commands().open_model() else {
            return;
        };
        self.has_asked_models = true;
        let finder = self.finder.clone();
        tokio::spawn(async move {
            let cancel = CancellationToken::new();
            let _ends = cancel.clone().drop_guard();
            let asked = tokio::time::timeout(PATIENCE, provider.models(&cancel)).await;
            let names = match asked {
                Ok(Ok(names)) => Ok(names),
                Ok(Err(error)) => Err(format!("{:#}", anyhow::Error::new(error))),
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            drop(finder.send(FoundChoices::Models(names)));
        });
    }

    /// Records a model that was just chosen, to warn if its server does not know it.
    pub(super) fn check_model(&mut self, name: String) {
        self.unchecked_model = Some(name);
        self.ask_models();
    }

    /// Opens the list of choices for a command that was typed without an argument. Returns false if
    /// the command has no such list.
    pub(super) fn open_picker(&mut self, line: &str) -> bool {
        match line.trim_end().strip_prefix('/') {
            Some(MODEL) => {
                self.picker = Some(ChatPicker::new(
                    "? which model, from the next turn on",
                    MODEL,
                ));
                self.ask_models();
            }
            Some(RESUME) if !self.worker.is_running() => {
                self.picker = Some(ChatPicker::new(
                    "? which session, the last used first",
                    RESUME,
                ));
                self.find_sessions();
            }
            _ => return false,
        }
        true
    }

    fn find_sessions(&self) {
        let (finder, paths) = (self.finder.clone(), self.setup.paths.clone());
        let own = self.id.to_string();
        tokio::task::spawn_blocking(move || {
            let heads = SessionStore::new(paths.sessions()).heads();
            let now = rind_lib::clock::now_ms();
            let sessions = heads.map(|heads| {
                let mut rows = heads.rows;
                rows.retain(|row| row.aside.is_none() && row.id != own && row.turns > 0);
                // Sessions of this folder come first; other sessions are shown with their folder.
                rows.sort_by_key(|row| !is_of_folder(row, &paths.workspace));
                let entry = |row: &rind_lib::session::SessionHead| PickerEntry {
                    value: row.id.clone(),
                    about: describe_choice(row, &paths.workspace, now),
                };
                rows.iter().take(MAX_SESSIONS).map(entry).collect()
            });
            let sessions = sessions.map_err(|error| error.to_string());
            drop(finder.send(FoundChoices::Sessions(sessions)));
        });
    }

    pub(super) fn take_found(&mut self, found: FoundChoices) {
        match found {
            FoundChoices::Files(files) => self.files = files,
            FoundChoices::Resources(server, listed) => self.take_resources(server, listed),
            FoundChoices::Completed(before, found) => {
                return self.take_completed(&before, found);
            }
            FoundChoices::Models(names) => self.take_models(names),
            FoundChoices::Pasted(read) => clipboard::take_pasted(self, read),
            FoundChoices::Sessions(sessions) => {
                if let Some(picker) = self.picker.as_mut().filter(|own| own.command == RESUME) {
                    match sessions {
                        Ok(entries) => picker.fill(entries, "there is no other session yet"),
                        Err(why) => picker.fill(Vec::new(), why),
                    }
                }
                return;
            }
        }
        if self.picker.is_none() && self.search.is_none() {
            self.propose_completions();
        }
    }

    fn take_models(&mut self, names: Result<Vec<String>, String>) {
        let commands = self.worker.commands();
        let current = commands.open_model().map(|(_, model)| model);
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
        if let Some(picker) = self.picker.as_mut().filter(|own| own.command == MODEL) {
            match &names {
                Ok(names) => {
                    let entry = |name: &String| PickerEntry {
                        value: name.clone(),
                        about: match current.as_ref() == Some(name) {
                            true => "in use".to_owned(),
                            false => String::new(),
                        },
                    };
                    picker.fill(
                        names.iter().map(entry).collect(),
                        "the server lists no models",
                    );
                    picker.choose_value(current.as_deref().unwrap_or_default());
                }
                Err(why) => picker.fill(Vec::new(), why.clone()),
            }
        }
        self.worker.commands().set_models(names.unwrap_or_default());
    }

    pub(super) fn press_in_picker(&mut self, input: &KeyInput) {
        let Some(picker) = &mut self.picker else {
            return;
        };
        match picker.press_key(input) {
            PickerEffect::Stays => {}
            PickerEffect::Closed => self.picker = None,
            PickerEffect::Chosen(value) if picker.command == CALLS => {
                self.picker = None;
                self.view.open_call(&value);
            }
            PickerEffect::Chosen(value) => {
                let line = format!("/{} {value}", picker.command);
                self.picker = None;
                slash::run_command(self, &line);
            }
        }
    }
}
