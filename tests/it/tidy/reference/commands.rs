//! Generates the page of commands from the help that the program prints for each.

use std::fmt::Write as _;

use rind_tests::cli::Rind;

use super::Page;

const INTRO: &str = "\
Every command with its arguments and flags, as `rind COMMAND --help` prints them. [Get started](../get-started.md) shows the
usual ones, [slash commands](../slash-commands.md) those of a session.";

pub(super) fn page() -> Page {
    let rind = Rind::default();
    let mut text = format!("{INTRO}\n");
    write_help(&rind, &mut Vec::new(), &mut text);
    Page {
        name: "commands.md",
        title: "Reference: commands",
        text,
    }
}

/// Writes the help of a command and of its subcommands.
fn write_help(rind: &Rind, command: &mut Vec<String>, text: &mut String) {
    let mut args = command.clone();
    args.push("--help".to_owned());
    let ran = rind.run(&args);
    assert_eq!(ran.code, Some(0), "{args:?}\n{}", ran.stderr);
    let name = ["rind".to_owned()]
        .iter()
        .chain(&*command)
        .cloned()
        .collect::<Vec<_>>()
        .join(" ");
    let level = if command.len() > 1 { "###" } else { "##" };
    let help: Vec<&str> = ran.stdout.lines().map(str::trim_end).collect();
    let help = help.join("\n");
    let _ = write!(text, "\n{level} {name}\n\n```text\n{}\n```\n", help.trim());
    for sub in subcommands(&help) {
        command.push(sub.to_owned());
        write_help(rind, command, text);
        command.pop();
    }
}

/// Returns the names of the commands that a help text lists.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with(' '));
    // Further lines of a description are indented deeper.
    let names = lines.filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != "help").collect()
}

#[test]
fn commands_are_read_from_a_help() {
    let help = "About.\n\nCommands:\n  list     List\n             more\n  inspect  Say\n  help     Print\n\nOptions:\n  -h\n";
    assert_eq!(subcommands(help), ["list", "inspect"]);
    assert!(subcommands("Options:\n  -h\n").is_empty());
}
