//! Quotas of a tenant: what its sessions may use in a minute and in a day, however many programs run
//! them.
//!
//! Limits and use are two keys of a bucket. The operator declares the limits; every program that runs
//! turns adds to the use by compare-and-swap, so that two never count from the same number. A turn is
//! counted before it begins, its tokens and its cost when it has ended: together the programs exceed a
//! quota at most by the turns that are under way. Whoever cannot read the bucket runs nothing. Clocks
//! only say which minute and which day it is, and no clock takes a count back.
//!
//! Start from [`TenantQuotas`].

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream;
use bytes::Bytes;
use rind_lib::lock::lock;
use rind_lib::point::payload::TurnSummary;
use rind_lib::session::SessionAddress;
use serde::{Deserialize, Serialize};

use crate::link::{AppendAnswer, StoredMessage};
use crate::sessions::StoreParts;
use crate::setup::{LINES, ensure_stream};
use crate::{NatsError, NatsSessions};

/// Key in the metadata of the tenant's inputs that says that quotas were declared.
const DECLARED: &str = "rind-quotas";

/// Time for which it is believed that no quotas were declared.
const BELIEF: Duration = Duration::from_secs(2);

/// Time for which an input is refused as the one before it was, without asking the servers: a sender
/// that floods must not burden them for the others.
const REFUSAL: Duration = Duration::from_millis(500);

/// Milliseconds of the two spans in which use is counted.
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// Error code of JetStream for a stream that does not exist.
const NO_STREAM: u64 = 10059;

/// Millionths of a dollar, in which costs are counted.
const MICROS: f64 = 1e6;

/// Limits of a tenant; an absent one is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaLimits {
    /// Sessions that may be begun in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_a_day: Option<u64>,
    /// Turns that may begin in a minute, and inputs that may be sent in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_a_minute: Option<u64>,
    /// Tokens that turns may use in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_a_day: Option<u64>,
    /// US dollars that turns may cost in a day, as far as prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_a_day: Option<f64>,
}

/// What a program knows of the quotas for a moment.
#[derive(Debug, Default)]
pub(crate) struct KnownQuotas {
    /// Time until which none are believed to be declared.
    none_until: Option<Instant>,
    /// Refusal of an input, and the time until which others are refused as well.
    refused: Option<(Instant, NatsError)>,
}

impl KnownQuotas {
    fn refused_input(&self) -> Option<NatsError> {
        let (until, refusal) = self.refused.as_ref()?;
        let is_over = *until <= Instant::now() || refusal.free_in() == Some(Duration::ZERO);
        if is_over {
            None
        } else {
            refusal.copied_quota()
        }
    }

    fn note_refused(&mut self, refusal: &NatsError) {
        let refused = refusal.copied_quota();
        self.refused = refused.map(|refusal| (Instant::now() + REFUSAL, refusal));
    }
}

/// Use of a tenant in the minute and the day that were counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// Minutes since 1970.
    minute: i64,
    /// Inputs that were sent in the minute.
    pub inputs: u64,
    /// Turns that began in the minute.
    pub turns: u64,
    /// Days since 1970.
    day: i64,
    /// Sessions that began on the day.
    pub sessions: u64,
    /// Tokens that turns used on the day.
    pub tokens: u64,
    /// Millionths of US dollars that turns cost on the day.
    pub micro_usd: u64,
}

/// Limits of a tenant, and its use now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuotaReport {
    /// Limits that the operator declared.
    pub limits: QuotaLimits,
    /// Use in this minute and on this day.
    pub used: QuotaUse,
}

/// What a turn used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TurnUse {
    /// Tokens.
    pub tokens: u64,
    /// Cost in US dollars, as far as prices are known.
    pub usd: f64,
}

impl TurnUse {
    /// Returns what a turn used that has ended.
    #[must_use]
    pub fn of(summary: &TurnSummary) -> Self {
        Self {
            tokens: summary.usage.total(),
            usd: summary.cost_usd,
        }
    }
}

/// The quotas of a tenant. Cheap to clone.
#[derive(Clone)]
pub struct TenantQuotas {
    parts: Arc<StoreParts>,
}

impl std::fmt::Debug for TenantQuotas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TenantQuotas")
            .field(&self.parts.name)
            .finish()
    }
}

impl QuotaUse {
    /// Forgets what was used in spans before this time. A clock that is behind changes nothing.
    fn roll(&mut self, now_ms: i64) {
        let (minute, day) = (now_ms.div_euclid(MINUTE_MS), now_ms.div_euclid(DAY_MS));
        if minute > self.minute {
            (self.minute, self.inputs, self.turns) = (minute, 0, 0);
        }
        if day > self.day {
            (self.day, self.sessions, self.tokens, self.micro_usd) = (day, 0, 0, 0);
        }
    }

