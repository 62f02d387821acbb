//! `rind plugin new`: folders that build as they are, and nothing that is written over.

use std::path::Path;

use rind_tests::cli::Rind;
use rind_tests::guests;

use crate::examples::has;

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
            said.contains("is there already and is left as it is"),
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

/// Runs the program in the folder of a plugin; what it says when it succeeded.
fn succeed(rind: &Rind, args: &[&str], folder: &Path) -> String {
    let mut command = rind.command(args);
    // Copies of the SDK in several workspaces have one name in a shared target folder: cargo takes the newest, which another
    // test may delete. So each test has its own, which lasts.
    if let Some(shared) = std::env::var_os("CARGO_TARGET_DIR") {
        let test = std::thread::current();
        let name = test.name().unwrap_or("made").replace(':', "-");
        command.env(
            "CARGO_TARGET_DIR",
            Path::new(&shared).join("made").join(name),
        );
    }
    let output = command.current_dir(folder).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

/// Makes a plugin, lets `prepare` bring what its compiler needs, and does what its README says.
fn make_and_use(lang: &str, kind: &str, prepare: impl Fn(&Path)) {
    let rind = Rind::default();
    make_and_use_in(&rind, &rind.workspace(), lang, kind, prepare);
}

/// Does the same in a folder.
fn make_and_use_in(rind: &Rind, parent: &Path, lang: &str, kind: &str, prepare: impl Fn(&Path)) {
    succeed(
        rind,
        &["plugin", "new", "made", "--lang", lang, "--kind", kind],
        parent,
    );
    let folder = parent.join("made");
    prepare(&folder);
    succeed(rind, &["plugin", "build", "."], &folder);
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
        make_and_use("rust", kind, with_lock);
    }
}

#[test]
fn each_kind_in_javascript_builds_has_no_fault_passes_its_cases_and_is_installed() {
    if !has("esbuild") || !has("componentize-qjs") {
        return;
    }
    for kind in KINDS {
        make_and_use("js", kind, with_modules);
    }
}

#[test]
fn each_kind_in_python_builds_has_no_fault_passes_its_cases_and_is_installed() {
    if !has("componentize-py") || !has("python3") {
        return;
    }
    for kind in KINDS {
        make_and_use("python", kind, |_| {});
    }
}

/// Brings the lock file of this tree, whose versions of dependencies are there.
fn with_lock(folder: &Path) {
    let lock = guests::workspace().join("Cargo.lock");
    std::fs::copy(lock, folder.join("Cargo.lock")).unwrap();
}

/// Brings the SDK as `npm install` does.
fn with_modules(folder: &Path) {
    std::fs::create_dir(folder.join("node_modules")).unwrap();
    std::os::unix::fs::symlink("../rind-sdk", folder.join("node_modules/rind-sdk")).unwrap();
}

#[test]
fn a_plugin_below_a_folder_with_percent_signs_is_made_built_tested_packed_and_installed() {
    /// Brings what a build needs without a network.
    type Preparation = fn(&Path);
    let languages: [(&str, &[&str], Preparation); 3] = [
        ("rust", &[], with_lock),
        ("js", &["esbuild", "componentize-qjs"], with_modules),
        ("python", &["componentize-py", "python3"], |_| {}),
    ];
    for (lang, tools, prepare) in languages {
        if !tools.iter().all(|tool| has(tool)) {
            continue;
        }
        let rind = Rind::default();
        let parent = rind.workspace().join("a%20b%c");
        std::fs::create_dir(&parent).unwrap();
        make_and_use_in(&rind, &parent, lang, "tool", prepare);
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
fn a_rust_plugin_builds_offline_as_it_was_made_with_the_same_bytes_in_two_folders() {
    let mut components = Vec::new();
    for _ in 0..2 {
        let rind = Rind::default();
        succeed(
            &rind,
            &["plugin", "new", "counter", "--kind", "tool"],
            &rind.workspace(),
        );
        let folder = rind.workspace().join("counter");
        with_lock(&folder);
        succeed(&rind, &["plugin", "build", "."], &folder);
        let report = succeed(&rind, &["plugin", "inspect", "."], &folder);
        assert!(report.contains("count_words"), "{report}");
        components.push(std::fs::read(folder.join("counter.wasm")).unwrap());
    }
    assert!(components[0] == components[1]);
}
