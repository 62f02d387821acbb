//! Asks for approval of single tool calls.
//!
//! An [`Approver`] decides how the user is asked; this module must not know terminals. Subagents
//! must not be able to ask: they get [`DenyAll`]. "Always" answers are remembered per session in
//! [`SessionApprovals`], keyed by a hash of the tool and the covered parts of the call, so that a
//! changed tool is asked about again.
//!
//! Start from [`Approver`].

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::FileChange;
use super::preview::{PreviewLine, preview};
use super::subject::Subject;
use crate::message::{EffectClass, ToolSpec};
use crate::point::dispatch::AttributedText;
use crate::point::handle::{PersonAnswer, PersonQuestion};
use crate::text::{clean_line, one_line};

/// Maximum length, in bytes, of a hook's reason in an approval question. Longer reasons are
/// truncated.
const MAX_REASON_BYTES: usize = 500;

/// Approval question about one tool call. All names are single lines and safe to display.
/// `arguments` holds the text exactly as in the call, so code that displays it must escape it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name of the tool.
    pub tool: String,
    /// Class of the tool's effects.
    pub effect_class: EffectClass,
    /// Name of the plugin that provides the tool; `None` for a built-in tool.
    pub plugin: Option<String>,
    /// Name of the plugin that makes the call; `None` for the model.
    pub by: Option<String>,
    /// Name of the skill, if the question is about the use of a skill rather than a tool.
    pub skill: Option<String>,
    /// Id of the tool call, as in its events; `None` if the question is not about a tool call.
    pub call: Option<String>,
    /// Permissions of the plugin that provides the tool, in plain language.
    pub may: Vec<String>,
    /// Complete preview of the call, for the user.
    pub arguments: Vec<PreviewLine>,
    /// Change that the call would make to an existing file, if that change is known. It is the
    /// change that the lines of `arguments` marked `- ` and `+ ` show, with its position in the
    /// file.
    pub change: Option<Box<FileChange>>,
    /// Exact text that the call would write: the lines of `arguments` do not show whether it ends
    /// with a line feed. `None` unless a built-in tool writes a text from the arguments.
    pub written: Option<Box<ProposedFileText>>,
    /// Plugins whose hooks asked for approval, each with its reason; empty if only the policy asks.
    pub reasons: Vec<(String, String)>,
    /// Calls that [`ApprovalAnswer::Always`] would allow, in words, or the reason why that answer
    /// is not offered.
    pub covers: Result<String, String>,
    /// Identity of the tool: a hash of its name, plugin, description, schema and effect class, and
    /// of the caller if that is a plugin.
    tool_key: [u8; 32],
    /// Parts of the call that an "always" answer covers, as listed in `covers`; empty if that
    /// answer is not offered.
    parts: Vec<String>,
}

/// Text that a call of `write_file` or `edit_file` would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedFileText {
    /// Path of the file, as in the call.
    pub path: String,
    /// Text in the file that is replaced; `None` if the whole file is written.
    pub old: Option<String>,
    /// New text.
    pub new: String,
}

impl ProposedFileText {
    fn from_tool_call(spec: &ToolSpec, arguments: &Value) -> Option<Self> {
        let text = |name: &str| Some(arguments.get(name)?.as_str()?.to_owned());
        let (old, new) = match (&spec.plugin, spec.name.as_str()) {
            (None, "write_file") => (None, text("content")?),
            (None, "edit_file") => (Some(text("old_text")?), text("new_text")?),
            _ => return None,
        };
        Some(Self {
            path: text("path")?,
            old,
            new,
        })
    }
}

