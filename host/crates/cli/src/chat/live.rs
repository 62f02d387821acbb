//! Runs the chat at a terminal: waits for keys, events and questions, and redraws after each.
//!
//! The effect of a key is drawn at once; output of the model is drawn at most once per
//! [`MIN_REDRAW_INTERVAL`]. `press` maps keys to actions, `waiting` handles texts that are sent
//! while a turn runs, `leave` ends the chat. Start from [`run_live_chat`].

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
use super::super::command::{CommandSet, OpenSessionFacts};
use super::super::environment;
use super::super::exit_code::ExitStatus;
use super::super::looks;
use super::super::open::OpenedSession;
use super::super::programs::TurnFollowers;
use super::super::render::hold::{self, OutputRedirectGuard};
use super::super::render::{BAD, DIM, printable_text, style_text, warning_text};
use super::super::signals::ShutdownSignals;
use super::super::telemetry::Telemetry;
use super::super::terminal::QUIET;
use super::ask::OpenQuestion;
use super::complete::CompletionMenu;
use super::diff::FileChangeDiffs;
use super::editor::LineEditor;
use super::history::ChatHistory;
use super::keys::KeyInput;
use super::lookup::ChatLookupResult;
use super::modes::wait_for_plan_answer;
use super::notify::{ChatNotifier, NotifyReason};
use super::picker::ChatPicker;
use super::press::MAX_QUIT_PRESS;
use super::recall::HistorySearch;
use super::resources::ChatResources;
use super::screen::ChatScreen;
use super::shell::{ChatShell, ShellResult};
use super::status::{ChatStatus, CompactionThreshold};
use super::tty::{self, RawTerminal};
use super::view::ChatView;
use super::waiting::TypedText;
use super::worker::{ChatJobResult, ChatWorker};
use rind_lib::agent::{AgentConfig, Error, SteerHandle};
use rind_lib::event::{Event, Stamped};
use rind_lib::point::payload::StopReason;
use rind_lib::tool::approval::SessionApprovals;
use rind_lib::tool::builtin::CommandEnvironment;
use rind_lib::tool::policy::{ApprovalMode, ModeSwitch};
use rind_lib::tool::sandbox::{SandboxConfig, UserCommandConfinement};
use rind_operator::chat::ChatConfig;
use rind_operator::setup::OperatorSetup;

/// Minimum time between two redraws that no key press caused. A piece of an answer then appears
/// within 10 ms, because the timer rounds up to a millisecond and a redraw takes about one.
const MIN_REDRAW_INTERVAL: Duration = Duration::from_millis(5);

/// Interval at which the elapsed seconds of a wait are redrawn.
const CLOCK_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of events that are handled before keys, questions and other sources are checked
/// again.
const MAX_EVENTS: usize = 256;

/// Maximum number of messages of a resumed session that are shown at the start of the chat.
const MAX_EARLIER_MESSAGES: usize = 12;

