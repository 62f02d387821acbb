//! Asks the person at the terminal whether a tool call may run.
//!
//! Questions go through a channel to the task that renders the turn. That task prints a question
//! after the earlier events of the turn, and prints nothing while a question is open.

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::question::{QuestionLine, QuestionScreen, escape_line};
use super::render::call::CallHighlighter;
use super::render::diff::{ComparedTexts, diff_rows};
use super::render::{self, BOLD, DIM, PLUGIN, WARN};
use rind_lib::message::EffectClass;
use rind_lib::point::handle::{PersonAnswer, PersonQuestion};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rind_lib::tool::preview::PreviewLine;
use rind_lib::tool::registry::is_external_origin;

/// A question to ask at the terminal, and the channel for its answer.
pub(super) struct TerminalQuestion {
    pub(super) question: TerminalQuestionKind,
    /// Channel for the answer. Its receiver may have been dropped, and ignores an answer that does
    /// not fit the kind of the question.
    pub(super) answer: oneshot::Sender<TerminalAnswer>,
}

pub(super) enum TerminalQuestionKind {
    /// Whether a tool call may run.
    Call(Question),
    Person(PersonQuestion),
    /// A question of a built-in command.
    Command(CommandQuestion),
}

/// Question of a built-in command, answered with one of `words` or with a word's first letter.
#[derive(Clone, Debug)]
pub(super) struct CommandQuestion {
    pub(super) screen: QuestionScreen,
    pub(super) words: Vec<&'static str>,
}

/// Answer that declines a question of a built-in command.
pub(super) const DECLINED: &str = "no";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TerminalAnswer {
    Call(ApprovalAnswer),
    /// Answer of the person to a plugin's question; `None` after the questions were closed.
    Person(Option<PersonAnswer>),
    /// The chosen word.
    Command(&'static str),
}

impl TerminalAnswer {
    /// Whether the answer is a refusal. A refusal is accepted even before the complete question was
    /// shown.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Call(ApprovalAnswer::No(_))
                | Self::Person(Some(PersonAnswer::Yes(false)))
                | Self::Command(DECLINED)
        )
    }
}

impl TerminalQuestionKind {
    /// Returns the answer to use if the person does not answer. It is a no, or for a question of a
    /// plugin `None`, which means the plugin's default.
    pub(super) fn answer_without_user(&self, why: &str) -> TerminalAnswer {
        match self {
            Self::Call(_) => TerminalAnswer::Call(ApprovalAnswer::No(why.to_owned())),
            Self::Person(_) => TerminalAnswer::Person(None),
            Self::Command(_) => TerminalAnswer::Command(DECLINED),
        }
    }
}

impl TerminalQuestion {
    /// Asks the person, and sends the answer. Stops when `cancel` is set or the receiver of the
    /// answer is dropped.
    pub(super) async fn ask_and_answer(self, cancel: &CancellationToken) {
        let (question, mut answer) = (self.question, self.answer);
        let screen = question_screen(&question);
        tokio::select! {
            given = screen.ask_approval(|line| parse_answer(line, &question), TerminalAnswer::is_refusal) => {
                let _ = answer.send(given.unwrap_or_else(|| question.answer_without_user("")));
            }
            () = cancel.cancelled() => render::say_line(""),
            // The receiver was dropped, because the plugin that made the call was stopped.
            () = answer.closed() => render::say_line("no longer asked"),
        }
    }
}

/// Asks the person at the terminal a question of a built-in command. Returns [`DECLINED`] if there
/// is no answer.
pub(super) async fn ask_command_question(
    asker: &mpsc::UnboundedSender<TerminalQuestion>,
    question: CommandQuestion,
) -> &'static str {
    let (answer, answered) = oneshot::channel();
    let question = TerminalQuestionKind::Command(question);
    let _ = asker.send(TerminalQuestion { question, answer });
    match answered.await {
        Ok(TerminalAnswer::Command(word)) => word,
        _ => DECLINED,
    }
}

pub(super) struct TerminalApprover(pub(super) mpsc::UnboundedSender<TerminalQuestion>);

impl TerminalApprover {
    async fn await_answer(&self, question: TerminalQuestionKind) -> Option<TerminalAnswer> {
        let (answer, answered) = oneshot::channel();
        // Ignore an error: if the receiver was dropped, the question is dropped as well, which
        // closes its answer channel.
        let _ = self.0.send(TerminalQuestion { question, answer });
        answered.await.ok()
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self
                .await_answer(TerminalQuestionKind::Call(question.clone()))
                .await
            {
                Some(TerminalAnswer::Call(answer)) => answer,
                _ => ApprovalAnswer::No("the terminal was closed".to_owned()),
            }
        })
    }

    fn answer<'a>(&'a self, question: &'a PersonQuestion) -> BoxFuture<'a, Option<PersonAnswer>> {
        Box::pin(async move {
            match self
                .await_answer(TerminalQuestionKind::Person(question.clone()))
                .await
            {
                Some(TerminalAnswer::Person(answer)) => answer,
                _ => None,
            }
        })
    }
}

