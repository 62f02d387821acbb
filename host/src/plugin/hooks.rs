//! Adapts a plugin's exported functions to hooks of the dispatcher.
//!
//! A hook is a component's exported interface, bound to its point with the types of the contract
//! version that the component was built against. The dispatcher decides about order, merging and
//! failure; this module only calls the guest. Start from [`PointBinding`].

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use super::bindings::rind::plugin::types as wt;
use super::convert;
use super::host::HostState;
use super::instance::{self, InstanceSlot};
use super::load::LoadedPlugin;
use super::sanitize::CallSanitizer;
use crate::point::caller::Caller;
use crate::point::catalog;
use crate::point::failure::Failure;
use crate::point::registry::{HookSpec, Registry};
use crate::point::{Hook, PluginPoint, Point, outcome as o, payload as p};

/// Point with the types of one contract version, chosen once when a component is loaded. Calls then
/// run code that is monomorphized for these types.
pub(super) trait PointBinding: Send + Sync {
    /// Looks up the hook's functions in an instance and checks their types. The result is a
    /// [`PointWire::Guest`].
    fn load(
        &self,
        pre: &InstancePre<HostState>,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<Box<dyn Any + Send + Sync>>;

    /// Adds the hook to the registry. `at` is the index of the hook among those of its component.
    fn bind(&self, registry: &mut Registry, spec: HookSpec, slot: Arc<InstanceSlot>, at: usize);
}

/// Types of a point in version `V` of the contract, and the conversions between them and the host's
/// types.
pub(super) trait PointWire<V>: Point {
    /// Generated bindings of the point's interface in one instance.
    type Guest: Send + Sync + 'static;
    type Answer: Send + Sync + 'static;

    /// Finds the interface in an instance and checks its types.
    fn guest(
        pre: &InstancePre<HostState>,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<Self::Guest>;

    /// Calls the guest. The payload is lowered directly into the guest's memory, or is read by the
    /// guest through a handle during the call.
    fn run(
        guest: &Self::Guest,
        store: &mut Store<HostState>,
        payload: &Self::Payload,
    ) -> impl Future<Output = wasmtime::Result<Result<Self::Answer, wt::Error>>> + Send;

    /// Converts an answer into an outcome. `sanitizer` belongs to the call that returned the
    /// answer.
    fn outcome(answer: Self::Answer, sanitizer: CallSanitizer<'_>) -> Self::Outcome;
}

/// Newest version of the contract. Any other version has a type of its own that implements
/// [`PointWire`] for the points that differ.
pub(super) struct CurrentVersion;

/// Point `P` with the types of version `V`.
pub(super) struct TypedPoint<P, V>(PhantomData<fn() -> (P, V)>);

impl<P, V> TypedPoint<P, V> {
    pub(super) const BINDING: Self = Self(PhantomData);
}

impl<P: PointWire<V>, V: 'static> PointBinding for TypedPoint<P, V> {
    fn load(
        &self,
        pre: &InstancePre<HostState>,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(P::guest(pre, store, instance)?))
    }

    fn bind(&self, registry: &mut Registry, spec: HookSpec, slot: Arc<InstanceSlot>, at: usize) {
        let hook = WasmHook {
            slot,
            at,
            _types: Self::BINDING,
        };
        registry.add::<P>(spec, Arc::new(hook));
    }
}

struct WasmHook<P, V> {
    slot: Arc<InstanceSlot>,
    at: usize,
    _types: TypedPoint<P, V>,
}

/// Returns the failure for an interface that is missing in an instance. This cannot happen, because
/// loading checked that the interface exists.
fn missing_interface(interface: &str) -> Failure {
    Failure::Unavailable(format!("the instance does not export `{interface}`"))
}

impl<P: PointWire<V>, V: 'static> Hook<P> for WasmHook<P, V> {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        // Constructed in place: the future is large, and `Box::pin` would copy it.
        let call = Box::write(Box::new_uninit(), async move {
            let mut busy = match self.slot.acquire_now(caller) {
                Some(busy) => busy,
                None => self.slot.acquire_instance(caller).await?,
            };
            let instance::PluginInstance {
                store, functions, ..
            } = &mut *busy.instance;
            store.data_mut().call.caller.point = Some(Cow::Borrowed(P::NAME));
            let guest: &P::Guest = functions
                .hook_function(self.at)
                .ok_or_else(|| missing_interface(P::NAME))?;
            let result = P::run(guest, store, payload).await;
            let answer = busy.settle_call(result)?;
            let sanitizer = CallSanitizer::of_hook(self.slot.backing(), caller, P::NAME)
                .with_given(convert::given_name(payload));
            match answer {
                Ok(answer) => Ok(P::outcome(answer, sanitizer)),
                Err(error) => Err(Failure::Error(convert::guest_error(error, sanitizer))),
            }
        });
        Box::into_pin(call)
    }
}

