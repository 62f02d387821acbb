//! Limits the number of lines that each plugin's loop may show in a minute, events and log
//! together.
//!
//! Without a limit, a noisy loop would scroll away the lines of other loops. Events and log are
//! counted together, because a loop could evade a limit on only one of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use super::{DIM_STYLE, print_stderr_line, style_text, truncate_to_one_line};
use rind_lib::lock::lock_ignoring_poison;

/// Maximum number of lines of one loop in a minute, including the notice that replaces further
/// lines.
pub(super) const MAX_LOOP_LINES_PER_MINUTE: u32 = 60;

pub(super) const LINE_RATE_LIMIT_PERIOD: Duration = Duration::from_secs(60);

/// Target of the log lines of plugins, and also the name of the field with the plugin's name.
const PLUGIN_LOG_TARGET: &str = "plugin";

/// Maximum length of a plugin's name in the notice, in characters.
const MAX_PLUGIN_NAME_CHARS: usize = 64;

/// Start of the current minute and number of lines in it, for each plugin.
#[derive(Debug, Default)]
pub(in super::super) struct PluginLoopLinesPerMinuteCounts(Mutex<BTreeMap<String, (Instant, u32)>>);

/// Decision whether to show a line, by the number of earlier lines of the loop in this minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineRateLimitDecision {
    /// The line is shown, because the limit is not reached.
    Line,
    /// The line exceeds the limit, and a notice is shown instead.
    Notice,
    /// The line is dropped. The notice was already shown in this minute.
    None,
}

impl PluginLoopLinesPerMinuteCounts {
    /// Counts a line of this plugin's loop, and returns whether to show the line.
    pub(super) fn count_line_and_decide_display(
        &self,
        plugin: &str,
        now: Instant,
    ) -> LineRateLimitDecision {
        let mut all = lock_ignoring_poison(&self.0);
        let (since, n_lines) = match all.get_mut(plugin) {
            Some(counted) => counted,
            None => all.entry(plugin.to_owned()).or_insert((now, 0)),
        };
        if now.saturating_duration_since(*since) >= LINE_RATE_LIMIT_PERIOD {
            (*since, *n_lines) = (now, 0);
        }
        *n_lines = n_lines.saturating_add(1);
        match *n_lines {
            n if n < MAX_LOOP_LINES_PER_MINUTE => LineRateLimitDecision::Line,
            MAX_LOOP_LINES_PER_MINUTE => LineRateLimitDecision::Notice,
            _ => LineRateLimitDecision::None,
        }
    }
}

/// Returns the counts of output lines of the loops in this process. They are global because the log
/// is set up before any loop exists and must share the counts with the loops.
pub(in super::super) fn loop_output_line_counts() -> Arc<PluginLoopLinesPerMinuteCounts> {
    static LOOP_OUTPUT_LINE_COUNTS: LazyLock<Arc<PluginLoopLinesPerMinuteCounts>> =
        LazyLock::new(Arc::default);
    LOOP_OUTPUT_LINE_COUNTS.clone()
}

/// Returns the notice that a plugin has more output than is shown.
pub(super) fn line_limit_reached_notice() -> String {
    let text =
        "has more output than is shown; --json shows all events and RIND_LOG=warn all log lines";
    style_text(DIM_STYLE, text)
}

/// Log filter that limits how many log lines of each plugin are shown. The lines of the plugin's
/// events count toward the same limit.
pub(in super::super) struct PluginLogLineLimitFilter(
    pub(in super::super) Arc<PluginLoopLinesPerMinuteCounts>,
);

impl<S> Filter<S> for PluginLogLineLimitFilter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        if event.metadata().target() != PLUGIN_LOG_TARGET {
            return true;
        }
        let mut name = PluginNameFieldVisitor::default();
        event.record(&mut name);
        match self
            .0
            .count_line_and_decide_display(&name.0, Instant::now())
        {
            LineRateLimitDecision::Line => true,
            LineRateLimitDecision::Notice => {
                print_stderr_line(format_args!(
                    "{} {}",
                    truncate_to_one_line(&name.0, MAX_PLUGIN_NAME_CHARS),
                    line_limit_reached_notice()
                ));
                false
            }
            LineRateLimitDecision::None => false,
        }
    }
}

/// Name of the plugin that wrote a log line, read from the line's fields.
#[derive(Default)]
struct PluginNameFieldVisitor(String);

impl Visit for PluginNameFieldVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == PLUGIN_LOG_TARGET {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Layer, Registry};

    use super::*;

    /// Counts the log lines that pass.
    #[derive(Clone, Default)]
    struct Counted(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Counted {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut name = PluginNameFieldVisitor::default();
            event.record(&mut name);
            lock_ignoring_poison(&self.0).push(name.0);
        }
    }

    #[test]
    fn a_flood_of_log_lines_is_cut_off_for_the_plugin_that_writes_it_alone() {
        let (counted, lines) = (
            Counted::default(),
            Arc::new(PluginLoopLinesPerMinuteCounts::default()),
        );
        let log = Registry::default().with(
            counted
                .clone()
                .with_filter(PluginLogLineLimitFilter(lines.clone())),
        );
        tracing::subscriber::with_default(log, || {
            for _ in 0..1000 {
                tracing::warn!(target: "plugin", plugin = "loud", "again");
            }
            tracing::warn!(target: "plugin", plugin = "quiet", "once");
            for _ in 0..100 {
                tracing::warn!("of the host");
            }
        });
        let n_of = |name: &str| {
            let seen = lock_ignoring_poison(&counted.0);
            seen.iter().filter(|own| *own == name).count()
        };
        assert_eq!(n_of("loud"), MAX_LOOP_LINES_PER_MINUTE as usize - 1);
        assert_eq!((n_of("quiet"), n_of("")), (1, 100));
        // Events of the same loop have no room either, until the minute is over.
        let now = Instant::now();
        assert_eq!(
            lines.count_line_and_decide_display("loud", now),
            LineRateLimitDecision::None
        );
        assert_eq!(
            lines.count_line_and_decide_display("loud", now + LINE_RATE_LIMIT_PERIOD),
            LineRateLimitDecision::Line
        );
    }
}
