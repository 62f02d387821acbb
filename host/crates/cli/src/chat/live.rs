//! Runs the chat at a terminal: waits for keys, events and questions, and redraws after each.
//!
//! The effect of a key is drawn at once; output of the model is drawn at most once per
//! [`MIN_SCREEN_REDRAW_INTERVAL`]. `press` maps keys to actions, `waiting` handles texts that are
//! sent while a turn runs, `leave` ends the chat. Start from [`run_live_chat`].

use super::leave;
use super::modes;
use super::slash;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

use super::super::approve::{TerminalAnswer, TerminalQuestion};
use super::super::command::{OpenSessionHandles, SlashCommandSet};
use super::super::environment;
use super::super::exit_code::ExitStatus;
use super::super::looks;
use super::super::open::SessionWithUserQuestionChannels;
use super::super::programs::TurnInputOutputChannels;
use super::super::render::hold::{self, OutputRedirectGuard};
use super::super::render::{
    DIM_STYLE, ERROR_STYLE, format_warning_line, printable_text, style_text,
};
use super::super::signals::ShutdownSignals;
use super::super::telemetry::TraceExporter;
use super::super::terminal::INPUT_SILENCE_BEFORE_ANSWER;
use super::ask::OpenChatQuestion;
use super::complete::CompletionMenu;
use super::diff::FileChangeDiffs;
use super::editor::ChatInputEditor;
use super::history::ChatInputHistory;
use super::keys::TerminalInputEvent;
use super::lookup::ChatBackgroundLookupResult;
use super::modes::wait_for_plan_answer;
use super::notify::{ChatNotifier, UserNotificationReason};
use super::picker::SearchableListPicker;
use super::press::MAX_EMPTY_LINE_DOUBLE_PRESS_DELAY;
use super::recall::ChatInputHistorySearch;
use super::resources::ChatMcpResources;
use super::screen::ChatScreen;
use super::shell::{ChatShellCommandRunner, ShellCommandResult};
use super::status::{ChatStatusLineState, CompactionThreshold};
use super::tty::{self, RawTerminal};
use super::view::ChatScreenView;
use super::waiting::TypedChatInputText;
use super::worker::{ChatOperationResult, ChatSessionTaskHandle};
use rind_lib::agent::{AgentConfig, AgentSteeringHandle, Error};
use rind_lib::event::{Event, Stamped};
use rind_lib::point::payload::StopReason;
use rind_lib::tool::approval::SessionApprovals;
use rind_lib::tool::builtin::CommandConfinementAndEnvironment;
use rind_lib::tool::policy::{ApprovalMode, SharedApprovalMode};
use rind_lib::tool::sandbox::{SandboxConfig, UserCommandConfinement};
use rind_operator::chat::ChatConfig;
use rind_operator::setup::OperatorWorkspaceSetup;

/// Minimum time between two redraws that no key press caused. A piece of an answer then appears
/// within 10 ms, because the timer rounds up to a millisecond and a redraw takes about one.
const MIN_SCREEN_REDRAW_INTERVAL: Duration = Duration::from_millis(5);

/// Interval at which the elapsed seconds of a wait are redrawn.
const ELAPSED_SECONDS_REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of events that are handled before keys, questions and other sources are checked
/// again.
const MAX_EVENTS_PER_BATCH: usize = 256;

/// Maximum number of messages of a resumed session that are shown at the start of the chat.
const MAX_SHOWN_EARLIER_MESSAGES: usize = 12;

