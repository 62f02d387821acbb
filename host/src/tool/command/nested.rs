//! Parses programs that start other programs given in their arguments, such as `env`, `xargs` and
//! `sh -c`: the started programs become parts of the command too.
//!
//! Only exact forms are parsed: known options, no `--`, the inner command as separate words.
//! Anything else is marked as doubtful. Start from [`start_read`].

use super::starters::{base_name, runs_unread};
use super::{Command, Part, Word, carried, read};

/// Maximum nesting depth of commands.
pub(super) const MAX_DEPTH: usize = 12;

/// Shells: `-c` takes a command, a name is a script, and without arguments the commands come from
/// standard input.
pub(super) const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "mksh", "sh", "yash", "zsh"];

/// Builtins that can change the meaning of later words, or that run code that this parser cannot
/// see.
const CHANGING: &[&str] = &[
    ".",
    "alias",
    "autoload",
    "bind",
    "compgen",
    "complete",
    "compopt",
    "declare",
    "emulate",
    "enable",
    "export",
    "fc",
    "functions",
    "getopts",
    "hash",
    "history",
    "let",
    "local",
    "mapfile",
    "nameref",
    "read",
    "readarray",
    "readonly",
    "set",
    "setopt",
    "shopt",
    "source",
    "trap",
    "typeset",
    "unalias",
    "unset",
    "unsetopt",
    "zmodload",
];

/// Builtins that evaluate a word as arithmetic in some shells; an array index in such a word can
/// contain a command.
const EVALUATING: &[&str] = &[
    "[", "break", "continue", "exit", "kill", "printf", "return", "shift", "test", "ulimit", "wait",
];

/// A program that runs another command: its name, options without a value, options with a value (in
/// the next word or the same one), and the number of its own arguments before the inner program.
type Wrapper = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    usize,
);

pub(super) const WRAPPERS: &[Wrapper] = &[
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

/// Adds a parsed part, and the programs that it starts.
pub(super) fn start_read(part: Part, depth: usize, command: &mut Command) {
    let Part {
        words,
        is_altered,
        others,
        ..
    } = part;
    let n_before = command.parts.len();
    start_nested(words, is_altered, depth, command);
    // The part itself comes after the parts that it starts.
    if let Some(part) = command.parts[n_before..].last_mut() {
        part.others = others;
    }
}

/// Adds a part, and the programs that it starts.
fn start_nested(words: Vec<Word>, is_altered: bool, depth: usize, command: &mut Command) {
    if depth > MAX_DEPTH {
        return command.doubt("commands in commands in commands");
    }
    match words.split_first() {
        None => return,
        Some((Word::Any, _)) => {
            command.doubt("the name of a program in it is not known before it runs");
        }
        Some((Word::Literal(program), arguments)) => {
            read_nested(program, arguments, is_altered, depth, command);
        }
    }
    command.parts.push(Part {
        is_altered,
        ..Part::program(words)
    });
}

/// Adds the programs that `program` starts, other than itself.
fn read_nested(
    program: &str,
    arguments: &[Word],
    is_altered: bool,
    depth: usize,
    command: &mut Command,
) {
    let name = base_name(program);
    if program.contains('=') || read::RESERVED.contains(&program) {
        command.outside(format!("a program with the name `{program}`"));
    }
    // These builtins also work after `command` and `builtin`.
    if CHANGING.contains(&program) {
        command.doubt(format!("`{program}` may change what the later commands do"));
    }
    let evaluates = |word: &Word| word.literal().is_none_or(|text| text.contains(['$', '`']));
    if EVALUATING.contains(&program) && arguments.iter().any(evaluates) {
        command.outside(format!("`{program}` may evaluate what it is given"));
    }
    carried::read_carried(name, arguments, command);
    if SHELLS.contains(&name) {
        read_shell(name, arguments, depth, command);
    } else if runs_unread(name) {
        command.doubt(format!("`{name}` starts other programs"));
    } else if name == "eval" {
        read_eval(arguments, depth, command);
    } else if name == "find" {
        read_find(arguments, depth, command);
    } else if name == "printf" && may_be_option_v(arguments.first()) {
        command.doubt("`printf -v` may change what the later commands do");
    } else if let Some(wrapper) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name) {
        read_wrapped(wrapper, arguments, is_altered, depth, command);
    }
}

