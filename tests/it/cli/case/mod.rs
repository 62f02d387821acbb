//! `rind plugin test` and `rind plugin call`: the real program on real components.

mod event;
mod needed;
mod reports;
mod select;
mod snapshot;
mod steps;
mod watch;

use rind_tests::cli::Rind;
use rind_tests::guests;

/// Creates a machine whose workspace has the plugin `guest` with a file of cases.
fn with_cases(guest: &str, manifest: impl FnOnce(String) -> String, cases: &str) -> Rind {
    let rind = Rind::default();
    let folder = guests::put(guest, &rind.workspace(), manifest);
    std::fs::create_dir(folder.join("tests")).unwrap();
    std::fs::write(folder.join("tests/cases.toml"), cases).unwrap();
    rind
}

/// Returns the report in `out.json`; null if there is none.
fn report(rind: &Rind) -> serde_json::Value {
    let json = std::fs::read_to_string(rind.workspace().join("out.json")).unwrap_or_default();
    serde_json::from_str(&json).unwrap_or_default()
}

#[test]
fn the_cases_of_the_first_party_plugins_pass() {
    let root = guests::guest("hello").parent().unwrap();
    let rind = Rind::default();
    let args = [
        "plugin",
        "test",
        root.to_str().unwrap(),
        "--report",
        "json=out.json",
    ];
    let ran = rind.run(&args);
    let report = report(&rind);
    let cases = report["cases"].as_array().into_iter().flatten();
    let failed: Vec<_> = cases.filter(|case| case["passed"] != true).collect();
    assert_eq!(ran.code, Some(0), "{failed:#?}\n{}", ran.stderr);
    for plugin in guests::CORE {
        let never = &report["coverage"][plugin]["never_called"];
        assert_eq!(*never, serde_json::json!([]), "{plugin}");
    }
}

#[test]
fn a_case_that_fails_shows_the_difference_and_is_in_the_reports() {
    let rind = with_cases(
        "hello",
        |manifest| manifest,
        "[[case]]\nname = \"greets <Bob>\"\n[case.given.tool]\nname = \"greet\"\narguments = { name = \"Ada\" }\n\
         [case.expect]\nresults = [\"Hello, Bob!\"]\n",
    );
    let ran = rind
        .run(&[
            "plugin",
            "test",
            "hello",
            "--report",
            "json=out.json",
            "--report",
            "junit=out.xml",
        ])
        .exits(1);
    let stdout = &ran.stdout;
    assert!(
        stdout.contains("greets <Bob> (hello/tests/cases.toml:1)"),
        "{stdout}"
    );
    assert!(
        stdout.contains("- Hello, Bob!\n      + Hello, Ada!"),
        "{stdout}"
    );
    let json = report(&rind);
    assert_eq!(json["cases"][0]["passed"], false);
    let junit = std::fs::read_to_string(rind.workspace().join("out.xml")).unwrap();
    assert!(junit.contains("name=\"greets &lt;Bob&gt;\""), "{junit}");
    assert!(junit.contains("tests=\"1\" failures=\"1\""), "{junit}");
}

