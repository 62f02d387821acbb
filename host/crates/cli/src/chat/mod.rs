//! `rind chat`: many turns in one session, while the person can type at any time.
//!
//! `live` is the chat that redraws the terminal; `plain` reads and writes lines. A task owns the
//! session (`worker`); `view` turns its events into lines, `screen` draws them on the terminal,
//! `keys` and `editor` take the typed text. No module here decides how a turn runs: a text starts a
//! turn, or is added to the queues of `agent::AgentSteeringHandle`.

mod agents;
mod ask;
#[cfg(feature = "nats")]
mod attached;
mod calls;
mod clipboard;
mod complete;
mod diff;
mod draw;
mod editor;
mod external;
mod history;
mod keys;
mod leave;
mod live;
mod lookup;
mod modes;
mod notify;
mod permissions;
mod picker;
mod plain;
mod press;
mod read_ahead;
mod recall;
mod resources;
mod screen;
mod shell;
mod slash;
mod status;
mod tty;
mod view;
mod waiting;
mod worker;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use super::args::ChatArgs;
use super::command::SlashCommandSet;
use super::environment;
use super::exit_code::{ExitStatus, bail_usage};
use super::open;
use super::programs::TurnInputOutputChannels;
use super::question::{QuestionScreenContent, TerminalQuestionLine};
use super::render::{self, BOLD_STYLE, DIM_STYLE};
use live::NextStepAfterChat;
use rind_lib::host::Session;
use rind_lib::session::{SessionStore, SessionSummary};
use rind_operator::settings::SessionChoice;

/// Maximum number of unusable command templates that are named at the start.
const MAX_SHOWN_TEMPLATE_FAULTS: usize = 5;

/// Maximum number of earlier sessions that the user can choose to continue.
const MAX_OFFERED_SESSIONS: usize = 9;

pub(super) async fn run_chat(args: ChatArgs) -> anyhow::Result<ExitStatus> {
    let is_typed = std::io::stdin().is_terminal();
    let has_terminal = is_typed && std::io::stderr().is_terminal();
    let is_plain =
        args.plain || !has_terminal || !std::io::stdout().is_terminal() || is_dumb_terminal();
    #[cfg(feature = "nats")]
    if args.remote.is_turn_run_by_worker() {
        return attach_to_session(args, is_plain).await;
    }
    let resume = match (args.go_on, args.resume.as_deref()) {
        (true, _) => Some("last".to_owned()),
        (false, Some("")) => match choose_session_to_resume(&args, has_terminal).await? {
            Some(id) => Some(id),
            None => return Ok(ExitStatus::Done),
        },
        (false, other) => other.map(str::to_owned),
    };
    let (mut resume, mut prompt, mut args) = (resume, args.prompt.clone(), args);
    // Keep the chosen approval mode for the next session of this chat.
    let mut mode = None;
    let mut programs = TurnInputOutputChannels::open_from_paths(args.open.events.as_deref(), None)?;
    loop {
        let mut settings = args.open.to_run_settings(
            SessionChoice::resume_or_new(resume.as_deref()),
            has_terminal,
        )?;
        if let Some(mode) = mode.take() {
            (settings.mode.yes, settings.approval) = (false, mode);
        }
        let prepared = open::prepare_session(settings).await?;
        let commands = Arc::new(prepared.collect_slash_commands().await?);
        warn_of_template_faults(&commands);
        let opened = prepared.open_session().await?;
        let (prompt, switch) = (prompt.take(), opened.switch.clone());
        let left = match is_plain {
            true => {
                plain::run_plain_chat(opened, commands, prompt, is_typed, &mut programs).await?
            }
            false => live::run_live_chat(opened, commands, prompt, &mut programs).await?,
        };
        match left {
            NextStepAfterChat::Quit(exit) => return Ok(exit),
            NextStepAfterChat::Resume(id) | NextStepAfterChat::Reload(id) => resume = Some(id),
            NextStepAfterChat::New(model) => {
                resume = None;
                if model.is_some() {
                    args.open.model.model = model;
                }
            }
        }
        mode = Some(switch.mode());
    }
}

