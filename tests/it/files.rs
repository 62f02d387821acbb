//! Files through both interfaces: Rust's standard library over WASI, and the `files` import.

mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rind::folder::{
    FolderOpenOptions, FolderQuota, GrantedFolders, PathBaseFolder, PluginFolderLocations,
};
use rind::grant::{Capability, FolderAccess, GrantedCapabilities, Trust};
use rind::point::trace::{AccessOutcome, AccessRecord, Reached};
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;

/// A plugin with certain grants, and the folders around it.
struct Setup {
    host: Host,
    session: Session,
}

impl Setup {
    async fn new(manifest: &str) -> Self {
        Self::with(manifest, |_| {}).await
    }

    async fn with(manifest: &str, prepare: impl FnOnce(&mut Host)) -> Self {
        let mut host = Host::default();
        host.plugin(Trust::Managed, "files", |own| {
            own.replace("read = [\"workspace\"]", manifest)
        });
        fs::write(host.folder().join("secret"), "outside").unwrap();
        let workspace = host.folder().join("workspace");
        fs::create_dir_all(workspace.join("docs")).unwrap();
        fs::write(workspace.join("a.txt"), "alpha").unwrap();
        fs::write(workspace.join("docs/b.txt"), "beta").unwrap();
        prepare(&mut host);
        let plugins = host.load().await;
        assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
        let session = Session::open(&plugins);
        Self { host, session }
    }

    fn workspace(&self) -> PathBuf {
        self.host.folder().join("workspace")
    }

    async fn call(&self, face: &str, op: &str, path: &str, to: &str) -> String {
        let arguments = json!({"op": op, "path": path, "to": to});
        let output = self.session.tool(face, arguments).await;
        assert!(!output.is_error, "{}", output.content);
        output.content.to_string()
    }

    /// Returns the records since the last call.
    fn records(&self) -> Vec<AccessRecord> {
        std::mem::take(&mut *self.session.memory.accesses.lock().unwrap())
    }
}

#[tokio::test]
async fn a_granted_folder_is_read_by_relative_path_by_absolute_path_and_by_our_own_import() {
    let setup = Setup::new("read = [\"workspace\"]").await;
    for (face, path) in [
        ("std", "a.txt"),
        ("std", "./a.txt"),
        ("std", "docs/../a.txt"),
        ("std", "/workspace/a.txt"),
        ("std", "/a.txt"),
        ("own", "workspace/a.txt"),
    ] {
        assert_eq!(
            setup.call(face, "read", path, "").await,
            "ok: alpha",
            "{face} {path}"
        );
    }
    assert_eq!(setup.call("std", "list", ".", "").await, "ok: a.txt docs");
    assert_eq!(setup.call("std", "list", "docs/", "").await, "ok: b.txt");
    assert_eq!(
        setup.call("own", "list", "workspace", "").await,
        "ok: a.txt docs"
    );
    assert_eq!(
        setup
            .call("std", "stat", "docs", "")
            .await
            .split(' ')
            .nth(1),
        Some("true")
    );
    assert_eq!(setup.records(), [], "what works is not recorded");
}

/// Every path below a folder, with the content of a file or the target of a link.
fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            let what = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                left.push(path.clone());
                "folder".to_owned()
            } else if kind.is_file() {
                {
                    let content = fs::read(&path).unwrap();
                    let content = String::from_utf8_lossy(&content);
                    format!("{content} {:?}", kind.modified())
                }
            } else {
                "special".to_owned()
            };
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.insert(name, what);
        }
    }
    found
}

/// Adds links that lead out of the workspace in every way, and files outside that must not be read.
fn traps(host: &mut Host) {
    let workspace = host.folder().join("workspace");
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, workspace.join(name)).unwrap();
    };
    link("../secret", "out-file");
    link("..", "out-folder");
    link("/etc/passwd", "absolute");
    link("docs/../../secret", "winding");
    link("out-folder", "twice");
    link("loop", "loop");
    let other = host.folder().join("data/other/files");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("x"), "outside").unwrap();
    let home = host.folder().join(".ssh");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("id"), "outside").unwrap();
}

#[tokio::test]
async fn nothing_outside_of_the_granted_folders_is_read_and_each_attempt_is_recorded_once() {
    let manifest = "read = [\"workspace\"]\nwrite = [\"data\"]";
    let setup = Setup::with(manifest, traps).await;
    let ssh = setup.host.folder().join(".ssh/id");
    let before = tree(setup.host.folder());
    let paths = [
        ssh.to_str().unwrap(),
        "../secret",
        "..",
        "/..",
        "/../secret",
        "/etc/passwd",
        "/etc/../etc/passwd",
        "./../secret",
        "docs/../../secret",
        "docs/../../workspace/a.txt",
        "/workspace/../secret",
        "/data/../../other/files/x",
        "/data/../../../secret",
        "../data/other/files/x",
        "out-file",
        "out-file/",
        "out-folder/secret",
        "out-folder/",
        "out-folder/workspace/a.txt",
        "absolute",
        "winding",
        "twice/secret",
        "loop",
        "~/.ssh/id",
        "$HOME/.ssh/id",
        "..\\secret",
    ];
    for path in paths {
        let said = setup.call("std", "read", path, "").await;
        assert!(said.starts_with("error: "), "{path}: {said}");
        let records = setup.records();
        assert_eq!(records.len(), 1, "{path}: {records:?}");
        assert_eq!(records[0].reached, Reached::Files);
        assert_eq!((records[0].origin.turn, records[0].origin.step), (1, 2));
        for own in [
            format!("workspace/{path}"),
            format!("data/{path}"),
            path.to_owned(),
        ] {
            let said = setup.call("own", "read", &own, "").await;
            assert!(said.starts_with("error: "), "{own}: {said}");
            let records = setup.records();
            assert_eq!(records.len(), 1, "{own}: {records:?}");
            assert_eq!(records[0].target, format!("read {own}"));
        }
    }
    assert_eq!(
        tree(setup.host.folder()),
        tree_with(before, setup.host.folder()),
        "nothing outside was touched"
    );
}

