//! `/undo`, `/rewind` and `rind session diff`: files that tool calls changed are shown and
//! restored.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::Value;

/// A model whose turn changes files in every way.
const WORKS: &str = r#"
[[reply]]
tool_calls = [{ name = "read_file", arguments = { path = "edit.txt" } }]
[[reply]]
tool_calls = [
    { name = "edit_file", arguments = { path = "edit.txt", old_text = "two", new_text = "TWO" } },
    { name = "write_file", arguments = { path = "new/made.txt", content = "made\n" } },
]
[[reply]]
tool_calls = [{ name = "bash", arguments = { command = """
sed -i s/aaa/bbb/ sed.txt
rm gone.txt
mv folder moved
chmod +x run.sh
rm becomes && mkdir becomes && echo inner > becomes/inner
ln -sfn sed.txt link
echo more >> big.txt
echo i1 > ignored
echo p1 > person.txt
""" } }]
[[reply]]
text = "Done."
"#;

const ECHO: &str = "[[reply]]\ntimes = 0\ntext = \"You said: {input}\"\n";

/// A workspace for [`WORKS`].
fn workplace() -> Rind {
    let rind = Rind::with_script(WORKS);
    rind.file("edit.txt", "one\ntwo\nthree\n")
        .file("sed.txt", "aaa\n")
        .file("gone.txt", "bye\n")
        .file("folder/x.txt", "x\n")
        .file("run.sh", "#!/bin/sh\n")
        .file("becomes", "a file\n")
        .file("big.txt", &"0123456789abcde\n".repeat(128 << 10))
        .file(".gitignore", "ignored\n")
        .file("ignored", "i0\n")
        .file("person.txt", "p0\n");
    std::os::unix::fs::symlink("edit.txt", rind.workspace().join("link")).unwrap();
    rind
}

fn text(rind: &Rind, path: &str) -> String {
    fs::read_to_string(rind.workspace().join(path)).unwrap()
}

/// Whether the commands of the turn ran. They do not run on a machine that cannot confine them.
fn have_commands_run(rind: &Rind) -> bool {
    rind.workspace().join("moved/x.txt").is_file()
}

