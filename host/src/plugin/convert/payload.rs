//! Converts payloads from the host's types to the types that guests see.

use super::super::bindings::rind::plugin::{payloads as wp, types as wt};
use super::super::host::GuestCallState;
use super::handle::{ConvertedPayload, GuestPayload};
use crate::message::{
    Blob, Content, EffectClass, Message, Origin, Part, Role, ToolCall, ToolResult,
};
use crate::point::payload as p;

pub(in super::super) fn message_to_wit(message: &Message) -> wt::Message {
    let role = match message.role {
        Role::User => wt::Role::User,
        Role::Assistant => wt::Role::Assistant,
        Role::Tool => wt::Role::Tool,
    };
    wt::Message {
        id: message.id.clone(),
        role,
        origin: message_origin_to_wit(message),
        content: message.content.iter().map(content_to_wit).collect(),
    }
}

fn message_origin_to_wit(message: &Message) -> wt::Origin {
    match (message.origin, &message.plugin, message.role) {
        (Some(Origin::Summary), _, _) => wt::Origin::Summary,
        (Some(Origin::Reflection), _, _) => wt::Origin::Reflection,
        (Some(Origin::Agent), _, _) => wt::Origin::Agent,
        (None, Some(plugin), _) => wt::Origin::Plugin(plugin.clone()),
        (None, None, Role::User) => wt::Origin::User,
        (None, None, Role::Assistant) => wt::Origin::Model,
        (None, None, Role::Tool) => wt::Origin::Tools,
    }
}

fn content_to_wit(part: &Content) -> wt::Content {
    match part {
        Content::Text { text } => wt::Content::Text(text.clone()),
        Content::Thinking { text, .. } => wt::Content::Thinking(text.clone()),
        Content::Blob(reference) => wt::Content::Blob(blob_to_wit(reference)),
        Content::ToolCall(call) => wt::Content::ToolCall(tool_call_to_wit(call)),
        Content::ToolResult(result) => wt::Content::ToolResult(tool_result_to_wit(result)),
    }
}

pub(in super::super) fn tool_call_to_wit(call: &ToolCall) -> wt::ToolCall {
    wt::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.to_string(),
    }
}

fn blob_to_wit(blob: &Blob) -> wt::Blob {
    wt::Blob {
        id: blob.id.clone(),
        media_type: blob.media_type.clone(),
        size: blob.size,
    }
}

pub(in super::super) fn tool_result_part_to_wit(part: &Part) -> wt::Part {
    match part {
        Part::Text { text } => wt::Part::Text(text.clone()),
        Part::Json { value } => wt::Part::Json(value.to_string()),
        Part::Blob(reference) => wt::Part::Blob(blob_to_wit(reference)),
    }
}

fn tool_result_to_wit(result: &ToolResult) -> wt::ToolResult {
    wt::ToolResult {
        call_id: result.call_id.clone(),
        name: result.name.clone(),
        parts: result.content.iter().map(tool_result_part_to_wit).collect(),
        is_error: result.is_error,
    }
}

pub(in super::super) fn effect_class_from_wit(class: wt::EffectClass) -> EffectClass {
    match class {
        wt::EffectClass::Read => EffectClass::Read,
        wt::EffectClass::Write => EffectClass::Write,
        wt::EffectClass::Execute => EffectClass::Execute,
        wt::EffectClass::External => EffectClass::External,
    }
}

impl GuestPayload for Message {
    type GuestForm = ConvertedPayload<wt::Message>;

    fn to_guest_form(&self, call: &mut GuestCallState) -> Self::GuestForm {
        call.shown.extend(self.blobs().cloned());
        ConvertedPayload(message_to_wit(self))
    }
}

impl GuestPayload for p::ProposedCall {
    type GuestForm = ConvertedPayload<wp::ProposedCall>;

    fn to_guest_form(&self, _call: &mut GuestCallState) -> Self::GuestForm {
        ConvertedPayload(wp::ProposedCall {
            call: tool_call_to_wit(&self.call),
            effect_class: match self.effect_class {
                EffectClass::Read => wt::EffectClass::Read,
                EffectClass::Write => wt::EffectClass::Write,
                EffectClass::Execute => wt::EffectClass::Execute,
                EffectClass::External => wt::EffectClass::External,
            },
            plugin: self.plugin.clone(),
        })
    }
}

/// Converts, field by field, the records for which the host has its own type. Fields that exist
/// only in the host's type are not passed to guests.
macro_rules! records {
    ($($(#[$doc:meta])* $record:ident { $($(#[$about:meta])* $field:ident $(as $name:literal)?: $type:ty,)* })*) => {
        $(records!(@record $record { $($field)* });)*
    };
    (@record PromptContext $fields:tt) => { records!(@convert PromptContext $fields); };
    (@record TextDelta $fields:tt) => { records!(@convert TextDelta $fields); };
    (@record Reflection $fields:tt) => { records!(@convert Reflection $fields); };
    (@record TurnSummary $fields:tt) => { records!(@convert TurnSummary $fields); };
    (@record $($other:tt)*) => {};
    (@convert $record:ident { $($field:ident)* }) => {
        impl GuestPayload for p::$record {
            type GuestForm = ConvertedPayload<wp::$record>;

            fn to_guest_form(&self, _call: &mut GuestCallState) -> Self::GuestForm {
                ConvertedPayload(wp::$record {
                    $($field: Into::into(Clone::clone(&self.$field)),)*
                })
            }
        }
    };
}
p::for_each_payload!(records);
