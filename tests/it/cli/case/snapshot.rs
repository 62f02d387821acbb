//! Snapshots of cases, and their costs compared with the last run.

use rind_tests::cli::Rind;

use super::{report, with_cases};

const GREET: &str = "[[case]]\nname = \"Greets Ada\"\n[case.given.tool]\nname = \"greet\"\narguments = { name = \"Ada\" }\n\
                     [case.expect]\nsnapshot = true\n";

const FILE: &str = "hello/tests/snapshots/cases/greets-ada.toml";

fn kept(rind: &Rind) -> Option<String> {
    std::fs::read_to_string(rind.workspace().join(FILE)).ok()
}

#[test]
fn a_snapshot_is_written_when_it_is_asked_for_and_compared_afterwards() {
    let rind = with_cases("hello", |manifest| manifest, GREET);
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(
        ran.stdout.contains("there is no snapshot"),
        "{}",
        ran.stdout
    );
    assert_eq!(kept(&rind), None, "nothing is accepted in passing");

    rind.run(&["plugin", "test", "hello", "--accept"]).exits(0);
    insta::assert_snapshot!(kept(&rind).unwrap(), @r#"
    # Greets Ada
    # Written by `rind plugin test --accept`.

    output = "done"
    stop = "done"
    results = ["Hello, Ada!"]
    log = ["the turn took 2 steps"]
    tools = ["greet"]

    [[hooks]]
    point = "turn-end"
    outcome = "pass"
    "#);
    rind.run(&["plugin", "test", "hello"]).exits(0);

    let changed = GREET.replace("\"Ada\" }", "\"Bob\" }");
    rind.file("hello/tests/cases.toml", &changed);
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(
        ran.stdout
            .contains("- results = [\"Hello, Ada!\"]\n      + results = [\"Hello, Bob!\"]"),
        "{}",
        ran.stdout
    );
    rind.run(&["plugin", "test", "hello", "--accept"]).exits(0);
    assert!(kept(&rind).unwrap().contains("Hello, Bob!"));
}

#[test]
fn what_a_case_fails_at_otherwise_is_not_kept() {
    let rind = with_cases(
        "hello",
        |manifest| manifest,
        &format!("{GREET}output = \"something else\"\n"),
    );
    rind.run(&["plugin", "test", "hello", "--accept"]).exits(1);
    assert_eq!(kept(&rind), None);
}

#[test]
fn a_snapshot_that_no_case_has_is_told_of_and_removed_when_the_others_are_accepted() {
    let rind = with_cases("hello", |manifest| manifest, GREET);
    rind.run(&["plugin", "test", "hello", "--accept"]).exits(0);
    rind.file(
        "hello/tests/cases.toml",
        &GREET.replace("Greets Ada", "greets her"),
    );
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(ran.stderr.contains("greets-ada.toml"), "{}", ran.stderr);
    rind.run(&["plugin", "test", "hello", "--accept"]).exits(0);
    assert_eq!(kept(&rind), None);
    rind.run(&["plugin", "test", "hello"]).exits(0);
}

#[test]
fn host_calls_and_memory_are_shown_beside_those_of_the_last_run() {
    let call = |id: u32| {
        format!(
            "{{ point = \"pre-tool\", payload = {{ call = {{ id = \"{id}\", name = \"read_file\", arguments = {{ path = \"a\" }} }} }} }}"
        )
    };
    let cases = |events: &[String]| {
        format!(
            "[[case]]\nname = \"a\"\n[case.given]\nevent = [{}]\n[case.expect]\ndenials = []\n",
            events.join(", ")
        )
    };
    let rind = with_cases("loop-detection", |manifest| manifest, &cases(&[call(1)]));
    let args = [
        "plugin",
        "test",
        "loop-detection",
        "--report",
        "json=out.json",
    ];
    let ran = rind.run(&args).exits(0);
    assert!(ran.stdout.contains("config 1"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("was"), "{}", ran.stdout);
    let first = report(&rind)["cases"][0].clone();
    assert_eq!(first["cost"]["host_calls"]["config"], 1);
    assert!(first["cost"]["memory_bytes"].as_u64() >= Some(64 << 10));
    assert!(first["last"].is_null());

    rind.file(
        "loop-detection/tests/cases.toml",
        &cases(&[call(1), call(2)]),
    );
    let ran = rind.run(&args).exits(0);
    assert!(
        ran.stdout.contains("state 4") && ran.stdout.contains("(was "),
        "{}",
        ran.stdout
    );
    let second = report(&rind)["cases"][0].clone();
    assert_eq!(second["last"]["host_calls"], first["cost"]["host_calls"]);
}

#[test]
fn coverage_names_what_no_case_called_in_every_report() {
    let rind = with_cases(
        "hello",
        |manifest| manifest,
        "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n",
    );
    let args = [
        "plugin",
        "test",
        "hello",
        "--report",
        "json=out.json",
        "--report",
        "junit=out.xml",
    ];
    let ran = rind.run(&args).exits(0);
    assert!(
        ran.stderr.contains(
            "hello: the cases reach 1 of its 2 hooks, tools, commands and loops; no case reaches greet"
        ),
        "{}",
        ran.stderr
    );
    let coverage = &report(&rind)["coverage"]["hello"];
    assert_eq!(coverage["hooks"]["turn-end"], 1);
    assert_eq!(coverage["never_called"], serde_json::json!(["greet"]));
    let junit = std::fs::read_to_string(rind.workspace().join("out.xml")).unwrap();
    for property in [
        "name=\"never-called\" value=\"greet\"",
        "name=\"host-calls.log\" value=\"1\"",
        "name=\"memory-bytes\"",
    ] {
        assert!(junit.contains(property), "{junit}");
    }
}

#[test]
fn a_long_answer_is_judged_in_the_same_pieces_on_every_machine() {
    // Processing this answer takes longer than the interval between two checks of its lines.
    let reply = "a line\\n ".repeat(100_000);
    let cases = format!(
        "[[case]]\nname = \"long\"\n[case.given]\nreply = [{{ text = \"{reply}\" }}]\n[case.expect]\nsnapshot = true\n"
    );
    let rind = with_cases("scripted-hook", |manifest| manifest, &cases);
    rind.run(&["plugin", "test", "scripted-hook", "--accept"])
        .exits(0);
    let file = rind
        .workspace()
        .join("scripted-hook/tests/snapshots/cases/long.toml");
    let kept = std::fs::read_to_string(file).unwrap();
    assert_eq!(kept.matches("point = \"output-delta\"").count(), 2);
}
