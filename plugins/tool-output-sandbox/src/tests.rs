//! Tests of the hook and the tool on the SDK's in-memory host.

use crate::rows::{MAX_ROW_BYTES, split_into_output_rows};
use crate::tool_output_sandbox::{__rind_call_tool, __rind_hook_post_tool};
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing;

fn start_plugin() {
    testing::reset();
    testing::set_config(json!({"threshold": 16384, "head": 40, "tail": 20}));
}

fn finish_call(tool: &str, content: &str) -> ResultOutcome {
    __rind_hook_post_tool(&testing::finished_call(tool, content)).unwrap()
}

fn read(arguments: Value) -> Result<String, Error> {
    let answer = __rind_call_tool("read_output", &arguments.to_string())?;
    Ok(answer.words())
}

fn numbered_lines(count: usize) -> String {
    (1..=count)
        .map(|number| format!("line {number} of the build\n"))
        .collect()
}

#[test]
fn small_results_and_results_of_read_output_are_unchanged() {
    start_plugin();
    assert_eq!(
        finish_call("bash", &"x".repeat(16384)),
        ResultOutcome::default()
    );
    assert_eq!(
        finish_call("read_output", &numbered_lines(5000)),
        ResultOutcome::default()
    );
}

#[test]
fn a_large_result_becomes_its_beginning_its_end_and_a_handle() {
    start_plugin();
    let whole = numbered_lines(5000);
    let outcome = finish_call("bash", &whole);
    assert_eq!(outcome.is_error, None);
    let shown = rind_sdk::text_of(&outcome.content.unwrap());
    assert!(
        shown.contains(&format!("{} bytes in 5000 rows", whole.len())),
        "{shown}"
    );
    assert!(
        shown.contains("\"out-1\"") && shown.contains("\"offset\": 41"),
        "{shown}"
    );
    assert!(
        shown.contains("\nline 1 of")
            && shown.contains("\nline 40 of")
            && !shown.contains("\nline 41 of")
    );
    assert!(shown.contains("[… 4940 rows left out …]\nline 4981 of"));
    assert!(shown.ends_with("line 5000 of the build"));
    assert!(shown.len() < 16384);
}

#[test]
fn the_whole_result_can_be_read_row_by_row() {
    start_plugin();
    let whole = format!(
        "{}{}\n{}",
        numbered_lines(900),
        "é".repeat(3000),
        numbered_lines(900)
    );
    finish_call("bash", &whole);
    let (mut offset, mut collected, mut answers) = (1, Vec::new(), 0);
    loop {
        let answer = read(json!({"handle": "out-1", "offset": offset, "limit": 2000})).unwrap();
        assert!(
            answer.len() <= 16384,
            "an answer has {} bytes",
            answer.len()
        );
        let (head, body) = answer.split_once('\n').unwrap();
        collected.extend(body.lines().map(str::to_owned));
        answers += 1;
        let Some((_, next)) = head.split_once("\"offset\": ") else {
            break;
        };
        offset = next.trim_end_matches(']').parse().unwrap();
    }
    let expected: Vec<&str> = split_into_output_rows(&whole).map(|row| row.text).collect();
    assert_eq!(collected, expected);
    assert!(answers > 1);
}

#[test]
fn offset_and_limit_choose_rows() {
    start_plugin();
    finish_call("bash", &numbered_lines(2000));
    let answer = read(json!({"handle": "out-1", "offset": 1999, "limit": 5})).unwrap();
    assert_eq!(
        answer,
        "[out-1: rows 1999 to 2000 of 2000]\nline 1999 of the build\nline 2000 of the build"
    );
    let answer = read(json!({"handle": "out-1", "offset": 1, "limit": 1})).unwrap();
    assert_eq!(
        answer,
        "[out-1: rows 1 to 1 of 2000; go on with \"offset\": 2]\nline 1 of the build"
    );
    assert_eq!(
        read(json!({"handle": "out-1", "offset": 9999})).unwrap(),
        "[out-1: there are only 2000 rows]"
    );
}