/// The tree with the plugin's own folders, if they were created since.
fn tree_with(mut before: BTreeMap<String, String>, folder: &Path) -> BTreeMap<String, String> {
    for made in ["data/files", "data/files/files"] {
        if folder.join(made).is_dir() {
            before.insert(made.to_owned(), "folder".to_owned());
        }
    }
    before
}

#[tokio::test]
async fn what_is_refused_says_why_and_what_fails_says_how() {
    let setup = Setup::with("read = [\"workspace\"]", traps).await;
    for (face, path, outcome, target, reason) in [
        (
            "std",
            "../secret",
            AccessOutcome::Denied,
            "open ../secret in workspace",
            "the path leads out of the granted folder",
        ),
        (
            "std",
            "out-file",
            AccessOutcome::Denied,
            "open out-file in workspace",
            "the path leads out of the granted folder",
        ),
        (
            "std",
            "nowhere",
            AccessOutcome::Failed,
            "open nowhere in workspace",
            "no such file or directory",
        ),
        (
            "std",
            "loop",
            AccessOutcome::Denied,
            "open loop in workspace",
            "the path leads through too many symlinks, perhaps in a loop",
        ),
        (
            "own",
            "data/x",
            AccessOutcome::Denied,
            "read data/x",
            "the path is in no folder that was granted to the plugin; `[filesystem]` in plugin.toml asks for folders",
        ),
        (
            "own",
            "workspace/a\\b",
            AccessOutcome::Failed,
            "read workspace/a\\b",
            "a path cannot contain NUL or a `\\`; write `/` between names",
        ),
    ] {
        setup.call(face, "read", path, "").await;
        let records = setup.records();
        assert_eq!(records.len(), 1, "{path}: {records:?}");
        assert_eq!((records[0].outcome, &*records[0].target), (outcome, target));
        assert_eq!(records[0].reason.as_deref(), Some(reason));
    }
}

#[tokio::test]
async fn a_file_that_was_granted_as_a_folder_is_told() {
    let setup = Setup::new("read = [\"workspace/a.txt\"]").await;
    let said = setup.call("own", "read", "workspace/a.txt", "").await;
    assert!(said.contains("`workspace/a.txt` is a file"), "{said}");
    assert!(said.contains("the folder that holds it"), "{said}");
    let records = setup.records();
    assert_eq!(records[0].outcome, AccessOutcome::Failed, "{records:?}");
}

#[tokio::test]
async fn a_folder_granted_to_read_is_not_changed_in_any_way() {
    let manifest = "read = [\"workspace\"]\nwrite = [\"data\"]";
    let setup = Setup::new(manifest).await;
    setup.call("std", "write", "/data/own", "own").await;
    let before = tree(&setup.workspace());
    for (op, path, to) in [
        ("write", "a.txt", "x"),
        ("write", "new", "x"),
        ("append", "a.txt", "x"),
        ("create-new", "new", ""),
        ("truncate", "a.txt", ""),
        ("resize", "a.txt", "0"),
        ("rename", "a.txt", "b.txt"),
        ("rename", "a.txt", "/data/a"),
        ("rename", "/data/own", "own"),
        ("remove", "a.txt", ""),
        ("remove-folder", "docs", ""),
        ("create-folder", "new", ""),
        ("hard-link", "a.txt", "b.txt"),
        ("hard-link", "a.txt", "/data/a"),
        ("hard-link", "/data/own", "own"),
        ("hard-link", "../secret", "/data/a"),
        ("symlink", "new", "a.txt"),
        ("set-times", "a.txt", ""),
    ] {
        let said = setup.call("std", op, path, to).await;
        assert!(
            said.starts_with("error: PermissionDenied"),
            "{op} {path}: {said}"
        );
        let records = setup.records();
        assert_eq!(records.len(), 1, "{op} {path}: {records:?}");
        assert_eq!(records[0].outcome, AccessOutcome::Denied, "{records:?}");
    }
    for (op, path) in [
        ("write", "workspace/a.txt"),
        ("write", "workspace/new"),
        ("append", "workspace/a.txt"),
        ("append", "workspace/new"),
        ("create-folder", "workspace/new"),
        ("create-folder", "workspace/new/newer"),
        ("remove", "workspace/a.txt"),
        ("remove", "workspace/docs"),
    ] {
        let said = setup.call("own", op, path, "x").await;
        assert!(
            said.contains("to read, not to write"),
            "{op} {path}: {said}"
        );
        assert_eq!(setup.records().len(), 1);
    }
    assert_eq!(tree(&setup.workspace()), before);
    assert_eq!(setup.call("std", "list", "/data", "").await, "ok: own");
}

