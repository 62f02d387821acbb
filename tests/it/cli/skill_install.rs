//! `rind skill install` and `remove`: from folders, archives and repositories, and what stays as somebody wrote it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use insta::assert_snapshot;
use rind_tests::cli::{Ran, Rind};
use serde_json::Value;

use super::install_signed::{key, sign, trust};

/// A skill that restricts, spares and brings a script.
pub(super) const REVIEW: &str = "---\nname: review\ndescription: Reviews a change.\nallowed-tools: Bash(git diff *)\ntools:\n  \
                                 deny: [write_file]\nside_effects: [filesystem]\n---\nRun `scripts/run.sh`.\n";

/// Writes files into a folder of the workspace.
pub(super) fn folder(rind: &Rind, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = rind.workspace().join(name);
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// A folder with the skill `review`, whose script is executable.
fn review(rind: &Rind) -> PathBuf {
    let files = [
        ("SKILL.md", REVIEW),
        ("scripts/run.sh", "#!/bin/sh\necho hi\n"),
    ];
    let root = folder(rind, "from/review", &files);
    let script = root.join("scripts/run.sh");
    fs::set_permissions(script, PermissionsExt::from_mode(0o755)).unwrap();
    root
}

pub(super) fn install(rind: &Rind, source: &Path, more: &[&str]) -> Ran {
    let args = [&["skill", "install", source.to_str().unwrap()], more].concat();
    rind.run(&args)
}

pub(super) fn skills(rind: &Rind) -> PathBuf {
    rind.home().join("config/skills")
}

fn shown(rind: &Rind, name: &str) -> Value {
    let ran = rind.run(&["skill", "show", name, "--json"]).exits(0);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    shown["skill"].clone()
}

/// Runs git in a folder, with nobody's settings.
pub(super) fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
        ])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(folder)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {told}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes a repository of a folder, with everything committed.
pub(super) fn commit(folder: &Path) {
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message=x"]);
}

/// An archive of these files.
fn archive(rind: &Rind, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let path = rind.workspace().join(name);
    let mut tar = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o755);
        tar.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let bytes = tar.into_inner().unwrap();
    if name.ends_with(".gz") {
        let mut file = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
        file.write_all(&bytes).unwrap();
        file.finish().unwrap();
    } else {
        fs::write(&path, bytes).unwrap();
    }
    path
}