pub(super) struct LiveChat {
    pub(super) tty: RawTerminal,
    pub(super) screen: ChatScreen,
    pub(super) view: ChatScreenView,
    pub(super) editor: ChatInputEditor,
    /// Editor in which the person types the answer to the open question.
    pub(super) answer: ChatInputEditor,
    pub(super) history: ChatInputHistory,
    pub(super) worker: ChatSessionTaskHandle,
    pub(super) notifier: ChatNotifier,
    pub(super) steering: AgentSteeringHandle,
    pub(super) approvals: Arc<SessionApprovals>,
    pub(super) question: Option<OpenChatQuestion>,
    pub(super) last_key: Instant,
    /// Time at which the last question to the person was closed.
    pub(super) closed: Option<Instant>,
    /// Texts of the user that wait in the queue of the running turn, by their numbers in that
    /// queue.
    pub(super) waiting: HashMap<u64, TypedChatInputText>,
    /// Time at which a key last interrupted a turn or a command, or Ctrl-C cleared the text.
    pub(super) interrupted: Option<Instant>,
    /// Whether the last Ctrl-C cleared a text that was not stored in the history.
    pub(super) is_dropped: bool,
    /// Time at which Ctrl-C was last pressed on an empty line. A second Ctrl-C soon after it quits.
    pub(super) quitting: Option<Instant>,
    pub(super) menu: CompletionMenu,
    /// List of models, sessions or tool calls that is open; `None` if no list is open.
    pub(super) picker: Option<SearchableListPicker>,
    /// Search in the history of inputs; `None` if no search is open.
    pub(super) search: Option<ChatInputHistorySearch>,
    pub(super) shell: ChatShellCommandRunner,
    /// Temporary files with images from the clipboard, which are removed when the chat ends.
    pub(super) pasted: Vec<tempfile::NamedTempFile>,
    /// Files of the workspace, which are listed again when `looked` is too old.
    pub(super) files: Vec<String>,
    pub(super) looked: Option<Instant>,
    /// Resources of MCP servers that a typed text can name.
    pub(super) resources: ChatMcpResources,
    /// Whether the provider's server was asked which models it has.
    pub(super) has_asked_models: bool,
    /// Name of the model that the person chose in this chat, as typed.
    pub(super) chosen_model: Option<String>,
    /// Name of the chosen model as long as it was not compared with the server's list of models;
    /// `None` afterwards.
    pub(super) unchecked_model: Option<String>,
    found: UnboundedReceiver<ChatBackgroundLookupResult>,
    pub(super) finder: UnboundedSender<ChatBackgroundLookupResult>,
    /// Approval mode of the session, which keys and commands can switch.
    pub(super) switch: SharedApprovalMode,
    /// Whether Shift-Tab also reaches the mode `full`, in which nothing is asked.
    pub(super) has_full_mode: bool,
    /// Whether the last turn began in plan mode.
    is_planning: bool,
    /// Receiver of the answer to the question whether to carry out a plan; `None` if the question
    /// is not open.
    pub(super) plan: Option<oneshot::Receiver<TerminalAnswer>>,
    /// Id of the chat's session.
    pub(super) id: Arc<str>,
    /// Whether the session had turns before this chat.
    pub(super) is_resumed: bool,
    /// Requested way to leave the chat; the chat ends once this is set.
    pub(super) leaving: Option<NextStepAfterChat>,
    pub(super) setup: OperatorWorkspaceSetup,
    pub(super) asked: VecDeque<TerminalQuestion>,
    pub(super) events: UnboundedReceiver<Stamped>,
    pub(super) questions: UnboundedReceiver<TerminalQuestion>,
    /// Text that other parts of the program print during the chat.
    pub(super) written: UnboundedReceiver<String>,
    pub(super) redirected: Option<OutputRedirectGuard>,
    /// Exporter of the session's traces, which are sent when the chat ends.
    pub(super) telemetry: Option<TraceExporter>,
    /// Programs that receive the events of the session.
    pub(super) programs: TurnInputOutputChannels,
    pub(super) signals: ChatOsSignalReceivers,
    pub(super) last_draw: Instant,
    pub(super) is_dirty: bool,
}

pub(super) struct ChatOsSignalReceivers {
    resized: Signal,
    /// SIGINT of a Ctrl-C that is pressed while another program uses the terminal. In raw mode,
    /// Ctrl-C is a key and sends no signal.
    pub(super) interrupted: Signal,
    /// Signals that end the chat: from `kill`, from `Ctrl-\`, or because the terminal was closed.
    pub(super) ended: ShutdownSignals,
}

