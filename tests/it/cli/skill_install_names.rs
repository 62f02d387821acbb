//! Names of installed skills: all spellings of a name are one name, which never shadows a skill
//! that somebody wrote.

use std::fs;

use rind_tests::cli::Rind;

use super::install_signed::{key, sign, trust};
use super::skill_install::{REVIEW, archive, folder, install, skills};

/// Spellings of `review` that count as the same name.
const SPELLINGS: [&str; 3] = [
    "REVIEW",
    "\u{ff52}\u{ff45}\u{ff56}\u{ff49}\u{ff45}\u{ff57}",
    "re\u{200b}view",
];

#[test]
fn a_name_is_pinned_to_its_key_in_every_spelling() {
    let rind = Rind::default();
    let (ours, theirs) = (key(), key());
    trust(&rind, &[("ours", &ours), ("theirs", &theirs)]);
    let files = [("review/SKILL.md", REVIEW)];
    let (first, second) = (
        archive(&rind, "first.tar.gz", &files),
        archive(&rind, "second.tar.gz", &files),
    );
    sign(&ours, &first);
    sign(&theirs, &second);
    install(&rind, &first, &["--yes"]).exits(0);
    for is_removed in [false, true] {
        for name in SPELLINGS {
            let args = ["--yes", "--change-source", "--force", "--name", name];
            let ran = install(&rind, &second, &args).exits(1);
            assert!(
                ran.stderr.contains("was first signed with the key"),
                "{is_removed} {name}: {}",
                ran.stderr
            );
        }
        if !is_removed {
            rind.run(&["skill", "remove", "review"]).exits(0);
        }
    }
    // The original key may install another spelling of the name, which shares the pin.
    install(&rind, &first, &["--yes", "--name", "Review"]).exits(0);
    let lock = fs::read_to_string(rind.home().join("config/skills.lock.toml")).unwrap();
    let pins = lock.split("[skills").next().unwrap();
    assert!(
        pins.contains("review = ") && !pins.contains("Review"),
        "{lock}"
    );
}

#[test]
fn an_installed_skill_is_found_and_guarded_in_every_spelling() {
    let rind = Rind::default();
    let source = folder(&rind, "review", &[("SKILL.md", REVIEW)]);
    install(&rind, &source, &["--yes"]).exits(0);
    let file = skills(&rind).join("review/SKILL.md");
    let edited = REVIEW.to_owned() + "Mine.\n";
    fs::write(&file, &edited).unwrap();
    for name in SPELLINGS {
        let ran = rind.run(&["skill", "remove", name, "--yes"]).exits(1);
        assert!(
            ran.stderr
                .contains("review was changed since it was installed"),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), edited);
    }
    let ran = install(&rind, &source, &["--yes", "--force", "--name", "REVIEW"]).exits(1);
    assert!(
        ran.stderr
            .contains("review is already installed, and its name counts as the same"),
        "{}",
        ran.stderr
    );
    rind.run(&["skill", "remove", "REVIEW", "--force"]).exits(0);
    assert!(!file.exists());
    let lock = fs::read_to_string(rind.home().join("config/skills.lock.toml")).unwrap();
    assert!(!lock.contains("review"), "{lock}");
}

#[test]
fn a_skill_that_somebody_wrote_keeps_its_name_wherever_it_lies() {
    for (path, text) in [
        ("zz/review/SKILL.md", REVIEW),
        ("aa/Review/SKILL.md", REVIEW),
        ("a/b/c/review/skill.md", REVIEW),
        ("aa/review/SKILL.md", "broken"),
        ("review.md", REVIEW),
        ("Review/SKILL.md", REVIEW),
    ] {
        let rind = Rind::default();
        let own = skills(&rind).join(path);
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(&own, text).unwrap();
        let source = folder(&rind, "from/review", &[("SKILL.md", REVIEW)]);
        let ran = install(&rind, &source, &["--yes", "--force"]).exits(1);
        assert!(
            ran.stderr.contains("has the same name"),
            "{path}: {}",
            ran.stderr
        );
        let ran = rind.run(&["skill", "new", "review"]).exits(2);
        assert!(
            ran.stderr.contains("already has this name") || ran.stderr.contains("already exists"),
            "{path}: {}",
            ran.stderr
        );
        assert_eq!(fs::read_to_string(&own).unwrap(), text);
        assert!(!skills(&rind).join("review").exists());
    }
}

#[test]
fn a_skill_of_another_source_that_would_not_be_used_any_more_is_told_of() {
    let rind = Rind::default();
    let other = rind.home().join(".claude/skills/deep/Review/SKILL.md");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, REVIEW).unwrap();
    let source = folder(&rind, "from/review", &[("SKILL.md", REVIEW)]);
    let told = "skills/deep/Review/SKILL.md";
    let ran = install(&rind, &source, &[]).exits(1);
    assert!(
        ran.stderr.contains("takes the place of: ") && ran.stderr.contains(told),
        "{}",
        ran.stderr
    );
    // The check also works while plugins cannot be loaded.
    fs::create_dir_all(rind.home().join("config")).unwrap();
    fs::write(rind.home().join("config/plugins.lock.toml"), "x").unwrap();
    let ran = install(&rind, &source, &[]).exits(1);
    assert!(
        ran.stderr
            .contains("cannot check whether the tools and plugins")
            && ran.stderr.contains(told),
        "{}",
        ran.stderr
    );
    let ran = rind.run(&["skill", "new", "review"]).exits(0);
    assert!(
        ran.stderr.contains("is used instead of") && ran.stderr.contains(told),
        "{}",
        ran.stderr
    );
}

#[test]
fn names_of_folders_that_no_session_looks_into_are_refused() {
    let rind = Rind::default();
    let source = folder(&rind, "review", &[("SKILL.md", REVIEW)]);
    for name in ["target", "node_modules", "__pycache__"] {
        let ran = install(&rind, &source, &["--yes", "--name", name]).exits(1);
        assert!(
            ran.stderr.contains("sessions ignore a folder"),
            "{}",
            ran.stderr
        );
    }
    let ran = rind.run(&["skill", "new", "target"]).exits(2);
    assert!(
        ran.stderr.contains("sessions ignore a folder"),
        "{}",
        ran.stderr
    );
}
