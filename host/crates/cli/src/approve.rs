//! Asks the person at the terminal whether a tool call may run.
//!
//! Questions go through a channel to the task that renders the turn. That task prints a question
//! after the earlier events of the turn, and prints nothing while a question is open.

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::question::{QuestionScreenContent, TerminalQuestionLine, escape_untrusted_line};
use super::render::call::ToolCallPreviewHighlighter;
use super::render::diff::{TextsToDiff, compute_diff_rows};
use super::render::{self, BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE};
use rind_lib::message::EffectClass;
use rind_lib::point::handle::{PluginUserQuestion, UserAnswerToPlugin};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rind_lib::tool::preview::FileChangePreviewLine;
use rind_lib::tool::registry::is_external_tool_origin;

/// A question to ask at the terminal, and the channel for its answer.
pub(super) struct TerminalQuestion {
    pub(super) question: TerminalQuestionKind,
    /// Channel for the answer. Its receiver may have been dropped, and ignores an answer that does
    /// not fit the kind of the question.
    pub(super) answer: oneshot::Sender<TerminalAnswer>,
}

pub(super) enum TerminalQuestionKind {
    /// Question whether a tool call may run.
    Call(Question),
    Person(PluginUserQuestion),
    /// Question of a built-in slash command.
    Command(BuiltInCommandQuestion),
}

/// Question of a built-in command, answered with one of `words` or with a word's first letter.
#[derive(Clone, Debug)]
pub(super) struct BuiltInCommandQuestion {
    pub(super) screen: QuestionScreenContent,
    pub(super) words: Vec<&'static str>,
}

/// Answer that means no to a question of a built-in slash command.
pub(super) const DECLINE_ANSWER: &str = "no";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TerminalAnswer {
    Call(ApprovalAnswer),
    /// Answer of the person to a plugin's question; `None` after the questions were closed.
    Person(Option<UserAnswerToPlugin>),
    /// Word that the person chose as the answer to a built-in command's question.
    Command(&'static str),
}

impl TerminalAnswer {
    /// Whether the answer is a refusal. A refusal is accepted even before the complete question was
    /// shown.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Call(ApprovalAnswer::No(_))
                | Self::Person(Some(UserAnswerToPlugin::Yes(false)))
                | Self::Command(DECLINE_ANSWER)
        )
    }
}

impl TerminalQuestionKind {
    /// Returns the answer to use if the person does not answer. It is a no, or for a question of a
    /// plugin `None`, which means the plugin's default.
    pub(super) fn fallback_answer(&self, why: &str) -> TerminalAnswer {
        match self {
            Self::Call(_) => TerminalAnswer::Call(ApprovalAnswer::No(why.to_owned())),
            Self::Person(_) => TerminalAnswer::Person(None),
            Self::Command(_) => TerminalAnswer::Command(DECLINE_ANSWER),
        }
    }
}

impl TerminalQuestion {
    /// Asks the person, and sends the answer. Stops when `cancel` is set or the receiver of the
    /// answer is dropped.
    pub(super) async fn ask_and_answer(self, cancel: &CancellationToken) {
        let (question, mut answer) = (self.question, self.answer);
        let screen = build_terminal_question_screen(&question);
        tokio::select! {
            given = screen.ask_approval(|line| parse_answer(line, &question), TerminalAnswer::is_refusal) => {
                let _ = answer.send(given.unwrap_or_else(|| question.fallback_answer("")));
            }
            () = cancel.cancelled() => render::print_stderr_line(""),
            // The receiver was dropped, because the plugin that made the call was stopped.
            () = answer.closed() => render::print_stderr_line("no longer asked"),
        }
    }
}

/// Asks the person at the terminal a question of a built-in command. Returns [`DECLINE_ANSWER`] if
/// there is no answer.
pub(super) async fn ask_built_in_command_question(
    asker: &mpsc::UnboundedSender<TerminalQuestion>,
    question: BuiltInCommandQuestion,
) -> &'static str {
    let (answer, answered) = oneshot::channel();
    let question = TerminalQuestionKind::Command(question);
    let _ = asker.send(TerminalQuestion { question, answer });
    match answered.await {
        Ok(TerminalAnswer::Command(word)) => word,
        _ => DECLINE_ANSWER,
    }
}

