//! A worker whose model is a script and whose one tool appends a line to a file, for tests that kill
//! it: `nats-worker URLS TENANT CLASS NAME EFFECTS`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program of tests"
)]

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rind_lib::Host;
use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::provider::scripted::{Reply, ReplyCondition, Script, Scripted};
use rind_lib::session::SessionStore;
use rind_lib::tool::policy::{Decision, Policy, PolicyCall, ToolVerdict};
use rind_lib::tool::{FileChangeTrackingMethod, Tool, ToolCtx, ToolOutput};
use rind_nats::worker::{HostTurnRunner, NatsWorker, WorkerConfig};
use rind_nats::{NatsConfig, NatsSessions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Maximum number of inputs of a session for which the script has replies.
const N_INPUTS: usize = 12;

/// Tool that appends the input for which it ran as a line to the file `effects`.
struct Stamp {
    spec: ToolSpec,
    effects: PathBuf,
}

impl Tool for Stamp {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        FileChangeTrackingMethod::Unneeded
    }

    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let session = &ctx.caller.context.session;
            let line = format!("{session} {}\n", arguments["n"]);
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&self.effects);
            file.unwrap().write_all(line.as_bytes()).unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
            ToolOutput::ok("stamped")
        })
    }
}

struct AllowAll;

impl Policy for AllowAll {
    fn decide(&self, _: &PolicyCall<'_>) -> Decision {
        Decision {
            verdict: ToolVerdict::Allow,
            rule: "tests".to_owned(),
        }
    }
}

fn script(delay_ms: u64) -> Script {
    let call = |n: usize| Reply {
        when: Some(ReplyCondition {
            contains: Some(format!("do <{n}>")),
            step: Some(1),
            ..ReplyCondition::default()
        }),
        times: Some(0),
        delay_ms,
        ..Reply::call("stamp", json!({"n": n}))
    };
    let mut replies: Vec<Reply> = (0..N_INPUTS).map(call).collect();
    replies.push(Reply {
        when: Some(ReplyCondition {
            after_tool: Some("stamp".to_owned()),
            ..ReplyCondition::default()
        }),
        times: Some(0),
        delay_ms,
        ..Reply::text("done")
    });
    Script::new(replies)
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [urls, tenant, class, name, effects] = &args[..] else {
        panic!("nats-worker URLS TENANT CLASS NAME EFFECTS");
    };
    let config = NatsConfig::new(urls, tenant).unwrap();
    let sessions = tokio::task::spawn_blocking(move || NatsSessions::connect(config).unwrap());
    let sessions = sessions.await.unwrap();
    let stamp = Stamp {
        spec: ToolSpec {
            name: "stamp".to_owned(),
            description: "Writes a line.".to_owned(),
            parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            effect_class: EffectClass::External,
            plugin: None,
        },
        effects: effects.into(),
    };
    let delay = std::env::var("RIND_TEST_DELAY_MS")
        .ok()
        .and_then(|text| text.parse().ok());
    let host = Host::builder()
        .provider(
            Arc::new(Scripted::new(script(delay.unwrap_or(20)))),
            "scripted",
        )
        .store(SessionStore::with_backend(Arc::new(sessions.clone())))
        .policy(Arc::new(AllowAll))
        .tool(Arc::new(stamp))
        .build()
        .await
        .unwrap();
    let worker = WorkerConfig {
        // High, so that the faults that the tests cause do not make an input a dead letter.
        max_attempts: 1_000,
        slots: 2,
        grace: Duration::from_secs(5),
        ..WorkerConfig::new(class, name)
    };
    let stop = CancellationToken::new();
    let own = stop.clone();
    let mut terminated =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    tokio::spawn(async move {
        terminated.recv().await;
        own.cancel();
    });
    let worker = NatsWorker::new(sessions, worker, Arc::new(HostTurnRunner::new(host))).unwrap();
    let report = worker.run(stop).await.unwrap();
    println!("{report:?}");
}
