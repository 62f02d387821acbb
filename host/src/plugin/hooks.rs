//! A plugin's exported functions as hooks of the dispatcher.

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Instance, Lift, Lower, TypedFunc};

use super::bindings::rind::plugin::types as wt;
use super::convert;
use super::exports::typed;
use super::host::{CurrentCall, HostState};
use super::instance::Slot;
use super::load::Loaded;
use super::sanitize::Sanitizer;
use crate::point::caller::Caller;
use crate::point::catalog;
use crate::point::failure::Failure;
use crate::point::registry::{HookSpec, Registry};
use crate::point::{Hook, PluginPoint, Point, outcome as o, payload as p};

/// A point with the types of one version of the contract. It is chosen when a component is loaded; a call then goes through
/// code that was made for these types.
pub(super) trait Binding: Send + Sync {
    /// Looks the function of a hook up in an instance, with its types checked.
    fn load(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
        run: &ComponentExportIndex,
    ) -> wasmtime::Result<Box<dyn Any + Send + Sync>>;

    /// Adds the hook to the registry: `at` is its place among those of its component.
    fn bind(&self, registry: &mut Registry, spec: HookSpec, slot: Arc<Slot>, at: usize);
}

/// The types of a point in version `V` of the contract, and the ways there from our own and back.
pub(super) trait Wire<V>: Point {
    /// Type of the payload, or a handle.
    type Shown: Lower + Send + Sync + 'static;
    type Answer: Lift + Send + Sync + 'static;

    /// Copies the payload, or lends it to `call`.
    fn show(payload: &Self::Payload, call: &mut CurrentCall) -> Self::Shown;

    /// Makes an outcome of an answer; `sanitizer` is the way out for the call that was answered.
    fn outcome(answer: Self::Answer, sanitizer: Sanitizer<'_>) -> Self::Outcome;
}

/// The newest version of the contract. Any other has a type of its own, and [`Wire`] for the points where it differs.
pub(super) struct Current;

/// The point `P` with the types of version `V`.
pub(super) struct Typed<P, V>(PhantomData<fn() -> (P, V)>);

impl<P, V> Typed<P, V> {
    pub(super) const BINDING: Self = Self(PhantomData);
}

type Run<P, V> = TypedFunc<(<P as Wire<V>>::Shown,), (Result<<P as Wire<V>>::Answer, wt::Error>,)>;

impl<P: Wire<V>, V: 'static> Binding for Typed<P, V> {
    fn load(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
        run: &ComponentExportIndex,
    ) -> wasmtime::Result<Box<dyn Any + Send + Sync>> {
        let run: Run<P, V> = typed(store, instance, run)?;
        Ok(Box::new(run))
    }

    fn bind(&self, registry: &mut Registry, spec: HookSpec, slot: Arc<Slot>, at: usize) {
        let hook = WasmHook {
            slot,
            at,
            _types: Self::BINDING,
        };
        registry.add::<P>(spec, Arc::new(hook));
    }
}

struct WasmHook<P, V> {
    slot: Arc<Slot>,
    at: usize,
    _types: Typed<P, V>,
}

/// An interface that was there when the plugin was loaded is there in every instance; this is for the type checker.
fn gone(interface: &str) -> Failure {
    Failure::Unavailable(format!("the instance does not export `{interface}`"))
}

impl<P: Wire<V>, V: 'static> Hook<P> for WasmHook<P, V> {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        Box::pin(async move {
            let mut busy = self.slot.acquire(caller).await?;
            let instance = &mut busy.instance;
            let call = &mut instance.store.data_mut().call;
            call.caller.point = Some(Cow::Borrowed(P::NAME));
            let shown = P::show(payload, call);
            let run: Run<P, V> = instance
                .functions
                .hook(self.at)
                .ok_or_else(|| gone(P::NAME))?;
            let result = run.call_async(&mut instance.store, (shown,)).await;
            let (answer,) = busy.settle(result)?;
            let sanitizer = Sanitizer::of_hook(self.slot.backing(), caller, P::NAME)
                .with_given(convert::given(payload));
            match answer {
                Ok(answer) => Ok(P::outcome(answer, sanitizer)),
                Err(error) => Err(Failure::Error(convert::guest_error(error, sanitizer))),
            }
        })
    }
}

/// The newest version: the types that the table of points names, as they are generated.
mod current {
    use wasmtime::component::Resource;

    use super::super::bindings::rind::plugin::handles::*;
    use super::super::bindings::rind::plugin::outcomes::*;
    use super::super::bindings::rind::plugin::payloads::*;
    // `outcomes` has names for these as well.
    use super::super::bindings::rind::plugin::payloads::{Assessment, PromptPart};
    use super::super::bindings::rind::plugin::types::Message;
    use super::super::convert::{Sanitize, Show, ShowAsIs};
    use super::{Binding, Current, CurrentCall, Sanitizer, Typed, Wire};
    use crate::point::Point;
    use crate::point::catalog::{self, for_each_point};

    type Lent<T> = Resource<T>;

    macro_rules! current {
        ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
            $(impl Wire<Current> for catalog::$marker {
                type Shown = $payload;
                type Answer = $outcome;

                fn show(payload: &<Self as Point>::Payload, call: &mut CurrentCall) -> $payload {
                    payload.show(call)
                }

                fn outcome(mut answer: $outcome, sanitizer: Sanitizer<'_>) -> $outcome {
                    answer.sanitize(sanitizer);
                    answer
                }
            })*

            /// The point of this name.
            pub(in super::super) fn binding(point: &str) -> Option<&'static dyn Binding> {
                match point {
                    $($name => Some(&Typed::<catalog::$marker, Current>::BINDING),)*
                    _ => None,
                }
            }
        };
    }
    for_each_point!(current);
}
pub(super) use current::binding as current;

/// Binds every hook that the component exports.
pub(super) fn bind(
    registry: &mut Registry,
    slot: &Arc<Slot>,
    background: &Arc<Slot>,
    plugin: &Loaded,
    spec: &dyn Fn(&catalog::PointRow) -> HookSpec,
) {
    let hooks = plugin
        .template
        .iter()
        .flat_map(|template| &template.exports.hooks);
    for (at, hook) in hooks.enumerate() {
        if let Some(row) = catalog::find(hook.point)
            && plugin.hook_settings(hook.point).enabled
        {
            let spec = spec(row);
            let slot = if spec.is_async { background } else { slot };
            hook.binding.bind(registry, spec, slot.clone(), at);
        }
    }
}

/// A plugin's implementation of one point that another plugin defines.
pub(super) struct WasmImplement {
    pub(super) slot: Arc<Slot>,
    /// `owner.NAME`.
    pub(super) point: String,
}

impl Hook<PluginPoint> for WasmImplement {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a p::PluginPayload,
    ) -> BoxFuture<'a, Result<o::PointOutcome, Failure>> {
        Box::pin(async move {
            let mut busy = self.slot.acquire(caller).await?;
            let payload = payload.value.to_string();
            let instance = &mut busy.instance;
            let point = Cow::Owned(self.point.clone());
            instance.store.data_mut().call.caller.point = Some(point);
            let run = instance
                .functions
                .implement
                .ok_or_else(|| gone("implement"))?;
            let arguments = (self.point.clone(), payload);
            let result = run.call_async(&mut instance.store, arguments).await;
            let (answer,) = busy.settle(result)?;
            let sanitizer = Sanitizer::of_hook(self.slot.backing(), caller, &self.point);
            let answer =
                answer.map_err(|error| Failure::Error(convert::guest_error(error, sanitizer)))?;
            convert::point_outcome(answer, sanitizer)
        })
    }
}
