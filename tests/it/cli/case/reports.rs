//! Machine-readable reports of `rind plugin test` and `rind plugin check`, and coverage
//! requirements.

use super::with_cases;
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::Value;

const FAILING: &str = "[[case]]\nname = \"fine\"\nexpect.stop = \"done\"\n\n\
    [[case]]\nname = \"wrong, <b>: 50 %\"\nexpect.output = \"x\"\n";

/// Returns a validator for the schema that `rind schema NAME` prints.
fn schema(rind: &Rind, name: &str) -> jsonschema::Validator {
    let ran = rind.run(&["schema", name]).exits(0);
    jsonschema::validator_for(&serde_json::from_str(&ran.stdout).unwrap()).unwrap()
}

fn validate(schema: &jsonschema::Validator, value: &Value) {
    let faults: Vec<String> = schema
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert_eq!(faults, [""; 0], "{value:#}");
}

#[test]
fn junit_has_a_suite_for_each_plugin_and_the_reason_as_headline() {
    let rind = with_cases("hello", |manifest| manifest, FAILING);
    rind.file("more/tests/none", "");
    let other = guests::put("hello", &rind.workspace().join("more"), |manifest| manifest);
    std::fs::create_dir(other.join("tests")).unwrap();
    rind.file(
        "more/hello/tests/cases.toml",
        "[[case]]\nname = \"a\"\nexpect.stp = 1\n",
    );
    let args = [
        "plugin",
        "test",
        "hello",
        "more",
        "--report",
        "junit=out.xml",
    ];
    rind.run(&args).exits(1);
    let xml = std::fs::read_to_string(rind.workspace().join("out.xml")).unwrap();
    for part in [
        "<testsuites name=\"rind plugin test\" tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\" time=\"",
        "<testsuite name=\"hello (hello)\" tests=\"2\" failures=\"1\" errors=\"0\"",
        "<testsuite name=\"hello (more/hello)\" tests=\"1\" failures=\"0\" errors=\"1\"",
        "name=\"wrong, &lt;b&gt;: 50 %\" file=\"hello/tests/cases.toml\" line=\"5\" time=\"",
        "<failure message=\"output\" type=\"failure\">hello/tests/cases.toml:5&#10;output&#10;",
        "<error message=\"more/hello/tests/cases.toml:3:8: unknown field `stp`",
        "timestamp=\"20",
        "<property name=\"never-called\" value=\"greet\"/>",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }
}

#[test]
fn annotations_say_file_line_and_reason_in_one_line() {
    let rind = with_cases("hello", |manifest| manifest, FAILING);
    let args = ["plugin", "test", "hello", "--report", "github"];
    let ran = rind.run(&args).exits(1);
    let lines: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("::"))
        .collect();
    assert_eq!(
        lines,
        [
            "::error file=hello/tests/cases.toml,line=5,title=hello%3A wrong%2C <b>%3A 50 %25::output%0A  expected \"x\"%0A  was      \"done\""
        ]
    );
    rind.file("hello/plugin.toml", "name = \"hello\"\nversion = \"x\"\n");
    let args = ["plugin", "check", "hello", "--report", "github"];
    let ran = rind.run(&args).exits(1);
    let is_told = |line: &str| {
        line.starts_with(
            "::error file=hello/plugin.toml,line=2,title=rind plugin check%3A manifest::",
        )
    };
    assert!(ran.stdout.lines().any(is_told), "{}", ran.stdout);
}

#[test]
fn sarif_names_rules_and_places() {
    let rind = with_cases(
        "hello",
        |manifest| manifest.replace("version", "vrsion"),
        "",
    );
    let args = ["plugin", "check", "hello", "--report", "sarif=out.sarif"];
    rind.run(&args).exits(1);
    let text = std::fs::read_to_string(rind.workspace().join("out.sarif")).unwrap();
    let sarif: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert!(!results.is_empty());
    for result in results {
        assert!(
            rules.iter().any(|rule| rule["id"] == result["ruleId"]),
            "{result}"
        );
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("hello/"), "{result}");
    }
}