pub(super) struct LiveChat {
    pub(super) tty: RawTerminal,
    pub(super) screen: ChatScreen,
    pub(super) view: ChatView,
    pub(super) editor: LineEditor,
    /// Editor in which the person types the answer to the open question.
    pub(super) answer: LineEditor,
    pub(super) history: ChatHistory,
    pub(super) worker: ChatWorker,
    pub(super) notifier: ChatNotifier,
    pub(super) steering: SteerHandle,
    pub(super) approvals: Arc<SessionApprovals>,
    pub(super) question: Option<OpenQuestion>,
    pub(super) last_key: Instant,
    /// Time at which the last question to the person was closed.
    pub(super) closed: Option<Instant>,
    /// Texts of the user that wait in the queue of the running turn, by their numbers in that
    /// queue.
    pub(super) waiting: HashMap<u64, TypedText>,
    /// Time at which a key last interrupted a turn or a command, or Ctrl-C cleared the text.
    pub(super) interrupted: Option<Instant>,
    /// Whether the last Ctrl-C cleared a text that was not stored in the history.
    pub(super) is_dropped: bool,
    /// Time at which Ctrl-C was last pressed on an empty line. A second Ctrl-C soon after it quits.
    pub(super) quitting: Option<Instant>,
    pub(super) menu: CompletionMenu,
    /// The open list of models, sessions or tool calls.
    pub(super) picker: Option<ChatPicker>,
    /// The open search of the history.
    pub(super) search: Option<HistorySearch>,
    pub(super) shell: ChatShell,
    /// Temporary files with images from the clipboard, which are removed when the chat ends.
    pub(super) pasted: Vec<tempfile::NamedTempFile>,
    /// Files of the workspace, which are listed again when `looked` is too old.
    pub(super) files: Vec<String>,
    pub(super) looked: Option<Instant>,
    /// Resources of MCP servers that a typed text can name.
    pub(super) resources: ChatResources,
    /// Whether the provider's server was asked which models it has.
    pub(super) has_asked_models: bool,
    /// Name of the model that the person chose in this chat, as typed.
    pub(super) chosen_model: Option<String>,
    /// Name of the chosen model as long as it was not compared with the server's list of models;
    /// `None` afterwards.
    pub(super) unchecked_model: Option<String>,
    found: UnboundedReceiver<ChatLookupResult>,
    pub(super) finder: UnboundedSender<ChatLookupResult>,
    /// Switch for the approval mode.
    pub(super) switch: ModeSwitch,
    /// Whether Shift-Tab also reaches the mode `full`, in which nothing is asked.
    pub(super) has_full_mode: bool,
    /// Whether the last turn began in plan mode.
    is_planning: bool,
    /// Receiver of the answer to the question whether to carry out a plan; `None` if the question
    /// is not open.
    pub(super) plan: Option<oneshot::Receiver<TerminalAnswer>>,
    /// Id of the session.
    pub(super) id: Arc<str>,
    /// Whether the session had turns before this chat.
    pub(super) is_resumed: bool,
    /// Requested way to leave the chat; the chat ends once this is set.
    pub(super) leaving: Option<ChatExit>,
    pub(super) setup: OperatorSetup,
    pub(super) asked: VecDeque<TerminalQuestion>,
    pub(super) events: UnboundedReceiver<Stamped>,
    pub(super) questions: UnboundedReceiver<TerminalQuestion>,
    /// Text that other parts of the program print during the chat.
    pub(super) written: UnboundedReceiver<String>,
    pub(super) redirected: Option<OutputRedirectGuard>,
    /// Telemetry of the session, sent at the end.
    pub(super) telemetry: Option<Telemetry>,
    /// Programs that receive the events of the session.
    pub(super) programs: TurnFollowers,
    pub(super) signals: ChatSignals,
    pub(super) last_draw: Instant,
    pub(super) is_dirty: bool,
}

pub(super) struct ChatSignals {
    resized: Signal,
    /// SIGINT of a Ctrl-C that is pressed while another program uses the terminal. In raw mode,
    /// Ctrl-C is a key and sends no signal.
    pub(super) interrupted: Signal,
    /// Signals that end the chat: from `kill`, from `Ctrl-\`, or because the terminal was closed.
    pub(super) ended: ShutdownSignals,
}

/// Next step after a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatExit {
    Quit(ExitStatus),
    /// Continue another session, by its full id.
    Resume(String),
    /// Begin a new session, with this model if there is one.
    New(Option<String>),
    /// Continue the session with this id, after settings, plugins and skills were read again.
    Reload(String),
}

