//! The one dispatch function: every hook of every point, built-in or plugin-defined, runs through it.
//!
//! It holds the rules of dispatch: order, chain or side by side, deadlines, merge and re-check, `block` over `ask` over
//! `pass`, failure policy and quarantine, trace records, and that a plugin's hooks do not fire on what the plugin itself
//! causes. It knows neither WebAssembly nor what any point means.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use super::Point;
use super::caller::{Caller, MAX_NESTING};
use super::failure::{Failure, OnFailure};
use super::merge::{Answer, MergeEnv, Merged};
use super::outcome::Injection;
use super::quarantine::Quarantine;
use super::registry::{Bound, HookSpec, Registry};
use super::trace::{Sink, TraceOutcome, TraceRecord};

/// What hooks may do at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// May refuse.
    Gate,
    /// May change.
    Mutate,
    /// Contributes.
    Collect,
    /// Only looks.
    Observe,
}

impl Kind {
    /// Whether hooks run one after another, each on what the one before it left.
    #[must_use]
    pub fn is_chain(self) -> bool {
        matches!(self, Self::Gate | Self::Mutate)
    }

    /// What a failing hook does when nobody said otherwise.
    #[must_use]
    pub fn default_on_failure(self) -> OnFailure {
        if self == Self::Gate {
            OnFailure::Block
        } else {
            OnFailure::Skip
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gate => "gate",
            Self::Mutate => "mutate",
            Self::Collect => "collect",
            Self::Observe => "observe",
        })
    }
}

/// Something a plugin said, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Name of the plugin.
    pub plugin: Arc<str>,
    /// What it said.
    pub text: String,
}

/// What all hooks together say to going on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing against it.
    #[default]
    Pass,
    /// Ask the user first; the reasons of every hook that asked.
    Ask(Vec<Said>),
    /// Refused; the first refusal in order.
    Block(Said),
}

/// What came of a dispatch.
#[derive(Clone, Debug)]
pub struct Dispatched<T> {
    /// The payload as the hooks left it.
    pub value: T,
    /// What they say to going on.
    pub verdict: Verdict,
    /// Messages to add, in order.
    pub inject: Vec<(Arc<str>, Injection)>,
    /// Warnings for the model, in order.
    pub notes: Vec<Said>,
}

/// Calls hooks. One per agent and session; subagents share its registry through [`Dispatcher::fork`].
pub struct Dispatcher {
    registry: Arc<Registry>,
    quarantine: Arc<Quarantine>,
    sink: Arc<dyn Sink>,
    background: TaskTracker,
}

impl Dispatcher {
    /// A dispatcher over `registry` that reports to `sink`.
    #[must_use]
    pub fn new(registry: Arc<Registry>, sink: Arc<dyn Sink>) -> Self {
        let quarantine = Arc::new(Quarantine::default());
        quarantine.clear();
        Self {
            registry,
            quarantine,
            sink,
            background: TaskTracker::new(),
        }
    }

    /// The hooks this dispatcher calls.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Gives every hook that was dropped in the last turn a new chance.
    pub fn begin_turn(&self) {
        self.quarantine.clear();
    }

    /// Waits for `async` hooks that still run, at most `limit`. Whether all have ended.
    pub async fn settle(&self, limit: Duration) -> bool {
        self.background.close();
        let settled = tokio::time::timeout(limit, self.background.wait())
            .await
            .is_ok();
        self.background.reopen();
        settled
    }

    /// Calls the hooks of a built-in point.
    pub async fn dispatch<P: Point>(
        &self,
        caller: &Caller,
        payload: P::Payload,
    ) -> Dispatched<P::Payload> {
        self.dispatch_named::<P>(Cow::Borrowed(P::NAME), P::KIND, caller, payload)
            .await
    }

