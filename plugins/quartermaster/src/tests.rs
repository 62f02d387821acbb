//! Tests of counts and suggestions, and of the hooks on the SDK's in-memory host.

use crate::follow::{
    MostFrequentNextTool, NextToolCounts, NextToolSuggestionSettings, suggest_next_tool,
};
use crate::ledger;
use crate::quartermaster::{
    __rind_hook_post_tool as post_tool, __rind_hook_turn_end as turn_end, is_last_call_of_answer,
};
use crate::trail::AgentTurnHistory;
use rind_sdk::prelude::*;
use rind_sdk::serde_json::json;
use rind_sdk::testing::{self, Caller};
use std::collections::BTreeMap;

fn follow_settings() -> NextToolSuggestionSettings {
    NextToolSuggestionSettings {
        confidence: 0.6,
        observations: 5,
        suggest: true,
    }
}

fn followers_with_counts(counts: &[(&str, u32)]) -> NextToolCounts {
    let mut followers = NextToolCounts::default();
    for (tool, times) in counts {
        (0..*times).for_each(|_| followers.increment_tool_count(tool));
    }
    followers
}

fn tool_names(tools: &[&str]) -> Vec<String> {
    tools.iter().map(|tool| (*tool).to_owned()).collect()
}

/// A sequence of tools, and the counts of the tools that came next.
type Known<'a> = (&'a [&'a str], &'a [(&'a str, u32)]);

/// Returns the suggestion after `before` when these counts are known.
fn suggestion_after(before: &[&str], known: &[Known<'_>]) -> Option<String> {
    suggest_next_tool(&tool_names(before), &follow_settings(), |place| {
        let (_, counts) = known.iter().find(|(known, _)| tool_names(known) == place)?;
        Some(followers_with_counts(counts))
    })
}

#[test]
fn the_tool_that_mostly_came_next_is_suggested_with_its_share() {
    let said = suggestion_after(
        &["edit_file"],
        &[(&["edit_file"], &[("bash", 11), ("read_file", 4)])],
    )
    .unwrap();
    let start = "after `edit_file` the next tool has mostly been `bash` (73 % of 15 times).";
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn a_suggestion_requires_five_cases_and_sixty_percent() {
    for (counts, is_said) in [
        (&[("bash", 4)][..], false),
        (&[("bash", 5)], true),
        (&[("bash", 3), ("grep", 2)], true),
        (&[("bash", 59), ("grep", 41)], false),
        (&[("bash", 60), ("grep", 40)], true),
        (&[], false),
    ] {
        let said = suggestion_after(&["edit_file"], &[(&["edit_file"], counts)]);
        assert_eq!(said.is_some(), is_said, "{counts:?}");
    }
    assert_eq!(suggestion_after(&[], &[]), None);
    assert_eq!(suggestion_after(&["edit_file"], &[]), None);
}

#[test]
fn the_last_two_tools_decide_if_they_were_counted_often_enough() {
    let one: Known<'_> = (&["edit_file"], &[("bash", 20)]);
    let after = |counts: &'static [(&'static str, u32)]| {
        suggestion_after(
            &["grep", "edit_file"],
            &[(&["grep", "edit_file"], counts), one],
        )
    };
    let both = after(&[("read_file", 5)]).unwrap();
    assert!(
        both.starts_with("after `grep` and `edit_file` the next tool has mostly been `read_file`"),
        "{both}"
    );
    let backed_off = after(&[("read_file", 4)]).unwrap();
    assert!(
        backed_off.starts_with("after `edit_file` the next tool has mostly been `bash`"),
        "{backed_off}"
    );
    assert_eq!(
        after(&[("read_file", 3), ("bash", 3)]),
        None,
        "the nearer knowledge is that it is open"
    );
}

#[test]
fn a_tool_that_follows_itself_is_not_suggested() {
    assert_eq!(
        suggestion_after(&["read_file"], &[(&["read_file"], &[("read_file", 50)])]),
        None
    );
}

#[test]
fn old_counts_are_halved_and_rare_followers_are_dropped() {
    let mut followers = followers_with_counts(&[("bash", 190), ("grep", 1), ("read_file", 9)]);
    assert_eq!(followers.total_count(), 99);
    (0..96).for_each(|_| followers.increment_tool_count("edit_file"));
    assert_eq!(
        followers.most_frequent_tool(),
        Some(MostFrequentNextTool {
            tool: "edit_file".to_owned(),
            times: 96,
            total: 195
        })
    );
    for number in 0..1000 {
        followers.increment_tool_count(&format!("tool-{number}"));
    }
    assert!(followers.total_count() < 200);
    let text = rind_sdk::serde_json::to_string(&followers).unwrap();
    assert!(text.matches(':').count() <= 12, "{text}");
}

#[test]
fn the_store_is_bounded_and_keeps_the_most_frequent_tools() {
    testing::reset();
    let learn = |place: &[String], n| {
        let learnt = [(
            ledger::tool_sequence_key(place),
            followers_with_counts(&[("bash", n)]),
        )];
        ledger::store_tool_sequence_counts(learnt.into()).unwrap();
    };
    learn(&tool_names(&["edit_file"]), 4);
    learn(&tool_names(&["edit_file"]), 5);
    (0..2000).for_each(|number| learn(&[format!("tool-{number}")], 1));
    assert!(store::keys("").unwrap().len() <= 512);
    let kept = ledger::find_next_tool_counts(&tool_names(&["edit_file"]), &BTreeMap::new());
    assert_eq!(kept.unwrap().unwrap().total_count(), 9);
}

#[test]
fn the_sequences_of_a_tool_are_bounded_and_the_most_frequent_are_kept() {
    testing::reset();
    let learn = |place: &[String], n| {
        let learnt = [(
            ledger::tool_sequence_key(place),
            followers_with_counts(&[("bash", n)]),
        )];
        ledger::store_tool_sequence_counts(learnt.into()).unwrap();
    };
    let total = |place: &[&str]| {
        let kept = ledger::find_next_tool_counts(&tool_names(place), &BTreeMap::new()).unwrap();
        kept.map(|followers| followers.total_count())
    };
    learn(&tool_names(&["edit_file"]), 7);
    learn(&tool_names(&["grep", "edit_file"]), 5);
    let others = (0..200).map(|number| [format!("tool-{number}"), "edit_file".to_owned()]);
    others.for_each(|place| learn(&place, 1));
    assert_eq!(store::keys("").unwrap(), ["after/edit_file"]);
    let kept: Option<BTreeMap<String, NextToolCounts>> =
        store::get_json("after/edit_file").unwrap();
    assert_eq!(kept.unwrap().len(), 64);
    assert_eq!(
        (total(&["edit_file"]), total(&["grep", "edit_file"])),
        (Some(7), Some(5))
    );
    assert_eq!(total(&["tool-0", "edit_file"]), None);
}

fn caller_at_step(agent: &str, turn: u32, step: u32) -> Caller {
    Caller {
        agent: agent.to_owned(),
        turn,
        step,
        ..Caller::default()
    }
}

fn start_plugin(suggest: bool) {
    testing::reset();
    testing::set_config(json!({"confidence": 0.6, "observations": 1, "suggest": suggest}));
}

/// Reports a finished call of a tool to the plugin.
fn request_call(caller: Caller, id: &str, tool: &str) {
    finish_call(caller, &testing::finished_call(tool, "").with_id(id));
}

fn finish_call(caller: Caller, finished: &FinishedCall) {
    testing::set_caller(caller);
    assert_eq!(post_tool(finished).unwrap(), ResultOutcome::default());
}

fn run_turn_end(caller: Caller) {
    let summary = TurnSummary {
        stop: StopReason::Done,
        steps: 1,
        tool_calls: 0,
        usage: testing::model_request().usage,
        cost_usd: 0.0,
        unpriced_tokens: 0,
        duration_ms: 1,
        output: String::new(),
    };
    testing::set_caller(caller);
    turn_end(summary).unwrap();
}

fn load_trail(caller: Caller) -> AgentTurnHistory {
    testing::set_caller(caller);
    AgentTurnHistory::inspect_stored_history(AgentTurnHistory::clone).unwrap()
}

/// Returns how often a tool came after a sequence, including counts that are not stored yet.
fn stored_count(before: &[&str], next: &str) -> u64 {
    let count = |followers: Option<&NextToolCounts>| {
        let counts = rind_sdk::serde_json::to_value(followers).unwrap();
        counts[next].as_u64().unwrap_or_default()
    };
    let kept = ledger::find_next_tool_counts(&tool_names(before), &BTreeMap::new()).unwrap();
    let trails = ["main", "sub-1"].map(|agent| load_trail(caller_at_step(agent, 0, 0)));
    let key = ledger::tool_sequence_key(&tool_names(before));
    let waiting = trails
        .iter()
        .map(|trail| count(trail.unstored_tool_counts().get(&key)));
    count(kept.as_ref()) + waiting.sum::<u64>()
}

#[test]
fn counts_of_a_turn_are_stored_when_it_ends_and_survive_an_interruption() {
    start_plugin(true);
    for (step, tool) in ["grep", "bash", "grep", "bash"].iter().enumerate() {
        request_call(caller_at_step("main", 1, step as u32), tool, tool);
    }
    assert_eq!(store::keys("").unwrap(), Vec::<String>::new());
    // Turn 1 has no end, as after a crash.
    request_call(caller_at_step("main", 2, 1), "a", "grep");
    request_call(caller_at_step("main", 2, 2), "b", "bash");
    run_turn_end(caller_at_step("main", 2, 2));
    assert_eq!(store::keys("").unwrap().len(), 2);
    assert_eq!(stored_count(&["grep"], "bash"), 3);
    assert!(
        load_trail(caller_at_step("main", 2, 2))
            .unstored_tool_counts()
            .is_empty()
    );
}

#[test]
fn calls_are_learned_as_they_end() {
    start_plugin(true);
    request_call(caller_at_step("main", 1, 1), "a", "grep");
    request_call(caller_at_step("main", 1, 1), "b", "edit_file");
    request_call(caller_at_step("main", 1, 2), "a", "bash");
    assert_eq!(stored_count(&["grep"], "edit_file"), 1);
    assert_eq!(stored_count(&["edit_file"], "bash"), 1);
    assert_eq!(stored_count(&["grep", "edit_file"], "bash"), 1);
}

#[test]
fn a_call_reported_twice_to_the_hook_counts_once() {
    start_plugin(true);
    request_call(caller_at_step("main", 1, 1), "a", "grep");
    request_call(caller_at_step("main", 1, 1), "b", "bash");
    request_call(caller_at_step("main", 1, 1), "b", "bash");
    assert_eq!(stored_count(&["grep"], "bash"), 1);
    assert_eq!(stored_count(&["bash"], "bash"), 0);
}

#[test]
fn refused_calls_and_missing_tools_are_not_counted() {
    start_plugin(true);
    request_call(caller_at_step("main", 1, 1), "a", "grep");
    let invented = testing::finished_call("ghost", "").with_id("b");
    finish_call(
        caller_at_step("main", 1, 2),
        &invented.with_error(true).with_refused(true),
    );
    request_call(caller_at_step("main", 1, 3), "c", "bash");
    let failed = testing::finished_call("edit_file", "").with_id("d");
    finish_call(caller_at_step("main", 1, 4), &failed.with_error(true));
    assert_eq!(
        (
            stored_count(&["grep"], "ghost"),
            stored_count(&["ghost"], "bash")
        ),
        (0, 0)
    );
    assert_eq!(
        (
            stored_count(&["grep"], "bash"),
            stored_count(&["bash"], "edit_file")
        ),
        (1, 1)
    );
}

#[test]
fn each_turn_and_agent_has_its_own_trail_and_all_share_the_counts() {
    start_plugin(true);
    request_call(caller_at_step("main", 1, 1), "a", "grep");
    request_call(caller_at_step("sub-1", 1, 1), "a", "edit_file");
    request_call(caller_at_step("main", 2, 1), "a", "edit_file");
    assert_eq!(stored_count(&["grep"], "edit_file"), 0);
    request_call(caller_at_step("sub-1", 1, 2), "b", "bash");
    request_call(caller_at_step("main", 2, 2), "b", "bash");
    assert_eq!(stored_count(&["edit_file"], "bash"), 2);
}

#[test]
fn nothing_is_suggested_after_a_failure_or_when_suggestions_are_off() {
    for (suggest, is_error) in [(true, true), (false, false)] {
        start_plugin(suggest);
        for turn in 1..=3 {
            request_call(caller_at_step("main", turn, 1), "a", "grep");
            request_call(caller_at_step("main", turn, 2), "b", "bash");
        }
        let finished = testing::finished_call("grep", "").with_error(is_error);
        finish_call(caller_at_step("main", 4, 1), &finished);
    }
}

#[test]
fn only_the_last_call_of_the_last_answer_gets_a_suggestion() {
    let answer = |ids: &[&str]| {
        let call = |id: &&str| {
            let call = testing::proposed_call("grep", json!({})).call;
            Content::ToolCall(ToolCall {
                id: (*id).to_owned(),
                ..call
            })
        };
        testing::message("m", Role::Assistant, ids.iter().map(call).collect())
    };
    let messages = [answer(&["a", "b"]), answer(&["c", "d"])];
    assert!(is_last_call_of_answer(&messages, "d"));
    for id in ["a", "b", "c", "x"] {
        assert!(!is_last_call_of_answer(&messages, id), "{id}");
    }
    assert!(!is_last_call_of_answer(&[], "a"));
}
