//! `model-quartermaster`: statistics of one session choose the model in the next. Its other
//! behavior is tested by its case files.

use rind::provider::scripted::Reply;
use rind_tests::guests::Host;
use serde_json::{Value, json};

use super::setup_of;
use crate::harness::Running;

const NAME: &str = "model-quartermaster";

/// A host whose plugin has stored statistics of 60 turns of short questions to `small`, of which
/// `good` went well.
fn host(models: Value, good: f64) -> Host {
    let mut host = Host::default();
    host.guest(NAME);
    let models: toml::Value = serde_json::from_value(models).unwrap();
    host.set(NAME, "models", models);
    let stat = json!({"n": 60.0, "good": good, "input": 600.0, "output": 60.0, "requests": 60.0, "millis": 60.0});
    let stats = json!({"short-plain": {"small": stat}});
    let store =
        rind::plugin::store::PluginKeyValueStore::in_plugin_folder(&host.options.data.join(NAME));
    store.set("stats", &stats.to_string()).unwrap();
    host
}

async fn turn(host: &Host) -> Running {
    let mut running = setup_of(host, vec![Reply::text("done")]).await.build();
    running.turn("what is this?").await;
    running
}

fn asked(running: &Running) -> String {
    running.provider.recorded_request_bodies()[0]["model"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn what_was_learnt_takes_the_model_and_the_turn_is_learnt_from() {
    let host = host(json!([{"name": "test-model"}, {"name": "small"}]), 60.0);
    let running = turn(&host).await;
    assert_eq!(asked(&running), "small");
    let store =
        rind::plugin::store::PluginKeyValueStore::in_plugin_folder(&host.options.data.join(NAME));
    let stats: Value = serde_json::from_str(&store.get("stats").unwrap().unwrap()).unwrap();
    assert_eq!(stats["short-plain"]["small"]["n"], 61.0);
    assert_eq!(stats["short-plain"].get("test-model"), None);
}
