//! Runs the built-in commands.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::built_in::{BuiltInSlashCommand, BuiltInSlashCommandId};
use super::{
    OpenSessionHandles, PostCommandSessionAction, SlashCommandImplementation,
    SlashCommandRunOutcome, SlashCommandSet, about, help, rewind,
};
use crate::exit_code::{Usage, bail_usage};
use crate::render;
use rind_lib::host::Session;
use rind_lib::plugin::load::PluginSkipReason;
use rind_lib::session::{SessionStore, SessionSummary};
use rind_lib::skill::Skill;
use rind_lib::tool::policy::ApprovalMode;

/// Maximum number of sessions that `/resume` lists.
const MAX_LISTED_SESSIONS: usize = 20;

/// Prompt that `/init` sends to the model.
const INIT_COMMAND_PROMPT: &str = "Look at this project and write notes for agents that will work on it, to the file AGENTS.md in the \
workspace. If the file exists, improve it and keep what is right in it. Say, as far as the project tells: what it is for, the \
layout of its folders, the commands that build, test, format and check it, rules of its code that are not obvious, and traps. \
Use only what you read in files or saw a command do; do not invent anything. At most 60 lines, no general advice.";

pub(super) async fn run_built_in_command(
    commands: &SlashCommandSet,
    command: &BuiltInSlashCommand,
    arguments: &Value,
    session: Option<&mut Session>,
    cancel: &CancellationToken,
) -> anyhow::Result<SlashCommandRunOutcome> {
    let argument = arguments.as_object().and_then(|all| all.values().next());
    let argument = argument.and_then(Value::as_str);
    let Some(session) = session else {
        let open = commands.open_session_snapshot();
        return run_built_in_beside_running_turn(commands, command, argument, open.as_ref());
    };
    Ok(SlashCommandRunOutcome::Text(match command.does {
        BuiltInSlashCommandId::Compact => {
            // Return no text: the renderer of the turn shows the events of the compaction.
            session.compact().until(cancel).await?;
            return Ok(SlashCommandRunOutcome::Nothing);
        }
        BuiltInSlashCommandId::Continue => match session.interrupted() {
            Some(_) => {
                return Ok(SlashCommandRunOutcome::Action(
                    PostCommandSessionAction::Continue,
                ));
            }
            None => "no turn of this session was interrupted".to_owned(),
        },
        BuiltInSlashCommandId::Undo => {
            rewind::run_undo(commands, session, argument.unwrap_or_default(), cancel).await?
        }
        BuiltInSlashCommandId::Rewind => {
            rewind::run_rewind(commands, session, argument.unwrap_or_default(), cancel).await?
        }
        BuiltInSlashCommandId::Done => {
            let ended = session.end_skills().await?;
            match ended.is_empty() {
                true => "no skill stays active from turn to turn".to_owned(),
                false => format!("ended: {}", ended.join(", ")),
            }
        }
        BuiltInSlashCommandId::Skills => format_skill_list(commands, &session.active_skills()),
        BuiltInSlashCommandId::Fork => {
            let id = session.fork()?;
            let text = format!("this session is a copy of session {}", session.id());
            return Ok(SlashCommandRunOutcome::Action(
                PostCommandSessionAction::Resume { id, text },
            ));
        }
        BuiltInSlashCommandId::Export => about::export_session(session, argument)?,
        _ => {
            let open = OpenSessionHandles::from_session(session);
            return run_built_in_beside_running_turn(commands, command, argument, Some(&open));
        }
    }))
}

