//! Caller of a hook or a tool: the context that guests can ask for, and the chain of plugins that caused the call.

use std::borrow::Cow;
use std::sync::Arc;

use super::trace::Origin;
use crate::message::Usage;

/// The caller as guests may ask for it (`wit/caller.wit`).
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
    /// 0 for the main agent, one more for each level of subagent.
    pub depth: u32,
    /// Absolute path of the folder that the agent works in.
    pub workspace: Arc<str>,
    /// Name of the agent's model.
    pub model: Arc<str>,
    /// Tokens that this turn has used so far.
    pub usage: Usage,
    /// Cost of this turn so far in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// Tokens of this turn so far whose model has no known price.
    pub unpriced_tokens: u64,
    /// Tool calls made so far in this turn.
    pub tool_calls: u32,
    /// Id of the skill that became active last.
    pub skill: Option<Arc<str>>,
}

/// Maximum depth of plugins calling plugins.
pub const MAX_NESTING: usize = 4;

/// The context, and which plugins' code led here.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Context that guests may ask for.
    pub context: CallContext,
    /// Names of the plugins whose code is on the way to this call, outermost first. Hooks of these do not fire, but
    /// see [`Caller::passes_over`].
    pub call_chain: Vec<Arc<str>>,
    /// Point of the hook that runs; `None` while none does, or a tool. A plugin's hooks and tools set their own.
    pub point: Option<Cow<'static, str>>,
    /// Id of the tool call that is judged, made or told of. A call that a plugin makes within another has its own.
    pub call: Option<Arc<str>>,
}

impl Caller {
    /// A caller that no plugin stands behind.
    #[must_use]
    pub fn new(context: CallContext) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }

    /// Returns the caller for what belongs to a tool call.
    #[must_use]
    pub fn for_call(&self, id: &str) -> Self {
        Self {
            call: Some(id.into()),
            point: None,
            ..self.clone()
        }
    }

    /// Returns the origin of what is done for this caller.
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

    /// Returns the caller one plugin deeper.
    #[must_use]
    pub fn caused_by(&self, plugin: &Arc<str>) -> Self {
        let mut caller = self.clone();
        caller.call_chain.push(plugin.clone());
        caller
    }

    /// Becomes a copy of `now`. What the two share already is left alone: from call to call of a session that is everything
    /// but some numbers, and this runs at every call.
    pub fn update(&mut self, now: &Self) {
        let (kept, context) = (&mut self.context, &now.context);
        share(&mut kept.session, &context.session);
        share(&mut kept.agent, &context.agent);
        share(&mut kept.workspace, &context.workspace);
        share(&mut kept.model, &context.model);
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

    /// Whether a hook of `plugin` does not fire because its own code led here. A gate judges what another plugin does while its
    /// own calls that: a guard that asks the model or calls a tool would otherwise be out of the way of whoever is hooked there.
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

/// Puts `now` in place of `kept` unless they are one.
fn share(kept: &mut Arc<str>, now: &Arc<str>) {
    if !Arc::ptr_eq(kept, now) {
        *kept = now.clone();
    }
}
