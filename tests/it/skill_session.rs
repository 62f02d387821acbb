//! Skills in sessions: what they keep agents to, how they are invoked, what the model is given.

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
use rind::skill::{Context, Interaction, Invocation, Skill, Skills, ToolPattern, parse_text};
use rind::tool::approval::ApprovalAnswer;
use serde_json::{Value, json};

use crate::harness::{Running, Setup};

/// A skill of the user with this text, that restricts nothing.
pub(crate) fn skill(id: &str, body: &str) -> Skill {
    let text = format!("---\ndescription: Does {id}.\n---\n{body}");
    let mut skill = parse_text(id, &text).unwrap();
    skill.dir = format!("/skills/{id}").into();
    skill.real_dir = skill.dir.clone();
    skill.file = skill.dir.join("SKILL.md");
    skill
}

fn patterns(names: &[&str]) -> Vec<ToolPattern> {
    names
        .iter()
        .map(|name| ToolPattern::new(name).unwrap())
        .collect()
}

/// A skill that leaves these tools.
pub(crate) fn only(id: &str, tools: &[&str]) -> Skill {
    let mut skill = skill(id, "Read and report.");
    skill.tools.allow = Some(patterns(tools));
    skill
}

fn setup(script: Vec<Reply>, skills: impl IntoIterator<Item = Skill>) -> Setup {
    let mut setup = Setup::new(script);
    setup.skills = Skills::new(skills, Vec::new());
    setup
}

fn use_skill(id: &str) -> Reply {
    Reply::call("skill", json!({ "skill": id }))
}

fn bash(command: &str) -> Reply {
    Reply::call("bash", json!({ "command": command }))
}

/// Events of skills: `+id` and `-id reason`.
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

/// Names of the tools of a request.
fn tools_of(running: &Running, request: usize) -> Vec<String> {
    let bodies = running.provider.bodies();
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
