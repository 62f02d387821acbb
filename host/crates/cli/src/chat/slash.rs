//! Runs slash commands in a chat: the commands of the registry, and those that exist only in a
//! chat.

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::super::command::{CommandCallResult, SessionOwnerAction, split_command};
use super::super::exit_code::ExitStatus;
use super::super::render::{
    BOLD, DIM, WARN, format_count, one_line, printable_prose, style_text, warning_text,
};
use super::super::resource::refuse_resource_in_command;
use super::live::{ChatExit, LiveChat};
use super::tty;
use super::worker::ChatPrompt;
use rind_operator::model;
use rind_operator::settings::ModelSelection;

/// Description of the chat's keys for `/help`.
pub(super) const KEYS: &str = "\
Keys of the chat:
  Enter        sends; while a turn runs it steers: the model reads it before its next request, and calls that have not begun are skipped
  Tab          completes; while a turn runs it keeps the text for the end of the turn
  Shift-Tab    switches the mode: ask, accept-edits, plan (/mode lists them)
  Up           goes through lines, takes back what waits, then goes through the history
  Ctrl-C       ends the turn, twice quits; so does Ctrl-D on an empty line
  Esc          ends the turn; at a question it answers no as well
  Ctrl-R       searches the history
  Ctrl-O       lists the tool calls, and shows one whole
  Ctrl-G       opens the text in $VISUAL or $EDITOR
  Ctrl-Z       stops the chat until the shell continues it (`fg`)
  Shift-Enter  begins a line; so do Alt-Enter and Ctrl-J
  @            names a file, or a resource of an MCP server (@SERVER:ADDRESS)
  !            !COMMAND runs a command and tells the model with your next words, !!COMMAND does not tell it
  /permissions lists what you allowed in this session too; /permissions N takes it back";

pub(super) fn is_command(line: &str) -> bool {
    !line.contains('\n') && split_command(line).is_some()
}

/// Returns the number after `/permissions`. The chat handles `/permissions` with a number itself,
/// because the command concerns only this session.
pub(super) fn permission_number(line: &str) -> Option<&str> {
    let number = line.strip_prefix("/permissions ")?.trim();
    (!number.is_empty()).then_some(number)
}

/// Runs a line that is a slash command. Returns false if the command cannot be run now.
pub(super) fn run_command(chat: &mut LiveChat, line: &str) -> bool {
    if chat.open_picker(line) {
        return true;
    }
    if let Some(number) = permission_number(line) {
        let lines = super::permissions::run_permissions_command(&chat.approvals, number);
        chat.worker.emit_permissions_event(&lines);
        lines.into_iter().for_each(|line| chat.view.say_line(line));
        return true;
    }
    let checked = refuse_resource_in_command(line, &chat.resources.materials);
    let call = match checked.and_then(|()| chat.worker.commands().parse_call(line)) {
        Ok(call) => call,
        Err(why) => {
            chat.view.say_line(warning_text(&why));
            return false;
        }
    };
    if chat.worker.is_running() && chat.worker.commands().waits_for_turn(&call) {
        let name = one_line(line, 60);
        let text = format!(
            "{name} can run only between turns: wait until this turn ends, or interrupt it with Ctrl-C"
        );
        chat.view.say_line(warning_text(&text));
        return false;
    }
    chat.view.say_line(style_text(DIM, one_line(line, 400)));
    chat.worker.start_command(call);
    if line.trim_end() == "/permissions" {
        let lines = super::permissions::run_permissions_command(&chat.approvals, "");
        lines.into_iter().for_each(|line| chat.view.say_line(line));
    } else if line.trim_end() == "/help" {
        KEYS.lines()
            .for_each(|line| chat.view.say_line(style_text(DIM, line)));
    }
    true
}

/// Applies the outcome of a command.
pub(super) fn finish_command(chat: &mut LiveChat, outcome: anyhow::Result<CommandCallResult>) {
    match outcome {
        Ok(CommandCallResult::Text(text)) => {
            let text = printable_prose(text.trim_end());
            text.lines().for_each(|line| chat.view.say_line(line));
        }
        Ok(CommandCallResult::Prompt {
            text,
            command,
            images,
        }) => {
            chat.view
                .say_line(style_text(BOLD, one_line(&command, 200)));
            let command = Some(command);
            chat.worker.start_turn(ChatPrompt {
                text,
                command,
                images,
                ..ChatPrompt::default()
            });
        }
        Ok(CommandCallResult::Nothing) => {}
        Ok(CommandCallResult::Action(SessionOwnerAction::Continue)) => chat.worker.continue_turn(),
        Ok(CommandCallResult::Action(SessionOwnerAction::Quit)) => {
            chat.leaving = Some(ChatExit::Quit(ExitStatus::Done))
        }
        Ok(CommandCallResult::Action(SessionOwnerAction::Model(name))) => choose_model(chat, name),
        Ok(CommandCallResult::Action(SessionOwnerAction::New)) => {
            chat.leaving = Some(ChatExit::New(chat.chosen_model.take()));
        }
        Ok(CommandCallResult::Action(SessionOwnerAction::Reload)) => {
            chat.leaving = Some(ChatExit::Reload(chat.id.to_string()));
        }
        Ok(CommandCallResult::Action(SessionOwnerAction::Copy(text))) => copy_text(chat, &text),
        Ok(CommandCallResult::Action(SessionOwnerAction::Resume { id, text })) => {
            chat.view.say_line(style_text(DIM, one_line(&text, 400)));
            chat.leaving = Some(ChatExit::Resume(id));
        }
        Err(error) => chat
            .view
            .say_line(style_text(WARN, printable_prose(&format!("{error:#}")))),
    }
}

/// Copies a text to the clipboard with the sequence OSC 52, which most terminals support.
fn copy_text(chat: &mut LiveChat, text: &str) {
    let encoded = BASE64_STANDARD.encode(text);
    let n = format_count(text.lines().count() as u64, "line");
    let words = match tty::put_text(&format!("\x1b]52;c;{encoded}\x07")) {
        Ok(()) => style_text(
            DIM,
            format_args!("{n} sent to the clipboard, if the terminal allows it (OSC 52)"),
        ),
        Err(error) => warning_text(&format!("cannot write to the terminal: {error}")),
    };
    chat.view.say_line(words);
}

fn choose_model(chat: &mut LiveChat, name: String) {
    let model = ModelSelection {
        model: Some(name.clone()),
        ..ModelSelection::default()
    };
    match model::select_model_in_session(&chat.setup, &model) {
        Ok(selected) => {
            let words = format!("the next turns use the model {}", selected.model);
            chat.view.say_line(style_text(DIM, printable_prose(&words)));
            chat.view.status.set_model(&selected);
            chat.worker.commands().set_open_session_model(&selected);
            chat.chosen_model = Some(name);
            let asked = selected.model.clone();
            chat.worker.set_model(selected);
            chat.check_model_name(asked);
        }
        Err(error) => chat
            .view
            .say_line(style_text(WARN, printable_prose(&format!("{error:#}")))),
    }
}
