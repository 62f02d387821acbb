//! Tests of the judge's choices with simulated models.

use std::cell::RefCell;
use std::rc::Rc;

use rind_sdk::agent_turn::RequestOrder;
use rind_sdk::serde_json::json;
use rind_sdk::testing;
use rind_sdk::types::Error;

use crate::panel::run;

/// Runs a turn in which the two models and the judge give these answers; an empty text stands for a
/// failed request. Returns the names of the operations that the loop requested after
/// `build_prompt`, and its requests to models.
fn run_panel_turn(first: &str, second: &str, judge: &str) -> (Vec<String>, Vec<RequestOrder>) {
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
fn the_judge_model_has_no_tools_and_chooses_between_both_answers() {
    let (asked, requests) = run_panel_turn("red", "blue", "2");
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
    let (asked, _) = run_panel_turn("red", "blue", "The first one (1).");
    assert!(asked.contains(&"accept 1".to_owned()), "{asked:?}");
}

#[test]
fn with_equal_answers_or_a_single_answer_the_judge_is_not_asked() {
    let (asked, _) = run_panel_turn("red", "red", "2");
    assert_eq!(asked, ["request", "request", "accept 1", "finish"]);
    let (asked, _) = run_panel_turn("", "blue", "1");
    assert_eq!(asked, ["request", "request", "accept 2", "finish"]);
    let (asked, _) = run_panel_turn("red", "blue", "");
    assert!(asked.contains(&"accept 1".to_owned()), "{asked:?}");
    let (asked, _) = run_panel_turn("", "", "1");
    assert_eq!(asked.len(), 3, "{asked:?}");
}

#[test]
fn a_model_that_the_operator_does_not_allow_ends_the_turn() {
    for (first, second) in [("denied", "blue"), ("red", "denied")] {
        let (asked, _) = run_panel_turn(first, second, "1");
        let last = asked.last().unwrap();
        assert!(last.contains("not named in `loop_models`"), "{asked:?}");
        assert!(
            !asked.iter().any(|own| own.starts_with("accept")),
            "{asked:?}"
        );
    }
}
