//! Wrong outcomes in JavaScript and Python: each fails at run time with a message that names the
//! field and its value. Exceptions arrive with type, message and location; clocks, random numbers
//! and printing work.

use std::fs;
use std::path::Path;

use rind::cases::{self, CaseFile};

use super::{build, has, runner, tree};

/// Shapes of outcomes in JavaScript, each with a part of its error.
const JAVASCRIPT: [(&str, &str); 33] = [
    (
        "false",
        "`preTool` returned what does not fit: false is no CallOutcome",
    ),
    ("true", "true is no CallOutcome"),
    ("\"block\"", "\"block\" is no CallOutcome"),
    ("0", "0 is no CallOutcome"),
    ("[]", "[] is no CallOutcome"),
    ("(() => {})", "a function is no CallOutcome"),
    ("Promise.resolve({})", "a promise is no CallOutcome"),
    ("{ block: \"x\" }", "there is no field `block`"),
    (
        "{ verdit: verdict.block(\"x\") }",
        "there is no field `verdit`; did you mean `verdict`?",
    ),
    (
        "{ Verdict: verdict.block(\"x\") }",
        "there is no field `Verdict`; did you mean `verdict`?",
    ),
    ("verdict.block(\"x\")", "there is no field `tag`"),
    (
        "{ verdict: \"block\" }",
        "verdict: \"block\" is no CallVerdict",
    ),
    ("{ verdict: true }", "verdict: true is no CallVerdict"),
    ("{ verdict: null }", "verdict: null is no CallVerdict"),
    (
        "{ verdict: undefined }",
        "verdict: undefined is no CallVerdict",
    ),
    ("{ verdict: [] }", "verdict: [] is no CallVerdict"),
    (
        "{ verdict: verdict.block }",
        "verdict: a function is no CallVerdict",
    ),
    (
        "{ verdict: { block: \"x\" } }",
        "verdict: CallVerdict is { tag, val }, and there is no field `block`",
    ),
    (
        "{ verdict: {} }",
        "verdict: CallVerdict has a `tag`, one of pass, change, ask, block; it is undefined",
    ),
    (
        "{ verdict: { tag: \"blok\", val: \"x\" } }",
        "verdict: there is no `tag` \"blok\"; did you mean `block`?",
    ),
    (
        "{ verdict: { tag: \"BLOCK\", val: \"x\" } }",
        "there is no `tag` \"BLOCK\"; did you mean `block`?",
    ),
    (
        "{ verdict: { tag: \"refuse\", val: \"x\" } }",
        "there is no `tag` \"refuse\": it has pass, change, ask, block",
    ),
    (
        "{ verdict: { tag: \"block\" } }",
        "verdict.block: undefined is not a text",
    ),
    (
        "{ verdict: verdict.block() }",
        "verdict.block: undefined is not a text",
    ),
    (
        "{ verdict: verdict.block(3) }",
        "verdict.block: 3 is not a text",
    ),
    (
        "{ verdict: verdict.block({ why: 1 }) }",
        "verdict.block: {\"why\":1} is not a text",
    ),
    (
        "{ verdict: { tag: \"pass\", val: \"x\" } }",
        "verdict: \"pass\" has no `val`",
    ),
    (
        "{ verdict: { tag: \"block\", value: \"x\" } }",
        "there is no field `value`",
    ),
    (
        "{ verdict: verdict.block(\"\\ud800\") }",
        "the text holds half of a character",
    ),
    ("{ note: 1 }", "note: 1 is not a text"),
    ("{ effects: {} }", "effects: {} is no array"),
    (
        "{ effects: [{ tag: \"log\", val: { level: \"loud\", text: \"x\" } }] }",
        "effects[0].log.level: \"loud\" is none of debug, info, warn, error",
    ),
    (
        "{ effects: [{ tag: \"metric\", val: { name: \"n\", value: \"1\" } }] }",
        "effects[0].metric.value: \"1\" is no number",
    ),
];