#[test]
fn canned_answers_pass_the_checks_of_real_requests() {
    let network = "\n[network]\nhosts = [\"api.example.com\"]\n\
                   [[network.credentials]]\nhost = \"api.example.com\"\nheader = \"authorization\"\nvalue = \"Bearer {TOKEN}\"\n";
    let case = |name: &str, host: &str, expect: &str| {
        format!(
            "[[case]]\nname = \"{name}\"\n[case.given.tool]\nname = \"fetch\"\n\
             arguments = {{ face = \"rind\", url = \"https://{host}/x\", method = \"GET\", headers = [], body = \"\" }}\n\
             [case.given.secrets]\nTOKEN = \"not-for-guests\"\n\
             [[case.given.http]]\nurl = \"https://{host}/x\"\nbody = \"canned\"\n{expect}\n"
        )
    };
    let cases = case(
        "granted",
        "api.example.com",
        "with = { authorization = \"Bearer not-for-guests\" }\n[case.expect]\naccesses = [\"network GET https://api.example.com:443/x done\"]",
    ) + &case(
        "not granted",
        "other.example.com",
        "[case.expect]\ndenials = [\"network GET https://other.example.com:443/x\"]",
    );
    let rind = with_cases("fetch", |manifest| manifest + network, &cases);
    let ran = rind.run(&["plugin", "test", "fetch"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_folder_without_a_case_fails_and_a_wrong_key_names_its_line() {
    let rind = with_cases("hello", |manifest| manifest, "");
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(ran.stderr.contains("no cases were run"), "{}", ran.stderr);
    let rind = with_cases(
        "hello",
        |manifest| manifest,
        "[[case]]\nname = \"a\"\nexpects = 1\n",
    );
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(
        ran.stdout
            .contains("hello/tests/cases.toml:3:1: unknown field `expects`"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_misspelt_key_of_an_expected_hook_is_no_expectation_that_always_holds() {
    let rind = with_cases(
        "hello",
        |manifest| manifest,
        "[[case]]\nname = \"a\"\n[case.expect.hooks]\nturn-end = { outcome = \"pass\", reasn = \"x\" }\n",
    );
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(
        ran.stdout
            .contains("unknown field `reasn`, expected one of `outcome`, `reason`"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_file_that_cannot_be_read_and_a_plugin_without_manifest_do_not_keep_the_others_from_running() {
    let rind = with_cases(
        "hello",
        |manifest| manifest,
        "[[case]]\nname = \"fine\"\nexpect.stop = \"done\"\n",
    );
    rind.file("hello/tests/wrong.toml", "[[case]]\nname = 1\n");
    std::os::unix::fs::symlink("/dev/zero", rind.workspace().join("hello/tests/zero.toml"))
        .unwrap();
    rind.file("a-broken/plugin.toml", "name = 1\n");
    let args = ["plugin", "test", ".", "--report", "junit=out.xml"];
    let ran = rind.run(&args).exits(1);
    for line in [
        "✗ a-broken: plugin.toml (",
        "✗ hello: wrong.toml (hello/tests/wrong.toml:2)",
        "✗ hello: zero.toml (",
        "is a symlink, and symlinks are not followed here",
        "✓ hello: fine",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    let junit = std::fs::read_to_string(rind.workspace().join("out.xml")).unwrap();
    assert!(
        junit.contains("tests=\"4\" failures=\"0\" errors=\"3\""),
        "{junit}"
    );
}

#[test]
fn a_case_that_did_not_come_to_what_it_is_about_fails() {
    let read = "{ tool_calls = [{ name = \"read_file\", arguments = { path = \"a\" } }] }";
    let case = |given: &str, expect: &str| {
        format!(
            "[[case]]\nname = \"a\"\n[case.given]\nfiles = {{ a = \"alpha\" }}\n{given}\n[case.expect]\n{expect}\n"
        )
    };
    for (given, expect, why) in [
        (String::new(), "", "it has no expectations"),
        // The script of the model ends before the turn does.
        (
            format!("reply = [{read}]"),
            "hooks = { turn-end = \"pass\" }",
            "turn 1 ended with `failed`: [the model gave no answer",
        ),
        (
            "reply = [{ text = \"one\" }, { text = \"two\" }]".to_owned(),
            "output = \"one\"",
            "reply 2 of `given.reply` was never asked for",
        ),
        (
            "tool = { name = \"grete\" }".to_owned(),
            "stop = \"done\"",
            "a tool that does not exist; if the case intends this, compare the result with `results`\n      there is no tool `grete`",
        ),
    ] {
        let rind = with_cases("hello", |manifest| manifest, &case(&given, expect));
        let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
        assert!(ran.stdout.contains(why), "{why}\n{}", ran.stdout);
    }
}

#[test]
fn a_plugin_that_remembers_in_its_instance_fails_its_case() {
    let rind = with_cases(
        "hostile",
        |manifest| manifest,
        "[[case]]\nname = \"counts\"\ngiven = { tool = { name = \"misbehaving\" }, config = { how = \"count\" } }\nexpect.stop = \"done\"\n",
    );
    let ran = rind.run(&["plugin", "test", "hostile"]).exits(1);
    assert!(
        ran.stdout
            .contains("when its instance is kept than when it is new"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_call_by_hand_passes_the_rules_and_the_plugins_that_the_policy_requires() {
    let rind = Rind::default();
    rind.managed("hello");
    let call = ["plugin", "call", "hello", "greet", "{\"name\": \"Ada\"}"];
    rind.config("[tools]\nrules = [{ tool = \"greet\", decision = \"deny\" }]\n");
    let ran = rind.run(&call).exits(1);
    assert!(ran.stdout.contains("refused by policy"), "{}", ran.stdout);
    rind.config("");
    rind.run(&call).exits(0);
    std::fs::write(
        rind.home().join("config/policy.toml"),
        "[plugins.guard]\nrequire = true\n",
    )
    .unwrap();
    let ran = rind.run(&call).exits(3);
    assert!(ran.stderr.contains("plugin guard"), "{}", ran.stderr);
}

#[test]
fn a_tool_is_called_by_hand_with_its_trace() {
    let rind = Rind::default();
    rind.managed("hello");
    let ran = rind
        .run(&["plugin", "call", "hello", "greet", "{\"name\": \"Ada\"}"])
        .exits(0);
    assert_eq!(
        ran.stdout.lines().last(),
        Some("Hello, Ada!"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("turn-end"), "{}", ran.stderr);
    let ran = rind.run(&["plugin", "call", "hello", "meet"]).exits(2);
    assert!(
        ran.stderr
            .contains("has no tool `meet`; its tools are greet"),
        "{}",
        ran.stderr
    );
    rind.run(&["plugin", "call", "hello", "greet", "{"])
        .exits(2);
}

/// Returns cases for a guest with a plugin loop; each pair has the setting `how` and the
/// expectation.
fn of_loop(rows: &[(&str, &str)]) -> String {
    let case = |(how, expect): &(&str, &str)| {
        format!(
            "[[case]]\nname = \"{how}: {}\"\n[case.given]\nloop = true\nconfig = {{ how = \"{how}\" }}\n[case.expect]\n{expect}\n",
            expect.escape_default()
        )
    };
    rows.iter().map(case).collect()
}

#[test]
fn cases_of_a_loop_compare_its_outcome_and_count_as_its_coverage() {
    let passing = of_loop(&[
        ("done", "done = true"),
        ("busy", "again = { after_ms = 0, reason = \"beat 1\" }"),
        ("busy", "done = false"),
        (
            "fail",
            "output = \"the call reported an error: the well is dry\\\\u{1b}[2K\"",
        ),
        (
            "spin",
            "output = \"the call was stopped at its deadline of 2000 ms\"",
        ),
        (
            "write",
            "files = { \"beat-1.txt\" = \"beat\" }\naccesses = [\"external tool write_file done\"]",
        ),
        ("busy", "snapshot = true"),
    ]);
    let rind = with_cases("looper", |manifest| manifest, &passing);
    let args = [
        "plugin",
        "test",
        "looper",
        "--accept",
        "--report",
        "json=out.json",
    ];
    let ran = rind.run(&args);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let coverage = &report(&rind)["coverage"]["looper"];
    assert_eq!(coverage["loops"]["the loop"], 7);
    assert_eq!(coverage["never_called"], serde_json::json!([]));
}

#[test]
fn a_case_of_a_loop_that_differs_or_fails_unnoticed_does_not_pass() {
    let failing = of_loop(&[
        ("busy", "done = true"),
        ("done", "again = { after_ms = 5, reason = \"soon\" }"),
        ("fail", "log = []"),
    ]);
    let rind = with_cases("looper", |manifest| manifest, &failing);
    let stdout = rind.run(&["plugin", "test", "looper"]).exits(1).stdout;
    for text in [
        "done\n      expected \"true\"\n      was      \"again after 0 ms: beat 1\"",
        "again\n      expected \"again after 5 ms: …soon…\"\n      was      \"done\"",
        "the loop failed, and the case does not expect this in `output`: the call reported an error: the well is dry",
    ] {
        assert!(stdout.contains(text), "{text}\n{stdout}");
    }
    let turn = "[[case]]\nname = \"a\"\n[case.expect]\nagain = { after_ms = 5 }\n";
    let both = "[[case]]\nname = \"a\"\n[case.given]\nloop = true\ninput = \"x\"\n";
    for (cases, why) in [
        (turn, "`expect.again` needs `given.loop`"),
        (
            both,
            "`given.input` does not apply to a case of `given.loop`",
        ),
    ] {
        let rind = with_cases("looper", |manifest| manifest, cases);
        let stdout = rind.run(&["plugin", "test", "looper"]).exits(1).stdout;
        assert!(stdout.contains(why), "{stdout}");
    }
}

#[test]
fn a_plugin_that_runs_subagents_passes_recorded_cases_since_their_ids_are_numbers() {
    let case = "[[case]]\nname = \"runs two\"\n[case.given]\nreply = [{ text = \"one\", times = 0 }]\n\
         [case.given.tool]\nname = \"act\"\narguments = { what = \"run\", text = \"go\", times = 2 }\n\
         [case.expect]\naccesses = [\"external agent sub-1 done\", \"external agent sub-2 done\"]\nresults = [\"ok: one\\nok: one\"]\n";
    let rind = with_cases("external", |manifest| manifest, case);
    let ran = rind.run(&["plugin", "test", "external"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}
