//! Runs the chat at a terminal: waits for keys, events and questions, and redraws after each.
//!
//! A key is drawn at once; output of the model at most once per [`FRAME`]. `press` maps keys to
//! actions, `waiting` handles texts that are sent while a turn runs, `leave` ends the chat. Start
//! from [`run_live`].

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

use super::super::approve::{AskedAnswer, TerminalQuestion};
use super::super::command::{CommandSet, OpenFacts};
use super::super::environment;
use super::super::exit_code::ExitStatus;
use super::super::looks;
use super::super::open::OpenedSession;
use super::super::programs::FollowingPrograms;
use super::super::render::hold::{self, RedirectedOutput};
use super::super::render::{BAD, DIM, printable_text, style_text, warning_text};
use super::super::signals::AnySignal;
use super::super::telemetry::Telemetry;
use super::super::terminal::QUIET;
use super::ask::OpenQuestion;
use super::complete::CompletionMenu;
use super::diff::ChatDiffs;
use super::editor::LineEditor;
use super::history::ChatHistory;
use super::keys::KeyInput;
use super::lookup::FoundChoices;
use super::modes::wait_plan;
use super::notify::{ChatNotifier, NotifyReason};
use super::picker::ChatPicker;
use super::press::QUITS;
use super::recall::HistorySearch;
use super::resources::ChatResources;
use super::screen::ChatScreen;
use super::shell::{ChatShell, ShellResult};
use super::status::{ChatStatus, ContextWindow};
use super::tty::{self, RawTerminal};
use super::view::ChatView;
use super::waiting::TypedLine;
use super::worker::{ChatJobDone, ChatWorker};
use rind_lib::agent::{AgentConfig, Error, SteerHandle};
use rind_lib::event::{Event, Stamped};
use rind_lib::point::payload::StopReason;
use rind_lib::tool::approval::SessionApprovals;
use rind_lib::tool::builtin::Commands;
use rind_lib::tool::policy::{ApprovalMode, ModeSwitch};
use rind_lib::tool::sandbox::{OwnCommands, SandboxConfig};
use rind_operator::chat::ChatConfig;
use rind_operator::setup::OperatorSetup;

/// Minimum time between two updates that no key caused. With it a piece of an answer is on the
/// screen within 10 ms: the timer rounds up to a millisecond, and an update takes about one.
const FRAME: Duration = Duration::from_millis(5);

/// Interval at which the elapsed seconds of a wait are redrawn.
const TICK: Duration = Duration::from_millis(250);

/// Maximum number of events that are handled before other sources get their turn.
const MAX_EVENTS: usize = 256;

/// Maximum number of messages of a resumed session that are shown.
const MAX_EARLIER: usize = 12;

pub(super) struct LiveChat {
    pub(super) tty: RawTerminal,
    pub(super) screen: ChatScreen,
    pub(super) view: ChatView,
    pub(super) editor: LineEditor,
    /// Editor of the answer to the open question.
    pub(super) answer: LineEditor,
    pub(super) history: ChatHistory,
    pub(super) worker: ChatWorker,
    pub(super) notifier: ChatNotifier,
    pub(super) steering: SteerHandle,
    pub(super) approvals: Arc<SessionApprovals>,
    pub(super) question: Option<OpenQuestion>,
    pub(super) last_key: Instant,
    /// Time at which the last question was closed.
    pub(super) closed: Option<Instant>,
    /// Texts that wait in the queue of the running turn, by their numbers in the queue.
    pub(super) waiting: HashMap<u64, TypedLine>,
    /// Time at which a key last interrupted a turn or a command, or Ctrl-C cleared the text.
    pub(super) interrupted: Option<Instant>,
    /// Whether the last Ctrl-C cleared a text that is not kept in the history.
    pub(super) is_dropped: bool,
    /// Time of a Ctrl-C on an empty line: a second Ctrl-C soon after it quits.
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
    /// Resources of MCP servers that a text can name.
    pub(super) resources: ChatResources,
    /// Whether the provider's server was asked which models it has.
    pub(super) has_asked_models: bool,
    /// Name of the model that the person chose in this chat, as typed.
    pub(super) chosen_model: Option<String>,
    /// Name of the chosen model, until the list of the server shows whether it exists.
    pub(super) unchecked_model: Option<String>,
    found: UnboundedReceiver<FoundChoices>,
    pub(super) finder: UnboundedSender<FoundChoices>,
    /// Mode of approval.
    pub(super) switch: ModeSwitch,
    /// Whether Shift-Tab also reaches the mode `full`, in which nothing is asked.
    pub(super) has_full_mode: bool,
    /// Whether the last turn began in plan mode.
    is_planning: bool,
    /// Receiver of the answer to the question whether to carry out a plan.
    pub(super) plan: Option<oneshot::Receiver<AskedAnswer>>,
    /// Id of the session.
    pub(super) id: Arc<str>,
    /// Whether the session had turns before this chat.
    pub(super) is_resumed: bool,
    /// Requested way to leave; the chat ends once this is set.
    pub(super) leaving: Option<ChatExit>,
    pub(super) setup: OperatorSetup,
    pub(super) asked: VecDeque<TerminalQuestion>,
    pub(super) events: UnboundedReceiver<Stamped>,
    pub(super) questions: UnboundedReceiver<TerminalQuestion>,
    /// Text that other parts of the program print during the chat.
    pub(super) written: UnboundedReceiver<String>,
    pub(super) redirected: Option<RedirectedOutput>,
    /// Telemetry of the session, sent at the end.
    pub(super) telemetry: Option<Telemetry>,
    /// Programs that receive the events of the session.
    pub(super) programs: FollowingPrograms,
    pub(super) signals: ChatSignals,
    pub(super) last_draw: Instant,
    pub(super) is_dirty: bool,
}