/// Shapes of outcomes in Python, each with a part of its error.
const PYTHON: [(&str, &str); 31] = [
    (
        "None",
        "`pre-tool` returned nothing where it returns an outcome; is a `return` missing?",
    ),
    (
        "True",
        "`pre-tool` returned what does not fit: bool True is no CallOutcome",
    ),
    ("False", "bool False is no CallOutcome"),
    ("'block'", "str 'block' is no CallOutcome"),
    ("0", "int 0 is no CallOutcome"),
    ("[]", "list [] is no CallOutcome"),
    ("{}", "dict {} is no CallOutcome"),
    ("{'block': 'x'}", "dict {'block': 'x'} is no CallOutcome"),
    ("{'verdict': 'block'}", "is no CallOutcome"),
    ("outcome.call", "function is no CallOutcome"),
    ("V('x')", "is no CallOutcome"),
    ("outcome.observed()", "is no CallOutcome"),
    (
        "outcome.call(verdict='block')",
        "verdict: str 'block' is none of CallVerdict_Pass",
    ),
    (
        "outcome.call(verdict='block')",
        "did you mean CallVerdict_Block?",
    ),
    (
        "outcome.call(verdict=True)",
        "verdict: bool True is none of",
    ),
    ("outcome.call(verdict=[])", "verdict: list [] is none of"),
    (
        "outcome.call(verdict={'tag': 'block'})",
        "verdict: dict {'tag': 'block'} is none of",
    ),
    (
        "outcome.call(verdict=V)",
        "verdict: CallVerdict_Block is a class: call it",
    ),
    (
        "outcome.call(verdict=V(None))",
        "verdict.CallVerdict_Block: NoneType None is not a text",
    ),
    (
        "outcome.call(verdict=V(3))",
        "verdict.CallVerdict_Block: int 3 is not a text",
    ),
    (
        "outcome.call(verdict=V(b'x'))",
        "verdict.CallVerdict_Block: bytes b'x' is not a text",
    ),
    (
        "outcome.call(verdict=V('\\ud800'))",
        "the text holds half of a character",
    ),
    (
        "outcome.call(verdict=outcomes.SteeringAction_Drop('x'))",
        "is none of CallVerdict_Pass",
    ),
    ("outcome.call(note=1)", "note: int 1 is not a text"),
    ("outcome.call(effects={})", "effects: dict {} is not a list"),
    (
        "outcome.call(effects=['x'])",
        "effects[0]: str 'x' is none of Effect_Log",
    ),
    (
        "outcome.call(effects=[types.Effect_Log('x')])",
        "effects[0].Effect_Log: str 'x' is no LogLine",
    ),
    (
        "outcome.call(effects=[types.Effect_Log(types.LogLine('warn', 'x'))])",
        "effects[0].Effect_Log.level: str 'warn' is no Level",
    ),
    (
        "misspelt()",
        "CallOutcome has no field `verdit`; did you mean `verdict`?",
    ),
    (
        "outcome.call(verdit=1)",
        "TypeError: call() got an unexpected keyword argument 'verdit'",
    ),
    (
        "deep({})",
        "KeyError: 'settings' (at plugin.py:14 in deep, called at plugin.py:",
    ),
];

const MANIFEST: &str = "name = \"wrong\"\nversion = \"0.1.0\"\ndescription = \"Returns what its call says.\"\n\
    component = \"wrong.wasm\"\nside_effects = [\"none\"]\n[hooks.pre-tool]\n[compat]\nsockets = \"inert\"\n";

/// Reason of a hook that uses clocks, random numbers and printing.
const LIVE: &str = "live";

fn put_cases(folder: &Path, n_shapes: usize) {
    fs::create_dir(folder.join("tests")).unwrap();
    let case = |how: &str| {
        format!(
            "[[case]]\nname = \"{how}\"\ngiven.tool = {{ name = \"read_file\", arguments = {{ path = \"{how}\" }} }}\n\
             given.files = {{ \"{how}\" = \"\" }}\nexpect.stop = \"done\"\n"
        )
    };
    let shapes: String = (0..n_shapes).map(|n| case(&n.to_string())).collect();
    let text = shapes + &case(LIVE) + &case("throw");
    fs::write(folder.join("tests/cases.toml"), text).unwrap();
}

/// Outcome and reason of the hook in each case, after the lines of its log.
async fn run(folder: &Path) -> Vec<(String, String, Vec<String>)> {
    let runner = runner();
    let mut all = Vec::new();
    for case in &CaseFile::read_all_in_folder(folder).unwrap()[0].cases {
        let ran = cases::run_case(&runner, folder, "wrong", case).await;
        let ran = ran.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        // A warm and a cold instance behave the same, since clock and seed are fixed.
        assert_eq!(ran.differences, [""; 0], "{}", case.name);
        let hook = ran.seen.hooks[0].clone();
        all.push((hook.outcome, hook.reason.unwrap_or_default(), ran.seen.log));
    }
    all
}

fn compare(shapes: &[(&str, &str)], ran: &[(String, String, Vec<String>)]) {
    for ((shape, expected), (outcome, reason, _)) in shapes.iter().zip(ran) {
        assert_eq!(outcome, "failed-blocking", "{shape}: {reason}");
        assert!(reason.contains(expected), "{shape}: {reason}");
        assert!(
            reason.contains("the call reported an error"),
            "{shape}: {reason}"
        );
    }
}

