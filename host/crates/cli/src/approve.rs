//! Asks the person at the terminal whether a tool call may run.
//!
//! Questions go through a channel to the task that renders the turn. That task prints a question
//! after the events that led to it, and prints nothing over an open question.

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::question::{QuestionLine, QuestionScreen, escape_line};
use super::render::call::CallColors;
use super::render::diff::{ComparedTexts, diff_rows};
use super::render::{self, BOLD, DIM, PLUGIN, WARN};
use rind_lib::message::EffectClass;
use rind_lib::point::handle::{PersonAnswer, PersonQuestion};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rind_lib::tool::preview::ShownLine;
use rind_lib::tool::registry::is_source;

/// A question for the terminal, and the channel for its answer.
pub(super) struct TerminalQuestion {
    pub(super) question: AskedQuestion,
    /// Channel for the answer. Its receiver may have been dropped, and ignores an answer to another
    /// kind of question.
    pub(super) answer: oneshot::Sender<AskedAnswer>,
}

pub(super) enum AskedQuestion {
    /// Whether a tool call may run.
    Call(Question),
    Person(PersonQuestion),
    /// A question of a built-in command.
    Command(CommandQuestion),
}

/// Question of a built-in command, answered with one of `words` or the first letter of one.
#[derive(Clone, Debug)]
pub(super) struct CommandQuestion {
    pub(super) screen: QuestionScreen,
    pub(super) words: Vec<&'static str>,
}

/// Word that declines a question of a built-in command.
pub(super) const NO: &str = "no";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AskedAnswer {
    Call(ApprovalAnswer),
    /// Answer of the person to a plugin's question; `None` after the questions were closed.
    Person(Option<PersonAnswer>),
    /// The chosen word.
    Command(&'static str),
}

impl AskedAnswer {
    /// Whether the answer refuses, so that it is accepted even before the complete question was
    /// shown.
    pub(super) fn is_no(&self) -> bool {
        matches!(
            self,
            Self::Call(ApprovalAnswer::No(_))
                | Self::Person(Some(PersonAnswer::Yes(false)))
                | Self::Command(NO)
        )
    }
}

impl AskedQuestion {
    /// Returns the answer in place of a person who does not answer: a no, or for a question of a
    /// plugin `None`, which stands for the plugin's default.
    pub(super) fn unanswered_reply(&self, why: &str) -> AskedAnswer {
        match self {
            Self::Call(_) => AskedAnswer::Call(ApprovalAnswer::No(why.to_owned())),
            Self::Person(_) => AskedAnswer::Person(None),
            Self::Command(_) => AskedAnswer::Command(NO),
        }
    }
}

impl TerminalQuestion {
    /// Asks the person, and sends the answer. Stops when `cancel` is set or the receiver of the
    /// answer is dropped.
    pub(super) async fn put_question(self, cancel: &CancellationToken) {
        let (question, mut answer) = (self.question, self.answer);
        let screen = question_screen(&question);
        tokio::select! {
            given = screen.ask_approval(|line| parse_answer(line, &question), AskedAnswer::is_no) => {
                let _ = answer.send(given.unwrap_or_else(|| question.unanswered_reply("")));
            }
            () = cancel.cancelled() => render::say_line(""),
            // The receiver was dropped: the plugin that made the call was stopped.
            () = answer.closed() => render::say_line("no longer asked"),
        }
    }
}

/// Asks the person at the terminal a question of a built-in command. Returns [`NO`] if there is no
/// answer.
pub(super) async fn ask_command_question(
    asker: &mpsc::UnboundedSender<TerminalQuestion>,
    question: CommandQuestion,
) -> &'static str {
    let (answer, answered) = oneshot::channel();
    let question = AskedQuestion::Command(question);
    let _ = asker.send(TerminalQuestion { question, answer });
    match answered.await {
        Ok(AskedAnswer::Command(word)) => word,
        _ => NO,
    }
}

pub(super) struct TerminalApprover(pub(super) mpsc::UnboundedSender<TerminalQuestion>);

impl TerminalApprover {
    async fn await_answer(&self, question: AskedQuestion) -> Option<AskedAnswer> {
        let (answer, answered) = oneshot::channel();
        // If the receiver is gone, the question is dropped, which closes its answer channel.
        let _ = self.0.send(TerminalQuestion { question, answer });
        answered.await.ok()
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self
                .await_answer(AskedQuestion::Call(question.clone()))
                .await
            {
                Some(AskedAnswer::Call(answer)) => answer,
                _ => ApprovalAnswer::No("the terminal was closed".to_owned()),
            }
        })
    }

    fn answer<'a>(&'a self, question: &'a PersonQuestion) -> BoxFuture<'a, Option<PersonAnswer>> {
        Box::pin(async move {
            match self
                .await_answer(AskedQuestion::Person(question.clone()))
                .await
            {
                Some(AskedAnswer::Person(answer)) => answer,
                _ => None,
            }
        })
    }
}

/// Builds the first line of a question: the tool, its caller and its effect.
fn call_head(
    head: QuestionLine,
    by: Option<&str>,
    tool: impl FnOnce(QuestionLine) -> QuestionLine,
    question: &Question,
) -> QuestionLine {
    let head = match by {
        None => tool(head).own_words(" wants to "),
        Some(by) => {
            let head = head
                .own_words("plugin ")
                .their_words(PLUGIN, by)
                .own_words(" calls ");
            tool(head).own_words(", which wants to ")
        }
    };
    head.own_words(match question.plugin.as_deref().is_some_and(is_source) {
        // Only the server of the tool knows the effects of a call.
        true => "run on its server",
        false => effect_text(question.effect_class),
    })
    .styled_words(DIM, &format!(" ({})", question.effect_class))
}

