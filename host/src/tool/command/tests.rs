//! Tables of commands: their parts, matching rules, and the scope of "always".

use super::*;

fn part_texts(command: &Command) -> Vec<String> {
    let parts = command.parts.iter().map(|part| {
        let altered = if part.is_altered { "!" } else { "" };
        format!("{altered}{}", part.text())
    });
    parts.collect()
}

#[test]
fn commands_that_every_shell_parses_alike_are_parsed() {
    let table: &[(&str, &[&str])] = &[
        ("git status", &["git status"]),
        ("  git   'log' \"-n\" 1 ", &["git log -n 1"]),
        ("gi't' pu\"sh\"", &["git push"]),
        ("a; b && c || d | e\ng", &["a", "b", "c", "d", "e", "g"]),
        ("\n a;\n\nb &&\n\n c ;", &["a", "b", "c"]),
        ("echo a#b", &["echo 'a#b'"]),
        ("git diff HEAD~2 HEAD^", &["git diff 'HEAD~2' HEAD^"]),
        ("echo 'a; rm x'", &["echo 'a; rm x'"]),
        ("echo \"a; rm x\"", &["echo 'a; rm x'"]),
        ("echo '$(rm x)' '`x`' '\\'", &["echo '$(rm x)' '`x`' '\\'"]),
        ("echo \"*\" '~' \"it's\"", &["echo '*' '~' 'it'\"'\"'s'"]),
        (
            "git commit -m 'one\ntwo' -m 'é\u{a0}…'",
            &["git commit -m 'one\ntwo' -m 'é\u{a0}…'"],
        ),
        ("[ -f x ] && a", &["'[' -f x ']'", "a"]),
        ("a >out 2>&1 </dev/null", &["> out", "a"]),
        (">out a 2>> ./err/./x", &["> out", "> err/x", "a"]),
        ("a 2>/dev/null >&2", &["a"]),
        ("env -i -u A git log", &["git log", "env -i -u A git log"]),
        (
            "nice -n 5 nohup git log",
            &["git log", "nohup git log", "nice -n 5 nohup git log"],
        ),
        (
            "timeout -k 1 5m git log",
            &["git log", "timeout -k 1 5m git log"],
        ),
        ("xargs -0 -n1 rm", &["rm …", "xargs -0 -n1 rm"]),
        (
            "ls | xargs -I'{}' rm '{}'",
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
        (
            "find . -exec env -u + git log ';' -exec cat '{}' +",
            &[
                "git log",
                "env -u + git log",
                "cat …",
                "find . -exec env -u + git log ';' -exec cat '{}' +",
            ],
        ),
        ("exec git log", &["git log", "exec git log"]),
        ("command git log", &["git log", "command git log"]),
        ("cd sub && cargo test", &["cd sub", "cargo test"]),
    ];
    for (text, expected) in table {
        let command = Command::parse(text);
        assert_eq!(command.reason_to_ask_user(), None, "{text}");
        assert_eq!(part_texts(&command), *expected, "{text}");
    }
}

#[test]
fn commands_outside_the_grammar_ask_although_their_programs_are_known() {
    let table: &[(&str, &[&str])] = &[
        (r"\git push", &["git push"]),
        ("git \\\n push", &["git push"]),
        ("a & b", &["a", "b"]),
        ("! a", &["a"]),
        ("a # b; rm -rf /", &["a"]),
        ("a # b\nc", &["a", "c"]),
        ("echo $(rm x)", &["rm x", "echo …"]),
        ("echo \"a $(rm x) b\"", &["rm x", "echo …"]),
        ("echo $(a $(b; c))", &["b", "c", "a …", "echo …"]),
        ("ls *.rs $X ${Y} ~ {a,b} a[1]", &["ls … … … … … …"]),
        ("echo \"a\\nb\" $ \"$\"", &["echo 'a\\nb' '$' '$'"]),
        ("echo \"done!\" hé", &["echo 'done!' 'hé'"]),
        ("> $(rm x) a", &["rm x", "> …", "a"]),
        ("a >|b", &["> b", "a"]),
        ("a 2>&-", &["a"]),
        ("X=1 git status", &["!git status"]),
        ("env X=1 git status", &["!git status", "env X=1 git status"]),
        (
            "find . -exec cat {} \\;",
            &["cat …", "find . -exec cat '{}' ';'"],
        ),
        ("nice a=b c", &["a=b c", "nice a=b c"]),
        ("env 'if' x", &["if x", "env if x"]),
        ("a > target/../b", &["> target/../b", "a"]),
        ("cd x && a > b", &["cd x", "> …", "a"]),
        ("cd x && ./a", &["cd x", "./a"]),
        ("a > /proc/self/cwd/b", &["> …", "a"]),
        ("test 'a[$(x)]' -eq 1", &["test 'a[$(x)]' -eq 1"]),
    ];
    for (text, expected) in table {
        let command = Command::parse(text);
        assert_eq!(command.doubt, None, "{text}");
        assert!(command.outside.is_some(), "{text}");
        assert!(command.session_approval_scopes().is_err(), "{text}");
        assert_eq!(part_texts(&command), *expected, "{text}");
    }
}

#[test]
fn commands_that_cannot_be_parsed_with_certainty_are_marked_as_doubtful() {
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
        // Shells and programs read these differently.
        "echo \"$\\\n(rm x)\"",
        "echo $\\\n(rm x)",
        "echo a\\\nb",
        "echo `x`",
        "rm >&-x",
        "rm >& -x",
        "rm >& x",
        "true &>/dev/null rm x",
        "a |& b",
        "a <<< x",
        "a <> x",
        "a 10>x",
        "a > /dev/tcp/1.2.3.4/80",
        "eval -- 'rm x'",
        "env -- A=b rm x",
        "timeout -- 5 rm x",
        "timeout rm x",
        "sh -c + 'rm x'",
        "sh +e -c 'rm x'",
        "sh -c 'rm x' y",
        "sh -c 'true &>/dev/null rm x'",
        "find . -exec rm x",
        "find . -exec make + x",
        "diff <(a) <(b)",
        "repeat 3 rm x",
        "- rm x",
        "a && ; b",
        "; a",
        "a &&",
        "a '\r'",
        "a \u{1b}",
        "a # \0",
    ] {
        let command = Command::parse(text);
        assert!(command.doubt.is_some(), "{text}: {command:?}");
        assert!(command.session_approval_scopes().is_err(), "{text}");
    }
    let deep = format!("{}x{}", "$(".repeat(100_000), ")".repeat(100_000));
    assert!(Command::parse(&deep).doubt.is_some());
    let deep = format!("{}x", "nice ".repeat(100_000));
    assert!(Command::parse(&deep).doubt.is_some());
}

