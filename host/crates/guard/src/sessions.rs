//! Sessions of Rind that judge the calls of other agents: one for each session of an agent.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rind_lib::Session;
use rind_lib::host::{
    ClientToolCallReceiver, ClientToolCallSender, ExternalAgentRequest,
    ExternalAgentRequestContent, HookChangedValue, VerdictForExternalAgent,
};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::message::{EffectClass, ToolCall};
use rind_lib::text::format_error_chain;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agent::GuardedAgent;
use super::event::{AgentHookEvent, AgentHookEventKind, ToolCallWithRindNames};
use super::serve::{GuardSessionOpener, GuardSessionRequest};
use super::tools::{PATH_ARGUMENT_NAME, to_workspace_relative_path};

/// Time without a request after which a session is closed. The next request resumes it.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum number of sessions that the daemon has open at the same time.
const MAX_OPEN_SESSIONS: usize = 64;

/// Maximum time for closing all sessions when the daemon ends.
const CLOSE_ALL_SESSIONS_TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum length, in bytes, of an agent's session id that becomes part of Rind's session id
/// unchanged. Longer ids are hashed.
const MAX_UNHASHED_SESSION_ID_BYTES: usize = 64;

/// Open session of the daemon for one session of an agent, with the time of its last request.
struct GuardedAgentSession {
    opened: Arc<OnceCell<SessionClientAndFolder>>,
    used: Instant,
}

/// Client of an open session, and the folder to which paths in its calls are relative.
#[derive(Clone)]
struct SessionClientAndFolder {
    client: ClientToolCallSender,
    folder: PathBuf,
}

/// Sessions that the guard's daemon has open.
pub(crate) struct OpenGuardSessions {
    backend: Arc<dyn GuardSessionOpener>,
    open: Mutex<HashMap<String, GuardedAgentSession>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl OpenGuardSessions {
    pub(crate) fn new(backend: Arc<dyn GuardSessionOpener>) -> Self {
        Self {
            backend,
            open: Mutex::default(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
        }
    }

    /// Decides about an event of an agent, such as a tool call, in the agent's session.
    pub(crate) async fn judge_event(
        &self,
        agent: GuardedAgent,
        started_in: PathBuf,
        event: &AgentHookEvent,
    ) -> Result<VerdictForExternalAgent, String> {
        let folder = event.folder.clone().unwrap_or(started_in);
        let id = to_guard_session_id(agent, &event.session);
        let order = GuardSessionRequest { agent, id, folder };
        let opened = self.get_or_open_client(&order).await?;
        let judged = request_event_verdict(&opened, agent, event, &order.folder).await;
        if opened.client.is_closed() {
            // Remove the entry, so that the next request opens the session again.
            lock_ignoring_poison(&self.open).remove(&order.id);
        }
        judged
    }

    /// Returns the client of a session. Opens the session if it is not open.
    async fn get_or_open_client(
        &self,
        order: &GuardSessionRequest,
    ) -> Result<SessionClientAndFolder, String> {
        let cell = {
            let mut open = lock_ignoring_poison(&self.open);
            if open.len() >= MAX_OPEN_SESSIONS && !open.contains_key(&order.id) {
                remove_oldest_session(&mut open);
            }
            let session = open
                .entry(order.id.clone())
                .or_insert_with(|| GuardedAgentSession {
                    opened: Arc::default(),
                    used: Instant::now(),
                });
            session.used = Instant::now();
            session.opened.clone()
        };
        let opened = cell.get_or_try_init(|| async {
            let (session, folder) = self.backend.open(order).await?;
            let (calls, client) = ClientToolCallReceiver::new(|_| false);
            let cancel = self.cancel.child_token();
            self.tasks
                .spawn(serve_session_calls(session, calls, cancel));
            Ok::<_, String>(SessionClientAndFolder { client, folder })
        });
        opened.await.cloned()
    }

    /// Closes the sessions that had no request within the time [`SESSION_IDLE_TIMEOUT`]. Returns
    /// whether any session is still open.
    pub(crate) fn close_idle_sessions(&self) -> bool {
        let mut open = lock_ignoring_poison(&self.open);
        open.retain(|_, session| session.used.elapsed() < SESSION_IDLE_TIMEOUT);
        !open.is_empty()
    }

    /// Closes all sessions and waits at most the time [`CLOSE_ALL_SESSIONS_TIMEOUT`] until they
    /// have ended.
    pub(crate) async fn close_all_sessions(&self) {
        lock_ignoring_poison(&self.open).clear();
        self.cancel.cancel();
        self.tasks.close();
        if tokio::time::timeout(CLOSE_ALL_SESSIONS_TIMEOUT, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("sessions of the guard did not end in time");
        }
    }
}

/// Lets the session judge the calls, the result or the prompt of an event in order, until one is
/// refused. `folder` is the agent's current folder.
async fn request_event_verdict(
    opened: &SessionClientAndFolder,
    agent: GuardedAgent,
    event: &AgentHookEvent,
    folder: &Path,
) -> Result<VerdictForExternalAgent, String> {
    let moved = AgentPathTranslator::detect_agent_folder_move(folder, &opened.folder);
    let mut all = VerdictForExternalAgent::default();
    let acts = to_external_agent_actions(agent, &event.act, moved.as_ref());
    let is_one = acts.len() == 1;
    for about in acts {
        let request = ExternalAgentRequest {
            client: format!("guard:{}", agent.name()).into(),
            about,
        };
        let verdict = opened.client.queue_external_agent_request(request)?;
        let verdict = verdict.await;
        let verdict = verdict.map_err(|_| "the session of the guard has ended".to_owned())?;
        if verdict.refused.is_some() {
            return Ok(verdict);
        }
        if !is_one && verdict.changed.is_some() {
            let why = "a plugin changes a part of a call that changes several files";
            return Ok(VerdictForExternalAgent::refused(why));
        }
        all.changed = match (verdict.changed, &moved, &event.act) {
            (
                Some(HookChangedValue::Arguments(own)),
                Some(moved),
                AgentHookEventKind::Call { calls, .. },
            ) => {
                let given = calls.first().map(|call| &call.arguments);
                Some(HookChangedValue::Arguments(
                    moved.translate_changed_arguments(own, given),
                ))
            }
            (changed, ..) => changed,
        };
        all.asked = all.asked.or(verdict.asked);
        all.notes.extend(verdict.notes);
    }
    Ok(all)
}

/// The agent's current folder and the folder in which the session began, if the two differ.
struct AgentPathTranslator<'a> {
    now: PathBuf,
    begun: &'a Path,
}

impl<'a> AgentPathTranslator<'a> {
    /// Compares the agent's current folder with the folder in which its session began; `None` if
    /// they are the same.
    fn detect_agent_folder_move(now: &Path, begun: &'a Path) -> Option<Self> {
        let now = now.canonicalize().unwrap_or_else(|_| now.to_owned());
        (now != begun).then_some(Self { now, begun })
    }

