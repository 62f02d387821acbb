//! Asks the operator about the permissions of a plugin.
//!
//! An implementation of [`PermissionAsker`] decides how the operator is asked; this module must not
//! know terminals. No function that a plugin or the model can call uses this module. Start from
//! [`GrantOptions::decide_or_ask_operator`].

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;

use super::answers::{AnswerLifetime, GrantAnswer, GrantAnswerStore};
use super::decide::{GrantDecision, GrantDecisionInputs, GrantFlagValue, GrantStatus};
use super::policy::CapabilityPolicy;
use super::{Capability, GrantRequest};

/// A question to the operator about the permissions of one plugin.
#[derive(Clone, Debug)]
pub struct GrantQuestion {
    /// Request of the plugin for the permissions that the question is about.
    pub request: GrantRequest,
    /// Decision so far, in which the permissions to ask about are undecided.
    pub decision: GrantDecision,
    /// Operator's latest answer about a plugin with this name, trust and directory; `None` if there
    /// is none.
    pub earlier: Option<GrantAnswer>,
}

/// Time for which an operator's approval is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantApprovalLifetime {
    /// The approval is valid for this run.
    Once,
    /// The approval is valid for this session, also when it is resumed.
    Session,
    /// The permissions last until the plugin or its request changes.
    Always,
}

/// Asks the operator for permissions of a plugin while plugins are loaded.
///
/// The terminal implements it. Without an implementation, undecided permissions stay pending and
/// the plugin does not run.
pub trait PermissionAsker: Send + Sync {
    /// Asks the operator the question, and waits for the answer without a timeout. `None` means
    /// that the operator refused the permissions.
    fn ask<'a>(
        &'a self,
        question: &'a GrantQuestion,
    ) -> BoxFuture<'a, Option<GrantApprovalLifetime>>;
}

/// Approval by the operator of permissions that a plugin requests. Its lifetime decides whether it
/// is stored.
#[derive(Clone, Debug)]
pub struct GrantApproval {
    /// Request of the plugin that the operator approved.
    pub request: GrantRequest,
    /// Capabilities that the operator was asked about and approved.
    pub capabilities: Vec<Capability>,
    /// Time for which the approval is valid.
    pub yes: GrantApprovalLifetime,
    /// Whether a hook of the plugin blocks when it fails.
    pub is_guard: bool,
}

impl GrantApproval {
    /// Returns the answer to store; `None` if the approval is only for this run. `session` is the
    /// id of the session that the plugin runs in.
    #[must_use]
    pub fn to_stored_answer(&self, session: &str, now: String) -> Option<GrantAnswer> {
        let lasting = match self.yes {
            GrantApprovalLifetime::Once => return None,
            GrantApprovalLifetime::Session => AnswerLifetime::Session(session.to_owned()),
            GrantApprovalLifetime::Always => AnswerLifetime::Always,
        };
        let request = &self.request;
        Some(GrantAnswer {
            plugin: request.plugin.clone(),
            version: request.version.clone(),
            trust: request.trust,
            source: request.source.clone(),
            digest: request.digest.clone(),
            content: request.compute_content_digest(),
            pin: request.compute_pin_hash().as_str().to_owned(),
            capabilities: self.capabilities.iter().map(ToString::to_string).collect(),
            is_guard: self.is_guard,
            given: now,
            lasting,
        })
    }
}

/// Inputs of grant decisions, apart from the plugins. By default there is no policy, no answer and
/// no operator to ask, so that permissions which the default table does not allow stay pending.
#[derive(Clone, Default)]
pub struct GrantOptions {
    /// Policy of the operator on the capabilities of plugins.
    pub policy: CapabilityPolicy,
    /// Earlier answers of the operator about permissions; `None` if none are remembered.
    pub answers: Option<GrantAnswerStore>,
    /// Id of a resumed session; `None` for a new one.
    pub session: Option<String>,
    /// Flags with which the command line grants permissions to plugins.
    pub flags: Vec<GrantFlagValue>,
    /// Permissions that a signed set grants to its plugins, in their text form, by the name of the
    /// plugin. Such a plugin gets only these, and the operator is not asked about it.
    pub exact: BTreeMap<String, Vec<String>>,
    /// Asks the operator about undecided permissions; `None` if there is no terminal.
    pub ask: Option<std::sync::Arc<dyn PermissionAsker>>,
}

impl_partial_debug!(GrantOptions, self);

impl GrantOptions {
    /// Decides on a request for permissions. If permissions are pending and there is an operator,
    /// asks the operator. Returns the decision and the operator's approval, if the operator was
    /// asked and approved.
    ///
    /// `policy` is the policy for this plugin, usually [`GrantOptions::policy`].
    pub async fn decide_or_ask_operator(
        &self,
        request: &GrantRequest,
        policy: &CapabilityPolicy,
    ) -> (GrantDecision, Option<GrantApproval>) {
        let decision = super::decide::decide_grant(
            request,
            GrantDecisionInputs {
                policy,
                answers: self.answers.as_ref(),
                session: self.session.as_deref(),
                flags: &self.flags,
            },
        );
        if let Some(granted) = self.exact.get(&request.plugin) {
            return (decision.restrict_to_capabilities(granted), None);
        }
        let (true, Some(ask)) = (decision.needs_operator_answer(), &self.ask) else {
            return (decision, None);
        };
        let question = GrantQuestion {
            earlier: self
                .answers
                .as_ref()
                .and_then(|answers| answers.latest_answer_for_plugin(request))
                .cloned(),
            request: request.clone(),
            decision,
        };
        let yes = ask.ask(&question).await;
        let GrantQuestion { decision, .. } = question;
        let Some(yes) = yes else {
            return (decision, None);
        };
        let capabilities = decision
            .capabilities_with_status(GrantStatus::Waiting)
            .cloned()
            .collect();
        let why = match yes {
            GrantApprovalLifetime::Once => "granted for this run",
            GrantApprovalLifetime::Session => "granted for this session",
            GrantApprovalLifetime::Always => "granted just now",
        };
        let given = GrantApproval {
            request: request.clone(),
            capabilities,
            yes,
            is_guard: false,
        };
        (decision.grant_pending_capabilities(why), Some(given))
    }
}
