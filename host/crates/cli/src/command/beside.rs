//! Built-in commands that need only shared access to the open session, so that they work while a
//! turn runs.
//!
//! Start from [`OpenSessionHandles`].

use std::fmt::Write as _;
use std::sync::Arc;

use super::SlashCommandSet;
use crate::exit_code::bail_usage;
use crate::render;
use crate::render::changes::{FileChangeToShow, format_file_change_lines};
use rind_lib::checkpoint::CheckpointReader;
use rind_lib::host::{Host, Session};
use rind_lib::message::{Message, Role, ToolSpec};
use rind_lib::provider::Provider;
use rind_lib::session;
use rind_lib::tool::background::{BackgroundCommand, BackgroundCommands};
use rind_lib::tool::policy::ApprovalMode;

/// Maximum number of rows of one file's diff in `/diff`.
const MAX_DIFF_ROWS_PER_FILE: usize = 200;

/// Maximum size of an answer that `/copy` copies, in bytes: terminals refuse or truncate longer
/// texts.
const MAX_COPIED_ANSWER_BYTES: usize = 64 << 10;

/// Number of messages at the end of a conversation in which `/copy` searches for the last answer.
const MAX_SEARCHED_MESSAGES: usize = 200;

/// Name of the main agent, as opposed to that of a subagent.
const MAIN_AGENT_NAME: &str = "main";

/// Reason that the model is shown when a person stops a background command.
const STOPPED_BY_USER_REASON: &str = "by the user";

/// Handles of an open session that can be used while a running turn borrows the session.
#[derive(Clone)]
pub(crate) struct OpenSessionHandles {
    pub(super) host: Host,
    pub(super) stored: Arc<session::Session>,
    pub(super) tools: Vec<Arc<ToolSpec>>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) model: String,
    pub(super) background: BackgroundCommands,
}

impl OpenSessionHandles {
    pub(crate) fn from_session(session: &Session) -> Self {
        Self {
            host: session.host().clone(),
            stored: session.stored(),
            tools: session.tools(),
            provider: session.provider().clone(),
            model: session.model().1.to_owned(),
            background: session.background_commands(),
        }
    }

    /// Returns the cost of the session so far in US dollars, without models of unknown price.
    pub(crate) fn cost_usd(&self) -> f64 {
        self.stored.cost_usd()
    }

    /// Describes the model, its provider and the server's URL.
    pub(super) fn describe_model(&self) -> String {
        let url = self.provider.base_url();
        let at = url.map_or_else(String::new, |url| format!(" at {url}"));
        format!("{} ({}{at})", self.model, self.provider.name())
    }

    /// Sets the title of the session, and returns a text about it for the user.
    pub(super) fn set_session_title(&self, title: Option<&str>) -> anyhow::Result<String> {
        let Some(title) = title.filter(|title| !title.trim().is_empty()) else {
            bail_usage!("type a title after the command: /rename TITLE");
        };
        let title = self.stored.set_title(title)?;
        Ok(format!("the title of this session is now {title}"))
    }

    /// Returns the text of the model's last answer.
    pub(super) fn read_last_answer(&self) -> anyhow::Result<String> {
        let messages = self.stored.last_messages(MAX_SEARCHED_MESSAGES);
        let is_answer = |message: &&Message| {
            message.role == Role::Assistant && !message.joined_text().trim().is_empty()
        };
        let Some(answer) = messages.iter().rev().find(is_answer) else {
            bail_usage!("the model has not answered yet, so there is nothing to copy");
        };
        let text = answer.joined_text();
        if text.len() > MAX_COPIED_ANSWER_BYTES {
            bail_usage!(
                "the last answer has {}, which is more than terminals accept; /export writes it to a file",
                render::format_bytes(text.len() as u64)
            );
        }
        Ok(text)
    }

    /// Returns a line for each command in the background, with its id, its age and the command
    /// itself.
    fn list_background_commands(&self) -> Vec<String> {
        let line = |command: &Arc<BackgroundCommand>| {
            let clock = render::format_elapsed_seconds(command.running_time().as_secs());
            let of = match command.agent_name() {
                MAIN_AGENT_NAME => String::new(),
                agent => format!(" of {}", render::truncate_to_one_line(agent, 64)),
            };
            format!(
                "{}{of} in the background, {clock}: {}",
                command.id(),
                command.masked_command_line()
            )
        };
        self.background
            .running_commands()
            .iter()
            .map(line)
            .collect()
    }

    /// Returns the values that `/stop` accepts, each with a description.
    pub(super) fn list_stop_command_arguments(&self) -> Vec<(String, String)> {
        let running = self.background.running_commands();
        let mut values: Vec<(String, String)> = running
            .iter()
            .map(|command| (command.id().to_owned(), command.masked_command_line()))
            .collect();
        if values.len() > 1 {
            values.push(("all".to_owned(), "every one of them".to_owned()));
        }
        values
    }

    /// Stops one or all background commands; without an id, lists the background commands.
    pub(super) fn handle_stop_slash_command(&self, id: Option<&str>) -> anyhow::Result<String> {
        let running = self.background.running_commands();
        let Some(id) = id.map(str::trim).filter(|id| !id.is_empty()) else {
            return Ok(match running.is_empty() {
                true => "no command runs in the background".to_owned(),
                false => format!(
                    "{}\n/stop ID stops one, /stop all stops all",
                    self.list_background_commands().join("\n")
                ),
            });
        };
        let wanted = |command: &&Arc<BackgroundCommand>| id == "all" || command.id() == id;
        let stopped: Vec<&str> = running
            .iter()
            .filter(wanted)
            .filter_map(|command| {
                self.background
                    .stop_command(command.id(), STOPPED_BY_USER_REASON)
                    .map(|_| command.id())
            })
            .collect();
        if stopped.is_empty() {
            bail_usage!(
                "no command `{}` runs in the background; /stop lists those that do",
                render::truncate_to_one_line(id, 64)
            );
        }
        Ok(format!("stopping {}", stopped.join(", ")))
    }