    /// Makes the path in a call's arguments relative to the folder in which the session began. The
    /// arguments have Rind's names.
    fn make_argument_path_relative(&self, arguments: &Value) -> Value {
        let mut arguments = arguments.clone();
        if let Some(Value::String(path)) = arguments.get_mut(PATH_ARGUMENT_NAME) {
            let whole = self.now.join(&*path);
            *path = to_workspace_relative_path(&whole.to_string_lossy(), Some(self.begun));
        }
        arguments
    }

    /// Converts the arguments that a plugin changed to arguments for the agent. If the plugin did
    /// not change the path, restores the agent's own path; otherwise makes the path absolute.
    /// `given` has the arguments before the change.
    fn translate_changed_arguments(&self, mut changed: Value, given: Option<&Value>) -> Value {
        let seen = given.map(|given| self.make_argument_path_relative(given));
        let is_same = seen
            .is_some_and(|seen| seen.get(PATH_ARGUMENT_NAME) == changed.get(PATH_ARGUMENT_NAME));
        if let Some(Value::String(path)) = changed.get_mut(PATH_ARGUMENT_NAME) {
            let before = given.and_then(|given| given.get(PATH_ARGUMENT_NAME)?.as_str());
            *path = match before.filter(|_| is_same) {
                Some(before) => before.to_owned(),
                None => self.begun.join(&*path).to_string_lossy().into_owned(),
            };
        }
        changed
    }
}

fn remove_oldest_session(open: &mut HashMap<String, GuardedAgentSession>) {
    let oldest = open.iter().min_by_key(|(_, session)| session.used);
    if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
        open.remove(&oldest);
    }
}

