//! Tests of the plugin's hooks on the SDK's in-memory host.

use crate::cost_tracker::{
    __rind_hook_after_provider_response as after_response, __rind_hook_post_output as post_output,
    __rind_hook_post_tool as post_tool, __rind_hook_pre_reason as pre_reason,
    __rind_hook_turn_end as turn_end,
};
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing::{self, Caller};

fn start_plugin(changes: Value) {
    testing::reset();
    let mut settings = json!({
        "notice": true, "details": false, "budget_usd": {}, "budget_tokens": {},
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    testing::set_config(settings);
}

fn caller_in_turn(turn: u32) -> Caller {
    Caller {
        turn,
        ..Caller::default()
    }
}

fn usage_of_tokens(input: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        estimated: false,
    }
}

/// Returns the host's price for the models of these tests.
fn request_cost_usd(model: &str, used: &Usage) -> Option<f64> {
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
fn answer_step(turn: u32, model: &str, used: Usage) -> Result<Observed, String> {
    testing::set_caller(caller_in_turn(turn));
    let request = ModelRequest {
        model: model.to_owned(),
        ..testing::model_request()
    };
    if let Some(why) = pre_reason(request).unwrap().block {
        return Err(why);
    }
    let response = testing::wire_response(model, used).with_cost(request_cost_usd(model, &used));
    Ok(after_response(&response).unwrap())
}

fn end_turn(turn: u32) -> String {
    let summary = TurnSummary {
        stop: StopReason::Done,
        steps: 1,
        tool_calls: 0,
        usage: usage_of_tokens(0, 0),
        cost_usd: 0.0,
        unpriced_tokens: 0,
        duration_ms: 1,
        output: String::new(),
    };
    testing::set_caller(caller_in_turn(turn));
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
fn a_turn_ends_with_the_cost_of_the_turn_and_the_session() {
    start_plugin(json!({}));
    answer_step(1, "sonnet", usage_of_tokens(10_000, 1_000)).unwrap();
    assert_eq!(end_turn(1), "cost: $0.0450 this turn, $0.0450 this session");
    answer_step(2, "mini", usage_of_tokens(100_000, 0)).unwrap();
    answer_step(2, "mini", usage_of_tokens(0, 100_000)).unwrap();
    assert_eq!(end_turn(2), "cost: $0.23 this turn, $0.27 this session");
    answer_step(3, "unknown", usage_of_tokens(1, 1)).unwrap();
    assert_eq!(
        end_turn(3),
        "cost: 2 tokens without a price this turn, at least $0.27 this session"
    );
    assert_eq!(end_turn(4), "", "nothing was asked");
}

#[test]
fn a_spent_budget_refuses_the_next_request_and_each_turn_has_its_own_budget() {
    start_plugin(json!({"budget_usd": {"turn": 0.01}}));
    answer_step(1, "gpt-4", usage_of_tokens(1_000, 0)).unwrap();
    let why = answer_step(1, "gpt-4", usage_of_tokens(1, 0)).unwrap_err();
    assert!(
        why.contains("this turn is spent: $0.0300 of $0.0100"),
        "{why}"
    );
    answer_step(2, "gpt-4", usage_of_tokens(1_000, 0)).unwrap();

    start_plugin(json!({"budget_tokens": {"session": 10}}));
    answer_step(1, "scripted", usage_of_tokens(5, 5)).unwrap();
    let why = answer_step(2, "scripted", usage_of_tokens(1, 0)).unwrap_err();
    assert!(why.contains("this session is spent: 10 tokens"), "{why}");
}

#[test]
fn a_budget_in_dollars_warns_once_of_a_model_without_a_price() {
    let n_warned = |outcome: &Observed| {
        let is_warning =
            |e: &&Effect| matches!(e, Effect::Notify(line) if line.level == Level::Warn);
        outcome.effects.iter().filter(is_warning).count()
    };
    for (settings, expected) in [
        (json!({"budget_usd": {"session": 1.0}}), [1, 0]),
        (json!({}), [0, 0]),
    ] {
        start_plugin(settings);
        let warned =
            [1, 2].map(|turn| n_warned(&answer_step(turn, "x", usage_of_tokens(1, 1)).unwrap()));
        assert_eq!(warned, expected);
    }
}

#[test]
fn calls_are_counted_by_tool_with_the_plugin_of_the_tool() {
    start_plugin(json!({"details": true}));
    answer_step(1, "m", usage_of_tokens(1, 0)).unwrap();
    testing::set_caller(caller_in_turn(1));
    let finished = testing::finished_call("find", "x".repeat(400)).with_plugin("search");
    let outcome = post_tool(&finished).unwrap();
    assert_eq!(outcome, ResultOutcome::default());
    let ledger: Value = state::get_json("ledger").unwrap().unwrap();
    assert_eq!(ledger["tools"]["find"]["plugin"], "search");
    assert_eq!(ledger["tools"]["find"]["tokens"], 100);
    let said = end_turn(1);
    assert!(
        said.ends_with("; models: m $0.0010; results of tools, estimated: find $0.10 in 1 call"),
        "{said}"
    );
}

#[test]
fn the_output_reports_metrics_of_the_turn_and_the_session() {
    start_plugin(json!({}));
    answer_step(1, "m", usage_of_tokens(1_000, 0)).unwrap();
    end_turn(1);
    answer_step(2, "m", usage_of_tokens(500, 0)).unwrap();
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
fn requests_without_an_answer_spend_the_budget_and_are_shown_as_estimated() {
    start_plugin(json!({"budget_tokens": {"session": 50}}));
    answer_step(1, "m", usage_of_tokens(10, 0)).unwrap();
    testing::set_caller(Caller {
        usage: usage_of_tokens(60, 0),
        cost_usd: 0.06,
        ..caller_in_turn(1)
    });
    let outcome = pre_reason(testing::model_request()).unwrap();
    assert!(outcome.block.unwrap().contains("60 tokens of 50 tokens"));
    let ledger: Value = state::get_json("ledger").unwrap().unwrap();
    assert_eq!(ledger["session"]["input"], 60);

    start_plugin(json!({}));
    let used = usage_of_tokens(10, 0);
    answer_step(1, "m", used).unwrap();
    let mut summary_usage = usage_of_tokens(60, 0);
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
    testing::set_caller(caller_in_turn(1));
    turn_end(summary).unwrap();
    let ledger: Value = state::get_json("ledger").unwrap().unwrap();
    assert_eq!(ledger["session"]["input"], 60);
    assert_eq!(ledger["models"]["(no answer)"]["input"], 50);
    answer_step(2, "m", usage_of_tokens(1_000, 0)).unwrap();
    assert_eq!(
        end_turn(2),
        "cost: $1.00 this turn, about $1.06 this session"
    );
}
