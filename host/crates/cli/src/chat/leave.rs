//! Ends a chat: restores the terminal, prints text that was typed but not sent, and closes the
//! session in order.

use super::super::exit_code::ExitStatus;
use super::super::render::{self, WARN, printable_text, style_text};
use super::super::signals::ShutdownSignals;
use super::live::{ChatExit, LiveChat};
use super::worker::ChatJobResult;

/// Restores the terminal for the shell, and ends the session.
pub(super) async fn leave_chat(chat: &mut LiveChat) -> anyhow::Result<ChatExit> {
    if let Some(question) = chat.question.take() {
        chat.close_question();
        question.answer_without_person("the chat was closed");
    }
    // Refuse all further questions: dropping the waiting questions and closing the channel refuses
    // them and those that are asked while the session ends.
    chat.questions.close();
    while chat.questions.try_recv().is_ok() {}
    chat.asked.clear();
    for input in chat.tty.take_pending_key_inputs() {
        chat.append_key_to_text(input);
    }
    chat.return_waiting_texts();
    end_screen(chat);
    chat.worker.close_worker();
    let mut kills = ShutdownSignals::listen_for_termination()?;
    let closed = loop {
        tokio::select! {
            biased;
            done = chat.worker.next_job_result() => match done {
                Some(ChatJobResult::Closed(closed)) => break closed,
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
        chat.handle_event(&event);
    }
    chat.view
        .take_finished_rows()
        .iter()
        .for_each(render::say_line);
    if let Some(telemetry) = chat.telemetry.take() {
        telemetry.finish_export().await;
    }
    closed?;
    if matches!(chat.leaving, None | Some(ChatExit::Quit(_))) && can_chat_be_resumed(chat) {
        render::print_note(&chat_farewell_line(chat));
    }
    Ok(chat
        .leaving
        .take()
        .unwrap_or(ChatExit::Quit(ExitStatus::Done)))
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
fn end_screen(chat: &mut LiveChat) {
    let Some(redirected) = chat.redirected.take() else {
        return;
    };
    while let Ok(text) = chat.written.try_recv() {
        chat.show_text_lines(&text);
    }
    let pieces = chat.editor.pieces();
    let unsent = chat.editor.take_text();
    if !unsent.trim().is_empty() {
        let words = match chat.history.add_pieces(&pieces) {
            true => "not sent (kept in the history):",
            false => "not sent:",
        };
        chat.view.say_line(style_text(WARN, words));
        let text = printable_text(unsent.trim_end());
        text.lines().for_each(|line| chat.view.say_line(line));
    }
    let finished = chat.view.take_finished_rows();
    // Ignore the error: the terminal may have been closed.
    let _ = chat.screen.end_screen(&finished);
    chat.tty.leave_raw_mode();
    drop(redirected);
    // Print the texts that other parts of the program passed to the chat meanwhile. From now on,
    // they print their texts directly.
    while let Ok(text) = chat.written.try_recv() {
        render::say_line(text.trim_end_matches('\n'));
    }
}

impl Drop for LiveChat {
    fn drop(&mut self) {
        end_screen(self);
    }
}
