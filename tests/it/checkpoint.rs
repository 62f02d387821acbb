//! Checkpoints on real folders: which files a rewind restores, and which it keeps.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use rind::checkpoint::{
    CheckpointConfig, CheckpointReader, FileChangeOrigin, FileRewindResult, SessionCheckpointSpec,
    SessionCheckpoints,
};

/// A session's folder and a workspace, both below `folder`, and the checkpoints of the workspace.
struct Place {
    folder: tempfile::TempDir,
    checkpoints: Arc<SessionCheckpoints>,
}

impl Place {
    fn new(config: CheckpointConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["session", "workspace"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let checkpoints = open(folder.path(), config);
        Self {
            folder,
            checkpoints,
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("workspace").join(path)
    }

    fn session(&self) -> PathBuf {
        self.folder.path().join("session")
    }

    /// Simulates a restart of the process by opening the checkpoints again.
    fn begin_again(&mut self) {
        self.checkpoints = open(self.folder.path(), CheckpointConfig::default());
    }

    fn command(&self, turn: u32, work: impl FnOnce(&Self)) {
        let started = self.checkpoints.begin_tool_call(&origin(turn, "bash"));
        work(self);
        self.checkpoints.end_tool_call(started);
    }

    fn write(&self, turn: u32, path: &str, text: &str) {
        let origin = origin(turn, "write_file");
        let begun = self
            .checkpoints
            .begin_file_write(&origin, path, Some(text.as_bytes()));
        let target = self.at(path);
        let written = fs::create_dir_all(target.parent().unwrap())
            .and_then(|()| fs::write(&target, text))
            .is_ok();
        if let Some(record) = begun {
            self.checkpoints.end_file_write(record, written);
        }
    }

    fn rewind(&self, turn: u32, overwrites: bool) -> FileRewindResult {
        let plan = self.checkpoints.plan_rewind(turn).unwrap();
        let applied = self.checkpoints.apply_rewind(&plan, overwrites, turn);
        applied.unwrap()
    }

    fn tree(&self) -> BTreeMap<String, String> {
        let mut tree = BTreeMap::new();
        add_tree(&self.at(""), "", &mut tree);
        tree
    }
}

fn open(folder: &Path, config: CheckpointConfig) -> Arc<SessionCheckpoints> {
    Arc::new(SessionCheckpoints::new(SessionCheckpointSpec {
        config,
        session: folder.join("session"),
        workspace: folder.join("workspace"),
        own_folders: Vec::new(),
    }))
}

fn origin(turn: u32, tool: &str) -> FileChangeOrigin {
    FileChangeOrigin {
        turn,
        call: "call".to_owned(),
        tool: tool.to_owned(),
    }
}

fn add_tree(folder: &Path, above: &str, tree: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{above}{}", entry.file_name().to_str().unwrap());
        let meta = entry.path().symlink_metadata().unwrap();
        let mode = meta.permissions().mode() & 0o7777;
        let state = if meta.is_dir() {
            add_tree(&entry.path(), &format!("{path}/"), tree);
            format!("folder {mode:o}")
        } else if meta.is_symlink() {
            format!("link {}", fs::read_link(entry.path()).unwrap().display())
        } else if meta.is_file() {
            let text = fs::read(entry.path()).unwrap();
            format!("file {mode:o} {}", String::from_utf8_lossy(&text))
        } else {
            "other".to_owned()
        };
        tree.insert(path, state);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

type Act = fn(&Place);

#[test]
fn everything_that_a_command_changes_comes_back() {
    let rows: &[(&str, Act)] = &[
        ("a changed file", |p| fs::write(p.at("a"), "2").unwrap()),
        ("a change of the same length within a tick", |p| {
            fs::write(p.at("a"), "X").unwrap();
        }),
        ("a created file", |p| fs::write(p.at("new"), "n").unwrap()),
        ("a deleted file", |p| fs::remove_file(p.at("a")).unwrap()),
        ("a moved folder", |p| {
            fs::rename(p.at("d"), p.at("moved")).unwrap();
        }),
        ("a folder into another one", |p| {
            fs::create_dir_all(p.at("x/y")).unwrap();
            fs::rename(p.at("d"), p.at("x/y/d")).unwrap();
        }),
        ("a deleted folder", |p| {
            fs::remove_dir_all(p.at("d")).unwrap()
        }),
        ("an emptied folder", |p| {
            fs::remove_dir_all(p.at("d/e")).unwrap()
        }),
        ("an executable bit", |p| set_mode(&p.at("a"), 0o755)),
        ("a private folder", |p| set_mode(&p.at("d/e"), 0o700)),
        ("a file that became a folder", |p| {
            fs::remove_file(p.at("a")).unwrap();
            fs::create_dir_all(p.at("a/b")).unwrap();
            fs::write(p.at("a/b/c"), "c").unwrap();
        }),
        ("a folder that became a file", |p| {
            fs::remove_dir_all(p.at("d")).unwrap();
            fs::write(p.at("d"), "d").unwrap();
        }),
        ("a link that leads elsewhere", |p| {
            fs::remove_file(p.at("link")).unwrap();
            symlink("nowhere", p.at("link")).unwrap();
        }),
        ("a link that became a file", |p| {
            fs::remove_file(p.at("link")).unwrap();
            fs::write(p.at("link"), "l").unwrap();
        }),
        ("a folder that became a link", |p| {
            fs::rename(p.at("d"), p.at("other")).unwrap();
            symlink("other", p.at("d")).unwrap();
        }),
        ("a folder that became a link out of the workspace", |p| {
            fs::remove_dir_all(p.at("d")).unwrap();
            symlink(p.session(), p.at("d")).unwrap();
        }),
        ("a link to itself", |p| {
            fs::remove_dir_all(p.at("d/e")).unwrap();
            symlink("e", p.at("d/e")).unwrap();
        }),
        ("a large file made", |p| {
            fs::write(p.at("large"), vec![b'x'; 3 << 20]).unwrap();
        }),
        ("a file that grew over the limit", |p| {
            fs::write(p.at("a"), vec![b'x'; 3 << 20]).unwrap();
        }),
        ("bytes that are no text", |p| {
            fs::write(p.at("binary"), [0, 159, 146, 150]).unwrap();
        }),
        ("names with blanks and line feeds", |p| {
            fs::write(p.at("a\nb c"), "x").unwrap();
        }),
    ];
    for (name, act) in rows {
        let place = Place::new(CheckpointConfig::default());
        fs::create_dir_all(place.at("d/e")).unwrap();
        for (path, text) in [
            ("a", "1"),
            ("d/one", "one"),
            ("d/e/two", "two"),
            ("binary", "\u{0}\u{1}"),
        ] {
            fs::write(place.at(path), text).unwrap();
        }
        symlink("a", place.at("link")).unwrap();
        let before = place.tree();
        place.command(1, act);
        assert_ne!(place.tree(), before, "{name}");
        let plan = place.checkpoints.plan_rewind(1).unwrap();
        assert_eq!(
            (plan.n_changes_needing_explicit_request(), plan.lost.len()),
            (0, 0),
            "{name}: {plan:?}"
        );
        let result = place.rewind(1, false);
        assert!(result.kept.is_empty(), "{name}: {result:?}");
        assert_eq!(place.tree(), before, "{name}");
        let again = place.checkpoints.plan_rewind(1).unwrap();
        assert!(again.changes.is_empty(), "{name}: {again:?}");
    }
}

#[test]
fn a_persons_changes_stay_until_they_are_given_up() {
    let rows: &[(&str, Act, &[&str])] = &[
        (
            "an edit since",
            |p| fs::write(p.at("a"), "mine").unwrap(),
            &["a"],
        ),
        ("a mode since", |p| set_mode(&p.at("a"), 0o600), &["a"]),
        (
            "a pipe in its place",
            |p| {
                fs::remove_file(p.at("a")).unwrap();
                let made = std::process::Command::new("mkfifo").arg(p.at("a")).status();
                assert!(made.unwrap().success());
            },
            &["a"],
        ),
        (
            "a file in a created folder",
            |p| {
                fs::write(p.at("made/mine"), "mine").unwrap();
            },
            &["made"],
        ),
        (
            "a link in place of a folder",
            |p| {
                fs::rename(p.at("made"), p.at("aside")).unwrap();
                symlink("aside", p.at("made")).unwrap();
            },
            &["made"],
        ),
    ];
    for (name, person, expected) in rows {
        let place = Place::new(CheckpointConfig::default());
        fs::write(place.at("a"), "1").unwrap();
        fs::write(place.at("b"), "1").unwrap();
        place.command(1, |p| {
            fs::write(p.at("a"), "2").unwrap();
            fs::write(p.at("b"), "2").unwrap();
            fs::create_dir(p.at("made")).unwrap();
            fs::write(p.at("made/file"), "x").unwrap();
        });
        person(&place);
        let before = place.tree();
        let result = place.rewind(1, false);
        let kept: Vec<&str> = result.kept.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(kept, *expected, "{name}: {result:?}");
        let after = place.tree();
        assert_eq!(after["b"], "file 644 1", "{name}");
        for path in *expected {
            assert_eq!(after[*path], before[*path], "{name}");
        }
        if *name == "an edit since" {
            let result = place.rewind(1, true);
            assert!(result.kept.is_empty(), "{result:?}");
            assert_eq!(place.tree()["a"], "file 644 1");
        }
    }
}

#[test]
fn an_edit_between_two_calls_is_asked_about() {
    let place = Place::new(CheckpointConfig::default());
    fs::write(place.at("a"), "1").unwrap();
    place.write(1, "a", "2");
    fs::write(place.at("a"), "mine").unwrap();
    place.command(2, |p| fs::write(p.at("a"), "3").unwrap());
    let result = place.rewind(1, false);
    assert_eq!(result.kept.len(), 1, "{result:?}");
    assert!(result.kept[0].1.contains("between two calls"), "{result:?}");
    // Rewinding only the last turn restores the person's text.
    let result = place.rewind(2, false);
    assert_eq!(result.kept.len(), 0, "{result:?}");
    assert_eq!(place.tree()["a"], "file 644 mine");
}

#[test]
fn files_that_cannot_be_kept_are_named_and_ignored_ones_stay() {
    let place = Place::new(CheckpointConfig::default());
    fs::write(place.at(".gitignore"), "ignored\n").unwrap();
    fs::write(place.at("ignored"), "i").unwrap();
    fs::write(place.at("large"), vec![b'x'; 3 << 20]).unwrap();
    fs::create_dir(place.at(".git")).unwrap();
    fs::write(place.at(".git/config"), "c").unwrap();
    place.command(1, |p| {
        fs::write(p.at("ignored"), "i2").unwrap();
        fs::write(p.at("large"), "small").unwrap();
        fs::write(p.at(".git/config"), "c2").unwrap();
    });
    // A file written by a file tool is always saved, even if git ignores it.
    place.write(1, "ignored", "i3");
    let plan = place.checkpoints.plan_rewind(1).unwrap();
    let lost: Vec<String> = plan
        .lost
        .iter()
        .map(|lost| format!("{}: {}", lost.subject, lost.why))
        .collect();
    assert_eq!(lost, ["large: it was too large to be kept"]);
    assert!(plan.has_commands);
    let result = place.rewind(1, false);
    assert_eq!(result.restored.len(), 1, "{result:?}");
    assert_eq!(place.tree()["ignored"], "file 644 i2");
    assert_eq!(place.tree()[".git/config"], "file 644 c2");
}

#[test]
fn a_workspace_beyond_the_limits_is_told_of_once_and_file_tools_are_kept_even_so() {
    let place = Place::new(CheckpointConfig {
        max_files: 3,
        ..CheckpointConfig::default()
    });
    for n in 0..5 {
        fs::write(place.at(&n.to_string()), "x").unwrap();
    }
    for turn in 1..3 {
        place.command(turn, |p| fs::write(p.at("0"), "changed").unwrap());
    }
    place.write(3, "1", "written");
    let notices = place.checkpoints.take_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("more than 3 files"), "{notices:?}");
    let plan = place.checkpoints.plan_rewind(1).unwrap();
    assert_eq!((plan.lost.len(), plan.changes.len()), (2, 1), "{plan:?}");
    place.rewind(1, false);
    assert_eq!(place.tree()["0"], "file 644 changed");
    assert_eq!(place.tree()["1"], "file 644 x");
}

#[test]
fn contents_that_find_no_room_are_lost_and_the_calls_go_on() {
    let place = Place::new(CheckpointConfig {
        max_session_bytes: 200,
        max_total_bytes: 1_000,
        ..CheckpointConfig::default()
    });
    fs::write(place.at("a"), "short").unwrap();
    fs::write(place.at("b"), "b".repeat(500)).unwrap();
    place.command(1, |p| {
        fs::write(p.at("a"), "changed").unwrap();
        fs::write(p.at("b"), "changed").unwrap();
    });
    let plan = place.checkpoints.plan_rewind(1).unwrap();
    assert_eq!((plan.lost.len(), plan.changes.len()), (1, 1), "{plan:?}");
    assert!(plan.lost[0].why.contains("limit"), "{plan:?}");
}

#[test]
fn a_file_without_room_takes_none_from_the_files_that_come_later() {
    let place = Place::new(CheckpointConfig {
        max_total_bytes: 10,
        ..CheckpointConfig::default()
    });
    fs::write(place.at("a"), "a".repeat(7)).unwrap();
    fs::write(place.at("b"), "b".repeat(7)).unwrap();
    // Waits, because recently changed files are read again even if their timestamps match.
    std::thread::sleep(std::time::Duration::from_millis(120));
    place.command(1, |_| {});
    fs::write(place.at("c"), "new").unwrap();
    place.command(2, |p| fs::remove_file(p.at("c")).unwrap());
    let result = place.rewind(2, false);
    assert_eq!(place.tree()["c"], "file 644 new", "{result:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_told_of_once_and_stops_no_call() {
    let place = Place::new(CheckpointConfig::default());
    // A file in place of the folder makes writing fail for every user, including root.
    fs::write(place.session().join("checkpoints"), "").unwrap();
    for turn in 1..3 {
        place.command(turn, |p| fs::write(p.at("a"), turn.to_string()).unwrap());
        place.write(turn, "b", "b");
    }
    let notices = place.checkpoints.take_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("cannot be undone"), "{notices:?}");
    assert!(place.checkpoints.plan_rewind(1).is_err());
}

#[test]
fn a_command_that_was_killed_with_the_program_is_compared_by_the_next_one() {
    let mut place = Place::new(CheckpointConfig::default());
    fs::write(place.at("a"), "1").unwrap();
    let started = place.checkpoints.begin_tool_call(&origin(1, "bash"));
    fs::write(place.at("a"), "2").unwrap();
    std::mem::forget(started);
    place.begin_again();
    let result = place.rewind(1, false);
    assert_eq!(result.kept.len(), 1, "{result:?}");
    assert!(result.kept[0].1.contains("interrupted"), "{result:?}");
    place.rewind(1, true);
    assert_eq!(place.tree()["a"], "file 644 1");
}

#[test]
fn commands_side_by_side_and_one_that_is_dropped_lose_nothing() {
    let place = Place::new(CheckpointConfig::default());
    fs::write(place.at("a"), "1").unwrap();
    fs::write(place.at("b"), "1").unwrap();
    let before = place.tree();
    let one = place.checkpoints.begin_tool_call(&origin(1, "bash"));
    let two = place.checkpoints.begin_tool_call(&origin(1, "bash"));
    fs::write(place.at("a"), "2").unwrap();
    place.write(1, "b", "2");
    place.checkpoints.end_tool_call(one);
    fs::write(place.at("a"), "3").unwrap();
    assert!(place.checkpoints.plan_rewind(1).is_err(), "a call runs");
    place.checkpoints.end_tool_call(two);
    let result = place.rewind(1, false);
    assert!(result.kept.is_empty(), "{result:?}");
    assert_eq!(place.tree(), before);

    drop(place.checkpoints.begin_tool_call(&origin(2, "bash")));
    fs::write(place.at("a"), "4").unwrap();
    place.command(2, |p| fs::write(p.at("b"), "4").unwrap());
    let result = place.rewind(2, false);
    assert_eq!(result.restored.len(), 1, "{result:?}");
    assert_eq!(result.kept.len(), 1, "{result:?}");
}

#[test]
fn a_closed_session_keeps_what_its_records_need_and_nothing_else() {
    let mut place = Place::new(CheckpointConfig::default());
    for n in 0..50 {
        fs::write(place.at(&n.to_string()), n.to_string().repeat(1_000)).unwrap();
    }
    let before = place.tree();
    place.command(1, |p| fs::write(p.at("7"), "changed").unwrap());
    let contents = place.session().join("checkpoints/contents");
    let large = fs::metadata(&contents).unwrap().len();
    place.checkpoints.remove_unreferenced_contents().unwrap();
    let small = fs::metadata(&contents).unwrap().len();
    assert!(small < 2_000 && large > 50_000, "{small} {large}");
    assert!(!place.session().join("checkpoints/snapshot.json").exists());
    place.begin_again();
    place.command(2, |p| fs::write(p.at("8"), "changed").unwrap());
    place.rewind(1, false);
    assert_eq!(place.tree(), before);
    let reader = CheckpointReader::open(&place.session()).unwrap();
    assert_eq!(reader.turns_with_file_changes(), [1, 2]);
    let changes = reader.turn_changes(1);
    assert_eq!(changes.len(), 1);
    let kept = [&changes[0].before, &changes[0].after].map(|state| reader.file_content(state));
    assert_eq!(kept[1].as_deref(), Some(&b"changed"[..]));
    assert!(kept[0].is_some());
}

#[test]
fn a_record_that_leads_out_of_the_workspace_changes_nothing_there() {
    for path in ["../outside", "/outside", "link/outside", ".git/config"] {
        let mut place = Place::new(CheckpointConfig::default());
        let outside = place.folder.path().join("outside");
        fs::write(&outside, "secret").unwrap();
        fs::create_dir(place.at(".git")).unwrap();
        fs::write(place.at(".git/config"), "secret").unwrap();
        symlink("..", place.at("link")).unwrap();
        place.write(1, "a", "1");
        let changes = place.session().join("checkpoints/changes.jsonl");
        let text = fs::read_to_string(&changes).unwrap();
        let path_json = serde_json::to_string(path).unwrap();
        fs::write(&changes, text.replace("\"a\"", &path_json)).unwrap();
        place.begin_again();
        if let Ok(plan) = place.checkpoints.plan_rewind(1) {
            let applied = place.checkpoints.apply_rewind(&plan, true, 1).unwrap();
            assert!(applied.restored.is_empty(), "{path}: {applied:?}");
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "secret", "{path}");
        assert_eq!(place.tree()[".git/config"], "file 644 secret", "{path}");
    }
}

/// An operation on the files in [`PATHS`].
#[derive(Clone, Debug)]
enum Op {
    Write(usize, u8),
    Remove(usize),
    Folder(usize),
    Rename(usize, usize),
    Mode(usize, bool),
    Link(usize, usize),
}

const PATHS: [&str; 7] = ["a", "b", "d", "d/a", "d/b", "d/e/a", "f"];

fn do_op(place: &Place, op: &Op) {
    let at = |n: usize| place.at(PATHS[n]);
    let make_parent = |n: usize| fs::create_dir_all(at(n).parent().unwrap()).is_ok();
    // An operation that is impossible with the present files has no effect.
    match *op {
        Op::Write(n, text) => {
            if make_parent(n) && !at(n).is_symlink() {
                let _ = fs::write(at(n), [b'0' + text]);
            }
        }
        Op::Remove(n) => {
            let is_folder = at(n).symlink_metadata().is_ok_and(|meta| meta.is_dir());
            let _ = match is_folder {
                true => fs::remove_dir_all(at(n)),
                false => fs::remove_file(at(n)),
            };
        }
        Op::Folder(n) => {
            let _ = fs::create_dir_all(at(n));
        }
        Op::Rename(from, to) => {
            let _ = make_parent(to) && fs::rename(at(from), at(to)).is_ok();
        }
        Op::Mode(n, is_private) => {
            if !at(n).is_symlink() && at(n).exists() {
                let is_folder = at(n).is_dir();
                set_mode(
                    &at(n),
                    match (is_private, is_folder) {
                        (true, _) => 0o700,
                        (false, true) => 0o755,
                        (false, false) => 0o644,
                    },
                );
            }
        }
        Op::Link(n, to) => {
            if make_parent(n) {
                let _ = symlink(PATHS[to], at(n));
            }
        }
    }
}

fn an_op() -> impl Strategy<Value = Op> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => (path.clone(), 0_u8..3).prop_map(|(n, text)| Op::Write(n, text)),
        2 => path.clone().prop_map(Op::Remove),
        1 => path.clone().prop_map(Op::Folder),
        2 => (path.clone(), path.clone()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (path.clone(), any::<bool>()).prop_map(|(n, is_private)| Op::Mode(n, is_private)),
        1 => (path.clone(), path).prop_map(|(n, to)| Op::Link(n, to)),
    ]
}

/// A call in a turn: a command with several operations, or a write by a file tool.
#[derive(Clone, Debug)]
enum Call {
    Command(Vec<Op>),
    Write(usize, u8),
}

fn a_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => prop::collection::vec(an_op(), 0..5).prop_map(Call::Command),
        1 => (0..PATHS.len(), 0_u8..3).prop_map(|(n, text)| Call::Write(n, text)),
    ]
}