/// Serves the calls of one agent in its session until the sending end of `calls` is dropped, then
/// closes the session.
async fn serve_session_calls(
    mut session: Session,
    calls: ClientToolCallReceiver,
    cancel: CancellationToken,
) {
    let id = session.id().clone();
    if let Err(error) = session.serve_calls(calls, &cancel).await {
        tracing::error!(
            session = &*id,
            error = format_error_chain(&error),
            "calls cannot be judged"
        );
    }
    if let Err(error) = session.close().await {
        tracing::error!(
            session = &*id,
            error = format_error_chain(&error),
            "the session did not close"
        );
    }
}

/// Returns the id of Rind's session: the agent's name, then the agent's session id, or a hash if
/// that id is too long or has other characters than letters, digits, `-`, `_` and `.`.
fn to_guard_session_id(agent: GuardedAgent, theirs: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name = agent.name();
    if theirs.len() <= MAX_UNHASHED_SESSION_ID_BYTES && theirs.chars().all(is_plain) {
        return format!("guard-{name}-{theirs}");
    }
    let digest = Sha256::digest(theirs.as_bytes());
    let bytes = digest.iter().take(16);
    let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    format!("guard-{name}-{hex}")
}

fn to_external_agent_actions(
    agent: GuardedAgent,
    act: &AgentHookEventKind,
    moved: Option<&AgentPathTranslator<'_>>,
) -> Vec<ExternalAgentRequestContent> {
    let call_of = |id: &str, call: &ToolCallWithRindNames| {
        // Do not convert the arguments of tools without an equivalent in Rind, because only the
        // agent knows which argument is a path.
        let moved = moved.filter(|_| call.effect_class != EffectClass::External);
        let arguments = match moved {
            Some(moved) => moved.make_argument_path_relative(&call.arguments),
            None => call.arguments.clone(),
        };
        ToolCall::new(id.to_owned(), call.tool.clone(), arguments)
    };
    match act {
        AgentHookEventKind::Prompt(text) => {
            vec![ExternalAgentRequestContent::Prompt { text: text.clone() }]
        }
        AgentHookEventKind::Result {
            id,
            call,
            texts,
            is_error,
        } => vec![ExternalAgentRequestContent::Result {
            call: call_of(id, call),
            content: texts.to_message_parts(),
            is_error: *is_error,
        }],
        AgentHookEventKind::Call { id, calls } => {
            let one = |(at, call): (usize, &ToolCallWithRindNames)| {
                let id = match at {
                    0 => id.clone(),
                    at => format!("{id}.{at}"),
                };
                ExternalAgentRequestContent::Call {
                    call: call_of(&id, call),
                    effect_class: call.effect_class,
                    cannot_ask: agent.hook_table().cannot_ask_user_reason(),
                }
            };
            calls.iter().enumerate().map(one).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_seen_from_the_folder_in_which_the_session_began() {
        let moved = AgentPathTranslator {
            now: "/w/src".into(),
            begun: Path::new("/w"),
        };
        for (path, seen) in [
            ("secret/k", "src/secret/k"),
            ("/w/a", "a"),
            ("/etc/x", "/etc/x"),
            ("../b", "src/../b"),
        ] {
            let given = json!({"path": path, "content": "x"});
            let own = moved.make_argument_path_relative(&given);
            assert_eq!(own["path"], seen);
            let mut changed = own.clone();
            changed["content"] = json!("y");
            assert_eq!(
                moved.translate_changed_arguments(changed, Some(&given))["path"],
                path
            );
            let elsewhere = json!({"path": "other", "content": "x"});
            assert_eq!(
                moved.translate_changed_arguments(elsewhere, Some(&given))["path"],
                "/w/other"
            );
        }
        assert!(
            AgentPathTranslator::detect_agent_folder_move(Path::new("/w"), Path::new("/w"))
                .is_none()
        );
    }

    #[test]
    fn the_id_of_a_session_names_agent_and_session() {
        assert_eq!(
            to_guard_session_id(GuardedAgent::Codex, "01a2-b"),
            "guard-codex-01a2-b"
        );
        let odd = to_guard_session_id(GuardedAgent::Pi, "../../x\ny");
        assert!(odd.starts_with("guard-pi-") && !odd.contains('/'), "{odd}");
        assert_ne!(odd, to_guard_session_id(GuardedAgent::Pi, "../../x\nz"));
    }
}
