//! Parses programs that start other programs given in their arguments, such as `env`, `xargs` and
//! `sh -c`: the started programs become parts of the command too.
//!
//! Only exact forms are parsed: known options, no `--`, the inner command as separate words.
//! Anything else is marked as doubtful. Start from [`add_parsed_command_part`].

use super::starters::{base_name, is_launcher_with_unparsed_arguments};
use super::{Command, CommandPart, ShellWord, carried, read};

/// Maximum nesting depth of commands.
pub(super) const MAX_COMMAND_NESTING_DEPTH: usize = 12;

/// Names of shells. The argument of `-c` is a command, another argument is the path of a script;
/// without arguments, a shell reads commands from standard input.
pub(super) const SHELL_PROGRAM_NAMES: &[&str] =
    &["ash", "bash", "dash", "ksh", "mksh", "sh", "yash", "zsh"];

/// Builtins that can change the meaning of later words, or that run code that this parser cannot
/// see.
const UNPARSABLE_SHELL_BUILTINS: &[&str] = &[
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
const ARITHMETIC_EVALUATING_BUILTINS: &[&str] = &[
    "[", "break", "continue", "exit", "kill", "printf", "return", "shift", "test", "ulimit", "wait",
];

/// A program that runs another command: its name, its options without a value, its options with a
/// value (in the next word or the same word), and the number of arguments before the inner program.
type CommandWrapperProgram = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    usize,
);

pub(super) const COMMAND_WRAPPER_PROGRAMS: &[CommandWrapperProgram] = &[
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

/// Adds to `command` a parsed part, and the programs that the program of this part starts.
pub(super) fn add_parsed_command_part(part: CommandPart, depth: usize, command: &mut Command) {
    let CommandPart {
        words,
        is_altered,
        others,
        ..
    } = part;
    let n_before = command.parts.len();
    add_nested_command_part(words, is_altered, depth, command);
    // The part itself is the last one: the programs that it starts were added before it.
    if let Some(part) = command.parts[n_before..].last_mut() {
        part.others = others;
    }
}

/// Adds to `command` the part with these words, and the programs that the part's program starts.
fn add_nested_command_part(
    words: Vec<ShellWord>,
    is_altered: bool,
    depth: usize,
    command: &mut Command,
) {
    if depth > MAX_COMMAND_NESTING_DEPTH {
        return command.set_doubt_reason("commands that are nested too deeply");
    }
    match words.split_first() {
        None => return,
        Some((ShellWord::Any, _)) => {
            command.set_doubt_reason("the name of a program in it is not known before it runs");
        }
        Some((ShellWord::Literal(program), arguments)) => {
            add_started_programs(program, arguments, is_altered, depth, command);
        }
    }
    command.parts.push(CommandPart {
        is_altered,
        ..CommandPart::from_program_words(words)
    });
}

/// Adds the programs that `program` starts, without `program` itself.
fn add_started_programs(
    program: &str,
    arguments: &[ShellWord],
    is_altered: bool,
    depth: usize,
    command: &mut Command,
) {
    let name = base_name(program);
    if program.contains('=') || read::SHELL_RESERVED_WORDS.contains(&program) {
        command.set_outside_grammar(format!("a program with the name `{program}`"));
    }
    // Check these builtins also when another program starts them: `command` and `builtin` may run
    // them.
    if UNPARSABLE_SHELL_BUILTINS.contains(&program) {
        command.set_doubt_reason(format!("`{program}` may change what the later commands do"));
    }
    let evaluates = |word: &ShellWord| word.literal().is_none_or(|text| text.contains(['$', '`']));
    if ARITHMETIC_EVALUATING_BUILTINS.contains(&program) && arguments.iter().any(evaluates) {
        command.set_outside_grammar(format!("`{program}` may evaluate its arguments as code"));
    }
    carried::flag_dangerous_program_arguments(name, arguments, command);
    if SHELL_PROGRAM_NAMES.contains(&name) {
        parse_shell_call(name, arguments, depth, command);
    } else if is_launcher_with_unparsed_arguments(name) {
        command.set_doubt_reason(format!("`{name}` starts other programs"));
    } else if name == "eval" {
        parse_eval_call(arguments, depth, command);
    } else if name == "find" {
        parse_find_exec_actions(arguments, depth, command);
    } else if name == "printf" && can_set_printf_variable(arguments.first()) {
        command.set_doubt_reason("`printf -v` may change what the later commands do");
    } else if let Some(wrapper) = COMMAND_WRAPPER_PROGRAMS
        .iter()
        .find(|(wrapper, ..)| *wrapper == name)
    {
        parse_command_wrapper_call(wrapper, arguments, is_altered, depth, command);
    }
}

/// Whether a word is `-v` with or without a value, or may expand to it.
fn can_set_printf_variable(word: Option<&ShellWord>) -> bool {
    word.is_some_and(|word| word.literal().is_none_or(|text| text.starts_with("-v")))
}

/// Returns the words of a command in which a program such as `xargs -I` replaces `mark`: each word
/// that contains `mark` becomes an unknown word.
fn make_placeholder_words_unknown(words: &[ShellWord], mark: &str) -> Vec<ShellWord> {
    let fill = |word: &ShellWord| match word {
        ShellWord::Literal(text) if !text.contains(mark) => word.clone(),
        ShellWord::Literal(_) | ShellWord::Any => ShellWord::Any,
    };
    words.iter().map(fill).collect()
}

/// Parses `sh -c 'text'` and `sh script`.
fn parse_shell_call(name: &str, arguments: &[ShellWord], depth: usize, command: &mut Command) {
    let mut rest = arguments.iter();
    loop {
        match rest.next().and_then(ShellWord::literal) {
            None => {
                return command.set_doubt_reason(format!(
                    "`{name}` runs its standard input, or a program whose name only the shell can work out"
                ));
            }
            Some(option) if option.starts_with(['-', '+']) => {
                let letters = option.strip_prefix('-').unwrap_or_default();
                if letters.is_empty() || !letters.chars().all(|c| "celux".contains(c)) {
                    return command.set_doubt_reason(format!("`{name} {option}`"));
                }
                if letters.contains('c') {
                    // Accept one word after `-c` only: shells differ in where they accept options,
                    // and later words become positional parameters.
                    return match (rest.next().and_then(ShellWord::literal), rest.next()) {
                        (Some(text), None) if !text.starts_with(['-', '+']) => {
                            read::parse_command(text, depth + 1, command)
                        }
                        _ => command.set_doubt_reason(format!(
                            "`{name} -c` with arguments after the command"
                        )),
                    };
                }
            }
            // Do not parse the script file that the shell runs: its name is among the words of this
            // part, which the rules check.
            Some(_) => return,
        }
    }
}

fn parse_eval_call(arguments: &[ShellWord], depth: usize, command: &mut Command) {
    let texts: Option<Vec<&str>> = arguments.iter().map(ShellWord::literal).collect();
    match texts {
        Some(texts) if texts.first().is_some_and(|text| !text.starts_with('-')) => {
            read::parse_command(&texts.join(" "), depth + 1, command);
        }
        _ => command.set_doubt_reason("`eval` runs a text that only the shell can work out"),
    }
}

/// Parses `-exec` and similar actions of `find`.
fn parse_find_exec_actions(arguments: &[ShellWord], depth: usize, command: &mut Command) {
    if arguments.contains(&ShellWord::Any) {
        command.set_doubt_reason("`find` has an argument that only the shell can work out");
    }
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match word.literal() {
            Some("-exec" | "-ok") => {}
            Some("-execdir" | "-okdir") => {
                command.set_outside_grammar("`find` with an option that changes directories")
            }
            _ => continue,
        }
        let is = |at: usize, text: &str| rest.get(at).and_then(ShellWord::literal) == Some(text);
        // `;` ends the command that `find` runs; `+` ends it only after `{}`.
        let is_end = |at: &usize| is(*at, ";") || (*at > 0 && is(*at, "+") && is(*at - 1, "{}"));
        let Some(n_inner) = (0..rest.len()).find(is_end) else {
            return command.set_doubt_reason("`find` with a command that does not end");
        };
        let (inner, after) = rest.split_at(n_inner);
        add_nested_command_part(
            make_placeholder_words_unknown(inner, "{}"),
            false,
            depth + 1,
            command,
        );
        rest = after;
    }
}