/// Next step of the program after a chat has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextStepAfterChat {
    Quit(ExitStatus),
    /// Continue another session, by its full id.
    Resume(String),
    /// Begin a new session, with this model if there is one.
    New(Option<String>),
    /// Continue the session with this id, after settings, plugins and skills were read again.
    Reload(String),
}

/// Event for which the loop of the chat waits.
enum ChatWakeupEvent {
    Typed(Option<Vec<TerminalInputEvent>>),
    Event(Box<Stamped>),
    Asked(TerminalQuestion),
    Withdrawn,
    Written(String),
    Done(Option<ChatOperationResult>),
    Ran(ShellCommandResult),
    Found(ChatBackgroundLookupResult),
    Planned(Option<TerminalAnswer>),
    Resized,
    /// The time in which a second Ctrl-C would quit is over, so the hint about it must be removed.
    Faded,
    Ended,
    /// A redraw is due: the content of the screen has changed, an elapsed time must be updated, or
    /// a question can now be shown or answered.
    Draw,
}

pub(super) async fn run_live_chat(
    opened: SessionWithUserQuestionChannels,
    commands: Arc<SlashCommandSet>,
    prompt: Option<String>,
    programs: &mut TurnInputOutputChannels,
) -> anyhow::Result<NextStepAfterChat> {
    let interrupted = super::interrupted_turn_notice(&opened.session, prompt.is_some(), "Esc");
    let mut live = LiveChat::open_chat(opened, commands)?;
    std::mem::swap(&mut live.programs, programs);
    if let Some(note) = interrupted {
        live.view
            .add_finished_output_line(format_warning_line(&note.text));
        if note.continues {
            live.worker.continue_turn();
        }
    }
    if let Some(prompt) = prompt {
        live.editor.set_text(&prompt);
        live.submit_line();
    }
    let ran = live.run_event_loop().await;
    // Leave the chat even after an error of the terminal, because the session must be closed in
    // order.
    let left = leave::restore_terminal_and_end_session(&mut live).await;
    std::mem::swap(&mut live.programs, programs);
    ran.and(left)
}

impl LiveChat {
    async fn run_event_loop(&mut self) -> anyhow::Result<()> {
        self.draw_screen()?;
        while self.leaving.is_none() {
            let next = self.next_wakeup().await;
            self.handle_wakeup_event(next)?;
        }
        Ok(())
    }

