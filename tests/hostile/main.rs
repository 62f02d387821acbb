//! Attacks of plugins on their host: one hostile program for each known attack. All run in one
//! process, next to a plugin that behaves well. `cargo test --test hostile` prints the table. The
//! test fails if an attack is not refused with the expected text, if the other plugin does not
//! answer afterwards, or if memory is not released.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and the table is what it is for"
)]

mod access;
mod attack;
mod engine;
mod features;
mod grants;
mod handles;
mod network;
mod programs;
mod shape;
mod words;

use std::process::ExitCode;
use std::time::Instant;

use rind_tests::cli::PATIENCE;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;

use attack::Attack;

/// Maximum growth of the process's memory over all attacks, in bytes. Allocators and caches keep
/// less; a leaked guest has 64 MiB, a leaked store more.
const MEMORY_LEFT: u64 = 60 << 20;

fn main() -> ExitCode {
    // Arguments that `cargo test` passes on: a filter, or flags of the test harness, which are
    // ignored except `--list`.
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let is_list = std::env::args().any(|arg| arg == "--list");
    let attacks: Vec<Attack> = [
        engine::attacks(),
        shape::attacks(),
        features::attacks(),
        words::attacks(),
        grants::attacks(),
        handles::attacks(),
        access::attacks(),
        network::attacks(),
    ]
    .into_iter()
    .flatten()
    .filter(|attack| {
        filter
            .as_ref()
            .is_none_or(|f| attack.what.contains(f.as_str()))
    })
    .collect();
    if is_list {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let failed = runtime.block_on(run(&attacks));
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        println!(
            "\n{failed} of {} attacks were not refused as they should be",
            attacks.len()
        );
        ExitCode::FAILURE
    }
}

async fn run(attacks: &[Attack]) -> usize {
    let mut host = Host::default();
    host.guest("hello");
    let plugins = host.load().await;
    let neighbour = Session::open(&plugins);
    programs::built();
    answers(&neighbour).await;
    // Runs the first attack once before measuring, so that memory for one-time initialization is
    // not counted.
    if let Some(first) = attacks.first() {
        first.carry_out().await;
    }
    let before = memory();
    println!("\n{:<67} {:>7}  met", "attack", "ms");
    let mut failed = 0;
    for attack in attacks {
        let started = Instant::now();
        // The limit is generous, because some refusals take seconds and far longer on a busy
        // machine.
        let limit = tokio::time::timeout(PATIENCE, attack.carry_out());
        let met = limit
            .await
            .unwrap_or_else(|_| "PWNED: it was not stopped in time".to_owned());
        let took = started.elapsed();
        let is_met = met.contains(attack.meets) && !met.contains("PWNED");
        let neighbour_answers = answers(&neighbour).await;
        let mark = if is_met && neighbour_answers {
            ""
        } else {
            "FAILED "
        };
        println!(
            "{:<67} {:>7}  {mark}{}",
            attack.what,
            took.as_millis(),
            one_line(&met, attack.meets)
        );
        if !is_met {
            println!("      expected: {}\n      met: {met}", attack.meets);
        }
        if !neighbour_answers {
            println!("      the plugin beside it does not answer any more");
        }
        failed += usize::from(!mark.is_empty());
    }
    let after = memory();
    println!(
        "\n{} attacks; memory of the process before {} MiB, after {} MiB; the plugin beside them answered after each",
        attacks.len(),
        before >> 20,
        after >> 20
    );
    if after > before + MEMORY_LEFT {
        println!("FAILED memory stays taken");
        failed += 1;
    }
    failed
}

/// Whether the well-behaved plugin answers.
async fn answers(neighbour: &Session) -> bool {
    let output = neighbour.tool("greet", json!({"name": "Ada"})).await;
    output.content == "Hello, Ada!"
}

/// Returns the resident memory of this process in bytes; 0 if it cannot be read.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// Joins a message into one line and cuts off what precedes the expected text `from`.
fn one_line(text: &str, from: &str) -> String {
    let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let at = flat.find(from).unwrap_or_default();
    flat[at..].chars().take(90).collect()
}
