//! Registers a script with the dispatcher and calls it in one session.
//!
//! Builds the JSON input, calls the program (a process per call, or one that keeps running), masks
//! secrets in the outcome and reports files that git would run. Start from [`SessionHookScript`].

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::HookScript;
use super::claude::ClaudeHooksSessionState;
use super::json::{self, JsonExtensionPoint, JsonExtensionPointCallback, ScriptHookCall};
use super::once::{self, ScriptProgram};
use super::pin::DigestPinnedFile;
use super::warm::PersistentScript;
use crate::json::{MAX_JSON_NESTING_DEPTH, measure_nesting_depth};
use crate::point::Hook;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::point::handle::AgentHandle;
use crate::point::registry::HookRegistry;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::secret::{mask_secrets_in_json, run_blocking_scan};
use crate::text::escape_and_truncate_line;

/// Maximum length in bytes of the message that a script left a file that git would run. The message
/// is truncated, because it contains the path.
const MAX_GIT_CONTROL_FILE_MESSAGE_BYTES: usize = 500;

/// A script that is called in a session.
pub(crate) struct SessionHookScript {
    script: Arc<HookScript>,
    program: ScriptProgram,
    /// Process of the script that keeps running between calls; `None` if each call starts a
    /// process.
    warm: Option<PersistentScript>,
    claude: ClaudeHooksSessionState,
    handle: Arc<dyn AgentHandle>,
}

impl SessionHookScript {
    /// Prepares the operator's script for calls in one session. No process starts before the first
    /// call.
    pub(crate) fn new(
        script: Arc<HookScript>,
        program: ScriptProgram,
        handle: Arc<dyn AgentHandle>,
    ) -> Arc<Self> {
        Arc::new(Self {
            claude: ClaudeHooksSessionState::default(),
            warm: script
                .is_warm
                .then(|| PersistentScript::new(program.clone())),
            script,
            program,
            handle,
        })
    }

    /// Registers the script as a hook at each of its extension points.
    pub(crate) fn register_hooks(self: &Arc<Self>, registry: &mut HookRegistry) {
        for row in self.script.extension_points() {
            let binding = ScriptHookRegistration {
                script: self,
                registry: &mut *registry,
            };
            json::call_with_point(row.name, binding);
        }
    }

    /// Calls the script and returns its JSON outcome.
    async fn call_script(
        &self,
        point: &'static str,
        caller: &Caller,
        payload: Value,
    ) -> Result<Value, Failure> {
        let mut outcome = match &self.script.claude {
            Some(_) => self.call_claude_hook(point, caller, &payload).await?,
            None => {
                let call = ScriptHookCall::new(&self.script.name, point, caller, payload);
                match &self.warm {
                    Some(warm) => warm.call_running_script(call).await?,
                    None => {
                        let input = serde_json::to_vec(&call).map_err(serialization_failure)?;
                        let on_planted = self.git_control_file_callback(point, caller);
                        once::call_script_once(&self.program, input, &self.script, on_planted)
                            .await?
                    }
                }
            }
        };
        if measure_nesting_depth(&outcome) > MAX_JSON_NESTING_DEPTH {
            return Err(Failure::Malformed(format!(
                "its outcome is nested deeper than {MAX_JSON_NESTING_DEPTH} levels"
            )));
        }
        self.mask_secrets_in_outcome(point, caller, &mut outcome);
        Ok(outcome)
    }

    /// Checks on a blocking thread that the pinned files are unchanged.
    async fn check_pinned_files(&self) -> Result<(), Failure> {
        if self.script.pins.is_empty() {
            return Ok(());
        }
        let script = self.script.clone();
        let check = move || {
            script
                .pins
                .iter()
                .try_for_each(DigestPinnedFile::check_unchanged)
        };
        let checked = tokio::task::spawn_blocking(check).await;
        checked
            .unwrap_or_else(|error| {
                Err(format!(
                    "cannot check whether the files that the hook runs are unchanged: {error}"
                ))
            })
            .map_err(Failure::Unavailable)
    }

