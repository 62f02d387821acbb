//! Tests of which cases `rind plugin test` runs, in parallel, and with which time limits.

use std::time::{Duration, Instant};

use super::with_cases;
use rind_tests::cli::Rind;

/// Sets up cases `c0`, `c1` … of `hello`. The cases whose numbers are in `failing` expect a wrong
/// result.
fn greetings(n_cases: usize, failing: &[usize]) -> Rind {
    let case = |n: usize| {
        let whom = if failing.contains(&n) { "Bob" } else { "Ada" };
        format!(
            "[[case]]\nname = \"c{n}\"\ngiven.tool = {{ name = \"greet\", arguments = {{ name = \"Ada\" }} }}\n\
             expect.results = [\"Hello, {whom}!\"]\n"
        )
    };
    let cases: String = (0..n_cases).map(case).collect();
    with_cases("hello", |manifest| manifest, &cases)
}

/// Returns the names of the cases in an output, in order.
fn names(text: &str) -> Vec<String> {
    let words = text.split_whitespace();
    let names = words.filter(|word| {
        let number = word.strip_prefix('c');
        number.is_some_and(|number| number.parse::<usize>().is_ok())
    });
    names.map(str::to_owned).collect()
}

#[test]
fn cases_are_listed_without_running_and_shares_hold_each_of_them_once() {
    let rind = greetings(7, &[0]);
    let all = rind.run(&["plugin", "test", "hello", "--list"]).exits(0);
    assert_eq!(names(&all.stdout).len(), 7, "{}", all.stdout);
    assert!(
        all.stdout.contains("hello: c0 (hello/tests/cases.toml:1)"),
        "{}",
        all.stdout
    );
    let mut found = Vec::new();
    for share in ["1/3", "2/3", "3/3"] {
        let args = ["plugin", "test", "hello", "--list", "--shard", share];
        found.extend(names(&rind.run(&args).exits(0).stdout));
    }
    found.sort();
    let mut expected = names(&all.stdout);
    expected.sort();
    assert_eq!(found, expected);
    let args = ["plugin", "test", "hello", "--shard", "4/3"];
    let ran = rind.run(&args).exits(2);
    assert!(
        ran.stderr.contains("there is no shard 4 of 3"),
        "{}",
        ran.stderr
    );
}

#[test]
fn cases_that_run_side_by_side_are_reported_in_their_order() {
    let rind = greetings(12, &[]);
    let ran = rind
        .run(&["plugin", "test", "hello", "--jobs", "4"])
        .exits(0);
    let expected: Vec<String> = (0..12).map(|n| format!("c{n}")).collect();
    assert_eq!(names(&ran.stdout), expected);
    let args = ["plugin", "test", "hello", "--shard", "2/4", "--jobs", "2"];
    let ran = rind.run(&args).exits(0);
    assert_eq!(names(&ran.stdout), ["c1", "c5", "c9"]);
}

#[test]
fn no_case_runs_after_one_that_failed_when_the_first_failure_is_enough() {
    let rind = greetings(9, &[2]);
    let args = ["plugin", "test", "hello", "--fail-fast", "--jobs", "1"];
    let ran = rind.run(&args).exits(1);
    assert!(ran.stderr.contains("1 of 3 cases failed"), "{}", ran.stderr);
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(ran.stderr.contains("1 of 9 cases failed"), "{}", ran.stderr);
}

#[test]
fn a_hook_that_never_ends_costs_its_deadline_once() {
    let rind = with_cases(
        "hostile",
        |manifest| manifest.replace("300ms", "1s"),
        "[[case]]\nname = \"endless\"\ngiven = { config = { how = \"loop\" }, tool = { name = \"read_file\", arguments = { path = \"a\" } } }\n\
         expect.hooks = { pre-tool = { outcome = \"failed-blocking\", reason = \"deadline\" } }\n",
    );
    let started = Instant::now();
    rind.run(&["plugin", "test", "hostile"]).exits(0);
    // Four deadlines of one second each would take longer.
    let took = started.elapsed();
    assert!(took < Duration::from_millis(3_500), "{took:?}");
}

#[test]
fn a_case_that_fails_by_a_deadline_says_where_it_is_set() {
    let rind = with_cases(
        "hostile",
        |manifest| manifest,
        "[[case]]\nname = \"endless\"\ngiven = { config = { how = \"loop\" }, tool = { name = \"read_file\", arguments = { path = \"a\" } } }\n\
         expect.hooks = { pre-tool = \"pass\" }\n",
    );
    let ran = rind.run(&["plugin", "test", "hostile"]).exits(1);
    let told = "a call of the plugin never ended, or needs longer than `timeout` of its hook or of `[limits]` in plugin.toml";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
}

#[test]
fn a_case_is_stopped_at_its_deadline() {
    let rind = with_cases(
        "hostile",
        |manifest| manifest.replace("300ms", "30s"),
        "[[case]]\nname = \"endless\"\ngiven = { config = { how = \"loop\" }, tool = { name = \"read_file\", arguments = { path = \"a\" } } }\n\
         expect.stop = \"done\"\n",
    );
    let started = Instant::now();
    let args = ["plugin", "test", "hostile", "--deadline", "1"];
    let ran = rind.run(&args).exits(1);
    assert!(
        ran.stdout
            .contains("the case was stopped at its deadline of 1 s"),
        "{}",
        ran.stdout
    );
    assert!(started.elapsed() < Duration::from_secs(20));
}
