//! Reusable ("warm") plugin instances: one per plugin and session, and a second one for hooks that
//! run in the background.
//!
//! A caller takes the instance out of its slot, calls it in the caller's own task, and puts it back
//! after a successful call. After an error, a trap or a dropped future the instance is discarded
//! and the next caller creates a new one; plugins must expect this, as the contract says.

use std::sync::Arc;

use futures_util::lock::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::component::{
    ComponentNamedList, Instance, InstancePre, Lift, Lower, ResourceTableError, TypedFunc,
};
use wasmtime::{Store, Trap};

use super::convert;
use super::exports::{ComponentExports, PluginExportedFunctions};
use super::host::{HostState, SharedPluginState};
use super::limits::{MAX_GUEST_RESOURCE_HANDLES, MAX_HOST_CALL_DATA_BYTES};
use super::sanitize::GuestTextSanitizer;
use super::stderr::find_panic_message;
use crate::point::caller::Caller;
use crate::point::deadline::{UserWaitStopwatch, wait_in_call_queue};
use crate::point::failure::Failure;

/// Maximum number of extra instances next to the warm one. Each may use as much memory as the
/// manifest asks for. A few extra instances suffice, because calls between plugins nest only a few
/// levels deep.
const MAX_EXTRA_INSTANCES: usize = 4;

/// Template from which a plugin's instances are created. The component is compiled, linked and
/// checked once per plugin.
pub(super) struct PluginInstanceTemplate {
    pub(super) pre: InstancePre<HostState>,
    pub(super) exports: ComponentExports,
    pub(super) memory_limit: u64,
    /// Whether a call may wait for another plugin: true if the component imports an interface whose
    /// calls may wait for other work.
    pub(super) waits_for_others: bool,
    /// Whether an instance is discarded after each call. Tests use this to compare new instances
    /// with reused ones.
    pub(super) is_cold: bool,
}

pub(super) struct PluginInstance {
    pub(super) store: Store<HostState>,
    pub(super) functions: PluginExportedFunctions,
    /// Wasmtime instance. Exported functions that do not belong to the contract are looked up in it
    /// at each call.
    pub(super) whole: Instance,
}

/// Guard of the mutex around the idle instance of a plugin.
type IdleInstanceSlotGuard<'a> = MutexGuard<'a, Option<Box<PluginInstance>>>;

/// Slot that holds the reusable instance of a plugin in a session.
pub(super) struct ReusableInstanceSlot {
    template: Arc<PluginInstanceTemplate>,
    backing: Arc<SharedPluginState>,
    /// Idle instance; `None` if it is not created yet or in a call. Boxed, because an instance has
    /// about a kilobyte and moves from the slot to the caller and back at every call.
    warm: Mutex<Option<Box<PluginInstance>>>,
    /// Queue of the callers that wait for the idle instance in `warm`. The mutex alone would not
    /// serve callers in the order of arrival.
    first: Semaphore,
    /// Permits for instances that are created while the warm one is in use.
    extra: Semaphore,
    /// Time for which the call that uses the warm instance has waited for a person.
    pauses: Arc<UserWaitStopwatch>,
}

impl ReusableInstanceSlot {
    pub(super) fn new(
        template: Arc<PluginInstanceTemplate>,
        backing: Arc<SharedPluginState>,
    ) -> Self {
        Self {
            template,
            backing,
            warm: Mutex::new(None),
            first: Semaphore::new(1),
            extra: Semaphore::new(MAX_EXTRA_INSTANCES),
            pauses: Arc::default(),
        }
    }

    /// Returns the state that all instances of the plugin share.
    pub(super) fn shared_plugin_state(&self) -> &SharedPluginState {
        &self.backing
    }

    /// Creates a slot for another instance of the same plugin in the same session, in addition to
    /// the instance of this slot.
    pub(super) fn create_additional_slot(&self) -> Self {
        Self::new(self.template.clone(), self.backing.clone())
    }

