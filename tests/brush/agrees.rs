//! Compares the host's reader of shell commands with the parser of the shell brush: both must find
//! the same words and files in every line that permission rules may allow.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod brush;
#[path = "../it/tool/shells/lines.rs"]
mod lines;

use rind_brush::tool::command::Command;

/// Number of generated lines. Only lines that permission rules may allow are compared.
const N_LINES: usize = 60_000;

#[test]
fn a_parser_that_is_kept_elsewhere_reads_alike_what_rules_may_allow() {
    // The default seed changes every day. `RIND_SHELLS_SEED` repeats the run of a seed that a
    // failure printed.
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let day = || clock.as_secs() / (24 * 60 * 60);
    let seed =
        std::env::var("RIND_SHELLS_SEED").map_or_else(|_| day(), |seed| seed.parse().unwrap());
    let mut lines = lines::Lines::new(seed);
    let mut n_plain = 0;
    for _ in 0..N_LINES {
        let text = lines.next();
        let command = Command::parse(&text);
        // The check of characters comes last and must not be the only one that rejects a line: the
        // reader must reject these characters by itself.
        let by_alphabet = Some("a character that not every shell takes alike");
        assert_ne!(
            command.reason_to_ask_user(),
            by_alphabet,
            "seed {seed}, {text:?}"
        );
        if command.reason_to_ask_user().is_none() {
            n_plain += 1;
            let why = brush::disagreement(&command, &text);
            assert_eq!(why, None, "seed {seed}, {text:?}: {:?}", command.parts);
        }
    }
    println!("{n_plain} of {N_LINES} lines from seed {seed}");
    // Fails if too few lines were compared.
    assert!(n_plain > N_LINES / 20, "{n_plain}");
}
