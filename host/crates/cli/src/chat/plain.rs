//! Runs the chat line by line, for screen readers, simple terminals and pipes. Printed text is
//! never changed.
//!
//! At a terminal, a line that is typed while a turn runs steers the turn; from a pipe each line
//! waits until the previous turn has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};

use super::super::approve::{self, TerminalAnswer, TerminalQuestion};
use super::super::attach;
use super::super::command::{CommandCallResult, CommandSet, OpenSessionFacts, SessionOwnerAction};
use super::super::exit_code::ExitStatus;
use super::super::open::OpenedSession;
use super::super::programs::TurnFollowers;
use super::super::question::UNREAD;
use super::super::render;
use super::super::render::hold::{hold_output, write_immediately};
use super::super::render::turn::TurnRenderer;
use super::super::resource::{
    ResourceMention, find_resource_mentions_in_line, refuse_resource_in_command,
};
use super::super::signals::ShutdownSignals;
use super::super::telemetry::Telemetry;
use super::super::terminal::{self, QUIET};
use super::live::ChatExit;
use super::read_ahead::{discard_typed_lines, read_lines, report_ignored_line};
use super::slash::{is_command, permission_number};
use super::worker::{ChatJobResult, ChatPrompt, ChatWorker};
use rind_lib::agent::{Error, SteerHandle};
use rind_lib::event::{Event, Stamped};
use rind_lib::host::SessionMaterials;
use rind_lib::message::Attachment;
use rind_lib::point::payload::{Source, StopReason};
use rind_lib::tool::approval::{ApprovalAnswer, SessionApprovals};
use rind_lib::tool::policy::{ApprovalMode, ModeSwitch};
use rind_operator::model;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorSetup;

/// Maximum time between two presses of Ctrl-C for the second one to quit the chat.
const MAX_DOUBLE_PRESS: Duration = Duration::from_secs(1);

struct PlainChat {
    /// Id of the session.
    id: String,
    /// Whether the session has a conversation that can be continued.
    has_history: bool,
    cost_usd: f64,
    /// Mode of approval.
    switch: ModeSwitch,
    /// Name of the model that the person chose in this chat, as typed.
    chosen_model: Option<String>,
    worker: ChatWorker,
    steering: SteerHandle,
    /// Resources of MCP servers that a typed text can name.
    materials: SessionMaterials,
    approvals: Arc<SessionApprovals>,
    setup: OperatorSetup,
    lines: Receiver<String>,
    events: UnboundedReceiver<Stamped>,
    questions: UnboundedReceiver<TerminalQuestion>,
    renderer: TurnRenderer,
    telemetry: Telemetry,
    interrupts: Signal,
    ended: ShutdownSignals,
    interrupted: Option<Instant>,
    /// Whether a person types the input; false if it comes from a pipe.
    is_typed: bool,
    /// Whether the input has ended.
    is_over: bool,
    /// Exit status of the last turn.
    last: ExitStatus,
    leaving: Option<ChatExit>,
}

pub(super) async fn run_plain(
    opened: OpenedSession,
    commands: Arc<CommandSet>,
    prompt: Option<String>,
    is_typed: bool,
    programs: &mut TurnFollowers,
) -> anyhow::Result<ChatExit> {
    render::print_note(&opened.chosen);
    let session = opened.session;
    let interrupted = super::interrupted_turn_notice(&session, prompt.is_some(), "Ctrl-C");
    if let Some(note) = &interrupted {
        render::print_warning(&note.text);
    }
    commands.set_question_asker(opened.asker);
    let facts = OpenSessionFacts::from_session(&session);
    let cost_usd = facts.cost_usd();
    commands.set_open_session(facts);
    if is_typed || opened.is_dry_run || opened.switch.mode() != ApprovalMode::Ask {
        let dry_run = if opened.is_dry_run { ", dry run" } else { "" };
        let mode = opened.switch.mode();
        render::print_note(&format!("mode {mode}{dry_run}; /mode lists the others"));
    }
    let mut plain = PlainChat {
        id: session.id().to_string(),
        has_history: session.turn_number() > 0,
        cost_usd,
        switch: opened.switch,
        chosen_model: None,
        steering: session.steering(),
        materials: session.materials(),
        approvals: session.approvals(),
        setup: opened.setup,
        events: session.events(),
        questions: opened.questions,
        worker: ChatWorker::new(session, commands),
        lines: read_lines(),
        renderer: TurnRenderer::without_redrawing(),
        telemetry: Telemetry::from_env(),
        interrupts: signal(SignalKind::interrupt()).context("listen for signals")?,
        ended: ShutdownSignals::listen_without_ctrl_c().context("listen for signals")?,
        interrupted: None,
        is_typed,
        is_over: false,
        last: ExitStatus::Done,
        leaving: None,
    };
    drop(opened.exits);
    match prompt {
        Some(prompt) => plain.handle_line(&prompt),
        None if interrupted.is_some_and(|note| note.continues) => plain.worker.continue_turn(),
        None => plain.show_prompt(),
    }
    while plain.leaving.is_none() {
        plain.handle_next_input(programs).await;
    }
    plain.leave_chat(programs).await
}

