//! Wrong arguments to host functions in JavaScript and Python: each throws an exception with type,
//! message and source line, where the engine alone would abort the component. Valid arguments of
//! every kind arrive.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use rind::cases::{self, CaseFile};

use super::{build, has, runner, tree};

/// Calls in JavaScript, each with a part of the reason that its hook returns: what the call read,
/// or the text of its failure.
const JAVASCRIPT: [(&str, &str); 21] = [
    ("read(0, 5)", "hello"),
    ("read(1n, 2)", "el"),
    ("files.list(\"workspace\")[0].size", "5"),
    ("read(files.list(\"workspace\")[0].size - 1, 9)", "o"),
    ("typeof files.list(\"workspace\")[0].size", "number"),
    (
        "read(0, 5n)",
        "TypeError: `files.read` does not take this: length: 5n is a bigint where a number is wanted; `Number(…)` makes it one",
    ),
    ("read(0.5, 5)", "offset: 0.5 is no whole number"),
    (
        "read(-1, 5)",
        "offset: -1 does not fit: it is 0 to 9007199254740991",
    ),
    ("read(-1n, 5)", "offset: -1 does not fit"),
    (
        "read(2n ** 63n, 5)",
        "does not fit: it is 0 to 9007199254740991",
    ),
    (
        "read(0, 2 ** 32)",
        "length: 4294967296 does not fit: it is 0 to 4294967295",
    ),
    ("read(NaN, 5)", "offset: null is no whole number"),
    ("read(\"0\", 5)", "offset: \"0\" is no whole number"),
    (
        "files.read(PATH)",
        "`files.read` does not take this: offset: undefined is no whole number",
    ),
    (
        "files.read({ path: PATH }, 0, 5)",
        "path: {\"path\":\"workspace/a.txt\"} is not a text",
    ),
    (
        "files.write(PATH, \"text\")",
        "content: \"text\" is no Uint8Array",
    ),
    (
        "log.write(\"loud\", \"x\")",
        "`log.write` does not take this: level: \"loud\" is none of debug, info, warn, error",
    ),
    ("log.write(\"info\", 3)", "text: 3 is not a text"),
    ("state.set(\"a\", null)", "value: null is not a text"),
    (
        "state.set(\"a\", \"\\ud800\")",
        "value: the text holds half of a character",
    ),
    (
        "session.messages(\"all\")",
        "last: \"all\" is no whole number",
    ),
];

/// Calls in Python, each with a part of the reason that its hook returns.
const PYTHON: [(&str, &str); 16] = [
    ("read(0, 5)", "hello"),
    ("files.read(length=2, path=PATH, offset=1).decode()", "el"),
    ("files.list('workspace')[0].size", "5"),
    (
        "read('0', 5)",
        "TypeError: files.read() does not take this: offset: str '0' is no whole number",
    ),
    ("read(0.5, 5)", "offset: float 0.5 is no whole number"),
    ("read(True, 5)", "offset: bool True is no whole number"),
    (
        "read(-1, 5)",
        "offset: -1 does not fit: it is 0 to 18446744073709551615",
    ),
    (
        "read(0, 2**32)",
        "length: 4294967296 does not fit: it is 0 to 4294967295",
    ),
    ("read(0, None)", "length: NoneType None is no whole number"),
    (
        "files.read(PATH)",
        "TypeError: read() missing 2 required positional arguments: 'offset' and 'length'",
    ),
    (
        "files.read(PATH, 0, far=5)",
        "got an unexpected keyword argument 'far'",
    ),
    (
        "files.write(PATH, 'text')",
        "content: str 'text' is not of type bytes",
    ),
    (
        "log.write('loud', 'x')",
        "level: str 'loud' is no Level: it is Level.DEBUG",
    ),
    (
        "log.write(types.Level.INFO, 3)",
        "text: int 3 is not a text",
    ),
    ("state.set('a', None)", "value: NoneType None is not a text"),
    (
        "session.messages('all')",
        "last: str 'all' is no whole number",
    ),
];

const MANIFEST: &str = "name = \"given\"\nversion = \"0.1.0\"\ndescription = \"Makes the call that it is asked for.\"\n\
    component = \"given.wasm\"\nside_effects = [\"filesystem\", \"session\"]\n[filesystem]\nwrite = [\"workspace\"]\n\
    [hooks.pre-tool]\n[hooks.post-tool]\n";

fn put_cases(folder: &Path, calls: &[(&str, &str)]) {
    fs::create_dir(folder.join("tests")).unwrap();
    let mut text = String::new();
    for (n, (_, expected)) in calls.iter().enumerate() {
        let outcome = if expected.contains(' ') {
            "failed-blocking"
        } else {
            "blocked"
        };
        let arguments = format!("{{ path = \"a.txt\", offset = {n} }}");
        write!(
            text,
            "[[case]]\nname = \"{n}\"\ngiven.files = {{ \"a.txt\" = \"hello\" }}\n\
             given.event = {{ point = \"pre-tool\", payload = {{ call = {{ id = \"1\", name = \"read_file\", arguments = {arguments} }} }} }}\n\
             expect.hooks = {{ pre-tool = \"{outcome}\" }}\n"
        )
        .unwrap();
    }
    text += "[[case]]\nname = \"handle\"\ngiven.files = { \"a.txt\" = \"hello\" }\n\
        given.tool = { name = \"read_file\", arguments = { path = \"a.txt\" } }\nexpect.stop = \"done\"\n";
    fs::write(folder.join("tests/cases.toml"), text).unwrap();
}