#[tokio::test]
async fn a_folder_granted_to_write_is_written_by_both_faces_and_each_sees_what_the_other_did() {
    let setup = Setup::new("write = [\"workspace\", \"data\"]").await;
    for (face, op, path, to, answer) in [
        ("std", "write", "new", "by std", "ok: "),
        ("own", "read", "workspace/new", "", "ok: by std"),
        ("own", "write", "workspace/new", "by own", "ok: "),
        ("std", "append", "new", "+", "ok: "),
        ("std", "read", "new", "", "ok: by own+"),
        ("own", "create-folder", "workspace/x/y", "", "ok: "),
        ("std", "rename", "new", "x/y/z", "ok: "),
        ("own", "list", "workspace/x/y", "", "ok: z"),
        ("std", "hard-link", "x/y/z", "x/h", "ok: "),
        ("std", "symlink", "x/l", "y/z", "ok: "),
        ("std", "read", "x/l", "", "ok: by own+"),
        ("own", "read", "workspace/x/l", "", "ok: by own+"),
        ("std", "truncate", "x/l", "", "ok: "),
        ("std", "stat", "x/y/z", "", "ok: false 0"),
        ("std", "set-times", "x/y/z", "", "ok: "),
        ("std", "remove", "x/y/z", "", "ok: "),
        ("own", "remove", "workspace/x/y", "", "ok: "),
        ("own", "remove", "workspace/x/l", "", "ok: "),
        ("std", "create-folder", "f/", "", "ok: "),
        ("std", "remove-folder", "f/", "", "ok: "),
        ("std", "write", "/data/d", "data", "ok: "),
        ("own", "read", "data/d", "", "ok: data"),
        ("own", "append", "data/d", " and more", "ok: "),
        ("own", "append", "data/new", "made", "ok: "),
        ("std", "read", "/data/d", "", "ok: data and more"),
        ("std", "read", "/data/new", "", "ok: made"),
        ("own", "append", "workspace/x/h", "+", "ok: "),
    ] {
        assert_eq!(
            setup.call(face, op, path, to).await,
            answer,
            "{face} {op} {path}"
        );
    }
    assert_eq!(setup.records(), []);
    for (path, to) in [
        ("l", "../secret"),
        ("docs/l", "../../secret"),
        ("l", "/etc/passwd"),
    ] {
        let said = setup.call("std", "symlink", path, to).await;
        assert_eq!(
            said, "error: PermissionDenied",
            "a link that leads out is not made"
        );
    }
    assert_eq!(
        setup.call("std", "rename", "a.txt", "/data/a").await,
        "error: CrossesDevices"
    );
    assert_eq!(setup.records().len(), 4);
    let data = setup.host.folder().join("data/files/files/d");
    assert_eq!(fs::read_to_string(data).unwrap(), "data and more");
}

#[tokio::test]
async fn of_two_folders_one_in_the_other_the_inner_one_decides() {
    let setup = Setup::with(
        "read = [\"workspace\", \"workspace/out/kept\"]\nwrite = [\"workspace/out\"]",
        |host| {
            let workspace = host.folder().join("workspace");
            fs::create_dir_all(workspace.join("out/kept")).unwrap();
            std::os::unix::fs::symlink("out", workspace.join("to-out")).unwrap();
            std::os::unix::fs::symlink("kept", workspace.join("out/to-kept")).unwrap();
        },
    )
    .await;
    for path in ["out/1", "/workspace/out/2", "to-out/3", "docs/../out/4"] {
        assert_eq!(
            setup.call("std", "write", path, "x").await,
            "ok: ",
            "{path}"
        );
    }
    for path in ["workspace/out/5", "workspace/to-out/6"] {
        assert_eq!(
            setup.call("own", "write", path, "x").await,
            "ok: ",
            "{path}"
        );
    }
    let n_records = setup.records().len();
    assert_eq!(n_records, 0);
    for (op, path, to) in [
        ("write", "a.txt", "x"),
        ("write", "out/../a.txt", "x"),
        ("write", "out/kept/x", "x"),
        ("write", "out/to-kept/x", "x"),
        ("write", "to-out/kept/x", "x"),
        ("rename", "out/1", "b"),
        ("rename", "out/kept", "out/moved"),
        ("remove-folder", "out/kept", ""),
        ("remove-folder", "out", ""),
    ] {
        let said = setup.call("std", op, path, to).await;
        assert!(said.starts_with("error: "), "{op} {path}: {said}");
        assert_eq!(setup.records().len(), 1, "{op} {path}");
    }
    for path in [
        "workspace/out/kept/x",
        "workspace/out/to-kept/x",
        "workspace/a.txt",
    ] {
        let said = setup.call("own", "write", path, "x").await;
        assert!(said.contains("to read, not to write"), "{path}: {said}");
    }
    let names: Vec<String> = tree(&setup.workspace().join("out")).into_keys().collect();
    assert_eq!(names, ["1", "2", "3", "4", "5", "6", "kept", "to-kept"]);
}

