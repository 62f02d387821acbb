//! Skills of plugins.

use std::fs;

use insta::assert_snapshot;
use rind_tests::cli::Rind;
use rind_tests::guests;

use super::{derive, shown};

#[test]
fn a_plugin_becomes_a_skill_with_its_tools_hooks_and_examples() {
    let rind = Rind::default();
    let source = guests::guest("hello").to_str().unwrap();
    let folder = derive(&rind, source);
    assert_snapshot!(shown(&folder), @r#"
    ==> SKILL.md
    ---
    skill_format: corteza.skill/v1
    name: hello
    description: "Greets people: the smallest plugin with a tool and a hook. Use when its tool greet is to be called."
    side_effects: [none]
    library_depends: [hello]
    generated_from:
      package: hello
      version: "0.1.0"
      source_hash: [DIGEST]
    metadata:
      bundle_hash: [DIGEST]
    ---

    # Plugin hello 0.1.0

    Greets people: the smallest plugin with a tool and a hook.

    ## Tools

    - `greet` (only reads): Greets somebody by name. Arguments: `name`.

    Arguments and examples of each: [references/tools.md](references/tools.md).

    ## What it does by itself

    The host calls it at these points of a session; nothing has to be done for it.

    - `turn-end`: A turn has ended, however it ended. It only looks on.

    ## What it may touch

    It asks for no permission: it reaches no files, no network and no model.

    ## More

    - [references/readme.md](references/readme.md): its own documentation

    ==> references/readme.md
    # README of the plugin hello

    The smallest plugin that has a tool and a hook, in 22 lines. Copy it to start your own.

    - Tool `greet` (read): takes a name, answers with a greeting.
    - Hook `turn-end` (observe): logs how many steps the turn took.

    No settings, no side effects: its component imports the log and nothing else of the host. See `sdk/rust/README.md` for what
    more a plugin can do.

    ==> references/tools.md
    # Tools of the plugin hello

    ## `greet`

    Greets somebody by name.

    Effect: only reads.

    Arguments:

    - `name` (text, required): The person's name.

    Example: greets by name

    ```json
    {
      "name": "Ada"
    }
    ```

    answers

    ```text
    Hello, Ada!
    ```
    "#);
    // The skill is valid even if its plugin is not loaded, and the check reports the missing
    // plugin.
    let lacking = rind.run(&["skill", "check", "./skills/hello"]).exits(0);
    assert!(
        lacking
            .stdout
            .contains("it depends on the plugin `hello`, which is not loaded"),
        "{}",
        lacking.stdout
    );
    let again = rind
        .run(&["skill", "derive", source, "--into", "again"])
        .exits(0);
    let told = format!("`rind skill check again/hello --plugin {source}`");
    assert!(again.stderr.contains(&told), "{}", again.stderr);
    let checked = rind
        .run(&["skill", "check", "./skills/hello", "--plugin", source])
        .exits(0);
    assert!(
        checked.stdout.starts_with("✓ ") && checked.stdout.lines().count() == 1,
        "{}",
        checked.stdout
    );
}

#[test]
fn a_guard_is_explained_by_its_hooks_settings_and_permissions() {
    let rind = Rind::default();
    let source = guests::guest("content-safety").to_str().unwrap();
    let folder = derive(&rind, source);
    let skill = fs::read_to_string(folder.join("SKILL.md")).unwrap();
    for expected in [
        "library_depends: [content-safety]",
        "- `output-delta`: The model is writing an answer; the payload is the text that has not been shown yet. It may change what passes",
        "## What it may touch",
        "- [references/settings.md](references/settings.md): its settings, which the operator changes",
    ] {
        assert!(skill.contains(expected), "{expected}\n{skill}");
    }
    assert!(!skill.contains("## Tools"), "{skill}");
    let settings = fs::read_to_string(folder.join("references/settings.md")).unwrap();
    assert!(settings.contains("- `deny` (list, each text"), "{settings}");
}

#[test]
fn a_component_is_read_and_never_run_with_more_than_nothing() {
    let rind = Rind::default();
    // The component requests the network. Deriving a skill grants nothing and asks nobody.
    let source = guests::guest("model-quartermaster").to_str().unwrap();
    let ran = rind
        .run(&["skill", "derive", source, "--into", "skills"])
        .exits(0);
    assert!(!ran.stderr.contains("grant"), "{}", ran.stderr);
    assert!(!rind.home().join("data/grants.json").exists());
    assert!(!rind.home().join("data/plugins").exists());
}
