//! The format of cases of skills.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::cases::file::{CaseFormat, NOTHING_EXPECTED};
use crate::grant::Trust;
use crate::message::EffectClass;
use crate::provider::scripted::Reply;
use crate::tool::policy::PolicyRule;

/// Placeholder for the folder of the skill.
pub(super) const BASE: &str = "{baseDir}";

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillCase {
    /// Name, unique in its file.
    pub name: String,
    /// Situation.
    #[serde(default)]
    pub given: SkillGiven,
    /// Expected behavior.
    #[serde(default)]
    pub expect: SkillExpect,
    /// Line in the file.
    #[serde(skip)]
    pub line: usize,
}

/// Situation of a case. Everything may be absent: the person then starts the skill without arguments, and the model says "done".
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillGiven {
    /// Text of the person, on which the model may start the skill. Without it the person starts the skill.
    pub input: Option<String>,
    /// Arguments with which the person starts the skill: text, or a table where it has a schema.
    pub arguments: Option<Value>,
    /// Texts of the person in further turns.
    pub then: Vec<String>,
    /// Answers of the model, in the format of scripts. `{baseDir}` is the folder of the skill.
    pub reply: Vec<Reply>,
    /// Files of the workspace.
    pub files: BTreeMap<String, String>,
    /// Answers of the person who is asked: `yes`, `always`, or `no` with a reason behind it. Without this each answer is yes.
    pub answers: Option<Vec<String>>,
    /// Tools that are not the program's, each with its canned result.
    pub tools: BTreeMap<String, CannedTool>,
    /// Plugins of `library_depends` that count as loaded.
    pub plugins: Vec<String>,
    /// Rules of the operator.
    pub rules: Vec<PolicyRule>,
    /// Trust in the place of the skill; `user` without this.
    pub trust: Option<Trust>,
}

/// A double of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a text, or a table of `result`, `effect` and `error`"
)]
pub enum CannedTool {
    /// Text that it returns; it only reads.
    Result(String),
    /// More of it.
    Whole {
        /// Text that it returns.
        result: String,
        /// Class of its effects.
        #[serde(default)]
        effect: Option<EffectClass>,
        /// Whether the result is an error.
        #[serde(default)]
        error: bool,
    },
}

/// Expected behavior. What is absent is not compared, but for `refused` and `stop`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillExpect {
    /// Skills that became active, in order, as `count by user`; an empty list for none.
    pub skills: Option<Vec<String>>,
    /// Text that the reason holds why the skill could not be used.
    pub refused: Option<String>,
    /// Texts that the text of the skill holds, in order, as the model was given it.
    pub text: Option<Vec<String>>,
    /// All calls of the model, in order, each with how it came to run: `bash spared`, `write_file asked`, `search allowed`,
    /// `bash refused by skill count`.
    pub calls: Option<Vec<String>>,
    /// Tools that the person was asked about, in order; `skill` is the question before its first use.
    pub asked: Option<Vec<String>>,
    /// Texts that the results of calls hold, in order.
    pub results: Option<Vec<String>>,
    /// Texts that the notices hold, in order; an empty list for none at all.
    pub notices: Option<Vec<String>>,
    /// Output of the last turn.
    pub output: Option<String>,
    /// Reason for its end: `done`, `blocked`, `max-steps`, `failed`; `done` when absent.
    pub stop: Option<String>,
    /// Contents of files of the workspace afterwards.
    pub files: BTreeMap<String, String>,
    /// Compares everything with what is kept in `tests/snapshots`.
    pub snapshot: bool,
}

impl CaseFormat for SkillCase {
    const MAY_BE_LINKED: bool = false;

    fn name(&self) -> &str {
        &self.name
    }

    fn has_snapshot(&self) -> bool {
        self.expect.snapshot
    }

    fn set_line(&mut self, line: usize) {
        self.line = line;
    }

    fn fault(&self) -> Option<String> {
        let given = &self.given;
        let is_arguments = |value: &Value| value.is_string() || value.is_object();
        if given
            .arguments
            .as_ref()
            .is_some_and(|value| !is_arguments(value))
        {
            return Some("`given.arguments` is a text or a table".to_owned());
        }
        if given.input.is_some() && given.arguments.is_some() {
            return Some("`given.input` is what the person says, and `given.arguments` starts the skill; give one of them".to_owned());
        }
        (self.expect == SkillExpect::default()).then(|| NOTHING_EXPECTED.to_owned())
    }
}

impl SkillGiven {
    /// The answers of the model, for a skill in this folder.
    pub(super) fn script(&self, folder: &Path) -> Vec<Reply> {
        if self.reply.is_empty() {
            return vec![Reply {
                times: Some(0),
                ..Reply::text("done")
            }];
        }
        let folder = folder.display().to_string();
        let mut replies = self.reply.clone();
        for reply in &mut replies {
            if let Some(text) = &mut reply.text {
                *text = text.replace(BASE, &folder);
            }
            for call in &mut reply.tool_calls {
                resolve(&mut call.arguments, &folder);
            }
        }
        replies
    }
}

fn resolve(value: &mut Value, folder: &str) {
    match value {
        Value::String(text) => *text = text.replace(BASE, folder),
        Value::Array(all) => all.iter_mut().for_each(|value| resolve(value, folder)),
        Value::Object(all) => all.values_mut().for_each(|value| resolve(value, folder)),
        _ => {}
    }
}
