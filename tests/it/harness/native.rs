//! Hooks, tools and an approver in native Rust.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use rind::message::{EffectClass, ToolSpec};
use rind::point::caller::Caller;
use rind::point::failure::Failure;
use rind::point::{ExtensionPoint, Hook};
use rind::tool::approval::{ApprovalAnswer, Approver, Question};
use rind::tool::{Tool, ToolCtx, ToolOutput};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A hook that is a closure.
pub(super) struct Native<F>(pub(super) F);

impl<P: ExtensionPoint, F> Hook<P> for Native<F>
where
    F: Fn(&Caller, &P::Payload) -> Result<P::Outcome, Failure> + Send + Sync,
{
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        let outcome = (self.0)(caller, payload);
        Box::pin(async move {
            // A real hook runs elsewhere, so its call is an await point at which a turn can be
            // interrupted.
            tokio::task::yield_now().await;
            outcome
        })
    }
}

/// A hook that never answers.
pub(crate) struct Hang;

impl<P: ExtensionPoint> Hook<P> for Hang {
    fn call<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        Box::pin(std::future::pending())
    }
}

/// An approver that gives these answers in order, and then "no".
#[derive(Default)]
pub(crate) struct Answers {
    pub(super) answers: Mutex<Vec<ApprovalAnswer>>,
    /// Whether to never answer.
    pub(crate) hangs: AtomicBool,
    pub(crate) asked: Mutex<Vec<Question>>,
}

impl Approver for Answers {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        self.asked.lock().unwrap().push(question.clone());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.is_empty() {
            ApprovalAnswer::No("nobody is there".to_owned())
        } else {
            answers.remove(0)
        };
        let hangs = self.hangs.load(Ordering::SeqCst);
        Box::pin(async move {
            tokio::task::yield_now().await;
            if hangs {
                std::future::pending::<()>().await;
            }
            answer
        })
    }
}

/// A tool that is a closure.
pub(crate) struct NativeTool<F> {
    spec: ToolSpec,
    run: F,
}

impl<F> NativeTool<F>
where
    F: Fn(CancellationToken) -> BoxFuture<'static, ToolOutput> + Send + Sync,
{
    /// A tool without arguments.
    pub(crate) fn new(name: &str, effect_class: EffectClass, run: F) -> Self {
        Self {
            spec: ToolSpec {
                name: name.to_owned(),
                description: "a tool of the tests".to_owned(),
                parameters: json!({"type": "object", "properties": {}}),
                effect_class,
                plugin: None,
            },
            run,
        }
    }
}

impl<F> Tool for NativeTool<F>
where
    F: Fn(CancellationToken) -> BoxFuture<'static, ToolOutput> + Send + Sync,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, _: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        (self.run)(ctx.cancel.clone())
    }
}
