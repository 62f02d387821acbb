//! `rind session list` and `prompt`: which plugin or file contributed which part of the system
//! prompt, and what changes cost the provider's cache.

use insta::assert_snapshot;
use rind_tests::cli::{Rind, masked};
use rind_tests::guests;

/// A model that calls a tool, answers, and reports cached tokens in its usage.
const CACHED: &str = r#"
[[reply]]
tool_calls = [{ name = "list_files", arguments = { path = "." } }]
usage = { input_tokens = 1000, output_tokens = 5, cache_write_tokens = 900 }
[[reply]]
text = "done"
usage = { input_tokens = 1100, output_tokens = 5, cache_read_tokens = 900, cache_write_tokens = 100 }
"#;

/// Masks hashes, sizes and column widths, which would change with each word of the host's prompt.
fn squeezed(text: &str) -> String {
    let is_hash = |word: &str| word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(end) = words
            .len()
            .checked_sub(5)
            .filter(|_| words.last().is_some_and(|w| is_hash(w)))
        else {
            return line.to_owned();
        };
        format!("{} [N] B [N] tokens [HASH]", words[..end].join(" "))
    };
    masked(text)
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Runs four turns: the second with a changed context file, the third with one more plugin, and the
/// fourth with that plugin rewriting the prompt.
fn four_turns() -> Rind {
    let rind = Rind::with_script(CACHED);
    rind.file("AGENTS.md", "Measure in metres.\n");
    rind.run(&["run", "first look"]).exits(0);
    rind.file("AGENTS.md", "Measure in feet.\n");
    let again = ["run", "--resume", "last"];
    rind.run(&[&again[..], &["look again"]].concat()).exits(0);
    let plugin = guests::guest("prompter").to_str().unwrap();
    let with = ["--plugin", plugin, "--grant", "prompter", "with a plugin"];
    rind.run(&[&again[..], &with].concat()).exits(0);
    let rewrite = ["--set", "plugins.prompter.config.rewrite=true"];
    rind.run(&[&again[..], &rewrite, &with].concat()).exits(0);
    rind
}

#[test]
fn the_ledger_says_who_put_what_what_changed_and_what_it_cost_the_cache() {
    let rind = four_turns();
    let ran = rind.run(&["session", "prompt"]).exits(0);
    assert_snapshot!(squeezed(&ran.stdout), @r"
    session [SESSION]
    turn 1 first look
    stable 00-identity host [N] B [N] tokens [HASH]
    stable 10-tools host [N] B [N] tokens [HASH]
    context files/00/AGENTS.md AGENTS.md [N] B [N] tokens [HASH]
    volatile 00-environment host [N] B [N] tokens [HASH]
      2 steps · 2100 tokens in · 900 read from cache · 1000 written to cache
      the first step · 1000 tokens in · 0 read from cache · 900 written to cache
    turn 2 look again
    ~ context files/00/AGENTS.md AGENTS.md [N] B [N] tokens [HASH]
      3 parts as before
      ▲ the cache is invalid from the context tier on: `files/00/AGENTS.md` changed
      2 steps · 2100 tokens in · 900 read from cache · 1000 written to cache
      the first step · 1000 tokens in · 0 read from cache · 900 written to cache
    turn 3 with a plugin
    + stable prompter:05-tone prompter [N] B [N] tokens [HASH]
      4 parts as before
      ▲ the cache is invalid from the stable tier on: `prompter:05-tone` added
      2 steps · 2100 tokens in · 900 read from cache · 1000 written to cache
      the first step · 1000 tokens in · 0 read from cache · 900 written to cache
    turn 4 with a plugin
      5 parts as before
      ▲ prompter changed what is sent at after-system-prompt
      ▲ no cache boundary after the context tier: the text before it was changed
      ▲ the cache is invalid from the context tier on: hooks rewrote the text up to it
      2 steps · 2100 tokens in · 900 read from cache · 1000 written to cache
      the first step · 1000 tokens in · 0 read from cache · 900 written to cache
    ");
    let ran = rind.run(&["session", "prompt", "last", "--json"]).exits(0);
    let ledger: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let turn = &ledger["turns"][1];
    assert_eq!(turn["broken"]["border"], "context");
    assert_eq!(turn["usage"]["cache_read_tokens"], 900);
    assert_eq!(turn["steps"].as_array().unwrap().len(), 2);
    let file = &turn["parts"].as_array().unwrap()[2];
    assert_eq!(file["source"], "AGENTS.md");
    assert_eq!(file["tier"], "context");
    assert_eq!(file["change"], "changed");
    assert_eq!(file["hash"].as_str().unwrap().len(), 16);
    assert_eq!(ledger["turns"][3]["lost"], serde_json::json!(["context"]));
}

#[test]
fn sessions_are_listed_with_their_turns_and_first_words() {
    let rind = Rind::with_script(CACHED);
    assert_snapshot!(rind.run(&["session", "list"]).screen(), @r"
    exit 0
    ---- stderr
    there are no sessions yet; `rind run` creates one
    ");
    rind.run(&["run", "first look"]).exits(0);
    rind.run(&["run", "look again", "--resume", "last"])
        .exits(0);
    assert_snapshot!(rind.run(&["session", "list"]).screen(), @r"
    exit 0
    ---- stdout
    [SESSION] just now    2 turns   first look
    ");
    let ran = rind.run(&["session", "list", "--json"]).exits(0);
    let listed: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(listed[0]["turns"], 2);
    assert_eq!(listed[0]["first_input"], "first look");
}

#[test]
fn a_ledger_of_a_session_that_is_not_there_is_wrong_usage() {
    assert_snapshot!(Rind::default().run(&["session", "prompt", "2026"]).screen(), @r"
    exit 2
    ---- stderr
    error: there is no session `2026` in [RIND_HOME]/data/sessions
    ");
}

#[test]
fn a_plugin_that_is_switched_off_is_seen_by_the_tools_that_are_gone() {
    let rind = Rind::with_script(CACHED);
    rind.managed("hello");
    rind.run(&["run", "first look"]).exits(0);
    rind.run(&["plugin", "disable", "hello"]).exits(0);
    rind.run(&["run", "--resume", "last", "look again"])
        .exits(0);
    let ledger = rind.run(&["session", "prompt"]).exits(0).stdout;
    let line = "the cache is invalid from the tools on: tools from step 1 on: `greet` removed";
    assert!(ledger.contains(line), "{ledger}");
}
