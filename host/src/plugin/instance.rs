//! One warm instance for each plugin and session, and another for those of its hooks that nobody waits for.
//!
//! A caller takes the instance out of its slot, calls it in its own task, and puts it back when all went well. Whatever
//! else happens (an error, a trap, a dropped future) the instance is gone and the next caller makes a new one; plugins are
//! told so in the contract.

use std::sync::Arc;

use futures_util::lock::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::component::{
    ComponentNamedList, InstancePre, Lift, Lower, ResourceTableError, TypedFunc,
};
use wasmtime::{Store, Trap};

use super::convert;
use super::exports::{Exports, Functions};
use super::host::{Backing, HostState};
use super::limits::{HOSTCALL_BYTES, MAX_HANDLES};
use super::sanitize::Sanitizer;
use crate::point::caller::Caller;
use crate::point::deadline::{Pauses, waiting};
use crate::point::failure::Failure;

/// Most instances beside the warm one at once. Each may take as much memory as the manifest asks for, and plugins that call
/// each other are nested a few levels only.
const MAX_EXTRA: usize = 4;

/// Template of instances: compiled, linked and probed once for each plugin.
pub(super) struct Template {
    pub(super) pre: InstancePre<HostState>,
    pub(super) exports: Exports,
    pub(super) memory_limit: u64,
    /// Whether a call of it may wait for another plugin: for one that implements a point, or whose hooks fire on what it does.
    pub(super) waits_for_others: bool,
    /// Whether an instance is thrown away after each call: tests compare that with one that is kept.
    pub(super) is_cold: bool,
}

pub(super) struct Instance {
    pub(super) store: Store<HostState>,
    pub(super) functions: Functions,
}

/// The place that the warm instance is taken out of and put back into.
type Place<'a> = MutexGuard<'a, Option<Box<Instance>>>;

/// The place of a plugin's instance in a session.
pub(super) struct Slot {
    template: Arc<Template>,
    backing: Arc<Backing>,
    /// Boxed: it is handed from the slot to the caller and back at every call, and has a kilobyte.
    warm: Mutex<Option<Box<Instance>>>,
    /// The first of those who wait for it: the lock alone knows no order.
    first: Semaphore,
    /// Instances beside the warm one that may still be made.
    extra: Semaphore,
    /// Time in which the call that has the warm instance waited for a person.
    pauses: Arc<Pauses>,
}

impl Slot {
    pub(super) fn new(template: Arc<Template>, backing: Arc<Backing>) -> Self {
        Self {
            template,
            backing,
            warm: Mutex::new(None),
            first: Semaphore::new(1),
            extra: Semaphore::new(MAX_EXTRA),
            pauses: Arc::default(),
        }
    }

    /// Returns the state that its instances share.
    pub(super) fn backing(&self) -> &Backing {
        &self.backing
    }

    /// A place for another instance of the same plugin in the same session.
    pub(super) fn sibling(&self) -> Self {
        Self::new(self.template.clone(), self.backing.clone())
    }

