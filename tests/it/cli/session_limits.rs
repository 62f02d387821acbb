//! Sessions under adverse conditions: a full or read-only disk, a clock that goes back, a second
//! program, a newer format, and a very long session.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rind_tests::cli::{Ran, Rind};
use serde_json::Value;

use super::session_look::only;

const SCRIPT: &str = "[[reply]]\ntext = \"an answer\"\n";

/// Exit code of the shell if it may not mount anything.
const NO_MOUNT: i32 = 77;

/// Runs the program in a mount namespace of its own, in which `mount` has mounted the folder of all
/// sessions differently. Afterwards the content of that mount replaces the folder. `None` if
/// nothing can be mounted.
fn run_mounted(rind: &Rind, mount: &str, args: &[&str]) -> Option<Ran> {
    let sessions = rind.home().join("data/sessions");
    let after = rind.home().join("after");
    let mut own = rind.command(args);
    rind.choose_script(&mut own);
    let script = format!(
        "S={s}; A={a}; cp -a $S $A && {mount} || exit {NO_MOUNT}; \"$0\" \"$@\"; code=$?; rm -rf $A; cp -a $S $A; exit $code",
        s = sessions.display(),
        a = after.display(),
    );
    let mut shell = Command::new("unshare");
    shell
        .args(["--mount", "--map-root-user", "sh", "-c", &script])
        .arg(own.get_program())
        .args(own.get_args())
        .env_clear()
        .envs(
            own.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(rind.workspace())
        .stdin(Stdio::null());
    let output = shell.output().ok()?;
    let is_mounted = output.status.code() != Some(NO_MOUNT) && after.is_dir();
    if !is_mounted || output.status.signal().is_some() {
        return None;
    }
    fs::remove_dir_all(&sessions).unwrap();
    fs::rename(&after, &sessions).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some(Ran {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    })
}

fn doctor_is_content(rind: &Rind) {
    let ran = rind.run(&["session", "doctor"]).exits(0);
    assert!(ran.stdout.contains('✓'), "{ran:?}");
}

#[test]
fn a_disk_that_is_full_ends_the_turn_with_a_clear_message_and_the_session_goes_on_when_there_is_room()
 {
    let reads =
        "[[reply]]\ntool_calls = [{ name = \"read_file\", arguments = { path = \"a.txt\" } }]\n"
            .repeat(20);
    let rind = Rind::with_script(SCRIPT);
    rind.file("a.txt", &"a line of a file that is long\n".repeat(700));
    rind.run(&["run", "--no-plugins", "one"]).exits(0);
    rind.script(&format!("{reads}{SCRIPT}"));
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    let before = fs::read(&file).unwrap();
    let mount = "mount -t tmpfs -o size=160k none $S && cp -a $A/. $S";
    let args = ["run", "--no-plugins", "--resume", "last", "two"];
    let Some(ran) = run_mounted(&rind, mount, &args) else {
        return;
    };
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("cannot write") && ran.stderr.contains("No space left on device"),
        "{ran:?}"
    );
    let after = fs::read(&file).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len() + 50_000);
    assert_eq!(after.last(), Some(&b'\n'), "only whole lines");
    doctor_is_content(&rind);
    rind.script(SCRIPT);
    let ran = rind
        .run(&["run", "--no-plugins", "--resume", "last", "go on"])
        .exits(0);
    assert_eq!(ran.stdout, "an answer\n");
    doctor_is_content(&rind);
}

#[test]
fn an_answer_that_was_paid_for_is_shown_whole_when_the_disk_is_full_and_the_cause_is_told_once() {
    let rind = Rind::with_script(SCRIPT);
    rind.run(&["run", "--no-plugins", "one"]).exits(0);
    let answer = "word ".repeat(30_000) + "THE END";
    rind.script(&format!("[[reply]]\ntext = \"{answer}\"\n"));
    let mount = "mount -t tmpfs -o size=96k none $S && cp -a $A/. $S";
    let args = ["run", "--no-plugins", "--resume", "last", "two"];
    let Some(ran) = run_mounted(&rind, mount, &args) else {
        return;
    };
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(ran.stdout, format!("{answer}\n"));
    let told = ran.stderr.matches("No space left on device").count();
    assert_eq!(told, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("make room there"), "{}", ran.stderr);
    doctor_is_content(&rind);
}

