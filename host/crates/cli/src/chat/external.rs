//! Lets another program use the terminal: the person's editor, or the shell while the chat is
//! suspended.

use std::io::Write;

use anyhow::Context;
use rustix::process::{Signal, kill_current_process_group};
use tokio::time::Instant;

use super::super::environment;
use super::super::render::{escape_prose_for_display, format_warning_line};
use super::live::LiveChat;
use rind_lib::tool::process::foreground::run_shell_command_with_file_argument;

/// Editor that is used if neither `VISUAL` nor `EDITOR` is set.
const DEFAULT_EDITOR_COMMAND: &str = "vi";

/// Opens the typed text in `$VISUAL` or `$EDITOR`, and replaces it with the saved text.
pub(super) fn edit_prompt_in_external_editor(chat: &mut LiveChat) {
    let editor = environment::environment_variable("VISUAL")
        .or_else(|| environment::environment_variable("EDITOR"));
    let editor = editor.unwrap_or_else(|| DEFAULT_EDITOR_COMMAND.to_owned());
    match run_external_editor(chat, &editor) {
        Ok(text) => chat.editor.set_text(text.trim_end_matches('\n')),
        Err(error) => {
            chat.view
                .add_finished_output_line(format_warning_line(&escape_prose_for_display(&format!(
                    "{error:#}"
                ))))
        }
    }
    // Count the time in the editor as typing, so that no question opens directly after the editor
    // was closed.
    chat.last_key = Instant::now();
}

/// Suspends the program, and with it a running turn, until the shell continues it. The typed text
/// is kept.
pub(super) fn suspend_chat(chat: &mut LiveChat) {
    let stopped = chat.screen.erase_region(&[]).and_then(|()| {
        chat.tty.leave_raw_mode();
        // Signal the whole process group, as the terminal does at Ctrl-Z. The signal does not stop
        // an orphaned process group.
        tokio::task::block_in_place(|| kill_current_process_group(Signal::TSTP))?;
        chat.tty.enter_raw_mode()
    });
    if let Err(error) = stopped {
        chat.view
            .add_finished_output_line(format_warning_line(&format!("cannot stop: {error}")));
    }
    chat.screen.invalidate_region();
    chat.last_key = Instant::now();
}

fn run_external_editor(chat: &mut LiveChat, editor: &str) -> anyhow::Result<String> {
    // `tempfile` creates the file with mode 0600.
    let file = tempfile::Builder::new()
        .prefix("rind-")
        .suffix(".md")
        .tempfile();
    let mut file = file.context("cannot create a file for the editor")?;
    file.write_all(chat.editor.full_text().as_bytes())?;
    chat.screen.erase_region(&[])?;
    chat.tty.leave_raw_mode();
    let ended =
        tokio::task::block_in_place(|| run_shell_command_with_file_argument(editor, file.path()));
    chat.tty
        .enter_raw_mode()
        .context("cannot set up the terminal again")?;
    let ended = ended.with_context(|| format!("cannot run `{editor}`"))?;
    anyhow::ensure!(
        ended.success(),
        "`{editor}` ended with {ended}; set VISUAL or EDITOR to an editor that is installed"
    );
    let written = std::fs::read(file.path()).context("cannot read the edited text")?;
    Ok(decode_edited_text_lossy(chat, written))
}

/// Decodes the saved text. Bytes that are not UTF-8 are replaced by `\u{fffd}`, with a warning.
fn decode_edited_text_lossy(chat: &mut LiveChat, written: Vec<u8>) -> String {
    String::from_utf8(written).unwrap_or_else(|error| {
        let words = "the saved text is not UTF-8; its invalid bytes are replaced by `\u{fffd}`";
        chat.view
            .add_finished_output_line(format_warning_line(words));
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    })
}
