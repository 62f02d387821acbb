//! Remembers the numbers of the sets of plugins that this machine has seen, so that servers cannot
//! roll back to an older set, or to none for the class.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use rind_lib::disk::{acquire_file_lock, read_if_present, replace_private_file_synced};
use rind_nats::SignedPluginSet;
use serde::{Deserialize, Serialize};

/// Maximum size, in bytes, of the file that stores the last seen sets: enough for thousands of
/// classes of workers.
const MAX_ACCEPTED_PLUGIN_SETS_FILE_BYTES: u64 = 1 << 20;

/// Last set that was seen for each scope: `tenant`, or `class` and a name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedPluginSetsFile {
    sets: BTreeMap<String, AcceptedPluginSet>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedPluginSet {
    number: u64,
    digest: String,
}

/// Records a set whose signature was verified, as the set in force for workers of a class.
///
/// # Errors
/// A newer set was seen before, or a different one with this number; or `set` is for the whole
/// tenant although one for the class was seen; or the file cannot be read or written.
pub(super) fn record_accepted_plugin_set(
    path: &Path,
    class: &str,
    set: &SignedPluginSet,
) -> anyhow::Result<()> {
    let shown = path.display();
    let _lock = acquire_file_lock(path, || {}).with_context(|| format!("cannot write {shown}"))?;
    let text = read_if_present(path, MAX_ACCEPTED_PLUGIN_SETS_FILE_BYTES)
        .with_context(|| format!("cannot read {shown}"))?;
    let mut seen: AcceptedPluginSetsFile = match text {
        None => AcceptedPluginSetsFile::default(),
        Some(text) => serde_json::from_str(&text).with_context(|| {
            format!(
                "{shown} is damaged, and says which sets of plugins were seen; remove it if you know that the published one \
                 is the newest"
            )
        })?,
    };
    let of_class = format!("class {class}");
    let scope = match &set.record.class {
        Some(_) => of_class.clone(),
        None => "tenant".to_owned(),
    };
    let number = set.record.number;
    if scope != of_class
        && let Some(own) = seen.sets.get(&of_class)
    {
        bail!(
            "the set {} of the class {class} was seen before, and the servers have none for the class any more: publish one \
             for it",
            own.number
        );
    }
    match seen.sets.get(&scope) {
        Some(last) if last.number > number => bail!(
            "the published set has the number {number}, and the newer set {} was seen before: somebody has put an old one \
             back, or the bucket was lost; publish one with a greater number (--number)",
            last.number
        ),
        Some(last) if last.number == number && last.digest != set.digest => bail!(
            "two different sets of plugins were published with the number {number}: publish one of them again with a greater number (--number)"
        ),
        Some(last) if last.number == number => return Ok(()),
        _ => {}
    }
    let digest = set.digest.clone();
    seen.sets
        .insert(scope, AcceptedPluginSet { number, digest });
    let bytes = serde_json::to_vec_pretty(&seen)
        .context("cannot convert the list of the sets of plugins seen so far to JSON")?;
    replace_private_file_synced(path, &bytes).with_context(|| format!("cannot write {shown}"))
}

#[cfg(test)]
mod tests {
    use rind_nats::PluginSetRecord;

    use super::*;

    fn set(class: Option<&str>, number: u64, digest: &str) -> SignedPluginSet {
        SignedPluginSet {
            record: PluginSetRecord::new("t", class, number, Vec::new()),
            digest: digest.to_owned(),
            key: "M".to_owned(),
        }
    }

    #[test]
    fn an_older_set_another_of_the_same_number_and_that_of_the_tenant_after_one_of_the_class_are_refused()
     {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen.json");
        let note = |set: SignedPluginSet| {
            record_accepted_plugin_set(&path, "shop", &set).map_err(|e| e.to_string())
        };
        note(set(None, 3, "a")).unwrap();
        note(set(None, 3, "a")).unwrap();
        assert!(
            note(set(None, 3, "b"))
                .unwrap_err()
                .contains("two different")
        );
        note(set(None, 5, "c")).unwrap();
        assert!(note(set(None, 4, "d")).unwrap_err().contains("newer set 5"));
        note(set(Some("shop"), 1, "e")).unwrap();
        assert!(note(set(None, 6, "f")).unwrap_err().contains("class shop"));
        std::fs::write(&path, "{").unwrap();
        let refused = note(set(Some("shop"), 2, "g")).unwrap_err();
        assert!(refused.contains("damaged"), "{refused}");
    }
}
