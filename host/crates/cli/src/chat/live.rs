//! The chat at a terminal: waits for keys, events and questions, and redraws after each.
//!
//! A key is drawn at once; output of the model at most every [`FRAME`]. `press` maps keys to
//! actions, `waiting` handles texts that are sent while a turn runs, `leave` ends the chat. Start
//! from [`live`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, MissedTickBehavior};

use super::super::approve::Asked;
use super::super::command::Commands;
use super::super::environment;
use super::super::exit_code::ExitStatus;
use super::super::open::Opened;
use super::super::programs::Programs;
use super::super::render::hold::{self, Redirected};
use super::super::render::{BAD, DIM, printable, styled};
use super::super::signals::AnySignal;
use super::super::telemetry::Telemetry;
use super::super::terminal::QUIET;
use super::ask::OpenQuestion;
use super::complete::{Menu, file_begun, files};
use super::diff::Diffs;
use super::editor::Editor;
use super::history::History;
use super::keys::Input;
use super::screen::Screen;
use super::shell::{Ran, Shell};
use super::status::{Status, Window};
use super::tty::{self, Tty};
use super::view::View;
use super::waiting::Typed;
use super::worker::{Done, Worker};
use rind_lib::agent::{AgentConfig, SteerHandle};
use rind_lib::event::Stamped;
use rind_lib::tool::approval::SessionApprovals;
use rind_operator::setup::OperatorSetup;

/// Least time between two updates that no key asked for. With it a piece of an answer is on the
/// screen within 10 ms: the timer rounds up to a millisecond, and an update takes about one.
const FRAME: Duration = Duration::from_millis(5);

/// Interval at which the seconds of a wait are counted.
const TICK: Duration = Duration::from_millis(250);

/// Time after which the files of the workspace are looked for again.
const STALE: Duration = Duration::from_secs(5);

/// Most events between two looks at everything else.
const MAX_EVENTS: usize = 256;

/// Messages of a resumed session that are shown.
const MAX_EARLIER: usize = 12;

pub(super) struct Live {
    pub(super) tty: Tty,
    pub(super) screen: Screen,
    pub(super) view: View,
    pub(super) editor: Editor,
    /// The line that answers a question.
    pub(super) answer: Editor,
    pub(super) history: History,
    pub(super) worker: Worker,
    pub(super) steering: SteerHandle,
    pub(super) approvals: Arc<SessionApprovals>,
    pub(super) question: Option<OpenQuestion>,
    pub(super) last_key: Instant,
    /// Time at which the last question went away.
    pub(super) closed: Option<Instant>,
    /// Texts that wait for the turn, by their numbers.
    pub(super) waiting: HashMap<u64, Typed>,
    /// Time of the Ctrl-C that ended the turn.
    pub(super) interrupted: Option<Instant>,
    /// Whether that Ctrl-C cleared a text that the history does not keep.
    pub(super) is_dropped: bool,
    pub(super) menu: Menu,
    pub(super) shell: Shell,
    /// Files of the workspace, as they were when they were last looked for.
    pub(super) files: Vec<String>,
    looked: Option<Instant>,
    found: UnboundedReceiver<Vec<String>>,
    finder: UnboundedSender<Vec<String>>,
    /// Reason for which the chat is to end.
    pub(super) leaving: Option<Leave>,
    pub(super) setup: OperatorSetup,
    pub(super) asked: VecDeque<Asked>,
    pub(super) events: UnboundedReceiver<Stamped>,
    pub(super) questions: UnboundedReceiver<Asked>,
    /// Lines that other parts of the program write.
    pub(super) written: UnboundedReceiver<String>,
    pub(super) redirected: Option<Redirected>,
    /// Telemetry of the session, sent at the end.
    pub(super) telemetry: Option<Telemetry>,
    /// Programs that follow the session.
    pub(super) programs: Programs,
    pub(super) signals: Signals,
    pub(super) last_draw: Instant,
    pub(super) is_dirty: bool,
}

pub(super) struct Signals {
    resized: Signal,
    /// Ctrl-C in a program that has the terminal for a while: no key sends it here.
    pub(super) interrupted: Signal,
    /// `kill`, and the end of the terminal.
    pub(super) ended: AnySignal,
}

/// Way out of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    Quit(ExitStatus),
    /// Another session, by its whole id.
    Resume(String),
}