    fn open_chat(
        opened: SessionWithUserQuestionChannels,
        commands: Arc<SlashCommandSet>,
    ) -> anyhow::Result<Self> {
        let agent: AgentConfig = opened.setup.config.section()?;
        let sandbox: SandboxConfig = opened.setup.config.section()?;
        let own_commands = match sandbox.own_commands {
            UserCommandConfinement::Confined => opened.commands,
            UserCommandConfinement::Shell => {
                let keeper = opened.setup.environment.process_reaper_path();
                CommandConfinementAndEnvironment::for_user_shell(
                    keeper,
                    environment::environment_variable("SHELL").map(Into::into),
                )
            }
        };
        let session = opened.session;
        commands.set_question_asker(opened.asker);
        let facts = OpenSessionHandles::from_session(&session);
        let spent = facts.cost_usd();
        commands.set_open_session(facts);
        let history = ChatInputHistory::read_history_file(&opened.setup.paths.data);
        let signals = ChatOsSignalReceivers {
            resized: signal(SignalKind::window_change())?,
            interrupted: signal(SignalKind::interrupt())?,
            ended: ShutdownSignals::listen_without_ctrl_c()?,
        };
        drop(opened.exits);
        let asks_looks = looks::configure_colors_and_links(&opened.setup.config)?;
        let tty = RawTerminal::open_terminal(asks_looks).context("cannot take the terminal")?;
        install_terminal_restoring_panic_hook(&tty);
        if let Some(is_light) = tty.has_light_background() {
            looks::set_code_palette_for_background(is_light);
        }
        let (written, receiver) = mpsc::unbounded_channel();
        let (finder, found) = mpsc::unbounded_channel();
        let size = tty::terminal_size();
        let has_color = environment::environment_variable("NO_COLOR").is_none();
        let diffs = FileChangeDiffs::default();
        let (observed, workspace) = (diffs.clone(), opened.setup.paths.workspace.clone());
        session.observe(move |event| observed.record_file_change_from_event(&workspace, event));
        let window = CompactionThreshold::new(session.provider().clone(), agent.compact);
        let mut view = ChatScreenView::new(
            size.columns,
            ChatStatusLineState::new(session.model().1, window)
                .with_approval_mode(opened.switch.clone(), opened.is_dry_run)
                .with_background_commands(session.background_commands()),
            diffs,
            session.live_outputs(),
        );
        view.status.cost_usd = spent;
        let (_, model) = session.model();
        let dry_run = if opened.is_dry_run { " · dry run" } else { "" };
        let mode = format!("{}{dry_run}", opened.switch.mode());
        let words = format!("{model} · mode {mode} (Shift-Tab) · /help lists commands and keys");
        view.add_finished_output_line(style_text(DIM_STYLE, printable_text(&words)));
        let earlier = session.last_messages(MAX_SHOWN_EARLIER_MESSAGES + 1);
        let first = earlier.len().saturating_sub(MAX_SHOWN_EARLIER_MESSAGES);
        if first > 0 {
            view.add_finished_output_line(style_text(DIM_STYLE, "… older messages are not shown"));
        }
        view.show_earlier_messages(earlier.get(first..).unwrap_or_default());
        let now = Instant::now();
        Ok(Self {
            screen: ChatScreen::new(size, has_color),
            view,
            editor: ChatInputEditor::default(),
            answer: ChatInputEditor::default(),
            history,
            notifier: ChatNotifier::new(opened.setup.config.section::<ChatConfig>()?.notify),
            steering: session.steering(),
            approvals: session.approvals(),
            question: None,
            last_key: now - INPUT_SILENCE_BEFORE_ANSWER,
            closed: None,
            waiting: HashMap::new(),
            interrupted: None,
            is_dropped: false,
            quitting: None,
            picker: None,
            search: None,
            has_asked_models: false,
            chosen_model: None,
            unchecked_model: None,
            has_full_mode: opened.switch.mode() == ApprovalMode::Full,
            switch: opened.switch,
            is_planning: false,
            plan: None,
            id: session.id().clone(),
            is_resumed: session.turn_number() > 0,
            menu: CompletionMenu::default(),
            shell: ChatShellCommandRunner::new(&opened.setup.paths.workspace, own_commands),
            pasted: Vec::new(),
            files: Vec::new(),
            looked: None,
            resources: ChatMcpResources::new(session.materials()),
            found,
            finder,
            leaving: None,
            setup: opened.setup,
            asked: VecDeque::new(),
            events: session.events(),
            questions: opened.questions,
            written: receiver,
            redirected: Some(hold::redirect_output_to_chat(written)),
            telemetry: Some(TraceExporter::from_env()),
            programs: TurnInputOutputChannels::default(),
            worker: ChatSessionTaskHandle::new(session, commands),
            signals,
            last_draw: now,
            is_dirty: true,
            tty,
        })
    }

