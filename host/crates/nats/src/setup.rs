//! Creates the streams of a tenant. Existing streams keep their configuration.
//!
//! No stream may drop stored messages, so every stream refuses new messages when it is full. The
//! metadata of the first stream contains the number of partitions, which every client reads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, ErrorCode, stream};

use crate::link::NatsConnection;
use crate::names::TenantStreamNames;
use crate::{NatsConfig, NatsError};

/// Key of the number of partitions in the metadata of the first stream.
const PARTITION_COUNT_METADATA_KEY: &str = "rind-partitions";

/// Error code of JetStream for a stream that does not exist.
pub(crate) const STREAM_NOT_FOUND_ERROR_CODE: u64 = 10059;

/// Part of a stream's name that marks it as a stream of session lines.
pub(crate) const SESSION_LINES_STREAM_NAME_PART: &str = "LOG";

/// Part of a stream's name that marks it as a stream of large values.
pub(crate) const LARGE_VALUES_STREAM_NAME_PART: &str = "BLOB";

/// Properties of the tenant's JetStream streams, as they exist on the servers.
#[derive(Clone, Debug)]
pub(crate) struct TenantStreamProperties {
    pub(crate) names: TenantStreamNames,
    /// Number of NATS servers that keep a copy of each message.
    pub(crate) replicas: usize,
    /// Time after which a lease expires if it is not renewed.
    pub(crate) lease: Duration,
}

/// Creates the streams of the tenant that do not exist yet.
pub(crate) async fn create_streams(
    link: &NatsConnection,
    config: &NatsConfig,
) -> Result<TenantStreamProperties, NatsError> {
    let names = TenantStreamNames::new(&config.tenant, config.partitions);
    let mut first = session_log_stream_config(&names, 0, config.replicas);
    let partitions = config.partitions.to_string();
    first
        .metadata
        .insert(PARTITION_COUNT_METADATA_KEY.to_owned(), partitions);
    let first = ensure_stream_exists(link, first, config.patience).await?;
    let partitions = first.metadata.get(PARTITION_COUNT_METADATA_KEY);
    let Some(partitions) = partitions.and_then(|text| text.parse::<u16>().ok()) else {
        return Err(NatsError::Config {
            what: format!("the stream {}", first.name),
            why: "it was not made by rind: it does not say how many partitions there are"
                .to_owned(),
        });
    };
    let replicas = first.num_replicas;
    let names = TenantStreamNames::new(&config.tenant, partitions);
    for partition in 0..names.n_partitions() {
        if partition > 0 {
            let lines = session_log_stream_config(&names, partition, replicas);
            ensure_stream_exists(link, lines, config.patience).await?;
        }
        let values = blob_stream_config(&names, partition, replicas);
        ensure_stream_exists(link, values, config.patience).await?;
    }
    let leases = lease_stream_config(&names, replicas, config.lease);
    let leases = ensure_stream_exists(link, leases, config.patience).await?;
    Ok(TenantStreamProperties {
        names,
        replicas,
        lease: leases.max_age,
    })
}

fn session_log_stream_config(
    names: &TenantStreamNames,
    partition: u16,
    replicas: usize,
) -> stream::Config {
    stream::Config {
        name: names.stream_name(SESSION_LINES_STREAM_NAME_PART, partition),
        subjects: vec![names.stream_subjects(SESSION_LINES_STREAM_NAME_PART, partition)],
        discard: stream::DiscardPolicy::New,
        num_replicas: replicas,
        allow_direct: true,
        deny_delete: true,
        // Use the shortest window for deduplication, because the store does not need it, and the
        // message ids in it cost memory on the server.
        duplicate_window: Duration::from_secs(1),
        metadata: HashMap::new(),
        ..stream::Config::default()
    }
}

fn blob_stream_config(
    names: &TenantStreamNames,
    partition: u16,
    replicas: usize,
) -> stream::Config {
    stream::Config {
        name: names.stream_name(LARGE_VALUES_STREAM_NAME_PART, partition),
        subjects: vec![names.stream_subjects(LARGE_VALUES_STREAM_NAME_PART, partition)],
        // Keep one message per subject: a part that is stored again replaces the old message.
        max_messages_per_subject: 1,
        ..session_log_stream_config(names, partition, replicas)
    }
}

/// Returns the configuration of the lease stream: that of a key-value bucket, so that the tools of
/// NATS can show the leases.
fn lease_stream_config(
    names: &TenantStreamNames,
    replicas: usize,
    lease: Duration,
) -> stream::Config {
    let bucket = names.lease_bucket();
    stream::Config {
        name: format!("KV_{bucket}"),
        subjects: vec![format!("$KV.{bucket}.>")],
        discard: stream::DiscardPolicy::New,
        max_messages_per_subject: 1,
        max_age: lease,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: replicas,
        duplicate_window: Duration::from_secs(1),
        ..stream::Config::default()
    }
}

/// Creates the stream `wanted` if no stream with this name exists, and returns the stream's actual
/// configuration. Retries for the time `patience`, for example while a cluster has no leader.
pub(crate) async fn ensure_stream_exists(
    link: &NatsConnection,
    wanted: stream::Config,
    patience: Duration,
) -> Result<stream::Config, NatsError> {
    let began = Instant::now();
    loop {
        let why = match get_or_create_stream(link, &wanted).await {
            Ok(found) => return Ok(found),
            Err(why) => why,
        };
        if began.elapsed() >= patience || !may_retry_succeed(&why) {
            return Err(why);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn get_or_create_stream(
    link: &NatsConnection,
    wanted: &stream::Config,
) -> Result<stream::Config, NatsError> {
    let what = || format!("the stream {}", wanted.name);
    let error = match link
        .jetstream_context()
        .get_stream(wanted.name.as_str())
        .await
    {
        Ok(found) => return Ok(found.cached_info().config.clone()),
        Err(error) => error,
    };
    match error.kind() {
        jetstream::context::GetStreamErrorKind::JetStream(answer)
            if answer.error_code() == ErrorCode::STREAM_NOT_FOUND => {}
        jetstream::context::GetStreamErrorKind::JetStream(answer) => {
            return Err(refused_stream_error(what(), &answer));
        }
        _ => return Err(NatsError::nats_request_error(what(), error)),
    }
    match link.jetstream_context().create_stream(wanted.clone()).await {
        Ok(created) => Ok(created.cached_info().config.clone()),
        Err(error) => match error.kind() {
            jetstream::context::CreateStreamErrorKind::JetStream(answer) => {
                Err(refused_stream_error(what(), &answer))
            }
            _ => Err(NatsError::nats_request_error(what(), error)),
        },
    }
}

fn refused_stream_error(what: String, answer: &jetstream::Error) -> NatsError {
    NatsError::from_jetstream_refusal(what, answer.error_code().0, &answer.to_string())
}

/// Whether a retry may succeed: there was no answer, there is no leader yet, or another client
/// creates the same stream.
fn may_retry_succeed(error: &NatsError) -> bool {
    const NO_LEADER_ERROR_CODE: u64 = 10008;
    const STREAM_NAME_IN_USE_ERROR_CODE: u64 = 10058;
    const NO_SUITABLE_PEERS_ERROR_CODE: u64 = 10005;
    match error {
        NatsError::Unanswered { .. } => true,
        NatsError::Refused { code, .. } => [
            NO_LEADER_ERROR_CODE,
            STREAM_NAME_IN_USE_ERROR_CODE,
            NO_SUITABLE_PEERS_ERROR_CODE,
        ]
        .contains(code),
        _ => false,
    }
}
