//! `rind plugin new`: created folders build without edits, and no existing file is overwritten.

use std::path::Path;

use rind_tests::cli::Rind;
use rind_tests::guests;

use crate::examples::{LANGUAGES, has};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_folder_of_each_kind_and_language_is_whole_and_its_manifest_is_read() {
    let rind = Rind::default();
    for (lang, source) in [
        ("rust", "src/lib.rs"),
        ("js", "src/plugin.js"),
        ("python", "plugin.py"),
    ] {
        for kind in KINDS {
            let name = format!("{lang}-{kind}");
            let output = rind
                .command(&["plugin", "new", &name, "--lang", lang, "--kind", kind])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let folder = rind.workspace().join(&name);
            for file in [
                "plugin.toml",
                "README.md",
                ".github/workflows/plugin.yml",
                source,
            ] {
                let content = std::fs::read_to_string(folder.join(file)).unwrap();
                assert!(
                    content.len() > 100 && !content.contains("{{name}}"),
                    "{name}/{file}"
                );
            }
            let manifest = std::fs::read_to_string(folder.join("plugin.toml")).unwrap();
            assert!(manifest.starts_with("#:schema ./plugin.schema.json\n"));
            let manifest = rind::plugin::manifest::Manifest::read(&folder, None).unwrap();
            assert_eq!(manifest.name, name);
        }
    }
}