impl Question {
    /// Creates a question about a call of the tool `spec` with these final arguments, which acts on
    /// `subject`. `reasons` contains the plugins whose hooks asked for approval, each with its
    /// reason.
    #[must_use]
    pub fn new(
        spec: &ToolSpec,
        arguments: &Value,
        subject: &Subject,
        reasons: &[AttributedText],
    ) -> Self {
        let tool = one_line(&spec.name);
        // The question of a hook is about this call only, so "always" is not offered.
        let covers = match reasons.is_empty() {
            true => subject.always_answer_scopes(&tool),
            false => Err("a plugin asks about each call".to_owned()),
        };
        let parts = covers.clone().unwrap_or_default();
        Self {
            covers: covers
                .map(|parts| parts.join("; "))
                .map_err(|why| clean_line(&format!("asks every time: {why}"), MAX_REASON_BYTES)),
            parts,
            tool,
            effect_class: spec.effect_class,
            plugin: spec.plugin.as_deref().map(one_line),
            by: None,
            skill: None,
            call: None,
            may: Vec::new(),
            arguments: preview(spec, arguments),
            change: None,
            written: ProposedFileText::from_tool_call(spec, arguments).map(Box::new),
            reasons: reasons
                .iter()
                .map(|AttributedText { plugin, text }| {
                    let end = text.floor_char_boundary(MAX_REASON_BYTES.min(text.len()));
                    (one_line(plugin), one_line(&text[..end]))
                })
                .collect(),
            tool_key: hash_tool_spec(spec),
        }
    }

    /// Adds the permissions of the tool's plugin, in plain language, to the question.
    #[must_use]
    pub fn with_permissions(mut self, may: &[String]) -> Self {
        self.may = may.iter().map(|words| one_line(words)).collect();
        self
    }

    /// Adds the [current state](super::Tool::target) of the call's target, shown below the name of
    /// the file.
    #[must_use]
    pub fn with_target_state(mut self, target: Option<String>) -> Self {
        let shown = target.map(|text| PreviewLine {
            mark: "now: ",
            text: one_line(&text),
        });
        let at = self.arguments.len().min(1);
        self.arguments.splice(at..at, shown);
        self
    }

    /// Adds the [change](super::Tool::change) that the call would make to a file.
    #[must_use]
    pub fn with_file_change(mut self, change: Option<FileChange>) -> Self {
        self.change = change.map(Box::new);
        self
    }

    /// Marks the call as made by a plugin. An "always" answer to a call of the model does not cover
    /// calls of the plugin.
    #[must_use]
    pub fn with_plugin_caller(mut self, plugin: &str) -> Self {
        self.tool_key = *blake3::keyed_hash(&self.tool_key, plugin.as_bytes()).as_bytes();
        self.by = Some(one_line(plugin));
        self
    }

    /// Sets the id of the tool call, so that a view of its events can show the question next to it.
    #[must_use]
    pub fn with_call_id(mut self, id: &str) -> Self {
        self.call = Some(id.to_owned());
        self
    }

    /// Changes the question so that it asks whether to use the skill `skill`, which `lines`
    /// describe.
    #[must_use]
    pub(crate) fn for_skill(mut self, skill: &str, lines: Vec<PreviewLine>) -> Self {
        self.skill = Some(one_line(skill));
        self.arguments = lines;
        self
    }

    /// Makes the answer [`ApprovalAnswer::Always`] unavailable, for the reason `why`.
    #[must_use]
    pub(crate) fn without_always_answer(mut self, why: &str) -> Self {
        self.covers = Err(why.to_owned());
        self.parts = Vec::new();
        self
    }

    /// Returns the keys of the approvals that the call needs to run without a question: each must
    /// have an "always" answer. Empty if no such answer is possible.
    fn approval_keys(&self) -> impl Iterator<Item = [u8; 32]> {
        let key = |part: &String| *blake3::keyed_hash(&self.tool_key, part.as_bytes()).as_bytes();
        self.parts.iter().map(key)
    }
}

impl Question {
    /// Returns the permissions that an "always" answer to this question grants, one for each
    /// covered part of the call.
    fn approvals_for_always(&self) -> impl Iterator<Item = SessionApproval> {
        let parts = self.parts.iter();
        parts.map(|part| SessionApproval {
            tool: self.tool.clone(),
            plugin: self.plugin.clone(),
            by: self.by.clone(),
            covers: one_line(part),
        })
    }
}

/// Answer to an approval question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Allows this call.
    Yes,
    /// Denies the call; the text is shown to the model.
    No(String),
    /// Allows the call and, for the rest of this session, later calls of the same tool that are
    /// [covered](Question::covers).
    Always,
}

