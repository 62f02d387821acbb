//! Requests to the model, and the compaction that keeps them within the window.

use super::super::row::{Long, Row};
use super::super::{BAD, DIM, PLUGIN, WARN, count, estimated, millis, one_line, steps};
use super::Trace;
use rind_lib::event::{Event, Part, Stamped};
use rind_lib::message::{Finish, Usage};

impl Trace {
    pub(super) fn request_start(&mut self, stamped: &Stamped, by: Option<&str>) {
        self.flush();
        let progress = self.progress(&stamped.agent);
        // The request of the step itself ends compaction.
        progress.is_compacting &= by.is_some() || !progress.is_in_step;
        if let Some(request) = Part::begun(stamped) {
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
        let asked = Part::ended(stamped).and_then(|request| self.requests.remove(&request));
        let (part, level) = self.place(asked.as_ref().unwrap_or(stamped));
        let row = Row::at(level).add(DIM, "request").at_plugin();
        let row = match asked.map(|asked| asked.event) {
            Some(Event::RequestStart { by: Some(by), .. }) => row.add(PLUGIN, &by),
            Some(Event::RequestStart { model, .. }) => {
                let model = answered.as_ref().unwrap_or(&model);
                row.add(DIM, &one_line(model, 24))
            }
            _ => row,
        };
        let rows = match error {
            Some(why) => row.time("–").add(BAD, "failed").tail(DIM, why, Long::Wrap),
            None => {
                let (style, how) = match finish {
                    Some(Finish::MaxTokens) => (WARN, ", cut at the limit"),
                    Some(Finish::Refused) => (BAD, ", held back"),
                    _ => (DIM, ""),
                };
                let row = row.time(&millis(*latency_ms)).add(DIM, &tokens(usage));
                vec![row.add(style, how).line()]
            }
        };
        self.put_below(&part, rows);
    }

    pub(super) fn aside(&mut self, stamped: &Stamped) {
        let row = Row::at(self.level(&stamped.agent));
        let n_messages = |messages: &u32| count(u64::from(*messages), "message");
        let rows = match &stamped.event {
            Event::CompactStart { messages, tokens } => {
                let what = format!(
                    "≡ making {} shorter, the request would have {tokens} tokens",
                    n_messages(messages)
                );
                row.tail(DIM, &what, Long::Cut)
            }
            Event::ArchiveStart {
                messages, reason, ..
            } => {
                let n = n_messages(messages);
                let what = format!("≡ archiving an earlier turn of {n}: {reason}");
                row.tail(DIM, &what, Long::Cut)
            }
            event => match steps::shortened(event) {
                Ok(what) => row.tail(DIM, &format!("└ {what}"), Long::Cut),
                Err(why) => {
                    let same = match event {
                        Event::CompactEnd { .. } => "└ it stays as it is:",
                        _ => "└ it is not archived:",
                    };
                    row.add(WARN, same).tail(DIM, why, Long::Wrap)
                }
            },
        };
        self.put(stamped, rows);
        self.progress(&stamped.agent).is_compacting |= Part::begun(stamped).is_some();
    }
}

/// `1234 tokens in, 56 out, 1000 cached`
fn tokens(usage: &Usage) -> String {
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        n => format!(", {n} cached"),
    };
    format!(
        "{} tokens in, {} out{cached}{}",
        usage.input_tokens,
        usage.output_tokens,
        estimated(usage)
    )
}