    /// Describes the file changes of a turn; by default of the last turn that changed files.
    pub(super) fn describe_turn_file_changes(&self, turn: Option<&str>) -> anyhow::Result<String> {
        let Some(folder) = self.stored.local_folder() else {
            bail_usage!("the store of this session keeps no earlier versions of files");
        };
        let reader = CheckpointReader::open(&folder)?;
        let turns = reader.turns_with_file_changes();
        let listed: Vec<String> = turns.iter().map(u32::to_string).collect();
        let turn = match turn {
            None => turns.last().copied(),
            Some(text) => match text.parse::<u32>() {
                Ok(turn) if turns.contains(&turn) => Some(turn),
                _ if turns.is_empty() => None,
                _ => bail_usage!(
                    "no file is known to have changed in turn {}; turns that changed files: {}",
                    text.escape_debug(),
                    listed.join(", ")
                ),
            },
        };
        let Some(turn) = turn else {
            return Ok("no turn of this session has changed a file".to_owned());
        };
        let changes = reader.turn_changes(turn);
        let n = render::format_count_with_noun(changes.len() as u64, "change");
        let mut text = format!("turn {turn}: {n}");
        if listed.len() > 1 {
            let _ = write!(text, "; turns that changed files: {}", listed.join(", "));
        }
        for change in &changes {
            let shown = FileChangeToShow {
                path: &change.path,
                from: &change.before,
                to: &change.after,
                contents: [&change.before, &change.after].map(|state| reader.file_content(state)),
            };
            for line in format_file_change_lines(&shown, MAX_DIFF_ROWS_PER_FILE) {
                let _ = write!(text, "\n{}", line.text);
            }
        }
        Ok(text)
    }
}

impl SlashCommandSet {
    /// Describes the session, the folder, the mode and the loaded plugins and skills.
    pub(super) fn describe_session_and_plugins_status(
        &self,
        open: Option<&OpenSessionHandles>,
    ) -> String {
        let mut text = format!("rind {}", env!("CARGO_PKG_VERSION"));
        let _ = write!(text, "\nfolder   {}", self.about.paths.workspace.display());
        match open {
            Some(open) => {
                let n_turns = u64::from(open.stored.last_turn_number());
                let n_messages = open.stored.n_messages() as u64;
                let _ = write!(
                    text,
                    "\nsession  {} ({}, {})\nmodel    {}",
                    open.stored.id(),
                    render::format_count_with_noun(n_turns, "turn"),
                    render::format_count_with_noun(n_messages, "message"),
                    open.describe_model()
                );
                if let Some(title) = open.stored.title() {
                    let _ = write!(
                        text,
                        "\ntitle    {}",
                        render::truncate_to_one_line(&title, 200)
                    );
                }
                if let Some(usd) = render::format_dollars(open.cost_usd()) {
                    let _ = write!(text, "\ncost     {usd}");
                }
            }
            None => text.push_str("\nsession  none is open"),
        }
        let _ = write!(text, "\nmode     {}", self.describe_approval_mode());
        for line in open.map_or_else(Vec::new, OpenSessionHandles::list_background_commands) {
            let _ = write!(text, "\nruns     {line}");
        }
        let plugins = &self.about.plugins;
        let _ = write!(text, "\nplugins  {} run", plugins.plugins.len());
        match plugins.left_out.len() {
            0 => {}
            n => _ = write!(text, ", {n} not loaded (/plugins says why)"),
        }
        let _ = write!(text, "\nskills   {}", self.about.skills.iter().count());
        let _ = write!(
            text,
            "\nsettings {}",
            self.about.paths.user_config().display()
        );
        text
    }

    /// Describes the approval mode and whether `--dry-run` is set.
    pub(super) fn describe_approval_mode(&self) -> String {
        let mode = self.about.switch.mode();
        let dry_run = match self.about.is_dry_run {
            true => "; --dry-run: calls that do more than read are described and not run",
            false => "",
        };
        format!("{mode}: {}{dry_run}", mode.description())
    }

    /// Switches the approval mode to the named one, or lists all modes.
    pub(super) fn switch_or_list_approval_modes(
        &self,
        name: Option<&str>,
    ) -> anyhow::Result<String> {
        if let Some(name) = name {
            let mode = name.parse::<ApprovalMode>();
            let mode = mode.map_err(crate::exit_code::Usage)?;
            self.about.switch.set_mode(mode);
            return Ok(format!("mode {}", self.describe_approval_mode()));
        }
        let now = self.about.switch.mode();
        let rows = ApprovalMode::ALL.map(|mode| {
            let mark = if mode == now { "▸" } else { " " };
            format!("{mark} {:<13}{}", mode.name(), mode.description())
        });
        Ok(format!(
            "{}\n/mode NAME switches; so does Shift-Tab in the chat. Rules and hooks that deny hold in every mode, those that ask in all but `full`",
            rows.join("\n")
        ))
    }
}
