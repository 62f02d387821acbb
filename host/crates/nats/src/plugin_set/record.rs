//! Defines the record of a plugin set, and checks its limits before any file is fetched.

use std::collections::{BTreeMap, BTreeSet};

use rind_lib::text::escape_and_truncate_line;
use serde::{Deserialize, Serialize};

/// Version of the record's format. A worker refuses records of other versions.
const RECORD_FORMAT_VERSION: u32 = 1;

/// Maximum length of the record of a plugin set, in bytes.
pub(super) const MAX_PLUGIN_SET_RECORD_BYTES: usize = 256 << 10;

/// Maximum number of plugins in a set, and of files and permissions of a plugin.
const MAX_PLUGINS_PER_SET: usize = 64;
const MAX_FILES_PER_PLUGIN: usize = 1_000;
const MAX_PERMISSIONS_PER_PLUGIN: usize = 256;

/// Maximum size of all files of a set together, in bytes.
const MAX_TOTAL_FILE_BYTES_PER_SET: u64 = 256 << 20;

/// Maximum lengths in bytes: of a name or version, of a permission, and of a name in a path.
const MAX_PLUGIN_NAME_OR_VERSION_BYTES: usize = 64;
const MAX_PERMISSION_BYTES: usize = 500;
const MAX_PATH_COMPONENT_BYTES: usize = 255;

/// Maximum number of components in the path of a plugin's file.
const MAX_FILE_PATH_DEPTH: usize = 16;

/// Plugin set of a tenant or of a class of its workers: plugins with files and permissions, and
/// settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSetRecord {
    format: u32,
    /// Name of the tenant to whose workers the set applies.
    pub tenant: String,
    /// Class of workers to which the set applies; without a class, it applies to all classes that
    /// have no set of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Number of the set, which increases with each published set.
    pub number: u64,
    /// Number of the oldest set that workers may still use. Sets with a lower number are revoked.
    pub oldest: u64,
    /// Plugins that the set contains.
    pub plugins: Vec<PluginSetPlugin>,
    /// Settings of the plugins and rules for tool calls, as TOML.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settings: String,
}

/// Plugin in a plugin set, with its files and permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSetPlugin {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// Files of the plugin's folder by path, with `/` as separator.
    pub files: BTreeMap<String, PluginSetFile>,
    /// Permissions that are granted to the plugin, in their text form.
    pub grants: Vec<String>,
}

/// Hash and length of a plugin's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSetFile {
    /// BLAKE3 hash of the file's content, in hexadecimal digits.
    pub hash: String,
    /// Length of the file's content, in bytes.
    pub bytes: u64,
}

/// Format version of a record. It is parsed first, because other versions may have other fields.
#[derive(Deserialize)]
struct RecordFormatVersion {
    format: u32,
}

impl PluginSetRecord {
    /// Creates the record of a set for a tenant, or for a class of its workers.
    #[must_use]
    pub fn new(
        tenant: &str,
        class: Option<&str>,
        number: u64,
        plugins: Vec<PluginSetPlugin>,
    ) -> Self {
        Self {
            format: RECORD_FORMAT_VERSION,
            tenant: tenant.to_owned(),
            class: class.map(str::to_owned),
            number,
            oldest: 0,
            plugins,
            settings: String::new(),
        }
    }

    /// Parses the text of a plugin set's record, whose signature was verified before, and checks
    /// the record.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let unreadable = |error: serde_json::Error| {
            format!(
                "its record cannot be read: {}",
                escape_and_truncate_line(&error.to_string(), 200)
            )
        };
        let RecordFormatVersion { format } = serde_json::from_str(text).map_err(unreadable)?;
        if format != RECORD_FORMAT_VERSION {
            return Err(format!(
                "the record of the set has format version {format}, but this version of rind reads \
                 only version {RECORD_FORMAT_VERSION}: update rind on this machine"
            ));
        }
        let record: Self = serde_json::from_str(text).map_err(unreadable)?;
        record.require_valid_record()?;
        Ok(record)
    }

    /// Checks that the numbers, names and paths in the record are valid and within the limits.
    pub(super) fn require_valid_record(&self) -> Result<(), String> {
        if self.number == 0 {
            return Err("the set has the number 0, but the number must be at least 1".to_owned());
        }
        if self.oldest > self.number {
            return Err(format!(
                "the set has the number {}, which is less than {}, the number of the oldest usable \
                 set",
                self.number, self.oldest
            ));
        }
        if self.plugins.is_empty() || self.plugins.len() > MAX_PLUGINS_PER_SET {
            return Err(format!(
                "the set has {} plugins, but a set of plugins must have 1 to {MAX_PLUGINS_PER_SET}",
                self.plugins.len()
            ));
        }
        let names: BTreeSet<&str> = self.plugins.iter().map(|own| own.name.as_str()).collect();
        if names.len() < self.plugins.len() {
            return Err("two plugins of the set have the same name".to_owned());
        }
        self.plugins
            .iter()
            .try_for_each(PluginSetPlugin::require_valid_record)?;
        let files = self.plugins.iter().flat_map(|own| own.files.values());
        let total = files.fold(0_u64, |total, file| total.saturating_add(file.bytes));
        if total > MAX_TOTAL_FILE_BYTES_PER_SET {
            return Err(format!(
                "the files of the set have {total} bytes, and at most {MAX_TOTAL_FILE_BYTES_PER_SET} are read"
            ));
        }
        Ok(())
    }
}