/// Runs a command that does not need exclusive use of the session. `open` has the facts about the
/// open session; `None` if there is none.
fn run_built_in_beside_running_turn(
    commands: &SlashCommandSet,
    command: &BuiltInSlashCommand,
    argument: Option<&str>,
    open: Option<&OpenSessionHandles>,
) -> anyhow::Result<SlashCommandRunOutcome> {
    let needs_open = || {
        let why = format!("/{} needs a session, and none is open", command.name);
        open.ok_or_else(|| anyhow::Error::new(Usage(why)))
    };
    Ok(SlashCommandRunOutcome::Text(match command.does {
        BuiltInSlashCommandId::Cost => about::describe_cost(needs_open()?)?,
        BuiltInSlashCommandId::Context => {
            about::describe_context_token_usage(needs_open()?, &commands.about.compact)?
        }
        BuiltInSlashCommandId::Diff => needs_open()?.describe_turn_file_changes(argument)?,
        BuiltInSlashCommandId::Rename => needs_open()?.set_session_title(argument)?,
        BuiltInSlashCommandId::Copy => {
            let text = needs_open()?.read_last_answer()?;
            return Ok(SlashCommandRunOutcome::Action(
                PostCommandSessionAction::Copy(text),
            ));
        }
        BuiltInSlashCommandId::Status => commands.describe_session_and_plugins_status(open),
        BuiltInSlashCommandId::Stop => needs_open()?.handle_stop_slash_command(argument)?,
        BuiltInSlashCommandId::Mode => commands.switch_or_list_approval_modes(argument)?,
        BuiltInSlashCommandId::New => {
            return Ok(SlashCommandRunOutcome::Action(
                PostCommandSessionAction::New,
            ));
        }
        BuiltInSlashCommandId::Reload => {
            return Ok(SlashCommandRunOutcome::Action(
                PostCommandSessionAction::Reload,
            ));
        }
        BuiltInSlashCommandId::Init => {
            return Ok(SlashCommandRunOutcome::Prompt {
                text: INIT_COMMAND_PROMPT.to_owned(),
                command: "/init, which is built in".to_owned(),
                images: Vec::new(),
            });
        }
        BuiltInSlashCommandId::Help => match argument {
            Some(name) => help::describe_command(commands, name).map_err(Usage)?,
            None => help::describe_all_commands(commands),
        },
        BuiltInSlashCommandId::Plugins => format_plugin_list(commands),
        BuiltInSlashCommandId::Permissions => format_permission_list(commands),
        BuiltInSlashCommandId::Skills => format_skill_list(commands, &[]),
        BuiltInSlashCommandId::Resume => match argument {
            Some(wanted) => {
                let paths = &commands.about.paths;
                let store = SessionStore::new(paths.sessions());
                let id = store.resolve_session_id_in_workspace(wanted, &paths.workspace)?;
                let text = format!("this is session {id}");
                return Ok(SlashCommandRunOutcome::Action(
                    PostCommandSessionAction::Resume { id, text },
                ));
            }
            None => format_session_list(commands)?,
        },
        BuiltInSlashCommandId::Model => match argument {
            Some(name) => {
                return Ok(SlashCommandRunOutcome::Action(
                    PostCommandSessionAction::Model(name.to_owned()),
                ));
            }
            None => needs_open()?.describe_model(),
        },
        BuiltInSlashCommandId::Quit => {
            return Ok(SlashCommandRunOutcome::Action(
                PostCommandSessionAction::Quit,
            ));
        }
        BuiltInSlashCommandId::Compact
        | BuiltInSlashCommandId::Continue
        | BuiltInSlashCommandId::Undo
        | BuiltInSlashCommandId::Rewind
        | BuiltInSlashCommandId::Fork
        | BuiltInSlashCommandId::Export
        | BuiltInSlashCommandId::Done => {
            bail_usage!("/{} needs a session, and none is open", command.name)
        }
    }))
}

