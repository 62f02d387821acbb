//! Programs that start other programs: what they start counts as well.

use super::{Command, Part, Word, carried, read};

/// Deepest nesting of commands that is read.
pub(super) const MAX_DEPTH: usize = 12;

/// Shells: `-c` is a command, a name is a script, and nothing at all is whatever comes in.
const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "mksh", "sh", "yash", "zsh"];

/// Programs whose way to start others is not read.
const UNREAD: &[&str] = &[
    "at",
    "batch",
    "bunx",
    "busybox",
    "bwrap",
    "capsh",
    "catchsegv",
    "cgexec",
    "chronic",
    "chroot",
    "chrt",
    "crontab",
    "csh",
    "dbus-run-session",
    "direnv",
    "doas",
    "dumb-init",
    "eatmydata",
    "elvish",
    "entr",
    "expect",
    "fakeroot",
    "faketime",
    "firejail",
    "fish",
    "flock",
    "gdb",
    "gosu",
    "hyperfine",
    "ld.so",
    "linux32",
    "linux64",
    "ltrace",
    "nix-shell",
    "npx",
    "nsenter",
    "nu",
    "numactl",
    "parallel",
    "perf",
    "pipx",
    "pkexec",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "pwsh",
    "rlwrap",
    "run-parts",
    "runuser",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "sg",
    "ssh",
    "start-stop-daemon",
    "strace",
    "su",
    "sudo",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-run",
    "taskset",
    "tcsh",
    "time",
    "tini",
    "tmux",
    "torsocks",
    "toybox",
    "unbuffer",
    "unshare",
    "uvx",
    "valgrind",
    "watch",
    "watchexec",
    "xterm",
    "xvfb-run",
];

/// A program that runs the words after its own: its name, options without a value, options whose value is the next word or the
/// rest of the same, and the number of words of its own before the other program.
type Wrapper = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    usize,
);

const WRAPPERS: &[Wrapper] = &[
    ("builtin", &[], &[], 0),
    ("command", &["-p"], &[], 0),
    ("env", &["-i", "-", "-0"], &["-u"], 0),
    ("exec", &["-c", "-l"], &["-a"], 0),
    ("ionice", &["-t"], &["-c", "-n"], 0),
    ("nice", &[], &["-n"], 0),
    ("nohup", &[], &[], 0),
    ("setsid", &["-c", "-f", "-w"], &[], 0),
    ("stdbuf", &[], &["-e", "-i", "-o"], 0),
    (
        "timeout",
        &["-v", "--foreground", "--preserve-status"],
        &["-k", "-s"],
        1,
    ),
    (
        "xargs",
        &["-0", "-r", "-t", "-x", "--null", "--no-run-if-empty"],
        &["-I", "-L", "-P", "-a", "-d", "-n", "-s"],
        0,
    ),
];

/// The name of a program without the folder that it is in.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether the first argument of a program says little about what it does.
pub(super) fn starts_others(program: &str) -> bool {
    let name = base_name(program);
    SHELLS.contains(&name)
        || UNREAD.contains(&name)
        || WRAPPERS.iter().any(|(wrapper, ..)| *wrapper == name)
        || matches!(name, "eval" | "find")
        || carried::takes_scripts(program)
}

/// Reads what a part starts besides itself into `command`.
fn read(words: &[Word], is_altered: bool, depth: usize, command: &mut Command) {
    let Some((Word::Literal(program), arguments)) = words.split_first() else {
        return;
    };
    let name = base_name(program);
    // Also behind `command` and `builtin`.
    if read::CHANGING.contains(&program.as_str()) {
        command.doubt(format!("`{program}` may change what follows"));
    }
    carried::read(name, arguments, command);
    if SHELLS.contains(&name) {
        shell(name, arguments, depth, command);
    } else if UNREAD.contains(&name) {
        command.doubt(format!("`{name}` starts other programs"));
    } else if name == "eval" {
        eval(arguments, depth, command);
    } else if name == "find" {
        find(arguments, depth, command);
    } else if name == "printf" && may_be_option_v(arguments.first()) {
        command.doubt("`printf -v` may change what follows");
    } else if let Some(wrapper) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name) {
        wrapped(wrapper, arguments, is_altered, depth, command);
    }
}

/// Whether a word is `-v` with or without its value, or may be that when it runs.
fn may_be_option_v(word: Option<&Word>) -> bool {
    word.is_some_and(|word| word.literal().is_none_or(|text| text.starts_with("-v")))
}

