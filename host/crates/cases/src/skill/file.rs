//! Format of the case files of skills.
//!
//! The files have the same tables as case files of plugins (`[[case]]` with `given` and `expect`), but
//! with other fields in them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::file::{CASE_WITHOUT_EXPECTATIONS_ERROR, CaseFileFormat};
use rind_lib::grant::Trust;
use rind_lib::message::EffectClass;
use rind_lib::provider::scripted::Reply;
use rind_lib::tool::policy::PolicyRule;

/// Placeholder in case files for the directory of the skill.
pub(super) const SKILL_FOLDER_PLACEHOLDER: &str = "{baseDir}";

/// Test case of a skill: a situation and the expected behavior.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillCase {
    /// Name of the case, unique in its file.
    pub name: String,
    /// Situation in which the skill is tested.
    #[serde(default)]
    pub given: SkillCaseScenario,
    /// Expected behavior of the model and the host with the skill.
    #[serde(default)]
    pub expect: SkillExpectation,
    /// Line of the file at which the case begins.
    #[serde(skip)]
    pub line: usize,
}

/// Situation of a case. All fields are optional: in an empty table, the person starts the skill
/// without arguments, and the model answers "done".
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillCaseScenario {
    /// Input of the first turn, in which the model may start the skill. If absent, the person
    /// starts the skill.
    pub input: Option<String>,
    /// Arguments with which the person starts the skill: text, or a table if the skill has a
    /// schema.
    pub arguments: Option<Value>,
    /// User inputs of the turns after the first.
    pub then: Vec<String>,
    /// Responses of the model, in the format of the scripted provider. `{baseDir}` is replaced by
    /// the directory of the skill.
    pub reply: Vec<Reply>,
    /// Files of the workspace before the first turn: path and text.
    pub files: BTreeMap<String, String>,
    /// Scripted answers to approval questions: `yes`, `always`, or `no REASON`. If absent, every
    /// answer is yes.
    pub answers: Option<Vec<String>>,
    /// Tools that the program does not have, by name, each with its canned result.
    pub tools: BTreeMap<String, CannedTool>,
    /// Names of plugins that are treated as loaded when the skill's `library_depends` is checked.
    pub plugins: Vec<String>,
    /// Policy rules of the operator for tool calls.
    pub rules: Vec<PolicyRule>,
    /// Trust of the skill's location; `user` if absent.
    pub trust: Option<Trust>,
}

/// Tool that returns a fixed result in a test case.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a text, or a table of `result`, `effect` and `error`"
)]
pub enum CannedTool {
    /// Text that the tool returns; the tool counts as read-only.
    Result(String),
    /// Result with the effect class of the tool, or with the mark that it is an error.
    Whole {
        /// Text that each call of the tool returns.
        result: String,
        /// Effect class of the tool, which the policy judges; read-only if absent.
        #[serde(default)]
        effect: Option<EffectClass>,
        /// Whether the tool returns its result as an error.
        #[serde(default)]
        error: bool,
    },
}

/// Expected behavior. Absent fields are not compared, except for `refused` and `stop`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillExpectation {
    /// Skills that became active, in order, for example `count by user`; an empty list expects
    /// none.
    pub skills: Option<Vec<String>>,
    /// Text that occurs in the reason why the skill could not be used; an empty text matches any
    /// reason.
    pub refused: Option<String>,
    /// Texts that occur in the skill's text as shown to the model, in order.
    pub text: Option<Vec<String>>,
    /// All calls of the model, in order, each with its decision: `bash spared`, `write_file asked`,
    /// `search allowed`, `bash refused by skill count`.
    pub calls: Option<Vec<String>>,
    /// Tools about which the person was asked, in order; `skill` stands for the question before the
    /// first use of the skill.
    pub asked: Option<Vec<String>>,
    /// Texts that occur in the results of calls, in order.
    pub results: Option<Vec<String>>,
    /// Texts that occur in the notices, in order; an empty list expects no notices.
    pub notices: Option<Vec<String>>,
    /// Expected output of the last turn.
    pub output: Option<String>,
    /// Stop reason of the last turn: `done`, `blocked`, `max-steps`, `failed`. Default: `done`.
    pub stop: Option<String>,
    /// Expected text of workspace files after the last turn, by path.
    pub files: BTreeMap<String, String>,
    /// Whether the complete behavior is compared with the snapshot in `tests/snapshots`.
    pub snapshot: bool,
}

impl CaseFileFormat for SkillCase {
    const ALLOWS_SYMLINKED_FOLDER: bool = false;

    fn name(&self) -> &str {
        &self.name
    }

    fn is_case_snapshot_checked(&self) -> bool {
        self.expect.snapshot
    }

    fn set_start_line_number(&mut self, line: usize) {
        self.line = line;
    }

    fn find_validation_error(&self) -> Option<String> {
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
            return Some("`given.input` is a message of the person, and `given.arguments` starts the skill directly; use one of them".to_owned());
        }
        (self.expect == SkillExpectation::default())
            .then(|| CASE_WITHOUT_EXPECTATIONS_ERROR.to_owned())
    }
}

impl SkillCaseScenario {
    /// Returns the responses of the model, with `{baseDir}` replaced by `folder`. If the case has
    /// no responses, the model answers "done" to every request.
    pub(super) fn build_model_replies(&self, folder: &Path) -> Vec<Reply> {
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
                *text = text.replace(SKILL_FOLDER_PLACEHOLDER, &folder);
            }
            for call in &mut reply.tool_calls {
                replace_base_dir_placeholders(&mut call.arguments, &folder);
            }
        }
        replies
    }
}

fn replace_base_dir_placeholders(value: &mut Value, folder: &str) {
    match value {
        Value::String(text) => *text = text.replace(SKILL_FOLDER_PLACEHOLDER, folder),
        Value::Array(all) => all
            .iter_mut()
            .for_each(|value| replace_base_dir_placeholders(value, folder)),
        Value::Object(all) => all
            .values_mut()
            .for_each(|value| replace_base_dir_placeholders(value, folder)),
        _ => {}
    }
}