pub(super) struct TerminalApprover(pub(super) mpsc::UnboundedSender<TerminalQuestion>);

impl TerminalApprover {
    async fn ask_and_await_answer(&self, question: TerminalQuestionKind) -> Option<TerminalAnswer> {
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
                .ask_and_await_answer(TerminalQuestionKind::Call(question.clone()))
                .await
            {
                Some(TerminalAnswer::Call(answer)) => answer,
                _ => ApprovalAnswer::No("the terminal was closed".to_owned()),
            }
        })
    }

    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        Box::pin(async move {
            match self
                .ask_and_await_answer(TerminalQuestionKind::Person(question.clone()))
                .await
            {
                Some(TerminalAnswer::Person(answer)) => answer,
                _ => None,
            }
        })
    }
}

/// Builds the first line of an approval question: the tool, its caller and its effect.
fn build_approval_question_first_line(
    head: TerminalQuestionLine,
    by: Option<&str>,
    tool: impl FnOnce(TerminalQuestionLine) -> TerminalQuestionLine,
    question: &Question,
) -> TerminalQuestionLine {
    let head = match by {
        None => tool(head).with_text(" wants to "),
        Some(by) => {
            let head = head
                .with_text("plugin ")
                .with_escaped_text(PLUGIN_NAME_STYLE, by)
                .with_text(" calls ");
            tool(head).with_text(", which wants to ")
        }
    };
    head.with_text(
        match question
            .plugin
            .as_deref()
            .is_some_and(is_external_tool_origin)
        {
            // Only the server of the tool knows the effects of a call.
            true => "run on its server",
            false => describe_tool_effect(question.effect_class),
        },
    )
    .with_styled_text(DIM_STYLE, &format!(" ({})", question.effect_class))
}

pub(super) fn build_terminal_question_screen(
    question: &TerminalQuestionKind,
) -> QuestionScreenContent {
    match question {
        TerminalQuestionKind::Call(question) => tool_call_approval_screen(question),
        TerminalQuestionKind::Person(question) => {
            super::person::plugin_user_question_screen(question)
        }
        TerminalQuestionKind::Command(question) => question.screen.clone(),
    }
}

/// Shows the arguments of a call, colored by their language. If a built-in tool changes an existing
/// file, shows a complete diff with context lines instead of the arguments with the old and the new
/// text.
fn tool_call_argument_lines(question: &Question) -> Vec<TerminalQuestionLine> {
    let is_built_in = question.plugin.is_none() && question.skill.is_none();
    let mut colors = ToolCallPreviewHighlighter::for_preview_lines(&question.arguments);
    let change = question.change.as_deref().filter(|_| is_built_in);
    let is_replaced =
        |own: &&FileChangePreviewLine| change.is_some() && matches!(own.mark, "- " | "+ ");
    let shown = question.arguments.iter().filter(|own| !is_replaced(own));
    let mut lines: Vec<TerminalQuestionLine> = shown
        .map(|own| {
            let pieces = colors.highlight_next_line(own.mark, &escape_untrusted_line(&own.text));
            TerminalQuestionLine::new(format!("  {}", own.mark)).with_escaped_pieces(pieces)
        })
        .collect();
    if let Some(change) = change {
        let texts = TextsToDiff {
            path: &change.path,
            before: &change.before,
            after: &change.after,
            escape: escape_untrusted_line,
        };
        let (rows, _) = compute_diff_rows(texts, usize::MAX);
        if rows.is_empty() {
            let words = "  the file stays as it is";
            lines.push(TerminalQuestionLine::new("").with_styled_text(DIM_STYLE, words));
        }
        let rows = rows.into_iter();
        lines.extend(
            rows.map(|row| TerminalQuestionLine::new("  ").with_escaped_pieces(row.into_pieces())),
        );
    }
    lines
}