/// Builds the plugin and compares the result of each call. `place` is the source location that
/// exceptions must name.
async fn check(folder: &Path, calls: &[(&str, &str)], place: &str) {
    put_cases(folder, calls);
    build(&[folder.to_owned()]);
    let cases = &CaseFile::read_all_in_folder(folder).unwrap()[0].cases;
    for (at, case) in cases.iter().enumerate() {
        let ran = cases::run_case(&runner(), folder, "given", case).await;
        let ran = ran.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(ran.differences, [""; 0], "{}", case.name);
        let hooks = &ran.seen.hooks;
        let Some((call, expected)) = calls.get(at) else {
            let hook = hooks.iter().find(|hook| hook.point == "post-tool").unwrap();
            let reason = hook.reason.clone().unwrap_or_default();
            assert!(reason.contains("offset: "), "{reason}");
            assert!(reason.contains(place), "{reason}");
            continue;
        };
        let reason = hooks[0].reason.clone().unwrap_or_default();
        assert!(reason.contains(expected), "{call}: {reason}");
        if hooks[0].outcome == "failed-blocking" {
            assert!(
                reason.contains("the call reported an error: "),
                "{call}: {reason}"
            );
            assert!(reason.contains(place), "{call}: {reason}");
        }
    }
}

#[tokio::test]
async fn a_wrong_argument_to_the_host_is_an_exception_with_its_line_in_javascript() {
    if !has("esbuild") || !has("componentize-qjs") {
        return;
    }
    let tree = tree();
    let folder = tree.path().join("examples/given");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("plugin.toml"), MANIFEST).unwrap();
    let package = "{\"main\": \"plugin.js\", \"type\": \"module\"}";
    fs::write(folder.join("package.json"), package).unwrap();
    let calls = JAVASCRIPT
        .map(|(call, _)| format!("  () => {call},\n"))
        .concat();
    let code = format!(
        "import {{ hooks, utf8, verdict }} from \"rind-sdk\";\n\
         import * as files from \"rind-sdk/files\";\nimport * as log from \"rind-sdk/log\";\n\
         import * as session from \"rind-sdk/session\";\nimport * as state from \"rind-sdk/state\";\n\
         const PATH = \"workspace/a.txt\";\n\
         const read = (offset, length) => utf8.decode(files.read(PATH, offset, length));\n\
         const calls = [\n{calls}];\n\
         export const preTool = hooks.preTool(({{ call }}) => {{\n\
         \x20 const at = JSON.parse(call.arguments).offset;\n\
         \x20 if (at === undefined) return;\n\
         \x20 return {{ verdict: verdict.block(String(calls[at]())) }};\n}});\n\
         export const postTool = hooks.postTool((finished) => {{\n\
         \x20 if (finished.content(0n, 9) !== finished.content(0, finished.size() + 1)) throw new Error(\"differs\");\n\
         \x20 finished.content(\"0\", 9);\n}});\n"
    );
    fs::write(folder.join("plugin.js"), code).unwrap();
    check(&folder, &JAVASCRIPT, "(at plugin.js:").await;
}

#[tokio::test]
async fn a_wrong_argument_to_the_host_is_an_exception_with_its_line_in_python() {
    if !has("componentize-py") || !has("python3") {
        return;
    }
    let tree = tree();
    let folder = tree.path().join("examples/given");
    fs::create_dir(&folder).unwrap();
    let manifest = MANIFEST.to_owned() + "[compat]\nsockets = \"inert\"\n";
    fs::write(folder.join("plugin.toml"), manifest).unwrap();
    let project = "[tool.rind]\npath = [\"../../python\"]\n";
    fs::write(folder.join("pyproject.toml"), project).unwrap();
    let calls = PYTHON
        .map(|(call, _)| format!("    lambda: {call},\n"))
        .concat();
    let code = format!(
        "import json\nfrom rind_sdk import files, log, outcome, session, state\n\
         from rind_sdk.toolset import Toolset, tool\n\
         from wit_world.imports import outcomes, types\n\nPATH = \"workspace/a.txt\"\n\n\
         def read(offset, length):\n    return files.read(PATH, offset, length).decode()\n\n\
         CALLS = [\n{calls}]\n\n\
         class PreTool:\n    def run(self, payload):\n        at = json.loads(payload.call.arguments).get(\"offset\")\n\
         \x20       if at is None:\n            return outcome.call()\n\
         \x20       return outcome.call(verdict=outcomes.CallVerdict_Block(str(CALLS[at]())))\n\n\
         class PostTool:\n    def run(self, finished):\n        assert finished.content(0, 9) == \"hello\"\n\
         \x20       finished.content(\"0\", 9)\n\x20       return outcome.result()\n\n\
         class Tools(Toolset):\n    @tool(types.EffectClass.READ, {{\"type\": \"object\", \"properties\": {{}}}})\n\
         \x20   def odd(self):\n        \"\"\"Returns what JSON has no form for.\"\"\"\n        return object()\n"
    );
    fs::write(folder.join("plugin.py"), code).unwrap();
    check(&folder, &PYTHON, "(at plugin.py:").await;
    let odd = "[[case]]\nname = \"odd\"\ngiven.tool = { name = \"odd\", arguments = {} }\nexpect.stop = \"done\"\n";
    fs::write(folder.join("tests/cases.toml"), odd).unwrap();
    let case = &CaseFile::read_all_in_folder(&folder).unwrap()[0].cases[0];
    let ran = cases::run_case(&runner(), &folder, "given", case).await;
    let told = "the tool `odd` returned object, which is not a text, no Answer and not JSON: Object of type object is not JSON serializable";
    assert_eq!(ran.unwrap().seen.results, [told]);
}
