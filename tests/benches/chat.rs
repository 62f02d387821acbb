//! Latency of the chat at a terminal: from an event with a piece of the answer to the screen, from
//! a key press to the screen while 200 pieces per second arrive, and until a session of 5,000
//! messages is open. Run with `cargo bench -p rind-benches --bench chat`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints"
)]

use std::time::{Duration, Instant, SystemTime};

use rind_tests::cli::{Rind, Terminal};
use serde_json::{Value, json};

/// Size of the terminal.
const SIZE: (u16, u16) = (100, 30);

/// Pieces of the answer; the scripted model sends one every 5 ms.
const PIECES: usize = 1_000;

/// Keys that are typed while the answer streams.
const KEYS: usize = 60;

/// Number of messages in the long session.
const MESSAGES: usize = 5_000;

fn main() {
    stream();
    open();
}

/// Measures the latency of pieces and keys while an answer streams and somebody types.
fn stream() {
    let words: Vec<String> = (0..PIECES).map(|n| format!("w{n:04}")).collect();
    let script = format!("[[reply]]\nword_ms = 5\ntext = \"{}\"\n", words.join(" "));
    let rind = Rind::with_script(&script);
    let args = ["chat", "--no-plugins", "--events", "events.jsonl"];
    let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
        return;
    };
    terminal.sees("/help").keys("go\r").sees("w0010");
    let mut keys = Vec::new();
    let mut typed = String::new();
    for n in 0..KEYS {
        // Letters that appear nowhere else on the screen.
        let key = char::from(b"XZQVY"[n % 5]);
        typed.push(key);
        let (at, before) = (Instant::now(), terminal.n_bytes());
        terminal.keys(&key.to_string());
        while terminal.arrived(before, &typed).is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        keys.push(at.elapsed());
        std::thread::sleep(Duration::from_millis(40));
    }
    terminal.sees_no("Enter steers").keys("\u{15}\u{4}");
    terminal.ends();
    let events = std::fs::read_to_string(rind.workspace().join("events.jsonl")).unwrap();
    let pieces = events.lines().filter_map(|line| piece(&terminal, line));
    told("a piece of the answer to the screen", pieces.collect());
    told("a key to the screen meanwhile", keys);
}

/// Returns the time from an event with a piece of text until its bytes reach the terminal.
fn piece(terminal: &Terminal<'_>, line: &str) -> Option<Duration> {
    let event: Value = serde_json::from_str(line).ok()?;
    let text = event["text"]
        .as_str()
        .filter(|_| event["type"] == "text-delta")?;
    let at: jiff::Timestamp = event["at"].as_str()?.parse().ok()?;
    let arrived = terminal.arrived(0, text.trim())?;
    arrived.duration_since(SystemTime::from(at)).ok()
}

/// Measures how long the chat needs to open a long session.
fn open() {
    let rind = Rind::with_script("[[reply]]\ntimes = 0\ntext = \"You said: {input}\"\n");
    rind.run(&["run", "--no-plugins", "first"]).exits(0);
    let sessions = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let folder = sessions.last().unwrap().unwrap().path();
    let file = folder.join("session.jsonl");
    let mut text = std::fs::read_to_string(&file).unwrap();
    let message = rind.entries("message").remove(0);
    for n in 0..MESSAGES {
        let mut entry = message.clone();
        entry["id"] = json!(format!("{n:032x}"));
        entry["message"]["id"] = json!(format!("{n:032x}"));
        entry["message"]["role"] = json!(["user", "assistant"][n % 2]);
        entry["message"]["content"] = json!([{"type": "text", "text": format!("message {n}")}]);
        text.push_str(&format!("{entry}\n"));
    }
    std::fs::write(&file, text).unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let mut terminal = rind
            .terminal(&["chat", "--no-plugins", "-c"], SIZE, &[])
            .unwrap();
        terminal.sees(&format!("message {}", MESSAGES - 1));
        times.push(started.elapsed());
        terminal.keys("\u{4}");
        terminal.ends();
    }
    told("start to the end of a session of 5,000 messages", times);
}

fn told(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| {
        times
            .get((times.len() * part / 100).min(times.len() - 1))
            .unwrap()
    };
    println!(
        "{what}: {} times, median {:?}, 95 % {:?}, most {:?}",
        times.len(),
        at(50),
        at(95),
        at(100)
    );
}
