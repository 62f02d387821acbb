//! `rind skill install` and `remove`: sources of every kind, and skills by hand, which are kept.

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

/// A skill that restricts tools, allows a command without a question, and has a script.
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

/// Runs git in a folder, without the settings of the user or the system.
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

/// Makes a repository of a folder and commits every file.
pub(super) fn commit(folder: &Path) {
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message=x"]);
}

/// An archive of these files.
pub(super) fn archive(rind: &Rind, name: &str, files: &[(&str, &str)]) -> PathBuf {
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
        wants to skip questions about: bash(git diff *)
        trust: user
        scripts: scripts/run.sh
        files: 2, 179 B
      a skill is text that the model follows; nothing in it runs by itself, and its commands ask like all others, except those listed as skipping questions
    error: nothing is installed, because there is no terminal to ask at; read the above and pass --yes
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
        screen.contains("wants to skip questions about: \u{1b}[1mbash(git diff *)"),
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

    // A file that is edited while the question is open is not replaced.
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
        ran.stderr.contains("already exists and was not installed"),
        "{}",
        ran.stderr
    );
    let ran = install(&rind, &source, &["--yes", "--name", "REVIEW"]).exits(1);
    assert!(ran.stderr.contains("has the same name"), "{}", ran.stderr);
    assert_eq!(fs::read(own.join("SKILL.md")).unwrap(), b"mine");

    let ran = install(&rind, &source, &["--yes", "--force"]).exits(0);
    assert!(
        ran.stderr.contains("moves to .kept: the existing skill"),
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
        list.contains("and changed since: it is trusted like your own skills"),
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
        ran.stdout.contains("replaced by different files"),
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
    // A missing folder is reported and restored, and files of an interrupted command are removed.
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
    error: [WORKSPACE]/pack has 3 skills; choose one with --skill NAME, or pass --all:
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
    // Only the skill whose name is unique is installed.
    let ran = install(&rind, &source, &["--all", "--yes"]).exits(1);
    assert!(ran.stderr.contains("have the same name"), "{}", ran.stderr);
    assert!(ran.stdout.contains("review installed in"), "{}", ran.stdout);
    rind.run(&["skill", "remove", "review"]).exits(0);
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
            .contains("left out: secrets.env, src/ (2 files), tools/ (--whole installs"),
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
        ran.stderr.contains("the committed files were used"),
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
        ("--output=x", "is not a revision"),
        ("HEAD:skills", "is not a revision"),
        ("../../HEAD", "is not a revision"),
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
    // A folder inside a repository is read from disk, not from a commit.
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
    assert!(ran.stderr.contains("does not match"), "{}", ran.stderr);
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
        ran.stderr.contains("is a folder and cannot be signed"),
        "{}",
        ran.stderr
    );

    // Trust covers exactly the signed bytes of this skill, while the key is configured.
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
        ran.stderr
            .contains("all are treated like installed skills whose files were edited"),
        "{}",
        ran.stderr
    );
    assert_eq!(shown(&rind, "review")["trust"], "user");
    assert!(
        install(&rind, &signed, &args)
            .exits(1)
            .stderr
            .contains("is not a valid lock file")
    );
}

#[test]
fn without_a_lock_file_that_can_be_read_nothing_there_is_the_users_own() {
    let rind = Rind::default();
    let text = REVIEW.replace("allowed-tools", "model: large\nallowed-tools");
    let source = folder(&rind, "from/review", &[("SKILL.md", &text)]);
    install(&rind, &source, &["--yes"]).exits(0);
    let lock = rind.home().join("config/skills.lock.toml");
    let written = fs::read_to_string(&lock).unwrap();
    let newer = written.replace("format = 1", "format = 2") + "[skills.review.more]\n";
    for (text, what) in [
        (newer.as_str(), "was written by a newer rind"),
        ("format = 1\n[", "is not a valid lock file"),
        ("format = 0\n", "has the unknown format 0"),
    ] {
        fs::write(&lock, text).unwrap();
        let ran = rind.run(&["skill", "list"]).exits(0);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        assert!(
            ran.stdout.contains("changed since"),
            "{what}: {}",
            ran.stdout
        );
        let skill = shown(&rind, "review");
        assert_eq!(skill["installed"]["is_edited"], true, "{skill}");
        // The model that an edited skill requests has no effect either.
        let ran = rind.run(&["skill", "check", "review"]);
        assert!(
            ran.stdout.contains("`model: large` has no effect"),
            "{}",
            ran.stdout
        );
        let ran = install(&rind, &source, &["--yes"]).exits(1);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(&lock).unwrap(), text);
    }
}

