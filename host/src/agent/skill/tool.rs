//! The tool `skill`: returns the text of a skill, or a file of the skill's folder, to the model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::active::SKILL_TOOL_NAME;
use super::fork::run_skill_in_subagent;
use super::gate::SkillInvocationChecker;
use super::parts::first_text_line;
use super::read::{describe_skill_files, extract_skill_text_page, read_skill_file};
use super::ready::SkillInvoker;
use crate::agent::scope::{ActiveTurns, SharedTurnState};
use crate::agent::spec::AgentSpec;
use crate::message::{EffectClass, SkillPart, ToolSpec};
use crate::skill::{Skill, SkillExecutionContext, SkillInvocationRule};
use crate::tool::builtin::{build_tool_spec, run_until_cancelled};
use crate::tool::policy::{PolicyCall, ToolVerdict};
use crate::tool::subject::{Subject, WorkspacePath};
use crate::tool::{Tool, ToolCtx, ToolOutput};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Name of the skill, as in the list of skills.
    skill: String,
    /// Arguments of the skill as one text; absent if there are none.
    #[serde(default)]
    args: Option<String>,
    /// Arguments by name, for a skill that declares named arguments.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    /// A file of the skill's folder to read, relative to it. Only once the skill was invoked.
    #[serde(default)]
    file: Option<String>,
    /// Number of the first line to read, from 1, of the text or the file.
    #[serde(default)]
    #[schemars(range(min = 1))]
    offset: Option<u64>,
}

