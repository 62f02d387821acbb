//! Tests of multi-step cases, session state, tool doubles, fixtures and the system prompt in cases,
//! and of expectations that could never match.

use super::with_cases;

fn passes(guest: &str, cases: &str) {
    let rind = with_cases(guest, |manifest| manifest, cases);
    let ran = rind.run(&["plugin", "test", guest]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

fn fails(guest: &str, cases: &str, why: &str) {
    let rind = with_cases(guest, |manifest| manifest, cases);
    let ran = rind.run(&["plugin", "test", guest]).exits(1);
    assert!(ran.stdout.contains(why), "{why}\n{}", ran.stdout);
}

#[test]
fn steps_share_the_session_and_its_state_and_a_new_session_has_none() {
    let case = |last: &str| {
        format!(
            "[[case]]\nname = \"beats\"\ngiven = {{ loop = true, config = {{ how = \"busy\" }}, state = {{ runs = \"4\" }} }}\n\
             expect.again.reason = \"beat 5\"\n\
             [[case.then]]\ngiven.loop = true\nexpect.again.reason = \"beat 6\"\n\
             [[case.then]]\ngiven = {{ new_session = true, loop = true }}\nexpect.again.reason = \"{last}\"\n"
        )
    };
    passes("looper", &case("beat 1"));
    fails("looper", &case("beat 7"), "step 3: again\n");
}

#[test]
fn a_turn_after_a_turn_gets_its_own_replies() {
    passes(
        "hello",
        "[[case]]\nname = \"two turns\"\ngiven.reply = [{ text = \"one\" }]\nexpect.output = \"one\"\n\
         [[case.then]]\ngiven = { input = \"and?\", tool = { name = \"greet\", arguments = { name = \"Ada\" } }, reply = [{ text = \"two\" }] }\n\
         expect = { output = \"two\", results = [\"Hello, Ada!\"], log = [\"the turn took 2 steps\"] }\n",
    );
    fails(
        "hello",
        "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n[[case.then]]\ngiven.reply = [{ text = \"x\" }, { text = \"y\" }]\nexpect.output = \"x\"\n",
        "step 2: reply 2 of `given.reply` was never asked for",
    );
    fails(
        "hello",
        "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n[[case.then]]\ngiven.input = \"x\"\n",
        "step 2: it has no expectations",
    );
    fails(
        "hello",
        "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n[[case.then]]\ngiven = { input = \"x\", loop = true }\nexpect.stop = \"done\"\n",
        "step 2: one step cannot have `input` and `loop` together",
    );
}

#[test]
fn a_plugin_calls_tools_that_the_case_has_in_place_of_the_real_ones() {
    passes(
        "external",
        "[[case]]\nname = \"bash\"\n[case.given]\ntools = { bash = \"On branch main\" }\n\
         tool = { name = \"act\", arguments = { what = \"call\", text = \"bash\", arguments = { command = \"git status\" } } }\n\
         [case.expect]\nresults = [\"ok: On branch main\"]\n\
         [[case]]\nname = \"an error\"\n[case.given]\ntools = { bash = { result = \"no git\", error = true, effect = \"execute\" } }\n\
         tool = { name = \"act\", arguments = { what = \"call\", text = \"bash\", arguments = { command = \"git status\" } } }\n\
         [case.expect]\nresults = [\"failed: no git\"]\n",
    );
}

#[test]
fn the_collected_system_prompt_is_compared() {
    let case = |text: &str| format!("[[case]]\nname = \"a\"\nexpect.system = [\"{text}\"]\n");
    passes("prompter", &case("Be kind."));
    fails(
        "prompter",
        &case("Be rude."),
        "system (- expected, + was)\n      - Be rude.",
    );
}

#[test]
fn binary_files_come_from_the_folder_of_cases_and_nothing_from_outside() {
    let case = |from: &str| {
        format!(
            "[[case]]\nname = \"a\"\ngiven = {{ fixtures = {{ \"db/x.bin\" = \"{from}\" }}, tool = {{ name = \"read_file\", arguments = {{ path = \"db/x.bin\" }} }} }}\n\
             expect.stop = \"done\"\n"
        )
    };
    let rind = with_cases("hello", |manifest| manifest, &case("data/x.bin"));
    let place = rind.workspace().join("hello/tests/data/x.bin");
    std::fs::create_dir(place.parent().unwrap()).unwrap();
    std::fs::write(&place, [0, 159, 146, 150]).unwrap();
    rind.run(&["plugin", "test", "hello"]).exits(0);
    std::fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &place).unwrap();
    for (from, why) in [
        (
            "data/x.bin",
            "is a symlink, and symlinks are not followed here",
        ),
        ("../plugin.toml", "it is not a path inside `tests`"),
        (
            "data/none.bin",
            "given.fixtures: `data/none.bin` in `tests`",
        ),
        ("data", "is not a file"),
    ] {
        rind.file("hello/tests/cases.toml", &case(from));
        let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
        assert!(ran.stdout.contains(why), "{why}\n{}", ran.stdout);
    }
}

#[test]
fn words_that_nothing_matches_are_errors_with_the_nearest() {
    for (expect, why) in [
        (
            "hooks = { pre_tol = \"pass\" }",
            "there is no point `pre_tol`, did you mean `pre-tool`?",
        ),
        (
            "hooks = { turn_end = \"pass\" }",
            "write the point `turn_end` as `turn-end`",
        ),
        (
            "hooks = { turn-end = \"passed\" }",
            "the outcome cannot be `passed`; did you mean `pass`?",
        ),
        (
            "stop = \"finished\"",
            "`expect.stop` cannot be `finished`; it is one of done",
        ),
        ("outputs = \"x\"", "unknown field `outputs`"),
        ("outputs = \"x\"", "did you mean `output`?"),
    ] {
        let case = format!("[[case]]\nname = \"a\"\n[case.expect]\n{expect}\n");
        fails("hello", &case, why);
    }
}

#[test]
fn the_schema_of_cases_takes_every_case_of_the_first_party_plugins_and_knows_every_key() {
    let schema: serde_json::Value =
        serde_json::from_str(rind::cases::file::CASE_FILE_JSON_SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let root = rind_tests::guests::workspace();
    let mut n_files = 0;
    for above in ["plugins", "sdk/examples"] {
        for entry in std::fs::read_dir(root.join(above)).unwrap() {
            let tests = entry.unwrap().path().join("tests");
            for file in std::fs::read_dir(tests).into_iter().flatten().flatten() {
                let path = file.path();
                if path.extension().is_none_or(|end| end != "toml") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let cases: toml::Value = toml::from_str(&text).unwrap();
                let cases = serde_json::to_value(cases).unwrap();
                let faults: Vec<String> = validator
                    .iter_errors(&cases)
                    .map(|e| format!("{} at {}", e, e.instance_path()))
                    .collect();
                assert_eq!(faults, [""; 0], "{}", path.display());
                n_files += 1;
            }
        }
    }
    assert!(n_files > 10, "{n_files}");
    // An unknown key makes serde list all known keys.
    for (place, toml) in [
        ("given", "[[case]]\nname = \"a\"\ngiven.x = 1"),
        ("expect", "[[case]]\nname = \"a\"\nexpect.x = 1"),
        ("case", "[[case]]\nname = \"a\"\nx = 1"),
        ("step", "[[case]]\nname = \"a\"\n[[case.then]]\nx = 1"),
    ] {
        let rind = with_cases("hello", |manifest| manifest, toml);
        let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
        let (_, known) = ran.stdout.split_once("expected ").unwrap();
        let known = known.lines().next().unwrap();
        let mut known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        known.sort_unstable();
        let properties = schema["$defs"][place]["properties"].as_object().unwrap();
        let mut properties: Vec<&str> = properties.keys().map(String::as_str).collect();
        properties.sort_unstable();
        assert_eq!(properties, known, "{place}");
    }
}
