//! Asking a person whether one tool call may run.
//!
//! Who is asked, and how, is the approver's; this module must not know terminals. Permission to ask must not exist in
//! subagents: they get [`DenyAll`]. Start from [`Approver`].

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::preview::preview;
use crate::message::{EffectClass, ToolSpec};
use crate::point::dispatch::Said;
use crate::text::printable;

/// Longest reason of a hook that is shown.
const REASON_CAP_BYTES: usize = 500;

/// One tool call that somebody is to say yes or no to. Every text in it may be shown on a terminal as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name of the tool.
    pub tool: String,
    /// What it may do.
    pub effect_class: EffectClass,
    /// Name of the plugin the tool is from; `None` for a built-in tool.
    pub plugin: Option<String>,
    /// Name of the plugin that makes the call; `None` is the model.
    pub by: Option<String>,
    /// What the plugin that the tool is from may do, in plain words.
    pub may: Vec<String>,
    /// What the call would do, for people; cut when long.
    pub arguments: String,
    /// Plugins whose hooks asked for approval, and why; empty when only the policy asks.
    pub reasons: Vec<(String, String)>,
    /// Identity of exactly this tool: its name, plugin, description and schema, and who calls it.
    key: [u8; 32],
}

impl Question {
    /// A question about a call with these final arguments. `reasons` is what the hooks that asked said.
    #[must_use]
    pub fn new(spec: &ToolSpec, arguments: &Value, reasons: &[Said]) -> Self {
        Self {
            tool: printable(&spec.name),
            effect_class: spec.effect_class,
            plugin: spec.plugin.as_deref().map(printable),
            by: None,
            may: Vec::new(),
            arguments: preview(spec, arguments),
            reasons: reasons
                .iter()
                .map(|Said { plugin, text }| {
                    let end = text.floor_char_boundary(REASON_CAP_BYTES.min(text.len()));
                    (printable(plugin), printable(&text[..end]))
                })
                .collect(),
            key: key_of(spec),
        }
    }

    /// The same question with what the tool's plugin may do.
    #[must_use]
    pub fn may(mut self, may: &[String]) -> Self {
        self.may = may.iter().map(|words| printable(words)).collect();
        self
    }

    /// The same question about a call that a plugin makes. Whoever said always to the model did not say so to the plugin.
    #[must_use]
    pub fn made_by(mut self, plugin: &str) -> Self {
        self.key = *blake3::keyed_hash(&self.key, plugin.as_bytes()).as_bytes();
        self.by = Some(printable(plugin));
        self
    }
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This call may run.
    Yes,
    /// It may not; the text is told to the model.
    No(String),
    /// It may, and so may later calls of exactly this tool in this session.
    Always,
}

/// Somebody who can be asked.
pub trait Approver: Send + Sync {
    /// Asks and waits for the answer, as long as that takes; the caller drops the future when the turn is cancelled. Called
    /// once for each call that needs approval, one at a time within an agent. What cannot be asked is a no.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer>;
}

/// Says no to everything, with this reason.
#[derive(Clone, Debug)]
pub struct DenyAll(pub String);

impl Approver for DenyAll {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Answer> {
        async { Answer::No(self.0.clone()) }.boxed()
    }
}

/// Says yes to everything.
#[derive(Clone, Copy, Debug)]
pub struct AllowAll;

impl Approver for AllowAll {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Answer> {
        async { Answer::Yes }.boxed()
    }
}

/// The tools that were answered with [`Answer::Always`] in this session. A tool whose description or schema changed is
/// another tool.
#[derive(Debug, Default)]
pub struct SessionApprovals {
    always: Mutex<HashSet<[u8; 32]>>,
    /// Held while somebody is asked: plugins may make calls side by side.
    asking: tokio::sync::Mutex<()>,
}

impl SessionApprovals {
    /// Asks unless the tool was answered with [`Answer::Always`] before. What a hook asks for is about this very call and is
    /// always asked.
    pub async fn ask(&self, approver: &dyn Approver, question: &Question) -> Answer {
        let _one_at_a_time = self.asking.lock().await;
        if question.reasons.is_empty() && self.lock().contains(&question.key) {
            return Answer::Always;
        }
        let answer = approver.ask(question).await;
        if answer == Answer::Always {
            self.lock().insert(question.key);
        }
        answer
    }

    /// Forgets all answers.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 32]>> {
        // Nothing can panic while the lock is held; a set of keys is whole anyway.
        self.always.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(spec: &ToolSpec) -> [u8; 32] {
    // As JSON, so that no two specs run together into the same bytes.
    let json = serde_json::json!([
        spec.plugin,
        spec.name,
        spec.description,
        spec.parameters,
        spec.effect_class
    ]);
    *blake3::hash(json.to_string().as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Once(Mutex<Vec<Answer>>);

    impl Approver for Once {
        fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Answer> {
            let answer = self.0.lock().ok().and_then(|mut answers| answers.pop());
            async { answer.unwrap_or(Answer::No("asked again".to_owned())) }.boxed()
        }
    }

    fn spec(name: &str, description: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({}),
            effect_class: EffectClass::Write,
            plugin: None,
        }
    }

    #[tokio::test]
    async fn always_is_remembered_for_exactly_this_tool() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![Answer::Always]));
        let ask = |spec: ToolSpec| {
            let question = Question::new(&spec, &json!({}), &[]);
            let (approvals, approver) = (&approvals, &approver);
            async move { approvals.ask(approver, &question).await }
        };
        assert_eq!(ask(spec("t", "d")).await, Answer::Always);
        assert_eq!(ask(spec("t", "d")).await, Answer::Always);
        assert!(matches!(ask(spec("u", "d")).await, Answer::No(_)));
        assert!(matches!(ask(spec("t", "changed")).await, Answer::No(_)));
    }

    #[tokio::test]
    async fn what_a_hook_asks_is_asked_even_after_always() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![Answer::Always]));
        let plain = Question::new(&spec("t", "d"), &json!({}), &[]);
        assert_eq!(approvals.ask(&approver, &plain).await, Answer::Always);
        let reasons = [Said {
            plugin: "guard".into(),
            text: "looks\u{1b} odd".to_owned(),
        }];
        let asked = Question::new(&spec("t", "d"), &json!({}), &reasons);
        assert_eq!(asked.reasons[0].1, "looks\\u{1b} odd");
        assert!(matches!(
            approvals.ask(&approver, &asked).await,
            Answer::No(_)
        ));
    }
}
