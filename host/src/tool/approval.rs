//! Asks for approval of single tool calls.
//!
//! An [`Approver`] decides how the user is asked; this module must not know terminals. Subagents
//! must not be able to ask: they get [`DenyAllApprover`]. "Always" answers are remembered per
//! session in [`SessionApprovals`], keyed by a hash of the tool and the covered parts of the call,
//! so that a changed tool is asked about again.
//!
//! Start from [`Approver`].

mod question;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
pub use question::{ProposedFileText, Question};

use crate::point::handle::{PluginUserQuestion, UserAnswerToPlugin};
use crate::text::escape_to_one_line;

/// Answer to an approval question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Allows this call only.
    Yes,
    /// Denies the call; the text is shown to the model.
    No(String),
    /// Allows the call and, for the rest of this session, later calls of the same tool that are
    /// [covered](Question::covers).
    Always,
}

/// Asks the user, or decides in the user's place, whether a tool call may run.
///
/// Implementations are terminals, protocol clients and fixed answers such as [`DenyAllApprover`].
/// The loop calls the approver only when the policy or a hook asks; an approver cannot allow a call
/// that the policy denies.
pub trait Approver: Send + Sync {
    /// Asks about one call and waits for the answer, without a timeout; the caller drops the future
    /// if the turn is cancelled. Called once for each call that needs approval, one at a time
    /// within an agent. If asking is impossible, the answer must be no.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer>;

    /// Shows a question of a plugin to the user and waits for the answer, without a timeout; the
    /// caller drops the future if the turn is cancelled. Returns `None` if there is no user to ask,
    /// so that the plugin's default applies. An implementation must name the plugin that asks, and
    /// must never ask for a secret.
    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        _ = question;
        async { None }.boxed()
    }
}

/// Approver that denies every call. The text is the reason that the model gets.
#[derive(Clone, Debug)]
pub struct DenyAllApprover(pub String);

impl Approver for DenyAllApprover {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        async { ApprovalAnswer::No(self.0.clone()) }.boxed()
    }
}

/// Approver that allows every call.
#[derive(Clone, Copy, Debug)]
pub struct AllowAllApprover;

impl Approver for AllowAllApprover {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        async { ApprovalAnswer::Yes }.boxed()
    }
}

/// Permission to run certain calls of a tool without an approval question for the rest of a
/// session. All texts are single lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionWideToolApproval {
    /// Name of the tool whose calls are allowed.
    pub tool: String,
    /// Calls of the tool that are allowed, as text.
    pub covers: String,
    /// Name of the plugin that provides the tool; `None` for a built-in tool.
    pub plugin: Option<String>,
    /// Name of the plugin that may make the call; `None` for the model.
    pub by: Option<String>,
}

/// "Always" answers of the user in a session, keyed by the part of a tool call that each answer
/// allows. A tool whose description or schema has changed counts as another tool.
#[derive(Debug, Default)]
pub struct SessionApprovals {
    /// Hash of the session's id, which is part of every key: an entry that is copied to another
    /// session allows nothing there.
    session: [u8; 32],
    always: Mutex<BTreeMap<[u8; 32], SessionWideToolApproval>>,
    /// Lock held during a question, because plugins can make calls concurrently and one question is
    /// asked at a time.
    asking: tokio::sync::Mutex<()>,
}

impl SessionApprovals {
    /// Creates the approvals of the session with this id; nothing is approved yet.
    #[must_use]
    pub(crate) fn for_session(id: &str) -> Self {
        Self {
            session: *blake3::hash(id.as_bytes()).as_bytes(),
            ..Self::default()
        }
    }

    /// Restores answers that earlier runs recorded in the session, each with its key. Invalid keys
    /// are skipped.
    pub(crate) fn restore_recorded_answers(
        &self,
        recorded: impl IntoIterator<Item = (String, SessionWideToolApproval)>,
    ) {
        let kept = recorded.into_iter().filter_map(|(key, approved)| {
            let key = blake3::Hash::from_hex(&key).ok()?;
            let approved = SessionWideToolApproval {
                tool: escape_to_one_line(&approved.tool),
                covers: escape_to_one_line(&approved.covers),
                plugin: approved.plugin.as_deref().map(escape_to_one_line),
                by: approved.by.as_deref().map(escape_to_one_line),
            };
            Some((*key.as_bytes(), approved))
        });
        self.lock_approvals().extend(kept);
    }

    /// Returns the permissions that an "always" answer to a question grants, each with its key: a
    /// hash of the session, the tool and the covered part.
    pub(crate) fn keyed_approvals_if_answered_always(
        &self,
        question: &Question,
    ) -> Vec<(String, SessionWideToolApproval)> {
        let parts = self
            .session_approval_keys(question)
            .zip(question.approvals_from_always_answer());
        let parts =
            parts.map(|(key, approved)| (blake3::Hash::from_bytes(key).to_string(), approved));
        parts.collect()
    }