/// The tool `skill`. It only reads: the work of a skill consists of separate calls, which are
/// judged like any other.
struct SkillTool {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

/// Adds the tool if there are skills that are not disabled.
pub(in crate::agent) fn add_skill_tool(spec: &mut AgentSpec, active_turns: &ActiveTurns) {
    let is_usable = |invocation: SkillInvocationRule| invocation != SkillInvocationRule::Disabled;
    if !spec.skills.iter().any(|skill| is_usable(skill.invocation)) {
        return;
    }
    let tool = SkillTool {
        spec: build_tool_spec::<Arguments>(
            SKILL_TOOL_NAME,
            "Invokes a skill: returns its instructions, which you then follow. With `file`, reads a file of its folder.",
            EffectClass::Read,
        ),
        active_turns: active_turns.clone(),
    };
    spec.add_built_in_tool(Arc::new(tool));
}

async fn answer_skill_call(
    scope: &Arc<SharedTurnState>,
    asked: Arguments,
    ctx: &ToolCtx,
) -> Result<ToolOutput, String> {
    let offset = asked.offset.unwrap_or(1).max(1);
    if let Some(file) = &asked.file {
        let skill = scope.skills.find_used_skill(&asked.skill)?;
        if !scope.spec.may_read_folder(&skill.real_dir) {
            return Err(format!(
                "the folder of the skill {} contains Rind's own folders, so none of its files are read; move the skill into a folder of its own",
                skill.id
            ));
        }
        check_skill_read_permission(&scope.spec, &skill, file)?;
        return read_skill_file(&skill, file, offset, &ctx.cancel).await;
    }
    if offset > 1 {
        let skill = scope.skills.find_used_skill(&asked.skill)?;
        let text = scope.skills.active_skill_text(&skill.id).ok_or_else(|| {
            format!(
                "the skill {} is not active any more: invoke it without `offset`",
                skill.id
            )
        })?;
        record_skill_text_in_result(scope, ctx, &skill.id, &text);
        return extract_skill_text_page(&text, offset);
    }
    let arguments = match (asked.arguments, asked.args) {
        (Some(named), _) => Value::Object(named),
        (None, text) => Value::String(text.unwrap_or_default()),
    };
    let gate = SkillInvocationChecker {
        spec: &scope.spec,
        tools: &scope.skills.main_agent_tools(),
        approvals: &scope.approvals,
        memory: &scope.family.skills,
    };
    // If the call chain is longer than it was when the agent was started, the tool is called by a
    // plugin and not by the model.
    let is_plugin = ctx.caller.call_chain.len() > scope.spec.call_chain.len();
    let plugin = ctx.caller.call_chain.last().filter(|_| is_plugin);
    let by = plugin.map_or(SkillInvoker::Model, |name| {
        SkillInvoker::Plugin(name.clone())
    });
    let ready = gate
        .check_and_prepare_skill(&asked.skill, &arguments, by)
        .await?;
    if ready.skill.context == SkillExecutionContext::Fork {
        let caller = ctx.caller.clone();
        let answer = run_skill_in_subagent(scope, caller, ready, "").await;
        return Ok(match answer {
            Ok(answer) => ToolOutput::ok(answer),
            Err(error) => ToolOutput::from_error_content(error.to_string()),
        });
    }
    if scope.skills.is_skill_text_in_conversation(&ready) {
        let id = &ready.skill.id;
        return Ok(ToolOutput::ok(format!(
            "The skill {id} is active already, with the same text, which stands above."
        )));
    }
    scope.activate_skill(&ctx.caller, &ready).await;
    record_skill_text_in_result(scope, ctx, &ready.skill.id, &ready.text);
    let mut output = extract_skill_text_page(&ready.text, 1)?;
    output
        .content
        .push_text(&describe_skill_files(&ready.skill).await);
    if !ready.skill.tools.permits_every_tool() {
        let left = scope.skills.permitted_tool_names();
        output.content.push_text(&format!(
            "\n[while this skill is active, these tools can be called: {}]",
            left.join(", ")
        ));
    }
    Ok(output)
}

/// Records that the result of the current call contains the text of a skill.
fn record_skill_text_in_result(scope: &SharedTurnState, ctx: &ToolCtx, id: &str, text: &str) {
    if let Some(call) = &ctx.caller.call {
        let part = SkillPart::Text(id.to_owned());
        scope
            .skills
            .parts
            .record_skill_content(call, part, first_text_line(text).to_owned());
    }
}

/// Checks that no rule of the operator denies or requires approval for reading this file of a
/// skill. Only files in the workspace are checked. Without such a rule, reading a file of a skill
/// needs no approval.
fn check_skill_read_permission(spec: &AgentSpec, skill: &Skill, file: &str) -> Result<(), String> {
    let below = Path::new(file).strip_prefix(&skill.dir).ok();
    let path = skill.dir.join(below.unwrap_or(Path::new(file)));
    let Ok(path) = path.strip_prefix(&spec.workspace) else {
        return Ok(());
    };
    let tool = ToolSpec::from_name_and_effect("read_file", EffectClass::Read);
    // Remove `.` components, which the paths of rules do not have either.
    let path: PathBuf = path.components().collect();
    let path = path.to_string_lossy().into_owned();
    let call = PolicyCall {
        spec: &tool,
        arguments: &json!({"path": &path}),
        subject: &Subject::File(WorkspacePath::Known(path)),
        may: &[],
        is_asked: false,
    };
    match spec.policy.decide(&call).verdict {
        ToolVerdict::Allow => Ok(()),
        _ if spec.policy.can_skill_approve_call(&call) => Ok(()),
        ToolVerdict::Deny(why) => Err(format!("refused by policy: {why}")),
        ToolVerdict::Ask | ToolVerdict::DryRun(_) => Err(
            "a rule of the operator's asks about this file; read it with `read_file`".to_owned(),
        ),
    }
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        run_until_cancelled(value, ctx, move |asked| async move {
            match self
                .active_turns
                .find_active_turn(&ctx.caller.context.agent)
            {
                Some(scope) => answer_skill_call(&scope, asked, ctx).await,
                None => Err("no turn is running".to_owned()),
            }
            .unwrap_or_else(ToolOutput::from_error_content)
        })
    }
}
