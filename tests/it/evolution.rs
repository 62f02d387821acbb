//! Components of two versions of the contract in one turn: one that was compiled against version
//! 0.1.0 and is kept unchanged, and one of the next version, which `tests/evolution/next.wit`
//! defines.

use std::io::Read;

use rind::event::Event;
use rind::grant::Trust;
use rind::plugin::discover::PluginSearchPath;
use rind::provider::scripted::Reply;
use rind_tests::guests::{Host, workspace};
use serde_json::json;

use crate::harness::Setup;

/// Installs the guest with its component of a released version instead of the newly compiled one.
fn put_released(host: &mut Host, version: &str) {
    let folder = host.guest("contract-now");
    let kept = workspace().join(format!("tests/evolution/contract-{version}.wasm"));
    std::fs::copy(kept, folder.join("guest_contract_now.wasm")).unwrap();
}

#[tokio::test]
async fn components_of_two_versions_run_in_one_turn_and_each_gets_what_it_was_built_for() {
    let mut host = Host::default();
    put_released(&mut host, "0.1.0");
    host.guest("contract-next");
    let mut setup = Setup::new(vec![Reply::call("kept", json!({})), Reply::text("done")]);
    setup.plugins = host.load().await;
    let left_out = &setup.plugins.left_out;
    assert!(left_out.is_empty(), "{left_out:?}");
    let mut running = setup.build();
    let outcome = running.turn("go on").await;
    assert_eq!(outcome.output, "done, read by the old");
    let stored = running.stored.lock().unwrap().clone();
    let stored: Vec<&str> = stored.iter().map(String::as_str).collect();
    assert_eq!(
        stored,
        [
            "contract-next/pre-output=done",
            "contract-now/pre-output=done",
            // The new contract has one more point, and one more function in an import.
            "contract-next/turn-done=done, read by the old and 2 keys",
            "contract-now/post-output=done, read by the old",
            // The new contract has one more enum case and one more record field, which the old
            // guest does not see.
            "contract-next/turn-end=StopReason::Worked with 0.5 calls a step",
            "contract-now/turn-end=StopReason::Done after 1 calls",
        ]
    );
    // The new contract has one more optional field in an outcome.
    let notices = running.events.iter().filter_map(|event| match event {
        Event::Notice { plugin, text, .. } => Some((plugin.as_deref(), text.as_str())),
        _ => None,
    });
    let notices: Vec<_> = notices.collect();
    assert_eq!(notices, [(Some("contract-next"), "the new has read it")]);
    let results = running.results();
    assert_eq!(results[0].0, "kept in turn 1: [\"tool\"]");
}

/// Installs the guest of another language with its component of a released version, which is stored
/// compressed.
fn put_released_in(host: &mut Host, language: &str, version: &str) {
    let kept = workspace().join("tests/evolution");
    let folder = host
        .folder()
        .join("managed")
        .join(format!("contract-{language}"));
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = kept.join(language).join("plugin.toml");
    std::fs::copy(manifest, folder.join("plugin.toml")).unwrap();
    let packed =
        std::fs::read(kept.join(format!("contract-{version}-{language}.wasm.xz"))).unwrap();
    let mut component = Vec::new();
    lzma_rust2::XzReader::new(&packed[..], false)
        .read_to_end(&mut component)
        .unwrap();
    std::fs::write(folder.join("contract.wasm"), component).unwrap();
    host.options.sources.push(PluginSearchPath {
        trust: Trust::Managed,
        path: folder.parent().unwrap().to_owned(),
    });
}

#[tokio::test]
async fn the_released_components_in_javascript_and_python_run_as_they_are() {
    for language in ["javascript", "python"] {
        let mut host = Host::default();
        put_released_in(&mut host, language, "0.1.0");
        let mut setup = Setup::new(vec![Reply::call("kept", json!({})), Reply::text("done")]);
        setup.plugins = host.load().await;
        let left_out = &setup.plugins.left_out;
        assert!(left_out.is_empty(), "{left_out:?}");
        let stamp = setup.plugins.plugins[0].stamp.clone().unwrap();
        assert_eq!((&*stamp.contract, &*stamp.language), ("0.1.0", language));
        let mut running = setup.build();
        let outcome = running.turn("go on").await;
        assert_eq!(outcome.output, "done, read by the old");
        assert_eq!(running.results()[0].0, "kept in turn 1: tool");
        let stored = running.stored.lock().unwrap().clone();
        let name = format!("contract-{language}");
        assert_eq!(
            stored,
            [
                // This hook reads a handle and returns it in time.
                format!("{name}/post-tool=kept: kept in turn 1: tool"),
                format!("{name}/pre-output=done"),
                format!("{name}/post-output=done, read by the old"),
                format!("{name}/turn-end=done after 1 calls"),
            ]
        );
    }
}

#[tokio::test]
async fn the_released_component_says_what_it_was_built_with() {
    let mut host = Host::default();
    put_released(&mut host, "0.1.0");
    host.plugin(Trust::Managed, "contract-next", |manifest| manifest);
    let plugins = host.load().await;
    let stamp = |name: &str| {
        let mut all = plugins.plugins.iter();
        let plugin = all.find(|plugin| plugin.manifest.name == name).unwrap();
        plugin.stamp.clone()
    };
    let stamp_of_old = stamp("contract-now").unwrap();
    assert_eq!(stamp_of_old.contract, "0.1.0");
    assert_eq!(stamp_of_old.language, "rust");
    assert_eq!(stamp_of_old.sdk, "rind-sdk 0.1.0");
    // A component without an SDK has no stamp, and its contract is recognized by its interfaces.
    assert_eq!(stamp("contract-next"), None);
}