/// The words of a program that another one fills in: a word that holds `mark` is only known when it runs.
fn filled(words: &[Word], mark: &str) -> Vec<Word> {
    let fill = |word: &Word| match word {
        Word::Literal(text) if !text.contains(mark) => word.clone(),
        Word::Literal(_) | Word::Any => Word::Any,
    };
    words.iter().map(fill).collect()
}

fn shell(name: &str, arguments: &[Word], depth: usize, command: &mut Command) {
    let mut rest = arguments.iter();
    loop {
        match rest.next().and_then(Word::literal) {
            None => {
                return command.doubt(format!(
                    "`{name}` runs what comes in or what is not known here"
                ));
            }
            Some(option) if option.starts_with(['-', '+']) => {
                let letters = option.strip_prefix('-').unwrap_or_default();
                if letters.is_empty() || !letters.chars().all(|c| "celux".contains(c)) {
                    return command.doubt(format!("`{name} {option}`"));
                }
                if letters.contains('c') {
                    return match rest.next().and_then(Word::literal) {
                        Some(text) if !text.starts_with('-') => {
                            read::read(text, depth + 1, command)
                        }
                        _ => command.doubt(format!("`{name} -c` with what is not known here")),
                    };
                }
            }
            // A script is a program like others; its name is in the part.
            Some(_) => return,
        }
    }
}

fn eval(arguments: &[Word], depth: usize, command: &mut Command) {
    let texts: Option<Vec<&str>> = arguments.iter().map(Word::literal).collect();
    match texts {
        Some(texts) => read::read(&texts.join(" "), depth + 1, command),
        None => command.doubt("`eval` of what is not known here"),
    }
}

/// `-exec` and its brothers of `find`.
fn find(arguments: &[Word], depth: usize, command: &mut Command) {
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let starts = word
            .literal()
            .is_some_and(|text| matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir"));
        if !starts {
            if *word == Word::Any {
                command.doubt("`find` with what is not known here");
            }
            continue;
        }
        let is_end = |word: &Word| matches!(word.literal(), Some(";" | "+"));
        let n_inner = rest.iter().position(is_end).unwrap_or(rest.len());
        let (inner, after) = rest.split_at(n_inner);
        start(filled(inner, "{}"), false, depth + 1, command);
        rest = after;
    }
}

fn wrapped(
    wrapper: &Wrapper,
    arguments: &[Word],
    is_altered: bool,
    depth: usize,
    command: &mut Command,
) {
    let (name, flags, valued, mut n_own) = *wrapper;
    let mut is_altered = is_altered;
    // Replaced by `xargs` wherever it stands in a word.
    let mut mark = None;
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        let Some(text) = word.literal() else {
            return command.doubt(format!("`{name}` starts what is not known here"));
        };
        if name == "xargs" && text.starts_with("-I") {
            let own = text.strip_prefix("-I").filter(|own| !own.is_empty());
            mark = own.or_else(|| after.first().and_then(Word::literal));
        }
        if text == "--" {
            rest = after;
            break;
        } else if valued.contains(&text) {
            // One word may become several.
            if after.first() == Some(&Word::Any) {
                return command.doubt(format!("`{name}` starts what is not known here"));
            }
            rest = after.get(1..).unwrap_or_default();
        } else if flags.contains(&text)
            || (!text.starts_with("--") && valued.iter().any(|o| text.starts_with(o)))
        {
            rest = after;
        } else if text.starts_with('-') {
            return command.doubt(format!("`{name} {text}`"));
        } else if name == "env" && text.contains('=') {
            is_altered = true;
            rest = after;
        } else if n_own > 0 {
            n_own -= 1;
            rest = after;
        } else {
            break;
        }
    }
    // `exec > file` and `env` alone start nothing.
    if rest.is_empty() {
        return;
    }
    let mut inner = mark.map_or_else(|| rest.to_vec(), |mark| filled(rest, mark));
    if name == "xargs" {
        inner.push(Word::Any);
    }
    start(inner, is_altered, depth + 1, command);
}

/// Adds a part, and what it starts besides itself.
pub(super) fn start(words: Vec<Word>, is_altered: bool, depth: usize, command: &mut Command) {
    if depth > MAX_DEPTH {
        return command.doubt("commands in commands in commands");
    }
    match words.first() {
        None => return,
        Some(Word::Any) => {
            command.doubt("the name of a program in it is not known before it runs");
        }
        Some(Word::Literal(_)) => {}
    }
    read(&words, is_altered, depth, command);
    command.parts.push(Part {
        words,
        is_altered,
        is_redirection: false,
    });
}
