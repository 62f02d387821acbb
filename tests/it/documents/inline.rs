//! Commands within sentences of the documents: each command and its flags must exist.

use std::collections::BTreeMap;

use rind_tests::cli::Rind;

/// The code spans of a document that begin with the program's name, as subcommands and flags.
fn commands(text: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let mut is_block = false;
    let prose: Vec<&str> = text
        .lines()
        .filter(|line| {
            is_block ^= line.starts_with("```");
            !is_block
        })
        .collect();
    let prose = prose.join(" ");
    let spans = prose.split('`').skip(1).step_by(2);
    let commands = spans.filter_map(|span| span.strip_prefix("rind "));
    let split = |command: &str| {
        let words: Vec<&str> = command.split_whitespace().collect();
        let is_sub = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
        let subs = words.iter().take(2).take_while(is_sub);
        let flags = words.iter().filter_map(|word| word.strip_prefix("--"));
        let flags = flags.map(|flag| flag.split('=').next().unwrap_or(flag));
        (
            subs.map(|word| (*word).to_owned()).collect(),
            flags.map(str::to_owned).collect(),
        )
    };
    commands.map(split).collect()
}

#[test]
fn every_command_within_a_sentence_exists_with_its_flags() {
    let rind = Rind::default();
    let mut help: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let mut n_flags = 0;
    for (path, text) in super::documents() {
        for (mut subs, flags) in commands(&text) {
            let shown = help.entry(subs.clone()).or_insert_with(|| {
                subs.push("--help".to_owned());
                let ran = rind.run(&subs);
                assert_eq!(ran.code, Some(0), "{path}: {subs:?}\n{}", ran.stderr);
                ran.stdout
            });
            for flag in flags {
                n_flags += 1;
                assert!(
                    shown.contains(&format!("--{flag}")),
                    "{path}: {subs:?} has no flag `--{flag}`"
                );
            }
        }
    }
    assert!(n_flags > 0 && help.len() > 5, "{}", help.len());
}

#[test]
fn subcommands_and_flags_are_read_from_code_spans() {
    let text = "Say `rind plugin grants --revoke NAME`\nor `rind run --trace=full`, not `ls`.\n```\n`rind x`\n```\n";
    let words = |list: &[&str]| {
        list.iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        commands(text),
        [
            (words(&["plugin", "grants"]), words(&["revoke"])),
            (words(&["run"]), words(&["trace"])),
        ]
    );
}
