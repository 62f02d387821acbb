//! Tests of programs that a command or a plugin leaves in the workspace for git to run at the
//! user's next `git` command.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::tool::Fixture;
use crate::tool::confine::{confined_by, mechanisms, unconfined};

/// Runs git without confinement in a folder of the workspace, as the user would.
fn git(fixture: &Fixture, folder: &str, args: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
        ])
        .args(args)
        .current_dir(fixture.inside(folder))
        .env("HOME", fixture.outside(""))
        .output()
        .unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[tokio::test]
async fn settings_and_hooks_that_a_command_left_do_not_run_at_the_next_git_command() {
    for mechanism in mechanisms() {
        for attack in [
            "git config core.fsmonitor 'touch ../ran; false'",
            "printf '[core]\\n\\tfsmonitor = touch ../ran\\n' >> .git/config",
            "printf '[core]\\n\\tfsmonitor = touch ../ran\\n' > c; mv c .git/config",
            "printf '#!/bin/sh\\ntouch ../ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
            "rm -r .git/hooks; mkdir .git/hooks; printf '#!/bin/sh\\ntouch ../ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
            "mv .git g && git init -q && git config core.fsmonitor 'touch ../ran'",
            "mkdir evil; cp -r .git/objects .git/refs evil; printf '[core]\\n\\tfsmonitor = touch ../ran\\n' > evil/config; echo ../evil > .git/commondir",
        ] {
            let fixture = confined_by(&mechanism, |_| {}).await;
            git(&fixture, "", &["init", "-q", "."]);
            fixture.put("a", "a");
            fixture.bash(attack).await;
            git(&fixture, "", &["status"]);
            git(&fixture, "", &["add", "-A"]);
            git(&fixture, "", &["commit", "-q", "-m", "x"]);
            let ran = fixture.inside("../ran").exists() || fixture.inside("ran").exists();
            assert!(!ran, "{mechanism:?}: {attack}");
        }
    }
}

#[tokio::test]
async fn a_bare_layout_and_a_repository_below_are_made_harmless_and_said() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let output = fixture
            .error(
                "bash",
                json!({"command": "mkdir -p docs/objects docs/refs; echo 'ref: refs/heads/main' > docs/HEAD; \
                    printf '[core]\\n\\tworktree = .\\n\\tfsmonitor = touch ../ran\\n' > docs/config; \
                    git init -q own; git -C own config core.fsmonitor 'touch ../ran'"}),
            )
            .await;
        for path in ["docs/config", "own/.git/config"] {
            assert!(
                output.contains(&format!("[refused: `{path}` may run a program")),
                "{mechanism:?}: {output}"
            );
            assert!(fixture.inside(&format!("{path}.refused")).exists());
        }
        for folder in ["docs", "own"] {
            git(&fixture, folder, &["status"]);
        }
        assert!(!fixture.inside("ran").exists(), "{mechanism:?}");
    }
}

#[tokio::test]
async fn the_settings_of_the_repository_are_put_back_where_they_could_be_written() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        git(&fixture, "", &["init", "-q", "."]);
        git(
            &fixture,
            "",
            &["remote", "add", "origin", "https://example.com/a.git"],
        );
        let before = fixture.text(".git/config");
        let output = fixture
            .error(
                "bash",
                json!({"command": "git config core.pager 'touch ran' || exit 3"}),
            )
            .await;
        assert_eq!(
            fixture.text(".git/config"),
            before,
            "{mechanism:?}: {output}"
        );
    }
}

#[tokio::test]
async fn personal_settings_of_git_are_not_there_and_commits_have_their_author() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.git_settings =
                "[user]\n\tname = \"An Author\"\n\temail = \"a@example.com\"\n".to_owned();
        })
        .await;
        let home = std::env::var("HOME").unwrap();
        fixture.refused(&format!("cat {home}/.gitconfig")).await;
        let output = fixture
            .ok("bash", json!({"command": "git init -q . && git commit -q --allow-empty -m x && git log --format='%an %ae'"}))
            .await;
        assert!(
            output.starts_with("An Author a@example.com\n"),
            "{mechanism:?}: {output}"
        );
        fs::remove_dir_all(fixture.inside(".git")).unwrap();
    }
}

/// Commands that build a repository with a planted program in steps or by way of another folder,
/// and the folder in which git is then run. The planted program would create `../ran` or `ran`.
const IN_STEPS: &[(&[&str], &str)] = &[
    // The settings are written before the folder becomes a repository.
    (
        &[
            "mkdir a; printf '[core]\\n\\tworktree = .\\n\\tfsmonitor = touch ../ran\\n' > a/config",
            "mkdir a/objects a/refs; echo 'ref: refs/heads/main' > a/HEAD",
        ],
        "a",
    ),
    // The same with a `post-index-change` hook, which `git status` runs, and with the folder
    // renamed in between.
    (
        &[
            "mkdir -p a/hooks s; printf '#!/bin/sh\\ntouch ../ran\\n' > a/hooks/post-index-change; chmod +x a/hooks/*",
            "mv a b; mkdir b/objects b/refs; echo 'ref: refs/heads/main' > b/HEAD; echo 'gitdir: ../b' > s/.git",
            "echo x > s/x; git -C s add x; touch s/x",
        ],
        "s",
    ),
    // A repository within the `objects` folder of another one.
    (
        &[
            "git init -q x; mkdir s; git init -q --bare x/.git/objects/evil; echo 'gitdir: ../x/.git/objects/evil' > s/.git; \
              printf '[core]\\n\\tbare = false\\n\\tfsmonitor = touch ../ran\\n' > x/.git/objects/evil/config",
        ],
        "s",
    ),
    // The settings are in a folder that is no repository by itself and that a `commondir` file
    // names.
    (
        &[
            "mkdir -p s x/worktrees/y e/objects e/refs; echo 'ref: refs/heads/main' > x/worktrees/y/HEAD; \
              echo ../../../e > x/worktrees/y/commondir; echo 'gitdir: ../x/worktrees/y' > s/.git; \
              printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch ../ran\\n' > e/config",
        ],
        "s",
    ),
    // A link whose target gets its dangerous content later.
    (
        &[
            "git init -q s; rm s/.git/config; : > c; ln -s ../../c s/.git/config",
            "printf '[core]\\n\\tfsmonitor = touch ../ran\\n' > c",
        ],
        "s",
    ),
    (
        &[
            "git init -q s; rm -r s/.git/hooks; ln -s ../../h s/.git/hooks; mkdir h",
            "printf '#!/bin/sh\\ntouch ../ran\\n' > h/post-index-change; chmod +x h/post-index-change; echo x > s/x; git -C s add x; touch s/x",
        ],
        "s",
    ),
    // The name `config.refused`, to which the host would rename the file, is in use, and the folder
    // is not writable.
    (
        &[
            "git init -q s; git -C s config core.fsmonitor 'touch ../ran'; mkdir -p s/.git/config.refused/x; chmod 555 s/.git",
        ],
        "s",
    ),
];

