//! Cost of installed skills: startup time of the program `rind` with 500 skills and without any, in
//! alternating runs. Run with `cargo bench -p rind-benches --bench skills`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints"
)]

use std::io::{BufRead, BufReader};
use std::time::Instant;

use rind_tests::cli::Rind;
use serde_json::Value;

/// Number of pairs; each pair is one start with the skills and one without.
const PAIRS: usize = 40;

/// Number of skills in the user's folder.
const SKILLS: usize = 500;

/// Returns a skill of 7 KB, the median length of published skills.
fn skill(n: usize) -> String {
    let front = format!(
        "---\nname: skill-{n}\ndescription: Does the {n}th thing with care. Use it when the user asks for thing {n}, or names \
         files of it; it knows the traps and the order of the steps, and what to check at the end.\nlicense: MIT\n\
         allowed-tools: Read, Grep, Bash(git log *)\nmetadata:\n  author: somebody\n  version: \"1.{n}\"\n---\n"
    );
    front + &"Say what is to be done, do it, and check what was done.\n".repeat(125)
}

/// Returns the milliseconds from the start of the program to its first model request.
fn start(rind: &Rind) -> f64 {
    let mut command = rind.command(&["run", "--no-plugins", "--json", "Go on."]);
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut first = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let now = Instant::now();
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["type"] == "request-start" {
            first.get_or_insert((now - started).as_secs_f64() * 1000.0);
        }
    }
    assert!(child.wait().unwrap().success());
    first.unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let script = "[[reply]]\ntext = \"Done.\"\n";
    let (with, without) = (Rind::with_script(script), Rind::with_script(script));
    for n in 0..SKILLS {
        with.user_file(&format!("config/skills/skill-{n}/SKILL.md"), &skill(n));
        with.user_file(
            &format!("config/skills/skill-{n}/references/a.md"),
            "More.\n",
        );
    }
    start(&with);
    let (mut many, mut none) = (Vec::new(), Vec::new());
    for n in 0..PAIRS {
        // The second start of a pair finds warmer caches, so the order alternates.
        for is_many in [n % 2 == 0, n % 2 != 0] {
            match is_many {
                true => many.push(start(&with)),
                false => none.push(start(&without)),
            }
        }
    }
    let (many, none) = (median(many), median(none));
    println!("{PAIRS} pairs of starts to the first request, medians");
    println!(
        "no skills {none:.2} ms, {SKILLS} skills {many:.2} ms, {:.2} ms more",
        many - none
    );
}
