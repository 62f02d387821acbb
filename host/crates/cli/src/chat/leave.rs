//! The end of a chat: restores the terminal, closes the session in order, and loses no typed text.

use super::super::exit_code::ExitStatus;
use super::super::render::{self, WARN, printable_text, style_text};
use super::super::signals::AnySignal;
use super::live::{ChatExit, LiveChat};
use super::worker::ChatJobDone;

impl LiveChat {
    /// Leaves the terminal to the shell, and ends the session.
    pub(super) async fn leave_chat(&mut self) -> anyhow::Result<ChatExit> {
        if let Some(question) = self.question.take() {
            self.close_question();
            question.refuse_question("the chat was closed");
        }
        // Refuse all further questions: dropping them and closing their channel answers the current
        // askers and those that come while the session ends.
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        self.asked.clear();
        for input in self.tty.rest_inputs() {
            self.keep_typed(input);
        }
        self.take_back_all();
        self.end_screen();
        self.worker.close_worker();
        let mut kills = AnySignal::kills()?;
        let closed = loop {
            tokio::select! {
                biased;
                done = self.worker.next_done() => match done {
                    Some(ChatJobDone::Closed(closed)) => break closed,
                    Some(_) => {}
                    None => break Ok(()),
                },
                // A second signal ends the process at once, in case the orderly shutdown hangs.
                _ = self.signals.interrupted.recv() => std::process::exit(130),
                () = kills.recv_signal() => std::process::exit(130),
            }
        };
        // Print the events of the session's end below the last state of the chat.
        while let Ok(event) = self.events.try_recv() {
            self.take_event(&event);
        }
        self.view.take_finished().iter().for_each(render::say_line);
        if let Some(telemetry) = self.telemetry.take() {
            telemetry.finish_export().await;
        }
        closed?;
        if matches!(self.leaving, None | Some(ChatExit::Quit(_))) && self.has_history() {
            render::print_note(&self.farewell());
        }
        Ok(self
            .leaving
            .take()
            .unwrap_or(ChatExit::Quit(ExitStatus::Done)))
    }

    /// Whether there is a conversation that can be continued.
    fn has_history(&self) -> bool {
        self.is_resumed || self.view.status.n_turns > 0
    }

    /// Returns the last line of the chat: session, cost, and the command that continues it.
    fn farewell(&self) -> String {
        super::farewell_line(&self.id, self.view.status.cost_usd)
    }

    /// Ends the screen; a text that was typed and not sent stays visible on it.
    fn end_screen(&mut self) {
        let Some(redirected) = self.redirected.take() else {
            return;
        };
        while let Ok(text) = self.written.try_recv() {
            self.note_line(&text);
        }
        let pieces = self.editor.pieces();
        let unsent = self.editor.take_text();
        if !unsent.trim().is_empty() {
            let words = match self.history.add_pieces(&pieces) {
                true => "not sent (kept in the history):",
                false => "not sent:",
            };
            self.view.say_line(style_text(WARN, words));
            let text = printable_text(unsent.trim_end());
            text.lines().for_each(|line| self.view.say_line(line));
        }
        let finished = self.view.take_finished();
        // Ignore the error: the terminal may be gone.
        let _ = self.screen.end_screen(&finished);
        self.tty.leave_raw();
        drop(redirected);
        // Print the texts that arrived meanwhile; later ones go to the terminal directly.
        while let Ok(text) = self.written.try_recv() {
            render::say_line(text.trim_end_matches('\n'));
        }
    }
}

impl Drop for LiveChat {
    fn drop(&mut self) {
        self.end_screen();
    }
}
