//! Renders the catalogue: the list of skills that the model sees before it reads any of them.
//!
//! The output is deterministic for the same skills and budget. A name is never omitted. If the
//! descriptions do not fit, the longest are truncated first, and the number of truncated
//! descriptions is reported to the model and to the caller.

use super::model::Skill;
use super::snapshot::SessionSkills;
use crate::text::escape_and_truncate_line;

/// Maximum length of a skill's description in the catalogue, including when to use it, in
/// characters.
pub const MAX_CATALOGUE_DESCRIPTION_CHARS: usize = 1536;

/// Minimum budget in characters, for models with a small or unknown context window.
const MIN_CATALOGUE_BUDGET_CHARS: usize = 2_000;

/// Length, in characters, below which a description is useless, so that only the name is listed.
const MIN_USEFUL_DESCRIPTION_CHARS: usize = 20;

/// Maximum length, in characters, of a description if the budget does not suffice for a useful
/// description of every skill. Some skills then get a description of up to this length, and the
/// other skills none.
const MAX_SHORTENED_DESCRIPTION_CHARS: usize = 60;

/// Returns the budget of the catalogue in characters: 1 % of a context window of this many tokens,
/// at four characters per token.
#[must_use]
pub fn compute_catalogue_budget(context_tokens: u64) -> usize {
    let chars = context_tokens.saturating_mul(4) / 100;
    usize::try_from(chars)
        .unwrap_or(usize::MAX)
        .max(MIN_CATALOGUE_BUDGET_CHARS)
}

/// Rendered list of skills for the model, with statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillCatalogue {
    /// Text for the model; empty if there is no skill that the model may start.
    pub text: String,
    /// Number of skills in the catalogue.
    pub n_skills: usize,
    /// Number of skills in the list whose descriptions were truncated or omitted.
    pub n_cut: usize,
    /// Whether the list exceeds its budget although it contains only the names of the skills; all
    /// names are listed anyway.
    pub is_over: bool,
}

/// Description of a skill, truncated to [`MAX_CATALOGUE_DESCRIPTION_CHARS`].
pub(super) struct TruncatedSkillDescription {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Returns the description of a skill for the catalogue: on one line, without deceptive characters,
/// and with tags escaped.
#[must_use]
pub(super) fn describe_skill(skill: &Skill) -> TruncatedSkillDescription {
    let text = match &skill.when_to_use {
        Some(when) => format!("{} {when}", skill.description),
        None => skill.description.clone(),
    };
    // The limit of `escape_and_truncate_line` is in bytes, and a character has at most four.
    let whole = escape_and_truncate_line(&text, MAX_CATALOGUE_DESCRIPTION_CHARS * 4);
    let text = truncate_description(&whole, MAX_CATALOGUE_DESCRIPTION_CHARS);
    TruncatedSkillDescription {
        is_cut: text != whole,
        text: text.replace('<', "&lt;").replace('>', "&gt;"),
    }
}

/// Returns the text if it has at most `limit` characters, and otherwise its beginning with an
/// ellipsis.
fn truncate_description(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

impl SessionSkills {
    /// Renders the catalogue of the skills that the model may start, within `budget` characters.
    /// Skills with `paths` are omitted: the model learns of them when a matching file is touched.
    #[must_use]
    pub fn catalogue(&self, budget: usize) -> SkillCatalogue {
        let listed = self
            .iter()
            .filter(|s| s.is_startable_by_model() && s.paths.is_empty());
        let listed: Vec<&Skill> = listed.map(|skill| &**skill).collect();
        let entries = listed.iter().map(|s| (s.id.as_str(), describe_skill(s)));
        let entries: Vec<(&str, TruncatedSkillDescription)> = entries.collect();
        // Each line has five more characters than the name and the description: `- `, `: ` and the
        // line break.
        let fixed: usize = entries.iter().map(|(id, _)| id.chars().count() + 5).sum();
        let lengths: Vec<usize> = entries
            .iter()
            .map(|(_, described)| described.text.chars().count())
            .collect();
        let room = budget.saturating_sub(fixed);
        let limits = match find_fitting_truncation_length(&lengths, room) {
            limit if limit < MIN_USEFUL_DESCRIPTION_CHARS => {
                compute_description_limits(&listed, &lengths, room)
            }
            limit => vec![limit; lengths.len()],
        };
        let mut text = String::new();
        let mut n_cut = 0;
        for ((id, described), limit) in entries.iter().zip(limits) {
            let description = &described.text;
            let shown = match limit {
                0 => String::new(),
                limit => truncate_description(description, limit),
            };
            n_cut += usize::from(shown != *description || described.is_cut);
            if shown.is_empty() {
                text.push_str(&format!("- {id}\n"));
            } else {
                text.push_str(&format!("- {id}: {shown}\n"));
            }
        }
        SkillCatalogue {
            text,
            n_skills: entries.len(),
            n_cut,
            is_over: fixed > budget,
        }
    }

    /// Returns the length, in characters, of a skill's line in the catalogue without a budget.
    #[must_use]
    pub fn catalogue_line_chars(skill: &Skill) -> usize {
        skill.id.chars().count() + 5 + describe_skill(skill).text.chars().count()
    }
}

/// Returns the maximum length of each description, in characters, if not all descriptions fit into
/// `room` characters. Skills get a description in the order of their sources while there is room:
/// the user's own skills come before those of a project or a plugin.
fn compute_description_limits(listed: &[&Skill], lengths: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..listed.len()).collect();
    order.sort_by_key(|at| (&listed[*at].source, &listed[*at].id));
    let mut limits = vec![0; listed.len()];
    let mut room = room;
    for at in order {
        let wanted = lengths[at].min(MAX_SHORTENED_DESCRIPTION_CHARS);
        if wanted <= room {
            limits[at] = wanted;
            room -= wanted;
        }
    }
    limits
}

/// Returns the largest limit such that texts of these lengths, each truncated to the limit, have at
/// most `room` characters in total.
fn find_fitting_truncation_length(lengths: &[usize], room: usize) -> usize {
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
