//! Tests of layouts, archives and names that published plugins and skills have.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use flate2::Compression;
use flate2::write::GzEncoder;
use rind_tests::cli::Rind;
use rind_tests::guests;

use super::skill;

/// Writes an archive of these files and returns its path.
fn archive(rind: &Rind, name: &str, files: &[(&str, &[u8])]) -> String {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *content).unwrap();
    }
    let mut gzip = tar.into_inner().unwrap();
    gzip.flush().unwrap();
    let path = rind.user_home().join(name);
    fs::write(&path, gzip.finish().unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_archive_of_a_plugin_that_a_mac_made_is_installed_and_one_with_several_says_where_they_are() {
    let folder = guests::guest("hello");
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let (manifest, component) = (read("plugin.toml"), read("hello.wasm"));
    let apple: &[u8] = b"\0\x05\x16\x07\0\x02\0\0Mac OS X        ";
    let inside: &[(&str, &[u8])] = &[
        ("hello/plugin.toml", &manifest),
        ("hello/hello.wasm", &component),
    ];
    let at_root: &[(&str, &[u8])] = &[
        ("./._plugin.toml", apple),
        ("./plugin.toml", &manifest),
        ("./hello.wasm", &component),
        ("./.DS_Store", b"\0"),
    ];
    let beside = |extra: &[(&'static str, &'static [u8])]| [extra, inside].concat();
    for (name, files) in [
        ("root", at_root.to_vec()),
        (
            "folder",
            beside(&[
                ("._hello", b"\0\x05\x16\x07"),
                ("hello/._plugin.toml", b"\0\x05"),
            ]),
        ),
        ("macosx", beside(&[("__MACOSX/._hello", b"\0\x05\x16\x07")])),
        ("license", beside(&[("LICENSE", b"MIT")])),
    ] {
        let rind = Rind::default();
        let path = archive(&rind, &format!("{name}.tar.gz"), &files);
        let ran = rind.run(&["plugin", "install", &path]).exits(0);
        assert!(
            ran.stdout.contains("installed in"),
            "{name}\n{}",
            ran.stdout
        );
    }
    let rind = Rind::default();
    let two: &[(&str, &[u8])] = &[("a/plugin.toml", &manifest), ("b/plugin.toml", &manifest)];
    let path = archive(&rind, "two.tar.gz", two);
    let ran = rind.run(&["plugin", "install", &path]).exits(1);
    assert!(
        ran.stderr.contains("it has a/plugin.toml, b/plugin.toml"),
        "{}",
        ran.stderr
    );
}

#[test]
fn one_link_among_the_skills_of_a_project_takes_no_other_away() {
    let rind = Rind::default();
    rind.file(".claude/skills/bar/SKILL.md", &skill("bar"));
    rind.file(".claude/skills/two/SKILL.md", &skill("two"));
    rind.file("shared/foo/SKILL.md", &skill("foo"));
    let skills = rind.workspace().join(".claude/skills");
    symlink("../../shared/foo", skills.join("foo")).unwrap();
    symlink("SKILL.md", skills.join("two/AGENTS.md")).unwrap();
    let list = ["skill", "list", "--trust-project"];
    let ran = rind.run(&list).exits(0);
    for name in ["✓ bar", "✓ two", "✓ foo"] {
        assert!(ran.stdout.contains(name), "{name}\n{}", ran.stdout);
    }
    assert!(!ran.stderr.contains("not used"), "{}", ran.stderr);
    // Links that cannot be followed are reported. A skill whose `SKILL.json` is such a link is
    // unusable, because that file may restrict it.
    symlink("/etc", skills.join("etc")).unwrap();
    symlink("..", skills.join("bar/up")).unwrap();
    symlink("/etc/hostname", skills.join("two/SKILL.json")).unwrap();
    let ran = rind.run(&list);
    for part in [
        "skills/etc: is a link out of the project",
        "bar/up: is a link to one of its parent folders",
        "two/SKILL.json: is a link out of the project",
    ] {
        assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
    }
    for name in ["✓ bar", "✓ foo", "✗ two"] {
        assert!(ran.stdout.contains(name), "{name}\n{}", ran.stdout);
    }
    let shown = rind.run(&["skill", "show", "foo", "--trust-project"]);
    assert!(shown.stdout.contains("Do it."), "{}", shown.stdout);
}

#[test]
fn a_folder_of_skills_that_is_a_link_to_another_of_the_project_is_no_fault() {
    let rind = Rind::default();
    rind.file(".agents/skills/foo/SKILL.md", &skill("foo"));
    fs::create_dir(rind.workspace().join(".claude")).unwrap();
    symlink("../.agents/skills", rind.workspace().join(".claude/skills")).unwrap();
    let ran = rind.run(&["skill", "list", "--trust-project"]).exits(0);
    assert!(ran.stdout.contains("✓ foo"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("not used"), "{}", ran.stderr);
}

/// Writes skills into a source and returns its path.
fn source(rind: &Rind, files: &[(&str, String)]) -> String {
    let root = rind.user_home().join("source");
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root.to_str().unwrap().to_owned()
}

/// Returns the names of the installed skills, sorted.
fn installed(rind: &Rind) -> Vec<String> {
    let entries = fs::read_dir(rind.home().join("config/skills"))
        .into_iter()
        .flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn of_a_collection_each_skill_is_installed_by_itself_and_the_others_are_named() {
    let rind = Rind::default();
    let path = source(
        &rind,
        &[
            ("one/skills/access/SKILL.md", skill("access")),
            ("two/skills/access/SKILL.md", skill("access")),
            ("three/skills/good/SKILL.md", skill("good")),
            ("three/skills/bad/SKILL.md", "no front matter\n".to_owned()),
        ],
    );
    let ran = rind
        .run(&["skill", "install", &path, "--all", "--yes"])
        .exits(1);
    assert_eq!(installed(&rind), ["good"]);
    for part in [
        "one/skills/access and two/skills/access have the same name; choose one with --skill",
        "bad is not installed: the skill's SKILL.md cannot be used: 1:1: there is no front matter",
    ] {
        assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
    }
    rind.run(&[
        "skill",
        "install",
        &path,
        "--skill",
        "two/skills/access",
        "--yes",
    ])
    .exits(0);
    assert_eq!(installed(&rind), ["access", "good"]);
    // A skill that `--skill` names is not skipped when it has a fault.
    rind.run(&["skill", "install", &path, "--skill", "bad", "--yes"])
        .exits(1);
}

#[test]
fn skills_in_hidden_folders_of_a_collection_and_below_an_index_are_found() {
    let rind = Rind::default();
    let path = source(
        &rind,
        &[
            ("skills/.curated/one/SKILL.md", skill("one")),
            ("skills/.system/two/SKILL.md", skill("two")),
            ("skills/SKILL.md", skill("skills")),
            ("skills/three/SKILL.md", skill("three")),
            ("skills/.git/four/SKILL.md", skill("four")),
            (".cache/five/SKILL.md", skill("five")),
        ],
    );
    let checked = rind.run(&["skill", "check", &path]);
    for name in ["one", "two", "three"] {
        assert!(
            checked.stdout.contains(&format!("{name}/SKILL.md")),
            "{name}\n{}",
            checked.stdout
        );
    }
    let ran = rind
        .run(&["skill", "install", &path, "--all", "--yes"])
        .exits(0);
    assert_eq!(installed(&rind), ["one", "three", "two"]);
    assert!(
        ran.stderr
            .contains("skills/SKILL.md is treated as a table of contents"),
        "{}",
        ran.stderr
    );
}

#[test]
fn many_skills_keep_some_descriptions_as_long_as_there_is_room() {
    for n_skills in [100, 180, 200, 250] {
        let rind = Rind::default();
        for n in 0..n_skills {
            let text = "---\ndescription: Handles this kind of work in detail whenever somebody asks for exactly that.\n---\nDo.\n";
            rind.user_file(
                &format!("config/skills/skill-with-a-name-{n:03}/SKILL.md"),
                text,
            );
        }
        let listed = rind.run(&["skill", "list", "--json"]).exits(0).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let chars = listed["catalogue"]["chars"].as_u64().unwrap();
        assert!(
            (7_000..=8_000).contains(&chars),
            "{n_skills} skills: {chars} of 8000 characters"
        );
    }
}

#[test]
fn a_component_whose_world_wit_cannot_describe_is_refused_by_derive_without_a_panic() {
    let rind = Rind::default();
    for (name, import) in [
        ("interface", "some:pkg/iface@1.0.0"),
        ("dependency", "unlocked-dep=<a:b>"),
        ("url", "url=<https://example.com>"),
    ] {
        let path = rind.user_home().join(format!("{name}.wasm"));
        let component = format!("(component (import \"{import}\" (func)))");
        fs::write(&path, wat::parse_str(component).unwrap()).unwrap();
        let ran = rind
            .run(&["skill", "derive", path.to_str().unwrap()])
            .exits(1);
        assert!(
            ran.stderr.contains("in a way that WIT cannot describe"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}

#[test]
fn a_file_whose_name_is_not_utf_8_is_read_by_the_name_that_search_shows() {
    let script = "[[reply]]\ntool_calls = [{ name = \"search\", arguments = { pattern = \"latin\" } }]\n\
                  [[reply]]\ntool_calls = [{ name = \"read_file\", arguments = { path = \"d/caf\u{fffd}.txt\" } }]\n\
                  [[reply]]\ntext = \"{tool_result}\"\n";
    let rind = Rind::with_script(script);
    rind.file("d/plain.txt", "needle\n");
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(rind.workspace().join("d").join(name), "needle latin\n").unwrap();
    let ran = rind.run(&["run", "find it"]).exits(0);
    assert!(ran.stdout.contains("needle latin"), "{}", ran.stdout);
    // Two files that are shown with the same name make it ambiguous: neither is read.
    let other = std::ffi::OsStr::from_bytes(b"caf\xe8.txt");
    fs::write(rind.workspace().join("d").join(other), "other\n").unwrap();
    let ran = rind.run(&["run", "find it"]).exits(0);
    assert!(!ran.stdout.contains("needle latin"), "{}", ran.stdout);
}

#[test]
fn a_version_that_the_workspace_gives_is_compared_with_that_of_the_plugin() {
    let rind = Rind::default();
    rind.file(
        "Cargo.toml",
        "[workspace]\nmembers = [\"mine\"]\n[workspace.package]\nversion = \"2.0.0\"\n",
    );
    rind.file(
        "mine/Cargo.toml",
        "[package]\nname = \"mine\"\nversion.workspace = true\n",
    );
    rind.file(
        "mine/plugin.toml",
        "name = \"mine\"\nversion = \"1.0.0\"\ndescription = \"A plugin of a test.\"\n",
    );
    let ran = rind.run(&["plugin", "check", "mine"]).exits(1);
    assert!(
        ran.stdout.contains("`version` is 1.0.0 here and 2.0.0 in "),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("from which Cargo.toml inherits it"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_new_plugin_in_a_workspace_that_takes_it_in_is_a_member_and_cargo_still_works() {
    for (members, exclude, is_member) in [
        ("crates/*", "", true),
        ("*", "", false),
        ("crates/*", "\"crates/guard\"", false),
        ("crates/app", "", false),
    ] {
        let rind = Rind::default();
        let manifest = format!(
            "[workspace]\nmembers = [\"{members}\"]\nexclude = [{exclude}]\nresolver = \"3\"\n"
        );
        rind.file("Cargo.toml", &manifest);
        rind.file(
            "crates/app/Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
        );
        rind.file("crates/app/src/main.rs", "fn main() {}\n");
        let mut command = rind.command(&["plugin", "new", "guard", "--kind", "hook"]);
        command.current_dir(rind.workspace().join("crates"));
        let ran = rind.finish(&mut command).exits(0);
        let cargo = fs::read_to_string(rind.workspace().join("crates/guard/Cargo.toml")).unwrap();
        assert_eq!(
            !cargo.contains("[workspace]"),
            is_member,
            "{members} {exclude}"
        );
        assert_eq!(
            ran.stderr
                .contains("includes the new plugin by its `members`"),
            is_member,
            "{}",
            ran.stderr
        );
        if members == "*" {
            // Cargo takes the folder `crates` for a member because of `*`, although it has no
            // manifest.
            continue;
        }
        let metadata = std::process::Command::new("cargo")
            .args([
                "metadata",
                "--no-deps",
                "--offline",
                "--format-version",
                "1",
            ])
            .current_dir(rind.workspace())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&metadata.stderr);
        assert!(metadata.status.success(), "{members} {exclude}\n{said}");
    }
}

/// Script in place of componentize-py, which copies the given world to `world.seen` and writes an
/// empty component.
const COMPILER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
  --wit-path) cat "$2"/*.wit > world.seen ;;
  --output) cp empty.wasm "$2" ;;
  esac
  shift
done
"#;

#[test]
fn python_modules_with_a_byte_order_mark_are_read() {
    if !crate::examples::has("python3") {
        return;
    }
    let rind = Rind::default();
    let file = |name: &str, text: &str| rind.file(&format!("marked/{name}"), text);
    file(
        "plugin.toml",
        "name = \"marked\"\nversion = \"0.1.0\"\ndescription = \"A plugin of a test.\"\ncomponent = \"c.wasm\"\n[compat]\nsockets = \"inert\"\n",
    );
    file("pyproject.toml", "");
    file(
        "plugin.py",
        "\u{feff}import part\nclass PreTool:\n    pass\n",
    );
    file("part.py", "\u{feff}from rind_sdk import log\n");
    file(".venv/bin/componentize-py", COMPILER);
    let folder = rind.workspace().join("marked");
    let compiler = folder.join(".venv/bin/componentize-py");
    fs::set_permissions(compiler, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("empty.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
    let ran = rind.run(&["plugin", "build", "marked"]);
    let Ok(world) = fs::read_to_string(folder.join("world.seen")) else {
        panic!("{}", ran.stderr)
    };
    for line in ["export rind:plugin/pre-tool@", "import rind:plugin/log@"] {
        assert!(world.contains(line), "{line}\n{world}");
    }
}
