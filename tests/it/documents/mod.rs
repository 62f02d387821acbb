//! The READMEs and the manual: every command in a block runs, every block of settings and every manifest is read by the program.
//!
//! A block of commands that cannot run in a test says why: `console norun: REASON`.

mod block;
mod inline;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rind::paths::RindPaths;
use rind_tests::cli::{Rind, program};
use rind_tests::guests;

use block::Block;

/// Maximum number of blocks in all documents that are not run, so that most of the documents are
/// tested.
const MAX_UNRUN: usize = 5;

/// Commands that may exit with 1, with the reason.
const MAY_FAIL: &[(&str, &str)] = &[(
    "rind doctor",
    "it exits with 1 on a machine that cannot confine commands",
)];

/// Placeholder for a digest in documents.
const DIGEST: &str = "blake3:…";

/// Folders of the manual: every page in them is a document.
const MANUAL: [&str; 2] = ["host/docs", "host/docs/reference"];

/// Every README below the root of the tree, and every page of the manual and for contributors.
fn documents() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in [
        "",
        "host",
        "wit",
        "sdk/rust",
        "sdk/test",
        "sdk/js",
        "sdk/python",
        "sdk/examples",
        "plugins",
        "tests/fuzz",
        "tests/regressions",
    ] {
        let path = Path::new(folder).join("README.md");
        let text = std::fs::read_to_string(guests::workspace().join(&path)).unwrap();
        found.push((path.display().to_string(), text));
    }
    let mut pages = vec![PathBuf::from("host/skill-v1.md")];
    for folder in MANUAL.into_iter().chain([".github"]) {
        let entries = std::fs::read_dir(guests::workspace().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let mut own: Vec<PathBuf> = names.map(|name| Path::new(folder).join(name)).collect();
        own.retain(|path| path.extension().is_some_and(|is| is == "md"));
        own.sort();
        pages.append(&mut own);
    }
    for path in pages {
        let text = std::fs::read_to_string(guests::workspace().join(&path)).unwrap();
        found.push((path.display().to_string(), text));
    }
    for entry in std::fs::read_dir(guests::workspace().join("plugins")).unwrap() {
        let path = entry.unwrap().path().join("README.md");
        if let Ok(text) = std::fs::read_to_string(&path) {
            found.push((path.display().to_string(), text));
        }
    }
    found
}

fn blocks() -> Vec<Block> {
    let documents = documents();
    let blocks = documents
        .iter()
        .flat_map(|(path, text)| Block::all(path, text));
    blocks.collect()
}

/// A machine on which the commands of a document run: a repository with the plugin `hello` in `plugins` and the core plugins
/// installed, a crate of the same plugin in `hello`, and the example skills in `skills`.
fn machine() -> Rind {
    let rind = Rind::author();
    for name in guests::CORE {
        rind.managed(name);
    }
    let workspace = rind.workspace();
    // Settings of the user for this workspace, so that a command can write `config.toml`.
    let settings =
        RindPaths::from_single_root(&rind.home(), &workspace).user_workspace_config_path();
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(settings, "[provider]\nname = \"scripted\"\n").unwrap();
    let hello = guests::put("hello", &workspace.join("plugins"), |manifest| manifest);
    let readme = guests::workspace().join("plugins/hello/README.md");
    std::fs::copy(readme, hello.join("README.md")).unwrap();
    let cases = guests::workspace().join("plugins/hello/tests/greet.toml");
    std::fs::create_dir(hello.join("tests")).unwrap();
    std::fs::copy(cases, hello.join("tests/greet.toml")).unwrap();
    rind.file("README.md", "# Tide station\n");
    let tree = guests::workspace().canonicalize().unwrap();
    std::os::unix::fs::symlink(&tree, workspace.join("rind")).unwrap();
    let skills = tree.join("host/examples/skills");
    std::os::unix::fs::symlink(skills, workspace.join("skills")).unwrap();
    let hello = blocks();
    let of_sdk = |start: &str| {
        let is_it = |block: &&Block| {
            block.document == "sdk/rust/README.md"
                && (block.info == start || block.text.starts_with(start))
        };
        hello.iter().find(is_it).unwrap().text.clone()
    };
    rind.file("hello/Cargo.toml", &of_sdk("# Cargo.toml"));
    rind.file("hello/plugin.toml", &of_sdk("# plugin.toml"));
    rind.file("hello/src/lib.rs", &of_sdk("rust hello"));
    std::fs::copy(tree.join("Cargo.lock"), workspace.join("hello/Cargo.lock")).unwrap();
    assert!(shell(&rind, "git init -q").status.success());
    rind
}