    /// Calls the function that `find` selects. If the instance lacks the function, the error names
    /// `interface`.
    pub(super) async fn call_guest<P, R>(
        &self,
        caller: &Caller,
        interface: &str,
        find: impl FnOnce(&PluginExportedFunctions) -> Option<TypedFunc<P, R>>,
        arguments: P,
    ) -> Result<R, Failure>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let mut busy = self.acquire_instance(caller).await?;
        let instance = &mut busy.instance;
        let function = find(&instance.functions).ok_or_else(|| {
            Failure::Unavailable(format!(
                "the plugin's instance exports no interface `{interface}`"
            ))
        })?;
        let result = function.call_async(&mut instance.store, arguments).await;
        busy.finish_guest_call(result)
    }

    /// Takes the warm instance if it exists and no other call uses or waits for it. This is the
    /// common case, and it never waits.
    pub(super) fn try_acquire_warm_instance(
        &self,
        caller: &Caller,
    ) -> Option<PluginInstanceInCall<'_>> {
        let mut place = self.try_lock_warm_instance()?;
        let instance = place.take()?;
        Some(self.begin_instance_call(caller, Some(place), instance, None))
    }

    /// Returns the idle instance of the slot, after waiting until no other call uses it, or an
    /// extra instance. Creates an instance if there is none. The wait does not count toward the
    /// call's deadline.
    pub(super) async fn acquire_instance(
        &self,
        caller: &Caller,
    ) -> Result<PluginInstanceInCall<'_>, Failure> {
        // Box the rare path: its future is large, and would otherwise enlarge the future of every
        // call.
        let (mut place, extra) = match self.try_lock_warm_instance() {
            Some(place) => (Some(place), None),
            None => Box::pin(self.wait_for_free_instance(caller)).await,
        };
        let instance = match place.as_mut().and_then(|place| place.take()) {
            Some(instance) => instance,
            None => {
                let pauses = place.is_some().then(|| self.pauses.clone());
                let made = self
                    .template
                    .instantiate_guest(self.backing.clone(), pauses);
                Box::new(Box::pin(made).await?)
            }
        };
        Ok(self.begin_instance_call(caller, place, instance, extra))
    }

    /// Locks the slot of the warm instance, unless a call uses the instance or waits for it.
    fn try_lock_warm_instance(&self) -> Option<IdleInstanceSlotGuard<'_>> {
        let is_awaited = self.first.available_permits() == 0;
        if is_awaited {
            return None;
        }
        self.warm.try_lock()
    }

    fn begin_instance_call<'a>(
        &self,
        caller: &Caller,
        place: Option<IdleInstanceSlotGuard<'a>>,
        mut instance: Box<PluginInstance>,
        extra: Option<SemaphorePermit<'a>>,
    ) -> PluginInstanceInCall<'a> {
        instance.store.data_mut().begin_call(caller);
        PluginInstanceInCall {
            is_cold: self.template.is_cold,
            place,
            instance,
            _extra: extra,
        }
    }

    /// Waits for the warm instance, or takes a permit for an extra one. A call that another plugin
    /// caused must not wait: the other plugin is itself in a call, and two plugins that wait for
    /// each other would deadlock until the time limit for waiting. The call gets an extra instance
    /// instead, which is discarded afterwards. If all [`MAX_EXTRA_INSTANCES`] permits are taken,
    /// the call waits like any other. A plugin that never waits for others cannot deadlock, so its
    /// calls run one after the other and its reads and writes (a log, a sum) do not interleave.
    async fn wait_for_free_instance(
        &self,
        caller: &Caller,
    ) -> (
        Option<IdleInstanceSlotGuard<'_>>,
        Option<SemaphorePermit<'_>>,
    ) {
        let may_make = !caller.call_chain.is_empty() && self.template.waits_for_others;
        match may_make.then(|| self.extra.try_acquire()) {
            Some(Ok(extra)) => (None, Some(extra)),
            _ => (
                Some(wait_in_call_queue(self.wait_for_warm_instance(), Some(&self.pauses)).await),
                None,
            ),
        }
    }

    /// Waits until the warm instance, which is reused for many calls, is free. Calls get it in the
    /// order of arrival.
    async fn wait_for_warm_instance(&self) -> IdleInstanceSlotGuard<'_> {
        let _first = self.first.acquire().await;
        self.warm.lock().await
    }
}

