//! Splits a shell line into the simple commands that it runs. This is not a complete shell parser,
//! but distinguishes `cargo test` from `echo cargo test`.

/// Programs that run the command in their arguments. Their options are skipped, and so are
/// arguments that begin with a digit, such as `60` of `timeout 60`. Other values that follow an
/// option as a separate word are not supported.
const COMMAND_WRAPPER_PROGRAMS: &[&str] = &[
    "command", "env", "exec", "nice", "nohup", "stdbuf", "sudo", "time", "timeout", "xvfb-run",
];

/// Shell keywords that are followed by a command.
const SHELL_KEYWORDS_BEFORE_COMMAND: &[&str] =
    &["!", "(", "do", "else", "if", "then", "until", "while", "{"];

/// Maximum nesting depth of `bash -c` commands that are parsed.
const MAX_NESTED_BASH_COMMAND_DEPTH: usize = 4;

/// Simple command in a shell command line.
#[derive(Debug)]
pub(crate) struct ShellLineCommand {
    /// Words without quotes, wrappers and assignments. The first is the base name of the program.
    pub(crate) words: Vec<String>,
    /// Whether the complete shell line exits with an error whenever this command does.
    pub(crate) decides: bool,
}

/// Shell operator that follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandOperator {
    /// `&&`, or the parenthesis or backtick that begins or ends a group of commands.
    And,
    /// `||`.
    Or,
    /// `|`.
    Pipe,
    /// `;` or a line break.
    Then,
    /// `&`.
    Background,
}

/// Command of a shell line, whose words still include wrappers and assignments.
#[derive(Debug, Default)]
struct RawShellCommand {
    words: Vec<String>,
    /// Shell operator that follows the command; `None` at the end of the line.
    after: Option<CommandOperator>,
}

/// Returns the simple commands of a line.
///
/// For example:
///
/// ```text
/// cd app && sudo timeout 60 cargo test -q | tee log
///     ->  cd app; cargo test -q; tee log
/// bash -lc 'cargo test'
///     ->  cargo test
/// echo cargo test
///     ->  echo cargo test
/// ```
pub(crate) fn parse_line_commands(line: &str) -> Vec<ShellLineCommand> {
    let mut found = Vec::new();
    collect_shell_line_commands(line, 0, true, &mut found);
    found
}

/// Whether the complete line fails whenever the command at the index `at` fails. False if this
/// cannot be determined.
fn is_command_failure_propagated(parts: &[RawShellCommand], at: usize) -> bool {
    const EXIT_CODE_HIDING_KEYWORDS: [&str; 5] = ["!", "elif", "if", "until", "while"];
    let Some(part) = parts.get(at) else {
        return false;
    };
    let is_set = |letter: char, name: &str| {
        let before = parts.iter().take(at).map(|part| &part.words);
        let mut sets = before.filter(|words| words.first().is_some_and(|first| first == "set"));
        sets.any(|words| {
            let is_short = |word: &String| word.starts_with('-') && word.contains(letter);
            words.iter().any(|word| word == name || is_short(word))
        })
    };
    let (stops, is_whole_pipe) = (is_set('e', "errexit"), is_set('\0', "pipefail"));
    if part
        .words
        .first()
        .is_some_and(|first| EXIT_CODE_HIDING_KEYWORDS.contains(&first.as_str()))
    {
        return false;
    }
    let words_of = |at: usize| parts.get(at).map_or(&[][..], |part| part.words.as_slice());
    for (n, part) in parts.iter().enumerate().skip(at) {
        let goes_on = match part.after {
            None => return true,
            Some(CommandOperator::And) => true,
            Some(CommandOperator::Pipe) => is_whole_pipe,
            // `make || exit 1` fails if `make` does.
            Some(CommandOperator::Or) => match words_of(n + 1) {
                [first, ..] if first == "false" => return true,
                [first, code, ..] if first == "exit" => return code != "0",
                _ => false,
            },
            Some(CommandOperator::Then) => {
                let is_last = parts.iter().skip(n + 1).all(|part| part.words.is_empty());
                return is_last || stops;
            }
            Some(CommandOperator::Background) => false,
        };
        if !goes_on {
            return false;
        }
    }
    true
}

fn collect_shell_line_commands(
    line: &str,
    depth: usize,
    is_decisive: bool,
    found: &mut Vec<ShellLineCommand>,
) {
    let parts = split_into_commands(line);
    for at in 0..parts.len() {
        let decides = is_decisive && is_command_failure_propagated(&parts, at);
        let words = strip_command_wrappers(
            parts
                .get(at)
                .map(|part| part.words.clone())
                .unwrap_or_default(),
        );
        let is_shell = words
            .first()
            .is_some_and(|first| ["bash", "sh", "zsh", "dash"].contains(&first.as_str()));
        let takes_line =
            |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
        match words
            .iter()
            .position(takes_line)
            .and_then(|at| words.get(at + 1))
        {
            Some(inner) if is_shell && depth < MAX_NESTED_BASH_COMMAND_DEPTH => {
                collect_shell_line_commands(inner, depth + 1, decides, found);
            }
            _ if is_shell && words.len() > 1 => {
                // Treat the script like any other program, without parsing it.
                let script = words
                    .into_iter()
                    .skip(1)
                    .skip_while(|word| word.starts_with('-'));
                let words = strip_command_wrappers(script.collect());
                found.push(ShellLineCommand { words, decides });
            }
            _ => found.push(ShellLineCommand { words, decides }),
        }
    }
    found.retain(|command| !command.words.is_empty());
}

