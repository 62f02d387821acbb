//! Requests to the model, and what is done so that they stay small enough.

use std::sync::Arc;

use super::super::{BAD, DIM, PLUGIN, WARN, bytes, count, millis, one_line};
use super::Trace;
use super::row::{Long, Row};
use crate::event::Event;
use crate::message::{Finish, Usage};

impl Trace {
    pub(super) fn request_end(&mut self, agent: &Arc<str>, request: u32, event: &Event) {
        let Event::RequestEnd {
            model,
            usage,
            latency_ms,
            finish,
            error,
            ..
        } = event
        else {
            return;
        };
        let asked = self.progress(agent).requests.remove(&request);
        let asked = asked.unwrap_or_default();
        let (scope, level) = self.place(agent, asked.call.as_deref());
        let row = Row::at(level).add(DIM, "request").at_plugin();
        let row = match &asked.by {
            Some(plugin) => row.add(PLUGIN, plugin),
            None => {
                let model = model.as_ref().unwrap_or(&asked.model);
                row.add(DIM, &one_line(model, 24))
            }
        };
        let rows = match error {
            Some(why) => row.time("–").add(BAD, "failed").tail(DIM, why, Long::Wrap),
            None => {
                let (style, how) = match finish {
                    Some(Finish::MaxTokens) => (WARN, ", cut at the limit"),
                    Some(Finish::Refused) => (BAD, ", held back"),
                    _ => (DIM, ""),
                };
                let row = row.time(&millis(*latency_ms)).add(DIM, &tokens(*usage));
                vec![row.add(style, how).line()]
            }
        };
        self.put_below(&scope, rows);
    }

    pub(super) fn compact_end(&mut self, agent: &Arc<str>, event: &Event) {
        let Event::CompactEnd {
            messages,
            summary,
            is_built_in,
            refused,
        } = event
        else {
            return;
        };
        let row = Row::at(self.level(agent));
        let rows = match summary {
            Some(summary) => {
                let by = if *is_built_in {
                    ""
                } else {
                    ", written by a plugin"
                };
                let what = format!(
                    "└ {} replaced by a summary of {}{by}",
                    count(u64::from(*messages), "message"),
                    bytes(summary.len() as u64)
                );
                row.tail(DIM, &what, Long::Cut)
            }
            None => {
                let why = refused.as_deref().unwrap_or("no reason given");
                row.add(WARN, "└ it stays as it is:")
                    .tail(DIM, why, Long::Wrap)
            }
        };
        self.put(agent, None, rows);
    }

    pub(super) fn archive_end(&mut self, agent: &Arc<str>, event: &Event) {
        let Event::ArchiveEnd {
            messages,
            holder,
            summary,
            refused,
        } = event
        else {
            return;
        };
        let row = Row::at(self.level(agent));
        let rows = match (holder, summary) {
            (Some(holder), Some(summary)) => {
                let what = format!(
                    "└ {} are kept by {holder}, a summary of {} stays",
                    count(u64::from(*messages), "message"),
                    bytes(summary.len() as u64)
                );
                row.tail(DIM, &what, Long::Cut)
            }
            _ => {
                let why = refused.as_deref().unwrap_or("no reason given");
                row.add(WARN, "└ it is not archived:")
                    .tail(DIM, why, Long::Wrap)
            }
        };
        self.put(agent, None, rows);
    }
}

/// `1234 tokens in, 56 out, 1000 cached`
fn tokens(usage: Usage) -> String {
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        n => format!(", {n} cached"),
    };
    format!(
        "{} tokens in, {} out{cached}{}",
        usage.input_tokens,
        usage.output_tokens,
        super::super::estimated(&usage)
    )
}
