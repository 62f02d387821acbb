//! Traces requests to the model, and the compaction that keeps the conversation within the window.

use super::super::row::{LongText, TableRow};
use super::super::{
    BAD, DIM, PLUGIN, WARN, estimated_mark, format_count, format_millis, one_line, steps,
};
use super::Trace;
use rind_lib::event::{Event, Stamped, TurnPart};
use rind_lib::message::{Finish, Usage};

impl Trace {
    pub(super) fn request_start(&mut self, stamped: &Stamped, by: Option<&str>) {
        self.flush();
        let progress = self.progress(&stamped.agent);
        // The first request of a step that no plugin sent shows that compaction is over.
        progress.is_compacting &= by.is_some() || !progress.is_in_step;
        if let Some(request) = TurnPart::begun_part(stamped) {
            self.requests.insert(request, stamped.clone());
        }
    }

    pub(super) fn request_end(&mut self, stamped: &Stamped) {
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
        let asked =
            TurnPart::ended_part(stamped).and_then(|request| self.requests.remove(&request));
        let (part, level) = self.place(asked.as_ref().unwrap_or(stamped));
        let row = TableRow::at_level(level)
            .add_text(DIM, "request")
            .at_plugin();
        let row = match asked.map(|asked| asked.event) {
            Some(Event::RequestStart { by: Some(by), .. }) => row.add_text(PLUGIN, &by),
            Some(Event::RequestStart { model, .. }) => {
                let model = answered.as_ref().unwrap_or(&model);
                row.add_text(DIM, &one_line(model, 24))
            }
            _ => row,
        };
        let rows = match error {
            Some(why) => {
                row.with_time("–")
                    .add_text(BAD, "failed")
                    .with_tail(DIM, why, LongText::Wrap)
            }
            None => {
                let (style, how) = match finish {
                    Some(Finish::MaxTokens) => (WARN, ", cut at the limit"),
                    Some(Finish::Refused) => (BAD, ", held back"),
                    _ => (DIM, ""),
                };
                let row = row
                    .with_time(&format_millis(*latency_ms))
                    .add_text(DIM, &usage_tokens(usage));
                vec![row.add_text(style, how).into_line()]
            }
        };
        self.put_below(&part, rows);
    }

    pub(super) fn trace_aside(&mut self, stamped: &Stamped) {
        let row = TableRow::at_level(self.level(&stamped.agent));
        let n_messages = |messages: &u32| format_count(u64::from(*messages), "message");
        let rows = match &stamped.event {
            Event::CompactStart { messages, tokens } => {
                let what = format!(
                    "≡ making {} shorter, the request would have {tokens} tokens",
                    n_messages(messages)
                );
                row.with_tail(DIM, &what, LongText::Cut)
            }
            Event::ArchiveStart {
                messages, reason, ..
            } => {
                let n = n_messages(messages);
                let what = format!("≡ archiving an earlier turn of {n}: {reason}");
                row.with_tail(DIM, &what, LongText::Cut)
            }
            event => match steps::shorten_event(event) {
                Ok(what) => row.with_tail(DIM, &format!("└ {what}"), LongText::Cut),
                Err(why) => {
                    let same = match event {
                        Event::CompactEnd { .. } => "└ it stays as it is:",
                        _ => "└ it is not archived:",
                    };
                    row.add_text(WARN, same).with_tail(DIM, why, LongText::Wrap)
                }
            },
        };
        self.put(stamped, rows);
        self.progress(&stamped.agent).is_compacting |= TurnPart::begun_part(stamped).is_some();
    }
}

/// Formats tokens as `1234 tokens in, 56 out, 1000 cached`.
fn usage_tokens(usage: &Usage) -> String {
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
