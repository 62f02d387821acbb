//! Sanitizes the outcomes that hooks of guests return. Every text in an outcome passes through
//! [`GuestTextSanitizer`]; reasons become one line, because terminals and models show them.
//!
//! Each row of the macro calls below destructures a type completely, so that the compiler reports a
//! new field or case that is not handled.

use super::super::bindings::exports::rind::plugin::implement as wi;
use super::super::bindings::rind::plugin::types as wt;
use super::super::sanitize::GuestTextSanitizer;
use super::MAX_GUEST_ERROR_OR_REASON_BYTES;
use crate::json;
use crate::point::failure::Failure;
use crate::point::outcome::*;
use crate::point::payload::{Assessment, Decision, PromptPart, Tier};

/// Maximum length of a log line or notice of a plugin, in bytes.
const MAX_LOG_LINE_BYTES: usize = 4096;

/// Maximum length of the name of a metric that a plugin records, in bytes.
const MAX_METRIC_NAME_BYTES: usize = 128;

/// Data from a guest that contains texts, which must be sanitized.
pub(in super::super) trait SanitizableGuestData {
    /// Sanitizes every text in place. `sanitizer` belongs to the call that returned the data.
    fn sanitize_texts(&mut self, sanitizer: GuestTextSanitizer<'_>);
}

/// Text, possibly optional or repeated, to which a sanitizing function is applied.
trait SanitizableText {
    fn sanitize_each_text(&mut self, sanitize: &impl Fn(String) -> String);
}

impl SanitizableText for String {
    fn sanitize_each_text(&mut self, sanitize: &impl Fn(String) -> String) {
        *self = sanitize(std::mem::take(self));
    }
}

macro_rules! many {
    ($($many:ident),*) => {$(
        impl<T: SanitizableText> SanitizableText for $many<T> {
            fn sanitize_each_text(&mut self, sanitize_texts: &impl Fn(String) -> String) {
                self.iter_mut().for_each(|text| text.sanitize_each_text(sanitize_texts));
            }
        }

        impl<T: SanitizableGuestData> SanitizableGuestData for $many<T> {
            fn sanitize_texts(&mut self, sanitizer: GuestTextSanitizer<'_>) {
                self.iter_mut().for_each(|item| item.sanitize_texts(sanitizer));
            }
        }
    )*};
}
many!(Option, Vec);

macro_rules! without_text {
    ($($name:ty),*) => {$(
        impl SanitizableGuestData for $name {
            fn sanitize_texts(&mut self, _sanitizer: GuestTextSanitizer<'_>) {}
        }
    )*};
}
// These types contain no text to sanitize. A guest refers to a blob by its id; the host ignores the
// other fields and looks them up.
without_text!(bool, u32, f64, Decision, Tier, wt::Blob);

/// Sanitizes a field of an outcome. The field's row in the table names the method of the sanitizer
/// to use; the default is the field's own `sanitize`.
macro_rules! field {
    ($sanitizer:ident, $field:ident) => {
        $field.sanitize_texts($sanitizer)
    };
    ($sanitizer:ident, $field:ident, line $what:literal) => {
        $field.sanitize_each_text(&|text| {
            $sanitizer.sanitize_line($what, &text, MAX_GUEST_ERROR_OR_REASON_BYTES)
        })
    };
    ($sanitizer:ident, $field:ident, replacement $what:literal) => {
        *$field = $field
            .take()
            .and_then(|text| $sanitizer.sanitize_payload_replacement($what, text))
    };
    ($sanitizer:ident, $field:ident, $way:ident $what:literal) => {
        $field.sanitize_each_text(&|text| $sanitizer.$way($what, text))
    };
}

macro_rules! records {
    ($($name:ident { $($field:ident $(: $way:ident $what:literal)?),* };)*) => {$(
        impl SanitizableGuestData for $name {
            fn sanitize_texts(&mut self, sanitizer: GuestTextSanitizer<'_>) {
                let Self { $($field),* } = self;
                $(field!(sanitizer, $field $(, $way $what)?);)*
            }
        }
    )*};
}
records! {
    Injection { text: text "injected message", keep };
    PromptPart { tier, key: text "key of a part", source: text "source of a part", text: text "part" };
    Assessment { input: text "text", decision, confidence, reasons: text "reason" };
    Replacement { id: text "id", text: text "text" };
}

macro_rules! outcomes {
    ($($name:ident { $($field:ident $(: $way:ident $what:literal)?),* };)*) => {
        records! { $($name { $($field $(: $way $what)?,)* effects };)* }
    };
}
for_each_outcome!(outcomes);

macro_rules! choices {
    ($($name:ident { $($bare:ident),*; $($case:ident $(: $way:ident $what:literal)?),* };)*) => {$(
        impl SanitizableGuestData for $name {
            fn sanitize_texts(&mut self, sanitizer: GuestTextSanitizer<'_>) {
                match self {
                    $(Self::$bare => {})*
                    $(Self::$case(value) => field!(sanitizer, value $(, $way $what)?),)*
                }
            }
        }
    )*};
}
for_each_choice!(choices);
choices! {
    MessageEdit { ; Drop: text "id", Replace, Append: text "text" };
    Part { ; Text: text "content", Json: json "content", Blob };
}

impl SanitizableGuestData for Effect {
    fn sanitize_texts(&mut self, sanitizer: GuestTextSanitizer<'_>) {
        let line = |what: &str, text: &mut String, limit| {
            *text = sanitizer.sanitize_line(what, text, limit)
        };
        match self {
            Self::Log(LogLine { level: _, text }) => line("log", text, MAX_LOG_LINE_BYTES),
            Self::Notify(LogLine { level: _, text }) => line("notice", text, MAX_LOG_LINE_BYTES),
            Self::Metric(Metric { name, value: _ }) => line("metric", name, MAX_METRIC_NAME_BYTES),
            Self::Store(Stored { key, value }) => {
                field!(sanitizer, key, text "stored key");
                field!(sanitizer, value, text "stored value");
            }
        }
    }
}

/// Sanitizes the outcome that a plugin returned as an implementation of a plugin-defined extension
/// point.
pub(in super::super) fn sanitize_plugin_defined_point_outcome(
    outcome: wi::Outcome,
    sanitizer: GuestTextSanitizer<'_>,
) -> Result<PluginDefinedPointOutcome, Failure> {
    let reason =
        |text: String| sanitizer.sanitize_line("reason", &text, MAX_GUEST_ERROR_OR_REASON_BYTES);
    let verdict = match outcome.verdict {
        wi::Verdict::Pass => PluginDefinedPointVerdict::Pass,
        wi::Verdict::Value(value) => {
            let value = json::parse_json(
                &sanitizer.json("answer", value),
                json::DEFAULT_MAX_JSON_BYTES,
            )
            .map_err(|e| Failure::Malformed(format!("the answer {e}")))?;
            PluginDefinedPointVerdict::Value(value)
        }
        wi::Verdict::Ask(text) => PluginDefinedPointVerdict::Ask(reason(text)),
        wi::Verdict::Block(text) => PluginDefinedPointVerdict::Block(reason(text)),
    };
    let mut effects = outcome.effects;
    effects.sanitize_texts(sanitizer);
    Ok(PluginDefinedPointOutcome { verdict, effects })
}
