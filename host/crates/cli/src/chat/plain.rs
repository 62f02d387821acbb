//! The chat in lines: for screen readers, simple terminals and pipes. Nothing on the screen changes
//! once it is written.
//!
//! At a terminal a line that is typed while a turn runs steers it; from a pipe each line waits
//! until the turn before has ended.

use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver};

use super::super::approve::{self, Asked, AskedAnswer};
use super::super::attach;
use super::super::command::{Action, Commands, Outcome};
use super::super::exit_code::ExitStatus;
use super::super::open::Opened;
use super::super::programs::Programs;
use super::super::question::UNREAD;
use super::super::render;
use super::super::render::hold::{at_once, hold};
use super::super::render::turn::TurnRenderer;
use super::super::signals::AnySignal;
use super::super::telemetry::Telemetry;
use super::super::terminal::{self, QUIET};
use super::live::Leave;
use super::slash::{is_command, permission_number};
use super::worker::{Done, Prompt, Worker};
use rind_lib::agent::SteerHandle;
use rind_lib::event::Stamped;
use rind_lib::message::Attachment;
use rind_lib::point::payload::{Source, StopReason};
use rind_lib::tool::approval::{ApprovalAnswer, SessionApprovals};
use rind_operator::model;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorSetup;

/// Time in which a second Ctrl-C quits.
const TWICE: Duration = Duration::from_secs(1);

/// Lines that are read ahead.
const MAX_AHEAD: usize = 64;

struct Plain {
    worker: Worker,
    steering: SteerHandle,
    approvals: Arc<SessionApprovals>,
    setup: OperatorSetup,
    lines: Receiver<String>,
    events: UnboundedReceiver<Stamped>,
    questions: UnboundedReceiver<Asked>,
    renderer: TurnRenderer,
    telemetry: Telemetry,
    interrupts: Signal,
    ended: AnySignal,
    interrupted: Option<Instant>,
    /// Whether a person types, and no pipe.
    is_typed: bool,
    /// Whether there is no more input.
    is_over: bool,
    /// End of the last turn.
    last: ExitStatus,
    leaving: Option<Leave>,
}

pub(super) async fn plain(
    opened: Opened,
    commands: Arc<Commands>,
    prompt: Option<String>,
    is_typed: bool,
    programs: &mut Programs,
) -> anyhow::Result<Leave> {
    render::note(&opened.chosen);
    let session = opened.session;
    let mut plain = Plain {
        steering: session.steering(),
        approvals: session.approvals(),
        setup: opened.setup,
        events: session.events(),
        questions: opened.questions,
        worker: Worker::new(session, commands),
        lines: read_lines(),
        renderer: TurnRenderer::in_lines(),
        telemetry: Telemetry::from_env(),
        interrupts: signal(SignalKind::interrupt()).context("listen for signals")?,
        ended: AnySignal::ends().context("listen for signals")?,
        interrupted: None,
        is_typed,
        is_over: false,
        last: ExitStatus::Done,
        leaving: None,
    };
    drop(opened.exits);
    match prompt {
        Some(prompt) => plain.line(&prompt),
        None => plain.ready(),
    }
    while plain.leaving.is_none() {
        plain.step(programs).await;
    }
    plain.leave(programs).await
}

/// Reads standard input on a thread of its own, so that a blocked read does not delay the exit.
fn read_lines() -> Receiver<String> {
    let (sender, lines) = mpsc::channel(MAX_AHEAD);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = Vec::new();
        while let Ok(1..) = stdin.read_until(b'\n', &mut bytes) {
            let line = String::from_utf8_lossy(&bytes);
            if sender
                .blocking_send(line.trim_end_matches(['\n', '\r']).to_owned())
                .is_err()
            {
                return;
            }
            bytes.clear();
        }
    });
    lines
}

/// Says of a line that it answers nothing.
fn ignore(line: &str) {
    let line = render::one_line(line, 400);
    at_once(format_args!(
        "typed too early for an answer, and ignored: {line}\n"
    ));
}

