//! Tests of the judge's choices with simulated models.

use std::cell::RefCell;
use std::rc::Rc;

use rind_sdk::agent_turn::RequestOrder;
use rind_sdk::serde_json::json;
use rind_sdk::testing;
use rind_sdk::types::Error;

use crate::panel::run;

/// Runs a turn in which the two models and the judge answer like this; an empty answer stands for a
/// failure. Returns the primitives after `build_prompt`, and the requests.
fn turn(first: &str, second: &str, judge: &str) -> (Vec<String>, Vec<RequestOrder>) {
    testing::reset();
    testing::set_config(json!({"first": "a", "second": "b", "judge": "c", "steps": 1}));
    let answers = [first, second, judge].map(str::to_owned);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sees = seen.clone();
    testing::answer_requests("which one?", move |order| {
        let (at, id) = match order.model.as_deref() {
            Some("a") => (0, 1),
            Some("b") => (1, 2),
            _ => (2, 3),
        };
        sees.borrow_mut().push(order);
        match answers[at].as_str() {
            "" => Err(Error::Failed("no 1 answer".to_owned())),
            "denied" => Err(Error::Denied("not named in `loop_models`".to_owned())),
            text => Ok(testing::model_answer(id, text)),
        }
    });
    let result = run();
    let mut asked = testing::asked_primitives().split_off(2);
    if let Err(error) = result {
        asked.push(error.to_string());
    }
    (asked, seen.take())
}

#[test]
fn the_judge_chooses_and_sees_both_answers_without_tools() {
    let (asked, requests) = turn("red", "blue", "2");
    assert_eq!(
        asked,
        ["request", "request", "request", "accept 2", "finish"]
    );
    assert!(requests.iter().all(|order| order.aside));
    let judge = &requests[2];
    assert_eq!(judge.preset.as_deref(), Some("minimal"));
    let note = judge.note.as_deref().unwrap();
    assert!(
        note.contains("\nred\n") && note.contains("\nblue\n"),
        "{note}"
    );
    let (asked, _) = turn("red", "blue", "The first one (1).");
    assert!(asked.contains(&"accept 1".to_owned()), "{asked:?}");
}

#[test]
fn equal_answers_need_no_judge_and_a_missing_one_leaves_the_other() {
    let (asked, _) = turn("red", "red", "2");
    assert_eq!(asked, ["request", "request", "accept 1", "finish"]);
    let (asked, _) = turn("", "blue", "1");
    assert_eq!(asked, ["request", "request", "accept 2", "finish"]);
    let (asked, _) = turn("red", "blue", "");
    assert!(asked.contains(&"accept 1".to_owned()), "{asked:?}");
    let (asked, _) = turn("", "", "1");
    assert_eq!(asked.len(), 3, "{asked:?}");
}

#[test]
fn a_model_that_the_operator_did_not_name_is_no_missing_answer() {
    for (first, second) in [("denied", "blue"), ("red", "denied")] {
        let (asked, _) = turn(first, second, "1");
        let last = asked.last().unwrap();
        assert!(last.contains("not named in `loop_models`"), "{asked:?}");
        assert!(
            !asked.iter().any(|own| own.starts_with("accept")),
            "{asked:?}"
        );
    }
}
