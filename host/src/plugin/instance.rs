//! Warm instances: one per plugin and session, and a second one for hooks that run in the
//! background.
//!
//! A caller takes the instance out of its slot, calls it in the caller's own task, and puts it back
//! after a successful call. After an error, a trap or a dropped future the instance is discarded
//! and the next caller creates a new one; the contract tells plugins to expect this.

use std::sync::Arc;

use futures_util::lock::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::component::{
    ComponentNamedList, Instance, InstancePre, Lift, Lower, ResourceTableError, TypedFunc,
};
use wasmtime::{Store, Trap};

use super::convert;
use super::exports::{ComponentExports, ExportedFunctions};
use super::host::{HostState, PluginBacking};
use super::limits::{HOSTCALL_BYTES, MAX_HANDLES};
use super::sanitize::CallSanitizer;
use super::stderr::panic_place;
use crate::point::caller::Caller;
use crate::point::deadline::{HolderPauses, wait_for_turn};
use crate::point::failure::Failure;

/// Maximum number of extra instances next to the warm one. Each may use as much memory as the
/// manifest asks for. A few suffice, because calls between plugins nest only a few levels deep.
const MAX_EXTRA: usize = 4;

/// Template of instances: compiled, linked and checked once per plugin.
pub(super) struct InstanceTemplate {
    pub(super) pre: InstancePre<HostState>,
    pub(super) exports: ComponentExports,
    pub(super) memory_limit: u64,
    /// Whether a call may wait for another plugin: true if the component imports an interface whose
    /// calls may wait for other work.
    pub(super) waits_for_others: bool,
    /// Whether an instance is discarded after each call. Tests compare such calls with those of a
    /// warm instance.
    pub(super) is_cold: bool,
}

pub(super) struct PluginInstance {
    pub(super) store: Store<HostState>,
    pub(super) functions: ExportedFunctions,
    /// Wasmtime instance. Exported functions that do not belong to the contract are looked up in it
    /// at each call.
    pub(super) whole: Instance,
}

/// Guard of the slot that holds the idle instance.
type Place<'a> = MutexGuard<'a, Option<Box<PluginInstance>>>;

/// Slot of a plugin's instance in a session.
pub(super) struct InstanceSlot {
    template: Arc<InstanceTemplate>,
    backing: Arc<PluginBacking>,
    /// Idle instance; `None` while there is none. Boxed, because it has about a kilobyte and moves
    /// from the slot to the caller and back at every call.
    warm: Mutex<Option<Box<PluginInstance>>>,
    /// Queue of the callers that wait for the warm instance; the mutex alone would not be fair.
    first: Semaphore,
    /// Permits for extra instances next to the warm one.
    extra: Semaphore,
    /// Time for which the call that has the warm instance waited for the person.
    pauses: Arc<HolderPauses>,
}

impl InstanceSlot {
    pub(super) fn new(template: Arc<InstanceTemplate>, backing: Arc<PluginBacking>) -> Self {
        Self {
            template,
            backing,
            warm: Mutex::new(None),
            first: Semaphore::new(1),
            extra: Semaphore::new(MAX_EXTRA),
            pauses: Arc::default(),
        }
    }

    /// Returns the state that all instances of the plugin share.
    pub(super) fn backing(&self) -> &PluginBacking {
        &self.backing
    }

    /// Creates a slot for a separate instance of the same plugin in the same session.
    pub(super) fn sibling(&self) -> Self {
        Self::new(self.template.clone(), self.backing.clone())
    }

    /// Calls the function that `find` selects. `interface` is named in the error if the instance
    /// lacks the function.
    pub(super) async fn call_guest<P, R>(
        &self,
        caller: &Caller,
        interface: &str,
        find: impl FnOnce(&ExportedFunctions) -> Option<TypedFunc<P, R>>,
        arguments: P,
    ) -> Result<R, Failure>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let mut busy = self.acquire_instance(caller).await?;
        let instance = &mut busy.instance;
        let function = find(&instance.functions)
            .ok_or_else(|| Failure::Unavailable(format!("the instance exports no {interface}")))?;
        let result = function.call_async(&mut instance.store, arguments).await;
        busy.settle_call(result)
    }

    /// Takes the warm instance if it exists and no other call uses or waits for it. This is the
    /// common case, and it never waits.
    pub(super) fn acquire_now(&self, caller: &Caller) -> Option<BusyInstance<'_>> {
        let mut place = self.free()?;
        let instance = place.take()?;
        Some(self.busy_instance(caller, Some(place), instance, None))
    }

    /// Waits for the warm instance or takes an extra one, and creates an instance if there is none.
    /// The wait does not count toward the call's deadline.
    pub(super) async fn acquire_instance(
        &self,
        caller: &Caller,
    ) -> Result<BusyInstance<'_>, Failure> {
        // The rare path is boxed, because its future is large and would otherwise enlarge the
        // future of every call.
        let (mut place, extra) = match self.free() {
            Some(place) => (Some(place), None),
            None => Box::pin(self.wait_or_another(caller)).await,
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
        Ok(self.busy_instance(caller, place, instance, extra))
    }

    /// Locks the slot of the warm instance, unless a call uses the instance or waits for it.
    fn free(&self) -> Option<Place<'_>> {
        let is_awaited = self.first.available_permits() == 0;
        if is_awaited {
            return None;
        }
        self.warm.try_lock()
    }

    fn busy_instance<'a>(
        &self,
        caller: &Caller,
        place: Option<Place<'a>>,
        mut instance: Box<PluginInstance>,
        extra: Option<SemaphorePermit<'a>>,
    ) -> BusyInstance<'a> {
        instance.store.data_mut().begin_call(caller);
        BusyInstance {
            is_cold: self.template.is_cold,
            place,
            instance,
            _extra: extra,
        }
    }

    /// Waits for the warm instance, or takes a permit for an extra one. A call that another plugin
    /// caused must not wait: the other plugin is itself in a call, and two plugins that wait for
    /// each other would deadlock until the limit on waiting. The call gets an extra instance
    /// instead, which is discarded afterwards. If all [`MAX_EXTRA`] permits are taken, the call
    /// waits like any other. A plugin that never waits for others cannot deadlock, so its calls run
    /// one after the other and its reads and writes (a log, a sum) do not interleave.
    async fn wait_or_another(
        &self,
        caller: &Caller,
    ) -> (Option<Place<'_>>, Option<SemaphorePermit<'_>>) {
        let may_make = !caller.call_chain.is_empty() && self.template.waits_for_others;
        match may_make.then(|| self.extra.try_acquire()) {
            Some(Ok(extra)) => (None, Some(extra)),
            _ => (
                Some(wait_for_turn(self.turn(), Some(&self.pauses)).await),
                None,
            ),
        }
    }

    /// Waits for the warm instance, in the order of arrival.
    async fn turn(&self) -> Place<'_> {
        let _first = self.first.acquire().await;
        self.warm.lock().await
    }
}