fn format_plugin_list(commands: &SlashCommandSet) -> String {
    let plugins = &commands.about.plugins;
    let list = commands.command_list();
    let runs = plugins.plugins.iter().map(|plugin| {
        let manifest = &plugin.manifest;
        let tools = plugin.tools.iter().map(|tool| format!("{}()", tool.name));
        let own = list.iter().filter(|entry| match &entry.origin {
            super::SlashCommandOrigin::Plugin(_, name) => *name == manifest.name,
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
        let what = render::truncate_to_one_line(&manifest.description, 200);
        format!("✓ {name} {version} ({}): {what}{parts}", plugin.trust)
    });
    let left_out = plugins.left_out.iter().map(|left| {
        let mark = match left.why {
            PluginSkipReason::Failed(_) => '✗',
            PluginSkipReason::Held(_) => '?',
            _ => '○',
        };
        let why =
            render::truncate_to_one_line(&render::plugins::plugin_not_loaded_reason(left), 400);
        format!("{mark} {} ({}): {why}", left.name, left.found.trust)
    });
    let lines: Vec<String> = runs.chain(left_out).collect();
    match lines.is_empty() {
        true => "no plugins are installed".to_owned(),
        false => lines.join("\n"),
    }
}

/// Lists all skills with a mark at the active ones, then the skills that could not be loaded.
fn format_skill_list(commands: &SlashCommandSet, active: &[String]) -> String {
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
        let text = render::truncate_to_one_line(&skill.description, 160);
        format!("{} ({}, for {who}){mark}: {text}", skill.id, skill.source)
    };
    let mut lines: Vec<String> = skills.iter().map(line).collect();
    let left_out = skills.omitted_skills();
    lines.extend(left_out.iter().map(render::skills::omitted_skill_line));
    match lines.is_empty() {
        true => "there are no skills".to_owned(),
        false => lines.join("\n"),
    }
}

fn format_permission_list(commands: &SlashCommandSet) -> String {
    let mut lines = vec![
        format!("mode {}", commands.describe_approval_mode()),
        String::new(),
    ];
    // List plugins by permission: many plugins share a few permissions, and a line for each plugin
    // would bury the mode and the rules.
    let mut granted: Vec<(String, Vec<&str>)> = Vec::new();
    for plugin in &commands.about.plugins.plugins {
        let name = plugin.manifest.name.as_str();
        for capability in plugin.granted_capabilities().capabilities() {
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

fn format_session_list(commands: &SlashCommandSet) -> anyhow::Result<String> {
    let rows = build_session_id_and_summary_rows(commands)?;
    if rows.is_empty() {
        return Ok("there are no sessions of this folder yet".to_owned());
    }
    let lines = rows.iter().map(|(id, about)| format!("{id}  {about}"));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the ids of this folder's sessions, each with its age, length and title; the most
/// recently used first.
fn build_session_id_and_summary_rows(
    commands: &SlashCommandSet,
) -> anyhow::Result<Vec<(String, String)>> {
    let paths = &commands.about.paths;
    let rows = SessionStore::new(paths.sessions())
        .list_session_summaries()?
        .rows;
    let here = rows
        .iter()
        .filter(|row| std::path::Path::new(&row.workspace) == paths.workspace);
    let now = rind_lib::clock::now_ms();
    let row = |row: &SessionSummary| (row.id.clone(), render::session::describe_session(row, now));
    Ok(here.take(MAX_LISTED_SESSIONS).map(row).collect())
}

/// Returns the models to propose for `/model`; none until the server has listed them.
pub(super) fn propose_model_command_arguments(commands: &SlashCommandSet) -> Vec<(String, String)> {
    let names = commands.model_names_to_propose().into_iter();
    names.map(|name| (name, String::new())).collect()
}

/// Returns the running background commands as proposals for the argument of `/stop`.
pub(super) fn propose_stop_command_arguments(commands: &SlashCommandSet) -> Vec<(String, String)> {
    let open = commands.open_session_snapshot();
    open.map_or_else(Vec::new, |open| open.list_stop_command_arguments())
}

/// Returns the approval modes as proposals for the argument of `/mode`.
pub(super) fn propose_mode_command_arguments(_: &SlashCommandSet) -> Vec<(String, String)> {
    let modes = ApprovalMode::ALL.into_iter();
    modes
        .map(|mode| (mode.name().to_owned(), mode.description().to_owned()))
        .collect()
}

/// Returns the sessions as proposals for the argument of `/resume`.
pub(super) fn propose_resume_command_arguments(
    commands: &SlashCommandSet,
) -> Vec<(String, String)> {
    let mut rows = build_session_id_and_summary_rows(commands).unwrap_or_default();
    rows.insert(0, ("last".to_owned(), "the one used last".to_owned()));
    rows
}

/// Returns the parts of a turn to propose for `/undo`.
pub(super) fn propose_undo_command_arguments(_: &SlashCommandSet) -> Vec<(String, String)> {
    let values = [
        ("both", "the conversation and the files"),
        ("conversation", "files stay as they are"),
        ("files", "the conversation stays"),
    ];
    let value = |(value, help): (&str, &str)| (value.to_owned(), help.to_owned());
    values.into_iter().map(value).collect()
}

/// Returns the names of commands as proposals for the argument of `/help`.
pub(super) fn propose_help_command_arguments(commands: &SlashCommandSet) -> Vec<(String, String)> {
    let list = commands.command_list();
    let entries = list.iter().enumerate();
    let usable =
        entries.filter(|(_, entry)| !matches!(entry.kind, SlashCommandImplementation::Broken(_)));
    let name = |(at, entry): (usize, &Arc<super::SlashCommandDefinition>)| {
        (
            list.unambiguous_command_name(at, entry),
            entry.description.clone(),
        )
    };
    usable.map(name).collect()
}
