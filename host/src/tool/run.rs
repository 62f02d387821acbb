//! Runs one tool call to completion, even if the tool hangs, panics or returns too much.
//!
//! This module must not know whether the call is allowed; that was decided before. Start from
//! [`run_tool_call`].

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Tool, ToolCtx, ToolOutput};
use crate::point::deadline::run_call_with_deadline;
use crate::point::failure::{Failure, panic_text};

/// Default deadline of a call. It is longer than the maximum deadline of a `bash` command, so that
/// `bash` itself reports a command that runs too long, in a more specific message.
pub const DEFAULT_TOOL_CALL_DEADLINE: Duration = Duration::from_secs(660);

/// Default limit of a tool's output, in bytes.
pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

/// Time that a tool gets to stop by itself and report its partial result before it is dropped.
/// Longer than the time between SIGTERM and SIGKILL for processes.
const TOOL_STOP_GRACE_PERIOD: Duration = Duration::from_secs(4);

/// Runs the tool and measures the time. At the deadline, or if the call is cancelled, cancels the
/// tool's token, drops the tool if it does not stop, and returns an output that says so. Never
/// panics, and never takes much longer than the deadline, which is suspended while the tool waits
/// for the user or for other calls of the same plugin.
pub async fn run_tool_call(
    tool: &dyn Tool,
    arguments: Value,
    ctx: &ToolCtx,
    deadline: Duration,
    output_cap_bytes: usize,
) -> (ToolOutput, Duration) {
    let started = Instant::now();
    let mut output = run_tool_within_deadline(tool, arguments, ctx, deadline).await;
    output.content.truncate_to(output_cap_bytes);
    (output, started.elapsed())
}

async fn run_tool_within_deadline(
    tool: &dyn Tool,
    arguments: Value,
    ctx: &ToolCtx,
    deadline: Duration,
) -> ToolOutput {
    if ctx.cancel.is_cancelled() {
        return ToolOutput::from_error_content("cancelled before it ran");
    }
    // Give the tool a separate token. The deadline must stop only this call, and a tool that ends
    // because its token was cancelled must not look like a tool that ended by itself.
    let inner = ToolCtx {
        caller: ctx.caller.clone(),
        cancel: CancellationToken::new(),
        readable: ctx.readable.clone(),
        known: ctx.known.clone(),
        recorder: ctx.recorder.clone(),
        live: ctx.live.clone(),
        background: ctx.background.clone(),
    };
    let _stop_on_drop = inner.cancel.clone().drop_guard();
    let name = tool.spec().name.clone();
    // Call `run` inside the async block, so that a panic while it creates its future is caught too.
    let call = AssertUnwindSafe(async { tool.run(arguments, &inner).await })
        .catch_unwind()
        .map(
            |outcome| Ok(outcome.unwrap_or_else(|panic| tool_panic_output(&name, panic.as_ref()))),
        );
    let mut call = pin!(call);
    let (why, is_fault) = tokio::select! {
        biased;
        answer = run_call_with_deadline(deadline, Instant::now(), &mut call) => match answer {
            Ok(output) => return output,
            Err(Failure::Deadline(_)) => {
                let seconds = deadline.as_secs_f64();
                (format!("the call was stopped: it ran longer than {seconds:.1} s"), true)
            }
            Err(failure) => (format!("the call was stopped: {failure}"), true),
        },
        () = ctx.cancel.cancelled() => ("the call was cancelled while it ran".to_owned(), false),
    };
    inner.cancel.cancel();
    let content = match tokio::time::timeout(TOOL_STOP_GRACE_PERIOD, &mut call).await {
        Ok(Ok(output)) if output.content != "" => format!("{why}\n\n{}", output.content),
        _ => why,
    };
    ToolOutput {
        is_fault,
        ..ToolOutput::from_error_content(content)
    }
}

fn tool_panic_output(name: &str, panic: &(dyn Any + Send)) -> ToolOutput {
    let message = panic_text(panic);
    tracing::error!(tool = name, message, "tool panicked");
    ToolOutput::from_fault_content(format!("internal error of tool `{name}`: {message}"))
}