#[tokio::test]
async fn a_folder_of_the_workspace_stands_under_its_own_name_and_what_is_beside_it_is_not_there() {
    let setup = Setup::new("read = [\"workspace/docs\", \"workspace/later\"]").await;
    for path in ["docs/b.txt", "/workspace/docs/b.txt", "/docs/b.txt"] {
        assert_eq!(
            setup.call("std", "read", path, "").await,
            "ok: beta",
            "{path}"
        );
    }
    assert_eq!(
        setup.call("own", "read", "workspace/docs/b.txt", "").await,
        "ok: beta"
    );
    assert_eq!(setup.records(), []);
    for path in [
        "a.txt",
        "/workspace/a.txt",
        "docs/../a.txt",
        "/etc/passwd",
        "/proc/self/environ",
    ] {
        let said = setup.call("std", "read", path, "").await;
        assert!(said.starts_with("error: "), "{path}: {said}");
        assert_eq!(setup.records().len(), 1, "{path}");
    }
    for path in ["later/x", "/workspace/later/x"] {
        assert_eq!(
            setup.call("std", "read", path, "").await,
            "error: NotFound",
            "{path}"
        );
        assert_eq!(setup.records().len(), 1, "{path}");
    }
    assert!(!setup.workspace().join("later").exists(), "it is not made");
    fs::create_dir(setup.workspace().join("later")).unwrap();
    fs::write(setup.workspace().join("later/x"), "there now").unwrap();
    assert_eq!(
        setup.call("std", "read", "later/x", "").await,
        "ok: there now"
    );
    assert_eq!(
        setup.call("own", "read", "workspace/later/x", "").await,
        "ok: there now"
    );
}

#[tokio::test]
async fn with_the_data_folder_alone_absolute_and_relative_paths_are_ordinary_errors_and_recorded() {
    let setup = Setup::new("write = [\"data\"]").await;
    assert_eq!(setup.call("std", "write", "/data/x", "x").await, "ok: ");
    for (op, path) in [
        ("read", "/etc/passwd"),
        ("read", "/proc/self/environ"),
        ("read", "a.txt"),
        ("read", "/workspace/a.txt"),
        ("write", "/x"),
        ("create-folder", "/x"),
    ] {
        let said = setup.call("std", op, path, "").await;
        assert!(said.starts_with("error: "), "{path}: {said}");
        let records = setup.records();
        assert_eq!(records.len(), 1, "{op} {path}: {records:?}");
        assert!(records[0].target.ends_with(" in /"), "{records:?}");
    }
    assert_eq!(setup.call("std", "list", "/", "").await, "ok: ");
}

#[tokio::test]
async fn without_a_grant_there_is_no_folder_in_either_face() {
    let setup = Setup::new("").await;
    for path in ["a.txt", "/data/x", "/etc/passwd", "."] {
        let said = setup.call("std", "read", path, "").await;
        assert!(said.starts_with("error: "), "{path}: {said}");
    }
    for path in ["workspace/a.txt", "data/x"] {
        let said = setup.call("own", "read", path, "").await;
        assert!(said.contains("no folder that was granted"), "{said}");
    }
}

#[tokio::test]
async fn a_pipe_is_refused_at_once_and_what_is_swapped_for_one_does_not_hang_the_host() {
    let setup = Setup::new("write = [\"workspace\"]").await;
    let pipe = setup.workspace().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for op in ["read", "write", "append", "truncate"] {
        let said = setup.call("std", op, "pipe", "x").await;
        assert_eq!(said, "error: PermissionDenied", "{op}");
        assert_eq!(setup.records().len(), 1, "{op}");
    }
    for op in ["read", "write"] {
        let said = setup.call("own", op, "workspace/pipe", "x").await;
        assert!(said.contains("a pipe, a device or a socket"), "{said}");
    }
    assert!(
        setup
            .call("std", "stat", "pipe", "")
            .await
            .starts_with("ok: ")
    );
    let workspace = setup.workspace();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let swap = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let _ = fs::hard_link(workspace.join("pipe"), workspace.join("p"));
            fs::rename(workspace.join("p"), workspace.join("name")).unwrap();
            fs::write(workspace.join("f"), "inside").unwrap();
            fs::rename(workspace.join("f"), workspace.join("name")).unwrap();
        }
    });
    for (face, path) in [("std", "name"), ("own", "workspace/name")] {
        setup.call(face, "watch", path, "1000").await;
    }
    is_over.store(true, Ordering::Relaxed);
    swap.join().unwrap();
}

