//! Runs the chat in a session of a cluster, whose turns another program runs: `rind chat --nats`.
//!
//! Owns the screen of such a chat, which is built from the parts of the chat at a terminal. `news`
//! handles events from the holder, the program that runs the session's turns. `keys` handles keys
//! and typed texts. The chat itself has no session, no plugins and no tools: it sends requests to
//! the holder. A text waits in the queue until a worker takes it. Start from [`run_attached_chat`].

mod keys;
mod news;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::approve::TerminalQuestion;
use super::super::cluster::{AttachedClusterSession, FollowedSessionUpdate};
use super::super::environment;
use super::super::exit_code::ExitStatus;
use super::super::looks;
use super::super::render::hold::{self, OutputRedirectGuard};
use super::super::render::{
    self, DIM_STYLE, WARNING_STYLE, format_dollars, style_text, truncate_to_one_line,
};
use super::super::signals::ShutdownSignals;
use super::super::terminal::INPUT_SILENCE_BEFORE_ANSWER;
use super::ask::{OpenChatQuestion, QuestionScreenSize};
use super::diff::FileChangeDiffs;
use super::draw::{layout_editor_region, question_screen_size};
use super::editor::{ChatInputEditor, FIRST_EDITOR_ROW_PREFIX};
use super::history::ChatInputHistory;
use super::live::{
    install_terminal_restoring_panic_hook, sleep_until_or_forever, wait_until_question_withdrawn,
};
use super::press::MAX_EMPTY_LINE_DOUBLE_PRESS_DELAY;
use super::screen::{ChatScreen, RedrawnRowsWithCursor};
use super::status::{ChatStatusLineState, CompactionThreshold};
use super::tty::{self, RawTerminal};
use super::view::ChatScreenView;
use news::AttachedChatServerRequestResult;
use rind_lib::tool::live::RunningToolCallOutputs;

/// Interval at which the elapsed seconds of a wait are redrawn.
const ELAPSED_SECONDS_REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of received news that wait to be handled. The holder does not wait for a slow
/// chat, so further events are lost.
const MAX_QUEUED_SESSION_EVENTS: usize = 1024;

/// Maximum number of messages from before the chat that are shown at its start.
const MAX_SHOWN_EARLIER_MESSAGES: usize = 12;

/// Text that was sent to the session but that no turn has taken yet.
struct QueuedInputText {
    /// Id of the input, or of the text that steers the running turn.
    id: String,
    text: String,
    /// Number of the text among the texts that steer the running turn; 0 until the program that
    /// runs the turn reports it. `None` for a text that is an input of the session.
    steers: Option<u64>,
}

/// Chat in a session whose turns another program runs.
struct AttachedChat {
    tty: RawTerminal,
    screen: ChatScreen,
    view: ChatScreenView,
    editor: ChatInputEditor,
    /// Editor in which the person types the answer to the open question.
    answer: ChatInputEditor,
    history: ChatInputHistory,
    session: AttachedClusterSession,
    /// Questions that are shown only when the person stops typing.
    asked: VecDeque<TerminalQuestion>,
    question: Option<OpenChatQuestion>,
    /// Cancellation tokens of the questions that are open or waiting in this chat, by question id.
    /// Cancelling a token withdraws its question.
    open: HashMap<String, CancellationToken>,
    /// Time at which the last question to the person was closed.
    closed: Option<Instant>,
    last_key: Instant,
    waiting: Vec<QueuedInputText>,
    /// Whether a program, the holder, has the session open and can run its turns.
    is_held: bool,
    /// Whether the next event is the first one from the program that now holds the session.
    is_new_log: bool,
    /// Whether a turn has begun whose end was not reported yet.
    is_running: bool,
    /// Whether the current events belong to a turn that is already on the screen as part of the
    /// earlier conversation.
    is_past: bool,
    /// Id of the input that was shown last. It is not shown again when another worker continues its
    /// turn.
    shown_input: Option<String>,
    is_interrupted: bool,
    quitting: Option<Instant>,
    news: Receiver<FollowedSessionUpdate>,
    done: UnboundedReceiver<AttachedChatServerRequestResult>,
    teller: UnboundedSender<AttachedChatServerRequestResult>,
    written: UnboundedReceiver<String>,
    redirected: Option<OutputRedirectGuard>,
    resized: Signal,
    ended: ShutdownSignals,
    leaving: Option<ExitStatus>,
}

