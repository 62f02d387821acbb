//! Tests of a misbehaving plugin in a real run: it is stopped and named, the turn continues, and
//! other plugins still work.

use std::time::{Duration, Instant};

use rind_tests::cli::Rind;
use rind_tests::guests;

const TWICE: &str = r#"
[[reply]]
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
[[reply]]
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
[[reply]]
text = "I could not read it."
"#;

/// Runs a turn with the hostile guest and a good plugin, and checks what must be true for every
/// kind of misbehavior.
#[track_caller]
fn is_contained(how: &str, why: &str) {
    let rind = Rind::with_script(TWICE);
    rind.managed("hello");
    rind.file("a.txt", "alpha\n");
    let started = Instant::now();
    let plugin = guests::guest("hostile").to_str().unwrap();
    let set = format!("plugins.hostile.config.how={how}");
    let ran = rind
        .run(&[
            "run",
            "read",
            "--plugin",
            plugin,
            "--grant",
            "hostile",
            "--set",
            &set,
            "--trace=full",
        ])
        .exits(0);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{how}: {:?}",
        started.elapsed()
    );
    let screen = &ran.stderr;
    assert_eq!(ran.stdout, "I could not read it.\n");
    let refusals: Vec<&str> = screen
        .lines()
        .filter(|line| line.contains("refused by plugin hostile"))
        .collect();
    assert_eq!(
        refusals.len(),
        2,
        "{how}: both calls are refused by name\n{screen}"
    );
    let said: Vec<&str> = screen.split_whitespace().collect();
    assert!(said.join(" ").contains(why), "{how}: {screen}");
    assert!(
        screen.contains("out this turn, refusing"),
        "{how}: the second time it is not even asked\n{screen}"
    );
    assert!(
        screen
            .lines()
            .any(|line| line.contains("turn-end") && line.contains("hello")),
        "{how}: the other plugin still runs\n{screen}"
    );
}

#[test]
fn a_plugin_that_loops_for_ever_is_stopped_at_its_deadline() {
    is_contained("loop", "stopped at its deadline of 300 ms");
}

#[test]
fn a_plugin_that_traps_is_named_with_its_last_words() {
    is_contained("trap", "broken on purpose");
}

#[test]
fn a_plugin_that_takes_memory_without_end_is_stopped_at_its_limit() {
    is_contained("grow", "64 MiB of memory");
}

#[test]
fn a_plugin_that_returns_a_hundred_megabytes_is_stopped() {
    is_contained("hundred-megabytes", "64 MiB of memory");
    is_contained("huge-string", "32 MiB");
}