    async fn next_wakeup(&mut self) -> ChatWakeupEvent {
        let frame = self.last_draw + MIN_SCREEN_REDRAW_INTERVAL;
        let quiet = self.last_key + INPUT_SILENCE_BEFORE_ANSWER;
        let is_quiet_due = self.question.is_none() && !self.asked.is_empty();
        let opens = self
            .question
            .as_ref()
            .and_then(OpenChatQuestion::next_redraw_time);
        let fades = self
            .quitting
            .map(|at| at + MAX_EMPTY_LINE_DOUBLE_PRESS_DELAY);
        let mut tick = tokio::time::interval_at(
            Instant::now() + ELAPSED_SECONDS_REDRAW_INTERVAL,
            ELAPSED_SECONDS_REDRAW_INTERVAL,
        );
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::select! {
            biased;
            typed = self.tty.wait_for_key_inputs() => ChatWakeupEvent::Typed(typed),
            _ = self.signals.resized.recv() => ChatWakeupEvent::Resized,
            _ = self.signals.interrupted.recv() => ChatWakeupEvent::Draw,
            () = self.signals.ended.wait_for_signal() => ChatWakeupEvent::Ended,
            () = tokio::time::sleep_until(frame), if self.is_dirty => ChatWakeupEvent::Draw,
            // Receive events before questions, so that a question is shown after the events that
            // led to it.
            Some(event) = self.events.recv() => ChatWakeupEvent::Event(Box::new(event)),
            Some(text) = self.written.recv() => ChatWakeupEvent::Written(text),
            done = self.worker.next_job_result() => ChatWakeupEvent::Done(done),
            ran = self.shell.wait_for_command_result() => ChatWakeupEvent::Ran(ran),
            Some(files) = self.found.recv() => ChatWakeupEvent::Found(files),
            answer = wait_for_plan_answer(&mut self.plan) => ChatWakeupEvent::Planned(answer),
            Some(asked) = self.questions.recv() => ChatWakeupEvent::Asked(asked),
            () = wait_until_question_withdrawn(&mut self.question) => ChatWakeupEvent::Withdrawn,
            () = tokio::time::sleep_until(quiet), if is_quiet_due => ChatWakeupEvent::Draw,
            () = sleep_until_or_forever(opens) => ChatWakeupEvent::Draw,
            () = sleep_until_or_forever(fades) => ChatWakeupEvent::Faded,
            _ = tick.tick(), if self.shows_elapsed_time() => ChatWakeupEvent::Draw,
        }
    }

    /// Whether the screen shows an elapsed time that must be redrawn.
    fn shows_elapsed_time(&self) -> bool {
        self.worker.is_job_running()
            || self.shell.running_command().is_some()
            || self.view.status.has_elapsed_time()
    }