pub(super) struct ChatSignals {
    resized: Signal,
    /// SIGINT from Ctrl-C in another program that has the terminal for a while. In raw mode Ctrl-C
    /// is a key and sends no signal.
    pub(super) interrupted: Signal,
    /// Signals of `kill`, of `Ctrl-\` and of a closed terminal.
    pub(super) ended: AnySignal,
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
enum ChatOccurrence {
    Typed(Option<Vec<KeyInput>>),
    Event(Box<Stamped>),
    Asked(TerminalQuestion),
    Withdrawn,
    Written(String),
    Done(Option<ChatJobDone>),
    Ran(ShellResult),
    Found(FoundChoices),
    Planned(Option<AskedAnswer>),
    Resized,
    /// The time in which the next Ctrl-C would quit has passed, so the hint about it must go.
    Faded,
    Ended,
    /// A redraw is due: a frame, a tick of the clock, or a question whose wait is over.
    Draw,
}

pub(super) async fn run_live(
    opened: OpenedSession,
    commands: Arc<CommandSet>,
    prompt: Option<String>,
    programs: &mut FollowingPrograms,
) -> anyhow::Result<ChatExit> {
    let interrupted = super::interrupted_note(&opened.session, prompt.is_some(), "Esc");
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
        live.enter_line();
    }
    let ran = live.run_loop().await;
    // Leave also after an error of the terminal: the session must still be closed in order.
    let left = leave::leave_chat(&mut live).await;
    std::mem::swap(&mut live.programs, programs);
    ran.and(left)
}

impl LiveChat {
    async fn run_loop(&mut self) -> anyhow::Result<()> {
        self.draw_screen()?;
        while self.leaving.is_none() {
            let next = self.next().await;
            self.take_occurrence(next)?;
        }
        Ok(())
    }