    /// Calls the hooks of the point `name`: [`Dispatcher::dispatch`] with name and kind given, for plugin-defined points.
    pub async fn dispatch_named<P: Point>(
        &self,
        name: Cow<'static, str>,
        kind: Kind,
        caller: &Caller,
        payload: P::Payload,
    ) -> Dispatched<P::Payload> {
        let mut run = Run::<P> {
            dispatcher: self,
            point: name,
            caller,
            out: Dispatched {
                value: payload,
                verdict: Verdict::Pass,
                inject: Vec::new(),
                notes: Vec::new(),
            },
        };
        let hooks = self.registry.hooks::<P>(&run.point);
        if hooks.is_empty() {
            return run.out;
        }
        let is_too_deep = caller.causes.len() > MAX_NESTING;
        let mut side_by_side = Vec::new();
        for bound in hooks
            .iter()
            .filter(|bound| !caller.is_caused_by(&bound.spec.plugin))
        {
            if is_too_deep {
                let failure = Failure::Unavailable(format!(
                    "plugins calling plugins are nested deeper than {MAX_NESTING}"
                ));
                run.finish(&bound.spec, Instant::now(), Err(failure));
            } else if let Some(why) = self.quarantine.why(&bound.spec.plugin, &run.point) {
                run.dropped(&bound.spec, why);
            } else if bound.spec.is_async {
                self.spawn(bound.clone(), run.point.clone(), caller, &run.out.value);
            } else if kind.is_chain() {
                let started = Instant::now();
                let result = call(bound, caller, &run.out.value).await;
                run.finish(&bound.spec, started, result);
            } else {
                side_by_side.push(bound);
            }
        }
        if let [bound] = side_by_side[..] {
            let started = Instant::now();
            let result = call(bound, caller, &run.out.value).await;
            run.finish(&bound.spec, started, result);
        } else if !side_by_side.is_empty() {
            let value = &run.out.value;
            let calls = side_by_side.iter().map(|bound| async {
                let started = Instant::now();
                (started, call(bound, caller, value).await)
            });
            let results = join_all(calls).await;
            for (bound, (started, result)) in side_by_side.iter().zip(results) {
                run.finish(&bound.spec, started, result);
            }
        }
        run.out
    }

    /// Starts a hook that nobody waits for. Its effects and its trace record come when it ends.
    fn spawn<P: Point>(
        &self,
        bound: Bound<P>,
        point: Cow<'static, str>,
        caller: &Caller,
        payload: &P::Payload,
    ) {
        let (caller, mut payload) = (caller.clone(), payload.clone());
        let (quarantine, sink) = (self.quarantine.clone(), self.sink.clone());
        self.background.spawn(async move {
            let started = Instant::now();
            let result = call(&bound, &caller, &payload).await;
            let report = Report {
                quarantine: &quarantine,
                sink: &*sink,
                point: &point,
                caller: &caller,
            };
            report.finish::<P>(&bound.spec, started, result, &mut payload);
        });
    }
}

/// Calls one hook within its deadline.
async fn call<P: Point>(
    bound: &Bound<P>,
    caller: &Caller,
    payload: &P::Payload,
) -> Result<P::Outcome, Failure> {
    let deadline = bound.spec.deadline;
    tokio::time::timeout(deadline, bound.hook.call(caller, payload))
        .await
        .unwrap_or(Err(Failure::Deadline(deadline)))
}

/// One dispatch on its way.
struct Run<'a, P: Point> {
    dispatcher: &'a Dispatcher,
    point: Cow<'static, str>,
    caller: &'a Caller,
    out: Dispatched<P::Payload>,
}

