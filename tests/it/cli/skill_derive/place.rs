//! Locations of derived bundles, and which existing folders they may replace.

use std::fs;

use insta::assert_snapshot;
use rind_tests::cli::{Rind, Step};

use super::{crate_of, derive, fresh};

#[test]
fn the_same_source_gives_the_same_bytes_and_is_not_written_again() {
    let rind = fresh();
    crate_of(
        &rind,
        "small",
        &[("src/lib.rs", "//! Small.\npub fn a() {}\n")],
    );
    let print = || {
        rind.run(&["skill", "derive", "small", "--print"])
            .exits(0)
            .stdout
    };
    assert_eq!(print(), print());
    let first = rind.run(&["skill", "derive", "small"]).exits(0);
    assert_snapshot!(first.screen(), @r#"
    exit 0
    ---- stdout
    [RIND_HOME]/cache/skills/small/1.2.3/small
    ---- stderr
    saved in the cache; to use the skill: `rind skill install [RIND_HOME]/cache/skills/small/1.2.3/small`
    "#);
    let file = rind.home().join("cache/skills/small/1.2.3/small/SKILL.md");
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    let again = rind.run(&["skill", "derive", "small"]).exits(0);
    assert!(
        again
            .stderr
            .contains("nothing to do: its source has not changed"),
        "{}",
        again.stderr
    );
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written);
}

