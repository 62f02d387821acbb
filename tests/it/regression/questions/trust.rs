//! Tests that the program loads exactly the settings and plugins that the question showed.

use std::fs;

use rind_tests::cli::Rind;
use rind_tests::guests;

use super::plain;

#[test]
fn the_trust_question_lists_the_plugins_that_are_loaded_and_no_manifest_hides_others() {
    let rind = Rind::default();
    let folder = rind.workspace().join(".rind/plugins");
    guests::put("hello", &folder, |manifest| manifest);
    let of_hello = fs::read_to_string(folder.join("hello/plugin.toml")).unwrap();
    fs::copy(folder.join("hello/hello.wasm"), folder.join("hello.wasm")).unwrap();
    let hidden = of_hello.replace("name = \"hello\"", "name = \"hidden\"");
    fs::write(folder.join("plugin.toml"), hidden).unwrap();
    let list = rind.run(&["plugin", "list", "--trust-project"]);
    assert!(list.stdout.contains("hello"), "{}", list.stdout);
    assert!(!list.stdout.contains("hidden"), "{}", list.stdout);
    assert!(
        list.stderr
            .contains(".rind/plugins/plugin.toml has no effect"),
        "{}",
        list.stderr
    );
    let Some(shown) = rind.at_terminal(&["run", "x"], "y\n") else {
        return;
    };
    let shown = plain(&shown);
    assert!(shown.contains("plugin hello: Greets people"), "{shown}");
    assert!(!shown.contains("plugin hidden"), "{shown}");
}

#[test]
fn settings_of_a_project_are_all_shown_and_those_that_were_shown_count() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"list_files\", arguments = {} }]\n[[reply]]\ntext = \"done\"\n",
    );
    let filler: String = (0..60).map(|n| format!("# {n}\n")).collect();
    let path = rind.workspace().join(".rind/config.toml");
    rind.file(
        ".rind/config.toml",
        &format!("[agent]\n{filler}max_steps = 9\n"),
    );
    let swap = || fs::write(&path, "[agent]\nmax_steps = 1\n").unwrap();
    let steps = vec![
        rind_tests::cli::Step {
            once: "or [n]o:",
            meanwhile: Box::new(|| {}),
            typed: "v\n",
        },
        rind_tests::cli::Step {
            once: "end; press Enter to return",
            meanwhile: Box::new(swap),
            typed: "\n",
        },
        rind_tests::cli::Step {
            once: "or [n]o:",
            meanwhile: Box::new(|| {}),
            typed: "y\n",
        },
    ];
    let Some(shown) = rind.at_terminal_with(&["run", "x"], "stty cols 100 rows 80", steps) else {
        return;
    };
    let shown = plain(&shown);
    assert!(shown.contains("| max_steps = 9"), "{shown}");
    // The swapped file has `max_steps = 1`, which would have ended the turn at its first step.
    assert!(shown.contains("done"), "{shown}");
}

#[test]
fn a_plugin_that_is_swapped_while_its_question_stands_runs_as_it_was_shown() {
    let rind = Rind::default();
    let folder = rind.workspace().join("own");
    let plugin = guests::put("injection-guard", &folder, |manifest| manifest);
    let swap = || {
        fs::write(plugin.join("injection-guard.wasm"), "another").unwrap();
        fs::write(plugin.join("plugin.toml"), "name = 1").unwrap();
    };
    let args = ["run", "hello", "--plugin", plugin.to_str().unwrap()];
    let Some(shown) = rind.at_terminal_once(&args, "or [n]o:", swap, "o\n") else {
        return;
    };
    assert!(plain(&shown).contains("1 hook call of 1 plugin"), "{shown}");
}

#[test]
fn no_plugin_is_loaded_under_a_name_of_the_program() {
    for name in ["host", "policy", "user", "model", "rind", "system"] {
        let rind = Rind::default();
        guests::put("hello", &rind.user_plugins(), |manifest| {
            manifest.replace("name = \"hello\"", &format!("name = \"{name}\""))
        });
        let list = rind.run(&["plugin", "list"]).exits(1);
        assert!(list.stdout.contains("is reserved"), "{}", list.stdout);
    }
}
