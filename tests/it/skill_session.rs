//! Skills in sessions: what they keep agents to, how they are invoked, what the model is given.

mod enforce;
mod invoke;

use std::path::Path;

use rind::event::Event;
use rind::grant::Trust;
use rind::provider::scripted::Reply;
use rind::skill::{
    Context, Interaction, Invocation, Requires, Skill, Skills, Source, ToolPattern, ToolScope,
};
use serde_json::{Value, json};

use crate::harness::{Running, Setup};

/// A skill of the user with this text, that restricts nothing.
pub(crate) fn skill(id: &str, body: &str) -> Skill {
    Skill {
        id: id.into(),
        label: id.into(),
        description: format!("Does {id}."),
        when_to_use: None,
        body: body.into(),
        dir: format!("/skills/{id}").into(),
        file: format!("/skills/{id}/SKILL.md").into(),
        is_flat: false,
        source: Source::User,
        installed: None,
        trust: Trust::User,
        invocation: Invocation::Auto,
        user_invocable: true,
        tools: ToolScope::default(),
        spares: Vec::new(),
        side_effects: Vec::new(),
        arguments: None,
        argument_names: Vec::new(),
        argument_hint: None,
        interaction: Interaction::Returning,
        context: Context::Inline,
        agent: None,
        model: None,
        effort: None,
        paths: Vec::new(),
        requires: Requires::default(),
        missing: Vec::new(),
        library_depends: Vec::new(),
        attach: false,
        generated_from: None,
        version: None,
        license: None,
        compatibility: None,
        metadata: std::collections::BTreeMap::new(),
        hash: format!("hash of {id}"),
        is_restricted: false,
        diagnostics: Vec::new(),
    }
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
