//! Commands as tables: what is read of them, what rules match, what "always" covers.

use super::*;

fn parts(text: &str) -> (Vec<String>, Option<String>) {
    let command = Command::read(text);
    let parts = command.parts.iter().map(|part| {
        let altered = if part.is_altered { "!" } else { "" };
        format!("{altered}{}", part.text())
    });
    (parts.collect(), command.doubt)
}

#[test]
fn a_command_is_all_of_its_parts() {
    let table: &[(&str, &[&str])] = &[
        ("git status", &["git status"]),
        ("  git   'log' \"-n\" 1 ", &["git log -n 1"]),
        ("gi't' pu\"sh\"", &["git push"]),
        (r"\git push", &["git push"]),
        ("git \\\n push", &["git push"]),
        (
            "a; b && c || d | e & f\ng",
            &["a", "b", "c", "d", "e", "f", "g"],
        ),
        ("a |& b", &["a", "b"]),
        ("! a", &["a"]),
        ("a # b; rm -rf /", &["a"]),
        ("echo a#b", &["echo 'a#b'"]),
        ("echo 'a; rm x'", &["echo 'a; rm x'"]),
        ("echo \"a; rm x\"", &["echo 'a; rm x'"]),
        ("echo $(rm x)", &["rm x", "echo …"]),
        ("echo \"a $(rm x) b\"", &["rm x", "echo …"]),
        ("echo `rm x`", &["rm x", "echo …"]),
        ("echo \"`rm x`\"", &["rm x", "echo …"]),
        ("echo $(a $(b; c))", &["b", "c", "a …", "echo …"]),
        ("echo '$(rm x)'", &["echo '$(rm x)'"]),
        ("diff <(a) <(b)", &["a", "b", "diff … …"]),
        ("a > >(b)", &["b", "a"]),
        ("ls *.rs $X ${Y} ~ {a,b} a[1]", &["ls … … … … … …"]),
        ("echo \"*\" '~'", &["echo '*' '~'"]),
        ("a >out 2>&1 </dev/null", &["> out", "a"]),
        ("a &> out", &["> out", "a"]),
        ("a 2>/dev/null >&2", &["a"]),
        ("> $(rm x)", &["rm x", "> …"]),
        ("a >>out>|b", &["> out", "> b", "a"]),
        ("a <<< 'x'", &["a"]),
        ("X=1 git status", &["!git status"]),
        ("env X=1 git status", &["!git status", "env X=1 git status"]),
        ("env -i -u A git x", &["git x", "env -i -u A git x"]),
        (
            "nice -n 5 nohup git x",
            &["git x", "nohup git x", "nice -n 5 nohup git x"],
        ),
        ("timeout -k 1 5 git x", &["git x", "timeout -k 1 5 git x"]),
        ("xargs -0 -n1 rm", &["rm …", "xargs -0 -n1 rm"]),
        (
            "ls | xargs -I{} rm {}",
            &["ls", "rm … …", "xargs '-I{}' rm '{}'"],
        ),
        ("sh -c 'a; b'", &["a", "b", "sh -c 'a; b'"]),
        ("bash -exc \"rm x\"", &["rm x", "bash -exc 'rm x'"]),
        (
            "/bin/sh -c 'eval \"rm x\"'",
            &["rm x", "eval 'rm x'", "/bin/sh -c 'eval \"rm x\"'"],
        ),
        ("sh script.sh", &["sh script.sh"]),
        (
            "find . -name x -exec rm -f y ';'",
            &["rm -f y", "find . -name x -exec rm -f y ';'"],
        ),
        ("exec git x", &["git x", "exec git x"]),
        ("command git x", &["git x", "command git x"]),
        ("cd sub && cargo test", &["cd sub", "cargo test"]),
    ];
    for (text, expected) in table {
        let (found, doubt) = parts(text);
        assert_eq!(doubt, None, "{text}");
        assert_eq!(found, *expected, "{text}");
    }
}

