//! Registers a script with the dispatcher and calls it in one session.
//!
//! Builds the JSON input, calls the program (a process per call, or one that keeps running), masks
//! secrets in the outcome and reports files that git would run. Start from [`OpenScript`].

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::Script;
use super::claude::ClaudeState;
use super::json::{self, Call, ScriptPoint, WithPoint};
use super::once::{self, ScriptProgram};
use super::pin::PinnedFile;
use super::warm::WarmScript;
use crate::json::{MAX_DEPTH, nesting_depth};
use crate::point::Hook;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::point::handle::AgentHandle;
use crate::point::registry::Registry;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::secret::{mask_leaves, run_aside};
use crate::text::clean_line;

/// Maximum length in bytes of a report about a file that git would run. Longer paths are cut.
const MAX_PLANTED_BYTES: usize = 500;

/// A script that is called in a session.
pub(crate) struct OpenScript {
    script: Arc<Script>,
    program: ScriptProgram,
    /// Process of the script, if it keeps running between calls.
    warm: Option<WarmScript>,
    claude: ClaudeState,
    handle: Arc<dyn AgentHandle>,
}

impl OpenScript {
    /// Prepares a script for a session. Its process starts at the first call.
    pub(crate) fn new(
        script: Arc<Script>,
        program: ScriptProgram,
        handle: Arc<dyn AgentHandle>,
    ) -> Arc<Self> {
        Arc::new(Self {
            claude: ClaudeState::default(),
            warm: script.is_warm.then(|| WarmScript::new(program.clone())),
            script,
            program,
            handle,
        })
    }

    /// Registers the script as a hook at each of its extension points.
    pub(crate) fn bind_hooks(self: &Arc<Self>, registry: &mut Registry) {
        for row in self.script.rows() {
            let binding = ScriptBinding {
                script: self,
                registry: &mut *registry,
            };
            json::at(row.name, binding);
        }
    }

    /// Calls the script and returns its JSON outcome.
    async fn ask_script(
        &self,
        point: &'static str,
        caller: &Caller,
        payload: Value,
    ) -> Result<Value, Failure> {
        let mut outcome = match &self.script.claude {
            Some(_) => self.ask_claude(point, caller, &payload).await?,
            None => {
                let call = Call::new(&self.script.name, point, caller, payload);
                match &self.warm {
                    Some(warm) => warm.ask_warm(call).await?,
                    None => {
                        let input = serde_json::to_vec(&call).map_err(unwritten_failure)?;
                        let on_planted = self.on_planted(point, caller);
                        once::ask_once(&self.program, input, &self.script, on_planted).await?
                    }
                }
            }
        };
        if nesting_depth(&outcome) > MAX_DEPTH {
            return Err(Failure::Malformed(format!(
                "it is nested deeper than {MAX_DEPTH} levels"
            )));
        }
        self.mask_outcome(point, caller, &mut outcome);
        Ok(outcome)
    }

    /// Checks on a blocking thread that the pinned files are unchanged.
    async fn check_pins(&self) -> Result<(), Failure> {
        if self.script.pins.is_empty() {
            return Ok(());
        }
        let script = self.script.clone();
        let check = move || script.pins.iter().try_for_each(PinnedFile::check_unchanged);
        let checked = tokio::task::spawn_blocking(check).await;
        checked
            .unwrap_or_else(|error| Err(format!("its files could not be checked: {error}")))
            .map_err(Failure::Unavailable)
    }

    /// Calls a hook of Claude Code and returns its reply as an outcome of the extension point.
    async fn ask_claude(
        &self,
        point: &'static str,
        caller: &Caller,
        payload: &Value,
    ) -> Result<Value, Failure> {
        let nothing = || Value::Object(serde_json::Map::new());
        let Some(hook) = &self.script.claude else {
            return Ok(nothing());
        };
        let Some(input) = hook.hook_input(caller, payload, &self.claude) else {
            return Ok(nothing());
        };
        self.check_pins().await?;
        let input = serde_json::to_vec(&input).map_err(unwritten_failure)?;
        let on_planted = self.on_planted(point, caller);
        let finished =
            once::run_once(&self.program, input, self.script.deadline, on_planted).await?;
        hook.read_outcome(caller, payload, &finished, &self.claude)
    }

    /// Returns a callback that records files which a script left for git to run.
    fn on_planted(&self, point: &'static str, caller: &Caller) -> once::OnPlanted {
        let (handle, name) = (self.handle.clone(), self.script.name.clone());
        let mut origin = caller.origin();
        origin.point = Some(point.into());
        Box::new(move |planted| {
            handle.access(AccessRecord {
                plugin: name.as_str().into(),
                reached: Reached::Files,
                target: "leave what git would run".to_owned(),
                outcome: AccessOutcome::Denied,
                reason: Some(clean_line(&planted, MAX_PLANTED_BYTES)),
                origin: origin.clone(),
            });
        })
    }

    /// Masks secrets in an outcome, and records which rules matched.
    fn mask_outcome(&self, point: &'static str, caller: &Caller, outcome: &mut Value) {
        let mut rules = BTreeSet::new();
        run_aside(json_bytes(outcome), || mask_leaves(outcome, &mut rules));
        if rules.is_empty() {
            return;
        }
        let rules: Vec<&str> = rules.iter().map(|rule| &**rule).collect();
        let mut origin = caller.origin();
        origin.point = Some(point.into());
        self.handle.access(AccessRecord {
            plugin: self.script.name.as_str().into(),
            reached: Reached::Secret,
            target: format!("{point} outcome"),
            outcome: AccessOutcome::Masked,
            reason: Some(rules.join(", ")),
            origin,
        });
    }

    /// Whether the script is called for this payload: its matcher, if it has one, matches the tool.
    fn is_asked(&self, payload: &Value) -> bool {
        self.script.matcher.as_ref().is_none_or(|matcher| {
            let tool = payload.pointer("/call/name").and_then(Value::as_str);
            tool.is_some_and(|tool| matcher.is_match(tool))
        })
    }
}

struct ScriptBinding<'a> {
    script: &'a Arc<OpenScript>,
    registry: &'a mut Registry,
}

impl WithPoint for ScriptBinding<'_> {
    fn with<P: ScriptPoint>(self) {
        if let Some(row) = self.script.script.rows().find(|row| row.name == P::NAME) {
            let hook = Arc::new(AtPoint(self.script.clone()));
            self.registry.add::<P>(self.script.script.spec(row), hook);
        }
    }
}

struct AtPoint(Arc<OpenScript>);

impl<P: ScriptPoint> Hook<P> for AtPoint {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        Box::pin(async move {
            let payload = P::show(payload).map_err(unwritten_failure)?;
            let outcome = if self.0.is_asked(&payload) {
                self.0.ask_script(P::NAME, caller, payload).await?
            } else {
                Value::Object(serde_json::Map::new())
            };
            P::read(outcome).map_err(|error| {
                Failure::Malformed(format!(
                    "its output is not an outcome of `{}`: {error}; see `rind schema hooks`",
                    P::NAME
                ))
            })
        })
    }
}

fn unwritten_failure(error: serde_json::Error) -> Failure {
    Failure::Unavailable(format!("the payload cannot be written as JSON: {error}"))
}

/// Returns the total length of the strings in a value, in bytes.
fn json_bytes(value: &Value) -> usize {
    crate::json::all_values(value)
        .map(|value| value.as_str().map_or(0, str::len))
        .sum()
}
