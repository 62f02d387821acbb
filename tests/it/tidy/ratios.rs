//! Checks ratios of words and names that keep the code readable for strangers: first words of
//! comments, vague words, and names that cannot be searched for.
//!
//! The limits leave some room above the figures of well-known Rust projects (wasmtime, ripgrep, rust-analyzer, uv, spin), measured
//! in the same way.

use std::collections::BTreeMap;

use regex::Regex;

use super::tree::Source;

/// Counts of words, comments and names in a set of files.
#[derive(Debug, Default)]
pub(super) struct Ratios {
    /// Comments, and the comments that begin with a pronoun.
    n_comments: usize,
    n_pronouns: usize,
    n_words: usize,
    /// Occurrences of `what`, and of words such as `nobody`.
    n_what: usize,
    n_nobody: usize,
    n_examples: usize,
    types: BTreeMap<String, usize>,
    n_functions: usize,
    n_one_word_functions: usize,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

impl Ratios {
    /// Counts in files, without their unit tests.
    pub(super) fn of(sources: &[Source]) -> Self {
        let comment = pattern(r"^\s*(//[/!]?)([^/].*)?$");
        let pronoun = pattern(
            r"^(What|Who|Whom|Whose|Whoever|That|Those|One |It |They|Nobody|Somebody|Everybody|Anybody|Of )",
        );
        let what = pattern(r"(?i)\bwhat\b");
        let nobody = pattern(r"(?i)\b(no|some|every|any)body\b");
        let named = pattern(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait) ([A-Z]\w+)");
        let function =
            pattern(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?fn (\w+)");
        let mut ratios = Self::default();
        for source in sources {
            let mut before = "";
            for line in source.text.lines() {
                let found = comment.captures(line);
                let mark = found
                    .as_ref()
                    .map_or("", |found| found.get(1).unwrap().as_str());
                if let Some(found) = &found {
                    let text = found.get(2).map_or("", |text| text.as_str()).trim();
                    ratios.n_words += text.split_whitespace().count();
                    ratios.n_what += what.find_iter(text).count();
                    ratios.n_nobody += nobody.find_iter(text).count();
                    ratios.n_examples += usize::from(text.starts_with("```") && text.len() > 3);
                    if mark == "//" && before != "//" {
                        ratios.n_comments += 1;
                        ratios.n_pronouns += usize::from(pronoun.is_match(text));
                    }
                }
                before = mark;
            }
            let code = source.text.split("#[cfg(test)]\nmod tests").next();
            for line in code.unwrap_or_default().lines() {
                if let Some(found) = named.captures(line) {
                    *ratios.types.entry(found[1].to_owned()).or_default() += 1;
                }
                if let Some(found) = function.captures(line) {
                    ratios.n_functions += 1;
                    ratios.n_one_word_functions += usize::from(!found[1].contains('_'));
                }
            }
        }
        ratios
    }

    /// Describes each ratio that exceeds its limit.
    pub(super) fn beyond(&self) -> Vec<String> {
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let per_1000 = |part: usize| 1000.0 * part as f64 / self.n_words.max(1) as f64;
        let n_types = self.types.values().sum();
        let one_word = |name: &&String| name.chars().filter(char::is_ascii_uppercase).count() == 1;
        let n_one_word = self.types.iter().filter(|(name, _)| one_word(name));
        let n_one_word = n_one_word.map(|(_, n)| n).sum();
        let n_shared = self.types.values().filter(|n| **n > 1).sum();
        let most = [
            (
                "% of plain comments begin with a pronoun",
                share(self.n_pronouns, self.n_comments),
                1.0,
            ),
            (
                "times `what` in 1,000 words of comments",
                per_1000(self.n_what),
                1.0,
            ),
            (
                "times `nobody` and its like in 1,000 words",
                per_1000(self.n_nobody),
                0.1,
            ),
            (
                "% of type names have one word",
                share(n_one_word, n_types),
                25.0,
            ),
            (
                "% of types share their name with another",
                share(n_shared, n_types),
                15.0,
            ),
            (
                "% of function names have one word",
                share(self.n_one_word_functions, self.n_functions),
                40.0,
            ),
        ];
        let mut beyond: Vec<String> = most
            .into_iter()
            .filter(|(_, found, limit)| found > limit)
            .map(|(figure, found, limit)| format!("{found:.2} {figure}; at most {limit}"))
            .collect();
        if self.n_examples < 40 {
            beyond.push(format!("{} examples in docs; at least 40", self.n_examples));
        }
        beyond
    }
}

#[test]
fn pronouns_empty_words_and_names_of_one_word_are_counted() {
    let text =
        "// What it is.\n// It goes on.\nstruct Kind;\n\n/// Nobody knows what.\nfn run() {}\n";
    let found = Ratios::of(&[Source::new("a.rs", text)]).beyond().join("\n");
    for figure in [
        "100.00 % of plain",
        "`what`",
        "`nobody`",
        "100.00 % of type",
        "100.00 % of func",
        "0 examples",
    ] {
        assert!(found.contains(figure), "{figure}: {found}");
    }
    assert!(!found.contains("share"), "{found}");
}