/// Runs a line with the program on the path.
fn shell(rind: &Rind, line: &str) -> std::process::Output {
    let own = rind.command(&[""; 0]);
    let paths = std::env::var_os("PATH").unwrap();
    let folder = program().parent().unwrap().to_owned();
    let paths = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&paths)));
    Command::new("sh")
        .args(["-c", line])
        .env_clear()
        .envs(
            own.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", paths.unwrap())
        .env("CARGO_NET_OFFLINE", "true")
        .current_dir(rind.workspace())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn every_command_of_the_documents_runs() {
    let mut n_run = 0;
    for (path, text) in documents() {
        let blocks = Block::all(&path, &text);
        let mut runs = blocks
            .iter()
            .filter(|block| block.info == "console")
            .peekable();
        if runs.peek().is_none() {
            continue;
        }
        let rind = machine();
        for (line, command) in runs.flat_map(Block::commands) {
            let output = shell(&rind, command);
            let code = output.status.code();
            let may_fail = MAY_FAIL.iter().any(|(start, _)| command.starts_with(start));
            assert!(
                code == Some(0) || (may_fail && code == Some(1)),
                "{path}:{line}: `{command}` exits with {code:?}\n{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            n_run += 1;
        }
    }
    assert!(n_run > 15, "{n_run}");
}

#[test]
fn every_block_is_of_a_known_kind_and_few_are_not_run() {
    let blocks = blocks();
    let hello =
        std::fs::read_to_string(guests::workspace().join("plugins/hello/src/lib.rs")).unwrap();
    for block in &blocks {
        match block.info.as_str() {
            "console" | "text" => {}
            "markdown" => {
                let skill = rind::skill::parse_text("folder", &block.text);
                assert!(skill.is_ok_and(|skill| !skill.is_restricted), "{block}");
            }
            "rust hello" => assert_eq!(block.text, hello, "{block}"),
            "rust replies" | "rust plain-order" => {
                let guest = block.info.trim_start_matches("rust ");
                let source = format!("tests/guests/{guest}/src/lib.rs");
                let source = guests::workspace().join(source);
                assert_eq!(
                    block.text,
                    std::fs::read_to_string(source).unwrap(),
                    "{block}"
                );
            }
            "toml" => assert!(block.file().is_some(), "{block}: begin with `# FILE`"),
            info => {
                let reason = info.strip_prefix("console norun: ");
                assert!(
                    reason.is_some_and(|why| why.len() > 10),
                    "{block}: `{info}`"
                );
            }
        }
    }
    let is_unrun = |block: &&Block| block.info.starts_with("console norun");
    assert!(blocks.iter().filter(is_unrun).count() <= MAX_UNRUN);
}

#[test]
fn every_toml_block_of_the_documents_is_read_by_its_reader() {
    let rind = Rind::default();
    // Plugins that the settings in the documents configure, and folders that their sandbox sections
    // name.
    for name in [
        "briefing",
        "injection-guard",
        "git-guard",
        "cost-tracker",
        "web",
    ] {
        rind.managed(name);
    }
    for folder in ["x", "y"] {
        std::fs::create_dir(rind.user_home().join(folder)).unwrap();
    }
    let mut n_read = 0;
    for block in blocks() {
        let Some(file) = block.file() else { continue };
        let digest = format!("blake3:{}", "0".repeat(64));
        let text = block.text.replace(DIGEST, &digest);
        let config = rind.home().join("config");
        std::fs::create_dir_all(&config).unwrap();
        for old in ["config.toml", "policy.toml"] {
            let _ = std::fs::remove_file(config.join(old));
        }
        let ran = match file {
            "config.toml" | "policy.toml" => {
                std::fs::write(config.join(file), text).unwrap();
                rind.run(&["run", "--provider", "scripted", "--dry-run", "hello"])
            }
            "plugin.toml" => {
                let folder = rind.workspace().join("plugin");
                let _ = std::fs::remove_dir_all(&folder);
                let made = guests::put("every-point", &folder, |_| manifest(&text));
                rind.run(&[Path::new("plugin"), Path::new("inspect"), &made])
            }
            "script.toml" => {
                std::fs::write(rind.workspace().join(file), text).unwrap();
                rind.run(&["run", "--script", file, "--dry-run", "hello"])
            }
            "Cargo.toml" | "case.toml" => {
                // `Cargo.toml` is built by the commands of its document, and `case.toml` shows a
                // row of a table that other tests read.
                toml::from_str::<toml::Table>(&text).unwrap_or_else(|e| panic!("{block}: {e}"));
                continue;
            }
            _ => match file.split_once("/tests/") {
                Some((plugin, _)) => case(&rind, plugin, file, &text),
                None => panic!("{block}: nothing reads `{file}`"),
            },
        };
        // The policy requires a plugin that is missing here. That fails only after the policy was
        // read.
        let is_read = ran.code == Some(0) || (file == "policy.toml" && ran.code == Some(3));
        assert!(is_read, "{block}\n{}{}", ran.stdout, ran.stderr);
        n_read += 1;
    }
    assert!(n_read >= 6, "{n_read}");
}

/// Runs the cases of a block for `PLUGIN/tests/NAME.toml`, where `PLUGIN` may also be an example
/// skill.
fn case(rind: &Rind, plugin: &str, file: &str, text: &str) -> rind_tests::cli::Ran {
    let skill = guests::workspace()
        .join("host/examples/skills")
        .join(plugin);
    if skill.is_dir() {
        for part in ["SKILL.md", "scripts/count.py"] {
            let text = std::fs::read_to_string(skill.join(part)).unwrap();
            rind.file(&format!("{plugin}/{part}"), &text);
        }
        rind.file(file, text);
        return rind.run(&["skill", "test", plugin]);
    }
    let folder = guests::put(plugin, &rind.workspace(), |manifest| manifest);
    std::fs::create_dir_all(folder.join("tests")).unwrap();
    rind.file(file, text);
    rind.run(&["plugin", "test", plugin])
}

/// Completes a manifest, or some sections of one, to a manifest for the guest that has every hook.
fn manifest(text: &str) -> String {
    let mut table: toml::Table = toml::from_str(text).unwrap();
    for (key, value) in [
        ("name", "every-point"),
        ("version", "0.1.0"),
        ("description", "Has every hook."),
        ("component", "guest_every_point.wasm"),
    ] {
        table.insert(key.to_owned(), value.into());
    }
    let mut effects = match table.remove("side_effects") {
        Some(toml::Value::Array(own)) => own,
        _ => Vec::new(),
    };
    // The guest's hooks need the effect `session`.
    let session = toml::Value::from("session");
    effects.retain(|effect| *effect != session && effect.as_str() != Some("none"));
    effects.push(session);
    table.insert("side_effects".to_owned(), effects.into());
    toml::to_string(&table).unwrap()
}
