//! Tests of how the host inspects the files that a command left: the host is not confined itself,
//! so it must change nothing outside the workspace and never block.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use rind_tests::cli::Rind;
use serde_json::json;

use crate::tool::confine::{confined_by, mechanisms};

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn programs_outside_keep_their_names_whatever_link_to_them_a_command_leaves() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let tool = fixture.outside("bin/tool");
        program(&tool, "#!/bin/sh\n");
        // The link `own.git/hooks` is the user's and stays. The command replaces its target, the
        // folder `kept`.
        program(&fixture.inside("kept/post-merge"), "#!/bin/sh\n");
        fs::create_dir_all(fixture.inside("own.git/refs")).unwrap();
        fs::create_dir_all(fixture.inside("own.git/objects")).unwrap();
        fixture.put("own.git/HEAD", "ref: refs/heads/main\n");
        symlink("../kept", fixture.inside("own.git/hooks")).unwrap();
        let bin = fixture.outside("bin");
        let said = fixture
            .error(
                "bash",
                json!({"command": format!(
                    "git init -q s; rm -r s/.git/hooks; ln -s {bin} s/.git/hooks; rm -r kept; ln -s {bin} kept",
                    bin = bin.display()
                )}),
            )
            .await;
        for link in ["s/.git/hooks", "own.git/hooks"] {
            let expected = format!("[refused: `{link}` has git run what is elsewhere");
            assert!(said.contains(&expected), "{mechanism:?}: {said}");
            assert!(fixture.inside(link).symlink_metadata().is_err());
        }
        assert_eq!(fs::read_dir(&bin).unwrap().count(), 1, "{mechanism:?}");
        assert!(tool.exists(), "{mechanism:?}: {said}");
    }
}

#[tokio::test]
async fn hooks_behind_a_link_of_the_user_are_judged_one_by_one() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let outside = fixture.outside("hooks/pre-commit");
        program(&outside, "#!/bin/sh\n");
        program(&fixture.inside("kept/post-merge"), "#!/bin/sh\n");
        for (repository, hooks) in [
            ("a", fixture.inside("kept")),
            ("b", fixture.outside("hooks")),
        ] {
            fs::create_dir_all(fixture.inside(repository).join("refs")).unwrap();
            fs::create_dir_all(fixture.inside(repository).join("objects")).unwrap();
            fixture.put(&format!("{repository}/HEAD"), "ref: refs/heads/main\n");
            symlink(hooks, fixture.inside(repository).join("hooks")).unwrap();
        }
        let command = "cp kept/post-merge kept/pre-push";
        let calls = async {
            tokio::join!(
                fixture.error("bash", json!({ "command": command })),
                async {
                    // The user adds a hook while the command runs.
                    program(&fixture.outside("hooks/pre-push"), "#!/bin/sh\n");
                }
            )
        };
        let (said, ()) = calls.await;
        assert!(said.contains("pre-push` is run"), "{mechanism:?}: {said}");
        assert!(fixture.inside("kept/post-merge").exists(), "{said}");
        assert!(!fixture.inside("kept/pre-push").exists(), "{said}");
        assert_eq!(fs::read_dir(fixture.outside("hooks")).unwrap().count(), 2);
        assert!(fixture.inside("a/hooks").exists() && fixture.inside("b/hooks").exists());
    }
}

#[tokio::test]
async fn settings_that_never_end_are_refused_unread() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let said = fixture
            .error(
                "bash",
                json!({"command": "for r in large pipe; do git init -q $r; rm $r/.git/config; done; \
                    truncate -s 8G large/.git/config; mkfifo pipe/.git/config; \
                    mkdir -p x/objects x/refs x/worktrees/y x/worktrees/z; echo 'ref: x' | tee x/HEAD x/worktrees/y/HEAD > x/worktrees/z/HEAD; \
                    truncate -s 8G x/worktrees/y/commondir; mkfifo x/worktrees/z/commondir"}),
            )
            .await;
        for path in ["large/.git/config", "pipe/.git/config"] {
            let expected = format!("[refused: `{path}` may run a program");
            assert!(said.contains(&expected), "{mechanism:?}: {said}");
        }
        for path in ["x/worktrees/y/commondir", "x/worktrees/z/commondir"] {
            let expected = format!("[refused: `{path}` has git take settings from elsewhere");
            assert!(said.contains(&expected), "{mechanism:?}: {said}");
        }
        // The next command starts although the huge files and the pipes are still in the workspace.
        fixture.ok("bash", json!({"command": "true"})).await;
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_stopped_and_looked_at() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let command = "git init -q s; git -C s config core.fsmonitor 'touch ../ran'; touch ready; sleep 60; touch late";
        let ready = async {
            while !fixture.inside("ready").exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            output = fixture.bash(command) => panic!("{mechanism:?}: {}", output.content),
            () = ready => {}
        }
        while !fixture.inside("s/.git/config.refused").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!fixture.inside("late").exists(), "{mechanism:?}");
    }
}