#[tokio::test]
async fn a_link_swapped_while_it_is_read_never_shows_what_is_outside() {
    let setup = Setup::with("read = [\"workspace\"]", |host| {
        let workspace = host.folder().join("workspace");
        fs::create_dir(workspace.join("real")).unwrap();
        fs::write(workspace.join("real/secret"), "inside").unwrap();
        fs::write(workspace.join("file"), "inside").unwrap();
    })
    .await;
    let workspace = setup.workspace();
    let is_over = Arc::new(AtomicBool::new(false));
    let n_swaps = Arc::new(AtomicU32::new(0));
    let (over, swapped) = (is_over.clone(), n_swaps.clone());
    let swap = std::thread::spawn(move || {
        let put = |target: &str, name: &str| {
            let temporary = workspace.join("temporary");
            let _ = fs::remove_file(&temporary);
            std::os::unix::fs::symlink(target, &temporary).unwrap();
            fs::rename(&temporary, workspace.join(name)).unwrap();
        };
        while !over.load(Ordering::Relaxed) {
            put("..", "folder");
            put("../secret", "name");
            put("real", "folder");
            put("file", "name");
            swapped.fetch_add(1, Ordering::Relaxed);
        }
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    for (face, path) in [
        ("std", "folder/secret"),
        ("std", "name"),
        ("own", "workspace/folder/secret"),
        ("own", "workspace/name"),
    ] {
        let before = n_swaps.load(Ordering::Relaxed);
        let (mut is_read, mut is_refused) = (false, false);
        // Runs until reads and refusals both occurred during many swaps, to test the race.
        while !(is_read && is_refused && n_swaps.load(Ordering::Relaxed) - before > 200) {
            let seen = setup.call(face, "watch", path, "300").await;
            assert!(!seen.contains("outside"), "{face} {path}: {seen}");
            is_read |= seen.contains("inside");
            is_refused |= seen.contains("Denied");
            assert!(Instant::now() < deadline, "{face} {path}: {seen}");
        }
    }
    is_over.store(true, Ordering::Relaxed);
    swap.join().unwrap();
}

const SMALL: &str = "write = [\"data\"]\n[limits]\ndata = \"1MiB\"\nfiles = 40\ntimeout = \"60s\"";

#[tokio::test]
async fn a_guest_that_writes_for_ever_is_stopped_at_the_quota_through_both_faces() {
    for (face, op, path) in [
        ("std", "flood", "/data/x"),
        ("std", "flood-append", "/data/x"),
        ("own", "flood", "data"),
        ("own", "flood-append", "data/x"),
    ] {
        let setup = Setup::new(SMALL).await;
        let said = setup.call(face, op, path, "").await;
        assert!(said.starts_with("ok: 1048576 "), "{face} {op}: {said}");
        let records = setup.records();
        assert_eq!(records.len(), 1, "{records:?}");
        assert_eq!(records[0].outcome, AccessOutcome::Denied);
        let reason = records[0].reason.as_deref().unwrap();
        assert!(
            reason.contains("data folder is full: 1048576 bytes"),
            "{reason}"
        );
        let other = if face == "std" { "own" } else { "std" };
        let path = if other == "std" { "/data/y" } else { "data/y" };
        let said = setup.call(other, "write", path, "more").await;
        assert!(
            said.starts_with("error: "),
            "{other} has the same quota: {said}"
        );
    }
}

#[tokio::test]
async fn a_stream_takes_no_more_at_once_than_it_says() {
    let setup = Setup::new(SMALL).await;
    let arguments = json!({"op": "write-unasked", "path": "x", "to": ""});
    let output = setup.session.tool("std", arguments).await;
    assert!(output.is_error, "{}", output.content);
    let said = &output.content.to_string();
    assert!(said.contains("more than `check-write` allows"), "{said}");
}

#[tokio::test]
async fn a_guest_does_not_take_all_files_that_the_host_may_open() {
    let setup = Setup::new(SMALL).await;
    assert_eq!(setup.call("std", "write", "/data/x", "x").await, "ok: ");
    for (op, path) in [("keep-open", "/data/x"), ("keep-streams", "x")] {
        let said = setup.call("std", op, path, "").await;
        let n_open = said.strip_prefix("ok: ").unwrap().split(' ').next();
        let n_open: usize = n_open.unwrap().parse().unwrap();
        assert!((100..=128).contains(&n_open), "{op}: {said}");
        let records = setup.records();
        let reason = records[0].reason.as_deref().unwrap();
        assert!(
            reason.contains("already has 128 files and folders open"),
            "{reason}"
        );
    }
    let said = setup.call("std", "read", "/data/x", "").await;
    assert_eq!(said, "ok: x", "they are given back");
}

#[tokio::test]
async fn a_guest_that_makes_a_million_files_is_stopped_at_the_quota_through_both_faces() {
    for (face, path) in [("std", "/data"), ("own", "data")] {
        let setup = Setup::new(SMALL).await;
        let said = setup.call(face, "many", path, "").await;
        assert!(said.starts_with("ok: 40 "), "{face}: {said}");
        assert_eq!(setup.records().len(), 1);
        let folder = setup.host.folder().join("data/files/files");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 40);
    }
}

#[tokio::test]
async fn holes_and_files_without_a_name_count_and_room_comes_back() {
    let setup = Setup::new(SMALL).await;
    for (op, path, to) in [
        ("seek-far", "/data/x", ""),
        ("resize", "/data/x", "1048577"),
    ] {
        let said = setup.call("std", op, path, to).await;
        assert!(said.starts_with("error: "), "{op}: {said}");
    }
    assert_eq!(
        setup.call("std", "resize", "/data/x", "1048576").await,
        "ok: "
    );
    assert!(
        setup
            .call("std", "append", "/data/x", "x")
            .await
            .starts_with("error: ")
    );
    assert_eq!(setup.call("std", "resize", "/data/x", "10").await, "ok: ");
    assert_eq!(setup.call("std", "append", "/data/x", "x").await, "ok: ");
    assert_eq!(setup.call("own", "remove", "data/x", "").await, "ok: ");
    let said = setup.call("std", "unlinked", "/data", "").await;
    assert!(said.starts_with("ok: 4 "), "{said}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let text = "x".repeat(1 << 20);
    assert_eq!(
        setup.call("own", "write", "data/whole", &text).await,
        "ok: "
    );
    assert_eq!(
        setup.call("own", "write", "data/whole", &text).await,
        "ok: ",
        "putting a file in place of another costs what it grows by"
    );
    assert!(
        setup
            .call("own", "write", "data/more", "x")
            .await
            .starts_with("error: ")
    );
    assert_eq!(
        setup.call("std", "truncate", "/data/whole", "").await,
        "ok: "
    );
    assert_eq!(setup.call("own", "write", "data/more", "x").await, "ok: ");
}

#[tokio::test]
async fn what_a_plugin_kept_before_counts_when_it_is_loaded_again() {
    let setup = Setup::with(SMALL, |host| {
        let folder = host.folder().join("data/files/files/deep/er");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x"), vec![7; 1 << 20]).unwrap();
    })
    .await;
    assert!(
        setup
            .call("std", "write", "/data/y", "y")
            .await
            .starts_with("error: ")
    );
    assert_eq!(
        setup.call("std", "read", "/data/y", "").await,
        "ok: ",
        "an empty file has room"
    );
}

#[tokio::test]
async fn a_folder_that_holds_or_lies_in_one_of_rinds_own_is_not_given() {
    for own in ["workspace/state/rind", "workspace/docs", "", "."] {
        let setup = Setup::with("read = [\"workspace/docs\", \"data\"]", |host| {
            let own = host.folder().join(own);
            fs::create_dir_all(&own).unwrap();
            host.options.protected.push(own);
        })
        .await;
        let is_given = own == "workspace/state/rind";
        let said = setup.call("std", "read", "docs/b.txt", "").await;
        assert_eq!(said == "ok: beta", is_given, "{own}: {said}");
        let said = setup.call("own", "read", "workspace/docs/b.txt", "").await;
        assert_eq!(said == "ok: beta", is_given, "{own}: {said}");
        let records = setup.records();
        assert_eq!(records.len(), if is_given { 0 } else { 2 }, "{own}");
        for record in records {
            assert_eq!(record.outcome, AccessOutcome::Denied);
            let reason = record.reason.unwrap();
            assert!(
                reason.starts_with("`workspace/docs` is not given to plugins"),
                "{reason}"
            );
        }
    }
    let setup = Setup::with("read = [\"workspace\"]", |host| {
        let own = host.folder().join("workspace/not/yet/there");
        host.options.protected.push(own);
    })
    .await;
    assert_eq!(
        setup.call("std", "read", "a.txt", "").await,
        "error: PermissionDenied"
    );
    assert_eq!(
        setup.call("std", "list", ".", "").await,
        "error: PermissionDenied"
    );
}

#[tokio::test]
async fn a_granted_folder_that_is_a_link_out_is_not_given() {
    let setup = Setup::with("read = [\"workspace/link\", \"workspace/inner\"]", |host| {
        let workspace = host.folder().join("workspace");
        std::os::unix::fs::symlink("..", workspace.join("link")).unwrap();
        std::os::unix::fs::symlink("docs", workspace.join("inner")).unwrap();
    })
    .await;
    for (face, path) in [("std", "link/secret"), ("own", "workspace/link/secret")] {
        let said = setup.call(face, "read", path, "").await;
        assert!(said.starts_with("error: "), "{said}");
        assert!(
            setup.records()[0]
                .reason
                .as_deref()
                .unwrap()
                .contains("leads out")
        );
    }
    assert_eq!(
        setup.call("std", "read", "inner/b.txt", "").await,
        "ok: beta"
    );
    assert_eq!(
        setup.call("own", "read", "workspace/inner/b.txt", "").await,
        "ok: beta"
    );
}

#[tokio::test]
async fn the_projects_own_folder_and_gits_are_read_and_never_written() {
    let manifest = "write = [\"workspace\", \"workspace/.rind\", \"workspace/way-in\"]";
    let setup = Setup::with(manifest, |host| {
        let workspace = host.folder().join("workspace");
        for folder in [".rind/plugins", ".git/hooks", "docs/.git"] {
            fs::create_dir_all(workspace.join(folder)).unwrap();
        }
        fs::write(workspace.join(".rind/config.toml"), "settings").unwrap();
        std::os::unix::fs::symlink(".rind", workspace.join("way-in")).unwrap();
    })
    .await;
    let before = tree(&setup.workspace().join(".rind"));
    for path in [
        ".rind/config.toml",
        "way-in/config.toml",
        "/workspace/.rind/config.toml",
    ] {
        assert_eq!(setup.call("std", "read", path, "").await, "ok: settings");
    }
    assert_eq!(setup.records(), []);
    for (op, path, to) in [
        ("write", ".rind/config.toml", "x"),
        ("write", ".rind/new", "x"),
        ("write", "docs/../.rind/new", "x"),
        ("write", "way-in/config.toml", "x"),
        ("write", "way-in/plugins/new", "x"),
        ("append", "/workspace/.rind/config.toml", "x"),
        ("truncate", ".rind/config.toml", ""),
        ("create-folder", ".rind/plugins/evil", ""),
        ("create-folder", ".RIND", ""),
        ("write", ".git/hooks/pre-commit", "x"),
        ("write", "docs/.git/config", "x"),
        ("rename", "a.txt", ".rind/config.toml"),
        ("rename", "a.txt", "way-in/new"),
        ("rename", ".rind", "moved"),
        ("rename", ".rind/config.toml", "moved"),
        ("rename", "docs", ".rind/plugins"),
        ("hard-link", ".rind/config.toml", "linked"),
        ("hard-link", "a.txt", ".rind/plugins/linked"),
        ("symlink", ".rind/linked", "config.toml"),
        ("remove", ".rind/config.toml", ""),
        ("remove-folder", ".rind/plugins", ""),
        ("set-times", ".rind/config.toml", ""),
    ] {
        let said = setup.call("std", op, path, to).await;
        assert!(said.starts_with("error: "), "{op} {path}: {said}");
        let records = setup.records();
        assert_eq!(records.len(), 1, "{op} {path}: {records:?}");
        assert_eq!(records[0].outcome, AccessOutcome::Denied, "{records:?}");
    }
    for path in [
        "workspace/.rind/config.toml",
        "workspace/.rind/new",
        "workspace/way-in/new",
    ] {
        let said = setup.call("own", "write", path, "x").await;
        assert!(
            said.contains("plugins cannot write there"),
            "{path}: {said}"
        );
    }
    assert_eq!(tree(&setup.workspace().join(".rind")), before);
}

#[tokio::test]
async fn a_plugin_cannot_make_a_repository_of_a_folder() {
    let setup = Setup::with("write = [\"workspace\", \"data\"]", |_| {}).await;
    for (op, path, to) in [
        ("write", "HEAD", "ref: refs/heads/main"),
        ("write", "docs/HEAD", "ref: refs/heads/main"),
        ("write", "docs/head", "ref: refs/heads/main"),
        ("rename", "a.txt", "HEAD"),
        ("hard-link", "a.txt", "docs/HEAD"),
        ("symlink", "HEAD", "refs/heads/main"),
        ("create-folder", "HEAD", ""),
    ] {
        let said = setup.call("std", op, path, to).await;
        assert!(said.starts_with("error: "), "{op} {path}: {said}");
        let records = setup.records();
        assert_eq!(records.len(), 1, "{op} {path}: {records:?}");
        assert_eq!(records[0].outcome, AccessOutcome::Denied, "{records:?}");
    }
    let said = setup.call("own", "write", "workspace/docs/HEAD", "x").await;
    assert!(said.contains("files named `HEAD`"), "{said}");
    assert!(!setup.workspace().join("HEAD").exists());
    assert_eq!(setup.call("std", "write", "HEADER", "x").await, "ok: ");
    // An existing repository without a work tree, under any name.
    for folder in ["bare/objects", "bare/refs", "bare/hooks"] {
        std::fs::create_dir_all(setup.workspace().join(folder)).unwrap();
    }
    std::fs::write(setup.workspace().join("bare/HEAD"), "ref: refs/heads/main").unwrap();
    for (op, path, to) in [
        ("write", "bare/config", "x"),
        ("write", "bare/hooks/update", "x"),
        ("rename", "a.txt", "bare/config"),
        ("hard-link", "a.txt", "bare/commondir"),
    ] {
        let said = setup.call("std", op, path, to).await;
        assert!(said.starts_with("error: "), "{op} {path}: {said}");
    }
    assert!(!setup.workspace().join("bare/config").exists());
}

#[tokio::test]
async fn a_plugin_that_never_stops_trying_is_recorded_up_to_a_number() {
    let setup = Setup::new("read = [\"workspace\"]").await;
    for face in ["std", "own"] {
        setup.call(face, "watch", "workspace/nowhere", "150").await;
    }
    let records = setup.records();
    assert_eq!(records.len(), 201);
    assert_eq!(records[200].target, "further files");
    assert!(
        records[200]
            .reason
            .as_deref()
            .unwrap()
            .contains("more than 200 file accesses")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_path_leads_out_of_a_granted_folder(path in path(), follow: bool, is_own: bool) {
        let world = world();
        let opened = if is_own {
            match world.folders.read_file_range(&format!("workspace/{path}"), 0, 100) {
                Ok(content) => {
                    prop_assert_eq!(content, b"inside");
                    return Ok(());
                }
                Err(_) => return Ok(()),
            }
        } else {
            world.folders.resolve_path_from_base(&PathBaseFolder::Granted(0), &path, follow)
        };
        let how = FolderOpenOptions { read: true, ..FolderOpenOptions::default() };
        if let Ok(opened) = opened.and_then(|place| place.open_file_or_folder(how)) {
            let metadata = opened.file.metadata().unwrap();
            prop_assert!(
                world.inside.contains(&(metadata.dev(), metadata.ino())),
                "{:?} led to what is not in the folder", path
            );
        }
    }
}

/// Paths of names that exist, that do not exist, and that have a special meaning.
fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        4 => Just("..".to_owned()),
        2 => Just(".".to_owned()),
        1 => Just(String::new()),
        4 => prop_oneof![Just("deep"), Just("er"), Just("up"), Just("out"), Just("far"), Just("file"), Just("root")]
            .prop_map(str::to_owned),
        1 => prop_oneof![Just("workspace"), Just("etc"), Just("passwd"), Just("secret"), Just("~"), Just("...")]
            .prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let names = proptest::collection::vec(name, 0..9);
    (any::<bool>(), names, any::<bool>()).prop_map(|(is_absolute, names, is_folder)| {
        let (start, end) = (
            if is_absolute { "/" } else { "" },
            if is_folder { "/" } else { "" },
        );
        format!("{start}{}{end}", names.join("/"))
    })
}

struct World {
    folders: GrantedFolders,
    inside: BTreeSet<(u64, u64)>,
    _folder: tempfile::TempDir,
}

/// A granted folder with subfolders, and with links that lead inside and outside.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        fs::create_dir_all(workspace.join("deep/er")).unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        fs::write(workspace.join("file"), "inside").unwrap();
        fs::write(workspace.join("deep/er/file"), "inside").unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, workspace.join(name)).unwrap();
        };
        link("../file", "deep/up");
        link("../../secret", "deep/out");
        link("..", "deep/er/up");
        link("../../..", "deep/er/out");
        link("deep/er/up/../..", "far");
        link("/", "root");
        let mut inside = BTreeSet::new();
        let all = ["", "deep", "deep/er", "file", "deep/er/file"];
        inside.extend(all.map(|name| {
            let metadata = fs::metadata(workspace.join(name)).unwrap();
            (metadata.dev(), metadata.ino())
        }));
        let granted = GrantedCapabilities::new(vec![Capability::Files(
            FolderAccess::Read,
            "workspace".parse().unwrap(),
        )]);
        let places = PluginFolderLocations {
            workspace,
            data: folder.path().join("data/files"),
            empty: folder.path().join("empty"),
            protected: Vec::new(),
            quota: FolderQuota::from_manifest_limits(None, None),
        };
        World {
            folders: GrantedFolders::new(&granted, places),
            inside,
            _folder: folder,
        }
    })
}