/// Builds the first line of an approval question: the tool, its caller and its effect.
fn build_question_first_line(
    head: QuestionLine,
    by: Option<&str>,
    tool: impl FnOnce(QuestionLine) -> QuestionLine,
    question: &Question,
) -> QuestionLine {
    let head = match by {
        None => tool(head).with_text(" wants to "),
        Some(by) => {
            let head = head
                .with_text("plugin ")
                .with_escaped_text(PLUGIN, by)
                .with_text(" calls ");
            tool(head).with_text(", which wants to ")
        }
    };
    head.with_text(
        match question.plugin.as_deref().is_some_and(is_external_origin) {
            // Only the server of the tool knows the effects of a call.
            true => "run on its server",
            false => effect_class_text(question.effect_class),
        },
    )
    .with_styled_text(DIM, &format!(" ({})", question.effect_class))
}

pub(super) fn question_screen(question: &TerminalQuestionKind) -> QuestionScreen {
    match question {
        TerminalQuestionKind::Call(question) => call_question_screen(question),
        TerminalQuestionKind::Person(question) => super::person::person_question_screen(question),
        TerminalQuestionKind::Command(question) => question.screen.clone(),
    }
}

/// Shows the arguments of a call, colored by their language. If a built-in tool changes an existing
/// file, shows a complete diff with context lines instead of the arguments with the old and the new
/// text.
fn call_question_lines(question: &Question) -> Vec<QuestionLine> {
    let is_built_in = question.plugin.is_none() && question.skill.is_none();
    let mut colors = CallHighlighter::for_shown_lines(&question.arguments);
    let change = question.change.as_deref().filter(|_| is_built_in);
    let is_replaced = |own: &&PreviewLine| change.is_some() && matches!(own.mark, "- " | "+ ");
    let shown = question.arguments.iter().filter(|own| !is_replaced(own));
    let mut lines: Vec<QuestionLine> = shown
        .map(|own| {
            let pieces = colors.pieces(own.mark, &escape_line(&own.text));
            QuestionLine::new(format!("  {}", own.mark)).with_escaped_pieces(pieces)
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
            lines.push(QuestionLine::new("").with_styled_text(DIM, words));
        }
        let rows = rows.into_iter();
        lines
            .extend(rows.map(|row| QuestionLine::new("  ").with_escaped_pieces(row.into_pieces())));
    }
    lines
}

fn call_question_screen(question: &Question) -> QuestionScreen {
    let tool = |line: QuestionLine| {
        let line = line.with_escaped_text(BOLD, &question.tool);
        match &question.plugin {
            None => line,
            // The name of a tool source that is not a plugin begins with its kind, as in
            // `mcp:docs`.
            Some(source) if is_external_origin(source) => {
                line.with_text(" of ").with_escaped_text(PLUGIN, source)
            }
            Some(plugin) => line
                .with_text(" of plugin ")
                .with_escaped_text(PLUGIN, plugin),
        }
    };
    let head = QuestionLine::new("").with_styled_text(WARN.bold(), "? ");
    let head = match (&question.skill, &question.by) {
        (Some(skill), by) => {
            let head = match by {
                None => head.with_text("use the skill "),
                Some(by) => head
                    .with_text("plugin ")
                    .with_escaped_text(PLUGIN, by)
                    .with_text(" wants to use the skill "),
            };
            head.with_escaped_text(BOLD, skill)
        }
        (None, by) => build_question_first_line(head, by.as_deref(), tool, question),
    };
    let arguments = call_question_lines(question);
    let may = (!question.may.is_empty())
        .then(|| QuestionLine::new("  may: ").with_escaped_text(DIM, &question.may.join("; ")));
    let reasons = question.reasons.iter().map(|(plugin, why)| {
        QuestionLine::new("  ")
            .with_escaped_text(PLUGIN, plugin)
            .with_text(" asks: ")
            .with_escaped_text(DIM, why)
    });
    let covers = match &question.covers {
        Ok(covers) => QuestionLine::new("  ")
            .with_text("always covers ")
            .with_escaped_text(BOLD, covers),
        // The reason may contain the name of a program from the call, so escape it.
        Err(why) => QuestionLine::new("  ").with_escaped_text(DIM, why),
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

/// Parses a line as an answer to the question; `None` if the line is no valid answer.
pub(super) fn parse_answer(line: &str, question: &TerminalQuestionKind) -> Option<TerminalAnswer> {
    match question {
        TerminalQuestionKind::Call(question) => {
            parse_call_answer(line, question).map(TerminalAnswer::Call)
        }
        TerminalQuestionKind::Person(question) => {
            let answer = super::person::parse_answer(line, &question.kind)?;
            Some(TerminalAnswer::Person(Some(answer)))
        }
        TerminalQuestionKind::Command(question) => parse_word_answer(line, &question.words),
    }
}

/// Parses a line as one of `words`, or as the first letter of one; `None` if it matches none.
pub(super) fn parse_word_answer(line: &str, words: &[&'static str]) -> Option<TerminalAnswer> {
    let line = line.trim().to_lowercase();
    let is_it = |word: &&'static str| line == *word || word.get(..1) == Some(&*line);
    words
        .iter()
        .copied()
        .find(is_it)
        .map(TerminalAnswer::Command)
}

fn parse_call_answer(line: &str, question: &Question) -> Option<ApprovalAnswer> {
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

fn effect_class_text(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "read",
        EffectClass::Write => "change files",
        EffectClass::Execute => "run a program",
        EffectClass::External => "reach outside",
    }
}
