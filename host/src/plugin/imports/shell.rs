//! `rind:plugin/shell`: what a shell command starts, as the rules of `[tools]` read it.

use super::super::bindings::rind::plugin::shell;
use super::super::host::HostState;
use crate::tool::command::{Command, Part, Word};

/// Longest command that is read, in bytes. A model writes shorter ones, and reading must not take longer than a deadline.
pub(super) const MAX_COMMAND_BYTES: usize = 64 * 1024;

impl shell::Host for HostState {
    async fn read(&mut self, command: String) -> wasmtime::Result<shell::Reading> {
        if command.len() > MAX_COMMAND_BYTES {
            return Ok(shell::Reading {
                programs: Vec::new(),
                doubt: Some(format!("it has more than {MAX_COMMAND_BYTES} bytes")),
            });
        }
        let Command { parts, doubt } = Command::read(&command);
        Ok(shell::Reading {
            programs: parts.iter().map(program).collect(),
            doubt,
        })
    }
}

fn program(part: &Part) -> shell::Program {
    let word = |word: &Word| match word {
        Word::Literal(text) => Some(text.clone()),
        Word::Any => None,
    };
    shell::Program {
        words: part.words().iter().map(word).collect(),
        is_altered: part.is_altered(),
        is_redirection: part.is_redirection(),
    }
}