#[test]
fn what_is_there_is_never_written_over() {
    let rind = Rind::default();
    rind.file("mine/precious.txt", "mine");
    std::os::unix::fs::symlink("nowhere", rind.workspace().join("link")).unwrap();
    rind.file("file", "mine");
    for name in ["mine", "link", "file"] {
        let output = rind.command(&["plugin", "new", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(
            said.contains("already exists and was not changed"),
            "{said}"
        );
    }
    assert_eq!(
        std::fs::read_dir(rind.workspace().join("mine"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn names_and_kinds_that_cannot_be_are_refused_with_what_to_do() {
    let rind = Rind::default();
    for (args, reason) in [
        (&["../up"][..], "cannot be the name of a plugin"),
        (&["Upper"], "use 1 to 64 of a-z, 0-9 and -"),
        (&["x", "--kind", "wheel"], "invalid value 'wheel'"),
    ] {
        let output = rind
            .command(&[&["plugin", "new"], args].concat())
            .output()
            .unwrap();
        let said = text(&output.stderr)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    assert!(!rind.workspace().join("x").exists());
}

/// Runs the program in this folder, expects success, and returns its output.
fn succeed(rind: &Rind, args: &[&str], folder: &Path) -> String {
    let mut command = rind.command(args);
    let output = command.current_dir(folder).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

/// Creates a plugin and follows the steps of its README.
fn make_and_use(lang: &str, kind: &str) {
    let rind = Rind::author();
    make_and_use_in(&rind, &rind.workspace(), lang, kind);
}

/// Creates a plugin below `parent` and follows the steps of its README.
fn make_and_use_in(rind: &Rind, parent: &Path, lang: &str, kind: &str) {
    succeed(
        rind,
        &["plugin", "new", "made", "--lang", lang, "--kind", kind],
        parent,
    );
    let folder = parent.join("made");
    let built = succeed(rind, &["plugin", "build", "."], &folder);
    assert!(
        !built.contains("Compiling rind-sdk"),
        "another plugin was built before: {built}"
    );
    let checked = succeed(rind, &["plugin", "check"], &folder);
    assert!(checked.contains("no faults"), "{lang} {kind}: {checked}");
    let tested = succeed(rind, &["plugin", "test"], &folder);
    assert!(tested.contains("passed"), "{lang} {kind}: {tested}");
    assert!(
        !tested.contains("no case reaches"),
        "{lang} {kind}: {tested}"
    );
    let report = succeed(rind, &["plugin", "inspect", "."], &folder);
    assert!(
        report.contains("this plugin.toml"),
        "{lang} {kind}: {report}"
    );
    let installed = succeed(rind, &["plugin", "install", "."], &folder);
    let list = succeed(rind, &["plugin", "list"], &rind.workspace());
    assert!(list.contains("made"), "{lang} {kind}: {installed}{list}");
}

const KINDS: [&str; 5] = ["hook", "tool", "prompt", "command", "loop"];

#[test]
fn each_kind_in_rust_builds_has_no_fault_passes_its_cases_and_is_installed() {
    for kind in KINDS {
        make_and_use("rust", kind);
    }
}

#[test]
fn each_kind_in_javascript_builds_has_no_fault_passes_its_cases_and_is_installed() {
    if !has("esbuild") || !has("componentize-qjs") {
        return;
    }
    for kind in KINDS {
        make_and_use("js", kind);
    }
}

#[test]
fn each_kind_in_python_builds_has_no_fault_passes_its_cases_and_is_installed() {
    if !has("componentize-py") || !has("python3") {
        return;
    }
    for kind in KINDS {
        make_and_use("python", kind);
    }
}

#[test]
fn a_plugin_below_a_folder_with_percent_signs_is_made_built_tested_packed_and_installed() {
    for (lang, tools) in LANGUAGES {
        if !tools.iter().all(|tool| has(tool)) {
            continue;
        }
        let rind = Rind::author();
        let parent = rind.workspace().join("a%20b%c");
        std::fs::create_dir(&parent).unwrap();
        make_and_use_in(&rind, &parent, lang, "tool");
        let folder = parent.join("made");
        let packed = folder.join("of%41/packed%.wasm");
        std::fs::create_dir(packed.parent().unwrap()).unwrap();
        let packed = packed.to_str().unwrap();
        succeed(&rind, &["plugin", "pack", ".", "--out", packed], &folder);
        succeed(&rind, &["plugin", "remove", "made"], &folder);
        succeed(&rind, &["plugin", "install", packed], &folder);
        let listed = succeed(&rind, &["plugin", "list"], &folder);
        assert!(listed.contains("made"), "{lang}: {listed}");
        let given = folder.to_str().unwrap();
        succeed(&rind, &["plugin", "check", given], &rind.workspace());
        succeed(&rind, &["plugin", "build", given], &rind.workspace());
    }
}

#[test]
fn plugins_in_rust_share_one_compiled_sdk_and_have_the_same_bytes_in_two_folders() {
    let rind = Rind::author();
    let run = |args: &[&str], folder: &Path| succeed(&rind, args, folder);
    let (one, other) = (rind.workspace().join("one"), rind.workspace().join("other"));
    let mut components = Vec::new();
    for parent in [&one, &other] {
        std::fs::create_dir(parent).unwrap();
        run(&["plugin", "new", "counter", "--kind", "tool"], parent);
        let folder = parent.join("counter");
        let said = run(&["plugin", "build", "."], &folder);
        assert!(said.contains("Compiling counter"), "{said}");
        assert!(!folder.join("target").exists());
        components.push(std::fs::read(folder.join("counter.wasm")).unwrap());
    }
    assert!(components[0] == components[1]);
    let sdk = rind.home().join("rind-sdk");
    for folder in [&one, &sdk] {
        let folder = folder.canonicalize().unwrap().display().to_string();
        let is_in = components[0]
            .windows(folder.len())
            .any(|part| part == folder.as_bytes());
        assert!(!is_in, "{folder}");
    }
    // A second plugin with another name reuses the compiled dependencies: only its own crate is
    // compiled.
    run(&["plugin", "new", "gate"], &one);
    let said = run(&["plugin", "build", "."], &one.join("gate"));
    let compiled: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("Compiling"))
        .collect();
    assert_eq!(compiled.len(), 1, "{said}");
    // So does a plugin whose manifest has no `[workspace]`.
    let manifest = one.join("gate/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("[workspace]", "")).unwrap();
    let said = run(&["plugin", "build", "."], &one.join("gate"));
    assert!(!said.contains("Compiling serde"), "{said}");
    assert!(!one.join("gate/target").exists());

    // A source with changed content is rebuilt even if its modification time is older than the
    // build, and the build in the other folder is not affected.
    let source = one.join("counter/src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, text.replace("{} words", "{} Wörter")).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    let file = std::fs::File::options().write(true).open(&source).unwrap();
    file.set_modified(long_ago).unwrap();
    run(&["plugin", "build", "."], &one.join("counter"));
    let call = ["plugin", "call", ".", "count_words", "{\"text\": \"a b\"}"];
    assert!(run(&call, &one.join("counter")).contains("2 Wörter"));
    std::fs::remove_file(other.join("counter/counter.wasm")).unwrap();
    run(&["plugin", "build", "."], &other.join("counter"));
    assert!(run(&call, &other.join("counter")).contains("2 words"));
}

#[test]
fn a_plugin_that_was_moved_to_another_machine_gets_the_sdk_when_it_is_built_there() {
    for (lang, tools) in LANGUAGES {
        if !tools.iter().all(|tool| has(tool)) {
            continue;
        }
        let (rind, there) = (Rind::author(), Rind::author());
        succeed(
            &rind,
            &["plugin", "new", "made", "--lang", lang],
            &rind.workspace(),
        );
        let made = rind.workspace().join("made");
        let n_files = walk(&made).len();
        assert!(n_files < 15, "{lang}: {n_files}");
        // Copies the plugin as a clone would: without the files that git ignores.
        let moved = there.workspace().join("made");
        let ignored = std::fs::read_to_string(made.join(".gitignore")).unwrap();
        assert!(lang != "js" || ignored.contains("node_modules/"));
        for file in walk(&made) {
            let below = file.strip_prefix(&made).unwrap();
            if !below.starts_with(".rind-sdk") && !below.starts_with("node_modules") {
                let to = moved.join(below);
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::copy(&file, to).unwrap();
            }
        }
        let said = succeed(&there, &["plugin", "build", "."], &moved);
        assert!(said.contains("points to the SDK in"), "{lang}: {said}");
        let said = succeed(&there, &["plugin", "build", "."], &moved);
        assert!(!said.contains("points to the SDK in"), "{lang}: {said}");
        succeed(&there, &["plugin", "test"], &moved);
        // Replaces the links to the SDK by broken ones, as if they had been copied from the other
        // machine.
        drop(rind);
        for link in [
            ".rind-sdk/rust",
            ".rind-sdk/python",
            "node_modules/rind-sdk",
        ] {
            let link = moved.join(link);
            if link.is_symlink() {
                std::fs::remove_file(&link).unwrap();
                std::os::unix::fs::symlink(made.join("gone"), &link).unwrap();
            }
        }
        let said = succeed(&there, &["plugin", "build", "."], &moved);
        assert!(said.contains("points to the SDK in"), "{lang}: {said}");
    }
}

/// Files below a folder; links are not followed.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(walk(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn two_plugins_of_a_cargo_workspace_refer_to_one_sdk() {
    let rind = Rind::default();
    rind.file(
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"plugins/*\"]\n",
    );
    let folder = rind.workspace().join("plugins");
    std::fs::create_dir(&folder).unwrap();
    for name in ["one", "two"] {
        let said = succeed(&rind, &["plugin", "new", name], &folder);
        assert!(
            said.contains("includes the new plugin by its `members`"),
            "{said}"
        );
        let manifest = std::fs::read_to_string(folder.join(name).join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains("path = \"../../.rind-sdk/rust\""),
            "{manifest}"
        );
        assert!(!manifest.contains("[workspace]"), "{manifest}");
        assert!(!folder.join(name).join(".rind-sdk").exists());
    }
    let lock = guests::workspace().join("Cargo.lock");
    std::fs::copy(lock, rind.workspace().join("Cargo.lock")).unwrap();
    let said = succeed(&rind, &["plugin", "build", "one", "two"], &folder);
    assert_eq!(said.matches("✓").count(), 2, "{said}");
}
