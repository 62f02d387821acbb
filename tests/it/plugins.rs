//! First-party plugins in complete turns: the real components in an agent with a scripted model and
//! real tools.

mod content_safety;
mod pre_completion_checklist;
mod quartermaster;

use rind::provider::scripted::Reply;
use rind_tests::guests::Host;

use crate::harness::Setup;

/// An agent with one first-party plugin and its settings. The returned host keeps the plugin's
/// folders alive.
async fn with_plugin(
    plugin: &str,
    settings: &[(&str, toml::Value)],
    script: Vec<Reply>,
) -> (Host, Setup) {
    let mut host = Host::default();
    host.guest(plugin);
    for (key, value) in settings {
        host.set(plugin, key, value.clone());
    }
    let mut setup = Setup::new(script);
    setup.plugins = host.load().await;
    assert!(
        setup.plugins.left_out.is_empty(),
        "{:?}",
        setup.plugins.left_out
    );
    (host, setup)
}
