//! Derives the tree of a turn from its events: which part an event begins or ends, and which part
//! contains it.
//!
//! The module must not know how a reader shows a part, for example as a span or as an indented
//! line. Start from [`TurnPartId`].

use std::sync::Arc;

use super::{Event, Stamped};

/// A part of a turn that has a beginning and an end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TurnPartId {
    /// Turn of the main agent, or the whole run of a subagent, by the name of the agent.
    Agent(Arc<str>),
    /// Compaction of the conversation of this agent, or archival of one of its turns.
    Aside(Arc<str>),
    /// Model request of this agent, by the number of the request.
    Request(Arc<str>, u32),
    /// Tool call of this agent, by the id of the call.
    Call(Arc<str>, String),
}

impl TurnPartId {
    /// Returns the agent that the part belongs to. The part ends at the latest when this agent
    /// ends.
    pub fn owning_agent(&self) -> &Arc<str> {
        match self {
            Self::Agent(agent)
            | Self::Aside(agent)
            | Self::Request(agent, _)
            | Self::Call(agent, _) => agent,
        }
    }

    /// Returns the part of the turn (an agent, a request, a tool call, or a compaction or archival)
    /// that begins with an event; `None` if no part begins with it.
    pub fn part_begun_by_event(stamped: &Stamped) -> Option<Self> {
        let agent = stamped.agent.clone();
        match &stamped.event {
            Event::TurnStart { .. } => Some(Self::Agent(agent)),
            Event::SubagentStart { subagent, .. } => Some(Self::Agent(subagent.as_str().into())),
            Event::CompactStart { .. } | Event::ArchiveStart { .. } => Some(Self::Aside(agent)),
            Event::RequestStart { request, .. } => Some(Self::Request(agent, *request)),
            Event::ToolCall { call, .. } => Some(Self::Call(agent, call.id.clone())),
            _ => None,
        }
    }

    /// Returns the part of the turn (an agent, a request, a tool call, or a compaction or archival)
    /// that ends with an event; `None` if no part ends with it. A subagent ends with
    /// `subagent-end`, which comes after its `turn-end`.
    pub fn part_ended_by_event(stamped: &Stamped) -> Option<Self> {
        let agent = stamped.agent.clone();
        match &stamped.event {
            Event::TurnEnd { .. } if stamped.is_from_main_agent() => Some(Self::Agent(agent)),
            Event::SubagentEnd { subagent, .. } => Some(Self::Agent(subagent.as_str().into())),
            Event::CompactEnd { .. } | Event::ArchiveEnd { .. } => Some(Self::Aside(agent)),
            Event::RequestEnd { request, .. } => Some(Self::Request(agent, *request)),
            Event::ToolEnd { result, .. } => Some(Self::Call(agent, result.call_id.clone())),
            _ => None,
        }
    }

    /// Returns the innermost known part that contains an event: the tool call that the event names,
    /// otherwise an open compaction or archival, otherwise the agent.
    pub fn enclosing_part(stamped: &Stamped, is_known: impl Fn(&Self) -> bool) -> Option<Self> {
        let agent = || stamped.agent.clone();
        let call = match &stamped.event {
            Event::RequestStart { call_id, .. } | Event::SubagentStart { call_id, .. } => {
                call_id.as_deref()
            }
            Event::ToolCall { parent_id, .. } => parent_id.as_deref(),
            Event::ToolStart { call, .. } => Some(&*call.id),
            Event::ToolEnd { result, .. } => Some(&*result.call_id),
            Event::Hook { record } => record.call_id.as_deref(),
            Event::Access { record } => record.origin.call_id.as_deref(),
            _ => None,
        };
        call.map(|id| Self::Call(agent(), id.to_owned()))
            .filter(&is_known)
            .or_else(|| Some(Self::Aside(agent())).filter(&is_known))
            .or_else(|| Some(Self::Agent(agent())).filter(&is_known))
    }
}