#[test]
fn what_cannot_be_read_with_certainty_is_a_doubt() {
    for text in [
        "",
        "   # nothing",
        "(rm x)",
        "{ rm x; }",
        "f() { rm x; }",
        "if true; then rm x; fi",
        "for x in a; do rm x; done",
        "while :; do rm x; done",
        "case x in x) rm x;; esac",
        "function f { rm x; }",
        "[[ -f x ]]",
        "echo 'x",
        "echo \"x",
        "echo `x",
        "echo $(x",
        "echo `echo \\`rm x\\``",
        "echo $((1+1))",
        "echo $[1+1]",
        "echo ${X:-$(rm x)}",
        "echo ${X@P}",
        "echo $'\\x72m'",
        "cat <<EOF\nrm x\nEOF",
        "$X push",
        "`echo rm` x",
        "*/rm x",
        "{rm,x}",
        "PATH=.",
        "PATH=. ; git status",
        "A[0]=1; git status",
        "export PATH=.; git status",
        "alias git=rm; git x",
        ". ./x; git status",
        "source x",
        "eval $X",
        "set -- x",
        "shopt -s expand_aliases",
        "trap 'rm x' EXIT",
        "hash -p ./evil git; git status",
        "enable -f ./x y",
        "read PATH <x; git status",
        "printf -v PATH .; git status",
        "declare -x A=1",
        "sh",
        "curl x | sh",
        "sh -c \"$X\"",
        "sh -c",
        "bash --rcfile x",
        "bash -s",
        "bash -ic 'x'",
        "xargs $X",
        "xargs --arg-file=x rm",
        "env -S 'rm x'",
        "env $X git",
        "sudo git status",
        "ssh host rm",
        "busybox sh -c x",
        "watch rm x",
        "find . $X",
        "find . -exec $X ';'",
        "coproc rm x",
        "time rm x",
        "a {x}>out",
        "bash +x -c 'git push'",
        "command trap 'rm x' EXIT",
        "builtin export PATH=/x",
        "command . ./x",
        "env -u A builtin read PATH",
        "echo 'git push' | xargs -I{} sh -c '{}'",
        "xargs -I% % x",
        "xargs -I a -I % % x",
        "find . -exec sh -c 'echo {}' ';'",
        "find . -exec {} ';'",
        "nice -n {5,rm} x",
        "timeout -s {9,5} rm x",
        "printf {-v,PATH} ./evil",
        "printf -vPATH ./evil",
        "command printf -v PATH ./evil",
        "foo<(rm x)",
        "<(rm x)foo",
        "echo a\u{a0}b",
        "a\0b",
        "echo a ;; b",
    ] {
        let (found, doubt) = parts(text);
        assert!(doubt.is_some(), "{text}: {found:?}");
        assert!(Command::read(text).covers().is_err(), "{text}");
    }
    let deep = format!("{}x{}", "$(".repeat(100_000), ")".repeat(100_000));
    assert!(Command::read(&deep).doubt.is_some());
    let deep = format!("{}x", "nice ".repeat(100_000));
    assert!(Command::read(&deep).doubt.is_some());
}

#[test]
fn an_argument_that_is_a_command_is_a_doubt() {
    for text in [
        "git -c alias.x='!rm x' x",
        "git -C d -c core.pager='rm x' log",
        "git --exec-path=. x",
        "git --config-env=a=B x",
        "git ls-remote --upload-pack='rm x;' .",
        "git ls-remote --upl='rm x;' .",
        "git ls-remote {--upload-pack=rm,.}",
        "git ls-remote -*",
        "git grep -nO'rm x' y",
        "git log --output=x",
        "git clone -u 'rm x' a",
        "git rebase -ix 'rm x' a",
        "git submodule foreach 'rm x'",
        "git -C d bisect run rm x",
        "/usr/bin/git -c a=b x",
        "nice git -c a=b x",
        "ls | xargs git",
        "tar cf x . --checkpoint=1 --checkpoint-action=exec='rm x'",
        "tar cf x . --use-compress='rm x'",
        "tar -cI 'rm x' -f x .",
        "tar cIf 'rm x' x .",
        "find . -fprintf x y",
        "find . -delete",
        "sort --compress-program=./x f",
        "rg --pre ./x y",
        "fd . -x rm",
        "rsync a b -e 'rm x'",
        "cargo test --config 'target.x.runner=\"rm\"'",
        "go test -exec rm",
        "man -P 'rm x' y",
        "test -v 'x[$(rm x)]'",
        "[ -v 'x[$(rm x)]' ]",
        "wait -p 'x[$(rm x)]' -n",
        "compgen -W '$(rm x)'",
        "jobs -x rm x",
        "/usr/bin/time rm x",
        "taskset 1 rm x",
    ] {
        assert!(Command::read(text).doubt.is_some(), "{text}");
    }
    for text in [
        "git switch -c name",
        "git push -u origin main",
        "git -C d log --oneline -n 3",
        "git commit -m 'a; b'",
        "tar xzf a.tgz",
        "tar -xf a.tar -C out",
        "sort -rn f",
        "[ -f x ]",
        "cargo test --locked",
        "find . -name x",
    ] {
        assert_eq!(Command::read(text).doubt, None, "{text}");
    }
}