#[test]
fn nothing_that_a_skill_may_do_is_left_out_of_what_is_shown() {
    let rind = Rind::default();
    let spares: Vec<String> = (0..31).map(|n| format!("Bash(program-{n:02} *)")).collect();
    let tools: Vec<String> = (0..40).map(|n| format!("tool_number_{n:02}")).collect();
    let text = format!(
        "---\nname: other-name\ndescription: d\nwhen_to_use: Always.\nallowed-tools: {spares:?}\ntools:\n  allow: {tools:?}\n  \
         deny: {tools:?}\nlibrary_depends: {tools:?}\ncontext: fork\ninteraction: conversational\npaths: [\"*.rs\"]\nrequires: \
         {{bins: [jq], any_bins: [a, b], env: [HOME]}}\n---\nx\n"
    );
    let source = folder(&rind, "from/review", &[("SKILL.md", &text)]);
    let ran = install(&rind, &source, &["--yes"]).exits(0);
    for what in [
        "also called: other-name",
        "when to use it: Always.",
        "runs: in a subagent without the conversation",
        "stays: until you end it",
        "offered for files: *.rs",
        "needs: jq; a or b; HOME",
        "only these tools: tool_number_00, ",
        "not these tools: tool_number_00, ",
        "depends on plugins: tool_number_00, ",
    ] {
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    }
    assert_eq!(ran.stderr.matches(", tool_number_39\n").count(), 3);
    let shown = rind.run(&["skill", "show", "review"]).exits(0).stdout;
    assert_eq!(shown.matches(", tool_number_39\n").count(), 3, "{shown}");
    for n in 0..31 {
        let spare = format!("wants to skip questions about: bash(program-{n:02} *)\n");
        assert!(ran.stderr.contains(&spare), "{}", ran.stderr);
        assert!(shown.contains(&spare), "{shown}");
    }
}

#[test]
fn what_a_project_has_beside_a_skill_stays_there_unless_all_is_wanted() {
    let rind = Rind::default();
    let text = "---\ndescription: d\n---\nRead FORMS.md and the `themes/` folder.\n";
    let files = [
        ("skills/one/SKILL.md", text),
        ("skills/one/forms.md", "x"),
        ("skills/one/themes/a/b.css", "x"),
        ("skills/one/scripts/s.py", "x"),
        ("skills/one/README.md", "x"),
        ("skills/one/tests/t.toml", "x"),
        ("skills/one/build.zig", "x"),
        ("skills/one/lib/main.zig", "x"),
        ("skills/one/node_modules/x/y.js", "x"),
        ("skills/two/SKILL.md", text),
        ("skills/two/LICENCE.txt", "x"),
        ("skills/two/LICENSE.txt", "x"),
        ("skills/two/README.md", "x"),
        ("skills/two/tests/t.toml", "x"),
    ];
    let source = folder(&rind, "repo", &files);
    fs::remove_file(source.join("skills/two/LICENCE.txt")).unwrap();
    let of = |name: &str| {
        let mut files = walkdir(&skills(&rind).join(name));
        files.sort();
        files
    };
    let reduced = ["SKILL.md", "forms.md", "scripts/s.py", "themes/a/b.css"];
    for is_committed in [false, true] {
        if is_committed {
            commit(&source);
        }
        let ran = install(&rind, &source, &["--yes", "--skill", "one"]).exits(0);
        assert_eq!(of("one"), reduced);
        assert!(
            ran.stderr.contains(
                "left out: README.md, build.zig, lib/, node_modules/, tests/ (--whole installs all except hidden ones)"
            ) || is_committed,
            "{}",
            ran.stderr
        );
    }
    install(&rind, &source, &["--yes", "--skill", "two"]).exits(0);
    assert_eq!(
        of("two"),
        ["LICENSE.txt", "README.md", "SKILL.md", "tests/t.toml"]
    );
    install(&rind, &source, &["--yes", "--skill", "one", "--whole"]).exits(0);
    assert_eq!(of("one").len(), 8, "{:?}", of("one"));
}

#[test]
fn hidden_folders_of_a_source_are_not_looked_into_unless_they_hold_skills() {
    let rind = Rind::default();
    let source = folder(
        &rind,
        "pack",
        &[
            (".claude/skills/review/SKILL.md", REVIEW),
            (".venv/skill/SKILL.md", REVIEW),
        ],
    );
    let deep = format!(".venv/{}", "a/".repeat(20));
    for deep in [deep, format!(".claude/{}", "b/".repeat(20))] {
        fs::create_dir_all(source.join(&deep)).unwrap();
        fs::write(source.join(&deep).join("x"), "x").unwrap();
    }
    let packed = rind.workspace().join("pack.tar.gz");
    let made = Command::new("tar")
        .args(["-czf", packed.to_str().unwrap(), "pack"])
        .current_dir(rind.workspace())
        .status();
    assert!(made.unwrap().success());
    for is_committed in [false, true] {
        if is_committed {
            commit(&source);
        }
        install(&rind, &source, &["--yes"]).exits(0);
    }
    install(&rind, &packed, &["--yes", "--change-source"]).exits(0);
}

#[test]
fn the_top_of_a_source_is_chosen_as_the_list_calls_it() {
    let rind = Rind::default();
    let source = folder(
        &rind,
        "top",
        &[("SKILL.md", REVIEW), ("skills/a/SKILL.md", REVIEW)],
    );
    for (word, name) in [(".", "top"), ("./skills/a/", "a")] {
        install(&rind, &source, &["--yes", "--skill", word]).exits(0);
        assert!(
            skills(&rind).join(name).join("SKILL.md").is_file(),
            "{word}"
        );
    }
}