/// Script of a model whose command plants a program for git, creates the file `ready` and does not
/// end.
const PLANTING: &str = r#"
[[reply]]
[[reply.tool_calls]]
name = "bash"
arguments = { command = "git init -q s; git -C s config core.fsmonitor 'touch ../ran'; touch ready; sleep 600" }
"#;

#[test]
fn what_a_command_planted_is_found_whatever_signal_ends_the_program() {
    if mechanisms().is_empty() {
        return;
    }
    for signal in ["INT", "QUIT", "TERM", "HUP"] {
        let rind = Rind::with_script(PLANTING);
        let mut running = rind.start(&["run", "work", "--yes"]);
        running.wait_until(|rind| rind.workspace().join("ready").exists());
        running.signal(signal);
        let ran = running.end().exits(130);
        let refused = rind.workspace().join("s/.git/config.refused");
        assert!(refused.exists(), "{signal}: {}", ran.stderr);
    }
}

#[test]
fn hooks_that_a_command_planted_before_rind_was_killed_are_found_at_the_next_start() {
    if mechanisms().is_empty() {
        return;
    }
    let rind = Rind::with_script(PLANTING);
    let mut running = rind.start(&["run", "work", "--yes"]);
    running.wait_until(|rind| rind.workspace().join("ready").exists());
    running.signal("KILL");
    let _killed = running.end();
    let refused = rind.workspace().join("s/.git/config.refused");
    assert!(!refused.exists());
    let said = "a command that was interrupted left this: `s/.git/config` may run a program";
    rind.script("[[reply]]\ntext = \"done\"\n");
    let first = rind.run(&["run", "go on", "--json"]).exits(0);
    assert!(
        refused.exists() && first.stderr.contains(said),
        "{}",
        first.stderr
    );
    let second = rind.run(&["run", "go on", "--json"]).exits(0);
    assert!(!second.stderr.contains("interrupted"), "{}", second.stderr);
}

#[test]
fn a_command_whose_state_cannot_be_recorded_is_refused() {
    if mechanisms().is_empty() {
        return;
    }
    let rind = Rind::with_script(
        "[[reply]]\n[[reply.tool_calls]]\nname = \"bash\"\narguments = { command = \"touch ran\" }\n\n\
         [[reply]]\ntext = \"done\"\n",
    );
    fs::create_dir_all(rind.home().join("data")).unwrap();
    fs::write(rind.home().join("data/commands"), "").unwrap();
    let ran = rind.run(&["run", "work", "--yes", "--json"]).exits(0);
    assert!(
        ran.stdout.contains("cannot be recorded in"),
        "{}",
        ran.stdout
    );
    assert!(!rind.workspace().join("ran").exists());
}

#[tokio::test]
async fn settings_of_a_repository_are_fixed_by_each_name_of_its_folder() {
    for mechanism in mechanisms() {
        if !mechanism.hides_outside_files_and_processes() {
            continue;
        }
        let fixture = confined_by(&mechanism, |confinement| {
            let real = confinement.write[0].join("other");
            let link = confinement.write[0].parent().unwrap().join("link");
            fs::create_dir_all(real.join(".git/objects")).unwrap();
            fs::create_dir_all(real.join(".git/refs")).unwrap();
            for file in ["HEAD", "config"] {
                fs::write(real.join(".git").join(file), "").unwrap();
            }
            symlink(real, &link).unwrap();
            confinement.write.push(link);
        })
        .await;
        let link = fixture.inside("../link");
        for folder in [link.display().to_string(), "other".to_owned()] {
            let said = fixture
                .refused(&format!("echo x >> {folder}/.git/config"))
                .await;
            assert!(said.contains("Read-only"), "{mechanism:?} {folder}: {said}");
            let command = format!("touch {folder}/.git/index");
            fixture.ok("bash", json!({ "command": command })).await;
        }
    }
}

#[test]
fn the_git_that_is_asked_for_settings_is_none_that_a_command_could_have_left() {
    let rind = Rind::default();
    let planted = rind.workspace().join("bin");
    for (folder, text) in [
        (&planted, "#!/bin/sh\ntouch \"$HOME/ran\"\n"),
        // The user's own `git` runs `helper`, which `PATH` resolves to the planted program.
        (
            &rind.user_home().join("bin"),
            "#!/bin/sh\nhelper\ntouch \"$HOME/asked\"\n",
        ),
    ] {
        program(&folder.join("git"), text);
    }
    program(&planted.join("helper"), "#!/bin/sh\ntouch \"$HOME/ran\"\n");
    let path = format!(
        "{}:{}:{}",
        planted.display(),
        rind.user_home().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = rind.command(&["doctor", "--json"]);
    rind.finish(command.env("PATH", path));
    assert!(rind.user_home().join("asked").exists());
    assert!(!rind.user_home().join("ran").exists());
}