/// Ignores the lines that were typed so far. Returns whether there were any.
fn ignored(lines: &mut Receiver<String>) -> bool {
    let mut has_any = false;
    while let Ok(line) = lines.try_recv() {
        ignore(&line);
        has_any = true;
    }
    has_any
}

impl Plain {
    async fn step(&mut self, programs: &mut Programs) {
        let is_running = self.worker.is_running();
        tokio::select! {
            // Events before questions: a question is shown after the events that led to it.
            biased;
            () = self.ended.recv() => self.leaving = Some(Leave::Quit(ExitStatus::Interrupted)),
            _ = self.interrupts.recv() => self.interrupt(),
            Some(event) = self.events.recv() => self.show(&event, programs),
            done = self.worker.done() => self.done(done),
            Some(asked) = self.questions.recv() => self.ask(asked, programs).await,
            line = self.lines.recv(), if !self.is_over && (self.is_typed || !is_running) => match line {
                Some(line) => self.line(&line),
                None => {
                    self.is_over = true;
                    self.leave_if_over();
                }
            },
        }
    }

    fn line(&mut self, line: &str) {
        if self.is_typed {
            self.renderer.typed();
        }
        let text = line.trim();
        if text.is_empty() {
            return self.ready();
        }
        if is_command(text) && !line.starts_with(' ') {
            self.command(text);
        } else if text.starts_with('!') && !line.starts_with(' ') {
            // Do not send the line to the model: it may name a secret, for example `!!pass show
            // bank`.
            render::warn(
                "`!` commands need the chat on the full screen; put a blank before the line to send it to the model",
            );
            self.ready();
        } else if self.worker.is_running() {
            let images = self.images(text);
            self.steering.steer_with(text, Source::Terminal, images);
            render::note(match self.worker.is_turn() {
                true => "the model reads it before its next request",
                false => "it is sent when the command has ended",
            });
        } else {
            self.turn(text.to_owned(), None);
        }
    }

    fn turn(&mut self, text: String, command: Option<String>) {
        self.interrupted = None;
        let images = match &command {
            Some(_) => Vec::new(),
            None => self.images(&text),
        };
        self.worker.turn(Prompt {
            text,
            command,
            images,
        });
    }

    /// Reads the images that a text names, and lists them. Only for typed input: piped text may
    /// come from anyone.
    fn images(&self, text: &str) -> Vec<Attachment> {
        if !self.is_typed {
            return Vec::new();
        }
        let named = attach::mentioned(text, &self.setup.paths.workspace).into_iter();
        let said = named.inspect(|named| render::say(attach::in_words(named)));
        said.filter_map(|named| Some(named.ok()?.1)).collect()
    }

    fn command(&mut self, line: &str) {
        if let Some(number) = permission_number(line) {
            let lines = super::permissions::command(&self.approvals, number);
            self.worker.tell_permissions(&lines);
            lines.into_iter().for_each(render::say);
            return self.ready();
        }
        match self.worker.commands().parse(line) {
            Ok(call)
                if self.worker.is_running() && self.worker.commands().waits_for_turn(&call) =>
            {
                render::warn("this command runs between turns: wait for the end of this one");
            }
            Ok(call) => {
                self.worker.command(call);
                if line == "/permissions" {
                    let lines = super::permissions::command(&self.approvals, "");
                    lines.into_iter().for_each(render::say);
                }
            }
            Err(why) => {
                render::warn(&why);
                self.ready();
            }
        }
    }

    fn commanded(&mut self, outcome: anyhow::Result<Outcome>) {
        match outcome {
            Ok(Outcome::Text(text)) => render::answer_line(render::prose(text.trim_end())),
            Ok(Outcome::Prompt { text, command }) => self.turn(text, Some(command)),
            Ok(Outcome::Nothing) => {}
            Ok(Outcome::Action(Action::Quit)) => self.leaving = Some(Leave::Quit(ExitStatus::Done)),
            Ok(Outcome::Action(Action::Resume { id, .. })) => {
                self.leaving = Some(Leave::Resume(id))
            }
            Ok(Outcome::Action(Action::Model(name))) => {
                let model = ModelSelection {
                    model: Some(name),
                    ..ModelSelection::default()
                };
                match model::select_in_session(&self.setup, &model) {
                    Ok(selected) => {
                        render::note(&format!("model from the next turn on: {}", selected.model));
                        self.worker.model(selected);
                    }
                    Err(error) => render::error(&error),
                }
            }
            Err(error) => render::error(&error),
        }
    }

