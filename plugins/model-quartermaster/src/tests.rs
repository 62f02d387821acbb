//! Tests of the hooks on the SDK's in-memory host.

use crate::model_quartermaster::{
    __rind_hook_after_provider_response as after_response, __rind_hook_post_reason as post_reason,
    __rind_hook_pre_reason as pre_reason, __rind_hook_turn_end as turn_end,
};
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing::{self, Caller};

fn start_plugin(models: Value) {
    testing::reset();
    testing::set_config(json!({
        "models": models, "enforce_from": 0.85, "suggest_from": 0.65, "observations": 50,
        "margin": 0.05, "explore": 0,
    }));
}

/// Runs a complete turn of one request, and returns the outcome of `pre_reason`.
fn run_turn(number: u32, model: &str, stop: StopReason) -> RequestOutcome {
    testing::set_caller(Caller {
        turn: number,
        ..Caller::default()
    });
    let request = ModelRequest {
        model: model.to_owned(),
        ..testing::model_request()
    };
    let outcome = pre_reason(request).unwrap();
    let usage = Usage {
        input_tokens: 100,
        output_tokens: 10,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        estimated: false,
    };
    let response = testing::wire_response("m", usage).with_latency_ms(7);
    after_response(&response).unwrap();
    // A second answer comes from a question by a plugin, and must not count as a request of the
    // turn.
    after_response(&response).unwrap();
    let said = vec![Content::Text("done".to_owned())];
    let message = testing::message("m", Role::Assistant, said);
    assert_eq!(post_reason(message).unwrap(), ReplyOutcome::default());
    let summary = TurnSummary {
        stop,
        steps: 1,
        tool_calls: 0,
        usage,
        cost_usd: 0.0,
        unpriced_tokens: 0,
        duration_ms: 1,
        output: String::new(),
    };
    turn_end(summary).unwrap();
    outcome
}

fn candidate_models() -> Value {
    json!([
        {"name": "large", "input_price": 10, "output_price": 50},
        {"name": "small", "input_price": 1, "output_price": 5},
    ])
}

#[test]
fn after_fifty_good_turns_the_cheaper_model_is_used_and_the_log_explains_it() {
    start_plugin(candidate_models());
    for number in 1..=50 {
        let model = if number % 2 == 0 { "small" } else { "large" };
        assert_eq!(
            run_turn(number, model, StopReason::Done).model,
            None,
            "turn {number}"
        );
    }
    let outcome = run_turn(51, "large", StopReason::Done);
    assert_eq!(outcome.model.as_deref(), Some("small"));
    let [Effect::Log(line), Effect::Notify(told)] = &outcome.effects[..] else {
        panic!("{:?}", outcome.effects);
    };
    assert!(
        told.text
            .starts_with("takes `small` in place of `large`: short-plain: "),
        "{}",
        told.text
    );
    let again = run_turn(52, "large", StopReason::Cancelled);
    assert!(
        matches!(&again.effects[..], [Effect::Log(_)]),
        "it is told once: {:?}",
        again.effects
    );
    assert!(
        line.text
            .contains("takes `small`: short-plain: `small` went well in 25 of 25 turns")
            && line.text.contains("at $0.00015 a turn"),
        "{}",
        line.text
    );
    let stats: Value = store::get_json("stats").unwrap().unwrap();
    assert_eq!(
        stats["short-plain"]["small"]["n"], 26.0,
        "the picked model gets the turn"
    );
    assert_eq!(stats["short-plain"]["small"]["requests"], 26.0);
    assert_eq!(state::keys("turn/"), Vec::<String>::new());
}

#[test]
fn a_model_with_moderate_success_is_suggested_only_once() {
    start_plugin(candidate_models());
    for number in 1..=60 {
        let is_bad = number % 10 == 0;
        let stop = if is_bad {
            StopReason::MaxSteps
        } else {
            StopReason::Done
        };
        run_turn(number, "small", stop);
    }
    let n_notices = |outcome: &RequestOutcome| {
        let is_notice = |effect: &&Effect| matches!(effect, Effect::Notify(line) if line.text.contains("`small`"));
        outcome.effects.iter().filter(is_notice).count()
    };
    let first = run_turn(61, "large", StopReason::Cancelled);
    assert_eq!((first.model.clone(), n_notices(&first)), (None, 1));
    assert_eq!(n_notices(&run_turn(62, "large", StopReason::Cancelled)), 0);
}

#[test]
fn without_a_list_of_models_nothing_is_done_or_stored() {
    start_plugin(json!([]));
    assert_eq!(
        run_turn(1, "any", StopReason::Done),
        RequestOutcome::default()
    );
    assert_eq!(store::keys("").unwrap(), Vec::<String>::new());
    assert_eq!(state::keys(""), Vec::<String>::new());
}
