//! `rind chat`: many turns in one session, with a person who types while they run.
//!
//! `live` is the chat at a terminal, `plain` the one in lines. A task owns the session (`worker`);
//! `view` turns its events into lines, `screen` draws them on the terminal, `keys` and `editor`
//! take the typed text. Nothing in here decides how a turn runs: a text starts a turn, or goes
//! through the queues of `agent::SteerHandle`.

mod agents;
mod ask;
mod complete;
pub(super) mod diff;
mod draw;
mod editor;
mod external;
mod history;
mod keys;
mod leave;
mod live;
mod markdown;
mod permissions;
mod plain;
mod press;
mod screen;
mod shell;
mod slash;
mod status;
mod stream;
mod tty;
mod view;
mod waiting;
mod worker;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use super::args::ChatArgs;
use super::command::CommandSet;
use super::environment;
use super::exit_code::{ExitStatus, bail_usage};
use super::open;
use super::programs::FollowingPrograms;
use super::question::{QuestionLine, QuestionScreen};
use super::render::{self, BOLD, DIM};
use live::ChatExit;
use rind_lib::host::Session;
use rind_lib::session::{SessionHead, SessionStore};
use rind_operator::settings::SessionChoice;

/// Most templates that cannot be used and are named at the start.
const MAX_FAULTS: usize = 5;

/// Most sessions that are offered for continuing.
const MAX_OFFERED: usize = 9;

pub(super) async fn run_chat(args: ChatArgs) -> anyhow::Result<ExitStatus> {
    let is_typed = std::io::stdin().is_terminal();
    let has_terminal = is_typed && std::io::stderr().is_terminal();
    let is_plain = args.plain || !has_terminal || !std::io::stdout().is_terminal() || is_dumb();
    let resume = match (args.go_on, args.resume.as_deref()) {
        (true, _) => Some("last".to_owned()),
        (false, Some("")) => match pick_session(&args, has_terminal).await? {
            Some(id) => Some(id),
            None => return Ok(ExitStatus::Done),
        },
        (false, other) => other.map(str::to_owned),
    };
    let (mut resume, mut prompt) = (resume, args.prompt);
    let mut programs = FollowingPrograms::open_programs(args.open.events.as_deref(), None)?;
    loop {
        let settings = args
            .open
            .run_settings(SessionChoice::resume(resume.as_deref()), has_terminal)?;
        let prepared = open::prepare_session(settings).await?;
        let commands = Arc::new(prepared.commands().await?);
        warn_of_faults(&commands);
        let opened = prepared.open_session().await?;
        let prompt = prompt.take();
        let left = match is_plain {
            true => plain::run_plain(opened, commands, prompt, is_typed, &mut programs).await?,
            false => live::run_live(opened, commands, prompt, &mut programs).await?,
        };
        match left {
            ChatExit::Quit(exit) => return Ok(exit),
            ChatExit::Resume(id) => resume = Some(id),
        }
    }
}

/// Tells of the turn that was interrupted when the program ended.
fn interrupted_text(session: &Session) -> Option<String> {
    let turn = session.interrupted()?.turn;
    Some(format!(
        "turn {turn} was interrupted; /continue goes on with it"
    ))
}

/// Warns of templates that cannot be used, once.
fn warn_of_faults(commands: &CommandSet) {
    let (environment, faults) = (environment::operator_environment(), commands.faults());
    for fault in faults.iter().take(MAX_FAULTS) {
        environment.warn_once(fault);
    }
    if let Some(n_more @ 1..) = faults.len().checked_sub(MAX_FAULTS) {
        let more = render::format_count(n_more as u64, "more template");
        environment.warn_once(&format!("{more} left out; /help lists all"));
    }
}

/// Chats in a session that is open, to its end.
pub(super) async fn in_session(
    opened: open::OpenedSession,
    commands: Arc<CommandSet>,
    prompt: Option<String>,
    programs: &mut FollowingPrograms,
) -> anyhow::Result<ExitStatus> {
    let is_typed = std::io::stdin().is_terminal();
    let has_terminal = is_typed && std::io::stderr().is_terminal();
    let left = if !has_terminal || !std::io::stdout().is_terminal() || is_dumb() {
        plain::run_plain(opened, commands, prompt, is_typed, programs).await?
    } else {
        live::run_live(opened, commands, prompt, programs).await?
    };
    Ok(match left {
        ChatExit::Quit(exit) => exit,
        // The plugin under development is replaced in this session only.
        ChatExit::Resume(id) => {
            render::print_note(&format!(
                "a session with a plugin under development cannot go on in another one; to chat there: rind chat --resume {id}"
            ));
            ExitStatus::Done
        }
    })
}

/// Whether the terminal can only write one line after the other.
fn is_dumb() -> bool {
    environment::variable("TERM").is_none_or(|term| term == "dumb")
}

/// Asks which session of this folder to continue; `None` for none.
async fn pick_session(args: &ChatArgs, has_terminal: bool) -> anyhow::Result<Option<String>> {
    if !has_terminal {
        bail_usage!("there is no terminal to choose a session at; name it, as in `--resume last`");
    }
    let paths = environment::find_paths(args.open.workspace.as_deref())?;
    let rows = SessionStore::new(paths.sessions()).heads()?.rows;
    let is_here =
        |row: &SessionHead| Path::new(&row.workspace) == paths.workspace && row.aside.is_none();
    let rows: Vec<SessionHead> = rows.into_iter().filter(is_here).take(MAX_OFFERED).collect();
    if rows.is_empty() {
        bail_usage!("there is no session of this folder yet; `rind chat` begins one");
    }
    let lines = rows.iter().enumerate().map(|(n, row)| {
        let title = match row.title.is_empty() {
            true => "(nothing was said)",
            false => &row.title,
        };
        let title: String = title.chars().take(120).collect();
        QuestionLine::new(format!("  {} ", n + 1))
            .their_words(DIM, &row.id)
            .own_words(" ")
            .their_words(BOLD, &title)
    });
    let screen = QuestionScreen {
        parts: vec![
            vec![QuestionLine::new("").own_words("? which session, the last used first")],
            lines.collect(),
        ],
        covers: Vec::new(),
        keys: format!("[1-{}], or [q]uit", rows.len()),
        ..QuestionScreen::default()
    };
    let chosen = screen.ask_person(|line| match line.parse::<usize>() {
        Ok(n) => rows.get(n.checked_sub(1)?).map(|row| Some(row.id.clone())),
        Err(_) => line.eq_ignore_ascii_case("q").then_some(None),
    });
    Ok(chosen.await.flatten())
}