/// A plugin that may write only missing folders can create them, through either interface.
#[tokio::test]
async fn a_folder_that_was_granted_and_is_not_there_is_made_by_whoever_may_write_it() {
    let write = "write = [\"workspace/out\", \"workspace/a/b\"]";
    for (face, path, made) in [
        ("own", "workspace/out", "out"),
        ("own", "workspace/out/deep/er", "out/deep/er"),
        ("own", "workspace/a/b", "a/b"),
        ("std", "/workspace/out", "out"),
        ("std", "out", "out"),
        ("std", "a/b", "a/b"),
    ] {
        let setup = Setup::new(write).await;
        let said = setup.call(face, "create-folder", path, "").await;
        assert_eq!(said, "ok: ", "{face} {path}");
        assert!(setup.workspace().join(made).is_dir(), "{face} {path}");
        let inner = match face {
            "own" => format!("{path}/x"),
            _ => format!("/workspace/{made}/x"),
        };
        let said = setup.call(face, "write", &inner, "1").await;
        assert!(said.starts_with("ok"), "{face} {inner}: {said}");
        assert!(
            setup.workspace().join(made).join("x").is_file(),
            "{face} {path}"
        );
    }
}

#[tokio::test]
async fn a_folder_that_may_only_be_read_or_that_a_link_stands_for_is_not_made() {
    for face in ["own", "std"] {
        let path = |name: &str| match face {
            "own" => format!("workspace/{name}"),
            _ => format!("/workspace/{name}"),
        };
        let setup = Setup::new("read = [\"workspace/out\"]").await;
        let said = setup.call(face, "create-folder", &path("out"), "").await;
        assert!(said.starts_with("error"), "{face}: {said}");
        assert!(!setup.workspace().join("out").exists(), "{face}");

        let setup = Setup::with("write = [\"workspace/out\"]", |host| {
            let outside = host.folder().join("outside");
            std::os::unix::fs::symlink(outside, host.folder().join("workspace/out")).unwrap();
        });
        let setup = setup.await;
        let said = setup.call(face, "create-folder", &path("out"), "").await;
        assert!(said.starts_with("error"), "{face}: {said}");
        assert!(!setup.host.folder().join("outside").exists(), "{face}");
    }
}

