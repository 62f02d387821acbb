//! A custom policy: files below `docs/` may be changed, a person is asked about other files, and no
//! program runs.
//!
//! `cargo run -p rind --example policy` plays a turn that tries all three in a temporary folder.
#![allow(clippy::print_stdout, reason = "it shows what was decided")]

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use rind::Host;
use rind::message::EffectClass;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::approval::{ApprovalAnswer, Approver, Question};
use rind::tool::builtin::CommandConfinementMode;
use rind::tool::policy::{Decision, Policy, PolicyCall, ToolVerdict};
use rind::tool::subject::{Subject, WorkspacePath};
use serde_json::json;

struct DocsOnlyPolicy;

impl Policy for DocsOnlyPolicy {
    fn decide(&self, call: &PolicyCall<'_>) -> Decision {
        let (verdict, rule) = match (call.spec.effect_class, call.subject) {
            // A hook of a plugin or of this program asks for a person's approval.
            _ if call.is_asked => (ToolVerdict::Ask, "a hook asks"),
            (EffectClass::Read, _) => (ToolVerdict::Allow, "reading is free"),
            // The path is resolved, without links and `..`.
            (EffectClass::Write, Subject::File(WorkspacePath::Known(path)))
                if path.starts_with("docs/") =>
            {
                (ToolVerdict::Allow, "docs are free")
            }
            (EffectClass::Write, _) => (ToolVerdict::Ask, "other files are asked about"),
            (EffectClass::Execute | EffectClass::External, _) => {
                let why = "this agent writes docs and runs nothing".to_owned();
                (ToolVerdict::Deny(why), "no programs")
            }
        };
        Decision {
            verdict,
            rule: rule.to_owned(),
        }
    }
}

/// Approver that answers no to every question, after printing it, because no user is present.
struct AbsentUser;

impl Approver for AbsentUser {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        println!("asked about {}", question.tool);
        async { ApprovalAnswer::No("not while I am away".to_owned()) }.boxed()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let write = |path: &str| Reply::call("write_file", json!({"path": path, "content": "text"}));
    let script = Script::new(vec![
        write("docs/guide.md"),
        write("src/main.rs"),
        Reply::call("bash", json!({"command": "rm -rf docs"})),
        Reply::text("One of three was done."),
    ]);
    let host = Host::builder()
        .provider(Arc::new(Scripted::new(script)), "scripted")
        .built_in_tools(CommandConfinementMode::Refused(
            "no program runs here".to_owned(),
        ))
        .policy(Arc::new(DocsOnlyPolicy))
        .approver(Arc::new(AbsentUser))
        .build()
        .await?;
    std::fs::create_dir(host.workspace().join("docs"))?;
    let mut session = host.session().create()?;
    let outcome = session.turn("Write the guide.").await?;
    for message in session.messages() {
        for result in message.tool_results() {
            println!("{}", result.content);
        }
    }
    println!("{}", outcome.output);
    session.close().await?;
    Ok(())
}
