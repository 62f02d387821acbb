//! Hostile sources of skills: each is refused, none runs a program, and no file is left.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use rind_tests::cli::Rind;
use tar::{EntryType, Header};

use super::skill_install::{REVIEW, commit, folder, git, install, skills};

/// Checks that a source is refused with this reason, and that no file is left.
fn refused(rind: &Rind, source: &Path, what: &str) {
    let ran = install(rind, source, &["--yes"]);
    assert_eq!(ran.code, Some(1), "{what}: {} {}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    let left: Vec<_> = fs::read_dir(skills(rind)).into_iter().flatten().collect();
    assert!(left.is_empty(), "{what}: {left:?}");
}

/// An archive of the skill with one more entry, whose name, target and mode are not normalized.
fn archive(rind: &Rind, name: &str, kind: EntryType, target: &str, mode: u32) -> PathBuf {
    let path = rind.workspace().join("review.tar.gz");
    let file = fs::File::create(&path).unwrap();
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
    let mut add = |name: &str, kind, target: &str, mode, content: &[u8]| {
        let mut header = Header::new_gnu();
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    };
    add(
        "review/SKILL.md",
        EntryType::Regular,
        "",
        0o644,
        REVIEW.as_bytes(),
    );
    add(name, kind, target, mode, b"");
    tar.into_inner().unwrap().finish().unwrap();
    path
}

#[test]
fn archives_that_lead_out_of_themselves_or_hold_no_plain_files_are_refused() {
    let rind = Rind::default();
    for (name, kind, target, mode, what) in [
        (
            "../x",
            EntryType::Regular,
            "",
            0o644,
            "a path with `..` is not allowed",
        ),
        (
            "review/../../x",
            EntryType::Regular,
            "",
            0o644,
            "a path with `..` is not allowed",
        ),
        (
            "/tmp/x",
            EntryType::Regular,
            "",
            0o644,
            "an absolute path is not allowed",
        ),
        (
            "review/a",
            EntryType::Symlink,
            "/etc/passwd",
            0o644,
            "is a link",
        ),
        (
            "review/a",
            EntryType::Symlink,
            "SKILL.md",
            0o644,
            "is a link",
        ),
        (
            "review/a",
            EntryType::Link,
            "review/SKILL.md",
            0o644,
            "is a link",
        ),
        (
            "review/scripts",
            EntryType::Symlink,
            "/etc",
            0o644,
            "is a link",
        ),
        (
            "review/a",
            EntryType::Fifo,
            "",
            0o644,
            "neither a file nor a folder",
        ),
        (
            "review/a",
            EntryType::Char,
            "",
            0o644,
            "neither a file nor a folder",
        ),
        (
            "review/a",
            EntryType::Block,
            "",
            0o644,
            "neither a file nor a folder",
        ),
        ("review/a", EntryType::Regular, "", 0o4755, "setuid"),
        ("review/a", EntryType::Regular, "", 0o2755, "setuid"),
        ("review/SKILL.md", EntryType::Regular, "", 0o644, "twice"),
        (
            "review/a\n",
            EntryType::Regular,
            "",
            0o644,
            "control characters",
        ),
    ] {
        refused(&rind, &archive(&rind, name, kind, target, mode), what);
    }
    let deep = format!("review/{}x", "a/".repeat(17));
    refused(
        &rind,
        &archive(&rind, &deep, EntryType::Regular, "", 0o644),
        "deeper than",
    );
    // A link outside of the skill's folder is ignored.
    let path = archive(&rind, "AGENTS.md", EntryType::Symlink, "CLAUDE.md", 0o644);
    install(&rind, &path, &["--yes"]).exits(0);
    let files: Vec<_> = fs::read_dir(skills(&rind).join("review"))
        .unwrap()
        .collect();
    assert_eq!(files.len(), 1);
}

#[test]
fn archives_that_are_torn_too_large_or_something_else_are_refused() {
    let rind = Rind::default();
    let path = archive(&rind, "review/a", EntryType::Regular, "", 0o644);
    let whole = fs::read(&path).unwrap();
    for n_bytes in [3, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..n_bytes]).unwrap();
        refused(&rind, &path, "cannot read");
    }
    for (bytes, what) in [
        (&b"PK\x03\x04rest"[..], "is a zip file"),
        (b"text", "is not a source of skills"),
        (b"", "is not a source of skills"),
    ] {
        fs::write(&path, bytes).unwrap();
        refused(&rind, &path, what);
    }
    let tar = |entries: usize, n_bytes: usize| {
        let file = fs::File::create(&path).unwrap();
        let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, bytes).unwrap();
        };
        add("review/SKILL.md", REVIEW.as_bytes());
        let bytes = vec![0; n_bytes];
        (0..entries).for_each(|n| add(&format!("review/assets/{n}"), &bytes));
        tar.into_inner().unwrap().finish().unwrap();
    };
    tar(100_000, 0);
    refused(&rind, &path, "it has more than 10000 entries");
    tar(2_001, 0);
    refused(&rind, &path, "it has more than 2000 files");
    tar(1, 300 << 20);
    assert!(fs::metadata(&path).unwrap().len() < 4 << 20);
    refused(&rind, &path, "it has more than 256 MiB");
    tar(1, 33 << 20);
    refused(&rind, &path, "it has more than 32 MiB");
}