/// Runs a chat in a session whose turns are run by workers.
#[cfg(feature = "nats")]
async fn attach_to_session(args: ChatArgs, is_plain: bool) -> anyhow::Result<ExitStatus> {
    if is_plain {
        bail_usage!(
            "`rind chat --nats` needs a terminal that it can redraw; `rind run --nats` runs one turn without one"
        );
    }
    if args.go_on {
        bail_usage!("with --nats, name the session: --session ID");
    }
    let id = args
        .remote
        .session
        .clone()
        .or(args.resume)
        .filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(rind_lib::clock::new_uuid_v7);
    let session = args.remote.attach(&id).await?;
    attached::run_attached_chat(session, args.prompt).await
}

/// Returns the line at the end of a chat: the session, its cost, and how to continue.
fn farewell_line(id: &str, cost_usd: f64) -> String {
    let cost = render::format_dollars(cost_usd);
    let cost = cost.map_or_else(String::new, |usd| format!(" · {usd}"));
    format!("session {id}{cost} · to continue: rind -c, or rind -r {id}")
}

/// Notice about a turn that was interrupted when the program ended.
struct InterruptedTurnNotice {
    /// Line that describes the interrupted turn.
    text: String,
    /// Whether the chat continues the turn without asking the user first.
    continues: bool,
}

/// Describes the turn that was interrupted when the program ended, and whether the chat continues
/// it without being asked; `None` if no turn was interrupted. `stop` is the name of the key that
/// stops it.
///
/// The person did not interrupt that turn, because an interrupt by the person ends a turn in order.
/// The turn is not continued if the person gives a first prompt, which replaces the rest of the
/// turn. It is also not continued if it was interrupted again after it had been continued, because
/// then the turn may have caused the program to end.
fn interrupted_turn_notice(
    session: &Session,
    has_prompt: bool,
    stop: &str,
) -> Option<InterruptedTurnNotice> {
    let interrupted = session.interrupted()?;
    let turn = interrupted.turn;
    let continues = !has_prompt && interrupted.n_continued == 0;
    let what = if has_prompt {
        "your prompt takes the place of the rest".to_owned()
    } else if continues {
        format!("it continues now, and {stop} stops it")
    } else {
        "it was cut off again after it had been continued; /continue resumes it".to_owned()
    };
    let text = format!("turn {turn} was interrupted; {what}");
    Some(InterruptedTurnNotice { text, continues })
}

/// Warns once about each command template that cannot be used.
fn warn_of_template_faults(commands: &SlashCommandSet) {
    let (environment, faults) = (
        environment::process_environment(),
        commands.broken_template_warning_lines(),
    );
    for fault in faults.iter().take(MAX_SHOWN_TEMPLATE_FAULTS) {
        environment.warn_once(fault);
    }
    if let Some(n_more @ 1..) = faults.len().checked_sub(MAX_SHOWN_TEMPLATE_FAULTS) {
        let more = render::format_count_with_noun(n_more as u64, "more template");
        environment.warn_once(&format!("{more} cannot be used; /help lists all of them"));
    }
}

/// Runs the chat in an open session, until the chat ends.
pub(super) async fn run_chat_in_session(
    opened: open::SessionWithUserQuestionChannels,
    commands: Arc<SlashCommandSet>,
    prompt: Option<String>,
    programs: &mut TurnInputOutputChannels,
) -> anyhow::Result<ExitStatus> {
    let is_typed = std::io::stdin().is_terminal();
    let has_terminal = is_typed && std::io::stderr().is_terminal();
    let left = if !has_terminal || !std::io::stdout().is_terminal() || is_dumb_terminal() {
        plain::run_plain_chat(opened, commands, prompt, is_typed, programs).await?
    } else {
        live::run_live_chat(opened, commands, prompt, programs).await?
    };
    Ok(match left {
        NextStepAfterChat::Quit(exit) => exit,
        // Do not switch sessions, because the plugin under development is replaced only in this
        // session.
        NextStepAfterChat::Resume(id) | NextStepAfterChat::Reload(id) => {
            render::print_note(&format!(
                "a chat with a plugin under development cannot switch to another session; to chat there: rind chat --resume {id}"
            ));
            ExitStatus::Done
        }
        NextStepAfterChat::New(_) => {
            render::print_note(
                "a chat with a plugin under development has only one session; run the command again for a new one",
            );
            ExitStatus::Done
        }
    })
}

/// Whether the terminal can only print lines one after another: if `TERM` is `dumb` or not set.
fn is_dumb_terminal() -> bool {
    environment::environment_variable("TERM").is_none_or(|term| term == "dumb")
}