impl<P: Point> Run<'_, P> {
    /// Takes in what a hook answered.
    fn finish(&mut self, spec: &HookSpec, started: Instant, result: Result<P::Outcome, Failure>) {
        let report = Report {
            quarantine: &self.dispatcher.quarantine,
            sink: &*self.dispatcher.sink,
            point: &self.point,
            caller: self.caller,
        };
        let merged = report.finish::<P>(spec, started, result, &mut self.out.value);
        self.out.inject.extend(
            merged
                .inject
                .into_iter()
                .map(|injection| (spec.plugin.clone(), injection)),
        );
        if let Some(text) = merged.note {
            self.out.notes.push(Said {
                plugin: spec.plugin.clone(),
                text,
            });
        }
        self.answer(spec, merged.answer);
    }

    /// A hook that is out for the rest of the turn: a guard goes on refusing, by name.
    fn dropped(&mut self, spec: &HookSpec, why: String) {
        let report = Report {
            quarantine: &self.dispatcher.quarantine,
            sink: &*self.dispatcher.sink,
            point: &self.point,
            caller: self.caller,
        };
        let (outcome, answer) = match spec.on_failure {
            OnFailure::Block => {
                let reason = format!(
                    "the hook is out for the rest of this turn and refuses what it would have judged: {why}"
                );
                (TraceOutcome::DroppedBlocking, Some(Answer::Block(reason)))
            }
            OnFailure::Skip => (TraceOutcome::Dropped, None),
        };
        report.trace(spec, outcome, Vec::new(), Some(why), 0.0);
        self.answer(spec, answer);
    }

    /// `block` beats `ask` beats `pass`, whatever the order.
    fn answer(&mut self, spec: &HookSpec, answer: Option<Answer>) {
        let said = |text| Said {
            plugin: spec.plugin.clone(),
            text,
        };
        match (answer, &mut self.out.verdict) {
            (None, _) | (Some(_), Verdict::Block(_)) => {}
            (Some(Answer::Block(text)), verdict) => *verdict = Verdict::Block(said(text)),
            (Some(Answer::Ask(text)), Verdict::Ask(all)) => all.push(said(text)),
            (Some(Answer::Ask(text)), verdict) => *verdict = Verdict::Ask(vec![said(text)]),
        }
    }
}

/// What happens to a hook's answer whether or not somebody waits for it.
struct Report<'a> {
    quarantine: &'a Quarantine,
    sink: &'a dyn Sink,
    point: &'a Cow<'static, str>,
    caller: &'a Caller,
}

impl Report<'_> {
    /// Merges an outcome, or applies the failure policy; leaves a trace record either way.
    fn finish<P: Point>(
        &self,
        spec: &HookSpec,
        started: Instant,
        result: Result<P::Outcome, Failure>,
        payload: &mut P::Payload,
    ) -> Merged {
        let env = MergeEnv {
            plugin: &spec.plugin,
            may_change: spec.may_change,
        };
        let merged =
            result.and_then(|outcome| P::merge(payload, outcome, &env).map_err(Failure::Malformed));
        let micros = started.elapsed().as_nanos() as f64 / 1000.0;
        match merged {
            Ok(mut merged) => {
                let (outcome, reason) = match &merged.answer {
                    Some(Answer::Block(reason)) => (TraceOutcome::Blocked, Some(reason.clone())),
                    Some(Answer::Ask(reason)) => (TraceOutcome::Asked, Some(reason.clone())),
                    None if merged.changed.is_empty() => (TraceOutcome::Pass, None),
                    None => (TraceOutcome::Changed, merged.note.clone()),
                };
                self.trace(
                    spec,
                    outcome,
                    std::mem::take(&mut merged.changed),
                    reason,
                    micros,
                );
                for effect in merged.effects.drain(..) {
                    self.sink.effect(&spec.plugin, effect);
                }
                merged
            }
            Err(failure) => self.failed(spec, &failure, micros),
        }
    }

    fn failed(&self, spec: &HookSpec, failure: &Failure, micros: f64) -> Merged {
        let why = failure.to_string();
        if failure.drops_hook() {
            self.quarantine
                .drop_hook(&spec.plugin, self.point, why.clone());
        }
        let (outcome, answer) = match spec.on_failure {
            OnFailure::Block => (
                TraceOutcome::FailedBlocking,
                Some(Answer::Block(format!(
                    "the hook failed, so what it judges is refused: {why}"
                ))),
            ),
            OnFailure::Skip => (TraceOutcome::Failed, None),
        };
        self.trace(spec, outcome, Vec::new(), Some(why), micros);
        Merged {
            answer,
            ..Merged::default()
        }
    }

    fn trace(
        &self,
        spec: &HookSpec,
        outcome: TraceOutcome,
        changed: Vec<&'static str>,
        reason: Option<String>,
        micros: f64,
    ) {
        let (turn, step) = (self.caller.context.turn, self.caller.context.step);
        self.sink.trace(TraceRecord {
            point: self.point.clone(),
            plugin: spec.plugin.clone(),
            outcome,
            changed,
            reason,
            micros,
            turn,
            step,
        });
    }
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
