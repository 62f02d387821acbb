//! Tests of different users and places of Rind: an ordinary user, a home and a workspace below
//! `/tmp`, a workspace that is not writable, and a limit on the address space.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use rind::tool::process::confine::ConfinementMechanism;
use rind_tests::cli::Rind;
use serde_json::Value;

use crate::tool::confine::mechanisms;

/// Id of a user and of a group without rights.
const NOBODY: u32 = 65534;

fn name(mechanism: &ConfinementMechanism) -> &'static str {
    match mechanism {
        ConfinementMechanism::Namespaces => "namespaces",
        ConfinementMechanism::Bwrap(_) => "bwrap",
        ConfinementMechanism::Landlock => "landlock",
    }
}

/// Creates a machine with its own cache folder, whose model runs this command under the mechanism.
fn machine(mechanism: &ConfinementMechanism, command: &str) -> Rind {
    let rind = Rind::with_script(&format!(
        "[[reply]]\ntool_calls = [{{ name = \"bash\", arguments = {{ command = '''{command}''' }} }}]\n[[reply]]\ntext = \"done\"\n"
    ));
    rind.config(&format!(
        "[sandbox]\nmechanism = \"{}\"\nbash = \"required\"\nprocesses = 400\n",
        name(mechanism)
    ));
    fs::remove_file(rind.home().join("cache")).unwrap();
    rind
}

/// Returns the same command run as [`NOBODY`] if the tests run as root, and else as the current
/// user.
fn as_user(rind: &Rind, command: &Command) -> Command {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        let mut own = Command::new(command.get_program());
        own.args(command.get_args());
        return with_environment_of(own, command);
    }
    let root = rind.home().parent().unwrap().to_owned();
    // The program may be in a folder that only root can read, so this user gets a link to it.
    let program = root.join("rind-of-user");
    if !program.exists() {
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let owner = format!("{NOBODY}:{NOBODY}");
        let mut chown = Command::new("chown");
        assert!(
            chown
                .arg("-R")
                .arg(owner)
                .arg(&root)
                .status()
                .unwrap()
                .success()
        );
        let original = command.get_program();
        fs::hard_link(original, &program)
            .or_else(|_| fs::copy(original, &program).map(drop))
            .unwrap();
    }
    let mut user = Command::new("setpriv");
    let id = NOBODY.to_string();
    user.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"])
        .arg(program)
        .args(command.get_args());
    with_environment_of(user, command)
}

fn with_environment_of(mut command: Command, of: &Command) -> Command {
    command.env_clear().stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in of.get_envs() {
        command.envs(value.map(|value| (name, value)));
    }
    command.current_dir(of.get_current_dir().unwrap());
    // Entries of `PATH` in the home folder of root are not readable for this user.
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

/// Runs the model's one call, and returns its result.
fn result(rind: &Rind) -> String {
    let args = ["run", "x", "--yes", "--no-plugins", "--json"];
    let ran = rind
        .finish(&mut as_user(rind, &rind.command(&args)))
        .exits(0);
    let lines = ran.json_lines();
    let end = lines.iter().find(|line| line["type"] == "tool-end");
    end.unwrap()["result"]["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn commands_of_an_ordinary_user_are_confined_by_every_mechanism() {
    for mechanism in mechanisms() {
        let rind = machine(
            &mechanism,
            "id -u; echo x > made; cat ../outside; ls \"$HOME/\"; touch \"$HOME/x\"; ulimit -u; (for i in $(seq 450); do sleep 3 & done) 2>&1 | tail -n 1",
        );
        fs::write(rind.workspace().join("../outside"), "the secret\n").unwrap();
        fs::write(rind.user_home().join("letter"), "").unwrap();
        let said = result(&rind);
        assert!(!said.starts_with("0\n"), "{said}");
        for word in ["the secret", "letter"] {
            assert!(!said.contains(word), "{mechanism:?}: {said}");
        }
        assert!(
            !rind.user_home().join("x").exists(),
            "{mechanism:?}: {said}"
        );
        assert!(
            rind.workspace().join("made").exists(),
            "{mechanism:?}: {said}"
        );
        if mechanism.hides_outside_files_and_processes() {
            assert!(said.contains("\n400\n"), "{mechanism:?}: {said}");
            assert!(said.contains("bash: fork: "), "{mechanism:?}: {said}");
        }
        let doctor = rind.finish(&mut as_user(&rind, &rind.command(&["doctor", "--json"])));
        let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
        let checks = doctor["checks"].as_array().unwrap();
        for check in ["commands", "limits of bash"] {
            let found = checks.iter().find(|found| found["name"] == check).unwrap();
            assert_eq!(found["state"], "ok", "{mechanism:?}: {found}");
        }
    }
}

#[test]
fn a_workspace_that_cannot_be_written_can_be_worked_in() {
    for mechanism in mechanisms() {
        let rind = machine(
            &mechanism,
            "cat kept; echo x > made; chmod 755 .; echo y > $TMPDIR/y && cat $TMPDIR/y",
        );
        rind.file("kept", "words\n");
        let args = ["run", "x", "--yes", "--no-plugins", "--json"];
        let mut command = as_user(&rind, &rind.command(&args));
        // The owner could make the workspace writable again, so it belongs to another user.
        let workspace = rind.workspace();
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            std::os::unix::fs::chown(&workspace, Some(0), Some(0)).unwrap();
            fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755)).unwrap();
        } else {
            continue;
        }
        let ran = rind.finish(&mut command).exits(0);
        let lines = ran.json_lines();
        let end = lines
            .iter()
            .find(|line| line["type"] == "tool-end")
            .unwrap();
        let said = end["result"]["content"].as_str().unwrap();
        assert!(said.starts_with("words\n"), "{mechanism:?}: {said}");
        assert!(said.contains("y\n"), "{mechanism:?}: {said}");
        assert!(
            said.contains("made: Permission denied"),
            "{mechanism:?}: {said}"
        );
        assert!(!workspace.join("made").exists());
    }
}

#[test]
fn a_user_who_may_start_too_few_threads_is_told_so() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let rind = Rind::default();
    let own = rind.command(&["run", "x"]);
    // Called only for the copy of the program that it makes readable for every user.
    let seen = as_user(&rind, &own);
    let program = rind.home().parent().unwrap().join("rind-of-user");
    let mut limited = Command::new("prlimit");
    // A user without other processes, because the limit counts all processes of a user.
    limited.args(["--nproc=3", "setpriv", "--reuid=65533", "--regid=65533"]);
    limited.args(["--clear-groups", "--"]);
    limited.arg(program).args(own.get_args());
    let ran = rind.finish(&mut with_environment_of(limited, &seen));
    assert!(ran.stderr.contains("`ulimit -u`"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    ran.exits(1);
}

#[test]
fn plugins_run_in_a_process_with_a_limit_of_addresses() {
    let rind = Rind::default();
    rind.managed("hello");
    let mut own = rind.command(&["run", "--json", "x"]);
    rind.choose_script(&mut own);
    // Less address space than the memory of one guest reserves without a limit.
    let mut limited = Command::new("prlimit");
    limited
        .args(["--as=4000000000", "--"])
        .arg(own.get_program());
    limited.args(own.get_args());
    let ran = rind
        .finish(&mut with_environment_of(limited, &own))
        .exits(0);
    let calls = ran.json_lines();
    let mut hooks = calls.iter().filter(|line| line["type"] == "hook");
    assert!(hooks.any(|hook| hook["plugin"] == "hello" && hook["outcome"] == "pass"));
}
