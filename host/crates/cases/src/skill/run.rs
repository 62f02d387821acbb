//! Runs a case of a skill: creates a host with only that skill, in temporary directories.
//!
//! Policy, approval, file tools and `bash` are the real ones. Only the model, and tools that the
//! program does not have, are test doubles.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::calls::{CallRecordingToolPolicy, SkillCallRecorder, SkillQuestionRecordingApprover};
use super::expect::find_skill_case_differences as compare;
use super::file::{SkillCase, SkillCaseScenario};
use super::seen::ObservedSkill;
use super::tools::FixedResponseTool;
use crate::doubles::ScriptedUser;
use crate::oversight::{
    DONE_STOP_REASON, describe_failed_turn, describe_unknown_tool_calls, describe_unused_replies,
};
use crate::run::RunError;
use crate::seen::serialize_to_string_or_empty;
use crate::workspace::TemporaryCaseDirectories;
use rind_lib::grant::Trust;
use rind_lib::host::{Host, Session};
use rind_lib::paths::RindPaths;
use rind_lib::provider::scripted::{Script, Scripted};
use rind_lib::session::SessionStore;
use rind_lib::skill::{
    ProgramAndVariableLookup, SessionSkills, Skill, SkillSearchDirectory, Source, discover_skills,
};
use rind_lib::tool::builtin::{CommandConfinementAndEnvironment, CommandConfinementMode};
use rind_lib::tool::policy::{ToolPolicy, ToolPolicyOptions};

/// Name of the built-in tool that runs shell commands.
const BASH_TOOL_NAME: &str = "bash";

/// Function that returns how `bash` runs commands in the directories of a case.
pub type CommandEnvironmentFactory = dyn Fn(RindPaths) -> BoxFuture<'static, Result<CommandConfinementAndEnvironment, String>>
    + Send
    + Sync;

/// Configuration for running test cases of skills.
#[derive(Clone)]
pub struct SkillCaseRunnerConfig {
    /// Determines how commands run in the directories of a case.
    pub commands: Arc<CommandEnvironmentFactory>,
    /// Lookup of the programs and environment variables that a skill may require.
    pub available: Arc<dyn ProgramAndVariableLookup + Send + Sync>,
}

impl fmt::Debug for SkillCaseRunnerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillCaseRunnerConfig")
            .finish_non_exhaustive()
    }
}

/// Runs a case of the skill in `folder`. Returns the behavior, the differences from the expected
/// behavior, and the duration.
///
/// # Errors
/// The case cannot be run. Wrong behavior of the skill is not an error but one of the differences.
pub async fn run_skill_case(
    runner: &SkillCaseRunnerConfig,
    folder: &Path,
    case: &SkillCase,
) -> Result<(ObservedSkill, Vec<String>, Duration), RunError> {
    let given = &case.given;
    let folder = folder.canonicalize()?;
    let skill = read_skill_of_case(runner, &folder, given)?;
    let workspace = TemporaryCaseDirectories::new(&given.files)?;
    let calls = SkillCallRecorder::default();
    let (id, dir) = (skill.id.clone(), skill.dir.clone());
    let model = Arc::new(Scripted::new(Script::new(
        given.build_model_replies(&skill.dir),
    )));
    let commands = (runner.commands)(workspace.paths.clone())
        .await
        .map_err(RunError::Commands)?;
    let refused = match &commands.confining {
        CommandConfinementMode::Refused(why) => Some(why.clone()),
        _ => None,
    };
    let host =
        build_skill_case_host(given, skill, &workspace, &calls, model.clone(), commands).await?;
    let mut session = host.session().create()?;
    let mut events = session.events();
    let mut seen = ObservedSkill::default();
    let started = Instant::now();
    let mut differences = run_turns(&mut session, given, &id, &mut seen).await?;
    let took = started.elapsed();
    session.close().await?;
    while let Ok(stamped) = events.try_recv() {
        seen.record_event(&stamped);
    }
    (seen.calls, seen.asked) = calls.take_calls_and_questions();
    seen.files = workspace.read_text_files();
    let seen = seen.with_path_placeholders(&workspace.root, &dir);
    differences.extend(compare(&case.expect, &seen));
    if !given.reply.is_empty() {
        let stop = case.expect.stop.as_deref();
        differences.extend(describe_unused_replies(&model.unused_reply_indices(), stop));
    }
    if case.expect.calls.is_none() && !case.expect.snapshot {
        differences.extend(describe_unknown_tool_calls(&seen.unknown_tools, "calls"));
    }
    if let Some(why) = refused.filter(|_| seen.has_executed_tool(BASH_TOOL_NAME)) {
        differences.push(format!(
            "`bash` was refused, because its commands cannot be confined: {why}"
        ));
    }
    Ok((seen, differences, took))
}