fn do_call(place: &Place, turn: u32, call: &Call) {
    match call {
        Call::Command(ops) => place.command(turn, |place| {
            ops.iter().for_each(|op| do_op(place, op));
        }),
        // Skips paths with symlinks, because the real tools resolve them before they write.
        Call::Write(n, text) => {
            let target = place.at(PATHS[*n]);
            let has_link = target.ancestors().take(3).any(Path::is_symlink);
            if !has_link && !target.is_dir() {
                place.write(turn, PATHS[*n], &text.to_string());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 96,
        ..ProptestConfig::default()
    })]

    /// Checks that rewinding turn by turn restores all files if no person changed any.
    #[test]
    fn every_turn_leads_back_to_the_files_before_it(
        before in prop::collection::vec(an_op(), 0..6),
        turns in prop::collection::vec(prop::collection::vec(a_call(), 1..3), 1..4),
        stops in prop::collection::vec(0..4_u32, 1..3),
    ) {
        let place = Place::new(CheckpointConfig::default());
        before.iter().for_each(|op| do_op(&place, op));
        let mut trees = vec![place.tree()];
        for (turn, calls) in (1_u32..).zip(&turns) {
            calls.iter().for_each(|call| do_call(&place, turn, call));
            trees.push(place.tree());
        }
        let mut stops: Vec<u32> = stops.iter().map(|n| n % trees.len() as u32 + 1).collect();
        stops.sort_unstable();
        for turn in stops.into_iter().rev() {
            let plan = place.checkpoints.plan_rewind(turn).unwrap();
            let result = place.checkpoints.apply_rewind(&plan, false, trees.len() as u32).unwrap();
            prop_assert_eq!(&result.kept, &Vec::new());
            prop_assert_eq!(&plan.lost, &Vec::new());
            prop_assert_eq!(place.tree(), trees[turn as usize - 1].clone());
        }
    }

    /// Checks that a rewind changes no file that a person wrote after the last call.
    #[test]
    fn a_rewind_keeps_every_file_of_a_person(
        turns in prop::collection::vec(prop::collection::vec(a_call(), 1..3), 1..3),
        person in prop::collection::vec((0..PATHS.len(), 3_u8..6), 1..4),
        turn in 1..3_u32,
    ) {
        let place = Place::new(CheckpointConfig::default());
        for (turn, calls) in (1_u32..).zip(&turns) {
            calls.iter().for_each(|call| do_call(&place, turn, call));
        }
        for (n, text) in &person {
            do_op(&place, &Op::Write(*n, *text));
        }
        let is_mine = |state: &String| {
            state.starts_with("file") && state.ends_with(['3', '4', '5'])
        };
        let mine = |place: &Place| -> Vec<(String, String)> {
            place.tree().into_iter().filter(|(_, state)| is_mine(state)).collect()
        };
        let before = mine(&place);
        place.rewind(turn, false);
        prop_assert_eq!(mine(&place), before);
        // A second rewind of the same turn restores nothing more.
        let again = place.rewind(turn, false);
        prop_assert_eq!(&again.restored, &Vec::new());
    }
}