#[test]
fn a_bundle_is_replaced_when_somebody_agrees_and_never_when_it_was_edited() {
    let rind = Rind::default();
    let source = |text: &str| crate_of(&rind, "small", &[("src/lib.rs", text)]);
    source("//! Small.\npub fn a() {}\n");
    let folder = derive(&rind, "small");
    let page = || fs::read_to_string(folder.join("references/crate.md")).unwrap();
    source("//! Small.\npub fn b() {}\n");
    let derive = |flags: &[&str]| {
        let args = [&["skill", "derive", "small", "--into", "skills"], flags].concat();
        rind.run(&args)
    };
    let asked = derive(&[]).exits(1);
    assert!(
        asked.stderr.contains("pass --yes to replace it"),
        "{}",
        asked.stderr
    );
    for line in ["- pub fn a();", "+ pub fn b();", "references/crate.md"] {
        assert!(
            asked.stdout.lines().any(|own| own == line),
            "{line}\n{}",
            asked.stdout
        );
    }
    assert!(page().contains("pub fn a();"), "nothing was replaced");
    derive(&["--yes"]).exits(0);
    assert!(page().contains("pub fn b();"));
    // A bundle with an edited or an additional file counts as edited.
    fs::write(folder.join("notes.md"), "mine").unwrap();
    for flags in [&[][..], &["--yes"]] {
        let refused = derive(flags).exits(2);
        assert!(
            refused.stderr.contains("was edited since it was derived"),
            "{}",
            refused.stderr
        );
    }
    assert!(folder.join("notes.md").is_file());
    let forced = derive(&["--force"]).exits(0);
    assert!(!folder.join("notes.md").exists());
    let kept: Vec<_> = fs::read_dir(rind.workspace().join("skills/.kept"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(
        fs::read_to_string(kept[0].join("notes.md")).unwrap(),
        "mine"
    );
    let name = kept[0].file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("small-") && forced.stderr.contains(name),
        "{}",
        forced.stderr
    );
    // A folder without a derived skill is not replaced.
    fs::write(
        folder.join("SKILL.md"),
        "---\ndescription: Mine.\n---\nMine.\n",
    )
    .unwrap();
    let refused = derive(&["--yes"]).exits(2);
    assert!(
        refused.stderr.contains("is not a derived skill"),
        "{}",
        refused.stderr
    );
    // No temporary folder is left beside the bundle.
    assert_eq!(
        fs::read_dir(rind.workspace().join("skills"))
            .unwrap()
            .count(),
        2
    );
}

#[test]
fn a_source_is_never_replaced_by_its_skill() {
    let rind = Rind::default();
    for place in ["foo", "skills/foo/inner"] {
        crate_of(
            &rind,
            place,
            &[("src/lib.rs", "pub fn a() {}\n"), (".git/HEAD", "ref\n")],
        );
        rind.file(
            &format!("{place}/Cargo.toml"),
            "[package]\nname = \"foo\"\nversion = \"1.0.0\"\n",
        );
    }
    rind.file(
        "skills/foo/SKILL.md",
        "---\ndescription: Mine.\n---\nMine.\n",
    );
    std::os::unix::fs::symlink(".", rind.workspace().join("here")).unwrap();
    for (source, into) in [
        ("foo", "."),
        ("foo/Cargo.toml", "."),
        ("foo", "here"),
        ("foo", "nothing/../../work"),
        ("here/foo", "."),
        ("skills/foo/inner", "skills"),
    ] {
        let args = ["skill", "derive", source, "--into", into];
        for flags in [&[][..], &["--yes"], &["--force"]] {
            let refused = rind.run(&[&args, flags].concat()).exits(2);
            let expected = match into.starts_with("nothing") {
                true => "a parent folder of",
                false => "a skill never replaces its source",
            };
            assert!(
                refused.stderr.contains(expected),
                "{source} {into}\n{}",
                refused.stderr
            );
        }
    }
    for place in ["foo", "skills/foo/inner"] {
        for file in ["Cargo.toml", "src/lib.rs", ".git/HEAD"] {
            assert!(rind.workspace().join(place).join(file).is_file(), "{file}");
        }
        assert!(!rind.workspace().join(place).join("SKILL.md").exists());
    }
}

#[test]
fn a_skill_that_lies_in_its_source_is_no_part_of_it() {
    let rind = Rind::default();
    crate_of(&rind, "small", &[("src/lib.rs", "pub fn a() {}\n")]);
    let args = ["skill", "derive", "small", "--into", "small/skills"];
    rind.run(&args).exits(0);
    assert!(
        rind.workspace()
            .join("small/skills/small/SKILL.md")
            .is_file()
    );
    let again = rind.run(&args).exits(0);
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
}

#[test]
fn a_folder_that_is_no_skill_is_never_replaced() {
    let rind = Rind::default();
    crate_of(&rind, "small", &[("src/lib.rs", "pub fn a() {}\n")]);
    rind.file("skills/small/notes.md", "mine");
    for flags in [&[][..], &["--yes"], &["--force"]] {
        let args = ["skill", "derive", "small", "--into", "skills"];
        let refused = rind.run(&[&args, flags].concat()).exits(2);
        assert!(
            refused
                .stderr
                .contains("exists and is not a skill, as it has no SKILL.md"),
            "{}",
            refused.stderr
        );
    }
    let notes = rind.workspace().join("skills/small/notes.md");
    assert_eq!(fs::read_to_string(notes).unwrap(), "mine");
}

#[test]
fn a_question_at_the_terminal_decides() {
    let rind = Rind::default();
    crate_of(&rind, "small", &[("src/lib.rs", "pub fn a() {}\n")]);
    let folder = derive(&rind, "small");
    crate_of(&rind, "small", &[("src/lib.rs", "pub fn b() {}\n")]);
    let args = ["skill", "derive", "small", "--into", "skills"];
    let page = || fs::read_to_string(folder.join("references/crate.md")).unwrap();
    let answer = |typed: &'static str| {
        let step = Step {
            once: "[n]o",
            meanwhile: Box::new(|| {}),
            typed,
        };
        rind.at_terminal_then(&args, "true", vec![step])
    };
    let Some(screen) = answer("n\n") else {
        return;
    };
    assert!(
        screen.contains("nothing was replaced") && page().contains("pub fn a();"),
        "{screen}"
    );
    let screen = answer("y\n").unwrap();
    assert!(page().contains("pub fn b();"), "{screen}");
}
