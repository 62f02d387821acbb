//! What a command or a plugin leaves in the workspace for git to run at the user's next command.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::tool::Fixture;
use crate::tool::confine::{confined_by, mechanisms};

/// Runs git in a folder of the workspace as its user, who is not confined.
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