    fn check_minute(&self, what: &str, used: u64, limit: Option<u64>) -> Result<(), NatsError> {
        let free_ms = self.minute.saturating_add(1).saturating_mul(MINUTE_MS);
        check(what, used as f64, limit.map(|limit| limit as f64), free_ms)
    }

    fn check_day(&self, what: &str, used: f64, limit: Option<f64>) -> Result<(), NatsError> {
        let free_ms = self.day.saturating_add(1).saturating_mul(DAY_MS);
        check(what, used, limit, free_ms)
    }

    /// Checks what is used up for a day, whatever a minute allows.
    fn check_spent(&self, limits: &QuotaLimits) -> Result<(), NatsError> {
        let tokens = limits.tokens_a_day.map(|limit| limit as f64);
        self.check_day("tokens a day", self.tokens as f64, tokens)?;
        let usd = self.micro_usd as f64 / MICROS;
        self.check_day("US dollars a day", usd, limits.usd_a_day)
    }
}

fn check(what: &str, used: f64, limit: Option<f64>, free_ms: i64) -> Result<(), NatsError> {
    match limit {
        Some(limit) if used >= limit => Err(NatsError::OverQuota {
            quota: what.to_owned(),
            used,
            limit,
            free_ms,
            free_at: time_text(free_ms),
        }),
        _ => Ok(()),
    }
}

impl TenantQuotas {
    /// Returns the quotas of the tenant of a store.
    #[must_use]
    pub fn of(sessions: &NatsSessions) -> Self {
        Self::over(sessions.parts().clone())
    }

    pub(crate) fn over(parts: Arc<StoreParts>) -> Self {
        Self { parts }
    }

    /// Declares the limits. What was used so far still counts. No limit at all removes the quotas.
    ///
    /// # Errors
    /// A limit is no number that can be held, or the servers do not answer.
    pub async fn declare(&self, limits: QuotaLimits) -> Result<(), NatsError> {
        if limits
            .usd_a_day
            .is_some_and(|usd| !usd.is_finite() || usd < 0.0)
        {
            return Err(NatsError::Config {
                what: "the quota of US dollars a day".to_owned(),
                why: "it must be a number of at least 0".to_owned(),
            });
        }
        if limits == QuotaLimits::default() {
            self.set_declared(false).await?;
            let deleted = self.parts.link.context().delete_stream(self.stream()).await;
            return match deleted {
                Ok(_) => Ok(()),
                Err(_) if self.limits().await?.is_none() => Ok(()),
                Err(error) => Err(NatsError::unanswered("the removal of quotas", error)),
            };
        }
        ensure_stream(&self.parts.link, self.config(), self.parts.patience).await?;
        // Use before limits, and both before the mark: what is read in between is complete.
        let last = self.last("use").await?;
        let is_read = |last: &StoredMessage| read::<QuotaUse>("use", last).is_ok();
        if !last.as_ref().is_some_and(is_read) {
            let expected = last.map_or(0, |last| last.sequence);
            self.put("use", expected, &QuotaUse::default()).await?;
        }
        let last = self.last("limits").await?;
        let expected = last.map_or(0, |last| last.sequence);
        if self.put("limits", expected, &limits).await? {
            *self.known() = KnownQuotas::default();
            return self.set_declared(true).await;
        }
        Err(NatsError::refused(
            "the declaration of quotas",
            0,
            "another program declared them at the same time: look at `rind cluster status` and try again",
        ))
    }

    /// Returns limits and use; `None` where the operator declared none.
    ///
    /// # Errors
    /// The servers do not answer, or what was declared is lost or damaged.
    pub async fn report(&self) -> Result<Option<QuotaReport>, NatsError> {
        let Some(limits) = self.limits().await? else {
            return Ok(None);
        };
        let (_, mut used) = self.used().await?;
        used.roll(rind_lib::clock::now_ms());
        Ok(Some(QuotaReport { limits, used }))
    }

    /// Counts an input that is to be sent.
    ///
    /// # Errors
    /// A quota is used up, the servers do not answer, or what was declared is lost or damaged.
    pub async fn count_input(&self) -> Result<(), NatsError> {
        if let Some(refusal) = self.known().refused_input() {
            return Err(refusal);
        }
        let counted = self.change(|limits, used| {
            used.check_spent(limits)?;
            used.check_minute("inputs a minute", used.inputs, limits.turns_a_minute)?;
            used.inputs += 1;
            Ok(())
        });
        let counted = counted.await;
        if let Err(refusal) = &counted {
            self.known().note_refused(refusal);
        }
        counted
    }