impl InstanceTemplate {
    /// Creates an instance. Limits are set first, because start functions of the component run
    /// here. `pauses` collects the time for which the instance waits for the person; it is `None`
    /// for an extra instance, for which no other call waits.
    async fn instantiate_guest(
        &self,
        backing: Arc<PluginBacking>,
        pauses: Option<Arc<HolderPauses>>,
    ) -> Result<PluginInstance, Failure> {
        // Open the folders now: a standard library asks for its preopens during instantiation,
        // through an import that is not async.
        let folders = backing.folders.clone();
        if !folders.are_open() {
            let _ = tokio::task::spawn_blocking(move || folders.open_all()).await;
        }
        let mut store = Store::new(
            self.pre.engine(),
            HostState::new(backing, pauses, self.memory_limit),
        );
        store.limiter(|state| &mut state.limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store.set_hostcall_fuel(HOSTCALL_BYTES);
        store.set_max_component_handles(MAX_HANDLES);
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
            Err(error) => Err(call_failure(&error, store.data())),
        }
    }
}

/// Instance that is in a call. If it is dropped without [`BusyInstance::settle_call`], the instance
/// is discarded.
pub(super) struct BusyInstance<'a> {
    /// Guard of the slot that the instance returns to; `None` for an extra instance.
    place: Option<Place<'a>>,
    pub(super) instance: Box<PluginInstance>,
    _extra: Option<SemaphorePermit<'a>>,
    is_cold: bool,
}

impl BusyInstance<'_> {
    /// Ends the call: puts the instance back after an answer, and discards it otherwise. This
    /// function is kept small, so that the answer is not copied on its way through.
    pub(super) fn settle_call<T>(self, result: wasmtime::Result<T>) -> Result<T, Failure> {
        match result {
            Ok(answer) => {
                self.put_back();
                Ok(answer)
            }
            Err(error) => Err(call_failure(&error, self.instance.store.data())),
        }
    }

    fn put_back(mut self) {
        self.instance.store.data().log_stderr();
        self.instance.store.data_mut().call.end_call();
        if let Some(place) = self.place.as_mut().filter(|_| !self.is_cold) {
            **place = Some(self.instance);
        }
    }
}

/// Converts an error of the engine into a failure for the dispatcher: an exceeded limit, or a trap
/// with the guest's panic message.
fn call_failure(error: &wasmtime::Error, state: &HostState) -> Failure {
    if let Some(limit) = &state.limiter.hit {
        return Failure::Limit(limit.clone());
    }
    let trapped = |what: String, may_be_panic: bool| {
        let printed = state.stderr();
        Failure::Trap(match panic_place(&printed).filter(|_| may_be_panic) {
            Some(panic) => panic,
            None if printed.is_empty() => what,
            None => format!("{what}; it printed: {printed}"),
        })
    };
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trapped(trap.to_string(), *trap == Trap::UnreachableCodeReached);
    }
    let root = error.root_cause().to_string();
    let root = CallSanitizer::sanitizer_of(state, "failure").sanitize_line(
        "message",
        &root,
        convert::MAX_REASON_BYTES,
    );
    // wasmtime has no error types for these two limits, so match its messages; hostile guests in
    // the tests check that the messages stay the same.
    if root.contains("fuel allocated for hostcalls") {
        return Failure::Limit(format!("{} MiB of data in one call", HOSTCALL_BYTES >> 20));
    }
    let is_full = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
    if is_full || root.contains("store handle limit exceeded") {
        return Failure::Limit(format!("resources: {root}"));
    }
    trapped(root, false)
}
