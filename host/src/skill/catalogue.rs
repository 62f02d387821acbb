//! The catalogue: what the model is told of skills before it reads any.
//!
//! The same skills and budget give the same bytes. A name is never left out; where descriptions do not fit, the long ones are
//! cut first, and how many were is told to the model and to whoever asks.

use super::model::Skill;
use super::snapshot::Skills;
use crate::text::clean;

/// Longest description of one skill in the catalogue, in characters, with when to use it.
pub const MAX_ENTRY_CHARS: usize = 1536;

/// Smallest budget, for models with a small or unknown context window.
const MIN_BUDGET_CHARS: usize = 2_000;

/// Length below which a description says nothing, so that the name alone is given.
const MIN_DESCRIPTION_CHARS: usize = 20;

/// Length to which descriptions are cut where there is not room for one of each skill. Some of them say more than a few letters of
/// all of them, or nothing.
const SCARCE_DESCRIPTION_CHARS: usize = 60;

/// Returns the characters that the catalogue may have: 1 % of a context window of so many tokens.
#[must_use]
pub fn budget_chars(context_tokens: u64) -> usize {
    let chars = context_tokens.saturating_mul(4) / 100;
    usize::try_from(chars)
        .unwrap_or(usize::MAX)
        .max(MIN_BUDGET_CHARS)
}

/// A rendered catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// The text, empty without skills that the model may start.
    pub text: String,
    /// Number of skills in it.
    pub n_skills: usize,
    /// Number of descriptions that were cut or left out.
    pub n_cut: usize,
    /// Whether the names alone are more than the budget, which they then go beyond.
    pub is_over: bool,
}

/// A description within the limit of one entry.
pub(super) struct Described {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// The description as it stands in a catalogue: one line, nothing that deceives or looks like a tag.
#[must_use]
pub(super) fn described(skill: &Skill) -> Described {
    let text = match &skill.when_to_use {
        Some(when) => format!("{} {when}", skill.description),
        None => skill.description.clone(),
    };
    // Bytes are at least as many as characters.
    let whole = clean(&text, MAX_ENTRY_CHARS * 4);
    let text = cut(&whole, MAX_ENTRY_CHARS);
    Described {
        is_cut: text != whole,
        text: text.replace('<', "&lt;").replace('>', "&gt;"),
    }
}

/// The text if it has at most so many characters, or else its beginning with a mark.
fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

impl Skills {
    /// Renders the catalogue of the skills that the model may start, within so many characters. Skills about certain paths are
    /// not in it: they are told of when such a file is touched.
    #[must_use]
    pub fn catalogue(&self, budget: usize) -> Catalogue {
        let listed = self
            .iter()
            .filter(|s| s.is_for_model() && s.paths.is_empty());
        let listed: Vec<&Skill> = listed.map(|skill| &**skill).collect();
        let entries = listed.iter().map(|s| (s.id.as_str(), described(s)));
        let entries: Vec<(&str, Described)> = entries.collect();
        // `- `, `: ` and the end of the line.
        let fixed: usize = entries.iter().map(|(id, _)| id.chars().count() + 5).sum();
        let lengths: Vec<usize> = entries
            .iter()
            .map(|(_, described)| described.text.chars().count())
            .collect();
        let room = budget.saturating_sub(fixed);
        let limits = match widest(&lengths, room) {
            limit if limit < MIN_DESCRIPTION_CHARS => scarce(&listed, &lengths, room),
            limit => vec![limit; lengths.len()],
        };
        let mut text = String::new();
        let mut n_cut = 0;
        for ((id, described), limit) in entries.iter().zip(limits) {
            let description = &described.text;
            let shown = match limit {
                0 => String::new(),
                limit => cut(description, limit),
            };
            n_cut += usize::from(shown != *description || described.is_cut);
            if shown.is_empty() {
                text.push_str(&format!("- {id}\n"));
            } else {
                text.push_str(&format!("- {id}: {shown}\n"));
            }
        }
        Catalogue {
            text,
            n_skills: entries.len(),
            n_cut,
            is_over: fixed > budget,
        }
    }

    /// Returns the number of characters that a skill has in a catalogue with room for all of it.
    #[must_use]
    pub fn cost_chars(skill: &Skill) -> usize {
        skill.id.chars().count() + 5 + described(skill).text.chars().count()
    }
}

/// Returns the limit of each description where not all of them fit: as many as there is room for, those of the user's own skills
/// before those that a project or a plugin brings, and short ones whole.
fn scarce(listed: &[&Skill], lengths: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..listed.len()).collect();
    order.sort_by_key(|at| (&listed[*at].source, &listed[*at].id));
    let mut limits = vec![0; listed.len()];
    let mut room = room;
    for at in order {
        let wanted = lengths[at].min(SCARCE_DESCRIPTION_CHARS);
        if wanted <= room {
            limits[at] = wanted;
            room -= wanted;
        }
    }
    limits
}

/// Returns the greatest limit at which texts of these lengths, each cut to it, have at most `room` characters together.
fn widest(lengths: &[usize], room: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let (mut room, mut left) = (room, sorted.len());
    for length in sorted {
        if length.saturating_mul(left) > room {
            return room / left;
        }
        room -= length;
        left -= 1;
    }
    usize::MAX
}
