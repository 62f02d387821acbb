//! Tool calls that were running when the program was killed: a call of an idempotent tool runs
//! again, once.

use std::fs;

use rind_tests::cli::{Ran, Rind};
use rind_tests::guests;
use serde_json::Value;

/// A model that calls a tool, which appends a line and then waits.
const WAITS: &str = r#"
[[reply]]
tool_calls = [{ name = "std", arguments = { op = "append-and-wait", path = "log.txt", to = "line\n" } }]
"#;

const GOES_ON: &str = "[[reply]]\ntext = \"I go on.\"\n";

const IDEMPOTENT: &str = "[tools.std]\nidempotent = true\n";

const CHECKED: &str = "[tools.std]\ncheck = \"own\"\n";

/// A machine with the plugin `files`, whose manifest has these options of its tools.
fn machine(options: &str) -> Rind {
    let rind = Rind::with_script(WAITS);
    guests::put("files", &rind.home().join("managed"), |manifest| {
        manifest.replace("read = [\"workspace\"]", "write = [\"workspace\"]") + "\n" + options
    });
    rind
}

fn lines(rind: &Rind) -> usize {
    let text = fs::read_to_string(rind.workspace().join("log.txt"));
    text.unwrap_or_default().lines().count()
}

/// Kills the program in the middle of the call.
fn kill_in_call(rind: &Rind, args: &[&str]) {
    let before = lines(rind);
    let mut running = rind.start(args);
    running.wait_until(|rind| lines(rind) > before);
    running.signal("KILL");
    assert_eq!(running.end().code, None);
}

/// Continues the interrupted turn. The file `log.txt.go` makes each call of the tool end at once.
fn go_on(rind: &Rind) -> Ran {
    rind.script(GOES_ON).file("log.txt.go", "");
    let ran = rind.run(&["run", "--resume", "last", "--yes"]).exits(0);
    assert_eq!(ran.stdout, "I go on.\n");
    ran
}

/// Number of times that a tool began.
fn n_begun(rind: &Rind, tool: &str) -> usize {
    let starts = rind.entries("tool-start");
    starts.iter().filter(|start| start["name"] == tool).count()
}

fn killed(options: &str) -> Rind {
    let rind = machine(options);
    kill_in_call(&rind, &["run", "work", "--yes"]);
    rind
}

/// The model's call in `rind session show`, taken from the last turn that has the call's result.
fn shown_call(rind: &Rind) -> Value {
    let ran = rind.run(&["session", "show", "last", "--json"]).exits(0);
    let view: Value = serde_json::from_str(&ran.stdout).unwrap();
    let turns = view["turns"].as_array().unwrap();
    let items = turns
        .iter()
        .flat_map(|turn| turn["items"].as_array().unwrap());
    let mut calls = items.filter(|item| item["tool"] == "std" && item["result"].is_string());
    calls.next_back().unwrap().clone()
}

#[test]
fn a_call_of_an_idempotent_tool_runs_again_once_and_one_that_says_nothing_never_does() {
    for (options, n_lines) in [(IDEMPOTENT, 2), ("", 1)] {
        let rind = killed(options);
        let ran = go_on(&rind);
        assert_eq!(lines(&rind), n_lines, "{options}");
        assert_eq!(n_begun(&rind, "std"), n_lines, "{options}");
        let is_told = ran
            .stderr
            .contains("the interrupted call of `std` runs again");
        assert_eq!(is_told, n_lines == 2, "{}", ran.stderr);
        let result = shown_call(&rind)["result"].as_str().unwrap().to_owned();
        assert_eq!(result == "ok: ", n_lines == 2, "{result}");
        assert_eq!(result.contains("may have run"), n_lines == 1, "{result}");
        // The turn has ended, so there is nothing left to continue.
        rind.run(&["run", "--resume", "last", "--yes"]).exits(2);
        assert_eq!(lines(&rind), n_lines, "{options}");
        rind.run(&["session", "doctor"]).exits(0);
    }
}

