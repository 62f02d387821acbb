//! Runs the built-in commands.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::built_in::{BuiltIn, BuiltInWork};
use super::{CommandCallResult, CommandKind, CommandSet, OwnerAction, about, help, rewind};
use crate::exit_code::{Usage, bail_usage};
use crate::render;
use rind_lib::host::Session;
use rind_lib::plugin::load::Why;
use rind_lib::session::SessionStore;
use rind_lib::skill::Skill;

/// Sessions that `/resume` lists.
const MAX_LISTED: usize = 20;

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
        return without_session(commands, command, argument);
    };
    Ok(CommandCallResult::Text(match command.does {
        BuiltInWork::Cost => about::describe_cost(session)?,
        BuiltInWork::Context => about::describe_context(session, &commands.about.compact)?,
        BuiltInWork::Compact => {
            // Return no text: the renderer of the turn shows the output.
            session.compact().until(cancel).await?;
            return Ok(CommandCallResult::Nothing);
        }
        BuiltInWork::Continue => match session.interrupted() {
            Some(_) => return Ok(CommandCallResult::Action(OwnerAction::Continue)),
            None => "no turn of this session was interrupted".to_owned(),
        },
        BuiltInWork::Undo => {
            rewind::run_undo(commands, session, argument.unwrap_or_default(), cancel).await?
        }
        BuiltInWork::Rewind => {
            rewind::run_rewind(commands, session, argument.unwrap_or_default(), cancel).await?
        }
        BuiltInWork::Done => {
            let ended = session.end_skills().await?;
            match ended.is_empty() {
                true => "no skill stays active from turn to turn".to_owned(),
                false => format!("ended: {}", ended.join(", ")),
            }
        }
        BuiltInWork::Skills => list_skills(commands, &session.active_skills()),
        BuiltInWork::Fork => {
            let id = session.fork()?;
            let text = format!("this is a copy of session {}", session.id());
            return Ok(CommandCallResult::Action(OwnerAction::Resume { id, text }));
        }
        BuiltInWork::Export => about::export_session(session, argument)?,
        BuiltInWork::Model => match argument {
            Some(name) => {
                return Ok(CommandCallResult::Action(OwnerAction::Model(
                    name.to_owned(),
                )));
            }
            None => {
                let (provider, model) = session.model();
                format!("{model} ({provider})")
            }
        },
        _ => return without_session(commands, command, argument),
    }))
}

fn without_session(
    commands: &CommandSet,
    command: &BuiltIn,
    argument: Option<&str>,
) -> anyhow::Result<CommandCallResult> {
    Ok(CommandCallResult::Text(match command.does {
        BuiltInWork::Help => match argument {
            Some(name) => help::help_one(commands, name).map_err(Usage)?,
            None => help::help_all(commands),
        },
        BuiltInWork::Plugins => list_plugins(commands),
        BuiltInWork::Permissions => list_permissions(commands),
        BuiltInWork::Skills => list_skills(commands, &[]),
        BuiltInWork::Resume => match argument {
            Some(wanted) => {
                let paths = &commands.about.paths;
                let store = SessionStore::new(paths.sessions());
                let id = store.resolve_in(wanted, &paths.workspace)?;
                let text = format!("this is session {id}");
                return Ok(CommandCallResult::Action(OwnerAction::Resume { id, text }));
            }
            None => list_sessions(commands)?,
        },
        BuiltInWork::Model => match argument {
            Some(name) => {
                return Ok(CommandCallResult::Action(OwnerAction::Model(
                    name.to_owned(),
                )));
            }
            None => bail_usage!("/model shows the model of a session, and none is open"),
        },
        BuiltInWork::Quit => return Ok(CommandCallResult::Action(OwnerAction::Quit)),
        BuiltInWork::Cost
        | BuiltInWork::Context
        | BuiltInWork::Compact
        | BuiltInWork::Continue
        | BuiltInWork::Undo
        | BuiltInWork::Rewind
        | BuiltInWork::Fork
        | BuiltInWork::Export
        | BuiltInWork::Done => {
            bail_usage!("/{} is about a session, and none is open", command.name)
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
            Why::Failed(_) => '✗',
            Why::Held(_) => '?',
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

/// The skills, with those that are active.
fn list_skills(commands: &CommandSet, active: &[String]) -> String {
    let skills = &commands.about.skills;
    let line = |skill: &Arc<Skill>| {
        let who = match (skill.is_for_model(), skill.is_for_user()) {
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
    let left_out = skills.left_out();
    lines.extend(left_out.iter().map(render::skills::left_out));
    match lines.is_empty() {
        true => "there are no skills".to_owned(),
        false => lines.join("\n"),
    }
}

fn list_permissions(commands: &CommandSet) -> String {
    let mut lines = Vec::new();
    for plugin in &commands.about.plugins.plugins {
        let granted = plugin.granted.capabilities();
        for capability in granted {
            let words = rind_lib::grant::in_words(capability);
            lines.push(format!("plugin {} may {words}", plugin.manifest.name));
        }
    }
    if lines.is_empty() {
        lines.push("no plugin was granted anything".to_owned());
    }
    lines.push(String::new());
    let rules = &commands.about.rules;
    if rules.is_empty() {
        lines.push(
            "your settings have no rules for tool calls: reading is allowed, everything else asks"
                .to_owned(),
        );
    } else {
        lines.push("rules for tool calls:".to_owned());
        lines.extend(rules.iter().map(|rule| format!("  {rule}")));
    }
    lines.push("to take something back: rind plugin grants --revoke NAME".to_owned());
    lines.join("\n")
}

fn list_sessions(commands: &CommandSet) -> anyhow::Result<String> {
    let rows = session_rows(commands)?;
    if rows.is_empty() {
        return Ok("there are no sessions of this folder yet".to_owned());
    }
    let lines = rows.iter().map(|(id, input)| format!("{id}  {input}"));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Ids and titles of the sessions of this folder, the last used first.
fn session_rows(commands: &CommandSet) -> anyhow::Result<Vec<(String, String)>> {
    let paths = &commands.about.paths;
    let rows = SessionStore::new(paths.sessions())
        .heads()?
        .rows
        .into_iter();
    let here = rows.filter(|row| std::path::Path::new(&row.workspace) == paths.workspace);
    let row = |row: rind_lib::session::SessionHead| (row.id, render::one_line(&row.title, 80));
    Ok(here.take(MAX_LISTED).map(row).collect())
}

/// Sessions to propose.
pub(super) fn session_values(commands: &CommandSet) -> Vec<(String, String)> {
    let mut rows = session_rows(commands).unwrap_or_default();
    rows.insert(0, ("last".to_owned(), "the one used last".to_owned()));
    rows
}

/// Parts of a turn to propose for `/undo`.
pub(super) fn rewind_values(_: &CommandSet) -> Vec<(String, String)> {
    let values = [
        ("both", "the conversation and the files"),
        ("conversation", "files stay as they are"),
        ("files", "the conversation stays"),
    ];
    let value = |(value, help): (&str, &str)| (value.to_owned(), help.to_owned());
    values.into_iter().map(value).collect()
}

/// Names of commands to propose.
pub(super) fn command_values(commands: &CommandSet) -> Vec<(String, String)> {
    let list = commands.list();
    let entries = list.iter().enumerate();
    let usable = entries.filter(|(_, entry)| !matches!(entry.kind, CommandKind::Broken(_)));
    let name = |(at, entry): (usize, &Arc<super::CommandEntry>)| {
        (list.shown_name(at, entry), entry.description.clone())
    };
    usable.map(name).collect()
}
