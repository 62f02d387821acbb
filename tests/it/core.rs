//! First-party plugins in their sandbox: the real components in a real agent.

mod audit_log;
mod cost_tracker;
mod model_quartermaster;

use rind::event::Event;
use rind_tests::guests::Host;

use crate::harness::{Running, Setup};
use rind::provider::scripted::Reply;

/// An agent that follows this script under a policy that allows everything, with the plugins of
/// `host`.
async fn setup_of(host: &Host, script: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(script);
    setup.plugins = host.load().await;
    let left_out = &setup.plugins.left_out;
    assert!(left_out.is_empty(), "{left_out:?}");
    setup
}

/// Texts of a plugin's notices so far.
fn notices(running: &Running, of: &str) -> Vec<String> {
    let notice = |event: &Event| match event {
        Event::Notice {
            plugin: Some(plugin),
            text,
            ..
        } if plugin == of => Some(text.clone()),
        _ => None,
    };
    running.events.iter().filter_map(notice).collect()
}
