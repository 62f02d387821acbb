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
use super::super::command::{
    OpenSessionHandles, PostCommandSessionAction, SlashCommandRunOutcome, SlashCommandSet,
};
use super::super::exit_code::ExitStatus;
use super::super::open::SessionWithUserQuestionChannels;
use super::super::programs::TurnInputOutputChannels;
use super::super::question::QUESTION_NOT_FULLY_SHOWN_REPLY;
use super::super::render;
use super::super::render::hold::{buffer_output_during_question, write_stderr_immediately};
use super::super::render::turn::TurnRenderer;
use super::super::resource::{
    McpResourceMention, check_command_mentions_no_resource, find_allowed_mentions_in_chat_line,
};
use super::super::signals::ShutdownSignals;
use super::super::telemetry::TraceExporter;
use super::super::terminal::{self, INPUT_SILENCE_BEFORE_ANSWER};
use super::live::NextStepAfterChat;
use super::read_ahead::{
    discard_early_typed_lines, report_ignored_typeahead_line, spawn_stdin_line_reader,
};
use super::slash::{is_slash_command_line, parse_permissions_command_number};
use super::worker::{ChatOperationResult, ChatSessionTaskHandle, ChatTurnInput};
use rind_lib::agent::{AgentSteeringHandle, Error};
use rind_lib::event::{Event, Stamped};
use rind_lib::host::SessionPromptsAndResources;
use rind_lib::message::PromptImageAttachment;
use rind_lib::point::payload::{Source, StopReason};
use rind_lib::tool::approval::{ApprovalAnswer, SessionApprovals};
use rind_lib::tool::policy::{ApprovalMode, SharedApprovalMode};
use rind_operator::model;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorWorkspaceSetup;

/// Maximum time between two presses of Ctrl-C for the second one to quit the chat.
const MAX_CTRL_C_DOUBLE_PRESS_DELAY: Duration = Duration::from_secs(1);

struct LineBasedChat {
    /// Id of the chat's session.
    id: String,
    /// Whether the session has a conversation that can be continued.
    has_history: bool,
    cost_usd: f64,
    /// Approval mode of the session, which commands can switch.
    switch: SharedApprovalMode,
    /// Name of the model that the person chose in this chat, as typed.
    chosen_model: Option<String>,
    worker: ChatSessionTaskHandle,
    steering: AgentSteeringHandle,
    /// Resources of MCP servers that a typed text can name.
    materials: SessionPromptsAndResources,
    approvals: Arc<SessionApprovals>,
    setup: OperatorWorkspaceSetup,
    lines: Receiver<String>,
    events: UnboundedReceiver<Stamped>,
    questions: UnboundedReceiver<TerminalQuestion>,
    renderer: TurnRenderer,
    telemetry: TraceExporter,
    interrupts: Signal,
    ended: ShutdownSignals,
    interrupted: Option<Instant>,
    /// Whether a person types the input; false if it comes from a pipe.
    is_typed: bool,
    /// Whether the chat's input has ended.
    is_over: bool,
    /// Exit status of the last turn, with which the program ends.
    last: ExitStatus,
    leaving: Option<NextStepAfterChat>,
}

