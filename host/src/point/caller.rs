//! Caller of a hook or a tool: the context that guests can ask for, and the chain of plugins that
//! caused the call.
//!
//! Guests see [`CallContext`] only. The call chain stays in the host; dispatch uses it so that a
//! plugin's hooks do not fire on calls that the plugin itself causes. Start from [`Caller`].

use std::borrow::Cow;
use std::sync::Arc;

use super::trace::Origin;
use crate::message::Usage;

/// Context of a call as guests may query it (`wit/caller.wit`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallContext {
    /// Session id.
    pub session: Arc<str>,
    /// Number of the turn within the session, from 1; 0 outside a turn.
    pub turn: u32,
    /// Number of the step within the turn, from 1; 0 outside a step.
    pub step: u32,
    /// `main`, or the id of a subagent.
    pub agent: Arc<str>,
    /// Nesting depth: 0 for the main agent, 1 for its subagents, and so on.
    pub depth: u32,
    /// Absolute path of the agent's working directory.
    pub workspace: Arc<str>,
    /// Name of the agent's model.
    pub model: Arc<str>,
    /// Tokens that this turn has used so far.
    pub usage: Usage,
    /// Cost of this turn so far in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// Tokens of this turn so far that were used by models without a known price.
    pub unpriced_tokens: u64,
    /// Tool calls made so far in this turn.
    pub tool_calls: u32,
    /// Id of the most recently activated skill.
    pub skill: Option<Arc<str>>,
}

/// Maximum depth of plugins calling plugins.
pub const MAX_NESTING: usize = 4;

/// Context of a call, and the plugins whose code caused it.
///
/// Every hook, tool and host call receives a caller. For example, if plugin `a` calls a tool and a
/// hook of plugin `b` judges that call, the call chain seen by `b` is `["a"]`.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Context that guests may ask for.
    pub context: CallContext,
    /// Names of the plugins whose code led to this call, outermost first. Their hooks do not fire,
    /// except as described in [`Caller::passes_over`].
    pub call_chain: Vec<Arc<str>>,
    /// Point of the running hook; `None` if a tool runs or no hook does. Set anew for each hook and
    /// tool of a plugin.
    pub point: Option<Cow<'static, str>>,
    /// Id of the tool call that is being judged, made or reported. A nested call, which a plugin
    /// makes, has an id of its own.
    pub call: Option<Arc<str>>,
}

impl Caller {
    /// Creates a caller with an empty call chain.
    #[must_use]
    pub fn new(context: CallContext) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }

    /// Returns the caller for work that belongs to a tool call.
    #[must_use]
    pub fn for_call(&self, id: &str) -> Self {
        Self {
            call: Some(id.into()),
            point: None,
            ..self.clone()
        }
    }

    /// Returns the origin that is recorded for actions of this caller.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            agent: self.context.agent.clone(),
            turn: self.context.turn,
            step: self.context.step,
            point: self.point.clone(),
            call_id: self.call.clone(),
        }
    }

    /// Returns this caller with `plugin` appended to its call chain.
    #[must_use]
    pub fn caused_by(&self, plugin: &Arc<str>) -> Self {
        let mut caller = self.clone();
        caller.call_chain.push(plugin.clone());
        caller
    }

    /// Copies `now` into `self`, without the strings that both already share. This runs at every
    /// call, and between two calls of a session only some numbers differ.
    pub fn update(&mut self, now: &Self) {
        let (kept, context) = (&mut self.context, &now.context);
        share_text(&mut kept.session, &context.session);
        share_text(&mut kept.agent, &context.agent);
        share_text(&mut kept.workspace, &context.workspace);
        share_text(&mut kept.model, &context.model);
        kept.turn = context.turn;
        kept.step = context.step;
        kept.depth = context.depth;
        kept.usage = context.usage;
        kept.cost_usd = context.cost_usd;
        kept.unpriced_tokens = context.unpriced_tokens;
        kept.tool_calls = context.tool_calls;
        kept.skill.clone_from(&context.skill);
        self.call_chain.clone_from(&now.call_chain);
        self.point.clone_from(&now.point);
        self.call.clone_from(&now.call);
    }

    /// Whether a hook of `plugin` is skipped because the plugin's own code caused the call.
    ///
    /// Gates are skipped only for direct calls. If a gate were skipped for the whole chain, a guard
    /// that asks the model or calls a tool would not judge the actions of other plugins that hook
    /// into that call.
    #[must_use]
    pub fn passes_over(&self, plugin: &str, is_gate: bool) -> bool {
        let is_it = |cause: &Arc<str>| &**cause == plugin;
        if is_gate {
            self.call_chain.last().is_some_and(is_it)
        } else {
            self.call_chain.iter().any(is_it)
        }
    }
}

/// Replaces `kept` with `now` unless both point to the same string.
fn share_text(kept: &mut Arc<str>, now: &Arc<str>) {
    if !Arc::ptr_eq(kept, now) {
        *kept = now.clone();
    }
}