/// An occurrence that the loop waits for.
enum Next {
    Typed(Option<Vec<Input>>),
    Event(Box<Stamped>),
    Asked(Asked),
    Withdrawn,
    Written(String),
    Done(Option<Done>),
    Ran(Ran),
    Found(Vec<String>),
    Resized,
    Ended,
    /// A frame is due, or a second has passed.
    Draw,
}

pub(super) async fn live(
    opened: Opened,
    commands: Arc<Commands>,
    prompt: Option<String>,
    programs: &mut Programs,
) -> anyhow::Result<Leave> {
    let mut live = Live::open(opened, commands)?;
    std::mem::swap(&mut live.programs, programs);
    if let Some(prompt) = prompt {
        live.editor.set(&prompt);
        live.enter();
    }
    let ran = live.run().await;
    // Leave also after an error of the terminal: the session must still be closed in order.
    let left = live.leave().await;
    std::mem::swap(&mut live.programs, programs);
    ran.and(left)
}

impl Live {
    async fn run(&mut self) -> anyhow::Result<()> {
        self.draw()?;
        while self.leaving.is_none() {
            let next = self.next().await;
            self.take(next)?;
        }
        Ok(())
    }

    fn open(opened: Opened, commands: Arc<Commands>) -> anyhow::Result<Self> {
        let agent: AgentConfig = opened.setup.config.section()?;
        let session = opened.session;
        let history = History::open(&opened.setup.paths.data);
        let signals = Signals {
            resized: signal(SignalKind::window_change())?,
            interrupted: signal(SignalKind::interrupt())?,
            ended: AnySignal::ends()?,
        };
        drop(opened.exits);
        let tty = Tty::open().context("take the terminal")?;
        restore_on_panic(&tty);
        let (written, receiver) = mpsc::unbounded_channel();
        let (finder, found) = mpsc::unbounded_channel();
        let size = tty::size();
        let has_color = environment::variable("NO_COLOR").is_none();
        let diffs = Diffs::default();
        let (observed, workspace) = (diffs.clone(), opened.setup.paths.workspace.clone());
        session.observe(move |event| observed.observe(&workspace, event));
        let window = Window::new(session.provider().clone(), agent.compact);
        let mut view = View::new(size.columns, Status::new(session.model().1, window), diffs);
        let (_, model) = session.model();
        let words = format!("{model} · /help lists commands and keys");
        view.say(styled(DIM, printable(&words)));
        view.earlier(&session.last_messages(MAX_EARLIER));
        let now = Instant::now();
        Ok(Self {
            screen: Screen::new(size, has_color),
            view,
            editor: Editor::default(),
            answer: Editor::default(),
            history,
            steering: session.steering(),
            approvals: session.approvals(),
            question: None,
            last_key: now - QUIET,
            closed: None,
            waiting: HashMap::new(),
            interrupted: None,
            is_dropped: false,
            menu: Menu::default(),
            shell: Shell::new(&opened.setup.paths.workspace, opened.commands),
            files: Vec::new(),
            looked: None,
            found,
            finder,
            leaving: None,
            setup: opened.setup,
            asked: VecDeque::new(),
            events: session.events(),
            questions: opened.questions,
            written: receiver,
            redirected: Some(hold::redirect(written)),
            telemetry: Some(Telemetry::from_env()),
            programs: Programs::default(),
            worker: Worker::new(session, commands),
            signals,
            last_draw: now,
            is_dirty: true,
            tty,
        })
    }

