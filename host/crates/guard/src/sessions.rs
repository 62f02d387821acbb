//! Sessions of Rind in which the calls of other agents are judged: one for each session of an agent.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rind_lib::Session;
use rind_lib::host::{ForeignAct, ForeignRequest, ForeignVerdict, OutsideCalls, OutsideClient};
use rind_lib::lock::lock;
use rind_lib::message::ToolCall;
use rind_lib::text::error_chain;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agent::GuardedAgent;
use super::event::{HookAct, HookEvent, OwnCall};
use super::serve::{GuardBackend, GuardOrder};

/// Time without a request after which a session is closed. The next request goes on with it.
const IDLE: Duration = Duration::from_secs(300);

/// Most open sessions.
const MAX_SESSIONS: usize = 64;

/// Time in which sessions must have closed when the daemon ends.
const GRACE: Duration = Duration::from_secs(8);

/// Longest id of an agent's session that stands in the id of ours as it is.
const MAX_ID: usize = 64;

/// A session and when it was last used.
struct GuardedSession {
    client: Arc<OnceCell<OutsideClient>>,
    used: Instant,
}

/// Sessions of the daemon.
pub(crate) struct GuardSessions {
    backend: Arc<dyn GuardBackend>,
    open: Mutex<HashMap<String, GuardedSession>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl GuardSessions {
    pub(crate) fn new(backend: Arc<dyn GuardBackend>) -> Self {
        Self {
            backend,
            open: Mutex::default(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
        }
    }

    /// Judges an event of an agent.
    pub(crate) async fn judge_event(
        &self,
        agent: GuardedAgent,
        started_in: PathBuf,
        event: &HookEvent,
    ) -> Result<ForeignVerdict, String> {
        let id = session_id(agent, &event.session);
        let folder = event.folder.clone().unwrap_or(started_in);
        let order = GuardOrder { agent, id, folder };
        let client = self.client(order).await?;
        let mut all = ForeignVerdict::default();
        let acts = foreign_acts(agent, &event.act);
        let is_one = acts.len() == 1;
        for about in acts {
            let request = ForeignRequest {
                client: format!("guard:{}", agent.name()).into(),
                about,
            };
            let verdict = client.begin_request(request)?;
            let verdict = verdict.await;
            let verdict = verdict.map_err(|_| "the session of the guard has ended".to_owned())?;
            if verdict.refused.is_some() {
                return Ok(verdict);
            }
            if !is_one && verdict.changed.is_some() {
                let why = "a plugin changes a part of a call that changes several files";
                return Ok(ForeignVerdict::refused(why));
            }
            all.changed = verdict.changed;
            all.asked = all.asked.or(verdict.asked);
            all.notes.extend(verdict.notes);
        }
        Ok(all)
    }

    /// Returns the client of a session, which is opened with its first request.
    async fn client(&self, order: GuardOrder) -> Result<OutsideClient, String> {
        let cell = {
            let mut open = lock(&self.open);
            if open.len() >= MAX_SESSIONS && !open.contains_key(&order.id) {
                drop_oldest(&mut open);
            }
            let session = open
                .entry(order.id.clone())
                .or_insert_with(|| GuardedSession {
                    client: Arc::default(),
                    used: Instant::now(),
                });
            session.used = Instant::now();
            session.client.clone()
        };
        let client = cell.get_or_try_init(|| async {
            let session = self.backend.open(&order).await?;
            let (calls, client) = OutsideCalls::new(|_| false);
            let cancel = self.cancel.child_token();
            self.tasks.spawn(run_session(session, calls, cancel));
            Ok::<_, String>(client)
        });
        client.await.cloned()
    }

    /// Closes sessions that were not used for a while. Returns whether any is open.
    pub(crate) fn close_idle(&self) -> bool {
        let mut open = lock(&self.open);
        open.retain(|_, session| session.used.elapsed() < IDLE);
        !open.is_empty()
    }

    /// Closes all sessions and waits for them.
    pub(crate) async fn close_all(&self) {
        lock(&self.open).clear();
        self.cancel.cancel();
        self.tasks.close();
        if tokio::time::timeout(GRACE, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("sessions of the guard did not end in time");
        }
    }
}

fn drop_oldest(open: &mut HashMap<String, GuardedSession>) {
    let oldest = open.iter().min_by_key(|(_, session)| session.used);
    if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
        open.remove(&oldest);
    }
}

/// Serves the requests of a session until its client is dropped, and closes it.
async fn run_session(mut session: Session, calls: OutsideCalls, cancel: CancellationToken) {
    let id = session.id().clone();
    if let Err(error) = session.serve_calls(calls, &cancel).await {
        tracing::error!(
            session = &*id,
            error = error_chain(&error),
            "calls cannot be judged"
        );
    }
    if let Err(error) = session.close().await {
        tracing::error!(
            session = &*id,
            error = error_chain(&error),
            "the session did not close"
        );
    }
}

/// Returns the id of our session: it names the agent, and the agent's session where its id has the
/// letters of one.
fn session_id(agent: GuardedAgent, theirs: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name = agent.name();
    if theirs.len() <= MAX_ID && theirs.chars().all(is_plain) {
        return format!("guard-{name}-{theirs}");
    }
    let digest = Sha256::digest(theirs.as_bytes());
    let hex: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("guard-{name}-{hex}")
}

fn foreign_acts(agent: GuardedAgent, act: &HookAct) -> Vec<ForeignAct> {
    let call_of = |id: &str, call: &OwnCall| {
        ToolCall::new(id.to_owned(), call.tool.clone(), call.arguments.clone())
    };
    match act {
        HookAct::Prompt(text) => vec![ForeignAct::Prompt { text: text.clone() }],
        HookAct::Result {
            id,
            call,
            texts,
            is_error,
        } => vec![ForeignAct::Result {
            call: call_of(id, call),
            content: texts.parts(),
            is_error: *is_error,
        }],
        HookAct::Call { id, calls } => {
            let one = |(at, call): (usize, &OwnCall)| {
                let id = match at {
                    0 => id.clone(),
                    at => format!("{id}.{at}"),
                };
                ForeignAct::Call {
                    call: call_of(&id, call),
                    effect_class: call.effect_class,
                    cannot_ask: agent.table().cannot_ask(),
                }
            };
            calls.iter().enumerate().map(one).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_session_names_agent_and_session() {
        assert_eq!(
            session_id(GuardedAgent::Codex, "01a2-b"),
            "guard-codex-01a2-b"
        );
        let odd = session_id(GuardedAgent::Pi, "../../x\ny");
        assert!(odd.starts_with("guard-pi-") && !odd.contains('/'), "{odd}");
        assert_ne!(odd, session_id(GuardedAgent::Pi, "../../x\nz"));
    }
}
