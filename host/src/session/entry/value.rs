//! Defines values that entries contain, or that follow from several entries: a part of a system
//! prompt, the subagent that keeps an archived turn, a turn that is due for archival, an active
//! skill.
//!
//! The module must not know how entries are written. Start from [`PromptRow`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Body;
use crate::point::payload::Tier;

/// Part of a recorded system prompt, without its text: shows which author changed the prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptRow {
    /// Tier of the part in the system prompt.
    pub tier: Tier,
    /// Key of the part, unique within the prompt.
    pub key: String,
    /// Author of the part, such as a plugin.
    pub source: String,
    /// Length of the text, in bytes.
    pub bytes: usize,
    /// Estimated number of tokens of the part.
    pub tokens: u64,
    /// First 16 hex digits of the text's BLAKE3 hash.
    pub hash: String,
}

/// A subagent without tools that keeps the messages of an archived turn. Its session is the file
/// `agents/ID/session.jsonl` in the folder of this session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Id of the subagent that keeps the archived turn.
    pub agent: String,
    /// Subject of the archived turn, one line.
    pub task: String,
}

/// Calls that a person allowed for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllowedPart {
    /// Hash of the session's id, the tool and the covered calls, in hexadecimal. Because of the id,
    /// a copy of the part in another session allows nothing.
    pub key: String,
    /// Calls that the answer covers, as text.
    pub covers: String,
    /// Name of the plugin that provides the tool; `None` for a built-in tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Name of the plugin that may make the calls; `None` for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A finished turn that is due to be archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnDueForArchiving {
    /// Number of the turn.
    pub turn: u32,
    /// Reason why the turn is due: `max-steps`, `tool-calls` or `token-threshold`.
    pub reason: String,
    /// Number of attempts to archive the turn so far.
    pub tries: u32,
}

/// An active skill, as [`Body::SkillActivated`] records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivatedSkill {
    /// Id of the skill.
    pub skill: String,
    /// Trust level of the skill's source, as in [`Body::SkillActivated`].
    pub trust: String,
    /// Digest of the content of the skill.
    pub hash: String,
    /// Author of the activation: `user`, `model`, or `plugin NAME`.
    pub by: String,
    /// Tools on the skill's allow list; `None` if it has no allow list.
    pub allow: Option<Vec<String>>,
    /// Tools that the skill denies.
    pub deny: Vec<String>,
}

impl ActivatedSkill {
    /// Returns the skill that an entry activates, if its lifetime matches `is_conversational`:
    /// `true` for a skill that stays active from turn to turn, `false` for one that ends with the
    /// turn.
    pub(in crate::session) fn from_entry(body: &Body, is_conversational: bool) -> Option<Self> {
        match body {
            Body::SkillActivated {
                skill,
                trust,
                hash,
                by,
                is_conversational: own,
                allow,
                deny,
            } if *own == is_conversational => Some(Self {
                skill: skill.clone(),
                trust: trust.clone(),
                hash: hash.clone(),
                by: by.clone(),
                allow: allow.clone(),
                deny: deny.clone(),
            }),
            _ => None,
        }
    }
}

/// A skill that was used in the session, or whose use a person approved, as
/// [`Body::SkillRemembered`] records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedOrApprovedSkill {
    /// Id of the skill.
    pub skill: String,
    /// Trust level of the skill's source, as in [`Body::SkillActivated`].
    pub trust: String,
    /// Digest of the content of the skill.
    pub hash: String,
    /// Whether a person approved the use of the skill; if `false`, the skill was used.
    pub is_confirmed: bool,
}