impl PlainChat {
    async fn handle_next_input(&mut self, programs: &mut TurnFollowers) {
        let is_running = self.worker.is_running();
        tokio::select! {
            // Receive events before questions, so that a question is shown after the events that
            // led to it.
            biased;
            () = self.ended.wait_for_signal() => self.leaving = Some(ChatExit::Quit(ExitStatus::Interrupted)),
            _ = self.interrupts.recv() => self.interrupt_job(),
            Some(event) = self.events.recv() => self.show_event(&event, programs),
            done = self.worker.next_job_result() => self.finish_job(done),
            Some(asked) = self.questions.recv() => self.ask_person(asked, programs).await,
            line = self.lines.recv(), if !self.is_over && (self.is_typed || !is_running) => match line {
                Some(line) => self.handle_line(&line),
                None => {
                    self.is_over = true;
                    self.leave_chat_if_over();
                }
            },
        }
    }

    fn handle_line(&mut self, line: &str) {
        if self.is_typed {
            self.renderer.record_enter_key();
        }
        let text = line.trim();
        if text.is_empty() {
            return self.show_prompt();
        }
        if is_command(text) && !line.starts_with(' ') {
            self.run_command(text);
        } else if text.starts_with('!') && !line.starts_with(' ') {
            // Do not send the line to the model, because it may reveal a secret, as in `!!pass show
            // bank`.
            render::print_warning(
                "`!` commands need the chat on the full screen; put a blank before the line to send it to the model",
            );
            self.show_prompt();
        } else if self.worker.is_running() {
            if self.find_mentioned_resources(text).is_none() {
                return;
            }
            let images = self.load_mentioned_images(text);
            self.steering.steer_with(text, Source::Terminal, images);
            render::print_note(match self.worker.is_turn_running() {
                true => "the model reads it before its next request",
                false => "it is sent when the command has ended",
            });
        } else {
            self.run_turn(text.to_owned());
        }
    }

    fn run_turn(&mut self, text: String) {
        self.interrupted = None;
        let Some(resources) = self.find_mentioned_resources(&text) else {
            self.last = ExitStatus::Usage;
            return self.show_prompt();
        };
        let images = self.load_mentioned_images(&text);
        self.worker.start_turn(ChatPrompt {
            text,
            command: None,
            images,
            resources,
        });
    }

    /// Finds the resources of MCP servers that a text names. If the text cannot be sent, prints the
    /// reason and returns `None`.
    fn find_mentioned_resources(&self, text: &str) -> Option<Vec<ResourceMention>> {
        let is_running = self.worker.is_running();
        let found =
            find_resource_mentions_in_line(text, &self.materials, self.is_typed, is_running);
        let warn = |why: &String| render::print_warning(&format!("not sent: {why}"));
        found.inspect_err(warn).ok()
    }

    /// Reads the images that a text names, and prints a line about each image. Reads no images if
    /// the text comes from a pipe, because anyone may have written the text.
    fn load_mentioned_images(&self, text: &str) -> Vec<Attachment> {
        if !self.is_typed {
            return Vec::new();
        }
        let named = attach::attach_mentioned_images(text, &self.setup.paths.workspace).into_iter();
        let said = named.inspect(|named| render::say_line(attach::describe_image(named)));
        said.filter_map(|named| Some(named.ok()?.1)).collect()
    }