/// Asks the user, or decides in the user's place, whether a tool call may run.
///
/// Implementations are terminals, protocol clients and fixed answers such as [`DenyAll`]. The loop
/// calls the approver only when the policy or a hook asks; an approver cannot allow a call that the
/// policy denies.
pub trait Approver: Send + Sync {
    /// Asks about one call and waits for the answer, without a timeout; the caller drops the future
    /// if the turn is cancelled. Called once for each call that needs approval, one at a time
    /// within an agent. If asking is impossible, the answer must be no.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer>;

    /// Shows a question of a plugin to the user and waits for the answer, without a timeout; the
    /// caller drops the future if the turn is cancelled. Returns `None` if there is no user to ask,
    /// so that the plugin's default applies. An implementation must name the plugin that asks, and
    /// must never ask for a secret.
    fn answer<'a>(&'a self, question: &'a PersonQuestion) -> BoxFuture<'a, Option<PersonAnswer>> {
        _ = question;
        async { None }.boxed()
    }
}

/// Approver that denies every call. The text is the reason that the model gets.
#[derive(Clone, Debug)]
pub struct DenyAll(pub String);

impl Approver for DenyAll {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        async { ApprovalAnswer::No(self.0.clone()) }.boxed()
    }
}

/// Approver that allows every call.
#[derive(Clone, Copy, Debug)]
pub struct AllowAll;

impl Approver for AllowAll {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        async { ApprovalAnswer::Yes }.boxed()
    }
}

