//! Tests of rights of a hook that its manifest gives up.

use rind::event::Event;
use rind::plugin::manifest::Manifest;
use rind::point::catalog::{self as at, CATALOG};
use rind::point::outcome as o;
use rind::point::trace::TraceOutcome;
use rind::provider::scripted::Reply;
use std::path::Path;

use crate::harness::Setup;

#[tokio::test]
async fn what_a_hook_gave_up_is_its_failure_and_changes_nothing() {
    let setup = Setup::new(vec![Reply::text("done")])
        .narrowed::<at::PostReason>("checker", &["inject"], |_, _| {
            Ok(o::ReplyOutcome {
                text: Some("something else".to_owned()),
                inject: vec![o::Injection {
                    text: "go on".to_owned(),
                    keep: true,
                }],
                ..Default::default()
            })
        })
        .narrowed::<at::PreOutput>("censor", &["text"], |_, _| {
            Ok(o::OutputOutcome {
                block: Some("no".to_owned()),
                ..Default::default()
            })
        });
    let mut running = setup.build();
    let outcome = running.turn("hello there").await;
    assert_eq!(outcome.output, "done");
    let failed: Vec<String> = running
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Hook { record } if record.outcome == TraceOutcome::Failed => {
                record.reason.clone()
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        failed,
        [
            "the outcome of the call was refused: the hook uses the right `text`, but its `may` allows only [\"inject\"]",
            "the outcome of the call was refused: the hook uses the right `block`, but its `may` allows only [\"text\"]",
        ]
    );
}

#[tokio::test]
async fn a_hook_that_gave_up_what_changes_text_lets_it_stream() {
    let setup = Setup::new(vec![Reply::text("some words to show")]).narrowed::<at::PostReason>(
        "checker",
        &["inject"],
        |_, _| Ok(o::ReplyOutcome::default()),
    );
    let mut running = setup.build();
    running.turn("hello there").await;
    assert!(running.names().contains(&"text-delta"));
    let setup = Setup::new(vec![Reply::text("some words to show")])
        .hook::<at::PostReason>("checker", |_, _| Ok(o::ReplyOutcome::default()));
    let mut running = setup.build();
    running.turn("hello there").await;
    assert!(!running.names().contains(&"text-delta"));
    assert!(running.names().contains(&"text-held"));
}

#[test]
fn a_manifest_names_only_rights_that_there_are() {
    let manifest = |hooks: &str| {
        let text = format!("name = \"x\"\nversion = \"0.1.0\"\ndescription = \"X.\"\n{hooks}");
        Manifest::parse(&text, Path::new("plugin.toml"))
    };
    let may = manifest("[hooks.\"loop.after_llm\"]\nmay = [\"inject\"]\n").unwrap();
    assert_eq!(may.hook("post-reason").may.unwrap(), ["inject"]);
    let table = [
        (
            "[hooks.post-reason]\nmay = [\"injekt\"]\n",
            "may: `injekt` is not a right of post-reason; its rights are text, inject, block",
        ),
        (
            "[hooks.turn-end]\nmay = [\"text\"]\n",
            "hooks on turn-end cannot change anything, so `may` has no right to list; remove it",
        ),
        (
            "[implements]\n\"a.b\" = { may = [] }\n",
            "points of other plugins give none",
        ),
    ];
    for (hooks, expected) in table {
        let error = manifest(hooks).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn points_that_change_something_have_rights_and_those_that_look_have_none() {
    use rind::point::dispatch::ExtensionPointKind;
    for row in CATALOG {
        assert_eq!(
            row.rights.is_empty(),
            row.kind == ExtensionPointKind::Observe,
            "{}",
            row.name
        );
    }
}
