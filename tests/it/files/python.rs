//! Files through Python's standard library: same grants, refusals and records as through Rust's.

use std::fs;
use std::path::PathBuf;

use rind::point::trace::{AccessOutcome, AccessRecord};
use rind_tests::guests;

use super::{Setup, traps, tree};
use crate::examples;

/// Source of a plugin with the same tool `std` as the guest in Rust. Failures are Python
/// exceptions, so that a test can tell them from a crash of the plugin.
const CODE: &str = r#"import os, pathlib, shutil, tempfile
from rind_sdk.toolset import Toolset, tool
from wit_world.imports import types

NAMES = ["op", "path", "to"]
PARAMETERS = {"type": "object", "properties": {name: {"type": "string"} for name in NAMES}, "required": NAMES, "additionalProperties": False}

def add(path, text, mode):
    with open(path, mode) as file:
        file.write(text)

def temporary(path, text):
    with tempfile.NamedTemporaryFile("w+", dir=path) as file:
        file.write(text)
        file.seek(0)
        return file.read()

ACTS = {
    "read": lambda path, to: pathlib.Path(path).read_text(),
    "read-bytes": lambda path, to: open(path, "rb").read().hex(),
    "list": lambda path, to: " ".join(sorted(os.listdir(path))),
    "walk": lambda path, to: " ".join(sorted(file for _, _, files in os.walk(path) for file in files)),
    "glob": lambda path, to: " ".join(sorted(found.name for found in pathlib.Path(path).glob(to))),
    "stat": lambda path, to: f"{os.path.isdir(path)} {os.stat(path).st_size}",
    "exists": lambda path, to: os.path.exists(path),
    "write": lambda path, to: add(path, to, "w"),
    "append": lambda path, to: add(path, to, "a"),
    "create-new": lambda path, to: add(path, to, "x"),
    "truncate": lambda path, to: os.truncate(path, 0),
    "create-folder": lambda path, to: pathlib.Path(path).mkdir(parents=True),
    "remove": lambda path, to: os.remove(path),
    "remove-folder": lambda path, to: os.rmdir(path),
    "remove-all": lambda path, to: shutil.rmtree(path),
    "rename": lambda path, to: os.rename(path, to),
    "copy": lambda path, to: shutil.copyfile(path, to),
    "hard-link": lambda path, to: os.link(path, to),
    "symlink": lambda path, to: os.symlink(to, path),
    "set-times": lambda path, to: os.utime(path, (1, 1)),
    "temporary": temporary,
}

class Tools(Toolset):
    @tool(types.EffectClass.WRITE, PARAMETERS)
    def std(self, op: str, path: str, to: str) -> str:
        """Does one thing to a file."""
        try:
            return f"ok: {ACTS[op](path, to) or ''}"
        except Exception as error:
            return f"error: {type(error).__name__}: {error}"
"#;

/// Folder of the built guest; `None` if its compiler is missing.
fn built() -> Option<(tempfile::TempDir, PathBuf)> {
    if !examples::has("componentize-py") || !examples::has("python3") {
        return None;
    }
    let tree = examples::tree();
    let folder = tree.path().join("examples/files");
    fs::create_dir(&folder).unwrap();
    let manifest = fs::read_to_string(guests::guest("files").join("plugin.toml")).unwrap();
    fs::write(folder.join("plugin.toml"), manifest + INERT).unwrap();
    let project = "[tool.rind]\npath = [\"../../python\"]\n";
    fs::write(folder.join("pyproject.toml"), project).unwrap();
    fs::write(folder.join("plugin.py"), CODE).unwrap();
    examples::build(std::slice::from_ref(&folder));
    let component = folder.join("guest_files.wasm");
    Some((tree, component))
}

const INERT: &str = "\n[compat]\nsockets = \"inert\"\n";

#[tokio::test]
async fn python_reads_and_writes_granted_folders_with_its_standard_library_and_nothing_else() {
    let Some((_tree, component)) = built() else {
        return;
    };
    // The guest is built once for all grants, since compiling a component with CPython is slow.
    let setup = async |grants: &str| {
        let manifest = format!("{grants}{INERT}");
        let replace = |host: &mut guests::Host| {
            traps(host);
            let to = host.folder().join("managed/files/guest_files.wasm");
            fs::copy(&component, to).unwrap();
        };
        Setup::with(&manifest, replace).await
    };
    let mut wrong = Vec::new();
    let writer = setup("read = [\"workspace/docs\"]\nwrite = [\"workspace/out\", \"data\"]").await;
    works(&writer, &mut wrong).await;
    let reader = setup("read = [\"workspace\"]\nwrite = [\"data\"]").await;
    is_not_let_out(&reader, &mut wrong).await;
    does_not_write_what_it_may_read(&reader, &mut wrong).await;
    assert_eq!(wrong, [""; 0]);
    let without = setup("").await;
    for path in ["a.txt", "/workspace/a.txt", "/data/x", "/etc/passwd"] {
        let said = without.call("std", "read", path, "").await;
        assert!(
            said.starts_with("error: FileNotFoundError"),
            "{path}: {said}"
        );
    }
}

fn is_denied(record: &AccessRecord) -> bool {
    record.outcome == AccessOutcome::Denied
}

