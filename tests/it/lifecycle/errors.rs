//! The `error` point gets every failure once, at the place where it happened.

use rind::event::Event;
use rind::message::EffectClass;
use rind::point::catalog as at;
use rind::point::catalog::CATALOG;
use rind::point::failure::Failure;
use rind::point::outcome as o;
use rind::point::trace::TraceOutcome;
use rind::provider::scripted::Reply;
use serde_json::json;

use super::scene::{INPUT, host};
use super::whole::{close, hooks, of_main, whole_turn};
use crate::harness::{NativeTool, Setup};

#[tokio::test]
async fn whatever_fails_is_told_to_the_error_point_once_and_where_it_happened() {
    let mut heard = Vec::new();
    for point in CATALOG.iter().map(|row| row.name) {
        if point == "error" {
            continue;
        }
        // The hook fails in the first turn of the main agent, or outside of turns.
        let answers = json!({
            point: {"fail": "cracked", "depth": 0},
            "error": {"when": "cracked", "effects": [{"notify": point}]},
        });
        let (events, _) = whole_turn(&host(answers)).await;
        let reports = of_main(&events)
            .filter(|event| matches!(event, Event::Notice { text, .. } if text == point));
        let all = hooks(&events);
        let fired = all
            .iter()
            .filter(|(agent, record)| *agent == "main" && record.point == point);
        assert_eq!(reports.count(), fired.clone().count(), "{point}");
        heard.push(point);
        // The `error` hook runs right after the failure.
        let order: Vec<String> = hooks(&events)
            .iter()
            .filter(|(agent, _)| *agent == "main")
            .map(|(_, record)| record.point.to_string())
            .collect();
        let at = order.iter().position(|name| name == point).unwrap();
        assert_eq!(
            order.get(at + 1).map(String::as_str),
            Some("error"),
            "{point}: {order:?}"
        );
    }
    assert_eq!(heard.len(), CATALOG.len() - 1);
}

#[tokio::test]
async fn a_tool_that_breaks_is_told_to_the_error_point_and_one_that_only_fails_is_not() {
    let tool = NativeTool::new("fragile", EffectClass::Read, |_| {
        Box::pin(async { panic!("in pieces") })
    });
    let script = vec![
        Reply::call("fragile", json!({})),
        Reply::call("read_file", json!({"path": "missing.txt"})),
        Reply::text("done"),
    ];
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = heard.clone();
    let setup = Setup::new(script)
        .tool(tool)
        .hook::<at::Error>("listener", move |_, report| {
            hears.lock().unwrap().push(report.clone());
            Ok(o::Observed::default())
        });
    let mut running = setup.build();
    running.turn(INPUT).await;
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(
        (heard[0].where_.as_str(), &heard[0].plugin),
        ("fragile", &None)
    );
    assert!(heard[0].message.contains("in pieces"), "{heard:?}");
}

#[tokio::test]
async fn a_hook_that_fails_when_the_session_ends_is_told_of() {
    let setup = Setup::new(vec![Reply::text("done")])
        .hook::<at::SessionEnd>("broken", |_, _| Err(Failure::Error("too late".to_owned())))
        .hook::<at::Error>("listener", |_, _| Ok(o::Observed::default()));
    let mut running = setup.build();
    running.turn(INPUT).await;
    let events = close(running).await;
    let traces = of_main(&events).filter_map(|event| match event {
        Event::Hook { record } => Some((record.point.to_string(), record.outcome)),
        _ => None,
    });
    let expected = [
        ("session-end".to_owned(), TraceOutcome::Failed),
        ("error".to_owned(), TraceOutcome::Pass),
    ];
    assert_eq!(traces.collect::<Vec<_>>(), expected);
}