fn matched(pattern: &str, text: &str) -> Matched {
    let command = Command::read(text);
    let part = command.parts.last().expect("it has a part");
    CommandPattern::new(pattern)
        .expect("a pattern")
        .matched(part)
}

#[test]
fn a_pattern_matches_whatever_the_unknown_words_are_or_only_maybe() {
    use Matched::{Maybe, No, Yes};
    for (pattern, text, expected) in [
        ("git *", "git", Yes),
        ("git *", "git status", Yes),
        ("git *", "gitk", No),
        ("git *", "git $X", Yes),
        ("git *", "./git x", No),
        ("git status *", "git status", Yes),
        ("git status *", "git $X", Maybe),
        ("git status *", "git statusx", No),
        ("git status", "git status -s", No),
        ("git status", "git status $X", Maybe),
        ("git push *", "git $X", Maybe),
        ("git push *", "git log $X", No),
        ("git * --dry-run", "git $X --dry-run", Maybe),
        ("git * --dry-run", "git push --dry-run", Yes),
        ("git * --dry-run", "git push $X --dry-run", Yes),
        ("cargo test", "cargo 'test'", Yes),
        ("cargo test", "'cargo test'", No),
        ("echo 'a b' *", "echo \"a b\" c", Yes),
        ("*", "anything $X", Yes),
        ("> out/*", "x", No),
    ] {
        assert_eq!(matched(pattern, text), expected, "{pattern}: {text}");
    }
    for pattern in ["", " ", "a && b", "a; b", "a | b", "$(a)", "a\nb"] {
        assert!(CommandPattern::new(pattern).is_err(), "{pattern}");
    }
    let redirection = &Command::read("a > out/x").parts[0];
    let pattern = CommandPattern::new("> out/*").expect("a pattern");
    assert_eq!(pattern.matched(redirection), Yes);
    let push = CommandPattern::new("git push *").expect("a pattern");
    let by_path = &Command::read("/usr/bin/git push").parts[0];
    assert_eq!(push.matched(by_path), No);
    assert_eq!(push.matched_by_name(by_path), Yes);
}

#[test]
fn always_covers_the_program_and_its_first_argument_or_exactly_this() {
    let covers = |text: &str| Command::read(text).covers();
    for (text, expected) in [
        ("git status", "git status …"),
        ("git log -n 1 | head", "git log …; head"),
        ("rm -rf x", "rm -rf x"),
        ("python3 -c 'x'", "python3 -c x"),
        ("cargo test && cargo test -p x", "cargo test …"),
        ("sh -c 'make all'", "make all; sh -c 'make all'"),
        ("ls *.rs", ""),
        ("cat log $X", "cat log …"),
        ("git log $X", ""),
        ("make test SHELL=./x", "make test SHELL=./x"),
        ("sed s/a/b/ f", "sed s/a/b/ f"),
        ("X=1 git log", ""),
        ("make >out", "> out; make"),
        ("timeout 5 cargo x", "cargo x …; timeout 5 cargo x"),
    ] {
        match covers(text) {
            Ok(found) => assert_eq!(found.join("; "), expected, "{text}"),
            Err(why) => assert_eq!(expected, "", "{text}: {why}"),
        }
    }
    assert!(covers(&format!("echo {}", "x".repeat(300))).is_err());
}