impl PluginSetPlugin {
    fn require_valid_record(&self) -> Result<(), String> {
        let is_plain = |text: &str| {
            let is_of = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
            !text.is_empty()
                && text.len() <= MAX_PLUGIN_NAME_OR_VERSION_BYTES
                && text.bytes().all(is_of)
        };
        if !is_plain(&self.name) || !is_plain(&self.version) {
            return Err(format!(
                "`{}` is not a valid plugin name, or `{}` is not a valid version",
                escape_and_truncate_line(&self.name, MAX_PLUGIN_NAME_OR_VERSION_BYTES),
                escape_and_truncate_line(&self.version, MAX_PLUGIN_NAME_OR_VERSION_BYTES)
            ));
        }
        let of = |why: String| format!("plugin {}: {why}", self.name);
        if self.files.is_empty() || self.files.len() > MAX_FILES_PER_PLUGIN {
            return Err(of(format!(
                "it has {} files, but a plugin must have 1 to {MAX_FILES_PER_PLUGIN}",
                self.files.len()
            )));
        }
        let is_long = |grant: &String| grant.len() > MAX_PERMISSION_BYTES;
        if self.grants.len() > MAX_PERMISSIONS_PER_PLUGIN || self.grants.iter().any(is_long) {
            return Err(of(format!(
                "it has more than {MAX_PERMISSIONS_PER_PLUGIN} permissions, or one with more than {MAX_PERMISSION_BYTES} bytes"
            )));
        }
        for (path, file) in &self.files {
            split_plugin_file_path(path).map_err(of)?;
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if file.hash.len() != 64 || !file.hash.bytes().all(is_digit) {
                return Err(of(format!(
                    "`{}` is no BLAKE3 hash",
                    escape_and_truncate_line(&file.hash, 70)
                )));
            }
        }
        Ok(())
    }
}

/// Splits the path of a plugin's file into names. Refuses a path that leads out of the plugin's
/// folder.
///
/// # Errors
/// The path is absolute, contains `..`, or is not the path of a file.
pub fn split_plugin_file_path(path: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = path.split('/').map(str::to_owned).collect();
    let is_name = |name: &String| {
        !name.is_empty()
            && name != "."
            && name != ".."
            && name.len() <= MAX_PATH_COMPONENT_BYTES
            && !name.contains('\\')
            && !name.chars().any(char::is_control)
    };
    match names.len() <= MAX_FILE_PATH_DEPTH && names.iter().all(is_name) {
        true => Ok(names),
        false => Err(format!(
            "the path `{}` is refused: it must stay in the folder of the plugin",
            escape_and_truncate_line(path, 100)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(path: &str) -> PluginSetPlugin {
        let file = PluginSetFile {
            hash: "a".repeat(64),
            bytes: 1,
        };
        PluginSetPlugin {
            name: "guard".to_owned(),
            version: "0.1.0".to_owned(),
            files: BTreeMap::from([(path.to_owned(), file)]),
            grants: vec!["session".to_owned()],
        }
    }

    fn parse(change: impl FnOnce(&mut PluginSetRecord)) -> Result<PluginSetRecord, String> {
        let plugins = vec![plugin("skills/a/SKILL.md")];
        let mut record = PluginSetRecord::new("t", None, 3, plugins);
        change(&mut record);
        PluginSetRecord::parse(&serde_json::to_string(&record).unwrap())
    }

    #[test]
    fn a_path_that_leaves_the_folder_of_its_plugin_is_refused() {
        assert!(parse(|_| {}).is_ok());
        let deep = "a/".repeat(16) + "b";
        for path in [
            "../x", "/etc/x", "a/../b", "a//b", "", ".", "a/", "a\\b", "a\0b", "a\nb", &deep,
        ] {
            let refused = parse(|record| record.plugins = vec![plugin(path)]).unwrap_err();
            assert!(refused.contains("must stay in the folder"), "{refused}");
        }
    }

    #[test]
    fn a_record_beyond_its_bounds_or_of_another_format_is_refused() {
        let refused = |change: fn(&mut PluginSetRecord)| parse(change).unwrap_err();
        assert!(refused(|record| record.format = 2).contains("update rind"));
        assert!(refused(|record| record.number = 0).contains("the number 0"));
        assert!(refused(|record| record.oldest = 4).contains("the oldest"));
        assert!(refused(|record| record.plugins.clear()).contains("0 plugins"));
        assert!(refused(|record| record.plugins.push(plugin("x"))).contains("the same name"));
        assert!(
            refused(|record| record.plugins[0].name = "a b".to_owned())
                .contains("not a valid plugin name")
        );
        let large = |record: &mut PluginSetRecord| {
            let files = record.plugins[0].files.values_mut();
            files.for_each(|file| file.bytes = u64::MAX);
        };
        assert!(refused(large).contains("bytes"));
        let short = |record: &mut PluginSetRecord| {
            let files = record.plugins[0].files.values_mut();
            files.for_each(|file| file.hash = "../x".to_owned());
        };
        assert!(refused(short).contains("no BLAKE3 hash"));
        let more = "{\"format\":1,\"tenant\":\"t\",\"number\":1,\"oldest\":0,\"plugins\":[],\"allow\":true}";
        assert!(PluginSetRecord::parse(more).unwrap_err().contains("allow"));
    }
}
