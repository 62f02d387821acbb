//! Misspelled names: `rind plugin build` suggests the intended name and shows the location.

use std::fs;

use rind_tests::cli::Rind;

use super::has;

/// Creates a hook in this language, replaces text in one of its files, and returns the message of
/// the failed build.
fn built(language: &str, file: &str, from: &str, to: &str) -> String {
    let rind = Rind::author();
    let args = [
        "plugin", "new", "gate", "--lang", language, "--kind", "hook",
    ];
    rind.run(&args).exits(0);
    let path = rind.workspace().join("gate").join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).unwrap();
    rind.run(&["plugin", "build", "gate"]).exits(1).stderr
}

#[test]
fn a_misspelt_key_or_point_in_a_manifest_gets_the_nearest_in_each_language() {
    for language in ["rust", "js", "python"] {
        for (from, to, told) in [
            (
                "side_effects =",
                "side_efects =",
                "did you mean `side_effects`?",
            ),
            ("priority =", "prioritty =", "did you mean `priority`?"),
            (
                "[hooks.pre-tool]",
                "[hooks.pre-tol]",
                "[hooks.pre-tol]: there is no such point; did you mean `pre-tool`? `rind plugin points` lists them",
            ),
        ] {
            let said = built(language, "plugin.toml", from, to);
            assert!(said.contains(told), "{language}: {said}");
            assert!(said.contains("line 1"), "{language}: {said}");
        }
    }
}

#[test]
fn a_misspelt_export_in_javascript_gets_the_nearest() {
    if !has("esbuild") {
        return;
    }
    let said = built("js", "src/plugin.js", "const preTool =", "const preTol =");
    let told = "src/plugin.js has no hook and no tool. The export `preTol` is never called: it is neither a point nor one of \
        `tools`, `commands`, `implement` and `loop` (did you mean `preTool`?). Export a constant";
    assert!(said.contains(told), "{said}");
}

#[test]
fn a_misspelt_class_in_python_gets_the_nearest() {
    if !has("python3") || !has("componentize-py") {
        return;
    }
    let said = built("python", "plugin.py", "class PreTool", "class PreTol");
    assert!(
        said.contains("plugin.py has no hook and no tool. plugin.py:"),
        "{said}"
    );
    assert!(
        said.contains("the class `PreTol` is never called; did you mean `PreTool`?"),
        "{said}"
    );
}
