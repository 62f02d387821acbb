//! Tests of the plugin's hooks on the SDK's in-memory host.

use crate::cost_tracker::{
    __rind_hook_after_provider_response as after_response, __rind_hook_post_output as post_output,
    __rind_hook_post_tool as post_tool, __rind_hook_pre_reason as pre_reason,
    __rind_hook_turn_end as turn_end,
};
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing::{self, Caller};

fn start(changes: Value) {
    testing::reset();
    let mut settings = json!({
        "notice": true, "details": false, "budget_usd": {}, "budget_tokens": {},
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    testing::set_config(settings);
}

fn in_turn(turn: u32) -> Caller {
    Caller {
        turn,
        ..Caller::default()
    }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        estimated: false,
    }
}

/// Returns the host's price for the models of these tests.
fn cost(model: &str, used: &Usage) -> Option<f64> {
    let (input, output) = match model {
        "sonnet" => (3.0, 15.0),
        "mini" => (0.25, 2.0),
        "gpt-4" => (30.0, 60.0),
        "m" => (1000.0, 0.0),
        _ => return None,
    };
    let of = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
    Some(of(used.input_tokens, input) + of(used.output_tokens, output))
}

/// Makes a request and lets a model answer it. The error is the reason for which the plugin refused
/// the request.
fn step(turn: u32, model: &str, used: Usage) -> Result<Observed, String> {
    testing::set_caller(in_turn(turn));
    let request = ModelRequest {
        model: model.to_owned(),
        ..testing::model_request()
    };
    if let Some(why) = pre_reason(request).unwrap().block {
        return Err(why);
    }
    let response = testing::wire_response(model, used).with_cost(cost(model, &used));
    Ok(after_response(&response).unwrap())
}

fn end(turn: u32) -> String {
    let summary = TurnSummary {
        stop: StopReason::Done,
        steps: 1,
        tool_calls: 0,
        usage: usage(0, 0),
        cost_usd: 0.0,
        unpriced_tokens: 0,
        duration_ms: 1,
        output: String::new(),
    };
    testing::set_caller(in_turn(turn));
    let outcome = turn_end(summary).unwrap();
    let notices = outcome
        .effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Notify(line) => Some(line.text),
            _ => None,
        });
    notices.collect()
}

#[test]
fn a_turn_ends_with_what_it_and_the_session_cost() {
    start(json!({}));
    step(1, "sonnet", usage(10_000, 1_000)).unwrap();
    assert_eq!(end(1), "cost: $0.0450 this turn, $0.0450 this session");
    step(2, "mini", usage(100_000, 0)).unwrap();
    step(2, "mini", usage(0, 100_000)).unwrap();
    assert_eq!(end(2), "cost: $0.23 this turn, $0.27 this session");
    step(3, "unknown", usage(1, 1)).unwrap();
    assert_eq!(
        end(3),
        "cost: 2 tokens without a price this turn, at least $0.27 this session"
    );
    assert_eq!(end(4), "", "nothing was asked");
}

#[test]
fn a_spent_budget_refuses_the_next_request_and_a_new_turn_has_its_own() {
    start(json!({"budget_usd": {"turn": 0.01}}));
    step(1, "gpt-4", usage(1_000, 0)).unwrap();
    let why = step(1, "gpt-4", usage(1, 0)).unwrap_err();
    assert!(
        why.contains("this turn is spent: $0.0300 of $0.0100"),
        "{why}"
    );
    step(2, "gpt-4", usage(1_000, 0)).unwrap();

    start(json!({"budget_tokens": {"session": 10}}));
    step(1, "scripted", usage(5, 5)).unwrap();
    let why = step(2, "scripted", usage(1, 0)).unwrap_err();
    assert!(why.contains("this session is spent: 10 tokens"), "{why}");
}

#[test]
fn a_model_without_a_price_is_warned_of_once_where_there_is_a_budget_in_dollars() {
    let n_warned = |outcome: &Observed| {
        let is_warning =
            |e: &&Effect| matches!(e, Effect::Notify(line) if line.level == Level::Warn);
        outcome.effects.iter().filter(is_warning).count()
    };
    for (settings, expected) in [
        (json!({"budget_usd": {"session": 1.0}}), [1, 0]),
        (json!({}), [0, 0]),
    ] {
        start(settings);
        let warned = [1, 2].map(|turn| n_warned(&step(turn, "x", usage(1, 1)).unwrap()));
        assert_eq!(warned, expected);
    }
}

#[test]
fn tools_are_counted_with_the_plugin_they_are_from() {
    start(json!({"details": true}));
    step(1, "m", usage(1, 0)).unwrap();
    testing::set_caller(in_turn(1));
    let finished = testing::finished_call("find", "x".repeat(400)).with_plugin("search");
    let outcome = post_tool(&finished).unwrap();
    assert_eq!(outcome, ResultOutcome::default());
    let ledger: Value = state::get_json("ledger").unwrap().unwrap();
    assert_eq!(ledger["tools"]["find"]["plugin"], "search");
    assert_eq!(ledger["tools"]["find"]["tokens"], 100);
    let said = end(1);
    assert!(
        said.ends_with("; models: m $0.0010; results of tools, estimated: find $0.10 in 1 call"),
        "{said}"
    );
}

#[test]
fn the_output_comes_with_metrics_of_turn_and_session() {
    start(json!({}));
    step(1, "m", usage(1_000, 0)).unwrap();
    end(1);
    step(2, "m", usage(500, 0)).unwrap();
    let outcome = post_output("text".to_owned()).unwrap();
    let metrics: Vec<(String, f64)> = outcome
        .effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Metric(metric) => Some((metric.name, metric.value)),
            _ => None,
        })
        .collect();
    let expected = [
        ("cost.turn.usd", 0.5),
        ("cost.turn.tokens", 500.0),
        ("cost.session.usd", 1.5),
        ("cost.session.tokens", 1500.0),
    ];
    assert_eq!(
        metrics,
        expected.map(|(name, value)| (name.to_owned(), value))
    );
}

#[test]
fn what_the_host_counted_and_nobody_answered_spends_the_budget_and_is_said_to_be_estimated() {
    start(json!({"budget_tokens": {"session": 50}}));
    step(1, "m", usage(10, 0)).unwrap();
    testing::set_caller(Caller {
        usage: usage(60, 0),
        cost_usd: 0.06,
        ..in_turn(1)
    });
    let outcome = pre_reason(testing::model_request()).unwrap();
    assert!(outcome.block.unwrap().contains("60 tokens of 50 tokens"));
    let ledger: Value = state::get_json("ledger").unwrap().unwrap();
    assert_eq!(ledger["session"]["input"], 60);

    start(json!({}));
    let used = usage(10, 0);
    step(1, "m", used).unwrap();
    let mut summary_usage = usage(60, 0);
    summary_usage.estimated = true;
    let summary = TurnSummary {
        stop: StopReason::Cancelled,
        steps: 1,
        tool_calls: 0,
        usage: summary_usage,
        cost_usd: 0.06,
        unpriced_tokens: 0,
        duration_ms: 1,
        output: String::new(),
    };
    testing::set_caller(in_turn(1));
    turn_end(summary).unwrap();
    let ledger: Value = state::get_json("ledger").unwrap().unwrap();
    assert_eq!(ledger["session"]["input"], 60);
    assert_eq!(ledger["models"]["(no answer)"]["input"], 50);
    step(2, "m", usage(1_000, 0)).unwrap();
    assert_eq!(end(2), "cost: $1.00 this turn, about $1.06 this session");
}