pub(super) async fn run_plain_chat(
    opened: SessionWithUserQuestionChannels,
    commands: Arc<SlashCommandSet>,
    prompt: Option<String>,
    is_typed: bool,
    programs: &mut TurnInputOutputChannels,
) -> anyhow::Result<NextStepAfterChat> {
    render::print_note(&opened.chosen);
    let session = opened.session;
    let interrupted = super::interrupted_turn_notice(&session, prompt.is_some(), "Ctrl-C");
    if let Some(note) = &interrupted {
        render::print_warning(&note.text);
    }
    commands.set_question_asker(opened.asker);
    let facts = OpenSessionHandles::from_session(&session);
    let cost_usd = facts.cost_usd();
    commands.set_open_session(facts);
    if is_typed || opened.is_dry_run || opened.switch.mode() != ApprovalMode::Ask {
        let dry_run = if opened.is_dry_run { ", dry run" } else { "" };
        let mode = opened.switch.mode();
        render::print_note(&format!("mode {mode}{dry_run}; /mode lists the others"));
    }
    let mut plain = LineBasedChat {
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
        worker: ChatSessionTaskHandle::new(session, commands),
        lines: spawn_stdin_line_reader(),
        renderer: TurnRenderer::without_redrawing(),
        telemetry: TraceExporter::from_env(),
        interrupts: signal(SignalKind::interrupt()).context("cannot listen for signals")?,
        ended: ShutdownSignals::listen_without_ctrl_c().context("cannot listen for signals")?,
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
        plain.wait_for_and_handle_next_event(programs).await;
    }
    plain.leave_chat(programs).await
}