/// Event that wakes the chat loop.
enum ChatWakeup {
    Typed(Option<Vec<KeyInput>>),
    Event(Box<Stamped>),
    Asked(TerminalQuestion),
    Withdrawn,
    Written(String),
    Done(Option<ChatJobResult>),
    Ran(ShellResult),
    Found(ChatLookupResult),
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
    opened: OpenedSession,
    commands: Arc<CommandSet>,
    prompt: Option<String>,
    programs: &mut TurnFollowers,
) -> anyhow::Result<ChatExit> {
    let interrupted = super::interrupted_turn_notice(&opened.session, prompt.is_some(), "Esc");
    let mut live = LiveChat::open_chat(opened, commands)?;
    std::mem::swap(&mut live.programs, programs);
    if let Some(note) = interrupted {
        live.view.say_line(warning_text(&note.text));
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
    let left = leave::leave_chat(&mut live).await;
    std::mem::swap(&mut live.programs, programs);
    ran.and(left)
}

impl LiveChat {
    async fn run_event_loop(&mut self) -> anyhow::Result<()> {
        self.draw_screen()?;
        while self.leaving.is_none() {
            let next = self.next().await;
            self.handle_chat_wakeup(next)?;
        }
        Ok(())
    }

    fn open_chat(opened: OpenedSession, commands: Arc<CommandSet>) -> anyhow::Result<Self> {
        let agent: AgentConfig = opened.setup.config.section()?;
        let sandbox: SandboxConfig = opened.setup.config.section()?;
        let own_commands = match sandbox.own_commands {
            UserCommandConfinement::Confined => opened.commands,
            UserCommandConfinement::Shell => {
                let keeper = opened.setup.environment.process_keeper();
                CommandEnvironment::for_user_shell(
                    keeper,
                    environment::variable("SHELL").map(Into::into),
                )
            }
        };
        let session = opened.session;
        commands.set_question_asker(opened.asker);
        let facts = OpenSessionFacts::from_session(&session);
        let spent = facts.cost_usd();
        commands.set_open_session(facts);
        let history = ChatHistory::open_history(&opened.setup.paths.data);
        let signals = ChatSignals {
            resized: signal(SignalKind::window_change())?,
            interrupted: signal(SignalKind::interrupt())?,
            ended: ShutdownSignals::listen_without_ctrl_c()?,
        };
        drop(opened.exits);
        let asks_looks = looks::configure_terminal_style(&opened.setup.config)?;
        let tty = RawTerminal::open_terminal(asks_looks).context("take the terminal")?;
        restore_terminal_on_panic(&tty);
        if let Some(is_light) = tty.has_light_background() {
            looks::set_background_palette(is_light);
        }
        let (written, receiver) = mpsc::unbounded_channel();
        let (finder, found) = mpsc::unbounded_channel();
        let size = tty::terminal_size();
        let has_color = environment::variable("NO_COLOR").is_none();
        let diffs = FileChangeDiffs::default();
        let (observed, workspace) = (diffs.clone(), opened.setup.paths.workspace.clone());
        session.observe(move |event| observed.observe_event(&workspace, event));
        let window = CompactionThreshold::new(session.provider().clone(), agent.compact);
        let mut view = ChatView::new(
            size.columns,
            ChatStatus::new(session.model().1, window)
                .with_mode(opened.switch.clone(), opened.is_dry_run)
                .with_background(session.background_commands()),
            diffs,
            session.live_outputs(),
        );
        view.status.cost_usd = spent;
        let (_, model) = session.model();
        let dry_run = if opened.is_dry_run { " · dry run" } else { "" };
        let mode = format!("{}{dry_run}", opened.switch.mode());
        let words = format!("{model} · mode {mode} (Shift-Tab) · /help lists commands and keys");
        view.say_line(style_text(DIM, printable_text(&words)));
        let earlier = session.last_messages(MAX_EARLIER_MESSAGES + 1);
        let first = earlier.len().saturating_sub(MAX_EARLIER_MESSAGES);
        if first > 0 {
            view.say_line(style_text(DIM, "… older messages are not shown"));
        }
        view.show_earlier_messages(earlier.get(first..).unwrap_or_default());
        let now = Instant::now();
        Ok(Self {
            screen: ChatScreen::new(size, has_color),
            view,
            editor: LineEditor::default(),
            answer: LineEditor::default(),
            history,
            notifier: ChatNotifier::new(opened.setup.config.section::<ChatConfig>()?.notify),
            steering: session.steering(),
            approvals: session.approvals(),
            question: None,
            last_key: now - QUIET,
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
            shell: ChatShell::new(&opened.setup.paths.workspace, own_commands),
            pasted: Vec::new(),
            files: Vec::new(),
            looked: None,
            resources: ChatResources::new(session.materials()),
            found,
            finder,
            leaving: None,
            setup: opened.setup,
            asked: VecDeque::new(),
            events: session.events(),
            questions: opened.questions,
            written: receiver,
            redirected: Some(hold::redirect_output(written)),
            telemetry: Some(Telemetry::from_env()),
            programs: TurnFollowers::default(),
            worker: ChatWorker::new(session, commands),
            signals,
            last_draw: now,
            is_dirty: true,
            tty,
        })
    }

    async fn next(&mut self) -> ChatWakeup {
        let frame = self.last_draw + MIN_REDRAW_INTERVAL;
        let quiet = self.last_key + QUIET;
        let is_quiet_due = self.question.is_none() && !self.asked.is_empty();
        let opens = self
            .question
            .as_ref()
            .and_then(OpenQuestion::next_redraw_time);
        let fades = self.quitting.map(|at| at + MAX_QUIT_PRESS);
        let mut tick = tokio::time::interval_at(Instant::now() + CLOCK_INTERVAL, CLOCK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::select! {
            biased;
            typed = self.tty.wait_for_key_inputs() => ChatWakeup::Typed(typed),
            _ = self.signals.resized.recv() => ChatWakeup::Resized,
            _ = self.signals.interrupted.recv() => ChatWakeup::Draw,
            () = self.signals.ended.wait_for_signal() => ChatWakeup::Ended,
            () = tokio::time::sleep_until(frame), if self.is_dirty => ChatWakeup::Draw,
            // Receive events before questions, so that a question is shown after the events that
            // led to it.
            Some(event) = self.events.recv() => ChatWakeup::Event(Box::new(event)),
            Some(text) = self.written.recv() => ChatWakeup::Written(text),
            done = self.worker.next_job_result() => ChatWakeup::Done(done),
            ran = self.shell.wait_until_shell_ended() => ChatWakeup::Ran(ran),
            Some(files) = self.found.recv() => ChatWakeup::Found(files),
            answer = wait_for_plan_answer(&mut self.plan) => ChatWakeup::Planned(answer),
            Some(asked) = self.questions.recv() => ChatWakeup::Asked(asked),
            () = wait_until_question_withdrawn(&mut self.question) => ChatWakeup::Withdrawn,
            () = tokio::time::sleep_until(quiet), if is_quiet_due => ChatWakeup::Draw,
            () = sleep_until(opens) => ChatWakeup::Draw,
            () = sleep_until(fades) => ChatWakeup::Faded,
            _ = tick.tick(), if self.shows_elapsed_time() => ChatWakeup::Draw,
        }
    }

    /// Whether the screen shows an elapsed time that must be redrawn.
    fn shows_elapsed_time(&self) -> bool {
        self.worker.is_running()
            || self.shell.running_command().is_some()
            || self.view.status.shows_elapsed_time()
    }

    fn handle_chat_wakeup(&mut self, next: ChatWakeup) -> anyhow::Result<()> {
        match next {
            ChatWakeup::Typed(Some(inputs)) => {
                inputs.into_iter().for_each(|input| self.press_key(input));
                self.open_question();
                return self.draw_screen();
            }
            ChatWakeup::Typed(None) | ChatWakeup::Ended => {
                self.leaving = Some(ChatExit::Quit(ExitStatus::Interrupted))
            }
            ChatWakeup::Event(event) => {
                self.handle_event(&event);
                for _ in 0..MAX_EVENTS {
                    let Ok(event) = self.events.try_recv() else {
                        break;
                    };
                    self.handle_event(&event);
                }
            }
            ChatWakeup::Asked(asked) => {
                self.asked.push_back(asked);
                self.notifier.notify(NotifyReason::Asked);
            }
            ChatWakeup::Withdrawn => {
                let size = self.screen.size();
                let head = self
                    .question
                    .as_ref()
                    .map(|open| open.first_question_row(size));
                self.close_question();
                self.view.say_line(head.unwrap_or_default());
                self.view.say_line(style_text(DIM, "  no longer asked"));
            }
            ChatWakeup::Written(text) => self.show_text_lines(&text),
            ChatWakeup::Done(done) => self.finish_job(done),
            ChatWakeup::Ran(ran) => {
                self.view
                    .show_shell_result(&ran.command, &ran.output, ran.is_error)
            }
            ChatWakeup::Found(found) => self.handle_lookup_result(found),
            ChatWakeup::Planned(answer) => modes::handle_plan_answer(self, answer),
            ChatWakeup::Faded => self.quitting = None,
            ChatWakeup::Resized => {
                let size = tty::terminal_size();
                self.screen.resize_screen(size);
                self.view.set_view_width(size.columns);
                return self.draw_screen();
            }
            ChatWakeup::Draw => {
                self.open_question();
                return self.draw_screen();
            }
        }
        self.open_question();
        self.is_dirty = true;
        Ok(())
    }

    /// Shows a text that another part of the program wrote.
    pub(super) fn show_text_lines(&mut self, text: &str) {
        let text = text.trim_end_matches('\n');
        text.split('\n').for_each(|line| self.view.say_line(line));
    }

    pub(super) fn handle_event(&mut self, event: &Stamped) {
        if matches!(event.event, Event::TurnStart { .. }) && event.is_main() {
            self.is_planning = self.switch.mode() == ApprovalMode::Plan;
        }
        self.view.handle_event(event);
        self.programs.handle_event(event);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.handle_event(event);
        }
    }

    /// Opens the next question, unless the person is in the middle of typing.
    fn open_question(&mut self) {
        if self.question.is_none() && self.last_key.elapsed() >= QUIET {
            while let Some(asked) = self.asked.pop_front() {
                if !asked.answer.is_closed() {
                    self.question = Some(OpenQuestion::new(asked));
                    return;
                }
            }
        }
    }

    fn finish_job(&mut self, done: Option<ChatJobResult>) {
        let is_turn = matches!(done, Some(ChatJobResult::Turn(_)));
        self.handle_job_done(done);
        if is_turn && !self.worker.is_running() {
            self.notifier.notify(NotifyReason::TurnEnded);
        }
    }

    fn handle_job_done(&mut self, done: Option<ChatJobResult>) {
        match done {
            Some(ChatJobResult::Unsent(why)) => self.withdraw_unsent_text(&why),
            Some(ChatJobResult::Turn(Ok(outcome))) => {
                self.resources.unsent = None;
                self.resources.clear_resource_lists();
                self.handle_turn_ended(&outcome);
                let is_planned = self.is_planning && self.switch.mode() == ApprovalMode::Plan;
                if is_planned
                    && outcome.summary.stop == StopReason::Done
                    && !self.worker.is_running()
                {
                    modes::ask_about_plan(self);
                }
            }
            // Do not print the error, because the turn has already shown it. The turn's answer is
            // kept in memory.
            Some(ChatJobResult::Turn(Err(Error::Session(_)))) => {
                let words = "the text may be missing in the session; Up brings it back";
                self.view.say_line(warning_text(words));
                self.return_waiting_texts();
            }
            Some(ChatJobResult::Turn(Err(error))) => {
                self.return_waiting_texts();
                self.view.say_line(style_text(
                    BAD,
                    format_args!("the turn failed: {}", printable_text(&error.to_string())),
                ));
                self.leaving = Some(ChatExit::Quit(ExitStatus::Failed));
            }
            Some(ChatJobResult::Command(outcome)) => {
                slash::finish_command(self, outcome);
                // Send the texts to the model that the person entered while the command ran.
                self.send_waiting_texts();
            }
            Some(ChatJobResult::Aside(outcome)) => slash::finish_command(self, outcome),
            Some(ChatJobResult::Closed(_)) => {}
            None => {
                self.view
                    .say_line(style_text(BAD, "the session ended unexpectedly"));
                self.leaving = Some(ChatExit::Quit(ExitStatus::Failed));
            }
        }
    }
}

/// Waits until the open question is withdrawn. Without an open question, never returns.
pub(super) async fn wait_until_question_withdrawn(question: &mut Option<OpenQuestion>) {
    match question {
        Some(question) => question.wait_until_withdrawn().await,
        None => std::future::pending().await,
    }
}

/// Sleeps until a time. Without a time, never returns.
pub(super) async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Installs a panic hook that restores the terminal before it reports a panic of this thread. For a
/// panic of another thread, the hook does not restore the terminal, because the chat continues.
pub(super) fn restore_terminal_on_panic(tty: &RawTerminal) {
    let here = std::thread::current().id();
    let restore = tty.terminal_restorer();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == here {
            restore();
            before(panic);
        } else {
            hold::put_line(format_args!("a part of the program failed: {panic}\n"));
        }
    }));
}