    async fn next(&mut self) -> Next {
        let frame = self.last_draw + FRAME;
        let quiet = self.last_key + QUIET;
        let is_quiet_due = self.question.is_none() && !self.asked.is_empty();
        let opens = self.question.as_ref().and_then(OpenQuestion::opens);
        let mut tick = tokio::time::interval_at(Instant::now() + TICK, TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::select! {
            biased;
            typed = self.tty.inputs() => Next::Typed(typed),
            _ = self.signals.resized.recv() => Next::Resized,
            _ = self.signals.interrupted.recv() => Next::Draw,
            () = self.signals.ended.recv() => Next::Ended,
            () = tokio::time::sleep_until(frame), if self.is_dirty => Next::Draw,
            // Events before questions: a question is shown after the events that led to it.
            Some(event) = self.events.recv() => Next::Event(Box::new(event)),
            Some(text) = self.written.recv() => Next::Written(text),
            done = self.worker.done() => Next::Done(done),
            ran = self.shell.ended() => Next::Ran(ran),
            Some(files) = self.found.recv() => Next::Found(files),
            Some(asked) = self.questions.recv() => Next::Asked(asked),
            () = withdrawn(&mut self.question) => Next::Withdrawn,
            () = tokio::time::sleep_until(quiet), if is_quiet_due => Next::Draw,
            () = sleep_until(opens) => Next::Draw,
            _ = tick.tick(), if self.worker.is_running() => Next::Draw,
        }
    }

    fn take(&mut self, next: Next) -> anyhow::Result<()> {
        match next {
            Next::Typed(Some(inputs)) => {
                inputs.into_iter().for_each(|input| self.press(input));
                self.open_question();
                return self.draw();
            }
            Next::Typed(None) | Next::Ended => {
                self.leaving = Some(Leave::Quit(ExitStatus::Interrupted))
            }
            Next::Event(event) => {
                self.take_event(&event);
                for _ in 0..MAX_EVENTS {
                    let Ok(event) = self.events.try_recv() else {
                        break;
                    };
                    self.take_event(&event);
                }
            }
            Next::Asked(asked) => self.asked.push_back(asked),
            Next::Withdrawn => {
                self.close_question();
                self.view.say(styled(DIM, "no longer asked"));
            }
            Next::Written(text) => self.wrote(&text),
            Next::Done(done) => self.done(done),
            Next::Ran(ran) => self.view.ran(&ran.command, &ran.output, ran.is_error),
            Next::Found(files) => {
                self.files = files;
                self.propose();
            }
            Next::Resized => {
                let size = tty::size();
                self.screen.resize(size);
                self.view.resize(size.columns);
                return self.draw();
            }
            Next::Draw => {
                self.open_question();
                return self.draw();
            }
        }
        self.open_question();
        self.is_dirty = true;
        Ok(())
    }

    /// Shows a text that another part of the program wrote.
    pub(super) fn wrote(&mut self, text: &str) {
        let text = text.trim_end_matches('\n');
        text.split('\n').for_each(|line| self.view.say(line));
    }

    pub(super) fn take_event(&mut self, event: &Stamped) {
        self.view.take(event);
        self.programs.take(event);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.take(event);
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

    fn done(&mut self, done: Option<Done>) {
        match done {
            Some(Done::Turn(Ok(outcome))) => self.turn_ended(&outcome),
            Some(Done::Turn(Err(error))) => {
                self.take_back_all();
                self.view.say(styled(
                    BAD,
                    format_args!("the turn failed: {}", printable(&error.to_string())),
                ));
                self.leaving = Some(Leave::Quit(ExitStatus::Failed));
            }
            Some(Done::Command(outcome)) => {
                self.commanded(outcome);
                // Texts sent while the command ran go to the model.
                self.send_waiting();
            }
            Some(Done::Aside(outcome)) => self.commanded(outcome),
            Some(Done::Closed(_)) => {}
            None => {
                self.view.say(styled(BAD, "the session ended unexpectedly"));
                self.leaving = Some(Leave::Quit(ExitStatus::Failed));
            }
        }
    }

    /// Proposes completions of the text before the cursor.
    pub(super) fn propose(&mut self) {
        let before = self.editor.before();
        let is_stale = self.looked.is_none_or(|at| at.elapsed() >= STALE);
        if is_stale && file_begun(before).is_some() {
            self.looked = Some(Instant::now());
            let (finder, workspace) = (self.finder.clone(), self.setup.paths.workspace.clone());
            // Ignore a closed channel: the chat may be over.
            tokio::task::spawn_blocking(move || drop(finder.send(files(&workspace))));
        }
        self.menu = Menu::new(before, self.worker.commands(), &self.files);
    }
}

async fn withdrawn(question: &mut Option<OpenQuestion>) {
    match question {
        Some(question) => question.withdrawn().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Installs a panic hook that restores the terminal before a panic of this thread is reported. A
/// panic of another thread is only reported, since the chat goes on.
fn restore_on_panic(tty: &Tty) {
    let here = std::thread::current().id();
    let restore = tty.restorer();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == here {
            restore();
            before(panic);
        } else {
            hold::put(format_args!("a part of the program failed: {panic}\n"));
        }
    }));
}
