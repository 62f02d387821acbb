//! Payloads on their way to a guest: small ones are copied, large ones are lent as a handle.

use std::sync::Arc;

use wasmtime::component::Resource;

use super::super::bindings::rind::plugin::{handles as wh, payloads as wp, types as wt};
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
    /// The generated type.
    type Wit: Argument;

    /// Copies the payload, or lends it to `call`.
    fn show(&self, call: &mut CurrentCall) -> Self::Wit;
}

impl<T: ToWit<Wit: Argument>> Show for T {
    type Wit = T::Wit;

    fn show(&self, _call: &mut CurrentCall) -> T::Wit {
        self.to_wit()
    }
}

/// There is one payload in a call, so its handles need no number of their own.
const ONLY: u32 = 0;

macro_rules! lent {
    ($($payload:ty => $variant:ident;)*) => {$(
        impl Show for Arc<$payload> {
            type Wit = Resource<wh::$variant>;

            fn show(&self, call: &mut CurrentCall) -> Self::Wit {
                call.lent = Some(Lent::$variant(self.clone()));
                Resource::new_borrow(ONLY)
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

/// A generated type as the generated functions take it: records and texts by reference, handles by value.
pub(in super::super) trait Argument {
    /// The type of the parameter.
    type As<'a>
    where
        Self: 'a;

    /// Borrows it.
    fn as_argument(&self) -> Self::As<'_>;
}

impl Argument for String {
    type As<'a> = &'a str;

    fn as_argument(&self) -> &str {
        self
    }
}

impl<T> Argument for Vec<T> {
    type As<'a>
        = &'a [T]
    where
        T: 'a;

    fn as_argument(&self) -> &[T] {
        self
    }
}

impl<T: 'static> Argument for Resource<T> {
    type As<'a> = Self;

    fn as_argument(&self) -> Self {
        Self::new_borrow(self.rep())
    }
}

macro_rules! records {
    ($($record:ty),* $(,)?) => {$(
        impl Argument for $record {
            type As<'a> = &'a Self;

            fn as_argument(&self) -> &Self {
                self
            }
        }
    )*};
}
records! {
    wt::Message, wp::SessionInfo, wp::TurnInput, wp::Assessment, wp::PromptContext, wp::ModelRequest, wp::TextDelta,
    wp::ProposedCall, wp::Reflection, wp::ReflectVerdict, wp::TurnSummary, wp::SubagentInfo, wp::Failure,
}
