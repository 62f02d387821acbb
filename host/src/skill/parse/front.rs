//! Splits the text of a skill's file into front matter and body: checks the encoding and the
//! limits, and repairs missing quotes.
//!
//! A file whose front matter is damaged is repaired only if the repair cannot remove a restriction;
//! the repair itself is still reported as a fault.

use std::borrow::Cow;

use super::super::model::Diagnostic;
use super::MAX_FILE_BYTES;
use super::diagnose::{SkillFileDiagnostics, fatal_diagnostic};
use super::keys::{self, FrontMatterKeyKind};
use crate::front_matter::{self, FRONT_MATTER_DELIMITER, YamlDocument, YamlNode, YamlNodeKind};
use crate::json::UniqueKeysJsonValue;
use crate::text::is_deceptive_character;

/// Maximum size of a front matter, in bytes.
const MAX_FRONT_MATTER_BYTES: usize = 64 << 10;

/// Keys whose values are mappings. They are never quoted, because a quoted value is a text.
const MAPPING_VALUED_KEYS: [&str; 3] = ["generated_from", "metadata", "requires"];

const MISSING_FRONT_MATTER_HINT: &str =
    "begin the file with a line `---`, `name: …`, `description: …` and a line `---`";

pub(super) enum FrontMatterSearchResult<'a> {
    Found(FrontMatterAndBody<'a>),
    Missing(Diagnostic),
    Unclosed(Diagnostic),
}

pub(super) struct FrontMatterAndBody<'a> {
    /// Front matter, including its opening line.
    pub(super) front: &'a str,
    /// Number of empty lines before the front matter.
    pub(super) n_before: usize,
    pub(super) body: &'a str,
}

/// Decodes a file as UTF-8, without the byte order mark.
pub(super) fn decode_text(bytes: &[u8]) -> Result<&str, Diagnostic> {
    if bytes.len() > MAX_FILE_BYTES {
        let text = format!("the file has more than {} KiB", MAX_FILE_BYTES >> 10);
        let hint = "move parts of it into files beside it, which the skill can refer to";
        return Err(fatal_diagnostic((1, 1), text, hint));
    }
    let line_of = |offset: usize| {
        let before = bytes.get(..offset).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    };
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let hint = "save it as UTF-8";
        return Err(fatal_diagnostic((1, 1), "the file is UTF-16", hint));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let place = (line_of(error.valid_up_to()), 1);
        fatal_diagnostic(place, "this line is not UTF-8", "save the file as UTF-8")
    })?;
    if let Some(at) = text.find('\0') {
        let hint = "remove it; the file may be damaged";
        return Err(fatal_diagnostic(
            (line_of(at), 1),
            "there is a NUL character",
            hint,
        ));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(fatal_diagnostic(
            (1, 1),
            "the file is empty",
            MISSING_FRONT_MATTER_HINT,
        ));
    }
    Ok(text)
}

/// Finds the front matter at the beginning of a file, after any empty lines.
pub(super) fn find_front_matter(text: &str) -> FrontMatterSearchResult<'_> {
    let mut start = 0;
    let mut n_before = 0;
    for line in text.split_inclusive('\n') {
        if !line.trim().is_empty() {
            break;
        }
        start += line.len();
        n_before += 1;
    }
    let rest = text.get(start..).unwrap_or_default();
    if let Some((front, body)) = front_matter::split_front_matter(rest) {
        return FrontMatterSearchResult::Found(FrontMatterAndBody {
            front,
            n_before,
            body,
        });
    }
    let first = rest.lines().next().unwrap_or_default();
    let place = (n_before + 1, 1);
    if first.trim_end() == FRONT_MATTER_DELIMITER {
        let text = "the front matter is not closed";
        let hint = "put a line `---` between the front matter and the text";
        return FrontMatterSearchResult::Unclosed(fatal_diagnostic(place, text, hint));
    }
    let n_fences = rest
        .lines()
        .filter(|line| line.trim_end() == FRONT_MATTER_DELIMITER)
        .count();
    let hint = if first.trim_start().starts_with("```") && n_fences > 0 {
        "take the front matter out of the code block; it must be at the start of the file"
    } else if first.trim() == FRONT_MATTER_DELIMITER {
        "remove the blanks before `---`"
    } else if n_fences > 0 {
        "move the front matter to the top; it begins and ends with a line `---`"
    } else {
        MISSING_FRONT_MATTER_HINT
    };
    FrontMatterSearchResult::Missing(fatal_diagnostic(place, "there is no front matter", hint))
}