    fn run_command(&mut self, line: &str) {
        if let Some(number) = permission_number(line) {
            let lines = super::permissions::run_permissions_command(&self.approvals, number);
            self.worker.emit_permissions_event(&lines);
            lines.into_iter().for_each(render::say_line);
            return self.show_prompt();
        }
        let checked = refuse_resource_in_command(line, &self.materials);
        match checked.and_then(|()| self.worker.commands().parse_call(line)) {
            Ok(call)
                if self.worker.is_running() && self.worker.commands().waits_for_turn(&call) =>
            {
                render::print_warning(
                    "this command can run only between turns: wait until this turn ends",
                );
            }
            Ok(call) => {
                self.worker.start_command(call);
                if line == "/permissions" {
                    let lines = super::permissions::run_permissions_command(&self.approvals, "");
                    lines.into_iter().for_each(render::say_line);
                }
            }
            Err(why) => {
                render::print_warning(&why);
                self.show_prompt();
            }
        }
    }

    fn finish_command(&mut self, outcome: anyhow::Result<CommandCallResult>) {
        match outcome {
            Ok(CommandCallResult::Text(text)) => {
                render::answer_line(render::printable_prose(text.trim_end()))
            }
            Ok(CommandCallResult::Prompt {
                text,
                command,
                images,
            }) => {
                self.interrupted = None;
                let (command, resources) = (Some(command), Vec::new());
                self.worker.start_turn(ChatPrompt {
                    text,
                    command,
                    images,
                    resources,
                });
            }
            Ok(CommandCallResult::Nothing) => {}
            Ok(CommandCallResult::Action(SessionOwnerAction::Continue)) => {
                self.worker.continue_turn()
            }
            Ok(CommandCallResult::Action(SessionOwnerAction::Quit)) => {
                self.leaving = Some(ChatExit::Quit(ExitStatus::Done))
            }
            Ok(CommandCallResult::Action(SessionOwnerAction::Resume { id, .. })) => {
                self.leaving = Some(ChatExit::Resume(id))
            }
            Ok(CommandCallResult::Action(SessionOwnerAction::New)) => {
                self.leaving = Some(ChatExit::New(self.chosen_model.take()));
            }
            Ok(CommandCallResult::Action(SessionOwnerAction::Reload)) => {
                self.leaving = Some(ChatExit::Reload(self.id.clone()));
            }
            // Print the text, because there may be no terminal whose clipboard could be used.
            Ok(CommandCallResult::Action(SessionOwnerAction::Copy(text))) => {
                render::answer_line(render::printable_prose(text.trim_end()));
            }
            Ok(CommandCallResult::Action(SessionOwnerAction::Model(name))) => {
                let model = ModelSelection {
                    model: Some(name.clone()),
                    ..ModelSelection::default()
                };
                match model::select_model_in_session(&self.setup, &model) {
                    Ok(selected) => {
                        render::print_note(&format!(
                            "the next turns use the model {}",
                            selected.model
                        ));
                        self.worker.commands().set_open_session_model(&selected);
                        self.chosen_model = Some(name);
                        self.worker.set_model(selected);
                    }
                    Err(error) => render::print_error(&error),
                }
            }
            Err(error) => render::print_error(&error),
        }
    }

    /// Begins a turn with the texts that were typed during the last turn or command. If there are
    /// none, shows the prompt, or leaves the chat if the input has ended.
    fn continue_chat(&mut self) {
        if self.leaving.is_some() || self.worker.is_running() {
            return;
        }
        let waiting = self.steering.take_queued_texts();
        if !waiting.is_empty() {
            let texts: Vec<String> = waiting.into_iter().map(|input| input.text).collect();
            return self.run_turn(texts.join("\n\n"));
        }
        self.show_prompt();
        self.leave_chat_if_over();
    }

    /// Shows the prompt for the next line.
    fn show_prompt(&self) {
        if self.is_typed && self.leaving.is_none() && !self.worker.is_running() {
            write_immediately("> ");
        }
    }

