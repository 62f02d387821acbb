//! Derives the names of streams and subjects.
//!
//! Maps the address of a session to a subject: each id is a token, in which the character `~`,
//! which no id contains, replaces `.`. In each stream, the subjects of a session and of its
//! subagents have a common prefix, so that one request removes all of them.

use rind_lib::session::{BlobKind, SessionAddress};

/// Last token of the subject for the lines of a session. The subjects of its subagents continue
/// with the subagent's id instead of this token.
const SESSION_LINES_SUBJECT_TOKEN: &str = "_";

/// Names of the streams, buckets and subjects of one tenant.
#[derive(Clone, Debug)]
pub(crate) struct TenantStreamNames {
    tenant: String,
    partitions: u16,
}

impl TenantStreamNames {
    pub(crate) fn new(tenant: &str, partitions: u16) -> Self {
        Self {
            tenant: tenant.to_owned(),
            partitions: partitions.max(1),
        }
    }

    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    pub(crate) fn n_partitions(&self) -> u16 {
        self.partitions
    }

    /// Returns the name of a stream of the tenant: of lines if `kind` is `LOG`, and of large values
    /// if it is `BLOB`.
    pub(crate) fn stream_name(&self, kind: &str, partition: u16) -> String {
        format!("RIND-{}-{kind}-{partition}", self.tenant)
    }

    /// Returns the pattern of the subjects whose messages the stream of this kind and partition
    /// stores.
    pub(crate) fn stream_subjects(&self, kind: &str, partition: u16) -> String {
        format!("rind.{}.{}.{partition}.>", self.tenant, kind.to_lowercase())
    }

    /// Returns the name of the key-value bucket with the leases.
    pub(crate) fn lease_bucket(&self) -> String {
        format!("rind-{}-leases", self.tenant)
    }

    /// Returns the name of the stream in which JetStream stores the bucket of leases.
    pub(crate) fn lease_stream(&self) -> String {
        format!("KV_{}", self.lease_bucket())
    }

    /// Returns the subject of a session's lease, a key of the lease bucket.
    pub(crate) fn lease_subject(&self, at: &SessionAddress) -> String {
        format!(
            "$KV.{}.{}",
            self.lease_bucket(),
            session_address_subject_tokens(at)
        )
    }

    /// Returns the number of the partition that stores a session and its subagents.
    pub(crate) fn partition_of_session(&self, at: &SessionAddress) -> u16 {
        let hash = fnv_hash(at.root_session_id().as_bytes()) % u64::from(self.partitions);
        u16::try_from(hash).unwrap_or_default()
    }

    fn subject_prefix(&self, kind: &str, at: &SessionAddress) -> String {
        format!(
            "rind.{}.{kind}.{}.{}",
            self.tenant,
            self.partition_of_session(at),
            session_address_subject_tokens(at)
        )
    }

    /// Returns the NATS subject under which the lines of a session are stored.
    pub(crate) fn session_log_subject(&self, at: &SessionAddress) -> String {
        format!(
            "{}.{SESSION_LINES_SUBJECT_TOKEN}",
            self.subject_prefix("log", at)
        )
    }

    /// Returns a filter for the subjects with the lines of a session and of all subagents below it,
    /// at any depth.
    pub(crate) fn log_subjects_filter_with_subagents(&self, at: &SessionAddress) -> String {
        format!("{}.>", self.subject_prefix("log", at))
    }

    /// Returns a filter for the subjects with the lines of the direct subagents of a session.
    pub(crate) fn subagent_log_lines_filter(&self, at: &SessionAddress) -> String {
        format!(
            "{}.*.{SESSION_LINES_SUBJECT_TOKEN}",
            self.subject_prefix("log", at)
        )
    }

    /// Returns a filter for the lines of all sessions in a partition, without subagents.
    pub(crate) fn log_subjects_filter_of_partition(&self, partition: u16) -> String {
        format!(
            "rind.{}.log.{partition}.*.{SESSION_LINES_SUBJECT_TOKEN}",
            self.tenant
        )
    }

    /// Returns the prefix of the subjects with a session's values of a kind.
    pub(crate) fn blob_subject_prefix(&self, at: &SessionAddress, kind: BlobKind) -> String {
        let kind = match kind {
            BlobKind::Content => "=content",
            BlobKind::State => "=state",
        };
        format!("{}.{kind}", self.subject_prefix("blob", at))
    }

    /// Returns the prefix of the subjects with the contents of a session's files.
    pub(crate) fn files_prefix(&self, at: &SessionAddress) -> String {
        format!("{}.=files", self.subject_prefix("blob", at))
    }

    /// Returns the prefix of the subjects with the files of the tenant's plugins.
    pub(crate) fn plugin_files_prefix(&self) -> String {
        format!("rind.{}.blob.0.=plugins", self.tenant)
    }

    /// Returns a filter for all values of a session and of its subagents.
    pub(crate) fn blob_subjects_filter_with_subagents(&self, at: &SessionAddress) -> String {
        format!("{}.>", self.subject_prefix("blob", at))
    }
}

/// Returns the session id in a subject with the lines of a session: the token before the last.
pub(crate) fn session_id_from_subject(subject: &str) -> Option<String> {
    let before = subject
        .strip_suffix(SESSION_LINES_SUBJECT_TOKEN)?
        .strip_suffix('.')?;
    let token = before.rsplit('.').next()?;
    Some(token.replace('~', "."))
}

/// Converts a session id into a token of a NATS subject.
pub(crate) fn session_id_to_subject_token(id: &str) -> String {
    id.replace('.', "~")
}

/// Returns the id in the last token of a subject.
pub(crate) fn id_in_last_subject_token(subject: &str) -> String {
    subject
        .rsplit('.')
        .next()
        .unwrap_or(subject)
        .replace('~', ".")
}

/// Converts the ids of an address into tokens of a subject, joined by `.`.
fn session_address_subject_tokens(at: &SessionAddress) -> String {
    let tokens = at.ids_from_root().map(session_id_to_subject_token);
    tokens.collect::<Vec<_>>().join(".")
}

/// Hashes a name (FNV-1a). The hash selects the partition of a session, so it must never change.
fn fnv_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SessionAddress {
        SessionAddress::parse(text).unwrap()
    }

    #[test]
    fn addresses_become_subjects_and_ids_come_back() {
        let names = TenantStreamNames::new("t", 1);
        let subject = names.session_log_subject(&at("c.1_x"));
        assert_eq!(subject, "rind.t.log.0.c~1_x._");
        assert_eq!(session_id_from_subject(&subject).as_deref(), Some("c.1_x"));
        let child = names.session_log_subject(&at("c.1_x/agents/sub-1"));
        assert_eq!(child, "rind.t.log.0.c~1_x.sub-1._");
        assert_eq!(session_id_from_subject(&child).as_deref(), Some("sub-1"));
        assert_eq!(session_id_from_subject("rind.t.log.0.x"), None);
    }

    #[test]
    fn the_place_of_a_session_never_changes_and_its_subagents_are_beside_it() {
        let names = TenantStreamNames::new("t", 16);
        assert_eq!(names.partition_of_session(&at("a")), 12);
        assert_eq!(
            names.partition_of_session(&at("one")),
            names.partition_of_session(&at("one/agents/sub-1"))
        );
    }
}