#[test]
fn what_a_skill_brings_is_shown_before_anything_is_written() {
    let rind = Rind::default();
    let source = review(&rind);
    let ran = install(&rind, &source, &[]).exits(1);
    assert_eq!(ran.stdout, "");
    assert_snapshot!(ran.stderr, @r"
    ? install 1 skill into [RIND_HOME]/config/skills
      review from [WORKSPACE]/from/review
        Reviews a change.
        who may start it: model and user
        not these tools: write_file
        side effects: filesystem
        asks to be spared questions about: bash(git diff *)
        trust: user
        scripts: scripts/run.sh
        files: 2, 179 B
      a skill is text that the model follows; nothing of it runs by itself, and its commands ask like all others, except those that it is spared
    error: nothing is installed, because there is no terminal to ask at; read the above and add --yes
    ");
    assert!(!skills(&rind).join("review").exists());

    let ran = install(&rind, &source, &["--yes"]).exits(0);
    assert_snapshot!(ran.stdout, @"✓ review installed in [RIND_HOME]/config/skills/review from [WORKSPACE]/from/review");
    let place = skills(&rind).join("review");
    assert_eq!(fs::read_to_string(place.join("SKILL.md")).unwrap(), REVIEW);
    let mode = fs::metadata(place.join("scripts/run.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "nothing is a program by itself");
    let lock = fs::read_to_string(rind.home().join("config/skills.lock.toml")).unwrap();
    assert!(
        lock.contains("[skills.review]\nsource = \"") && lock.contains("digest = \"blake3:"),
        "{lock}"
    );

    let ran = install(&rind, &source, &[]).exits(0);
    assert!(
        ran.stdout.contains("is installed already"),
        "{}",
        ran.stdout
    );
    assert_snapshot!(rind.run(&["skill", "list"]).exits(0).stdout, @r"
    ✓ review user  model and user 28 characters
      Reviews a change.
      installed from [WORKSPACE]/from/review
    ");
    let skill = shown(&rind, "review");
    assert_eq!(
        (&skill["trust"], &skill["installed"]["is_edited"]),
        (&"user".into(), &false.into())
    );
}

#[test]
fn somebody_at_the_terminal_says_yes_or_no() {
    let rind = Rind::default();
    let source = review(&rind);
    let args = ["skill", "install", source.to_str().unwrap()];
    let Some(screen) = rind.at_terminal_then(&args, "true", Vec::from([step("n\n")])) else {
        return;
    };
    assert!(
        screen.contains("asks to be spared questions about: \u{1b}[1mbash(git diff *)"),
        "{screen}"
    );
    assert!(
        screen.contains("nothing is installed: you did not say yes"),
        "{screen}"
    );
    assert!(!skills(&rind).join("review").exists());
    let screen = rind.at_terminal(&args, "y\n").unwrap();
    assert!(screen.contains("installed in [RIND_HOME]"), "{screen}");
    let file = skills(&rind).join("review/SKILL.md");
    assert!(file.is_file());

    // What is edited while the question stands there is not replaced.
    fs::write(source.join("SKILL.md"), REVIEW.replace("a change", "all")).unwrap();
    let edit = || fs::write(&file, "mine").unwrap();
    let screen = rind.at_terminal_then(
        &args,
        "true",
        Vec::from([rind_tests::cli::Step {
            once: "[n]o",
            meanwhile: Box::new(edit),
            typed: "y\n",
        }]),
    );
    let screen = screen.unwrap();
    assert!(
        screen.contains("was changed since it was installed"),
        "{screen}"
    );
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

fn step(typed: &str) -> rind_tests::cli::Step<'_> {
    rind_tests::cli::Step {
        once: "[n]o",
        meanwhile: Box::new(|| {}),
        typed,
    }
}

#[test]
fn what_somebody_wrote_or_changed_is_never_replaced_and_kept_when_that_is_forced() {
    let rind = Rind::default();
    let source = review(&rind);
    let own = skills(&rind).join("review");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("SKILL.md"), "mine").unwrap();
    let ran = install(&rind, &source, &["--yes"]).exits(1);
    assert!(
        ran.stderr
            .contains("is there already and was not installed"),
        "{}",
        ran.stderr
    );
    let ran = install(&rind, &source, &["--yes", "--name", "REVIEW"]).exits(1);
    assert!(ran.stderr.contains("has the same name"), "{}", ran.stderr);
    assert_eq!(fs::read(own.join("SKILL.md")).unwrap(), b"mine");

    let ran = install(&rind, &source, &["--yes", "--force"]).exits(0);
    assert!(
        ran.stderr.contains("moves to .kept: what is there now"),
        "{}",
        ran.stderr
    );
    let kept = |text: &str| {
        let entries = fs::read_dir(skills(&rind).join(".kept")).unwrap();
        entries
            .filter(|entry| {
                fs::read_to_string(entry.as_ref().unwrap().path().join("SKILL.md")).unwrap() == text
            })
            .count()
    };
    assert_eq!(kept("mine"), 1);

    fs::write(own.join("SKILL.md"), REVIEW.to_owned() + "More.\n").unwrap();
    let list = rind.run(&["skill", "list"]).exits(0).stdout;
    assert!(
        list.contains("and changed since: its trust is that of your own"),
        "{list}"
    );
    for args in [
        &["install", source.to_str().unwrap(), "--yes"][..],
        &["remove", "review", "--yes"],
    ] {
        let ran = rind.run(&[&["skill"], args].concat()).exits(1);
        assert!(
            ran.stderr
                .contains("review was changed since it was installed"),
            "{}",
            ran.stderr
        );
    }
    rind.run(&["skill", "remove", "review", "--force"]).exits(0);
    assert!(!own.exists());
    assert_eq!(kept(&(REVIEW.to_owned() + "More.\n")), 1);
}

#[test]
fn a_later_version_of_the_same_source_replaces_it_and_another_source_does_not() {
    let rind = Rind::default();
    let source = review(&rind);
    install(&rind, &source, &["--yes"]).exits(0);
    fs::write(
        source.join("SKILL.md"),
        REVIEW.replace("a change", "changes"),
    )
    .unwrap();
    fs::remove_dir_all(source.join("scripts")).unwrap();
    let ran = install(&rind, &source, &["--yes"]).exits(0);
    assert!(
        ran.stdout.contains("replaced by other files than before"),
        "{}",
        ran.stdout
    );
    let place = skills(&rind).join("review");
    assert!(
        fs::read_to_string(place.join("SKILL.md"))
            .unwrap()
            .contains("Reviews changes.")
    );
    assert!(!place.join("scripts").exists());

    let other = folder(&rind, "other/review", &[("SKILL.md", REVIEW)]);
    let ran = install(&rind, &other, &["--yes"]).exits(1);
    assert!(
        ran.stderr.contains("was installed from") && ran.stderr.contains("--change-source"),
        "{}",
        ran.stderr
    );
    install(&rind, &other, &["--yes", "--change-source"]).exits(0);
    // One whose folder is gone is told of and put back, and what an interrupted command left is cleared away.
    fs::remove_dir_all(&place).unwrap();
    let ran = rind.run(&["skill", "list"]).exits(0);
    assert!(
        ran.stderr
            .contains("review was installed and its folder is gone"),
        "{}",
        ran.stderr
    );
    let left = skills(&rind).join(".install-left/review");
    fs::create_dir_all(&left).unwrap();
    install(&rind, &other, &["--yes"]).exits(0);
    assert!(place.join("SKILL.md").is_file() && !left.exists());
}

#[test]
fn of_a_source_with_several_skills_the_chosen_ones_are_installed() {
    let rind = Rind::default();
    let lint = "---\ndescription: Lints.\n---\nLint.\n";
    let source = folder(
        &rind,
        "pack",
        &[
            ("README.md", "x"),
            ("skills/review/SKILL.md", REVIEW),
            ("skills/review/templates/x/SKILL.md", "a template"),
            (".claude/skills/lint/SKILL.md", lint),
            ("plugins/a/skills/lint/SKILL.md", lint),
        ],
    );
    let ran = install(&rind, &source, &["--yes"]).exits(2);
    assert_snapshot!(ran.stderr, @r"
    error: [WORKSPACE]/pack has 3 skills; choose with --skill NAME, or take --all:
          lint  .claude/skills/lint
          lint  plugins/a/skills/lint
          review  skills/review
    ");
    let ran = install(&rind, &source, &["--skill", "lint", "--yes"]).exits(2);
    assert!(
        ran.stderr
            .contains("has several skills `lint`; name the folder of one"),
        "{}",
        ran.stderr
    );
    let ran = install(&rind, &source, &["--all", "--yes"]).exits(2);
    assert!(ran.stderr.contains("have one name"), "{}", ran.stderr);
    let ran = install(&rind, &source, &["--skill", "nope"]).exits(2);
    assert!(
        ran.stderr.contains("has no skill `nope`; it has:"),
        "{}",
        ran.stderr
    );
    install(
        &rind,
        &source,
        &[
            "--skill",
            "review",
            "--skill",
            ".claude/skills/lint",
            "--yes",
        ],
    )
    .exits(0);
    assert!(skills(&rind).join("review/templates/x/SKILL.md").is_file());
    install(
        &rind,
        &source,
        &[
            "--skill",
            "plugins/a/skills/lint",
            "--name",
            "lint-two",
            "--yes",
        ],
    )
    .exits(0);
    let list = rind.run(&["skill", "list"]).exits(0).stdout;
    for name in ["lint user", "lint-two user", "review user"] {
        assert!(list.contains(name), "{list}");
    }
    for (name, what) in [
        ("help", "is a command of rind"),
        ("../x", "cannot be the name"),
        ("a\u{202e}b", "folder's name"),
    ] {
        let ran = install(
            &rind,
            &source,
            &["--skill", "review", "--name", name, "--yes"],
        )
        .exits(1);
        assert!(ran.stderr.contains(what), "{name}: {}", ran.stderr);
    }
}

#[test]
fn a_project_with_a_skill_at_its_top_stays_where_it_is() {
    let rind = Rind::default();
    let text = "---\nname: it\ndescription: d\n---\nRun tools/run.py as [told](docs/use.md).\n";
    let source = folder(
        &rind,
        "project",
        &[
            ("SKILL.md", text),
            ("src/main.rs", "x"),
            ("src/lib.rs", "x"),
            ("tools/run.py", "x"),
            ("tools/other.py", "x"),
            ("docs/use.md", "x"),
            ("references/r.md", "x"),
            ("secrets.env", "x"),
        ],
    );
    commit(&source);
    let ran = install(&rind, &source, &["--yes"]).exits(0);
    assert!(
        ran.stderr
            .contains("left out: secrets.env, src/ (2 files), tools/\n"),
        "{}",
        ran.stderr
    );
    let place = skills(&rind).join("it");
    let mut files: Vec<String> = walkdir(&place);
    files.sort();
    assert_eq!(
        files,
        ["SKILL.md", "docs/use.md", "references/r.md", "tools/run.py"]
    );
}

fn walkdir(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    found
}

#[test]
fn of_a_repository_what_is_committed_is_taken_bare_or_not_and_at_any_revision() {
    let rind = Rind::default();
    let source = folder(&rind, "repo", &[("skills/review/SKILL.md", REVIEW)]);
    commit(&source);
    let first = git(&source, &["rev-parse", "HEAD"]);
    git(&source, &["tag", "--annotate", "--message=x", "v1"]);
    let second = REVIEW.replace("a change", "changes");
    fs::write(source.join("skills/review/SKILL.md"), &second).unwrap();
    git(&source, &["commit", "--quiet", "--all", "--message=y"]);
    fs::write(source.join("skills/review/SKILL.md"), "not committed").unwrap();
    let file = skills(&rind).join("review/SKILL.md");
    let read = || fs::read_to_string(&file).unwrap();

    let ran = install(&rind, &source, &["--yes"]).exits(0);
    assert_eq!(read(), second);
    assert!(
        ran.stderr.contains("what is committed was taken"),
        "{}",
        ran.stderr
    );
    for (rev, expected) in [
        ("v1", REVIEW),
        ("main", &second),
        (&first[..8], REVIEW),
        (&first, REVIEW),
        ("HEAD", &second),
    ] {
        install(&rind, &source, &["--yes", "--rev", rev]).exits(0);
        assert_eq!(read(), expected, "{rev}");
    }
    git(&source, &["pack-refs", "--all"]);
    git(&source, &["gc", "--quiet"]);
    install(&rind, &source, &["--yes", "--rev", "v1"]).exits(0);
    assert_eq!(read(), REVIEW);
    for (rev, what) in [
        ("nope", "has no branch, tag or commit `nope`"),
        ("--output=x", "is no name of a commit"),
        ("HEAD:skills", "is no name of a commit"),
        ("../../HEAD", "is no name of a commit"),
        ("0000000", "has no commit 0000000"),
    ] {
        let ran = install(&rind, &source, &["--yes", &format!("--rev={rev}")]).exits(1);
        assert!(ran.stderr.contains(what), "{rev}: {}", ran.stderr);
    }
    let bare = rind.workspace().join("bare");
    git(
        &rind.workspace(),
        &[
            "clone",
            "--quiet",
            "--bare",
            source.to_str().unwrap(),
            "bare",
        ],
    );
    install(&rind, &bare, &["--yes", "--change-source"]).exits(0);
    assert_eq!(read(), second);
    let linked = rind.workspace().join("linked");
    git(
        &source,
        &[
            "worktree",
            "add",
            "--quiet",
            "--detach",
            linked.to_str().unwrap(),
            "v1",
        ],
    );
    install(&rind, &linked, &["--yes", "--change-source"]).exits(0);
    assert_eq!(read(), REVIEW);
    // A folder within is a folder: what lies there now is taken.
    fs::write(
        source.join("skills/review/SKILL.md"),
        REVIEW.to_owned() + "Now.\n",
    )
    .unwrap();
    install(
        &rind,
        &source.join("skills/review"),
        &["--yes", "--change-source"],
    )
    .exits(0);
    assert_eq!(read(), REVIEW.to_owned() + "Now.\n");
}

#[test]
fn archives_are_read_compressed_or_not_and_a_signed_one_is_trusted_as_a_package() {
    let rind = Rind::default();
    let files = [
        ("review-1.0/SKILL.md", REVIEW),
        ("review-1.0/scripts/run.sh", "x"),
    ];
    let plain = archive(&rind, "plain.tar", &files);
    install(&rind, &plain, &["--yes"]).exits(0);
    assert_eq!(shown(&rind, "review")["trust"], "user");

    let (ours, theirs) = (key(), key());
    trust(&rind, &[("ours", &ours)]);
    let signed = archive(&rind, "signed.tar.gz", &files);
    let args = ["--yes", "--change-source"];
    let ran = install(&rind, &signed, &args).exits(1);
    assert!(ran.stderr.contains("has no signature"), "{}", ran.stderr);
    sign(&theirs, &signed);
    let ran = install(&rind, &signed, &args).exits(1);
    assert!(
        ran.stderr.contains("is not a signature of these bytes"),
        "{}",
        ran.stderr
    );
    sign(&ours, &signed);
    let ran = install(&rind, &signed, &args).exits(0);
    assert!(
        ran.stdout.contains("its trust is `package`"),
        "{}",
        ran.stdout
    );
    assert_eq!(shown(&rind, "review")["trust"], "package");
    let folder = review(&rind);
    let ran = install(&rind, &folder, &args).exits(1);
    assert!(
        ran.stderr.contains("is a folder, which cannot be signed"),
        "{}",
        ran.stderr
    );

    // The trust is in those bytes, as long as the key is there, and no other skill has it.
    let extra = skills(&rind).join("review/extra.txt");
    fs::write(&extra, "x").unwrap();
    let skill = shown(&rind, "review");
    assert_eq!(
        (&skill["trust"], &skill["installed"]["is_edited"]),
        (&"user".into(), &true.into())
    );
    fs::remove_file(extra).unwrap();
    assert_eq!(shown(&rind, "review")["trust"], "package");
    trust(&rind, &[("theirs", &theirs)]);
    assert_eq!(shown(&rind, "review")["trust"], "user");
    let lock = rind.home().join("config/skills.lock.toml");
    fs::write(&lock, "format = 1\n[what]\n").unwrap();
    trust(&rind, &[("ours", &ours)]);
    let ran = rind.run(&["skill", "list"]).exits(0);
    assert!(
        ran.stderr.contains("installed skills count as your own"),
        "{}",
        ran.stderr
    );
    assert_eq!(shown(&rind, "review")["trust"], "user");
    assert!(
        install(&rind, &signed, &args)
            .exits(1)
            .stderr
            .contains("is not a lock file")
    );
}

#[test]
fn a_link_to_a_skill_is_removed_and_not_followed() {
    let rind = Rind::default();
    let elsewhere = folder(&rind, "elsewhere", &[("SKILL.md", REVIEW)]);
    let place = skills(&rind).join("mine");
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
    let ran = rind.run(&["skill", "remove", "mine"]).exits(1);
    assert!(
        ran.stderr
            .contains("was not installed, and there is no terminal"),
        "{}",
        ran.stderr
    );
    rind.run(&["skill", "remove", "mine", "--yes"]).exits(0);
    assert!(place.symlink_metadata().is_err() && elsewhere.join("SKILL.md").is_file());
    for (name, code, what) in [
        ("mine", 2, "there is no skill `mine`"),
        ("../x", 2, "is no name of a skill"),
        (".kept", 2, "is no name"),
    ] {
        let ran = rind.run(&["skill", "remove", name, "--yes"]).exits(code);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
    // An installed one whose folder became a link to elsewhere was changed.
    install(&rind, &review(&rind), &["--yes"]).exits(0);
    let place = skills(&rind).join("review");
    fs::remove_dir_all(&place).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
    rind.run(&["skill", "remove", "review"]).exits(1);
    rind.run(&["skill", "remove", "review", "--force"]).exits(0);
    assert!(elsewhere.join("SKILL.md").is_file());
}
