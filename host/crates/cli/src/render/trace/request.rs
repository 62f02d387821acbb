//! Traces requests to the model, and the compaction that keeps the conversation within the window.

use super::super::row::{LongTextMode, TableRow};
use super::super::{
    BAD, DIM, PLUGIN, WARN, estimated_mark, format_count, format_millis, one_line, steps,
};
use super::TraceRenderer;
use rind_lib::event::{Event, Stamped, TurnPart};
use rind_lib::message::{Finish, Usage};

impl TraceRenderer {
    pub(super) fn trace_request_start(&mut self, stamped: &Stamped, by: Option<&str>) {
        self.flush_folded_hooks();
        let progress = self.progress(&stamped.agent);
        // A request that a step sends, and not a plugin, shows that compaction is over.
        progress.is_compacting &= by.is_some() || !progress.is_in_step;
        if let Some(request) = TurnPart::part_begun_by_event(stamped) {
            self.requests.insert(request, stamped.clone());
        }
    }

    pub(super) fn trace_request_end(&mut self, stamped: &Stamped) {
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
        let asked = TurnPart::part_ended_by_event(stamped)
            .and_then(|request| self.requests.remove(&request));
        let (part, level) = self.event_scope_and_level(asked.as_ref().unwrap_or(stamped));
        let row = TableRow::at_level(level)
            .add_text(DIM, "request")
            .pad_to_plugin_column();
        let row = match asked.map(|asked| asked.event) {
            Some(Event::RequestStart { by: Some(by), .. }) => row.add_text(PLUGIN, &by),
            Some(Event::RequestStart { model, .. }) => {
                let model = answered.as_ref().unwrap_or(&model);
                row.add_text(DIM, &one_line(model, 24))
            }
            _ => row,
        };
        let rows = match error {
            Some(why) => row
                .with_duration("–")
                .add_text(BAD, "failed")
                .with_trailing_text(DIM, why, LongTextMode::Wrap),
            None => {
                let (style, how) = match finish {
                    Some(Finish::MaxTokens) => (WARN, ", cut at the limit"),
                    Some(Finish::Refused) => (BAD, ", held back"),
                    _ => (DIM, ""),
                };
                let row = row
                    .with_duration(&format_millis(*latency_ms))
                    .add_text(DIM, &format_usage_tokens(usage));
                vec![row.add_text(style, how).into_line()]
            }
        };
        self.add_rows_below(&part, rows);
    }

    pub(super) fn trace_compaction(&mut self, stamped: &Stamped) {
        let row = TableRow::at_level(self.nesting_level(&stamped.agent));
        let n_messages = |messages: &u32| format_count(u64::from(*messages), "message");
        let rows = match &stamped.event {
            Event::CompactStart { messages, tokens } => {
                let what = format!(
                    "≡ shortening {}, because the request would have {tokens} tokens",
                    n_messages(messages)
                );
                row.with_trailing_text(DIM, &what, LongTextMode::Cut)
            }
            Event::ArchiveStart {
                messages, reason, ..
            } => {
                let n = n_messages(messages);
                let what = format!("≡ archiving an earlier turn with {n}: {reason}");
                row.with_trailing_text(DIM, &what, LongTextMode::Cut)
            }
            event => match steps::describe_compaction_result(event) {
                Ok(what) => row.with_trailing_text(DIM, &format!("└ {what}"), LongTextMode::Cut),
                Err(why) => {
                    let same = match event {
                        Event::CompactEnd { .. } => "└ it stays as it is:",
                        _ => "└ it is not archived:",
                    };
                    row.add_text(WARN, same)
                        .with_trailing_text(DIM, why, LongTextMode::Wrap)
                }
            },
        };
        self.add_rows(stamped, rows);
        self.progress(&stamped.agent).is_compacting |=
            TurnPart::part_begun_by_event(stamped).is_some();
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
        estimated_mark(usage)
    )
}
