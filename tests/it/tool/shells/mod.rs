//! Tests the parser of commands against real shells: with random lines of difficult pieces, and
//! with mutations of lines that once deceived the parser.
//!
//! The parser may find a line doubtful. For other lines, bash and dash must run no program and
//! write no file that the parser did not see. The package `tests/brush` also compares lines that
//! rules may allow with brush's parser.
//!
//! The lines change each day, so that a CI that runs often tries more and more lines, and runs on
//! the same day agree. `RIND_SHELLS_SECONDS=3600` runs for an hour, with a seed from the clock. The
//! seed is printed, and `RIND_SHELLS_SEED` repeats its lines.

mod lines;
mod run;

use std::time::{Duration, Instant};

use rind::tool::command::{Command, CommandPart, CommandPattern, CommandPatternMatch, ShellWord};
use rind::tool::subject::WorkspacePath;

use lines::Lines;
use run::Shell;

/// Number of lines that are generated in each round. Only those without doubt are run.
const N_LINES: usize = 2_000;

/// Number of rounds of a run without `RIND_SHELLS_SECONDS`, and the time after which such a run
/// begins no further round.
const N_ROUNDS: usize = 4;
const LIMIT: Duration = Duration::from_secs(20);

/// Whether the words of a parsed part match this call.
fn is_it(words: &[ShellWord], call: &[String]) -> bool {
    match (words.split_first(), call.split_first()) {
        (None, None) => true,
        (Some((ShellWord::Any, rest)), _) => {
            (0..=call.len()).any(|n_taken| is_it(rest, &call[n_taken..]))
        }
        (Some((ShellWord::Literal(text), rest)), Some((first, after))) => {
            text == first && is_it(rest, after)
        }
        _ => false,
    }
}

/// Whether the words of a parsed part run this call as a script: `bash NAME` looks for NAME in the
/// current folder and then in `PATH`. Rules see the script as an argument of the shell.
fn is_script(words: &[ShellWord], call: &[String]) -> bool {
    let Some((ShellWord::Literal(shell), rest)) = words.split_first() else {
        return false;
    };
    let is_option = |word: &&ShellWord| matches!(word, ShellWord::Literal(text) if text.starts_with('-') && !text.contains('c'));
    let n_options = rest.iter().take_while(is_option).count();
    ["bash", "dash", "sh"].contains(&&**shell) && is_it(&rest[n_options..], call)
}

/// Normalizes a path without resolving links.
fn place(path: &str) -> WorkspacePath {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        if name != ".." || names.last().is_none_or(|last| *last == "..") {
            names.push(name);
        } else {
            names.pop();
        }
    }
    WorkspacePath::Known(names.join("/"))
}

/// Describes what a shell did with a line and the parser did not see.
fn disagreement(command: &Command, ran: &run::Ran) -> Option<String> {
    let parts = || command.parts.iter();
    let of_file = |part: &&CommandPart| part.is_redirection();
    let unread = ran.calls.iter().find(|call| {
        let mut programs = parts().filter(|part| !part.is_redirection());
        !programs.any(|part| is_it(part.words(), call) || is_script(part.words(), call))
    });
    let undenied = ran.calls.iter().find(|call| {
        let deny = CommandPattern::new(&format!("{} *", call[0])).unwrap();
        !parts().any(|part| deny.match_part_by_program_name(part) != CommandPatternMatch::No)
    });
    let unwritten = ran.files.iter().find(|file| {
        let file = std::slice::from_ref(*file);
        !parts()
            .filter(of_file)
            .any(|part| is_it(part.words(), file))
    });
    let calls = unread.map(|call| format!("ran {call:?}"));
    let calls = calls.or_else(|| undenied.map(|call| format!("a rule denies {call:?} in vain")));
    calls.or_else(|| unwritten.map(|file| format!("wrote {file:?}")))
}

/// Returns the default seed: the day, or for a long run the time in nanoseconds.
fn seed_at(since_1970: Duration, is_long: bool) -> u64 {
    match is_long {
        true => u64::try_from(since_1970.as_nanos()).unwrap(),
        false => since_1970.as_secs() / (24 * 60 * 60),
    }
}