#[test]
fn a_read_only_store_can_be_read_and_says_why_it_cannot_be_written() {
    let rind = Rind::with_script(SCRIPT);
    rind.run(&["run", "--no-plugins", "first words"]).exits(0);
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    let before = fs::read(&file).unwrap();
    let mount = "mount --bind $S $S && mount -o remount,ro,bind $S";
    for (args, code, out, error) in [
        (&["session", "list"][..], 0, "first words", ""),
        (&["session", "show", "last"], 0, "an answer", ""),
        (&["session", "search", "ANSWER"], 0, "answer", ""),
        (&["session", "export", "last"], 0, "an answer", ""),
        (&["session", "doctor"], 0, "✓", ""),
        (
            &["run", "--no-plugins", "new"],
            1,
            "",
            "Read-only file system",
        ),
        (
            &["run", "--no-plugins", "--resume", "last", "more"],
            1,
            "",
            "Read-only file system",
        ),
        (
            &["session", "rename", "last", "x"],
            1,
            "",
            "Read-only file system",
        ),
        (&["session", "fork", "last"], 1, "", "Read-only file system"),
        (
            &["session", "rm", "last", "--yes"],
            1,
            "",
            "Read-only file system",
        ),
    ] {
        let Some(ran) = run_mounted(&rind, mount, args) else {
            return;
        };
        assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
        assert!(ran.stdout.contains(out), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(error), "{args:?}: {ran:?}");
        assert_eq!(fs::read(&file).unwrap(), before, "{args:?}");
    }
}

#[test]
fn a_second_program_is_told_which_one_has_the_session_and_changes_nothing() {
    let wait = "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"touch begun; exec sleep 20\" } }]\n";
    let rind = Rind::with_script(wait);
    let mut running = rind.start(&["run", "--no-plugins", "--yes", "one"]);
    running.wait_until(|rind| rind.workspace().join("begun").is_file());
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    let before = fs::read(&file).unwrap();
    let pid = running.id().to_string();
    for args in [
        &["run", "--no-plugins", "--resume", "last", "two"][..],
        &["session", "rename", "last", "x"],
        &["session", "rm", "last", "--yes"],
    ] {
        let ran = rind.run(args).exits(1);
        assert!(
            ran.stderr.contains("open in another process") && ran.stderr.contains(&pid),
            "{args:?}: {}",
            ran.stderr
        );
        assert_eq!(fs::read(&file).unwrap(), before, "{args:?}");
    }
    rind.run(&["session", "show", "last"]).exits(0);
    doctor_is_content(&rind);
    running.signal("TERM");
    drop(running.end());
    doctor_is_content(&rind);
}

#[test]
fn a_session_of_a_newer_version_is_left_alone() {
    let rind = Rind::with_script(SCRIPT);
    rind.run(&["run", "--no-plugins", "one"]).exits(0);
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let newer = text.replacen("\"version\":1", "\"version\":99", 1) + "{\"torn";
    fs::write(&file, &newer).unwrap();
    for args in [
        &["run", "--no-plugins", "--resume", "last", "two"][..],
        &["session", "show", "last"],
        &["session", "fork", "last"],
        &["session", "rename", "last", "x"],
    ] {
        let ran = rind.run(args).exits(1);
        assert!(
            ran.stderr.contains("has version 99 of the format")
                && ran.stderr.contains("update rind"),
            "{args:?}: {}",
            ran.stderr
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), newer, "{args:?}");
    }
}

