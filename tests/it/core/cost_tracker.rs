//! `cost-tracker` with prices, and across sessions. Its other behavior is tested by its case files.

use std::collections::BTreeMap;

use rind::point::payload::StopReason;
use rind::price::Price;
use rind::provider::scripted::{Reply, ReplyUsage};
use rind_tests::guests::Host;
use serde_json::{Value, json};

use super::{notices, setup_of};
use crate::harness::Setup;

const NAME: &str = "cost-tracker";

fn with_usage(reply: Reply, input_tokens: u64, output_tokens: u64) -> Reply {
    Reply {
        usage: Some(ReplyUsage {
            input_tokens,
            output_tokens,
            ..ReplyUsage::default()
        }),
        ..reply
    }
}

/// A read whose request costs 2,000 dollars, and two answers.
fn script() -> Vec<Reply> {
    let read = Reply::call("read_file", json!({"path": "a.txt"}));
    vec![
        with_usage(read, 1_500, 500),
        with_usage(Reply::text("done"), 100, 10),
        with_usage(Reply::text("again"), 100, 10),
    ]
}

/// A host with the plugin, which shows notices.
fn host() -> Host {
    let mut host = Host::default();
    host.guest(NAME);
    set(&mut host, "notice", json!(true));
    host
}

/// Sets the host's price of the harness's model to one dollar per token.
fn priced(mut setup: Setup) -> Setup {
    let price = Price {
        input: 1e6,
        output: 1e6,
        cache_read: None,
        cache_write: None,
    };
    setup.config.prices = BTreeMap::from([("test-model".to_owned(), price)]).into();
    setup
}

fn set(host: &mut Host, key: &str, value: Value) {
    let value: toml::Value = serde_json::from_value(value).unwrap();
    host.set(NAME, key, value);
}

#[tokio::test]
async fn a_turn_ends_with_what_it_cost_by_model_and_tool() {
    let mut host = host();
    set(&mut host, "details", json!(true));
    let setup = priced(setup_of(&host, script()).await);
    let mut running = setup.build();
    running.turn("read a.txt").await;
    assert_eq!(
        notices(&running, NAME),
        [
            "cost: $2110.00 this turn, $2110.00 this session; models: test-model $2110.00; \
             results of tools, estimated: read_file $2.00 in 1 call"
        ]
    );
    running.turn("and again").await;
    let said = &notices(&running, NAME)[1];
    assert!(
        said.starts_with("cost: $110.00 this turn, $2220.00 this session"),
        "{said}"
    );

    let store = host.options.data.join(NAME).join("store");
    let texts = std::fs::read_dir(store).unwrap();
    let texts: Vec<String> = texts
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let own: Vec<&String> = texts
        .iter()
        .filter(|text| text.starts_with("\"session/"))
        .collect();
    assert_eq!(own.len(), 1, "{texts:?}");
    assert!(own[0].contains("\"usd\":2220.0"), "{texts:?}");
}

#[tokio::test]
async fn tools_are_counted_only_where_the_notice_lists_them() {
    for (has_details, n_expected) in [(false, 0), (true, 1)] {
        let mut host = host();
        set(&mut host, "details", json!(has_details));
        let mut running = priced(setup_of(&host, script()).await).build();
        running.turn("read a.txt").await;
        let traces = running.traces();
        let counted = traces
            .iter()
            .filter(|line| line.contains("post-tool") && line.contains(NAME));
        assert_eq!(counted.count(), n_expected, "{traces:?}");
        let said = &notices(&running, NAME)[0];
        assert_eq!(said.contains("read_file"), has_details, "{said}");
    }
}

#[tokio::test]
async fn a_spent_budget_ends_the_turn_before_the_model_is_asked_again() {
    for (key, limits) in [
        ("budget_usd", json!({"turn": 1999.0})),
        ("budget_tokens", json!({"session": 2000})),
    ] {
        let mut host = host();
        set(&mut host, key, limits);
        let mut running = priced(setup_of(&host, script()).await).build();
        let outcome = running.turn("read a.txt").await;
        assert_eq!(outcome.summary.stop, StopReason::Blocked, "{key}");
        assert!(
            outcome
                .output
                .contains("plugin cost-tracker: the budget of this "),
            "{}",
            outcome.output
        );
        assert_eq!(running.provider.recorded_request_bodies().len(), 1, "{key}");
        assert_eq!(
            notices(&running, NAME).len(),
            1,
            "what was spent is still said"
        );
    }
}

#[tokio::test]
async fn sums_go_on_when_the_session_is_resumed() {
    let host = host();
    let mut running = priced(setup_of(&host, script()).await).build();
    running.turn("read a.txt").await;
    let id = running.session.id().clone();
    let folder = running.folder;
    drop((running.agent, running.session));

    let mut setup = priced(setup_of(&host, script()).await);
    setup.folder = folder;
    let spec = crate::harness::session_spec(&setup.workspace());
    let session = setup.store().resume(&id, &spec).unwrap();
    let mut running = setup.build_on(session);
    running.turn("read a.txt").await;
    let said = &notices(&running, NAME)[0];
    assert!(
        said.starts_with("cost: $2110.00 this turn, $4220.00 this session"),
        "{said}"
    );
}