#[test]
fn each_day_has_lines_of_its_own_and_a_seed_has_the_same_ones() {
    let lines = |seconds: u64| {
        let mut lines = Lines::new(seed_at(Duration::from_secs(seconds), false));
        let lines = std::iter::repeat_with(|| lines.next());
        lines.take(200).collect::<Vec<_>>()
    };
    const NOON: u64 = 20_000 * 86_400 + 43_200;
    assert_eq!(lines(NOON), lines(NOON + 3_600));
    let days: Vec<_> = (0..30).map(|day| lines(NOON + day * 86_400)).collect();
    for (at, day) in days.iter().enumerate() {
        assert!(!days[..at].contains(day), "day {at}");
    }
}

#[test]
fn shells_do_what_was_read_of_a_command_and_nothing_else() {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().unwrap());
    let limit = number("RIND_SHELLS_SECONDS").map(Duration::from_secs);
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = number("RIND_SHELLS_SEED").unwrap_or_else(|| seed_at(clock, limit.is_some()));
    let begin = Instant::now();
    let mut lines = Lines::new(seed);
    let (mut n_lines, mut n_plain, mut n_sure, mut n_calls) = (0, 0, 0, 0);
    let shells: Vec<Shell> = ["bash", "dash"]
        .into_iter()
        .filter_map(Shell::find)
        .collect();
    assert!(!shells.is_empty(), "there is no shell");
    for round in 0.. {
        let is_last = limit.is_none() && round >= N_ROUNDS;
        if is_last || (round > 0 && begin.elapsed() > limit.unwrap_or(LIMIT)) {
            break;
        }
        let texts = std::iter::repeat_with(|| lines.next()).take(N_LINES);
        n_lines += N_LINES;
        let read = texts.map(|text| (Command::parse(&text).resolve_redirections(place), text));
        let sure: Vec<(Command, String)> = read.filter(|(read, _)| read.doubt.is_none()).collect();
        let plain = sure
            .iter()
            .filter(|(read, _)| read.reason_to_ask_user().is_none());
        n_plain += plain.count();
        n_sure += sure.len();
        for shell in &shells {
            let texts: Vec<&str> = sure.iter().map(|(_, text)| text.as_str()).collect();
            let ran = shell.run(&texts);
            for ((command, text), ran) in sure.iter().zip(&ran) {
                n_calls += ran.calls.len();
                if let Some(why) = disagreement(command, ran) {
                    panic!(
                        "{}: {text:?} {why}: {:?}\nRIND_SHELLS_SEED={seed} tries these lines again",
                        shell.name, command.parts
                    );
                }
            }
        }
    }
    let told = format!(
        "{n_lines} lines from seed {seed} in {:?}: {n_sure} without a doubt, {n_plain} that rules may allow; {n_calls} calls",
        begin.elapsed()
    );
    println!("{told}");
    // Checks that enough lines were run for the test to mean something.
    assert!(
        n_plain > n_lines / 20 && n_sure > n_plain && n_calls > n_plain,
        "{told}"
    );
}

#[test]
fn a_part_as_it_is_shown_is_a_pattern_of_itself() {
    let mut lines = Lines::new(2);
    let mut n_parts = 0;
    for _ in 0..20_000 {
        let text = lines.next();
        let command = Command::parse(&text);
        let is_plain = command.reason_to_ask_user().is_none();
        let parts = command.parts.iter().filter(|_| is_plain);
        for part in parts.filter(|part| !part.words().contains(&ShellWord::Any)) {
            n_parts += 1;
            let shown = part.text();
            let matched = match CommandPattern::new(&shown) {
                Ok(pattern) => [
                    pattern.match_part_exactly(part),
                    pattern.match_part_by_program_name(part),
                ],
                // A text of several lines is not a valid pattern.
                Err(_) if shown.contains('\n') => continue,
                Err(why) => panic!("{text:?}: {why}"),
            };
            assert_eq!(matched, [CommandPatternMatch::Yes; 2], "{text:?}: {shown}");
        }
    }
    assert!(n_parts > 5_000, "{n_parts}");
}

#[test]
fn the_shells_here_run_stubs_and_tell_what_they_wrote() {
    for shell in ["bash", "dash"].into_iter().filter_map(Shell::find) {
        let ran = shell.run(&["zqa 1 '2 3' > f && nice zqb", "zqa; true > ../g", "echo a"]);
        assert_eq!(ran[0].calls, [vec!["zqa", "1", "2 3"], vec!["zqb"]]);
        assert_eq!(ran[0].files, ["f"]);
        assert_eq!(
            (ran[1].calls.len(), &*ran[1].files),
            (1, &["../g".to_owned()][..])
        );
        assert!(ran[2].calls.is_empty() && ran[2].files.is_empty());
    }
}
