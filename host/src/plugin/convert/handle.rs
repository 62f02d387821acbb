//! Payloads passed to a guest: small payloads are copied, and large payloads are passed as a
//! handle.
//!
//! A conversation may be large, so a hook gets a handle, through which it reads only the parts that
//! it needs (`imports/handles.rs`).

use std::any::Any;
use std::sync::Arc;

use wasmtime::component::Resource;

use super::super::bindings::rind::plugin::handles as wh;
use super::super::host::GuestCallState;
use crate::message::Message;
use crate::point::payload as p;

/// Payload that the guest reads through a handle during the current call. The dispatcher and the
/// call share the payload without a copy.
#[derive(Clone)]
pub(in super::super) enum GuestHandlePayload {
    /// Payload of the extension point `context`.
    Conversation(Arc<Vec<Message>>),
    /// Payload of the points at which messages are compacted or archived.
    Slice(Arc<p::Slice>),
    /// Payload of the extension point `before-provider-request`.
    WireRequest(Arc<p::WireRequest>),
    /// Payload of the extension point `after-provider-response`.
    WireResponse(Arc<p::WireResponse>),
    /// Payload of the extension point `post-tool`.
    FinishedCall(Arc<p::FinishedCall>),
}

/// Payload that is converted for guests, or passed to them as a handle.
pub(in super::super) trait GuestPayload {
    /// Form in which guests get the payload: [`ConvertedPayload`] or a handle.
    type GuestForm;

    /// Converts the payload for the guest, or stores the payload in `call` and returns a handle to
    /// it.
    fn to_guest_form(&self, call: &mut GuestCallState) -> Self::GuestForm;
}

/// Payload that is passed to guests unconverted. Method resolution prefers the candidate with fewer
/// references, so `payload.show(call)` picks [`GuestPayload`] for a payload that implements both.
pub(in super::super) trait UnconvertedGuestPayload {
    type UnconvertedForm;

    fn to_guest_form(&self, call: &mut GuestCallState) -> Self::UnconvertedForm;
}

impl<'a, T> UnconvertedGuestPayload for &'a T {
    type UnconvertedForm = &'a T;

    fn to_guest_form(&self, _call: &mut GuestCallState) -> &'a T {
        self
    }
}

/// Payload converted to the type in the generated bindings.
pub(in super::super) struct ConvertedPayload<T>(pub(in super::super) T);

/// Value that can be passed as the payload to a function of the generated bindings: a handle is
/// passed by value, any other payload by reference.
pub(in super::super) trait GuestFunctionArgument {
    type PassedValue<'a>
    where
        Self: 'a;

    fn as_passed_value(&self) -> Self::PassedValue<'_>;
}

impl<T> GuestFunctionArgument for &T {
    type PassedValue<'a>
        = &'a T
    where
        Self: 'a;

    fn as_passed_value(&self) -> &T {
        self
    }
}

impl<T> GuestFunctionArgument for ConvertedPayload<T> {
    type PassedValue<'a>
        = &'a T
    where
        Self: 'a;

    fn as_passed_value(&self) -> &T {
        &self.0
    }
}

impl<T: 'static> GuestFunctionArgument for Resource<T> {
    type PassedValue<'a> = Resource<T>;

    fn as_passed_value(&self) -> Self {
        Resource::new_borrow(self.rep())
    }
}

/// Returns the main text of a payload. A hook may return this text unchanged.
pub(in super::super) fn payload_main_text(payload: &dyn Any) -> Option<&str> {
    let input = payload
        .downcast_ref()
        .map(|input: &p::TurnInput| &input.text);
    let delta = || {
        payload
            .downcast_ref()
            .map(|delta: &p::TextDelta| &delta.text)
    };
    let text = payload.downcast_ref().or(input).or_else(delta);
    text.map(String::as_str)
}

/// Number of the resource behind every handle that a call passes to a plugin. A call has only one
/// payload, so one number is enough.
const PAYLOAD_RESOURCE_NUMBER: u32 = 0;

macro_rules! lent {
    ($($payload:ty => $variant:ident;)*) => {$(
        impl GuestPayload for Arc<$payload> {
            type GuestForm = Resource<wh::$variant>;

            fn to_guest_form(&self, call: &mut GuestCallState) -> Self::GuestForm {
                call.lent = Some(GuestHandlePayload::$variant(self.clone()));
                Resource::new_borrow(PAYLOAD_RESOURCE_NUMBER)
            }
        }
    )*};
}
lent! {
    Vec<Message> => Conversation;
    p::Slice => Slice;
    p::WireRequest => WireRequest;
    p::WireResponse => WireResponse;
    p::FinishedCall => FinishedCall;
}
