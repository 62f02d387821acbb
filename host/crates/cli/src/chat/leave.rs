//! Ends a chat: restores the terminal, closes the session in order, and loses no typed text.

use super::super::exit_code::ExitStatus;
use super::super::render::{self, WARN, printable_text, style_text};
use super::super::signals::AnySignal;
use super::live::{ChatExit, LiveChat};
use super::worker::ChatJobDone;

/// Leaves the terminal to the shell, and ends the session.
pub(super) async fn leave_chat(chat: &mut LiveChat) -> anyhow::Result<ChatExit> {
    if let Some(question) = chat.question.take() {
        chat.close_question();
        question.refuse_question("the chat was closed");
    }
    // Refuse all further questions: dropping them and closing their channel answers the current
    // askers and those that come while the session ends.
    chat.questions.close();
    while chat.questions.try_recv().is_ok() {}
    chat.asked.clear();
    for input in chat.tty.rest_inputs() {
        chat.keep_typed(input);
    }
    chat.withdraw_all();
    end_screen(chat);
    chat.worker.close_worker();
    let mut kills = AnySignal::kills()?;
    let closed = loop {
        tokio::select! {
            biased;
            done = chat.worker.next_done() => match done {
                Some(ChatJobDone::Closed(closed)) => break closed,
                Some(_) => {}
                None => break Ok(()),
            },
            // A second signal ends the process at once, in case the orderly shutdown hangs.
            _ = chat.signals.interrupted.recv() => std::process::exit(130),
            () = kills.recv_signal() => std::process::exit(130),
        }
    };
    // Print the events of the session's end below the last state of the chat.
    while let Ok(event) = chat.events.try_recv() {
        chat.take_event(&event);
    }
    chat.view.take_finished().iter().for_each(render::say_line);
    if let Some(telemetry) = chat.telemetry.take() {
        telemetry.finish_export().await;
    }
    closed?;
    if matches!(chat.leaving, None | Some(ChatExit::Quit(_))) && has_history(chat) {
        render::print_note(&farewell(chat));
    }
    Ok(chat
        .leaving
        .take()
        .unwrap_or(ChatExit::Quit(ExitStatus::Done)))
}

/// Whether there is a conversation that can be continued.
fn has_history(chat: &LiveChat) -> bool {
    chat.is_resumed || chat.view.status.n_turns > 0
}

/// Returns the last line of the chat: session, cost, and the command that continues it.
fn farewell(chat: &LiveChat) -> String {
    super::farewell_line(&chat.id, chat.view.status.cost_usd)
}

/// Ends the drawing and restores the terminal. A text that was typed but not sent stays visible.
fn end_screen(chat: &mut LiveChat) {
    let Some(redirected) = chat.redirected.take() else {
        return;
    };
    while let Ok(text) = chat.written.try_recv() {
        chat.note_line(&text);
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
    let finished = chat.view.take_finished();
    // Ignore the error: the terminal may be gone.
    let _ = chat.screen.end_screen(&finished);
    chat.tty.leave_raw();
    drop(redirected);
    // Print the texts that arrived meanwhile; later ones go to the terminal directly.
    while let Ok(text) = chat.written.try_recv() {
        render::say_line(text.trim_end_matches('\n'));
    }
}

impl Drop for LiveChat {
    fn drop(&mut self) {
        end_screen(self);
    }
}
