//! Tests of commands that would wait for a person, and of output that is formatted for a terminal.

use serde_json::json;

use crate::tool::confine::{confined_by, kept, mechanisms};

#[tokio::test]
async fn nothing_waits_for_a_person() {
    let mut fixtures = vec![("off".to_owned(), kept())];
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        fixtures.push((format!("{mechanism:?}"), fixture));
    }
    for (name, fixture) in fixtures {
        let repository = "git init -q . && git config user.email a@b && git config user.name a && echo 1 > f && git add f && \
                          git commit -qm one && echo 2 > f && git commit -qam two && echo 3 > f";
        fixture.ok("bash", json!({ "command": repository })).await;
        for (command, said, code) in [
            (
                "git commit -a",
                "Aborting commit due to empty commit message.",
                1,
            ),
            ("git commit --amend -q && git log -1 --format=%s", "two", 0),
            (
                "git stash -q; git rebase -q -i HEAD~1 && git log -1 --format=%s",
                "two",
                0,
            ),
            ("git tag -a v1", "fatal: no tag message?", 128),
            ("git -p log --format=%s -1", "two", 0),
            ("read -p 'name? ' x < /dev/tty || echo none", "none", 0),
            ("/usr/bin/python3 -c 'input()'", "EOFError", 1),
            (
                "crontab -e 2>&1 | cat; $EDITOR f; $VISUAL f; $PAGER f",
                "2",
                0,
            ),
        ] {
            let call = json!({"command": command, "timeout_seconds": 30});
            let output = fixture.call("bash", call).await.content.to_string();
            assert!(output.contains(said), "{name} {command}: {output}");
            assert!(
                output.ends_with(&format!("[exit code {code}]")),
                "{name} {command}: {output}"
            );
        }
    }
}

#[tokio::test]
async fn the_model_gets_what_a_terminal_would_show_in_the_end() {
    let fixture = kept();
    for (command, expected) in [
        (
            r"printf '\033[31mred\033[0m\033]0;title\007 end\n'",
            "red end\n",
        ),
        (r"printf 'a\0b\n'; printf 'caf\xe9\n'", "ab\ncaf\u{fffd}\n"),
        (
            "for i in 1 2 3; do printf '\\rstep %d' $i; sleep 0.01; done; printf '\\r\\033[Kdone'",
            "done\n",
        ),
        ("printf 'a\\r\\nb\\r\\n'", "a\nb\n"),
        ("printf 'one\\ntwo\\n\\033[2A\\033[Jboth\\n'", "both\n"),
    ] {
        let output = fixture.ok("bash", json!({ "command": command })).await;
        assert_eq!(output, format!("{expected}[exit code 0]"), "{command}");
    }
    let command = "for i in $(seq 2000); do printf '\\rstep %d of 2000' $i; done; echo; exit 1";
    let output = fixture.error("bash", json!({ "command": command })).await;
    assert!(output.starts_with("step 2000 of 2000\n["), "{output}");
    assert!(
        output.contains(" bytes of terminal control sequences and overwritten lines]"),
        "{output}"
    );
}

#[tokio::test]
async fn overwritten_output_takes_no_room_from_the_rest() {
    let fixture = kept();
    let command = "echo first; seq -f 'progress %040.0f' -s $'\\r' 100000; echo; echo last";
    let output = fixture.ok("bash", json!({ "command": command })).await;
    assert!(
        output.starts_with("first\nprogress 0000"),
        "{}",
        &output[..200]
    );
    assert!(
        output.contains("\nlast\n") && output.len() < 1000,
        "{}",
        output.len()
    );
}
