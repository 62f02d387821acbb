//! Payloads on their way to a guest: small ones are copied, large ones are lent as a handle.

use std::any::Any;
use std::sync::Arc;

use wasmtime::component::{Lower, Resource};

use super::super::bindings::rind::plugin::handles as wh;
use super::super::host::CurrentCall;
use super::ToWit;
use crate::message::Message;
use crate::point::payload as p;

/// The payload behind the handle of the call that runs. It is shared with the dispatcher, not copied.
#[derive(Clone)]
pub(in super::super) enum Lent {
    /// Payload of `context`.
    Conversation(Arc<Vec<Message>>),
    /// Payload of compaction and archival.
    Slice(Arc<p::Slice>),
    /// Payload of `before-provider-request`.
    WireRequest(Arc<p::WireRequest>),
    /// Payload of `after-provider-response`.
    WireResponse(Arc<p::WireResponse>),
    /// Payload of `post-tool`.
    FinishedCall(Arc<p::FinishedCall>),
}

/// A payload that guests can be shown.
pub(in super::super) trait Show {
    /// The generated type, as a [`Copied`] or [`Handle`].
    type Shown;

    /// Copies the payload, or lends it to `call`.
    fn show(&self, call: &mut CurrentCall) -> Self::Shown;
}

impl<T: ToWit> Show for T {
    type Shown = Copied<T::Wit>;

    fn show(&self, call: &mut CurrentCall) -> Self::Shown {
        call.shown.extend(self.blobs());
        Copied(self.to_wit())
    }
}

/// Returns the text that a hook may hand on unchanged; empty for a payload without one.
pub(in super::super) fn given(payload: &dyn Any) -> &str {
    let input = payload
        .downcast_ref()
        .map(|input: &p::TurnInput| &input.text);
    let delta = || {
        payload
            .downcast_ref()
            .map(|delta: &p::TextDelta| &delta.text)
    };
    let text = payload.downcast_ref().or(input).or_else(delta);
    text.map_or("", String::as_str)
}

/// There is one payload in a call, so its handles need no number of their own.
const ONLY: u32 = 0;

macro_rules! lent {
    ($($payload:ty => $variant:ident;)*) => {$(
        impl Show for Arc<$payload> {
            type Shown = Handle<wh::$variant>;

            fn show(&self, call: &mut CurrentCall) -> Self::Shown {
                call.lent = Some(Lent::$variant(self.clone()));
                Handle(Resource::new_borrow(ONLY))
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

/// A payload on its way: converted or lent where [`Show`] says how, else as it is, for types of the contract. Of two methods of one
/// name the one that takes fewer references is chosen, so `(&Payload(payload)).show(call)` prefers the first.
pub(in super::super) struct Payload<'a, T>(pub(in super::super) &'a T);

pub(in super::super) trait ShowConverted {
    type Shown;
    fn show(&self, call: &mut CurrentCall) -> Self::Shown;
}

impl<T: Show> ShowConverted for Payload<'_, T> {
    type Shown = T::Shown;

    fn show(&self, call: &mut CurrentCall) -> T::Shown {
        self.0.show(call)
    }
}

pub(in super::super) trait ShowAsIs {
    type Shown;
    fn show(&self, call: &mut CurrentCall) -> Self::Shown;
}

impl<'a, T: Lower> ShowAsIs for &Payload<'a, T> {
    type Shown = AsIs<'a, T>;

    fn show(&self, _call: &mut CurrentCall) -> AsIs<'a, T> {
        AsIs(self.0)
    }
}

/// A payload that guests are shown as it is.
pub(in super::super) struct AsIs<'a, W>(&'a W);

impl<W: Clone> AsIs<'_, W> {
    /// The argument of the function.
    pub(in super::super) fn into_argument(self) -> W {
        self.0.clone()
    }
}

/// A payload that is copied.
pub(in super::super) struct Copied<W>(W);

impl<W> Copied<W> {
    /// The argument of the function.
    pub(in super::super) fn into_argument(self) -> W {
        self.0
    }
}

/// A payload that is lent.
pub(in super::super) struct Handle<W: 'static>(Resource<W>);

impl<W: 'static> Handle<W> {
    /// The argument of the function.
    pub(in super::super) fn into_argument(self) -> Resource<W> {
        self.0
    }
}
