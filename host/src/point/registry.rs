//! Hooks bound to each point, in the order in which they run.
//!
//! The order is by priority, then by plugin name. The registry is built once from the loaded
//! plugins and then only read; replacing the hooks of one plugin makes a copy. It knows no plugin
//! code, only [`Hook`]. Start from [`HookRegistry::add`].

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustc_hash::FxBuildHasher;

use super::caller::Caller;
use super::failure::OnFailure;
use super::payload::{FinishedCall, ProposedCall};
use super::streaming::StreamedTextDisplayMode;
use super::{AnyPluginDefinedPoint, ExtensionPoint, Hook, catalog};
use crate::message::Message;

/// Default priority of a hook. Hooks with a lower number run first.
pub const DEFAULT_HOOK_PRIORITY: u16 = 100;

/// Default deadline of one call of a hook.
pub const DEFAULT_HOOK_DEADLINE: Duration = Duration::from_secs(5);

/// Description of a hook, without its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSpec {
    /// Name of the plugin that has the hook.
    pub plugin: Arc<str>,
    /// Name of the point; `owner.NAME` for a plugin-defined point.
    pub point: String,
    /// Priority of the hook. Hooks with a lower number run first; hooks of equal priority run in
    /// order of their plugins' names.
    pub priority: u16,
    /// Deadline of one call of the hook.
    pub deadline: Duration,
    /// Effect on the turn if the hook fails.
    pub on_failure: OnFailure,
    /// Whether the turn continues without waiting for the hook; observe points only.
    pub is_async: bool,
    /// Whether the hook may change the conversation (side effect `session`).
    pub may_change: bool,
    /// Rights that the manifest leaves to the hook; `None` means all rights of the point.
    pub may: Option<Vec<String>>,
    /// Tools for whose calls the hook is called; `None` means that it is called for all calls. Has
    /// no effect at points that have no tool call as payload.
    pub only_tools: Option<Vec<String>>,
    /// Whether the hook is called only for answers of the model that call no tool.
    pub only_final: bool,
    /// Number of bytes that the text of a result must exceed for the hook to be called; `None`
    /// means no minimum. Has no effect at points that have no result as payload.
    pub only_over: Option<u64>,
}

impl HookSpec {
    /// Describes a native hook at a built-in point, with the defaults of the point and all of its
    /// rights.
    #[must_use]
    pub fn for_native_hook<P: ExtensionPoint>(name: &str) -> Self {
        let row = catalog::find_builtin_extension_point(P::NAME);
        Self {
            plugin: name.into(),
            point: P::NAME.to_owned(),
            priority: DEFAULT_HOOK_PRIORITY,
            deadline: DEFAULT_HOOK_DEADLINE,
            on_failure: row.map_or(
                OnFailure::Block,
                catalog::BuiltinExtensionPoint::default_failure_action,
            ),
            is_async: false,
            may_change: true,
            may: None,
            only_tools: None,
            only_final: false,
            only_over: None,
        }
    }

    /// Whether the conditions of the hook (`only_tools`, `only_final`, `only_over`) hold for this
    /// payload.
    pub(super) fn applies_to<P: ExtensionPoint>(&self, payload: &P::Payload) -> bool {
        let payload: &dyn Any = payload;
        if self.only_final
            && let Some(answer) = payload.downcast_ref::<Message>()
        {
            return answer.tool_calls().next().is_none();
        }
        if self.only_tools.is_none() && self.only_over.is_none() {
            return true;
        }
        let finished = payload.downcast_ref::<Arc<FinishedCall>>();
        if let (Some(least), Some(finished)) = (self.only_over, finished)
            && finished.result.content.text().len() as u64 <= least
        {
            return false;
        }
        let Some(tools) = &self.only_tools else {
            return true;
        };
        let proposed = payload.downcast_ref::<ProposedCall>();
        let proposed = proposed.map(|proposed| &proposed.call);
        let call = proposed.or(finished.map(|finished| &finished.call));
        call.is_none_or(|call| tools.contains(&call.name))
    }

