//! Traces requests to the model, and the compaction that keeps the conversation within the window.

use super::super::row::{LongTextOverflow, OutputRowBuilder};
use super::super::{
    DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE, estimated_usage_mark,
    format_count_with_noun, format_duration_ms, steps, truncate_to_one_line,
};
use super::TraceRenderer;
use rind_lib::event::{Event, Stamped, TurnPartId};
use rind_lib::message::{Finish, Usage};

impl TraceRenderer {
    pub(super) fn trace_model_request_start(&mut self, stamped: &Stamped, by: Option<&str>) {
        self.flush_folded_hooks();
        let progress = self.progress(&stamped.agent);
        // A request that a step sends, and not a plugin, shows that compaction is over.
        progress.is_compacting &= by.is_some() || !progress.is_in_step;
        if let Some(request) = TurnPartId::part_begun_by_event(stamped) {
            self.requests.insert(request, stamped.clone());
        }
    }

    pub(super) fn trace_model_request_end(&mut self, stamped: &Stamped) {
        let Event::RequestEnd {
            model: answered,
            usage,
            latency_ms,
            finish,
            error,
            ..
        } = &stamped.event
        else {
            return;
        };
        let asked = TurnPartId::part_ended_by_event(stamped)
            .and_then(|request| self.requests.remove(&request));
        let (part, level) = self.event_scope_and_level(asked.as_ref().unwrap_or(stamped));
        let row = OutputRowBuilder::with_indent_level(level)
            .with_styled_text(DIM_STYLE, "request")
            .pad_to_plugin_column();
        let row = match asked.map(|asked| asked.event) {
            Some(Event::RequestStart { by: Some(by), .. }) => {
                row.with_styled_text(PLUGIN_NAME_STYLE, &by)
            }
            Some(Event::RequestStart { model, .. }) => {
                let model = answered.as_ref().unwrap_or(&model);
                row.with_styled_text(DIM_STYLE, &truncate_to_one_line(model, 24))
            }
            _ => row,
        };
        let rows = match error {
            Some(why) => row
                .with_right_aligned_duration("–")
                .with_styled_text(ERROR_STYLE, "failed")
                .with_trailing_text(DIM_STYLE, why, LongTextOverflow::Wrap),
            None => {
                let (style, how) = match finish {
                    Some(Finish::MaxTokens) => (WARNING_STYLE, ", cut at the limit"),
                    Some(Finish::Refused) => (ERROR_STYLE, ", held back"),
                    _ => (DIM_STYLE, ""),
                };
                let row = row
                    .with_right_aligned_duration(&format_duration_ms(*latency_ms))
                    .with_styled_text(DIM_STYLE, &format_usage_tokens(usage));
                vec![row.with_styled_text(style, how).into_line()]
            }
        };
        self.add_rows_below(&part, rows);
    }

    pub(super) fn trace_compaction(&mut self, stamped: &Stamped) {
        let row = OutputRowBuilder::with_indent_level(self.nesting_level(&stamped.agent));
        let n_messages = |messages: &u32| format_count_with_noun(u64::from(*messages), "message");
        let rows = match &stamped.event {
            Event::CompactStart { messages, tokens } => {
                let what = format!(
                    "≡ shortening {}, because the request would have {tokens} tokens",
                    n_messages(messages)
                );
                row.with_trailing_text(DIM_STYLE, &what, LongTextOverflow::Cut)
            }
            Event::ArchiveStart {
                messages, reason, ..
            } => {
                let n = n_messages(messages);
                let what = format!("≡ archiving an earlier turn with {n}: {reason}");
                row.with_trailing_text(DIM_STYLE, &what, LongTextOverflow::Cut)
            }
            event => match steps::describe_compaction_result(event) {
                Ok(what) => {
                    row.with_trailing_text(DIM_STYLE, &format!("└ {what}"), LongTextOverflow::Cut)
                }
                Err(why) => {
                    let same = match event {
                        Event::CompactEnd { .. } => "└ it stays as it is:",
                        _ => "└ it is not archived:",
                    };
                    row.with_styled_text(WARNING_STYLE, same)
                        .with_trailing_text(DIM_STYLE, why, LongTextOverflow::Wrap)
                }
            },
        };
        self.add_rows(stamped, rows);
        self.progress(&stamped.agent).is_compacting |=
            TurnPartId::part_begun_by_event(stamped).is_some();
    }
}

/// Formats tokens as `1234 tokens in, 56 out, 1000 cached`.
fn format_usage_tokens(usage: &Usage) -> String {
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        n => format!(", {n} cached"),
    };
    format!(
        "{} tokens in, {} out{cached}{}",
        usage.input_tokens,
        usage.output_tokens,
        estimated_usage_mark(usage)
    )
}
