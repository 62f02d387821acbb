//! Every point and every import of the contract from JavaScript and Python: a plugin that uses all
//! of them is generated from the WIT, built, loaded and run.

use std::fs;
use std::path::Path;

use rind::cases::{self, CaseFile};
use rind::plugin::surface::ComponentImportsAndExports;

use super::{build, has, runner, tree};
use crate::tidy::reach::{Reach, camel_case, pascal_case, reach};

const CASES: &str = r#"
[[case]]
name = "each hook of a turn runs, and reads what it is lent"
[case.given]
files = { "notes.txt" = "hello\n" }
tool = { name = "read_file", arguments = { path = "notes.txt" } }
[case.expect]
stop = "done"
output = "done"
"#;

/// Points with a hook in every turn that calls a tool, both with and without a handle as payload.
const IN_A_TURN: [&str; 12] = [
    "turn-start",
    "system-prompt",
    "context",
    "pre-reason",
    "before-provider-request",
    "after-provider-response",
    "post-reason",
    "pre-tool",
    "post-tool",
    "pre-output",
    "post-output",
    "turn-end",
];

fn manifest(folder: &Path, further: &str) {
    let text = "name = \"reach\"\nversion = \"0.1.0\"\ndescription = \"Has every hook and every import.\"\n\
        component = \"reach.wasm\"\nside_effects = [\"session\", \"filesystem\", \"network\", \"external\"]\n\
        [filesystem]\nread = [\"workspace\"]\n[network]\nhosts = [\"example.com\"]\n\
        [external]\nagent_loop = true\nturns = true\nmodel = true\nagents = true\ntools = [\"read_file\"]\n";
    fs::write(folder.join("plugin.toml"), text.to_owned() + further).unwrap();
    fs::create_dir(folder.join("tests")).unwrap();
    fs::write(folder.join("tests/cases.toml"), CASES).unwrap();
}

/// Compares the component's interfaces with the contract, and runs the component.
async fn check(folder: &Path, reach: &Reach) {
    let component = fs::read(folder.join("reach.wasm")).unwrap();
    let surface = ComponentImportsAndExports::read_component_surface(folder, &component).unwrap();
    let exports: Vec<&str> = surface.contract_exports().collect();
    for point in &reach.points {
        assert!(exports.contains(&point.as_str()), "{point}");
    }
    for import in &reach.imports {
        assert!(surface.has_import(import), "{import}");
    }
    let runner = runner();
    let files = CaseFile::read_all_in_folder(folder).unwrap();
    let ran = cases::run_case(&runner, folder, "reach", &files[0].cases[0])
        .await
        .unwrap();
    assert!(ran.differences.is_empty(), "{}", ran.differences.join("\n"));
    for point in IN_A_TURN {
        let mut hooks = ran.seen.hooks.iter();
        let hook = hooks.find(|hook| hook.point == point);
        let hook = hook.unwrap_or_else(|| panic!("{point} did not run"));
        assert!(!hook.outcome.starts_with("failed"), "{hook:?}");
    }
}

#[tokio::test]
async fn every_point_and_import_is_reachable_from_javascript() {
    if !has("esbuild") || !has("componentize-qjs") {
        return;
    }
    let (tree, reach) = (tree(), reach());
    let folder = tree.path().join("examples/reach");
    fs::create_dir(&folder).unwrap();
    manifest(&folder, "");
    fs::write(
        folder.join("package.json"),
        "{\"main\": \"plugin.js\", \"type\": \"module\"}",
    )
    .unwrap();
    let mut code = "import { hooks } from \"rind-sdk\";\n".to_owned();
    for import in &reach.imports {
        let name = camel_case(import);
        code += &format!("import * as {name} from \"rind-sdk/{import}\";\n");
    }
    let names: Vec<String> = reach.imports.iter().map(|name| camel_case(name)).collect();
    code += &format!("globalThis.imports = [{}];\n", names.join(", "));
    // 64-bit integers are passed as JavaScript numbers. Only errors of the contract are tolerated.
    code += "const tried = (call) => { try { call(); } catch (error) { if (!(error.payload ?? error).tag) throw error; } };\n";
    for point in &reach.points {
        let name = camel_case(point);
        let read = match point.as_str() {
            _ if reach.lent.contains(point) => {
                "const read = payload.len?.() ?? payload.size(); if (read === undefined) throw new Error(\"nothing\"); \
                 payload.body?.(0, 10); payload.content?.(0, 10);"
            }
            "turn-start" => {
                "tried(() => files.read(\"workspace/none\", 0, 10)); tried(() => blobs.read(\"none\", 0, 10)); \
                 tried(() => agents.wait([], 10));"
            }
            _ => "",
        };
        code += &format!("export const {name} = hooks.{name}((payload) => {{ {read} }});\n");
    }
    fs::write(folder.join("plugin.js"), code).unwrap();
    build(std::slice::from_ref(&folder));
    check(&folder, &reach).await;
}

#[tokio::test]
async fn every_point_and_import_is_reachable_from_python() {
    if !has("componentize-py") || !has("python3") {
        return;
    }
    let (tree, reach) = (tree(), reach());
    let folder = tree.path().join("examples/reach");
    fs::create_dir(&folder).unwrap();
    manifest(&folder, "[compat]\nsockets = \"inert\"\n");
    fs::write(
        folder.join("pyproject.toml"),
        "[tool.rind]\npath = [\"../../python\"]\n",
    )
    .unwrap();
    let mut code = "from rind_sdk import outcome\n".to_owned();
    for import in &reach.imports {
        code += &format!("from rind_sdk import {}\n", import.replace('-', "_"));
    }
    for (point, outcome) in reach.points.iter().zip(&reach.outcomes) {
        let read = if reach.lent.contains(point) {
            "        payload.len() if hasattr(payload, \"len\") else payload.size()\n"
        } else {
            ""
        };
        code += &format!(
            "\nclass {}:\n    def run(self, payload):\n{read}        return outcome.{outcome}()\n",
            pascal_case(point)
        );
    }
    fs::write(folder.join("plugin.py"), code).unwrap();
    build(std::slice::from_ref(&folder));
    check(&folder, &reach).await;
}
