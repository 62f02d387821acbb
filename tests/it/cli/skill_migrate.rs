//! `rind skill migrate`: to `corteza.skill/v1` and to the open format.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use rind_tests::cli::Rind;

use super::skill_install::folder;

#[test]
fn the_form_with_a_side_file_becomes_v1_and_keeps_comments_and_text() {
    let rind = Rind::default();
    let text = "---\n# About it.\nname: notes   # a label\ndescription: Take notes: briefly\n---\n\nBody  \n---\n# No comment.\n";
    let side = r#"{"name": "other", "tools": {"deny": ["bash"]}, "metadata": {"a": [1, {"b": null}], "c d": "x: y"}, "version": 2}"#;
    let source = folder(&rind, "notes", &[("SKILL.md", text), ("SKILL.json", side)]);
    fs::set_permissions(source.join("SKILL.md"), PermissionsExt::from_mode(0o640)).unwrap();
    let ran = rind.run(&["skill", "migrate", "notes"]).exits(0);
    assert_snapshot!(ran.stdout, @r#"
    notes/SKILL.md
      ---
    + skill_format: corteza.skill/v1
      # About it.
      name: notes   # a label
    - description: Take notes: briefly
    + description: "Take notes: briefly"
    + tools:
    +   deny: [bash]
    + metadata:
    +   a: [1, {b: null}]
    +   "c d": "x: y"
    + version: 2
      ---
      
      Body  
    notes/SKILL.json
    - {"name": "other", "tools": {"deny": ["bash"]}, "metadata": {"a": [1, {"b": null}], "c d": "x: y"}, "version": 2}
    "#);
    assert_eq!(fs::read_to_string(source.join("SKILL.md")).unwrap(), text);

    rind.run(&["skill", "migrate", "notes", "--write"]).exits(0);
    assert_snapshot!(fs::read_to_string(source.join("SKILL.md")).unwrap(), @r#"
    ---
    skill_format: corteza.skill/v1
    # About it.
    name: notes   # a label
    description: "Take notes: briefly"
    tools:
      deny: [bash]
    metadata:
      a: [1, {b: null}]
      "c d": "x: y"
    version: 2
    ---

    Body  
    ---
    # No comment.
    "#);
    assert!(!source.join("SKILL.json").exists());
    let mode = fs::metadata(source.join("SKILL.md"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    let ran = rind.run(&["skill", "migrate", "notes", "--write"]).exits(0);
    assert!(
        ran.stderr.contains("is corteza.skill/v1 already"),
        "{}",
        ran.stderr
    );
    rind.run(&["skill", "check", "./notes"]).exits(0);
}

#[test]
fn the_open_format_says_what_is_lost_and_does_not_replace_a_restriction() {
    let rind = Rind::default();
    let text = "---\nskill_format: corteza.skill/v1\nname: research\ndescription: Researches.\n# Only by hand.\nmodel_invocation: \
                user-only\nside_effects: [network]\nlibrary_depends: [pensar]\nattach: true\ntools:\n  allow: [search]\n  deny: \
                [bash, \"git:*\"]\ntrust: project\ninteraction: conversational\narguments:\n  schema:\n    properties:\n      \
                topic: {type: string}\nrequires: {bins: [jq]}\ngenerated_from: {package: p}\n---\nBody $topic\n";
    let source = folder(&rind, "research", &[("SKILL.md", text)]);
    let ran = rind
        .run(&["skill", "migrate", "research", "--to", "open"])
        .exits(0);
    assert_snapshot!(ran.stdout, @r#"
    research/SKILL.md
      ---
    - skill_format: corteza.skill/v1
      name: research
      description: Researches.
      # Only by hand.
    - model_invocation: user-only
    - side_effects: [network]
    - library_depends: [pensar]
    - attach: true
    - tools:
    -   allow: [search]
    -   deny: [bash, "git:*"]
    - trust: project
    - interaction: conversational
    - arguments:
    -   schema:
    -     properties:
    -       topic: {type: string}
    - requires: {bins: [jq]}
    - generated_from: {package: p}
    + arguments: [topic]
    + disable-model-invocation: true
    + disallowed-tools: [bash, Bash, "git:*"]
    + metadata:
    +   requires:
    +     bins: [jq]
      ---
      Body $topic
    "#);
    assert_snapshot!(ran.stderr, @r"
    ▲ `tools.allow` is lost: every tool may be called; keep the v1 file where that must not be
    ▲ `tools.deny` is lost: other programs ignore `git:*`, because they accept only names of tools, without `*`, `?` or `:`
    `side_effects` is lost: its side effects are not shown before its first use
    ▲ `trust` is lost: its trust depends only on its location
    `interaction` is lost: it ends with its turn
    `library_depends` is lost: the open format has no key for the plugins that the skill needs: pensar
    `attach` is lost: tools of its plugins do not stay when it ends
    `generated_from` is lost: it does not name its source
    ▲ `arguments.schema` is lost: its arguments are not checked
    nothing is written; --write replaces the file, --out FILE writes another one
    ");
    let ran = rind
        .run(&["skill", "migrate", "research", "--to", "open", "--write"])
        .exits(1);
    assert!(
        ran.stderr.contains("the skill may do more"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read_to_string(source.join("SKILL.md")).unwrap(), text);
    rind.run(&[
        "skill", "migrate", "research", "--to", "open", "--out", "open.md",
    ])
    .exits(0);
    rind.run(&[
        "skill", "migrate", "research", "--to", "open", "--out", "open.md",
    ])
    .exits(1);
    rind.run(&[
        "skill", "migrate", "research", "--to", "open", "--write", "--force",
    ])
    .exits(0);
    let open = fs::read_to_string(source.join("SKILL.md")).unwrap();
    assert_eq!(
        open,
        fs::read_to_string(rind.workspace().join("open.md")).unwrap()
    );
}

#[test]
fn a_file_with_faults_that_nobody_but_its_author_can_correct_stays() {
    let rind = Rind::default();
    for (text, what) in [
        (
            "---\ndescription: d\nallowed_tools: Read\n---\nx\n",
            "unknown key `allowed_tools`",
        ),
        (
            "---\ndescription: d\ntools: {alow: [x]}\n---\nx\n",
            "`tools` has the unknown key `alow`",
        ),
        ("---\ndescription: d\n", "the front matter is not closed"),
        ("no front matter\n", "there is no front matter"),
        (
            "---\nskill_format: corteza.skill/v2\ndescription: d\n---\nx\n",
            "cannot read",
        ),
    ] {
        let source = folder(&rind, "bad", &[("SKILL.md", text)]);
        for to in ["v1", "open"] {
            let ran = rind
                .run(&["skill", "migrate", "bad", "--to", to, "--write"])
                .exits(1);
            assert!(ran.stderr.contains(what), "{text}: {}", ran.stderr);
            assert_eq!(fs::read_to_string(source.join("SKILL.md")).unwrap(), text);
        }
    }
    folder(&rind, "two", &[("a/SKILL.md", "x"), ("b/SKILL.md", "x")]);
    let ran = rind.run(&["skill", "migrate", "./two"]).exits(2);
    assert!(ran.stderr.contains("./two has 2 skills"), "{}", ran.stderr);
    rind.run(&["skill", "migrate", "./none"]).exits(2);
    let source = folder(
        &rind,
        "pipe",
        &[("SKILL.md", "---\ndescription: d\n---\nx\n")],
    );
    let pipe = source.join("SKILL.json");
    std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    let ran = rind.run(&["skill", "migrate", "./pipe"]).exits(1);
    assert!(
        ran.stderr.contains("SKILL.json: the path is not a file"),
        "{}",
        ran.stderr
    );
}

#[test]
fn line_ends_flow_mappings_and_flat_files_are_written_as_they_are_read() {
    let rind = Rind::default();
    let table = [
        (
            "---\r\ndescription: d\r\n---\r\nx\r\n",
            "---\r\nskill_format: corteza.skill/v1\r\ndescription: d\r\n---\r\nx\r\n",
        ),
        (
            "---\n{description: d, version: 1.10}\n---\nx\n",
            "---\nskill_format: corteza.skill/v1\ndescription: d\nversion: 1.10\n---\nx\n",
        ),
        (
            "\u{feff}\n---\ndescription: d\n---\nx",
            "---\nskill_format: corteza.skill/v1\ndescription: d\n---\nx",
        ),
        (
            "---\ndescription: >-\n  a\n  b\n\n# c\nname: n\n--- \nx\n",
            "---\nskill_format: corteza.skill/v1\ndescription: >-\n  a\n  b\n\n# c\nname: n\n--- \nx\n",
        ),
    ];
    for (text, expected) in table {
        rind.file("flat.md", text);
        rind.run(&["skill", "migrate", "./flat.md", "--write"])
            .exits(0);
        assert_eq!(
            fs::read_to_string(rind.workspace().join("flat.md")).unwrap(),
            expected
        );
    }
}

#[test]
fn a_side_file_that_is_a_link_is_refused_as_it_is_for_a_session() {
    let rind = Rind::default();
    let text = "---\ndescription: d\n---\nx\n";
    let source = folder(&rind, "linked", &[("SKILL.md", text)]);
    rind.file("secret.json", "{\"metadata\": {\"key\": \"secret\"}}");
    let link = source.join("SKILL.json");
    std::os::unix::fs::symlink(rind.workspace().join("secret.json"), &link).unwrap();
    for args in [&["--write"][..], &["--to", "open"], &["--out", "out.md"]] {
        let ran = rind
            .run(&[&["skill", "migrate", "./linked"], args].concat())
            .exits(1);
        assert!(
            ran.stderr.contains("SKILL.json: the file cannot be read"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stdout.contains("secret"), "{}", ran.stdout);
    }
    assert_eq!(fs::read_to_string(source.join("SKILL.md")).unwrap(), text);
    assert!(link.is_symlink() && !rind.workspace().join("out.md").exists());
}

#[test]
fn an_installed_skill_is_not_migrated_without_a_word() {
    let rind = Rind::default();
    let text = "---\ndescription: d\n---\nx\n";
    let source = folder(&rind, "notes", &[("SKILL.md", text)]);
    super::skill_install::install(&rind, &source, &["--yes"]).exits(0);
    let place = super::skill_install::skills(&rind).join("notes");
    let linked = rind.workspace().join("linked");
    std::os::unix::fs::symlink(&place, &linked).unwrap();
    for path in [&place, &place.join("SKILL.md"), &linked] {
        let args = ["skill", "migrate", path.to_str().unwrap()];
        rind.run(&args).exits(0);
        let ran = rind.run(&[&args[..], &["--write"]].concat()).exits(1);
        assert!(ran.stderr.contains("it was installed"), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(place.join("SKILL.md")).unwrap(), text);
    }
    let args = ["skill", "migrate", place.to_str().unwrap()];
    rind.run(&[&args[..], &["--write", "--force"]].concat())
        .exits(0);
    let list = rind.run(&["skill", "list"]).exits(0).stdout;
    assert!(list.contains("changed since"), "{list}");
}