/// Runs the chat until the person leaves it. Leaving does not affect the session.
pub(in super::super) async fn run_attached_chat(
    session: AttachedClusterSession,
    prompt: Option<String>,
) -> anyhow::Result<ExitStatus> {
    let (sender, news) = mpsc::channel(MAX_QUEUED_SESSION_EVENTS);
    let follow = tokio::spawn(
        session
            .session
            .clone()
            .forward_events_across_takeovers(sender),
    );
    let mut chat = AttachedChat::open_chat(session, news)?;
    if let Some(prompt) = prompt {
        chat.queue_text_as_session_input(prompt);
    }
    let ran = chat.run_event_loop().await;
    chat.restore_shell_terminal();
    follow.abort();
    ran?;
    for text in &chat.waiting {
        let text = truncate_to_one_line(&text.text, 200);
        render::print_note(&format!("this message still waits for a worker: {text}"));
    }
    let id = &chat.session.session.id;
    render::print_note(&format!(
        "left session {id}, which goes on without this chat; to come back: rind chat --nats URL --session {id}"
    ));
    Ok(chat.leaving.unwrap_or(ExitStatus::Done))
}

impl AttachedChat {
    fn open_chat(
        session: AttachedClusterSession,
        news: Receiver<FollowedSessionUpdate>,
    ) -> anyhow::Result<Self> {
        let setup = environment::read_settings_without_project()?;
        let asks_looks = looks::configure_colors_and_links(&setup.config)?;
        let tty = RawTerminal::open_terminal(asks_looks).context("cannot take the terminal")?;
        install_terminal_restoring_panic_hook(&tty);
        if let Some(is_light) = tty.has_light_background() {
            looks::set_code_palette_for_background(is_light);
        }
        let (written, receiver) = mpsc::unbounded_channel();
        let (teller, done) = mpsc::unbounded_channel();
        let size = tty::terminal_size();
        let status = ChatStatusLineState::new("", CompactionThreshold::default());
        let (diffs, live) = (
            FileChangeDiffs::default(),
            RunningToolCallOutputs::default(),
        );
        let mut view = ChatScreenView::new(size.columns, status, diffs, live);
        let words = format!(
            "session {} on NATS · turns run at workers of the class {} · /help lists commands and keys",
            session.session.id, session.class
        );
        view.add_finished_output_line(style_text(DIM_STYLE, truncate_to_one_line(&words, 400)));
        let first = session
            .earlier
            .len()
            .saturating_sub(MAX_SHOWN_EARLIER_MESSAGES);
        if first > 0 {
            view.add_finished_output_line(style_text(DIM_STYLE, "… older messages are not shown"));
        }
        view.show_earlier_messages(session.earlier.get(first..).unwrap_or_default());
        let now = Instant::now();
        Ok(Self {
            screen: ChatScreen::new(
                size,
                environment::environment_variable("NO_COLOR").is_none(),
            ),
            view,
            editor: ChatInputEditor::default(),
            answer: ChatInputEditor::default(),
            history: ChatInputHistory::read_history_file(&setup.paths.data),
            session,
            asked: VecDeque::new(),
            question: None,
            open: HashMap::new(),
            closed: None,
            last_key: now - INPUT_SILENCE_BEFORE_ANSWER,
            waiting: Vec::new(),
            is_held: false,
            is_new_log: false,
            is_running: false,
            is_past: false,
            shown_input: None,
            is_interrupted: false,
            quitting: None,
            news,
            done,
            teller,
            written: receiver,
            redirected: Some(hold::redirect_output_to_chat(written)),
            resized: signal(SignalKind::window_change())?,
            ended: ShutdownSignals::listen_without_ctrl_c()?,
            leaving: None,
            tty,
        })
    }

    async fn run_event_loop(&mut self) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(ELAPSED_SECONDS_REDRAW_INTERVAL);
        while self.leaving.is_none() {
            self.open_next_question_if_idle();
            self.draw_screen()?;
            let quiet = self.last_key + INPUT_SILENCE_BEFORE_ANSWER;
            let is_quiet_due = self.question.is_none() && !self.asked.is_empty();
            let opens = self
                .question
                .as_ref()
                .and_then(OpenChatQuestion::next_redraw_time);
            tokio::select! {
                biased;
                typed = self.tty.wait_for_key_inputs() => match typed {
                    Some(inputs) => inputs.into_iter().for_each(|input| self.handle_key_input(input)),
                    None => self.leaving = Some(ExitStatus::Interrupted),
                },
                () = self.ended.wait_for_signal() => self.leaving = Some(ExitStatus::Interrupted),
                _ = self.resized.recv() => {
                    let size = tty::terminal_size();
                    self.screen.set_terminal_size(size);
                    self.view.set_view_width(size.columns);
                }
                Some(news) = self.news.recv() => {
                    self.handle_session_update(news);
                    // Also handle the news that have already arrived, so that all are drawn
                    // together.
                    while let Ok(news) = self.news.try_recv() {
                        self.handle_session_update(news);
                    }
                }
                Some(done) = self.done.recv() => self.handle_server_request_result(done),
                Some(text) = self.written.recv() => {
                    text.trim_end_matches('\n').split('\n').for_each(|line| self.view.add_finished_output_line(line));
                }
                () = wait_until_question_withdrawn(&mut self.question) => self.show_withdrawn_question(),
                () = tokio::time::sleep_until(quiet), if is_quiet_due => {}
                () = sleep_until_or_forever(opens) => {}
                _ = tick.tick() => {}
            }
        }
        Ok(())
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