/// Returns a command without the wrappers, keywords and assignments before its program, and with
/// the program's base name.
fn strip_command_wrappers(words: Vec<String>) -> Vec<String> {
    let mut words = words.into_iter().peekable();
    let mut is_wrapped = false;
    while let Some(word) = words.peek() {
        let program = program_base_name(word);
        let is_wrapper = COMMAND_WRAPPER_PROGRAMS.contains(&program);
        // Skip the wrapper's own arguments, such as `60` of `timeout 60` and `-n 5` of `nice -n 5`.
        let is_of_wrapper = is_wrapped
            && (word.starts_with('-') || word.starts_with(|first: char| first.is_ascii_digit()));
        if !(is_wrapper
            || is_of_wrapper
            || SHELL_KEYWORDS_BEFORE_COMMAND.contains(&word.as_str())
            || is_variable_assignment(word))
        {
            break;
        }
        is_wrapped |= is_wrapper;
        words.next();
    }
    let mut words: Vec<String> = words.collect();
    if let Some(first) = words.first_mut() {
        *first = program_base_name(first).to_owned();
    }
    words
}

fn program_base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_variable_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Splits a line into commands, and each command into words. Skips comments and heredocs.
fn split_into_commands(line: &str) -> Vec<RawShellCommand> {
    let mut all = vec![RawShellCommand::default()];
    let mut word: Option<String> = None;
    let mut heredocs: Vec<String> = Vec::new();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                while let Some(inner) = characters.next() {
                    match inner {
                        _ if inner == character => break,
                        '\\' if character == '"' => word.extend(characters.next()),
                        _ => word.push(inner),
                    }
                }
            }
            '\\' => {
                // A backslash before a line break joins the lines.
                let next = characters.next().filter(|next| *next != '\n');
                if let Some(next) = next {
                    word.get_or_insert_default().push(next);
                }
            }
            '#' if word.is_none() => while characters.next_if(|next| *next != '\n').is_some() {},
            '<' if characters.peek() == Some(&'<') => {
                push_finished_word(&mut word, &mut all);
                characters.next();
                let is_here_string = characters.next_if_eq(&'<').is_some();
                characters.next_if_eq(&'-');
                while characters.next_if(|next| *next == ' ').is_some() {}
                let mut name = String::new();
                while let Some(next) =
                    characters.next_if(|next| !next.is_whitespace() && !";|&)>".contains(*next))
                {
                    name.push(next);
                }
                if !is_here_string {
                    heredocs.push(name.replace(['\'', '"', '\\'], ""));
                }
            }
            '>' | '<' => {
                // The next word belongs to the redirection, as in `2>&1` and `&>file`.
                push_finished_word(&mut word, &mut all);
                while characters.next_if(|next| "&>|".contains(*next)).is_some() {}
                word = Some(">".to_owned());
            }
            '&' if characters.peek() == Some(&'>') => push_finished_word(&mut word, &mut all),
            ';' | '|' | '&' | '(' | ')' | '`' | '\n' => {
                push_finished_word(&mut word, &mut all);
                let is_double =
                    "&|".contains(character) && characters.next_if_eq(&character).is_some();
                // `|&` is a pipe too.
                if character == '|' && !is_double {
                    characters.next_if_eq(&'&');
                }
                if let Some(last) = all.last_mut() {
                    last.after = Some(match character {
                        '|' if is_double => CommandOperator::Or,
                        '|' => CommandOperator::Pipe,
                        '&' if !is_double => CommandOperator::Background,
                        ';' | '\n' => CommandOperator::Then,
                        _ => CommandOperator::And,
                    });
                }
                all.push(RawShellCommand::default());
                if character == '\n' {
                    for name in heredocs.drain(..) {
                        skip_heredoc(&mut characters, &name);
                    }
                }
            }
            _ if character.is_whitespace() => push_finished_word(&mut word, &mut all),
            _ => word.get_or_insert_default().push(character),
        }
    }
    push_finished_word(&mut word, &mut all);
    all
}

fn push_finished_word(word: &mut Option<String>, all: &mut [RawShellCommand]) {
    if let (Some(word), Some(last)) = (word.take(), all.last_mut()) {
        last.words.push(word);
    }
}

/// Skips the text of a heredoc and the line that ends it.
fn skip_heredoc(characters: &mut std::iter::Peekable<std::str::Chars<'_>>, name: &str) {
    while characters.peek().is_some() {
        let line: String = characters
            .by_ref()
            .take_while(|next| *next != '\n')
            .collect();
        if line.trim() == name {
            return;
        }
    }
}
