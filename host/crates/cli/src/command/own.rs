//! Runs the built-in commands.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::built_in::{BuiltIn, BuiltInAction};
use super::{
    CommandCallResult, CommandKind, CommandSet, OpenSessionFacts, SessionOwnerAction, about, help,
    rewind,
};
use crate::exit_code::{Usage, bail_usage};
use crate::render;
use rind_lib::host::Session;
use rind_lib::plugin::load::LeftOutReason;
use rind_lib::session::{SessionHead, SessionStore};
use rind_lib::skill::Skill;
use rind_lib::tool::policy::ApprovalMode;

/// Maximum number of sessions that `/resume` lists.
const MAX_LISTED: usize = 20;

/// Prompt of `/init`.
const INIT: &str = "Look at this project and write notes for agents that will work on it, to the file AGENTS.md in the \
workspace. If the file exists, improve it and keep what is right in it. Say, as far as the project tells: what it is for, the \
layout of its folders, the commands that build, test, format and check it, rules of its code that are not obvious, and traps. \
Use only what you read in files or saw a command do; do not invent anything. At most 60 lines, no general advice.";

pub(super) async fn run_built_in(
    commands: &CommandSet,
    command: &BuiltIn,
    arguments: &Value,
    session: Option<&mut Session>,
    cancel: &CancellationToken,
) -> anyhow::Result<CommandCallResult> {
    let argument = arguments.as_object().and_then(|all| all.values().next());
    let argument = argument.and_then(Value::as_str);
    let Some(session) = session else {
        let open = commands.open_session_facts();
        return run_without_exclusive_session(commands, command, argument, open.as_ref());
    };
    Ok(CommandCallResult::Text(match command.does {
        BuiltInAction::Compact => {
            // Return no text: the renderer of the turn shows the events of the compaction.
            session.compact().until(cancel).await?;
            return Ok(CommandCallResult::Nothing);
        }
        BuiltInAction::Continue => match session.interrupted() {
            Some(_) => return Ok(CommandCallResult::Action(SessionOwnerAction::Continue)),
            None => "no turn of this session was interrupted".to_owned(),
        },
        BuiltInAction::Undo => {
            rewind::run_undo(commands, session, argument.unwrap_or_default(), cancel).await?
        }
        BuiltInAction::Rewind => {
            rewind::run_rewind(commands, session, argument.unwrap_or_default(), cancel).await?
        }
        BuiltInAction::Done => {
            let ended = session.end_skills().await?;
            match ended.is_empty() {
                true => "no skill stays active from turn to turn".to_owned(),
                false => format!("ended: {}", ended.join(", ")),
            }
        }
        BuiltInAction::Skills => list_skills(commands, &session.active_skills()),
        BuiltInAction::Fork => {
            let id = session.fork()?;
            let text = format!("this session is a copy of session {}", session.id());
            return Ok(CommandCallResult::Action(SessionOwnerAction::Resume {
                id,
                text,
            }));
        }
        BuiltInAction::Export => about::export_session(session, argument)?,
        _ => {
            let open = OpenSessionFacts::from_session(session);
            return run_without_exclusive_session(commands, command, argument, Some(&open));
        }
    }))
}