    fn session_approval_keys(&self, question: &Question) -> impl Iterator<Item = [u8; 32]> {
        let session = &self.session;
        let keys = question.required_approval_hashes();
        keys.map(move |key| *blake3::keyed_hash(session, &key).as_bytes())
    }

    /// Asks the approver, unless every part of the call is covered by an earlier
    /// [`ApprovalAnswer::Always`]. A question by a hook concerns this one call only, so it is
    /// always asked.
    pub async fn ask_unless_approved(
        &self,
        approver: &dyn Approver,
        question: &Question,
    ) -> ApprovalAnswer {
        let _one_at_a_time = self.asking.lock().await;
        if self.is_call_approved(question) {
            return ApprovalAnswer::Always;
        }
        let answer = approver.ask(question).await;
        if answer == ApprovalAnswer::Always {
            self.lock_approvals().extend(
                self.session_approval_keys(question)
                    .zip(question.approvals_from_always_answer()),
            );
        }
        answer
    }

    /// Waits until no question is being asked, and prevents other questions until the returned
    /// guard is dropped.
    pub async fn block_other_questions(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.asking.lock().await
    }

    /// Whether earlier "always" answers of the user allow the whole call, so that no question is
    /// needed.
    pub(crate) fn is_call_approved(&self, question: &Question) -> bool {
        let always = self.lock_approvals();
        let mut keys = self.session_approval_keys(question);
        question.reasons.is_empty()
            && !question.parts.is_empty()
            && keys.all(|key| always.contains_key(&key))
    }

    /// Removes all "always" answers, so that the calls that they covered need approval again.
    pub fn clear(&self) {
        self.lock_approvals().clear();
    }

    /// Returns all permissions of this session to run calls without a question, sorted by tool and
    /// covered part.
    #[must_use]
    pub fn list_session_approvals(&self) -> Vec<SessionWideToolApproval> {
        let mut approved: Vec<SessionWideToolApproval> =
            self.lock_approvals().values().cloned().collect();
        approved.sort();
        approved
    }

    /// Revokes a permission, so that covered calls need approval again. Returns whether it was in
    /// force.
    pub fn revoke(&self, approved: &SessionWideToolApproval) -> bool {
        let mut always = self.lock_approvals();
        let n_before = always.len();
        always.retain(|_, held| held != approved);
        always.len() < n_before
    }

    fn lock_approvals(
        &self,
    ) -> std::sync::MutexGuard<'_, BTreeMap<[u8; 32], SessionWideToolApproval>> {
        // Ignore that the lock may be poisoned: no code can panic while the lock is held, and the
        // map would stay consistent anyway.
        self.always.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::command::Command;
    use super::super::subject::{Subject, WorkspacePath};
    use super::*;
    use crate::message::{EffectClass, ToolSpec};
    use crate::point::dispatch::PluginAttributedText;

    struct Once(Mutex<Vec<ApprovalAnswer>>);