#[test]
fn a_turn_is_shown_and_taken_back_with_its_files_except_what_the_person_changed() {
    let rind = workplace();
    rind.run(&["run", "--yes", "work"]).exits(0);
    if !have_commands_run(&rind) {
        return;
    }
    assert_snapshot!(rind.run(&["session", "diff"]).exits(0).screen(), @"
    exit 0
    ---- stdout
    session [SESSION], turn 1: 15 changes
    becomes: file of 7 B, then folder
    becomes/inner: new file of 6 B
      1 + inner
    big.txt: changed; its content is not kept
    edit.txt: changed
      1   one
      2 - two
      2 + TWO
      3   three
    folder: removed, folder
    folder/x.txt: removed, file of 2 B
      1 - x
    gone.txt: removed, file of 4 B
      1 - bye
    link: link to edit.txt, then to sed.txt
    moved: new folder
    moved/x.txt: new file of 2 B
      1 + x
    new: new folder
    new/made.txt: new file of 5 B
      1 + made
    person.txt: changed
      1 - p0
      1 + p1
    run.sh: mode 644, then 755
    sed.txt: changed
      1 - aaa
      1 + bbb
    ---- stderr
    no copy of 1 file was saved before the call of bash: it was too large to be kept
    ");
    let json = rind.run(&["session", "diff", "last", "--turn", "1", "--json"]);
    let json: Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    assert_eq!(json["turn"], 1);
    assert_eq!(json["calls"].as_array().unwrap().len(), 3, "{json}");
    let ran = rind.run(&["session", "diff", "--turn", "7"]).exits(2);
    assert!(ran.stderr.contains("these turns did: 1"), "{}", ran.stderr);

    fs::write(rind.workspace().join("person.txt"), "mine\n").unwrap();
    fs::write(rind.workspace().join("moved/mine.txt"), "mine\n").unwrap();
    rind.script(ECHO);
    assert_snapshot!(rind.run(&["run", "--resume", "last", "/rewind"]).exits(0).stdout, @"
    1  work
    /rewind N goes back to before turn N
    ");
    assert_snapshot!(rind.run(&["run", "--resume", "last", "/undo both"]).exits(0).stdout, @"
    took the last turn out of the conversation (9 messages): work
    brought back 12 paths:
      becomes: folder, then file of 7 B
      becomes/inner: removed, file of 6 B
      edit.txt: changed
      folder: new folder
      folder/x.txt: new file of 2 B
      gone.txt: new file of 4 B
      link: link to sed.txt, then to edit.txt
      moved/x.txt: removed, file of 2 B
      new: removed, folder
      new/made.txt: removed, file of 5 B
      run.sh: mode 755, then 644
      sed.txt: changed
    these stay as they are:
      person.txt: it was changed since
      moved: the folder is not removed, because it has other files in it
    these cannot be restored:
      big.txt: it was too large to be kept
    commands ran: files that git ignores, files outside of the workspace and effects elsewhere stay
    ");
    for (path, expected) in [
        ("edit.txt", "one\ntwo\nthree\n"),
        ("sed.txt", "aaa\n"),
        ("gone.txt", "bye\n"),
        ("folder/x.txt", "x\n"),
        ("becomes", "a file\n"),
        ("link", "one\ntwo\nthree\n"),
        ("ignored", "i1\n"),
        ("person.txt", "mine\n"),
        ("moved/mine.txt", "mine\n"),
    ] {
        assert_eq!(text(&rind, path), expected, "{path}");
    }
    let mode = fs::metadata(rind.workspace().join("run.sh")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o111, 0);
    assert!(!rind.workspace().join("new").exists());
    assert!(text(&rind, "big.txt").ends_with("more\n"));

    let ran = rind.run(&["run", "--resume", "last", "/rewind 1 files overwrite"]);
    assert_snapshot!(ran.exits(0).stdout, @"
    brought back 1 path:
      person.txt: changed
    these stay as they are:
      moved: the folder is not removed, because it has other files in it
    these cannot be restored:
      big.txt: it was too large to be kept
    commands ran: files that git ignores, files outside of the workspace and effects elsewhere stay
    ");
    assert_eq!(text(&rind, "person.txt"), "p0\n");
    let doctor = rind.run(&["session", "doctor", "last"]).exits(0);
    assert!(doctor.stdout.contains("checkpoint"), "{}", doctor.stdout);
}

#[test]
fn without_words_and_without_a_terminal_files_stay_and_later_turns_are_taken_back_together() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"a.txt\", content = \"1\\n\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    rind.run(&["run", "--yes", "one"]).exits(0);
    rind.script(
        "[[reply]]\ntool_calls = [{ name = \"read_file\", arguments = { path = \"a.txt\" } }]\n[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"a.txt\", content = \"2\\n\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    rind.run(&["run", "--yes", "--resume", "last", "two"])
        .exits(0);
    let said = |line: &str| rind.run(&["run", "--resume", "last", line]);
    let refused = |line: &str| {
        let ran = said(line).exits(2);
        ran.stderr.lines().last().unwrap_or_default().to_owned()
    };
    assert_snapshot!(said("/undo").exits(0).stdout, @"
    took the last turn out of the conversation (6 messages): two
    the files stay as they are (1 change); to restore them: /rewind 2 files
    ");
    assert_eq!(text(&rind, "a.txt"), "2\n");
    assert_snapshot!(said("/rewind 2 files").exits(0).stdout, @"
    brought back 1 path:
      a.txt: changed
    ");
    assert_eq!(text(&rind, "a.txt"), "1\n");
    assert_snapshot!(said("/rewind 1 both").exits(0).stdout, @"
    took the last turn out of the conversation (4 messages): one
    brought back 1 path:
      a.txt: removed, file of 2 B
    ");
    assert!(!rind.workspace().join("a.txt").exists());
    assert_snapshot!(said("/rewind 1 both").exits(0).stdout, @"
    the conversation no longer has messages of these turns
    no file was restored
    ");
    assert_snapshot!(refused("/rewind 3"), @"error: this session has no turn `3`: pass a number from 1 to 2; /rewind lists the turns");
    assert_snapshot!(refused("/undo everything"), @"error: unknown argument `everything`; use `conversation`, `files` or `both`, and add `overwrite` for files that were changed since");
    assert_snapshot!(refused("/undo overwrite"), @"error: `overwrite` applies to files: add `files` or `both`");
}

#[test]
fn a_copy_and_an_import_have_the_conversation_alone() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"a.txt\", content = \"1\\n\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    rind.run(&["run", "--yes", "one"]).exits(0);
    let first = rind.run(&["session", "list", "--json"]).exits(0).stdout;
    assert!(!first.is_empty());
    let out = rind.home().join("out.jsonl");
    let export = ["session", "export", "--format", "jsonl", "-o"];
    let mut export: Vec<&str> = export.to_vec();
    export.push(out.to_str().unwrap());
    let exported = rind.run(&export).exits(0);
    assert!(!exported.stderr.contains("left out"), "{}", exported.stderr);
    rind.run(&["session", "import", out.to_str().unwrap(), "--id", "copy"])
        .exits(0);
    let ran = rind.run(&["session", "diff", "copy"]).exits(0);
    assert!(ran.stderr.contains("changed a file"), "{}", ran.stderr);
    let ran = rind.run(&["run", "--resume", "copy", "/undo both"]);
    assert_snapshot!(ran.exits(0).stdout, @"
    took the last turn out of the conversation (4 messages): one
    no file was restored
    ");
    assert_eq!(text(&rind, "a.txt"), "1\n");
}

#[test]
fn files_that_a_plugin_changes_come_back_whatever_way_it_takes() {
    let call = |tool: &str, op: &str, path: &str, to: &str| {
        format!(
            "[[reply]]\ntool_calls = [{{ name = \"{tool}\", arguments = {{ op = \"{op}\", path = \"{path}\", to = \"{to}\" }} }}]\n"
        )
    };
    let script = call("own", "write", "workspace/a.txt", "changed")
        + &call("own", "remove", "workspace/b.txt", "")
        + &call("own", "create-folder", "workspace/x/y", "")
        + &call("own", "write", "workspace/x/y/ignored", "new")
        + &call("own", "append", "workspace/c.txt", "more")
        + &call("std", "write", "d.txt", "changed")
        + "[[reply]]\ntext = \"Done.\"\n";
    let rind = Rind::with_script(&script);
    guests::put("files", &rind.home().join("managed"), |manifest| {
        manifest.replace("read = [\"workspace\"]", "write = [\"workspace\"]")
    });
    rind.file(".gitignore", "ignored\n");
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        rind.file(name, "before\n");
    }
    rind.run(&["run", "--yes", "work"]).exits(0);
    assert!(
        text(&rind, "c.txt").ends_with("more"),
        "{}",
        text(&rind, "c.txt")
    );
    assert!(rind.workspace().join("x/y/ignored").is_file());
    rind.script(ECHO);
    let ran = rind.run(&["run", "--resume", "last", "/undo files"]);
    let stdout = ran.exits(0).stdout;
    assert!(!stdout.contains("stay as they are"), "{stdout}");
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        assert_eq!(text(&rind, name), "before\n", "{name}: {stdout}");
    }
    assert!(!rind.workspace().join("x").exists(), "{stdout}");
}

#[test]
fn a_workspace_that_is_too_large_is_told_of_once() {
    let rind = workplace();
    rind.config("[agent.checkpoint]\nmax_files = 2\n");
    let ran = rind.run(&["run", "--yes", "work"]).exits(0);
    if !have_commands_run(&rind) {
        return;
    }
    let notice = "changes of files by commands cannot be undone in this session";
    assert_eq!(ran.stderr.matches(notice).count(), 1, "{}", ran.stderr);
    rind.script(ECHO);
    assert_snapshot!(rind.run(&["run", "--resume", "last", "/undo files"]).exits(0).stdout, @"
    brought back 3 paths:
      edit.txt: changed
      new: removed, folder
      new/made.txt: removed, file of 5 B
    these cannot be restored:
      bash in turn 1: the workspace has more than 2 files (`agent.checkpoint.max_files`)
    commands ran: files that git ignores, files outside of the workspace and effects elsewhere stay
    ");
    assert_eq!(text(&rind, "edit.txt"), "one\ntwo\nthree\n");
    assert_eq!(text(&rind, "sed.txt"), "bbb\n");
}

#[test]
fn checkpoints_can_be_switched_off() {
    let rind = workplace();
    rind.config("[agent.checkpoint]\nenabled = false\n");
    rind.run(&["run", "--yes", "work"]).exits(0);
    let ran = rind.run(&["session", "diff"]).exits(0);
    assert!(ran.stderr.contains("no turn of session"), "{}", ran.stderr);
    rind.script(ECHO);
    let ran = rind
        .run(&["run", "--resume", "last", "/undo files"])
        .exits(0);
    assert_eq!(ran.stdout, "no file was restored\n");
}
