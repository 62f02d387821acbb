//! Listens to Nostr relays for job requests (NIP-90), runs a turn for each, and publishes the
//! result.

mod event;
mod job;
mod ledger;
mod relays;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod dvm {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use crate::event::{NostrEvent, NostrEventSigningKey};
    use crate::job::{self, NostrJobSettings};
    use crate::ledger::{self, JobAnswer};
    use crate::relays::{ConfiguredNostrRelays, NostrRelayMessage};
    use rind_sdk::prelude::*;
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    /// Maximum time to wait before checking the relays and the clock again.
    const LOOK: Duration = Duration::from_secs(60);

    /// Age in seconds at which an idle run of the loop ends; the next run opens new connections.
    const RUN_AGE: u64 = 3600;

    /// Pause before trying again to run a turn that was refused, for example because too many turns
    /// were started in the same minute.
    const RETRY: Duration = Duration::from_secs(5);

    /// Number of failed attempts to run a job's turn, or of interruptions of the turn, after which
    /// the job fails.
    const MAX_TRIES: u32 = 3;

    /// Maximum number of messages that are read from each relay before the next job is run.
    const MAX_READ: usize = 50;

    /// State of one run of the loop.
    struct DvmRunState {
        settings: NostrJobSettings,
        signer: NostrEventSigningKey,
        pubkey: String,
        relays: ConfiguredNostrRelays,
    }

    /// Result of the turn that ran a job.
    enum JobTurnResult {
        Answer(String),
        /// The turn gave no answer, for this reason.
        Failed(String),
        /// The host shuts down before the turn has a result; the job continues after the host's
        /// next start.
        Later,
    }

    /// Listens to the relays and runs the jobs that arrive, until the host shuts down or the run
    /// has reached `RUN_AGE` and no job can be run.
    #[run_loop]
    pub(crate) fn run() -> Result<LoopOutcome, Error> {
        let settings: NostrJobSettings = config::all()?;
        if settings.relays.is_empty() {
            log::warn(
                "no relays are set; list them as `relays` in the settings of the plugin `dvm`",
            );
            return Ok(LoopOutcome::Done);
        }
        let signer = NostrEventSigningKey::load()?;
        let pubkey = signer.pubkey();
        log::info(format_args!("the public key is {pubkey}"));
        ledger::forget_old_jobs(now_s())?;
        let relays = ConfiguredNostrRelays::new(&settings.relays);
        let mut desk = DvmRunState {
            settings,
            signer,
            pubkey,
            relays,
        };
        desk.process_jobs()
    }

    impl DvmRunState {
        fn process_jobs(&mut self) -> Result<LoopOutcome, Error> {
            let started = now_s();
            loop {
                let now = now_s();
                let since = ledger::oldest_accepted_request_time(now)?;
                if self.relays.connect(now, &self.settings.kinds, since) {
                    self.publish_answers(now)?;
                }
                for said in self.relays.read_messages(now, MAX_READ) {
                    self.handle_relay_message(said, now)?;
                }
                let limit = self.settings.jobs_per_hour;
                let next = ledger::requests_to_process()?.into_iter().next();
                if let Some(job) = next
                    && ledger::count_job_toward_limit(now, limit)?
                {
                    if !self.run_job(&job)? {
                        return schedule_next_run("the host ends");
                    }
                    continue;
                }
                if now.saturating_sub(started) >= RUN_AGE {
                    return schedule_next_run("connects anew");
                }
                let pause = self
                    .relays
                    .time_until_next_connection(now)
                    .map_or(LOOK, |next| next.min(LOOK));
                let until = WakeConditions::new().timeout(pause).message();
                if matches!(waiting::wait(&until)?, Wakeup::Shutdown) {
                    return schedule_next_run("the host ends");
                }
            }
        }

        fn handle_relay_message(&self, said: NostrRelayMessage, now: u64) -> Result<(), Error> {
            match said {
                NostrRelayMessage::Request(event) => self.accept_request(&event, now),
                NostrRelayMessage::Took(id) => {
                    for (job, answer) in ledger::unpublished_answers()? {
                        if answer.events.first().is_some_and(|event| event.id == id) {
                            ledger::mark_job_done(&job, answer.created_at)?;
                        }
                    }
                    Ok(())
                }
                NostrRelayMessage::Refused(id, why) => {
                    log::warn(format_args!("a relay refused the event {id}: {why}"));
                    Ok(())
                }
            }
        }

