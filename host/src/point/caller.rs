//! Caller of a hook or a tool: the context that guests can query, and the chain of plugins that
//! caused the call.
//!
//! Guests see only [`PluginCallContext`]. The call chain is not passed to guests; the dispatcher
//! uses it so that a plugin's hooks are not called for calls that the plugin itself causes. Start
//! from [`Caller`].

use std::borrow::Cow;
use std::sync::Arc;

use super::trace::Origin;
use crate::message::Usage;

/// Context of a call of a plugin, which the called plugin can query (`wit/caller.wit`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginCallContext {
    /// Id of the session in which the call is made.
    pub session: Arc<str>,
    /// Number of the turn within the session, from 1; 0 outside a turn.
    pub turn: u32,
    /// Number of the step within the turn, from 1; 0 outside a step.
    pub step: u32,
    /// Agent in which the call is made: `main`, or the id of a subagent.
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
    /// Number of tool calls made so far in this turn.
    pub tool_calls: u32,
    /// Id of the most recently activated skill, if any.
    pub skill: Option<Arc<str>>,
}

/// Maximum length of a chain of plugins that call each other.
pub const MAX_PLUGIN_CALL_DEPTH: usize = 4;

/// Context of a call, and the plugins whose code caused it.
///
/// Every hook, tool and host call receives a caller. For example, if plugin `a` calls a tool and a
/// hook of plugin `b` judges that call, the call chain seen by `b` is `["a"]`.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Context of the call, which guests may query.
    pub context: PluginCallContext,
    /// Names of the plugins whose code led to this call, outermost first. Their hooks are not
    /// called, except as described in [`Caller::should_skip_hooks_of`].
    pub call_chain: Vec<Arc<str>>,
    /// Point of the running hook; `None` if a tool runs or nothing of a plugin runs. The host sets
    /// it before each call of a hook or tool.
    pub point: Option<Cow<'static, str>>,
    /// Id of the tool call that hooks judge, that runs, or whose result hooks receive. A tool call
    /// that a plugin makes during another call has a separate id.
    pub call: Option<Arc<str>>,
}

impl Caller {
    /// Creates a caller with an empty call chain: no plugin's code caused the call.
    #[must_use]
    pub fn new(context: PluginCallContext) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }

    /// Returns a copy of this caller for work that belongs to the tool call `id`.
    #[must_use]
    pub fn for_tool_call(&self, id: &str) -> Self {
        Self {
            call: Some(id.into()),
            point: None,
            ..self.clone()
        }
    }

    /// Returns the origin that is recorded for actions of this caller.
    #[must_use]
    pub fn action_origin(&self) -> Origin {
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
    pub fn with_calling_plugin(&self, plugin: &Arc<str>) -> Self {
        let mut caller = self.clone();
        caller.call_chain.push(plugin.clone());
        caller
    }

    /// Copies `now` into `self`, but not the strings that both already share. The function runs at
    /// every call, and two successive calls of a session usually differ in a few numbers only.
    pub fn copy_changed_fields_from(&mut self, now: &Self) {
        let (kept, context) = (&mut self.context, &now.context);
        replace_arc_str_if_different(&mut kept.session, &context.session);
        replace_arc_str_if_different(&mut kept.agent, &context.agent);
        replace_arc_str_if_different(&mut kept.workspace, &context.workspace);
        replace_arc_str_if_different(&mut kept.model, &context.model);
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
    /// A gate is skipped only if the plugin caused the call directly. For indirect calls it runs:
    /// if a guard asks the model, a hook of another plugin may act during that request, and the
    /// guard must still judge that action.
    #[must_use]
    pub fn should_skip_hooks_of(&self, plugin: &str, is_gate: bool) -> bool {
        let is_it = |cause: &Arc<str>| &**cause == plugin;
        if is_gate {
            self.call_chain.last().is_some_and(is_it)
        } else {
            self.call_chain.iter().any(is_it)
        }
    }
}

/// Replaces `kept` with `now` unless both point to the same string.
fn replace_arc_str_if_different(kept: &mut Arc<str>, now: &Arc<str>) {
    if !Arc::ptr_eq(kept, now) {
        *kept = now.clone();
    }
}