/// Points of the newest version, with the generated types that the table of points names.
mod current {
    use wasmtime::Store;
    use wasmtime::component::{Instance, InstancePre};

    use super::super::bindings::exports::rind::plugin as exports;
    use super::super::bindings::rind::plugin::outcomes::*;
    use super::super::bindings::rind::plugin::types::Error;
    use super::super::convert::{PayloadArgument, SanitizeOutcome, ShowAsIs, ShowPayload};
    use super::{CallSanitizer, CurrentVersion, HostState, PointBinding, PointWire, TypedPoint};
    use crate::point::Point;
    use crate::point::catalog::{self, for_each_point};

    macro_rules! current {
        ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
            $(impl PointWire<CurrentVersion> for catalog::$marker {
                type Guest = exports::$module::Guest;
                type Answer = $outcome;

                fn guest(
                    pre: &InstancePre<HostState>,
                    store: &mut Store<HostState>,
                    instance: &Instance,
                ) -> wasmtime::Result<Self::Guest> {
                    exports::$module::GuestIndices::new(pre)?.load(store, instance)
                }

                async fn run(
                    guest: &Self::Guest,
                    store: &mut Store<HostState>,
                    payload: &<Self as Point>::Payload,
                ) -> wasmtime::Result<Result<$outcome, Error>> {
                    let shown = payload.show(&mut store.data_mut().call);
                    guest.call_run(store, shown.argument()).await
                }

                fn outcome(mut answer: $outcome, sanitizer: CallSanitizer<'_>) -> $outcome {
                    answer.sanitize(sanitizer);
                    answer
                }
            })*

            pub(in super::super) fn binding(point: &str) -> Option<&'static dyn PointBinding> {
                match point {
                    $($name => Some(&TypedPoint::<catalog::$marker, CurrentVersion>::BINDING),)*
                    _ => None,
                }
            }
        };
    }
    for_each_point!(current);
}
pub(super) use current::binding as current;

/// Binds every hook that the component exports.
pub(super) fn bind_hooks(
    registry: &mut Registry,
    slot: &Arc<InstanceSlot>,
    background: &Arc<InstanceSlot>,
    plugin: &LoadedPlugin,
    spec: &dyn Fn(&catalog::PointRow) -> HookSpec,
) {
    let hooks = plugin
        .template()
        .into_iter()
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

/// Implementation, by one plugin, of a point that another plugin defines.
pub(super) struct WasmImplement {
    pub(super) slot: Arc<InstanceSlot>,
    /// Name of the point, `owner.NAME`.
    pub(super) point: String,
}

impl Hook<PluginPoint> for WasmImplement {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a p::PluginPayload,
    ) -> BoxFuture<'a, Result<o::PointOutcome, Failure>> {
        Box::pin(async move {
            let mut busy = self.slot.acquire_instance(caller).await?;
            let payload = payload.value.to_string();
            let instance = &mut busy.instance;
            let point = Cow::Owned(self.point.clone());
            instance.store.data_mut().call.caller.point = Some(point);
            let run = instance
                .functions
                .implement
                .ok_or_else(|| missing_interface("implement"))?;
            let arguments = (self.point.clone(), payload);
            let result = run.call_async(&mut instance.store, arguments).await;
            let (answer,) = busy.settle_call(result)?;
            let sanitizer = CallSanitizer::of_hook(self.slot.backing(), caller, &self.point);
            let answer =
                answer.map_err(|error| Failure::Error(convert::guest_error(error, sanitizer)))?;
            convert::point_outcome(answer, sanitizer)
        })
    }
}