    /// Begins a turn with the texts typed while something ran, or else waits for a line.
    fn go_on(&mut self) {
        if self.leaving.is_some() || self.worker.is_running() {
            return;
        }
        let waiting = self.steering.take_all();
        if !waiting.is_empty() {
            let texts: Vec<String> = waiting.into_iter().map(|input| input.text).collect();
            return self.turn(texts.join("\n\n"), None);
        }
        self.ready();
        self.leave_if_over();
    }

    /// Says that a line is waited for.
    fn ready(&self) {
        if self.is_typed && self.leaving.is_none() && !self.worker.is_running() {
            at_once("> ");
        }
    }

    fn done(&mut self, done: Option<Done>) {
        match done {
            Some(Done::Turn(Ok(outcome))) => {
                self.last = ExitStatus::from(outcome.summary.stop);
                if outcome.summary.stop != StopReason::Done {
                    for input in self.steering.take_all() {
                        render::warn(&format!("not sent: {}", input.text));
                    }
                }
                self.go_on();
            }
            Some(Done::Turn(Err(error))) => {
                render::error(&error.into());
                self.leaving = Some(Leave::Quit(ExitStatus::Failed));
            }
            Some(Done::Command(outcome) | Done::Aside(outcome)) => {
                self.commanded(outcome);
                self.go_on();
            }
            Some(Done::Closed(_)) | None => self.leaving = Some(Leave::Quit(ExitStatus::Failed)),
        }
    }

    fn leave_if_over(&mut self) {
        if self.is_over && !self.worker.is_running() {
            let exit = if self.is_typed {
                ExitStatus::Done
            } else {
                self.last
            };
            self.leaving = Some(Leave::Quit(exit));
        }
    }

    fn interrupt(&mut self) {
        let is_second = self.interrupted.is_some_and(|at| at.elapsed() < TWICE);
        if is_second || !self.worker.interrupt() {
            self.leaving = Some(Leave::Quit(ExitStatus::Interrupted));
        } else {
            self.renderer.interrupted();
            self.interrupted = Some(Instant::now());
        }
    }

    /// Asks in lines, until there is an answer, the input ends or the asker is gone. Programs still
    /// receive events meanwhile.
    async fn ask(&mut self, asked: Asked, programs: &mut Programs) {
        self.renderer.pause();
        // Lines typed before the question go to the model: they cannot answer a question that was
        // not on the screen.
        while let Ok(line) = self.lines.try_recv() {
            self.line(&line);
        }
        let mut unseen = Vec::new();
        self.ask_once(asked, programs, &mut unseen).await;
        unseen.iter().for_each(|event| self.renderer.show(event));
    }