impl LineBasedChat {
    async fn wait_for_and_handle_next_event(&mut self, programs: &mut TurnInputOutputChannels) {
        let is_running = self.worker.is_job_running();
        tokio::select! {
            // Receive events before questions, so that a question is shown after the events that
            // led to it.
            biased;
            () = self.ended.wait_for_signal() => self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Interrupted)),
            _ = self.interrupts.recv() => self.handle_ctrl_c(),
            Some(event) = self.events.recv() => self.show_event(&event, programs),
            done = self.worker.next_job_result() => self.handle_session_job_result(done),
            Some(asked) = self.questions.recv() => self.ask_user_a_question(asked, programs).await,
            line = self.lines.recv(), if !self.is_over && (self.is_typed || !is_running) => match line {
                Some(line) => self.handle_line(&line),
                None => {
                    self.is_over = true;
                    self.leave_chat_if_input_ended();
                }
            },
        }
    }

    fn handle_line(&mut self, line: &str) {
        if self.is_typed {
            self.renderer.record_line_ended_by_enter();
        }
        let text = line.trim();
        if text.is_empty() {
            return self.show_prompt();
        }
        if is_slash_command_line(text) && !line.starts_with(' ') {
            self.run_command(text);
        } else if text.starts_with('!') && !line.starts_with(' ') {
            // Do not send the line to the model, because it may reveal a secret, as in `!!pass show
            // bank`.
            render::print_warning(
                "`!` commands need the chat on the full screen; put a blank before the line to send it to the model",
            );
            self.show_prompt();
        } else if self.worker.is_job_running() {
            if self.find_mentioned_resources(text).is_none() {
                return;
            }
            let images = self.load_mentioned_images(text);
            self.steering
                .steer_with_images(text, Source::Terminal, images);
            render::print_note(match self.worker.is_turn_running() {
                true => "the model reads it before its next request",
                false => "it is sent when the command has ended",
            });
        } else {
            self.start_turn_with_text(text.to_owned());
        }
    }

    fn start_turn_with_text(&mut self, text: String) {
        self.interrupted = None;
        let Some(resources) = self.find_mentioned_resources(&text) else {
            self.last = ExitStatus::Usage;
            return self.show_prompt();
        };
        let images = self.load_mentioned_images(&text);
        self.worker.start_turn(ChatTurnInput {
            text,
            command: None,
            images,
            resources,
        });
    }

    /// Finds the resources of MCP servers that a text names. If the text cannot be sent, prints the
    /// reason and returns `None`.
    fn find_mentioned_resources(&self, text: &str) -> Option<Vec<McpResourceMention>> {
        let is_running = self.worker.is_job_running();
        let found =
            find_allowed_mentions_in_chat_line(text, &self.materials, self.is_typed, is_running);
        let warn = |why: &String| render::print_warning(&format!("not sent: {why}"));
        found.inspect_err(warn).ok()
    }

    /// Reads the images that a text names, and prints a line about each image. Reads no images if
    /// the text comes from a pipe, because anyone may have written the text.
    fn load_mentioned_images(&self, text: &str) -> Vec<PromptImageAttachment> {
        if !self.is_typed {
            return Vec::new();
        }
        let named = attach::load_mentioned_images(text, &self.setup.paths.workspace).into_iter();
        let said = named.inspect(|named| render::print_stderr_line(attach::describe_image(named)));
        said.filter_map(|named| Some(named.ok()?.1)).collect()
    }

    fn run_command(&mut self, line: &str) {
        if let Some(number) = parse_permissions_command_number(line) {
            let lines = super::permissions::list_or_revoke_approvals(&self.approvals, number);
            self.worker.emit_permissions_event(&lines);
            lines.into_iter().for_each(render::print_stderr_line);
            return self.show_prompt();
        }
        let checked = check_command_mentions_no_resource(line, &self.materials);
        match checked.and_then(|()| self.worker.slash_command_set().parse_call(line)) {
            Ok(call)
                if self.worker.is_job_running()
                    && self
                        .worker
                        .slash_command_set()
                        .should_wait_for_turn_end(&call) =>
            {
                render::print_warning(
                    "this command can run only between turns: wait until this turn ends",
                );
            }
            Ok(call) => {
                self.worker.start_command(call);
                if line == "/permissions" {
                    let lines = super::permissions::list_or_revoke_approvals(&self.approvals, "");
                    lines.into_iter().for_each(render::print_stderr_line);
                }
            }
            Err(why) => {
                render::print_warning(&why);
                self.show_prompt();
            }
        }
    }

    fn handle_slash_command_result(&mut self, outcome: anyhow::Result<SlashCommandRunOutcome>) {
        match outcome {
            Ok(SlashCommandRunOutcome::Text(text)) => {
                render::print_stdout_line(render::escape_prose_for_display(text.trim_end()))
            }
            Ok(SlashCommandRunOutcome::Prompt {
                text,
                command,
                images,
            }) => {
                self.interrupted = None;
                let (command, resources) = (Some(command), Vec::new());
                self.worker.start_turn(ChatTurnInput {
                    text,
                    command,
                    images,
                    resources,
                });
            }
            Ok(SlashCommandRunOutcome::Nothing) => {}
            Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Continue)) => {
                self.worker.continue_turn()
            }
            Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Quit)) => {
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Done))
            }
            Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Resume { id, .. })) => {
                self.leaving = Some(NextStepAfterChat::Resume(id))
            }
            Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::New)) => {
                self.leaving = Some(NextStepAfterChat::New(self.chosen_model.take()));
            }
            Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Reload)) => {
                self.leaving = Some(NextStepAfterChat::Reload(self.id.clone()));
            }
            // Print the text, because there may be no terminal whose clipboard could be used.
            Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Copy(text))) => {
                render::print_stdout_line(render::escape_prose_for_display(text.trim_end()));
            }
            Ok(SlashCommandRunOutcome::Action(PostCommandSessionAction::Model(name))) => {
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
                        self.worker
                            .slash_command_set()
                            .set_open_session_model(&selected);
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
    fn run_queued_texts_or_show_prompt(&mut self) {
        if self.leaving.is_some() || self.worker.is_job_running() {
            return;
        }
        let waiting = self.steering.take_queued_texts();
        if !waiting.is_empty() {
            let texts: Vec<String> = waiting.into_iter().map(|input| input.text).collect();
            return self.start_turn_with_text(texts.join("\n\n"));
        }
        self.show_prompt();
        self.leave_chat_if_input_ended();
    }

    /// Shows the prompt, after which the user types the next line.
    fn show_prompt(&self) {
        if self.is_typed && self.leaving.is_none() && !self.worker.is_job_running() {
            write_stderr_immediately("> ");
        }
    }

    fn handle_session_job_result(&mut self, done: Option<ChatOperationResult>) {
        match done {
            Some(ChatOperationResult::Turn(Ok(outcome))) => {
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
                self.run_queued_texts_or_show_prompt();
            }
            // Do not print the error, because the turn has already shown it. The turn's answer is
            // kept in memory.
            Some(ChatOperationResult::Turn(Err(Error::Session(_)))) => {
                self.last = ExitStatus::Failed;
                self.run_queued_texts_or_show_prompt();
            }
            Some(ChatOperationResult::Turn(Err(error))) => {
                render::print_error(&error.into());
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Failed));
            }
            Some(ChatOperationResult::Command(outcome) | ChatOperationResult::Aside(outcome)) => {
                self.handle_slash_command_result(outcome);
                self.run_queued_texts_or_show_prompt();
            }
            Some(ChatOperationResult::Unsent(why)) => {
                render::print_warning(&format!("not sent: {why}"));
                self.last = ExitStatus::Usage;
                self.run_queued_texts_or_show_prompt();
            }
            Some(ChatOperationResult::Closed(_)) | None => {
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Failed))
            }
        }
    }

    fn leave_chat_if_input_ended(&mut self) {
        if self.is_over && !self.worker.is_job_running() {
            let exit = if self.is_typed {
                ExitStatus::Done
            } else {
                self.last
            };
            self.leaving = Some(NextStepAfterChat::Quit(exit));
        }
    }

    fn handle_ctrl_c(&mut self) {
        let is_second = self
            .interrupted
            .is_some_and(|at| at.elapsed() < MAX_CTRL_C_DOUBLE_PRESS_DELAY);
        let is_idle = !self.worker.is_job_running();
        if is_idle && self.is_typed && !is_second {
            // Do not quit at the first Ctrl-C, because it may have been meant for a turn that has
            // just ended.
            write_stderr_immediately("\n");
            render::print_note("Ctrl-C again quits");
            self.interrupted = Some(Instant::now());
            self.show_prompt();
        } else if is_second || !self.worker.interrupt_running_job() {
            self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Interrupted));
        } else {
            self.renderer.show_turn_interrupted();
            self.interrupted = Some(Instant::now());
        }
    }

    /// Asks the person a question line by line, until it is answered or withdrawn or the input
    /// ends. Programs that follow the chat receive events during this time.
    async fn ask_user_a_question(
        &mut self,
        asked: TerminalQuestion,
        programs: &mut TurnInputOutputChannels,
    ) {
        self.renderer.clear_wait_line_and_answer_tail();
        // Send lines that were typed before the question to the model, because they cannot be an
        // answer to it.
        while let Ok(line) = self.lines.try_recv() {
            self.handle_line(&line);
        }
        let mut unseen = Vec::new();
        self.ask_question_buffering_events(asked, programs, &mut unseen)
            .await;
        unseen
            .iter()
            .for_each(|event| self.renderer.show_event(event));
    }

    async fn ask_question_buffering_events(
        &mut self,
        mut asked: TerminalQuestion,
        programs: &mut TurnInputOutputChannels,
        unseen: &mut Vec<Stamped>,
    ) {
        let screen = approve::build_terminal_question_screen(&asked.question);
        let open = buffer_output_during_question();
        let (mut is_whole, mut is_shown, mut is_seen) = (false, false, false);
        let mut is_cut = false;
        let mut opens = Some(tokio::time::Instant::now() + INPUT_SILENCE_BEFORE_ANSWER);
        let answer = loop {
            if !std::mem::replace(&mut is_shown, true) {
                let size = terminal::terminal_size();
                let rows;
                (rows, is_cut) = match is_whole {
                    true => (screen.build_all_rows(size), false),
                    false => screen.fitted_question_rows(size),
                };
                is_seen |= !is_cut;
                for row in rows {
                    write_stderr_immediately(format_args!("{row}\n"));
                }
                if opens.is_none() {
                    write_stderr_immediately(screen.prompt_text(!is_seen));
                }
            }
            tokio::select! {
                biased;
                () = asked.answer.closed() => {
                    drop(open);
                    return render::print_stderr_line("no longer asked");
                }
                _ = self.interrupts.recv() => {
                    drop(open);
                    return self.handle_ctrl_c();
                }
                () = self.ended.wait_for_signal() => {
                    self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Interrupted));
                    break asked.question.fallback_answer("the chat was closed");
                }
                Some(event) = self.events.recv() => {
                    self.telemetry.export_event(&event);
                    programs.forward_event_to_followers(&event);
                    unseen.push(event);
                }
                () = tokio::time::sleep_until(opens.unwrap_or_else(tokio::time::Instant::now)), if opens.is_some() => {
                    // Drop lines that were typed before the question and arrive late because this
                    // process was not scheduled, and wait again.
                    if discard_early_typed_lines(&mut self.lines) {
                        opens = Some(tokio::time::Instant::now() + INPUT_SILENCE_BEFORE_ANSWER);
                        continue;
                    }
                    opens = None;
                    // Also drop a line that is typed but not finished.
                    terminal::discard_typed_input();
                    write_stderr_immediately(screen.prompt_text(!is_seen));
                }
                line = self.lines.recv() => match line {
                    None => break asked.question.fallback_answer(""),
                    Some(line) if opens.is_some() => {
                        report_ignored_typeahead_line(&line);
                        opens = Some(tokio::time::Instant::now() + INPUT_SILENCE_BEFORE_ANSWER);
                    }
                    Some(line) if screen.is_full_view_request(line.trim(), is_cut) => (is_whole, is_shown) = (true, false),
                    Some(line) => match approve::parse_answer(line.trim(), &asked.question) {
                        Some(answer) if is_seen || answer.is_refusal() => break answer,
                        given => {
                            let words = match given {
                                Some(_) => QUESTION_NOT_FULLY_SHOWN_REPLY,
                                None => "invalid answer: type one of the letters in brackets",
                            };
                            write_stderr_immediately(format_args!("{words}\n"));
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
    fn show_event(&mut self, event: &Stamped, programs: &mut TurnInputOutputChannels) {
        if let Event::RequestEnd { cost_usd, .. } = &event.event {
            self.cost_usd += cost_usd.unwrap_or(0.0);
        }
        self.renderer.show_event(event);
        self.telemetry.export_event(event);
        programs.forward_event_to_followers(event);
    }

    async fn leave_chat(
        mut self,
        programs: &mut TurnInputOutputChannels,
    ) -> anyhow::Result<NextStepAfterChat> {
        // Refuse all further questions: dropping the waiting questions and closing the channel
        // refuses them and those that are asked while the session ends.
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        self.worker.interrupt_and_close_session();
        let mut kills = ShutdownSignals::listen_without_hangup()?;
        let closed = loop {
            tokio::select! {
                biased;
                // Exit at once at a second signal, in case closing the session hangs.
                _ = self.interrupts.recv() => std::process::exit(130),
                () = kills.wait_for_signal() => std::process::exit(130),
                Some(event) = self.events.recv() => self.show_event(&event, programs),
                done = self.worker.next_job_result() => match done {
                    Some(ChatOperationResult::Closed(closed)) => break closed,
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
        self.renderer.print_pending_output();
        self.telemetry.flush_and_stop().await;
        for input in self.steering.take_queued_texts() {
            render::print_warning(&format!("not sent: {}", input.text));
        }
        closed?;
        let is_over = matches!(self.leaving, None | Some(NextStepAfterChat::Quit(_)));
        if is_over && self.has_history && self.is_typed {
            render::print_note(&super::farewell_line(&self.id, self.cost_usd));
        }
        Ok(self
            .leaving
            .unwrap_or(NextStepAfterChat::Quit(ExitStatus::Done)))
    }
}
