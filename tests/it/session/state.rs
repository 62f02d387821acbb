//! Tests of state that plugins keep in a session, and of their access to it.

use std::fs;

use rind::point::caller::Caller;
use rind::point::handle::{AgentHandle, HostFunctionError, PluginStateWriteMode};
use rind::session::{
    Error, MAX_INLINE_STATE_VALUE_BYTES, MAX_STATE_KEY_BYTES, MAX_STATE_VALUE_BYTES,
};
use serde_json::json;

use super::{TempStore, user};

#[test]
fn large_values_of_the_state_are_blobs() {
    let place = TempStore::new();
    let session = place.create();
    let large = "x".repeat(MAX_INLINE_STATE_VALUE_BYTES + 1);
    session.state_set("p", "small", Some("s")).unwrap();
    session.state_set("p", "large", Some(&large)).unwrap();
    session.state_set("p", "gone", Some("g")).unwrap();
    session.state_set("p", "gone", None).unwrap();
    session.state_set("q", "small", Some("other")).unwrap();
    let (id, blobs) = (
        session.id().to_string(),
        session.local_folder().unwrap().join("blobs"),
    );
    assert_eq!(fs::read_dir(&blobs).unwrap().count(), 1);
    assert!(fs::metadata(place.file(&id)).unwrap().len() < 4096);
    drop(session);

    let session = place.resume(&id).unwrap();
    assert_eq!(session.state_keys("p", ""), ["large", "small"]);
    assert_eq!(session.state_keys("p", "sm"), ["small"]);
    assert_eq!(session.state_get("p", "large").unwrap(), Some(large));
    assert_eq!(session.state_get("p", "gone").unwrap(), None);
    assert_eq!(
        session.state_get("q", "small").unwrap().as_deref(),
        Some("other")
    );
    // A blob to which no value refers any more is removed.
    session.state_set("p", "large", Some("short")).unwrap();
    assert_eq!(fs::read_dir(&blobs).unwrap().count(), 0);
}

#[test]
fn a_blob_that_was_changed_is_an_error() {
    let place = TempStore::new();
    let session = place.create();
    session
        .state_set(
            "p",
            "k",
            Some(&"x".repeat(MAX_INLINE_STATE_VALUE_BYTES + 1)),
        )
        .unwrap();
    let blobs = session.local_folder().unwrap().join("blobs");
    let blob = fs::read_dir(&blobs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(blob, "something else").unwrap();
    assert!(matches!(
        session.state_get("p", "k"),
        Err(Error::Blob { .. })
    ));
}

#[test]
fn state_has_limits() {
    let place = TempStore::new();
    let session = place.create();
    let set = |key: &str, value: &str| session.state_set("p", key, Some(value));
    assert!(matches!(
        set(&"k".repeat(MAX_STATE_KEY_BYTES + 1), "v"),
        Err(Error::Limit { .. })
    ));
    set(&"k".repeat(MAX_STATE_KEY_BYTES), "v").unwrap();
    let largest = "x".repeat(MAX_STATE_VALUE_BYTES);
    assert!(matches!(
        set("k", &format!("{largest}x")),
        Err(Error::Limit { .. })
    ));
    for n in 0..3 {
        set(&format!("{n}"), &largest).unwrap();
    }
    let error = set("3", &largest).unwrap_err().to_string();
    assert!(error.contains("plugin `p` exceeded a limit"), "{error}");
    // Only the new value counts after a replacement, and each plugin has its own limits.
    set("2", &largest).unwrap();
    session.state_set("q", "0", Some(&largest)).unwrap();
}

#[tokio::test]
async fn plugins_reach_the_session_through_their_handle() {
    let place = TempStore::new();
    let session = std::sync::Arc::new(place.create());
    session.append(user("hi")).unwrap();
    let (events, mut receiver) = rind::event::EventSender::new_with_receiver();
    let handle = rind::agent::PluginSessionHandle::new(
        session.clone(),
        events,
        std::sync::Arc::new(|_, _, _| {}),
    );
    handle
        .set_plugin_state_value("p", "k", Some("v"), PluginStateWriteMode::AtOnce)
        .unwrap();
    assert_eq!(handle.state_get("p", "k").as_deref(), Some("v"));
    assert_eq!(handle.state_get("q", "k"), None);
    let mut n_messages = 0;
    handle.inspect_last_messages(&Caller::default(), 5, &mut |shown| n_messages = shown.len());
    assert_eq!(n_messages, 1);
    handle
        .append_custom_entry("p", "note", json!({"a": 1}))
        .unwrap();
    assert!(matches!(
        handle.append_custom_entry("p", "", json!(1)),
        Err(HostFunctionError::InvalidInput(_))
    ));
    assert!(matches!(
        handle.append_custom_entry("p", "n", json!("x".repeat(2 << 20))),
        Err(HostFunctionError::Limit(_))
    ));
    let long = "k".repeat(MAX_STATE_KEY_BYTES + 1);
    assert!(matches!(
        handle.set_plugin_state_value("p", &long, Some(""), PluginStateWriteMode::AtOnce),
        Err(HostFunctionError::Limit(_))
    ));
    let caller = rind::point::caller::Caller::default();
    let called = handle
        .call_plugin_defined_point("p", "extract", json!({}), caller)
        .await;
    assert_eq!(
        called,
        Err(HostFunctionError::NotFound(
            "plugin `p` called the point `extract` before the points of plugins were set up".into()
        ))
    );
    let metric = rind::point::outcome::Effect::Metric(rind::point::outcome::Metric {
        name: "m".into(),
        value: 2.0,
    });
    handle.apply_effect("p", metric);
    assert_eq!(receiver.try_recv().unwrap().event.name(), "metric");
}

#[test]
fn lengths_that_somebody_wrote_into_a_session_overflow_nothing() {
    let place = TempStore::new();
    let session = place.create();
    let id = session.id().to_string();
    drop(session);
    let name = "0".repeat(64);
    let mut text = fs::read_to_string(place.file(&id)).unwrap();
    for key in ["a", "b", "c"] {
        text.push_str(&format!(
            "{{\"id\":\"{key}\",\"parent\":null,\"time\":1,\"type\":\"state\",\"plugin\":\"p\",\"key\":\"{key}\",\
             \"blob\":\"{name}\",\"len\":18446744073709551615}}\n"
        ));
    }
    fs::write(place.file(&id), text).unwrap();
    let session = place.resume(&id).unwrap();
    assert_eq!(session.state_keys("p", ""), ["a", "b", "c"]);
    session.state_get("p", "a").unwrap_err();
    session.state_set("p", "a", Some("1")).unwrap();
    session.state_set("p", "d", Some("2")).unwrap();
    assert_eq!(session.state_get("p", "a").unwrap().as_deref(), Some("1"));
}
