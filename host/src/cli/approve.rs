//! Asking the person at the terminal whether a tool call may run.
//!
//! Questions go through a channel to whoever shows the turn, so that a question comes after what led to it and nothing is
//! written over it.

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::render::{self, BOLD, DIM, PLUGIN, WARN, say, styled};
use crate::tool::approval::{Answer, Approver, Question};

/// A question on its way to the terminal.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Passes questions on.
pub(super) struct TerminalApprover(pub(super) mpsc::UnboundedSender<Asked>);

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let nobody = || Answer::No("nobody is at the terminal any more".to_owned());
            if self
                .0
                .send(Asked {
                    question: question.clone(),
                    answer,
                })
                .is_err()
            {
                return nobody();
            }
            answered.await.unwrap_or_else(|_| nobody())
        })
    }
}

/// Shows a question and reads the answer. Anything but a clear yes is a no; the end of input is a no.
pub(super) async fn ask(question: &Question) -> Answer {
    let of = question
        .plugin
        .as_deref()
        .map(|plugin| format!(" of plugin {}", styled(PLUGIN, plugin)))
        .unwrap_or_default();
    let tool = styled(BOLD, &question.tool);
    let who = match &question.by {
        None => format!("{tool}{of} wants"),
        Some(by) => format!(
            "plugin {} calls {tool}{of}, which wants",
            styled(PLUGIN, by)
        ),
    };
    say(format_args!(
        "{} {who} to {} {}",
        styled(WARN.bold(), "?"),
        effect(question),
        styled(DIM, format_args!("({})", question.effect_class)),
    ));
    for line in question.arguments.lines() {
        say(format_args!("  {line}"));
    }
    if !question.may.is_empty() {
        say(format_args!("  may: {}", question.may.join("; ")));
    }
    for (plugin, why) in &question.reasons {
        say(format_args!("  {} asks: {why}", styled(PLUGIN, plugin)));
    }
    render::put("  [y]es, [a]lways in this session, or [n]o and why: ");
    let line = read_line().await.unwrap_or_default();
    let line = line.trim();
    match line.to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "a" | "always" => Answer::Always,
        "" | "n" | "no" => Answer::No(String::new()),
        _ => Answer::No(
            line.strip_prefix("no ")
                .or(line.strip_prefix("n "))
                .unwrap_or(line)
                .trim()
                .to_owned(),
        ),
    }
}

fn effect(question: &Question) -> &'static str {
    use crate::message::EffectClass;
    match question.effect_class {
        EffectClass::Read => "read",
        EffectClass::Write => "change files",
        EffectClass::Execute => "run a program",
        EffectClass::External => "reach outside",
    }
}

/// Reads one line on a thread of its own: a read from a terminal cannot be called off, and must not hold up the exit.
pub(super) async fn read_line() -> Option<String> {
    let (done, line) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        let _ = done.send(read.ok().filter(|n| *n > 0).map(|_| line));
    });
    line.await.ok().flatten()
}