/// Reads the skill with the trust that the case sets. Removes from the skill's dependencies those
/// plugins that the case declares as loaded.
fn read_skill_of_case(
    runner: &SkillCaseRunnerConfig,
    folder: &Path,
    given: &SkillCaseScenario,
) -> Result<Skill, RunError> {
    let root = SkillSearchDirectory {
        trust: given.trust.unwrap_or(Trust::User),
        ..SkillSearchDirectory::new(Source::Local, folder.to_owned())
    };
    let found = discover_skills(&[root], &[], &*runner.available);
    if let Some(skill) = found.iter().next() {
        let mut skill = Skill::clone(skill);
        skill
            .library_depends
            .retain(|name| !given.plugins.contains(name));
        return Ok(skill);
    }
    let faults = found
        .unusable_skills()
        .iter()
        .flat_map(|one| &one.diagnostics);
    let faults: Vec<String> = faults.map(ToString::to_string).collect();
    Err(RunError::Skill(match faults.is_empty() {
        true => format!("there is none in {}", folder.display()),
        false => faults.join("\n"),
    }))
}

/// Creates the host of a case: the skill, a scripted model, the tools, and the person who is asked.
async fn build_skill_case_host(
    given: &SkillCaseScenario,
    skill: Skill,
    workspace: &TemporaryCaseDirectories,
    calls: &SkillCallRecorder,
    model: Arc<Scripted>,
    commands: CommandConfinementAndEnvironment,
) -> Result<Host, RunError> {
    let policy = ToolPolicy {
        rules: given.rules.clone(),
        mode: ToolPolicyOptions {
            has_terminal: true,
            ..ToolPolicyOptions::default()
        },
        ..ToolPolicy::default()
    };
    let person = given.answers.as_ref();
    let heard = calls.clone();
    let host = Host::builder()
        .provider(model, "test-model")
        .paths(workspace.paths.clone())
        .store(SessionStore::new(workspace.paths.sessions()).without_disk_sync())
        .built_in_tools(commands)
        .skills(SessionSkills::new([skill], Vec::new()))
        .policy(Arc::new(CallRecordingToolPolicy {
            policy,
            calls: calls.clone(),
        }))
        .approver(Arc::new(SkillQuestionRecordingApprover {
            person: person.map(|answers| ScriptedUser::new(answers, &[], 1)),
            calls: calls.clone(),
        }))
        .observe(move |stamped| heard.record_call_event(stamped));
    let tools = given.tools.iter();
    let host = tools.fold(host, |host, (name, canned)| {
        host.tool(Arc::new(FixedResponseTool::new(name, canned)))
    });
    Ok(host.build().await?)
}

/// Runs the turns of a case. Returns a failure for each turn before the last that did not end with
/// `done`. If the skill cannot be used, no turn runs.
async fn run_turns(
    session: &mut Session,
    given: &SkillCaseScenario,
    id: &str,
    seen: &mut ObservedSkill,
) -> Result<Vec<String>, RunError> {
    let first = match &given.input {
        Some(input) => input.clone(),
        None => {
            let arguments = given.arguments.clone().unwrap_or_else(|| "".into());
            let line = match &arguments {
                Value::String(text) if text.is_empty() => format!("/{id}"),
                Value::String(text) => format!("/{id} {text}"),
                other => format!("/{id} {other}"),
            };
            match session.invoke_skill(id, &arguments, &line).await {
                Ok(text) => {
                    if text != line {
                        seen.text.clone_from(&text);
                    }
                    text
                }
                Err(error) => {
                    seen.refused = error.to_string();
                    return Ok(Vec::new());
                }
            }
        }
    };
    let mut failed = Vec::new();
    for (n, input) in std::iter::once(&first).chain(&given.then).enumerate() {
        let outcome = session.turn(input).await?;
        seen.output = outcome.output;
        seen.stop = serialize_to_string_or_empty(&outcome.summary.stop);
        // Do not report the last turn here, because its stop reason is compared with the expected
        // one.
        if n < given.then.len() && seen.stop != DONE_STOP_REASON {
            failed.push(describe_failed_turn(n + 1, &seen.stop, &seen.output));
        }
    }
    Ok(failed)
}
