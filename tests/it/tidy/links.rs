//! Checks links between documents: each relative target exists, and has the heading that the link
//! names.

use super::tree::{Source, root};

/// Reports relative links of a Markdown file whose target does not exist.
pub(super) fn check(source: &Source) -> Vec<String> {
    let folder = source
        .path
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for target in targets(&source.text) {
        if target.contains("://") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() {
            root().join(&source.path)
        } else {
            root().join(folder).join(file)
        };
        let is_there = match heading {
            "" => path.exists(),
            _ => std::fs::read_to_string(&path).is_ok_and(|text| {
                text.lines()
                    .any(|line| anchor(line) == Some(heading.to_owned()))
            }),
        };
        if !is_there {
            findings.push(format!(
                "{}: the link to `{target}` leads nowhere",
                source.path
            ));
        }
    }
    findings
}

/// Returns the targets of the links in a text, except in code.
fn targets(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for (at, open) in line.match_indices("](") {
            let rest = &line[at + open.len()..];
            targets.extend(rest.split_once(')').map(|(target, _)| target));
        }
    }
    targets
}

/// Returns the anchor that GitHub forms from a heading line, and `None` for other lines.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let check = |text: &str| check(&Source::new("host/README.md", text)).len();
    for text in [
        "[a](nothing.md)",
        "[a](#no-such-heading)",
        "[a](../wit/README.md#nowhere)",
    ] {
        assert_eq!(check(text), 1, "{text}");
    }
    for text in [
        "[a](src/lib.rs)",
        "[a](../wit/README.md#points)",
        "[a](https://example.com/nothing)",
        "```\n[a](nothing.md)\n```",
    ] {
        assert_eq!(check(text), 0, "{text}");
    }
}