    fn finish_job(&mut self, done: Option<ChatJobResult>) {
        match done {
            Some(ChatJobResult::Turn(Ok(outcome))) => {
                self.last = ExitStatus::from(outcome.summary.stop);
                self.has_history = true;
                if outcome.summary.stop == StopReason::Done
                    && self.switch.mode() == ApprovalMode::Plan
                {
                    render::print_note(
                        "to carry out the plan: /mode ask or /mode accept-edits, then say so",
                    );
                }
                if outcome.summary.stop != StopReason::Done {
                    for input in self.steering.take_queued_texts() {
                        render::print_warning(&format!("not sent: {}", input.text));
                    }
                }
                self.continue_chat();
            }
            // Do not print the error, because the turn has already shown it. The turn's answer is
            // kept in memory.
            Some(ChatJobResult::Turn(Err(Error::Session(_)))) => {
                self.last = ExitStatus::Failed;
                self.continue_chat();
            }
            Some(ChatJobResult::Turn(Err(error))) => {
                render::print_error(&error.into());
                self.leaving = Some(ChatExit::Quit(ExitStatus::Failed));
            }
            Some(ChatJobResult::Command(outcome) | ChatJobResult::Aside(outcome)) => {
                self.finish_command(outcome);
                self.continue_chat();
            }
            Some(ChatJobResult::Unsent(why)) => {
                render::print_warning(&format!("not sent: {why}"));
                self.last = ExitStatus::Usage;
                self.continue_chat();
            }
            Some(ChatJobResult::Closed(_)) | None => {
                self.leaving = Some(ChatExit::Quit(ExitStatus::Failed))
            }
        }
    }

    fn leave_chat_if_over(&mut self) {
        if self.is_over && !self.worker.is_running() {
            let exit = if self.is_typed {
                ExitStatus::Done
            } else {
                self.last
            };
            self.leaving = Some(ChatExit::Quit(exit));
        }
    }

    fn interrupt_job(&mut self) {
        let is_second = self
            .interrupted
            .is_some_and(|at| at.elapsed() < MAX_DOUBLE_PRESS);
        let is_idle = !self.worker.is_running();
        if is_idle && self.is_typed && !is_second {
            // Do not quit at the first Ctrl-C, because it may have been meant for a turn that has
            // just ended.
            write_immediately("\n");
            render::print_note("Ctrl-C again quits");
            self.interrupted = Some(Instant::now());
            self.show_prompt();
        } else if is_second || !self.worker.interrupt() {
            self.leaving = Some(ChatExit::Quit(ExitStatus::Interrupted));
        } else {
            self.renderer.show_turn_interrupted();
            self.interrupted = Some(Instant::now());
        }
    }

    /// Asks the person a question line by line, until it is answered or withdrawn or the input
    /// ends. Programs that follow the chat receive events during this time.
    async fn ask_person(&mut self, asked: TerminalQuestion, programs: &mut TurnFollowers) {
        self.renderer.pause_wait_line();
        // Send lines that were typed before the question to the model, because they cannot be an
        // answer to it.
        while let Ok(line) = self.lines.try_recv() {
            self.handle_line(&line);
        }
        let mut unseen = Vec::new();
        self.ask_question_once(asked, programs, &mut unseen).await;
        unseen
            .iter()
            .for_each(|event| self.renderer.show_event(event));
    }