    fn known(&self) -> MutexGuard<'_, KnownQuotas> {
        lock(&self.parts.quotas)
    }

    /// Counts a session that is to begin.
    ///
    /// # Errors
    /// As for [`count_input`](Self::count_input).
    pub async fn count_session(&self) -> Result<(), NatsError> {
        self.change(|limits, used| {
            let limit = limits.sessions_a_day.map(|limit| limit as f64);
            used.check_day("sessions a day", used.sessions as f64, limit)?;
            used.sessions += 1;
            Ok(())
        })
        .await
    }

    /// Checks, and counts nothing, that a turn of a session may begin, which may be its first.
    pub(crate) async fn check_turn(&self, at: &SessionAddress) -> Result<(), NatsError> {
        let Some(QuotaReport { limits, used }) = self.report().await? else {
            return Ok(());
        };
        used.check_spent(&limits)?;
        used.check_minute("turns a minute", used.turns, limits.turns_a_minute)?;
        let Some(limit) = limits.sessions_a_day else {
            return Ok(());
        };
        let names = &self.parts.streams.names;
        let stream = names.stream(LINES, names.partition(at));
        match self.parts.link.last(&stream, &names.lines(at)).await? {
            Some(_) => Ok(()),
            None => used.check_day("sessions a day", used.sessions as f64, Some(limit as f64)),
        }
    }

    /// Checks, and counts nothing, that a turn may begin.
    ///
    /// # Errors
    /// As for [`count_input`](Self::count_input).
    pub async fn check(&self) -> Result<(), NatsError> {
        let Some(QuotaReport { limits, used }) = self.report().await? else {
            return Ok(());
        };
        used.check_spent(&limits)?;
        used.check_minute("turns a minute", used.turns, limits.turns_a_minute)
    }

    /// Counts a turn that is to begin.
    ///
    /// # Errors
    /// As for [`count_input`](Self::count_input).
    pub async fn begin_turn(&self) -> Result<(), NatsError> {
        self.change(|limits, used| {
            used.check_spent(limits)?;
            used.check_minute("turns a minute", used.turns, limits.turns_a_minute)?;
            used.turns += 1;
            Ok(())
        })
        .await
    }

    /// Adds what a turn used that has ended.
    ///
    /// # Errors
    /// The servers do not answer, or what was declared is lost or damaged.
    pub async fn end_turn(&self, turn: TurnUse) -> Result<(), NatsError> {
        self.change(|_, used| {
            used.tokens = used.tokens.saturating_add(turn.tokens);
            let micros = (turn.usd * MICROS).max(0.0).round();
            used.micro_usd = used.micro_usd.saturating_add(micros as u64);
            Ok(())
        })
        .await
    }

    /// Changes the use by compare-and-swap, where limits were declared.
    async fn change(
        &self,
        change: impl Fn(&QuotaLimits, &mut QuotaUse) -> Result<(), NatsError>,
    ) -> Result<(), NatsError> {
        let began = Instant::now();
        let Some(limits) = self.limits().await? else {
            return Ok(());
        };
        loop {
            let (sequence, mut used) = self.used().await?;
            used.roll(rind_lib::clock::now_ms());
            change(&limits, &mut used)?;
            match self.put("use", sequence, &used).await {
                Ok(true) => return Ok(()),
                Ok(false) => tokio::time::sleep(Duration::from_millis(2)).await,
                // It may be counted twice then, but never not at all.
                Err(error) if began.elapsed() >= self.parts.patience => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Returns the limits, if any were declared.
    async fn limits(&self) -> Result<Option<QuotaLimits>, NatsError> {
        let is_believed = |until: &Instant| Instant::now() < *until;
        if self.known().none_until.as_ref().is_some_and(is_believed) {
            return Ok(None);
        }
        let found = match self.last("limits").await {
            Ok(Some(last)) => return read("limits", &last).map(Some),
            Ok(None) => Ok(None),
            Err(NatsError::Refused {
                code: NO_STREAM, ..
            }) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Ok(None) if self.are_declared().await? => Err(lost()),
            Ok(None) => {
                self.known().none_until = Some(Instant::now() + BELIEF);
                Ok(None)
            }
            other => other,
        }
    }

    async fn used(&self) -> Result<(u64, QuotaUse), NatsError> {
        let last = match self.last("use").await {
            Err(NatsError::Refused {
                code: NO_STREAM, ..
            }) => None,
            last => last?,
        };
        let last = last.ok_or_else(lost)?;
        Ok((last.sequence, read("use", &last)?))
    }

    async fn last(&self, key: &str) -> Result<Option<StoredMessage>, NatsError> {
        let (stream, subject) = (self.stream(), self.subject(key));
        self.parts.link.last(&stream, &subject).await
    }

    /// Stores a key whose last message is `expected`. Returns whether it was the last.
    async fn put(
        &self,
        key: &str,
        expected: u64,
        value: &impl Serialize,
    ) -> Result<bool, NatsError> {
        let payload = serde_json::to_vec(value);
        let payload = payload.map_err(|error| NatsError::unanswered("a quota", error))?;
        let (subject, headers) = (self.subject(key), HeaderMap::new());
        let link = &self.parts.link;
        let stored = link.append_at(&subject, expected, headers, Bytes::from(payload));
        match stored.await {
            AppendAnswer::Stored(_) => Ok(true),
            AppendAnswer::Refused => Ok(false),
            AppendAnswer::Unclear(error) => Err(error),
        }
    }

    /// Whether quotas were declared, as the stream of the inputs says: it outlives the bucket.
    async fn are_declared(&self) -> Result<bool, NatsError> {
        match self.inputs().await {
            Ok(config) => Ok(config.metadata.contains_key(DECLARED)),
            // A store without a queue.
            Err(NatsError::Refused {
                code: NO_STREAM, ..
            }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn set_declared(&self, is_declared: bool) -> Result<(), NatsError> {
        let mut config = self.inputs().await?;
        match is_declared {
            true => config
                .metadata
                .insert(DECLARED.to_owned(), "yes".to_owned()),
            false => config.metadata.remove(DECLARED),
        };
        let updated = self.parts.link.context().update_stream(&config).await;
        updated
            .map(drop)
            .map_err(|error| NatsError::unanswered("the declaration of quotas", error))
    }

    async fn inputs(&self) -> Result<stream::Config, NatsError> {
        let name = format!("RIND-{}-IN", self.parts.streams.names.tenant());
        let found = self.parts.link.context().get_stream(name).await;
        let found = found.map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(answer) => {
                let code = answer.error_code().0;
                NatsError::refused("the stream of inputs", code, &answer.to_string())
            }
            _ => NatsError::unanswered("the stream of inputs", error),
        })?;
        Ok(found.cached_info().config.clone())
    }

    fn bucket(&self) -> String {
        format!("rind-{}-quotas", self.parts.streams.names.tenant())
    }

    fn stream(&self) -> String {
        format!("KV_{}", self.bucket())
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.bucket())
    }

    /// The stream of a key-value bucket, so that the tools of NATS show it.
    fn config(&self) -> stream::Config {
        stream::Config {
            name: self.stream(),
            subjects: vec![format!("$KV.{}.>", self.bucket())],
            discard: stream::DiscardPolicy::New,
            max_messages_per_subject: 1,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            num_replicas: self.parts.streams.replicas,
            duplicate_window: Duration::from_secs(1),
            metadata: HashMap::new(),
            ..stream::Config::default()
        }
    }
}

/// Returns a time in milliseconds since 1970 as text: RFC 3339 in UTC.
fn time_text(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map(|at| at.to_string()).unwrap_or_default()
}

fn lost() -> NatsError {
    NatsError::Damaged {
        what: "the quotas of the tenant".to_owned(),
        why: "they were declared and are gone, so nothing runs; declare them again with `rind cluster quota`"
            .to_owned(),
    }
}

fn read<T: for<'a> Deserialize<'a>>(key: &str, message: &StoredMessage) -> Result<T, NatsError> {
    serde_json::from_slice(&message.payload).map_err(|error| NatsError::Damaged {
        what: format!("the {key} of the tenant's quotas"),
        why: rind_lib::text::clean_line(&error.to_string(), 200),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_behind_takes_no_count_back() {
        let mut used = QuotaUse::default();
        used.roll(3 * DAY_MS + 5 * MINUTE_MS);
        (used.turns, used.tokens) = (4, 100);
        used.roll(3 * DAY_MS + 4 * MINUTE_MS);
        used.roll(2 * DAY_MS);
        assert_eq!((used.turns, used.tokens), (4, 100));
        used.roll(3 * DAY_MS + 6 * MINUTE_MS);
        assert_eq!((used.turns, used.tokens), (0, 100));
        used.roll(4 * DAY_MS);
        assert_eq!((used.turns, used.tokens), (0, 0));
    }

    #[test]
    fn a_refusal_names_the_quota_the_use_and_when_it_is_free_again() {
        let used = QuotaUse {
            day: 20_000,
            micro_usd: 2_500_000,
            ..QuotaUse::default()
        };
        let limits = QuotaLimits {
            usd_a_day: Some(2.0),
            ..QuotaLimits::default()
        };
        let refused = used.check_spent(&limits).unwrap_err().to_string();
        for words in ["US dollars a day", "2.5 of 2", "2024-10-05T00:00:00Z"] {
            assert!(refused.contains(words), "{words}: {refused}");
        }
    }
}