    /// Calls a hook of Claude Code and returns its reply as an outcome of the extension point.
    async fn call_claude_hook(
        &self,
        point: &'static str,
        caller: &Caller,
        payload: &Value,
    ) -> Result<Value, Failure> {
        let nothing = || Value::Object(serde_json::Map::new());
        let Some(hook) = &self.script.claude else {
            return Ok(nothing());
        };
        let Some(input) = hook.build_hook_input(caller, payload, &self.claude) else {
            return Ok(nothing());
        };
        self.check_pinned_files().await?;
        let input = serde_json::to_vec(&input).map_err(serialization_failure)?;
        let on_planted = self.git_control_file_callback(point, caller);
        let finished =
            once::run_program_once(&self.program, input, self.script.deadline, on_planted).await?;
        hook.convert_hook_output(caller, payload, &finished, &self.claude)
    }

    /// Returns a callback for files that a script created and that git would run, such as git
    /// hooks. The callback records each file.
    fn git_control_file_callback(
        &self,
        point: &'static str,
        caller: &Caller,
    ) -> once::GitControlFileCallback {
        let (handle, name) = (self.handle.clone(), self.script.name.clone());
        let mut origin = caller.action_origin();
        origin.point = Some(point.into());
        Box::new(move |planted| {
            handle.record_access(AccessRecord {
                plugin: name.as_str().into(),
                reached: Reached::Files,
                target: "leave what git would run".to_owned(),
                outcome: AccessOutcome::Denied,
                reason: Some(escape_and_truncate_line(
                    &planted,
                    MAX_GIT_CONTROL_FILE_MESSAGE_BYTES,
                )),
                origin: origin.clone(),
            });
        })
    }

    /// Masks secrets in an outcome of the script, and records which rules found them.
    fn mask_secrets_in_outcome(&self, point: &'static str, caller: &Caller, outcome: &mut Value) {
        let mut rules = BTreeSet::new();
        run_blocking_scan(total_string_bytes(outcome), || {
            mask_secrets_in_json(outcome, &mut rules)
        });
        if rules.is_empty() {
            return;
        }
        let rules: Vec<&str> = rules.iter().map(|rule| &**rule).collect();
        let mut origin = caller.action_origin();
        origin.point = Some(point.into());
        self.handle.record_access(AccessRecord {
            plugin: self.script.name.as_str().into(),
            reached: Reached::Secret,
            target: format!("{point} outcome"),
            outcome: AccessOutcome::Masked,
            reason: Some(rules.join(", ")),
            origin,
        });
    }

    /// Whether the script is called for this payload: its matcher, if it has one, matches the tool.
    fn matches_payload(&self, payload: &Value) -> bool {
        self.script.matcher.as_ref().is_none_or(|matcher| {
            let tool = payload.pointer("/call/name").and_then(Value::as_str);
            tool.is_some_and(|tool| matcher.is_match(tool))
        })
    }
}

struct ScriptHookRegistration<'a> {
    script: &'a Arc<SessionHookScript>,
    registry: &'a mut HookRegistry,
}

impl JsonExtensionPointCallback for ScriptHookRegistration<'_> {
    fn run_for_extension_point<P: JsonExtensionPoint>(self) {
        if let Some(row) = self
            .script
            .script
            .extension_points()
            .find(|row| row.name == P::NAME)
        {
            let hook = Arc::new(ScriptHook(self.script.clone()));
            self.registry
                .add::<P>(self.script.script.hook_spec(row), hook);
        }
    }
}

struct ScriptHook(Arc<SessionHookScript>);

impl<P: JsonExtensionPoint> Hook<P> for ScriptHook {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        Box::pin(async move {
            let payload = P::payload_to_json(payload).map_err(serialization_failure)?;
            let outcome = if self.0.matches_payload(&payload) {
                self.0.call_script(P::NAME, caller, payload).await?
            } else {
                Value::Object(serde_json::Map::new())
            };
            P::parse_outcome(outcome).map_err(|error| {
                Failure::Malformed(format!(
                    "its output is not an outcome of `{}`: {error}; see `rind schema hooks`",
                    P::NAME
                ))
            })
        })
    }
}

fn serialization_failure(error: serde_json::Error) -> Failure {
    Failure::Unavailable(format!("the payload cannot be written as JSON: {error}"))
}

/// Returns the total length of all strings in a JSON value, in bytes.
fn total_string_bytes(value: &Value) -> usize {
    crate::json::iter_all_values(value)
        .map(|value| value.as_str().map_or(0, str::len))
        .sum()
}