/// Whether a word is `-v` with or without a value, or may expand to it.
fn may_be_option_v(word: Option<&Word>) -> bool {
    word.is_some_and(|word| word.literal().is_none_or(|text| text.starts_with("-v")))
}

/// Returns the words of an inner command in which another program replaces `mark`: a word that
/// contains `mark` is unknown until the command runs.
fn fill_words(words: &[Word], mark: &str) -> Vec<Word> {
    let fill = |word: &Word| match word {
        Word::Literal(text) if !text.contains(mark) => word.clone(),
        Word::Literal(_) | Word::Any => Word::Any,
    };
    words.iter().map(fill).collect()
}

/// Parses `sh -c 'text'` and `sh script`.
fn read_shell(name: &str, arguments: &[Word], depth: usize, command: &mut Command) {
    let mut rest = arguments.iter();
    loop {
        match rest.next().and_then(Word::literal) {
            None => {
                return command.doubt(format!(
                    "`{name}` runs its standard input, or a program that is not known here"
                ));
            }
            Some(option) if option.starts_with(['-', '+']) => {
                let letters = option.strip_prefix('-').unwrap_or_default();
                if letters.is_empty() || !letters.chars().all(|c| "celux".contains(c)) {
                    return command.doubt(format!("`{name} {option}`"));
                }
                if letters.contains('c') {
                    // Accept one word after `-c` only: shells differ in where they accept options,
                    // and later words become positional parameters.
                    return match (rest.next().and_then(Word::literal), rest.next()) {
                        (Some(text), None) if !text.starts_with(['-', '+']) => {
                            read::read_command(text, depth + 1, command)
                        }
                        _ => command.doubt(format!("`{name} -c` with more than a command")),
                    };
                }
            }
            // A script is a program like others; its name is in the part.
            Some(_) => return,
        }
    }
}

fn read_eval(arguments: &[Word], depth: usize, command: &mut Command) {
    let texts: Option<Vec<&str>> = arguments.iter().map(Word::literal).collect();
    match texts {
        Some(texts) if texts.first().is_some_and(|text| !text.starts_with('-')) => {
            read::read_command(&texts.join(" "), depth + 1, command);
        }
        _ => command.doubt("`eval` of what is not known here"),
    }
}

/// Parses `-exec` and similar actions of `find`.
fn read_find(arguments: &[Word], depth: usize, command: &mut Command) {
    if arguments.contains(&Word::Any) {
        command.doubt("`find` with what is not known here");
    }
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match word.literal() {
            Some("-exec" | "-ok") => {}
            Some("-execdir" | "-okdir") => {
                command.outside("`find` with an option that changes directories")
            }
            _ => continue,
        }
        let is = |at: usize, text: &str| rest.get(at).and_then(Word::literal) == Some(text);
        // `+` ends the command only after `{}`.
        let is_end = |at: &usize| is(*at, ";") || (*at > 0 && is(*at, "+") && is(*at - 1, "{}"));
        let Some(n_inner) = (0..rest.len()).find(is_end) else {
            return command.doubt("`find` with a command that does not end");
        };
        let (inner, after) = rest.split_at(n_inner);
        start_nested(fill_words(inner, "{}"), false, depth + 1, command);
        rest = after;
    }
}

fn read_wrapped(
    wrapper: &Wrapper,
    arguments: &[Word],
    is_altered: bool,
    depth: usize,
    command: &mut Command,
) {
    let (name, flags, valued, mut n_own) = *wrapper;
    let mut is_altered = is_altered;
    // Text that `xargs -I` replaces anywhere in a word.
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
        if valued.contains(&text) {
            // The unknown word may expand to several words.
            if after.first().and_then(Word::literal).is_none() {
                return command.doubt(format!("`{name} {text}` with what is not known here"));
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
            command.outside("it sets variables");
            rest = after;
        } else if n_own > 0 {
            // A duration in the syntax that `timeout` of GNU and of busybox share.
            if !text
                .chars()
                .all(|c| c.is_ascii_digit() || "smhd.".contains(c))
            {
                return command.doubt(format!("`{name} {text}`"));
            }
            n_own -= 1;
            rest = after;
        } else {
            break;
        }
    }
    // `exec > file` and `env` without a program start nothing.
    if rest.is_empty() {
        return;
    }
    let mut inner = mark.map_or_else(|| rest.to_vec(), |mark| fill_words(rest, mark));
    if name == "xargs" {
        inner.push(Word::Any);
    }
    start_nested(inner, is_altered, depth + 1, command);
}
