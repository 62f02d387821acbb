//! Ends a chat: restores the terminal, prints text that was typed but not sent, and closes the
//! session in order.

use super::super::exit_code::ExitStatus;
use super::super::render::{self, WARNING_STYLE, printable_text, style_text};
use super::super::signals::ShutdownSignals;
use super::live::{LiveChat, NextStepAfterChat};
use super::worker::ChatOperationResult;

/// Restores the terminal for the shell, and ends the session.
pub(super) async fn restore_terminal_and_end_session(
    chat: &mut LiveChat,
) -> anyhow::Result<NextStepAfterChat> {
    if let Some(question) = chat.question.take() {
        chat.close_question();
        question.send_fallback_answer("the chat was closed");
    }
    // Refuse all further questions: dropping the waiting questions and closing the channel refuses
    // them and those that are asked while the session ends.
    chat.questions.close();
    while chat.questions.try_recv().is_ok() {}
    chat.asked.clear();
    for input in chat.tty.take_pending_key_inputs() {
        chat.insert_key_during_exit(input);
    }
    chat.return_waiting_texts_to_editor();
    restore_shell_terminal(chat);
    chat.worker.interrupt_and_close_session();
    let mut kills = ShutdownSignals::listen_without_hangup()?;
    let closed = loop {
        tokio::select! {
            biased;
            done = chat.worker.next_job_result() => match done {
                Some(ChatOperationResult::Closed(closed)) => break closed,
                Some(_) => {}
                None => break Ok(()),
            },
            // Exit at once at a second signal, in case closing the session hangs.
            _ = chat.signals.interrupted.recv() => std::process::exit(130),
            () = kills.wait_for_signal() => std::process::exit(130),
        }
    };
    // Print the events of the session's end below the last state of the chat.
    while let Ok(event) = chat.events.try_recv() {
        chat.handle_turn_event(&event);
    }
    chat.view
        .take_finished_rows()
        .iter()
        .for_each(render::print_stderr_line);
    if let Some(telemetry) = chat.telemetry.take() {
        telemetry.flush_and_stop().await;
    }
    closed?;
    if matches!(chat.leaving, None | Some(NextStepAfterChat::Quit(_))) && can_chat_be_resumed(chat)
    {
        render::print_note(&chat_farewell_line(chat));
    }
    Ok(chat
        .leaving
        .take()
        .unwrap_or(NextStepAfterChat::Quit(ExitStatus::Done)))
}

/// Whether the session has a conversation that can be continued.
fn can_chat_be_resumed(chat: &LiveChat) -> bool {
    chat.is_resumed || chat.view.status.n_turns > 0
}

/// Returns the last line that the chat prints: the session, its cost, and the command that
/// continues the session.
fn chat_farewell_line(chat: &LiveChat) -> String {
    super::farewell_line(&chat.id, chat.view.status.cost_usd)
}

/// Stops drawing and restores the terminal. A text that was typed but not sent stays on the screen.
fn restore_shell_terminal(chat: &mut LiveChat) {
    let Some(redirected) = chat.redirected.take() else {
        return;
    };
    while let Ok(text) = chat.written.try_recv() {
        chat.show_text_lines(&text);
    }
    let pieces = chat.editor.typed_and_pasted_pieces();
    let unsent = chat.editor.take_text();
    if !unsent.trim().is_empty() {
        let words = match chat.history.add_sent_text_pieces(&pieces) {
            true => "not sent (kept in the history):",
            false => "not sent:",
        };
        chat.view
            .add_finished_output_line(style_text(WARNING_STYLE, words));
        let text = printable_text(unsent.trim_end());
        text.lines()
            .for_each(|line| chat.view.add_finished_output_line(line));
    }
    let finished = chat.view.take_finished_rows();
    // Ignore the error: the terminal may have been closed.
    let _ = chat.screen.erase_region(&finished);
    chat.tty.leave_raw_mode();
    drop(redirected);
    // Print the texts that other parts of the program passed to the chat meanwhile. From now on,
    // they print their texts directly.
    while let Ok(text) = chat.written.try_recv() {
        render::print_stderr_line(text.trim_end_matches('\n'));
    }
}

impl Drop for LiveChat {
    fn drop(&mut self) {
        restore_shell_terminal(self);
    }
}
