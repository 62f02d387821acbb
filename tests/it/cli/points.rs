//! `rind plugin points`, and the first-party plugins that define points and implement them.

use insta::assert_snapshot;
use rind_tests::cli::Rind;
use rind_tests::guests;

#[test]
fn points_are_listed_with_who_defines_implements_and_calls_them() {
    let rind = Rind::default();
    rind.managed("memory").managed("project-notes");
    rind.managed("todo");
    let without: &[&str] = &["plugin", "points"];
    let listed = rind.run(without).exits(0).stdout;
    assert_snapshot!(listed, @r"
    points of a turn
      collect  system-prompt            todo 100
    points of plugins
      collect  memory.recall            project-notes 100
                                        called by memory
                                        Finds memories. Each implementer contributes those that it keeps.
      gate     memory.remember          project-notes 200
                                        called by memory
                                        A memory is to be kept: first `phase` is `check`, at which anyone may refuse, ask or change the text, then `keep`, at which who keeps memories stores it and adds its name to `kept_by`.
    ");
    let json = rind.run(&["plugin", "points", "--json"]).exits(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let last = &json["points"][2];
    assert_eq!(last["point"], "memory.remember");
    assert_eq!(
        last["actors"],
        serde_json::json!([{ "plugin": "project-notes", "priority": 200 }])
    );
}

#[test]
fn the_priority_of_the_operator_counts_for_points_of_plugins_too() {
    let rind = Rind::default();
    rind.managed("memory").managed("project-notes");
    rind.config("[plugins.project-notes]\npriority = 5\n");
    let listed = rind.run(&["plugin", "points"]).exits(0).stdout;
    assert!(
        listed.contains("memory.recall            project-notes 5\n"),
        "{listed}"
    );
}

#[test]
fn a_misspelt_point_is_named_with_the_one_that_was_meant() {
    let rind = Rind::default();
    rind.managed("memory");
    let typo = |manifest: String| manifest.replace("memory.recall", "memory.recal");
    let folder = guests::put("project-notes", &rind.workspace(), typo);
    let ran = rind.run(&["run", "hi", "--plugin", folder.to_str().unwrap()]);
    let text = "plugin `memory` declares no point `recal`; did you mean `memory.recall`?";
    assert!(ran.exits(3).stderr.contains(text));
}

#[test]
fn what_one_session_remembers_another_recalls() {
    let rind = Rind::default();
    rind.managed("memory").managed("project-notes");
    let script = |call: &str| {
        format!("[[reply]]\ntool_calls = [{{ {call} }}]\n[[reply]]\ntext = \"Done.\"\n")
    };
    let remember = "name = \"remember\", arguments = { text = \"Deploys happen on Tuesdays.\" }";
    rind.file("remember.toml", &script(remember));
    let recall = "name = \"recall\", arguments = { query = \"deploy\" }";
    rind.file("recall.toml", &script(recall));
    let run = |script: &str, flag: &[&str]| {
        let args = ["run", "go", "--json", "--script", script];
        rind.run(&[&args[..], flag].concat()).exits(0).stdout
    };
    // A plugin cannot store text that steers later sessions without an approval.
    let refused = run("remember.toml", &[]);
    assert!(!refused.contains("Kept by project-notes"), "{refused}");
    assert!(run("recall.toml", &[]).contains("Nothing is remembered about this."));
    let kept = run("remember.toml", &["--yes"]);
    assert!(kept.contains("Kept by project-notes: Deploys"), "{kept}");
    let recalled = run("recall.toml", &[]);
    assert!(
        recalled.contains("- Deploys happen on Tuesdays. (since 20"),
        "{recalled}"
    );
}