/// Checks that granted folders of the workspace appear under their paths, and the plugin's own
/// folder under `/data`.
async fn works(setup: &Setup, wrong: &mut Vec<String>) {
    for (op, path, to, answer) in [
        ("read", "/workspace/docs/b.txt", "", "beta"),
        ("read-bytes", "/workspace/docs/b.txt", "", "62657461"),
        ("list", "/workspace/docs", "", "b.txt"),
        ("walk", "/workspace/docs", "", "b.txt"),
        ("glob", "/workspace/docs", "*.txt", "b.txt"),
        ("stat", "/workspace/docs", "", "True"),
        ("stat", "/workspace/docs/b.txt", "", "False 4"),
        ("create-folder", "/workspace/out", "", ""),
        ("write", "/workspace/out/new", "one\n", ""),
        ("append", "/workspace/out/new", "two\n", ""),
        ("read", "/workspace/out/new", "", "one\ntwo\n"),
        ("create-folder", "/workspace/out/deep/er", "", ""),
        (
            "rename",
            "/workspace/out/new",
            "/workspace/out/deep/er/x",
            "",
        ),
        ("copy", "/workspace/out/deep/er/x", "/data/kept", ""),
        ("create-new", "/data/fresh", "x", ""),
        ("truncate", "/data/fresh", "", ""),
        ("stat", "/data/fresh", "", "False 0"),
        ("remove", "/data/fresh", "", ""),
        ("list", "/data", "", "kept"),
        ("temporary", "/data", "for a while", "for a while"),
        ("remove-all", "/workspace/out/deep", "", ""),
        ("list", "/workspace/out", "", ""),
        ("read", "/data/kept", "", "one\ntwo\n"),
    ] {
        let said = setup.call("std", op, path, to).await;
        if !said.starts_with(&format!("ok: {answer}")) {
            wrong.push(format!("{op} {path}: {said}"));
        }
    }
    let denied = setup.records().into_iter().filter(is_denied);
    wrong.extend(denied.map(|record| format!("{record:?}")));
    let own = setup.host.folder().join("data/files/files/kept");
    let kept = fs::read_to_string(own);
    if kept.as_ref().ok().map(String::as_str) != Some("one\ntwo\n") {
        wrong.push(format!("data/kept: {kept:?}"));
    }
    let said = setup.call("std", "read", "/workspace/a.txt", "").await;
    assert!(
        said.starts_with("error: "),
        "a.txt is beside the folders: {said}"
    );
}

/// Checks that every attempt to leave the grants raises a Python exception and is recorded.
async fn is_not_let_out(setup: &Setup, wrong: &mut Vec<String>) {
    let before = tree(&setup.workspace());
    let ssh = setup.host.folder().join(".ssh/id");
    for path in [
        ssh.to_str().unwrap(),
        "/workspace/../secret",
        "/workspace/../../secret",
        "/workspace/docs/../../secret",
        "/data/../../other/files/x",
        "/etc/passwd",
        "/proc/self/environ",
        "/workspace/out-file",
        "/workspace/out-folder/secret",
        "/workspace/out-folder/workspace/a.txt",
        "/workspace/absolute",
        "/workspace/winding",
        "/workspace/twice/secret",
        "/workspace/loop",
        "out-file",
        "../secret",
    ] {
        for op in ["read", "read-bytes", "list"] {
            let said = setup.call("std", op, path, "").await;
            let is_refused = said.starts_with("error: ") && !said.contains("outside");
            if !is_refused || setup.records().is_empty() {
                wrong.push(format!("{op} {path}: {said}"));
            }
        }
    }
    assert_eq!(tree(&setup.workspace()), before);
}

async fn does_not_write_what_it_may_read(setup: &Setup, wrong: &mut Vec<String>) {
    let before = tree(&setup.workspace());
    assert_eq!(
        setup.call("std", "read", "/workspace/a.txt", "").await,
        "ok: alpha"
    );
    assert_eq!(setup.call("std", "write", "/data/own", "x").await, "ok: ");
    setup.records();
    for (op, path, to) in [
        ("write", "/workspace/a.txt", "x"),
        ("write", "/workspace/new", "x"),
        ("append", "/workspace/a.txt", "x"),
        ("create-new", "/workspace/new", "x"),
        ("truncate", "/workspace/a.txt", ""),
        ("rename", "/workspace/a.txt", "/workspace/b.txt"),
        ("rename", "/workspace/a.txt", "/data/a"),
        ("rename", "/data/own", "/workspace/own"),
        ("copy", "/data/own", "/workspace/own"),
        ("hard-link", "/workspace/a.txt", "/data/a"),
        ("hard-link", "/data/own", "/workspace/own"),
        ("symlink", "/workspace/new", "a.txt"),
        ("remove", "/workspace/a.txt", ""),
        ("remove-folder", "/workspace/docs", ""),
        ("create-folder", "/workspace/new", ""),
        ("temporary", "/workspace", "x"),
        ("set-times", "/workspace/a.txt", ""),
    ] {
        let said = setup.call("std", op, path, to).await;
        let records = setup.records();
        if !said.starts_with("error: PermissionError") || !records.iter().any(is_denied) {
            wrong.push(format!("{op} {path}: {said} {records:?}"));
        }
    }
    assert_eq!(tree(&setup.workspace()), before);
    assert_eq!(setup.call("std", "list", "/data", "").await, "ok: own");
}