#[tokio::test]
async fn an_absolute_link_that_leads_inside_is_followed_and_one_that_leads_out_is_not() {
    let setup = Setup::with("read = [\"workspace\"]", |host| {
        let workspace = host.folder().join("workspace");
        let real = workspace.canonicalize().unwrap();
        std::os::unix::fs::symlink(real.join("docs"), workspace.join("inside")).unwrap();
        std::os::unix::fs::symlink(real.parent().unwrap().join("secret"), workspace.join("out"))
            .unwrap();
    });
    let setup = setup.await;
    for (face, path, expected) in [
        ("own", "workspace/inside/b.txt", "ok: beta"),
        ("std", "inside/b.txt", "ok: beta"),
        ("std", "/workspace/inside/../a.txt", "ok: alpha"),
    ] {
        assert_eq!(
            setup.call(face, "read", path, "").await,
            expected,
            "{face} {path}"
        );
    }
    for (face, path) in [("own", "workspace/out"), ("std", "out")] {
        let said = setup.call(face, "read", path, "").await;
        assert!(said.starts_with("error"), "{face}: {said}");
    }
}

#[tokio::test]
async fn a_name_that_is_not_utf_8_hides_no_other_from_a_listing() {
    use std::os::unix::ffi::OsStrExt;
    let setup = Setup::with("read = [\"workspace\"]", |host| {
        let docs = host.folder().join("workspace/docs");
        for n in 0..8 {
            fs::write(docs.join(format!("f{n}.txt")), "x").unwrap();
        }
        fs::write(docs.join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt")), "x").unwrap();
    });
    let setup = setup.await;
    for (face, path) in [("std", "docs"), ("own", "workspace/docs")] {
        let said = setup.call(face, "list", path, "").await;
        let n = (0..8)
            .filter(|n| said.contains(&format!("f{n}.txt")))
            .count();
        assert_eq!(n, 8, "{face}: {said}");
    }
    let told = setup.records();
    let says = "an entry whose name is not UTF-8 was left out of a listing";
    assert!(
        told.iter().any(|record| record
            .reason
            .as_deref()
            .is_some_and(|why| why.contains(says))),
        "{told:?}"
    );
}