#[test]
fn a_command_whose_argument_may_be_another_command_is_marked_as_doubtful() {
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
        "git --attr-source HEAD -c alias.x='!rm x' x",
        "git --unknown x",
        "git remote-ext x 'rm x'",
        "git submodule--helper foreach 'rm x'",
        "git clone 'ext::sh -c x'",
        "git x",
        "git-remote-ext x 'rm x'",
        "git-log --output=x",
        "docker --context d run x",
        "docker --unknown ps",
        "npm --prefix . exec -c 'rm x'",
        "npm exe -c 'rm x'",
        "npm test --script-shell=./x",
        "kubectl -n a exec b -- rm x",
        "bundle exec rm x",
        "mise x -- rm x",
        "conda run rm x",
        "stack exec rm",
        "cross-env A=b rm x",
        "rbash -c 'rm x'",
        "ip netns exec a rm x",
        "ctr run a b",
        "pip config --editor 'rm x' edit",
        "cpio -o --rsh-command 'rm x' -F a:",
        "ssh-agent rm x",
        "x86_64 rm x",
        "/lib64/ld-linux-x86-64.so.2 /usr/bin/rm x",
        "wait -np 'a[$(rm x)]'",
    ] {
        assert!(Command::parse(text).doubt.is_some(), "{text}");
    }
    for text in [
        "git --no-pager -C a --git-dir=b log",
        "docker --context d ps",
        "npm --prefix . test",
        "npm run build",
        "bundle install",
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
        assert_eq!(Command::parse(text).reason_to_ask_user(), None, "{text}");
    }
}

#[test]
fn a_too_long_command_is_not_parsed_and_one_with_too_many_parts_is_doubtful() {
    let long = "a ".repeat(MAX_BYTES);
    let command = Command::parse(&long);
    assert_eq!(command.n_bytes_too_long, Some(long.len()));
    assert!(command.parts.is_empty() && command.doubt.is_some());
    let many = "a;".repeat(MAX_BYTES / 2);
    let command = Command::parse(&many);
    assert!(command.doubt.is_some() && command.parts.len() <= MAX_PARTS + 1);
}

fn match_part(pattern: &str, text: &str) -> CommandPatternMatch {
    let command = Command::parse(text);
    let part = command.parts.last().expect("it has a part");
    CommandPattern::new(pattern)
        .expect("a pattern")
        .match_part_exactly(part)
}