#[test]
fn what_is_not_committed_is_said_to_be_missing_there() {
    let rind = Rind::default();
    let source = folder(&rind, "repo", &[("README.md", "x")]);
    commit(&source);
    folder(&rind, "repo", &[("review/SKILL.md", REVIEW)]);
    let head = git(&source, &["rev-parse", "HEAD"]);
    let ran = install(&rind, &source, &["--yes"]).exits(2);
    let told = format!("has no skill in the commit {}", &head[..12]);
    assert!(ran.stderr.contains(&told), "{}", ran.stderr);
    // Any name that git allows for a branch can be installed.
    git(&source, &["add", "--all"]);
    git(&source, &["commit", "--quiet", "--message=y"]);
    git(&source, &["branch", "fix#1/\u{fc}ber,(a)"]);
    let rev = "--rev=fix#1/\u{fc}ber,(a)";
    install(&rind, &source, &["--yes", rev]).exits(0);
}

#[test]
fn a_repository_with_sha256_is_read_by_short_hashes_too() {
    let rind = Rind::default();
    let source = folder(&rind, "repo", &[("review/SKILL.md", REVIEW)]);
    git(&source, &["init", "--quiet", "--object-format=sha256"]);
    commit(&source);
    let head = git(&source, &["rev-parse", "HEAD"]);
    assert_eq!(head.len(), 64);
    for rev in [&head, &head[..9], "HEAD"] {
        install(&rind, &source, &["--yes", "--rev", rev]).exits(0);
    }
    let lock = fs::read_to_string(rind.home().join("config/skills.lock.toml")).unwrap();
    assert!(lock.contains(&head), "{lock}");
}

#[test]
fn the_signature_of_a_link_lies_beside_it_or_beside_the_file() {
    let rind = Rind::default();
    let ours = key();
    trust(&rind, &[("ours", &ours)]);
    fs::create_dir(rind.workspace().join("store")).unwrap();
    let file = archive(&rind, "store/x.tar.gz", &[("review/SKILL.md", REVIEW)]);
    let link = rind.workspace().join("link.tar.gz");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    sign(&ours, &link);
    assert!(!file.with_file_name("x.tar.gz.minisig").exists());
    install(&rind, &link, &["--yes"]).exits(0);
    fs::rename(
        link.with_file_name("link.tar.gz.minisig"),
        file.with_file_name("x.tar.gz.minisig"),
    )
    .unwrap();
    install(&rind, &link, &["--yes"]).exits(0);
}

#[test]
fn a_read_only_folder_of_skills_stays_read_only() {
    let rind = Rind::default();
    let all = skills(&rind);
    fs::create_dir_all(&all).unwrap();
    fs::set_permissions(&all, PermissionsExt::from_mode(0o555)).unwrap();
    // The result is not checked because a superuser can write to the folder.
    install(&rind, &review(&rind), &["--yes"]);
    let mode = fs::metadata(&all).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o500);
    fs::set_permissions(&all, PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_command_that_waits_for_another_says_so_and_a_question_leaves_no_temporary_files() {
    let rind = Rind::default();
    let source = folder(&rind, "repo", &[("review/SKILL.md", REVIEW)]);
    commit(&source);
    let temporary = rind.workspace().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let first = format!(
        "stty cols 200 rows 50; export TMPDIR={}",
        temporary.display()
    );
    let waits = rind.home().join("waiting");
    let look = || {
        let left: Vec<_> = fs::read_dir(&temporary).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        let mut other = rind.command(&["skill", "remove", "review"]);
        let err = fs::File::create(&waits).unwrap();
        let mut child = other.stderr(err).spawn().unwrap();
        while !fs::read_to_string(&waits).unwrap().contains("waiting for") {
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(child.try_wait().unwrap().is_none(), "it did not wait");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let args = ["skill", "install", source.to_str().unwrap()];
    let step = rind_tests::cli::Step {
        once: "[n]o",
        meanwhile: Box::new(look),
        typed: "y\n",
    };
    let Some(screen) = rind.at_terminal_with(&args, &first, vec![step]) else {
        return;
    };
    assert!(screen.contains("installed in [RIND_HOME]"), "{screen}");
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
        ("../x", 2, "is not a name of a skill"),
        (".kept", 2, "is not a name"),
    ] {
        let ran = rind.run(&["skill", "remove", name, "--yes"]).exits(code);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
    // An installed skill counts as edited if its folder was replaced by a link.
    install(&rind, &review(&rind), &["--yes"]).exits(0);
    let place = skills(&rind).join("review");
    fs::remove_dir_all(&place).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
    rind.run(&["skill", "remove", "review"]).exits(1);
    rind.run(&["skill", "remove", "review", "--force"]).exits(0);
    assert!(elsewhere.join("SKILL.md").is_file());
}
