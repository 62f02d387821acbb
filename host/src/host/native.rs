//! Adapts hooks that the embedder implements in native code. They are bound to the same points and
//! called by the same dispatcher as hooks of plugins.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};

use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::point::registry::{HookRegistry, HookSpec};
use crate::point::{ExtensionPoint, Hook};

/// A hook in the code of the host program that is registered in every session of the host.
pub(super) struct NativeHookBinding {
    /// Name of the hook, which is used instead of a plugin's name.
    pub(super) name: Arc<str>,
    bind: Box<dyn Fn(&mut HookRegistry) + Send + Sync>,
}

impl NativeHookBinding {
    pub(super) fn new<P: ExtensionPoint>(spec: HookSpec, hook: Arc<dyn Hook<P>>) -> Self {
        Self {
            name: spec.plugin.clone(),
            bind: Box::new(move |registry| registry.add::<P>(spec.clone(), hook.clone())),
        }
    }

    pub(super) fn register_in(&self, registry: &mut HookRegistry) {
        (self.bind)(registry);
    }
}

pub(super) struct NativeFunctionHook<P, F>(F, PhantomData<fn(P)>);

impl<P, F> NativeFunctionHook<P, F> {
    pub(super) fn new(function: F) -> Self {
        Self(function, PhantomData)
    }
}

impl<P, F> Hook<P> for NativeFunctionHook<P, F>
where
    P: ExtensionPoint,
    F: Fn(&Caller, &P::Payload) -> Result<P::Outcome, Failure> + Send + Sync,
{
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        ready((self.0)(caller, payload)).boxed()
    }
}