fn tool_call_approval_screen(question: &Question) -> QuestionScreenContent {
    let tool = |line: TerminalQuestionLine| {
        let line = line.with_escaped_text(BOLD_STYLE, &question.tool);
        match &question.plugin {
            None => line,
            // The name of a tool source that is not a plugin begins with its kind, as in
            // `mcp:docs`.
            Some(source) if is_external_tool_origin(source) => line
                .with_text(" of ")
                .with_escaped_text(PLUGIN_NAME_STYLE, source),
            Some(plugin) => line
                .with_text(" of plugin ")
                .with_escaped_text(PLUGIN_NAME_STYLE, plugin),
        }
    };
    let head = TerminalQuestionLine::new("").with_styled_text(WARNING_STYLE.bold(), "? ");
    let head = match (&question.skill, &question.by) {
        (Some(skill), by) => {
            let head = match by {
                None => head.with_text("use the skill "),
                Some(by) => head
                    .with_text("plugin ")
                    .with_escaped_text(PLUGIN_NAME_STYLE, by)
                    .with_text(" wants to use the skill "),
            };
            head.with_escaped_text(BOLD_STYLE, skill)
        }
        (None, by) => build_approval_question_first_line(head, by.as_deref(), tool, question),
    };
    let arguments = tool_call_argument_lines(question);
    let may = (!question.may.is_empty()).then(|| {
        TerminalQuestionLine::new("  may: ").with_escaped_text(DIM_STYLE, &question.may.join("; "))
    });
    let reasons = question.reasons.iter().map(|(plugin, why)| {
        TerminalQuestionLine::new("  ")
            .with_escaped_text(PLUGIN_NAME_STYLE, plugin)
            .with_text(" asks: ")
            .with_escaped_text(DIM_STYLE, why)
    });
    let covers = match &question.covers {
        Ok(covers) => TerminalQuestionLine::new("  ")
            .with_text("always covers ")
            .with_escaped_text(BOLD_STYLE, covers),
        // The reason may contain the name of a program from the call, so escape it.
        Err(why) => TerminalQuestionLine::new("  ").with_escaped_text(DIM_STYLE, why),
    };
    let keys = if question.covers.is_ok() {
        "[y]es, [a]lways in this session, or [n]o and why"
    } else {
        "[y]es, or [n]o and why"
    };
    QuestionScreenContent {
        parts: vec![
            vec![head],
            arguments,
            may.into_iter().collect(),
            reasons.collect(),
        ],
        covers: vec![covers],
        keys: keys.to_owned(),
        ..QuestionScreenContent::default()
    }
}

/// Parses a line as an answer to the question; `None` if the line is no valid answer.
pub(super) fn parse_answer(line: &str, question: &TerminalQuestionKind) -> Option<TerminalAnswer> {
    match question {
        TerminalQuestionKind::Call(question) => {
            parse_call_approval_answer(line, question).map(TerminalAnswer::Call)
        }
        TerminalQuestionKind::Person(question) => {
            let answer = super::person::parse_plugin_user_answer(line, &question.kind)?;
            Some(TerminalAnswer::Person(Some(answer)))
        }
        TerminalQuestionKind::Command(question) => {
            parse_word_or_first_letter(line, &question.words)
        }
    }
}

/// Parses a line as one of `words`, or as the first letter of one; `None` if it matches none.
pub(super) fn parse_word_or_first_letter(
    line: &str,
    words: &[&'static str],
) -> Option<TerminalAnswer> {
    let line = line.trim().to_lowercase();
    let is_it = |word: &&'static str| line == *word || word.get(..1) == Some(&*line);
    words
        .iter()
        .copied()
        .find(is_it)
        .map(TerminalAnswer::Command)
}

fn parse_call_approval_answer(line: &str, question: &Question) -> Option<ApprovalAnswer> {
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

fn describe_tool_effect(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "read",
        EffectClass::Write => "change files",
        EffectClass::Execute => "run a program",
        EffectClass::External => "reach outside",
    }
}
