//! Tests of the order of requests with a simulated model.

use std::cell::RefCell;
use std::rc::Rc;

use rind_sdk::agent_turn::RequestOrder;
use rind_sdk::serde_json::json;
use rind_sdk::testing;
use rind_sdk::types::ToolCall;

use crate::plan_execute::run;

/// Runs a turn in which the model answers the first `n_looks` requests with a tool call. Returns
/// the requests.
fn run_plan_turn(settings: &rind_sdk::serde_json::Value, n_looks: usize) -> Vec<RequestOrder> {
    testing::set_config(settings);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sees = seen.clone();
    testing::answer_requests("tidy up", move |order| {
        sees.borrow_mut().push(order);
        let mut answer = testing::model_answer(1, "text");
        if sees.borrow().len() <= n_looks {
            answer.calls.push(ToolCall {
                id: "1".to_owned(),
                name: "read_file".to_owned(),
                arguments: "{}".to_owned(),
            });
        }
        Ok(answer)
    });
    run().unwrap();
    seen.take()
}

fn plan_settings(when: &str, max_looks: u32) -> rind_sdk::serde_json::Value {
    json!({"when": when, "planner": "big", "worker": "", "max_looks": max_looks})
}

#[test]
fn the_plan_is_made_with_reading_tools_and_executed_with_all_tools() {
    testing::reset();
    let requests = run_plan_turn(&plan_settings("always", 5), 1);
    let shown = requests.iter().map(|order| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}/{}", text(&order.model), text(&order.preset))
    });
    let shown: Vec<String> = shown.collect();
    assert_eq!(shown, ["big/investigate", "big/investigate", "/"]);
    let asked = testing::asked_primitives();
    let at = |name: &str| asked.iter().position(|own| own.starts_with(name)).unwrap();
    assert!(at("inject Do not do") < at("request") && at("run-calls") < at("inject Now carry"));
    assert_eq!(asked.last().unwrap(), "finish");
}

#[test]
fn a_planner_that_only_looks_has_to_write_the_plan() {
    testing::reset();
    let requests = run_plan_turn(&plan_settings("always", 2), 2);
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[2].preset.as_deref(), Some("minimal"));
    assert!(
        requests[2]
            .note
            .as_deref()
            .unwrap()
            .contains("Write the plan now")
    );
}

#[test]
fn no_plan_is_made_for_plain_questions_and_after_an_interruption() {
    testing::reset();
    assert_eq!(run_plan_turn(&plan_settings("assessed", 5), 0).len(), 1);
    testing::reset();
    testing::resume_turn();
    assert_eq!(run_plan_turn(&plan_settings("always", 5), 0).len(), 1);
}

#[test]
fn a_turn_that_goes_on_is_told_to_carry_the_plan_out_before_it_works() {
    for (when, expected) in [("always", true), ("assessed", false)] {
        testing::reset();
        testing::resume_turn();
        run_plan_turn(&plan_settings(when, 5), 0);
        let asked = testing::asked_primitives();
        let at = |name: &str| asked.iter().position(|own| own.starts_with(name));
        let told = at("inject This turn was interrupted");
        assert_eq!(told.is_some(), expected, "{asked:?}");
        assert!(
            told.is_none_or(|told| Some(told) < at("request")),
            "{asked:?}"
        );
    }
}
