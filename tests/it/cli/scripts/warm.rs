//! Warm scripts, which run for the whole session and answer one line per call.

use rind_tests::cli::Rind;

use super::{WRITES, guarded, outcomes, results};

const GATE: &str = "point = \"pre-tool\"\nwarm = true\ntimeout_seconds = 5\n";

/// Shell text that runs `answer` for every line of input. In it `$id` is the id of the call, and
/// `$n` is the number of lines so far.
fn answers(answer: &str) -> String {
    format!(
        "echo started >> starts\nn=0\nwhile read -r line; do\n  n=$((n+1))\n  id=${{line#*\\\"id\\\":}}; id=${{id%%,*}}\n  {answer}\ndone"
    )
}

fn starts(rind: &Rind) -> usize {
    let text = std::fs::read_to_string(rind.workspace().join("starts")).unwrap();
    text.lines().count()
}

#[test]
fn a_script_that_stays_is_started_once_and_keeps_what_it_knows() {
    let text = answers(r#"echo "{\"id\": $id, \"outcome\": {\"note\": \"call number $n\"}}""#);
    let rind = guarded(WRITES, &text, GATE);
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    assert_eq!(starts(&rind), 1);
    let results = results(&ran);
    for n in 1..=3 {
        let note = format!("call number {n}");
        assert!(
            results.iter().any(|result| result.contains(&note)),
            "{results:?}"
        );
    }
}

#[test]
fn a_crash_is_the_failure_of_one_call_and_starts_are_limited() {
    let text = answers("echo oh >&2; exit 7");
    let six = "[[reply]]\ntool_calls = [".to_owned()
        + &"{ name = \"list_files\", arguments = {} },".repeat(6)
        + "]\n[[reply]]\ntext = \"Done.\"\n";
    let rind = guarded(&six, &text, GATE);
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    assert_eq!(starts(&rind), 4);
    let reasons: Vec<String> = outcomes(&ran).into_iter().map(|(_, _, why)| why).collect();
    assert_eq!(reasons.len(), 6);
    for (at, why) in reasons.iter().enumerate() {
        let expected = match at {
            0..4 => "it ended before it answered: exit code 7: oh",
            _ => "its process exited 4 times in this session and is not started again",
        };
        assert!(why.contains(expected), "{at}: {why}");
    }
    assert!(
        results(&ran)
            .iter()
            .all(|result| result.starts_with("refused by plugin guard"))
    );
}

#[test]
fn answers_that_are_none_are_failures_of_their_call() {
    for (answer, expected) in [
        ("echo nonsense", "the line `nonsense` is not JSON"),
        ("echo '{\"outcome\": {}}'", "missing field `id`"),
        (
            "echo '{\"id\": 99, \"outcome\": {}}'",
            "it answered the unknown call 99",
        ),
        (
            "echo \"{\\\"id\\\": $id, \\\"outcome\\\": 5}\"",
            "its `outcome` is not a JSON object",
        ),
        (
            "echo \"{\\\"id\\\": $id, \\\"error\\\": \\\"no idea\\\"}\"",
            "the call reported an error: no idea",
        ),
        (
            "sleep 60",
            "the call was stopped at its deadline of 5000 ms",
        ),
        ("yes '{\"id\": 0}'", "it"),
    ] {
        let rind = guarded(WRITES, &answers(answer), GATE);
        let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
        let why = outcomes(&ran)[0].2.clone();
        assert!(why.contains(expected), "{answer}: {why}");
        assert!(!rind.workspace().join("b.txt").exists(), "{answer}");
    }
}

#[test]
fn an_answer_of_any_length_is_the_failure_of_one_call() {
    let long = "head -c 3000000 /dev/zero | tr '\\0' x; echo '\"}'";
    let fine = r#"echo "{\"id\": $id, \"outcome\": {\"note\": \"call number $n\"}}""#;
    let answer = format!("if [ -e asked ]; then {fine}; else touch asked; {long}; fi");
    let rind = guarded(WRITES, &answers(&answer), GATE);
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    assert_eq!(starts(&rind), 2);
    let outcomes = outcomes(&ran);
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|(_, outcome, _)| outcome == "failed-blocking")
        .map(|(.., why)| why.as_str())
        .collect();
    assert_eq!(
        failed,
        [
            "the call reported an error: it wrote a line of more than 1048576 bytes, so it was stopped; its next call starts it again"
        ]
    );
    assert!(
        results(&ran)[1].contains("call number 1"),
        "{:?}",
        results(&ran)
    );
}

#[test]
fn lines_that_are_quoted_carry_no_secret() {
    let token = ["ghp", "_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat();
    let pad = "-".repeat(60);
    for (answer, expected) in [
        (
            format!("echo debug {token}"),
            "the line `debug [secret masked",
        ),
        // The quoted line is masked before it is truncated: half a token would not be recognized.
        (format!("echo {pad} {token}"), "[secret"),
        (
            format!("echo '{{\"id\": \"{token}\"}}'"),
            "invalid type: string",
        ),
        (
            format!("echo '{{\"id\": 1, \"{token}\": 2}}'"),
            "unknown field",
        ),
    ] {
        let rind = guarded(WRITES, &answers(&answer), GATE);
        let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
        let why = outcomes(&ran)[0].2.clone();
        assert!(why.contains(expected), "{answer}: {why}");
        let secret = &token[..12];
        assert!(!ran.stdout.contains(secret), "{answer}: {}", ran.stdout);
    }
}
