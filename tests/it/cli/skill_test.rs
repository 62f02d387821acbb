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

/// A machine whose user has the skill `tidy` with these cases.
fn with_cases(cases: &str) -> Rind {
    let rind = Rind::default();
    rind.user_file("config/skills/tidy/SKILL.md", TIDY);
    rind.user_file("config/skills/tidy/tests/cases.toml", cases);
    rind
}

/// Runs `rind skill test` with these arguments.
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
        junit.contains("testsuites name=\"rind skill test\" tests=\"1\" failures=\"1\"")
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
            "cases.toml:2:1: case `a`: `given.input` is a message of the person",
        ),
        (
            "[[case]]\nname = \"a\"\ngiven = { arguments = 1 }\n",
            "case `a`: `given.arguments` is a text or a table",
        ),
        (
            "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n[[case]]\nname = \"a\"\n",
            "cases.toml:4:1: there are two cases `a`",
        ),
        (
            "[[case]]\nname = \"a\"\n[case.expect]\nfiles = {}\n",
            "cases.toml:1:1: case `a`: it has no expectations",
        ),
    ] {
        let ran = test(&with_cases(cases), &["tidy"]).exits(1);
        assert!(ran.stdout.contains(expected), "{expected}\n{}", ran.stdout);
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
    let cases = "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n[[case]]\nname = \"b\"\n[case.expect]\nrefused = \"the program `no-such-program` is missing\"\nskills = []\n";
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
output = '''tidied

[blocked: a subagent cannot ask for approval, so these calls were not run: `bash` (the operator can allow it with tools.rules = [{ tool = "bash", command = "cp b *", decision = "allow" }])]'''
files = { b = "", c = "(no such file)" }
"#,
    );
    let fork = TIDY.replacen("tools:", "context: fork\ntools:", 1);
    rind.user_file("config/skills/tidy/SKILL.md", &fork);
    let ran = test(&rind, &["tidy"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

/// A case with a snapshot, and nothing else.
const SNAPSHOT: &str = "[[case]]\nname = \"one\"\nexpect.snapshot = true\n";

#[test]
fn accepting_follows_no_link_and_removes_nothing_that_it_did_not_write() {
    use std::os::unix::fs::symlink;

    let tests = "config/skills/tidy/tests";
    for (link, target) in [
        ("tests", "victim"),
        ("tests/snapshots", "victim"),
        ("tests/snapshots/cases", "victim"),
        ("tests/snapshots/cases/one.toml", "victim/Cargo.toml"),
    ] {
        let rind = with_cases(SNAPSHOT);
        let victim = rind.workspace().join("victim");
        for file in [
            "Cargo.toml",
            "cases/Cargo.toml",
            "snapshots/cases/Cargo.toml",
        ] {
            rind.file(&format!("victim/{file}"), "[package]\n");
        }
        rind.file("victim/cases.toml", SNAPSHOT);
        let place = rind.home().join("config/skills/tidy").join(link);
        if link == "tests" {
            std::fs::remove_dir_all(&place).unwrap();
        }
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(rind.workspace().join(target), &place).unwrap();
        let before = files_below(&victim);
        let ran = test(&rind, &["tidy", "--accept"]).exits(1);
        assert!(
            ran.stdout.contains("is a symlink"),
            "{link}\n{}",
            ran.stdout
        );
        assert_eq!(files_below(&victim), before, "{link}");
        assert!(place.is_symlink(), "{link}");
    }

    let rind = with_cases(SNAPSHOT);
    test(&rind, &["tidy", "--accept"]).exits(0);
    let snapshots = rind.home().join(tests).join("snapshots/cases");
    let own = std::fs::read_to_string(snapshots.join("one.toml")).unwrap();
    std::fs::write(snapshots.join("old.toml"), own).unwrap();
    std::fs::write(snapshots.join("notes.toml"), "mine = true\n").unwrap();
    let ran = test(&rind, &["tidy", "--accept"]).exits(0);
    assert!(
        ran.stderr.contains("notes.toml; it is kept") && ran.stderr.contains("removed"),
        "{}",
        ran.stderr
    );
    assert!(!snapshots.join("old.toml").exists() && snapshots.join("notes.toml").exists());
    // A file that `--accept` did not write is not replaced either.
    std::fs::write(snapshots.join("one.toml"), "mine = true\n").unwrap();
    let ran = test(&rind, &["tidy", "--accept"]).exits(1);
    assert!(
        ran.stdout.contains("was not written by `--accept`"),
        "{}",
        ran.stdout
    );
    let kept = std::fs::read_to_string(snapshots.join("one.toml")).unwrap();
    assert_eq!(kept, "mine = true\n");
}

/// Files of a folder with their contents.
fn files_below(folder: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(files_below(&path)),
            path => files.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}

#[test]
fn files_of_cases_are_plain_small_files_and_a_faulty_one_does_not_keep_the_others_from_running() {
    let rind = with_cases("[[case]]\nname = \"fine\"\nexpect.stop = \"done\"\n");
    let tests = rind.home().join("config/skills/tidy/tests");
    std::os::unix::fs::symlink("/dev/zero", tests.join("zero.toml")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", tests.join("link.toml")).unwrap();
    std::fs::create_dir(tests.join("folder.toml")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(tests.join("pipe.toml"))
        .status();
    assert!(pipe.unwrap().success());
    std::fs::write(tests.join("large.toml"), "#".repeat((1 << 20) + 1)).unwrap();
    std::fs::write(tests.join("wrong.toml"), "\n[[case]]\nname = 1\n").unwrap();
    let ran = test(
        &rind,
        &[
            "tidy",
            "--report",
            "junit=out.xml",
            "--report",
            "json=out.json",
        ],
    );
    let ran = ran.exits(1);
    for (name, why) in [
        (
            "zero.toml",
            "is a symlink, and symlinks are not followed here",
        ),
        (
            "link.toml",
            "is a symlink, and symlinks are not followed here",
        ),
        ("folder.toml", "is not a file"),
        ("pipe.toml", "is not a file"),
        ("large.toml", "it has more than 1 MiB"),
        (
            "wrong.toml",
            "wrong.toml:3:8: invalid type: integer `1`, expected a string",
        ),
    ] {
        let head = format!("✗ tidy: {name} (");
        let (_, failed) = ran
            .stdout
            .split_once(&head)
            .unwrap_or_else(|| panic!("{name}\n{}", ran.stdout));
        let failed = failed.split('✗').next().unwrap();
        assert!(failed.contains(why), "{name}\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("root:"), "{}", ran.stdout);
    assert!(ran.stdout.contains("✓ tidy: fine"), "{}", ran.stdout);
    assert!(ran.stderr.contains("6 of 7 cases failed"), "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(rind.workspace().join(name)).unwrap();
    assert!(
        read("out.xml").contains("tests=\"7\" failures=\"0\" errors=\"6\""),
        "{}",
        read("out.xml")
    );
    let json: serde_json::Value = serde_json::from_str(&read("out.json")).unwrap();
    let places = json["cases"].as_array().unwrap().iter();
    let places: Vec<&str> = places.filter_map(|case| case["place"].as_str()).collect();
    assert!(
        places.iter().any(|place| place.ends_with("wrong.toml:3")),
        "{places:?}"
    );
}

#[test]
fn a_case_that_did_not_come_to_what_it_is_about_fails() {
    let bash = "{ tool_calls = [{ name = \"read_file\", arguments = { path = \"a\" } }] }";
    let case = |given: &str, expect: &str| {
        format!(
            "[[case]]\nname = \"a\"\n[case.given]\nfiles = {{ a = \"alpha\" }}\n{given}\n[case.expect]\n{expect}\n"
        )
    };
    for (given, expect, why) in [
        // A script that has no more replies before the turn ends.
        (
            format!("reply = [{bash}]"),
            "skills = [\"tidy by user\"]",
            "stop\n      expected \"done\"\n      was      \"failed\"\n      output   \"[the model gave no answer",
        ),
        (
            format!(
                "then = [\"more\"]\nreply = [{bash}, {{ text = \"done\", when = {{ contains = \"more\" }} }}]"
            ),
            "output = \"done\"",
            "turn 1 ended with `failed`: [the model gave no answer",
        ),
        (
            "reply = [{ text = \"one\" }, { text = \"two\" }, { text = \"three\" }]".to_owned(),
            "output = \"one\"",
            "replies 2, 3 of `given.reply` were never asked for",
        ),
        (
            "reply = [{ tool_calls = [{ name = \"reed_file\" }] }, { text = \"one\" }]".to_owned(),
            "output = \"one\"",
            "a tool that does not exist; if the case intends this, compare the result with `calls`\n      there is no tool `reed_file`",
        ),
    ] {
        let ran = test(&with_cases(&case(&given, expect)), &["tidy"]).exits(1);
        assert!(ran.stdout.contains(why), "{why}\n{}", ran.stdout);
    }
    // The same runs pass if the case expects their outcome.
    for (given, expect) in [
        (format!("reply = [{bash}]"), "stop = \"failed\""),
        (
            "reply = [{ text = \"one\" }, { text = \"two\", times = 0 }]".to_owned(),
            "output = \"one\"",
        ),
        (
            "reply = [{ tool_calls = [{ name = \"reed_file\" }] }, { text = \"one\" }]".to_owned(),
            "calls = [\"reed_file refused by host\"]",
        ),
    ] {
        let ran = test(&with_cases(&case(&given, expect)), &["tidy"]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    }
}

/// A case whose model runs a `bash` command that the skill allows without a question.
const TOUCH: &str = "[[case]]\nname = \"touches\"\n[case.given]\n\
                     reply = [{ tool_calls = [{ name = \"bash\", arguments = { command = \"touch b\" } }] }, { text = \"done\" }]\n\
                     [case.expect]\ncalls = [\"bash spared\"]\n";

#[test]
fn commands_of_cases_run_confined_or_not_at_all_unless_a_flag_says_so() {
    for (settings, by_flag, with_flag) in [
        ("", "--unconfined", Ok(())),
        ("[sandbox]\nbash = \"off\"\n", "--unconfined", Ok(())),
        ("[sandbox]\nbash = \"required\"\n", "rind doctor", Err(())),
    ] {
        let rind = with_cases(TOUCH);
        rind.config(settings);
        // Confinement is impossible: commands may read `~/go`, which is Rind's own folder here.
        std::os::unix::fs::symlink(rind.home(), rind.user_home().join("go")).unwrap();
        let ran = test(&rind, &["tidy"]);
        let why = "`bash` was refused, because its commands cannot be confined";
        assert_eq!(
            ran.code,
            Some(1),
            "{settings}\n{}{}",
            ran.stdout,
            ran.stderr
        );
        assert!(
            ran.stdout.contains(why) && ran.stdout.contains(by_flag),
            "{settings}\n{}",
            ran.stdout
        );
        let case = format!("{TOUCH}files = {{ b = \"\" }}\n");
        rind.user_file("config/skills/tidy/tests/cases.toml", &case);
        let ran = test(&rind, &["tidy", "--unconfined"]);
        let is_run = with_flag.is_ok();
        assert_eq!(
            ran.code == Some(0),
            is_run,
            "{settings}\n{}{}",
            ran.stdout,
            ran.stderr
        );
    }
    // A case in which no command runs needs no confinement.
    let rind = with_cases("[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n");
    rind.config("[sandbox]\nbash = \"required\"\n");
    std::os::unix::fs::symlink(rind.home(), rind.user_home().join("go")).unwrap();
    test(&rind, &["tidy"]).exits(0);
}

#[test]
fn what_the_settings_open_for_writing_and_the_network_are_closed_to_cases() {
    let rind = with_cases(&TOUCH.replace("touch b", "touch KEPT/b; cat < /dev/tcp/127.0.0.1/PORT"));
    let kept = rind.user_home().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let file = "config/skills/tidy/tests/cases.toml";
    let cases = std::fs::read_to_string(rind.home().join(file)).unwrap();
    let cases = cases
        .replace("KEPT", kept.to_str().unwrap())
        .replace("PORT", &port);
    rind.user_file(file, &cases.replace("bash spared", "bash asked"));
    rind.config(&format!("[sandbox]\nwrite = [{kept:?}]\nnetwork = true\n"));
    let ran = test(&rind, &["tidy"]);
    assert!(!kept.join("b").exists(), "{}", ran.stdout);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "{}", ran.stdout);
}

#[test]
fn cases_of_a_skill_that_another_shadows_are_run_as_well() {
    let rind = with_cases("[[case]]\nname = \"mine\"\nexpect.stop = \"done\"\n");
    let other = TIDY.replace("Tidies", "Sweeps");
    rind.user_file(".claude/skills/tidy/SKILL.md", &other);
    let case = "[[case]]\nname = \"theirs\"\nexpect.output = \"swept\"\n";
    rind.user_file(".claude/skills/tidy/tests/cases.toml", case);
    let ran = test(&rind, &[]).exits(1);
    assert!(
        ran.stdout.contains("✓ tidy: mine") && ran.stdout.contains("✗ tidy: theirs"),
        "{}",
        ran.stdout
    );
}