/// Parses the front matter. If it is not valid YAML only because values lack quotes, they are
/// quoted, and a fault is recorded.
pub(super) fn parse_front_matter(
    found: &FrontMatterAndBody<'_>,
    reader: &mut SkillFileDiagnostics,
) -> Result<YamlDocument, Diagnostic> {
    let at = |(line, column): (usize, usize)| (line + found.n_before, column);
    if found.front.len() > MAX_FRONT_MATTER_BYTES {
        let text = format!(
            "the front matter has more than {} KiB",
            MAX_FRONT_MATTER_BYTES >> 10
        );
        let hint = "move what is meant for readers into the text below it";
        return Err(fatal_diagnostic(at((1, 1)), text, hint));
    }
    let (place, why) = match front_matter::parse_yaml_document(found.front) {
        Ok(document) => return Ok(document),
        Err(error) => error,
    };
    let marker = ["<<<<<<<", "=======", ">>>>>>>"];
    let mut lines = found.front.lines();
    if let Some(line) = lines.position(|l| marker.iter().any(|marker| l.starts_with(marker))) {
        let text = "the front matter has merge conflict markers";
        return Err(fatal_diagnostic(
            at((line + 1, 1)),
            text,
            "resolve it and save the file",
        ));
    }
    let is_structure = [
        "stands twice",
        "too long or nested",
        "keys",
        "references",
        "tags",
    ];
    let is_repairable = !is_structure.iter().any(|words| why.contains(words));
    let (repaired, keys) = quote_invalid_scalars(found.front);
    let document = (is_repairable && !keys.is_empty())
        .then(|| front_matter::parse_yaml_document(&repaired).ok())
        .flatten();
    let text = format!("the front matter is not valid YAML: {why}");
    match document {
        Some(document) => {
            let keys = keys.join("`, `");
            let hint = format!(
                "put the value of `{keys}` in quotes; until then only the user can start the skill"
            );
            reader.add_error(place, text, hint);
            Ok(document)
        }
        None => Err(fatal_diagnostic(
            at(place),
            text,
            choose_yaml_error_hint(&why, found.front),
        )),
    }
}

fn choose_yaml_error_hint(why: &str, front: &str) -> &'static str {
    if why.contains("stands twice") {
        "keep one of the two"
    } else if front.lines().any(|line| line.starts_with('\t')) {
        "indent with blanks, not with tabs"
    } else if why.contains("no mapping") {
        "write `key: value` on each line"
    } else {
        "correct this line; texts with `: `, `#`, quotes or brackets belong in quotes"
    }
}

/// Quotes the top-level values that are not valid YAML by themselves, and returns the text and the
/// keys of these values. Line numbers stay the same.
pub(super) fn quote_invalid_scalars(front: &str) -> (String, Vec<String>) {
    let lines: Vec<&str> = front.lines().collect();
    let mut text = String::with_capacity(front.len() + 64);
    let mut keys = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let following = lines.iter().skip(at + 1);
        let n_more = following.take_while(|l| l.starts_with([' ', '\t'])).count();
        let block: Vec<&str> = lines
            .iter()
            .skip(at)
            .take(n_more + 1)
            .map(|l| l.trim())
            .collect();
        let whole = lines.get(at..=at + n_more).unwrap_or_default().join("\n");
        at += n_more + 1;
        match quote_invalid_scalar(line, &block, &whole) {
            None => {
                text.push_str(&whole);
                text.push('\n');
            }
            Some((key, quoted)) => {
                text.push_str(&quoted);
                text.push_str(&"\n".repeat(n_more + 1));
                keys.push(key);
            }
        }
    }
    (text, keys)
}

fn quote_invalid_scalar(line: &str, block: &[&str], whole: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once(':')?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_plain = !key.is_empty() && key.chars().all(is_key) && !value.trim().is_empty();
    let is_block = value.trim_start().starts_with(['|', '>']);
    // Do not quote the value of a key that restricts the skill, nor a value whose continuation
    // lines contain a known key: the intended restriction cannot be recovered from a damaged value.
    let is_text = !matches!(keys::find_key_kind(key), Some(FrontMatterKeyKind::Rights))
        && !MAPPING_VALUED_KEYS.contains(&key);
    let rest = block.get(1..).unwrap_or_default();
    let hides_key = |line: &&str| {
        line.split_once(':')
            .is_some_and(|(key, _)| keys::find_key_kind(key.trim()).is_some())
    };
    if !is_plain
        || is_block
        || !is_text
        || rest.iter().any(hides_key)
        || front_matter::parse_yaml_document(whole).is_ok()
    {
        return None;
    }
    let value = [value.trim()]
        .into_iter()
        .chain(rest.iter().copied())
        .collect::<Vec<_>>()
        .join(" ");
    let value = serde_json::Value::from(value);
    Some((key.to_owned(), format!("{key}: {value}")))
}

/// Whether a file that does not begin with front matter contains front matter elsewhere: a line
/// `---`, and a key that restricts the skill after it.
pub(super) fn has_misplaced_front_matter(text: &str) -> bool {
    let is_unseen = |c: char| c.is_whitespace() || is_deceptive_character(c);
    let mut lines = text.lines().map(|line| line.trim_matches(is_unseen));
    lines.any(|line| line == FRONT_MATTER_DELIMITER)
        && lines.any(|line| {
            let key = line.split_once(':').map(|(key, _)| key);
            key.and_then(keys::find_similar_key)
                .is_some_and(|(_, weight)| weight == FrontMatterKeyKind::Rights)
        })
}

/// Parses `SKILL.json`.
pub(super) fn parse_skill_json_file(bytes: &[u8]) -> Result<YamlDocument, Diagnostic> {
    let refuse = |line: usize, column: usize, why: Cow<'_, str>| {
        let text = format!("`SKILL.json` next to the skill's file cannot be read: {why}");
        Err(fatal_diagnostic(
            (line.max(1), column.max(1)),
            text,
            "correct or remove `SKILL.json`",
        ))
    };
    if bytes.len() > MAX_FRONT_MATTER_BYTES {
        return refuse(1, 1, "it is too large".into());
    }
    match serde_json::from_slice::<UniqueKeysJsonValue>(bytes) {
        Err(error) => refuse(error.line(), error.column(), error.to_string().into()),
        Ok(UniqueKeysJsonValue(value)) => match YamlNode::from_json(&value, (1, 1)).kind {
            YamlNodeKind::Mapping(entries) => Ok(YamlDocument { entries }),
            _ => refuse(1, 1, "it is not an object".into()),
        },
    }
}
