//! Runs a turn about open work at an interval, outside of quiet hours. A file in the workspace
//! lists the work.

mod quiet;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod heartbeat {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use crate::quiet::QuietHours;
    use rind_sdk::prelude::*;
    use rind_sdk::turns::TurnOrder;
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    /// Store key of the time of the last turn, or of the last time at which there was no work for a
    /// turn, in milliseconds since 1970.
    const LAST: &str = "last";

    /// Maximum number of bytes that are read from the file with the work.
    const MAX_FILE_BYTES: u32 = 64 << 10;

    /// Maximum time to wait before reading the clock again. A longer wait could be late, because
    /// timers stop while the machine sleeps.
    const LOOK: Duration = Duration::from_secs(60);

    /// Answer by which the model says that it found nothing to do.
    const NOTHING: &str = "HEARTBEAT_OK";

    #[data]
    pub(crate) struct HeartbeatSettings {
        pub(crate) file: String,
        pub(crate) interval_minutes: u64,
        pub(crate) quiet: String,
        pub(crate) timezone: String,
        pub(crate) session: String,
        pub(crate) preset: String,
        pub(crate) model: String,
        pub(crate) max_cost_usd: Option<f64>,
    }

    fn now_ms() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    /// Waits until a turn is due or a message arrives, runs one turn, and returns.
    #[run_loop]
    pub(crate) fn run() -> Result<LoopOutcome, Error> {
        let settings: HeartbeatSettings = config::all()?;
        let quiet = QuietHours::parse(&settings.quiet, &settings.timezone)?;
        loop {
            let now = now_ms();
            let left = time_until_due(&settings, now)?;
            if left.is_zero() && !quiet.is_quiet_at(now)? {
                return run_due_turn(&settings, "", now);
            }
            // Wait at least a second: if a turn became due in quiet hours, `left` is zero until the
            // quiet hours end.
            let pause = left.clamp(Duration::from_secs(1), LOOK);
            let until = WakeConditions::new().timeout(pause).message();
            match waiting::wait(&until)? {
                Wakeup::Message(message) => {
                    return run_due_turn(&settings, &message.text, now_ms());
                }
                Wakeup::Shutdown => return schedule_next_run("the host ends"),
                Wakeup::Timer | Wakeup::Changed(_) | Wakeup::Connection(_) => {}
            }
        }
    }

    /// Returns the time until the next turn is due.
    fn time_until_due(settings: &HeartbeatSettings, now: u64) -> Result<Duration, Error> {
        let last: Option<u64> = store::get_json(LAST)?;
        let interval = settings.interval_minutes.saturating_mul(60_000);
        // Ignore a time in the future: it was stored before the clock was set back.
        let due = last.filter(|last| *last <= now);
        let due = due.map_or(0, |last| last.saturating_add(interval));
        Ok(Duration::from_millis(due.saturating_sub(now)))
    }

    /// Runs a turn with the text of the file and of a message. Runs none if the file has no work
    /// and the message is empty.
    fn run_due_turn(
        settings: &HeartbeatSettings,
        message: &str,
        now: u64,
    ) -> Result<LoopOutcome, Error> {
        // Store the time before the turn runs, so that a failed turn is not repeated immediately.
        store::set_json(LAST, &now)?;
        let Some(input) = turn_input(settings, message)? else {
            return schedule_next_run(&format!("no open work in {}", settings.file));
        };
        let mut order = TurnOrder::new(input);
        if settings.session == "kept" {
            order = order.in_session("main");
        }
        order.preset = Some(settings.preset.clone()).filter(|name| !name.is_empty());
        order.model = Some(settings.model.clone()).filter(|name| !name.is_empty());
        order.max_cost_usd = settings.max_cost_usd;
        let report = turns::run(&order)?;
        let answer = report.answer.trim();
        let first = answer.lines().next().unwrap_or_default();
        if report.state == "done" && answer.contains(NOTHING) {
            status::set("");
            return schedule_next_run("nothing needs attention");
        }
        log::info(format_args!("{}: {answer}", report.state));
        status::set(first);
        match report.state.as_str() {
            "done" => schedule_next_run(first),
            state => schedule_next_run(&format!("{state}: {first}")),
        }
    }

    /// Returns the input of a turn; `None` if the file has no work and the message is empty.
    fn turn_input(settings: &HeartbeatSettings, message: &str) -> Result<Option<String>, Error> {
        let path = format!("workspace/{}", settings.file);
        let text = match files::read(&path, 0, MAX_FILE_BYTES) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(Error::NotFound(_)) => String::new(),
            Err(error) => return Err(error),
        };
        let is_work = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let message = message.trim();
        if message.is_empty() && !text.lines().any(is_work) {
            return Ok(None);
        }
        let mut input = text.trim().to_owned();
        if !message.is_empty() {
            input.push_str("\n\nMessage: ");
            input.push_str(message);
        }
        input.push_str(
            "\n\nLook after this open work. If nothing needs attention now, answer only ",
        );
        input.push_str(NOTHING);
        input.push('.');
        Ok(Some(input.trim_start().to_owned()))
    }

    fn schedule_next_run(reason: &str) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_millis(100),
            reason: reason.to_owned(),
        })
    }
}
