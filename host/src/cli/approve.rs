//! Asking the person at the terminal whether a tool call may run.
//!
//! Questions go through a channel to whoever shows the turn, so that a question comes after what led to it and nothing is
//! written over it.

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::question::{Line, Screen};
use super::render::{BOLD, DIM, PLUGIN, WARN};
use crate::message::EffectClass;
use crate::tool::approval::{ApprovalAnswer, Approver, Question};

/// A question on its way to the terminal.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) answer: oneshot::Sender<ApprovalAnswer>,
}

pub(super) struct TerminalApprover(pub(super) mpsc::UnboundedSender<Asked>);

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let question = question.clone();
            // What nobody receives is dropped, which closes the channel of the answer.
            let _ = self.0.send(Asked { question, answer });
            let nobody = |_| ApprovalAnswer::No("the terminal was closed".to_owned());
            answered.await.unwrap_or_else(nobody)
        })
    }
}

/// Shows a question and reads the answer. What is no answer is asked again; the end of input is a no.
pub(super) async fn ask(question: &Question) -> ApprovalAnswer {
    let answer = screen(question).ask(|line| parse(line, question)).await;
    answer.unwrap_or(ApprovalAnswer::No(String::new()))
}

pub(super) fn screen(question: &Question) -> Screen {
    let tool = |line: Line| {
        let line = line.theirs(BOLD, &question.tool);
        match &question.plugin {
            None => line,
            Some(plugin) => line.own(" of plugin ").theirs(PLUGIN, plugin),
        }
    };
    let head = Line::new("").styled(WARN.bold(), "? ");
    let head = match &question.by {
        None => tool(head).own(" wants to "),
        Some(by) => {
            let head = head.own("plugin ").theirs(PLUGIN, by).own(" calls ");
            tool(head).own(", which wants to ")
        }
    };
    let head = head
        .own(effect(question.effect_class))
        .styled(DIM, &format!(" ({})", question.effect_class));
    let arguments = question
        .arguments
        .iter()
        .map(|shown| Line::new(format!("  {}", shown.mark)).of_block(&shown.text));
    let may = (!question.may.is_empty())
        .then(|| Line::new("  may: ").theirs(DIM, &question.may.join("; ")));
    let reasons = question.reasons.iter().map(|(plugin, why)| {
        Line::new("  ")
            .theirs(PLUGIN, plugin)
            .own(" asks: ")
            .theirs(DIM, why)
    });
    let covers = match &question.covers {
        Ok(covers) => Line::new("  ").own("always covers ").theirs(BOLD, covers),
        Err(why) => Line::new("  ").theirs(DIM, why),
    };
    let keys = if question.covers.is_ok() {
        "[y]es, [a]lways in this session, or [n]o and why"
    } else {
        "[y]es, or [n]o and why"
    };
    Screen {
        parts: vec![
            vec![head],
            arguments.collect(),
            may.into_iter().collect(),
            reasons.collect(),
        ],
        covers: vec![covers],
        keys: keys.to_owned(),
    }
}

/// Parses a line into an answer; `None` when it is not a valid one.
pub(super) fn parse(line: &str, question: &Question) -> Option<ApprovalAnswer> {
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

fn effect(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "read",
        EffectClass::Write => "change files",
        EffectClass::Execute => "run a program",
        EffectClass::External => "reach outside",
    }
}