#[test]
fn archives_without_an_end_or_with_more_behind_it_are_refused() {
    let rind = Rind::default();
    let plain = |files: &[(&str, &str)], is_ended: bool| {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, text) in files {
            let mut header = Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        let mut bytes = tar.into_inner().unwrap();
        bytes.truncate(bytes.len() - if is_ended { 0 } else { 1024 });
        bytes
    };
    let packed = |bytes: &[u8]| {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(bytes).unwrap();
        file.finish().unwrap()
    };
    let mut side = ("review/SKILL.json", r#"{"tools": {"deny": ["bash"]}}"#);
    let zeros = "\0".repeat(512);
    let text = ("review/SKILL.md", REVIEW);
    let path = rind.workspace().join("review.tar");
    let torn = "its end-of-archive blocks are missing";
    for last in [side, ("review/SKILL.json", &zeros)] {
        side = last;
        let cut = plain(&[text, side], false);
        for bytes in [&cut, &plain(&[text], false)] {
            for bytes in [bytes.clone(), packed(bytes)] {
                fs::write(&path, bytes).unwrap();
                refused(&rind, &path, torn);
            }
        }
    }
    // A second gzip member continues the archive, as it does for `tar`.
    let members = [
        packed(&plain(&[text], false)),
        packed(&plain(&[side], false)),
    ]
    .concat();
    fs::write(&path, members).unwrap();
    refused(&rind, &path, torn);
    let behind = "data after its end";
    let other = plain(&[side], true);
    for bytes in [
        [plain(&[text], true), other.clone()].concat(),
        [plain(&[text], true), vec![0; 99_999], b"x".to_vec()].concat(),
    ] {
        for bytes in [bytes.clone(), packed(&bytes)] {
            fs::write(&path, bytes).unwrap();
            refused(&rind, &path, behind);
        }
    }
    let members = [packed(&plain(&[text], true)), packed(&other)].concat();
    fs::write(&path, members).unwrap();
    refused(&rind, &path, behind);
    fs::write(
        &path,
        [packed(&plain(&[text], true)), b"text".to_vec()].concat(),
    )
    .unwrap();
    refused(&rind, &path, "the archive is truncated");
    // Two members that together hold one complete archive are both read.
    let members = [
        packed(&plain(&[text], false)),
        packed(&plain(&[("review/a", "a")], true)),
        packed(&[0; 4096]),
    ];
    fs::write(&path, members.concat()).unwrap();
    install(&rind, &path, &["--yes"]).exits(0);
    assert!(skills(&rind).join("review/a").is_file());
}

#[test]
fn archives_with_settings_that_programs_read_in_different_ways_are_refused() {
    let rind = Rind::default();
    let path = rind.workspace().join("review.tar");
    let make = |kind: EntryType, key: &str| {
        let mut tar = tar::Builder::new(Vec::new());
        let record = |key: &str, value: &str| {
            let rest = format!(" {key}={value}\n");
            format!("{}{rest}", rest.len() + 2)
        };
        let settings = record(key, "review/other");
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(settings.len() as u64);
        header.set_cksum();
        tar.append(&header, settings.as_bytes()).unwrap();
        let mut header = Header::new_ustar();
        header.set_size(REVIEW.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, "review/SKILL.md", REVIEW.as_bytes())
            .unwrap();
        fs::write(&path, tar.into_inner().unwrap()).unwrap();
    };
    for key in ["path", "size", "linkpath", "GNU.sparse.name"] {
        make(EntryType::XGlobalHeader, key);
        refused(&rind, &path, "for all its entries");
    }
    for key in ["GNU.sparse.name", "GNU.sparse.map"] {
        make(EntryType::XHeader, key);
        refused(&rind, &path, "is a sparse file (GNU.sparse)");
    }
    make(EntryType::XGlobalHeader, "comment");
    install(&rind, &path, &["--yes"]).exits(0);
    // A sparse file as GNU tar writes it.
    let source = folder(&rind, "sparse", &[("SKILL.md", REVIEW)]);
    let holes = fs::File::create(source.join("holes")).unwrap();
    holes.set_len(1 << 20).unwrap();
    let made = Command::new("tar")
        .args(["--sparse", "--format=posix", "-cf"])
        .args([path.to_str().unwrap(), "sparse"])
        .current_dir(rind.workspace())
        .status()
        .unwrap();
    assert!(made.success());
    rind.run(&["skill", "remove", "review"]).exits(0);
    refused(&rind, &path, "is a sparse file (GNU.sparse)");
}

#[test]
fn folders_with_links_devices_and_too_much_are_refused() {
    let rind = Rind::default();
    let source = folder(
        &rind,
        "review",
        &[("SKILL.md", REVIEW), ("references/a.md", "a")],
    );
    let path = source.join("references/b");
    symlink("/etc/passwd", &path).unwrap();
    refused(&rind, &source, "`references/b` is a link");
    fs::remove_file(&path).unwrap();
    symlink("/etc", &path).unwrap();
    refused(&rind, &source, "`references/b` is a link");
    fs::remove_file(&path).unwrap();
    Command::new("mkfifo").arg(&path).status().unwrap();
    refused(
        &rind,
        &source,
        "`references/b` is neither a file nor a folder",
    );
    fs::remove_file(&path).unwrap();
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
    refused(&rind, &source, "setuid");
    fs::remove_file(&path).unwrap();
    for n in 0..2_000 {
        fs::write(source.join(format!("references/{n}")), "").unwrap();
    }
    refused(&rind, &source, "it has more than 2000 files");
    fs::remove_dir_all(source.join("references")).unwrap();
    fs::create_dir(source.join("assets")).unwrap();
    let large = fs::File::create(source.join("assets/large")).unwrap();
    large.set_len(1 << 40).unwrap();
    refused(&rind, &source, "it has more than 32 MiB");
    fs::remove_file(source.join("assets/large")).unwrap();
    fs::remove_file(source.join("SKILL.md")).unwrap();
    symlink("/etc/passwd", source.join("SKILL.md")).unwrap();
    let ran = install(&rind, &source, &["--yes"]).exits(2);
    assert!(ran.stderr.contains("has no skill"), "{}", ran.stderr);
}

#[test]
fn what_does_not_parse_is_not_installed() {
    let rind = Rind::default();
    for (text, what) in [
        ("no front matter", "there is no front matter"),
        ("---\ndescription: d\n", "the front matter is not closed"),
        (
            "---\nskill_format: corteza.skill/v2\ndescription: d\n---\nx\n",
            "which this program cannot read",
        ),
        ("---\na: &x 1\nb: *x\n---\nx\n", "references"),
    ] {
        let source = folder(&rind, "review", &[("SKILL.md", text)]);
        refused(&rind, &source, what);
    }
    // A skill that a fault only restricts is installed, and the output shows the restriction.
    let source = folder(
        &rind,
        "review",
        &[(
            "SKILL.md",
            "---\ndescription: d\nallowed_tools: Read\n---\nx\n",
        )],
    );
    let ran = install(&rind, &source, &["--yes"]).exits(0);
    assert!(
        ran.stderr.contains("who may start it: user only")
            && ran.stderr.contains("unknown key `allowed_tools`"),
        "{}",
        ran.stderr
    );
}

/// Adds settings and hooks to a repository, each of which would create `mark` if git ran it.
fn booby_trap(repository: &Path, mark: &Path) {
    let run = format!("touch {}", mark.display());
    // `ext::` splits its command at spaces, so the path in it must not be quoted.
    let url = format!("ext::touch {}", mark.display());
    let config = format!(
        "\n[core]\n\tfsmonitor = {run}\n\thooksPath = {hooks}\n\tsshCommand = {run}\n\tpager = {run}\n\talternateRefsCommand = \
         {run}\n\tgitProxy = {run}\n\tattributesFile = {attributes}\n[filter \"x\"]\n\tsmudge = {run}\n\tclean = {run}\n\tprocess = \
         {run}\n\trequired = true\n[diff \"x\"]\n\ttextconv = {run}\n\tcommand = {run}\n[alias]\n\tls-tree = !{run}\n\tcat-file = \
         !{run}\n\trev-parse = !{run}\n[extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\turl = {url}\n\tpromisor = true\n\tuploadpack = {run}\n[protocol \"ext\"]\n\tallow = always\n[include]\n\tpath = \
         /dev/null\n",
        hooks = repository.join(".git/hooks").display(),
        attributes = repository.join(".gitattributes").display(),
    );
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(repository.join(".git/config"))
        .unwrap();
    file.write_all(config.as_bytes()).unwrap();
    for hook in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "fsmonitor-watchman",
        "pre-auto-gc",
        "post-merge",
    ] {
        let path = repository.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{run}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn nothing_that_a_repository_names_is_run() {
    let rind = Rind::default();
    let source = folder(
        &rind,
        "repo",
        &[
            ("skills/review/SKILL.md", REVIEW),
            ("skills/review/assets/a.txt", "$Id$\r\n"),
            (".gitattributes", "* filter=x diff=x export-subst text\n"),
        ],
    );
    git(
        &rind.workspace(),
        &["init", "--quiet", "--initial-branch=main", "repo"],
    );
    git(
        &source,
        &["-c", "core.autocrlf=false", "add", "--all", "skills"],
    );
    git(&source, &["add", ".gitattributes"]);
    git(&source, &["commit", "--quiet", "--message=x"]);
    let object = git(&source, &["rev-parse", "HEAD:skills/review/SKILL.md"]);
    let mark = rind.workspace().join("it-ran");
    booby_trap(&source, &mark);
    install(&rind, &source, &["--yes"]).exits(0);
    assert!(!mark.exists());
    assert!(
        fs::read_to_string(skills(&rind).join("review/assets/a.txt"))
            .unwrap()
            .starts_with("$Id$")
    );
    rind.run(&["skill", "remove", "review"]).exits(0);
    // A missing object is not fetched from the remote that the repository names.
    let missing = source
        .join(".git/objects")
        .join(&object[..2])
        .join(&object[2..]);
    fs::remove_file(missing).unwrap();
    // The trap works: git itself, run in the repository, executes the remote's command.
    let tried = Command::new("git")
        .args(["-c", "core.fsmonitor=false", "cat-file", "blob", &object])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(&source)
        .output()
        .unwrap();
    assert!(!tried.status.success() && mark.exists());
    fs::remove_file(&mark).unwrap();
    refused(&rind, &source, "objects of the commit are missing");
    assert!(!mark.exists());
}

/// Returns a function that replaces the content of an object by that of another one.
fn overwrite(repository: &Path, object: &str, other: &str) -> impl FnOnce() {
    let path = |name: &str| {
        let objects = repository.join(".git/objects");
        objects.join(&name[..2]).join(&name[2..])
    };
    let (to, before) = (path(object), fs::read(path(object)).unwrap());
    let put = |to: &Path, bytes: &[u8]| {
        fs::remove_file(to).unwrap();
        fs::write(to, bytes).unwrap();
    };
    put(&to, &fs::read(path(other)).unwrap());
    move || put(&to, &before)
}

#[test]
fn objects_of_a_repository_that_are_not_what_their_names_say_are_refused() {
    for format in ["sha1", "sha256"] {
        let rind = Rind::default();
        let source = folder(&rind, "repo", &[("skills/review/SKILL.md", REVIEW)]);
        let object_format = format!("--object-format={format}");
        git(&source, &["init", "--quiet", &object_format]);
        commit(&source);
        let names = ["HEAD", "HEAD^{tree}", "HEAD:skills", "HEAD:skills/review"];
        let file = "HEAD:skills/review/SKILL.md";
        let name = |rev: &str| git(&source, &["rev-parse", rev]);
        let honest: Vec<String> = names.iter().chain([&file]).map(|rev| name(rev)).collect();
        let loose = REVIEW.replace("deny: [write_file]", "deny: []");
        fs::write(source.join("skills/review/SKILL.md"), loose).unwrap();
        git(&source, &["commit", "--quiet", "--all", "--message=y"]);
        let other: Vec<String> = names.iter().chain([&file]).map(|rev| name(rev)).collect();
        for (kind, (object, other)) in ["commit", "tree", "tree", "tree", "blob"]
            .into_iter()
            .zip(honest.iter().zip(&other))
        {
            let undo = overwrite(&source, object, other);
            let ran = install(&rind, &source, &["--yes", "--rev", &honest[0]]).exits(1);
            let told = format!("the content of the {kind} {object} does not match its hash");
            assert!(
                ran.stderr.contains(&told)
                    || (kind == "commit" && ran.stderr.contains("has no commit")),
                "{told}: {}",
                ran.stderr
            );
            undo();
        }
        install(&rind, &source, &["--yes", "--rev", &honest[0]]).exits(0);
    }
}

/// Runs git with this standard input.
fn fed(folder: &Path, args: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Writes a tree object with unchecked entries `(MODE, NAME, HASH)`.
fn tree(repo: &Path, entries: &[(&str, &str, &str)]) -> String {
    let mut bytes = Vec::new();
    for (mode, name, hash) in entries {
        bytes.extend(format!("{mode} {name}\0").into_bytes());
        let pairs = hash.as_bytes().chunks(2);
        bytes.extend(
            pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()),
        );
    }
    fed(
        repo,
        &["hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        &bytes,
    )
}

#[test]
fn repositories_with_links_submodules_paths_that_lead_out_and_too_much_are_refused() {
    let rind = Rind::default();
    let source = folder(&rind, "repo", &[("review/SKILL.md", REVIEW)]);
    commit(&source);
    let text = fed(
        &source,
        &["hash-object", "-w", "--stdin"],
        REVIEW.as_bytes(),
    );
    let link = fed(&source, &["hash-object", "-w", "--stdin"], b"/etc/passwd");
    let head = git(&source, &["rev-parse", "HEAD"]);
    let commit_of = |tree: &str| {
        let commit = git(&source, &["commit-tree", tree, "-m", "x"]);
        git(&source, &["update-ref", "HEAD", &commit]);
    };
    let skill = ("100644", "SKILL.md", text.as_str());
    let in_skill = |entry: (&str, &str, &str)| {
        let mut entries = vec![skill, entry];
        entries.sort_by_key(|(_, name, _)| name.to_owned());
        let inner = tree(&source, &entries);
        commit_of(&tree(&source, &[("40000", "review", &inner)]));
    };
    in_skill(("120000", "license-passwd", &link));
    refused(&rind, &source, "`review/license-passwd` is a link");
    in_skill(("160000", "license-sub", &head));
    refused(&rind, &source, "`review/license-sub` is a submodule");
    in_skill(("100644", "..", &text));
    refused(&rind, &source, "a path with `..` is not allowed");
    let inner = tree(&source, &[skill]);
    commit_of(&tree(
        &source,
        &[("100644", "/etc/x", &text), ("40000", "review", &inner)],
    ));
    refused(&rind, &source, "an absolute path is not allowed");

    let many: String = (0..60_000)
        .map(|n| format!("100644 blob {text}\t{n}\n"))
        .collect();
    let many = fed(&source, &["mktree"], many.as_bytes());
    commit_of(&tree(
        &source,
        &[("40000", "many", &many), ("40000", "review", &inner)],
    ));
    refused(&rind, &source, "more than 50000 files");
    // Each level contains the one below ten times: a billion files from a few kilobytes.
    let mut bomb = tree(&source, &[skill]);
    for _ in 0..9 {
        let entries: Vec<(&str, String)> = (0..10).map(|n| ("40000", n.to_string())).collect();
        let entries: Vec<_> = entries
            .iter()
            .map(|(mode, name)| (*mode, name.as_str(), bomb.as_str()))
            .collect();
        bomb = tree(&source, &entries);
    }
    commit_of(&bomb);
    refused(&rind, &source, "is too large");
    let large = vec![b'x'; 33 << 20];
    let large = fed(&source, &["hash-object", "-w", "--stdin"], &large);
    in_skill(("100644", "license-large", &large));
    refused(&rind, &source, "it has more than 32 MiB");
}

#[test]
fn a_file_that_is_no_text_comes_whole_out_of_a_repository() {
    let rind = Rind::default();
    let source = folder(&rind, "repo", &[("review/SKILL.md", REVIEW)]);
    let bytes = b"\xff\n".repeat(200_000);
    fs::create_dir(source.join("review/assets")).unwrap();
    fs::write(source.join("review/assets/logo.png"), &bytes).unwrap();
    commit(&source);
    let path = source.to_str().unwrap();
    rind.run(&["skill", "install", path, "--yes"]).exits(0);
    let installed = rind.home().join("config/skills/review/assets/logo.png");
    assert!(fs::read(installed).unwrap() == bytes);
}

#[test]
fn repositories_that_are_not_whole_or_borrow_from_others_are_refused() {
    let rind = Rind::default();
    let source = folder(&rind, "repo", &[("review/SKILL.md", REVIEW)]);
    commit(&source);
    let dot = source.join(".git");
    let alternates = dot.join("objects/info/alternates");
    fs::create_dir_all(alternates.parent().unwrap()).unwrap();
    fs::write(&alternates, "/somewhere/objects\n").unwrap();
    refused(&rind, &source, "borrows objects from other repositories");
    fs::remove_file(alternates).unwrap();
    let head = fs::read_to_string(dot.join("HEAD")).unwrap();
    for (text, what) in [
        ("ref: refs/heads/none\n", "has no commit yet"),
        ("ref: ../../secret\n", "names no commit"),
        ("ref: refs/heads/../../x\n", "names no commit"),
        ("root:x:0:0\n", "names no commit"),
        ("", "names no commit"),
        (
            "0000000000000000000000000000000000000001\n",
            "has no commit",
        ),
    ] {
        fs::write(dot.join("HEAD"), text).unwrap();
        refused(&rind, &source, what);
    }
    fs::write(dot.join("HEAD"), &head).unwrap();
    fs::write(dot.join("refs/heads/main"), "ref: refs/heads/main\n").unwrap();
    refused(&rind, &source, "cannot be resolved");
    fs::remove_dir_all(dot.join("objects")).unwrap();
    symlink("/tmp", dot.join("objects")).unwrap();
    refused(&rind, &source, "its objects are not in it");
    fs::remove_dir_all(&dot).unwrap();
    symlink("/tmp", &dot).unwrap();
    refused(&rind, &source, "is neither a file nor a folder");
}