        /// Stores a request as a job if it is new, recent and meant for this plugin.
        fn accept_request(&self, event: &NostrEvent, now: u64) -> Result<(), Error> {
            let times = ledger::oldest_accepted_request_time(now)?
                ..=now + ledger::MAX_REQUEST_TIME_AHEAD_SECONDS;
            if !times.contains(&event.created_at)
                || !job::accepts_request(event, &self.settings, &self.pubkey)
                || ledger::is_job_known(&event.id)?
            {
                return Ok(());
            }
            if !ledger::add_job(event)? {
                log::warn(format_args!(
                    "{} jobs wait; the request {} is left to the next connection",
                    ledger::MAX_WAITING_JOBS,
                    event.id
                ));
            }
            Ok(())
        }

        /// Runs a job and publishes its answer. Returns false if the host shuts down.
        fn run_job(&mut self, request: &NostrEvent) -> Result<bool, Error> {
            let end = match job::extract_job_input(request) {
                Ok(input) => {
                    let now = now_s();
                    let processing =
                        job::feedback_event(&self.signer, request, "processing", "", now)?;
                    self.relays.publish(&processing, now);
                    self.run_turn(input, &request.id)?
                }
                Err(why) => JobTurnResult::Failed(why),
            };
            let now = now_s();
            let feedback =
                |status, more: &str| job::feedback_event(&self.signer, request, status, more, now);
            let events = match end {
                JobTurnResult::Later => return Ok(false),
                JobTurnResult::Answer(text) => vec![
                    job::result_event(&self.signer, request, text, now)?,
                    feedback("success", "")?,
                ],
                JobTurnResult::Failed(why) => {
                    log::warn(format_args!("the job {} failed: {why}", request.id));
                    vec![feedback("error", &why)?]
                }
            };
            let answer = JobAnswer {
                events,
                created_at: request.created_at,
            };
            ledger::store_answer(request, &answer)?;
            for event in &answer.events {
                self.relays.publish(event, now);
            }
            Ok(true)
        }

        /// Runs the turn of a job. The id of the turn's input is derived from the id of the
        /// request, so that the session runs the input only once, even after a crash. If the turn
        /// fails, the reason is logged for the operator and not sent to the customer.
        fn run_turn(&self, input: String, id: &str) -> Result<JobTurnResult, Error> {
            let order = job::create_turn_order_for_job(input, id, &self.settings);
            let mut n_failed = 0;
            loop {
                let n = ledger::interruption_count(id)?;
                let order = order.clone().input_id(format!("{id}.{n}"));
                match turns::run(&order) {
                    Ok(report) if report.state == "done" => {
                        return Ok(JobTurnResult::Answer(report.answer));
                    }
                    Ok(report) if report.state == "cancelled" => {
                        ledger::store_turn_interruption_count(id, n + 1)?;
                        if wait_for_shutdown(Duration::ZERO)? {
                            return Ok(JobTurnResult::Later);
                        }
                        if n + 1 >= MAX_TRIES {
                            return Ok(JobTurnResult::Failed("the job was cancelled".to_owned()));
                        }
                        continue;
                    }
                    Ok(report) => {
                        log::warn(format_args!("{}: {}", report.session, report.answer));
                        return Ok(JobTurnResult::Failed(format!(
                            "the job ended: {}",
                            report.state
                        )));
                    }
                    Err(Error::Limit(_)) => {}
                    Err(error) => {
                        n_failed += 1;
                        log::error(error.message());
                        if n_failed >= MAX_TRIES {
                            return Ok(JobTurnResult::Failed("the service failed".to_owned()));
                        }
                    }
                }
                if wait_for_shutdown(RETRY)? {
                    return Ok(JobTurnResult::Later);
                }
            }
        }

        /// Publishes the answers that no relay has accepted yet.
        fn publish_answers(&mut self, now: u64) -> Result<(), Error> {
            for (_, answer) in ledger::unpublished_answers()? {
                for event in &answer.events {
                    self.relays.publish(event, now);
                }
            }
            Ok(())
        }
    }

    /// Waits for `time`, or until the host shuts down. Returns true if the host shuts down.
    fn wait_for_shutdown(time: Duration) -> Result<bool, Error> {
        let until = WakeConditions::new().timeout(time);
        Ok(matches!(waiting::wait(&until)?, Wakeup::Shutdown))
    }

    fn now_s() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs())
    }

    fn schedule_next_run(reason: &str) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_millis(100),
            reason: reason.to_owned(),
        })
    }
}