    async fn ask_once(
        &mut self,
        mut asked: Asked,
        programs: &mut Programs,
        unseen: &mut Vec<Stamped>,
    ) {
        let screen = approve::screen(&asked.question);
        let open = hold();
        let (mut is_whole, mut is_shown, mut is_seen) = (false, false, false);
        let mut is_cut = false;
        let mut opens = Some(tokio::time::Instant::now() + QUIET);
        let answer = loop {
            if !std::mem::replace(&mut is_shown, true) {
                let size = terminal::size();
                let rows;
                (rows, is_cut) = match is_whole {
                    true => (screen.all_rows(size), false),
                    false => screen.rows(size),
                };
                is_seen |= !is_cut;
                for row in rows {
                    at_once(format_args!("{row}\n"));
                }
                if opens.is_none() {
                    at_once(screen.prompt(!is_seen));
                }
            }
            tokio::select! {
                biased;
                () = asked.answer.closed() => {
                    drop(open);
                    return render::say("no longer asked");
                }
                _ = self.interrupts.recv() => {
                    drop(open);
                    return self.interrupt();
                }
                () = self.ended.recv() => {
                    self.leaving = Some(Leave::Quit(ExitStatus::Interrupted));
                    break asked.question.unanswered("the chat was closed");
                }
                Some(event) = self.events.recv() => {
                    self.telemetry.take(&event);
                    programs.take(&event);
                    unseen.push(event);
                }
                () = tokio::time::sleep_until(opens.unwrap_or_else(tokio::time::Instant::now)), if opens.is_some() => {
                    // Lines typed before the question may arrive late if this process was not
                    // scheduled; drop them and wait again.
                    if ignored(&mut self.lines) {
                        opens = Some(tokio::time::Instant::now() + QUIET);
                        continue;
                    }
                    opens = None;
                    // Drop an unfinished line too.
                    terminal::drop_typed();
                    at_once(screen.prompt(!is_seen));
                }
                line = self.lines.recv() => match line {
                    None => break asked.question.unanswered(""),
                    Some(line) if opens.is_some() => {
                        ignore(&line);
                        opens = Some(tokio::time::Instant::now() + QUIET);
                    }
                    Some(line) if screen.is_view(line.trim(), is_cut) => (is_whole, is_shown) = (true, false),
                    Some(line) => match approve::parse(line.trim(), &asked.question) {
                        Some(answer) if is_seen || answer.is_no() => break answer,
                        given => {
                            let words = match given {
                                Some(_) => UNREAD,
                                None => "invalid answer: type one of the letters in brackets",
                            };
                            at_once(format_args!("{words}\n"));
                            is_shown = false;
                        }
                    },
                },
            }
        };
        drop(open);
        // Steer only a turn: a plugin's command has no model that could read the reason.
        if let AskedAnswer::Call(ApprovalAnswer::No(why)) = &answer
            && !why.is_empty()
            && self.leaving.is_none()
            && self.worker.is_turn()
        {
            self.steering.steer(why, Source::Terminal);
        }
        // Ignore a closed channel: the asker may be gone by now.
        let _ = asked.answer.send(answer);
    }

    /// Shows an event, and passes it to telemetry and programs.
    fn show(&mut self, event: &Stamped, programs: &mut Programs) {
        self.renderer.show(event);
        self.telemetry.take(event);
        programs.take(event);
    }

    async fn leave(mut self, programs: &mut Programs) -> anyhow::Result<Leave> {
        // Nothing can be asked any more. Dropping the questions, and closing their channel, answers
        // the current askers and those that come while the session ends.
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        self.worker.close();
        let mut kills = AnySignal::kills()?;
        let closed = loop {
            tokio::select! {
                biased;
                // A second signal ends the process at once, in case the orderly shutdown hangs.
                _ = self.interrupts.recv() => std::process::exit(130),
                () = kills.recv() => std::process::exit(130),
                Some(event) = self.events.recv() => self.show(&event, programs),
                done = self.worker.done() => match done {
                    Some(Done::Closed(closed)) => break closed,
                    Some(_) => {}
                    None => break Ok(()),
                },
            }
        };
        // A closed receiver still yields the events that were sent before.
        self.events.close();
        while let Some(event) = self.events.recv().await {
            self.show(&event, programs);
        }
        self.renderer.finish();
        self.telemetry.finish().await;
        for input in self.steering.take_all() {
            render::warn(&format!("not sent: {}", input.text));
        }
        closed?;
        Ok(self.leaving.unwrap_or(Leave::Quit(ExitStatus::Done)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_read_before_a_question_could_be_are_all_ignored() {
        let (sender, mut lines) = mpsc::channel(MAX_AHEAD);
        assert!(!ignored(&mut lines));
        for line in ["y", "always"] {
            sender.try_send(line.to_owned()).unwrap();
        }
        assert!(ignored(&mut lines));
        assert!(!ignored(&mut lines) && lines.is_empty());
    }
}
