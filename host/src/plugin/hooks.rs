//! Adapts a plugin's exported functions to hooks of the dispatcher.
//!
//! A hook is a component's exported interface, bound to its point with the types of the contract
//! version that the component was built against. The dispatcher decides about order, merging and
//! failure; this module only calls the guest. Start from [`VersionedHookBinder`].

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
use super::instance::{self, ReusableInstanceSlot};
use super::load::LoadedPlugin;
use super::sanitize::GuestTextSanitizer;
use crate::point::caller::Caller;
use crate::point::catalog;
use crate::point::failure::Failure;
use crate::point::registry::{HookRegistry, HookSpec};
use crate::point::{AnyPluginDefinedPoint, ExtensionPoint, Hook, outcome as o, payload as p};

/// Binding of a point to the types of one contract version. It is chosen once, when a component is
/// loaded, so that calls run code that is monomorphized for these types.
pub(super) trait VersionedHookBinder: Send + Sync {
    /// Looks up the hook's functions in an instance and checks their types. The returned value is a
    /// [`VersionedExtensionPoint::GuestInterface`].
    fn load_guest_hook_functions(
        &self,
        pre: &InstancePre<HostState>,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<Box<dyn Any + Send + Sync>>;

    /// Adds the hook to the registry. `at` is the index of the hook among those of its component.
    fn bind_hook(
        &self,
        registry: &mut HookRegistry,
        spec: HookSpec,
        slot: Arc<ReusableInstanceSlot>,
        at: usize,
    );
}

/// Types of a point in version `V` of the contract, and the conversions between them and the host's
/// types.
pub(super) trait VersionedExtensionPoint<V>: ExtensionPoint {
    /// Generated bindings with which the host calls the point's interface in a plugin instance.
    type GuestInterface: Send + Sync + 'static;
    type Answer: Send + Sync + 'static;

    /// Finds the interface of the point in a plugin instance, and checks the types of its
    /// functions.
    fn find_guest_interface(
        pre: &InstancePre<HostState>,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<Self::GuestInterface>;

    /// Calls the guest. The payload is lowered directly into the guest's memory, or is read by the
    /// guest through a handle during the call.
    fn call_guest(
        guest: &Self::GuestInterface,
        store: &mut Store<HostState>,
        payload: &Self::Payload,
    ) -> impl Future<Output = wasmtime::Result<Result<Self::Answer, wt::Error>>> + Send;

    /// Converts an answer into an outcome. `sanitizer` is that of the guest call that returned the
    /// answer.
    fn convert_answer_to_outcome(
        answer: Self::Answer,
        sanitizer: GuestTextSanitizer<'_>,
    ) -> Self::Outcome;
}

/// Newest version of the contract. For any other version there is another type, which implements
/// [`VersionedExtensionPoint`] for the points that differ.
pub(super) struct CurrentContractVersion;

/// Point `P` with the types of the contract version `V`.
pub(super) struct TypedHookBinder<P, V>(PhantomData<fn() -> (P, V)>);

impl<P, V> TypedHookBinder<P, V> {
    pub(super) const SINGLETON: Self = Self(PhantomData);
}

impl<P: VersionedExtensionPoint<V>, V: 'static> VersionedHookBinder for TypedHookBinder<P, V> {
    fn load_guest_hook_functions(
        &self,
        pre: &InstancePre<HostState>,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(P::find_guest_interface(pre, store, instance)?))
    }

    fn bind_hook(
        &self,
        registry: &mut HookRegistry,
        spec: HookSpec,
        slot: Arc<ReusableInstanceSlot>,
        at: usize,
    ) {
        let hook = WasmHook {
            slot,
            at,
            _types: Self::SINGLETON,
        };
        registry.add::<P>(spec, Arc::new(hook));
    }
}

struct WasmHook<P, V> {
    slot: Arc<ReusableInstanceSlot>,
    at: usize,
    _types: TypedHookBinder<P, V>,
}

/// Returns the failure for an interface that is missing in an instance. This cannot happen, because
/// loading checked that the interface exists.
fn missing_interface_error(interface: &str) -> Failure {
    Failure::Unavailable(format!("the instance does not export `{interface}`"))
}

impl<P: VersionedExtensionPoint<V>, V: 'static> Hook<P> for WasmHook<P, V> {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        // Construct the future directly on the heap: it is large, and `Box::pin` would copy it.
        let call = Box::write(Box::new_uninit(), async move {
            let mut busy = match self.slot.try_acquire_warm_instance(caller) {
                Some(busy) => busy,
                None => self.slot.acquire_instance(caller).await?,
            };
            let instance::PluginInstance {
                store, functions, ..
            } = &mut *busy.instance;
            store.data_mut().call.caller.point = Some(Cow::Borrowed(P::NAME));
            let guest: &P::GuestInterface = functions
                .loaded_hook_functions(self.at)
                .ok_or_else(|| missing_interface_error(P::NAME))?;
            let result = P::call_guest(guest, store, payload).await;
            let answer = busy.finish_guest_call(result)?;
            let sanitizer =
                GuestTextSanitizer::for_hook(self.slot.shared_plugin_state(), caller, P::NAME)
                    .with_received_payload_text(convert::payload_main_text(payload));
            match answer {
                Ok(answer) => Ok(P::convert_answer_to_outcome(answer, sanitizer)),
                Err(error) => Err(Failure::Error(convert::describe_guest_error(
                    error, sanitizer,
                ))),
            }
        });
        Box::into_pin(call)
    }
}