/// Runs a command that does not need exclusive use of the session. `open` has the facts about the
/// open session; `None` if there is none.
fn run_without_exclusive_session(
    commands: &CommandSet,
    command: &BuiltIn,
    argument: Option<&str>,
    open: Option<&OpenSessionFacts>,
) -> anyhow::Result<CommandCallResult> {
    let needs_open = || {
        let why = format!("/{} needs a session, and none is open", command.name);
        open.ok_or_else(|| anyhow::Error::new(Usage(why)))
    };
    Ok(CommandCallResult::Text(match command.does {
        BuiltInAction::Cost => about::describe_cost(needs_open()?)?,
        BuiltInAction::Context => about::describe_context(needs_open()?, &commands.about.compact)?,
        BuiltInAction::Diff => needs_open()?.describe_diff(argument)?,
        BuiltInAction::Rename => needs_open()?.set_title(argument)?,
        BuiltInAction::Copy => {
            let text = needs_open()?.read_last_answer()?;
            return Ok(CommandCallResult::Action(SessionOwnerAction::Copy(text)));
        }
        BuiltInAction::Status => commands.describe_status(open),
        BuiltInAction::Stop => needs_open()?.stop_background_command(argument)?,
        BuiltInAction::Mode => commands.switch_mode(argument)?,
        BuiltInAction::New => return Ok(CommandCallResult::Action(SessionOwnerAction::New)),
        BuiltInAction::Reload => return Ok(CommandCallResult::Action(SessionOwnerAction::Reload)),
        BuiltInAction::Init => {
            return Ok(CommandCallResult::Prompt {
                text: INIT.to_owned(),
                command: "/init, which is built in".to_owned(),
                images: Vec::new(),
            });
        }
        BuiltInAction::Help => match argument {
            Some(name) => help::describe_command(commands, name).map_err(Usage)?,
            None => help::describe_all_commands(commands),
        },
        BuiltInAction::Plugins => list_plugins(commands),
        BuiltInAction::Permissions => list_permissions(commands),
        BuiltInAction::Skills => list_skills(commands, &[]),
        BuiltInAction::Resume => match argument {
            Some(wanted) => {
                let paths = &commands.about.paths;
                let store = SessionStore::new(paths.sessions());
                let id = store.resolve_in_workspace(wanted, &paths.workspace)?;
                let text = format!("this is session {id}");
                return Ok(CommandCallResult::Action(SessionOwnerAction::Resume {
                    id,
                    text,
                }));
            }
            None => list_sessions(commands)?,
        },
        BuiltInAction::Model => match argument {
            Some(name) => {
                return Ok(CommandCallResult::Action(SessionOwnerAction::Model(
                    name.to_owned(),
                )));
            }
            None => needs_open()?.describe_model(),
        },
        BuiltInAction::Quit => return Ok(CommandCallResult::Action(SessionOwnerAction::Quit)),
        BuiltInAction::Compact
        | BuiltInAction::Continue
        | BuiltInAction::Undo
        | BuiltInAction::Rewind
        | BuiltInAction::Fork
        | BuiltInAction::Export
        | BuiltInAction::Done => {
            bail_usage!("/{} needs a session, and none is open", command.name)
        }
    }))
}

fn list_plugins(commands: &CommandSet) -> String {
    let plugins = &commands.about.plugins;
    let list = commands.list();
    let runs = plugins.plugins.iter().map(|plugin| {
        let manifest = &plugin.manifest;
        let tools = plugin.tools.iter().map(|tool| format!("{}()", tool.name));
        let own = list.iter().filter(|entry| match &entry.origin {
            super::CommandOrigin::Plugin(_, name) => *name == manifest.name,
            _ => false,
        });
        let parts: Vec<String> = tools
            .chain(own.map(|entry| format!("/{}", entry.name)))
            .collect();
        let parts = match parts.is_empty() {
            true => String::new(),
            false => format!(" [{}]", parts.join(", ")),
        };
        let (name, version) = (&manifest.name, &manifest.version);
        let what = render::one_line(&manifest.description, 200);
        format!("✓ {name} {version} ({}): {what}{parts}", plugin.trust)
    });
    let left_out = plugins.left_out.iter().map(|left| {
        let mark = match left.why {
            LeftOutReason::Failed(_) => '✗',
            LeftOutReason::Held(_) => '?',
            _ => '○',
        };
        let why = render::one_line(&render::plugins::left_out_reason(left), 400);
        format!("{mark} {} ({}): {why}", left.name, left.found.trust)
    });
    let lines: Vec<String> = runs.chain(left_out).collect();
    match lines.is_empty() {
        true => "no plugins are installed".to_owned(),
        false => lines.join("\n"),
    }
}

/// Lists all skills with a mark at the active ones, then the skills that could not be loaded.
fn list_skills(commands: &CommandSet, active: &[String]) -> String {
    let skills = &commands.about.skills;
    let line = |skill: &Arc<Skill>| {
        let who = match (skill.is_startable_by_model(), skill.is_startable_by_user()) {
            (true, true) => "you and the model",
            (true, false) => "the model",
            (false, true) => "you",
            (false, false) => "nobody",
        };
        let is_active = active.contains(&skill.id);
        let mark = if is_active {
            " [active until /done]"
        } else {
            ""
        };
        let text = render::one_line(&skill.description, 160);
        format!("{} ({}, for {who}){mark}: {text}", skill.id, skill.source)
    };
    let mut lines: Vec<String> = skills.iter().map(line).collect();
    let left_out = skills.omitted_skills();
    lines.extend(left_out.iter().map(render::skills::left_out_skill_line));
    match lines.is_empty() {
        true => "there are no skills".to_owned(),
        false => lines.join("\n"),
    }
}

