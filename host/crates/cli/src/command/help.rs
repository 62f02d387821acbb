//! Help on slash commands: the list of all, and the details of one.

use super::{SlashCommandDefinition, SlashCommandImplementation, SlashCommandSet, arguments};

/// Maximum width of a command's usage in the list, in characters. After a wider usage, the
/// description starts on the next line.
const MAX_USAGE_COLUMN_CHARS: usize = 30;

/// Returns the usage line of a command: name and arguments.
pub(super) fn command_usage_line(name: &str, entry: &SlashCommandDefinition) -> String {
    let arguments = match &entry.kind {
        SlashCommandImplementation::Template(template)
            if !template.takes_text && entry.arguments.is_none() =>
        {
            String::new()
        }
        SlashCommandImplementation::Skill(skill) if entry.arguments.is_none() => {
            let hint = skill.argument_hint.as_deref();
            let usual = if skill.takes_arguments() {
                "[text]"
            } else {
                ""
            };
            hint.map_or(usual.to_owned(), |hint| {
                rind_lib::text::escape_and_truncate_line(hint, 100)
            })
        }
        _ => arguments::argument_usage(entry.arguments.as_ref()),
    };
    format!("/{name} {arguments}").trim_end().to_owned()
}

/// Lists every command with its description; at the end, the commands that cannot be used.
pub(super) fn describe_all_commands(commands: &SlashCommandSet) -> String {
    let mut lines = Vec::new();
    let mut broken = Vec::new();
    let mut last = None;
    let list = commands.command_list();
    for (at, entry) in list.iter().enumerate() {
        if let SlashCommandImplementation::Broken(why) = &entry.kind {
            broken.push(format!("  {why}"));
            continue;
        }
        if last.replace(&entry.origin) != Some(&entry.origin) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(format_command_heading(entry));
        }
        let usage = command_usage_line(&list.unambiguous_command_name(at, entry), entry);
        let mut description = entry.description.clone();
        if let Some(other) = list.find_shadowing_command(at, entry) {
            description += &format!(" (shadowed by /{} of {})", entry.name, other.origin);
        }
        if usage.chars().count() > MAX_USAGE_COLUMN_CHARS {
            lines.push(format!("  {usage}"));
            lines.push(format!("  {:MAX_USAGE_COLUMN_CHARS$}  {description}", ""));
        } else {
            lines.push(format!("  {usage:MAX_USAGE_COLUMN_CHARS$}  {description}"));
        }
    }
    if !broken.is_empty() {
        lines.extend([String::new(), "These cannot be used:".to_owned()]);
        lines.append(&mut broken);
    }
    lines.join("\n")
}

fn format_command_heading(entry: &SlashCommandDefinition) -> String {
    let origin = entry.origin.to_string();
    let mut letters = origin.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let origin: String = first.into_iter().chain(letters).collect();
    match entry.may.is_empty() {
        true => format!("{origin}:"),
        false => format!("{origin}, which may {}:", entry.may.join("; ")),
    }
}

/// Describes one slash command: its usage, arguments and source.
pub(super) fn describe_command(commands: &SlashCommandSet, name: &str) -> Result<String, String> {
    let name = name.strip_prefix('/').unwrap_or(name);
    let list = commands.command_list();
    let Some((at, entry)) = list.find_command_by_typed_name(name) else {
        return Err(list.format_unknown_command_error(name));
    };
    if let SlashCommandImplementation::Broken(why) = &entry.kind {
        return Ok(format!("/{name} cannot be used: {why}"));
    }
    let mut lines = vec![
        command_usage_line(&list.unambiguous_command_name(at, entry), entry),
        entry.description.clone(),
    ];
    let help = entry.arguments.as_ref().map(arguments::argument_help);
    lines.extend(help.into_iter().flatten().map(|line| format!("  {line}")));
    lines.push(match &entry.kind {
        SlashCommandImplementation::Template(template) => {
            format!("source: {} ({})", entry.origin, template.path.display())
        }
        SlashCommandImplementation::Skill(skill) => {
            format!("source: {} ({})", entry.origin, skill.file.display())
        }
        _ => format!("source: {}", entry.origin),
    });
    if !entry.may.is_empty() {
        lines.push(format!("may: {}", entry.may.join("; ")));
    }
    if let Some(other) = list.find_shadowing_command(at, entry) {
        lines.push(format!("shadowed by /{} of {}", entry.name, other.origin));
    }
    Ok(lines.join("\n"))
}
