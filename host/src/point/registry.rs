//! Hooks bound to each point, in the order they run.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxBuildHasher;

use super::failure::OnFailure;
use super::{Hook, PluginPoint, Point, catalog};

/// Priority of a hook that names none. Lower runs first.
pub const DEFAULT_PRIORITY: u16 = 100;

/// Deadline of a hook that names none, from the pipeline design that its stages come from.
pub const HOOK_DEADLINE: Duration = Duration::from_secs(5);

/// Description of a hook, without its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSpec {
    /// Name of the plugin.
    pub plugin: Arc<str>,
    /// Name of the point; for a plugin-defined one `owner.NAME`.
    pub point: String,
    /// Lower runs first; equal priorities run in order of the plugin's name.
    pub priority: u16,
    /// Deadline of one call.
    pub deadline: Duration,
    /// Action when the hook fails.
    pub on_failure: OnFailure,
    /// Whether the turn goes on without waiting for it; observe points only.
    pub is_async: bool,
    /// Whether it may change what the conversation holds (the side effect `session`).
    pub may_change: bool,
    /// Rights of its point that it has; `None` is all of them.
    pub may: Option<Vec<String>>,
}

impl HookSpec {
    /// A hook of native code at a built-in point, with the defaults of the point and every right that the point gives.
    #[must_use]
    pub fn of<P: Point>(name: &str) -> Self {
        let row = catalog::find(P::NAME);
        Self {
            plugin: name.into(),
            point: P::NAME.to_owned(),
            priority: DEFAULT_PRIORITY,
            deadline: HOOK_DEADLINE,
            on_failure: row.map_or(OnFailure::Block, catalog::PointRow::default_on_failure),
            is_async: false,
            may_change: true,
            may: None,
        }
    }

    /// Whether the hook has a right: its point gives it and its manifest did not give it up.
    #[must_use]
    pub fn has_right(&self, right: &str) -> bool {
        catalog::find(&self.point).is_some_and(|row| row.rights.contains(&right))
            && self
                .may
                .as_ref()
                .is_none_or(|may| may.iter().any(|name| name == right))
    }
}

/// A hook and what is known of it.
pub struct Bound<P: Point> {
    /// Description of the hook.
    pub spec: Arc<HookSpec>,
    /// Code of the hook.
    pub hook: Arc<dyn Hook<P>>,
}

impl<P: Point> Clone for Bound<P> {
    fn clone(&self) -> Self {
        Self {
            spec: self.spec.clone(),
            hook: self.hook.clone(),
        }
    }
}

/// The hooks of one point in their order, whatever its types.
trait Hooks: Any + Send + Sync {
    /// Copies those that are not of this plugin.
    fn without(&self, plugin: &str) -> Box<dyn Hooks>;

    /// Adds those of another registry.
    fn take(&mut self, other: Box<dyn Any>);
}

impl<P: Point> Hooks for Vec<Bound<P>> {
    fn without(&self, plugin: &str) -> Box<dyn Hooks> {
        let others = self.iter().filter(|bound| &*bound.spec.plugin != plugin);
        Box::new(others.cloned().collect::<Self>())
    }

    fn take(&mut self, other: Box<dyn Any>) {
        if let Ok(other) = other.downcast::<Self>() {
            other.into_iter().for_each(|bound| insert(self, bound));
        }
    }
}

/// Puts a hook into its place in the order.
fn insert<P: Point>(hooks: &mut Vec<Bound<P>>, new: Bound<P>) {
    let place = |spec: &HookSpec| (spec.priority, spec.plugin.clone());
    let at = hooks.partition_point(|bound| place(&bound.spec) <= place(&new.spec));
    hooks.insert(at, new);
}

/// All hooks of all points. Built once from the loaded plugins, then only read.
#[derive(Default)]
pub struct Registry {
    /// Hooks of built-in points, by the type of the point: no name is hashed and compared.
    built_in: HashMap<TypeId, Box<dyn Hooks>, FxBuildHasher>,
    /// Hooks of points that plugins define, by name.
    defined: HashMap<String, Box<dyn Hooks>, FxBuildHasher>,
    specs: Vec<Arc<HookSpec>>,
}

/// Whether plugins define the points of this type.
fn is_defined<P: Point>() -> bool {
    TypeId::of::<P>() == TypeId::of::<PluginPoint>()
}

/// Copies hooks with `with` in place of those of a plugin.
fn replace<K: Clone + Eq + Hash>(
    hooks: &HashMap<K, Box<dyn Hooks>, FxBuildHasher>,
    plugin: &str,
    with: HashMap<K, Box<dyn Hooks>, FxBuildHasher>,
) -> HashMap<K, Box<dyn Hooks>, FxBuildHasher> {
    let kept = hooks.iter();
    let kept = kept.map(|(point, hooks)| (point.clone(), hooks.without(plugin)));
    let mut all: HashMap<_, _, FxBuildHasher> = kept.collect();
    for (point, new) in with {
        match all.get_mut(&point) {
            Some(hooks) => hooks.take(new),
            None => {
                all.insert(point, new);
            }
        }
    }
    all
}

impl Registry {
    /// Binds a hook to its point, in its place in the order. Of points that plugins define, `spec.point` names the one.
    pub fn add<P: Point>(&mut self, spec: HookSpec, hook: Arc<dyn Hook<P>>) {
        let spec = Arc::new(spec);
        self.specs.push(spec.clone());
        let new = || -> Box<dyn Hooks> { Box::new(Vec::<Bound<P>>::new()) };
        let slot = if is_defined::<P>() {
            let name = spec.point.clone();
            self.defined.entry(name).or_insert_with(new)
        } else {
            self.built_in.entry(TypeId::of::<P>()).or_insert_with(new)
        };
        let slot: &mut dyn Any = &mut **slot;
        if let Some(bound) = slot.downcast_mut::<Vec<Bound<P>>>() {
            insert(bound, Bound { spec, hook });
        }
    }

    /// Copies it with these hooks in place of those of a plugin.
    #[must_use]
    pub fn replaced(&self, plugin: &str, with: Self) -> Self {
        let others = self.specs.iter().filter(|spec| &*spec.plugin != plugin);
        let specs = others.cloned().chain(with.specs).collect();
        Self {
            built_in: replace(&self.built_in, plugin, with.built_in),
            defined: replace(&self.defined, plugin, with.defined),
            specs,
        }
    }

    /// The hooks of a point in the order they run. Of points that plugins define, `point` names the one.
    #[must_use]
    pub fn hooks<P: Point>(&self, point: &str) -> &[Bound<P>] {
        let found = if is_defined::<P>() {
            self.defined.get(point)
        } else {
            self.built_in.get(&TypeId::of::<P>())
        };
        found
            .and_then(|slot| (&**slot as &dyn Any).downcast_ref::<Vec<Bound<P>>>())
            .map_or(&[], Vec::as_slice)
    }

    /// Every bound hook, in the order they were added.
    #[must_use]
    pub fn specs(&self) -> &[Arc<HookSpec>] {
        &self.specs
    }
}

debug_some!(Registry, self, specs = self.specs);