#[test]
fn a_pattern_that_does_not_match_every_expansion_of_unknown_words_matches_only_maybe() {
    use CommandPatternMatch::{Maybe, No, Yes};
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
        assert_eq!(match_part(pattern, text), expected, "{pattern}: {text}");
    }
    let redirection = &Command::parse("a > out/x").parts[0];
    let pattern = CommandPattern::new("> out/*").expect("a pattern");
    assert_eq!(pattern.match_part_exactly(redirection), Yes);
    let push = CommandPattern::new("git push *").expect("a pattern");
    let by_path = &Command::parse("/usr/bin/git push").parts[0];
    assert_eq!(push.match_part_exactly(by_path), No);
    assert_eq!(push.match_part_by_program_name(by_path), Yes);
}

#[test]
fn a_pattern_is_parsed_as_the_shell_parses_a_command() {
    use CommandPatternMatch::{No, Yes};
    for (pattern, text, expected) in [
        ("touch \"pwn\"", "touch \"pwn\"", Yes),
        ("touch 'pwn'", "touch pwn", Yes),
        ("touch   pwn  *", "touch pwn x", Yes),
        ("touch a#b *", "touch a#b pwn", Yes),
        ("touch 'a b'", "touch \"a b\"", Yes),
        ("touch 'a b'", "touch a b", No),
        ("touch 'pwn?x'", "touch 'pwn?x'", Yes),
        (
            "curl 'https://a.example/?q=1&r='*",
            "curl 'https://a.example/?q=1&r=2'",
            Yes,
        ),
        ("echo '*'", "echo '*'", Yes),
        ("echo '*'", "echo x", No),
        ("echo it\"'\"s", "echo \"it's\"", Yes),
        ("> ./out//x", "a > out/x", Yes),
        ("> out/*", "a > ./out/x", Yes),
    ] {
        let pattern = CommandPattern::new(pattern).expect(pattern);
        let command = Command::parse(text);
        let part = &command.parts[0];
        assert_eq!(
            pattern.match_part_exactly(part),
            expected,
            "{pattern:?}: {text}"
        );
        let is_sure = pattern.match_part_by_program_name(part) == Yes;
        assert_eq!(is_sure, expected == Yes, "{pattern:?}: {text}");
    }
    for pattern in [
        "",
        " ",
        "a && b",
        "a; b",
        "a | b",
        "a\nb",
        "$(a)",
        "a $X",
        "a `b`",
        "a\\ b",
        "a 'b",
        "a ?",
        "a [b]*",
        "a ~/b",
        "a {b,c}",
        "a # b",
        "X=1 a",
        "a > b",
        "a &",
        "(a)",
        "if a",
        "for *",
        "a !",
        "a hé",
        "# a",
        "a\u{10FFFF}",
        "a '\u{10FFFF}'",
        "> /dev/null",
        "a <<E",
    ] {
        assert!(CommandPattern::new(pattern).is_err(), "{pattern}");
    }
    let why = CommandPattern::new("touch $(x)").expect_err("it matches nothing");
    assert!(why.contains("quotes") && why.contains("`*`"), "{why}");
}

#[test]
fn a_denied_subcommand_is_recognized_after_global_options() {
    use CommandPatternMatch::{Maybe, No, Yes};
    for (pattern, text, expected) in [
        ("git push *", "git -C . push o x:y", Yes),
        ("git push *", "git --no-pager push", Yes),
        ("git push *", "git -P push", Yes),
        ("git push *", "git --git-dir=.git push", Yes),
        ("git push *", "git --git-dir .git push", Yes),
        ("git push *", "git --attr-source HEAD push", Yes),
        ("git push *", "git -c a.b=c push", Yes),
        ("git push *", "git --unknown x push", Maybe),
        ("git push *", "git log push", Maybe),
        ("git push *", "git log", No),
        ("git push *", "legit push", No),
        ("git push *", "echo \"do not git push\"", Maybe),
        ("git push *", "runner -x git push", Maybe),
        ("git push *", "runner '--exec=git push'", Maybe),
        ("git push *", "runner '-Igit push'", Maybe),
        ("git push *", "awk 'BEGIN{system(\"g\\it push\")}'", Maybe),
        ("git push *", "push git", No),
        ("npm publish *", "npm --prefix . publish", Yes),
        ("npm publish *", "npm --tag next publish", Maybe),
        ("docker run *", "docker --context d run x", Yes),
        (
            "cargo publish *",
            "cargo +nightly -q --color never publish",
            Yes,
        ),
        ("cargo publish *", "cargo --config a publish", Yes),
        ("kubectl delete *", "kubectl -n a delete pod b", Yes),
        (
            "kubectl delete *",
            "kubectl --kubeconfig a delete pod b",
            Maybe,
        ),
        (
            "touch pwn*",
            "make x '--eval=X:=$(shell touch pwned)'",
            Maybe,
        ),
        ("touch 'a b'", "runner \"touch 'a b'\"", Maybe),
        ("./run *", "/opt/run x", Maybe),
        ("> src/*", "runner 'echo x > ./src/x'", Maybe),
        ("> src/*", "runner src/x", No),
        ("rm *", "farm x", No),
        ("git push *", "git-push o", Yes),
        ("git push *", "/usr/lib/git-core/git-push o", Yes),
        ("git push *", "runner GIT push", Maybe),
        ("git push *", "runner git $X", Maybe),
        ("git push *", "cargo test $X", No),
        ("git push *", "runner $X", No),
        ("terraform destroy *", "terraform -chdir=$X destroy", Maybe),
        ("terraform destroy *", "terraform plan $X", No),
        ("touch *", "PAGER='touch x' less y", Maybe),
        ("touch *", "env PAGER='touch x' less y", Maybe),
        ("touch *", "awk \"BEGIN{system(\\\"touch $X\\\")}\"", Maybe),
        ("* --force", "git push --force", Yes),
        ("*", "a", Yes),
    ] {
        let read = Command::parse(text);
        let pattern = CommandPattern::new(pattern).expect(pattern);
        let matched = read
            .parts
            .iter()
            .map(|part| pattern.match_part_by_program_name(part));
        assert_eq!(matched.max(), Some(expected), "{pattern:?}: {text}");
    }
}

