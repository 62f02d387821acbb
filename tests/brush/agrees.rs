//! Agreement of two readers: of every line that rules may allow, the parser of brush must see the same words and files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod brush;
#[path = "../it/tool/shells/lines.rs"]
mod lines;

use rind_brush::tool::command::Command;

/// Lines that are made, of which those are compared that rules may allow.
const N_LINES: usize = 60_000;

#[test]
fn a_parser_that_is_kept_elsewhere_reads_alike_what_rules_may_allow() {
    // Each day has other lines. The same ones are tried again with the seed that a failure names.
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let day = || clock.as_secs() / (24 * 60 * 60);
    let seed =
        std::env::var("RIND_SHELLS_SEED").map_or_else(|_| day(), |seed| seed.parse().unwrap());
    let mut lines = lines::Lines::new(seed);
    let mut n_plain = 0;
    for _ in 0..N_LINES {
        let text = lines.next();
        let command = Command::read(&text);
        // The check of characters and the reader are of one mind.
        let by_alphabet = Some("a character that not every shell takes alike");
        assert_ne!(command.why_asked(), by_alphabet, "seed {seed}, {text:?}");
        if command.why_asked().is_none() {
            n_plain += 1;
            let why = brush::disagreement(&command, &text);
            assert_eq!(why, None, "seed {seed}, {text:?}: {:?}", command.parts);
        }
    }
    println!("{n_plain} of {N_LINES} lines from seed {seed}");
    // Otherwise nothing was tried.
    assert!(n_plain > N_LINES / 20, "{n_plain}");
}