    /// Whether the hook has a right: its extension point offers the right, and the plugin's
    /// manifest does not exclude it.
    #[must_use]
    pub fn has_outcome_right(&self, right: &str) -> bool {
        catalog::find_builtin_extension_point(&self.point)
            .is_some_and(|row| row.rights.contains(&right))
            && self
                .may
                .as_ref()
                .is_none_or(|may| may.iter().any(|name| name == right))
    }
}

/// Hook, with its description.
pub struct HookWithSpec<P: ExtensionPoint> {
    /// Description of the hook.
    pub spec: Arc<HookSpec>,
    /// Implementation of the hook, which the dispatcher calls.
    pub hook: Arc<dyn Hook<P>>,
}

impl<P: ExtensionPoint> Clone for HookWithSpec<P> {
    fn clone(&self) -> Self {
        Self {
            spec: self.spec.clone(),
            hook: self.hook.clone(),
        }
    }
}

/// Hooks of one point in order. The point's type is erased, so that one map can store the hooks of
/// all points.
trait TypeErasedHookList: Any + Send + Sync {
    /// Returns a copy without the hooks of this plugin.
    fn without_hooks_of_plugin(&self, plugin: &str) -> Box<dyn TypeErasedHookList>;

    /// Adds the hooks that another registry has at the same point.
    fn insert_hooks_in_order(&mut self, other: Box<dyn Any>);
}

impl<P: ExtensionPoint> TypeErasedHookList for Vec<HookWithSpec<P>> {
    fn without_hooks_of_plugin(&self, plugin: &str) -> Box<dyn TypeErasedHookList> {
        let others = self.iter().filter(|bound| &*bound.spec.plugin != plugin);
        Box::new(others.cloned().collect::<Self>())
    }

    fn insert_hooks_in_order(&mut self, other: Box<dyn Any>) {
        if let Ok(other) = other.downcast::<Self>() {
            other
                .into_iter()
                .for_each(|bound| insert_hook_in_order(self, bound));
        }
    }
}

/// Inserts a hook at its position in the order of execution.
fn insert_hook_in_order<P: ExtensionPoint>(hooks: &mut Vec<HookWithSpec<P>>, new: HookWithSpec<P>) {
    let place = |spec: &HookSpec| (spec.priority, spec.plugin.clone());
    let at = hooks.partition_point(|bound| place(&bound.spec) <= place(&new.spec));
    hooks.insert(at, new);
}

/// All hooks of all points, in their order.
///
/// Built once from the loaded plugins, scripts and native hooks, then only read. To reload a
/// plugin, [`HookRegistry::with_replaced_plugin_hooks`] creates a changed copy, so that a dispatch
/// in progress is not affected.
#[derive(Default)]
pub struct HookRegistry {
    /// Hooks of built-in points, keyed by the type of the point, which avoids hashing names at
    /// every dispatch.
    built_in: HashMap<TypeId, Box<dyn TypeErasedHookList>, FxBuildHasher>,
    /// Hooks of plugin-defined points, keyed by the point's full name.
    defined: HashMap<String, Box<dyn TypeErasedHookList>, FxBuildHasher>,
    specs: Vec<Arc<HookSpec>>,
    /// Cached [`StreamedTextDisplayMode`] for calls that skip no hook, because it is needed several
    /// times per step.
    streaming: OnceLock<StreamedTextDisplayMode>,
}

/// Whether points of this type are defined by plugins.
fn is_plugin_defined_point<P: ExtensionPoint>() -> bool {
    TypeId::of::<P>() == TypeId::of::<AnyPluginDefinedPoint>()
}