pub(super) fn question_screen(question: &AskedQuestion) -> QuestionScreen {
    match question {
        AskedQuestion::Call(question) => screen_of_call(question),
        AskedQuestion::Person(question) => super::person::person_screen(question),
        AskedQuestion::Command(question) => question.screen.clone(),
    }
}

/// Shows the arguments of a call, colored by their language. If a built-in tool changes an existing
/// file, a complete diff with context lines replaces the arguments with the old and the new text.
fn call_lines(question: &Question) -> Vec<QuestionLine> {
    let is_built_in = question.plugin.is_none() && question.skill.is_none();
    let mut colors = CallColors::of_lines(&question.arguments);
    let change = question.change.as_deref().filter(|_| is_built_in);
    let is_replaced = |own: &&ShownLine| change.is_some() && matches!(own.mark, "- " | "+ ");
    let shown = question.arguments.iter().filter(|own| !is_replaced(own));
    let mut lines: Vec<QuestionLine> = shown
        .map(|own| {
            let pieces = colors.pieces(own.mark, &escape_line(&own.text));
            QuestionLine::new(format!("  {}", own.mark)).escaped_pieces(pieces)
        })
        .collect();
    if let Some(change) = change {
        let texts = ComparedTexts {
            path: &change.path,
            before: &change.before,
            after: &change.after,
            escape: escape_line,
        };
        let (rows, _) = diff_rows(texts, usize::MAX);
        if rows.is_empty() {
            let words = "  the file stays as it is";
            lines.push(QuestionLine::new("").styled_words(DIM, words));
        }
        let rows = rows.into_iter();
        lines.extend(rows.map(|row| QuestionLine::new("  ").escaped_pieces(row.into_pieces())));
    }
    lines
}

fn screen_of_call(question: &Question) -> QuestionScreen {
    let tool = |line: QuestionLine| {
        let line = line.their_words(BOLD, &question.tool);
        match &question.plugin {
            None => line,
            // The name of a tool source that is not a plugin begins with its kind, as in
            // `mcp:docs`.
            Some(source) if is_source(source) => line.own_words(" of ").their_words(PLUGIN, source),
            Some(plugin) => line.own_words(" of plugin ").their_words(PLUGIN, plugin),
        }
    };
    let head = QuestionLine::new("").styled_words(WARN.bold(), "? ");
    let head = match (&question.skill, &question.by) {
        (Some(skill), by) => {
            let head = match by {
                None => head.own_words("use the skill "),
                Some(by) => head
                    .own_words("plugin ")
                    .their_words(PLUGIN, by)
                    .own_words(" wants to use the skill "),
            };
            head.their_words(BOLD, skill)
        }
        (None, by) => call_head(head, by.as_deref(), tool, question),
    };
    let arguments = call_lines(question);
    let may = (!question.may.is_empty())
        .then(|| QuestionLine::new("  may: ").their_words(DIM, &question.may.join("; ")));
    let reasons = question.reasons.iter().map(|(plugin, why)| {
        QuestionLine::new("  ")
            .their_words(PLUGIN, plugin)
            .own_words(" asks: ")
            .their_words(DIM, why)
    });
    let covers = match &question.covers {
        Ok(covers) => QuestionLine::new("  ")
            .own_words("always covers ")
            .their_words(BOLD, covers),
        // The reason may contain the name of a program from the call, so escape it.
        Err(why) => QuestionLine::new("  ").their_words(DIM, why),
    };
    let keys = if question.covers.is_ok() {
        "[y]es, [a]lways in this session, or [n]o and why"
    } else {
        "[y]es, or [n]o and why"
    };
    QuestionScreen {
        parts: vec![
            vec![head],
            arguments,
            may.into_iter().collect(),
            reasons.collect(),
        ],
        covers: vec![covers],
        keys: keys.to_owned(),
        ..QuestionScreen::default()
    }
}

/// Parses a line into an answer; `None` when it is not a valid one.
pub(super) fn parse_answer(line: &str, question: &AskedQuestion) -> Option<AskedAnswer> {
    match question {
        AskedQuestion::Call(question) => parse_of_call(line, question).map(AskedAnswer::Call),
        AskedQuestion::Person(question) => {
            let answer = super::person::parse_answer(line, &question.kind)?;
            Some(AskedAnswer::Person(Some(answer)))
        }
        AskedQuestion::Command(question) => parse_own(line, &question.words),
    }
}

/// Parses a line as one of these words; `None` if it matches none.
pub(super) fn parse_own(line: &str, words: &[&'static str]) -> Option<AskedAnswer> {
    let line = line.trim().to_lowercase();
    let is_it = |word: &&'static str| line == *word || word.get(..1) == Some(&*line);
    words.iter().copied().find(is_it).map(AskedAnswer::Command)
}

fn parse_of_call(line: &str, question: &Question) -> Option<ApprovalAnswer> {
    let (word, rest) = line
        .split_once(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | ';'))
        .unwrap_or((line, ""));
    match (word.to_lowercase().as_str(), rest.trim()) {
        ("y" | "yes", "") => Some(ApprovalAnswer::Yes),
        ("a" | "always", "") => question.covers.is_ok().then_some(ApprovalAnswer::Always),
        ("n" | "no", why) => Some(ApprovalAnswer::No(why.to_owned())),
        _ => None,
    }
}

fn effect_text(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "read",
        EffectClass::Write => "change files",
        EffectClass::Execute => "run a program",
        EffectClass::External => "reach outside",
    }
}
