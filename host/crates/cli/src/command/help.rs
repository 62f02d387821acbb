//! Help on slash commands: the list of all, and the details of one.

use super::{CommandEntry, CommandKind, CommandSet, arguments};

/// Maximum width of a command's usage in the list, in characters. After a wider usage, the
/// description starts on the next line.
const COLUMN: usize = 30;

/// Returns the usage line of a command: name and arguments.
pub(super) fn command_usage_line(name: &str, entry: &CommandEntry) -> String {
    let arguments = match &entry.kind {
        CommandKind::Template(template) if !template.takes_text && entry.arguments.is_none() => {
            String::new()
        }
        CommandKind::Skill(skill) if entry.arguments.is_none() => {
            let hint = skill.argument_hint.as_deref();
            let usual = if skill.takes_arguments() {
                "[text]"
            } else {
                ""
            };
            hint.map_or(usual.to_owned(), |hint| {
                rind_lib::text::clean_line(hint, 100)
            })
        }
        _ => arguments::argument_usage(entry.arguments.as_ref()),
    };
    format!("/{name} {arguments}").trim_end().to_owned()
}

/// Lists every command with its description; at the end, the commands that cannot be used.
pub(super) fn describe_all_commands(commands: &CommandSet) -> String {
    let mut lines = Vec::new();
    let mut broken = Vec::new();
    let mut last = None;
    let list = commands.list();
    for (at, entry) in list.iter().enumerate() {
        if let CommandKind::Broken(why) = &entry.kind {
            broken.push(format!("  {why}"));
            continue;
        }
        if last.replace(&entry.origin) != Some(&entry.origin) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(format_command_heading(entry));
        }
        let usage = command_usage_line(&list.display_name(at, entry), entry);
        let mut description = entry.description.clone();
        if let Some(other) = list.shadowing_entry(at, entry) {
            description += &format!(" (shadowed by /{} of {})", entry.name, other.origin);
        }
        if usage.chars().count() > COLUMN {
            lines.push(format!("  {usage}"));
            lines.push(format!("  {:COLUMN$}  {description}", ""));
        } else {
            lines.push(format!("  {usage:COLUMN$}  {description}"));
        }
    }
    if !broken.is_empty() {
        lines.extend([String::new(), "These cannot be used:".to_owned()]);
        lines.append(&mut broken);
    }
    lines.join("\n")
}

fn format_command_heading(entry: &CommandEntry) -> String {
    let origin = entry.origin.to_string();
    let mut letters = origin.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let origin: String = first.into_iter().chain(letters).collect();
    match entry.may.is_empty() {
        true => format!("{origin}:"),
        false => format!("{origin}, which may {}:", entry.may.join("; ")),
    }
}

/// Describes one command: usage, arguments, source.
pub(super) fn describe_command(commands: &CommandSet, name: &str) -> Result<String, String> {
    let name = name.strip_prefix('/').unwrap_or(name);
    let list = commands.list();
    let Some((at, entry)) = list.find_entry(name) else {
        return Err(list.format_unknown_command_error(name));
    };
    if let CommandKind::Broken(why) = &entry.kind {
        return Ok(format!("/{name} cannot be used: {why}"));
    }
    let mut lines = vec![
        command_usage_line(&list.display_name(at, entry), entry),
        entry.description.clone(),
    ];
    let help = entry.arguments.as_ref().map(arguments::argument_help);
    lines.extend(help.into_iter().flatten().map(|line| format!("  {line}")));
    lines.push(match &entry.kind {
        CommandKind::Template(template) => {
            format!("source: {} ({})", entry.origin, template.path.display())
        }
        CommandKind::Skill(skill) => format!("source: {} ({})", entry.origin, skill.file.display()),
        _ => format!("source: {}", entry.origin),
    });
    if !entry.may.is_empty() {
        lines.push(format!("may: {}", entry.may.join("; ")));
    }
    if let Some(other) = list.shadowing_entry(at, entry) {
        lines.push(format!("shadowed by /{} of {}", entry.name, other.origin));
    }
    Ok(lines.join("\n"))
}
