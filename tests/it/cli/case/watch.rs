//! Tests of `rind plugin test --watch`, which reruns changed plugins and cases until Ctrl-C.

use super::{report, with_cases};

fn cases(expected: &str) -> String {
    format!(
        "[[case]]\nname = \"a\"\n[case.given.tool]\nname = \"greet\"\narguments = {{ name = \"Ada\" }}\n\
         [case.expect]\nresults = [\"{expected}\"]\n"
    )
}

#[test]
fn cases_and_manifest_are_watched_and_an_interrupt_ends_it() {
    let rind = with_cases("hello", |manifest| manifest, &cases("Hello, Ada!"));
    let mut running = rind.start(&[
        "plugin",
        "test",
        "hello",
        "--watch",
        "--report",
        "json=out.json",
    ]);
    let has_run = |rind: &_, passed: bool| report(rind)["cases"][0]["passed"] == passed;
    running.wait_until(|rind| has_run(rind, true));
    rind.file("hello/tests/cases.toml", &cases("Hello, Bob!"));
    running.wait_until(|rind| has_run(rind, false));
    // A file that is only partly written does not end the watch.
    rind.file("hello/tests/cases.toml", "[[case");
    std::thread::sleep(std::time::Duration::from_secs(1));
    rind.file("hello/tests/cases.toml", &cases("Hello, Ada!"));
    running.wait_until(|rind| has_run(rind, true));
    let manifest = rind.workspace().join("hello/plugin.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("hello.wasm", "missing.wasm")).unwrap();
    running.wait_until(|rind| has_run(rind, false));
    running.signal("INT");
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hello/tests/cases.toml changed")
            && ran.stderr.contains("hello/plugin.toml changed"),
        "{}",
        ran.stderr
    );
}