    impl Approver for Once {
        fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
            let answer = self.0.lock().ok().and_then(|mut answers| answers.pop());
            async { answer.unwrap_or(ApprovalAnswer::No("asked again".to_owned())) }.boxed()
        }
    }

    struct AllowAlways;

    impl Approver for AllowAlways {
        fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
            async { ApprovalAnswer::Always }.boxed()
        }
    }

    fn spec(name: &str, description: &str) -> ToolSpec {
        ToolSpec {
            description: description.to_owned(),
            ..ToolSpec::from_name_and_effect(name, EffectClass::Write)
        }
    }

    #[tokio::test]
    async fn always_is_remembered_for_exactly_this_tool() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![ApprovalAnswer::Always]));
        let ask = |spec: ToolSpec| {
            let question = Question::new(&spec, &json!({}), &Subject::Any, &[]);
            let (approvals, approver) = (&approvals, &approver);
            async move { approvals.ask_unless_approved(approver, &question).await }
        };
        assert_eq!(ask(spec("t", "d")).await, ApprovalAnswer::Always);
        assert_eq!(ask(spec("t", "d")).await, ApprovalAnswer::Always);
        assert!(matches!(ask(spec("u", "d")).await, ApprovalAnswer::No(_)));
        assert!(matches!(
            ask(spec("t", "changed")).await,
            ApprovalAnswer::No(_)
        ));
    }

    #[tokio::test]
    async fn a_recorded_answer_holds_for_its_session_and_tool_and_allows_nothing_elsewhere() {
        let (own, approver) = (SessionApprovals::for_session("s"), AllowAlways);
        let question = |description: &str| {
            Question::new(&spec("t", description), &json!({}), &Subject::Any, &[])
        };
        assert_eq!(
            own.ask_unless_approved(&approver, &question("d")).await,
            ApprovalAnswer::Always
        );
        for (session, description, is_covered) in [
            ("s", "d", true),
            ("s", "changed", false),
            ("other", "d", false),
        ] {
            let next = SessionApprovals::for_session(session);
            next.restore_recorded_answers(own.keyed_approvals_if_answered_always(&question("d")));
            assert_eq!(next.list_session_approvals(), own.list_session_approvals());
            let covers = next.is_call_approved(&question(description));
            assert_eq!(covers, is_covered, "{session} {description}");
        }
        let approved = own.list_session_approvals().remove(0);
        own.restore_recorded_answers([("../x".to_owned(), approved)]);
        assert_eq!(own.list_session_approvals().len(), 1);
    }

    #[tokio::test]
    async fn what_was_taken_back_is_asked_again() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![
            ApprovalAnswer::Yes,
            ApprovalAnswer::Always,
        ]));
        let arguments = json!({ "command": "git status; make" });
        let subject = Subject::Command(Command::parse("git status; make"));
        let question = Question::new(&spec("bash", "d"), &arguments, &subject, &[]);
        let ask = async || approvals.ask_unless_approved(&approver, &question).await;
        assert_eq!(ask().await, ApprovalAnswer::Always);
        let held = approvals.list_session_approvals();
        let covers: Vec<&str> = held.iter().map(|held| held.covers.as_str()).collect();
        assert_eq!(covers.len(), 2, "{covers:?}");
        assert!(approvals.revoke(&held[0]) && !approvals.revoke(&held[0]));
        assert_eq!(approvals.list_session_approvals(), held[1..]);
        assert_eq!(ask().await, ApprovalAnswer::Yes);
    }

    #[tokio::test]
    async fn what_was_allowed_is_told_in_one_line_that_no_terminal_obeys() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![ApprovalAnswer::Always]));
        let subject = Subject::File(WorkspacePath::Known("a\u{1b}[2J\nb/c".to_owned()));
        let question = Question::new(&spec("write_file", "d"), &json!({}), &subject, &[]);
        let asked = approvals.ask_unless_approved(&approver, &question).await;
        assert_eq!(asked, ApprovalAnswer::Always);
        let held = approvals.list_session_approvals();
        assert!(held[0].covers.contains("a\\u{1b}[2J\\u{a}b/"), "{held:?}");
        assert!(approvals.revoke(&held[0]) && approvals.list_session_approvals().is_empty());
    }

    #[tokio::test]
    async fn what_a_hook_asks_is_asked_even_after_always() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![ApprovalAnswer::Always]));
        let plain = Question::new(&spec("t", "d"), &json!({}), &Subject::Any, &[]);
        assert_eq!(
            approvals.ask_unless_approved(&approver, &plain).await,
            ApprovalAnswer::Always
        );
        let reasons = [PluginAttributedText {
            plugin: "guard".into(),
            text: "looks\u{1b} odd".to_owned(),
        }];
        let asked = Question::new(&spec("t", "d"), &json!({}), &Subject::Any, &reasons);
        assert!(asked.covers.is_err(), "always would not hold");
        assert_eq!(asked.reasons[0].1, "looks\\u{1b} odd");
        assert!(matches!(
            approvals.ask_unless_approved(&approver, &asked).await,
            ApprovalAnswer::No(_)
        ));
    }

    #[tokio::test]
    async fn always_covers_the_parts_that_were_shown_and_no_others() {
        let command = |command: &str| {
            let subject = Subject::Command(Command::parse(command));
            let arguments = json!({ "command": command });
            Question::new(&spec("bash", "d"), &arguments, &subject, &[])
        };
        let file = |path: &str| {
            let subject = Subject::File(WorkspacePath::Known(path.to_owned()));
            Question::new(&spec("write_file", "d"), &json!({}), &subject, &[])
        };
        let question: [&dyn Fn(&str) -> Question; 2] = [&command, &file];
        for (of, first, then, is_covered) in [
            (0, "git status", "git status -s", true),
            (0, "git status", "git push", false),
            (0, "git status", "git status; rm x", false),
            (0, "git status", "git status $(rm x)", false),
            (0, "git status", "git status > x", false),
            (0, "git status", "X=1 git status", false),
            (0, "echo a b", "echo a \"$\\\n(touch pwn)\"", false),
            (0, "echo a b", "echo a b >&-pwn", false),
            (0, "echo a b", "echo a b*", false),
            (0, "git status", "env X=1 git status", false),
            (0, "git status", "git status | sh", false),
            (0, "git status", "./git status", false),
            (0, "git status; rm x", "rm x y", true),
            (0, "rm -rf x", "rm -rf y", false),
            (0, "for x in a; do b; done", "for x in a; do b; done", false),
            (1, "docs/a", "docs/b", true),
            (1, "docs/a", "docs/in/b", false),
            (1, "docs/a", "b", false),
            (1, "a", "b", true),
            (1, "a", "docs/b", false),
        ] {
            let approvals = SessionApprovals::default();
            let approver = Once(Mutex::new(vec![ApprovalAnswer::Always]));
            let ask = async |text| {
                approvals
                    .ask_unless_approved(&approver, &question[of](text))
                    .await
            };
            assert_eq!(ask(first).await, ApprovalAnswer::Always);
            let is_always = ask(then).await == ApprovalAnswer::Always;
            assert_eq!(is_always, is_covered, "{first}; then {then}");
        }
    }
}
