//! Tests of skills in sessions: the tools to which they restrict agents, their invocation, and the
//! text for the model.

mod about;
mod attach;
mod attack;
mod enforce;
mod invoke;
mod model;
mod resume;
mod spare;

use std::path::Path;

use rind::event::Event;
use rind::grant::Trust;
use rind::provider::scripted::Reply;
use rind::skill::{
    SessionSkills, Skill, SkillExecutionContext, SkillInvocationRule, SkillLifetime,
    SkillToolNamePattern, parse_text,
};
use rind::tool::approval::ApprovalAnswer;
use serde_json::{Value, json};

use crate::harness::{Running, Setup};

/// Returns a skill of the user with this text and without restrictions.
pub(crate) fn skill(id: &str, body: &str) -> Skill {
    let text = format!("---\ndescription: Does {id}.\n---\n{body}");
    let mut skill = parse_text(id, &text).unwrap();
    skill.dir = format!("/skills/{id}").into();
    skill.real_dir = skill.dir.clone();
    skill.file = skill.dir.join("SKILL.md");
    skill
}

fn patterns(names: &[&str]) -> Vec<SkillToolNamePattern> {
    names
        .iter()
        .map(|name| SkillToolNamePattern::new(name).unwrap())
        .collect()
}

/// Returns a skill that allows only these tools.
pub(crate) fn only(id: &str, tools: &[&str]) -> Skill {
    let mut skill = skill(id, "Read and report.");
    skill.tools.allow = Some(patterns(tools));
    skill
}

fn setup(script: Vec<Reply>, skills: impl IntoIterator<Item = Skill>) -> Setup {
    let mut setup = Setup::new(script);
    setup.skills = SessionSkills::new(skills, Vec::new());
    setup
}

fn use_skill(id: &str) -> Reply {
    Reply::call("skill", json!({ "skill": id }))
}

fn bash(command: &str) -> Reply {
    Reply::call("bash", json!({ "command": command }))
}

/// Returns the events of skills as `+id by SOURCE` and `-id REASON`.
fn told(running: &Running) -> Vec<String> {
    let told = |event: &Event| match event {
        Event::SkillActivated { skill, by, .. } => Some(format!("+{skill} by {by}")),
        Event::SkillEnded { skill, reason } => Some(format!("-{skill} {reason}")),
        _ => None,
    };
    running
        .stream
        .iter()
        .filter_map(|stamped| told(&stamped.event))
        .collect()
}

/// Returns the names of the tools that a request offers to the model.
fn tools_of(running: &Running, request: usize) -> Vec<String> {
    let bodies = running.provider.recorded_request_bodies();
    let tools = bodies[request]["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let name = |tool: &Value| {
        tool.as_str()
            .or(tool["name"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    tools.iter().map(name).collect()
}

/// Writes a file, and the folders above it.
fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