/// Permission to run certain calls of a tool without an approval question for the rest of a
/// session. All texts are single lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionApproval {
    /// Name of the tool.
    pub tool: String,
    /// Covered part of the calls, as text.
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
    always: Mutex<BTreeMap<[u8; 32], SessionApproval>>,
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
    pub(crate) fn restore(&self, recorded: impl IntoIterator<Item = (String, SessionApproval)>) {
        let kept = recorded.into_iter().filter_map(|(key, approved)| {
            let key = blake3::Hash::from_hex(&key).ok()?;
            let approved = SessionApproval {
                tool: one_line(&approved.tool),
                covers: one_line(&approved.covers),
                plugin: approved.plugin.as_deref().map(one_line),
                by: approved.by.as_deref().map(one_line),
            };
            Some((*key.as_bytes(), approved))
        });
        self.lock_approvals().extend(kept);
    }

    /// Returns the permissions that an "always" answer to a question grants, each with its key: a
    /// hash of the session, the tool and the covered part.
    pub(crate) fn permissions_of_always_answer(
        &self,
        question: &Question,
    ) -> Vec<(String, SessionApproval)> {
        let parts = self
            .session_approval_keys(question)
            .zip(question.approvals_for_always());
        let parts =
            parts.map(|(key, approved)| (blake3::Hash::from_bytes(key).to_string(), approved));
        parts.collect()
    }

    fn session_approval_keys(&self, question: &Question) -> impl Iterator<Item = [u8; 32]> {
        let session = &self.session;
        let keys = question.approval_keys();
        keys.map(move |key| *blake3::keyed_hash(session, &key).as_bytes())
    }

    /// Asks the approver, unless every part of the call is covered by an earlier
    /// [`ApprovalAnswer::Always`]. A question by a hook concerns this one call only, so it is
    /// always asked.
    pub async fn ask(&self, approver: &dyn Approver, question: &Question) -> ApprovalAnswer {
        let _one_at_a_time = self.asking.lock().await;
        if self.covers(question) {
            return ApprovalAnswer::Always;
        }
        let answer = approver.ask(question).await;
        if answer == ApprovalAnswer::Always {
            self.lock_approvals().extend(
                self.session_approval_keys(question)
                    .zip(question.approvals_for_always()),
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
    pub(crate) fn covers(&self, question: &Question) -> bool {
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
    pub fn approved(&self) -> Vec<SessionApproval> {
        let mut approved: Vec<SessionApproval> = self.lock_approvals().values().cloned().collect();
        approved.sort();
        approved
    }

    /// Revokes a permission, so that covered calls need approval again. Returns whether it was in
    /// force.
    pub fn revoke(&self, approved: &SessionApproval) -> bool {
        let mut always = self.lock_approvals();
        let n_before = always.len();
        always.retain(|_, held| held != approved);
        always.len() < n_before
    }

    fn lock_approvals(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u8; 32], SessionApproval>> {
        // Ignore that the lock may be poisoned: no code can panic while the lock is held, and the
        // map would stay consistent anyway.
        self.always.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash_tool_spec(spec: &ToolSpec) -> [u8; 32] {
    // Hash the JSON form, so that two different specs never produce the same bytes.
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

    use super::super::command::Command;
    use super::super::subject::WorkspacePath;
    use super::*;

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
            ..ToolSpec::bare_spec(name, EffectClass::Write)
        }
    }

    #[tokio::test]
    async fn always_is_remembered_for_exactly_this_tool() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![ApprovalAnswer::Always]));
        let ask = |spec: ToolSpec| {
            let question = Question::new(&spec, &json!({}), &Subject::Any, &[]);
            let (approvals, approver) = (&approvals, &approver);
            async move { approvals.ask(approver, &question).await }
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
            own.ask(&approver, &question("d")).await,
            ApprovalAnswer::Always
        );
        for (session, description, is_covered) in [
            ("s", "d", true),
            ("s", "changed", false),
            ("other", "d", false),
        ] {
            let next = SessionApprovals::for_session(session);
            next.restore(own.permissions_of_always_answer(&question("d")));
            assert_eq!(next.approved(), own.approved());
            let covers = next.covers(&question(description));
            assert_eq!(covers, is_covered, "{session} {description}");
        }
        let approved = own.approved().remove(0);
        own.restore([("../x".to_owned(), approved)]);
        assert_eq!(own.approved().len(), 1);
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
        let ask = async || approvals.ask(&approver, &question).await;
        assert_eq!(ask().await, ApprovalAnswer::Always);
        let held = approvals.approved();
        let covers: Vec<&str> = held.iter().map(|held| held.covers.as_str()).collect();
        assert_eq!(covers.len(), 2, "{covers:?}");
        assert!(approvals.revoke(&held[0]) && !approvals.revoke(&held[0]));
        assert_eq!(approvals.approved(), held[1..]);
        assert_eq!(ask().await, ApprovalAnswer::Yes);
    }

    #[tokio::test]
    async fn what_was_allowed_is_told_in_one_line_that_no_terminal_obeys() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![ApprovalAnswer::Always]));
        let subject = Subject::File(WorkspacePath::Known("a\u{1b}[2J\nb/c".to_owned()));
        let question = Question::new(&spec("write_file", "d"), &json!({}), &subject, &[]);
        let asked = approvals.ask(&approver, &question).await;
        assert_eq!(asked, ApprovalAnswer::Always);
        let held = approvals.approved();
        assert!(held[0].covers.contains("a\\u{1b}[2J\\u{a}b/"), "{held:?}");
        assert!(approvals.revoke(&held[0]) && approvals.approved().is_empty());
    }

    #[tokio::test]
    async fn what_a_hook_asks_is_asked_even_after_always() {
        let approvals = SessionApprovals::default();
        let approver = Once(Mutex::new(vec![ApprovalAnswer::Always]));
        let plain = Question::new(&spec("t", "d"), &json!({}), &Subject::Any, &[]);
        assert_eq!(
            approvals.ask(&approver, &plain).await,
            ApprovalAnswer::Always
        );
        let reasons = [AttributedText {
            plugin: "guard".into(),
            text: "looks\u{1b} odd".to_owned(),
        }];
        let asked = Question::new(&spec("t", "d"), &json!({}), &Subject::Any, &reasons);
        assert!(asked.covers.is_err(), "always would not hold");
        assert_eq!(asked.reasons[0].1, "looks\\u{1b} odd");
        assert!(matches!(
            approvals.ask(&approver, &asked).await,
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
            let ask = async |text| approvals.ask(&approver, &question[of](text)).await;
            assert_eq!(ask(first).await, ApprovalAnswer::Always);
            let is_always = ask(then).await == ApprovalAnswer::Always;
            assert_eq!(is_always, is_covered, "{first}; then {then}");
        }
    }
}