#[test]
fn the_json_of_test_check_and_list_fits_its_schema() {
    let rind = with_cases("hello", |manifest| manifest, FAILING);
    let args = ["plugin", "test", "hello", "--report", "json=out.json"];
    rind.run(&args).exits(1);
    let report = std::fs::read_to_string(rind.workspace().join("out.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    validate(&schema(&rind, "test-report"), &report);
    assert_eq!(report["cases"][1]["line"], 5);
    assert_eq!(
        report["coverage"]["hello"]["outcomes"]["turn-end"],
        serde_json::json!({"pass": 2})
    );
    let ran = rind.run(&["plugin", "check", "hello", "--json"]);
    validate(
        &schema(&rind, "check-report"),
        &serde_json::from_str(&ran.stdout).unwrap(),
    );
    let ran = rind.run(&["plugin", "list", "--json"]);
    validate(
        &schema(&rind, "plugin-list"),
        &serde_json::from_str(&ran.stdout).unwrap(),
    );
}

#[test]
fn missing_cases_and_coverage_fail_where_they_are_required() {
    let rind = with_cases(
        "hello",
        |manifest| manifest,
        "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n",
    );
    guests::put("looper", &rind.workspace(), |manifest| manifest);
    let all = ["plugin", "test", "hello", "looper"];
    rind.run(&all).exits(0);
    let ran = rind
        .run(&[&all[..], &["--require-cases"]].concat())
        .exits(1);
    assert!(
        ran.stdout
            .contains("✗ looper: cases (looper/plugin.toml:1)"),
        "{}",
        ran.stdout
    );
    let args = ["plugin", "test", "hello", "--require-coverage"];
    let ran = rind.run(&args).exits(1);
    assert!(
        ran.stdout.contains("no case reaches greet"),
        "{}",
        ran.stdout
    );
}

#[test]
fn outcomes_that_no_case_sees_are_named() {
    let block = "given = { config = { how = \"error\" }, tool = { name = \"read_file\", arguments = { path = \"a\" } } }";
    let cases = format!("[[case]]\nname = \"a\"\n{block}\nexpect.stop = \"done\"\n");
    let rind = with_cases("hostile", |manifest| manifest, &cases);
    let ran = rind.run(&["plugin", "test", "hostile"]).exits(0);
    assert!(
        ran.stderr
            .contains("no case makes the plugin return `pass` of pre-tool"),
        "{}",
        ran.stderr
    );
    let args = ["plugin", "test", "hostile", "--require-coverage=outcomes"];
    let ran = rind.run(&args).exits(1);
    assert!(
        ran.stdout.contains("`blocked` of pre-tool"),
        "{}",
        ran.stdout
    );
}

#[test]
fn outcomes_that_a_hook_cannot_have_are_not_asked_for() {
    let read = "given.tool = { name = \"read_file\", arguments = { path = \"a\" } }";
    let cases = format!("[[case]]\nname = \"a\"\n{read}\nexpect.stop = \"done\"\n");
    // A gate without the side effect `session` cannot change the payload, even where its point
    // allows changes, so `changed` is not required.
    let rind = with_cases("git-guard", |manifest| manifest, &cases);
    let ran = rind.run(&["plugin", "test", "git-guard"]).exits(0);
    let asked = "`asked` of pre-tool, `blocked` of pre-tool";
    assert!(ran.stderr.contains(asked), "{}", ran.stderr);
    assert!(!ran.stderr.contains("`changed`"), "{}", ran.stderr);
}

#[test]
fn a_fault_of_a_case_file_or_a_manifest_has_its_line_and_no_second_report() {
    let cases = "[[case]]\nname = \"a\"\n[case.giv]\ninput = \"hi\"\n";
    let rind = with_cases("hello", |manifest| manifest, cases);
    let args = ["plugin", "test", "hello", "--require-coverage"];
    let ran = rind.run(&args).exits(1);
    assert!(
        ran.stdout.contains("cases.toml:3:7: unknown field `giv`"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("did you mean `given`?"),
        "{}",
        ran.stdout
    );
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!told.contains("no case reaches"), "{told}");

    let path = rind.workspace().join("hello/plugin.toml");
    let manifest = std::fs::read_to_string(&path).unwrap();
    let line = manifest.lines().count() + 1;
    std::fs::write(&path, format!("{manifest}\n[hooks.pre-tol]\n")).unwrap();
    let ran = rind.run(&args).exits(1);
    let place = format!("(hello/plugin.toml:{})", line + 1);
    assert!(ran.stdout.contains(&place), "{place}\n{}", ran.stdout);
}

#[test]
fn a_call_by_hand_prints_the_answer_alone_on_standard_output() {
    let rind = Rind::default();
    guests::put("hello", &rind.workspace(), |manifest| manifest);
    let ran = rind
        .run(&["plugin", "call", "hello", "greet", "{\"name\": \"Ada\"}"])
        .exits(0);
    assert_eq!(ran.stdout, "Hello, Ada!\n");
    assert!(ran.stderr.contains("greet"), "{}", ran.stderr);
}
