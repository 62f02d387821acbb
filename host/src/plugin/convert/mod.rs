//! Conversion of payloads for guests, and of outcomes and answers from guests.
//!
//! This module only converts, field by field. [`crate::point::merge`] decides which changes of an
//! outcome take effect.

mod answer;
mod handle;
mod outcome;
mod payload;

pub(super) use answer::convert_tool_answer;
pub(super) use handle::{
    GuestFunctionArgument, GuestHandlePayload, GuestPayload, UnconvertedGuestPayload,
    payload_main_text,
};
pub(super) use outcome::{SanitizableGuestData, sanitize_plugin_defined_point_outcome};
pub(super) use payload::{
    effect_class_from_wit, message_to_wit, tool_call_to_wit, tool_result_part_to_wit,
};

use super::bindings::rind::plugin::types as wt;
use super::sanitize::GuestTextSanitizer;

/// Maximum length in bytes of an error or a reason from a guest.
pub(super) const MAX_GUEST_ERROR_OR_REASON_BYTES: usize = 2048;

/// Describes an error that a guest returned, including its kind.
pub(super) fn describe_guest_error(error: wt::Error, sanitizer: GuestTextSanitizer<'_>) -> String {
    let (kind, text) = match error {
        wt::Error::InvalidInput(text) => ("invalid input", text),
        wt::Error::NotFound(text) => ("not found", text),
        wt::Error::Denied(text) => ("denied", text),
        wt::Error::Limit(text) => ("limit", text),
        wt::Error::Failed(text) => {
            return sanitizer.sanitize_line("error", &text, MAX_GUEST_ERROR_OR_REASON_BYTES);
        }
    };
    format!(
        "{kind}: {}",
        sanitizer.sanitize_line("error", &text, MAX_GUEST_ERROR_OR_REASON_BYTES)
    )
}