#[test]
fn search_ignores_case_and_shows_numbered_rows() {
    start_plugin();
    let whole = numbered_lines(1500).replace("line 700 of", "ERROR 700 of");
    finish_call("bash", &whole);
    let answer = read(json!({"handle": "out-1", "search": "error"})).unwrap();
    assert_eq!(
        answer,
        "[out-1: 1 of 1500 rows, from row 1 on, contain \"error\"]\n700: ERROR 700 of the build"
    );
    let none = read(json!({"handle": "out-1", "search": "error", "offset": 701})).unwrap();
    assert_eq!(
        none,
        "[out-1: no row from 701 on contains \"error\"; there are 1500 rows]"
    );
}

#[test]
fn search_without_a_handle_covers_all_stored_results_newest_first() {
    start_plugin();
    finish_call(
        "bash",
        &numbered_lines(1500).replace("line 700 of", "ERROR 700 of"),
    );
    finish_call("bash", &numbered_lines(1200));
    finish_call(
        "bash",
        &numbered_lines(1300).replace("line 9 of", "error 9 of"),
    );
    assert_eq!(
        read(json!({"search": "Error"})).unwrap(),
        "[out-3: 1 of 1300 rows, from row 1 on, contain \"Error\"]\n9: error 9 of the build\n\
         [out-1: 1 of 1500 rows, from row 1 on, contain \"Error\"]\n700: ERROR 700 of the build"
    );
    assert_eq!(
        read(json!({"search": "nowhere"})).unwrap(),
        "[no row of 3 outputs contains \"nowhere\"]"
    );
    let all = read(json!({"search": "line", "limit": 2000})).unwrap();
    assert!(all.len() <= 16384, "{}", all.len());
    assert!(all.starts_with("[out-3: "), "{all}");
    let none = read(json!({})).unwrap_err();
    assert!(none.message().contains("give the handle"), "{none}");
}

#[test]
fn long_lines_are_split_between_characters_and_matches_may_cross_rows() {
    start_plugin();
    let whole = format!(
        "{}needle{}",
        "ü".repeat(MAX_ROW_BYTES / 2 - 1),
        "x".repeat(30_000)
    );
    let shown = rind_sdk::text_of(&finish_call("fetch", &whole).content.unwrap());
    assert!(shown.len() < 16384, "{}", shown.len());
    let answer = read(json!({"handle": "out-1", "search": "NEEDLE"})).unwrap();
    assert!(answer.contains("\n1: üü"), "{answer}");
    assert_eq!(split_into_output_rows("").count(), 0);
    assert_eq!(
        split_into_output_rows("a\n\nb")
            .map(|row| row.text)
            .collect::<Vec<_>>(),
        ["a", "", "b"]
    );
}

#[test]
fn every_result_has_its_own_handle_and_an_unknown_handle_lists_all() {
    start_plugin();
    finish_call("bash", &numbered_lines(1000));
    finish_call("bash", &"y".repeat(20_000));
    assert!(read(json!({"handle": "out-2"})).unwrap().contains("yyy"));
    let error = read(json!({"handle": "out-3"})).unwrap_err();
    assert!(
        error
            .message()
            .ends_with("the stored outputs are: out-1, out-2"),
        "{error}"
    );
    assert!(read(json!({"handle": "7"})).is_err());
}

#[test]
fn the_oldest_results_are_removed_and_one_that_cannot_be_stored_is_reported() {
    start_plugin();
    for _ in 0..5 {
        finish_call("bash", &"z".repeat(15 << 20));
    }
    assert!(read(json!({"handle": "out-1"})).is_err());
    assert!(read(json!({"handle": "out-2"})).is_ok());
    let shown = rind_sdk::text_of(&finish_call("bash", &"z".repeat(17 << 20)).content.unwrap());
    assert!(
        read(json!({"handle": "out-5"})).is_ok(),
        "it did not push out the others"
    );
    assert!(
        shown.contains("It could not be kept (one output"),
        "{}",
        &shown[..300]
    );
}