fn parse_command_wrapper_call(
    wrapper: &CommandWrapperProgram,
    arguments: &[ShellWord],
    is_altered: bool,
    depth: usize,
    command: &mut Command,
) {
    let (name, flags, valued, mut n_own) = *wrapper;
    let mut is_altered = is_altered;
    // Placeholder that `xargs -I` names, and that xargs replaces wherever it occurs in a word.
    let mut mark = None;
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        let Some(text) = word.literal() else {
            return command.set_doubt_reason(format!(
                "`{name}` starts a program whose name only the shell can work out"
            ));
        };
        if name == "xargs" && text.starts_with("-I") {
            let own = text.strip_prefix("-I").filter(|own| !own.is_empty());
            mark = own.or_else(|| after.first().and_then(ShellWord::literal));
        }
        if valued.contains(&text) {
            // The unknown word may expand to several words.
            if after.first().and_then(ShellWord::literal).is_none() {
                return command.set_doubt_reason(format!(
                    "`{name} {text}` has a value that only the shell can work out"
                ));
            }
            rest = after.get(1..).unwrap_or_default();
        } else if flags.contains(&text)
            || (!text.starts_with("--") && valued.iter().any(|o| text.starts_with(o)))
        {
            rest = after;
        } else if text.starts_with('-') {
            return command.set_doubt_reason(format!("`{name} {text}`"));
        } else if name == "env" && text.contains('=') {
            is_altered = true;
            command.set_outside_grammar("it sets variables");
            rest = after;
        } else if n_own > 0 {
            // Accept only durations in the syntax that the `timeout` of GNU and the one of busybox
            // share.
            if !text
                .chars()
                .all(|c| c.is_ascii_digit() || "smhd.".contains(c))
            {
                return command.set_doubt_reason(format!("`{name} {text}`"));
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
    let mut inner = mark.map_or_else(
        || rest.to_vec(),
        |mark| make_placeholder_words_unknown(rest, mark),
    );
    if name == "xargs" {
        inner.push(ShellWord::Any);
    }
    add_nested_command_part(inner, is_altered, depth + 1, command);
}
