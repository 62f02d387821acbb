//! Makes the agent of a session: adds the host's own tools and the list of skills to its parts.

use std::sync::Arc;

use super::agent::Agent;
use super::scope::{ActiveTurns, Family};
use super::skill::SkillMemory;
use super::spec::AgentSpec;
use super::{archive, skill};

impl Agent {
    /// An agent that has not done anything yet.
    #[must_use]
    pub(crate) fn new(mut spec: AgentSpec) -> Self {
        let family = Family {
            session: spec.session.id().clone(),
            active_turns: ActiveTurns::default(),
            halt: Arc::default(),
            root: spec.session.clone(),
            parent: None,
            skills: Arc::new(SkillMemory::of_session(&spec)),
        };
        archive::add_tools(&mut spec, &family.active_turns);
        let notice = skill::add_to(&mut spec, &family.active_turns);
        let mut agent = Self::of_family(spec, family);
        let lasting = agent.skills.all();
        agent.tell_at_opening(lasting.iter().map(|skill| skill.event()).chain(notice));
        agent
    }
}