    /// Calls the function that `find` names. `interface` names what an instance without it lacks.
    pub(super) async fn call<P, R>(
        &self,
        caller: &Caller,
        interface: &str,
        find: impl FnOnce(&Functions) -> Option<TypedFunc<P, R>>,
        arguments: P,
    ) -> Result<R, Failure>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let mut busy = self.acquire(caller).await?;
        let instance = &mut busy.instance;
        let function = find(&instance.functions)
            .ok_or_else(|| Failure::Unavailable(format!("the instance exports no {interface}")))?;
        let result = function.call_async(&mut instance.store, arguments).await;
        busy.settle(result)
    }

    /// Takes the warm instance, if there is one and nobody else calls the plugin: mostly so, and then there is nothing to wait for.
    pub(super) fn acquire_now(&self, caller: &Caller) -> Option<Busy<'_>> {
        let mut place = self.free()?;
        let instance = place.take()?;
        Some(self.busy(caller, Some(place), instance, None))
    }

    /// Waits until nobody else calls the plugin, and makes an instance if there is none. That wait is not part of the call's
    /// deadline.
    pub(super) async fn acquire(&self, caller: &Caller) -> Result<Busy<'_>, Failure> {
        // What is rare is boxed: it is large, and every call would carry it along.
        let (mut place, extra) = match self.free() {
            Some(place) => (Some(place), None),
            None => Box::pin(self.wait_or_another(caller)).await,
        };
        let instance = match place.as_mut().and_then(|place| place.take()) {
            Some(instance) => instance,
            None => {
                let pauses = place.is_some().then(|| self.pauses.clone());
                let made = self.template.instantiate(self.backing.clone(), pauses);
                Box::new(Box::pin(made).await?)
            }
        };
        Ok(self.busy(caller, place, instance, extra))
    }

    /// The place of the warm instance, if nobody has it or waits for it.
    fn free(&self) -> Option<Place<'_>> {
        let is_awaited = self.first.available_permits() == 0;
        if is_awaited {
            return None;
        }
        self.warm.try_lock()
    }

    fn busy<'a>(
        &self,
        caller: &Caller,
        place: Option<Place<'a>>,
        mut instance: Box<Instance>,
        extra: Option<SemaphorePermit<'a>>,
    ) -> Busy<'a> {
        let state = instance.store.data_mut();
        state.clear_stderr();
        state.call.begin(caller);
        Busy {
            is_cold: self.template.is_cold,
            place,
            instance,
            _extra: extra,
        }
    }

    /// A call that a plugin caused does not wait: that plugin is being called itself, and two that wait for each other would
    /// do so as long as calls may wait. It gets an instance of its own, which is thrown away after it. There are only
    /// [`MAX_EXTRA`] of these; after that it waits like any other. Where the one that is called can wait for nobody, there is no
    /// need: one call after the other, so that what it reads and writes (a log, a sum) stays whole.
    async fn wait_or_another(
        &self,
        caller: &Caller,
    ) -> (Option<Place<'_>>, Option<SemaphorePermit<'_>>) {
        let may_make = !caller.call_chain.is_empty() && self.template.waits_for_others;
        match may_make.then(|| self.extra.try_acquire()) {
            Some(Ok(extra)) => (None, Some(extra)),
            _ => (Some(waiting(self.turn(), Some(&self.pauses)).await), None),
        }
    }

    /// Waits for the warm instance, in the order in which calls came.
    async fn turn(&self) -> Place<'_> {
        let _first = self.first.acquire().await;
        self.warm.lock().await
    }
}

impl Template {
    /// Makes an instance. Limits are set before: start functions run here. Of one that others wait for, `pauses` has the time in
    /// which it waited for a person.
    async fn instantiate(
        &self,
        backing: Arc<Backing>,
        pauses: Option<Arc<Pauses>>,
    ) -> Result<Instance, Failure> {
        // A standard library asks for them when it starts, and cannot be made to wait.
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
            self.exports.load(&self.pre, &mut store, &instance)
        };
        match made.await {
            Ok(functions) => Ok(Instance { store, functions }),
            Err(error) => Err(failure(&error, store.data())),
        }
    }
}

/// An instance that is being called. Dropped without [`Busy::settle`], the instance is thrown away.
pub(super) struct Busy<'a> {
    /// Slot that the instance returns to; `None` for one that was made for this call alone.
    place: Option<Place<'a>>,
    pub(super) instance: Box<Instance>,
    _extra: Option<SemaphorePermit<'a>>,
    is_cold: bool,
}

impl Busy<'_> {
    /// Ends the call: puts the instance back after an answer, throws it away after anything else. Small, so that an answer is not
    /// copied on its way through it.
    pub(super) fn settle<T>(self, result: wasmtime::Result<T>) -> Result<T, Failure> {
        match result {
            Ok(answer) => {
                self.put_back();
                Ok(answer)
            }
            Err(error) => Err(failure(&error, self.instance.store.data())),
        }
    }

    fn put_back(mut self) {
        self.instance.store.data().log_stderr();
        self.instance.store.data_mut().call.end();
        if let Some(place) = self.place.as_mut().filter(|_| !self.is_cold) {
            **place = Some(self.instance);
        }
    }
}

/// Converts an error of the engine into a failure for the dispatcher: a limit or a trap, with what the guest printed when it
/// panicked.
fn failure(error: &wasmtime::Error, state: &HostState) -> Failure {
    if let Some(limit) = &state.limiter.hit {
        return Failure::Limit(limit.clone());
    }
    let trapped = |what: String| {
        let printed = state.stderr();
        match printed.is_empty() {
            true => Failure::Trap(what),
            false => Failure::Trap(format!("{what}; it printed: {printed}")),
        }
    };
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trapped(trap.to_string());
    }
    let root = error.root_cause().to_string();
    let root = Sanitizer::of(state, "failure").line("message", &root, convert::MAX_REASON_BYTES);
    // Two limits have no type in wasmtime; hostile programs among the tests hold its words for them.
    if root.contains("fuel allocated for hostcalls") {
        return Failure::Limit(format!("{} MiB of data in one call", HOSTCALL_BYTES >> 20));
    }
    let is_full = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
    if is_full || root.contains("store handle limit exceeded") {
        return Failure::Limit(format!("resources: {root}"));
    }
    trapped(root)
}
