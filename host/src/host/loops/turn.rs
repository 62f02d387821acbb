//! Defines a turn that a loop has requested, and runs it.
//!
//! A runner opens the session with [`PluginLoopTurnRequest::session_opener`] and runs the turn with
//! [`PluginLoopTurnRequest::run_in_session`]. Start from [`LoopTurnRunner`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentSteeringHandle, TurnOutcome};
use crate::event::Stamped;
use crate::event::pump::SessionEventForwarder;
use crate::host::{Error, Host, Session, SessionBuilder};
use crate::lock::lock_ignoring_poison;
use crate::point::payload::Source;
use crate::text::format_error_chain;

/// Runs the turns that loops request.
pub trait LoopTurnRunner: Send + Sync {
    /// Runs a turn to its end. The error is the reason why the turn has no outcome.
    fn run_turn(
        &self,
        turn: PluginLoopTurnRequest,
    ) -> BoxFuture<'static, Result<TurnOutcome, String>>;

    /// Sends a text to the turn that runs in a session. Returns whether a turn runs there.
    fn steer_turn<'a>(&'a self, session: &'a str, text: String) -> BoxFuture<'a, bool>;
}

/// Turn of the agent that a plugin's loop has requested.
#[derive(Debug)]
pub struct PluginLoopTurnRequest {
    pub(super) plugin: String,
    pub(super) session: String,
    pub(super) input: String,
    pub(super) model: Option<String>,
    pub(super) preset: Option<String>,
    pub(super) input_id: Option<String>,
    pub(super) max_cost_usd: Option<f64>,
    pub(super) cancel: CancellationToken,
    pub(super) watcher: Option<Sender<Stamped>>,
    /// Flag that is set when the turn begins, because the turn may cost something from then on.
    pub(super) has_begun: Arc<AtomicBool>,
}

impl PluginLoopTurnRequest {
    /// Returns the id of the session in which the turn is to run.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session
    }

    /// Returns the token whose cancellation interrupts the turn.
    #[must_use]
    pub fn cancellation_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns a function that opens the session, or creates it if it is missing. A created session
    /// belongs to the loop, so a user who resumes the session `last` never gets it.
    ///
    /// The function fails if the session is open elsewhere or cannot be read.
    pub fn session_opener(
        &self,
    ) -> impl Fn(SessionBuilder) -> Result<Session, Error> + Send + Sync + use<> {
        let (id, by) = (self.session.clone(), format!("the loop of {}", self.plugin));
        move |builder| builder.aside(&by).resume_or_create(&id)
    }

    /// Runs the turn in its session, until `cancel` is set.
    ///
    /// # Errors
    /// The session cannot be written, or there is no such preset.
    pub async fn run_in_session(
        self,
        session: &mut Session,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, String> {
        let usual = session.model().1.to_owned();
        if let Some(model) = &self.model {
            session.set_model(session.provider().clone(), model);
        }
        let mut pump = SessionEventForwarder::new(session.events(), self.watcher.clone());
        let outcome = pump
            .forward_events_during(self.run_turn(session, cancel))
            .await;
        pump.flush_events(cancel).await;
        session.set_model(session.provider().clone(), usual);
        outcome
    }

    async fn run_turn(
        self,
        session: &mut Session,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, String> {
        let n_before = session.turn_number();
        let mut turn = session
            .turn(self.input)
            .source(Source::LoopPlugin)
            .until(cancel);
        if let Some(preset) = &self.preset {
            turn = turn.tools_of_preset(preset)?;
        }
        if let Some(id) = self.input_id {
            turn = turn.input_id(id);
        }
        if let Some(usd) = self.max_cost_usd {
            turn = turn.max_cost_usd(usd);
        }
        self.has_begun.store(true, Ordering::Release);
        let outcome = turn.await.map_err(|error| format_error_chain(&error))?;
        // A turn with this input id has already run: its stored outcome is returned without another
        // turn, so no cost is added.
        if outcome.turn <= n_before {
            self.has_begun.store(false, Ordering::Release);
        }
        Ok(outcome)
    }
}

/// Runs each turn in a session that is opened for it and closed after it, with the policy and the
/// approver of the host.
pub(super) struct SessionOpeningTurnRunner {
    host: Host,
    /// Handles that send texts to the running turns, by session id.
    steering: Arc<Mutex<BTreeMap<String, AgentSteeringHandle>>>,
}

impl SessionOpeningTurnRunner {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            steering: Arc::default(),
        }
    }
}

impl LoopTurnRunner for SessionOpeningTurnRunner {
    fn run_turn(
        &self,
        turn: PluginLoopTurnRequest,
    ) -> BoxFuture<'static, Result<TurnOutcome, String>> {
        let (host, steering) = (self.host.clone(), self.steering.clone());
        Box::pin(async move {
            // Opening reads files and prepares plugins, so it runs on a blocking thread and other
            // loops need not wait for it.
            let open = turn.session_opener();
            let opened = tokio::task::spawn_blocking(move || open(host.session())).await;
            let opened = opened.map_err(|error| error.to_string())?;
            let mut session = opened.map_err(|error| format_error_chain(&error))?;
            let id = turn.session_id().to_owned();
            lock_ignoring_poison(&steering).insert(id.clone(), session.steering());
            let cancel = turn.cancellation_token().clone();
            let outcome = turn.run_in_session(&mut session, &cancel).await;
            lock_ignoring_poison(&steering).remove(&id);
            let closed = session.close().await;
            let outcome = outcome?;
            closed.map_err(|error| format_error_chain(&error))?;
            Ok(outcome)
        })
    }

    fn steer_turn<'a>(&'a self, session: &'a str, text: String) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let steering = lock_ignoring_poison(&self.steering).get(session).cloned();
            let is_there = steering.is_some();
            if let Some(steering) = steering {
                steering.steer(text, Source::LoopPlugin);
            }
            is_there
        })
    }
}
