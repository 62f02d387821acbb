//! `rind skill test`: cases of skills, run by the real program.

use insta::assert_snapshot;
use rind_tests::cli::{Ran, Rind};
use rind_tests::guests;

const TIDY: &str = "---
name: tidy
description: Tidies a folder.
tools:
  allow: [read_file, bash]
allowed-tools: Bash(touch *)
---
Tidy $ARGUMENTS.
";

/// A machine with the skill `tidy` of the user, whose cases are these.
fn with_cases(cases: &str) -> Rind {
    let rind = Rind::default();
    rind.user_file("config/skills/tidy/SKILL.md", TIDY);
    rind.user_file("config/skills/tidy/tests/cases.toml", cases);
    rind
}

/// Runs the cases of `tidy`, and returns its output without times.
fn test(rind: &Rind, args: &[&str]) -> Ran {
    let all: Vec<&str> = ["skill", "test"].iter().chain(args).copied().collect();
    rind.run(&all)
}

#[test]
fn the_cases_of_the_examples_pass() {
    let folder = guests::workspace().join("host/examples/skills");
    let rind = Rind::default();
    let ran = test(&rind, &[folder.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for name in [
        "autoresearch: searches, takes in and writes, and nothing else",
        "autoresearch: the model may not start it",
        "autoresearch: without its plugins it is not used",
        "count-words: the model starts it, and its script is spared the question",
        "count-words: another command is asked about, and a script that fails says why",
        "count-words: in a project it is asked about, and spares nothing",
    ] {
        assert!(ran.stdout.contains(name), "{name}\n{}", ran.stdout);
    }
    assert!(ran.stderr.contains("6 cases passed"), "{}", ran.stderr);
}

#[test]
fn every_way_in_which_a_call_comes_to_run_is_seen() {
    let rind = with_cases(
        r#"
[[case]]
name = "all ways"
[case.given]
arguments = "here"
answers = ["yes", "no: leave it"]
rules = [{ tool = "bash", command = "rm *", decision = "deny" }]
reply = [
    { tool_calls = [{ name = "read_file", arguments = { path = "a" } }] },
    { tool_calls = [{ name = "bash", arguments = { command = "touch b" } }] },
    { tool_calls = [{ name = "bash", arguments = { command = "touch c && cp c d" } }] },
    { tool_calls = [{ name = "bash", arguments = { command = "mv c e" } }] },
    { tool_calls = [{ name = "bash", arguments = { command = "rm a" } }] },
    { tool_calls = [{ name = "write_file", arguments = { path = "f", content = "" } }] },
    { tool_calls = [{ name = "nothing", arguments = {} }] },
    { text = "tidied" },
]
files = { a = "alpha" }
[case.expect]
skills = ["tidy by user"]
text = ["Tidy here."]
calls = [
    "read_file allowed",
    "bash spared",
    "bash asked",
    "bash refused by user",
    "bash refused by policy",
    "write_file refused by skill tidy",
    "nothing refused by host",
]
asked = ["bash", "bash"]
results = ["alpha", "leave it", "denied", "does not allow `write_file`"]
output = "tidied"
stop = "done"
files = { a = "alpha", b = "", c = "", d = "", e = "(no such file)", f = "(no such file)" }

[[case]]
name = "only in the turn of the invocation"
[case.given]
then = ["and again"]
reply = [
    { tool_calls = [{ name = "bash", arguments = { command = "touch b" } }] },
    { text = "one" },
    { tool_calls = [{ name = "bash", arguments = { command = "touch c" } }] },
    { text = "two" },
]
[case.expect]
calls = ["bash spared", "bash asked"]
output = "two"
"#,
    );
    let ran = test(&rind, &["tidy"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_case_that_fails_shows_what_was_expected_and_what_was() {
    let rind = with_cases(
        "[[case]]\nname = \"greets <Bob>\"\n[case.given]\narguments = \"all\"\n\
         [case.expect]\nskills = []\ntext = [\"Tidy nothing.\"]\ncalls = [\"bash spared\"]\noutput = \"tidied\"\n\
         files = { a = \"alpha\" }\n",
    );
    let ran = test(
        &rind,
        &[
            "tidy",
            "--report",
            "json=out.json",
            "--report",
            "junit=out.xml",
        ],
    )
    .exits(1);
    assert_snapshot!(ran.stdout, @r#"
    ✗ tidy: greets <Bob> ([RIND_HOME]/config/skills/tidy/tests/cases.toml:1)
        skills (- expected, + was)
          + tidy by user
        calls (- expected, + was)
          - bash spared
          + (none)
        text (- expected, + was)
          - Tidy nothing.
          + <skill name="tidy" source="local" trust="user" directory="{baseDir}">
          + Tidy all.
          + </skill>
        output
          expected "tidied"
          was      "done"
        files.a
          expected "alpha"
          was      "(no such file)"
    "#);
    assert!(ran.stderr.contains("1 of 1 case failed"), "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(rind.workspace().join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&read("out.json")).unwrap();
    assert_eq!(json["cases"][0]["skill"], "tidy");
    assert_eq!(json["cases"][0]["passed"], false);
    let junit = read("out.xml");
    assert!(
        junit.contains("testsuite name=\"rind skill test\" tests=\"1\" failures=\"1\"")
            && junit.contains("classname=\"tidy\" name=\"greets &lt;Bob&gt;\""),
        "{junit}"
    );
    let printed = test(&rind, &["tidy", "--json"]).exits(1).stdout;
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        printed["cases"][0]["failures"],
        json["cases"][0]["failures"]
    );
}

#[test]
fn a_wrong_case_names_its_line_and_column_and_no_case_is_no_success() {
    for (cases, expected) in [
        (
            "[[case]]\nname = \"a\"\n  expects = 1\n",
            "cases.toml:3:3: unknown field `expects`, expected one of `name`, `given`, `expect`",
        ),
        (
            "[[case]]\nname = \"a\"\n[case.given]\nfiles = 1\n",
            "cases.toml:4:9: invalid type: integer `1`, expected a map",
        ),
        (
            "\n[[case]]\nname = \"a\"\ngiven = { input = \"x\", arguments = \"y\" }\n",
            "cases.toml:2:1: case `a`: `given.input` is what the person says",
        ),
        (
            "[[case]]\nname = \"a\"\ngiven = { arguments = 1 }\n",
            "case `a`: `given.arguments` is a text or a table",
        ),
        (
            "[[case]]\nname = \"a\"\n[[case]]\nname = \"a\"\n",
            "cases.toml:3:1: there are two cases `a`",
        ),
    ] {
        let ran = test(&with_cases(cases), &["tidy"]).exits(1);
        assert!(ran.stderr.contains(expected), "{expected}\n{}", ran.stderr);
    }
    let rind = with_cases("");
    let ran = test(&rind, &["tidy"]).exits(1);
    assert!(
        ran.stderr.contains("tidy has no cases: write some in")
            && ran.stderr.contains("no cases were run"),
        "{}",
        ran.stderr
    );
    let ran = test(&rind, &["tidied"]).exits(2);
    assert!(
        ran.stderr.contains("there is no skill `tidied`"),
        "{}",
        ran.stderr
    );
    let ran = test(&rind, &["./nowhere"]).exits(2);
    assert!(
        ran.stderr.contains("there is no skill `./nowhere`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_keeps_a_skill_from_being_used_fails_a_case_that_does_not_expect_it() {
    let cases = "[[case]]\nname = \"a\"\n[[case]]\nname = \"b\"\n[case.expect]\nrefused = \"the program `no-such-program` is missing\"\nskills = []\n";
    let rind = with_cases(cases);
    let needs = TIDY.replacen("tools:", "requires: {bins: [no-such-program]}\ntools:", 1);
    rind.user_file("config/skills/tidy/SKILL.md", &needs);
    let ran = test(&rind, &["tidy"]).exits(1);
    assert!(
        ran.stdout.contains("✗ tidy: a") && ran.stdout.contains("✓ tidy: b"),
        "{}",
        ran.stdout
    );
    rind.user_file(
        "config/skills/tidy/SKILL.md",
        "---\nskill_format: other/v9\n---\nText.\n",
    );
    let ran = test(&rind, &["tidy"]).exits(1);
    assert!(
        ran.stdout
            .contains("the skill cannot be used: 2:15: `skill_format` is `other/v9`"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_snapshot_holds_all_that_a_case_did_and_is_the_same_in_another_folder() {
    let cases = "[[case]]\nname = \"all of it\"\n[case.given]\nfiles = { a = \"alpha\" }\ninput = \"tidy up\"\n\
                 reply = [\n  { tool_calls = [{ name = \"skill\", arguments = { skill = \"tidy\" } }] },\n  \
                 { tool_calls = [{ name = \"bash\", arguments = { command = \"touch b\" } }] },\n  { text = \"done\" },\n]\n\
                 [case.expect]\nsnapshot = true\n";
    let rind = with_cases(cases);
    let ran = test(&rind, &["tidy"]).exits(1);
    assert!(
        ran.stdout.contains("run `rind skill test --accept`"),
        "{}",
        ran.stdout
    );
    let ran = test(&rind, &["tidy", "--accept"]).exits(0);
    assert!(ran.stdout.contains("snapshot written"), "{}", ran.stdout);
    let file = "config/skills/tidy/tests/snapshots/cases/all-of-it.toml";
    let kept = std::fs::read_to_string(rind.home().join(file)).unwrap();
    assert_snapshot!(kept, @r#"
    # all of it
    # Written by `rind skill test --accept`.

    skills = ["tidy by model"]
    calls = [
        "skill allowed",
        "bash spared",
    ]
    output = "done"
    stop = "done"
    text = """
    <skill name="tidy" source="local" trust="user" directory="{baseDir}">
    Tidy .
    </skill>
    [while this skill is active, these tools can be called: bash, read_file, skill]"""
    results = [
        """
    <skill name="tidy" source="local" trust="user" directory="{baseDir}">
    Tidy .
    </skill>
    [while this skill is active, these tools can be called: bash, read_file, skill]""",
        "[exit code 0]",
    ]

    [files]
    b = ""
    "#);
    test(&rind, &["tidy"]).exits(0);

    let other = Rind::default();
    let folder = other.workspace().join("skills/tidy");
    let name = "skills/tidy/SKILL.md";
    other
        .file(name, TIDY)
        .file("skills/tidy/tests/cases.toml", cases);
    other.file("skills/tidy/tests/snapshots/cases/all-of-it.toml", &kept);
    test(&other, &[folder.to_str().unwrap()]).exits(0);
    other.file(name, &TIDY.replace("Tidy $", "Sweep $"));
    let ran = test(&other, &["./skills"]).exits(1);
    assert!(
        ran.stdout.contains("- Tidy") && ran.stdout.contains("+ Sweep"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_forked_skill_and_a_script_without_network_run_as_they_would() {
    let rind = with_cases(
        r#"
[[case]]
name = "a subagent does the work, and nobody is asked for it"
[case.given]
arguments = "here"
reply = [
    { tool_calls = [{ name = "bash", arguments = { command = "touch b" } }] },
    { tool_calls = [{ name = "bash", arguments = { command = "cp b c" } }] },
    { text = "tidied" },
]
[case.expect]
skills = ["tidy by user"]
text = ["Tidy here."]
calls = ["bash spared", "bash refused by policy"]
output = "tidied"
files = { b = "", c = "(no such file)" }
"#,
    );
    let fork = TIDY.replacen("tools:", "context: fork\ntools:", 1);
    rind.user_file("config/skills/tidy/SKILL.md", &fork);
    let ran = test(&rind, &["tidy"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}