/// Asks which session to continue and lists sessions of this folder first. Returns `None` if the
/// user chooses none.
async fn choose_session_to_resume(
    args: &ChatArgs,
    has_terminal: bool,
) -> anyhow::Result<Option<String>> {
    if !has_terminal {
        bail_usage!("choosing a session needs a terminal; name the session, as in `--resume last`");
    }
    let paths = environment::find_rind_paths(args.open.workspace.as_deref())?;
    let mut rows = SessionStore::new(paths.sessions())
        .list_session_summaries()?
        .rows;
    rows.retain(|row| row.aside.is_none() && row.turns > 0);
    if rows.is_empty() {
        bail_usage!("there is no session yet; `rind chat` begins one");
    }
    // Put sessions of this folder first. Other sessions are shown with their folder.
    rows.sort_by_key(|row| !render::session::is_session_in_workspace(row, &paths.workspace));
    let find = |text: &str| -> Vec<&SessionSummary> {
        let text = text.to_lowercase();
        let has = |row: &&SessionSummary| {
            let first = row.first_input.as_deref().unwrap_or_default();
            let texts = [&*row.id, &*row.title, &*row.workspace, first];
            texts.iter().any(|own| own.to_lowercase().contains(&text))
        };
        rows.iter().filter(has).collect()
    };
    let mut wanted = String::new();
    let mut missed = None;
    loop {
        let found = find(&wanted);
        match ask_which_session(&found, &paths.workspace, &wanted, missed.as_deref()).await {
            Some(SessionChoiceAnswer::Of(id)) => return Ok(Some(id)),
            // If no session matches, keep the earlier list, so that its numbers still select the
            // sessions on the screen.
            Some(SessionChoiceAnswer::Search(text)) if find(&text).is_empty() => {
                missed = Some(text)
            }
            Some(SessionChoiceAnswer::Search(text)) => (wanted, missed) = (text, None),
            Some(SessionChoiceAnswer::None) | None => return Ok(None),
        }
    }
}

/// The person's answer to the question which session to continue.
enum SessionChoiceAnswer {
    Of(String),
    None,
    /// Request to show only the sessions that contain this text.
    Search(String),
}

/// Asks for one of the sessions, and lists the first ones with their age and length.
///
/// `found` are the sessions that contain the text `wanted`. `missed` is the last text that was
/// searched for, if no session contains it.
async fn ask_which_session(
    found: &[&SessionSummary],
    workspace: &Path,
    wanted: &str,
    missed: Option<&str>,
) -> Option<SessionChoiceAnswer> {
    let now = rind_lib::clock::now_ms();
    let shown = found.len().min(MAX_OFFERED_SESSIONS);
    let lines = found.iter().take(shown).enumerate().map(|(n, row)| {
        TerminalQuestionLine::new(format!("  {} ", n + 1))
            .with_escaped_text(BOLD_STYLE, &row.id)
            .with_text(" ")
            .with_escaped_text(
                DIM_STYLE,
                &render::session::describe_session_choice(row, workspace, now),
            )
    });
    let mut head = TerminalQuestionLine::new("").with_text("? which session, the last used first");
    if !wanted.is_empty() {
        head = head
            .with_text(", with ")
            .with_escaped_text(BOLD_STYLE, wanted);
    }
    let n_more = found.len() - shown;
    let more = (n_more > 0).then(|| {
        let words = format!("  … {n_more} more: type a word of the session that you search");
        TerminalQuestionLine::new("").with_styled_text(DIM_STYLE, &words)
    });
    let missed = missed.map(|text| {
        TerminalQuestionLine::new("")
            .with_styled_text(DIM_STYLE, "  no session has the text ")
            .with_escaped_text(DIM_STYLE, text)
    });
    let keys = format!("[1-{shown}], a text to search, or [q]uit");
    let screen = QuestionScreenContent {
        parts: vec![vec![head], lines.chain(more).chain(missed).collect()],
        covers: Vec::new(),
        keys,
        ..QuestionScreenContent::default()
    };
    screen
        .ask_non_approval_question(|line| match (line, line.parse::<usize>()) {
            ("", _) => None,
            ("q" | "Q" | "/quit", _) => Some(SessionChoiceAnswer::None),
            (_, Ok(n)) if n <= shown => {
                let row = found.get(n.checked_sub(1)?)?;
                Some(SessionChoiceAnswer::Of(row.id.clone()))
            }
            (text, _) => Some(SessionChoiceAnswer::Search(text.to_owned())),
        })
        .await
}