#[test]
fn files_of_output_redirections_are_resolved() {
    use super::super::subject::WorkspacePath::{Known, Unknown};
    // Resolve paths like a workspace that has a symlink `link` to `src`.
    let place = |path: &str| match path.strip_prefix("/ws/").unwrap_or(path) {
        path if path.starts_with('/') => Unknown,
        "target/../pwn" => Known("pwn".to_owned()),
        "../x" | "dangling" => Unknown,
        path => Known(path.replacen("link/", "src/", 1)),
    };
    for (text, target, src, asks) in [
        (
            "a > target/x",
            CommandPatternMatch::Yes,
            CommandPatternMatch::No,
            false,
        ),
        (
            "a > /ws/target/x",
            CommandPatternMatch::Yes,
            CommandPatternMatch::No,
            false,
        ),
        (
            "a > target/../pwn",
            CommandPatternMatch::No,
            CommandPatternMatch::No,
            true,
        ),
        (
            "a > ./src/x",
            CommandPatternMatch::No,
            CommandPatternMatch::Yes,
            false,
        ),
        (
            "a > /ws/src/x",
            CommandPatternMatch::No,
            CommandPatternMatch::Yes,
            false,
        ),
        (
            "a > link/x",
            CommandPatternMatch::No,
            CommandPatternMatch::Yes,
            false,
        ),
        (
            "a > ../x",
            CommandPatternMatch::Maybe,
            CommandPatternMatch::Maybe,
            true,
        ),
        (
            "a > dangling",
            CommandPatternMatch::Maybe,
            CommandPatternMatch::Maybe,
            true,
        ),
        (
            "a > /other/x",
            CommandPatternMatch::No,
            CommandPatternMatch::No,
            false,
        ),
        (
            "cd src && a > x",
            CommandPatternMatch::Maybe,
            CommandPatternMatch::Maybe,
            true,
        ),
    ] {
        let command = Command::parse(text).resolve_redirections(place);
        assert_eq!(command.reason_to_ask_user().is_some(), asks, "{text}");
        let mut parts = command.parts.iter();
        let part = parts.find(|part| part.is_redirection).expect(text);
        let matched = |pattern| CommandPattern::new(pattern).expect(pattern);
        assert_eq!(
            matched("> target/*").match_part_exactly(part),
            target,
            "{text}"
        );
        assert_eq!(
            matched("> src/*").match_part_by_program_name(part),
            src,
            "{text}"
        );
    }
}

#[test]
fn an_always_answer_permits_the_program_with_its_first_argument_or_the_exact_command() {
    let covers = |text: &str| Command::parse(text).session_approval_scopes();
    for (text, expected) in [
        ("git status", "git status …"),
        ("git log -n 1 | head", "git log …; head"),
        ("rm -rf x", "rm -rf x"),
        ("python3 -c 'x'", "python3 -c x"),
        ("cargo test && cargo test -p x", "cargo test …"),
        ("sh -c 'make all'", "make all; sh -c 'make all'"),
        ("ls *.rs", ""),
        ("cat log $X", ""),
        ("cat *.log", ""),
        ("xargs rm", ""),
        ("python3 x.py", "python3 x.py"),
        ("sudo git log", ""),
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
