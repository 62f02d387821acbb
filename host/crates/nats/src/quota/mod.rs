//! Enforces the quotas of a tenant, which limit the usage of its sessions per minute and per day
//! across all programs.
//!
//! Limits and usage are two keys of a bucket. The operator declares the limits. Every program that
//! runs turns adds to the usage by compare-and-swap, so that no update is lost. A turn is counted
//! before it begins, and its tokens and cost after it has ended, so the programs together exceed a
//! quota at most by the turns that are running. A program that cannot read the bucket runs no
//! turns. Clocks only determine the current minute and day; a slow clock never resets a count.
//!
//! Start from [`TenantQuotaClient`].

mod counts;
mod known;

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream;
use bytes::Bytes;
pub use counts::{
    QuotaExceededError, QuotaReport, TenantQuotaLimits, TenantUsage, TurnTokensAndCost,
};
pub(crate) use known::TenantQuotaCache;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::session::SessionAddress;
use serde::{Deserialize, Serialize};

use crate::link::{MessageAppendOutcome, StoredStreamMessage};
use crate::sessions::SharedNatsStoreState;
use crate::setup::{
    SESSION_LINES_STREAM_NAME_PART, STREAM_NOT_FOUND_ERROR_CODE, ensure_stream_exists,
};
use crate::{NatsError, NatsSessions};

/// Key in the metadata of the input stream. Its presence means that quotas were declared.
const QUOTAS_DECLARED_METADATA_KEY: &str = "rind-quotas";

/// Client for the quotas of a tenant. Cheap to clone.
#[derive(Clone)]
pub struct TenantQuotaClient {
    parts: Arc<SharedNatsStoreState>,
}

impl std::fmt::Debug for TenantQuotaClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TenantQuotaClient")
            .field(&self.parts.name)
            .finish()
    }
}

impl TenantQuotaClient {
    /// Creates the client for the quotas of the tenant to which a session store belongs.
    #[must_use]
    pub fn from_sessions(sessions: &NatsSessions) -> Self {
        Self::from_store_state(sessions.shared_store_state().clone())
    }

    pub(crate) fn from_store_state(parts: Arc<SharedNatsStoreState>) -> Self {
        Self { parts }
    }

    /// Declares the limits and keeps the counted usage. Limits that are all `None` remove the
    /// quotas.
    ///
    /// # Errors
    /// A limit is invalid, another program declares limits at the same time, or the servers do not
    /// answer.
    pub async fn declare_limits(&self, limits: TenantQuotaLimits) -> Result<(), NatsError> {
        if limits
            .usd_a_day
            .is_some_and(|usd| !usd.is_finite() || usd < 0.0)
        {
            return Err(NatsError::Config {
                what: "the quota of US dollars a day".to_owned(),
                why: "it must be a number of at least 0".to_owned(),
            });
        }
        if limits == TenantQuotaLimits::default() {
            self.store_quotas_declared_flag(false).await?;
            let deleted = self
                .parts
                .link
                .jetstream_context()
                .delete_stream(self.stream_name())
                .await;
            return match deleted {
                Ok(_) => Ok(()),
                Err(_) if self.limits().await?.is_none() => Ok(()),
                Err(error) => Err(NatsError::nats_request_error(
                    "the removal of quotas",
                    error,
                )),
            };
        }
        ensure_stream_exists(&self.parts.link, self.stream_config(), self.parts.patience).await?;
        // Write the usage before the limits, and both before the mark that quotas were declared, so
        // that a concurrent reader finds complete data.
        let last = self.last_message_for_key("use").await?;
        let is_read =
            |last: &StoredStreamMessage| parse_quota_record::<TenantUsage>("use", last).is_ok();
        if !last.as_ref().is_some_and(is_read) {
            let expected = last.map_or(0, |last| last.sequence);
            self.store_quota_value("use", expected, &TenantUsage::default())
                .await?;
        }
        let last = self.last_message_for_key("limits").await?;
        let expected = last.map_or(0, |last| last.sequence);
        if self.store_quota_value("limits", expected, &limits).await? {
            *self.lock_quota_cache() = TenantQuotaCache::default();
            return self.store_quotas_declared_flag(true).await;
        }
        Err(NatsError::from_jetstream_refusal(
            "the declaration of quotas",
            0,
            "another program declared them at the same time: look at `rind cluster status` and try again",
        ))
    }

    /// Returns the quotas and the usage of the tenant; `None` if the operator declared no quotas.
    ///
    /// # Errors
    /// The servers do not answer, or the declared quotas are lost or damaged.
    pub async fn read_quota_report(&self) -> Result<Option<QuotaReport>, NatsError> {
        let Some(limits) = self.limits().await? else {
            return Ok(None);
        };
        let (_, mut used) = self.read_usage_with_sequence().await?;
        used.reset_counts_of_past_periods(rind_lib::clock::now_ms());
        Ok(Some(QuotaReport { limits, used }))
    }

