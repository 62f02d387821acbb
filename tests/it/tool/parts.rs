//! The parts of commands against the shell itself: whatever bash runs of a command without a doubt must be among its parts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use rind::tool::command::{Command, Word};

/// Commands that are tried.
const N_COMMANDS: usize = 400;

/// Pieces that commands are built from. Only `zqa` and `zqb` tell that they ran.
const PIECES: &[&str] = &[
    "zqa",
    "zqa ",
    "zqb ",
    "zqb",
    "x",
    " ",
    " ",
    " ",
    "\t",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "$",
    "(",
    ")",
    "$(",
    ")",
    "`",
    "`",
    "<(",
    "{",
    "}",
    ",",
    ";",
    ";",
    " && ",
    " || ",
    " | ",
    "|&",
    " & ",
    "\n",
    "#",
    " #",
    "=",
    "X=1 ",
    "zqa=1 ",
    "env ",
    "env X=1 ",
    "sh -c ",
    "bash -c '",
    "xargs ",
    "nice ",
    "nice -n 5 ",
    "timeout 1 ",
    "timeout -s 9 1 ",
    "eval ",
    "exec ",
    "! ",
    ">f",
    ">>f ",
    " 2>&1",
    " &>f",
    ">&2",
    "<f",
    "*",
    "~",
    "$X",
    "${X}",
    "[",
    "]",
    "<<<",
    "find . -exec ",
    " ';'",
    " \\;",
    " +",
    "-I{} ",
    "{}",
    "command ",
    "builtin ",
    "a=b",
    "echo ",
    "true ",
    "-",
    "--",
    "${",
    "$'",
    "$\"",
    "((",
    "$((",
    "]]",
    "[[ ",
    "if ",
    "then ",
    "fi",
    "for x in ",
    "do ",
    "done",
    "case ",
    "esac",
    "time ",
    "\\\n",
    "\r",
    "\u{a0}",
    "é",
    "nohup ",
    "setsid ",
];

/// Pieces of most commands: with the others alone few commands run anything.
const USUAL: &[&str] = &[
    "zqa ",
    "zqb ",
    "zqa x ",
    "; zqa ",
    "\nzqb ",
    " && zqa ",
    " || zqb ",
    " | zqa ",
    "zqa $(zqb) ",
    " `zqb` ",
    "\"$X\" ",
    "$X ",
    "'x y' ",
    "<(zqa) ",
    "echo x | xargs zqa ",
    "env X=1 zqa ",
    "sh -c 'zqa x' ",
    "sh -c \"zqa $X\" ",
    "eval zqa ",
    "nice zqa ",
    "timeout 1 zqb ",
    "find . -exec zqa ';' ",
    "zqa {a,b} ",
    "exec zqa ",
    "zqa >f ",
    "! zqa ",
    "# ",
];

/// A folder with programs that write down how they were called.
fn programs(folder: &Path) {
    // One write for each call: they may run side by side.
    let text = "#!/bin/bash\nprintf '%s\\x1f' \"${0##*/}\" \"$@\" $'\\x1e' >> \"$PWD/../log\"\n";
    for name in ["zqa", "zqb"] {
        let path = folder.join("bin").join(name);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Returns the programs that bash ran for a command, each with its words.
fn ran(folder: &Path, command: &str) -> Vec<Vec<String>> {
    // One of its own: what an earlier command left in the background may still write.
    let own = tempfile::tempdir_in(folder).unwrap();
    let log = own.path().join("log");
    let workspace = own.path().join("w");
    fs::create_dir_all(&workspace).unwrap();
    fs::write(workspace.join("f"), "one two\n").unwrap();
    let status = Process::new("timeout")
        .args(["-s", "KILL", "5", "bash", "-c", command])
        .env_clear()
        .env("PATH", format!("{}/bin:/usr/bin:/bin", folder.display()))
        .env("X", "zqb  y")
        .env("LANG", "C.UTF-8")
        .current_dir(&workspace)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.unwrap();
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let calls = text.split("\u{1e}\u{1f}").filter(|call| !call.is_empty());
    calls
        .map(|call| {
            let words = call.strip_suffix('\u{1f}').unwrap_or(call);
            words.split('\u{1f}').map(str::to_owned).collect()
        })
        .collect()
}

/// Whether a part may be this call.
fn is_it(words: &[Word], call: &[String]) -> bool {
    match (words.split_first(), call.split_first()) {
        (None, None) => true,
        (Some((Word::Any, rest)), _) => {
            (0..=call.len()).any(|n_taken| is_it(rest, &call[n_taken..]))
        }
        (Some((Word::Literal(text), rest)), Some((first, after))) => {
            text == first && is_it(rest, after)
        }
        _ => false,
    }
}

#[test]
fn whatever_bash_runs_of_a_command_without_a_doubt_is_among_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    programs(&root);
    assert_eq!(ran(&root, "zqa 1 '2 3'"), [["zqa", "1", "2 3"]]);

    let pieces = proptest::strategy::Union::new([
        proptest::sample::select(PIECES),
        proptest::sample::select(USUAL),
    ]);
    let commands = proptest::collection::vec(pieces, 1..12);
    let seed = std::env::var("RIND_PARTS_SEED").ok();
    let mut runner = match seed {
        None => TestRunner::deterministic(),
        Some(_) => TestRunner::new(Config::default()),
    };
    let (mut n_sure, mut n_ran) = (0, 0);
    for _ in 0..N_COMMANDS
        * if std::env::var("RIND_PARTS_SEED").is_ok() {
            20
        } else {
            1
        }
    {
        let text = commands.new_tree(&mut runner).unwrap().current().concat();
        let command = Command::read(&text);
        if command.doubt.is_some() {
            continue;
        }
        n_sure += 1;
        for call in ran(&root, &text) {
            n_ran += 1;
            let is_part = |part: &rind::tool::command::Part| is_it(part.words(), &call);
            assert!(
                command.parts.iter().any(is_part),
                "{text:?} ran {call:?}, parts {:?}",
                command.parts
            );
        }
    }
    // Otherwise nothing was tried.
    assert!(
        n_sure > 20 && n_ran > 10,
        "{n_sure} without a doubt, {n_ran} calls"
    );
}
