//! A plugin's exported functions as hooks of the dispatcher.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::convert::{self, FromGuest, Payload, ShowAsIs, ShowConverted};
use super::instance::Slot;
use super::load::Loaded;
use super::sanitize::Sanitizer;
use crate::point::caller::Caller;
use crate::point::catalog::{self, for_each_point};
use crate::point::failure::Failure;
use crate::point::registry::{HookSpec, Registry};
use crate::point::{Hook, PluginPoint, Point, outcome as o, payload as p};

/// All of a plugin's hooks: one slot behind as many points as the component exports.
pub(super) struct WasmHooks {
    pub(super) slot: Arc<Slot>,
}

/// An interface that was there when the plugin was loaded is there in every instance; this is for the type checker.
fn gone(interface: &str) -> Failure {
    Failure::Unavailable(format!("the instance does not export `{interface}`"))
}

macro_rules! hooks {
    ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
        $(impl Hook<catalog::$marker> for WasmHooks {
            fn call<'a>(
                &'a self,
                caller: &'a Caller,
                payload: &'a <catalog::$marker as Point>::Payload,
            ) -> BoxFuture<'a, Result<<catalog::$marker as Point>::Outcome, Failure>> {
                Box::pin(async move {
                    let mut busy = self.slot.acquire(caller).await?;
                    let instance = &mut busy.instance;
                    let call = &mut instance.store.data_mut().call;
                    call.caller.point = Some(Cow::Borrowed($name));
                    let shown = (&Payload(payload)).show(call);
                    let guest = instance.guests.$module.as_ref().ok_or_else(|| gone($name))?;
                    let result = guest.call_run(&mut instance.store, shown.as_argument()).await;
                    let answer = busy.settle(result)?;
                    let sanitizer = Sanitizer::of_hook(self.slot.backing(), caller, $name).with_given(convert::given(payload));
                    match answer {
                        Ok(outcome) => Ok(FromGuest::from_guest(outcome, sanitizer)),
                        Err(error) => Err(Failure::Error(convert::guest_error(error, sanitizer))),
                    }
                })
            }
        })*

        /// Binds every hook that the component exports.
        pub(super) fn bind(registry: &mut Registry, hooks: &Arc<WasmHooks>,
            background: &Arc<WasmHooks>, plugin: &Loaded, spec: &dyn Fn(&catalog::PointRow) -> HookSpec) {
            $(if plugin.template.as_ref().is_some_and(|template| template.indices.$module.is_some())
                && let Some(row) = catalog::find($name)
                && plugin.hook_settings($name).enabled
            {
                let spec = spec(row);
                let hooks = if spec.is_async { background } else { hooks };
                registry.add::<catalog::$marker>(spec, hooks.clone());
            })*
        }
    };
}
for_each_point!(hooks);

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
            let guest = instance
                .guests
                .implement
                .as_ref()
                .ok_or_else(|| gone("implement"))?;
            let result = guest
                .call_run(&mut instance.store, &self.point, &payload)
                .await;
            let answer = busy.settle(result)?;
            let sanitizer = Sanitizer::of_hook(self.slot.backing(), caller, &self.point);
            let answer =
                answer.map_err(|error| Failure::Error(convert::guest_error(error, sanitizer)))?;
            convert::point_outcome(answer, sanitizer)
        })
    }
}