fn list_permissions(commands: &CommandSet) -> String {
    let mut lines = vec![format!("mode {}", commands.describe_mode()), String::new()];
    // List plugins by permission: many plugins share a few permissions, and a line for each plugin
    // would bury the mode and the rules.
    let mut granted: Vec<(String, Vec<&str>)> = Vec::new();
    for plugin in &commands.about.plugins.plugins {
        let name = plugin.manifest.name.as_str();
        for capability in plugin.granted().capabilities() {
            let words = rind_lib::grant::describe_capability(capability);
            match granted.iter_mut().find(|(known, _)| *known == words) {
                Some((_, names)) => names.push(name),
                None => granted.push((words, vec![name])),
            }
        }
    }
    if granted.is_empty() {
        lines.push("no plugin was granted anything".to_owned());
    }
    lines.extend(granted.iter().map(|(words, names)| match names.as_slice() {
        [name] => format!("plugin {name} may {words}"),
        names => format!("plugins {} may {words}", names.join(", ")),
    }));
    lines.push(String::new());
    let rules = &commands.about.rules;
    if rules.is_empty() {
        lines.push(match commands.about.switch.mode() {
            ApprovalMode::Ask => {
                "your settings have no rules for tool calls: reading is allowed, everything else asks".to_owned()
            }
            mode => format!(
                "your settings have no rules for tool calls: reading is allowed, and the mode {mode} decides about everything else"
            ),
        });
    } else {
        lines.push("rules for tool calls:".to_owned());
        lines.extend(rules.iter().map(|rule| format!("  {rule}")));
    }
    lines.push("to revoke a permission: rind plugin grants --revoke NAME".to_owned());
    lines.join("\n")
}

fn list_sessions(commands: &CommandSet) -> anyhow::Result<String> {
    let rows = build_session_rows(commands)?;
    if rows.is_empty() {
        return Ok("there are no sessions of this folder yet".to_owned());
    }
    let lines = rows.iter().map(|(id, about)| format!("{id}  {about}"));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the ids of this folder's sessions, each with its age, length and title; the most
/// recently used first.
fn build_session_rows(commands: &CommandSet) -> anyhow::Result<Vec<(String, String)>> {
    let paths = &commands.about.paths;
    let rows = SessionStore::new(paths.sessions()).heads()?.rows;
    let here = rows
        .iter()
        .filter(|row| std::path::Path::new(&row.workspace) == paths.workspace);
    let now = rind_lib::clock::now_ms();
    let row = |row: &SessionHead| (row.id.clone(), render::session::describe_session(row, now));
    Ok(here.take(MAX_LISTED).map(row).collect())
}

/// Returns the models to propose for `/model`; none until the server has listed them.
pub(super) fn propose_models(commands: &CommandSet) -> Vec<(String, String)> {
    let names = commands.models().into_iter();
    names.map(|name| (name, String::new())).collect()
}

/// Returns the background commands to propose for `/stop`.
pub(super) fn propose_background_commands(commands: &CommandSet) -> Vec<(String, String)> {
    let open = commands.open_session_facts();
    open.map_or_else(Vec::new, |open| open.propose_background_commands())
}

/// Returns the approval modes to propose for `/mode`.
pub(super) fn propose_modes(_: &CommandSet) -> Vec<(String, String)> {
    let modes = ApprovalMode::ALL.into_iter();
    modes
        .map(|mode| (mode.name().to_owned(), mode.description().to_owned()))
        .collect()
}

/// Returns the sessions to propose for `/resume`.
pub(super) fn propose_sessions(commands: &CommandSet) -> Vec<(String, String)> {
    let mut rows = build_session_rows(commands).unwrap_or_default();
    rows.insert(0, ("last".to_owned(), "the one used last".to_owned()));
    rows
}

/// Returns the parts of a turn to propose for `/undo`.
pub(super) fn propose_undo_parts(_: &CommandSet) -> Vec<(String, String)> {
    let values = [
        ("both", "the conversation and the files"),
        ("conversation", "files stay as they are"),
        ("files", "the conversation stays"),
    ];
    let value = |(value, help): (&str, &str)| (value.to_owned(), help.to_owned());
    values.into_iter().map(value).collect()
}

/// Returns the names of commands to propose for `/help`.
pub(super) fn propose_commands(commands: &CommandSet) -> Vec<(String, String)> {
    let list = commands.list();
    let entries = list.iter().enumerate();
    let usable = entries.filter(|(_, entry)| !matches!(entry.kind, CommandKind::Broken(_)));
    let name = |(at, entry): (usize, &Arc<super::CommandEntry>)| {
        (list.display_name(at, entry), entry.description.clone())
    };
    usable.map(name).collect()
}