#[test]
fn a_check_of_the_tool_decides_whether_the_call_runs_again() {
    let emptied = |rind: &Rind| fs::write(rind.workspace().join("log.txt"), "").unwrap();
    let spoiled = |rind: &Rind| {
        fs::remove_file(rind.workspace().join("log.txt")).unwrap();
        fs::create_dir(rind.workspace().join("log.txt")).unwrap();
    };
    // Change of the file, number of starts of the tool, a part of the notice, a part of the result.
    type Case<'a> = (&'a dyn Fn(&Rind), usize, &'a str, &'a str);
    let cases: [Case<'_>; 3] = [
        (
            &|_| {},
            1,
            "already had its effect",
            "says that the effect is there",
        ),
        (&emptied, 2, "runs again", "ok: "),
        (
            &spoiled,
            1,
            "answered neither `done` nor `absent`",
            "may have run",
        ),
    ];
    for (change, n_runs, notice, result) in cases {
        let rind = killed(CHECKED);
        change(&rind);
        let ran = go_on(&rind);
        assert!(ran.stderr.contains(notice), "{notice}: {}", ran.stderr);
        assert_eq!(n_begun(&rind, "std"), n_runs, "{notice}");
        let shown = shown_call(&rind)["result"].as_str().unwrap().to_owned();
        assert!(shown.contains(result), "{notice}: {shown}");
        // The check is recorded as a call that the plugin made.
        let starts = rind.entries("tool-start");
        let check = starts.iter().find(|start| start["name"] == "own").unwrap();
        assert_eq!(check["by"], "files", "{check}");
    }
}

#[test]
fn a_check_that_needs_an_approval_which_nobody_gives_leaves_the_call_alone() {
    let rind = killed(CHECKED);
    rind.script(GOES_ON).file("log.txt.go", "");
    let ran = rind.run(&["run", "--resume", "last"]).exits(0);
    assert!(
        ran.stderr
            .contains("the tool `own`, which checks its effect, was refused"),
        "{}",
        ran.stderr
    );
    assert_eq!((lines(&rind), n_begun(&rind, "std")), (1, 1));
}

#[test]
fn a_call_that_ends_the_program_each_time_is_left_to_the_model_in_the_end() {
    let rind = killed(IDEMPOTENT);
    for _ in 0..2 {
        kill_in_call(&rind, &["run", "--resume", "last", "--yes"]);
    }
    assert_eq!(lines(&rind), 3);
    let ran = go_on(&rind);
    assert!(
        ran.stderr.contains("it was cut off 3 times"),
        "{}",
        ran.stderr
    );
    assert_eq!(lines(&rind), 3);
    let result = shown_call(&rind)["result"].as_str().unwrap().to_owned();
    assert!(result.contains("may have run"), "{result}");
}

#[test]
fn turns_with_a_repeated_call_are_taken_back_whole() {
    let rind = killed(IDEMPOTENT);
    go_on(&rind);
    for _ in 0..2 {
        rind.run(&["run", "--resume", "last", "/undo conversation"])
            .exits(0);
    }
    let ran = rind.run(&["session", "show", "last", "--json"]).exits(0);
    let view: Value = serde_json::from_str(&ran.stdout).unwrap();
    let turns = view["turns"].as_array().unwrap();
    let undone: Vec<&Value> = turns.iter().map(|turn| &turn["is_undone"]).collect();
    assert_eq!(undone, [true, true], "{ran:?}");
    rind.run(&["run", "--resume", "last", "hello"]).exits(0);
    rind.run(&["session", "doctor"]).exits(0);
}

#[test]
fn a_manifest_with_options_for_a_tool_that_is_not_there_is_refused_at_load() {
    let rind = machine("[tools.gone]\nidempotent = true\n");
    let ran = rind.run(&["plugin", "list"]);
    let text = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        text.contains("the tool `gone`, which the component does not list"),
        "{text}"
    );
}