    fn show_withdrawn_question(&mut self) {
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

    fn draw_screen(&mut self) -> anyhow::Result<()> {
        let finished = match &self.question {
            // Hold back finished lines while a question is open, so that the question does not
            // move.
            Some(question) if question.is_question_drawn() => Vec::new(),
            _ => self.view.take_finished_rows(),
        };
        if let Some(question) = &mut self.question {
            question.enable_keys_if_visible_long_enough(Instant::now());
        }
        let region = self.build_redrawn_screen_rows();
        let drawn = self.screen.draw_region(&finished, region);
        drawn.context("cannot write to the terminal")?;
        if let Some(question) = &mut self.question {
            question.record_question_drawn(Instant::now());
        }
        Ok(())
    }

    fn available_question_space(&self) -> QuestionScreenSize {
        question_screen_size(self.screen.size(), &self.answer)
    }

    fn build_redrawn_screen_rows(&self) -> RedrawnRowsWithCursor {
        let size = self.screen.size();
        let (above, editor, below) = match &self.question {
            Some(question) => (
                question.render_rows(self.available_question_space()),
                &self.answer,
                Vec::new(),
            ),
            None => (
                self.rows_above_editor(),
                &self.editor,
                self.rows_below_editor(),
            ),
        };
        layout_editor_region(size, above, editor, below, self.question.is_some())
    }

    fn rows_above_editor(&self) -> Vec<String> {
        let mut rows = self.view.redrawn_rows();
        rows.push(String::new());
        let width = self
            .screen
            .size()
            .columns
            .saturating_sub(FIRST_EDITOR_ROW_PREFIX.len() + 24);
        for waiting in &self.waiting {
            let text = truncate_to_one_line(&waiting.text, width);
            let what = match waiting.steers {
                Some(_) => "next",
                None => "waits for a worker",
            };
            rows.push(style_text(DIM_STYLE, format_args!("  ↳ {what}: {text}")));
        }
        if !self.asked.is_empty() {
            let words = "  ? a question waits until you stop typing";
            rows.push(style_text(WARNING_STYLE, words));
        }
        rows
    }

    fn rows_below_editor(&self) -> Vec<String> {
        let mut rows = Vec::new();
        if self.is_awaiting_second_ctrl_c() {
            rows.push(style_text(WARNING_STYLE, "Ctrl-C again leaves the session"));
        }
        let state = match (self.is_held, self.is_running) {
            (true, true) => "a worker runs the turn",
            (true, false) => "a worker has the session open",
            (false, true) => "the worker is gone; the next one continues the turn",
            (false, false) => "no turn runs",
        };
        let mut words = vec![format!("session {}", self.session.session.id)];
        words.push(state.to_owned());
        words.extend(format_dollars(self.view.status.cost_usd));
        rows.push(style_text(
            DIM_STYLE,
            truncate_to_one_line(&words.join(" · "), 400),
        ));
        if self.is_running && self.is_held {
            let keys = match self.is_interrupted {
                true => "ending the turn; Ctrl-C again leaves the session",
                false => "Enter steers · Tab sends it as the next input · Ctrl-C ends the turn",
            };
            rows.push(style_text(DIM_STYLE, keys));
        }
        rows
    }

    /// Whether Ctrl-C was pressed on an empty line so recently that pressing it again leaves the
    /// chat.
    fn is_awaiting_second_ctrl_c(&self) -> bool {
        self.quitting
            .is_some_and(|at| at.elapsed() < MAX_EMPTY_LINE_DOUBLE_PRESS_DELAY)
    }

    /// Restores the terminal for the shell. Questions of the session that were not answered here
    /// can still be answered in other programs.
    fn restore_shell_terminal(&mut self) {
        let Some(redirected) = self.redirected.take() else {
            return;
        };
        for (_, withdraw) in self.open.drain() {
            withdraw.cancel();
        }
        (self.question, self.asked) = (None, VecDeque::new());
        let finished = self.view.take_finished_rows();
        // Ignore the error: the terminal may have been closed.
        let _ = self.screen.erase_region(&finished);
        self.tty.leave_raw_mode();
        drop(redirected);
        while let Ok(text) = self.written.try_recv() {
            render::print_stderr_line(text.trim_end_matches('\n'));
        }
    }
}

impl Drop for AttachedChat {
    fn drop(&mut self) {
        self.restore_shell_terminal();
    }
}
