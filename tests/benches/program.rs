//! Startup time, time per round and memory of the program `rind`: runs of the same turn with the
//! ten core plugins and with `--no-plugins` alternate. The first run is measured on a machine where
//! the program has never run. Run with `cargo bench -p rind-benches --bench program`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints"
)]

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use jiff::Timestamp;
use rind_tests::cli::Rind;
use rind_tests::guests::CORE;
use serde_json::Value;

/// Number of pairs; each pair is one run with the plugins and one without.
const PAIRS: usize = 20;

/// Model requests of a turn. Every answer but the last one reads a file.
const ROUNDS: usize = 20;

/// Measurements of one run of the program.
struct Measured {
    /// Milliseconds from the start of the program to its first model request.
    start: f64,
    /// Median of the milliseconds between two model requests.
    round: f64,
    /// Peak memory (resident set size) in MB.
    peak: f64,
}

/// Returns a script that reads a file of 3.6 kB in every round. The last answer is delayed, so that
/// peak memory can be read while the process is still running.
fn script() -> String {
    let mut script = String::new();
    for n in 1..ROUNDS {
        writeln!(script, "[[reply]]\ntext = \"I read {n}.\"").unwrap();
        writeln!(script, "[[reply.tool_calls]]\nname = \"read_file\"").unwrap();
        writeln!(script, "arguments = {{ path = \"{n}.txt\" }}").unwrap();
    }
    script + "[[reply]]\ntext = \"It was read.\"\ndelay_ms = 200\n"
}

fn measure(rind: &Rind, args: &[&str]) -> Measured {
    let args = [&["run", "--yes", "--json"], args, &["Read the files."]].concat();
    let mut command = rind.command(&args);
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut requests = Vec::new();
    let mut peak = 0.0;
    let mut start = 0.0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let now = Instant::now();
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["type"] == "request-start" {
            if requests.is_empty() {
                start = millis(started, now);
            }
            // Uses the event's own timestamp, because several events may arrive together.
            let at: Timestamp = event["at"].as_str().unwrap().parse().unwrap();
            requests.push(at);
            if requests.len() == ROUNDS {
                peak = peak_of(child.id());
            }
        }
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(requests.len(), ROUNDS);
    let rounds = requests
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).as_secs_f64() * 1000.0);
    Measured {
        start,
        round: median(rounds),
        peak,
    }
}

fn millis(from: Instant, to: Instant) -> f64 {
    (to - from).as_secs_f64() * 1000.0
}

/// Returns the peak memory of a process so far, in MB.
fn peak_of(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<f64>().unwrap() * 1024.0 / 1e6
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes the script and the files that the script reads.
fn prepare(rind: &Rind) {
    rind.script(&script());
    for n in 1..ROUNDS {
        rind.file(&format!("{n}.txt"), &"A line of a file.\n".repeat(200));
    }
}

/// Measures the first run on a machine without `RIND_HOME`, with the embedded plugins.
fn measure_first(args: &[&str]) -> Measured {
    let rind = Rind::bare();
    prepare(&rind);
    std::fs::remove_file(rind.home().join("cache")).unwrap();
    measure(&rind, args)
}

fn main() {
    let rind = Rind::default();
    prepare(&rind);
    for name in CORE {
        rind.managed(name);
    }
    // The first run fills the compile cache.
    measure(&rind, &[]);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for n in 0..PAIRS {
        // The second run of a pair finds warmer caches, so the order alternates.
        if n % 2 == 0 {
            with.push(measure(&rind, &[]));
            without.push(measure(&rind, &["--no-plugins"]));
        } else {
            without.push(measure(&rind, &["--no-plugins"]));
            with.push(measure(&rind, &[]));
        }
    }
    let first_with: Vec<Measured> = (0..PAIRS).map(|_| measure_first(&[])).collect();
    let first_without: Vec<Measured> = (0..PAIRS)
        .map(|_| measure_first(&["--no-plugins"]))
        .collect();
    println!("{PAIRS} pairs of turns of {ROUNDS} rounds, medians");
    let (none, ten) = ("no plugins", "ten plugins");
    println!("{:<16} {none:>12} {ten:>12} {:>7}", "", "ratio");
    let row = |name, without: &[Measured], with: &[Measured], of: fn(&Measured) -> f64| {
        let none = median(without.iter().map(of));
        let ten = median(with.iter().map(of));
        println!("{name:<16} {none:>12.2} {ten:>12.2} {:>7.2}", ten / none);
    };
    row("first start, ms", &first_without, &first_with, |run| {
        run.start
    });
    row("start, ms", &without, &with, |run| run.start);
    row("round, ms", &without, &with, |run| run.round);
    row("peak memory, MB", &without, &with, |run| run.peak);
}
