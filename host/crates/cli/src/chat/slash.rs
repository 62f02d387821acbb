//! Runs slash commands in a chat: the commands of the registry, and those that exist only in a
//! chat.

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::super::command::{PostCommandSessionAction, SlashCommandRunOutcome, split_command};
use super::super::exit_code::ExitStatus;
use super::super::render::{
    BOLD_STYLE, DIM_STYLE, WARNING_STYLE, escape_prose_for_display, format_count_with_noun,
    format_warning_line, style_text, truncate_to_one_line,
};
use super::super::resource::check_command_mentions_no_resource;
use super::live::{LiveChat, NextStepAfterChat};
use super::tty;
use super::worker::ChatTurnInput;
use rind_operator::model;
use rind_operator::settings::ModelSelection;

/// Description of the chat's keys for `/help`.
pub(super) const CHAT_KEYS_HELP_TEXT: &str = "\
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

pub(super) fn is_slash_command_line(line: &str) -> bool {
    !line.contains('\n') && split_command(line).is_some()
}

/// Returns the number after `/permissions`. The chat handles `/permissions` with a number itself,
/// because the command concerns only this session.
pub(super) fn parse_permissions_command_number(line: &str) -> Option<&str> {
    let number = line.strip_prefix("/permissions ")?.trim();
    (!number.is_empty()).then_some(number)
}

/// Runs a line that is a slash command. Returns false if the command cannot be run now.
pub(super) fn run_command(chat: &mut LiveChat, line: &str) -> bool {
    if chat.open_picker(line) {
        return true;
    }
    if let Some(number) = parse_permissions_command_number(line) {
        let lines = super::permissions::list_or_revoke_approvals(&chat.approvals, number);
        chat.worker.emit_permissions_event(&lines);
        lines
            .into_iter()
            .for_each(|line| chat.view.add_finished_output_line(line));
        return true;
    }
    let checked = check_command_mentions_no_resource(line, &chat.resources.materials);
    let call = match checked.and_then(|()| chat.worker.slash_command_set().parse_call(line)) {
        Ok(call) => call,
        Err(why) => {
            chat.view
                .add_finished_output_line(format_warning_line(&why));
            return false;
        }
    };
    if chat.worker.is_job_running()
        && chat
            .worker
            .slash_command_set()
            .should_wait_for_turn_end(&call)
    {
        let name = truncate_to_one_line(line, 60);
        let text = format!(
            "{name} can run only between turns: wait until this turn ends, or interrupt it with Ctrl-C"
        );
        chat.view
            .add_finished_output_line(format_warning_line(&text));
        return false;
    }
    chat.view
        .add_finished_output_line(style_text(DIM_STYLE, truncate_to_one_line(line, 400)));
    chat.worker.start_command(call);
    if line.trim_end() == "/permissions" {
        let lines = super::permissions::list_or_revoke_approvals(&chat.approvals, "");
        lines
            .into_iter()
            .for_each(|line| chat.view.add_finished_output_line(line));
    } else if line.trim_end() == "/help" {
        CHAT_KEYS_HELP_TEXT.lines().for_each(|line| {
            chat.view
                .add_finished_output_line(style_text(DIM_STYLE, line))
        });
    }
    true
}

/// Applies the outcome of a slash command to the chat.
pub(super) fn apply_slash_command_result(
    chat: &mut LiveChat,
    outcome: anyhow::Result<SlashCommandRunOutcome>,
) {
    match outcome {
        Ok(SlashCommandRunOutcome::Text(text)) => {
            let text = escape_prose_for_display(text.trim_end());
            text.lines()
                .for_each(|line| chat.view.add_finished_output_line(line));
        }
        Ok(SlashCommandRunOutcome::Prompt {
            text,
            command,
            images,
        }) => {
            chat.view.add_finished_output_line(style_text(
                BOLD_STYLE,
                truncate_to_one_line(&command, 200),
            ));
            let command = Some(command);
            chat.worker.start_turn(ChatTurnInput {
                text,
                command,
                images,
                ..ChatTurnInput::default()
            });
        }
        Ok(SlashCommandRunOutcome::Nothing) => {}
        Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Continue)) => {
            chat.worker.continue_turn()
        }
        Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Quit)) => {
            chat.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Done))
        }
        Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Model(name))) => {
            switch_session_model(chat, name)
        }
        Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::New)) => {
            chat.leaving = Some(NextStepAfterChat::New(chat.chosen_model.take()));
        }
        Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Reload)) => {
            chat.leaving = Some(NextStepAfterChat::Reload(chat.id.to_string()));
        }
        Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Copy(text))) => {
            copy_text_to_clipboard(chat, &text)
        }
        Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Resume { id, text })) => {
            chat.view
                .add_finished_output_line(style_text(DIM_STYLE, truncate_to_one_line(&text, 400)));
            chat.leaving = Some(NextStepAfterChat::Resume(id));
        }
        Err(error) => chat.view.add_finished_output_line(style_text(
            WARNING_STYLE,
            escape_prose_for_display(&format!("{error:#}")),
        )),
    }
}

/// Copies a text to the clipboard with the sequence OSC 52, which most terminals support.
fn copy_text_to_clipboard(chat: &mut LiveChat, text: &str) {
    let encoded = BASE64_STANDARD.encode(text);
    let n = format_count_with_noun(text.lines().count() as u64, "line");
    let words = match tty::write_text_to_terminal(&format!("\x1b]52;c;{encoded}\x07")) {
        Ok(()) => style_text(
            DIM_STYLE,
            format_args!("{n} sent to the clipboard, if the terminal allows it (OSC 52)"),
        ),
        Err(error) => format_warning_line(&format!("cannot write to the terminal: {error}")),
    };
    chat.view.add_finished_output_line(words);
}

fn switch_session_model(chat: &mut LiveChat, name: String) {
    let model = ModelSelection {
        model: Some(name.clone()),
        ..ModelSelection::default()
    };
    match model::select_model_in_session(&chat.setup, &model) {
        Ok(selected) => {
            let words = format!("the next turns use the model {}", selected.model);
            chat.view
                .add_finished_output_line(style_text(DIM_STYLE, escape_prose_for_display(&words)));
            chat.view.status.set_model(&selected);
            chat.worker
                .slash_command_set()
                .set_open_session_model(&selected);
            chat.chosen_model = Some(name);
            let asked = selected.model.clone();
            chat.worker.set_model(selected);
            chat.check_model_name_in_background(asked);
        }
        Err(error) => chat.view.add_finished_output_line(style_text(
            WARNING_STYLE,
            escape_prose_for_display(&format!("{error:#}")),
        )),
    }
}