#[tokio::test]
async fn what_is_made_a_repository_in_steps_or_by_way_of_another_does_not_run() {
    for mechanism in mechanisms() {
        for (commands, folder) in IN_STEPS {
            let fixture = confined_by(&mechanism, |_| {}).await;
            let mut said = String::new();
            for command in *commands {
                said.push_str(&fixture.bash(command).await.content.text());
            }
            assert!(
                said.contains("[refused: `"),
                "{mechanism:?}: {commands:?}: {said}"
            );
            git(&fixture, folder, &["status"]);
            git(&fixture, folder, &["add", "-A"]);
            let ran = ["../ran", "ran"].map(|path| fixture.inside(path).exists());
            assert_eq!(ran, [false; 2], "{mechanism:?}: {commands:?}: {said}");
        }
    }
}

#[tokio::test]
async fn hooks_that_were_there_before_stay_whatever_a_command_does_in_the_repository() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.git_settings = "[user]\n\tname = a\n\temail = a@b\n".to_owned();
        })
        .await;
        git(&fixture, "", &["init", "-q", "."]);
        git(&fixture, "", &["config", "core.fsmonitor", "false"]);
        fixture.put(".git/hooks/pre-commit", "#!/bin/sh\ntouch ran\n");
        let hook = fixture.inside(".git/hooks/pre-commit");
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let output = fixture
            .ok(
                "bash",
                json!({"command": "git commit -q --allow-empty -m x && git worktree add -q t && ls ran"}),
            )
            .await;
        assert!(output.starts_with("ran\n"), "{mechanism:?}: {output}");
        assert!(hook.exists() && fixture.text(".git/config").contains("fsmonitor"));
        let output = git(&fixture, "t", &["status"]);
        assert!(output.contains("On branch t"), "{mechanism:?}: {output}");
    }
}

#[tokio::test]
async fn folders_that_are_opened_to_commands_are_looked_at_as_the_workspace_is() {
    for mechanism in mechanisms() {
        let other = tempfile::tempdir().unwrap();
        let other = other.path().canonicalize().unwrap();
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.write.push(other.clone());
        })
        .await;
        let command = format!(
            "cd {} && git init -q r && git -C r config core.fsmonitor 'touch ../ran'",
            other.display()
        );
        let output = fixture.error("bash", json!({ "command": command })).await;
        let path = other.join("r/.git/config");
        let expected = format!("[refused: `{}` may run a program", path.display());
        assert!(output.contains(&expected), "{mechanism:?}: {output}");
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn tools_that_write_files_do_not_write_what_git_goes_by() {
    let fixture = unconfined();
    for folder in ["", "sub"] {
        fs::create_dir_all(fixture.inside(folder)).unwrap();
        git(&fixture, folder, &["init", "-q", "."]);
    }
    git(&fixture, "", &["init", "-q", "--bare", "bare.git"]);
    std::os::unix::fs::symlink(".git", fixture.inside("link")).unwrap();
    std::os::unix::fs::symlink(".git/config", fixture.inside("settings")).unwrap();
    fixture.put("linked/.git", "gitdir: ../sub/.git\n");
    fixture.put("half/HEAD", "ref: refs/heads/main\n");
    fixture.put("half/objects/x", "");
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/x",
        "sub/.git/config",
        "linked/.git",
        "made/.git",
        "made/../.git/config",
        "link/config",
        "link/hooks/pre-commit",
        "settings",
        "bare.git/config",
        "bare.git/hooks/update",
        "half/refs/x",
        "half/commondir",
    ] {
        let before = fs::read(fixture.inside(path)).ok();
        let said = fixture
            .error("write_file", json!({"path": path, "content": "[core]"}))
            .await;
        assert!(
            said.contains("what git runs") || said.contains("decides what git"),
            "{path}: {said}"
        );
        if !path.contains("..") {
            assert_eq!(fs::read(fixture.inside(path)).ok(), before, "{path}");
        }
        assert!(
            fixture.text(".git/config").contains("bare = false"),
            "{path}"
        );
    }
    let said = fixture
        .error(
            "edit_file",
            json!({"path": ".git/config", "old_text": "bare = false", "new_text": "bare = true"}),
        )
        .await;
    assert!(said.contains("decides what git"), "{said}");
    for path in [
        "half/config",
        "bin/head",
        ".gitignore",
        "objects/a",
        "refs/a",
    ] {
        fixture
            .ok("write_file", json!({"path": path, "content": "x"}))
            .await;
    }
}
