//! Asking the operator about a plugin.
//!
//! Who is asked, and how, is the asker's; this module must not know terminals. Nothing that a plugin or the model can call
//! leads here.

use futures_util::future::BoxFuture;

use super::answers::{Answers, GrantAnswer, Lasting};
use super::decide::{Decision, GrantFlag, Known, Standing};
use super::policy::Policy;
use super::{Capability, Request};

/// A plugin that waits for an answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Request of the plugin.
    pub request: Request,
    /// Decision so far; undecided permissions are asked about.
    pub decision: Decision,
    /// The last answer for a plugin of this name from this place, when it was for other bytes or another request.
    pub earlier: Option<GrantAnswer>,
}

/// Lifetime of a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yes {
    /// Lasts for this run.
    Once,
    /// Lasts for this session, however often it is resumed.
    Session,
    /// Lasts until the plugin or its request changes.
    Always,
}

/// An operator who can be asked.
pub trait Ask: Send + Sync {
    /// Asks, and waits for the answer as long as it takes. `None` is a no.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Yes>>;
}

/// A yes that is to be kept.
#[derive(Clone, Debug)]
pub struct Given {
    /// Request that was answered.
    pub request: Request,
    /// The capabilities that were asked about.
    pub capabilities: Vec<Capability>,
    /// Lifetime of the yes.
    pub yes: Yes,
    /// Whether a hook of the plugin refuses when it fails.
    pub is_guard: bool,
}

impl Given {
    /// The answer to be remembered, if there is one. `session` is the id of the session that the plugin runs in.
    #[must_use]
    pub fn answer(&self, session: &str, now: String) -> Option<GrantAnswer> {
        let lasting = match self.yes {
            Yes::Once => return None,
            Yes::Session => Lasting::Session(session.to_owned()),
            Yes::Always => Lasting::Always,
        };
        let request = &self.request;
        Some(GrantAnswer {
            plugin: request.plugin.clone(),
            version: request.version.clone(),
            trust: request.trust,
            source: request.source.clone(),
            digest: request.digest.clone(),
            content: request.content(),
            pin: request.pin().as_str().to_owned(),
            capabilities: self.capabilities.iter().map(ToString::to_string).collect(),
            is_guard: self.is_guard,
            given: now,
            lasting,
        })
    }
}

/// Inputs of decisions besides the plugins. The default has no policy, no answers and nobody to ask: what the table does not
/// give, waits.
#[derive(Clone, Default)]
pub struct GrantOptions {
    /// Policy of the operator.
    pub policy: Policy,
    /// Earlier answers of the operator.
    pub answers: Option<Answers>,
    /// Id of the session that goes on; none for a new one.
    pub session: Option<String>,
    /// Flags of the command line.
    pub flags: Vec<GrantFlag>,
    /// Operator to ask; `None` without a terminal.
    pub ask: Option<std::sync::Arc<dyn Ask>>,
}

debug_some!(GrantOptions, self);

impl GrantOptions {
    /// Decides on a request, and asks when there is something to ask and somebody to be asked. The second value is the yes,
    /// if one was given.
    ///
    /// `policy` is what holds for this plugin: mostly [`GrantOptions::policy`].
    pub async fn settle(&self, request: &Request, policy: &Policy) -> (Decision, Option<Given>) {
        let decision = super::decide::decide(
            request,
            Known {
                policy,
                answers: self.answers.as_ref(),
                session: self.session.as_deref(),
                flags: &self.flags,
            },
        );
        let (true, Some(ask)) = (decision.is_waiting(), &self.ask) else {
            return (decision, None);
        };
        let question = Question {
            earlier: self
                .answers
                .as_ref()
                .and_then(|answers| answers.earlier(request))
                .cloned(),
            request: request.clone(),
            decision,
        };
        let yes = ask.ask(&question).await;
        let Question { decision, .. } = question;
        let Some(yes) = yes else {
            return (decision, None);
        };
        let capabilities = decision.of(Standing::Waiting).cloned().collect();
        let why = match yes {
            Yes::Once => "granted for this run",
            Yes::Session => "granted for this session",
            Yes::Always => "granted just now",
        };
        let given = Given {
            request: request.clone(),
            capabilities,
            yes,
            is_guard: false,
        };
        (decision.with_yes(why), Some(given))
    }
}
