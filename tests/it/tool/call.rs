//! Tests of running a call, whatever the tool does.

use std::future::pending;
use std::time::{Duration, Instant};

use rind::message::{EffectClass, ToolSpec};
use rind::tool::run::run_tool_call;
use rind::tool::{Tool, ToolCtx, ToolOutput};
use serde_json::{Value, json};

use super::ctx;

/// A tool that misbehaves in the way that its arguments select.
struct Odd(ToolSpec);

impl Tool for Odd {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(
        &'a self,
        arguments: Value,
        ctx: &'a ToolCtx,
    ) -> std::pin::Pin<Box<dyn Future<Output = ToolOutput> + Send + 'a>> {
        assert!(arguments != json!("panic at once"), "boom at once");
        Box::pin(async move {
            match arguments.as_str() {
                Some("panic later") => {
                    tokio::task::yield_now().await;
                    panic!("boom {}", 7);
                }
                Some("hang") => pending().await,
                Some("watch") => {
                    ctx.cancel.cancelled().await;
                    ToolOutput::ok("half done")
                }
                Some("flood") => ToolOutput::ok("ä".repeat(1_000)),
                _ => ToolOutput::ok("fine"),
            }
        })
    }
}

async fn run(how: &str, ctx: &ToolCtx, deadline_ms: u64) -> ToolOutput {
    let odd = Odd(ToolSpec {
        name: "odd".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect_class: EffectClass::Read,
        plugin: None,
    });
    let deadline = Duration::from_millis(deadline_ms);
    run_tool_call(&odd, json!(how), ctx, deadline, 101).await.0
}

#[tokio::test]
async fn a_panic_in_a_tool_is_an_answer() {
    let first = run("panic at once", &ctx(), 1_000).await;
    assert_eq!(
        first,
        ToolOutput::from_fault_content("internal error of tool `odd`: boom at once")
    );
    let later = run("panic later", &ctx(), 1_000).await;
    assert_eq!(
        later,
        ToolOutput::from_fault_content("internal error of tool `odd`: boom 7")
    );
    assert_eq!(run("", &ctx(), 1_000).await, ToolOutput::ok("fine"));
}

#[tokio::test]
async fn a_tool_that_hangs_is_dropped_after_its_deadline() {
    let started = Instant::now();
    let output = run("hang", &ctx(), 100).await;
    assert_eq!(
        output,
        ToolOutput::from_fault_content("the call was stopped: it ran longer than 0.1 s")
    );
    assert!(started.elapsed() < Duration::from_secs(6));
}

#[tokio::test]
async fn a_tool_that_watches_its_token_tells_what_it_did() {
    let ctx = ctx();
    let output = run("watch", &ctx, 50).await;
    assert!(
        output.is_error && output.content.text().ends_with("\n\nhalf done"),
        "{}",
        output.content
    );
    assert!(
        !ctx.cancel.is_cancelled(),
        "a deadline stops one call, not the turn"
    );
    let cancel = ctx.cancel.clone();
    tokio::spawn(async move { cancel.cancel() });
    let output = run("watch", &ctx, 60_000).await;
    assert_eq!(
        output,
        ToolOutput::from_error_content("the call was cancelled while it ran\n\nhalf done")
    );
}

#[tokio::test]
async fn an_answer_is_cut_at_its_cap_and_says_so() {
    let output = run("flood", &ctx(), 1_000).await;
    assert_eq!(
        output.content,
        format!("{}\n[cut: 1900 more bytes]", "ä".repeat(50))
    );
}