    /// Checks the quotas, and counts an input that the caller is about to send.
    ///
    /// # Errors
    /// A quota is used up, the servers do not answer, or the declared quotas are lost or damaged.
    pub async fn count_input_against_quotas(&self) -> Result<(), NatsError> {
        if let Some(refusal) = self.lock_quota_cache().cached_refusal() {
            return Err(NatsError::OverQuota(refusal));
        }
        let counted = self.change_usage(|limits, used| {
            used.check_daily_spending(limits)?;
            used.check_minute_quota("inputs a minute", used.inputs, limits.turns_a_minute)?;
            used.inputs += 1;
            Ok(())
        });
        let counted = counted.await;
        if let Err(NatsError::OverQuota(refusal)) = &counted {
            self.lock_quota_cache().cache_refusal(refusal.clone());
        }
        counted
    }

    fn lock_quota_cache(&self) -> MutexGuard<'_, TenantQuotaCache> {
        lock_ignoring_poison(&self.parts.quotas)
    }

    /// Checks the quota of sessions per day, and counts a session that the caller is about to
    /// create.
    ///
    /// # Errors
    /// See [`count_input_against_quotas`](Self::count_input_against_quotas).
    pub async fn count_session_against_quotas(&self) -> Result<(), NatsError> {
        self.change_usage(|limits, used| {
            let limit = limits.sessions_a_day.map(|limit| limit as f64);
            used.check_day_quota("sessions a day", used.sessions as f64, limit)?;
            used.sessions += 1;
            Ok(())
        })
        .await
    }

    /// Checks, without counting, that a turn of a session may begin. If the session does not exist
    /// yet, also checks that it may be created.
    pub(crate) async fn check_session_turn_quotas(
        &self,
        at: &SessionAddress,
    ) -> Result<(), NatsError> {
        let Some(QuotaReport { limits, used }) = self.read_quota_report().await? else {
            return Ok(());
        };
        used.check_turn_quotas(&limits)?;
        let Some(limit) = limits.sessions_a_day else {
            return Ok(());
        };
        let names = &self.parts.streams.names;
        let stream = names.stream_name(
            SESSION_LINES_STREAM_NAME_PART,
            names.partition_of_session(at),
        );
        match self
            .parts
            .link
            .last_message(&stream, &names.session_log_subject(at))
            .await?
        {
            Some(_) => Ok(()),
            None => {
                used.check_day_quota("sessions a day", used.sessions as f64, Some(limit as f64))
            }
        }
    }

    /// Checks, without counting a turn, that the quotas allow a turn to begin.
    ///
    /// # Errors
    /// See [`count_input_against_quotas`](Self::count_input_against_quotas).
    pub async fn check_turn_quotas(&self) -> Result<(), NatsError> {
        let Some(QuotaReport { limits, used }) = self.read_quota_report().await? else {
            return Ok(());
        };
        used.check_turn_quotas(&limits)
    }

    /// Checks the quotas, and counts a turn that the caller is about to begin.
    ///
    /// # Errors
    /// See [`count_input_against_quotas`](Self::count_input_against_quotas).
    pub async fn count_turn_against_quotas(&self) -> Result<(), NatsError> {
        self.change_usage(|limits, used| {
            used.check_turn_quotas(limits)?;
            used.turns += 1;
            Ok(())
        })
        .await
    }

    /// Adds the usage of a turn that has ended.
    ///
    /// # Errors
    /// The servers do not answer, or the declared quotas are lost or damaged.
    pub async fn add_turn_usage(&self, turn: TurnTokensAndCost) -> Result<(), NatsError> {
        self.change_usage(|_, used| {
            used.add_turn(turn);
            Ok(())
        })
        .await
    }

    /// Changes the tenant's usage by compare-and-swap; does nothing if no quotas were declared.
    async fn change_usage(
        &self,
        change: impl Fn(&TenantQuotaLimits, &mut TenantUsage) -> Result<(), NatsError>,
    ) -> Result<(), NatsError> {
        let began = Instant::now();
        let Some(limits) = self.limits().await? else {
            return Ok(());
        };
        // Make the changes of this program one at a time: concurrent changes would make each other
        // fail, and load the servers.
        let _one = self.parts.quota_change.lock().await;
        loop {
            let (sequence, mut used) = self.read_usage_with_sequence().await?;
            used.reset_counts_of_past_periods(rind_lib::clock::now_ms());
            change(&limits, &mut used)?;
            match self.store_quota_value("use", sequence, &used).await {
                Ok(true) => return Ok(()),
                Ok(false) => tokio::time::sleep(Duration::from_millis(2)).await,
                // Retry the change after an unclear answer: it may be counted twice, but is never
                // lost.
                Err(error) if began.elapsed() >= self.parts.patience => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Returns the quotas of the tenant, if any were declared.
    async fn limits(&self) -> Result<Option<TenantQuotaLimits>, NatsError> {
        if self.lock_quota_cache().is_absence_of_quotas_cached() {
            return Ok(None);
        }
        let found = match self.last_message_for_key("limits").await {
            Ok(Some(last)) => return parse_quota_record("limits", &last).map(Some),
            Ok(None) => Ok(None),
            Err(NatsError::Refused {
                code: STREAM_NOT_FOUND_ERROR_CODE,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Ok(None) if self.are_quotas_declared().await? => Err(missing_quota_record_error()),
            Ok(None) => {
                self.lock_quota_cache().cache_absence_of_quotas();
                Ok(None)
            }
            other => other,
        }
    }

    async fn read_usage_with_sequence(&self) -> Result<(u64, TenantUsage), NatsError> {
        let last = match self.last_message_for_key("use").await {
            Err(NatsError::Refused {
                code: STREAM_NOT_FOUND_ERROR_CODE,
                ..
            }) => None,
            last => last?,
        };
        let last = last.ok_or_else(missing_quota_record_error)?;
        Ok((last.sequence, parse_quota_record("use", &last)?))
    }

    async fn last_message_for_key(
        &self,
        key: &str,
    ) -> Result<Option<StoredStreamMessage>, NatsError> {
        let (stream, subject) = (self.stream_name(), self.nats_subject_for_key(key));
        self.parts.link.last_message(&stream, &subject).await
    }

    /// Stores a value under a key, whose last message must have the sequence `expected`. Returns
    /// `false` if another message was stored meanwhile.
    async fn store_quota_value(
        &self,
        key: &str,
        expected: u64,
        value: &impl Serialize,
    ) -> Result<bool, NatsError> {
        let payload = serde_json::to_vec(value);
        let payload = payload.map_err(|error| NatsError::nats_request_error("a quota", error))?;
        let (subject, headers) = (self.nats_subject_for_key(key), HeaderMap::new());
        let link = &self.parts.link;
        let stored = link.append_after_sequence(&subject, expected, headers, Bytes::from(payload));
        match stored.await {
            MessageAppendOutcome::Stored(_) => Ok(true),
            MessageAppendOutcome::Refused => Ok(false),
            MessageAppendOutcome::Unclear(error) => Err(error),
        }
    }

    /// Whether quotas were declared, according to the mark on the stream of inputs. The mark
    /// remains when the bucket is deleted.
    async fn are_quotas_declared(&self) -> Result<bool, NatsError> {
        match self.input_stream_config().await {
            Ok(config) => Ok(config.metadata.contains_key(QUOTAS_DECLARED_METADATA_KEY)),
            // The mark is metadata of the input stream, so without the stream no quotas were
            // declared.
            Err(NatsError::Refused {
                code: STREAM_NOT_FOUND_ERROR_CODE,
                ..
            }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn store_quotas_declared_flag(&self, is_declared: bool) -> Result<(), NatsError> {
        let mut config = self.input_stream_config().await?;
        match is_declared {
            true => config
                .metadata
                .insert(QUOTAS_DECLARED_METADATA_KEY.to_owned(), "yes".to_owned()),
            false => config.metadata.remove(QUOTAS_DECLARED_METADATA_KEY),
        };
        let updated = self
            .parts
            .link
            .jetstream_context()
            .update_stream(&config)
            .await;
        updated
            .map(drop)
            .map_err(|error| NatsError::nats_request_error("the declaration of quotas", error))
    }

    async fn input_stream_config(&self) -> Result<stream::Config, NatsError> {
        let name = format!("RIND-{}-IN", self.parts.streams.names.tenant());
        let found = self.parts.link.jetstream_context().get_stream(name).await;
        let found = found.map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(answer) => {
                let code = answer.error_code().0;
                NatsError::from_jetstream_refusal("the stream of inputs", code, &answer.to_string())
            }
            _ => NatsError::nats_request_error("the stream of inputs", error),
        })?;
        Ok(found.cached_info().config.clone())
    }

    fn bucket_name(&self) -> String {
        format!("rind-{}-quotas", self.parts.streams.names.tenant())
    }

    fn stream_name(&self) -> String {
        format!("KV_{}", self.bucket_name())
    }

    fn nats_subject_for_key(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.bucket_name())
    }

    /// Returns the configuration of the quota stream: that of a key-value bucket, so that the tools
    /// of NATS can show the quotas.
    fn stream_config(&self) -> stream::Config {
        stream::Config {
            name: self.stream_name(),
            subjects: vec![format!("$KV.{}.>", self.bucket_name())],
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

fn missing_quota_record_error() -> NatsError {
    NatsError::Damaged {
        what: "the quotas of the tenant".to_owned(),
        why: "they were declared and are gone, so nothing runs; declare them again with `rind cluster quota`"
            .to_owned(),
    }
}

fn parse_quota_record<T: for<'a> Deserialize<'a>>(
    key: &str,
    message: &StoredStreamMessage,
) -> Result<T, NatsError> {
    serde_json::from_slice(&message.payload).map_err(|error| NatsError::Damaged {
        what: format!("the {key} of the tenant's quotas"),
        why: rind_lib::text::escape_and_truncate_line(&error.to_string(), 200),
    })
}
