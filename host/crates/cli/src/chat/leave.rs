//! The end of a chat: restores the terminal, closes the session in order, and loses no typed text.

use super::super::exit_code::ExitStatus;
use super::super::render::{self, WARN, printable, styled};
use super::super::signals::AnySignal;
use super::live::{Leave, Live};
use super::worker::Done;

impl Live {
    /// Leaves the terminal to the shell, and ends the session.
    pub(super) async fn leave(&mut self) -> anyhow::Result<Leave> {
        if let Some(question) = self.question.take() {
            self.close_question();
            question.refuse();
        }
        // Nothing can be asked any more. Dropping the questions, and closing their channel, answers
        // the current askers and those that come while the session ends.
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        self.asked.clear();
        for input in self.tty.rest() {
            self.keep_typed(input);
        }
        self.take_back_all();
        self.end_screen();
        self.worker.close();
        let mut kills = AnySignal::kills()?;
        let closed = loop {
            tokio::select! {
                biased;
                done = self.worker.done() => match done {
                    Some(Done::Closed(closed)) => break closed,
                    Some(_) => {}
                    None => break Ok(()),
                },
                // A second signal ends the process at once, in case the orderly shutdown hangs.
                _ = self.signals.interrupted.recv() => std::process::exit(130),
                () = kills.recv() => std::process::exit(130),
            }
        };
        // Print the events of the session's end below the last state of the chat.
        while let Ok(event) = self.events.try_recv() {
            self.take_event(&event);
        }
        self.view.finished().iter().for_each(render::say);
        if let Some(telemetry) = self.telemetry.take() {
            telemetry.finish().await;
        }
        closed?;
        Ok(self.leaving.take().unwrap_or(Leave::Quit(ExitStatus::Done)))
    }

    /// Ends the screen; a text that was typed and not sent stays visible on it.
    fn end_screen(&mut self) {
        let Some(redirected) = self.redirected.take() else {
            return;
        };
        while let Ok(text) = self.written.try_recv() {
            self.wrote(&text);
        }
        let unsent = self.editor.take();
        if !unsent.trim().is_empty() {
            let words = match self.history.add(&unsent) {
                true => "not sent (kept in the history):",
                false => "not sent:",
            };
            self.view.say(styled(WARN, words));
            let text = printable(unsent.trim_end());
            text.lines().for_each(|line| self.view.say(line));
        }
        let finished = self.view.finished();
        // Ignore the error: the terminal may be gone.
        let _ = self.screen.end(&finished);
        self.tty.leave();
        drop(redirected);
        // Print the texts that arrived meanwhile; later ones go to the terminal directly.
        while let Ok(text) = self.written.try_recv() {
            render::say(text.trim_end_matches('\n'));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end_screen();
    }
}
