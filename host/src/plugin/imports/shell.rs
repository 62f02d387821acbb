//! `rind:plugin/shell`: the programs that a shell command would start, parsed as for the rules in
//! `[tools]`.

use super::super::bindings::rind::plugin::shell;
use super::super::host::HostState;
use crate::tool::command::{Command, CommandPart, ShellWord};

/// Maximum length of a command, in bytes, so that parsing stays within a deadline. Models write
/// shorter commands.
pub(super) const MAX_COMMAND_BYTES: usize = 64 * 1024;

impl shell::Host for HostState {
    async fn read(&mut self, command: String) -> wasmtime::Result<shell::Reading> {
        Ok(convert_parsed_command(&command))
    }
}

fn convert_parsed_command(command: &str) -> shell::Reading {
    let Command { parts, doubt, .. } = match command.len() {
        ..=MAX_COMMAND_BYTES => Command::parse(command),
        _ => Command {
            doubt: Some(format!(
                "the command has more than {MAX_COMMAND_BYTES} bytes"
            )),
            ..Command::default()
        },
    };
    shell::Reading {
        programs: parts.iter().map(command_part_to_wit).collect(),
        doubt,
    }
}

fn command_part_to_wit(part: &CommandPart) -> shell::Program {
    let word = |word: &ShellWord| match word {
        ShellWord::Literal(text) => Some(text.clone()),
        ShellWord::Any => None,
    };
    shell::Program {
        words: part.words().iter().map(word).collect(),
        is_altered: part.has_variable_assignments(),
        is_redirection: part.is_redirection(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_only_the_shell_knows_have_no_text() {
        let reading = convert_parsed_command("A=1 rm -r \"$dir\" && sh -c 'ls > out'");
        let shown = reading.programs.iter().map(|program| {
            let words = program.words.iter();
            let words: Vec<&str> = words.map(|word| word.as_deref().unwrap_or("?")).collect();
            (words.join(" "), program.is_altered, program.is_redirection)
        });
        let expected = [
            ("rm -r ?", true, false),
            ("out", false, true),
            ("ls", false, false),
            ("sh -c ls > out", false, false),
        ]
        .map(|(words, is_altered, is_redirection)| (words.to_owned(), is_altered, is_redirection));
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert_eq!(reading.doubt, None);
    }

    #[test]
    fn a_command_that_is_too_long_has_a_doubt() {
        let long = "ls; ".repeat(MAX_COMMAND_BYTES);
        let reading = convert_parsed_command(&long);
        assert!(reading.programs.is_empty());
        assert!(
            reading
                .doubt
                .is_some_and(|doubt| doubt.contains("65536 bytes"))
        );
    }
}
