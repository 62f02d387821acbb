//! Test doubles for resources that a case must not access: secrets, DNS, servers, and the person
//! who answers questions.
//!
//! Only the doubles replace real code: a request still passes the grant check, the address check
//! and credential injection before its canned response is returned.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::file::{CannedResponse, CannedWebSocket};
use rind_lib::egress::{
    CannedResponseFn, CannedWebSocketFn, HostNameResolver, OutgoingRequest, Secret, SecretStore,
};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::handle::{PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};

/// Address to which every host name resolves. It is a public address, so that the address check is
/// exercised; nothing connects to it.
const FAKE_DNS_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));

/// Secret store that contains the secrets which a test case defines.
pub(super) struct CaseSecretStore(pub(super) BTreeMap<String, String>);

impl SecretStore for CaseSecretStore {
    fn get(&self, name: &str) -> Option<Secret> {
        self.0.get(name).map(|secret| Secret::new(secret))
    }
}

/// DNS resolver for test cases, which returns [`FAKE_DNS_ADDRESS`] for every host name.
pub(super) struct FixedAddressDnsResolver;

impl HostNameResolver for FixedAddressDnsResolver {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![FAKE_DNS_ADDRESS]) })
    }
}

/// Returns an HTTP client that answers requests with the responses in the case. If the case has no
/// response for a request, the request fails with an error that names its URL.
pub(super) fn canned_http_client(answers: Vec<CannedResponse>) -> CannedResponseFn {
    Arc::new(move |outgoing: &OutgoingRequest<'_>| {
        let is_it = |answer: &&CannedResponse| {
            let has = |(name, value): (&String, &String)| {
                outgoing
                    .headers
                    .get(name.as_str())
                    .is_some_and(|own| own.as_bytes() == value.as_bytes())
            };
            answer.url == outgoing.url
                && answer
                    .method
                    .as_ref()
                    .is_none_or(|method| method.eq_ignore_ascii_case(outgoing.method))
                && answer.with.iter().all(has)
        };
        let Some(answer) = answers.iter().find(is_it) else {
            return Err(format!(
                "the case has no answer to the HTTP request {} {}",
                outgoing.method, outgoing.url
            ));
        };
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        response
            .body(answer.body.clone().into_bytes())
            .map_err(|error| format!("the answer in the case is not valid HTTP: {error}"))
    })
}

/// Returns a client that opens WebSockets on which the messages in the case arrive. A connection to
/// a URL that is not in the case fails with an error that names the URL.
pub(super) fn canned_websocket_client(all: Vec<CannedWebSocket>) -> CannedWebSocketFn {
    Arc::new(move |url: &str| {
        let own = all.iter().find(|own| own.url == url);
        let missing = || format!("the case has no messages for a WebSocket at {url}");
        own.map(|own| own.messages.clone()).ok_or_else(missing)
    })
}

/// Scripted person, who answers approval questions and questions of plugins as the test case says.
pub(super) struct ScriptedUser {
    answers: Mutex<std::vec::IntoIter<String>>,
    replies: Mutex<std::vec::IntoIter<String>>,
}

impl ScriptedUser {
    /// Creates a scripted person that answers approval questions with `answers` and questions of
    /// plugins with `replies`, each in order. Both lists are repeated `turns` times, once for each
    /// turn.
    pub(super) fn new(answers: &[String], replies: &[String], turns: usize) -> Self {
        let all = |texts: &[String]| {
            let all = std::iter::repeat_n(texts, turns).flatten().cloned();
            Mutex::new(all.collect::<Vec<_>>().into_iter())
        };
        Self {
            answers: all(answers),
            replies: all(replies),
        }
    }
}

impl Approver for ScriptedUser {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        let answer = lock_ignoring_poison(&self.answers).next();
        Box::pin(async move {
            match answer.as_deref().map(str::trim) {
                Some("yes") => ApprovalAnswer::Yes,
                Some("always") => ApprovalAnswer::Always,
                Some(no) => ApprovalAnswer::No(
                    no.trim_start_matches("no")
                        .trim_start_matches([':', ' '])
                        .to_owned(),
                ),
                None => ApprovalAnswer::No("the case has no answer to this question".to_owned()),
            }
        })
    }

    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        let reply = lock_ignoring_poison(&self.replies).next();
        Box::pin(async move {
            let reply = reply?;
            Some(match &question.kind {
                PluginUserQuestionKind::Confirm { .. } => {
                    UserAnswerToPlugin::Yes(reply.trim() == "yes")
                }
                PluginUserQuestionKind::Choose { options, .. } => {
                    let at = options.iter().position(|option| *option == reply)?;
                    UserAnswerToPlugin::Choice(u32::try_from(at).ok()?)
                }
                PluginUserQuestionKind::Text { .. } => UserAnswerToPlugin::Text(reply),
            })
        })
    }
}