/// Extension points of the newest contract version, with the generated types that the table of
/// points names.
mod current {
    use wasmtime::Store;
    use wasmtime::component::{Instance, InstancePre};

    use super::super::bindings::exports::rind::plugin as exports;
    use super::super::bindings::rind::plugin::outcomes::*;
    use super::super::bindings::rind::plugin::types::Error;
    use super::super::convert::{
        GuestFunctionArgument, GuestPayload, SanitizableGuestData, UnconvertedGuestPayload,
    };
    use super::{
        CurrentContractVersion, GuestTextSanitizer, HostState, TypedHookBinder,
        VersionedExtensionPoint, VersionedHookBinder,
    };
    use crate::point::ExtensionPoint;
    use crate::point::catalog::{self, for_each_point};

    macro_rules! current {
        ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
            $(impl VersionedExtensionPoint<CurrentContractVersion> for catalog::$marker {
                type GuestInterface = exports::$module::Guest;
                type Answer = $outcome;

                fn find_guest_interface(
                    pre: &InstancePre<HostState>,
                    store: &mut Store<HostState>,
                    instance: &Instance,
                ) -> wasmtime::Result<Self::GuestInterface> {
                    exports::$module::GuestIndices::new(pre)?.load(store, instance)
                }

                async fn call_guest(
                    guest: &Self::GuestInterface,
                    store: &mut Store<HostState>,
                    payload: &<Self as ExtensionPoint>::Payload,
                ) -> wasmtime::Result<Result<$outcome, Error>> {
                    let shown = payload.to_guest_form(&mut store.data_mut().call);
                    guest.call_run(store, shown.as_passed_value()).await
                }

                fn convert_answer_to_outcome(mut answer: $outcome, sanitizer: GuestTextSanitizer<'_>) -> $outcome {
                    answer.sanitize_texts(sanitizer);
                    answer
                }
            })*

            pub(in super::super) fn find_current_binding(point: &str) -> Option<&'static dyn VersionedHookBinder> {
                match point {
                    $($name => Some(&TypedHookBinder::<catalog::$marker, CurrentContractVersion>::SINGLETON),)*
                    _ => None,
                }
            }
        };
    }
    for_each_point!(current);
}
pub(super) use current::find_current_binding;

/// Registers a hook for every hook interface that the component exports.
pub(super) fn bind_component_hooks(
    registry: &mut HookRegistry,
    slot: &Arc<ReusableInstanceSlot>,
    background: &Arc<ReusableInstanceSlot>,
    plugin: &LoadedPlugin,
    spec: &dyn Fn(&catalog::BuiltinExtensionPoint) -> HookSpec,
) {
    let hooks = plugin
        .instance_template()
        .into_iter()
        .flat_map(|template| &template.exports.hooks);
    for (at, hook) in hooks.enumerate() {
        if let Some(row) = catalog::find_builtin_extension_point(hook.point)
            && plugin.hook_settings(hook.point).enabled
        {
            let spec = spec(row);
            let slot = if spec.is_async { background } else { slot };
            hook.binding.bind_hook(registry, spec, slot.clone(), at);
        }
    }
}

/// Implementation, by one plugin, of a point that another plugin defines.
pub(super) struct WasmExtensionPointImplementation {
    pub(super) slot: Arc<ReusableInstanceSlot>,
    /// Full name of the extension point that the plugin implements, `owner.NAME`.
    pub(super) point: String,
}

impl Hook<AnyPluginDefinedPoint> for WasmExtensionPointImplementation {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a p::PluginDefinedPointPayload,
    ) -> BoxFuture<'a, Result<o::PluginDefinedPointOutcome, Failure>> {
        Box::pin(async move {
            let mut busy = self.slot.acquire_instance(caller).await?;
            let payload = payload.value.to_string();
            let instance = &mut busy.instance;
            let point = Cow::Owned(self.point.clone());
            instance.store.data_mut().call.caller.point = Some(point);
            let run = instance
                .functions
                .implement
                .ok_or_else(|| missing_interface_error("implement"))?;
            let arguments = (self.point.clone(), payload);
            let result = run.call_async(&mut instance.store, arguments).await;
            let (answer,) = busy.finish_guest_call(result)?;
            let sanitizer =
                GuestTextSanitizer::for_hook(self.slot.shared_plugin_state(), caller, &self.point);
            let answer = answer
                .map_err(|error| Failure::Error(convert::describe_guest_error(error, sanitizer)))?;
            convert::sanitize_plugin_defined_point_outcome(answer, sanitizer)
        })
    }
}