    async fn ask_question_once(
        &mut self,
        mut asked: TerminalQuestion,
        programs: &mut TurnFollowers,
        unseen: &mut Vec<Stamped>,
    ) {
        let screen = approve::question_screen(&asked.question);
        let open = hold_output();
        let (mut is_whole, mut is_shown, mut is_seen) = (false, false, false);
        let mut is_cut = false;
        let mut opens = Some(tokio::time::Instant::now() + QUIET);
        let answer = loop {
            if !std::mem::replace(&mut is_shown, true) {
                let size = terminal::terminal_size();
                let rows;
                (rows, is_cut) = match is_whole {
                    true => (screen.build_all_rows(size), false),
                    false => screen.screen_rows(size),
                };
                is_seen |= !is_cut;
                for row in rows {
                    write_immediately(format_args!("{row}\n"));
                }
                if opens.is_none() {
                    write_immediately(screen.prompt_text(!is_seen));
                }
            }
            tokio::select! {
                biased;
                () = asked.answer.closed() => {
                    drop(open);
                    return render::say_line("no longer asked");
                }
                _ = self.interrupts.recv() => {
                    drop(open);
                    return self.interrupt_job();
                }
                () = self.ended.wait_for_signal() => {
                    self.leaving = Some(ChatExit::Quit(ExitStatus::Interrupted));
                    break asked.question.answer_without_user("the chat was closed");
                }
                Some(event) = self.events.recv() => {
                    self.telemetry.handle_event(&event);
                    programs.handle_event(&event);
                    unseen.push(event);
                }
                () = tokio::time::sleep_until(opens.unwrap_or_else(tokio::time::Instant::now)), if opens.is_some() => {
                    // Drop lines that were typed before the question and arrive late because this
                    // process was not scheduled, and wait again.
                    if discard_typed_lines(&mut self.lines) {
                        opens = Some(tokio::time::Instant::now() + QUIET);
                        continue;
                    }
                    opens = None;
                    // Also drop a line that is typed but not finished.
                    terminal::discard_typed_input();
                    write_immediately(screen.prompt_text(!is_seen));
                }
                line = self.lines.recv() => match line {
                    None => break asked.question.answer_without_user(""),
                    Some(line) if opens.is_some() => {
                        report_ignored_line(&line);
                        opens = Some(tokio::time::Instant::now() + QUIET);
                    }
                    Some(line) if screen.requests_full_view(line.trim(), is_cut) => (is_whole, is_shown) = (true, false),
                    Some(line) => match approve::parse_answer(line.trim(), &asked.question) {
                        Some(answer) if is_seen || answer.is_refusal() => break answer,
                        given => {
                            let words = match given {
                                Some(_) => UNREAD,
                                None => "invalid answer: type one of the letters in brackets",
                            };
                            write_immediately(format_args!("{words}\n"));
                            is_shown = false;
                        }
                    },
                },
            }
        };
        drop(open);
        // Pass the reason to the model only in a turn, because a plugin's command has no model that
        // could read it.
        if let TerminalAnswer::Call(ApprovalAnswer::No(why)) = &answer
            && !why.is_empty()
            && self.leaving.is_none()
            && self.worker.is_turn_running()
        {
            self.steering.steer(why, Source::Terminal);
        }
        // Ignore a closed channel: the asker may have been stopped.
        let _ = asked.answer.send(answer);
    }

    /// Shows an event, and passes it to telemetry and to the programs that follow the chat.
    fn show_event(&mut self, event: &Stamped, programs: &mut TurnFollowers) {
        if let Event::RequestEnd { cost_usd, .. } = &event.event {
            self.cost_usd += cost_usd.unwrap_or(0.0);
        }
        self.renderer.show_event(event);
        self.telemetry.handle_event(event);
        programs.handle_event(event);
    }

    async fn leave_chat(mut self, programs: &mut TurnFollowers) -> anyhow::Result<ChatExit> {
        // Refuse all further questions: dropping the waiting questions and closing the channel
        // refuses them and those that are asked while the session ends.
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        self.worker.close_worker();
        let mut kills = ShutdownSignals::listen_for_termination()?;
        let closed = loop {
            tokio::select! {
                biased;
                // Exit at once at a second signal, in case closing the session hangs.
                _ = self.interrupts.recv() => std::process::exit(130),
                () = kills.wait_for_signal() => std::process::exit(130),
                Some(event) = self.events.recv() => self.show_event(&event, programs),
                done = self.worker.next_job_result() => match done {
                    Some(ChatJobResult::Closed(closed)) => break closed,
                    Some(_) => {}
                    None => break Ok(()),
                },
            }
        };
        // Show the events that were sent before the receiver was closed.
        self.events.close();
        while let Some(event) = self.events.recv().await {
            self.show_event(&event, programs);
        }
        self.renderer.finish_turn();
        self.telemetry.finish_export().await;
        for input in self.steering.take_queued_texts() {
            render::print_warning(&format!("not sent: {}", input.text));
        }
        closed?;
        let is_over = matches!(self.leaving, None | Some(ChatExit::Quit(_)));
        if is_over && self.has_history && self.is_typed {
            render::print_note(&super::farewell_line(&self.id, self.cost_usd));
        }
        Ok(self.leaving.unwrap_or(ChatExit::Quit(ExitStatus::Done)))
    }
}