impl PluginInstanceTemplate {
    /// Creates an instance. Limits are set before the instantiation, which runs start functions of
    /// the component. `pauses` adds up the time for which the instance waits for a person while
    /// other calls may wait for the instance. It is `None` for an instance that serves only one
    /// call.
    async fn instantiate_guest(
        &self,
        backing: Arc<SharedPluginState>,
        pauses: Option<Arc<UserWaitStopwatch>>,
    ) -> Result<PluginInstance, Failure> {
        // Open the folders now: a standard library asks for its preopens during instantiation,
        // through an import that is not async.
        let folders = backing.folders.clone();
        if !folders.are_all_granted_folders_open() {
            let _ = tokio::task::spawn_blocking(move || folders.open_all_granted_folders()).await;
        }
        let mut store = Store::new(
            self.pre.engine(),
            HostState::new(backing, pauses, self.memory_limit),
        );
        store.limiter(|state| &mut state.limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store.set_hostcall_fuel(MAX_HOST_CALL_DATA_BYTES);
        store.set_max_component_handles(MAX_GUEST_RESOURCE_HANDLES);
        let made = async {
            let instance = self.pre.instantiate_async(&mut store).await?;
            let functions = self
                .exports
                .load_functions(&self.pre, &mut store, &instance)?;
            Ok((functions, instance))
        };
        let made: wasmtime::Result<_> = made.await;
        match made {
            Ok((functions, whole)) => Ok(PluginInstance {
                store,
                functions,
                whole,
            }),
            Err(error) => Err(convert_call_error(&error, store.data())),
        }
    }
}

/// Instance that is in a call. The instance is discarded unless
/// [`PluginInstanceInCall::finish_guest_call`] ends the call.
pub(super) struct PluginInstanceInCall<'a> {
    /// Guard of the slot to which the instance returns after the call; `None` for an extra
    /// instance, which no slot keeps.
    place: Option<IdleInstanceSlotGuard<'a>>,
    pub(super) instance: Box<PluginInstance>,
    _extra: Option<SemaphorePermit<'a>>,
    is_cold: bool,
}

impl PluginInstanceInCall<'_> {
    /// Ends the call: puts the instance back after an answer, and discards it otherwise. This
    /// function is kept small, so that the answer is not copied when it is returned through it.
    pub(super) fn finish_guest_call<T>(self, result: wasmtime::Result<T>) -> Result<T, Failure> {
        match result {
            Ok(answer) => {
                self.return_instance_to_slot();
                Ok(answer)
            }
            Err(error) => Err(convert_call_error(&error, self.instance.store.data())),
        }
    }

    fn return_instance_to_slot(mut self) {
        self.instance.store.data().log_stderr();
        self.instance.store.data_mut().call.end_call();
        if let Some(place) = self.place.as_mut().filter(|_| !self.is_cold) {
            **place = Some(self.instance);
        }
    }
}

/// Converts an error of the engine into a failure for the dispatcher: an exceeded limit, or a trap
/// with the guest's panic message.
fn convert_call_error(error: &wasmtime::Error, state: &HostState) -> Failure {
    if let Some(limit) = &state.limiter.hit {
        return Failure::Limit(limit.clone());
    }
    let trapped = |what: String, may_be_panic: bool| {
        let printed = state.guest_stderr_as_line();
        Failure::Trap(
            match find_panic_message(&printed).filter(|_| may_be_panic) {
                Some(panic) => panic,
                None if printed.is_empty() => what,
                None => format!("{what}; the guest printed: {printed}"),
            },
        )
    };
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trapped(trap.to_string(), *trap == Trap::UnreachableCodeReached);
    }
    let root = error.root_cause().to_string();
    let root = GuestTextSanitizer::for_current_guest_call(state, "failure").sanitize_line(
        "message",
        &root,
        convert::MAX_GUEST_ERROR_OR_REASON_BYTES,
    );
    // wasmtime has no error types for these two limits, so match its messages. Tests with hostile
    // guests ensure that the messages stay the same.
    if root.contains("fuel allocated for hostcalls") {
        return Failure::Limit(format!(
            "{} MiB of data in one call",
            MAX_HOST_CALL_DATA_BYTES >> 20
        ));
    }
    let is_full = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
    if is_full || root.contains("store handle limit exceeded") {
        return Failure::Limit(format!("resources: {root}"));
    }
    trapped(root, false)
}