    fn open_chat(opened: OpenedSession, commands: Arc<CommandSet>) -> anyhow::Result<Self> {
        let agent: AgentConfig = opened.setup.config.section()?;
        let sandbox: SandboxConfig = opened.setup.config.section()?;
        let own_commands = match sandbox.own_commands {
            OwnCommands::Confined => opened.commands,
            OwnCommands::Shell => {
                let keeper = opened.setup.environment.keeper();
                Commands::of_user(keeper, environment::variable("SHELL").map(Into::into))
            }
        };
        let session = opened.session;
        commands.set_asker(opened.asker);
        let facts = OpenFacts::of(&session);
        let spent = facts.cost_usd();
        commands.note_open(facts);
        let history = ChatHistory::open_history(&opened.setup.paths.data);
        let signals = ChatSignals {
            resized: signal(SignalKind::window_change())?,
            interrupted: signal(SignalKind::interrupt())?,
            ended: AnySignal::ends()?,
        };
        drop(opened.exits);
        let asks_looks = looks::set_looks(&opened.setup.config)?;
        let tty = RawTerminal::open_terminal(asks_looks).context("take the terminal")?;
        restore_on_panic(&tty);
        if let Some(is_light) = tty.background() {
            looks::set_background(is_light);
        }
        let (written, receiver) = mpsc::unbounded_channel();
        let (finder, found) = mpsc::unbounded_channel();
        let size = tty::terminal_size();
        let has_color = environment::variable("NO_COLOR").is_none();
        let diffs = ChatDiffs::default();
        let (observed, workspace) = (diffs.clone(), opened.setup.paths.workspace.clone());
        session.observe(move |event| observed.observe_event(&workspace, event));
        let window = ContextWindow::new(session.provider().clone(), agent.compact);
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
        let earlier = session.last_messages(MAX_EARLIER + 1);
        let first = earlier.len().saturating_sub(MAX_EARLIER);
        if first > 0 {
            view.say_line(style_text(DIM, "… older messages are not shown"));
        }
        view.add_earlier(earlier.get(first..).unwrap_or_default());
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
            programs: FollowingPrograms::default(),
            worker: ChatWorker::new(session, commands),
            signals,
            last_draw: now,
            is_dirty: true,
            tty,
        })
    }

    async fn next(&mut self) -> ChatOccurrence {
        let frame = self.last_draw + FRAME;
        let quiet = self.last_key + QUIET;
        let is_quiet_due = self.question.is_none() && !self.asked.is_empty();
        let opens = self.question.as_ref().and_then(OpenQuestion::opens);
        let fades = self.quitting.map(|at| at + QUITS);
        let mut tick = tokio::time::interval_at(Instant::now() + TICK, TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::select! {
            biased;
            typed = self.tty.wait_inputs() => ChatOccurrence::Typed(typed),
            _ = self.signals.resized.recv() => ChatOccurrence::Resized,
            _ = self.signals.interrupted.recv() => ChatOccurrence::Draw,
            () = self.signals.ended.recv_signal() => ChatOccurrence::Ended,
            () = tokio::time::sleep_until(frame), if self.is_dirty => ChatOccurrence::Draw,
            // Events before questions: a question is shown after the events that led to it.
            Some(event) = self.events.recv() => ChatOccurrence::Event(Box::new(event)),
            Some(text) = self.written.recv() => ChatOccurrence::Written(text),
            done = self.worker.next_done() => ChatOccurrence::Done(done),
            ran = self.shell.wait_ended() => ChatOccurrence::Ran(ran),
            Some(files) = self.found.recv() => ChatOccurrence::Found(files),
            answer = wait_plan(&mut self.plan) => ChatOccurrence::Planned(answer),
            Some(asked) = self.questions.recv() => ChatOccurrence::Asked(asked),
            () = wait_withdrawn(&mut self.question) => ChatOccurrence::Withdrawn,
            () = tokio::time::sleep_until(quiet), if is_quiet_due => ChatOccurrence::Draw,
            () = sleep_until(opens) => ChatOccurrence::Draw,
            () = sleep_until(fades) => ChatOccurrence::Faded,
            _ = tick.tick(), if self.has_clock() => ChatOccurrence::Draw,
        }
    }

    /// Whether the screen shows an elapsed time that must be redrawn.
    fn has_clock(&self) -> bool {
        self.worker.is_running() || self.shell.running().is_some() || self.view.status.has_clock()
    }

    fn take_occurrence(&mut self, next: ChatOccurrence) -> anyhow::Result<()> {
        match next {
            ChatOccurrence::Typed(Some(inputs)) => {
                inputs.into_iter().for_each(|input| self.press_key(input));
                self.open_question();
                return self.draw_screen();
            }
            ChatOccurrence::Typed(None) | ChatOccurrence::Ended => {
                self.leaving = Some(ChatExit::Quit(ExitStatus::Interrupted))
            }
            ChatOccurrence::Event(event) => {
                self.take_event(&event);
                for _ in 0..MAX_EVENTS {
                    let Ok(event) = self.events.try_recv() else {
                        break;
                    };
                    self.take_event(&event);
                }
            }
            ChatOccurrence::Asked(asked) => {
                self.asked.push_back(asked);
                self.notifier.notify(NotifyReason::Asked);
            }
            ChatOccurrence::Withdrawn => {
                let size = self.screen.size();
                let head = self.question.as_ref().map(|open| open.head_row(size));
                self.close_question();
                self.view.say_line(head.unwrap_or_default());
                self.view.say_line(style_text(DIM, "  no longer asked"));
            }
            ChatOccurrence::Written(text) => self.note_line(&text),
            ChatOccurrence::Done(done) => self.finish_job(done),
            ChatOccurrence::Ran(ran) => self.view.show_ran(&ran.command, &ran.output, ran.is_error),
            ChatOccurrence::Found(found) => self.take_found(found),
            ChatOccurrence::Planned(answer) => modes::plan_answered(self, answer),
            ChatOccurrence::Faded => self.quitting = None,
            ChatOccurrence::Resized => {
                let size = tty::terminal_size();
                self.screen.resize_screen(size);
                self.view.resize_view(size.columns);
                return self.draw_screen();
            }
            ChatOccurrence::Draw => {
                self.open_question();
                return self.draw_screen();
            }
        }
        self.open_question();
        self.is_dirty = true;
        Ok(())
    }

    /// Shows a text that another part of the program wrote.
    pub(super) fn note_line(&mut self, text: &str) {
        let text = text.trim_end_matches('\n');
        text.split('\n').for_each(|line| self.view.say_line(line));
    }

    pub(super) fn take_event(&mut self, event: &Stamped) {
        if matches!(event.event, Event::TurnStart { .. }) && event.is_main() {
            self.is_planning = self.switch.mode() == ApprovalMode::Plan;
        }
        self.view.take_event(event);
        self.programs.take_event(event);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.take_event(event);
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

    fn finish_job(&mut self, done: Option<ChatJobDone>) {
        let is_turn = matches!(done, Some(ChatJobDone::Turn(_)));
        self.take_done(done);
        if is_turn && !self.worker.is_running() {
            self.notifier.notify(NotifyReason::TurnEnded);
        }
    }

    fn take_done(&mut self, done: Option<ChatJobDone>) {
        match done {
            Some(ChatJobDone::Unsent(why)) => self.withdraw_unsent(&why),
            Some(ChatJobDone::Turn(Ok(outcome))) => {
                self.resources.unsent = None;
                self.resources.forget_listed();
                self.turn_ended(&outcome);
                let is_planned = self.is_planning && self.switch.mode() == ApprovalMode::Plan;
                if is_planned
                    && outcome.summary.stop == StopReason::Done
                    && !self.worker.is_running()
                {
                    modes::ask_about_plan(self);
                }
            }
            // The turn has already shown this error with its remedy, and its answer is kept in
            // memory.
            Some(ChatJobDone::Turn(Err(Error::Session(_)))) => {
                let words = "the text may be missing in the session; Up brings it back";
                self.view.say_line(warning_text(words));
                self.withdraw_all();
            }
            Some(ChatJobDone::Turn(Err(error))) => {
                self.withdraw_all();
                self.view.say_line(style_text(
                    BAD,
                    format_args!("the turn failed: {}", printable_text(&error.to_string())),
                ));
                self.leaving = Some(ChatExit::Quit(ExitStatus::Failed));
            }
            Some(ChatJobDone::Command(outcome)) => {
                slash::finish_command(self, outcome);
                // Texts sent while the command ran go to the model.
                self.send_waiting();
            }
            Some(ChatJobDone::Aside(outcome)) => slash::finish_command(self, outcome),
            Some(ChatJobDone::Closed(_)) => {}
            None => {
                self.view
                    .say_line(style_text(BAD, "the session ended unexpectedly"));
                self.leaving = Some(ChatExit::Quit(ExitStatus::Failed));
            }
        }
    }
}

/// Waits until an open question is withdrawn; forever without one.
pub(super) async fn wait_withdrawn(question: &mut Option<OpenQuestion>) {
    match question {
        Some(question) => question.note_withdrawn().await,
        None => std::future::pending().await,
    }
}

/// Sleeps until a time; forever without one.
pub(super) async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Installs a panic hook that restores the terminal before a panic of this thread is reported. A
/// panic of another thread is only reported, since the chat continues.
pub(super) fn restore_on_panic(tty: &RawTerminal) {
    let here = std::thread::current().id();
    let restore = tty.restorer();
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