/// Shifts the times of all entries and the modification time of the file.
fn shift(file: &Path, by: Duration) {
    let text = fs::read_to_string(file).unwrap();
    let by_ms = i64::try_from(by.as_millis()).unwrap();
    let lines = text.lines().map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let time = entry["time"].as_i64().unwrap();
        line.replacen(
            &format!("\"time\":{time}"),
            &format!("\"time\":{}", time + by_ms),
            1,
        ) + "\n"
    });
    let lines: String = lines.collect();
    fs::write(file, lines).unwrap();
    let times = fs::FileTimes::new().set_modified(SystemTime::now() + by);
    fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_times(times)
        .unwrap();
}

#[test]
fn a_clock_that_goes_back_loses_nothing() {
    let rind = Rind::with_script(SCRIPT);
    rind.run(&["run", "--no-plugins", "one"]).exits(0);
    let (sessions, id) = only(&rind);
    // Makes the session look as if a clock a year ahead had written it.
    shift(
        &sessions.join(&id).join("session.jsonl"),
        Duration::from_secs(365 * 24 * 3600),
    );
    let listed = rind.run(&["session", "list"]).exits(0).stdout;
    assert!(
        listed.contains("just now") && listed.contains("one"),
        "{listed}"
    );
    doctor_is_content(&rind);
    rind.run(&["session", "gc", "--older-than", "1d", "--yes"])
        .exits(0);
    let ran = rind
        .run(&["run", "--no-plugins", "--resume", "last", "two"])
        .exits(0);
    assert_eq!(ran.stdout, "an answer\n");
    let shown = rind.run(&["session", "show", "last"]).exits(0).stdout;
    assert!(shown.contains("one") && shown.contains("two"), "{shown}");
    assert_eq!(rind.entries("turn-end").len(), 2);
    doctor_is_content(&rind);
}

/// Number of turns of the long session, which have four entries each.
const N_TURNS: usize = 25_000;

#[test]
fn a_session_of_a_hundred_thousand_entries_is_opened_at_once() {
    let rind = Rind::with_script(SCRIPT);
    rind.run(&["run", "--no-plugins", "--session", "long", "one"])
        .exits(0);
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    let mut text = fs::read_to_string(&file).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let (time, summary) = (&last["time"], &last["summary"]);
    let mut parent = last["id"].as_str().unwrap().to_owned();
    let said = |id: String, role: &str, text: &str| {
        format!(
            r#""type":"message","message":{{"id":"{id}","role":"{role}","content":[{{"type":"text","text":"{text}"}}]}}"#
        )
    };
    for n in 2..N_TURNS + 2 {
        let bodies = [
            format!(r#""type":"turn-start","turn":{n},"input":"look","source":"terminal""#),
            said(format!("u{n}"), "user", "look"),
            said(format!("a{n}"), "assistant", "it is there"),
            format!(r#""type":"turn-end","turn":{n},"summary":{summary},"output":"it is there""#),
        ];
        for (k, body) in bodies.into_iter().enumerate() {
            let id = format!("e{n}-{k}");
            let line = format!(r#"{{"id":"{id}","parent":"{parent}","time":{time},{body}}}"#);
            text.push_str(&line);
            text.push('\n');
            parent = id;
        }
    }
    fs::write(&file, text).unwrap();
    let started = Instant::now();
    let ran = rind
        .run(&["run", "--no-plugins", "--resume", "long", "two"])
        .exits(0);
    let took = started.elapsed();
    assert_eq!(ran.stdout, "an answer\n");
    // The limit is generous because tests run a debug build. A release build takes less than a
    // second.
    assert!(took < Duration::from_secs(30), "{took:?}");
    let args = ["session", "show", "long", "--turn", "25002"];
    let shown = rind.run(&args).exits(0).stdout;
    assert!(shown.contains("an answer"), "{shown}");
    doctor_is_content(&rind);
}
