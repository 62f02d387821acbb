//! Attacks with the handle of a payload, which must become invalid at the end of its call, whatever
//! the guest does with it.

use futures_util::future::BoxFuture;
use rind::grant::Trust;
use rind::message::{Message, Role};
use rind::plugin::load::FoundPluginSet;
use rind::point::catalog::Context;
use rind_tests::guests::Host;
use rind_tests::session::Session;

use crate::attack::{Attack, Stage, attack, gate, load, put};
use crate::programs::Program;

const PROGRAM: Program = Program::Guest("misuses_handles");

/// Manifest of a plugin that may change the conversation and has a deadline of 300 ms.
const MANIFEST: &str = "side_effects = [\"session\"]\n[limits]\ntimeout = \"300ms\"\n";

pub(crate) fn attacks() -> Vec<Attack> {
    let own = |what, run: fn() -> BoxFuture<'static, String>, meets| {
        attack(what, PROGRAM, Stage::Own(run), meets)
    };
    vec![
        own(
            "reads beyond a conversation",
            || Box::pin(reads("beyond")),
            "not found: nothing behind 3 messages",
        ),
        own(
            "drops a handle twice",
            || Box::pin(reads("twice")),
            "unknown handle index",
        ),
        own(
            "reads a handle without end",
            || Box::pin(reads("flood")),
            "stopped at its deadline of 300 ms",
        ),
        own(
            "uses a handle of an earlier call",
            || Box::pin(uses_later()),
            "unknown handle index",
        ),
        own(
            "keeps a handle beyond its call",
            || Box::pin(keeps()),
            "borrow handles still remain at the end of the call",
        ),
    ]
}

async fn misuser(how: &str) -> FoundPluginSet {
    let mut host = Host::default();
    let folder = host.folder().join("managed");
    put(&folder.join("attacker"), &PROGRAM, MANIFEST);
    host.options
        .sources
        .push(rind::plugin::discover::PluginSearchPath {
            trust: Trust::Managed,
            path: folder,
        });
    host.set("attacker", "how", how);
    host.load().await
}

/// Dispatches a conversation of three messages to the hooks. Returns the attacker's failure.
async fn shown(session: &Session) -> String {
    let messages: Vec<Message> = ["a", "b", "c"]
        .iter()
        .map(|text| Message::text(Role::User, *text))
        .collect();
    let done = session
        .dispatcher
        .dispatch::<Context>(&session.caller, messages)
        .await;
    let texts: Vec<String> = done.value.iter().map(Message::joined_text).collect();
    let traces = std::mem::take(&mut *session.memory.traces.lock().unwrap());
    let why = traces.into_iter().filter_map(|record| record.reason);
    format!(
        "{} | {}",
        why.collect::<Vec<_>>().join("; "),
        texts.join(" ")
    )
}

async fn reads(how: &str) -> String {
    let session = Session::open(&misuser(how).await);
    shown(&session).await
}

async fn uses_later() -> String {
    let session = Session::open(&misuser("").await);
    let first = shown(&session).await;
    format!("{} after {first}", gate(&session).await)
}

async fn keeps() -> String {
    let program = Program::Wat(include_str!("keeps_handle.wat").to_owned());
    let plugins = load(&program, MANIFEST, Trust::Managed).await;
    let session = Session::open(&plugins);
    format!("{} {:?}", shown(&session).await, plugins.left_out)
}