    fn handle_wakeup_event(&mut self, next: ChatWakeupEvent) -> anyhow::Result<()> {
        match next {
            ChatWakeupEvent::Typed(Some(inputs)) => {
                inputs
                    .into_iter()
                    .for_each(|input| self.handle_key_input(input));
                self.open_next_question_if_idle();
                return self.draw_screen();
            }
            ChatWakeupEvent::Typed(None) | ChatWakeupEvent::Ended => {
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Interrupted))
            }
            ChatWakeupEvent::Event(event) => {
                self.handle_turn_event(&event);
                for _ in 0..MAX_EVENTS_PER_BATCH {
                    let Ok(event) = self.events.try_recv() else {
                        break;
                    };
                    self.handle_turn_event(&event);
                }
            }
            ChatWakeupEvent::Asked(asked) => {
                self.asked.push_back(asked);
                self.notifier.notify(UserNotificationReason::Asked);
            }
            ChatWakeupEvent::Withdrawn => {
                let size = self.screen.size();
                let head = self
                    .question
                    .as_ref()
                    .map(|open| open.question_headline_row(size));
                self.close_question();
                self.view.add_finished_output_line(head.unwrap_or_default());
                self.view
                    .add_finished_output_line(style_text(DIM_STYLE, "  no longer asked"));
            }
            ChatWakeupEvent::Written(text) => self.show_text_lines(&text),
            ChatWakeupEvent::Done(done) => self.handle_job_result_and_notify_user(done),
            ChatWakeupEvent::Ran(ran) => {
                self.view
                    .show_shell_result(&ran.command, &ran.output, ran.is_error)
            }
            ChatWakeupEvent::Found(found) => self.handle_background_lookup_result(found),
            ChatWakeupEvent::Planned(answer) => modes::carry_out_plan_if_approved(self, answer),
            ChatWakeupEvent::Faded => self.quitting = None,
            ChatWakeupEvent::Resized => {
                let size = tty::terminal_size();
                self.screen.set_terminal_size(size);
                self.view.set_view_width(size.columns);
                return self.draw_screen();
            }
            ChatWakeupEvent::Draw => {
                self.open_next_question_if_idle();
                return self.draw_screen();
            }
        }
        self.open_next_question_if_idle();
        self.is_dirty = true;
        Ok(())
    }

    /// Shows a text that another part of the program wrote.
    pub(super) fn show_text_lines(&mut self, text: &str) {
        let text = text.trim_end_matches('\n');
        text.split('\n')
            .for_each(|line| self.view.add_finished_output_line(line));
    }

    pub(super) fn handle_turn_event(&mut self, event: &Stamped) {
        if matches!(event.event, Event::TurnStart { .. }) && event.is_from_main_agent() {
            self.is_planning = self.switch.mode() == ApprovalMode::Plan;
        }
        self.view.handle_event(event);
        self.programs.forward_event_to_followers(event);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.export_event(event);
        }
    }

    /// Opens the next question, unless the person is in the middle of typing.
    fn open_next_question_if_idle(&mut self) {
        if self.question.is_none() && self.last_key.elapsed() >= INPUT_SILENCE_BEFORE_ANSWER {
            while let Some(asked) = self.asked.pop_front() {
                if !asked.answer.is_closed() {
                    self.question = Some(OpenChatQuestion::new(asked));
                    return;
                }
            }
        }
    }

    fn handle_job_result_and_notify_user(&mut self, done: Option<ChatOperationResult>) {
        let is_turn = matches!(done, Some(ChatOperationResult::Turn(_)));
        self.handle_session_job_result(done);
        if is_turn && !self.worker.is_job_running() {
            self.notifier.notify(UserNotificationReason::TurnEnded);
        }
    }

    fn handle_session_job_result(&mut self, done: Option<ChatOperationResult>) {
        match done {
            Some(ChatOperationResult::Unsent(why)) => self.return_unsent_text_to_editor(&why),
            Some(ChatOperationResult::Turn(Ok(outcome))) => {
                self.resources.unsent = None;
                self.resources.clear_resource_lists();
                self.handle_turn_ended(&outcome);
                let is_planned = self.is_planning && self.switch.mode() == ApprovalMode::Plan;
                if is_planned
                    && outcome.summary.stop == StopReason::Done
                    && !self.worker.is_job_running()
                {
                    modes::ask_whether_to_carry_out_plan(self);
                }
            }
            // Do not print the error, because the turn has already shown it. The turn's answer is
            // kept in memory.
            Some(ChatOperationResult::Turn(Err(Error::Session(_)))) => {
                let words = "the text may be missing in the session; Up brings it back";
                self.view
                    .add_finished_output_line(format_warning_line(words));
                self.return_waiting_texts_to_editor();
            }
            Some(ChatOperationResult::Turn(Err(error))) => {
                self.return_waiting_texts_to_editor();
                self.view.add_finished_output_line(style_text(
                    ERROR_STYLE,
                    format_args!("the turn failed: {}", printable_text(&error.to_string())),
                ));
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Failed));
            }
            Some(ChatOperationResult::Command(outcome)) => {
                slash::apply_slash_command_result(self, outcome);
                // Send the texts to the model that the person entered while the command ran.
                self.send_waiting_texts();
            }
            Some(ChatOperationResult::Aside(outcome)) => {
                slash::apply_slash_command_result(self, outcome)
            }
            Some(ChatOperationResult::Closed(_)) => {}
            None => {
                self.view.add_finished_output_line(style_text(
                    ERROR_STYLE,
                    "the session ended unexpectedly",
                ));
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Failed));
            }
        }
    }
}

/// Waits until the open question is withdrawn. Without an open question, never returns.
pub(super) async fn wait_until_question_withdrawn(question: &mut Option<OpenChatQuestion>) {
    match question {
        Some(question) => question.wait_until_withdrawn().await,
        None => std::future::pending().await,
    }
}

/// Sleeps until `time`. Never returns if `time` is `None`.
pub(super) async fn sleep_until_or_forever(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Installs a panic hook that restores the terminal before it reports a panic of this thread. For a
/// panic of another thread, the hook does not restore the terminal, because the chat continues.
pub(super) fn install_terminal_restoring_panic_hook(tty: &RawTerminal) {
    let here = std::thread::current().id();
    let restore = tty.terminal_restoring_function();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == here {
            restore();
            before(panic);
        } else {
            hold::write_or_buffer_output(format_args!("a part of the program failed: {panic}\n"));
        }
    }));
}