/// Returns a copy of `hooks` in which those of `plugin` are replaced by `with`.
fn replace_plugin_hooks<K: Clone + Eq + Hash>(
    hooks: &HashMap<K, Box<dyn TypeErasedHookList>, FxBuildHasher>,
    plugin: &str,
    with: HashMap<K, Box<dyn TypeErasedHookList>, FxBuildHasher>,
) -> HashMap<K, Box<dyn TypeErasedHookList>, FxBuildHasher> {
    let kept = hooks.iter();
    let kept = kept.map(|(point, hooks)| (point.clone(), hooks.without_hooks_of_plugin(plugin)));
    let mut all: HashMap<_, _, FxBuildHasher> = kept.collect();
    for (point, new) in with {
        match all.get_mut(&point) {
            Some(hooks) => hooks.insert_hooks_in_order(new),
            None => {
                all.insert(point, new);
            }
        }
    }
    all
}

impl HookRegistry {
    /// Binds a hook to its point, at the position that its priority and its plugin's name
    /// determine. For plugin-defined points `spec.point` selects the point.
    pub fn add<P: ExtensionPoint>(&mut self, spec: HookSpec, hook: Arc<dyn Hook<P>>) {
        let spec = Arc::new(spec);
        self.specs.push(spec.clone());
        self.streaming.take();
        let new = || -> Box<dyn TypeErasedHookList> { Box::new(Vec::<HookWithSpec<P>>::new()) };
        let slot = if is_plugin_defined_point::<P>() {
            let name = spec.point.clone();
            self.defined.entry(name).or_insert_with(new)
        } else {
            self.built_in.entry(TypeId::of::<P>()).or_insert_with(new)
        };
        let slot: &mut dyn Any = &mut **slot;
        if let Some(bound) = slot.downcast_mut::<Vec<HookWithSpec<P>>>() {
            insert_hook_in_order(bound, HookWithSpec { spec, hook });
        }
    }

    /// Returns a copy in which the hooks of `plugin` are replaced by those of `with`.
    #[must_use]
    pub fn with_replaced_plugin_hooks(&self, plugin: &str, with: Self) -> Self {
        let others = self.specs.iter().filter(|spec| &*spec.plugin != plugin);
        let specs = others.cloned().chain(with.specs).collect();
        Self {
            built_in: replace_plugin_hooks(&self.built_in, plugin, with.built_in),
            defined: replace_plugin_hooks(&self.defined, plugin, with.defined),
            specs,
            streaming: OnceLock::new(),
        }
    }

    /// Returns the hooks of a point in the order in which they run. For plugin-defined points
    /// `point` selects the point; for built-in points it is ignored.
    #[must_use]
    pub fn hooks<P: ExtensionPoint>(&self, point: &str) -> &[HookWithSpec<P>] {
        let found = if is_plugin_defined_point::<P>() {
            self.defined.get(point)
        } else {
            self.built_in.get(&TypeId::of::<P>())
        };
        found
            .and_then(|slot| (&**slot as &dyn Any).downcast_ref::<Vec<HookWithSpec<P>>>())
            .map_or(&[], Vec::as_slice)
    }

    /// Decides how the model's text reaches the user, from the hooks that are called for `caller`.
    pub(crate) fn streamed_text_display_mode(&self, caller: &Caller) -> StreamedTextDisplayMode {
        let specs = self.specs.iter().map(AsRef::as_ref);
        if caller.call_chain.is_empty() {
            let path = self
                .streaming
                .get_or_init(|| StreamedTextDisplayMode::from_hook_specs(specs));
            return path.clone();
        }
        StreamedTextDisplayMode::from_hook_specs(
            specs.filter(|spec| !caller.should_skip_hooks_of(&spec.plugin, false)),
        )
    }

    /// Returns every bound hook, in the order of registration.
    #[must_use]
    pub fn hook_specs(&self) -> &[Arc<HookSpec>] {
        &self.specs
    }
}

impl_partial_debug!(HookRegistry, self, specs = self.specs);