#[tokio::test]
async fn wrong_outcomes_in_javascript_close_a_gate_and_say_what_is_wrong() {
    if !has("esbuild") || !has("componentize-qjs") {
        return;
    }
    let tree = tree();
    let folder = tree.path().join("examples/wrong");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("plugin.toml"),
        MANIFEST.split("[compat]").next().unwrap(),
    )
    .unwrap();
    let package = "{\"main\": \"plugin.js\", \"type\": \"module\"}";
    fs::write(folder.join("package.json"), package).unwrap();
    let shapes: String = JAVASCRIPT
        .iter()
        .map(|(shape, _)| format!("  () => ({shape}),\n"))
        .collect();
    let code = format!(
        "import {{ hooks, verdict }} from \"rind-sdk\";\n\
         const deep = (settings) => settings.secret.length;\n\
         const shapes = [\n{shapes}];\n\
         export const preTool = hooks.preTool((call) => {{\n\
         \x20 const {{ path }} = JSON.parse(call.call.arguments);\n\
         \x20 if (path === \"throw\") return deep({{}});\n\
         \x20 if (path === \"{LIVE}\") {{\n\
         \x20   console.log(\"it is\", new Date().toISOString());\n\
         \x20   console.warn({{ now: Date.now() }});\n\
         \x20   return {{ verdict: verdict.block(`${{Date.now()}} ${{typeof Math.random()}}`) }};\n\
         \x20 }}\n\
         \x20 return shapes[Number(path)]();\n}});\n"
    );
    fs::write(folder.join("plugin.js"), code).unwrap();
    put_cases(&folder, JAVASCRIPT.len());
    build(std::slice::from_ref(&folder));
    let ran = run(&folder).await;
    compare(&JAVASCRIPT, &ran);
    let [(outcome, reason, log), (_, thrown, _)] = &ran[JAVASCRIPT.len()..] else {
        panic!("two cases follow the shapes");
    };
    assert_eq!(outcome, "blocked", "{reason}");
    assert_eq!(reason, "1767225600000 number");
    assert_eq!(
        log,
        &["it is 2026-01-01T00:00:00.000Z", "{\"now\":1767225600000}"]
    );
    assert!(thrown.contains("TypeError: "), "{thrown}");
    assert!(
        thrown.contains("(at plugin.js:2 in deep, called at plugin.js:"),
        "{thrown}"
    );
}

#[tokio::test]
async fn wrong_outcomes_in_python_close_a_gate_and_say_what_is_wrong() {
    if !has("componentize-py") || !has("python3") {
        return;
    }
    let tree = tree();
    let folder = tree.path().join("examples/wrong");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("plugin.toml"), MANIFEST).unwrap();
    let project = "[tool.rind]\npath = [\"../../python\"]\n";
    fs::write(folder.join("pyproject.toml"), project).unwrap();
    let shapes: String = PYTHON
        .iter()
        .map(|(shape, _)| format!("    lambda: {shape},\n"))
        .collect();
    let code = format!(
        "import json, logging, random, time, uuid\nfrom datetime import datetime\nfrom rind_sdk import outcome\n\
         from wit_world.imports import outcomes, types\n\nV = outcomes.CallVerdict_Block\n\n\
         def misspelt():\n    found = outcome.call()\n    found.verdit = V(\"x\")\n    return found\n\n\
         def deep(settings):\n    return settings[\"settings\"]\n\nSHAPES = [\n{shapes}]\n\n\
         class PreTool:\n    def run(self, payload):\n        path = json.loads(payload.call.arguments)[\"path\"]\n\
         \x20       if path == \"throw\":\n            raise SystemExit(3)\n\
         \x20       if path == \"{LIVE}\":\n            print(\"it is\", datetime.now().isoformat())\n            logging.warning(\"warned\")\n\
         \x20           ids = len({{uuid.uuid4() for _ in range(9)}}), 0 <= random.random() < 1\n\
         \x20           return outcome.call(verdict=V(f\"{{time.time()}} {{ids}}\"))\n\
         \x20       return SHAPES[int(path)]()\n"
    );
    fs::write(folder.join("plugin.py"), code).unwrap();
    put_cases(&folder, PYTHON.len());
    build(std::slice::from_ref(&folder));
    let ran = run(&folder).await;
    compare(&PYTHON, &ran);
    let [(outcome, reason, log), (_, thrown, _)] = &ran[PYTHON.len()..] else {
        panic!("two cases follow the shapes");
    };
    assert_eq!(outcome, "blocked", "{reason}");
    assert_eq!(reason, "1767225600.0 (9, True)");
    assert_eq!(log, &["it is 2026-01-01T00:00:00", "WARNING:root:warned"]);
    assert!(thrown.contains("SystemExit: 3 (at plugin.py:"), "{thrown}");
}
